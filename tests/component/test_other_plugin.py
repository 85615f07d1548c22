"""Another device plugin offers the node's GPUs as nvidia.com/gpu: the agent says so, and takes it back."""
import pytest

from agent_fixture import NODE, World
from fake_apiserver import wait_for

TWICE = "GPUAdvertisedTwice"


def offered(w, count, resource="nvidia.com/gpu", of="allocatable"):
    """What a kubelet writes into its node's status; None: the resource is not there."""
    w.api.patch("nodes", NODE, {"status": {of: {resource: count}}})


def is_told(w):
    found = w.condition()
    return found is not None and (found["status"], found["reason"]) == ("True", TWICE)


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared"])
@pytest.mark.parametrize("mode,units", [("share", 32), ("topology", None)])
def test_gpus_that_are_advertised_twice_are_told_and_taken_back(mode, units, resource):
    with World(labels={"ack.node.gpu.schedule": mode}) as w:
        w.kubelet.start()
        w.start_agent()
        if units:
            w.kubelet.wait_devices(units)
        wait_for(lambda: w.cards())
        w.has_read_node()
        assert w.condition() is None and not w.api.events(TWICE)
        offered(w, "2", resource)
        wait_for(lambda: is_told(w))
        event = wait_for(lambda: w.api.events(TWICE))[0]
        for text in (event["message"], w.condition()["message"]):
            assert f"a second time, as {resource}: " in text
            assert "kubectl label node n1 nvidia.com/gpu.deploy.device-plugin=false --overwrite" in text
        assert (event["involvedObject"]["kind"], event["involvedObject"]["name"], event["type"]) == ("Node", NODE, "Warning")
        # The node goes on, and another number of devices (an unhealthy GPU) is nothing new.
        annotations = w.api.node(NODE)["metadata"]["annotations"]
        assert annotations["ration.dev/mode"] == mode and "ration.dev/problem" not in annotations
        offered(w, "1", resource)
        w.has_read_node()
        assert is_told(w) and len(w.api.events(TWICE)) == 1
        # As the kubelet does when the plugin goes: capacity stays for 5 minutes.
        offered(w, "2", resource, of="capacity")
        offered(w, "0", resource)
        wait_for(lambda: w.condition()["reason"] == "NoProblem" and w.condition()["status"] == "False")
        offered(w, "2", resource)
        wait_for(lambda: is_told(w))
        assert len(w.api.events(TWICE)) == 1    # the same Event again is not posted within the life of the first
        offered(w, None, resource)
        wait_for(lambda: w.condition()["reason"] == "NoProblem")


def test_a_capacity_that_is_left_over_is_no_second_offer():
    with World() as w:
        offered(w, "2", of="capacity")
        offered(w, "0")
        w.up(32)
        w.has_read_node()
        assert w.condition() is None and not w.api.events(TWICE)


@pytest.mark.parametrize("count", ["", "x", "-1", "99999999999999999999", "0.5"])
def test_what_is_no_count_is_no_offer(count):
    with World() as w:
        offered(w, count)
        w.up(32)
        w.has_read_node()
        assert w.condition() is None and not w.api.events(TWICE)


def test_parts_of_gpus_that_mig_divides_are_no_second_offer():
    with World() as w:
        offered(w, "7", "nvidia.com/mig-1g.10gb")
        w.up(32)
        w.has_read_node()
        assert w.condition() is None and not w.api.events(TWICE)


def test_a_node_that_ration_leaves_alone_is_the_other_plugins():
    with World(labels={"ack.node.gpu.schedule": "default"}) as w:
        offered(w, "2")
        w.kubelet.start()
        w.start_agent()
        wait_for(lambda: "driver " in w.logged() and w.api.watches("nodes", "pods") >= 2)
        w.has_read_node()
        assert w.condition() is None and not w.api.events(TWICE)
        w.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.schedule": "share"}}})
        wait_for(lambda: is_told(w) and w.api.events(TWICE))
        w.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.schedule": None}}})
        wait_for(lambda: w.condition()["reason"] == "NoProblem", timeout=15)


def test_a_problem_that_stops_the_node_is_told_first():
    with World() as w:
        offered(w, "2")
        w.up(32)
        wait_for(lambda: is_told(w))
        since = w.condition()["lastTransitionTime"]
        w.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.schedule": "shared"}}})
        wait_for(lambda: w.condition()["reason"] == "GPUModeRefused")
        assert w.condition()["lastTransitionTime"] == since
