"""Which of the nodes with room comes first, through the real verbs: by the CPU, memory and GPUs that a node would have left."""
import json
import re
import subprocess

import pytest

from fake_apiserver import wait_for
from scheduler_fixture import BUILD, gpu_node


NAME, PRODUCT = "aliyun.accelerator/nvidia_name", "nvidia.com/gpu.product"


def machine(api, name, *mibs, cpus=48, gib=192, labels=None):
    """A node with GPUs whose allocatable says so much CPU and memory."""
    gpu_node(api, name, *mibs)
    if labels:
        api.patch("nodes", name, {"metadata": {"labels": labels}})
    api.patch("nodes", name, {"status": {"allocatable": {"cpu": str(cpus), "memory": f"{gib}Gi"}}})


def asking(cpu, gpu_mem=None, **more):
    """The spec of a pod of one container."""
    limits = {"aliyun.com/gpu-mem": str(gpu_mem)} if gpu_mem else {}
    return {"containers": [{"name": "main", "image": "example", "resources": {
        "limits": limits, "requests": {"cpu": str(cpu), "memory": "4Gi", **limits}}}], **more}


def first(scheduler, pod, nodes):
    return scheduler.filter(pod, nodes)["NodeNames"][0]


@pytest.mark.parametrize("order, want", [((), "roomy"), (("--node-order", "balanced"), "roomy"), (("--node-order", "fullest"), "crowded")])
def test_cpu_is_taken_where_gpus_can_spare_it(api, start, order, want):
    """Both nodes have four GPUs and a pod on one of them; on the crowded node, other pods have taken 30 of 48 CPUs, and its GPUs are
    fuller."""
    for name in "crowded", "roomy":
        machine(api, name, *[16384] * 4)
    api.create_pod("others", node="crowded", spec=asking(30))
    scheduler = start(*order)
    for name, units in ("crowded", 4), ("roomy", 3):
        pod = api.create_pod(f"on-{name}", spec=asking(1, units))
        assert first(scheduler, pod, [name]) == name
        assert scheduler.bind(pod, name) == ""
    pod = api.create_pod("p", spec=asking(12, 4))
    assert wait_for(lambda: first(scheduler, pod, ["crowded", "roomy"]) == want, 5)


def crowded_and_roomy(api, start):
    """Two nodes with four GPUs; of the first one by name, other pods have taken 40 of 48 CPUs."""
    for name in "crowded", "roomy":
        machine(api, name, *[16384] * 4)
    api.create_pod("others", node="crowded", spec=asking(40))
    return start()


@pytest.mark.parametrize("gpus", [2, 4])
def test_a_pod_on_several_gpus_goes_where_cpu_stays_behind_those_that_are_left(api, start, gpus):
    """Also where it takes a quarter of each. Of 8 CPUs, none would stay behind 3.5 or 3 GPUs; a pod without CPU takes what cannot be used anyway."""
    scheduler = crowded_and_roomy(api, start)
    pod = api.create_pod("p", labels={"aliyun.com/gpu-count": str(gpus)}, spec=asking(8, 4 * gpus))
    assert first(scheduler, pod, ["crowded", "roomy"]) == "roomy"
    little = api.create_pod("little", labels={"aliyun.com/gpu-count": str(gpus)}, spec=asking(0, 4 * gpus))
    assert first(scheduler, little, ["crowded", "roomy"]) == "crowded"    # GPUs that have little CPU are enough for it


@pytest.mark.parametrize("gang, cpu, want", [("needy", 2, "roomy"), ("frugal", 0, "crowded")])
def test_members_of_a_gang_go_where_cpu_stays_behind_the_gpus_that_are_left(api, start, gang, cpu, want):
    """All four fit on either node."""
    scheduler = crowded_and_roomy(api, start)
    wait_for(lambda: api.watches("podgroups"), what="PodGroups are watched")
    group = "pod-group.scheduling.sigs.k8s.io/"
    pods = [api.create_pod(f"{gang}-{i}", labels={group + "name": gang, group + "min-available": "2"}, spec=asking(cpu, 4)) for i in range(2)]
    assert wait_for(lambda: scheduler.filter(pods[0], ["crowded", "roomy"])["NodeNames"], 5)[0] == want
    assert first(scheduler, pods[1], ["crowded", "roomy"]) == want


