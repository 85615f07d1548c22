"""Pods with the label aliyun.com/gpu-count: several cards of one node, through the real programs."""
import json

import pytest

from fake_apiserver import wait_for
from test_scheduler import api, gpu_node, placement_of, start  # noqa: F401: fixtures


def labelled(api, name, units, cards, **more):
    return api.create_pod(name, gpu_mem=units, labels={"aliyun.com/gpu-count": str(cards)}, **more)


def placement(node, units, *cards):
    return {"ration.dev/placement": json.dumps({"unit": 1024, "containers": {
        "main": [{"uuid": f"GPU-{node}-{i}", "units": units} for i in cards]}})}


def test_a_pod_gets_equal_parts_of_the_fullest_cards_and_bind_writes_the_contract(api, start):
    gpu_node(api, "n1", 16160, 16160, 81920)
    api.create_pod("old", gpu_mem=4, node="n1", annotations=placement("n1", 4, 2))
    scheduler = start()
    # Free are 15, 15 and 76: the two small cards.
    pod = labelled(api, "p", 8, 2)
    assert scheduler.filter(pod, ["n1"])["NodeNames"] == ["n1"]
    assert scheduler.used() == {"n1": [4, 4, 4]}
    assert scheduler.bind(pod, "n1") == ""
    annotations = api.pod("p")["metadata"]["annotations"]
    assert placement_of(api, "p") == {"unit": 1024, "containers": {
        "main": [{"uuid": "GPU-n1-0", "units": 4}, {"uuid": "GPU-n1-1", "units": 4}]}}
    assert json.loads(annotations["scheduler.framework.gpushare.allocation"]) == {"0": {"0": 4, "1": 4}}
    assert annotations["ALIYUN_COM_GPU_MEM_IDX"] == "0,1"
    assert annotations["ALIYUN_COM_GPU_MEM_POD"] == "8"
    assert annotations["ALIYUN_COM_GPU_MEM_DEV"] == "15"
    devs = scheduler.inspect()["nodes"][0]["devs"]
    assert [[(p["name"], p["usedGPU"]) for p in d["pods"]] for d in devs] == [
        [("p", 4)], [("p", 4)], [("old", 4)]]


def test_nodes_without_enough_cards_say_so_and_wake_the_pod_when_they_have(api, start):
    gpu_node(api, "half", 8192, 8192)
    gpu_node(api, "small", 2048, 2048)
    gpu_node(api, "single", 81920)
    api.create_pod("old", gpu_mem=6, node="half", annotations=placement("half", 6, 0))
    scheduler = start()
    pod = labelled(api, "p", 6, 2)
    answer = scheduler.filter(pod, ["half", "small", "single"])
    assert answer["NodeNames"] == [] and answer["Error"] == ""
    # 10 units are free on the first: no preemption of kube-scheduler could help.
    assert answer["FailedAndUnresolvableNodes"] == {
        "half": "no 2 GPUs have 3 units free", "small": "no 2 GPUs are that large",
        "single": "GPU node has fewer than 2 GPUs"}
    api.delete("pods", "old")
    wait_for(lambda: "ration.dev/nudge" in api.pod("p")["metadata"]["annotations"], 5)
    assert scheduler.filter(pod, ["half", "small", "single"])["NodeNames"] == ["half"]


def test_a_release_wakes_small_pods_although_one_on_several_cards_still_waits(api, start):
    gpu_node(api, "n1", 8192, 8192)
    for i in range(2):
        api.create_pod(f"old{i}", gpu_mem=8, node="n1", annotations=placement("n1", 8, i))
    scheduler = start()
    wide, narrow = labelled(api, "wide", 2, 2), api.create_pod("narrow", gpu_mem=8)
    for pod in (wide, narrow):
        assert scheduler.filter(pod, ["n1"])["NodeNames"] == []
    api.delete("pods", "old0")
    wait_for(lambda: "ration.dev/nudge" in api.pod("narrow")["metadata"]["annotations"], 5)
    assert "ration.dev/nudge" not in api.pod("wide")["metadata"]["annotations"]


@pytest.mark.parametrize("label, units, core, sentence", [
    ("two", 4, None, 'label aliyun.com/gpu-count is "two": must be a whole number from 1 to 64'),
    ("", 4, None, 'label aliyun.com/gpu-count is "": must be a whole number from 1 to 64'),
    ("65", 16, None, 'label aliyun.com/gpu-count is "65": must be a whole number from 1 to 64'),
    ("3", 4, None, 'container "main": aliyun.com/gpu-mem is 4: must be a multiple of 3, the value of label '
                   'aliyun.com/gpu-count'),
    ("2", 4, 30, 'container "main": aliyun.com/gpu-core.percentage is 30: is not possible together with label '
                 'aliyun.com/gpu-count')])
def test_a_label_that_cannot_be_met_is_the_answer(api, start, label, units, core, sentence):
    gpu_node(api, "n1", 16384, 16384, 16384)
    scheduler = start()
    pod = labelled(api, "p", units, label, gpu_core=core)
    for _ in range(2):
        assert scheduler.filter(pod, ["n1"])["Error"] == f"pod default/p: {sentence}"
    assert scheduler.used() == {"n1": [0, 0, 0]}
    # Corrected, it is placed.
    api.patch("pods", "p", {"metadata": {"labels": {"aliyun.com/gpu-count": "1"}}})
    if core is None:
        assert scheduler.filter(api.pod("p"), ["n1"])["NodeNames"] == ["n1"]


def test_a_bad_label_on_a_pod_bound_past_us_still_counts_its_units(api, start):
    gpu_node(api, "n1", 4096, 4096)
    labelled(api, "stray", 3, 2, node="n1")
    scheduler = start()
    node = scheduler.inspect()["nodes"][0]
    assert node["pendingGPU"] == 3 and [p["name"] for p in node["unplaced"]] == ["stray"]


def test_the_label_of_a_waiting_pod_may_change_until_it_is_bound(api, start):
    gpu_node(api, "n1", 8192, 8192, 8192, 8192)
    scheduler = start()
    pod = labelled(api, "p", 8, 2)
    assert scheduler.filter(pod, ["n1"])["NodeNames"] == ["n1"]
    assert scheduler.used() == {"n1": [4, 4, 0, 0]}
    api.patch("pods", "p", {"metadata": {"labels": {"aliyun.com/gpu-count": "4"}}})
    wait_for(lambda: scheduler.used() == {"n1": [0, 0, 0, 0]})
    assert scheduler.bind(pod, "n1") == ""
    assert scheduler.used() == {"n1": [2, 2, 2, 2]}
    # Bound, the placement counts and not the label, also for one who reads it for the first time.
    api.patch("pods", "p", {"metadata": {"labels": {"aliyun.com/gpu-count": "3"}}})
    later = start()
    for one in (scheduler, later):
        assert one.used() == {"n1": [2, 2, 2, 2]}
        assert one.inspect()["nodes"][0]["pendingGPU"] == 0
