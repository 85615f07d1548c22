"""Changes of a node's mode and memory unit: what pods came under stays until the last one has ended."""
import json
import os
import struct
import time

import pytest

from agent_fixture import NODE, World, wait_for
from fake_kubelet import GPU_COUNT

SCHEDULE = "ack.node.gpu.schedule"
CLOSED_S = 4     # TERMS_CLOSED_NS: how long a Binding may be on its way
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the agent mounts file systems, which needs root")


def annotations(world):
    return world.api.node(NODE)["metadata"]["annotations"]


def says(world, **wanted):
    """Underscores for hyphens; None: it is not there."""
    now = annotations(world)
    return all(now.get("ration.dev/" + key.replace("_", "-")) == value for key, value in wanted.items())


def relabel(world, value, label=SCHEDULE):
    world.api.patch("nodes", NODE, {"metadata": {"labels": {label: value}}})


def set_unit(world, unit):
    data = {"data": {"policy": "5", "gpuMemoryUnit": unit}}
    if world.api.list("configmaps"):
        world.api.patch("configmaps", "ration-policy", data, "kube-system")
    else:
        world.api.create("configmaps", {"metadata": {"name": "ration-policy", "namespace": "kube-system"}, **data})


def placed(world, name, units, unit, card=0, **more):
    placement = {"unit": unit, "containers": {"main": [{"uuid": world.uuid(card), "units": units}]}}
    return world.api.create_pod(name, gpu_mem=units, node=NODE, annotations={
        "ration.dev/placement": json.dumps(placement), "ration.dev/unit": str(unit)}, **more)


