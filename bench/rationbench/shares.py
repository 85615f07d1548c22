"""Measures whether each container gets its share of a GPU's time, and whether the shares add up to the whole GPU."""
import argparse
import concurrent.futures
import json
import math
import tempfile
import time
from pathlib import Path

from . import plot, report
from .programs import BenchError, build
from .tenants import SimulatedGpu, start

SHARES = {"5 % alone": [5], "10 % alone": [10], "30 % alone": [30], "50 % alone": [50], "70 % alone": [70],
          "95 % alone": [95], "30/70": [30, 70], "10/90": [10, 90], "50/30/20": [50, 30, 20], "20 x 5": [5] * 20}
WORK = {
    "2 us": ["--ns", "2000", "--depth", "500"],
    "200 us": ["--ns", "200000", "--depth", "20"],
    "5 ms": ["--ns", "5000000", "--depth", "4"],
    "50 ms": ["--ns", "50000000", "--depth", "2"],
    "graphs of 20 x 100 us": ["--ns", "100000", "--graph", "20", "--depth", "4"],
    "200 us, 2 processes": ["--ns", "200000", "--depth", "20", "--processes", "2"],
}
LONGEST_MS = {"2 us": 0.002, "5 ms": 5, "50 ms": 50, "graphs of 20 x 100 us": 2}
# Slice in us, launch latency in ns, jitter in percent; the first one for all rows.
SETTINGS = [(2000, 2000, 20), (1000, 2000, 20), (5000, 2000, 20), (2000, 10000, 20), (1000, 10000, 20),
            (5000, 10000, 20), (2000, 2000, 0)]
VARIED = ("30/70", "50/30/20", "20 x 5")
VARIED_WORK = ("2 us", "200 us", "5 ms")
QUICK = [("30/70", "200 us"), ("20 x 5", "2 us"), ("50/30/20", "5 ms")]
ERROR_MAX, LOSS_MAX, START_MAX = 2, 3, 100
EARLY = 5    # windows
WINDOWS, QUICK_WINDOWS = 8, 3
FELT_MS, FELT_WINDOWS = 50, 40    # of kernels that are five points of a window each
KERNEL_MAX = 1.5    # percent of all that is done: what one kernel more or less may be
LINE_SAMPLES = 10    # of the plant, for a point of the plots
WARM_S = 8    # the correction is settled by then
# So many rows at a time, where what they take of the processors is no part of what is measured.
JOBS = {"5 ms": 8, "50 ms": 8, "graphs of 20 x 100 us": 4, "200 us": 2, "200 us, 2 processes": 2, "2 us": 1}
WINDOW_NS = 1_000_000_000
START_WINDOW_NS = 100_000_000
DRIVEN_MIN = 95    # percent of the GPU's time without a limit: less is this machine's fault


def rows_wanted(quick):
    """(share, work, setting), each once."""
    if quick:
        return [(share, work, SETTINGS[0]) for share, work in QUICK]
    wanted = [(share, work, SETTINGS[0]) for work in WORK for share in SHARES]
    return wanted + [(share, work, setting) for setting in SETTINGS[1:] for work in VARIED_WORK for share in VARIED]


def key_of(share, work, setting, elapsed):
    return f"{share}, {work}, {setting[0]} us, {setting[1]} ns, {setting[2]} %" + (", elapsed" if elapsed else "")


def windows(gpu, pids, begin, count):
    """Percent of the GPU's time in each of `count` windows of a second from `begin` on."""
    found = []
    at, _, done = gpu.done(pids, begin)
    for _ in range(count):
        until, _, more = gpu.done(pids, at + WINDOW_NS)
        found.append((more - done) / (until - at) * 100)
        at, done = until, more
    return found


def done_of(tenant, processes):
    return sum(processes.get(pid, 0) for pid in tenant.pids)


