"""The simulated card as a plant for pacing: what it does with the work of several processes, and what it tells of it."""
import ctypes
import json
import os
import random
import subprocess
import textwrap
import time

import pytest

import sim_cuda
from driver_tree import BUILD, RATION_SIM, run
from sim_cuda import KERNELS, finish

pytestmark = pytest.mark.alone

# run_for(): launches until so many seconds are over, at most `depth` ahead. KERNEL(us) makes a function.
WORK = KERNELS + """
def kernel(us):
    return load(b"f", b'{"rationSimModule": 1, "functions": {"f": {"us": %d}}}' % us)

def run_for(seconds, function, depth=20):
    s, events, end, count = stream(), [], time.monotonic() + seconds, 0
    while time.monotonic() < end:
        ok(launch(function, s)); e = event(); ok(cu.cuEventRecord(e, s)); events.append(e); count += 1
        if len(events) > depth:
            e = events.pop(0); ok(cu.cuEventSynchronize(e)); ok(cu.cuEventDestroy_v2(e))
    ok(cu.cuStreamSynchronize(s))
    return count

def timed(s, *work):
    a, b = event(), event()
    ok(cu.cuEventRecord(a, s))
    for do in work: do()
    ok(cu.cuEventRecord(b, s)); ok(cu.cuEventSynchronize(b))
    return between(a, b)

def pinned(size):
    return out("cuMemHostAlloc", c_void_p, c_size_t(size), 0)
"""


def start(tree, text, *args, **kwargs):
    return sim_cuda.start(tree, WORK + textwrap.dedent(text), *args, **kwargs)


def script(tree, text, *args, **kwargs):
    return sim_cuda.script(tree, WORK + textwrap.dedent(text), *args, **kwargs)


def usage(tree):
    return json.loads(run(RATION_SIM, "usage", tree.path, "--json").stdout)


def usage_of(tree, process):
    rows = [row for row in usage(tree)["processes"] if row["pid"] == process.pid]
    assert len(rows) == 1, rows
    return rows[0]


def go(*processes):
    for p in processes:
        assert p.stdout.readline() == "ready\n", p.communicate()
    for p in processes:
        p.stdin.write("go\n")
        p.stdin.flush()


# Time

@pytest.mark.parametrize("others", [1, 3])
def test_pair_of_events_is_stretched_by_each_busy_neighbour(card, others):
    """40 ms of work take (n + 1) times as long in the company of n others that always have work."""
    neighbours = [start(card, "context(); f = kernel(1000); say('ready'); wait()\nfor i in range(3000): ok(launch(f))\n"
                              "say('busy'); wait()") for _ in range(others)]
    go(*neighbours)
    for p in neighbours:
        assert p.stdout.readline() == "busy\n"
    took = float(script(card, "context(); f = kernel(1000); say(timed(None, *[lambda: ok(launch(f))] * 40))"))
    for p in neighbours:
        p.kill()
        p.communicate()
    assert 40 * (others + 1) * 0.9 <= took <= 40 * (others + 1) * 1.15, took


def test_jitter_varies_kernels_and_keeps_their_mean(card):
    """500 kernels of 200 us: 100 ms, give or take 5 standard errors, 0.2 / sqrt(3) * 200 us * sqrt(500)."""
    text = """
        context(); f = kernel(200)
        one = [timed(None, lambda: ok(launch(f))) for i in range(20)]
        say(timed(None, *[lambda: ok(launch(f))] * 500), max(one) - min(one))
    """
    run(RATION_SIM, "set", card.path, "--jitter-percent", 20, "--latency-ns", 0, "--seed", 7)
    total, spread = map(float, script(card, text).split())
    assert 100 - 2.6 <= total <= 100 + 3.5, total
    assert 0.02 < spread, spread
    run(RATION_SIM, "set", card.path, "--jitter-percent", 0)
    total, _ = map(float, script(card, text).split())
    assert 100 <= total <= 101


