"""A container keeps to its share of a card's time: the shim on the simulated card, which stretches pairs of events by what
others do in between. The share is written into the grant as a keeper writes it; what was used is what was finished."""
import json
import signal
import struct
import time

import pytest

import grants
from driver_tree import BUILD, RATION_SIM, run
from shares import WORK
from shim_memory import Granted
from shim_programs import SHIM

pytestmark = pytest.mark.alone
WHOLE = 1_000_000
PERCENT = WHOLE // 100


@pytest.fixture(name="share")
def _share(granted):
    def set_share(percent, card=0):
        grants.set_core(granted.grant, card, round(percent * PERCENT))
    granted.share = set_share
    return granted


def has(measure, *ranges):
    """Each number that measure() returns is in its range. None may ever be above: that is more than was granted. What a program
    gets below its share depends on the machine: it may get no processor when it has credit, and its caches are cold when it has
    waited. So the lower ends are far away, and one measurement of five must do. tests/shares judges in virtual time what a share lacks."""
    for _ in range(5):
        numbers = measure()
        assert all(number <= high for number, (_, high) in zip(numbers, ranges)), numbers
        if all(low <= number for number, (low, _) in zip(numbers, ranges)):
            return
    raise AssertionError(f"{numbers} instead of {ranges}")


def usage(granted, card=0):
    """core_started_ns, core_waited_ns, core_asked, and what was started of copies to and from the card."""
    data = (granted.folder / "usage").read_bytes()[128 + card * 128:][:128]
    started, to_card, from_card, waited, asked = struct.unpack_from("<QQQQQ", data, 56)
    return started, waited, asked, (to_card, from_card)


@pytest.mark.parametrize("name, us, batch", [("us200", 200, 10), ("ms5", 5000, 2), ("ms50", 50000, 1), ("us2", 2, 200)])
def test_a_lone_container_has_its_share_and_no_more(share, name, us, batch):
    share.share(30)

    def run_for_4_s():
        before = usage(share)
        out = share.script(WORK, f"""
            f = kernel(b"{name}")
            spin(1, lambda: ok(launch(f)), {us}, {batch})
            say(spin(3, lambda: ok(launch(f)), {us}, {batch}))
            """)
        started, waited, asked = (now - then for now, then in zip(usage(share)[:3], before))
        return float(out), started / 4e9, waited / 4e9, asked
    has(run_for_4_s, (0.24, 0.32), (0.25, 0.36), (0.25, 1), (100, 1e6))


def test_without_a_share_nothing_is_counted_and_nobody_waits(share):
    def run_for_1_s():
        out = share.script(WORK, """
            f = kernel(b"us200")
            say(spin(1, lambda: ok(launch(f)), 200, 100))
            """)
        assert usage(share) == (0, 0, 0, (0, 0))
        return [float(out)]
    has(run_for_1_s, (0.8, 1.05))


def test_a_whole_card_is_counted_and_never_waited_for(share):
    share.share(100)

    def run_for_2_s():
        before = usage(share)
        out = share.script(WORK, """
            f = kernel(b"us200")
            say(spin(2, lambda: ok(launch(f)), 200, 100))
            """)
        started, waited, asked = (now - then for now, then in zip(usage(share)[:3], before))
        assert waited == 0 and asked > 100
        return float(out), started / (float(out) * 2e9)
    has(run_for_2_s, (0.8, 1.05), (0.95, 1.05))


# Several at a time

def exclusive_ns(granted, pids, card=0):
    """What these processes had of the card, from the card itself."""
    rows = json.loads(run(RATION_SIM, "usage", granted.tree.path, "--json").stdout)["processes"]
    return sum(row["smNs"] for row in rows if row["pid"] in pids and row["card"] == card)


class Shares:
    """Of containers by their processes, between two moments."""

    def __init__(self, granted, *containers):
        self.granted, self.containers = granted, containers
        self.begin()

    def read(self):
        return time.monotonic_ns(), [exclusive_ns(self.granted, [p.pid for p in container])
                                     for container in self.containers]

    def begin(self):
        self.before = self.read()

    def percent(self):
        (t0, before), (t1, now) = self.before, self.read()
        return [100 * (b - a) / (t1 - t0) for a, b in zip(before, now)]

    def over(self, seconds):
        self.begin()
        time.sleep(seconds)
        return self.percent()


