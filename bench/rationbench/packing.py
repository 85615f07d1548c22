"""Measures how full a cluster gets: pods of a list arrive in random order, and each policy places them on the same nodes."""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from . import bound, dra, live, plot, redraw
from .programs import BenchError, build
from .report import aligned

ARRIVALS = (100, 130)    # percent of the cluster's GPUs that pods have asked for
POLICIES = ("random", "best-fit", "fgd", "binpack", "spread", "balanced", "ration", "ration-fullest", "ration-spread")
HOURS_POLICIES = ("ration", "binpack", "fgd")
WINDOW = 12    # hours of a row
REDRAW_SEED = 1001    # of the first list, whatever the orders of arrivals are
SEEDS_MAX, SEED_MAX, NODES_MAX, HOURS_MAX, MOVES_MAX = 1000, 2 ** 32 - 1, 20000, 1000, 100000    # bench/packing/main.c has the same


def whole(least, most):
    """The argparse type of an argument that is a whole number in these limits."""
    def read(text):
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number from {least} to {most}")
        return int(text)
    return read


def arguments(argv):
    parser = argparse.ArgumentParser(prog="bench/bench packing", description=__doc__)
    parser.add_argument("--trace", metavar="FILE", nargs="+", help="the list of nodes, then lists of pods, as CSV with the columns "
                        "cpu_milli,memory_mib,gpu,model and cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec, in any order and among others; "
                        "without it both are generated")
    parser.add_argument("--redraw", type=whole(1, SEEDS_MAX), metavar="N", help="also N lists drawn from each list of pods, always the same: "
                        "pods with no GPU, a part, one and several, with and without models, a quarter to four times as often")
    parser.add_argument("--redraw-seed", type=whole(0, SEED_MAX), metavar="N", help="seed of the first drawn list, also in its name; the next one "
                        f"has the next seed (default: {REDRAW_SEED})")
    parser.add_argument("--nodes", type=whole(1, NODES_MAX), default=1213, help="nodes to generate (default: %(default)s)")
    parser.add_argument("--seed", type=whole(0, SEED_MAX), default=42, help="seed of the first order of arrivals (default: %(default)s)")
    parser.add_argument("--seeds", type=whole(1, SEEDS_MAX), default=10, help="number of orders of arrivals (default: %(default)s)")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="run only this policy; may be repeated")
    parser.add_argument("--bound", action="store_true", help="also the most that any policy can allocate which drops a pod only if no node "
                        "has room, even one that knows all pods beforehand (needs glpsol; a minute for each order of a long list)")
    parser.add_argument("--live", action="store_true", help="also a ration-scheduler process that is asked over HTTP (with default options), "
                        "beside kube-scheduler's own scores with the weights of the chart")
    parser.add_argument("--weights", nargs=2, type=whole(0, 1000), metavar="N", help="other weights of the extender's scores for --live: for GPU "
                        "pods, and for pods without a GPU (kube-scheduler's defaults for an extender with scores and for one without: 1 0)")
    parser.add_argument("--dra", action="store_true", help="also kube-scheduler's own allocator of ResourceClaims, with GPUs in several orders (needs Go)")
    parser.add_argument("--hours", type=whole(1, HOURS_MAX), metavar="H", help="pods come and go for H hours of virtual time instead: GPUs that are allocated "
                        f"and stranded, by default of {', '.join(HOURS_POLICIES)}")
    parser.add_argument("--moves", type=whole(1, MOVES_MAX), metavar="N", help="after --hours: how many whole GPUs a plan of at most N moves makes free (ration plan moves)")
    parser.add_argument("--out", metavar="DIR", help="the folder for packing.json (packing-hours.json) and a plot for each list")
    args = parser.parse_args(argv)
    if args.trace and len(args.trace) < 2:
        parser.error("--trace needs the list of nodes and at least one list of pods")
    names = [name for pods in (args.trace or [])[1:] for name in names_of(args, pods)]
    if len(names) > len(set(names)):
        parser.error("--trace: two lists of pods have the same name, so their rows and plots could not be told apart")
    if args.hours and (args.bound or args.live or args.dra):
        parser.error("--hours cannot be combined with --bound, --live or --dra")
    if args.moves and not args.hours:
        parser.error("--moves needs --hours")
    if args.redraw and not args.trace:
        parser.error("--redraw needs --trace")
    if args.redraw_seed is not None and not args.redraw:
        parser.error("--redraw-seed needs --redraw")
    if args.weights and not args.live:
        parser.error("--weights needs --live")
    return args


