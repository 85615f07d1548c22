"""What the agent of an isolated node sees of running programs: memory that no call of theirs shows, refused allocations,
programs past their limit. Real programs with the real shim on the simulated driver."""
import json
import os
import pathlib
import re
import signal
import statistics
import struct
import subprocess
import time

import pytest

import grants
from agent_fixture import BUILD, FULL, SANITIZED
from isolated import MIB, Node, container_id, wait_for
from obeying import CONTEXT, CONTEXT_SCRIPT, LIMIT, LIVE, OBEY, folder, live, tell, wait_for_look
from metrics_page import agent_page

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or os.path.exists("/run/ration/grant"),
                                reason="mounts file systems, which needs root")

@pytest.fixture
def node():
    with Node() as n:
        yield n.up(30)


def overhead(node, pod):
    return live(node, pod)[0]


def settles_at(node, pod, expected):
    wait_for(lambda: overhead(node, pod) == expected, 10)


# ---- overhead ----

def test_context_counts_against_the_limit_before_the_next_allocation(node):
    pod, container = node.start_container()
    times = []
    for _ in range(8):
        program = node.program(pod, container, """
            ok(cu.cuInit(0))
            begin = time.monotonic()
            ctx = context()
            left = free_bytes()
            say(left, int((time.monotonic() - begin) * 1e6))
            """)
        left, took = map(int, program.reads().split())
        program.end()
        times.append((took, LIMIT - left))
    print("\na context until it is counted, us:", sorted(took for took, _ in times))
    in_time = [took for took, counted in times if counted == CONTEXT]
    # A second is what the program waits.
    assert len(in_time) >= (8 if not SANITIZED else 4), times
    settles_at(node, pod, 0)


def test_overhead_of_the_living_stays_right_when_another_process_is_killed(node):
    pod, container = node.start_container()
    first = node.program(pod, container, CONTEXT_SCRIPT, OBEY)
    first.reads()
    assert tell(first, "alloc", 1000 * MIB) == 0
    second = node.program(pod, container, CONTEXT_SCRIPT, OBEY)
    second.reads()
    assert tell(second, "alloc", 100 * MIB) == 0
    settles_at(node, pod, CONTEXT)    # the second one's is charged: what a context takes is known by then
    first.end()
    settles_at(node, pod, 0)
    # What was charged by the dead is recovered only now, and the limit holds all the same.
    left = LIMIT - CONTEXT - 100 * MIB
    assert tell(second, "alloc", left + (2 << 20)) == 2
    assert tell(second, "alloc", left & ~((2 << 20) - 1)) == 0
    assert tell(second, "alloc", 2 << 20) == 2
    assert node.driver_bytes(second) <= LIMIT


def test_memory_of_the_programs_own_is_no_overhead(node):
    pod, container = node.start_container()
    program = node.program(pod, container, CONTEXT_SCRIPT, OBEY)
    program.reads()
    for size in (1, 3 << 10, 5 << 20, 700 << 20):
        assert tell(program, "alloc", size) == 0
    wait_for_look(node, pod)
    assert overhead(node, pod) == CONTEXT
    page = agent_page(node)
    labels = {"namespace": "default", "pod": "a", "container": "main", "gpu": "0", "UUID": node.uuid(0)}
    assert page("ration_container_limit_bytes", **labels) == LIMIT
    assert page("ration_container_overhead_bytes", **labels) == CONTEXT
    assert page("ration_container_used_bytes", **labels) == node.driver_bytes(program)
    assert page("ration_container_refused_total", **labels) == 0
    model = {key: labels[key] for key in ("gpu", "UUID")} | {"modelName": "Tesla V100-SXM2-16GB"}
    assert page("ration_gpu_used_bytes", **model) == node.driver_bytes(program)


def test_containers_of_one_pod_are_told_apart(node):
    pod = node.pod_of("two", {"main": 2, "side": 3})
    node.kubelet.admit(pod)
    main, side = node.kubelet.run(pod, "main"), node.kubelet.run(pod, "side")
    node.program(pod, main, CONTEXT_SCRIPT, OBEY).reads()
    node.program(pod, side, CONTEXT_SCRIPT, OBEY, name="side").reads()
    node.program(pod, side, CONTEXT_SCRIPT, OBEY, name="side").reads()

    def both():
        found = [struct.unpack_from("<Q", (folder(node, pod, name) / "grant").read_bytes(), LIVE)[0]
                 for name in ("main", "side")]
        return found == [CONTEXT, CONTEXT]    # the third is charged
    wait_for(both, 10)