def test_idle_stream_pays_the_latency_and_a_busy_one_does_not(card):
    run(RATION_SIM, "set", card.path, "--latency-ns", 5000000)
    script(card, """
        context(); f = kernel(1000); ok(launch(f)); ok(cu.cuCtxSynchronize())
        def passes(count):
            before = time.monotonic()
            for i in range(count): ok(launch(f))
            ok(cu.cuCtxSynchronize()); return (time.monotonic() - before) * 1000
        one, ten = passes(1), passes(10)
        assert 6 <= one < 9 and 15 <= ten < 18, (one, ten)
        assert 1 <= timed(None, lambda: ok(launch(f))) < 2    # the event is on its way as long
    """)


def test_pair_of_events_does_not_count_the_wait_for_a_turn(card):
    """Three neighbours are always busy: a context comes to its turn after 6 ms, and then event, kernel and event are done
    without a break."""
    busy = "context(); f = kernel(1000); say('ready'); wait()\nfor i in range(9000): ok(launch(f))\nsay('busy'); wait()"
    neighbours = [start(card, busy) for _ in range(3)]
    go(*neighbours)
    for p in neighbours:
        assert p.stdout.readline() == "busy\n"
    script(card, """
        context(); f = kernel(100); ok(launch(f)); ok(cu.cuCtxSynchronize())
        took = sorted(timed(None, lambda: ok(launch(f))) for i in range(21))
        assert 0.1 <= took[0] and took[10] < 0.2, took
    """)
    for p in neighbours:
        p.kill()
        p.communicate()


def test_pace_is_set_live(card):
    """The same process, before and after: with slices of 1 ms two kernels of 20 ms end within 2 ms, of 100 ms one after
    the other."""
    process = start(card, """
        a = context(); fa = kernel(20000); ea = event(); b = context(); fb = kernel(20000); eb = event()
        def apart():
            ok(cu.cuCtxSetCurrent(a)); ok(launch(fa)); ok(cu.cuEventRecord(ea, None))
            ok(cu.cuCtxSetCurrent(b)); ok(launch(fb)); ok(cu.cuEventRecord(eb, None)); ok(cu.cuEventSynchronize(eb))
            ok(cu.cuCtxSetCurrent(a)); ok(cu.cuEventSynchronize(ea)); return abs(between(ea, eb))
        say("ready"); wait(); say(apart()); wait(); say(apart())
    """)
    run(RATION_SIM, "set", card.path, "--slice-us", 1000)
    go(process)
    assert float(process.stdout.readline()) <= 3
    run(RATION_SIM, "set", card.path, "--slice-us", 100000)
    process.stdin.write("go\n")
    process.stdin.flush()
    assert 19 <= float(process.stdout.readline()) <= 21
    finish(process)


def test_pace_is_kept_by_up_and_read_from_the_file(card):
    run(RATION_SIM, "set", card.path, "--slice-us", 5000, "--jitter-percent", 20)
    card.up()
    assert run(RATION_SIM, "set", card.path).stdout == "slice-us=5000\nlatency-ns=3000\njitter-percent=20\nseed=1\n"
    card.up("--latency-ns", 10000)
    document = json.loads((card.path / "gpus.json").read_text())
    assert (document["sliceUs"], document["latencyNs"], document["jitterPercent"]) == (5000, 10000, 20)
    document["sliceUs"] = 1000
    card.up_file(document)
    assert "slice-us=1000\n" in run(RATION_SIM, "set", card.path).stdout
    assert run(RATION_SIM, "up", card.path, "--slice-us", 0, check=False).returncode == 1
    document["jitterPercent"] = 91
    assert '"jitterPercent" must be 0 to 90' in card.up_file(document, check=False).stderr


# Copies

def bandwidths(tree, pcie, memory):
    document = json.loads((tree.path / "gpus.json").read_text())
    document["gpus"][0] |= {"pcieGBps": pcie, "memoryGBps": memory}
    tree.up_file(document)


