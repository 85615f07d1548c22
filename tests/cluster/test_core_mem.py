"""seeds/4 followed: a node with computing power, its manifest field for field, and what goes wrong around it."""
import datetime
import json
import os
import re
import time

import pytest

import cgpupods
import gpurequests
from agentpods import agent
from api import out_of_force
from cluster import EXAMPLES, ROOT
from corepods import CORE, sample, share_of, utilization
from gpupods import GPU_MEM, annotation, card_of, check_what_it_sees, container, fingerprint, pod

NODE = "core.192.168.40.1"
NODES = [f"{NODE}=4x16160MiB,core_mem"]


def with_core(name, units, core, **more):
    made = container("c0", units, **more)
    made["resources"]["limits"][CORE] = core
    return pod(name, containers=[made])


def rounds(cluster, name, after=None):
    """Seconds at which the sample's log told of a round, by the container runtime's clock."""
    lines = cluster.kubectl("logs", name, "--timestamps").splitlines()
    times = [line.split(" ", 1)[0] for line in lines if "succeed to copy data from host to gpu" in line]
    seconds = [datetime.datetime.fromisoformat(t[:26] + "+00:00").timestamp() for t in times]
    return [s for s in seconds if after is None or s > after]


def rates(cluster, names, seconds):
    """Rounds a second of each pod, over the same seconds from now on."""
    begin = time.time()
    time.sleep(seconds + 1)
    result = []
    for name in names:
        seen = [s for s in rounds(cluster, name, begin) if s <= begin + seconds + 1]
        assert len(seen) > 2, f"{len(seen)} rounds of {name} in {seconds} s"
        result.append((len(seen) - 1) / (seen[-1] - seen[0]))
    return result


def message_of(cluster, name):
    return cluster.condition(cluster.pod(name), "PodScheduled").get("message", "")


def test_node_has_what_the_document_says(lab):
    cluster = lab(NODES)
    expected = {CORE: "400", "aliyun.com/gpu-count": "4", GPU_MEM: "60"}
    status = cluster.wait_for(lambda: (s := cluster.node(NODE)["status"])["allocatable"].get(CORE) == "400" and s, 20,
                              "the node's resources")
    for part in ("allocatable", "capacity"):
        assert {key: value for key, value in status[part].items() if key.startswith("aliyun.com/")} == expected


def test_job_of_the_document_unchanged(lab):
    """16160 MiB x 2/15 = 2154 MiB and 30 percent of one card."""
    cluster = lab(NODES)
    cluster.apply(EXAMPLES / "job-core-mem.yaml")
    p = cluster.wait_running("app=cuda-sample")[0]
    assert p["spec"]["schedulerName"] == "ack-co-scheduler"
    assert json.loads(annotation(p, "gpushare.alibabacloud.com/core-percentage")) == {"0": {"0": 30}}
    table = cluster.exec_in(p, "nvidia-smi")
    assert re.search(r"MiB /  2154MiB \|", table), table
    cluster.wait_for(lambda: share_of(p, cluster) == 300000, 5, "its share in the grant")
    name = p["metadata"]["name"]
    cluster.wait_for(lambda: len(rounds(cluster, name)) > 3, 30, "its log")
    log = cluster.log_of(p)
    assert log.startswith("[CUDA Bandwidth Test] - Starting...\nRunning on...\n\n Device 0: Tesla V100"), log
    assert re.search(r"^time: \d{4}-\d\d-\d\d/\d\d:\d\d:\d\d,count: 2,memSize: 32000000,succeed to copy data from host to gpu$",
                     log, re.M)
    seen = [utilization(cluster, name) for _ in range(10) if time.sleep(0.5) is None]
    print(f"\nGPU-Util {seen}")
    # No more than 30 percent, rounded. Less where other labs have the processors when the sample wants one: 28.8 and 29.0 were seen.
    assert max(seen) <= 31 and 28 <= sum(seen) / len(seen) <= 30.5, seen
    cluster.kubectl("delete", "job", "cuda-sample", "--wait=true")


@pytest.mark.alone
@pytest.mark.long(41, group="core-mem-log")
def test_log_of_a_pod_of_30_percent_is_slower_by_its_share(lab):
    """Against one that nobody holds back, on another card in the same seconds. What the machine does besides can cost one
    of them time, so a measurement may be repeated."""
    cluster = lab(NODES)
    cluster.create(sample("third", 2, 30))
    cluster.create(sample("whole", 2, 100))
    pods = {p["metadata"]["name"]: p for p in cluster.wait_running(count=2)}
    assert card_of(pods["third"]) != card_of(pods["whole"])
    for name in pods:
        cluster.wait_for(lambda name=name: len(rounds(cluster, name)) > 5, 30, "its log")
    ratios = []
    while len(ratios) < 3 and not (ratios and abs(ratios[-1] - 0.30) <= 0.02):
        of_third, of_whole = rates(cluster, ["third", "whole"], 20)
        ratios.append(of_third / of_whole)
        print(f"\n30 %: {of_third:.3f} rounds a second, unlimited: {of_whole:.3f}, ratio {ratios[-1]:.4f}")
    assert abs(ratios[-1] - 0.30) <= 0.02, ratios


