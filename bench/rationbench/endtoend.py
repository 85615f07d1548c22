"""Part c: how many pods a second a real kube-scheduler binds, without an extender and with several; and part a's
bind with the real API server behind it."""
import contextlib
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from . import cluster
from .programs import BenchError, RationScheduler, load
from .realapi import KubeScheduler, RealApi, Standin

CAREFUL_S = 5.5    # for 5 s after a pause of 2 s ration-scheduler reads a node's pods before it binds to it
NODE_POLICY = "binpack"
FILLING = "filling"    # namespace of the pods that were there before
SHAPES = {"equal": lambda i: 1, "unequal": lambda i: 1 + i % 7}
NONE, PASS, STANDIN, RATION = "no extender", "pass all", "K=16 stand-in", "ration"


@dataclass(frozen=True)
class Size:
    """A cluster, and what arrives in it."""
    nodes: int
    percent: int
    pods: int
    shapes: tuple = ("equal",)
    rounds: int = 1


QUICK = (Size(50, 0, 60, ("unequal",)), Size(10, 95, 60))
# The goals are about the first; in the others 500 pods of one unit, which is all that is free on a GPU at 95 %.
FULL = (Size(1000, 0, 2000, ("equal", "unequal"), 3),
        *(Size(nodes, percent, 500) for nodes in (100, 1000, 5000) for percent in (0, 50, 95)))


@contextlib.contextmanager
def extender(api, kind):
    """The URL of an extender of this kind, None for none. A path: another ration-scheduler."""
    if kind == NONE:
        yield None
    elif kind == RATION or isinstance(kind, Path):
        with RationScheduler(api.kubeconfig, program=kind if isinstance(kind, Path) else None) as scheduler:
            scheduler.wait_ready()
            yield scheduler.url
            for line in scheduler.text().splitlines():
                if ": bind of pod" in line or "no GPU held" in line:
                    print(line, file=sys.stderr)
    elif kind in (PASS, STANDIN):
        with Standin(api, 0 if kind == PASS else 16) as standin:
            yield standin.url
    else:
        yield kind    # the URL of another scheduler's


def burst(shape, count):
    return [cluster.pod(f"burst-{i:05}", SHAPES[shape](i), i, f"owner-{i // 100}") for i in range(count)]


def follow_until_bound(api, count, timeout):
    """When each pod was seen bound (monotonic), in order. The API server may end a watch at any time. A new
    watch begins with all pods."""
    seen, deadline = {}, time.monotonic() + timeout
    while time.monotonic() < deadline:
        with api.watch_pods() as stream:
            for line in stream:
                pod = json.loads(line)["object"]
                if pod.get("spec", {}).get("nodeName"):
                    seen.setdefault(pod["metadata"]["name"], time.monotonic())
                if len(seen) == count:
                    return sorted(seen.values())
                if time.monotonic() > deadline:
                    break
    raise BenchError(f"only {len(seen)} of {count} pods were bound")


def overcommitted(pods):
    """GPUs with more units placed than they have, by the placements that the API server shows."""
    used = {}
    for pod in pods:
        placement = json.loads(pod["metadata"].get("annotations", {}).get("ration.dev/placement", "{}"))
        for gpus in placement.get("containers", {}).values():
            for gpu in gpus:
                used[gpu["uuid"]] = used.get(gpu["uuid"], 0) + gpu["units"]
    return sum(units > cluster.GPU_UNITS for units in used.values())


def measure(api, kind, shape, count, timeout=300):
    """One burst: the pods are there before kube-scheduler starts, so that making them costs it nothing. From the
    first pod that is bound to the last."""
    api.create_pods(burst(shape, count))
    with extender(api, kind) as url, KubeScheduler(api, url) as scheduler:    # which takes a second to start
        times = follow_until_bound(api, count, timeout)
        failed = scheduler.failed_attempts()
    over = overcommitted(api.pods() + api.pods(FILLING))
    api.delete_pods()
    return {"seconds": times[-1] - times[0], "failed": failed, "over": over}


