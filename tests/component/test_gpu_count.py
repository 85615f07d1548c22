"""Pods with the label aliyun.com/gpu-count: several cards of one node, through the real programs."""
import json

import pytest

from agent_fixture import NODE, World
from explanations import bound, known
from fake_apiserver import wait_for
from fake_kubelet import AdmissionError, StartError
from listings import container, node, pod
from scheduler_fixture import gpu_node, placement_of


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
    for _ in range(2):    # no Error: kube-scheduler would ask again every few seconds for ever
        answer = scheduler.filter(pod, ["n1", "other"])
        assert (answer["NodeNames"], answer["FailedNodes"], answer["Error"]) == ([], {}, "")
        assert answer["FailedAndUnresolvableNodes"] == {"n1": sentence, "other": sentence}
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


# ---- the agent ----

@pytest.fixture
def world():
    with World(cards="3x16384MiB") as w:
        yield w.up(48)


def placed(world, units, *cards):
    """Annotations of a pod with these containers: name -> units on each of the cards."""
    return {"ration.dev/unit": "1024", "ration.dev/placement": json.dumps({"unit": 1024, "containers": {
        name: [{"uuid": world.uuid(i), "units": n} for i in cards] for name, n in units.items()}})}


def pod_on(world, name, each, *cards, label=None, init=None):
    """A bound pod with `each` units on every card in container main, and `init` in an init container."""
    def entry(n, units):
        return {"name": n, "image": "example",
                "resources": {"limits": {"aliyun.com/gpu-mem": str(units * len(cards))}}}
    spec = {"containers": [entry("main", each)], "initContainers": [entry("warm", init)] if init else []}
    units = {"main": each, **({"warm": init} if init else {})}
    return world.api.create_pod(name, spec=spec, node=NODE, annotations=placed(world, units, *cards),
                                labels={"aliyun.com/gpu-count": label or str(len(cards))})


def given_cards(world, pod, container="main"):
    ids = world.kubelet.given[pod["metadata"]["uid"], container]
    return sorted(int(i.split("-")[0]) for i in ids)


def test_a_container_gets_all_its_cards_and_what_it_has_of_each(world):
    pod = pod_on(world, "p", 4, 0, 2)
    world.kubelet.admit(pod)
    c = world.kubelet.run(pod, "main")
    assert c.env == {"ALIYUN_COM_GPU_MEM_CONTAINER": "4", "ALIYUN_COM_GPU_MEM_DEV": "16",
                     "ALIYUN_COM_GPU_MEM_IDX": "0,2", "ALIYUN_COM_GPU_MEM_POD": "8",
                     "NVIDIA_VISIBLE_DEVICES": "void",
                     "ALIYUN_COM_GPU_VISIBLE_DEVICES": f"{world.uuid(0)},{world.uuid(2)}"}
    inside = set(c.devices) | set(c.mounts)
    assert {"/dev/nvidia0", "/dev/nvidia2", "/dev/nvidiactl"} <= inside and "/dev/nvidia1" not in inside
    # For the eye: as many ids of each card.
    assert given_cards(world, pod) == [0] * 4 + [2] * 4
    assert f"gets 8 units of GPU 0,2 ({world.uuid(0)},{world.uuid(2)})" in world.logged()


def test_without_cdi_the_runtime_of_nvidia_is_told_all_cards():
    with World(cards="2x16384MiB", cdi=False) as w:
        w.up(32)
        pod = pod_on(w, "p", 2, 0, 1)
        w.kubelet.admit(pod)
        env = w.kubelet.run(pod, "main").env
        assert env["NVIDIA_VISIBLE_DEVICES"] == f"{w.uuid(0)},{w.uuid(1)}" and env["ALIYUN_COM_GPU_MEM_IDX"] == "0,1"


