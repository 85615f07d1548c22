"""The verb simulate/filter, for programs that simulate scheduling: whole Node objects, also of nodes that do not exist, and
nothing is held or recorded."""
import json

import pytest

from histories import kinds, save
from scheduler_fixture import gpu_node, gpus


def template(name="template", gpu_mem=None, gpu_count=None, mode="cgpu", annotations=None, **resources):
    """A node of an autoscaler's node group: no uid, and sums of resources only."""
    capacity = {"aliyun.com/gpu-mem": gpu_mem, "aliyun.com/gpu-count": gpu_count, **resources}
    return {"metadata": {"name": name, "labels": {"ack.node.gpu.schedule": mode} if mode else {},
                         "annotations": annotations or {}},
            "status": {"capacity": {k: v for k, v in capacity.items() if v is not None}}}


def pod_asking(gpu_mem, **metadata):
    """No uid either."""
    return {"metadata": {"name": "simulated", "namespace": "default", **metadata}, "spec": {"containers": [
        {"name": "main", "resources": {"limits": {"aliyun.com/gpu-mem": str(gpu_mem)} if gpu_mem else {}}}]}}


def simulate(scheduler, pod, *nodes):
    answer = scheduler.verb("simulate/filter", {"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None})
    if "Nodes" in answer:
        assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == answer["NodeNames"]
    return answer


def test_a_template_fits_a_pod_that_one_of_its_gpus_can_hold_and_comes_back_as_it_was(start):
    scheduler, node = start(), template(gpu_mem="30", gpu_count="2")
    answer = simulate(scheduler, pod_asking(15), node)
    assert answer["Nodes"]["items"] == [node] and answer["Error"] == ""


def test_a_sum_that_suffices_is_not_enough_where_no_single_gpu_of_the_template_does(start):
    answer = simulate(start(), pod_asking(16), template(gpu_mem="30", gpu_count="2"))
    assert answer["NodeNames"] == [] and answer["FailedAndUnresolvableNodes"] == {"template": "no GPU is that large"}


def test_a_known_node_is_answered_by_the_ledger_and_a_copy_of_it_under_another_name_as_an_empty_one(api, start):
    real = gpu_node(api, "real", 8192)
    scheduler = start()
    placed = api.create_pod("placed", gpu_mem=6)
    assert scheduler.filter(placed, ["real"])["NodeNames"] == ["real"] and scheduler.bind(placed, "real") == ""
    copy = json.loads(json.dumps(real))
    copy["metadata"]["name"] = "copy"
    answer = simulate(scheduler, pod_asking(3), real, copy)
    assert answer["NodeNames"] == ["copy"] and answer["FailedNodes"] == {"real": "no GPU has 3 units free"}


def test_the_name_of_a_known_node_with_other_gpus_is_a_new_empty_node(api, start):
    real = gpu_node(api, "real", 8192)
    scheduler = start()
    real["metadata"]["annotations"]["ration.dev/gpus"] = gpus(16160, node="other")
    assert simulate(scheduler, pod_asking(15), real)["NodeNames"] == ["real"]
    assert simulate(scheduler, pod_asking(16), real)["NodeNames"] == []


def test_the_faults_of_a_node_that_a_template_was_copied_from_are_not_its_own(start):
    sick = json.dumps([{"index": 0, "uuid": "GPU-x", "mib": 8192, "healthy": False}])
    old = {"ration.dev/gpus": sick, "ration.dev/mode": "share", "ration.dev/serving": "false", "ration.dev/mode-pending": "cgpu"}
    assert simulate(start(), pod_asking(8), template(annotations=old))["NodeNames"] == ["template"]


@pytest.mark.parametrize("node, reason", [
    (template(), "the node's status has no aliyun.com/gpu-mem"),
    (template(gpu_mem="30", gpu_count="2", mode=None), "GPU sharing mode does not fit"),
    (template(gpu_mem="30", gpu_count="2", mode="topology"), "the node's status has no aliyun.com/gpu"),
    (template(gpu_mem="30"), "aliyun.com/gpu-mem without aliyun.com/gpu-count"),
    (template(gpu_mem="thirty", gpu_count="2"), "aliyun.com/gpu-mem in the node's status is not a whole number"),
    (template(gpu_mem="-1", gpu_count="2"), "aliyun.com/gpu-mem in the node's status is not a whole number"),
    (template(gpu_mem="1", gpu_count="2"), "one GPU must have from one unit to 4 TiB"),
    (template(gpu_mem="100000", gpu_count="2"), "one GPU must have from one unit to 4 TiB"),
    (template(gpu_mem="650", gpu_count="65"), "65 GPUs, more than 64"),
    (template(annotations={"ration.dev/gpus": "[{}]"}), "ration.dev/gpus"),
])
def test_a_template_that_cannot_serve_the_pod_has_its_reason(start, node, reason):
    answer = simulate(start(), pod_asking(3), node)
    assert answer["NodeNames"] == [] and answer["Error"] == ""
    assert reason in answer["FailedAndUnresolvableNodes"]["template"]


def test_whole_gpus_fit_a_topology_template(start):
    node = template(mode="topology", **{"aliyun.com/gpu": "8"})
    pod = pod_asking(0)
    pod["spec"]["containers"][0]["resources"]["limits"] = {"aliyun.com/gpu": "8"}
    scheduler = start()
    assert simulate(scheduler, pod, node)["NodeNames"] == ["template"]
    pod["spec"]["containers"][0]["resources"]["limits"] = {"aliyun.com/gpu": "9"}
    assert simulate(scheduler, pod, node)["NodeNames"] == []


def test_the_pods_stamp_says_in_which_unit_a_template_counts(start):
    pod = pod_asking(120, annotations={"ration.dev/unit": "128"})
    assert simulate(start(), pod, template(gpu_mem="120", gpu_count="1"))["NodeNames"] == ["template"]


def test_a_pod_without_a_gpu_fits_every_node(start):
    assert simulate(start(), pod_asking(0), template(), template("b", mode=None))["NodeNames"] == ["template", "b"]


def state(scheduler):
    """Its ledger. The version goes on: the fixture's own pod goes a little later."""
    return {key: value for key, value in scheduler.inspect().items() if key != "podsVersion"}


def test_a_thousand_questions_change_nothing_and_a_real_pod_has_the_room(api, start, tmp_path):
    real = gpu_node(api, "real", 8192)
    scheduler = start()
    waiting = api.create_pod("waiting", gpu_mem=8)
    scheduler.has_read_pods()
    before = state(scheduler)
    decisions = kinds(save(scheduler, tmp_path / "history"), "gave")
    gang = {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}
    for i in range(1000):
        pod = [pod_asking(8, uid=f"u{i}"), pod_asking(8, labels=gang, uid=f"g{i}"), waiting][i % 3]
        assert simulate(scheduler, pod, real, template(gpu_mem="8", gpu_count="1"))["NodeNames"] == ["real", "template"]
    assert state(scheduler) == before
    lines = save(scheduler, tmp_path / "history")
    assert kinds(lines, "gave") == decisions and not kinds(lines, "event")["filter"]
    why = json.loads(scheduler.http("GET", "/why?namespace=default&name=waiting")[1])
    assert "decisions" not in why or why["decisions"] == []
    assert scheduler.filter(waiting, ["real"])["NodeNames"] == ["real"] and scheduler.bind(waiting, "real") == ""


@pytest.mark.parametrize("body, words", [
    ("", "request is not a JSON object"),
    ("[]", "request is not a JSON object"),
    ({"Nodes": {"items": []}}, "request has no Pod"),
    ({"Pod": pod_asking(1), "NodeNames": ["n"]}, "request has no Nodes.items: set nodeCacheCapable: false"),
    ({"Pod": {}, "Nodes": {"items": []}}, "uid"),
    ({"Pod": pod_asking("1.5"), "Nodes": {"items": []}}, "gpu-mem"),
    ({"Pod": pod_asking(1), "Nodes": {"items": [template(), {"metadata": {}}]}}, "Nodes.items[1]: a node without a name"),
    ({"Pod": pod_asking(1), "Nodes": {"items": [template(), 7]}}, "Nodes.items[1]: a node without a name"),
    ({"Pod": pod_asking(1), "Nodes": {"items": [template()] * 5001}}, "request has 5001 nodes, more than 5000"),
])
def test_bad_input_has_a_sentence(start, body, words):
    status, answer = start().http("POST", "/simulate/filter", body if isinstance(body, str) else json.dumps(body))
    assert status == 200 and words in json.loads(answer)["Error"], answer


def test_only_post_is_answered(start):
    assert start().http("GET", "/simulate/filter")[0] == 404
