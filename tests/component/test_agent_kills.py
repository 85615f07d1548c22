"""ration-agent killed and asked to go, while a kubelet stands on it: nothing is rejected, nothing is given twice."""
import contextlib
import os
import signal
import statistics
import subprocess
import threading
import time

import pytest

from agent_fixture import SANITIZED, World, assert_within, wait_for
from cgpu_node import new_watches
from fake_kubelet import AdmissionError, Plugin, StartError, msg


def wait_other_worker(world, old):
    return wait_for(lambda: (w := world.worker()) and w != old and w)


# ---- the worker ----

def test_kubelet_does_not_notice_the_death_of_the_worker(world):
    registrations, seen = len(world.kubelet.registrations), []
    follower = threading.Thread(target=lambda: [
        (seen.append(set(world.kubelet.devices.values())), time.sleep(0.001)) for _ in range(500)])
    follower.start()
    old = world.kill_worker()
    wait_other_worker(world, old)
    follower.join()
    assert set().union(*seen) == {"Healthy"} and len(world.kubelet.registrations) == registrations
    assert len(world.kubelet.devices) == 32


@pytest.mark.long(23)
@pytest.mark.alone
@pytest.mark.waits
def test_allocate_while_the_worker_is_dead_waits_and_is_answered_within_50_ms(world):
    times = []
    for i in range(20):
        pod = world.pod(f"p{i}", 1, card=i % 2)
        wait_for(lambda: world.worker())
        begin = time.monotonic()
        world.kill_worker()
        world.kubelet.admit(pod)
        times.append((time.monotonic() - begin) * 1000)
        assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == str(i % 2)
        time.sleep(1.05)    # no crash loop
    print(f"\nSIGKILL of the worker to Allocate's answer by the next: median {statistics.median(times):.1f} ms, "
          f"max {max(times):.1f} ms of {len(times)}; load {os.getloadavg()[0]:.1f}")
    assert_within(times, 50)


def test_a_worker_has_one_inotify_instance(world):
    """More of them would delay the end of a killed worker (loop.h), and with it the next answer to the kubelet."""
    assert world.inotify_instances() == 1


def test_worker_killed_in_the_middle_of_allocate_gives_the_placement_once(world):
    """The kubelet is slow to say which pod it is: the worker dies with the call in its hands."""
    for n in range(4):
        pod = world.pod(f"p{n}", 2, card=1)
        world.kubelet.exhaust = 2
        killer = threading.Timer(0.004 * n, world.kill_worker)
        killer.start()
        world.kubelet.admit(pod)
        killer.join()
        assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_VISIBLE_DEVICES"] == world.uuid(1)
    assert len(world.kubelet.given) == 4


def test_worker_killed_before_the_kubelet_has_recorded_its_answer_answers_the_next_container(world, monkeypatch):
    """Two containers of a size: the next worker must know that the first one has its devices."""
    pod = world.pod_of("two", {"c1": 2, "c2": 2})
    record, kubelet = world.kubelet.write_checkpoint, world.kubelet

    def late():
        monkeypatch.setattr(kubelet, "write_checkpoint", record)
        world.api.clear_requests()
        world.kill_worker()
        wait_for(lambda: new_watches(world))
        record()

    monkeypatch.setattr(kubelet, "write_checkpoint", late)
    kubelet.admit(pod)
    names = [kubelet.run(pod, name).cdi for name in ("c1", "c2")]
    assert names == [[f"ration.dev/grant={pod['metadata']['uid']}.{name}"] for name in ("c1", "c2")]


def test_worker_killed_again_and_again_rejects_no_pod(world):
    stop = threading.Event()

    def killer():
        while not stop.wait(1.1):
            world.kill_worker()
    thread = threading.Thread(target=killer)
    thread.start()
    try:
        for i in range(60):
            pod = world.pod(f"p{i}", 1, card=i % 2)
            world.kubelet.admit(pod)
            assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == str(i % 2)
            world.kubelet.end(pod)
            world.kubelet.remove(pod)
            world.api.delete("pods", f"p{i}")
            time.sleep(0.05)
    finally:
        stop.set()
        thread.join()
    assert world.agent.poll() is None


