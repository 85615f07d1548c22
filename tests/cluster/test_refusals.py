"""What cannot be right is refused with a sentence, and nothing crashes."""
import json

import pytest

from crowdnodes import NODES
from gpupods import check_what_it_sees, inventory, pod

pytestmark = pytest.mark.long(5)

NODE = NODES[0].split("=")[0]


def test_a_pod_bound_past_the_scheduler_waits_with_an_event_that_says_what_to_do(lab):
    cluster = lab(NODES)
    cluster.create(pod("stray", 3, nodeName=NODE))

    def sentence():
        return [e["message"] for e in cluster.events("stray") if "schedulerName" in e["message"]]
    text = cluster.wait_for(sentence, 60, "an Event with the cure")[0]
    assert "ack-co-scheduler" in text
    assert cluster.pod("stray")["status"]["phase"] == "Pending"
    table = cluster.kubectl("inspect", "cgpu").splitlines()
    assert "PENDING(Allocated)" in table[0]
    row = next(line for line in table if line.startswith(NODE)).split()
    assert row[-2:] == ["3", "3/46"]  # 15 + 15 + 8 + 8 units; pending counts as allocated
    # It does not become Failed, and it is in nobody's way.
    cluster.create(pod("good", 2, nodeSelector={"kubernetes.io/hostname": NODE}))
    good = [p for p in cluster.wait_running("", names=["good"])][0]
    check_what_it_sees(cluster, good, cluster.nodes())
    assert cluster.pod("stray")["status"]["phase"] == "Pending"
    book = json.loads(cluster.scheduler_get("/inspect"))
    assert [n["pendingGPU"] for n in book["nodes"] if n["name"] == NODE] == [3]


@pytest.mark.parametrize("value, words", [
    ("-1", ["must be greater than or equal to 0"]), ("1.5", ["must be an integer"]),
    ("1500m", ["must be an integer"]), ("3x", ["quantit"]), ("", ["quantit"])])
def test_quantities_that_kubernetes_itself_refuses(lab, value, words):
    cluster = lab(NODES)
    message = cluster.create_fails(pod("p", value))
    assert any(word in message for word in words), message


@pytest.mark.parametrize("value", ["1k", "10G", "1e12", "9223372036854775807", "4Ki"])
def test_legal_but_huge_quantities_wait_with_a_reason(lab, value):
    cluster = lab(NODES)
    cluster.create(pod("p", value))
    message = cluster.wait_for(lambda: cluster.condition(cluster.pod("p"), "PodScheduled").get("message"), 30, "verdict")
    assert "Insufficient aliyun.com/gpu-mem" in message or "no GPU is that large" in message


def test_larger_than_any_card_but_not_than_the_node_has_the_documented_reason(lab):
    cluster = lab(NODES)
    cluster.create(pod("p", 30))
    message = cluster.wait_for(lambda: cluster.condition(cluster.pod("p"), "PodScheduled").get("message"), 30, "verdict")
    assert "no GPU is that large" in message


@pytest.mark.parametrize("text", ids=range(7), argvalues=["", "{", "null", '{"unit":1024,"containers":{"c0":[{"uuid":"GPU-nowhere","units":2}]}}',
                                  '{"unit":1024,"containers":{"c0":[{"uuid":"UUID0","units":-2}]}}',
                                  '{"unit":1024,"containers":{"c0":[{"uuid":"UUID0","units":1}]}}', "[" * 10000])
def test_a_malformed_placement_never_starts_a_container_and_crashes_nobody(lab, text):
    cluster = lab(NODES)
    uuid = sorted(inventory(cluster.node(NODE)))[0]
    restarts = cluster.restarts("kube-system")
    # Nobody else may write it: as if the scheduler had gone wrong.
    cluster.create(pod("forged", 2, schedulerName="nobody"))
    assert cluster.bind("forged", NODE, {"ration.dev/placement": text.replace("UUID0", uuid)},
                        "--as", "system:serviceaccount:kube-system:ration-scheduler") is None
    cluster.wait_for(lambda: cluster.events("forged"), 60, "an Event")
    cluster.create(pod("good", 2))
    good = cluster.wait_running("", names=["good"])[0]
    check_what_it_sees(cluster, good, cluster.nodes())
    forged = cluster.pod("forged")
    assert forged["status"]["phase"] in ("Pending", "Failed")
    assert not any(s.get("started") for s in forged["status"].get("containerStatuses", []))
    assert cluster.restarts("kube-system") == restarts


def test_other_modes_are_refused_with_an_event_that_names_them(lab):
    cluster = lab(NODES)
    for mode in ("exclusive", "mps"):
        cluster.kubectl("label", "node", NODE, f"ack.node.gpu.schedule={mode}", "--overwrite")
        cluster.wait_for(lambda: any(mode in e.get("message", "") for e in cluster.node_events(NODE)
                                     if e["source"].get("component") == "ration-agent"), 30, f"an Event about {mode}")
        cluster.wait_for(lambda: cluster.node(NODE)["status"]["allocatable"].get("aliyun.com/gpu-mem") == "0", 30,
                         "nothing advertised")
    cluster.kubectl("label", "node", NODE, "ack.node.gpu.schedule=share", "--overwrite")
    cluster.wait_for(lambda: cluster.node(NODE)["status"]["allocatable"].get("aliyun.com/gpu-mem") == "46", 30,
                     "46 units again")
    cluster.create(pod("p", 2, nodeSelector={"kubernetes.io/hostname": NODE}))
    cluster.wait_running()


def test_a_sick_card_gets_no_new_pods_and_comes_back(lab):
    cluster = lab(NODES)
    cluster.create(pod("old", 2, nodeSelector={"kubernetes.io/hostname": NODE}))
    old = cluster.wait_running()[0]
    uuid = json.loads(old["metadata"]["annotations"]["ration.dev/placement"])["containers"]["c0"][0]["uuid"]
    index = inventory(cluster.node(NODE))[uuid]["index"]
    cluster.fault(NODE, index, "xid", "79")
    cluster.wait_for(lambda: not inventory(cluster.node(NODE))[uuid]["healthy"], 30, "the card to be called sick")
    total, own = 46, inventory(cluster.node(NODE))[uuid]["mib"] // 1024
    cluster.wait_for(lambda: int(cluster.node(NODE)["status"]["allocatable"]["aliyun.com/gpu-mem"]) == total - (own - 2),
                     30, "the free units of the sick card to go")
    cluster.create(pod("new", 2, nodeSelector={"kubernetes.io/hostname": NODE}))
    new = cluster.wait_running("", names=["new"])[0]
    assert uuid not in new["metadata"]["annotations"]["ration.dev/placement"]
    assert cluster.pod("old")["status"]["phase"] == "Running"
    cluster.fault(NODE, index, "heal")
    cluster.wait_for(lambda: inventory(cluster.node(NODE))[uuid]["healthy"], 30, "the card to be well again")
    cluster.wait_for(lambda: cluster.node(NODE)["status"]["allocatable"]["aliyun.com/gpu-mem"] == "46", 30, "46 units")