def test_copies_take_the_time_of_their_link(card):
    """40 MB each: over PCIe at 1 GB/s 40 ms; within the card, read and written, at 2 GB/s 40 ms too; a fill 20 ms."""
    bandwidths(card, 1, 2)
    script(card, """
        context(); size = 40_000_000; p, q, h, s = alloc(size), alloc(size), pinned(size), stream(); n = c_size_t(size)
        ok(cu.cuMemcpyHtoD_v2(p, h, n)); ok(cu.cuMemcpyHtoD_v2(q, h, n))    # the pages are there
        assert 40 <= timed(s, lambda: ok(cu.cuMemcpyHtoDAsync_v2(p, h, n, s))) < 70
        assert 40 <= timed(s, lambda: ok(cu.cuMemcpyDtoHAsync_v2(h, p, n, s))) < 70
        assert 40 <= timed(s, lambda: ok(cu.cuMemcpyDtoDAsync_v2(q, p, n, s))) < 70
        assert 20 <= timed(s, lambda: ok(cu.cuMemsetD8Async(q, 1, n, s))) < 50
        before = time.monotonic(); ok(cu.cuMemcpyHtoD_v2(p, h, n)); assert time.monotonic() - before >= 0.04
    """)


def test_copies_run_beside_kernels_and_beside_each_other(card):
    """Three streams with 100 ms each, of kernels, copies in and copies out, take 100 ms in all."""
    bandwidths(card, 1, 10)
    row = json.loads(script(card, """
        context(); size = 50_000_000; p, q, h, g = alloc(size), alloc(size), pinned(size), pinned(size); f = kernel(50000)
        a, b, c = stream(), stream(), stream(); n = c_size_t(size); ends = [event() for i in range(3)]; first = event()
        ok(cu.cuMemcpyHtoD_v2(p, h, n)); ok(cu.cuMemcpyDtoH_v2(g, q, n)); ok(cu.cuCtxSynchronize())    # pages are there
        ok(cu.cuEventRecord(first, a))
        for i in range(2):
            ok(launch(f, a)); ok(cu.cuMemcpyHtoDAsync_v2(p, h, n, b)); ok(cu.cuMemcpyDtoHAsync_v2(g, q, n, c))
        for e, s in zip(ends, (a, b, c)): ok(cu.cuEventRecord(e, s))
        ok(cu.cuCtxSynchronize())
        say([between(first, e) for e in ends])
    """))
    assert all(100 <= took < 180 for took in row), row


def test_order_of_a_stream_holds_across_engines(card):
    """In, kernel, out, kernel of 20 ms each, twice: 160 ms one after the other; another stream's kernels run in the gaps."""
    bandwidths(card, 1, 10)
    script(card, """
        context(); size = 20_000_000; p, h = alloc(size), pinned(size); f = kernel(20000); s, t = stream(), stream(); n = c_size_t(size)
        ok(cu.cuMemcpyHtoD_v2(p, h, n))
        chain = [lambda: ok(cu.cuMemcpyHtoDAsync_v2(p, h, n, s)), lambda: ok(launch(f, s)),
                 lambda: ok(cu.cuMemcpyDtoHAsync_v2(h, p, n, s)), lambda: ok(launch(f, s))] * 2
        took = timed(s, *chain)
        assert 160 <= took < 200, took
        # An event of the copy's stream is waited for by another stream: its kernel begins when the copy is done.
        a, b = event(), event()
        ok(cu.cuMemcpyHtoDAsync_v2(p, h, n, s)); ok(cu.cuEventRecord(a, s)); ok(cu.cuStreamWaitEvent(t, a, 0))
        ok(launch(f, t)); ok(cu.cuEventRecord(b, t)); ok(cu.cuStreamSynchronize(t))
        assert 20 <= between(a, b) < 21, between(a, b)
        # The legacy stream waits for the blocking streams' copies, and they for its kernels.
        u = stream(0); ok(cu.cuMemcpyHtoDAsync_v2(p, h, n, u)); ok(cu.cuEventRecord(a, u))
        ok(launch(f)); ok(cu.cuEventRecord(b, None)); ok(cu.cuStreamSynchronize(None))
        assert 20 <= between(a, b) < 21, between(a, b)
        ok(launch(f)); ok(cu.cuEventRecord(a, None)); ok(cu.cuMemcpyHtoDAsync_v2(p, h, n, u)); ok(cu.cuEventRecord(b, u))
        ok(cu.cuStreamSynchronize(u)); assert 20 <= between(a, b) < 21, between(a, b)
    """)


