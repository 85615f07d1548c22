"""The life of a release under running pods: both charts upgraded from the version before and rolled back, each alone and
together; removed, and installed again. No pod is restarted, and at each moment every ledger that answers has exactly what
the pods have. (An upgrade while pods come and go: test_storm_upgrade.py.)"""
import os
import threading

import pytest

from cgpupods import check_isolation, node_root
from cluster import wait_for
from gpupods import annotation, card_of, container, fingerprint, pod, units_of, used_per_card
from releases import AGENT, for_both, install, install_both, steps, version_before, versions
from storm import book_of, processes_of

pytestmark = [pytest.mark.storm, pytest.mark.long(150)]

FULL = os.environ.get("RATION_FULL")
SHARE, ISOLATED = "shares.192.168.31.1", "holds.192.168.31.2"
LAYOUT = [f"{SHARE}=4x16160MiB,share", f"{ISOLATED}=4x16160MiB,cgpu"]
EACH = 50 if FULL else 10    # pods per node
STAY = "trap 'exit 0' TERM; sleep 100000 & wait"
OURS = ("ration", "ack-co-scheduler", "gpushare")


class Accounts(threading.Thread):
    """Looks at the ledgers all the time: every one has these pods where they are, on each node whose cards it knows (none
    while no agent has said which the node has)."""

    def __init__(self, cluster, pods):
        super().__init__(daemon=True)
        self.cluster, self.pods, self.wrong, self.looks, self.done = cluster, {}, [], 0, threading.Event()
        for p in pods:
            self.pods[p["metadata"]["uid"]] = p["spec"]["nodeName"], [(card_of(p), units_of(p), "bound")]
        self.start()

    def look(self, book):
        self.looks += 1
        found, nodes = {}, {node["name"] for node in book["nodes"]}
        for card in (card for node in book["nodes"] for card in node["devs"]):
            for p in card["pods"]:
                found.setdefault(p["uid"], []).append((card["uuid"], p["usedGPU"], p["state"]))
        differs = {uid: found.get(uid) for uid, (node, where) in self.pods.items() if node in nodes and found.get(uid) != where}
        if differs or book["wrongSums"] or book["overcommittedGPUs"]:
            self.wrong.append((differs, book["wrongSums"], book["overcommittedGPUs"]))

    def run(self):
        while not self.done.wait(0.3):
            for pid in processes_of(self.cluster, "ration-scheduler"):
                book = book_of(pid)
                if book and book["ready"]:
                    self.look(book)

    def end(self):
        self.done.set()
        self.join(20)
        assert not self.wrong, f"pods are {self.pods}, a ledger had (of those that differ) {self.wrong[0]}"
        return self.looks


def running_pods(cluster):
    """{name: pod}, as many on either node."""
    cluster.create({"apiVersion": "v1", "kind": "List", "items": [
        pod(f"{node[0]}{i:02}", containers=[container("main", 1, STAY)], nodeSelector={"kubernetes.io/hostname": node})
        for node in (SHARE, ISOLATED) for i in range(EACH)]})
    return {p["metadata"]["name"]: p for p in cluster.wait_running(count=2 * EACH, timeout=150)}


def undisturbed(cluster, before):
    """Every pod of before runs on, with what it had."""
    now = {p["metadata"]["name"]: p for p in cluster.pods()}
    assert {name: fingerprint(now[name]) for name in before} == {name: fingerprint(p) for name, p in before.items()}
    assert {name: annotation(now[name], "ration.dev/placement") for name in before} == {
        name: annotation(p, "ration.dev/placement") for name, p in before.items()}


def accounted(cluster):
    def look():
        found = {card["uuid"]: card["allocated"] for node in cluster.inspect_json()["nodes"] for card in node["gpus"]
                 if card["allocated"]}
        assert found == used_per_card(cluster.pods()), found
        return True
    wait_for(look, 30, "inspect says what the pods have")


def allocatable(cluster, node):
    return cluster.node(node)["status"]["allocatable"]


def left_in_cluster(cluster):
    """Names of objects of ours, and keys of ours on nodes."""
    listed = cluster.kubectl("get", "-A", "-o", "name", ",".join((
        "daemonsets", "deployments", "jobs", "configmaps", "leases", "serviceaccounts", "secrets", "clusterroles",
        "clusterrolebindings", "roles", "rolebindings", "networkpolicies", "poddisruptionbudgets", "crd",
        "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings"))).split()
    keys = [f"{name}: {key}" for name, node in cluster.nodes().items() for key in
            [*node["metadata"].get("annotations", {}), *node["metadata"]["labels"]]
            if key.startswith(("ration.dev/", "aliyun.accelerator/"))]
    return [name for name in listed if name.partition("/")[2].startswith(OURS)] + keys


