"""ration-agent on a node whose containers are held to their GPU memory: shim, grants, CDI files."""
import os
import pathlib
import resource
import shutil
import stat
import statistics
import struct
import subprocess
import time

import pytest

from agent_fixture import NODE, World, allocate_times, assert_within, mounts_below, wait_for
from fake_kubelet import StartError
import grants

MIB = 1 << 20
CGPU = {"ack.node.gpu.schedule": "cgpu"}
DIRECTORIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib", "/usr/local/lib", "/usr/lib")
LIVE = 2520 + grants.CARDS_MAX * 256

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the agent mounts file systems, which needs root")


def isolated(cards="2x16160MiB", **more):
    return World(cards=cards, labels=CGPU, **more)


@pytest.fixture
def world():
    with isolated() as w:
        yield w.up(30)


@pytest.fixture
def down():
    with isolated() as w:
        yield w


def start(world, name="a", units=2, card=0):
    pod = world.pod(name, units, card=card)
    world.kubelet.admit(pod)
    return pod, world.kubelet.run(pod, "main")


def uid_of(pod):
    return pod["metadata"]["uid"]


def folder(world, pod, container="main"):
    return world.state / "grants" / uid_of(pod) / container


def card_of(grant, index=0):
    """UUID, limit at creation, physical size, limit now; MiB. Offsets: docs/internals/grant.md."""
    data = grant.read_bytes()
    uuid, limit, physical = struct.unpack_from("<64s32xQQ", data, 2520 + index * 256)
    now, = struct.unpack_from("<Q", data, LIVE + index * 128 + 16)
    return uuid.rstrip(b"\0").decode(), limit / MIB, physical / MIB, now / MIB


def text_at(grant, offset, size):
    return grant.read_bytes()[offset:offset + size].rstrip(b"\0").decode()


def versions(world):
    return sorted(p.name for p in (world.state / "shim").iterdir())


def version_of(container):
    return pathlib.Path(container.mounts["/run/ration/shim"]["hostPath"]).name


def in_service(world):
    return world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/mode") == "cgpu"


def problem(world):
    return world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/problem", "")


def not_ready(world, what):
    """An Event of the node that has this in it, and the node's annotation says the same."""
    wait_for(lambda: what in problem(world))
    return wait_for(lambda: [e for e in world.api.events("GPUIsolationNotReady") if what in e["message"]])[0]


def new_watches(world):
    return sum("watch" in r.query for r in list(world.api.requests)) >= 2 and world.api.watches("nodes", "pods") >= 2


def renew_worker(world):
    """Another process, which has seen node and pods."""
    world.api.clear_requests()
    world.kill_worker()
    wait_for(lambda: new_watches(world))


def come_back(world):
    """After kill_agent() or stop_agent()."""
    world.api.clear_requests()
    world.start_agent()
    world.kubelet.wait_devices(30)
    wait_for(lambda: new_watches(world))


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


# ---- what stays, and what goes ----

def identity(world, pod):
    """The files, but for what the agent changes at any time: overhead, its generation, for whom it looked, and who has
    how much computing power."""
    return [(path.stat().st_ino, lasting(path)) for path in sorted(folder(world, pod).iterdir())]


def lasting(path):
    data = bytearray(path.read_bytes())
    for at in range(LIVE, LIVE + 64 * 128, 128) if path.name == "grant" else ():
        data[at:at + 16], data[at + 24:at + 32], data[at + 40:at + 64] = bytes(16), bytes(8), bytes(24)
    return bytes(data)


@pytest.mark.parametrize("how", ["worker", "supervisor", "in order"])
def test_agent_that_comes_back_takes_grants_over_as_they_are(world, how):
    pod, _ = start(world)
    before = identity(world, pod)
    if how == "worker":
        renew_worker(world)
    else:
        world.kill_agent() if how == "supervisor" else world.stop_agent()
        assert identity(world, pod) == before
        come_back(world)
    again = world.kubelet.run(pod, "main")
    assert identity(world, pod) == before
    assert again.mounts["/run/ration/grant"]["hostPath"] == str(folder(world, pod) / "grant")
    assert len([p for p in mounts_below(world.state) if p.name == uid_of(pod)]) == 1
    other, _ = start(world, "b", card=1)
    assert card_of(folder(world, other) / "grant")[0] == world.uuid(1)


