"""A machine with other GPUs has taken the name of a node whose pods Kubernetes has not deleted yet: the agent says of which
pods the GPU is not there. The kubelet may have started them without one, and then asks the agent nothing."""
import json

import pytest

from agent_fixture import NODE, World
from fake_apiserver import wait_for

REASON = "GPUNotOnNode"
GONE = "GPU-00000000-0000-0000-0000-000000000000"


def placement(*uuids, units=3):
    """Of a pod with one container on these GPUs."""
    return {"ration.dev/placement": json.dumps({"unit": 1024, "containers": {
        "main": [{"uuid": uuid, "units": units} for uuid in uuids]}}), "ration.dev/unit": "1024"}


def bound(w, name, *uuids, **more):
    return w.api.create_pod(name, gpu_mem=3 * len(uuids), node=NODE, annotations=placement(*uuids),
                            **({"labels": {"aliyun.com/gpu-count": str(len(uuids))}} if len(uuids) > 1 else {}), **more)


def runs(w, name):
    w.api.patch("pods", name, {"status": {"phase": "Running", "containerStatuses": [
        {"name": "main", "containerID": "containerd://1", "state": {"running": {}}}]}})


def told(w):
    return sorted((e["involvedObject"]["namespace"], e["involvedObject"]["name"]) for e in w.api.events(REASON))


def test_a_pod_that_runs_without_the_gpu_of_its_placement_has_one_event():
    with World() as w:
        bound(w, "old", GONE)
        runs(w, "old")
        w.up(32)
        event = wait_for(lambda: w.api.events(REASON))[0]
        assert (event["involvedObject"]["kind"], event["involvedObject"]["uid"], event["type"]) == (
            "Pod", w.api.pod("old")["metadata"]["uid"], "Warning")
        assert f"GPU {GONE}, which its node does not have" in event["message"]
        assert "kubectl -n default delete pod old" in event["message"]
        w.api.patch("pods", "old", {"metadata": {"labels": {"a": "b"}}})
        w.has_read_node()
        # The next one, in another namespace, by one of its two GPUs; the first is not named again.
        bound(w, "two", w.uuid(0), GONE, namespace="team")
        wait_for(lambda: len(told(w)) == 2)
        assert told(w) == [("default", "old"), ("team", "two")]
        assert w.logged().count("pod default/old was placed on GPU") == 1    # the API server does not store the same Event twice
        # The longest names that there are: the command is whole.
        bound(w, longest := "p" * 253, GONE, namespace="n" * 63)
        wait_for(lambda: len(told(w)) == 3)
        assert [e["message"].endswith(f"kubectl -n {'n' * 63} delete pod {longest}") for e in w.api.events(REASON)].count(True) == 1


def test_pods_on_gpus_of_the_node_and_pods_that_end_have_none():
    with World() as w:
        w.up(32)
        bound(w, "here", w.uuid(1))
        w.api.create_pod("unplaced", gpu_mem=3, node=NODE)
        bound(w, "ended", GONE, status={"phase": "Failed"})
        w.api.create("pods", {**w.api.pod("ended"), "metadata": {
            "name": "deleted", "namespace": "default", "annotations": placement(GONE), "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"phase": "Running"}})
        bound(w, "later", GONE)    # the last in the order in which the agent looks
        wait_for(lambda: told(w))
        w.has_read_node()
        assert told(w) == [("default", "later")]


@pytest.mark.waits
def test_without_a_driver_nothing_is_said_of_any_gpu():
    """The agent of a node whose driver is not there yet knows no GPU."""
    with World(cards=None) as w:
        bound(w, "old", GONE)
        runs(w, "old")
        w.kubelet.start()
        w.start_agent()
        wait_for(lambda: w.api.watches("nodes", "pods") >= 2)
        w.has_read_node()
        assert not told(w)
        w.sim("up", "--gpus", "1x16384MiB")
        wait_for(lambda: told(w), timeout=30)
