"""GPU nodes come and go: pods that waited run on a node that joins, a node that is gone counts nowhere, and one of the same
name that joins later is another machine. test_storm_nodes.py has the same in the middle of a storm."""
import re
import subprocess

import pytest

from cluster import ROOT, is_ready
from gpupods import annotation, card_of, container, inventory, pod
from nodepool import books_are, check_everything, join, leave, occupied, shared_nodes, table_shows
from storm import book_of, processes_of

pytestmark = pytest.mark.long(50)

BASE, POOL = "base.192.168.41.1", "pool.192.168.41.2"
LABEL = "ack.node.gpu.schedule"
# Kubernetes' pod garbage collector looks each 20 s, and believes that a node is gone after 40 s (podgc, gc_controller.go).
COLLECTED_S = 90
# A name that no other test takes away: the collector would remember that, and delete the pods if it looked while the name has no machine.
TAKEN = "taken.192.168.41.3"


@pytest.fixture
def cluster(lab):
    """A node that is there all the time, with a small GPU. What joined goes before the next test."""
    made = lab([f"{BASE}=1x6144MiB,share"])
    yield made
    made.delete_pods(COLLECTED_S)
    for name in made.nodes().keys() - {BASE}:
        leave(made, name)


def names_waiting(cluster):
    return {p["metadata"]["name"] for p in cluster.pods() if not p["spec"].get("nodeName")
            and cluster.condition(p, "PodScheduled").get("reason") == "Unschedulable"}


def wait_for_room(cluster, *names):
    cluster.wait_for(lambda: names_waiting(cluster) == set(names), 30, f"{names} wait for room")


def deployment(name, replicas, units):
    labels = {"app": name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "terminationGracePeriodSeconds": 1, "containers": [container("main", units)]}}}}


def with_pool(cluster, cards="2x16160MiB", mode="cgpu", name=POOL):
    """The node has joined and can take pods."""
    join(cluster, f"{name}={cards},{mode}")
    cluster.wait_for(lambda: name in shared_nodes(cluster.nodes()), 60, "the agent has told the node's GPUs")


# -- a node joins

@pytest.mark.parametrize("labelled", ["later", "from the start"])
def test_pods_that_waited_run_on_a_node_that_joins(cluster, labelled):
    cluster.create(pod("first", 6))
    cluster.wait_running(names=["first"])
    for name, units in (("a", 9), ("b", 12), ("c", 6)):    # only a and c fit together on one GPU
        cluster.create(pod(name, units))
    wait_for_room(cluster, "a", "b", "c")
    assert check_everything(cluster) == {"first": BASE}

    if labelled == "later":    # step 3 of managing the component: the machine joins first, its label comes by kubectl
        join(cluster, f"{POOL}=2x16160MiB,none")
        assert not [key for key in cluster.node(POOL)["status"]["capacity"] if key.startswith("aliyun.com/")]
        assert names_waiting(cluster) == {"a", "b", "c"}
        assert check_everything(cluster) == {"first": BASE}
        cluster.kubectl("label", "node", POOL, f"{LABEL}=cgpu")
    else:
        join(cluster, f"{POOL}=2x16160MiB,cgpu")
    pods = {p["metadata"]["name"]: p for p in cluster.wait_running(names=["a", "b", "c"], timeout=90)}
    assert card_of(pods["a"]) == card_of(pods["c"]) != card_of(pods["b"])
    assert check_everything(cluster) == {"first": BASE, "a": POOL, "b": POOL, "c": POOL}
    assert table_shows(cluster, {BASE: "6/6", POOL: "27/30"})


def test_a_cluster_without_any_gpu_node_starts_from_zero_and_goes_back(lab):
    cluster = lab(["cpu.192.168.41.9=0,none"], fresh=True)
    cluster.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {"parallelism": 3, "template": {
        "metadata": {"labels": {"app": "train"}},
        "spec": {"restartPolicy": "Never", "containers": [container("main", 5)]}}}})
    cluster.wait_for(lambda: len(names_waiting(cluster)) == 3, 30, "the pods wait")
    assert check_everything(cluster) == {}
    join(cluster, f"{POOL}=1x16384MiB,cgpu")
    pods = cluster.wait_running("app=train", count=3, timeout=90)
    assert check_everything(cluster) == {p["metadata"]["name"]: POOL for p in pods}
    assert table_shows(cluster, {POOL: "15/16"})
    cluster.kubectl("delete", "job", "train", "--cascade=foreground", "--wait=true")
    leave(cluster, POOL, "--drain")
    assert check_everything(cluster) == {}
    cluster.create(pod("later", 5))
    wait_for_room(cluster, "later")
    join(cluster, f"{POOL}=1x8192MiB,share")
    cluster.wait_running(names=["later"], timeout=90)
    assert check_everything(cluster) == {"later": POOL}