def test_an_init_container_that_needs_more_is_on_the_same_cards_whatever_ids_are_reused(world):
    """The kubelet gives any 4 of the init container's 12 ids to the main container: they may be of one card."""
    pod = pod_on(world, "p", 2, 1, 2, init=6)
    world.kubelet.admit(pod)
    assert given_cards(world, pod, "warm") == [1] * 6 + [2] * 6
    assert given_cards(world, pod) == [1] * 4
    for name, units in (("warm", "6"), ("main", "2")):
        c = world.kubelet.run(pod, name)
        assert c.env["ALIYUN_COM_GPU_MEM_CONTAINER"] == units and c.env["ALIYUN_COM_GPU_MEM_POD"] == "12"
        assert c.env["ALIYUN_COM_GPU_MEM_IDX"] == "1,2"
        assert {"/dev/nvidia1", "/dev/nvidia2"} <= set(c.devices) | set(c.mounts)


def test_ids_of_other_cards_change_nothing(world):
    """After its restart the kubelet may have ids of the placed cards still in use, or ask for no preference."""
    pod = pod_on(world, "p", 3, 1, 2)
    world.kubelet.admit(pod, preferred=False)
    assert given_cards(world, pod) == [0] * 6
    c = world.kubelet.run(pod, "main")
    assert c.env["ALIYUN_COM_GPU_MEM_IDX"] == "1,2"
    assert "/dev/nvidia0" not in set(c.devices) | set(c.mounts)
    # Card 0 is free by its placements and has 10 ids left: the rest is taken from any.
    wide = pod_on(world, "wide", 12, 0, 1)
    world.kubelet.admit(wide)
    cards = given_cards(world, wide)
    assert cards.count(0) == 10 and cards.count(1) >= 12
    assert world.kubelet.run(wide, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "0,1"


def test_the_total_of_each_card_is_the_last_line(world):
    world.kubelet.admit(pod_on(world, "old", 14, 1))
    pod = pod_on(world, "p", 3, 0, 1)
    with pytest.raises(AdmissionError, match=f"GPU {world.uuid(1)} has 16 units, with this pod its pods would hold 17"):
        world.kubelet.admit(pod)
    world.kubelet.admit(pod_on(world, "q", 2, 0, 1))


def test_a_label_changed_on_a_running_pod_changes_nothing(world):
    pod = pod_on(world, "p", 4, 0, 2)
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "main")
    for label in ("4", "3", "nonsense"):
        world.api.patch("pods", "p", {"metadata": {"labels": {"aliyun.com/gpu-count": label}}})
        assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "0,2"
    # The next pod finds the cards as full as they are.
    late = pod_on(world, "late", 13, 2)
    with pytest.raises(AdmissionError, match="would hold 17"):
        world.kubelet.admit(late)


def test_parts_that_are_not_equal_are_no_placement(world):
    odd = {"ration.dev/placement": json.dumps({"unit": 1024, "containers": {"main": [
        {"uuid": world.uuid(0), "units": 5}, {"uuid": world.uuid(1), "units": 3}]}})}
    pod = labelled(world.api, "odd", 8, 2, node=NODE, annotations=odd)
    world.kubelet.admit(pod)
    with pytest.raises(StartError, match="its GPU placement cannot be used"):
        world.kubelet.run(pod, "main")


@pytest.mark.parametrize("label, sentence", [
    ("two", 'label aliyun.com/gpu-count is "two": must be a whole number from 1 to 64'),
    ("3", "aliyun.com/gpu-mem is 4: must be a multiple of 3, the value of label aliyun.com/gpu-count")])
def test_a_pod_bound_past_us_with_a_bad_label_is_told_so_and_not_started(world, label, sentence):
    pod = labelled(world.api, "stray", 4, label, node=NODE)
    world.kubelet.admit(pod)
    with pytest.raises(StartError) as refusal:
        world.kubelet.run(pod, "main")
    assert sentence in str(refusal.value) and "create it anew" in str(refusal.value)
    message = wait_for(lambda: [e["message"] for e in world.api.events("GPUNotPlaced")])[0]
    assert sentence in message


# ---- kubectl inspect cgpu ----

def wide_pod(name, on, each, *cards, init=None, label=None):
    """`each` units on every card in container main, `init` in an init container."""
    shown = pod(name, on, each * len(cards))
    units = {"main": each, **({"init": init} if init else {})}
    if init:
        shown["spec"]["initContainers"] = [container("init", init * len(cards))]
    shown["metadata"]["labels"] = {"aliyun.com/gpu-count": label or str(len(cards))}
    shown["metadata"]["annotations"] = {"ration.dev/placement": json.dumps({"unit": 1024, "containers": {
        n: [{"uuid": card, "units": u} for card in cards] for n, u in units.items()}})}
    return shown