def test_processes_share_a_copy_engine_in_turn(card):
    """Each copies 100 ms worth in one direction: both take 200 ms. A third that copies the other way takes 100."""
    bandwidths(card, 1, 10)
    text = """
        context(); size = 10_000_000; p, h, s, n = alloc(size), pinned(size), stream(), c_size_t(size)
        copy = (lambda: ok(cu.cuMemcpyHtoDAsync_v2(p, h, n, s))) if sys.argv[2] == "in" else (lambda: ok(cu.cuMemcpyDtoHAsync_v2(h, p, n, s)))
        copy(); ok(cu.cuCtxSynchronize()); say("ready"); wait()
        say(timed(s, *[copy] * 10))
    """
    all_three = [start(card, text, way) for way in ("in", "in", "out")]
    go(*all_three)
    times = [float(p.stdout.readline()) for p in all_three]
    for p in all_three:
        finish(p)
    assert all(150 < t < 260 for t in times[:2]) and 100 <= times[2] < 150, times


def test_graph_costs_the_sum_of_its_kernels(card):
    script(card, """
        context(); f = kernel(1000); s = stream(); graph = c_void_p()
        ok(cu.cuStreamBeginCapture_v2(s, 0))
        for i in range(10): ok(launch(f, s))
        ok(cu.cuStreamEndCapture(s, byref(graph))); x = out("cuGraphInstantiateWithFlags", c_void_p, graph, c_uint64(0))
        took = timed(s, *[lambda: ok(cu.cuGraphLaunch(x, s))] * 3)
        assert 30 <= took < 33, took
    """)


# What it tells

def test_usage_is_what_each_process_did(card):
    bandwidths(card, 1, 10)
    a = start(card, "context(); f = kernel(1000); ok(launch(f)); ok(cu.cuCtxSynchronize()); say('ready'); wait()\n"
                    "for i in range(99): ok(launch(f))\nok(cu.cuCtxSynchronize()); say('done'); wait()")
    b = start(card, "context(); f = kernel(50000); p = alloc(MiB); say('ready'); wait(); ok(launch(f)); ok(cu.cuCtxSynchronize())\n"
                    "ok(cu.cuMemcpyDtoH_v2(create_string_buffer(MiB), p, c_size_t(MiB))); say('done'); wait()")
    go(a, b)
    for p in (a, b):
        assert p.stdout.readline() == "done\n"
    row = usage_of(card, a)
    assert row["smNs"] == 100 * 1000 * 1000 and row["kernelsLaunched"] == 100 and row["pendingSmNs"] == 0 and row["alive"]
    assert row["copyInNs"] == 0 == row["copyOutNs"]
    row = usage_of(card, b)
    assert row["smNs"] == 50 * 1000 * 1000 and row["copyOutNs"] == 1 << 20 and row["copyInNs"] == 0
    assert usage(card)["cards"][0]["smNs"] == 150 * 1000 * 1000
    for p in (a, b):
        finish(p)
    row = usage_of(card, a)
    assert row["smNs"] == 100 * 1000 * 1000 and not row["alive"]
    assert "(gone)" in run(RATION_SIM, "usage", card.path).stdout


def test_usage_of_contexts_and_of_processes_in_turn(card):
    """Each program is a row, whatever contexts it had one after the other."""
    text = "for i in range(3): c = context(); ok(launch(kernel(1000))); ok(cu.cuCtxSynchronize()); ok(cu.cuCtxDestroy_v2(c))"
    script(card, text)
    script(card, text)
    rows = usage(card)["processes"]
    assert [row["smNs"] for row in rows] == [3000000, 3000000]
    assert len({(row["ownPid"], row["startTicks"]) for row in rows}) == 2


