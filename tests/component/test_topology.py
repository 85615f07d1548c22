"""Pods that ask for whole cards (aliyun.com/gpu), as ration-scheduler places them by their links."""
import json
import random

import pytest

from explanations import known
from fake_apiserver import wait_for
from histories import SEED, kinds, replay, save, sums
from listings import node
from scheduler_fixture import gpu_node, placement_of

# nvidia-smi topo -m: DGX-1 with V100s, and eight cards on four PCIe switches of two processors
DGX1 = """X NV1 NV1 NV2 NV2 SYS SYS SYS
NV1 X NV2 NV1 SYS NV2 SYS SYS
NV1 NV2 X NV2 SYS SYS NV1 SYS
NV2 NV1 NV2 X SYS SYS SYS NV1
NV2 SYS SYS SYS X NV1 NV1 NV2
SYS NV2 SYS SYS NV1 X NV2 NV1
SYS SYS NV1 SYS NV1 NV2 X NV2
SYS SYS SYS NV1 NV2 NV1 NV2 X"""
PCIE = "\n".join(" ".join("X" if a == b else "PIX" if a // 2 == b // 2 else "NODE" if a // 4 == b // 4 else "SYS"
                          for b in range(8)) for a in range(8))


def inventory(name, layout, broken=()):
    return json.dumps([{"index": i, "uuid": f"GPU-{name}-{i}", "model": "Tesla V100-SXM2-16GB", "mib": 16160,
                        "healthy": i not in broken, "links": row.split(), "nvlinkGBps": 25}
                       for i, row in enumerate(layout.split("\n"))])


def whole_node(api, name, layout=DGX1, broken=()):
    return api.create_node(name, annotations={"ration.dev/gpus": inventory(name, layout, broken), "ration.dev/unit": "1024",
                                              "ration.dev/mode": "topology"})


def whole_pod(api, name, cards, job=None, replicas=1, **more):
    labels = {"gpu-topology": job, "gpu-topology-replica": str(replicas)} if job else {}
    spec = {"containers": [{"name": "main", "image": "example", "resources": {"limits": {"aliyun.com/gpu": str(cards)}}}]}
    return api.create_pod(name, spec=spec, labels=labels, **more)


def place(scheduler, pod, name):
    assert scheduler.filter(pod, [name])["NodeNames"] == [name]
    assert scheduler.bind(pod, name) == ""


def group(api, name, key="gpu-group"):
    return api.pod(name)["metadata"]["annotations"][f"topology.kubernetes.io/{key}"]