def test_reboot_empties_everything_and_the_start_of_the_container_makes_it_again(world):
    pod, before = start(world)
    world.kill_agent()
    world.unmount_all()
    for path in (world.state, world.kubelet.cdi_dir):
        shutil.rmtree(path)
    world.kubelet.cdi_dir.mkdir()
    come_back(world)
    after = world.kubelet.run(pod, "main")
    assert after.mounts == before.mounts and after.env == before.env
    assert card_of(folder(world, pod) / "grant")[3] == 2154


def test_files_of_a_pod_go_when_it_is_over(world):
    pod, _ = start(world)
    place = folder(world, pod).parent
    world.api.set_phase("a", "Succeeded")
    world.kubelet.end(pod)
    world.kubelet.remove(pod)
    world.api.delete("pods", "a")
    wait_for(lambda: not place.exists(), timeout=5)
    assert place not in mounts_below(world.state)
    assert not (world.kubelet.cdi_dir / f"ration-{uid_of(pod)}.json").exists()


@pytest.mark.waits
def test_grants_whose_pod_nobody_knows_go_and_those_of_living_containers_stay(down):
    grants_dir = down.state / "grants"
    (grants_dir / "11111111-2222-3333-4444-555555555555").mkdir(parents=True)    # killed before it was mounted
    down.up(30)
    pod, _ = start(down)
    down.kill_agent()
    down.api.silence(True)
    down.api.delete("pods", "a")     # by force: its container runs on
    down.api.silence(False)
    (down.kubelet.cdi_dir / f"ration-{uid_of(pod)}.json").unlink()
    down.start_agent()
    wait_for(lambda: not (grants_dir / "11111111-2222-3333-4444-555555555555").exists(), timeout=15)
    assert (folder(down, pod) / "grant").exists()
    down.kubelet.end(pod)
    wait_for(lambda: not folder(down, pod).parent.exists(), timeout=15)


@pytest.mark.parametrize("step", ["folder", "mount", "container", "usage", "torn usage", "torn grant", "grant"])
def test_agent_that_was_killed_between_two_steps_is_followed_by_one_that_goes_on(down, step):
    """What lies there after a SIGKILL at each step of Allocate; the temporary files have the dead one's pid."""
    down.up(30)
    pod = down.pod("a", 2, card=0)
    down.kubelet.admit(pod)
    whole = [(p.name, lasting(p)) for p in sorted(folder(down, pod).iterdir())]
    down.kill_agent()
    place = folder(down, pod)
    (down.kubelet.cdi_dir / f"ration-{uid_of(pod)}.json").unlink()
    if step in ("folder", "mount"):
        down.unmount(place.parent)
        if step == "mount":
            subprocess.run(["mount", "-t", "tmpfs", "ration", place.parent], check=True)
    else:
        grant, usage = (place / "grant").read_bytes(), (place / "usage").read_bytes()
        shutil.rmtree(place)
        place.mkdir()
        if step == "torn usage":
            (place / "usage.4194304").write_bytes(usage[:10])
        if step in ("usage", "torn grant", "grant"):
            (place / "usage").write_bytes(usage)
        if step == "torn grant":
            (place / "grant.4194304").write_bytes(grant[:5000])
        if step == "grant":
            (place / "grant").write_bytes(grant)
    come_back(down)
    c = down.kubelet.run(pod, "main")
    assert c.mounts["/run/ration/grant"]["hostPath"] == str(place / "grant")
    after = {p.name: lasting(p) for p in place.iterdir()}
    assert [(name, after[name]) for name in ("grant", "usage")] == whole
    assert [p for p in mounts_below(down.state) if p == place.parent] == [place.parent]
    assert not down.api.events("GPUGrantDamaged")