# -- a node leaves

def test_a_node_that_is_gone_for_good_counts_nowhere_and_its_pods_are_made_anew(cluster):
    with_pool(cluster)
    cluster.kubectl("cordon", BASE)
    cluster.apply(deployment("served", 1, 5))
    cluster.create(pod("bare", 7))
    old = {p["metadata"]["name"] for p in cluster.wait_running(count=2)}
    assert set(check_everything(cluster).values()) == {POOL}
    cluster.kubectl("uncordon", BASE)

    base = {BASE: dict.fromkeys(inventory(cluster.node(BASE)), 0)}
    leave(cluster, POOL)
    # At once, while the API server still has its pods: as long as its garbage collector waits.
    cluster.wait_for(lambda: books_are(cluster, base), 5, "no ledger has the node")
    cluster.wait_for(lambda: table_shows(cluster, {BASE: "0/6"}), 5, "the table does not have it")
    assert {p["metadata"]["name"] for p in occupied(cluster)} == old
    # What comes meanwhile goes to the node that is left.
    cluster.create(pod("meanwhile", 1))
    cluster.wait_running(names=["meanwhile"])

    cluster.wait_for(lambda: not old & {p["metadata"]["name"] for p in cluster.pods()}, COLLECTED_S, "the old pods are gone")
    new = cluster.wait_running("app=served")[0]["metadata"]["name"]
    assert check_everything(cluster) == {new: BASE, "meanwhile": BASE}
    assert table_shows(cluster, {BASE: "6/6"})


@pytest.mark.long(20, group="nodes-replaced")
def test_pods_of_a_node_that_is_drained_and_removed_run_elsewhere_before_it_goes(cluster):
    with_pool(cluster)
    cluster.kubectl("cordon", BASE)
    cluster.apply(deployment("served", 1, 5))
    old = cluster.wait_running("app=served")[0]["metadata"]["name"]
    cluster.kubectl("uncordon", BASE)
    leave(cluster, POOL, "--drain")
    new = cluster.wait_running("app=served")[0]["metadata"]["name"]
    assert new != old and check_everything(cluster) == {new: BASE}


# -- a node of the same name

def check_as_a_new_machine(cluster, before, name=POOL):
    """It has one GPU of 8 units, whose UUID is returned, and nothing of the cards before."""
    node = cluster.node(name)
    (uuid, card), = inventory(node).items()
    assert card["mib"] == 8192 and uuid not in before
    cluster.wait_for(lambda: cluster.node(name)["status"]["allocatable"].get("aliyun.com/gpu-mem") == "8", 20, "the kubelet's status")
    assert not annotation(node, "ration.dev/cordoned"), "a cordoned GPU of the old machine"
    return uuid


@pytest.mark.long(35, group="nodes-replaced")
def test_a_node_of_the_same_name_with_other_gpus_is_another_machine(cluster):
    with_pool(cluster)
    before = inventory(cluster.node(POOL))
    cluster.create(pod("filler", 6, nodeSelector={"kubernetes.io/hostname": BASE}))
    cluster.create(pod("old", 15))
    cluster.create(pod("forced", 12))
    cluster.wait_running()
    cluster.kubectl("delete", "pod", "forced", "--force", "--grace-period=0")
    cluster.run("ration", "cordon", POOL, "1")
    leave(cluster, POOL)
    cluster.wait_for(lambda: "old" not in {p["metadata"]["name"] for p in cluster.pods()}, COLLECTED_S, "the old pod is gone")
    with_pool(cluster, "1x8192MiB", "share")
    check_as_a_new_machine(cluster, before)
    assert check_everything(cluster, 5) == {"filler": BASE}
    cluster.create(pod("new", 8))
    cluster.wait_running(names=["new"], timeout=20)
    assert check_everything(cluster) == {"filler": BASE, "new": POOL}
    assert table_shows(cluster, {BASE: "6/6", POOL: "8/8"})