def test_cgroup_that_a_container_made_below_its_own_counts_for_it(node):
    pod, container = node.start_container()
    other, _ = node.start_container("victim")
    forged = f"/kubepods/pod{other['metadata']['uid']}/{container_id(other['metadata']['uid'], 'main')}"
    own = f"/kubepods/burstable/pod{pod['metadata']['uid']}/{container_id(pod['metadata']['uid'], 'main')}"
    node.program(pod, container, CONTEXT_SCRIPT, OBEY, cgroup=own + forged).reads()
    settles_at(node, pod, CONTEXT)
    assert overhead(node, other) == 0


def test_new_context_waits_for_an_agent_that_lives_and_hardly_for_one_that_does_not(node):
    pod, container = node.start_container()

    def made():
        return map(int, node.program(pod, container, MAKE_CONTEXT, OBEY).reads().split())
    worker = node.worker()
    os.kill(worker, signal.SIGSTOP)
    took, free = made()
    assert 1000 <= took < (1500 if not SANITIZED else 5000) and free == LIMIT    # nobody has counted it
    program = node.program(pod, container, MAKE_CONTEXT, OBEY)
    wait_for(lambda: node.driver_bytes(program) == CONTEXT)
    time.sleep(0.5)
    os.kill(worker, signal.SIGCONT)
    took, free = map(int, program.reads().split())
    assert 500 <= took < (1000 if not SANITIZED else 5000) and free == LIMIT - 2 * CONTEXT
    node.kill_agent()
    took, free = made()
    assert 250 <= took < (500 if not SANITIZED else 5000) and free == LIMIT - 3 * CONTEXT    # it is charged
    node.start_agent()
    wait_for_look(node, pod)    # of the new agent: the number is right already
    settles_at(node, pod, 2 * CONTEXT)


def test_grants_are_looked_after_by_the_worker_after_this_one(node):
    pod, container = node.start_container()
    program = node.program(pod, container, CONTEXT_SCRIPT, OBEY)
    program.reads()
    settles_at(node, pod, CONTEXT)
    node.kill_worker()
    wait_for_look(node, pod)
    again = node.program(pod, container, CONTEXT_SCRIPT, OBEY)
    again.reads()
    settles_at(node, pod, CONTEXT)
    assert tell(again, "info") == LIMIT - 2 * CONTEXT


# ---- whose memory that is ----

NEW_ID = "f" * 64    # of a container that was started again


def two_containers(node):
    """A pod whose new processes are of a container that only the runtime can name."""
    pod = node.pod_of("two", {"main": 2, "side": 3})
    node.kubelet.admit(pod)
    main, _ = node.kubelet.run(pod, "main"), node.kubelet.run(pod, "side")
    node.kubelet.restarted[NEW_ID] = (pod["metadata"]["uid"], "main")
    node.kubelet.unnamed.add(NEW_ID)
    return pod, main, f"/kubepods/burstable/pod{pod['metadata']['uid']}/{NEW_ID}"


MAKE_CONTEXT = """
    ok(cu.cuInit(0))
    begin = time.monotonic()
    ctx = context()
    free = free_bytes()
    say(int((time.monotonic() - begin) * 1000), free)
    """


def test_new_context_waits_until_it_is_known_whose_memory_that_is(node):
    pod, main, cgroup = two_containers(node)
    program = node.program(pod, main, MAKE_CONTEXT, OBEY, cgroup=cgroup)
    time.sleep(0.1)
    node.kubelet.unnamed.clear()
    took, free = map(int, program.reads().split())
    assert 50 < took < (250 if not SANITIZED else 2500) and free == LIMIT - CONTEXT
    # Who does not get to know it goes on after a second all the same: then it counts as known.
    node.kubelet.unnamed.add("e" * 64)
    node.kubelet.restarted["e" * 64] = (pod["metadata"]["uid"], "main")
    other = node.program(pod, main, MAKE_CONTEXT, OBEY, cgroup=cgroup.replace(NEW_ID, "e" * 64))
    took, free = map(int, other.reads().split())
    assert 900 <= took < (2000 if not SANITIZED else 5000) and free in (LIMIT - CONTEXT, LIMIT - 2 * CONTEXT)
    node.kubelet.unnamed.clear()
    settles_at(node, pod, CONTEXT)
    assert tell(other, "info") == LIMIT - 2 * CONTEXT