def test_limit_of_a_running_container_follows_its_placement(world):
    pod, _ = start(world)
    before = identity(world, pod)
    placement = world.placement(0, main=3)["ration.dev/placement"].replace('"unit"', '"resizes": 1, "unit"')
    world.api.patch("pods", "a", {"metadata": {"annotations": {"ration.dev/placement": placement}}})
    wait_for(lambda: card_of(folder(world, pod) / "grant")[3] == 16160 * 3 // 15, timeout=1)
    assert card_of(folder(world, pod) / "grant")[1] == 2154     # when it was made
    assert [inode for inode, _ in identity(world, pod)] == [inode for inode, _ in before]
    world.kill_agent()
    come_back(world)
    world.kubelet.run(pod, "main")
    assert card_of(folder(world, pod) / "grant")[3] == 16160 * 3 // 15


# ---- damaged files ----

@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage", "of another pod", "gone"])
def test_grant_that_is_damaged_is_reported_and_made_anew_at_the_next_start(world, damage):
    pod, _ = start(world)
    other, _ = start(world, "b", units=5, card=1)
    grant = folder(world, pod) / "grant"
    before, content = lasting(grant), grant.read_bytes()
    new = {"truncated": content[:2000], "empty": b"", "garbage": b"\xff" * len(content),
           "of another pod": (folder(world, other) / "grant").read_bytes()}
    world.kill_agent()
    grant.unlink() if damage == "gone" else grant.write_bytes(new[damage])
    come_back(world)
    if damage not in ("of another pod", "gone"):
        event = wait_for(lambda: world.api.events("GPUGrantDamaged"))[0]
        assert uid_of(pod) in event["message"] and event["involvedObject"]["kind"] == "Node"
        assert grant.read_bytes() == new[damage]    # a running container may have it: left alone
    world.kubelet.run(pod, "main")
    assert lasting(grant) == before
    assert card_of(folder(world, other) / "grant")[3] == 16160 * 5 // 15


@pytest.mark.parametrize("damage", [b"", b"x" * 100, b"\xff" * 2 * MIB], ids=["empty", "short", "garbage"])
def test_usage_file_that_a_container_has_spoilt_is_new_at_its_next_start(world, damage):
    pod, _ = start(world)
    usage = folder(world, pod) / "usage"
    usage.write_bytes(damage)
    time.sleep(0.2)
    assert world.agent.poll() is None
    world.kubelet.run(pod, "main")
    assert usage.read_bytes()[:8] == b"RAUSAGE1" and usage.stat().st_size == grants.USAGE_SIZE
    assert card_of(usage.with_name("grant"))[3] == 2154


@pytest.mark.parametrize("lost", ["grant", "usage", "folder", "mount"])
def test_files_that_were_taken_away_from_under_the_agent_are_there_again_at_the_next_start(world, lost):
    pod, _ = start(world)
    place = folder(world, pod)
    before = (place / "grant").read_bytes()
    if lost == "mount":
        world.unmount(place.parent)
    elif lost == "folder":
        shutil.rmtree(place)
    else:
        (place / lost).unlink()
    world.kubelet.run(pod, "main")
    assert (place / "grant").read_bytes()[:LIVE] == before[:LIVE]    # looks are written all the time
    assert (place / "usage").stat().st_size == grants.USAGE_SIZE
    new = (place / "usage").stat()
    assert (new.st_dev, new.st_ino) in {(s.st_dev, s.st_ino) for fd in
                                        pathlib.Path(f"/proc/{world.worker()}/fd").iterdir() if (s := fd.stat())}


def test_charges_of_a_container_survive_the_start_of_another(world):
    pod = world.pod_of("two", {"m1": 3, "m2": 2}, card=0)
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "m1")
    grants.charge(folder(world, pod, "m1") / "usage", 0, 100 * MIB)
    before = (folder(world, pod, "m1") / "usage").read_bytes()
    world.kubelet.run(pod, "m2")
    world.kubelet.run(pod, "m1")
    assert (folder(world, pod, "m1") / "usage").read_bytes() == before


def test_pods_folder_that_is_full_delays_the_next_container_and_no_other_pod(world):
    pod = world.pod_of("two", {"m1": 3, "m2": 2}, card=0)
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "m1")
    shutil.rmtree(folder(world, pod, "m2"))
    renew_worker(world)     # nobody has what was there open any more
    usage = folder(world, pod, "m1") / "usage"
    with open(usage, "ab") as f, pytest.raises(OSError):
        for _ in range(64):
            f.write(b"x" * MIB)
            f.flush()
    with pytest.raises(StartError, match="cannot be written: No space left"):
        world.kubelet.run(pod, "m2")
    start(world, "other", card=1)
    os.truncate(usage, grants.USAGE_SIZE)
    world.kubelet.run(pod, "m2")