@pytest.mark.long(40, group="nodes-replaced")
def test_a_machine_that_takes_the_name_of_another_at_once_gives_its_pods_no_gpu(cluster):
    """The old machine's pods are still bound to that name, and the new machine's kubelet is told to run them. Before the agent has
    registered, the kubelet knows no resource of that name, and starts them without a GPU; the agent cannot prevent it. Afterwards
    the kubelet refuses their containers, because it has allocated no devices to them."""
    with_pool(cluster, name=TAKEN)
    before = inventory(cluster.node(TAKEN))
    cluster.create(pod("filler", 6, nodeSelector={"kubernetes.io/hostname": BASE}))
    cluster.apply(deployment("served", 1, 5))
    cluster.create(pod("bare", 12))
    old = {p["metadata"]["uid"]: p["metadata"]["name"] for p in cluster.wait_running(count=3)}
    leave(cluster, TAKEN)
    with_pool(cluster, "1x8192MiB", "share", TAKEN)
    uuid = check_as_a_new_machine(cluster, before, TAKEN)

    def old_pods():
        return [p for p in occupied(cluster) if p["metadata"]["uid"] in old and p["spec"]["nodeName"] == TAKEN]

    def is_refused(p):
        waits = p["status"]["containerStatuses"][0]["state"].get("waiting", {})
        return "no devices found allocated in local cache" in waits.get("message", "")

    def started_or_over():
        late = [p["status"] for p in old_pods() if not is_refused(p) and not (
            is_ready(p) and p["status"]["containerStatuses"][0]["restartCount"])]
        assert not late, late
        return True
    cluster.wait_for(started_or_over, 60, "the new kubelet has dealt with the old pods")
    assert cluster.pod("bare")["status"]["phase"] == "Failed"
    for p in filter(is_ready, old_pods()):
        seen = cluster.exec_in(p, "sh", "-c", "env; ls /dev")
        assert "ALIYUN_COM_GPU" not in seen and "nvidia" not in seen.lower(), seen
    uids, found = {p["metadata"]["uid"] for p in old_pods()}, cluster.run("ration", "doctor", check=False).stdout
    for name in (old[uid] for uid in uids):
        assert f"placements: pod {cluster.namespace}/{name}: it is placed on GPU" in found, found
        cluster.wait_for(lambda: "GPUNotOnNode" in [e["reason"] for e in cluster.events(name)], 20, f"an Event of {name}")
    for pid in processes_of(cluster, "ration-scheduler"):
        book = next(n for n in book_of(pid)["nodes"] if n["name"] == TAKEN)
        assert [(d["uuid"], d["usedGPU"]) for d in book["devs"]] == [(uuid, 0)], book
        assert {p["uid"] for p in book["unplaced"]} == uids, book
    cluster.kubectl("delete", "pods", "-l", "app=served")
    new = cluster.wait_running("app=served", timeout=90)[0]["metadata"]["name"]
    assert new not in old.values() and check_everything(cluster, 60) == {"filler": BASE, new: TAKEN}


# -- an autoscaler asks

@pytest.mark.long(5, group="nodes-replaced")
def test_the_autoscaler_page_asks_ration_as_it_says_and_gets_the_answer_that_it_names(cluster):
    """Both replicas can be asked; the ledger's owner is one of them."""
    page = (ROOT / "docs/guide/autoscaler.md").read_text()
    forward, ask = re.search(r"```\n(kubectl [^\n]* port-forward [^\n]*) &\n(curl .*?)\n```", page, re.S).groups()
    answer = re.search(r"The answer has `(.*?)`", page)[1]
    pods = cluster.kubectl("-n", "kube-system", "get", "pods", "-l", "app=ack-co-scheduler", "-o", "name").split()
    assert len(pods) == 2
    for target in ("deployment/ack-co-scheduler", *pods):
        command = forward.replace("deployment/ack-co-scheduler", target)
        assert target in command
        with subprocess.Popen(["bash", "-c", f"exec {command}"], env=cluster.environment, stdout=subprocess.PIPE, text=True) as forwarding:
            try:
                assert "Forwarding from" in forwarding.stdout.readline()
                assert answer in cluster.run("bash", "-c", ask).stdout
            finally:
                forwarding.kill()