def test_usage_again_and_again(card):
    teller = subprocess.Popen([RATION_SIM, "usage", card.path, "--json", "--every", "50"], stdout=subprocess.PIPE, text=True)
    times = [json.loads(teller.stdout.readline())["cards"][0]["atNs"] for _ in range(5)]
    teller.stdout.close()
    assert teller.wait(5) != 0 and all(40e6 < b - a < 200e6 for a, b in zip(times, times[1:])), times
    for wrong in (["--every", "5"], ["--json", "--every", "0"], ["--json", "--every"]):
        assert run(RATION_SIM, "usage", card.path, *wrong, check=False).returncode == 2


def test_killed_process_keeps_what_it_did_and_does_no_more(card):
    process = start(card, "context(); f = kernel(1000); say('ready'); wait()\nfor i in range(5000): ok(launch(f))\nsay('busy'); wait()")
    go(process)
    assert process.stdout.readline() == "busy\n"
    time.sleep(0.3)
    busy = usage_of(card, process)
    process.kill()
    process.wait()
    before = usage(card)["cards"][0]["smNs"]
    time.sleep(0.2)
    after = usage(card)["cards"][0]["smNs"]
    assert busy["smNs"] >= 250e6 and busy["pendingSmNs"] + busy["smNs"] == 5000 * 1000 * 1000
    assert after - before <= 20e6    # it is looked for every 10 ms
    process.communicate()


TENANTS = [["--ns", "2000", "--depth", "200"], ["--ns", "200000", "--depth", "0"], ["--ns", "5000000"],
           ["--ns", "20000", "--graph", "10"], ["--copy-in", "64"], ["--copy-out", "64", "--depth", "0"]]


def tenant(tree, options):
    process = subprocess.Popen([BUILD / "bench/bench-tenant", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=dict(os.environ, LD_LIBRARY_PATH=str(tree.path / "lib")))
    assert process.stdout.readline() == f"ready {process.pid}\n"
    process.stdin.write("g")
    process.stdin.flush()
    return process


def test_card_goes_on_whoever_is_killed(card):
    """Programs of all kinds, one killed and another started each 20 ms: the card is never idle, and what it did is what
    they did, but for a step of each that died in the midst of one."""
    bandwidths(card, 10, 1000)
    chance, kills, running = random.Random(7), 0, [tenant(card, options) for options in TENANTS]
    before, end = usage(card)["cards"][0], time.monotonic() + 4
    while time.monotonic() < end:
        victim = chance.randrange(len(running))
        running[victim].kill()
        running[victim].communicate()
        running[victim] = tenant(card, TENANTS[victim])
        kills += 1
        time.sleep(0.02)
    told = usage(card)
    for process in running:
        process.kill()
        process.communicate()
    after = told["cards"][0]
    assert kills > 30
    assert after["smNs"] - before["smNs"] > 0.9 * (after["atNs"] - before["atNs"])
    for engine in ("smNs", "copyInNs", "copyOutNs"):
        assert after[engine] > 0
        assert abs(after[engine] - sum(row[engine] for row in told["processes"])) <= kills * 2e6
    script(card, "context(); f = kernel(1000); assert timed(None, *[lambda: ok(launch(f))] * 50) < 80")


class Sample(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("at", ctypes.c_ulonglong)] + [
        (name, ctypes.c_uint) for name in ("sm", "memory", "encoder", "decoder")]


class Info(ctypes.Structure):
    _fields_ = [("at", ctypes.c_ulonglong)] + [
        (name, ctypes.c_uint) for name in ("pid", "sm", "memory", "encoder", "decoder", "jpeg", "ofa")]


class Infos(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("count", ctypes.c_uint), ("since", ctypes.c_ulonglong),
                ("infos", ctypes.POINTER(Info))]


class Nvml:
    def __init__(self, tree):
        self.lib = ctypes.CDLL(str(tree.path / "lib" / "libnvidia-ml.so.1"))
        assert self.lib.nvmlInit_v2() == 0
        self.device = ctypes.c_void_p()
        assert self.lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) == 0

    def rate(self):
        both = (ctypes.c_uint * 2)()
        assert self.lib.nvmlDeviceGetUtilizationRates(self.device, both) == 0
        return both[0]

    def samples(self, since=0, room=100):
        count, samples = ctypes.c_uint(room), (Sample * 100)()
        r = self.lib.nvmlDeviceGetProcessUtilization(self.device, samples if room else None, ctypes.byref(count),
                                                     ctypes.c_ulonglong(since))
        return r, {s.pid: s for s in samples[:count.value]} if r == 0 else count.value