ENDLESS = """
f = kernel(b"%s")
say("ready")
while True:
    for i in range(%d): ok(launch(f))
    ok(cu.cuStreamSynchronize(None))
"""


def endless(granted, name="us200", batch=10, **more):
    process = granted.start(WORK, ENDLESS % (name, batch), **more)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture(name="started")
def _started():
    """Processes that end with the test."""
    processes = []
    yield lambda process: processes.append(process) or process
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture(name="neighbour")
def _neighbour(share, tmp_path):
    """A second container on the same cards."""
    folder = tmp_path / "neighbour"
    folder.mkdir()
    return Granted(share.tree, folder, [1024 << 20, 1024 << 20])


def test_two_processes_of_a_container_share_one_bucket(share, started):
    share.share(30)
    both = [started(endless(share)) for _ in range(2)]
    time.sleep(1)
    has(lambda: Shares(share, both).over(3), (28, 32))


def test_two_containers_have_what_each_was_granted(share, neighbour, started):
    share.share(30)
    grants.set_core(neighbour.grant, 0, 70 * PERCENT)
    a, b = started(endless(share)), started(endless(neighbour))
    time.sleep(1)
    has(lambda: Shares(share, [a], [b]).over(3), (28, 32.5), (60, 72))


def test_another_share_takes_effect_within_a_tenth_of_a_second(share, started):
    share.share(10)
    shares = Shares(share, [started(endless(share))])
    time.sleep(1)
    has(lambda: shares.over(1), (8, 12))
    share.share(60)
    time.sleep(0.1)
    has(lambda: shares.over(1), (56, 63))
    share.share(10)
    time.sleep(0.1)
    has(lambda: shares.over(1), (8, 12))
    share.share(0)
    time.sleep(0.1)
    has(lambda: shares.over(0.5), (80, 102))


def test_a_correction_changes_the_pace_and_not_the_share(share, started):
    """The keeper found that what the shim takes for 30 % is 15 %."""
    grants.set_core(share.grant, 0, 30 * PERCENT, 60 * PERCENT)
    shares = Shares(share, [started(endless(share))])
    time.sleep(1)
    has(lambda: shares.over(2), (56, 62))


@pytest.mark.long(10)
def test_a_stopped_container_costs_the_other_nothing_and_does_not_catch_up(share, neighbour, started):
    share.share(30)
    grants.set_core(neighbour.grant, 0, 50 * PERCENT)
    a, b = started(endless(share)), started(endless(neighbour))
    time.sleep(1)
    a.send_signal(signal.SIGSTOP)
    time.sleep(0.3)    # what it had under way
    has(lambda: Shares(share, [a], [b]).over(1), (0, 1), (44, 52))
    a.send_signal(signal.SIGCONT)
    # A burst is what 20 ms are worth.
    has(lambda: Shares(share, [a], [b]).over(1), (27, 33), (44, 52))


@pytest.mark.long(20)
def test_a_process_killed_with_credit_takes_a_slice_with_it_at_most(share, started):
    """Twenty processes are killed in the middle of it, and the one that stays has what the container has."""
    share.share(50)
    stays = started(endless(share))
    time.sleep(1)
    shares = Shares(share, [stays])
    for _ in range(20):
        other = endless(share)
        other.kill()
        other.communicate()
    time.sleep(0.2)
    has(lambda: shares.over(1), (47, 52))


def test_a_child_of_fork_has_no_credit_of_its_parents(share):
    share.share(30)
    has(lambda: [float(share.script(WORK, """
        f = kernel(b"us200")
        spin(1, lambda: ok(launch(f)), 200)
        pid = os.fork()
        if pid == 0:
            # Nothing of the parent's can be used here: the driver says so, and nobody waits or crashes.
            result = launch(f)
            os._exit(0 if result != OK else 1)
        assert os.waitpid(pid, 0)[1] == 0
        say(spin(2, lambda: ok(launch(f)), 200))
        """))], (0.28, 0.32))


# Ways to start work

def test_graphs_are_paced_by_what_they_cost_last(share):
    share.share(30)
    has(lambda: [float(share.script(WORK, """
        f, s = kernel(b"us200"), stream()
        ok(cu.cuStreamBeginCapture_v2(s, 0))
        for i in range(20): ok(launch(f, s))
        graph = c_void_p()
        ok(cu.cuStreamEndCapture(s, byref(graph)))
        execute = out("cuGraphInstantiateWithFlags", c_void_p, graph, c_uint64(0))
        spin(1, lambda: ok(cu.cuGraphLaunch(execute, s)), 4000, 2, s)
        say(spin(3, lambda: ok(cu.cuGraphLaunch(execute, s)), 4000, 2, s))
        """))], (0.28, 0.32))


