"""Measures how full a cluster gets: pods of a list arrive in random order, and each policy places them on the same nodes."""
import argparse
import json
import statistics
import subprocess
from pathlib import Path

from . import plot
from .programs import BenchError, build
from .report import aligned

ARRIVALS = (100, 130)    # percent of the cluster's GPUs that pods have asked for
POLICIES = ("random", "best-fit", "fgd", "binpack", "spread", "balanced", "ration", "ration-fullest", "ration-spread")


def arguments(argv):
    parser = argparse.ArgumentParser(prog="bench/bench packing", description=__doc__)
    parser.add_argument("--trace", metavar="FILE", nargs="+", help="the list of nodes, then lists of pods, as CSV (columns node,cpu_milli,"
                        "memory_mib,gpu,model and cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec); without it both are generated")
    parser.add_argument("--nodes", type=int, default=1213, help="nodes to generate (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=42, help="seed of the first order of arrivals (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=10, help="number of orders of arrivals (default: %(default)s)")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="run only this policy; may be repeated")
    parser.add_argument("--out", metavar="DIR", help="the folder for packing.json and a plot for each list")
    args = parser.parse_args(argv)
    if args.trace and len(args.trace) < 2:
        parser.error("--trace needs the list of nodes and at least one list of pods")
    return args


def replays(args, pods):
    """One dictionary for each policy and seed, as bench-packing prints them."""
    argv = [build() / "bench/bench-packing", "--seed", args.seed, "--seeds", args.seeds]
    argv += ["--nodes", args.trace[0], "--pods", pods] if pods else ["--generate", args.nodes]
    for policy in args.policy or ():
        argv += ["--policy", policy]
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(done.stderr.strip() or f"bench-packing ended with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def summary(name, runs):
    """A row for each policy: means over the orders of arrivals."""
    rows = []
    for policy in dict.fromkeys(run["policy"] for run in runs):
        own = [run for run in runs if run["policy"] == policy]
        row = {"list": name, "policy": policy, "seeds": len(own), "us": statistics.median(run["us"] for run in own)}
        for percent in ARRIVALS:
            values = [run["allocated"][percent - 1] for run in own]
            row[f"at_{percent}"] = statistics.mean(values)
            row[f"spread_{percent}"] = max(values) - min(values)
        rows.append(row)
    return rows


def table(rows):
    head = ["list", "policy", *(f"at {p} %" for p in ARRIVALS), "worst to best", "us"]
    return aligned([head] + [[r["list"], r["policy"], *(f"{r[f'at_{p}']:.2f}" for p in ARRIVALS), f"{r['spread_130']:.2f}",
                              f"{r['us']:.1f}"] for r in rows], True)


def curves(runs):
    """{policy: [(arrived, allocated), ...]}, means over the orders of arrivals."""
    lines = {}
    for policy in dict.fromkeys(run["policy"] for run in runs):
        own = [run["allocated"] for run in runs if run["policy"] == policy]
        lines[policy] = [(i + 1, statistics.mean(column)) for i, column in enumerate(zip(*own))]
    return lines


def main(argv):
    args, rows, kept = arguments(argv), [], []
    for pods in args.trace[1:] if args.trace else [None]:
        name = Path(pods).stem if pods else "generated"
        try:
            runs = replays(args, pods)
        except BenchError as error:
            return f"bench: {error}"
        rows += summary(name, runs)
        kept.append((name, runs))
    print("GPUs allocated, percent of all, when pods have asked for 100 % and 130 % of them; time of a decision on a processor\n")
    print(table(rows))
    if args.out:
        folder = Path(args.out)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "packing.json").write_text(json.dumps(rows, indent=1) + "\n")
        for name, runs in kept:
            (folder / f"packing-{name}.svg").write_text(plot.packing(f"GPUs allocated, {name}", curves(runs)))
    return 0