def test_look_that_cannot_tell_whose_memory_that_is_makes_no_room(node):
    """A container is started again: the first one's context is gone, the second one's is nobody's for a while."""
    pod, main, cgroup = two_containers(node)
    first = node.program(pod, main, CONTEXT_SCRIPT, OBEY)
    first.reads()
    settles_at(node, pod, CONTEXT)
    second = node.program(pod, main, MAKE_CONTEXT, OBEY, cgroup=cgroup)
    wait_for(lambda: node.driver_bytes(second) == CONTEXT)
    first.end()
    seen, stop = set(), time.monotonic() + 0.15
    while time.monotonic() < stop:
        seen.add(overhead(node, pod))
    assert seen == {CONTEXT}
    node.kubelet.unnamed.clear()
    assert int(second.reads().split()[1]) == LIMIT - CONTEXT
    settles_at(node, pod, 0)


def test_runtime_that_does_not_answer_keeps_no_memory_from_anybody_for_long(node):
    pod, main, cgroup = two_containers(node)
    first = node.program(pod, main, CONTEXT_SCRIPT, OBEY)
    first.reads()
    settles_at(node, pod, CONTEXT)
    node.program(pod, main, CONTEXT_SCRIPT, OBEY, cgroup=cgroup).reads()
    first.end()
    settles_at(node, pod, 0)
    looks = live(node, pod)[1]
    time.sleep(2)
    assert live(node, pod)[1] - looks <= 5    # one each second, as ever


def test_containers_of_which_the_runtime_says_nothing_delay_no_other_pod(node):
    pod, main, cgroup = two_containers(node)
    neighbour, container = node.start_container("neighbour")
    quick = node.program(neighbour, container, "ok(cu.cuInit(0))\nsay(0)\nwait()\n", MAKE_CONTEXT)
    quick.reads()
    slow = node.program(pod, main, MAKE_CONTEXT, OBEY, cgroup=cgroup)
    wait_for(lambda: node.driver_bytes(slow) == CONTEXT)
    quick.go()
    took, free = map(int, quick.reads().split())
    slow_took = int(slow.reads().split()[0])
    assert slow_took >= 900 and slow_took - took > 450 and free == LIMIT - CONTEXT
    assert took < 100 or SANITIZED or not FULL    # beside nineteen others it may wait for a processor


# ---- memory that two containers have ----

HANDLES = """
    class Handle(Structure):
        _fields_ = [("bytes", c_ubyte * 64)]
    """
EXPORT = """
    ok(cu.cuInit(0))
    ctx, handle = context(), Handle()
    ok(cu.cuIpcGetMemHandle(byref(handle), alloc(%d * MiB)))
    say(bytes(handle.bytes).hex())
    """
OPEN = """
    ok(cu.cuInit(0))
    ctx, opened = context(), c_uint64()
    def open_it():
        handle = Handle((c_ubyte * 64).from_buffer_copy(bytes.fromhex(sys.stdin.readline())))
        ok(cu.cuIpcOpenMemHandle_v2(byref(opened), handle, 1))
        say(0)
    open_it()
    sys.stdin.readline()
    ok(cu.cuIpcCloseMemHandle(opened))
    say(0)
    """


def opened_by(maker, opener):
    handle = maker.reads()
    opener.process.stdin.write(handle + "\n")
    opener.process.stdin.flush()
    opener.reads("0")