def test_a_changed_graph_is_measured_again(share):
    """From 1 ms to 20 ms by cuGraphExecUpdate."""
    share.share(30)
    has(lambda: [float(share.script(WORK, """
        g, s = kernel(b"grid"), stream()
        def single(blocks):
            graph = c_void_p()
            ok(cu.cuStreamBeginCapture_v2(s, 0))
            ok(launch(g, s, grid=blocks))
            ok(cu.cuStreamEndCapture(s, byref(graph)))
            return graph
        execute = out("cuGraphInstantiateWithFlags", c_void_p, single(100), c_uint64(0))
        spin(1, lambda: ok(cu.cuGraphLaunch(execute, s)), 1000, 2, s)
        info = (c_uint64 * 4)()
        ok(cu.cuGraphExecUpdate_v2(execute, single(2000), info))
        say(spin(3, lambda: ok(cu.cuGraphLaunch(execute, s)), 20000, 1, s))
        """))], (0.28, 0.33))


def test_a_captured_launch_is_charged_when_its_graph_runs(share):
    share.share(5)
    out = share.script(WORK, """
        f, s, graph = kernel(b"ms50"), stream(), c_void_p()
        ok(launch(f, s)); ok(cu.cuStreamSynchronize(s)); ok(launch(f, s)); ok(cu.cuStreamSynchronize(s))
        ok(cu.cuStreamBeginCapture_v2(s, 0))
        before = time.monotonic()
        for i in range(1000): ok(launch(f, s))
        say(time.monotonic() - before)
        ok(cu.cuStreamEndCapture(s, byref(graph)))
        """)
    assert float(out) < 0.5


@pytest.mark.long(20)
@pytest.mark.parametrize("way", ["Ex", "Cooperative", "per_thread", "Ex per_thread"])
def test_every_way_to_launch_is_paced(share, way):
    share.share(30)
    has(lambda: [float(share.script(WORK, f"""
        f = kernel(b"us200")
        class Config(Structure):
            _fields_ = [("shape", c_uint * 7), ("stream", c_void_p), ("attributes", c_void_p), ("count", c_uint)]
        def launch_ex(stream, function):
            config = Config((1, 1, 1, 1, 1, 1, 0), stream, None, 0)
            ok(function(byref(config), f, None, None))
        one, s = {{
            "Ex": (lambda: launch_ex(None, cu.cuLaunchKernelEx), None),
            "Ex per_thread": (lambda: launch_ex(None, cu.cuLaunchKernelEx_ptsz), c_void_p(2)),
            "Cooperative": (lambda: ok(cu.cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, None, None)), None),
            "per_thread": (lambda: ok(cu.cuLaunchKernel_ptsz(f, 1, 1, 1, 1, 1, 1, 0, None, None, None)), c_void_p(2)),
        }}["{way}"]
        spin(1, one, 200, 10, s)
        say(spin(2, one, 200, 10, s))
        """))], (0.28, 0.32))


COPIES = """
a, b = alloc(16 * MiB), alloc(16 * MiB)
host = out("cuMemHostAlloc", c_void_p, c_size_t(16 * MiB), 0)
size = c_size_t(16 * MiB)
ways = {
    "to": lambda: ok(cu.cuMemcpyHtoD_v2(a, host, size)),
    "to async": lambda: ok(cu.cuMemcpyHtoDAsync_v2(a, host, size, None)),
    "to unified": lambda: ok(cu.cuMemcpyAsync(a, c_uint64(host.value), size, None)),
    "from": lambda: ok(cu.cuMemcpyDtoH_v2(host, a, size)),
    "from async": lambda: ok(cu.cuMemcpyDtoHAsync_v2_ptsz(host, a, size, None)),
    "within": lambda: ok(cu.cuMemcpyDtoDAsync_v2(a, b, size, None)),
    "fill": lambda: ok(cu.cuMemsetD8Async(a, 7, size, None)),
}
one = ways[%r]
say("ready")
while True:
    for i in range(%d): one()
    ok(cu.cuCtxSynchronize())
"""