def run(args, pods, *more):
    """One dictionary for each line that bench-packing prints."""
    argv = [build() / "bench/bench-packing", "--seed", args.seed, "--seeds", args.seeds, *more]
    argv += ["--nodes", args.trace[0], "--pods", pods] if pods else ["--generate", args.nodes]
    if not argv[0].exists():
        raise BenchError(f"{argv[0]} is missing; run: meson setup build && ninja -C build")
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise BenchError(done.stderr.strip() or f"bench-packing ended with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def of_policies(policies):
    return [arg for policy in policies or () for arg in ("--policy", policy)]


def orders_of(args, pods):
    """(nodes, kinds of pods, [(seed, numbers of the kinds in the order in which pods arrive), ...])."""
    cluster, *orders = run(args, pods, "--arrivals")
    return ([bound.NodeType(*node) for node in cluster["nodes"]], [bound.Kind(*kind) for kind in cluster["kinds"]],
            [(order["seed"], order["arrivals"]) for order in orders])


def bounds(nodes, kinds, orders):
    """Runs of a policy named bound: {percent: allocated, percent of all GPUs} for each order of arrivals."""
    gpu_milli = bound.GPU_MILLI * sum(node.gpus for node in nodes)
    solvers, runs = {percent: bound.Solver() for percent in ARRIVALS}, []
    for seed, order in orders:
        at_percent = {}
        for percent, solver in solvers.items():
            pods = bound.arrived(kinds, order, gpu_milli, percent) if percent < max(ARRIVALS) else order
            at_percent[percent] = 100 * solver.bound(bound.Problem(nodes, kinds, pods, coarse=True)) / gpu_milli
        runs.append({"policy": "bound", "seed": seed, "at": at_percent})
    return runs


def at(one, percent):
    return one["at"][percent] if "at" in one else one["allocated"][percent - 1]


def summary(name, runs):
    """A row for each policy: means over the orders of arrivals."""
    rows = []
    for policy in dict.fromkeys(one["policy"] for one in runs):
        own = [one for one in runs if one["policy"] == policy]
        row = {"list": name, "policy": policy, "seeds": len(own)}
        if all("us" in one for one in own):
            row["us"] = statistics.median(one["us"] for one in own)
        for percent in ARRIVALS:
            values = [at(one, percent) for one in own]
            row[f"at_{percent}"] = statistics.mean(values)
            row[f"spread_{percent}"] = max(values) - min(values)
        rows.append(row)
    return rows


def table(rows):
    head = ["list", "policy", *(f"at {p} %" for p in ARRIVALS), "worst to best", "us"]
    return aligned([head] + [[r["list"], r["policy"], *(f"{r[f'at_{p}']:.2f}" for p in ARRIVALS), f"{r['spread_130']:.2f}",
                              f"{r['us']:.1f}" if "us" in r else "-"] for r in rows], True)


def curves(runs):
    """{policy: [(arrived, allocated), ...]}, means over the orders of arrivals."""
    lines = {}
    for policy in dict.fromkeys(one["policy"] for one in runs if "allocated" in one):
        own = [one["allocated"] for one in runs if one["policy"] == policy]
        lines[policy] = [(i + 1, statistics.mean(column)) for i, column in enumerate(zip(*own))]
    return lines


def hours_summary(name, runs):
    """A row for each policy and window of hours: means over its hours and the orders, and the same of the best and the worst order."""
    groups, rows = {}, []
    for one in runs:
        groups.setdefault((one["policy"], (one["hour"] - 1) // WINDOW), []).append(one)
    for (policy, _), own in groups.items():
        row = {"list": name, "policy": policy, "from": own[0]["hour"], "to": max(one["hour"] for one in own),
               "seeds": len({one["seed"] for one in own})}
        for what in "allocated", "stranded":
            orders = [statistics.mean(one[what] for one in own if one["seed"] == seed) for seed in {one["seed"] for one in own}]
            row[what], row[f"{what}_least"], row[f"{what}_most"] = statistics.mean(orders), min(orders), max(orders)
        rows.append(row)
    return rows


def hours_table(rows):
    head = ["list", "policy", "hours", "allocated", "stranded", "least", "most"]
    return aligned([head] + [[r["list"], r["policy"], f"{r['from']}-{r['to']}", f"{r['allocated']:.2f}", f"{r['stranded']:.2f}",
                              f"{r['stranded_least']:.2f}", f"{r['stranded_most']:.2f}"] for r in rows], True)


def hours_curves(runs):
    """{policy: [(hour, stranded), ...]}, means over the orders."""
    values = {}
    for one in runs:
        values.setdefault(one["policy"], {}).setdefault(one["hour"], []).append(one["stranded"])
    return {policy: [(hour, statistics.mean(stranded)) for hour, stranded in hours.items()] for policy, hours in values.items()}


def moves_table(rows):
    head = ["list", "policy", "seed", "pods", "free, in GPUs", "whole GPUs free", "after the moves", "moves", "seconds"]
    return aligned([head] + [[r["list"], r["policy"], str(r["seed"]), str(r["pods"]), f"{r['free']:.1f}", str(r["whole_before"]),
                              str(r["whole_after"]), str(r["moves"]), f"{r['seconds']:.1f}"] for r in rows], True)


def measure_hours(args, name, pods):
    """The plans of moves are in args.plans then."""
    more = ["--moves", args.moves] if args.moves else []
    runs = run(args, pods, "--hours", args.hours, *more, *of_policies(args.policy or HOURS_POLICIES))
    args.plans += [{"list": name} | one for one in runs if "moves" in one]
    runs = [one for one in runs if "moves" not in one]
    return hours_summary(name, runs), {f"packing-hours-{name}.svg": plot.hours(f"GPUs stranded, {name}", hours_curves(runs))}


def measure(args, name, pods):
    runs = run(args, pods, *of_policies(args.policy))
    if args.bound or args.live or args.dra:
        nodes, kinds, orders = orders_of(args, pods)
    if args.live:
        runs += [{"policy": "live", "seed": seed, **live.replay(nodes, kinds, order, max(ARRIVALS), weights=args.weights)} for seed, order in orders]
    if args.dra:
        runs += dra.replay(nodes, kinds, orders, max(ARRIVALS))
    if args.bound:
        runs += bounds(nodes, kinds, orders)
    return summary(name, runs), {f"packing-{name}.svg": plot.packing(f"GPUs allocated, {name}", curves(runs))}


def write(folder, files):
    """Writes the files. Returns None, or why they could not be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    except OSError as error:
        return f"bench: --out {folder}: {error.strerror}"
    return None


def main(argv):
    args = arguments(argv)
    try:
        # Before hours of measuring.
        return (args.out and write(Path(args.out), {})) or measured(args)
    except BenchError as error:
        return f"bench: {error}"
    except KeyboardInterrupt:
        print("bench: interrupted; nothing was written", file=sys.stderr)
        return 130


def redraw_seeds(args):
    first = REDRAW_SEED if args.redraw_seed is None else args.redraw_seed
    return range(first, first + (args.redraw or 0))


def names_of(args, pods):
    """The names of a list and of those that are drawn from it."""
    stem = Path(pods).stem
    return [stem, *(f"{stem}-redrawn-{seed}" for seed in redraw_seeds(args))]


def lists_of(args, folder):
    """(name, file) of each list of pods; without --trace one name and no file."""
    if not args.trace:
        yield "generated", None
    for pods in (args.trace or [])[1:]:
        name, *drawn = names_of(args, pods)
        yield name, pods
        for seed, name in zip(redraw_seeds(args), drawn):
            path = Path(folder) / f"{name}.csv"
            path.write_text(redraw.redrawn(pods, seed))
            yield name, path


def measured(args):
    with tempfile.TemporaryDirectory(prefix="bench-packing-") as folder:
        return measured_lists(args, lists_of(args, folder))


def measured_lists(args, lists):
    rows, files = [], {}
    args.plans = []
    for name, pods in lists:
        more, drawn = (measure_hours if args.hours else measure)(args, name, pods)
        rows += more
        files.update(drawn)
    if args.hours:
        print("GPUs allocated and stranded, percent of all, means over hours and orders; stranded in the best and in the worst order\n")
        print(hours_table(rows))
        if args.plans:
            print(f"\nWhole GPUs that a plan of at most {args.moves} moves makes free, after {args.hours} hours; time on a processor\n")
            print(moves_table(args.plans))
    else:
        print("GPUs allocated, percent of all, when pods have asked for 100 % and 130 % of them; time of a decision on a processor\n")
        print(table(rows))
    if not args.out:
        return 0
    files["packing-hours.json" if args.hours else "packing.json"] = json.dumps(rows, indent=1) + "\n"
    if args.plans:
        files["packing-moves.json"] = json.dumps(args.plans, indent=1) + "\n"
    return write(Path(args.out), files) or 0
