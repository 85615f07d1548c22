"""Measures what features cost pods that use them and pods that do not: this ration-scheduler and another one answer the same
calls in turns, with and without ResourcePolicies and whole GPUs. It measures the scheduler's processor time per call, which
other work on the machine hardly changes."""
import argparse
import contextlib
import json
import statistics
import time
from pathlib import Path

from . import cluster
from .apiserver import StillApiServer
from .endtoend import CAREFUL_S, RATION, measure
from .programs import BenchError, Floor, RationScheduler, build, load
from .realapi import RealApi
from .verbs import question

BINDS = 250    # in a turn: of less, much is that the other one has had the processor's caches before
POLICY = {"units": [{"resource": "idc", "nodeSelector": {"ack.node.gpu.placement": "spread"}},
                    {"resource": "ecs", "max": 100000}, {"resource": "eci"}]}
LINKS = ["X", "NV1", "NV1", "NV2", "NV2", "SYS", "SYS", "SYS"]    # of a DGX-1's GPU 0; all GPUs by exclusive or


def cpu_of(scheduler, verb, bodies, calls):
    """(microseconds of processor time for each call, median latency in ms)"""
    before = scheduler.cpu_ns()
    got = load(f"{scheduler.url}/{verb}", bodies, calls)
    if got["failed"]:
        raise AssertionError(f"{verb}: {got['failure']}")
    return (scheduler.cpu_ns() - before) / calls / 1e3, got["p50"]


@contextlib.contextmanager
def running(nodes, pods, program=None, policies=()):
    """A scheduler that knows this cluster; policies: namespaces that have one."""
    with StillApiServer(nodes, pods) as api:
        for namespace in policies:
            api.create("resourcepolicies", {"metadata": {"name": "bench", "namespace": namespace}, "spec": POLICY})
        with RationScheduler(api.kubeconfig(), program=program) as scheduler:
            scheduler.wait_ready()
            yield scheduler


def in_turns(schedulers, verb, bodies, calls, rounds):
    """Medians of the rounds of each, and of the ratio of the last to the first within a round."""
    times = []
    for scheduler in schedulers:
        load(f"{scheduler.url}/{verb}", bodies[:8], 8)
    for i in range(rounds):
        part = bodies if calls else bodies[8 + i * BINDS:8 + (i + 1) * BINDS]
        got = {s: cpu_of(s, verb, part, calls or len(part))[0]    # who comes second may find the machine warmer
               for s in (schedulers if i % 2 == 0 else schedulers[::-1])}
        times.append([got[s] for s in schedulers])
    return [statistics.median(t) for t in zip(*times)], statistics.median(t[-1] / t[0] for t in times)


def against(other, size, rounds, say):
    fill = cluster.FILLS[50]
    asking = [cluster.pod(f"asking-{i}", 1, 0xB00000 + i, f"asking-{i // 100}") for i in range(9 + rounds * BINDS)]
    with contextlib.ExitStack() as stack:
        both = [stack.enter_context(running([cluster.node(i, "binpack") for i in range(size)],
                                            [*cluster.filling_pods(size, fill), *asking], program))
                for program in (other, None)]
        names = [cluster.node_name(i) for i in range(size)]
        binds = [{"PodName": p["metadata"]["name"], "PodNamespace": "default", "PodUID": p["metadata"]["uid"],
                  "Node": names[i % size]} for i, p in enumerate(asking)]
        for what, verb, bodies, calls in (
                ("filter, accepted", "filter", [question(names, 1, i) for i in range(8)], 200),
                ("filter, rejected", "filter", [question(names, fill.free + 1, i) for i in range(8)], 200),
                ("bind", "bind", binds, 0)):
            if verb == "bind":
                time.sleep(CAREFUL_S)
                for scheduler in both:
                    load(f"{scheduler.url}/bind", binds[:1], 1)
                time.sleep(CAREFUL_S)
                binds[0:1] = []
            (before, after), ratio = in_turns(both, verb, bodies, calls, rounds)
            say(f"| {what}, {size} nodes | {before:.0f} us | {after:.0f} us | {ratio:.3f} |")


