"""When a cgpu node is in service, and which version of the shim and the driver its containers have."""
import os
import pathlib
import shutil
import time

import pytest

from agent_fixture import wait_for
from cgpu_node import (come_back, folder, identity, in_service, isolated, not_ready, problem,
                       renew_worker, start, uid_of, version_of, versions, needs_root)
from fake_apiserver import FOREVER
from fake_kubelet import AdmissionError, StartError

pytestmark = needs_root


@pytest.fixture
def world():
    with isolated() as w:
        yield w.up(30)


@pytest.fixture
def down():
    with isolated() as w:
        yield w


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

    def served(asks):
        """The agent may have looked while the files were being replaced; then it looks again."""
        try:
            return asks() or True
        except (AdmissionError, StartError):
            return None
    wait_for(lambda: served(lambda: world.kubelet.admit(new)))
    other = wait_for(lambda: served(lambda: world.kubelet.run(new, "main")))
    assert other.mounts["/run/ration/driver/cuda/libcuda.so"]["hostPath"].endswith("libcuda.so.550.54.15")
    assert "/usr/lib64/libcuda.so.550.54.15" in other.mounts
    again = world.kubelet.run(pod, "main")
    assert again.mounts["/run/ration/driver/cuda/libcuda.so"]["hostPath"].endswith("libcuda.so.550.54.15")
    assert before.mounts["/run/ration/grant"] == again.mounts["/run/ration/grant"]
    assert identity(world, pod) == grant


def test_a_worker_that_does_not_know_the_mode_yet_starts_no_container(world):
    """It would have the whole GPU. Its state file is lost, and the list of nodes comes late."""
    pod, _ = start(world)
    (world.state / "agent-state.json").unlink()
    away = world.api.inject("GET", "/nodes", times=FOREVER, status=500)
    world.api.clear_requests()
    world.kill_worker()
    wait_for(lambda: len(world.api.requests_for("GET", "/api/v1/pods$")) == 2)    # the list, and the watch
    time.sleep(0.3)
    with pytest.raises(StartError, match="does not know yet in which mode this node is"):
        world.kubelet.run(pod, "main")
    away.times = 0
    wait_for(lambda: world.api.watches("nodes"))
    wait_for(lambda: starts(world, pod))


def starts(world, pod):
    try:
        return world.kubelet.run(pod, "main").mounts["/run/ration/shim"]
    except StartError:
        return None