def test_memory_that_another_container_opens_counts_for_both_and_stays_with_who_lives(node):
    """The driver counts it for each, and nobody else can tell that it is the same: so neither can hide behind the other."""
    (owner, owners), (guest, guests) = node.start_container("owner", 4), node.start_container("guest", 2)
    maker = node.program(owner, owners, HANDLES, EXPORT % 1000, OBEY)
    opener = node.program(guest, guests, HANDLES, OPEN, OBEY)
    opened_by(maker, opener)
    settles_at(node, guest, CONTEXT + 1000 * MIB)
    settles_at(node, owner, CONTEXT)
    again = node.program(guest, guests, CONTEXT_SCRIPT, OBEY)
    again.reads()
    settles_at(node, guest, CONTEXT + 1000 * MIB)    # and a context that is charged
    left = LIMIT - 2 * CONTEXT - 1000 * MIB
    assert tell(again, "alloc", left + (2 << 20)) == 2 and tell(again, "alloc", left & ~((2 << 20) - 1)) == 0
    maker.end()
    settles_at(node, owner, 0)
    wait_for_look(node, guest)
    assert overhead(node, guest) == CONTEXT + 1000 * MIB and node.driver_bytes(opener) == CONTEXT + 1000 * MIB
    opener.go()
    opener.reads("0")
    settles_at(node, guest, CONTEXT)


@pytest.mark.waits
def test_container_that_opens_more_than_its_limit_is_told(node):
    (owner, owners), (guest, guests) = node.start_container("owner", 6), node.start_container("guest", 2)
    maker = node.program(owner, owners, HANDLES, EXPORT % 3000, OBEY)
    opened_by(maker, node.program(guest, guests, HANDLES, OPEN, OBEY))
    event = wait_for(lambda: node.api.events("GPUOverLimit"), 15)[0]
    assert event["involvedObject"]["name"] == "guest" and "uses 3312 MiB" in event["message"]
    assert len(node.api.events("GPUOverLimit")) == 1


# ---- a driver that does not tell ----

SILENT = r"""
#include <dlfcn.h>
#include <unistd.h>
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *infos)
{
	int (*list)(void *, unsigned *, void *) = dlsym(RTLD_NEXT, "nvmlDeviceGetComputeRunningProcesses_v3");
	if (access("%s", F_OK) == 0)
		return 3;    /* NVML_ERROR_NOT_SUPPORTED */
	if (access("%s", F_OK) == 0)
		sleep(60);
	return list(device, count, infos);
}
"""


SLOW = r"""
#include <dlfcn.h>
#include <unistd.h>
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *infos)
{
	int (*list)(void *, unsigned *, void *) = dlsym(RTLD_NEXT, "nvmlDeviceGetComputeRunningProcesses_v3");
	int r = list(device, count, infos);
	if (access("%s", F_OK) == 0)
		usleep(200000);
	return r;
}
"""
FILL = """
    free = held = 0
    while True:
        pointer = c_uint64()
        if cu.cuMemAlloc_v2(byref(pointer), c_size_t(2 * MiB)) != OK:
            break
        held += 2 * MiB
        time.sleep(0.002)
    say(held)
    """


@pytest.mark.waits
def test_container_that_allocates_during_slow_looks_gets_its_limit_and_no_more():
    with Node() as node:
        switch = node.dir / "slow"
        node.change_driver(SLOW % switch)
        node.up(30)
        pod, container = node.start_container()
        program = node.program(pod, container, CONTEXT_SCRIPT, "wait()", FILL, OBEY)
        program.reads()
        settles_at(node, pod, CONTEXT)
        switch.touch()
        wait_for_look(node, pod)
        program.go()
        assert int(program.reads()) == (LIMIT - CONTEXT) // (2 * MIB) * (2 * MIB)


# What a thread has that never comes back from the driver is not given back: a leak for a sanitizer.
@pytest.mark.parametrize("how, what", [("fails", "Operation not supported"),
                                       pytest.param("hangs", "it does not answer", marks=pytest.mark.plain)])