@pytest.mark.alone
@pytest.mark.long(75, group="core-mem-busy")    # a minute; docs/measurements/core-mem.md
def test_three_samples_of_30_percent_make_their_card_90_percent_busy(lab):
    cluster = lab(NODES)
    for i in range(3):
        cluster.create(sample(f"p{i}", 2, 30))
    pods = cluster.wait_running(count=3)
    assert len({card_of(p) for p in pods}) == 1
    for i in range(3):
        cluster.wait_for(lambda i=i: len(rounds(cluster, f"p{i}")) > 5, 60, "its log")
    measured = rates(cluster, [f"p{i}" for i in range(3)], 15)
    seen = [utilization(cluster, "p0") for _ in range(10) if time.sleep(0.5) is None]
    print(f"\nGPU-Util {seen}, rounds a second {[round(r, 3) for r in measured]}")
    least = 88 if os.environ.get("RATION_FULL") else 85     # the short form runs beside other labs
    assert least <= sum(seen) / len(seen) <= 92, seen
    assert max(measured) - min(measured) <= 0.04 * max(measured), measured


@pytest.mark.long(21)    # as tests/component/test_core.py
def test_three_pods_of_30_percent_share_a_card_and_the_fourth_has_another(lab):
    cluster = lab(NODES)
    for i in range(4):
        cluster.create(with_core(f"p{i}", 2, 30))
        cluster.wait_running(names=[f"p{i}"])
    pods = [cluster.pod(f"p{i}") for i in range(4)]
    cards = [card_of(p) for p in pods]
    assert cards[0] == cards[1] == cards[2] != cards[3]
    for p in pods:
        check_what_it_sees(cluster, p, cluster.nodes())
        assert cgpupods.check_isolation(cluster, p) == 1
        cluster.wait_for(lambda p=p: share_of(p, cluster) == 300000, 5, "its share in the grant")


def set_policy(cluster, policy):
    """helm upgrade, and the seconds since the API server had it."""
    cluster.run("helm", "upgrade", "ack-ai-installer", ROOT / "deploy/charts/ack-ai-installer", "-n", "kube-system",
                "--reuse-values", "--set", f"policy={policy}")
    return time.monotonic()


@pytest.mark.alone
@pytest.mark.long(30, group="core-mem-policy")
def test_policy_changes_by_helm_upgrade_under_running_pods(lab):
    """5 acts as 3 for who has a percentage; under 4 it is guaranteed, and what is idle is shared: alone, the whole card."""
    cluster = lab(NODES)
    agents = fingerprint(agent(cluster))
    cluster.create(sample("third", 2, 30))
    p = cluster.wait_running(names=["third"])[0]
    cluster.wait_for(lambda: share_of(p, cluster) == 300000, 5, "its share of policy 5")
    cluster.wait_for(lambda: len(rounds(cluster, "third")) > 3, 30, "its log")
    try:
        for policy, share in ((4, 1000000), (3, 300000), (4, 1000000), (5, 300000)):
            upgraded = set_policy(cluster, policy)
            cluster.wait_for(lambda share=share: share_of(p, cluster) == share, 5, f"its share of policy {policy}")
            took = time.monotonic() - upgraded
            assert took < 1, f"policy {policy} in force {took:.1f} s after helm said so"
            seen, = rates(cluster, ["third"], 4)
            print(f"\npolicy {policy}: in the grant {took:.2f} s after helm, {seen:.2f} rounds a second")
            assert (seen > 2.5) if share == 1000000 else (seen < 1.2), f"policy {policy}: {seen} rounds a second"
    finally:
        set_policy(cluster, 5)
    assert fingerprint(cluster.pod("third")) == fingerprint(p) and fingerprint(agent(cluster)) == agents


@pytest.mark.long(17)    # as tests/component/test_core.py
def test_pods_with_and_without_a_percentage_wait_for_each_other(lab):
    cluster = lab(NODES)
    cluster.create(with_core("with", 2, 30))
    cluster.wait_running(names=["with"])
    cluster.create(pod("without", 2))
    cluster.wait_for(lambda: "GPU node has pods with gpu-core.percentage" in message_of(cluster, "without"), 20, "its reason")
    cluster.kubectl("delete", "pod", "with", "--wait=true")
    begin = time.monotonic()
    cluster.wait_running(names=["without"])
    assert time.monotonic() - begin < 15
    cluster.create(with_core("later", 2, 30))
    cluster.wait_for(lambda: "GPU node has pods without gpu-core.percentage" in message_of(cluster, "later"), 20,
                     "its reason")


