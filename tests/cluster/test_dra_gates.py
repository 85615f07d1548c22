"""A cluster that cannot give one GPU to several claims: the agent says so, and the node goes on as before."""
import pytest

from claims import RELEASES
from cluster import built
from gpupods import GPU_MEM, check_what_it_sees, pod

pytestmark = pytest.mark.long(30)

NODE = "dra-g.192.168.60.5"
SCHEDULE = "ack.node.gpu.schedule"
OFF = ("--feature-gates", "DRAConsumableCapacity=false")
SENTENCE = (f"the label {SCHEDULE}=dra asks for ResourceClaims, but the API server drops allowMultipleAllocations from ResourceSlices, since "
            "its feature gate DRAConsumableCapacity is off (it is on by default from Kubernetes 1.36)")


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release or "default")
def test_node_keeps_its_mode_where_the_feature_is_off(lab, release):
    cluster = lab([f"{NODE}=1x16160MiB,core_mem"], options=(*built(release), *OFF))

    def label(value):
        cluster.kubectl("label", "node", NODE, f"{SCHEDULE}={value}", "--overwrite")

    def problem():
        return cluster.condition(cluster.node(NODE), "GPUSharingProblem")
    label("dra")
    try:
        it = cluster.wait_for(lambda: (it := problem()).get("status") == "True" and it, 20, "the condition of the node")
        assert it["reason"] == "GPUModeRefused" and SENTENCE in it["message"], it
        assert [e["message"] for e in cluster.node_events(NODE) if e["reason"] == "GPUModeRefused" and SENTENCE in e["message"]]
        cluster.create(pod("p", 2))
        p, = cluster.wait_running(names=["p"])
        check_what_it_sees(cluster, p, cluster.nodes())
        assert cluster.node(NODE)["status"]["allocatable"][GPU_MEM] == "15"
        assert not cluster.json("get", "resourceslices")["items"]
    finally:
        label("core_mem")
    cluster.wait_for(lambda: problem()["status"] == "False", 20, "the end of the problem")
