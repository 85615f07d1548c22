"""ration-agent on a node whose containers are held to their GPU memory: shim, grants, CDI files."""
import pathlib
import resource
import shutil
import stat
import statistics
import struct

import pytest

from agent_fixture import FULL, NODE, World, allocate_times, assert_within, wait_for
from cgpu_node import (DIRECTORIES, MIB, card_of, come_back, folder, in_service, isolated,
                       start, text_at, version_of, needs_root)

pytestmark = needs_root


@pytest.fixture
def world():
    with isolated() as w:
        yield w.up(30)


@pytest.fixture
def down():
    with isolated() as w:
        yield w


# ---- one container ----

def test_container_finds_the_shim_under_every_name_and_the_driver_under_none(world):
    _, c = start(world)
    shim = world.state / "shim" / version_of(c)
    for library in ("libcuda.so", "libnvidia-ml.so"):
        for directory in DIRECTORIES:
            for suffix in ("", ".1", ".515.105.01"):
                mount = c.mounts[f"{directory}/{library}{suffix}"]
                assert mount["hostPath"] == str(shim / f"{library}.1")
                assert {"ro", "nosuid", "nodev"} <= set(mount["options"])
    # The driver's own are where only the grant says; nothing else that is called so is mounted anywhere.
    assert c.mounts["/run/ration/driver/cuda/libcuda.so"]["hostPath"] == "/host/driver/lib/libcuda.so.515.105.01"
    assert c.mounts["/run/ration/driver/nvml/libnvidia-ml.so"]["hostPath"] == "/host/driver/lib/libnvidia-ml.so.515.105.01"
    drivers = [m for m in c.mounts.values() if m["hostPath"].startswith("/host/driver/lib/lib")
               and pathlib.Path(m["hostPath"]).name.startswith(("libcuda.so", "libnvidia-ml.so"))]
    assert len(drivers) == 2


def test_preloading_names_the_shim_for_programs_that_bring_a_driver_of_their_own(world):
    _, c = start(world)
    assert c.mounts["/etc/ld.so.preload"]["hostPath"] == str(world.state / "shim" / version_of(c) / "preload")
    listed = pathlib.Path(c.mounts["/etc/ld.so.preload"]["hostPath"]).read_text().split()
    assert listed == ["/run/ration/shim/libcuda.so.1", "/run/ration/shim/libnvidia-ml.so.1"]
    inside = pathlib.Path(c.mounts["/run/ration/shim"]["hostPath"])
    for path in listed:
        assert (inside / pathlib.Path(path).name).read_bytes() == (world.shim / pathlib.Path(path).name).read_bytes()


def test_container_has_the_environment_devices_and_everything_else_of_a_share_node(world):
    _, c = start(world, units=2, card=1)
    assert c.env == {"ALIYUN_COM_GPU_MEM_CONTAINER": "2", "ALIYUN_COM_GPU_MEM_DEV": "15",
                     "ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_POD": "2",
                     "NVIDIA_VISIBLE_DEVICES": "void", "ALIYUN_COM_GPU_VISIBLE_DEVICES": world.uuid(1)}
    seen = set(c.devices) | set(c.mounts)
    assert "/dev/nvidia1" in seen and "/dev/nvidiactl" in seen and "/dev/nvidia0" not in seen
    assert c.mounts["/usr/bin/nvidia-smi"]["hostPath"] == "/host/driver/bin/nvidia-smi"
    assert c.mounts["/run/ration-sim/gpus.json"]["hostPath"] == "/host/driver/gpus.json"


@pytest.mark.parametrize("cards, units, limit", [
    ("1x16160MiB", 2, 2154), ("1x15079MiB", 3, 3231), ("1x16130MiB", 4, 4301), ("1x16160MiB", 1, 1077),
    ("1x16160MiB", 15, 16160)])
def test_grant_is_the_share_of_the_card_that_the_documents_compute(cards, units, limit):
    """16160 x 2/15 = 2154.67, 15079 x 3/14 = 3231.2, 16130 x 4/15 = 4301.3."""
    with isolated(cards=cards) as w:
        total = int(cards[2:-3]) // 1024
        w.up(total)
        pod, c = start(w, units=units)
        grant = folder(w, pod) / "grant"
        assert card_of(grant) == (w.uuid(0), limit, int(cards[2:-3]), limit)
        assert c.mounts["/run/ration/grant"]["hostPath"] == str(grant)
        assert "ro" in c.mounts["/run/ration/grant"]["options"]
        assert c.mounts["/run/ration/usage"]["hostPath"] == str(grant.with_name("usage"))
        assert "rw" in c.mounts["/run/ration/usage"]["options"]
        assert text_at(grant, 32, 256) == "default/a/main"
        assert text_at(grant, 288, 1024) == "/run/ration/driver/cuda/libcuda.so"
        assert text_at(grant, 1312, 1024) == "/run/ration/driver/nvml/libnvidia-ml.so"