@pytest.mark.waits
def test_driver_that_does_not_say_who_holds_memory_is_told_of(how, what):
    with Node() as node:
        switch = node.dir / how
        node.change_driver(SILENT % (node.dir / "fails", node.dir / "hangs"))
        node.up(30)
        pod, container = node.start_container()
        wait_for_look(node, pod)
        switch.touch()
        event = wait_for(lambda: [e for e in node.api.events("GPUMemoryUnseen") if "GPU 0 " in e["message"]], 20)[0]
        assert what in event["message"] and event["involvedObject"]["kind"] == "Node"
        # Nobody waits long for a look that will not come.
        took, _ = map(int, node.program(pod, container, MAKE_CONTEXT).reads().split())
        assert 250 <= took < (500 if not SANITIZED else 5000)
        if how == "fails":
            switch.unlink()
            wait_for_look(node, pod)
            took, _ = map(int, node.program(pod, container, MAKE_CONTEXT).reads().split())
            assert took < (250 if not SANITIZED else 5000)
            wait_for(lambda: f"the driver says again who holds memory of GPU {node.uuid(0)}" in node.logged())
            assert len([e for e in node.api.events("GPUMemoryUnseen") if "GPU 0 " in e["message"]]) == 1


# ---- hostile ----

def garble(usage, what):
    data = bytearray(usage.read_bytes())
    if what == "cut off":
        os.truncate(usage, 100)
    elif what == "empty":
        os.truncate(usage, 0)
    elif what == "grown":
        os.truncate(usage, len(data) + (64 << 10))
    elif what == "garbage":
        with open(usage, "r+b") as file:
            file.write(b"\xff" * len(data))
    elif what == "all slots":
        with open(usage, "r+b") as file:
            file.seek(24)
            file.write(struct.pack("<I", 0xffffffff))
            for slot in range(1024):
                file.seek(128 + 64 * 128 + slot * 1088)
                file.write(struct.pack("<Q", slot + 1))


@pytest.mark.parametrize("what", ["cut off", "empty", "grown", "garbage", "all slots"])
def test_usage_file_of_a_container_may_hold_anything(node, what):
    victim, victims = node.start_container("victim")
    node.program(victim, victims, CONTEXT_SCRIPT, OBEY).reads()
    pod, container = node.start_container()
    program = node.program(pod, container, CONTEXT_SCRIPT, OBEY)
    program.reads()
    worker = node.worker()
    garble(folder(node, pod) / "usage", what)
    wait_for_look(node, pod, 3)
    assert node.worker() == worker
    # All that the driver counts is overhead then, or what is charged was nothing.
    assert overhead(node, pod) == CONTEXT
    settles_at(node, victim, CONTEXT)


def test_processes_that_come_and_go_while_they_are_looked_at(node):
    pod, container = node.start_container()
    worker = node.worker()
    for _ in range(6):
        program = node.program(pod, container, CONTEXT_SCRIPT)
        program.reads()
        program.end()
    wait_for_look(node, pod)
    settles_at(node, pod, 0)
    assert node.worker() == worker


def test_container_that_asks_without_end_costs_little(node):
    pod, container = node.start_container()
    node.program(pod, container, CONTEXT_SCRIPT, OBEY).reads()
    settles_at(node, pod, CONTEXT)
    usage = folder(node, pod) / "usage"

    def ask(seconds):
        begin, cpu, looks = time.monotonic(), node.cpu_seconds(), live(node, pod)[1]
        while time.monotonic() < begin + seconds:
            usage.open("rb").close()
            time.sleep(0.0005)
        took = time.monotonic() - begin
        return (live(node, pod)[1] - looks) / took, (node.cpu_seconds() - cpu) / took

    first = ask(3)    # what a starting program may ask for is over by then
    then = ask(3)
    print(f"\nasked without end: {first[0]:.0f} looks and {1000 * first[1]:.1f} ms of processor time a second, then "
          f"{then[0]:.0f} and {1000 * then[1]:.1f} ms")
    assert then[0] <= 60
    if not SANITIZED:
        assert first[1] < 0.25 and then[1] < 0.2


def test_program_that_loads_hundreds_of_modules_in_a_small_slice_starts_soon(node):
    """Less than 1 GiB is left, so each load waits for a look that knows what it took."""
    pod, container = node.start_container()
    program = node.program(pod, container, """
        ok(cu.cuInit(0))
        ctx, p, image = context(), c_uint64(), b'{"rationSimModule": 1, "memoryMiB": 2, "functions": {"f": {"us": 1}}}'
        ok(cu.cuMemAlloc_v2(byref(p), c_size_t(1000 << 20)))
        begin = time.monotonic()
        for _ in range(200):
            ok(cu.cuModuleLoadData(byref(c_void_p()), image))
        say(int((time.monotonic() - begin) * 1000), free_bytes())
        """)
    ms, free = map(int, program.reads().split())
    print(f"\n200 modules in {ms} ms")
    assert free == LIMIT - CONTEXT - 1000 * MIB - 200 * 2 * MIB
    assert SANITIZED or ms < 2000