def throughput(other, size, pods, turns, say):
    """Pods per second of a real kube-scheduler with either, burst by burst in turns, two rounds with an API server. Of bursts
    twice as large more wait for an API server on 2 processors than it binds in the time they have, and all begin again."""
    ratios, rates, failed = [], {other: [], RATION: []}, {other: 0, RATION: 0}
    for _ in range(turns):
        with RealApi() as api:
            api.create_nodes([cluster.node(i, "binpack") for i in range(size)])
            for kinds in ((other, RATION), (RATION, other)):
                for kind in kinds:
                    got = measure(api, kind, "equal", pods)
                    if got["over"]:
                        raise BenchError(f"{kind}: {got['over']} GPUs over their total")
                    failed[kind] += got["failed"]
                    rates[kind].append((pods - 1) / got["seconds"])
                ratios.append(rates[RATION][-1] / rates[other][-1])
    before, after = (statistics.median(found) for found in rates.values())
    say(f"| pods/s, {size} nodes (failed attempts) | {before:.0f} ({failed[other]}) | {after:.0f} ({failed[RATION]}) | "
        f"{statistics.median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f}) |")


def plain(number):
    pod = cluster.pod(f"plain-{number}", 1, 0xC00000 + number, "plain")
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return pod


def levels(size, rounds, say):
    names = [cluster.node_name(i) for i in range(size)]
    asked = [{"Pod": plain(i), "Nodes": None, "NodeNames": names} for i in range(8)]
    gpu = [question(names, 1, i) for i in range(8)]
    with contextlib.ExitStack() as stack:
        floor = stack.enter_context(Floor())
        three = [stack.enter_context(running([cluster.node(i, "binpack") for i in range(size)], [], policies=p))
                 for p in ((), ("elsewhere",), ("default",))]
        time.sleep(3)
        for what, verb, bodies in (("pod without a GPU", "levels/filter", asked), ("pod with a GPU", "filter", gpu)):
            times, _ = in_turns(three, verb, bodies, 100, rounds)
            latency = [load(f"{s.url}/{verb}", bodies, 300) for s in three]
            least = [load(f"{floor.url}/{got['answer_bytes']}", bodies, 300)["p50"] for got in latency]
            say(f"| {what}, {size} nodes | " + " | ".join(
                f"{t:.0f} us; {got['p50']:.2f} ms ({low:.2f})" for t, got, low in zip(times, latency, least)) + " |")


def topology_node(i):
    node = cluster.node(i, "binpack")
    notes = node["metadata"]["annotations"]
    gpus = json.loads(notes["ration.dev/gpus"])
    for a, gpu in enumerate(gpus):
        gpu["links"] = [LINKS[a ^ b] for b in range(len(gpus))]
    notes.update({"ration.dev/gpus": json.dumps(gpus), "ration.dev/mode": "topology"})
    return node


def whole(number, gpus, **labels):
    pod = cluster.pod(f"whole-{number}", 1, 0xD00000 + number, "whole")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"aliyun.com/gpu": str(gpus)}}
    pod["metadata"]["labels"].update(labels)
    return pod


def topology(size, rounds, say):
    names = [cluster.node_name(i) for i in range(size)]
    with running([topology_node(i) for i in range(size)], []) as scheduler:
        for gpus in (1, 4):
            bodies = [{"Pod": whole(i, gpus), "Nodes": None, "NodeNames": names} for i in range(8)]
            times, _ = in_turns([scheduler], "filter", bodies, 100, rounds)
            say(f"| {gpus} of 8 GPUs, {size} nodes | {times[0]:.0f} us |")


def main(argv):
    parser = argparse.ArgumentParser(prog="bench/bench features", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that the benchmark works")
    parser.add_argument("--against", metavar="PROGRAM", help="the ration-scheduler to compare with (default: this one, twice)")
    args = parser.parse_args(argv)
    sizes, rounds = ([50], 3) if args.quick else ([1000, 5000], 15)
    print("| | other | this | ratio |\n|---|---|---|---|", flush=True)
    other = Path(args.against or build() / "src/scheduler/ration-scheduler")
    for size in sizes:
        against(other, size, rounds, lambda t: print(t, flush=True))
    for size, turns in zip(sizes, (1,) if args.quick else (6, 3)):
        throughput(other, size, min(size, 500), turns, lambda t: print(t, flush=True))
    print("\n| | no ResourcePolicy | one elsewhere | one of the pod |\n|---|---|---|---|", flush=True)
    for size in sizes:
        levels(size, rounds, lambda t: print(t, flush=True))
    print("\n| whole GPUs | |\n|---|---|", flush=True)
    topology(sizes[0], rounds, lambda t: print(t, flush=True))