def test_kubelet_that_restarts_while_the_worker_is_dead_is_registered_at(world):
    os.kill(world.worker(), signal.SIGSTOP)    # a worker that hangs does not see the kubelet come
    world.kubelet.stop()
    world.kubelet.start()
    time.sleep(0.1)
    world.kill_worker()
    world.kubelet.wait_devices(32)
    pod = world.pod("a", 3, card=1)
    world.kubelet.admit(pod)
    assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"


@contextlib.contextmanager
def new_agent_that_lists_slowly(seconds):
    """(world, pod, fault): a pod was admitted, and then another agent started, whose list of pods takes so long. With CDI the file of
    before would be good."""
    with World(cdi=False) as world:
        world.up(32)
        pod = world.pod("a", 3, card=1)
        world.kubelet.admit(pod)
        world.stop_agent()
        slow = world.api.inject("GET", "/pods$", watch=False, delay=seconds)
        world.start_agent()
        world.kubelet.wait_devices(32)
        yield world, pod, slow


def test_a_container_that_starts_while_a_new_agent_lists_the_pods_waits_for_the_list():
    with new_agent_that_lists_slowly(1.5) as (world, pod, slow):
        assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1" and slow.times == 0


def test_a_container_of_a_pod_that_the_api_server_does_not_tell_of_is_refused_in_words():
    with new_agent_that_lists_slowly(30) as (world, pod, slow):
        with pytest.raises(StartError, match=f"{pod['metadata']['uid']} is not known yet: the API server has not told"):
            world.kubelet.run(pod, "main")
        slow.times = 0


def test_kubelet_that_restarts_is_registered_at_by_a_second_worker(world):
    wait_other_worker(world, world.kill_worker())
    time.sleep(0.3)
    assert_within([world.kubelet.restart() * 1000 for _ in range(5)], 50, beside_others=True)
    world.kubelet.wait_devices(32)


@pytest.mark.waits
def test_worker_that_hangs_with_a_call_in_its_hands_is_replaced(world):
    old = world.worker()
    os.kill(old, signal.SIGSTOP)
    plugin, begin = Plugin(world.kubelet.plugin_dir / "ration-gpu-mem.sock"), time.monotonic()
    plugin.call("GetDevicePluginOptions", msg("Empty"), "DevicePluginOptions", timeout=60)
    plugin.close()
    assert 30 < time.monotonic() - begin < 45 and world.worker() != old
    assert "has not answered the kubelet for 30 s" in world.logged()
    assert list(world.kubelet.devices.values()) == ["Healthy"] * 32


def test_crash_loop_is_slowed_down_said_and_never_given_up(world):
    time.sleep(1.1)
    for _ in range(6):
        wait_for(lambda: world.worker())
        old = world.kill_worker(signal.SIGABRT)
        wait_for(lambda: world.worker() != old)
    assert world.worker() is None
    wait_for(lambda: "the next one starts in 1 s" in world.logged())    # written when the worker has been waited for
    assert "signal 6 (Aborted)" in world.logged()
    pod = world.pod("a", 3, card=1)
    begin = time.monotonic()
    world.kubelet.admit(pod)    # waits for the next worker
    assert time.monotonic() - begin < 5
    assert list(world.kubelet.devices.values()) == ["Healthy"] * 32