def over_time(gpu, tenants):
    """[seconds, percent of the first, of the second, ...], each over a tenth of what was sampled."""
    step, origin = LINE_SAMPLES, gpu.samples[0][0]
    return [[(until - origin) / 1e9] + [(done_of(t, after) - done_of(t, before)) / (until - at) * 100 for t in tenants]
            for (at, _, before), (until, _, after) in zip(gpu.samples[::step], gpu.samples[step::step])]


def starts_after(gpu, tenant, began, work):
    """Milliseconds from its first launch until it has nine tenths of its share, over a tenth of a second; None: its
    kernels are too long to say."""
    if tenant.percent / 100 * START_WINDOW_NS < 4e6 * LONGEST_MS.get(work, 0.2):
        return None
    samples = [(at, done_of(tenant, processes)) for at, _, processes in gpu.samples if at >= began]
    for i, (at, done) in enumerate(samples):
        later = next(((t, d) for t, d in samples[i:] if t >= at + START_WINDOW_NS), None)
        if later and (later[1] - done) / (later[0] - at) >= 0.9 * tenant.percent / 100:
            return (at - began) / 1e6
    return (samples[-1][0] - began) / 1e6


def windows_wanted(share, work, quick):
    """Of kernels of 50 ms a share of 5 % has eight in as many seconds, and one of them decides."""
    kernel_ms = LONGEST_MS.get(work, 0.2)
    least = FELT_WINDOWS if kernel_ms >= FELT_MS else WINDOWS
    return QUICK_WINDOWS if quick else max(least, math.ceil(kernel_ms * 10 / sum(SHARES[share]) / KERNEL_MAX))


def uncontrolled(setting, work, count, seconds):
    """Percent of the GPU's time that they use without a limit."""
    with tempfile.TemporaryDirectory(prefix="bench-shares-") as folder, SimulatedGpu(Path(folder), *setting, False) as gpu:
        tenants = start(gpu, [None] * count, WORK[work])
        for tenant in tenants:
            tenant.go()
        begin = time.monotonic_ns() + WINDOW_NS
        gpu.wait_until(begin + seconds * WINDOW_NS)
        at, busy, _ = gpu.done([], begin)
        until, more, _ = gpu.done([], begin + seconds * WINDOW_NS)
        for tenant in tenants:
            tenant.end()
        return (more - busy) / (until - at) * 100


def one(share, work, setting, elapsed, timing, limit):
    percents, count = SHARES[share], windows_wanted(share, work, timing["quick"])
    with tempfile.TemporaryDirectory(prefix="bench-shares-") as folder, SimulatedGpu(Path(folder), *setting, elapsed) as gpu:
        tenants = start(gpu, percents, WORK[work])
        if elapsed:
            gpu.end_keepers()    # they would repair it
        for tenant in tenants[1:]:
            tenant.go()
        time.sleep(timing["alone_s"])
        began = time.monotonic_ns()
        tenants[0].go()
        begin = began + int(timing["warm_s"] * 1e9)
        gpu.wait_until(begin + (count + 1) * WINDOW_NS)
        found = [windows(gpu, tenant.pids, begin, count) for tenant in tenants]
        early = [windows(gpu, tenant.pids, began + WINDOW_NS, timing["early"]) for tenant in tenants]
        after = starts_after(gpu, tenants[0], began, work)
        line = over_time(gpu, tenants)
        for tenant in tenants:
            tenant.process.kill()
            tenant.process.communicate()
    errors, early = ([abs(got - tenant.percent) for tenant, one_found in zip(tenants, which) for got in one_found]
                     for which in (found, early))
    total = sum(sum(one_found) for one_found in found) / count
    reachable = sum(percents) * min(1, limit / 100)
    row = {"share": share, "work": work, "slice_us": setting[0], "latency_ns": setting[1], "jitter_percent": setting[2],
           "elapsed": elapsed, "granted": sum(percents),
           "got": [round(sum(one_found) / len(one_found), 2) for one_found in found],
           "total": total, "error": sum(errors) / len(errors), "worst": max(errors), "limit": limit,
           "early": sum(early) / len(early),
           "loss": (1 - total / reachable) * 100, "starts_after_ms": after, "line": line}
    row["driven"] = limit >= DRIVEN_MIN
    goals = (("early", row["early"], ERROR_MAX), ("error", row["error"], ERROR_MAX), ("loss", row["loss"], LOSS_MAX),
             ("start", after or 0, START_MAX))
    row["missed"] = [name for name, value, most in goals if value > most]
    return row


