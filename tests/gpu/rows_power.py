"""Computing power. Each program counts the kernels that it has done, of a known length; a row compares these counts, not what
ration believes. docs/internals/computing-power.md."""
import ctypes
import os
import statistics
import time
from contextlib import ExitStack

from gpu import Broken, NotRun
from rows import row

ASSUMED = "Computing power: what the simulation assumes of the GPU"
PROMISED = "Computing power: shares"
MEM = "2GiB"
KINDS = {"short": (20_000, 1000), "medium": (1_000_000, 20), "long": (50_000_000, 2), "graph": (20_000, 50)}
SHARES = ((30, 70), (10, 90), (25, 25, 25, 25))
ERROR_POINTS = 3    # bench/bench shares holds the simulated GPU to 2; a real one's clock varies
LOSS = 0.03         # what a program may do less than its share for the cost of pacing; the goal of bench/bench shares too
WARM_S, MEASURED_S = 3.5, 8


def calibrate(gpu):
    """ns of a turn; the simulated driver takes the length of a kernel as it is told."""
    said = gpu.plain(*gpu.probe("calibrate"))
    if said["simulated"] != gpu.simulated and not gpu.pretend:
        raise Broken("this is a simulated driver" if said["simulated"] else "this is no simulated driver")
    return said["ns_per_turn"]


def turns(ns, ns_per_turn):
    return max(1, round(ns / ns_per_turn))


def worker(ns, ns_per_turn, depth, kind):
    return ["work", ns, turns(ns, ns_per_turn), depth, *(["graph"] if kind == "graph" else [])]


def drain(talks, until):
    """{talk: [(at, done)]}, read all the time: a program whose pipe is full stops working."""
    told = {talk: [] for talk in talks}
    while time.monotonic() < until:
        for talk in talks:
            said = next_line(talk, 0.02)
            while said:
                told[talk].append((said["at"], said["done"]))
                said = next_line(talk, 0) if b"\n" in talk.buffer else None
    return told


def next_line(talk, seconds):
    try:
        return talk.line(seconds)
    except Broken:
        if talk.process.poll() is not None:
            raise
        return None


def rate(samples, begin_ns, end_ns):
    """Kernels per second between the first and the last sample in that time."""
    within = [s for s in samples if begin_ns <= s[0] <= end_ns]
    if len(within) < 2 or within[-1][0] == within[0][0]:
        return 0.0
    return (within[-1][1] - within[0][1]) * 1e9 / (within[-1][0] - within[0][0])


def rates(gpu, percents, kind, ns_per_turn, warm, length):
    """Kernels per second of each program; None as a percentage: without ration."""
    ns, depth = KINDS[kind]
    words = gpu.probe(*worker(ns, ns_per_turn, depth, kind))
    with ExitStack() as stack:
        talks = [stack.enter_context(gpu.start_plain(*words) if p is None else gpu.start(MEM, *words, core=p)) for p in percents]
        for talk in talks:
            talk.line()
        for talk in talks:
            talk.go()
        began = time.monotonic()
        told = drain(talks, began + warm + length + 0.1)
    return [rate(told[talk], (began + warm) * 1e9, (began + warm + length) * 1e9) for talk in talks]


def alone(gpu, kind, ns_per_turn):
    """Kernels per second of one program without ration: what between two kernels is lost, is lost to all."""
    got = rates(gpu, [None], kind, ns_per_turn, 0.5, 1.5)[0]
    if got <= 0:
        raise Broken("a program alone on the GPU gets nothing done")
    return got


def measure(gpu, percents, kind, ns_per_turn, whole):
    """Percent of what a program alone gets done."""
    warm, length = (1.5, 3) if gpu.short else (WARM_S, MEASURED_S)
    return [100 * got / whole for got in rates(gpu, percents, kind, ns_per_turn, warm, length)]


@row("kernels and launches", ASSUMED, 60)
def kernels(gpu, tell):
    ns_per_turn = calibrate(gpu)
    tell.number("ns of a turn of the measuring kernel", round(ns_per_turn, 3), "ns")
    said = gpu.plain(*gpu.probe("gaps", 1_000_000, turns(1_000_000, ns_per_turn), 200))
    tell.fact("duration of a kernel of 1 ms, median", round(said["kernel_ms"], 2), 0.05, "ms")
    tell.fact("it varies (5 % to 95 %) by less than 5 %", said["kernel_p95_ms"] - said["kernel_p05_ms"] < 0.05 * said["kernel_ms"])
    for kind, (ns, _) in KINDS.items():
        tell.fact(f"one program with {kind} kernels, without ration: the GPU computes, percent",
                  round(alone(gpu, kind, ns_per_turn) * ns / 1e7), 0.05)
    tell.number("gaps of more than 50 us while no other program works", said["gaps"])


@row("copies and small kernels", ASSUMED, 60)
def copies(gpu, tell):
    said = gpu.plain(*gpu.client("speeds"))
    for key, what in (("to_gpu", "pinned memory to the GPU"), ("from_gpu", "the GPU to pinned memory"),
                      ("pageable", "pageable memory to the GPU"), ("within", "a copy within the GPU")):
        tell.number(f"{what}, 64 MiB (the simulated driver copies with this machine's processor)", round(said[key], 1), "GB/s")
    tell.fact("a pair of events around a kernel of one store", round(said["kernel_us"], 1), 0.3, "us")
    tell.number("a pair of events around nothing", round(said["empty_us"], 1), "us")