def test_containers_that_make_looks_long_and_many_leave_the_kubelet_its_answers(node):
    """15 on one card, each with all slots in use and asking without end."""
    pods = [node.start_container(f"p{i}", 1)[0] for i in range(15)]
    usages = [folder(node, pod) / "usage" for pod in pods]
    for usage in usages:
        garble(usage, "all slots")
    cpu, begin, times = node.cpu_seconds(), time.monotonic(), []
    while time.monotonic() < begin + 3:
        for usage in usages:
            usage.open("rb").close()
        if len(times) < 15 * (time.monotonic() - begin) / 3 - 1:
            started = time.monotonic()
            node.start_container(f"q{len(times)}", 1, card=1)
            times.append(1000 * (time.monotonic() - started))
    share = (node.cpu_seconds() - cpu) / (time.monotonic() - begin)
    print(f"\n15 hostile containers: {100 * share:.0f} % of a processor, "
          f"a pod admitted and started in {statistics.median(times):.1f} ms")
    assert len(times) > 5
    if not SANITIZED:
        assert share < 0.25


# ---- refusals ----

@pytest.mark.waits
def test_refused_allocations_are_told_on_the_pod_once_in_a_minute(node):
    pod, container = node.start_container()
    program = node.program(pod, container, CONTEXT_SCRIPT, OBEY)
    program.reads()
    assert tell(program, "alloc", 1000 * MIB) == 0
    wait_for_look(node, pod)
    for _ in range(3):
        assert tell(program, "alloc", 4096 * MIB) == 2
    event = wait_for(lambda: node.api.events("GPUMemoryRefused"))[0]
    assert event["involvedObject"]["name"] == "a" and event["type"] == "Warning"
    assert re.fullmatch(
        r"container main was refused GPU memory \d times?: it asked for 4096 MiB( at last)?, its limit on GPU 0 is "
        r"2154 MiB, 1312 MiB of it are in use \(python3(\.\d+)? 1312 MiB\)", event["message"]), event["message"]
    assert tell(program, "alloc", 4096 * MIB) == 2
    for _ in range(3):
        wait_for_look(node, pod)
    assert len(node.api.events("GPUMemoryRefused")) == 1
    assert agent_page(node)("ration_container_refused_total", namespace="default", pod="a", container="main", gpu="0",
                            UUID=node.uuid(0)) == 4


# ---- past the limit ----

def bypasses(node):
    page = agent_page(node)
    return {reason: page("ration_bypass_total", reason=reason) for reason in ("no_grant", "over_limit")}


@pytest.mark.waits
def test_memory_past_the_limit_and_cards_without_a_grant_are_told_within_10_seconds(node):
    """A program that brings its own driver; one that has no grant; one of no pod at all."""
    pod, container = node.start_container()
    plain = node.api.create_pod("plain", node="n1")
    uid = plain["metadata"]["uid"]
    node.kubelet.containers[uid, "main"] = 1
    begin = time.monotonic()
    node.program(pod, container, CONTEXT_SCRIPT, "alloc(3000 * MiB)", OBEY, shim=False).reads()
    stray = node.program(pod, container, CONTEXT_SCRIPT, OBEY, shim=False,
                         cgroup=f"/kubepods/besteffort/pod{uid}/{container_id(uid, 'main')}")
    stray.reads()
    host = node.program(pod, container, CONTEXT_SCRIPT, OBEY, shim=False, cgroup="/user.slice/session-2.scope")
    host.reads()
    over = wait_for(lambda: node.api.events("GPUOverLimit"), 15)[0]
    without = wait_for(lambda: len(node.api.events("GPUWithoutGrant")) == 2 and node.api.events("GPUWithoutGrant"), 15)
    took = time.monotonic() - begin
    print(f"\ndetected and told within {took:.1f} s")
    assert took < (10 if not SANITIZED else 20)
    assert over["involvedObject"]["name"] == "a"
    assert over["message"].startswith("container main uses 3312 MiB of GPU 0 (GPU-")
    assert "over its limit of 2154 MiB" in over["message"]
    texts = {e["involvedObject"]["name"]: e["message"] for e in without}
    assert re.match(rf"process {stray.pid} \(python3[.\d]*\) of container main of pod plain uses 312 MiB of GPU 0 \(GPU-",
                    texts["plain"])
    assert re.match(rf"process {host.pid} \(python3[.\d]*\) of no pod uses 312 MiB of GPU 0 \(GPU-", texts["n1"])
    assert bypasses(node) == {"no_grant": 2, "over_limit": 1}
    time.sleep(2)
    assert bypasses(node) == {"no_grant": 2, "over_limit": 1}
    assert not node.api.requests_for("POST", "/eviction$")


