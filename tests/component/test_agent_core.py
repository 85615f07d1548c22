"""ration-agent on a core_mem node: a second resource beside gpu-mem, and what a container with a percentage gets."""
import json
import os
import struct
import time

import grpc
import pytest

import grants
from agent_fixture import NODE, World, assert_within, wait_for
from fake_kubelet import CORE, AdmissionError, StartError, msg

CORE_MEM = {"ack.node.gpu.schedule": "core_mem"}
LIVE = 2520 + grants.CARDS_MAX * 256

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the agent mounts file systems, which needs root")


def node(cards="4x16160MiB", **more):
    return World(cards=cards, labels=CORE_MEM, **more)


@pytest.fixture
def world():
    with node() as w:
        w.up(60)
        w.kubelet.wait_devices(400, of=w.kubelet.core)
        yield w


def annotations(world):
    return world.api.node(NODE)["metadata"]["annotations"]


def placement(world, card, **containers):
    """containers: name -> (units, core)."""
    return {"ration.dev/unit": "1024", "ration.dev/placement": json.dumps({"unit": 1024, "containers": {
        name: [{"uuid": world.uuid(card), "units": units} | ({"core": core} if core else {})]
        for name, (units, core) in containers.items()}})}


def pod(world, name, units, core, card=0, placed=None, **more):
    """placed: another percentage in the placement than in the spec."""
    return world.api.create_pod(name, gpu_mem=units, gpu_core=core, node=NODE, annotations=placement(
        world, card, main=(units, core if placed is None else placed)), **more)


def start(world, name, units, core, card=0):
    made = pod(world, name, units, core, card)
    world.kubelet.admit(made)
    return made, world.kubelet.run(made, "main")


def live(world, made, offset, container="main"):
    data = (world.state / "grants" / made["metadata"]["uid"] / container / "grant").read_bytes()
    return struct.unpack_from("<Q", data, LIVE + offset)[0]


def test_node_of_the_documents_has_60_units_and_400_percent(world):
    """seeds/4: allocatable gpu-core.percentage "400", gpu-count "4", gpu-mem "60"."""
    assert len(world.kubelet.devices) == 60 and len(world.kubelet.core.devices) == 400
    wait_for(lambda: world.api.node(NODE)["status"]["capacity"].get("aliyun.com/gpu-count") == "4")
    assert world.api.node(NODE)["status"]["allocatable"]["aliyun.com/gpu-count"] == "4"
    wait_for(lambda: annotations(world).get("ration.dev/mode") == "core_mem")
    request = world.kubelet.core.registrations[0][1]
    assert (request.resource_name, request.version) == (CORE, "v1beta1")
    assert not request.options.pre_start_required and not request.options.get_preferred_allocation_available
    assert not world.kubelet.core.options.pre_start_required
    assert not world.kubelet.core.topology
    assert set(world.kubelet.core.devices.values()) == {"Healthy"}


@pytest.mark.parametrize("core_first", [False, True])
def test_container_with_a_percentage_is_held_to_memory_and_computing_power(world, core_first):
    world.kubelet.core_first = core_first
    made, container = start(world, "a", 2, 30, card=1)
    assert container.env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "2" and container.env["ALIYUN_COM_GPU_MEM_IDX"] == "1"
    assert live(world, made, 16) == 2154 << 20      # limit of memory: floor(16160 x 2 / 15) MiB
    wait_for(lambda: live(world, made, 40) == 300000, timeout=2)    # core_share in millionths of the card
    answer, = world.kubelet.core.answers
    assert not answer.envs and not answer.mounts and not answer.devices and not answer.cdi_devices