def kind_of(share, work, setting):
    """What it is without control: the shares do not matter."""
    return setting, work, len(SHARES[share])


def limits_of(pool, wanted):
    kinds = list(dict.fromkeys(kind_of(*row) for row in wanted))
    return dict(zip(kinds, pool.map(lambda kind: uncontrolled(*kind, 1), kinds)))


def verdict(row):
    if not row["missed"]:
        return ""
    return "MISSED: " + ", ".join(row["missed"]) + ("" if row["driven"] else " (this machine drives no more)")


def summed(got):
    return " ".join(f"{g:.1f}" for g in got) if len(got) <= 3 else f"{min(got):.1f} to {max(got):.1f}"


COLUMNS = (("granted", lambda r: r["share"]), ("work", lambda r: r["work"]),
           ("slice ms", lambda r: f"{r['slice_us'] / 1000:g}"), ("latency us", lambda r: f"{r['latency_ns'] / 1000:g}"),
           ("jitter %", lambda r: f"{r['jitter_percent']}"), ("got %", lambda r: summed(r["got"])),
           ("early", lambda r: f"{r['early']:.2f}"), ("error", lambda r: f"{r['error']:.2f}"),
           ("worst", lambda r: f"{r['worst']:.1f}"), ("total %", lambda r: f"{r['total']:.1f}"),
           ("loss %", lambda r: f"{r['loss']:.1f}"), ("uncontrolled %", lambda r: f"{r['limit']:.1f}"),
           ("starts after ms", lambda r: "-" if r["starts_after_ms"] is None else f"{r['starts_after_ms']:.0f}"),
           ("", verdict))


def cells(rows):
    return [[name for name, _ in COLUMNS]] + [[show(row) for _, show in COLUMNS] for row in rows]


INTRO = """# Shares of a simulated GPU's time

`bench/bench shares`: programs under `ration run --core N` on a simulated GPU (docs/internals/simulated-card.md), which
know nothing of each other. What each got is the GPU's time that it had alone, in windows of a second.

- error: mean over tenants and windows of the difference to what was granted, in points, from {warm:g} s after the
  start; worst: the largest of a window; early: the same as error, of the five windows from the first second on, before
  the keeper knows how to correct what the shim estimates. Goal: both <= {error} points.
- loss: how much of what was granted, and could be reached without a limit ("uncontrolled"), the GPU did not do. Goal:
  <= {loss} %.
- starts after: how long the first of the tenants, which begins while the others are at work, takes to its share. Goal:
  <= {start} ms.
- Measured for 8 s, of kernels of 50 ms for 40 s, and for so long that one kernel more or less is {kernel:g} % of what was done at most.
- Where the programs cannot keep the GPU busy even without a limit, this machine is the limit: the row says so.

"""


def write(folder, rows, load):
    folder.mkdir(parents=True, exist_ok=True)
    met = sum(not r["missed"] for r in rows)
    text = INTRO.format(warm=load["warm_s"], error=ERROR_MAX, loss=LOSS_MAX, start=START_MAX, kernel=KERNEL_MAX)
    driven = sum(r["driven"] for r in rows)
    text += (f"{met} of {len(rows)} rows meet all goals; the machine could drive {driven} of them. Commit {load['commit']}, "
             f"{load['cpus']} processors, load average {' '.join(map(str, load['before']))} before and "
             f"{' '.join(map(str, load['after']))} after the last part of it.\n\n")
    shown = [r for r in rows if (r["share"], r["work"]) in (("30/70", "200 us"), ("50/30/20", "5 ms"))][:2]
    for i, row in enumerate(shown):
        name = f"shares-{i + 1}.svg"
        names = [f"{p} %" for p in SHARES[row["share"]]]
        (folder / name).write_text(plot.over_time(f"{row['share']}, kernels of {row['work']}", names, row["line"],
                                                  SHARES[row["share"]]))
        text += f"![{row['share']}, kernels of {row['work']}]({name})\n\n"
    text += report.aligned(cells(rows), True) + "\n"
    (folder / "shares.md").write_text(text)
    (folder / "shares.json").write_text(json.dumps({"load": load, "rows": rows}) + "\n")