def test_a_pod_on_two_cards_is_in_both_columns(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 16160)],
                [pod("second", "n", 3, "GPU-n-1"), wide_pod("wide", "n", 4, "GPU-n-0", "GPU-n-1", init=5)])
    # First row before alignment: 1+1 + 8+1 + 4+1 + 4+1 + 5 and the newline = 27 characters, and 20 more.
    assert cluster.show() == """\
NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  GPU Memory(GiB)
n     10.0.0.1   5/15                   8/15                   13/30
-----------------------------------------------
Allocated/Total GPU Memory In Cluster:
13/30 (43%)
"""
    # The rows: wide default 5 5, second default 0 3: 18 + 20 characters, and 10 more.
    assert cluster.show("-d") == """\

NAME:       n
IPADDRESS:  10.0.0.1

NAME         NAMESPACE  GPU0(Allocated)  GPU1(Allocated)
wide         default    5                5
second       default    0                3
Allocated :  13 (43%)
Total :      30
------------------------------------------------


Allocated/Total GPU Memory In Cluster:  13/30 (43%)
"""
    shown = json.loads(cluster.show("-o", "json"))
    assert shown["nodes"][0]["pods"][0] == {"namespace": "default", "name": "wide", "allocated": {"0": 5, "1": 5},
                                            "pending": 0}


def test_the_part_on_a_card_that_is_gone_is_pending(cluster):
    cluster.set([node("n", "10.0.0.1", 16160)], [wide_pod("wide", "n", 4, "GPU-n-0", "GPU-gone")])
    assert cluster.show().splitlines()[1].split()[2:] == ["4/15", "4", "8/15"]


def test_a_bad_label_on_a_pod_bound_past_the_scheduler_is_told_and_counted(cluster):
    stray = pod("stray", "n", 4)
    stray["metadata"]["labels"] = {"aliyun.com/gpu-count": "3"}
    cluster.set([node("n", "10.0.0.1", 16160)], [stray])
    done = cluster.run()
    assert done.stdout.decode().splitlines()[1].split()[2:] == ["0/15", "4", "4/15"]
    assert "must be a multiple of 3" in done.stderr.decode()


def test_a_label_changed_after_binding_changes_nothing_in_the_table(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 16160)], [wide_pod("wide", "n", 4, "GPU-n-0", "GPU-n-1", label="3")])
    assert cluster.show().splitlines()[1].split()[2:] == ["4/15", "4/15", "8/30"]


# ---- ration why ----

def test_why_tells_of_several_cards_what_each_has(api, start, person):
    gpu_node(api, "n", 15360, 15360, 15360)
    scheduler = start()
    bound(scheduler, api.create_pod("first", gpu_mem=12), ["n"])
    labelled(api, "wide", 8, 2)
    bound(scheduler, api.patch("pods", "wide", {"spec": {"schedulerName": "ack-co-scheduler"}}), ["n"])
    wait_for(lambda: known(scheduler, "wide")["state"] == "bound", 5)
    labelled(api, "waits", 24, 3)
    assert scheduler.filter(api.pod("waits"), ["n"])["NodeNames"] == []
    known(scheduler, "waits")
    person.world(scheduler)
    text = person.why("wide")
    assert "is bound to node n, GPU 1 (GPU-n-1), GPU 2 (GPU-n-2);" in text
    assert "It asks for 8 units of aliyun.com/gpu-mem on 2 GPUs of one node, the same on each." in text
    assert ("Chosen: GPU 1 (15 of 15 units free before), GPU 2 (15 of 15 units free before), of 2 GPUs with room: "
            "binpack prefers the GPU with the least free, then the lowest index.") in text
    assert "GPU 2: 11 of 15 units free; held by default/wide 4" in text
    text = person.why("waits")
    assert "Node n (binpack, unit GiB): no 3 GPUs have 8 units free" in text
    assert "GPU 0: not enough units free: 3 of 15 units free; held by default/first 12" in text