def test_unit_of_128_mib_is_counted_by_the_same_formula():
    with isolated(cards="1x16160MiB", unit="128MiB") as w:
        w.up(126)
        pod = w.api.create_pod("a", gpu_mem=5, node=NODE, annotations={
            "ration.dev/placement": '{"unit":128,"containers":{"main":[{"uuid":"%s","units":5}]}}' % w.uuid(0),
            "ration.dev/unit": "128"})
        w.kubelet.admit(pod)
        w.kubelet.run(pod, "main")
        assert card_of(folder(w, pod) / "grant")[1] == 641    # 16160 x 5/126 = 641.27


def test_container_can_write_its_usage_file_only_and_grow_it_only_so_far(world):
    pod, _ = start(world)
    grant, usage = folder(world, pod) / "grant", folder(world, pod) / "usage"
    assert stat.S_IMODE(grant.stat().st_mode) == 0o644 and stat.S_IMODE(usage.stat().st_mode) == 0o666
    mount = [line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()
             if line.split()[1] == str(grant.parent.parent)][0]
    assert mount[2] == "tmpfs" and {"nosuid", "nodev", "noexec"} <= set(mount[3].split(","))
    with open(usage, "ab") as f, pytest.raises(OSError, match="No space left"):
        for _ in range(16):
            f.write(b"x" * MIB)
            f.flush()
    # The shim's folder can be executed from, wherever the state directory lies.
    shim = [line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()
            if line.split()[1] == str(world.state / "shim")][0]
    assert "noexec" not in shim[3].split(",") and {"nosuid", "nodev"} <= set(shim[3].split(","))


def test_each_container_of_a_pod_has_a_grant_of_its_own(world):
    pod = world.pod_of("many", {"m1": 3, "plain": 0, "m2": 2}, init={"i1": 5}, card=1)
    world.kubelet.admit(pod)
    limits = {}
    for name in ("i1", "m1", "m2"):
        c = world.kubelet.run(pod, name)
        assert c.mounts["/run/ration/grant"]["hostPath"] == str(folder(world, pod, name) / "grant")
        limits[name] = card_of(folder(world, pod, name) / "grant")[3]
    assert limits == {"i1": 16160 * 5 // 15, "m1": 16160 * 3 // 15, "m2": 16160 * 2 // 15}
    assert not folder(world, pod, "plain").exists()


def test_several_cards_are_in_the_order_of_their_indices_whatever_the_placement_says(world):
    shares = '[{"uuid":"%s","units":2},{"uuid":"%s","units":2}]' % (world.uuid(1), world.uuid(0))
    pod = world.api.create_pod("two", gpu_mem=4, node=NODE, labels={"aliyun.com/gpu-count": "2"}, annotations={
        "ration.dev/placement": '{"unit":1024,"containers":{"main":%s}}' % shares, "ration.dev/unit": "1024"})
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "main")
    grant = folder(world, pod) / "grant"
    assert [card_of(grant, i)[0] for i in range(2)] == [world.uuid(0), world.uuid(1)]
    assert [card_of(grant, i)[3] for i in range(2)] == [2154, 2154]
    assert struct.unpack_from("<I", grant.read_bytes(), 24) == (2,)


# ---- CGPU_DISABLE ----

def disabled(world, name, value, card=0):
    env = [{"name": "CGPU_DISABLE", **value}]
    spec = {"containers": [{"name": "main", "image": "example", "env": env,
                            "resources": {"limits": {"aliyun.com/gpu-mem": "2"}}}]}
    pod = world.api.create_pod(name, node=NODE, spec=spec, annotations=world.placement(card, main=2))
    world.kubelet.admit(pod)
    return pod, world.kubelet.run(pod, "main")


def is_held(world, pod, container):
    held = "/run/ration/grant" in container.mounts
    assert held == (folder(world, pod) / "grant").exists() == ("/etc/ld.so.preload" in container.mounts)
    own = container.mounts["/usr/lib64/libcuda.so.1"]["hostPath"].startswith("/host/driver/lib/")
    assert own != held
    return held


