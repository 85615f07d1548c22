"""Measures how full a cluster gets: pods of a list arrive in random order, and each policy places them on the same nodes."""
import argparse
import json
import statistics
import subprocess
from pathlib import Path

from . import bound, dra, live, plot
from .programs import BenchError, build
from .report import aligned

ARRIVALS = (100, 130)    # percent of the cluster's GPUs that pods have asked for
POLICIES = ("random", "best-fit", "fgd", "binpack", "spread", "balanced", "ration", "ration-fullest", "ration-spread")
HOURS_POLICIES = ("ration", "binpack", "fgd")
WINDOW = 12    # hours of a row


def arguments(argv):
    parser = argparse.ArgumentParser(prog="bench/bench packing", description=__doc__)
    parser.add_argument("--trace", metavar="FILE", nargs="+", help="the list of nodes, then lists of pods, as CSV (columns node,cpu_milli,"
                        "memory_mib,gpu,model and cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec); without it both are generated")
    parser.add_argument("--nodes", type=int, default=1213, help="nodes to generate (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=42, help="seed of the first order of arrivals (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=10, help="number of orders of arrivals (default: %(default)s)")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="run only this policy; may be repeated")
    parser.add_argument("--bound", action="store_true", help="also the most that any policy can allocate which drops a pod only if no node "
                        "has room, even one that knows all pods beforehand (needs glpsol; a minute for each order of a long list)")
    parser.add_argument("--live", action="store_true", help="also a ration-scheduler process that is asked over HTTP (with default options)")
    parser.add_argument("--dra", action="store_true", help="also kube-scheduler's own allocator of ResourceClaims, with GPUs in several orders (needs Go)")
    parser.add_argument("--hours", type=int, metavar="H", help="pods come and go for H hours of virtual time instead: GPUs that are allocated "
                        f"and stranded, by default of {', '.join(HOURS_POLICIES)}")
    parser.add_argument("--moves", type=int, metavar="N", help="after --hours: how many whole GPUs a plan of at most N moves makes free (ration plan moves)")
    parser.add_argument("--out", metavar="DIR", help="the folder for packing.json (packing-hours.json) and a plot for each list")
    args = parser.parse_args(argv)
    if args.trace and len(args.trace) < 2:
        parser.error("--trace needs the list of nodes and at least one list of pods")
    if args.hours is not None and (args.hours < 1 or args.bound or args.live or args.dra):
        parser.error("--hours takes a number from 1, and none of --bound, --live and --dra")
    if args.moves is not None and (args.moves < 1 or not args.hours):
        parser.error("--moves takes a number from 1, and needs --hours")
    return args


def run(args, pods, *more):
    """One dictionary for each line that bench-packing prints."""
    argv = [build() / "bench/bench-packing", "--seed", args.seed, "--seeds", args.seeds, *more]
    argv += ["--nodes", args.trace[0], "--pods", pods] if pods else ["--generate", args.nodes]
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False)
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
        runs += [{"policy": "live", "seed": seed, **live.replay(nodes, kinds, order, max(ARRIVALS))} for seed, order in orders]
    if args.dra:
        runs += dra.replay(nodes, kinds, orders, max(ARRIVALS))
    if args.bound:
        runs += bounds(nodes, kinds, orders)
    return summary(name, runs), {f"packing-{name}.svg": plot.packing(f"GPUs allocated, {name}", curves(runs))}


def main(argv):
    args, rows, plots = arguments(argv), [], {}
    args.plans = []
    for pods in args.trace[1:] if args.trace else [None]:
        name = Path(pods).stem if pods else "generated"
        try:
            more, drawn = (measure_hours if args.hours else measure)(args, name, pods)
        except BenchError as error:
            return f"bench: {error}"
        rows += more
        plots.update(drawn)
    if args.hours:
        print("GPUs allocated and stranded, percent of all, means over hours and orders; stranded in the best and in the worst order\n")
        print(hours_table(rows))
        if args.plans:
            print(f"\nWhole GPUs that a plan of at most {args.moves} moves makes free, after {args.hours} hours; time on a processor\n")
            print(moves_table(args.plans))
    else:
        print("GPUs allocated, percent of all, when pods have asked for 100 % and 130 % of them; time of a decision on a processor\n")
        print(table(rows))
    if args.out:
        folder = Path(args.out)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ("packing-hours.json" if args.hours else "packing.json")).write_text(json.dumps(rows, indent=1) + "\n")
        if args.plans:
            (folder / "packing-moves.json").write_text(json.dumps(args.plans, indent=1) + "\n")
        for file, svg in plots.items():
            (folder / file).write_text(svg)
    return 0