NO_FORK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
pid_t fork(void)
{
	if (access(getenv("NO_FORK"), F_OK) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return ((pid_t (*)(void))dlsym(RTLD_NEXT, "fork"))();
}
"""


@pytest.mark.plain    # its runtime has to be the first library
def test_node_without_free_pids_costs_the_supervisor_no_descriptors(tmp_path, monkeypatch):
    library, full = tmp_path / "no-fork.so", tmp_path / "full"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=NO_FORK, text=True, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("NO_FORK", str(full))
    with World() as world:
        world.up(32)
        before = sorted(os.listdir(f"/proc/{world.agent.pid}/fd"))
        full.touch()
        world.kill_worker()
        wait_for(lambda: world.logged().count("cannot start the worker: Resource temporarily unavailable") >= 3)
        assert len(os.listdir(f"/proc/{world.agent.pid}/fd")) <= len(before)
        full.unlink()
        wait_for(world.worker)
        pod = world.pod("a", 3, card=1)
        world.kubelet.admit(pod)
        assert list(world.kubelet.devices.values()) == ["Healthy"] * 32


def test_call_that_kills_three_workers_is_refused(world):
    pod = world.pod("poison", 3, card=1)
    world.kubelet.exhaust = 1000    # this call takes for ever
    seen = threading.Event()

    def killer():
        while not seen.is_set():
            if world.kubelet.lists > before:
                world.kill_worker()
                seen.wait(0.3)
            seen.wait(0.005)
    before = world.kubelet.lists
    thread = threading.Thread(target=killer)
    thread.start()
    try:
        with pytest.raises(AdmissionError, match="died three times|cannot ask the kubelet"):
            world.kubelet.admit(pod)
    finally:
        seen.set()
        thread.join()
        world.kubelet.exhaust = 0
    time.sleep(1)
    good = world.pod("good", 3, card=1)
    world.kubelet.admit(good)


def test_worker_dies_with_its_supervisor_and_the_next_agent_takes_over(world):
    running = world.pod("old", 3, card=1)
    world.kubelet.admit(running)
    world.kill_agent()
    world.kubelet.wait_devices(32, "Unhealthy")
    world.start_agent()
    world.kubelet.wait_devices(32)
    assert world.kubelet.run(running, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"


# ---- the supervisor ----

def test_second_agent_waits_and_takes_over_when_the_first_is_gone(world):
    first = world.agent
    registrations = len(world.kubelet.registrations)
    world.start_agent()
    wait_for(lambda: "another ration-agent" in world.logged())
    world.has_read_node()
    assert len(world.kubelet.registrations) == registrations and world.worker() is None
    world.statuses.add(-signal.SIGKILL)
    first.kill()
    first.wait()
    wait_for(lambda: len(world.kubelet.registrations) > registrations)
    world.kubelet.wait_devices(32)


def test_agent_that_cannot_start_at_all_says_so_and_ends():
    with World() as w:
        w.kubelet.start()
        w.kubeconfig = w.dir / "missing"
        w.start_agent()
        w.statuses = {1}
        assert w.agent.wait(10) == 1
        assert "missing" in w.logged()


def test_agent_that_is_given_a_pipe_for_its_kubeconfig_says_why_not():
    with World() as w:
        w.kubeconfig = w.dir / "pipe"
        os.mkfifo(w.kubeconfig)
        w.start_agent()
        w.statuses = {2}
        assert w.agent.wait(10) == 2
        assert "a pipe can be read once" in w.logged()


def test_first_process_holds_the_connections_and_little_else(world):
    time.sleep(1)
    # Clean pages are those of the libraries, its own or not by whether another agent runs on the machine.
    own = world.pages_kib(world.agent.pid, "Private_Dirty")
    print(f"\nmemory: {world.rss_kib()} KiB, of which {own} KiB are the first process's own")
    assert SANITIZED or own < 1024
    fds = len(os.listdir(f"/proc/{world.agent.pid}/fd"))
    assert fds < 16
    kept = {os.readlink(f"/proc/{world.worker()}/fd/{fd}") for fd in os.listdir(f"/proc/{world.worker()}/fd")}
    assert not any("agent.lock" in k for k in kept)


# ---- the fixture ----

@pytest.mark.parametrize("victim, said", [("worker", "a worker .*was killed by signal 6"), ("agent", "ended by itself, with -9")])
def test_a_process_that_dies_without_its_tests_doing_fails_the_test(victim, said):
    with pytest.raises(AssertionError, match=said), World() as w:
        w.up(32)
        old = w.worker()
        if victim == "worker":
            os.kill(old, signal.SIGABRT)
            wait_other_worker(w, old)
        else:
            os.kill(w.agent.pid, signal.SIGKILL)
            wait_for(lambda: not os.path.exists(f"/proc/{old}"))