@pytest.mark.parametrize("cpu, want", [(26, "roomy"), (0, "crowded")])
def test_whole_gpus_with_equal_links_are_taken_where_cpu_stays_behind_those_that_are_left(api, start, cpu, want):
    """Of the crowded node's 28 CPUs, 26 for two GPUs would leave one for each of the others; the mean of what is left is 9.5."""
    for name in "crowded", "roomy":
        machine(api, name, *[16384] * 4)
        api.patch("nodes", name, {"metadata": {"annotations": {"ration.dev/mode": "topology"}}})
    api.create_pod("others", node="crowded", spec=asking(20))
    scheduler = start()
    limits = {"aliyun.com/gpu": "2"}
    pod = api.create_pod("p", spec={"containers": [{"name": "main", "image": "example", "resources": {
        "limits": limits, "requests": {"cpu": str(cpu), **limits}}}]})
    assert first(scheduler, pod, ["crowded", "roomy"]) == want


def test_cpu_of_a_pod_that_has_ended_is_free_again(api, start):
    for name in "a", "b":
        machine(api, name, *[16384] * 4)
    api.create_pod("others", node="a", spec=asking(40))
    scheduler = start()
    pod = api.create_pod("p", spec=asking(12, 4))
    assert first(scheduler, pod, ["a", "b"]) == "b"
    api.set_phase("others", "Succeeded")
    assert wait_for(lambda: first(scheduler, pod, ["a", "b"]) == "a", 5)
    api.create_pod("again", node="a", spec=asking(40))
    assert wait_for(lambda: first(scheduler, pod, ["a", "b"]) == "b", 5)
    api.delete("pods", "again")
    assert wait_for(lambda: first(scheduler, pod, ["a", "b"]) == "a", 5)


def test_a_pod_without_a_gpu_leaves_cpu_where_gpus_are_free(api, start):
    """Ten points for the node without GPUs, fewer for the one whose GPUs are taken, and fewer still for the one whose GPUs would miss the CPU."""
    machine(api, "free", *[16384] * 4)
    machine(api, "full", 16384)
    api.create_node("plain")
    scheduler = start()
    pod = api.create_pod("whole", spec=asking(1, 16))
    assert first(scheduler, pod, ["full"]) == "full" and scheduler.bind(pod, "full") == ""
    plain, gpu = api.create_pod("plain", spec=asking(30)), api.create_pod("gpu", spec=asking(1, 1))
    names = ["free", "full", "plain", "unknown"]

    def scores(pod):
        return {entry["Host"]: entry["Score"] for entry in scheduler.verb("levels/prioritize", {"Pod": pod, "Nodes": None,
                                                                                                 "NodeNames": names})}
    assert scores(plain) == {"free": 8, "full": 9, "plain": 10, "unknown": 0}
    assert set(scores(gpu).values()) == {0}    # the other entry has ordered them


def test_a_pod_without_a_gpu_leaves_the_cpu_of_a_free_node_to_pods_that_need_the_whole_node(api, start):
    """The mean is 26 CPUs for a GPU. Of the node where a GPU is taken the pod leaves 59 for three, so that 0.04 of them could not be used. Of the free one it leaves 108 for four, which is
    enough for each GPU, but takes a sixth of what a pod for all four may need."""
    machine(api, "free", *[16384] * 4, cpus=128)
    machine(api, "begun", *[16384] * 4, cpus=80)
    scheduler = start()
    pod = api.create_pod("whole", spec=asking(1, 16))
    assert first(scheduler, pod, ["begun"]) == "begun" and scheduler.bind(pod, "begun") == ""
    plain = api.create_pod("plain", spec=asking(20))
    scores = {entry["Host"]: entry["Score"] for entry in scheduler.verb("levels/prioritize", {
        "Pod": plain, "Nodes": None, "NodeNames": ["free", "begun"]})}
    assert scores == {"free": 9, "begun": 10}


