"""Several pods on one card; binpack and spread; pods of many containers."""
import re
from collections import Counter

import pytest

import agentpods
import gpupods
from gpupods import card_of, check_what_it_sees, container, inventory, pod
from sharingnodes import BINPACK, NODES, SPREAD, run_one_by_one

pytestmark = pytest.mark.half(1)


def indices(cluster, pods):
    cards = {name: inventory(node) for name, node in cluster.nodes().items()}
    return [cards[p["spec"]["nodeName"]][card_of(p)]["index"] for p in pods]


def test_binpack_fills_one_card_before_the_next(lab):
    cluster = lab(NODES)
    sizes = [4, 4, 7, 3, 6]  # 15 of 15, then 9 of 15: the documents' picture
    pods = run_one_by_one(cluster, [pod(f"p{i}", n, nodeSelector=BINPACK) for i, n in enumerate(sizes)])
    used = Counter()
    for index, p in zip(indices(cluster, pods), pods):
        used[index] += gpupods.units_of(p)
    assert used == {0: 15, 1: 9}
    row = [line for line in cluster.kubectl("inspect", "cgpu").splitlines() if line.startswith("binpack")][0]
    assert row.split()[2:] == ["15/15", "9/15", "0/15", "0/15", "24/60"]


def test_spread_uses_different_cards(lab):
    cluster = lab(NODES)
    pods = run_one_by_one(cluster, [pod(f"p{i}", 4, nodeSelector=SPREAD) for i in range(3)])
    assert len(set(indices(cluster, pods))) == 3
    row = [line for line in cluster.kubectl("inspect", "cgpu").splitlines() if line.startswith("spread")][0]
    assert sorted(row.split()[2:6]) == ["0/15", "4/15", "4/15", "4/15"]


def test_spread_keeps_replicas_of_one_workload_apart(lab):
    cluster = lab(NODES)
    # Cards 0 and 1 are the fuller ones, yet they are the ones without a replica.
    run_one_by_one(cluster, [pod(f"other{i}", 6, nodeSelector=SPREAD) for i in range(2)])
    template = pod("x", 1, nodeSelector=SPREAD)
    cluster.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"}, "spec": {
        "replicas": 4, "selector": {"matchLabels": {"app": "rs"}},
        "template": {"metadata": {"labels": {"app": "rs"}}, "spec": {**template["spec"], "restartPolicy": "Always"}}}})
    pods = cluster.wait_running("app=rs", count=4)
    assert sorted(indices(cluster, pods)) == [0, 1, 2, 3]


def test_several_pods_share_one_card_and_see_it_whole(lab):
    cluster = lab(NODES)
    pods = run_one_by_one(cluster, [pod(f"p{i}", 3, nodeSelector=BINPACK) for i in range(5)])
    assert len({card_of(p) for p in pods}) == 1
    for p in pods:
        check_what_it_sees(cluster, p, cluster.nodes())
        assert "/ 15360MiB" in cluster.exec_in(p, "nvidia-smi")


def test_two_gpu_containers_get_the_same_card_and_their_own_share(lab):
    cluster = lab(NODES)
    cluster.create(pod("two", 2, 3))
    p = cluster.wait_running()[0]
    check_what_it_sees(cluster, p, cluster.nodes())
    assert gpupods.annotation(p, "ALIYUN_COM_GPU_MEM_POD") == "5"


def test_containers_without_a_gpu_see_none(lab):
    cluster = lab(NODES)
    cluster.create(pod("mixed", containers=[container("gpu", 2), container("plain", command=(
        "ls /dev | grep -c nvidia; env | grep -c ALIYUN; echo done; sleep 100000"))]))
    p = cluster.wait_running()[0]
    check_what_it_sees(cluster, p, cluster.nodes(), {"gpu"})
    assert cluster.log_of(p, "plain").split()[:2] == ["0", "0"]


@pytest.mark.long(14)
def test_init_containers_use_the_same_card_and_count_by_the_larger_step(lab):
    cluster = lab(NODES)
    init = [container("i1", 5, command=gpupods.SHOW.split("sleep")[0] + "true"),
            container("i2", 2, command="nvidia-smi -L")]
    cluster.create(pod("init", 3, init=init))
    p = cluster.wait_running()[0]
    assert gpupods.units_of(p) == 5
    check_what_it_sees(cluster, p, cluster.nodes())
    card = card_of(p)
    log = cluster.log_of(p, "i1")
    assert f"ALIYUN_COM_GPU_VISIBLE_DEVICES={card}" in log and "ALIYUN_COM_GPU_MEM_CONTAINER=5" in log
    assert card in cluster.log_of(p, "i2")
    state = cluster.inspect_json()
    assert sum(card["allocated"] for node in state["nodes"] for card in node["gpus"]) == 5


@pytest.mark.long(14)
def test_a_sidecar_counts_together_with_the_main_containers(lab):
    cluster = lab(NODES)
    sidecar = container("side", 2, restartPolicy="Always")
    cluster.create(pod("sidecar", 3, init=[sidecar, container("i1", 1, command="nvidia-smi -L")]))
    p = cluster.wait_running()[0]
    assert gpupods.units_of(p) == 5
    check_what_it_sees(cluster, p, cluster.nodes())
    assert f"ALIYUN_COM_GPU_VISIBLE_DEVICES={card_of(p)}" in cluster.log_of(p, "side")


@pytest.mark.long(14)
def test_a_container_that_crashes_starts_again_on_its_card(lab):
    cluster = lab(NODES)
    body = pod("crash", 2)
    body["spec"]["restartPolicy"] = "Always"
    body["spec"]["containers"][0]["command"] = ["bash", "-c", "nvidia-smi -L; env | grep ALIYUN; sleep 1; exit 1"]
    cluster.create(body)
    cluster.wait_for(lambda: sum(s.get("restartCount", 0) for s in cluster.pod("crash")["status"].get(
        "containerStatuses", [])) >= 2, 90, "two restarts")
    p = cluster.pod("crash")
    assert card_of(p) in cluster.log_of(p)
    assert gpupods.annotation(p, "ALIYUN_COM_GPU_MEM_ASSIGNED") == "true"


def answers_checked(cluster, node):
    """What the kubelet's checkpoint said at each PreStartContainer, by the agent's metrics."""
    pid = agentpods.supervisor_pid(cluster, node)
    page = cluster.enter(node, "nsenter", "-t", str(pid), "-n", "/usr/bin/python3", "-c",
                         "import urllib.request as u; print(u.urlopen('http://127.0.0.1:39996/metrics').read().decode())")
    return {result: int(n) for result, n in re.findall(r'^ration_answers_checked_total{result="(\w+)"} (\d+)', page, re.M)}


def test_the_kubelets_checkpoint_has_each_container_with_its_own_answer_before_it_starts(lab):
    """Decision 059: pods that come at once, and ids that an init container, a sidecar and containers of a pod have one after the other."""
    cluster = lab(NODES)
    node = BINPACK["kubernetes.io/hostname"]
    before = answers_checked(cluster, node)
    for i in range(3):
        cluster.create(pod(f"p{i}", 2, 1, nodeSelector=BINPACK, init=[
            container("side", 2, restartPolicy="Always"), container("i1", 3, command="nvidia-smi -L")]))
    pods = cluster.wait_running()
    for p in pods:
        check_what_it_sees(cluster, p, cluster.nodes())
    after = answers_checked(cluster, node)
    assert {result: n - before[result] for result, n in after.items()} == {"own": 12, "corrected": 0, "refused": 0, "unknown": 0}