def test_three_pods_of_a_card_are_told_apart_whatever_order_the_kubelet_asks_in(world):
    made = []
    for i in range(12):
        world.kubelet.core_first = bool(i % 2)
        made.append(start(world, f"p{i}", 2, 30, card=i // 3))
    for i, (_, container) in enumerate(made):
        assert container.env["ALIYUN_COM_GPU_MEM_IDX"] == str(i // 3)
    held = [i for ids in world.kubelet.core.given.values() for i in ids]
    assert len(held) == len(set(held)) == 360


def test_pod_whose_placement_lacks_its_percentage_is_refused(world):
    made = pod(world, "forged", 2, 30, placed=0)
    world.kubelet.admit(made)
    with pytest.raises(StartError, match="schedulerName"):
        world.kubelet.run(made, "main")
    more = pod(world, "less", 2, 30, placed=5)
    world.kubelet.admit(more)
    with pytest.raises(StartError, match="schedulerName"):
        world.kubelet.run(more, "main")


def test_pod_that_was_bound_by_hand_with_a_percentage_that_is_none_is_told_apart_and_refused(world):
    """Admission let it through: the kubelet asks for its devices like for any other's."""
    by_hand = world.api.create_pod("seven", gpu_mem=2, gpu_core=7, node=NODE)
    world.kubelet.admit(by_hand)
    with pytest.raises(StartError, match='container "main": aliyun.com/gpu-core.percentage is 7: must be a multiple of 5'):
        world.kubelet.run(by_hand, "main")
    world.kubelet.admit(world.api.create_pod("points-only", gpu_core=30, node=NODE))
    start(world, "right", 2, 30)


def test_card_over_its_100_percent_is_the_last_line(world):
    """Two schedulers at a change of the leader."""
    start(world, "a", 2, 60)
    with pytest.raises(AdmissionError, match="has 100 percent of computing power, with this pod its pods would hold 105"):
        world.kubelet.admit(pod(world, "b", 2, 45))
    start(world, "c", 2, 40)


@pytest.mark.parametrize("core_first", [False, True])
def test_several_containers_with_and_without_a_percentage(world, core_first):
    def entry(name, units, core):
        limits = {"aliyun.com/gpu-mem": str(units)} | ({CORE: str(core)} if core else {})
        return {"name": name, "image": "example", "resources": {"limits": limits}}
    containers = {"init": (1, 50), "first": (2, 30), "second": (1, 0)}
    made = world.api.create_pod("many", node=NODE, annotations=placement(world, 2, **containers), spec={
        "initContainers": [entry("init", *containers["init"])],
        "containers": [entry(name, *containers[name]) for name in ("first", "second")]})
    world.kubelet.core_first = core_first
    world.kubelet.admit(made)
    for name in containers:
        assert world.kubelet.run(made, name).env["ALIYUN_COM_GPU_MEM_IDX"] == "2"
    assert sorted(len(ids) for ids in world.kubelet.core.given.values()) == [30, 50]


def test_sick_card_has_no_points_but_those_in_use_stay_healthy(world):
    made, _ = start(world, "a", 2, 30, card=1)
    world.sim("fault", 1, "lost")
    world.kubelet.wait_devices(330, of=world.kubelet.core, timeout=15)
    core = world.kubelet.core
    assert all(core.devices[i] == "Healthy" for i in core.given[made["metadata"]["uid"], "main"])
    assert list(core.devices.values()).count("Unhealthy") == 70
    world.kubelet.wait_devices(47)
    # What was answered just now is in use too, though no checkpoint says so yet.
    world.kubelet.core_first = True
    late, _ = start(world, "late", 2, 100, card=0)
    time.sleep(1.2)
    assert all(core.devices[i] == "Healthy" for i in core.given[late["metadata"]["uid"], "main"])
    world.sim("fault", 1, "heal")
    world.kubelet.wait_devices(400, of=core, timeout=15)


def test_restarted_kubelet_has_both_resources_within_50_ms_and_keeps_what_pods_hold(world):
    made, _ = start(world, "a", 2, 30)
    core = world.kubelet.core
    held, times = core.given[made["metadata"]["uid"], "main"], []
    for _ in range(9):
        n_core = core.updates
        for_memory = world.kubelet.restart()
        with world.kubelet.changed:
            assert world.kubelet.changed.wait_for(lambda: core.updates > n_core, 5)
        times.append(1000 * max(for_memory, core.devices_at - world.kubelet.started_at))
    assert_within(times, 50, beside_others=True)
    assert core.given[made["metadata"]["uid"], "main"] == held and set(held) <= set(core.devices)
    start(world, "b", 2, 70)


def test_points_of_a_pod_that_is_over_do_not_fail_the_first_pod_after_a_restart_of_the_kubelet(world):
    """The kubelet frees them only after its first batch: they are offered under other names."""
    made, _ = start(world, "a", 2, 100)
    for i in range(1, 4):
        start(world, f"other{i}", 2, 100, card=i)
    core = world.kubelet.core
    old = core.given[made["metadata"]["uid"], "main"]
    world.kubelet.stop()
    world.kubelet.end(made)
    world.api.set_phase("a", "Succeeded")
    time.sleep(0.5)
    n, n_core = world.kubelet.updates, core.updates
    world.kubelet.start()
    with world.kubelet.changed:
        assert world.kubelet.changed.wait_for(lambda: core.updates > n_core and world.kubelet.updates > n, 5)
    assert len(core.devices) == 400 and not set(old) & set(core.devices)
    start(world, "next", 2, 100)


def test_worker_that_is_killed_loses_nothing(world):
    start(world, "a", 2, 30)
    registrations = len(world.kubelet.core.registrations)
    for i in range(5):
        world.kill_worker()
        start(world, f"b{i}", 1, 10, card=1 + i % 2)
    assert len(world.kubelet.core.registrations) == registrations
    assert set(world.kubelet.core.devices.values()) == {"Healthy"}
    wait_for(lambda: "nothing to register (aliyun.com/gpu-core.percentage)" in world.logged())


def test_agent_that_is_started_again_offers_both(world):
    start(world, "a", 2, 30)
    world.kill_agent()
    world.start_agent()
    world.kubelet.wait_devices(60)
    world.kubelet.wait_devices(400, of=world.kubelet.core)
    start(world, "b", 2, 70)
    wait_for(lambda: annotations(world).get("ration.dev/serving") is None)


@pytest.mark.waits
def test_other_modes_do_not_offer_it_and_a_node_that_was_core_mem_has_none_left(world):
    world.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.schedule": "cgpu"}}})
    world.kubelet.wait_devices(0, of=world.kubelet.core)
    assert not world.kubelet.core.devices and len(world.kubelet.devices) == 60
    world.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.schedule": "core_mem"}}})
    world.kubelet.wait_devices(400, of=world.kubelet.core)


def test_mode_stays_while_pods_with_a_percentage_run(world):
    made, _ = start(world, "a", 2, 30)
    world.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.schedule": "share"}}})
    wait_for(lambda: annotations(world).get("ration.dev/mode-pending") == "share")
    assert len(world.kubelet.core.devices) == 400 and annotations(world)["ration.dev/mode"] == "core_mem"
    world.kubelet.end(made)
    world.api.set_phase("a", "Succeeded")
    world.kubelet.wait_devices(0, of=world.kubelet.core)
    wait_for(lambda: annotations(world).get("ration.dev/mode") == "share")


@pytest.mark.parametrize("mode", ["share", "cgpu", "default"])
def test_it_is_not_registered_where_no_mode_has_it(mode):
    with World(cards="1x16160MiB", labels={"ack.node.gpu.schedule": mode}) as w:
        w.kubelet.start()
        w.start_agent()
        if mode != "default":
            w.kubelet.wait_devices(15)
        w.has_read_node()
        assert not w.kubelet.core.registrations


def test_node_without_isolation_has_neither(world):
    with node(cdi=False) as w:
        w.kubelet.start()
        w.start_agent()
        wait_for(lambda: "ration.dev/problem" in annotations(w))
        assert "ration.dev/mode" not in annotations(w)


def test_calls_that_make_no_sense_are_refused_and_nothing_breaks(world):
    plugin = world.kubelet.core.plugin
    with pytest.raises(grpc.RpcError) as refused:
        plugin.call("Allocate", msg("AllocateRequest"), "AllocateResponse")
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    answer = plugin.call("Allocate", msg("AllocateRequest", container_requests=[
        msg("ContainerAllocateRequest", devices_ids=["nonsense", "", "9-9"]), msg("ContainerAllocateRequest")]),
        "AllocateResponse")
    assert len(answer.container_responses) == 2
    plugin.call("PreStartContainer", msg("PreStartContainerRequest", devices_ids=["0-0"]), "PreStartContainerResponse")
    plugin.call("GetPreferredAllocation", msg("PreferredAllocationRequest"), "PreferredAllocationResponse")
    start(world, "a", 2, 30)


def test_checkpoint_that_is_torn_changes_nothing(world):
    start(world, "a", 2, 30)
    world.kubelet.checkpoint.write_text('{"Data":')
    world.sim("fault", 3, "lost")
    world.kubelet.wait_devices(300, of=world.kubelet.core, timeout=15)
    start(world, "b", 2, 30, card=1)
    assert set(world.kubelet.core.devices) == {f"{card}-{n}" for card in range(4) for n in range(100)}