def test_why_says_what_would_be_left(api, start):
    """Of 48 CPUs for 4 GPUs, 24 stay, and 3.75 GPUs. The mean of what is left is 12, for 24 + 69 CPUs and 7.75 GPUs; that of both nodes is 14.6, so CPU is
    short. 24 CPUs are enough for 2 GPUs."""
    machine(api, "n", *[16384] * 4)
    machine(api, "other", *[16384] * 4, cpus=69)
    api.create_pod("others", node="n", spec=asking(23))
    scheduler = start()
    pod = api.create_pod("p", spec=asking(1, 4))
    assert first(scheduler, pod, ["n"]) == "n"
    left = json.loads(scheduler.http("GET", "/why?namespace=default&name=p")[1])["nodes"][0]["left"]
    assert (left["gpuMilli"], left["cpuMilli"], left["memoryMiB"]) == (3750, 24000, (192 - 8) << 10)
    assert left["strandedMilli"] == 1750


def test_the_sentences_of_ration_why_say_why_the_chosen_node_comes_first(api, start, person):
    """The mean of what is left is 12 CPUs for a GPU, (36 + 25 + 80) / 11.75; that of all nodes is 14.7, so CPU is short. The roomy node keeps 36 CPUs for 3.75 GPUs, which are enough
    for 3; the crowded node keeps 13, for 1.08."""
    for name in "crowded", "roomy":
        machine(api, name, *[16384] * 4)
    machine(api, "other", *[16384] * 4, cpus=80)
    api.create_pod("others", node="crowded", spec=asking(23))
    scheduler = start()
    pod = api.create_pod("p", spec=asking(12, 4))
    assert first(scheduler, pod, ["crowded", "roomy"]) == "roomy"
    person.world(scheduler)

    def sentence(name):
        """The line below the node's own."""
        return re.search(rf"^Node {name} \(binpack, unit GiB\).*\n(.*)$", person.why("p", "--node", name), re.M)[1]
    roomy = "  Beside the pod, 3.75 GPUs, 36 CPUs and 188 GiB of memory would stay free, too little CPU or memory for 0.75 of these GPUs."
    assert sentence("roomy") == roomy    # the place that is held there for the pod is not counted twice
    assert sentence("crowded") == ("  Beside the pod, 3.75 GPUs, 13 CPUs and 184 GiB of memory would stay free, too little CPU or memory for "
                                   "2.66 of these GPUs.")
    assert "best first: roomy, crowded" in person.why("p")


def test_ration_why_names_no_lack_where_each_free_gpu_has_enough(api, start, person):
    machine(api, "n", *[16384] * 4)
    machine(api, "small", 16384, cpus=4, gib=16)    # so the mean is 10.4 CPUs and 41.6 GiB for a GPU
    scheduler = start()
    pod = api.create_pod("p", spec=asking(1, 4))
    assert first(scheduler, pod, ["n"]) == "n"
    person.world(scheduler)
    assert "  Beside the pod, 3.75 GPUs, 47 CPUs and 188 GiB of memory would stay free.\n" in person.why("p")


def only(model, key=NAME):
    """What the spec of a pod says that can use only GPUs of this model."""
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [model]}]}]}}}}


def test_a_pod_for_any_model_leaves_the_gpus_that_waiting_pods_need(api, start):
    """Both nodes are alike, and the name decides until a pod waits that can use only one model. When it is gone, the name decides again. The
    history that the scheduler has recorded is replayed after the test."""
    machine(api, "a", *[16384] * 4, labels={NAME: "V100"})
    machine(api, "b", *[16384] * 4, labels={NAME: "T4"})
    scheduler = start()
    pod = api.create_pod("p", spec=asking(1, 4))
    assert first(scheduler, pod, ["a", "b"]) == "a"
    api.create_pod("needs", spec=asking(1, 4, nodeSelector={NAME: "V100"}))
    assert wait_for(lambda: first(scheduler, pod, ["a", "b"]) == "b", 5)
    api.delete("pods", "needs")
    assert wait_for(lambda: first(scheduler, pod, ["a", "b"]) == "a", 5)