@pytest.mark.long(20)
@pytest.mark.parametrize("way, batch, engine", [
    ("to", 2, "copyInNs"), ("to async", 2, "copyInNs"), ("to unified", 2, "copyInNs"), ("from", 2, "copyOutNs"),
    ("from async", 2, "copyOutNs"), ("within", 4, "smNs"), ("fill", 4, "smNs")])
def test_copies_keep_to_the_share_of_their_own_engine(share, started, way, batch, engine):
    """No more than that of the engine, no less than that of what is copied without a limit: the simulated driver moves
    the bytes by the program's own processor, which is slower than a card."""
    def engine_share():
        process = started(share.start(WORK, COPIES % (way, batch)))
        assert process.stdout.readline() == "ready\n"
        sums = []
        for wait_s in (1, 2):
            time.sleep(wait_s)
            rows = json.loads(run(RATION_SIM, "usage", share.tree.path, "--json").stdout)["processes"]
            sums.append((time.monotonic_ns(), sum(row[engine] for row in rows if row["pid"] == process.pid)))
        process.kill()
        (t0, before), (t1, after) = sums
        return (after - before) / (t1 - t0)

    unlimited = engine_share()
    share.share(20)
    least = 0.03 if engine == "smNs" else 0.14
    has(lambda: [engine_share()], (least * unlimited, 0.22))
    started_ns, _, _, (to_card, from_card) = usage(share)
    assert [ns > 1e8 for ns in (started_ns, to_card, from_card)] == [engine == name for name in
                                                                    ("smNs", "copyInNs", "copyOutNs")]


@pytest.mark.long(20)
@pytest.mark.parametrize("way", ["one by one", "batch"])
def test_prefetching_keeps_to_the_share_of_the_copy_engines(share, started, way):
    """16 MiB to the card and back, 1.4 ms each way at 12 GB/s: a fifth of each engine's time."""
    share.share(20)
    process = started(share.start(WORK, f"""
        class Location(Structure): _fields_ = [("type", c_int), ("id", c_int)]
        size = 16 * MiB; p = out("cuMemAllocManaged", c_uint64, c_size_t(size), 1)
        def one(place):
            ok(cu.cuMemPrefetchAsync_v2(p, c_size_t(size), place, 0, None))
        def batch(place):
            ok(cu.cuMemPrefetchBatchAsync((c_uint64 * 1)(p.value), (c_size_t * 1)(size), c_size_t(1),
                                          (Location * 1)(place), (c_size_t * 1)(0), c_size_t(1), c_uint64(0), None))
        way = {{"one by one": one, "batch": batch}}["{way}"]
        say("ready")
        while True:
            way(Location(1, 0)); way(Location(2, 0))
            ok(cu.cuCtxSynchronize())
        """))
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    sums = []
    for _ in range(2):
        rows = json.loads(run(RATION_SIM, "usage", share.tree.path, "--json").stdout)["processes"]
        row = next(row for row in rows if row["pid"] == process.pid)
        sums.append((time.monotonic_ns(), row["copyInNs"], row["copyOutNs"]))
        time.sleep(2)
    process.kill()
    elapsed, *used = (after - before for before, after in zip(*sums))
    assert all(0.08 <= ns / elapsed <= 0.22 for ns in used), [ns / elapsed for ns in used]


def test_a_few_small_copies_are_not_held_back(share):
    """Half a millisecond of a copy engine, a slice of credit: nobody waits, and they are counted."""
    share.share(5)
    share.script(WORK, """
        a, host = alloc(MiB), create_string_buffer(1000)
        for i in range(500): ok(cu.cuMemcpyHtoD_v2(a, host, c_size_t(1000)))
        """)
    started, waited, _, (to_card, from_card) = usage(share)
    assert waited == 0 and started == 0 and from_card == 0 and 5e5 <= to_card <= 2e6


@pytest.mark.parametrize("way", ["HtoD", "DtoH"])
def test_many_small_copies_together_keep_to_the_share_of_their_engine(share, way):
    """Of 16 KiB each, which by themselves are below notice: so much as was let through, and no more, was paid for."""
    share.share(5)
    call = {"HtoD": "cu.cuMemcpyHtoDAsync_v2(a, host, size, None)",
            "DtoH": "cu.cuMemcpyDtoHAsync_v2(host, a, size, None)"}[way]
    out = share.script(WORK, f"""
        a, host, size = alloc(MiB), create_string_buffer(16384), c_size_t(16384)
        def run(seconds):
            begin, done = time.monotonic(), 0
            while time.monotonic() - begin < seconds:
                for i in range(100): ok({call})
                done += 100
            return done / (time.monotonic() - begin)
        run(1)
        say(run(2))
        """)
    # At 5 percent 50 ms in a second, of which each takes 1 us and a quarter of what 64 KiB are taken for, 5 us.
    _, waited, _, copies = usage(share)
    assert waited > 5e8 and (copies[0] > 0) == (way == "HtoD") and (copies[1] > 0) == (way == "DtoH")
    assert 0.7 * 50e6 / 2250 <= float(out) <= 1.05 * 50e6 / 2250


