"""What ration-agent remembers, and what it cannot rely on: driver, runtime, directories and disks that are not there."""
import contextlib
import shutil
import subprocess
import time

import pytest

from agent_fixture import World, wait_for
from fake_kubelet import StartError


def remembers(world):
    wait_for(lambda: (world.state / "agent-state.json").exists())
    time.sleep(0.3)


def test_card_that_is_lost_while_the_agent_is_away_is_sick_and_not_gone(world):
    held = world.pod("a", 3, card=1)
    world.kubelet.admit(held)
    world.kubelet.run(held, "main")
    remembers(world)
    world.kill_agent()
    world.sim("fault", 1, "lost")
    world.start_agent()
    world.kubelet.wait_devices(13, "Unhealthy", timeout=15)
    ids = world.kubelet.given[held["metadata"]["uid"], "main"]
    assert len(world.kubelet.devices) == 32 and all(world.kubelet.devices[i] == "Healthy" for i in ids)
    wait_for(lambda: [c["healthy"] for c in world.cards()] == [True, False])
    pod = world.pod("b", 3, card=0)
    world.kubelet.admit(pod)
    assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "0"


@pytest.mark.waits
def test_driver_that_is_gone_at_the_start_makes_all_cards_sick_until_it_is_back(world):
    remembers(world)
    world.kill_agent()
    world.driver.rename(world.dir / "away")
    world.start_agent()
    wait_for(lambda: "no GPUs to share" in world.logged())
    world.kubelet.wait_devices(32, "Unhealthy", timeout=15)
    (world.dir / "away").rename(world.driver)
    world.kubelet.wait_devices(32, timeout=15)


def test_worker_that_starts_while_the_runtime_is_away_answers_as_before(world):
    remembers(world)
    world.kubelet.cri_server.stop(0).wait()
    world.kubelet.cri_server = None
    world.kill_worker()
    pod = world.pod("a", 3, card=1)
    begin = time.monotonic()
    world.kubelet.admit(pod)
    assert time.monotonic() - begin < 1
    assert world.kubelet.run(pod, "main").cdi == [f"ration.dev/grant={pod['metadata']['uid']}.main"]
    world.kubelet.start_runtime()


@pytest.mark.parametrize("text", ["", "{", '{"mode":"share"', '{"mode":"share","cards":[{"uuid":"../x"},7,{}]}', "[]",
                                  '{"mode":7,"cdi":"yes","cards":{}}', "x" * 100000], ids=range(7))
def test_state_that_makes_no_sense_is_as_none(world, text):
    remembers(world)
    world.kill_agent()
    (world.state / "agent-state.json").write_text(text)
    world.start_agent()
    world.kubelet.wait_devices(32, timeout=15)
    wait_for(lambda: '"cdi":true' in (world.state / "agent-state.json").read_text().replace(" ", ""))


def test_plugin_directory_that_is_made_anew_is_found(world):
    world.kubelet.stop()
    while world.kubelet.plugin_dir.exists():    # the agent puts its socket back
        shutil.rmtree(world.kubelet.plugin_dir, ignore_errors=True)
    time.sleep(0.5)
    world.kubelet.plugin_dir.mkdir()
    world.kubelet.start()
    world.kubelet.wait_devices(32, timeout=15)
    pod = world.pod("a", 3, card=1)
    world.kubelet.admit(pod)
    assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"


def test_cdi_directory_that_is_missing_is_made(world):
    world.kubelet.cdi_dir.rmdir()
    pod = world.pod("a", 3, card=1)
    world.kubelet.admit(pod)
    assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"


@contextlib.contextmanager
def mounted(path, options):
    path.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", path], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def starts_once_it_can(world, pod, what, cure):
    """The pod is not failed: it waits, with a sentence that says what is wrong."""
    world.kubelet.admit(pod)
    with pytest.raises(StartError, match=what):
        world.kubelet.run(pod, "main")
    cure()
    assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"


def test_cdi_directory_that_is_read_only_delays_the_pod_and_does_not_fail_it(world):
    with mounted(world.kubelet.cdi_dir, "ro"):
        starts_once_it_can(world, world.pod("a", 3, card=1), "cannot write the CDI file.*Read-only file system",
                           lambda: subprocess.run(["mount", "-o", "remount,rw", world.kubelet.cdi_dir], check=True))


def test_disk_that_is_full_delays_the_pod_and_does_not_fail_it(world):
    with mounted(world.kubelet.cdi_dir, "size=16k"):
        filler = world.kubelet.cdi_dir / "filler"
        with contextlib.suppress(OSError), open(filler, "wb") as f:
            for _ in range(100):
                f.write(b"x" * 1024)
                f.flush()
        starts_once_it_can(world, world.pod("a", 3, card=1), "cannot write the CDI file.*No space left",
                           filler.unlink)
        assert not [p for p in world.kubelet.cdi_dir.iterdir() if "tmp" in p.name]


def test_state_directory_that_cannot_be_written_to_is_said_once_and_survived():
    with World() as w, mounted(w.state, "ro"):
        w.up(32)
        pod = w.pod("a", 3, card=1)
        w.kubelet.admit(pod)
        assert w.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"
        time.sleep(2.2)
        assert w.logged().count("should this agent restart") == 1
        w.kill_worker()
        late = w.pod("b", 3, card=0)
        w.kubelet.admit(late)
        assert list(w.kubelet.devices.values()) == ["Healthy"] * 32
        w.stop_agent()
