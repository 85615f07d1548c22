"""Another device plugin at a real kubelet: the agent's word about it comes, and goes while the kubelet still has its capacity."""
import json

import pytest

from cluster import ROOT, condition_of
from gpupods import pod

pytestmark = pytest.mark.long(45)

NODE = "cn-hangzhou.192.168.7.32"
STANDIN = ROOT / "tests/cluster/standin"
TWICE = "GPUAdvertisedTwice"


def problem(cluster):
    found = condition_of(cluster.node(NODE), "GPUSharingProblem")
    return found.get("status"), found.get("reason")


def offered(cluster, of):
    return cluster.node(NODE)["status"][of].get("nvidia.com/gpu")


def foreign_plugins(cluster):
    """What the doctor finds of them: [(where, mend)]."""
    findings = json.loads(cluster.run("ration", "doctor", "-o", "json", check=False).stdout)["findings"]
    return [(f["where"], f["mend"]) for f in findings if f["check"] == "foreign-plugins"]


@pytest.fixture(name="cluster")
def _cluster(lab):
    cluster = lab([f"{NODE}=1x16160MiB,cgpu"])
    yield cluster
    cluster.kubectl("-n", "kube-system", "delete", "daemonset", "nvidia-device-plugin-daemonset", "--ignore-not-found")
    cluster.wait_for(lambda: offered(cluster, "allocatable") in (None, "0"), 30, "the kubelet has noticed")


def test_gpus_that_a_kubelet_advertises_twice_are_told_until_the_plugin_is_kept_off(cluster):
    assert problem(cluster) in ((None, None), ("False", "NoProblem"))
    cluster.apply((STANDIN / "device-plugin.yaml").read_text().replace("@tests@", str(ROOT / "tests")))
    cluster.wait_for(lambda: problem(cluster) == ("True", TWICE), 60, "the condition")
    assert offered(cluster, "allocatable") == "1"
    events = cluster.json("get", "events", "-n", "default", "--field-selector", f"reason={TWICE}")["items"]
    assert [(e["involvedObject"]["kind"], e["involvedObject"]["name"]) for e in events] == [("Node", NODE)]
    # The node serves all the same.
    cluster.create(pod("p", 2))
    cluster.wait_running(names=["p"])
    # The doctor's command keeps the plugin off.
    (where, mend), = foreign_plugins(cluster)
    assert where == f"node {NODE}"
    cluster.run("bash", "-c", mend)
    cluster.wait_for(lambda: problem(cluster) == ("False", "NoProblem"), 60, "the condition is taken back")
    assert offered(cluster, "allocatable") == "0" and offered(cluster, "capacity") == "1"
    assert foreign_plugins(cluster) == []
    assert cluster.pod("p")["status"]["phase"] == "Running"