def test_a_small_copy_that_is_captured_is_charged_with_its_graph_only(share):
    share.share(50)
    share.script(WORK, """
        a, host, s = alloc(MiB), create_string_buffer(1000), stream()
        graph = c_void_p()
        ok(cu.cuStreamBeginCapture_v2(s, 2))
        for i in range(1000): ok(cu.cuMemcpyHtoDAsync_v2(a, host, c_size_t(1000), s))
        ok(cu.cuStreamEndCapture(s, byref(graph)))
        """)
    assert usage(share)[3] == (0, 0)


@pytest.mark.long(17)
def test_cards_have_buckets_of_their_own(share):
    """Of two cards only the first is controlled."""
    share.share(20)
    has(lambda: [float(part) for part in share.script(WORK, """
        f = kernel(b"us200")
        spin(1, lambda: ok(launch(f)), 200)
        first = spin(1, lambda: ok(launch(f)), 200)
        context(1); f = kernel(b"us200")
        second = spin(1, lambda: ok(launch(f)), 200)
        say(first, second)
        """).split()], (0.18, 0.22), (0.6, 1.02))
    assert usage(share, 1)[0] == 0


@pytest.mark.long(20)
def test_contexts_and_streams_that_come_and_go_leave_no_events_behind(share):
    """Events of ours are per context, at most 66, and end with it; nothing of it is misuse."""
    share.share(90)
    share.script(WORK, """
        for i in range(40):
            c = context(); f = kernel(b"us200"); s = stream()
            for j in range(20): ok(launch(f, s)); ok(launch(f))
            ok(cu.cuStreamDestroy_v2(s))
            if i % 2: ok(cu.cuCtxSynchronize())
            ok(cu.cuCtxDestroy_v2(c))
        primary = out("cuDevicePrimaryCtxRetain", c_void_p, 0)
        ok(cu.cuCtxSetCurrent(primary)); f = kernel(b"us200")
        for i in range(40):
            ok(cu.cuDevicePrimaryCtxRetain(byref(c_void_p()), 0))
            for j in range(10): ok(launch(f))
            ok(cu.cuDevicePrimaryCtxRelease_v2(0))
        ok(cu.cuCtxSynchronize())
        ok(cu.cuDevicePrimaryCtxRelease_v2(0))
        """)
    assert share.misuse() == {}


def test_a_launch_that_fails_costs_nothing(share):
    share.share(5)
    out = share.script(WORK, """
        f = kernel(b"ms50")
        for i in range(3): ok(launch(f)); ok(cu.cuCtxSynchronize())
        begin = time.monotonic()
        while launch(f) != OK: pass
        for i in range(10000): assert launch(f, grid=0) == INVALID
        say(time.monotonic() - begin)
        """)
    # The one that worked is 50 ms, that is a second at 5 %, before and after which nothing is waited for.
    assert float(out) < 3


def test_many_threads_share_what_their_process_has(share):
    share.share(30)
    has(lambda: [float(share.script(WORK, """
        f, done, stop = kernel(b"us200"), [0] * 8, time.monotonic() + 4
        current = c_void_p(); ok(cu.cuCtxGetCurrent(byref(current)))
        def work(i):
            ok(cu.cuCtxSetCurrent(current)); s = stream()
            while time.monotonic() < stop:
                for k in range(4): ok(launch(f, s))
                ok(cu.cuStreamSynchronize(s))
                if time.monotonic() > stop - 3: done[i] += 4
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        say(sum(done) * 200e-6 / 3)
        """))], (0.26, 0.32))