@row("two programs without ration: time slices", ASSUMED, 60)
def slices(gpu, tell):
    ns_per_turn = calibrate(gpu)
    ns, depth = 100_000, 200
    with gpu.start_plain(*gpu.probe(*worker(ns, ns_per_turn, depth, "kernel"))) as other:
        other.line()
        other.go()
        time.sleep(0.5)
        said = gpu.plain(*gpu.probe("gaps", ns, turns(ns, ns_per_turn), 2000))
    tell.fact("gaps are seen at all: programs take turns", said["gaps"] > 0)
    tell.fact("length of a gap, median: the other's time slice", round(said["gap_ms"], 2), 0.25, "ms")
    tell.fact("time between two gaps, median: the program's own slice", round(said["run_ms"], 2), 0.25, "ms")
    tell.number("length of a gap, 90 %", round(said["gap_p90_ms"], 2), "ms")
    long_ns = KINDS["long"][0]
    with gpu.start_plain(*gpu.probe(*worker(long_ns, ns_per_turn, 4, "kernel"))) as other:
        other.line()
        other.go()
        time.sleep(0.5)
        said = gpu.plain(*gpu.probe("gaps", ns, turns(ns, ns_per_turn), 1000))
    tell.fact("a slice ends in the middle of a kernel of 50 ms", said["gap_p90_ms"] < 25)


@row("two programs without ration: shares", ASSUMED, 60, short=False)
def plain_shares(gpu, tell):
    ns_per_turn = calibrate(gpu)
    got = measure(gpu, [None, None], "medium", ns_per_turn, alone(gpu, "medium", ns_per_turn))
    tell.fact("two busy programs have about half each, percent", [round(p / 5) * 5 for p in got])
    tell.fact("together they do as much as one alone, percent", round(sum(got)), 0.08)


def error_points(percents, got):
    """Of the program that is furthest from its share. A share is an upper limit; below it the loss does not count."""
    return max(max(g - p, p * (1 - LOSS) - g) for p, g in zip(percents, got))


def shares(gpu, tell, kind):
    ns_per_turn = calibrate(gpu)
    whole = alone(gpu, kind, ns_per_turn)
    for percents in SHARES[:1] if gpu.short and gpu.quick else SHARES:
        got = measure(gpu, percents, kind, ns_per_turn, whole)
        if error_points(percents, got) > ERROR_POINTS:    # judged by one more run, as ./check does
            whole = alone(gpu, kind, ns_per_turn)
            got = measure(gpu, percents, kind, ns_per_turn, whole)
        error, got = error_points(percents, got), [round(g, 1) for g in got]
        # Where the processors have other work, the programs do too little, or the one alone did, so that they seem to do too much.
        too_little = all(g <= p + ERROR_POINTS for p, g in zip(percents, got)) or sum(got) > 100 + ERROR_POINTS
        starved = too_little and os.getloadavg()[0] > 1.5 * os.cpu_count()
        if error > ERROR_POINTS and gpu.simulated and starved:
            raise NotRun(f"this machine's processors have other work (load {os.getloadavg()[0]:.0f}), and a simulated GPU needs "
                         f"them: {percents} had {got}")
        tell.promise(f"{' / '.join(map(str, percents))} percent: what each has done, in percent of what one alone does", got,
                     error <= ERROR_POINTS)


for name in KINDS:
    row(f"shares with {name} kernels", PROMISED, 200, short=name == "medium")(
        lambda gpu, tell, kind=name: shares(gpu, tell, kind))


@row("what the driver tells of computing power", PROMISED, 60, short=False)
def told_by_driver(gpu, tell):
    """The agent corrects shares by the driver's own numbers: nvidia-smi pmon asks for them."""
    ns_per_turn = calibrate(gpu)
    ns, depth = KINDS["medium"]
    with gpu.start(MEM, *gpu.probe(*worker(ns, ns_per_turn, depth, "medium")), core=30) as talk:
        talk.line()
        talk.go()
        drain([talk], time.monotonic() + 2)
        told, did = utilisation(gpu, talk, 3)
        entries = all_samples(gpu)
    if told is None:
        raise NotRun("nvmlDeviceGetProcessUtilization has no sample of the program")
    did = did * ns / 1e7
    tell.fact("entries that it has of the program, asked for all", len(entries))
    tell.number("distance of these entries, median", round(statistics.median(
        b - a for a, b in zip(entries, entries[1:])) / 1e3) if len(entries) > 1 else "one only", "ms")
    tell.promise("nvmlDeviceGetProcessUtilization of a program with 30 %, and what it did, percent", [round(told), round(did)],
                 abs(told - did) <= 6)


class Sample(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("at", ctypes.c_ulonglong), ("sm", ctypes.c_uint), ("mem", ctypes.c_uint),
                ("enc", ctypes.c_uint), ("dec", ctypes.c_uint)]


def samples_since(gpu, since):
    count, room = ctypes.c_uint(1024), (Sample * 1024)()
    code = gpu.nvml.lib.nvmlDeviceGetProcessUtilization(gpu.nvml.device(gpu.uuid), room, ctypes.byref(count), ctypes.c_ulonglong(since))
    return [s for s in room[:count.value] if s.sm > 0] if code == 0 else []


def all_samples(gpu):
    return sorted({s.at for s in samples_since(gpu, 0)})


def utilisation(gpu, talk, seconds):
    """(the mean of the samples, kernels per second): only this program works."""
    seen, done, last = [], [], int(time.time() * 1e6)
    began = time.monotonic_ns()
    for _ in range(seconds):
        done += drain([talk], time.monotonic() + 1)[talk]
        new = samples_since(gpu, last)
        seen += [s.sm for s in new]
        last = max([s.at for s in new], default=last)
    return (statistics.mean(seen) if seen else None), rate(done, began, time.monotonic_ns())