def test_cgpu_disable_is_ignored_by_default_and_the_pod_is_told_so(world):
    pod, c = disabled(world, "a", {"value": "true"})
    assert is_held(world, pod, c)
    event = wait_for(lambda: world.api.events("GPUDisableIgnored"))[0]
    assert "CGPU_DISABLE" in event["message"] and "allowDisable" in event["message"]
    assert event["involvedObject"]["name"] == "a"
    world.kubelet.run(pod, "main")
    disabled(world, "b", {"value": "true"})
    names = wait_for(lambda: (told := [e["involvedObject"]["name"] for e in world.api.events("GPUDisableIgnored")])
                     and "b" in told and told, what="that of a later pod")
    assert names == ["a", "b"]


@pytest.mark.parametrize("value, held", [
    ({"value": "true"}, False), ({"value": "1"}, False), ({"value": "false"}, True), ({"value": "TRUE"}, True),
    ({"value": ""}, True), ({}, True), ({"valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}, True)])
def test_cgpu_disable_is_honoured_where_it_is_allowed_and_given_by_value(value, held):
    with isolated(options=["--allow-disable"]) as w:
        w.up(30)
        pod, c = disabled(w, "a", value)
        assert is_held(w, pod, c) == held
        assert not w.api.events("GPUDisableIgnored")
        beside, other = start(w, "b", card=0)
        assert is_held(w, beside, other)


# ---- modes ----

def test_legacy_label_means_cgpu():
    with World(cards="1x16160MiB", labels={"cgpu": "true"}) as w:
        w.up(15)
        pod, c = start(w)
        assert is_held(w, pod, c)


@pytest.mark.waits
def test_change_between_share_and_cgpu_waits_for_the_last_pod(world):
    pod, _ = start(world)
    world.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.schedule": "share"}}})
    wait_for(lambda: world.api.events("GPUModePending"))
    held = world.kubelet.run(pod, "main")
    assert is_held(world, pod, held)
    world.kill_agent()
    come_back(world)     # it remembers, and so does not hand out a whole card
    assert is_held(world, pod, world.kubelet.run(pod, "main"))
    world.api.set_phase("a", "Succeeded")
    world.kubelet.end(pod)
    world.kubelet.remove(pod)
    wait_for(lambda: world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/mode") == "share")
    whole, c = start(world, "b")
    assert not is_held(world, whole, c)


@pytest.mark.waits
@pytest.mark.parametrize("when", ["before the reboot", "meanwhile"])
def test_label_that_changed_over_a_reboot_gives_no_held_container_a_whole_card(world, when):
    pod, _ = start(world)
    wait_for(lambda: in_service(world))
    relabel = {"metadata": {"labels": {"ack.node.gpu.schedule": "share"}}}
    if when == "before the reboot":
        world.api.patch("nodes", NODE, relabel)
        wait_for(lambda: world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/mode-pending") == "share")
        assert in_service(world)
    world.kill_agent()
    world.unmount_all()
    for path in (world.state, world.kubelet.cdi_dir):
        shutil.rmtree(path)
    if when == "meanwhile":
        world.api.patch("nodes", NODE, relabel)
    come_back(world)
    assert is_held(world, pod, world.kubelet.run(pod, "main"))
    world.api.set_phase("a", "Succeeded")
    world.kubelet.end(pod)
    world.kubelet.remove(pod)
    wait_for(lambda: world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/mode") == "share")
    assert "ration.dev/mode-pending" not in world.api.node(NODE)["metadata"]["annotations"]


# ---- budgets ----

def limit_of(pid, name):
    return pathlib.Path(f"/proc/{pid}/limits").read_text().split(name)[1].split()[0]


def test_agent_has_descriptors_for_all_that_may_be_on_a_node(down):
    """Soft limits of containers are 1024 (systemd's default), and a descriptor is needed per container and process."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    down.wrapper = ["prlimit", f"--nofile=1024:{hard}"]
    down.up(30)
    worker = down.worker()
    assert int(limit_of(worker, "Max open files")) == min(hard, 65536)
    # A table that has to grow while there are threads waits for all processors (src/agent/main.c).
    size = pathlib.Path(f"/proc/{worker}/status").read_text().split("FDSize:")[1].split()[0]
    assert int(size) >= 4096


@pytest.mark.alone
def test_allocate_with_grants_takes_less_than_5_ms():
    with isolated(cards="8x16384MiB", tls=True, run_in_memory=True) as w:
        w.up(128)
        times, of_processor = allocate_times(w)
        assert len(list((w.state / "grants").iterdir())) == 110
        print(f"\nAllocate, 110 pods with grants, seen by the kubelet: median {statistics.median(times):.2f} ms, "
              f"p99 {times[-2]:.2f} ms, of a processor {of_processor:.2f} ms")
        assert of_processor < (5 if FULL else 10)
        assert_within(times, 5)