BUSY = """
    context(); f = kernel(1000); say("ready"); wait(); end = time.monotonic() + 60
    while time.monotonic() < end:
        ok(launch(f)); ok(cu.cuCtxSynchronize()); time.sleep(float(sys.argv[2]))
"""


def test_utilisation_of_processes_and_card_as_nvml_says(card):
    """One always busy with 1 ms kernels, one for about 1 of 4 ms: together no more than the card is."""
    busy, lazy, idle = start(card, BUSY, 0), start(card, BUSY, 0.003), start(card, "context(); say('ready'); wait(); wait()")
    n = Nvml(card)
    assert n.samples() == (6, 0)    # NVML_ERROR_NOT_FOUND
    go(busy, lazy, idle)
    before = {p.pid: usage_of(card, p)["smNs"] for p in (busy, lazy)}
    began = time.time()
    time.sleep(2.2)
    r, samples = n.samples(int((began + 0.2) * 1e6))
    truth = {p.pid: (usage_of(card, p)["smNs"] - before[p.pid]) / (time.time() - began) / 1e7 for p in (busy, lazy)}
    rate = n.rate()
    assert r == 0 and set(samples) == {busy.pid, lazy.pid}
    for pid, percent in truth.items():
        assert abs(samples[pid].sm - percent) <= 6, (samples[pid].sm, truth)
        assert 0 <= time.time() - samples[pid].at / 1e6 < 0.4
    assert sum(s.sm for s in samples.values()) <= rate + 6 and rate <= 100
    # Room first: too little of it says how much is needed.
    assert n.samples(room=0) == (7, 2) and n.samples(room=1) == (7, 2)
    last = max(s.at for s in samples.values())
    for p in (busy, lazy):
        p.kill()
        p.communicate()
    assert n.samples(last + 10_000_000)[0] == 6
    time.sleep(1.4)
    assert n.rate() == 0
    finish(idle)


def test_utilisation_since_the_last_look_is_told_once(card):
    busy = start(card, BUSY, 0.001)
    n = Nvml(card)
    go(busy)
    time.sleep(0.5)
    seen, last = 0, 0
    for _ in range(40):
        r, samples = n.samples(last)
        if r == 0:
            assert samples[busy.pid].at > last
            last = samples[busy.pid].at
            seen += 1
        time.sleep(0.02)
    busy.kill()
    busy.communicate()
    assert 3 <= seen <= 8    # 0.8 s, a period of a sixth of a second


def test_newer_form_of_process_utilisation(card):
    busy = start(card, BUSY, 0)
    n = Nvml(card)
    go(busy)
    time.sleep(0.6)
    infos = Infos(0x01000018, 0, 0, None)
    get = n.lib.nvmlDeviceGetProcessesUtilizationInfo
    assert get(n.device, ctypes.byref(infos)) == 7 and infos.count == 1
    infos.infos = (Info * 1)()
    assert get(n.device, ctypes.byref(infos)) == 0
    assert infos.infos[0].pid == busy.pid and infos.infos[0].sm > 30
    infos.version = 0x02000018
    assert get(n.device, ctypes.byref(infos)) == 25    # NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    busy.kill()
    busy.communicate()


def test_waiting_sleeps(card):
    """Two seconds in cuStreamSynchronize cost next to no time of a processor, beside a busy neighbour, too."""
    neighbour = start(card, "context(); f = kernel(1000); say('ready'); wait()\nfor i in range(8000): ok(launch(f))\nsay('busy'); wait()")
    go(neighbour)
    assert neighbour.stdout.readline() == "busy\n"
    used = float(script(card, """
        context(); f = kernel(100000); ok(launch(f)); ok(cu.cuCtxSynchronize()); before = time.process_time()
        for i in range(10): ok(launch(f)); ok(cu.cuCtxSynchronize())
        say(time.process_time() - before)
    """))
    neighbour.kill()
    neighbour.communicate()
    assert used < 0.1, used