def test_two_pods_of_four_get_the_quads_of_a_dgx1_and_bind_writes_the_contract(api, start):
    whole_node(api, "n1")
    scheduler = start()
    for name in ("a", "b"):
        place(scheduler, whole_pod(api, name, 4), "n1")
    assert (group(api, "a"), group(api, "b")) == ("0,1,2,3", "4,5,6,7")
    assert group(api, "a", "gpu-visible") == "0,1,2,3"
    assert placement_of(api, "a")["containers"] == {"main": [{"uuid": f"GPU-n1-{i}", "units": 1} for i in range(4)]}
    annotations = api.pod("a")["metadata"]["annotations"]
    assert not [key for key in annotations if "gpushare" in key or key in ("ration.dev/unit", "ALIYUN_COM_GPU_MEM_IDX")]
    assert annotations["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "false"
    answer = scheduler.filter(whole_pod(api, "c", 1), ["n1"])
    assert answer["FailedNodes"] | answer["FailedAndUnresolvableNodes"] == {"n1": "GPU node has fewer than 1 GPUs free"}


def test_a_broken_card_is_left_out(api, start):
    whole_node(api, "n1", broken=(2,))
    scheduler = start()
    assert scheduler.filter(whole_pod(api, "all", 8), ["n1"])["NodeNames"] == []
    place(scheduler, whole_pod(api, "four", 4), "n1")
    assert group(api, "four") == "4,5,6,7"


def test_the_best_connected_node_comes_first(api, start):
    whole_node(api, "pcie", PCIE)
    whole_node(api, "dgx", DGX1)
    scheduler = start()
    assert scheduler.filter(whole_pod(api, "p", 2), ["pcie", "dgx"])["NodeNames"] == ["dgx", "pcie"]


@pytest.mark.parametrize("limits, words", [
    ({"aliyun.com/gpu": "1"}, "GPU node does not give whole GPUs"),
    ({"aliyun.com/gpu": "1", "aliyun.com/gpu-mem": "2"},
     'container "main": aliyun.com/gpu is not possible in a pod that asks for aliyun.com/gpu-mem too')])
def test_what_a_share_node_says(api, start, limits, words):
    gpu_node(api, "n1", 16160)
    scheduler = start()
    pod = api.create_pod("p", spec={"containers": [{"name": "main", "image": "example", "resources": {"limits": limits}}]})
    answer = scheduler.filter(pod, ["n1"])
    assert answer["FailedNodes"] | answer["FailedAndUnresolvableNodes"] == {"n1": words}


def test_a_share_of_a_card_is_nothing_for_a_topology_node(api, start):
    whole_node(api, "n1")
    scheduler = start()
    answer = scheduler.filter(api.create_pod("p", gpu_mem=1), ["n1"])
    assert answer["FailedAndUnresolvableNodes"] == {"n1": "GPU sharing mode does not fit"}


def test_the_ledger_is_the_same_after_a_restart(api, start):
    whole_node(api, "n1")
    place(start(), whole_pod(api, "a", 2), "n1")
    later = start()
    assert later.used() == {"n1": [1, 0, 0, 1, 0, 0, 0, 0]}
    place(later, whole_pod(api, "b", 4), "n1")
    assert group(api, "b") == "4,5,6,7"
    api.delete("pods", "a")
    wait_for(lambda: later.used() == {"n1": [0, 0, 0, 0, 1, 1, 1, 1]})


def test_pods_of_a_job_see_each_others_cards_and_nobody_elses(api, start):
    """Once all are placed the job is what it was planned as; who is bound first cannot see who comes later."""
    whole_node(api, "n1")
    scheduler = start()
    place(scheduler, whole_pod(api, "stranger", 2, job="mpi", namespace="elsewhere"), "n1")
    pods = [whole_pod(api, name, 2, job="mpi") for name in ("w0", "w1")]
    for pod in pods:
        place(scheduler, pod, "n1")
    visible = placement_of(api, "w1")["visible"]
    own = [card["uuid"] for card in placement_of(api, "w1")["containers"]["main"]]
    assert visible[:2] == own
    assert sorted(visible) == sorted(own + [card["uuid"] for card in placement_of(api, "w0")["containers"]["main"]])


def visible(api, name):
    return placement_of(api, name).get("visible", [])


def cards(api, name):
    return [card["uuid"] for card in placement_of(api, name)["containers"]["main"]]


@pytest.mark.parametrize("restart", [False, True])
def test_a_running_pod_that_is_labelled_into_a_job_shows_the_job_no_gpus(api, start, restart):
    whole_node(api, "n1")
    scheduler = start()
    place(scheduler, whole_pod(api, "stranger", 2), "n1")
    api.patch("pods", "stranger", {"metadata": {"labels": {"gpu-topology": "mpi"}}}, "default")
    scheduler = start() if restart else scheduler
    place(scheduler, whole_pod(api, "w0", 2, job="mpi"), "n1")
    assert visible(api, "w0") == []


@pytest.mark.parametrize("label", [None, "other"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_pod_of_a_job_stays_one_whatever_its_labels_say_later(api, start, restart, label):
    whole_node(api, "n1")
    scheduler = start()
    place(scheduler, whole_pod(api, "w0", 2, job="mpi"), "n1")
    api.patch("pods", "w0", {"metadata": {"labels": {"gpu-topology": label}}}, "default")
    scheduler = start() if restart else scheduler
    place(scheduler, whole_pod(api, "w1", 2, job="mpi"), "n1")
    assert visible(api, "w1") == cards(api, "w1") + cards(api, "w0")
    place(scheduler, whole_pod(api, "o", 2, job="other"), "n1")
    assert visible(api, "o") == []


def test_a_waiting_pod_that_gets_another_job_sees_the_gpus_of_the_new_one(api, start):
    whole_node(api, "n1")
    scheduler = start()
    place(scheduler, whole_pod(api, "old", 2, job="old"), "n1")
    place(scheduler, whole_pod(api, "new", 2, job="new"), "n1")
    whole_pod(api, "p", 2, job="old")
    wait_for(lambda: known(scheduler, "p"))
    api.patch("pods", "p", {"metadata": {"labels": {"gpu-topology": "new"}}}, "default")
    whole_pod(api, "later", 1)
    wait_for(lambda: known(scheduler, "later"))
    place(scheduler, api.pod("p"), "n1")
    assert visible(api, "p") == cards(api, "p") + cards(api, "new")


def test_a_pod_of_a_job_that_an_older_scheduler_bound_counts_by_its_label(api, start):
    whole_node(api, "n1")
    placement = {"unit": 1, "containers": {"main": [{"uuid": "GPU-n1-0", "units": 1}]}}
    whole_pod(api, "w0", 1, job="mpi", node="n1", annotations={"ration.dev/placement": json.dumps(placement)})
    scheduler = start()
    place(scheduler, whole_pod(api, "w1", 1, job="mpi"), "n1")
    assert visible(api, "w1") == cards(api, "w1") + ["GPU-n1-0"]


def test_why_tells_about_links(api, start, person):
    whole_node(api, "n1")
    scheduler = start()
    place(scheduler, whole_pod(api, "a", 2), "n1")
    person.world(scheduler)
    text = person.why("a")
    assert "It asks for 2 whole GPUs (aliyun.com/gpu)." in text
    assert "Chosen: of 8 GPUs with room those whose best ring has the fastest slowest link, " in text
    assert "  GPU 0: taken; held by default/a\n  GPU 1: free\n" in text and "Links:" not in text
    pod = whole_pod(api, "waits", 4)
    wait_for(lambda: known(scheduler, "waits"))
    person.world(scheduler)
    text = person.why("waits")
    assert "Links: the first choices have a ring with 25 GB/s at its slowest link, and 225 GB/s between all pairs" in text
    assert "Node n1 (whole GPUs): fits\n" in text and "  GPU 4: free, choice 1\n" in text and pod


def test_inspect_shows_the_matrix_and_who_has_which(cluster):
    made = node("n1", "10.0.0.1", 16160, mode="topology")
    made["metadata"]["annotations"]["ration.dev/gpus"] = inventory("n1", DGX1, broken=(6,))
    spec = {"nodeName": "n1", "containers": [{"name": "main", "resources": {"limits": {"aliyun.com/gpu": "2"}}}]}
    placed = {"unit": 1024, "containers": {"main": [{"uuid": f"GPU-n1-{i}", "units": 1} for i in (0, 3)]}}
    cluster.set([made], [{"metadata": {"name": "a", "namespace": "default", "uid": "u", "annotations": {
        "ration.dev/placement": json.dumps(placed)}}, "spec": spec, "status": {"phase": "Running"}}])
    assert cluster.show("--topology") == """\
NAME:       n1
IPADDRESS:  10.0.0.1

      GPU0  GPU1  GPU2  GPU3  GPU4  GPU5  GPU6  GPU7  ALLOCATED  HEALTH
GPU0  X     NV1   NV1   NV2   NV2   SYS   SYS   SYS   1/1        healthy
GPU1  NV1   X     NV2   NV1   SYS   NV2   SYS   SYS   0/1        healthy
GPU2  NV1   NV2   X     NV2   SYS   SYS   NV1   SYS   0/1        healthy
GPU3  NV2   NV1   NV2   X     SYS   SYS   SYS   NV1   1/1        healthy
GPU4  NV2   SYS   SYS   SYS   X     NV1   NV1   NV2   0/1        healthy
GPU5  SYS   NV2   SYS   SYS   NV1   X     NV2   NV1   0/1        healthy
GPU6  SYS   SYS   NV1   SYS   NV1   NV2   X     NV2   0/1        unhealthy
GPU7  SYS   SYS   SYS   NV1   NV2   NV1   NV2   X     0/1        healthy

NAME  NAMESPACE  GPUS
a     default    0,3

Allocated/Total GPUs In Cluster:
2/8 (25%)
"""
    shown = json.loads(cluster.show("--topology", "-o", "json"))
    assert shown["nodes"][0]["gpus"][0]["links"] == DGX1.split("\n")[0].split()
    assert b"no node shares GPU memory" in cluster.run().stderr


def test_a_day_of_whole_cards_is_never_over_and_replays_as_recorded(api, start, tmp_path):
    """Pods and jobs come, are bound, end, are deleted by force; cards break and are mended; links change."""
    rng = random.Random(SEED)
    layouts = [DGX1, PCIE]
    for i, layout in enumerate(layouts):
        whole_node(api, f"n{i}", layout)
    scheduler = start()
    waiting, bound, bindings, ghosts = [], [], 0, 0
    for step in range(120):
        job = rng.choice([None, None, "j1", "j2"])
        waiting.append(whole_pod(api, f"p{step}", rng.choice([1, 2, 2, 3, 4, 8]), job=job))
        pod = rng.choice(waiting)
        names = scheduler.filter(pod, ["n0", "n1"]).get("NodeNames")
        if names and scheduler.bind(pod, names[0]) == "":
            bound.append(pod)
            waiting.remove(pod)
            bindings += 1
        if len(bound) > 3 or bound and not names and rng.random() < 0.3:
            gone = bound.pop(rng.randrange(len(bound)))["metadata"]["name"]
            if ghosts < 2 and rng.random() < 0.3:    # no agent reports that its containers end: it keeps its GPUs
                ghosts += 1
                api.patch("pods", gone, {"status": {"phase": "Running", "containerStatuses": [
                    {"name": "main", "state": {"running": {}}}]}})
            api.delete("pods", gone)
        if step % 10 == 0:
            i, broken = rng.randrange(2), rng.sample(range(8), rng.randrange(3))
            api.patch("nodes", f"n{i}", {"metadata": {"annotations": {
                "ration.dev/gpus": inventory(f"n{i}", rng.choice(layouts), broken)}}})
    assert not scheduler.filter(whole_pod(api, "too-many", 100), ["n0", "n1"]).get("NodeNames")
    lines = save(scheduler, tmp_path / "history")
    sums(replay(tmp_path / "history"))
    gave = kinds(lines, "gave")
    assert gave["filter"] > 100 and gave["binding"] >= bindings > 8
    assert scheduler.inspect()["overcommittedGPUs"] == 0
