"""Containers that outlive their pod objects (orphans), on a node that is cut off or whose kubelet stands still: no GPU is
ever given away under them. What runs is asked of the kernel: each process has what it was granted in its environment."""
import contextlib

import pytest

from cluster import condition_of, is_ready
from gpupods import annotation, card_of
from orphans import CARD_UNITS, DEAF, NODES, Totals, create

pytestmark = pytest.mark.long(35)


@contextlib.contextmanager
def cut_off(cluster, node):
    """Nothing passes between the node and the rest; its processes, and the way into it, stay."""
    rules = [("INPUT", "-i"), ("OUTPUT", "-o"), ("FORWARD", "-i"), ("FORWARD", "-o")]
    for chain, direction in rules:
        cluster.enter(node, "iptables", "-I", chain, direction, "eth0", "-j", "DROP")
    try:
        yield
    finally:
        for chain, direction in rules:
            cluster.enter(node, "iptables", "-D", chain, direction, "eth0", "-j", "DROP")


@contextlib.contextmanager
def stopped(cluster, node, pid):
    """A process of the node stands still."""
    cluster.enter(node, "kill", "-STOP", pid)
    try:
        yield
    finally:
        cluster.enter(node, "kill", "-CONT", pid)


def parent_of(cluster, node, pid):
    status = cluster.enter(node, "cat", f"/proc/{pid}/status")
    return next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:"))


def lives(cluster, node, pid):
    return pid in cluster.enter(node, "ls", "/proc").split()


def scheduler_pod(cluster):
    return cluster.pods("app=ack-co-scheduler", namespace="kube-system")[0]


@pytest.fixture(name="silent")
def silent_fixture(lab):
    """(cluster, the node on which the scheduler does not run)"""
    cluster = lab(NODES)
    other = scheduler_pod(cluster)["spec"]["nodeName"]
    return cluster, next(name for name in cluster.nodes() if name != other)


def start_old(cluster, node, command="sleep 100000"):
    """A pod that fills nearly all of the GPU, and the first process of its container."""
    create(cluster, node, "old", CARD_UNITS - 1, command, 3)
    old = cluster.wait_running(names=["old"])[0]
    identity = old["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    rows = [line.split() for line in cluster.ctr(node, "tasks", "ls").splitlines()]
    return old, next(row[1] for row in rows if row[0] == identity)


def forget(cluster, name):
    cluster.kubectl("delete", "pod", name, "--force", "--grace-period=0")


def restart_ration_scheduler(cluster):
    def restarts():
        statuses = {s["name"]: s for s in scheduler_pod(cluster)["status"]["containerStatuses"]}
        return statuses["ration-scheduler"]["restartCount"]
    before = restarts()
    cluster.kill_container(scheduler_pod(cluster), "ration-scheduler")
    cluster.wait_for(lambda: restarts() > before and is_ready(scheduler_pod(cluster)), 60, "ration-scheduler runs again")


def test_agent_counts_what_runs_whether_or_not_the_api_server_knows_its_pod(silent):
    """A node is cut off, one of its pods is deleted by force, and the scheduler that remembers it is gone: the next pod is
    bound to the same GPU. Nobody can end the old container, whose shim stands still: the new one waits."""
    cluster, node = silent
    old, pid = start_old(cluster, node)
    with Totals(cluster, node) as totals:
        with stopped(cluster, node, parent_of(cluster, node, pid)):
            with cut_off(cluster, node):
                forget(cluster, "old")
                restart_ration_scheduler(cluster)
                create(cluster, node, "next", CARD_UNITS - 1)
                cluster.wait_for(lambda: cluster.pod("next")["spec"].get("nodeName"), 35, "a pod bound by who cannot know")

            def told():
                return [e for e in cluster.events("next") if "waits for GPU" in e["message"] and "/old " in e["message"]]
            cluster.wait_for(lambda: totals.failure or totals.over() or told(), 90, "an Event that says what the pod waits for")
            assert not totals.over()
            assert lives(cluster, node, pid) and not is_ready(cluster.pod("next"))
        # The kubelet repeats what its runtime could not do, later and later: nothing of this test.
        cluster.enter(node, "sh", "-c", f"kill -9 {pid} 2>/dev/null || true")
        cluster.wait_for(lambda: not lives(cluster, node, pid), 30, "the old container has ended")
        cluster.wait_running(names=["next"], timeout=120)
    totals.check(card_of(old), CARD_UNITS - 1)
    assert card_of(cluster.pod("next")) == card_of(old)


def test_pods_that_come_while_the_kubelet_stands_still_get_nothing_of_what_runs(silent):
    """The kubelet ends no container meanwhile, and a person removes what the node says of them."""
    cluster, node = silent
    old, pid = start_old(cluster, node, DEAF)

    def held():
        return old["metadata"]["uid"] in (annotation(cluster.node(node), "ration.dev/held") or "")
    with Totals(cluster, node) as totals:
        with stopped(cluster, node, cluster.enter(node, "pidof", "kubelet").strip()):
            forget(cluster, "old")
            cluster.wait_for(held, 30, "the agent's word about the container")
            create(cluster, node, "small", 1)
            create(cluster, node, "large", 2)
            cluster.wait_for(lambda: cluster.pod("small")["spec"].get("nodeName"), 30, "a pod for which there is room")
            cluster.kubectl("annotate", "node", node, "ration.dev/held-")
            cluster.wait_for(held, 30, "the agent's word again")
            cluster.wait_for(lambda: condition_of(cluster.pod("large"), "PodScheduled").get("reason") == "Unschedulable", 30,
                             "a pod for which there is no room is told")
            assert lives(cluster, node, pid) and "nodeName" not in cluster.pod("large")["spec"]
        cluster.wait_running(names=["small", "large"], timeout=90)
        assert not lives(cluster, node, pid)
    totals.check(card_of(old), CARD_UNITS - 1)