@pytest.mark.parametrize("labels, spec", [({PRODUCT: "V100"}, {"nodeSelector": {PRODUCT: "V100"}}), ({NAME: "V100"}, only("V100")),
                                          ({NAME: "V100", PRODUCT: "V100-SHARED"}, only("V100-SHARED", PRODUCT))])
def test_a_model_is_named_by_either_label(api, start, labels, spec):
    machine(api, "a", *[16384] * 4, labels=labels)
    machine(api, "b", *[16384] * 4)
    api.create_pod("needs", spec=asking(1, 4, **spec))
    scheduler = start()
    pod = api.create_pod("p", spec=asking(1, 4))
    assert first(scheduler, pod, ["a", "b"]) == "b"


def test_a_running_pod_that_names_a_model_counts_as_a_waiting_one(api, start):
    """It has its place, but the next one like it needs one, too. A pod on the other node takes as much, so that the name would decide."""
    machine(api, "a", *[16384] * 4, labels={NAME: "V100"})
    machine(api, "b", *[16384] * 4, labels={NAME: "T4"})
    scheduler = start()
    for name, node, more in ("other", "b", {}), ("needs", "a", {"nodeSelector": {NAME: "V100"}}):
        pod = api.create_pod(name, spec=asking(1, 4, **more))
        assert first(scheduler, pod, [node]) == node and scheduler.bind(pod, node) == ""
    assert first(scheduler, api.create_pod("p", spec=asking(1, 4)), ["a", "b"]) == "b"


def test_a_pod_that_asks_for_more_than_any_gpu_spares_no_more_than_its_model(api, start):
    """Its 10^9 units count as all GPUs of its model; what the others ask for of another model still counts beside it."""
    machine(api, "a", *[16384] * 4, labels={NAME: "V100"})
    machine(api, "b", *[16384] * 4, labels={NAME: "T4"})
    machine(api, "c", *[16384] * 4, labels={NAME: "A10"})
    api.create_pod("huge", spec=asking(1, 10 ** 9, nodeSelector={NAME: "V100"}))
    api.create_pod("needs", spec=asking(1, 8, nodeSelector={NAME: "T4"}))
    scheduler = start()
    pod = api.create_pod("p", spec=asking(1, 4))
    assert scheduler.filter(pod, ["a", "b", "c"])["NodeNames"] == ["c", "b", "a"]


def test_with_the_order_fullest_no_model_is_spared(api, start):
    machine(api, "a", *[16384] * 4, labels={NAME: "V100"})
    machine(api, "b", *[16384] * 4, labels={NAME: "T4"})
    api.create_pod("needs", spec=asking(1, 4, nodeSelector={NAME: "V100"}))
    scheduler = start("--node-order", "fullest")
    assert first(scheduler, api.create_pod("p", spec=asking(1, 4)), ["a", "b"]) == "a"


def test_ration_why_says_which_node_was_spared(api, start, person):
    """The waiting pod asks for 16 of 64 units of its model: for a quarter. Where the choice is the same without scarcity, nothing is said."""
    machine(api, "a", *[16384] * 4, labels={NAME: "V100"})
    machine(api, "b", *[16384] * 4, labels={NAME: "T4"})
    api.create_pod("needs", spec=asking(1, 16, nodeSelector={NAME: "V100"}))
    scheduler = start()
    pod, other = api.create_pod("p", spec=asking(1, 4)), api.create_pod("q", spec=asking(1, 4))
    assert first(scheduler, pod, ["a", "b"]) == "b" and scheduler.bind(pod, "b") == ""
    assert first(scheduler, other, ["b", "a"]) == "b"
    person.world(scheduler)
    said = "node a would come first if pods that can use no GPUs but V100 did not ask for 25 % of these GPUs"
    assert said in person.why("p")
    assert "would come first" not in person.why("q")    # b is fuller than a


def test_another_order_is_refused():
    program = BUILD / "src/scheduler/ration-scheduler"
    done = subprocess.run([program, "--node-order", "random"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--node-order" in done.stderr and "balanced" in done.stderr and "fullest" in done.stderr