def test_both_charts_are_removed_and_installed_again_under_running_pods(lab):
    cluster = lab(LAYOUT)
    before = running_pods(cluster)
    accounts = Accounts(cluster, before.values())
    isolated = [p for p in before.values() if p["spec"]["nodeName"] == ISOLATED]
    grants = {p["metadata"]["uid"] for p in isolated}
    roots = {node: node_root(cluster, node) for node in (SHARE, ISOLATED)}
    shims = {p.name for p in (roots[ISOLATED] / "run/ration/shim").iterdir()}
    assert shims
    for_both(lambda chart: cluster.run("helm", "uninstall", chart, "-n", "kube-system", "--wait"))
    try:
        assert left_in_cluster(cluster) == []
        for node, root in roots.items():
            assert not list((root / "run/cdi").glob("ration*")), node
            assert not list((root / "var/lib/kubelet/device-plugins").glob("ration*")), node
            wait_for(lambda: allocatable(cluster, node)["aliyun.com/gpu-mem"] == "0", 30, "the kubelet has noticed")
            assert "aliyun.com/gpu-count" not in allocatable(cluster, node)
        assert {p.name for p in (roots[ISOLATED] / "run/ration/grants").iterdir()} == grants
        assert {p.name for p in (roots[ISOLATED] / "run/ration/shim").iterdir()} == shims
        undisturbed(cluster, before)
    finally:
        install_both(cluster)
    cluster.rolled_out()
    wait_for(lambda: all(allocatable(cluster, node)["aliyun.com/gpu-mem"] == "60" for node in roots), 60,
             "the nodes have their units again")
    undisturbed(cluster, before)
    accounted(cluster)
    assert sum(check_isolation(cluster, p) for p in isolated) == EACH
    assert accounts.end() > 3
    cluster.create(pod("after", containers=[container("main", 1, STAY)]))
    cluster.wait_running(names={"after"})
    accounted(cluster)


# ---- the version before

@pytest.fixture
def upgraded(lab):
    cluster = lab(LAYOUT)
    with version_before(cluster):
        yield cluster


def serves(cluster, step):
    """On either node one more pod comes, gets what it asked for and goes; another stays."""
    names = {f"{step}-{node[0]}-{what}": node for node in (SHARE, ISOLATED) for what in ("goes", "stays")}
    for name, node in names.items():
        cluster.create(pod(name, containers=[container("main", 1, STAY)], nodeSelector={"kubernetes.io/hostname": node},
                           schedulerName="ack-co-scheduler"))
    for p in cluster.wait_running(names=set(names)):
        if p["spec"]["nodeName"] == ISOLATED:
            assert check_isolation(cluster, p) == 1
    accounted(cluster)
    cluster.kubectl("delete", "pod", *(name for name in names if name.endswith("goes")))
    accounted(cluster)


def stamps(cluster, *settings):
    """Whether the agent's chart of this version would bring the policy that stamps the unit."""
    made = install(cluster, AGENT, *settings, dry_run=True)
    assert "kind: DaemonSet" in made
    return "ration-unit-stamp" in made


def test_each_chart_alone_and_both_from_the_version_before_and_back(upgraded):
    cluster = upgraded
    # The policy of a scheduler of the version before refuses pods with a stamp, whether or not this chart could bring a scheduler.
    assert [stamps(cluster, f"scheduler.enabled={part}") for part in ("true", "false")] == [False, False]
    before = running_pods(cluster)
    accounts = Accounts(cluster, before.values())
    for step, (work, tags) in steps(cluster).items():
        work()
        cluster.rolled_out()
        assert versions(cluster) == [{tag} for tag in tags], step
        undisturbed(cluster, before)
        serves(cluster, step)
        undisturbed(cluster, before)
        if step == "scheduler":
            assert stamps(cluster, "scheduler.enabled=false")
    assert sum(check_isolation(cluster, p) for p in before.values() if p["spec"]["nodeName"] == ISOLATED) == EACH
    print(f"\n{len(before)} pods, the ledgers looked at {accounts.end()} times")