@pytest.mark.long(17)    # as tests/component/test_core.py
def test_what_finds_no_power_on_a_card_waits_with_the_reason(lab):
    cluster = lab(NODES)
    for i in range(4):
        cluster.create(with_core(f"p{i}", 2, 60))
    cluster.wait_running(count=4)
    cluster.create(with_core("late", 2, 45))
    cluster.wait_for(lambda: "no GPU has 45 percent of computing power free" in message_of(cluster, "late"), 20, "its reason")
    said = cluster.run("ration", "why", "late").stdout
    assert "not enough computing power free: 13 of 15 units and 40 percent free" in said, said
    cluster.kubectl("delete", "pod", "p2", "--wait=true")
    cluster.wait_running(names=["late"])


@pytest.mark.long(17)    # as tests/component/test_core.py
def test_scheduler_has_the_same_words_for_what_no_policy_saw(lab):
    """Where none is served, or while they are off. Here, because on nodes without a percentage kube-scheduler asks nobody."""
    cluster = lab(NODES)
    wrong = {name: gpurequests.wrong_requests()[name] for name in (
        "v0", "v3", "v6", "alone", "init", "indivisible", "together", "l2", "counts", "counts-init")}
    with out_of_force(cluster, {"ration-gpu-requests": gpurequests.with_core("probe", 7)}):
        for made, _ in wrong.values():
            cluster.create(made)
        for name, (_, words) in wrong.items():
            cluster.wait_for(lambda name=name, words=words: words in cluster.condition(
                cluster.pod(name), "PodScheduled").get("message", ""), 30, f"{name}: {words}")


def kill_worker(cluster):
    first = supervisor_pid(cluster)
    cluster.enter(NODE, "kill", "-9", cluster.enter(NODE, "cat", f"/proc/{first}/task/{first}/children").split()[0])


def kill_agent(cluster):
    """The kubelet fails pods with GPUs that arrive while it is away: they come when it is back."""
    restarts = agent(cluster)["status"]["containerStatuses"][0]["restartCount"]
    cluster.enter(NODE, "kill", "-9", str(supervisor_pid(cluster)))
    cluster.wait_for(lambda: (s := agent(cluster)["status"]["containerStatuses"][0])["restartCount"] > restarts and s["ready"],
                     60, "the agent again")
    time.sleep(2)


def kill_kubelet(cluster):
    cluster.lab("restart", "--kill", f"kubelet@{NODE}")


def supervisor_pid(cluster):
    identity = agent(cluster)["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    rows = map(str.split, cluster.ctr(NODE, "tasks", "ls").splitlines())
    return int(next(row[1] for row in rows if row[0] == identity))


@pytest.mark.parametrize("kill", [kill_worker, kill_agent, kill_kubelet], ids=lambda f: f.__name__)
@pytest.mark.long(40)
def test_kills_disturb_nobody_and_pods_that_arrive_are_served(lab, kill):
    cluster = lab(NODES)
    cluster.create(with_core("old", 2, 30))
    before = cluster.wait_running(names=["old"])[0]
    kill(cluster)
    names = [f"new{i}" for i in range(6)]
    for name in names:
        cluster.create(with_core(name, 2, 40))
    used = {}
    for p in [*cluster.wait_running(names=names), cluster.pod("old")]:
        percent = int(p["spec"]["containers"][0]["resources"]["limits"][CORE])
        used[card_of(p)] = used.get(card_of(p), 0) + percent
        check_what_it_sees(cluster, p, cluster.nodes())
        cluster.wait_for(lambda p=p, percent=percent: share_of(p, cluster) == percent * 10000, 5, "its share")
    assert max(used.values()) <= 100
    assert fingerprint(cluster.pod("old")) == fingerprint(before)
    assert cluster.node(NODE)["status"]["allocatable"][CORE] == "400"


@pytest.mark.long(40)
def test_label_of_another_mode_takes_the_resource_away_when_the_last_pod_has_ended(lab):
    cluster = lab(NODES)
    cluster.create(with_core("p", 2, 30))
    cluster.wait_running(names=["p"])
    cluster.kubectl("label", "node", NODE, "ack.node.gpu.schedule=cgpu", "--overwrite")
    try:
        cluster.wait_for(lambda: annotation(cluster.node(NODE), "ration.dev/mode-pending") == "cgpu", 20, "that it waits")
        assert cluster.node(NODE)["status"]["allocatable"][CORE] == "400"
        cluster.kubectl("delete", "pod", "p", "--wait=true")
        cluster.wait_for(lambda: cluster.node(NODE)["status"]["allocatable"].get(CORE) == "0", 30, "no computing power")
        assert cluster.node(NODE)["status"]["allocatable"][GPU_MEM] == "60"
    finally:
        cluster.kubectl("label", "node", NODE, "ack.node.gpu.schedule=core_mem", "--overwrite")
    cluster.wait_for(lambda: cluster.node(NODE)["status"]["allocatable"].get(CORE) == "400", 30, "its computing power")