@pytest.mark.waits
def test_pod_with_many_processes_leaves_room_in_the_watchdogs_book_for_others(node):
    pod, container = node.start_container()
    plain = node.api.create_pod("plain", node="n1")
    uid = plain["metadata"]["uid"]
    node.kubelet.containers[uid, "main"] = 1
    cgroup = f"/kubepods/besteffort/pod{uid}/{container_id(uid, 'main')}"
    for _ in range(10):
        node.program(pod, container, CONTEXT_SCRIPT, OBEY, shim=False, cgroup=cgroup).reads()
    wait_for(lambda: len(node.api.events("GPUWithoutGrant")) >= 8, 20)
    node.program(pod, container, CONTEXT_SCRIPT, OBEY, shim=False, cgroup="/user.slice/session-2.scope").reads()
    wait_for(lambda: any(e["involvedObject"]["name"] == "n1" for e in node.api.events("GPUWithoutGrant")), 20)
    assert bypasses(node) == {"no_grant": 8 + 1, "over_limit": 0}


@pytest.mark.waits
def test_container_that_the_runtime_does_not_know_has_no_grant(node):
    pod, container = node.start_container()
    node.program(pod, container, CONTEXT_SCRIPT, OBEY,
                 cgroup=f"/kubepods/burstable/pod{pod['metadata']['uid']}/{'0' * 64}").reads()
    event = wait_for(lambda: node.api.events("GPUWithoutGrant"), 15)[0]
    assert event["involvedObject"]["name"] == "a" and "container (unknown) of pod a" in event["message"]


def a_later_bypass_is_found(node):
    """What was one before it has been found as well."""
    node.program(*node.start_container("later"), CONTEXT_SCRIPT, "alloc(3000 * MiB)", OBEY, shim=False).reads()
    wait_for(lambda: bypasses(node)["over_limit"], 20)


@pytest.mark.waits
def test_programs_within_their_limit_are_no_bypass(node):
    pod, container = node.start_container()
    program = node.program(pod, container, CONTEXT_SCRIPT, OBEY)
    program.reads()
    assert tell(program, "alloc", 1800 * MIB) == 0
    a_later_bypass_is_found(node)
    found = wait_for(lambda: node.api.events("GPUOverLimit"))
    assert bypasses(node) == {"no_grant": 0, "over_limit": 1} and not node.api.events("GPUWithoutGrant")
    assert [e["involvedObject"]["name"] for e in found] == ["later"]


@pytest.mark.waits
def test_container_that_may_have_the_whole_card_is_no_bypass():
    with Node(options=("--allow-disable",)) as node:
        node.up(30)
        pod, container = node.start_container()
        free = node.api.create_pod("free", node="n1", annotations=node.placement(0, main=1), spec={"containers": [
            {"name": "main", "image": "example", "env": [{"name": "CGPU_DISABLE", "value": "true"}],
             "resources": {"limits": {"aliyun.com/gpu-mem": "1"}, "requests": {"aliyun.com/gpu-mem": "1"}}}]})
        node.kubelet.admit(free)
        node.kubelet.run(free, "main")
        uid = free["metadata"]["uid"]
        node.program(pod, container, CONTEXT_SCRIPT, "alloc(3000 * MiB)", OBEY, shim=False,
                     cgroup=f"/kubepods/pod{uid}/{container_id(uid, 'main')}").reads()
        a_later_bypass_is_found(node)
        assert bypasses(node) == {"no_grant": 0, "over_limit": 1}
        assert [e["involvedObject"]["name"] for e in wait_for(lambda: node.api.events("GPUOverLimit"))] == ["later"]


