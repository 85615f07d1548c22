"""The goals, and whether this run met them."""
import statistics

from .endtoend import NONE, PASS, RATION, STANDIN


def _pick(rows, **what):
    return [r for r in rows if all(r.get(k) == v for k, v in what.items())]


def _verbs(rows):
    own = _pick(rows, who="ration", verb="filter", best="K=16")
    large, middle = _pick(own, nodes=5000), _pick(own, nodes=1000)
    if large:
        worst = max(r["p99"] for r in large)
        yield "filter (K=16), 5,000 nodes x 8 GPUs, any fill, accept and reject, p99", "<= 2 ms", f"{worst:.2f} ms", worst <= 2
    if middle:
        over = max(r["p50"] - r["floor_p50"] for r in middle)
        yield "filter (K=16), 1,000 nodes, p50 over the floor", "<= 0.3 ms", f"{over:.2f} ms", over <= 0.3
    if large and middle:
        growth = max(a["p50"] / b["p50"] for a in large for b in middle
                     if all(a[k] == b[k] for k in ("fill", "policy", "answer")))
        yield "filter (K=16), p50 at 5,000 over 1,000 nodes", "<= 5 (linear)", f"{growth:.1f}", growth <= 5


def _ratio(bursts, shape, other):
    own, than = _pick(bursts, who=RATION, shape=shape, pods=2000), _pick(bursts, who=other, shape=shape, pods=2000)
    return statistics.median(a / b for a, b in zip(own[0]["rates"], than[0]["rates"])) if own and than else None


def _bursts(bursts):
    for shape, other, least in (("equal", PASS, 1.3), ("equal", STANDIN, 0.95), ("unequal", NONE, 0.95)):
        ratio = _ratio(bursts, shape, other)
        if ratio is not None:
            yield f"pods/s, {shape} pods, over {other}", f">= {least}", f"{ratio:.2f}", ratio >= least
    own = _pick(bursts, who=RATION)
    if own:
        failed, over = sum(r["failed"] for r in own), sum(r["over"] for r in own)
        yield "failed binds in the bursts", "0", str(failed), failed == 0
        yield "overcommitted GPUs after the bursts", "0", str(over), over == 0


def _restart(rows):
    for row in rows:
        if row["nodes"] < 5000:
            continue
        yield ("restart to ready, 5,000 nodes, 20,000 pods", "<= 5 s", f"{row['ready_s']:.2f} s", row["ready_s"] <= 5)
        yield "peak memory there", "<= 100 MB", f"{row['peak_mb']:.0f} MB", row["peak_mb"] <= 100
        yield "steady memory there", "<= 60 MB", f"{row['steady_mb']:.0f} MB", row["steady_mb"] <= 60


def _added(rows, what):
    """The worst of the rows whose name begins so, for one process and for several at a time."""
    rows = [r for r in rows if r["what"].startswith(what)]
    for crowd, which in (("1 process", lambda n: n == 1), ("more at a time", lambda n: n > 1)):
        added = [r["added"] for r in rows if which(r["processes"])]
        if added:
            yield crowd, max(added)


def _shim(calls, init):
    for controlled, power, most in ((False, "no limit on computing power", 15), (True, "computing power controlled", 60)):
        for crowd, added in _added([r for r in calls if ("controlled" in r["what"]) == controlled], "cuLaunchKernel"):
            yield f"added to a launch, {power}, {crowd}", f"<= {most} ns", f"{added:.1f} ns", added <= most
    # Of the pair in a stream most are questions to the driver about its pool, which take the simulated one's time.
    calls = [r for r in calls if "Async" not in r["what"]]
    for what, rows in (("its free", [r for r in calls if "oldest" not in r["what"]]),
                       ("the free of the oldest", [r for r in calls if "oldest" in r["what"]])):
        for crowd, added in _added(rows, "cuMemAlloc"):
            yield f"added to an allocation and {what}, {crowd}", "<= 200 ns", f"{added:.0f} ns", added <= 200
    for row in init:
        added = row["cpu_p99_added"]
        yield (f"p99 of loading and cuInit, {row['processes']} at the same time, added CPU time", "< 1 ms",
               f"{added:.2f} ms", added < 1)


def judge(results):
    """(what, goal, measured, met) for every goal that this run measured."""
    judged = list(_verbs(results.get("verbs", [])))
    for row in _pick(results.get("binds", []), connections=1):
        judged.append(("bind p50, API server included", "<= 2 ms", f"{row['p50']:.2f} ms", row["p50"] <= 2))
    return judged + list(_bursts(results.get("bursts", []))) + list(_restart(results.get("restart", []))) + list(
        _shim(results.get("shim", []), results.get("shim_init", [])))