def arguments(argv):
    parser = argparse.ArgumentParser(prog="bench/bench shares", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three rows, to see that the benchmark works (less than a minute)")
    parser.add_argument("--charge-elapsed", action="store_true",
                        help="use a shim that charges elapsed instead of exclusive time, without keepers, which would correct "
                             "most of that; the table must show the difference")
    parser.add_argument("--rows", metavar="TEXT", help="run only rows whose name contains this, as in '30/70, 2 us'")
    parser.add_argument("--part", metavar="K/N",
                        help="run only each Nth row from the Kth on; the other rows in --out stay")
    parser.add_argument("--jobs", type=int, metavar="N",
                        help="rows to run at a time, each on a GPU of its own (default: 1 with kernels of 2 us, 2 with 200 us, "
                             "4 with graphs, 8 with longer kernels)")
    parser.add_argument("--warm", type=float, default=WARM_S, metavar="S",
                        help="seconds before the measurement, in which the correction learns (default: %(default)s)")
    parser.add_argument("--out", metavar="DIR", help="the folder for shares.md, shares.json and the plots")
    return parser.parse_args(argv)


def rows_together(wanted, jobs):
    """(how many at a time, rows): those that take least of the processors first."""
    numbers = sorted({jobs or JOBS[work] for _, work, _ in wanted}, reverse=True)
    return [(number, [row for row in wanted if (jobs or JOBS[row[1]]) == number]) for number in numbers]


def measure(wanted, jobs, elapsed, timing):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        limits = limits_of(pool, wanted)
        running = [pool.submit(one, *row, elapsed, timing, limits[kind_of(*row)]) for row in wanted]
        for row, job in zip(wanted, running):
            yield key_of(*row, elapsed), job.result()


def before(folder):
    """Rows that were measured by other parts."""
    file = folder and Path(folder) / "shares.json"
    if not file or not file.exists():
        return {}
    return {key_of(r["share"], r["work"], (r["slice_us"], r["latency_ns"], r["jitter_percent"]), r["elapsed"]): r
            for r in json.loads(file.read_text())["rows"]}


def main(argv):
    args = arguments(argv)
    if not (build() / "bench/bench-tenant").exists():
        raise BenchError(f"{build()} holds no bench-tenant; meson setup build && ninja -C build")
    load = report.machine()
    timing = {"alone_s": 0.5, "warm_s": args.warm, "early": EARLY, "quick": args.quick}
    load["warm_s"] = args.warm
    wanted = [row for row in rows_wanted(args.quick) if not args.rows or args.rows in key_of(*row, args.charge_elapsed)]
    everything, known = wanted, before(args.out) if args.part else {}
    if args.part:
        part, parts = map(int, args.part.split("/"))
        wanted = wanted[part - 1::parts]
    for jobs, together in rows_together(wanted, args.jobs):
        for key, row in measure(together, jobs, args.charge_elapsed, timing):
            known[key] = row
            print(report.aligned(cells([row]), False).splitlines()[1], flush=True)
    rows = [known[key] for key in (key_of(*row, args.charge_elapsed) for row in everything) if key in known]
    print("\n" + report.aligned(cells(rows), False))
    if args.out:
        load["after"] = report.machine()["before"]
        write(Path(args.out), rows, load)