@pytest.mark.waits
def test_pod_past_its_limit_is_evicted_where_the_cluster_wants_that():
    with Node(options=("--on-bypass", "evict")) as node:
        node.up(30)
        pod, container = node.start_container()
        begin = time.monotonic()
        node.program(pod, container, CONTEXT_SCRIPT, "alloc(3000 * MiB)", OBEY, shim=False).reads()
        asked = wait_for(lambda: node.api.requests_for("POST", "/pods/a/eviction$"), 15)
        assert time.monotonic() - begin < 10 or SANITIZED
        assert pod["metadata"]["uid"] in json.dumps(asked[0].body)
        wait_for(lambda: agent_page(node)("ration_bypass_evictions_total", result="accepted") == 1)
        time.sleep(1.5)
        assert len(node.api.requests_for("POST", "/eviction$")) == 1


# ---- cost ----

def hold(node, pods):
    """100 MiB for each of the pods, on the card that it is on."""
    holders = []
    for i, (pod, _) in enumerate(pods):
        uid = pod["metadata"]["uid"]
        holders.append(subprocess.Popen([BUILD / "sim/ration-sim", "hold", node.driver, str(i % 8), "100"],
                                        stdout=subprocess.PIPE))
        node.put(holders[-1].pid, f"/kubepods/burstable/pod{uid}/{container_id(uid, 'main')}")
    for process in holders:
        assert b"holds" in process.stdout.readline()
        process.stdout.close()
    return holders


def run_ns(*pids):
    """Processor time of all threads: of the first ones, and of the others, which is the one that asks the driver. The
    simulated driver's own work is most of that."""
    first = other = 0
    for pid in pids:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            ran = int((task / "schedstat").read_text().split()[0])
            first, other = (first + ran, other) if task.name == str(pid) else (first, other + ran)
    return first, other


def work_of(*pids):
    """Reads and writes of all threads, and how often a first thread went to sleep. Unlike processor time, these numbers do not
    depend on how fast the machine is at the moment."""
    reads = writes = sleeps = 0
    for pid in pids:
        io = dict(line.split(": ") for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines())
        reads, writes = reads + int(io["syscr"]), writes + int(io["syscw"])
        status = pathlib.Path(f"/proc/{pid}/task/{pid}/status").read_text()
        sleeps += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[1])
    return reads, writes, sleeps


@pytest.mark.alone
def test_eight_cards_with_twenty_containers_each_cost_little():
    """A process in each of 160 containers."""
    with Node(cards="8x81920MiB") as node:
        node.up(8 * 80)
        pods = []
        for i in range(160):
            pod = node.pod(f"p{i}", 4, card=i % 8)
            node.kubelet.admit(pod)
            pods.append((pod, node.kubelet.run(pod, "main")))
        holders = hold(node, pods)
        time.sleep(3)
        pids, length = (node.agent.pid, node.worker()), 60 if FULL else 5
        before, done = run_ns(*pids), work_of(*pids)
        time.sleep(length)
        loop, driver = (100 * (after - ran) / length / 1e9 for after, ran in zip(run_ns(*pids), before))
        reads, writes, sleeps = ((after - was) / length for after, was in zip(work_of(*pids), done))
        rss = node.rss_kib()
        print(f"\n160 containers with a process each: {loop:.2f} % of a processor, and {driver:.2f} % in the thread that "
              f"asks the driver; {reads:.0f} reads, {writes:.0f} writes and {sleeps:.0f} sleeps a second; {rss} KiB")
        page = agent_page(node)
        assert sum(page("ration_container_used_bytes", namespace="default", pod=f"p{i}", container="main",
                        gpu=str(i % 8), UUID=node.uuid(i % 8)) > 0 for i in range(160)) == 160
        for process in holders:
            process.kill()
            process.wait()
        if not SANITIZED:
            # The same build took 0.34 to 0.75 % within an hour of one machine (docs/measurements/agent.md), so its calls are
            # bounded, too: two reads and a write for each container.
            assert reads < 400 and writes < 200 and sleeps < 50
            assert loop + driver < 1 and rss < 12 << 10