def quarters(share, tmp_path, started, shim):
    """Percent of four containers of 25 % each, with kernels longer than a slice."""
    processes = []
    for i in range(4):
        folder = tmp_path / f"{shim.parent.name}{i}"
        folder.mkdir(parents=True)
        container = Granted(share.tree, folder, [512 << 20, 512 << 20])
        grants.set_core(container.grant, 0, 25 * PERCENT)
        processes.append(started(endless(container, "ms5", 4, shim=shim)))
    time.sleep(5)    # until enough of their samples are clean
    percent = Shares(share, *[[p] for p in processes]).over(2)
    for process in processes:
        process.kill()
        process.wait()
    return percent


@pytest.mark.long(26)
def test_exclusive_time_is_charged_and_a_shim_that_charges_elapsed_time_is_seen_to_fail(share, tmp_path, started):
    """Who is charged for what others do in between gets less than its share, while the card has nothing to do."""
    for attempt in range(3):    # what each gets depends on when the others have a processor
        folder = tmp_path / str(attempt)
        elapsed = quarters(share, folder, started, BUILD / "tests/component/elapsed")
        exclusive = quarters(share, folder, started, SHIM)
        if sum(elapsed) < sum(exclusive) - 8:
            break
    assert sum(elapsed) < sum(exclusive) - 8, (elapsed, exclusive)
    assert all(17.5 <= percent <= 27 for percent in exclusive), exclusive


AHEAD = """
f = kernel(b"%s")
say("ready")
while True: ok(launch(f))
"""


def under_way_ns(granted, process):
    rows = json.loads(run(RATION_SIM, "usage", granted.tree.path, "--json").stdout)["processes"]
    return sum(row["pendingSmNs"] for row in rows if row["pid"] == process.pid)


@pytest.mark.long(20)
@pytest.mark.parametrize("name, us", [("us200", 200), ("ms5", 5000), ("ms50", 50000)])
@pytest.mark.parametrize("percent", [100, 50])
def test_who_launches_ahead_has_a_bounded_time_of_work_under_way(share, started, name, us, percent):
    """30 ms, what a sample spans, and the launch that the card is at; and the card is never without."""
    share.share(percent)
    process = started(share.start(WORK, AHEAD % name))
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    shares = Shares(share, [process])
    for _ in range(20):
        time.sleep(0.1)
        assert under_way_ns(share, process) <= 40e6 + 2 * us * 1000
    assert shares.percent()[0] > 0.96 * percent


def test_work_that_waits_for_what_is_launched_later_is_not_held_up_for_ever(share):
    """A stream waits for a word that the program writes when everything is launched: 400 ms of work."""
    share.share(100)
    out = share.script(WORK, """
        f, s, word = kernel(b"us200"), stream(), alloc(4096)
        ok(cu.cuMemsetD8_v2(word, 0, c_size_t(4096)))
        gate = threading.Event()
        HOST = CFUNCTYPE(None, c_void_p)
        wait_for_gate = HOST(lambda _: gate.wait())
        spin(0.5, lambda: ok(launch(f)), 200)
        begin = time.monotonic()
        ok(cu.cuLaunchHostFunc(s, wait_for_gate, None))
        for i in range(2000): ok(launch(f, s))
        say(time.monotonic() - begin)
        gate.set()
        ok(cu.cuStreamSynchronize(s))
        """)
    assert float(out) < 2


def test_signals_end_a_sleep_and_nothing_else(share):
    """A timer each millisecond, and errno as the program left it."""
    share.share(20)
    out = share.script(WORK, """
        f, errnos = kernel(b"us200"), set()
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        kept = CDLL(sys.argv[1], use_errno=True)
        def one():
            set_errno(77)
            ok(kept.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, None, None))
            errnos.add(get_errno())
        spin(1, one, 200)
        done = spin(2, one, 200)
        signal.setitimer(signal.ITIMER_REAL, 0)
        say(done, *errnos)
        """)
    percent, *errnos = out.split()
    assert 0.18 <= float(percent) <= 0.22 and errnos == ["77"]


def test_whatever_is_written_into_the_bucket_stops_nobody_for_good(share, started):
    """Damage of all kinds for a second: within the next, the share is right again."""
    share.share(50)
    process = started(endless(share))
    shares, end, value = Shares(share, [process]), time.monotonic() + 1, 1
    with open(share.folder / "usage", "r+b", buffering=0) as file:
        while time.monotonic() < end:
            value = value * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            file.seek(128 + 32)
            file.write(struct.pack("<Q", value))
            time.sleep(0.001)
        file.seek(128 + 32)
        file.write(bytes(8))
    time.sleep(0.2)
    has(lambda: shares.over(1), (46, 53))