def start(world, name="a", units=3, unit=1024, card=0):
    pod = placed(world, name, units, unit, card)
    world.kubelet.admit(pod)
    container = world.kubelet.run(pod, "main")
    world.api.patch("pods", name, {"status": {"phase": "Running", "containerStatuses": [
        {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}})
    return pod, container


def finish(world, pod):
    world.api.set_phase(pod["metadata"]["name"], "Succeeded")
    world.kubelet.end(pod)
    world.kubelet.remove(pod)


# ---- labels ----

@pytest.mark.parametrize("value", ["mps", "mig", "shrae", "Share"])
def test_value_that_is_not_served_is_named_by_a_condition_until_it_is_right(value):
    with World(labels={SCHEDULE: value}) as w:
        w.kubelet.start()
        w.start_agent()
        it = wait_for(w.condition)
        assert (it["status"], it["reason"]) == ("True", "GPUModeRefused")
        assert f"{SCHEDULE}={value}" in it["message"]
        wait_for(lambda: annotations(w).get("ration.dev/problem") == it["message"])
        assert any(c["type"] == "Ready" for c in w.api.node(NODE)["status"]["conditions"])
        assert w.kubelet.devices == {} and says(w, mode=None, gpus=None)
        relabel(w, "share")
        it = wait_for(lambda: (c := w.condition())["status"] == "False" and c)
        assert it["reason"] == "NoProblem"
        w.kubelet.wait_devices(32)


def test_node_without_a_problem_has_no_condition(world):
    wait_for(lambda: world.api.node(NODE)["status"]["capacity"].get(GPU_COUNT) == "2")
    world.has_read_node()
    assert world.condition() is None


@pytest.mark.parametrize("labels,mode", [
    ({"gpushare": "true"}, "share"), ({"gpushare": "false"}, None), ({"gpushare": "yes"}, None),
    ({"gpushare": "true", SCHEDULE: "default"}, None), ({"cgpu": "true", SCHEDULE: "share"}, "share"),
    ({"gpushare": "true", SCHEDULE: "mps"}, None), ({"cgpu": "false"}, None), ({SCHEDULE: ""}, None)])
def test_legacy_labels_are_weaker(labels, mode):
    with World(labels=labels) as w:
        w.kubelet.start()
        w.start_agent()
        if mode:
            wait_for(lambda: says(w, mode=mode))
            w.kubelet.wait_devices(32)
        else:
            w.has_read_node()
            assert says(w, mode=None) and w.kubelet.devices == {}


@needs_root
def test_legacy_label_of_cgpu_isolates():
    with World(labels={"cgpu": "true"}) as w:
        w.up(32)
        wait_for(lambda: says(w, mode="cgpu"))


# ---- changes ----

def test_empty_node_is_closed_before_it_changes(world):
    """A Binding may be on its way: it takes 3 s at most."""
    relabel(world, "default")
    wait_for(lambda: says(world, mode="share", mode_pending="default"), timeout=2)
    closed = time.monotonic()
    time.sleep(2)
    assert len(world.kubelet.devices) == 32 and says(world, mode="share", mode_pending="default")
    assert not world.api.events("GPUModePending")     # nothing is in the way
    wait_for(lambda: says(world, mode=None, mode_pending=None, gpus=None, unit=None))
    assert time.monotonic() - closed > CLOSED_S - 1
    wait_for(lambda: world.kubelet.devices == {})


@pytest.mark.waits
def test_pod_whose_binding_was_on_its_way_starts_under_the_old_mode(world):
    relabel(world, "default")
    wait_for(lambda: says(world, mode_pending="default"))
    time.sleep(1.5)
    pod, container = start(world)
    assert container.env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "3"
    time.sleep(CLOSED_S)
    assert says(world, mode="share", mode_pending="default") and len(world.kubelet.devices) == 32
    finish(world, pod)
    wait_for(lambda: world.kubelet.devices == {})


@pytest.mark.waits
def test_pod_that_is_bound_but_was_not_started_starts(world):
    pod = world.pod("a", 3, card=0)
    wait_for(lambda: world.api.watches() >= 3)
    relabel(world, "default")
    event = wait_for(lambda: world.api.events("GPUModePending"))[0]
    assert "default/a" in event["message"] and '"share"' in event["message"] and '"default"' in event["message"]
    time.sleep(CLOSED_S + 1)
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "main")
    assert says(world, mode="share", mode_pending="default", unit="1024")
    finish(world, pod)
    wait_for(lambda: says(world, mode=None, mode_pending=None))


@pytest.mark.waits
def test_containers_of_a_pod_deleted_by_force_keep_the_mode(world):
    pod, _ = start(world)
    world.api.delete("pods", "a")
    world.kubelet.remove(pod)
    wait_for(lambda: pod["metadata"]["uid"] in annotations(world).get("ration.dev/held", ""))
    relabel(world, "default")
    event = wait_for(lambda: world.api.events("GPUModePending"))[0]
    assert "containers of deleted pods" in event["message"]
    time.sleep(CLOSED_S + 1)
    assert says(world, mode="share", mode_pending="default") and len(world.kubelet.devices) == 32
    world.kubelet.end(pod)
    wait_for(lambda: world.kubelet.devices == {})


def test_label_put_back_opens_the_node_again(world):
    pod, _ = start(world)
    relabel(world, "default")
    wait_for(lambda: says(world, mode="share", mode_pending="default"))
    relabel(world, "share")
    wait_for(lambda: says(world, mode="share", mode_pending=None), timeout=2)
    assert "GPU mode in force: none" not in world.logged()
    relabel(world, "default")    # asked for anew, told anew
    wait_for(lambda: says(world, mode_pending="default"))
    wait_for(lambda: world.logged().count('GPU mode "default" is asked for') == 2)
    finish(world, pod)
    wait_for(lambda: world.kubelet.devices == {})


@pytest.mark.waits
@pytest.mark.parametrize("how", ["kill_agent", "kill_worker", "stop_agent"])
def test_old_mode_survives_the_agent(world, how):
    pod, _ = start(world)
    relabel(world, None)
    wait_for(lambda: says(world, mode="share", mode_pending="default"))
    getattr(world, how)()
    if how != "kill_worker":
        world.start_agent()
    world.kubelet.wait_devices(32)
    time.sleep(1.5)
    assert says(world, mode="share", mode_pending="default")
    again, _ = start(world, "b", 4, card=1)      # bound before the label changed, seen after it
    finish(world, pod)
    time.sleep(CLOSED_S + 1)
    assert says(world, mode="share", mode_pending="default") and len(world.kubelet.devices) == 32
    finish(world, again)
    wait_for(lambda: says(world, mode=None, mode_pending=None))
    wait_for(lambda: world.kubelet.devices == {})


@needs_root
@pytest.mark.waits
def test_resources_of_other_modes_stay_0_over_restarts_of_agent_and_kubelet():
    with World(cards="4x16160MiB", labels={SCHEDULE: "core_mem"}) as w:
        w.up(60)
        w.kubelet.wait_devices(400, of=w.kubelet.core)
        relabel(w, "share")
        w.kubelet.wait_devices(0, of=w.kubelet.core)
        wait_for(lambda: says(w, mode="share", mode_pending=None))
        assert len(w.kubelet.devices) == 60
        w.kill_agent()
        w.start_agent()
        w.kubelet.wait_devices(60)
        w.kubelet.restart()
        w.kubelet.wait_devices(60)
        w.has_read_node()
        assert not w.kubelet.core.devices
        relabel(w, "default")
        w.kubelet.wait_devices(0)
        w.kubelet.restart()
        w.has_read_node()
        assert not w.kubelet.devices and not w.kubelet.core.devices
        assert w.api.node(NODE)["status"]["capacity"][GPU_COUNT] == "0"


@pytest.mark.waits
def test_pod_nobody_placed_keeps_the_mode_too(world):
    """The kubelet has given it devices, and it may be started when somebody places it."""
    world.api.create_pod("u", gpu_mem=2, node=NODE)
    wait_for(lambda: world.api.watches() >= 3)
    relabel(world, "default")
    wait_for(lambda: says(world, mode_pending="default"))
    time.sleep(CLOSED_S + 1)
    assert says(world, mode="share", mode_pending="default")
    world.api.delete("pods", "u")
    wait_for(lambda: says(world, mode=None, mode_pending=None))


# ---- units ----

def test_unit_of_the_cluster_wins_over_the_command_line():
    with World(unit="1GiB") as w:
        set_unit(w, "128MiB")
        w.up(256)
        wait_for(lambda: says(w, unit="128", mode="share"))    # the node is written to after the kubelet has heard
        pod, container = start(w, units=16, unit=128)
        assert container.env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "16"
        assert container.env["ALIYUN_COM_GPU_MEM_DEV"] == "128"


@pytest.mark.waits
def test_unit_changes_on_an_empty_node_without_a_restart_of_anything(world):
    pid = world.worker()
    set_unit(world, "128MiB")
    wait_for(lambda: says(world, unit="1024", unit_pending="128", mode="share", mode_pending=None), timeout=2)
    world.kubelet.wait_devices(256)
    wait_for(lambda: says(world, unit="128", unit_pending=None, mode="share"))
    assert world.worker() == pid and len(world.kubelet.registrations) == 1
    set_unit(world, "512MiB")
    world.kubelet.wait_devices(64)


@pytest.mark.waits
def test_unit_stays_while_pods_count_in_it(world):
    pod, container = start(world, units=3)
    set_unit(world, "128MiB")
    event = wait_for(lambda: world.api.events("GPUModePending"))[0]
    assert "128 MiB" in event["message"] and "1024 MiB" in event["message"] and "default/a" in event["message"]
    time.sleep(CLOSED_S + 1)
    assert says(world, unit="1024", unit_pending="128") and len(world.kubelet.devices) == 32
    again = world.kubelet.run(pod, "main")      # its container crashed
    assert again.env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "3" and again.env["ALIYUN_COM_GPU_MEM_DEV"] == "16"
    finish(world, pod)
    world.kubelet.wait_devices(256)
    _, after = start(world, "b", 24, unit=128)
    assert after.env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "24" and after.env["ALIYUN_COM_GPU_MEM_DEV"] == "128"


@pytest.mark.waits
@pytest.mark.parametrize("lost", ["nothing", "state", "state and annotations"])
def test_unit_that_changed_while_no_agent_was_there_waits_too(lost):
    """Of a node that was away: its pods' placements say the unit, if nothing else does."""
    with World() as w:
        set_unit(w, "128MiB")
        w.up(256)
        pod, _ = start(w, units=16, unit=128)
        w.kill_agent()
        set_unit(w, "1GiB")
        if lost != "nothing":
            (w.state / "agent-state.json").unlink()
        if lost == "state and annotations":
            w.api.patch("nodes", NODE, {"metadata": {"annotations": {
                "ration.dev/unit": None, "ration.dev/mode": None, "ration.dev/mode-pending": None}}})
        w.start_agent()
        wait_for(lambda: says(w, mode="share", unit="128", unit_pending="1024"))
        w.kubelet.wait_devices(256)
        assert w.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_DEV"] == "128"
        finish(w, pod)
        w.kubelet.wait_devices(32)
        wait_for(lambda: says(w, unit="1024", unit_pending=None))


def test_mode_and_unit_change_together(world):
    pod, _ = start(world)
    relabel(world, "default")
    set_unit(world, "256MiB")
    wait_for(lambda: says(world, mode="share", unit="1024", mode_pending="default", unit_pending="256"))
    relabel(world, "share")
    wait_for(lambda: says(world, mode="share", mode_pending=None, unit_pending="256"))
    set_unit(world, "1GiB")
    wait_for(lambda: says(world, unit_pending=None, mode="share", unit="1024"))
    set_unit(world, "256MiB")
    finish(world, pod)
    world.kubelet.wait_devices(128)


@pytest.mark.parametrize("wrong", ["100MiB", "", "1gib", "1"])
def test_unit_that_is_none_is_reported_and_the_one_before_stays(wrong):
    with World() as w:
        set_unit(w, "128MiB")
        w.up(256)
        set_unit(w, wrong)
        event = wait_for(lambda: w.api.events("GPUMemoryUnitRefused"))[0]
        assert f'"{wrong}"' in event["message"] and "kube-system/ration-policy" in event["message"]
        w.kill_agent()          # nor does one that comes later take another
        w.start_agent()
        w.kubelet.wait_devices(256)
        wait_for(lambda: w.api.watches() >= 3)
        time.sleep(0.5)
        assert says(w, unit="128", unit_pending=None)


def test_config_map_that_goes_leaves_the_unit_of_the_command_line():
    with World(unit="512MiB") as w:
        set_unit(w, "128MiB")
        w.up(256)
        w.api.delete("configmaps", "ration-policy", "kube-system")
        w.kubelet.wait_devices(64)
        wait_for(lambda: says(w, unit="512"))


@needs_root
@pytest.mark.parametrize("mode", ["cgpu", "core_mem"])
def test_limit_follows_the_unit_that_the_pod_was_placed_in(mode):
    """16 units of 128 MiB on a card of 16160 MiB, which has 126 of them: floor(16160 x 16 / 126) MiB."""
    with World(cards="1x16160MiB", labels={SCHEDULE: mode}) as w:
        set_unit(w, "128MiB")
        w.up(126)
        wait_for(lambda: says(w, mode=mode))
        pod, _ = start(w, units=16, unit=128)
        grant = (w.state / "grants" / pod["metadata"]["uid"] / "main" / "grant").read_bytes()
        limit = struct.unpack_from("<Q", grant, 2520 + 96)[0]     # of the first card: docs/internals/grant.md
        assert limit == (16160 * 16 // 126) << 20
