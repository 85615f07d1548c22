"""Where pods go on a real cluster: by what a node would have left, although kube-scheduler's own scores prefer another node. The rule itself:
tests/component/test_node_order.py."""
import contextlib
import re

import pytest
import yaml

import helmcharts
from gpupods import GPU_MEM, IMAGE, pod

pytestmark = pytest.mark.long(30)

BEGUN, EMPTY = "order-a.192.168.41.1", "order-b.192.168.41.2"
NODES = [f"{name}=1x16384MiB,share" for name in (BEGUN, EMPTY)]
MIB = 1 << 20
SCALES = {"": 1, "m": 0.001, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def amount(text):
    """Of a Kubernetes quantity."""
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text)).groups()
    return float(number) * SCALES[unit]


def requested(cluster, node, resource):
    """The sum over the pods of the node."""
    pods = cluster.json("get", "pods", "-A", "--field-selector", f"spec.nodeName={node}")["items"]
    return sum(amount(c.get("resources", {}).get("requests", {}).get(resource, 0)) for p in pods
               if p["status"].get("phase") not in ("Succeeded", "Failed") for c in p["spec"]["containers"])


def fill(cluster, name, node, part):
    """A pod without a GPU with which this part of the node's CPU and of its memory is requested."""
    allocatable = cluster.node(node)["status"]["allocatable"]
    left = {resource: amount(allocatable[resource]) * part - requested(cluster, node, resource) for resource in ("cpu", "memory")}
    assert min(left.values()) > 0, f"pods of {node} request more than {part:.0%} already: {left}"
    cluster.create(asking(name, cpu=left["cpu"], memory=left["memory"], nodeName=node))
    cluster.wait_running(names=[name])


def asking(name, units=None, cpu=0.01, memory=16 * MIB, **spec):
    requests = {"cpu": f"{cpu * 1000:.0f}m", "memory": f"{memory / MIB:.0f}Mi"}
    limits = {} if units is None else {GPU_MEM: str(units)}
    return pod(name, containers=[{"name": "main", "image": IMAGE, "command": ["sleep", "3600"], "resources": {
        "requests": requests, "limits": limits}}], schedulerName=helmcharts.SCHEDULER, **spec)


def chosen(cluster, made):
    """The node on which the pod runs; the pod is gone then."""
    name = made["metadata"]["name"]
    cluster.create(made)
    node = cluster.wait_running(names=[name])[0]["spec"]["nodeName"]
    cluster.kubectl("delete", "pod", name, "--wait=true")
    return node


@contextlib.contextmanager
def extenders(cluster, change):
    """Another configuration of kube-scheduler: change() gets the two entries of the extender. The chart's own comes back at the end."""
    before = cluster.json("-n", "kube-system", "get", "configmap", helmcharts.SCHEDULER)["data"]

    def put(data):
        cluster.kubectl("-n", "kube-system", "patch", "configmap", helmcharts.SCHEDULER, "--type=merge", "-p", yaml.safe_dump({"data": data}))
        cluster.kubectl("-n", "kube-system", "rollout", "restart", f"deployment/{helmcharts.SCHEDULER}")
        cluster.rolled_out(f"deployment/{helmcharts.SCHEDULER}")
    config = yaml.safe_load(before["scheduler.yaml"])
    change(*config["extenders"])
    put({"scheduler.yaml": yaml.safe_dump(config)})
    try:
        yield
    finally:
        put(before)


def weigh_like_kube_scheduler_does_by_default(gpus, levels):
    gpus["weight"] = 1
    del levels["prioritizeVerb"], levels["weight"]


def test_the_charts_weights_let_the_rule_decide_against_kube_schedulers_scores(lab):
    """The GPU of one node is begun, and pods request 55 % of its CPU and memory, of the other node's 35 %. LeastAllocated is 20 points apart
    for the empty node; the rule fills the GPU that is begun. With the weight that an extender has by default, one step of its score is
    10 points."""
    cluster = lab(NODES)
    cluster.create(asking("first", 4, nodeSelector={"kubernetes.io/hostname": BEGUN}))
    cluster.wait_running(names=["first"])
    fill(cluster, "fill-begun", BEGUN, 0.55)
    fill(cluster, "fill-empty", EMPTY, 0.35)
    assert chosen(cluster, asking("by-the-rule", 4)) == BEGUN
    with extenders(cluster, weigh_like_kube_scheduler_does_by_default):
        assert chosen(cluster, asking("by-kube-scheduler", 4)) == EMPTY
    assert chosen(cluster, asking("again", 4)) == BEGUN


def test_a_pod_without_a_gpu_goes_where_no_gpu_is_free_although_more_is_requested_there(lab):
    """All of one GPU is taken, so CPU of its node is of no use to GPUs; LeastAllocated is 5 points apart for the other node."""
    cluster = lab(NODES)
    cluster.create(asking("whole", 16, nodeSelector={"kubernetes.io/hostname": BEGUN}))
    cluster.wait_running(names=["whole"])
    fill(cluster, "fill-begun", BEGUN, 0.50)
    fill(cluster, "fill-empty", EMPTY, 0.45)
    allocatable = cluster.node(EMPTY)["status"]["allocatable"]
    tenth = {resource: amount(allocatable[resource]) / 10 for resource in ("cpu", "memory")}
    assert chosen(cluster, asking("by-the-rule", **tenth)) == BEGUN
    with extenders(cluster, weigh_like_kube_scheduler_does_by_default):
        assert chosen(cluster, asking("by-kube-scheduler", **tenth)) == EMPTY


def test_ration_why_tells_what_a_node_would_have_left(lab):
    """Beside a pod for 4 of 16 units, which waits for a node that is not there."""
    cluster = lab(NODES)
    cluster.create(asking("p", 4, nodeSelector={"kubernetes.io/hostname": "order-c"}))
    allocatable = cluster.node(EMPTY)["status"]["allocatable"]
    cpus, gib = (int((amount(allocatable[resource]) - requested(cluster, EMPTY, resource) - own) / unit)
                 for resource, own, unit in (("cpu", 0.01, 1), ("memory", 16 * MIB, 1 << 30)))
    sentence = f"  Beside the pod, 0.75 GPUs, {cpus} CPUs and {gib} GiB of memory would stay free"
    cluster.wait_for(lambda: sentence in cluster.run("ration", "why", "p", "--node", EMPTY).stdout, 10, sentence)