def add_round(rows, kind, shape, size, got):
    """One row for each kind, shape, cluster and number of pods; the rates of its rounds side by side."""
    key = {"who": kind, "shape": shape, "nodes": size.nodes, "fill": size.percent, "pods": size.pods}
    row = next((r for r in rows if key.items() <= r.items()), None)
    if not row:
        row = {**key, "rates": [], "failed": 0, "over": 0}
        rows.append(row)
    row["rates"].append((size.pods - 1) / got["seconds"])
    row["pods_per_s"], row["slowest"], row["fastest"] = (
        statistics.median(row["rates"]), min(row["rates"]), max(row["rates"]))
    row["failed"] += got["failed"]
    row["over"] += got["over"]


def keep_asking(url, seconds):
    """As a busy kube-scheduler does: the careful seconds after a pause are the bursts' to measure."""
    question = {"Pod": cluster.pod("asking", 1, 0xA00000), "Nodes": None, "NodeNames": [cluster.node_name(0)]}
    for _ in range(int(seconds / 0.25)):
        load(f"{url}/filter", [question], 1)
        time.sleep(0.25)


def measure_bind(api, count, connections):
    """Bind alone: the pods are known, and nothing else runs."""
    api.create_pods(burst("equal", count))
    pods = api.pods()
    bodies = [{"PodName": p["metadata"]["name"], "PodNamespace": "default", "PodUID": p["metadata"]["uid"],
               "Node": cluster.node_name(i % 100)} for i, p in enumerate(pods)]
    with RationScheduler(api.kubeconfig) as scheduler:
        scheduler.wait_ready()
        keep_asking(scheduler.url, CAREFUL_S)
        got = load(f"{scheduler.url}/bind", bodies, count, connections)
    direct = _bind_directly(api, count, connections)
    return {"connections": connections, "calls": count, "p50": got["p50"], "p99": got["p99"], "max": got["max"],
            "calls_per_s": got["calls"] / got["seconds"], "failed": got["failed"], "failure": got["failure"],
            "direct_p50": direct["p50"], "direct_p99": direct["p99"]}


def _bind_directly(api, count, connections):
    """The floor of bind: the stand-in, which sends a Binding without annotations and does nothing else."""
    api.delete_pods()
    api.create_pods(burst("equal", count))
    bodies = [{"PodName": p["metadata"]["name"], "PodNamespace": "default", "PodUID": p["metadata"]["uid"],
               "Node": cluster.node_name(i % 100)} for i, p in enumerate(api.pods())]
    with Standin(api, 16) as standin:
        got = load(f"{standin.url}/bind", bodies, count, connections)
    api.delete_pods()
    return got


def fill_up(api, size):
    """Pods of another namespace, bound when they are made, so that they stay between the bursts."""
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": FILLING}})
    made = [{"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**pod["metadata"], "namespace": FILLING}}
            for pod in cluster.filling_pods(size.nodes, cluster.FILLS[size.percent])]
    if made:
        api.create_pods(made, FILLING)


def run_bursts(api, size, rows, others, say):
    """A machine is not as fast at one time as at another: each round has every kind, and every other round has them in reverse."""
    kinds = (NONE, PASS, STANDIN, RATION, *others)
    for shape in size.shapes:
        for turn in range(size.rounds):
            for kind in kinds if turn % 2 == 0 else kinds[::-1]:
                say(f"end to end: {size.nodes} nodes, {size.percent} % full, {size.pods} pods, {shape}, {kind}, "
                    f"round {turn + 1} of {size.rounds}")
                add_round(rows, kind, shape, size, measure(api, kind, shape, size.pods))


def run(sizes, binds, bursts, bind_rows, others=(), say=print):
    """Appends to the rows of the bursts and of bind (measured in the first cluster), so that what was measured
    outlives a failure."""
    for size in sizes:
        with RealApi() as api:
            say(f"end to end: {size.nodes} nodes, {size.percent} % full")
            api.create_nodes([cluster.node(i, NODE_POLICY) for i in range(size.nodes)])
            fill_up(api, size)
            for connections in () if bind_rows else (1, 16):
                say(f"bind with the API server: {connections} at a time")
                bind_rows.append(measure_bind(api, binds, connections))
            run_bursts(api, size, bursts, others, say)
