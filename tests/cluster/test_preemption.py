"""Preemption on the level of cards, with the real kube-scheduler, kubelet and disruption controller."""
import time

import pytest

from gpupods import annotation, card_of, container, inventory, pod, units_of, used_per_card

NODES = ["preempt-a.192.168.24.1=4x15360MiB,share"]
NODE = "preempt-a.192.168.24.1"
CLASSES = {"gpu-high": (1000, "PreemptLowerPriority"), "gpu-never": (1000, "Never")}


@pytest.fixture
def cluster(lab):
    cluster = lab(NODES)
    for name, (value, policy) in CLASSES.items():
        cluster.kubectl("apply", "-f", "-", stdin="apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n"
                        f"metadata: {{name: {name}}}\nvalue: {value}\npreemptionPolicy: {policy}\n")
    return cluster


# Does not end when it is told to, but when its grace is over.
STUBBORN = "trap '' TERM; while :; do sleep 1; done"


def start(cluster, name, units, grace=0, **more):
    containers = [container("c0", units, STUBBORN)] if grace else [container("c0", units)]
    cluster.create(pod(name, containers=containers, terminationGracePeriodSeconds=grace, **more))


def fill(cluster, units, count=4, **more):
    """One pod on each card: no two of them fit on one."""
    for i in range(count):
        start(cluster, f"low{i}", units, **more)
    pods = cluster.wait_running(names=[f"low{i}" for i in range(count)])
    assert sorted(used_per_card(pods).values()) == [units] * count
    return {p["metadata"]["name"]: p for p in pods}


def message(cluster, name):
    return cluster.condition(cluster.pod(name), "PodScheduled").get("message", "")


def wait_rejected(cluster, name, text):
    cluster.wait_for(lambda: (cluster.condition(cluster.pod(name), "PodScheduled") or {}).get("message"), 20, "a verdict")
    assert text in message(cluster, name)


def names(cluster):
    return {p["metadata"]["name"] for p in cluster.pods() if "deletionTimestamp" not in p["metadata"]}


@pytest.mark.long(20)    # as tests/component/test_preempt.py, and the simulation
def test_in_tree_preemption_frees_a_card_and_a_small_pod_does_not_steal_it(cluster):
    low = fill(cluster, 15, grace=8)
    start(cluster, "high", 15, priorityClassName="gpu-high")
    cluster.wait_for(lambda: len(names(cluster)) == 4, 20, "one victim")
    victim, = set(low) - names(cluster)
    for i in range(3):
        start(cluster, f"small{i}", 2)
    high = cluster.wait_running(names=["high"], timeout=40)[0]
    assert card_of(high) == card_of(low[victim])
    assert names(cluster) == set(low) - {victim} | {"high", "small0", "small1", "small2"}
    assert all(not cluster.pod(f"small{i}")["spec"].get("nodeName") for i in range(3))


@pytest.mark.long(40)    # as tests/component/test_preempt.py, and the simulation
def test_one_card_of_a_fragmented_node_is_freed(cluster):
    low = fill(cluster, 8, grace=120)
    start(cluster, "high", 10, priorityClassName="gpu-high")
    cluster.wait_for(lambda: len(names(cluster)) == 4, 20, "one victim")
    victim, = set(low) - names(cluster)
    # While the victim ends, the words of the pod's condition are ours, and it stays nominated.
    cluster.wait_for(lambda: cluster.pod("high")["status"].get("nominatedNodeName") == NODE, 10, "the nomination")
    for i in range(8):
        text = message(cluster, "high")
        assert "no GPU has 10 units free" in text and "at least one victim" not in text, text
        start(cluster, f"noise{i}", 1, schedulerName="nobody")
        time.sleep(0.3)
    cluster.kill_container(low[victim], "c0")
    high = cluster.wait_running(names=["high"], timeout=40)[0]
    assert card_of(high) == card_of(low[victim])
    assert set(low) - {victim} <= names(cluster)
    events = [e["message"] for e in cluster.events(high) if e["reason"] == "Preempting"]
    index = inventory(cluster.node(NODE))[card_of(high)]["index"]
    assert len(events) == 1 and f"GPU {index} " in events[0] and NODE in events[0] and victim in events[0]
    assert units_of(high) == 10 and annotation(high, "ALIYUN_COM_GPU_MEM_IDX") == str(index)


@pytest.mark.long(20)    # as tests/component/test_preempt.py, and the simulation
def test_a_disruption_budget_forbids_it_and_says_so(cluster):
    cluster.kubectl("create", "-f", "-", stdin="apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: keep}\n"
                    "spec: {minAvailable: 4, selector: {matchLabels: {app: low}}}\n")
    for i in range(4):
        body = pod(f"low{i}", 8, labels={"app": "low"})
        cluster.create(body)
    cluster.wait_running(names=[f"low{i}" for i in range(4)])
    try:
        start(cluster, "high", 10, priorityClassName="gpu-high")
        wait_rejected(cluster, "high", "no GPU has 10 units free")
        cluster.wait_for(lambda: [e for e in cluster.events(cluster.pod("high")) if e["reason"] == "PreemptionBlocked"],
                         20, "the reason")
        time.sleep(3)
        assert names(cluster) == {"low0", "low1", "low2", "low3", "high"}
        event, = [e for e in cluster.events(cluster.pod("high")) if e["reason"] == "PreemptionBlocked"]
        assert "PodDisruptionBudgets protect" in event["message"]
    finally:
        cluster.kubectl("delete", "pdb", "keep")


@pytest.mark.long(40)    # as tests/component/test_preempt.py, and the simulation
def test_a_pod_that_never_preempts_evicts_nobody(cluster):
    low = fill(cluster, 8)
    start(cluster, "high", 10, priorityClassName="gpu-never")
    wait_rejected(cluster, "high", "no GPU has 10 units free")
    time.sleep(3)
    assert names(cluster) == set(low) | {"high"}
    assert cluster.events(cluster.pod("high"))