def test_run_that_is_full_delays_the_pod_and_does_not_fail_it():
    with isolated(run_in_memory=True) as w:
        subprocess.run(["mount", "-o", "remount,size=8m", w.state.parent], check=True)
        w.up(30)
        before, _ = start(w, "before")
        filler = w.state.parent / "filler"
        with open(filler, "wb", buffering=0) as f, pytest.raises(OSError):
            while True:
                f.write(b"x" * 4096)
        pod = w.pod("a", 2, card=1)
        w.kubelet.admit(pod)
        with pytest.raises(StartError, match="No space left"):
            w.kubelet.run(pod, "main")
        w.kubelet.run(before, "main")
        filler.unlink()
        w.kubelet.run(pod, "main")
        assert card_of(folder(w, pod) / "grant")[3] == 2154


# ---- hostile or odd names ----

@pytest.mark.parametrize("uid", ["../../etc", "a/b", "..", ".hidden", "a b", "a,size=1g", "\u00fc"],
                         ids=range(7))
def test_uid_that_could_leave_its_folder_is_refused(world, uid):
    limits = {"aliyun.com/gpu-mem": "2"}
    pod = world.api.create("pods", {
        "metadata": {"name": "odd", "namespace": "default", "uid": uid, "annotations": world.placement(0, main=2)},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending"}})
    before = {p.name for p in world.state.iterdir()}
    world.kubelet.admit(pod)
    with pytest.raises(StartError, match="default/odd|can be no folder"):
        world.kubelet.run(pod, "main")
    assert {p.name for p in world.state.iterdir()} - before <= {"grants", "pods"}
    start(world, "good", card=1)


@pytest.mark.parametrize("what", ["file", "link", "folder"])
def test_what_lies_where_a_pods_folder_belongs_harms_nobody(world, what):
    pod = world.pod("a", 2, card=0)
    place, elsewhere = folder(world, pod).parent, world.dir / "elsewhere"
    place.parent.mkdir(exist_ok=True)
    elsewhere.mkdir()
    if what == "file":
        place.write_text("x")
    elif what == "link":
        place.symlink_to(elsewhere)
    else:
        place.mkdir()
        (place / "main").mkdir()
        (place / "main" / "grant").write_text("x")
    world.kubelet.admit(pod)
    if what == "folder":
        world.kubelet.run(pod, "main")
        assert card_of(folder(world, pod) / "grant")[3] == 2154
    else:
        with pytest.raises(StartError, match="Not a directory"):
            world.kubelet.run(pod, "main")
        place.unlink()
        world.kubelet.run(pod, "main")
    assert not list(elsewhere.iterdir()) and not mounts_below(elsewhere)


# ---- fail closed ----

@pytest.mark.waits
def test_runtime_without_cdi_means_no_service_and_the_node_says_what_to_do(down):
    down.kubelet.cri_config = {"enableCDI": False}
    down.kubelet.start()
    down.start_agent()
    event = not_ready(down, "does not apply CDI files")
    assert "enable_cdi = true" in event["message"] and event["involvedObject"]["kind"] == "Node"
    time.sleep(0.5)
    assert down.kubelet.devices == {} and not in_service(down)
    down.kubelet.cri_config = {"cdiSpecDirs": [str(down.kubelet.cdi_dir)]}
    down.kubelet.wait_devices(30, timeout=15)
    wait_for(lambda: in_service(down) and not problem(down))


@pytest.mark.parametrize("missing", ["libcuda.so.1", "libnvidia-ml.so.1", "all", "empty"])
@pytest.mark.waits
def test_shim_that_is_not_there_means_no_service_until_it_is(down, missing):
    down.shim = down.dir / "shim"
    down.shim.mkdir()
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        shutil.copy(pathlib.Path(os.environ.get("RATION_BUILD", "build")) / "src/shim" / name, down.shim / name)
    kept = down.dir / "kept"
    shutil.copytree(down.shim, kept)
    if missing == "all":
        shutil.rmtree(down.shim)
    elif missing == "empty":
        (down.shim / "libcuda.so.1").write_bytes(b"")
    else:
        (down.shim / missing).unlink()
    down.kubelet.start()
    down.start_agent()
    assert "--shim-dir" in not_ready(down, "cannot be read")["message"]
    time.sleep(0.5)
    assert down.kubelet.devices == {} and not in_service(down)
    shutil.rmtree(down.shim, ignore_errors=True)
    kept.rename(down.shim)
    down.kubelet.wait_devices(30, timeout=15)
    wait_for(lambda: in_service(down))


def test_agent_that_may_not_mount_is_not_in_service(down):
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv")
    down.wrapper = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    down.kubelet.start()
    down.start_agent()
    event = not_ready(down, "may not mount")
    assert "privileged" in event["message"] and "Bidirectional" in event["message"]
    assert down.kubelet.devices == {} and not in_service(down)


@pytest.mark.parametrize("how, what", [
    ("no version", "no link to a file with the driver's version"),
    ("two versions", "libnvidia-ml.so.1 of 515.105.01"),
    ("no libcuda", "libcuda.so.1 of the NVIDIA driver"),
    ("another version runs", "that runs is of version 515.105.01, but its libraries")])
def test_driver_that_is_not_whole_means_no_service(down, how, what):
    lib = down.driver / "lib"
    if how == "no version":
        target = (lib / "libcuda.so.1").resolve()
        (lib / "libcuda.so.1").unlink()
        target.rename(lib / "libcuda.so.1")
    elif how == "two versions":
        (lib / "libcuda.so.1").resolve().rename(lib / "libcuda.so.470.1")
        (lib / "libcuda.so.1").unlink()
        (lib / "libcuda.so.1").symlink_to("libcuda.so.470.1")
    elif how == "no libcuda":
        for path in lib.glob("libcuda.so*"):
            path.unlink()
    else:
        for library in ("libcuda.so", "libnvidia-ml.so"):
            (lib / f"{library}.1").resolve().rename(lib / f"{library}.999.1")
            (lib / f"{library}.1").unlink()
            (lib / f"{library}.1").symlink_to(f"{library}.999.1")
    down.kubelet.start()
    down.start_agent()
    not_ready(down, what)
    assert down.kubelet.devices == {} and not in_service(down)


def test_node_that_cannot_hold_limits_any_more_keeps_its_pods_and_takes_no_new_ones(world):
    pod, _ = start(world, units=3)
    wait_for(lambda: in_service(world))
    library = (world.driver / "lib/libcuda.so.1").resolve()
    library.rename(library.with_name("away"))
    not_ready(world, "libcuda.so.1")
    wait_for(lambda: not in_service(world))
    world.kubelet.wait_devices(27, "Unhealthy")
    held = world.kubelet.given[uid_of(pod), "main"]
    assert all(world.kubelet.devices[i] == "Healthy" for i in held)
    with pytest.raises(StartError, match="cannot have its GPU"):
        world.kubelet.run(pod, "main")
    library.with_name("away").rename(library)
    world.kubelet.wait_devices(30, timeout=20)
    world.kubelet.run(pod, "main")
    wait_for(lambda: in_service(world) and not problem(world))


def test_grant_that_cannot_be_written_keeps_the_container_from_starting(world):
    pod = world.pod("a", 2, card=0)
    blocked = world.state / "grants"
    blocked.write_text("in the way")
    world.kubelet.admit(pod)     # not failed for good
    with pytest.raises(StartError, match="grants"):
        world.kubelet.run(pod, "main")
    assert not (world.kubelet.cdi_dir / f"ration-{uid_of(pod)}.json").exists()
    blocked.unlink()
    world.kubelet.run(pod, "main")


def test_pod_that_nobody_placed_gets_no_grant(world):
    pod = world.pod("stray", 3)
    world.kubelet.admit(pod)
    with pytest.raises(StartError, match="set schedulerName"):
        world.kubelet.run(pod, "main")
    assert not (world.state / "grants" / uid_of(pod)).exists()


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
    time.sleep(0.2)
    assert len(world.api.events("GPUDisableIgnored")) == 1


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


# ---- versions ----

def end(world, pod):
    """The pod is over, and its files are gone."""
    world.api.set_phase(pod["metadata"]["name"], "Succeeded")
    world.kubelet.end(pod)
    world.kubelet.remove(pod)
    world.api.delete("pods", pod["metadata"]["name"])
    wait_for(lambda: not folder(world, pod).parent.exists())
    time.sleep(0.2)    # what follows from that is done in one go


def another_shim(world):
    """A later version of the agent's image."""
    later = world.dir / "later"
    later.mkdir()
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (later / name).write_bytes((world.shim / name).read_bytes() + b"later")
    world.shim = later


def test_shim_of_another_version_lies_beside_the_first_until_no_container_has_that(world):
    pod, old = start(world)
    world.stop_agent()
    another_shim(world)
    come_back(world)
    new_pod, new = start(world, "b", card=1)
    assert version_of(old) != version_of(new)
    assert versions(world) == sorted([version_of(old), version_of(new)])
    assert (pathlib.Path(new.mounts["/lib/libcuda.so"]["hostPath"])).read_bytes().endswith(b"later")
    world.api.set_phase("a", "Succeeded")
    world.kubelet.end(pod)
    world.kubelet.remove(pod)
    world.api.delete("pods", "a")
    wait_for(lambda: versions(world) == [version_of(new)])
    assert new_pod


def test_shim_of_a_running_container_stays_when_somebody_clears_the_cdi_files(world):
    pod, old = start(world)
    world.stop_agent()
    another_shim(world)
    for path in world.kubelet.cdi_dir.iterdir():
        path.unlink()
    come_back(world)
    gone, new = start(world, "gone", card=1)    # when a pod goes, so do the versions that nobody has
    end(world, gone)
    assert versions(world) == sorted([version_of(old), version_of(new)])
    assert version_of(world.kubelet.run(pod, "main")) == version_of(new)
    gone, _ = start(world, "gone2", card=1)
    end(world, gone)
    assert versions(world) == [version_of(new)]


def test_restart_of_one_container_leaves_the_shim_of_the_others_where_it_is(world):
    pod = world.pod_of("two", {"main": 2, "side": 3})
    world.kubelet.admit(pod)
    main, side = world.kubelet.run(pod, "main"), world.kubelet.run(pod, "side")
    world.stop_agent()
    another_shim(world)
    come_back(world)
    again = world.kubelet.run(pod, "main")
    assert version_of(again) != version_of(main) == version_of(side)
    gone, _ = start(world, "gone", card=1)    # when a pod goes, so do the versions that nobody has
    end(world, gone)
    assert version_of(side) in versions(world)
    assert version_of(world.kubelet.run(pod, "side")) == version_of(again)


def test_shim_that_somebody_removed_from_the_host_is_there_again_for_the_next_pod(world):
    _, c = start(world)
    shutil.rmtree(world.state / "shim" / version_of(c))
    renew_worker(world)
    _, again = start(world, "b", card=1)
    assert version_of(again) == version_of(c)
    assert (world.state / "shim" / version_of(c) / "libcuda.so.1").exists()


def test_driver_of_another_version_is_for_new_pods_and_restarted_containers(world):
    pod, before = start(world)
    grant = identity(world, pod)
    lib = world.driver / "lib"
    world.sim("up", "--gpus", "2x16160MiB", "--driver-version", "550.54.15")
    assert (lib / "libcuda.so.550.54.15").exists()
    new = world.pod("b", 2, card=1)
    world.kubelet.admit(new)

    def runs():
        """The agent may have looked while the files were being replaced; then it looks again."""
        try:
            return world.kubelet.run(new, "main")
        except StartError:
            return None
    other = wait_for(runs)
    assert other.mounts["/run/ration/driver/cuda/libcuda.so"]["hostPath"].endswith("libcuda.so.550.54.15")
    assert "/usr/lib64/libcuda.so.550.54.15" in other.mounts
    again = world.kubelet.run(pod, "main")
    assert again.mounts["/run/ration/driver/cuda/libcuda.so"]["hostPath"].endswith("libcuda.so.550.54.15")
    assert before.mounts["/run/ration/grant"] == again.mounts["/run/ration/grant"]
    assert identity(world, pod) == grant


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
    # A table that has to grow while there are threads waits for all processors (src/base/descriptors.h).
    size = pathlib.Path(f"/proc/{worker}/status").read_text().split("FDSize:")[1].split()[0]
    assert int(size) >= 4096


def test_allocate_with_grants_takes_less_than_5_ms():
    with isolated(cards="8x16384MiB", tls=True, run_in_memory=True) as w:
        w.up(128)
        times = allocate_times(w)
        assert len(list((w.state / "grants").iterdir())) == 110
        print(f"\nAllocate, 110 pods with grants, seen by the kubelet: median {statistics.median(times):.2f} ms, "
              f"p99 {times[-2]:.2f} ms")
        assert_within(times, 5)
