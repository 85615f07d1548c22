"""ration-agent on a topology node: whole cards and their links, and what a container gets of them."""
import json

import pytest

from agent_fixture import NODE, World, wait_for
from fake_kubelet import WHOLE, AdmissionError, StartError

TOPOLOGY = {"ack.node.gpu.schedule": "topology"}
# nvidia-smi topo -m on a DGX-1 with V100s, its first row
FIRST_ROW = ["X", "NV1", "NV1", "NV2", "NV2", "SYS", "SYS", "SYS"]


def node(links="dgx1-v100", **more):
    return World(cards="8x16160MiB", labels=TOPOLOGY, links=links, **more)


def up(w, cards=8):
    w.kubelet.start()
    w.start_agent()
    w.kubelet.wait_devices(cards, of=w.kubelet.whole)
    wait_for(lambda: annotations(w).get("ration.dev/mode") == "topology")
    return w


@pytest.fixture
def world():
    with node() as w:
        yield up(w)


def annotations(w):
    return w.api.node(NODE)["metadata"]["annotations"]


def whole_pod(w, name, visible=(), **cards):
    """cards: container -> indices; those that the placement names."""
    placed = {container: [{"uuid": w.uuid(i), "units": 1} for i in indices] for container, indices in cards.items()}
    placement = {"unit": 1024, "containers": placed}
    if visible:
        placement["visible"] = [w.uuid(i) for i in visible]
    spec = {"containers": [{"name": c, "image": "example", "resources": {"limits": {WHOLE: str(len(i))}}}
                           for c, i in cards.items()]}
    return w.api.create_pod(name, node=NODE, spec=spec, annotations={"ration.dev/placement": json.dumps(placement)})


def run(w, pod, container="main"):
    w.kubelet.admit(pod)
    return w.kubelet.run(pod, container)


def nvidia(w, indices):
    return {f"/dev/nvidia{i}" for i in indices} | {"/dev/nvidiactl", "/dev/nvidia-uvm"}


def given(container):
    """Devices, as nodes or, where mknod is not allowed, as mounts."""
    return {path for path in [*container.devices, *container.mounts] if path.startswith("/dev/nvidia")}


def test_topology_node_offers_its_cards_and_nothing_else(world):
    assert world.kubelet.devices == {} and len(world.kubelet.whole.devices) == 8
    assert "aliyun.com/gpu-count" not in world.api.node(NODE)["status"]["capacity"]
    request = world.kubelet.whole.registrations[0][1]
    assert (request.resource_name, request.version) == (WHOLE, "v1beta1")
    assert request.options.pre_start_required and not world.kubelet.whole.topology
    cards = json.loads(annotations(world)["ration.dev/gpus"])
    assert cards[0]["links"] == FIRST_ROW and {c["nvlinkGBps"] for c in cards} == {25}


def test_links_are_in_the_config_map_that_arena_reads(world):
    """ack-facts 4.4; arena's pkg/topnode/gputopology.go: N-A on the diagonal, and a key that lacks a letter."""
    name = f"gpu-topology-{NODE}"
    wait_for(lambda: name in [each["metadata"]["name"] for each in world.api.list("configmaps")])
    made = world.api.get("configmaps", name, "kube-system")
    labels = made["metadata"]["labels"]
    assert labels["ack.node.gpu.schedule"] == "topology" and labels["nodename"] == NODE
    assert made["metadata"]["ownerReferences"][0]["uid"] == world.api.node(NODE)["metadata"]["uid"]
    data = {key: json.loads(text) for key, text in made["data"].items()}
    assert data["devices"] == {str(i): "Healthy" for i in range(8)}
    assert data["linkType"][0] == ["N-A", *FIRST_ROW[1:]]
    assert data["bandwidth"][0] == [0, 25, 25, 50, 50, 6, 6, 6] and data["bandwith"] == data["bandwidth"]
    world.sim("fault", 3, "lost")
    wait_for(lambda: json.loads(world.api.get("configmaps", name, "kube-system")["data"]["devices"])["3"] == "Unhealthy")


@pytest.mark.waits    # the agent tries again after 30 s
def test_config_map_that_cannot_be_written_is_told_and_written_later():
    with node() as w:
        refusal = w.api.inject("PATCH", f"/configmaps/gpu-topology-{NODE}$", times=1, status=403, message="not yet")
        up(w)
        wait_for(lambda: refusal.times == 0)
        wait_for(lambda: [c["metadata"]["name"] for c in w.api.list("configmaps")] == [f"gpu-topology-{NODE}"], 60)
        told, = [line for line in w.logged().splitlines() if "cannot write the ConfigMap" in line]
        assert f"kube-system/gpu-topology-{NODE}: " in told and "not yet" in told
        w.sim("fault", 3, "lost")    # it is written as before
        wait_for(lambda: '"3":"Unhealthy"' in w.api.list("configmaps")[0]["data"]["devices"].replace(" ", ""))


def test_pod_gets_the_cards_of_its_placement_and_sees_no_others(world):
    container = run(world, whole_pod(world, "a", main=[0, 3]))
    assert container.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert container.env["ALIYUN_COM_GPU_VISIBLE_DEVICES"] == f"{world.uuid(0)},{world.uuid(3)}"
    assert not [name for name in container.env if name.startswith("ALIYUN_COM_GPU_MEM") or name.startswith("CUDA")]
    assert given(container) == nvidia(world, [0, 3])
    wait_for(lambda: world.api.pod("a")["metadata"]["annotations"].get("ALIYUN_COM_GPU_MEM_ASSIGNED") == "true")


def test_ids_are_those_of_the_cards(world):
    """Only for the eye, but kubectl get --raw shows them."""
    pod = whole_pod(world, "a", main=[5, 7])
    world.kubelet.admit(pod)
    assert world.kubelet.whole.given[pod["metadata"]["uid"], "main"] == ["5-gpu", "7-gpu"]


