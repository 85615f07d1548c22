"""The same arrivals through the real verbs: a ration-scheduler process, asked over HTTP as kube-scheduler asks it, in front of the API server
of the component tests. What kube-scheduler knows by itself (CPU, memory, the GPU model) and its own scores are modelled here as in
bench/packing/cluster.c. Of the nodes that filter has left, the one with the highest sum of these scores and the extender's gets the pod,
with the weights of the chart."""
import http.client
import json
import re
import sys
from pathlib import Path

from .bound import GPU_MILLI
from .programs import BenchError, RationScheduler

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "component"))
from fake_apiserver import FakeApiServer    # noqa: E402

UNIT_MIB = 16    # a unit is a thousandth of a GPU
KUBE_SCALE = 10  # what kube-scheduler makes of an extender's 0 to 10
MODEL = "aliyun.accelerator/nvidia_name"
CHART = Path(__file__).resolve().parents[2] / "deploy/charts/ack-co-scheduler/templates/config.yaml"


def chart_weights():
    """The weights of the chart's two extenders: the first is for GPU pods, the second for pods without a GPU."""
    weights = re.findall(r"^ +weight: (\d+)$", CHART.read_text(), re.MULTILINE)
    if len(weights) != 2:
        raise BenchError(f"{CHART}: {len(weights)} weights of extenders, not 2")
    return tuple(map(int, weights))


class Node:
    def __init__(self, number, node):
        self.name = f"node-{number:05}"
        self.all, self.cpu, self.memory = node, node.cpu, node.memory

    def has_host_room(self, kind):
        return (kind.cpu <= self.cpu and kind.memory <= self.memory and
                (not kind.models or bool(kind.models >> self.all.model & 1)))

    def take(self, kind):
        self.cpu -= kind.cpu
        self.memory -= kind.memory

    def kube_score(self, kind):
        """LeastAllocated and BalancedAllocation, each from 0 to 100."""
        cpu, memory = (self.cpu - kind.cpu) / self.all.cpu, (self.memory - kind.memory) / self.all.memory
        return int((cpu + memory) / 2 * 100) + int((1 - abs(cpu - memory) / 2) * 100)

    def create(self, api):
        gpus = [{"index": i, "uuid": f"GPU-{self.name}-{i}", "model": "Simulated", "mib": GPU_MILLI * UNIT_MIB, "healthy": True}
                for i in range(self.all.gpus)]
        api.create_node(self.name, labels={"ack.node.gpu.placement": "binpack", MODEL: f"model-{self.all.model}"},
                        annotations={"ration.dev/gpus": json.dumps(gpus), "ration.dev/unit": str(UNIT_MIB), "ration.dev/mode": "share"})
        api.patch("nodes", self.name, {"status": {"allocatable": {"cpu": f"{self.all.cpu}m", "memory": f"{self.all.memory}Mi"}}})


def pod(api, name, kind):
    limits = {"aliyun.com/gpu-mem": str(kind.gpus * kind.milli)} if kind.gpus else {}
    labels = {"aliyun.com/gpu-count": str(kind.gpus)} if kind.gpus > 1 else {}
    models = [f"model-{i}" for i in range(kind.models.bit_length()) if kind.models >> i & 1]
    affinity = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": MODEL, "operator": "In", "values": models}]}]}}}} if models else {}
    return api.create_pod(name, labels=labels, spec={"containers": [{"name": "main", "image": "example", "resources": {
        "limits": limits, "requests": {"cpu": f"{kind.cpu}m", "memory": f"{kind.memory}Mi", **limits}}}], **affinity})


class Verbs:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def __call__(self, verb, body):
        self.connection.request("POST", f"/{verb}", json.dumps(body), {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise BenchError(f"{verb} answered {answer.status}: {text[:500]!r}")
        return json.loads(text)


def scored_best(verbs, verb, made, kind, nodes, weight):
    """The node that kube-scheduler chooses: of nodes with equal scores the first."""
    scores = {entry["Host"]: entry["Score"] for entry in
              verbs(verb, {"Pod": made, "Nodes": None, "NodeNames": [node.name for node in nodes]})}
    return max(nodes, key=lambda node: node.kube_score(kind) + weight * KUBE_SCALE * scores[node.name])


def place_gpu_pod(verbs, made, kind, nodes, weight):
    """The node on which ration-scheduler has bound the pod, or None."""
    fit = verbs("filter", {"Pod": made, "Nodes": None, "NodeNames": [node.name for node in nodes]})
    if fit.get("Error"):
        raise BenchError(f"filter: {fit['Error']}")
    if not fit["NodeNames"]:
        return None
    by_name = {node.name: node for node in nodes}
    chosen = scored_best(verbs, "prioritize", made, kind, [by_name[name] for name in fit["NodeNames"]], weight)
    meta = made["metadata"]
    bound = verbs("bind", {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": chosen.name})
    if bound["Error"]:
        raise BenchError(f"bind: {bound['Error']}")
    return chosen


def place_host_pod(verbs, api, made, kind, nodes, weight):
    """The node on which kube-scheduler would bind a pod without a GPU, or None."""
    if not nodes:
        return None
    chosen = scored_best(verbs, "levels/prioritize", made, kind, nodes, weight)
    api.bind(made["metadata"]["name"], chosen.name)
    return chosen


def replay(types, kinds, order, percents, options=(), weights=None):
    """{"allocated": percent of all GPUs when arrivals reach each of the percents 1, 2, ...; "pods", "dropped", "us": of the scheduler's
    processor time for each pod}. weights: what the extender's scores are multiplied by, for GPU pods and for pods without a GPU; the
    chart's by default."""
    gpu_weight, host_weight = weights or chart_weights()
    nodes = [Node(i, node) for i, node in enumerate(types)]
    gpu_milli = GPU_MILLI * sum(node.gpus for node in types)
    allocated, arrived, placed, dropped = [], 0, 0, 0
    with FakeApiServer() as api:
        for node in nodes:
            node.create(api)
        with RationScheduler(api.kubeconfig(), *options) as scheduler:
            scheduler.wait_ready()
            verbs, before = Verbs(scheduler.ports[0]), scheduler.cpu_ns()
            for i, k in enumerate(order):
                kind = kinds[k]
                made, roomy = pod(api, f"pod-{i}", kind), [node for node in nodes if node.has_host_room(kind)]
                chosen = (place_gpu_pod(verbs, made, kind, roomy, gpu_weight) if kind.gpus else
                          place_host_pod(verbs, api, made, kind, roomy, host_weight))
                arrived += kind.gpus * kind.milli
                while len(allocated) < percents - 1 and arrived * 100 > gpu_milli * (len(allocated) + 1):
                    allocated.append(100 * placed / gpu_milli)
                if not chosen:
                    api.delete("pods", made["metadata"]["name"])
                    dropped += 1
                    continue
                chosen.take(kind)
                placed += kind.gpus * kind.milli
            us = (scheduler.cpu_ns() - before) / 1000 / len(order)
    allocated += [100 * placed / gpu_milli] * (percents - len(allocated))
    return {"allocated": allocated, "pods": len(order), "dropped": dropped, "us": us}