def test_containers_of_a_pod_have_cards_of_their_own(world):
    pod = whole_pod(world, "two", a=[0, 1], b=[2])
    world.kubelet.admit(pod)
    assert given(world.kubelet.run(pod, "a")) == nvidia(world, [0, 1])
    assert given(world.kubelet.run(pod, "b")) == nvidia(world, [2])


def test_pod_of_a_job_sees_the_jobs_cards_behind_its_own(world):
    container = run(world, whole_pod(world, "worker-1", visible=[4, 7, 0, 3], main=[4, 7]))
    order = ",".join(world.uuid(i) for i in (4, 7, 0, 3))
    assert container.env["CUDA_VISIBLE_DEVICES"] == container.env["ALIYUN_COM_GPU_VISIBLE_DEVICES"] == order
    assert given(container) == nvidia(world, [0, 3, 4, 7])


def test_without_cdi_the_devices_come_in_the_answer():
    with node(cdi=False) as w:
        up(w)
        container = run(w, whole_pod(w, "a", main=[1, 2]))
        assert container.env["NVIDIA_VISIBLE_DEVICES"] == f"{w.uuid(1)},{w.uuid(2)}" and not container.cdi


def test_card_that_breaks_is_not_offered(world):
    world.sim("fault", 3, "lost")
    world.kubelet.wait_devices(7, of=world.kubelet.whole)
    assert world.kubelet.whole.devices["3-gpu"] == "Unhealthy"
    cards = wait_for(lambda: [c for c in json.loads(annotations(world)["ration.dev/gpus"]) if not c["healthy"]])
    assert [c["index"] for c in cards] == [3]


def test_card_that_breaks_under_a_pod_stays_its_device(world):
    """An id in use that gets sick would cost a running pod its container at the kubelet's next start."""
    run(world, whole_pod(world, "a", main=[3]))
    world.sim("fault", 3, "lost")
    wait_for(lambda: not json.loads(annotations(world)["ration.dev/gpus"])[3]["healthy"])
    world.has_read_node()
    assert set(world.kubelet.whole.devices.values()) == {"Healthy"}


def test_pod_that_nobody_placed_does_not_start(world):
    spec = {"containers": [{"name": "main", "image": "example", "resources": {"limits": {WHOLE: "2"}}}]}
    lost = world.api.create_pod("by-hand", node=NODE, spec=spec)
    world.kubelet.admit(lost)
    with pytest.raises(StartError, match="without a GPU being chosen"):
        world.kubelet.run(lost, "main")


def test_card_is_never_given_twice(world):
    """The scheduler would not; a forged placement might."""
    run(world, whole_pod(world, "a", main=[2]))
    with pytest.raises(AdmissionError, match="has 1 units, with this pod its pods would hold 2"):
        world.kubelet.admit(whole_pod(world, "b", main=[2, 4]))


@pytest.mark.parametrize("killed", ["worker", "agent", "kubelet"])
def test_pods_keep_their_cards_when_something_dies(world, killed):
    first = whole_pod(world, "a", main=[0, 3])
    run(world, first)
    if killed == "worker":
        world.kill_worker()
    elif killed == "agent":
        world.kill_agent()
        world.start_agent()
    else:
        world.kubelet.stop()
        world.kubelet.start()
    world.kubelet.wait_devices(8, of=world.kubelet.whole)
    again = world.kubelet.run(first, "main")       # started again
    assert given(again) == nvidia(world, [0, 3])
    assert given(run(world, whole_pod(world, "b", main=[1, 2]))) == nvidia(world, [1, 2])
    cards = json.loads(annotations(world)["ration.dev/gpus"])
    assert cards[0]["links"] == FIRST_ROW


def test_mode_changes_when_the_last_pod_has_ended(world):
    pod = whole_pod(world, "a", main=[0])
    run(world, pod)
    world.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.schedule": "share"}}})
    wait_for(lambda: annotations(world).get("ration.dev/mode-pending") == "share")
    assert annotations(world)["ration.dev/mode"] == "topology" and len(world.kubelet.whole.devices) == 8
    world.kubelet.end(pod)
    world.kubelet.remove(pod)
    world.api.set_phase("a", "Succeeded")
    world.kubelet.wait_devices(120)                 # 8 x 15 units
    wait_for(lambda: not world.kubelet.whole.devices)
    assert "links" not in annotations(world)["ration.dev/gpus"]
    world.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.schedule": "topology"}}})
    world.kubelet.wait_devices(8, of=world.kubelet.whole, timeout=15)
    wait_for(lambda: not world.kubelet.devices)


def test_a_call_that_is_taken_for_another_pods_or_containers_gives_each_its_own_cards(world):
    """By the kubelet's checkpoint: test_agent_answers.py."""
    one, two = whole_pod(world, "one", main=[0, 1]), whole_pod(world, "two", main=[2, 3])
    world.kubelet.admit(two, listed=one)
    assert given(world.kubelet.run(two, "main")) == nvidia(world, [2, 3])
    world.kubelet.remove(one)
    assert given(run(world, one)) == nvidia(world, [0, 1])
    pod = whole_pod(world, "both", a=[4], b=[5])
    world.kubelet.admit(pod)
    uid, answers = pod["metadata"]["uid"], world.kubelet.answers
    answers[uid, "a"], answers[uid, "b"] = answers[uid, "b"], answers[uid, "a"]
    world.kubelet.write_checkpoint()
    for _ in range(2):
        assert given(world.kubelet.run(pod, "b")) == nvidia(world, [5])
        assert given(world.kubelet.run(pod, "a")) == nvidia(world, [4])
