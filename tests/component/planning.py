"""`ration plan` in front of a real ration-scheduler, and kube-scheduler's own filters, written a second time, to let happen what
was planned."""
import contextlib
import json
import os
import pathlib
import re
import subprocess

from fake_apiserver import wait_for
from scheduler_fixture import BUILD, gpu_node

RATION = BUILD.resolve() / "src/cli/ration"
FULL = "RATION_FULL" in os.environ
KUBECTL = pathlib.Path(__file__).parent.resolve() / "http_kubectl.py"
LEADER = "ack-co-scheduler-7c9f8d-x2x4z"
QUANTITIES = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}


def node(api, name, *mibs, cpu="16", memory="64Gi", mode="share", labels=None, taints=None, unschedulable=False, **more):
    """A node whose kubelet advertises the GPUs that its agent has."""
    gpu_node(api, name, *mibs, mode=mode, **more)
    whole = {"aliyun.com/gpu": str(len(mibs))}
    shared = {"aliyun.com/gpu-mem": str(sum(mib // 1024 for mib in mibs)), "aliyun.com/gpu-count": str(len(mibs))}
    return api.patch("nodes", name, {
        "metadata": {"labels": labels or {}}, "spec": {"taints": taints or [], "unschedulable": unschedulable},
        "status": {"allocatable": QUANTITIES | {"cpu": cpu, "memory": memory} | (whole if mode == "topology" else shared)}})


def manifest(gpu_mem=None, cpu=None, memory=None, whole=None, labels=None, **spec):
    limits = {"aliyun.com/gpu-mem": str(gpu_mem)} if gpu_mem else {"aliyun.com/gpu": str(whole)} if whole else {}
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value} | limits
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels or {}},
            "spec": {"containers": [{"name": "main", "image": "example", "resources": {"limits": limits, "requests": requests}}],
                     **spec}}


class Planner:
    """A user who runs `ration plan` against the scheduler and its API server."""

    def __init__(self, api, scheduler, directory):
        self.api, self.scheduler, self.directory = api, scheduler, directory
        if not any(lease["metadata"]["name"] == "ack-co-scheduler" for lease in api.list("leases")):
            api.create("leases", {"metadata": {"name": "ack-co-scheduler", "namespace": "kube-system"},
                                  "spec": {"holderIdentity": f"{LEADER}_6f1c"}})

    def environment(self, **more):
        return os.environ | {"KUBECTL": str(KUBECTL), "API_URL": self.api.url, "FORWARD_LOG": str(self.directory / "forward.log"),
                             "FORWARD": json.dumps({LEADER: self.scheduler.ports[0]})} | more

    def run(self, *argv, stdin=None, **environment):
        return subprocess.run([RATION, "plan", *argv], capture_output=True, text=True, timeout=60, check=False, input=stdin,
                              env=self.environment(**environment))

    @contextlib.contextmanager
    def start(self, *argv, before=()):
        """A process in a group of its own, as in a terminal. before: a program that starts it, such as nohup."""
        with subprocess.Popen([*before, RATION, "plan", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              start_new_session=True, env=self.environment()) as process:
            try:
                yield process
            finally:
                process.kill()

    def text(self, *argv, **more):
        self.scheduler.has_read_pods()
        done = self.run(*argv, **more)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def pods(self, pod, *argv):
        """The plan of these pods as JSON."""
        return json.loads(self.text("pods", "-f", "-", "-o", "json", *argv, stdin=json.dumps(pod)))

    def save(self):
        """The files that --history and --objects read, as options."""
        self.scheduler.has_read_pods()
        (self.directory / "history").write_bytes(wait_for(self.scheduler.history, what="the history"))    # empty where it took too long
        items = [{"kind": kind} | item for kind, collection in (("Pod", "pods"), ("Node", "nodes"))
                 for item in self.api.list(collection)]
        (self.directory / "objects").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
        return ["--history", str(self.directory / "history")], ["--objects", str(self.directory / "objects")]

    def pods_of_saved(self, pod, *argv):
        """pods() without a cluster, which takes a tenth of the time."""
        history, objects = self.save()
        done = self.run("pods", "-f", "-", "-o", "json", *argv, *history, *objects, stdin=json.dumps(pod), KUBECTL="/nonexistent")
        assert (done.returncode, done.stderr) == (0, ""), done
        return json.loads(done.stdout)

    def fails(self, *argv, stdin=None, **environment):
        """The sentence."""
        done = self.run(*argv, stdin=stdin, **environment)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert done.stderr.startswith("ration: ") and done.stderr.count("\n") == 1, done.stderr
        return done.stderr.removeprefix("ration: ").rstrip("\n")


# ---- kube-scheduler's own filters, as its documentation describes them ----

def milli(quantity):
    number, unit = re.fullmatch(r"([\d.]+)(m|Ki|Mi|Gi|)", str(quantity)).groups()
    return float(number) * {"m": 1, "": 1000, "Ki": 1024e3, "Mi": 1024e3 * 1024, "Gi": 1024e3 * 1024 * 1024}[unit]


def tolerated(taint, tolerations):
    return any((not t.get("effect") or t["effect"] == taint["effect"]) and
               (t.get("operator") == "Exists" and t.get("key") in (None, taint["key"]) or
                t.get("operator", "Equal") == "Equal" and t.get("key") == taint["key"] and
                t.get("value", "") == taint.get("value", "")) for t in tolerations)


def matches(requirement, labels):
    value = labels.get(requirement["key"])
    return {"In": lambda: value in requirement["values"], "NotIn": lambda: value not in requirement["values"],
            "Exists": lambda: value is not None, "DoesNotExist": lambda: value is None,
            "Gt": lambda: value is not None and int(value) > int(requirement["values"][0]),
            "Lt": lambda: value is not None and int(value) < int(requirement["values"][0])}[requirement["operator"]]()


def selected(spec, labels):
    terms = spec.get("affinity", {}).get("nodeAffinity", {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")
    return all(labels.get(key) == value for key, value in spec.get("nodeSelector", {}).items()) and (
        terms is None or any(all(matches(r, labels) for r in term["matchExpressions"]) for term in terms))


def requests(pod):
    return pod["spec"]["containers"][0]["resources"].get("requests", {})


def rejection(api, pod, node):
    """Why kube-scheduler does not offer this node; None: it does."""
    spec, labels = pod["spec"], node["metadata"]["labels"]
    tolerations = spec.get("tolerations", [])
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node["spec"].get("unschedulable") and not tolerated(cordon, tolerations):
        return "node is unschedulable"
    for taint in node["spec"].get("taints") or []:
        if taint["effect"] != "PreferNoSchedule" and not tolerated(taint, tolerations):
            return f"untolerated taint {taint['key']}={taint['value']}:{taint['effect']}"
    if not selected(spec, labels):
        return "node does not match the pod's node affinity or nodeSelector"
    there = [p for p in api.list("pods") if p["spec"].get("nodeName") == node["metadata"]["name"]
             and p["status"].get("phase") not in ("Succeeded", "Failed")]
    if len(there) >= int(node["status"]["allocatable"]["pods"]):
        return "too many pods on the node"
    for resource, amount in requests(pod).items():
        used = sum(milli(requests(p).get(resource, 0)) for p in there)
        if milli(amount) > milli(node["status"]["allocatable"].get(resource, 0)) - used:
            return f"insufficient {resource}"
    return None


def offered(api, pod):
    """(the nodes that kube-scheduler asks filter about, {node: why it does not ask about the others})"""
    reasons = {n["metadata"]["name"]: rejection(api, pod, n) for n in api.list("nodes")}
    return [name for name, why in reasons.items() if why is None], {name: why for name, why in reasons.items() if why}


def schedule(api, scheduler, pod):
    """kube-scheduler tries the pod once: (its node, its GPUs), or (None, {node: reason})."""
    names, reasons = offered(api, pod)
    answer = scheduler.filter(pod, names) if names else {"NodeNames": [], "FailedNodes": {}}
    if not answer["NodeNames"]:
        return None, reasons | (answer.get("FailedNodes") or {}) | (answer.get("FailedAndUnresolvableNodes") or {})
    scores = {s["Host"]: s["Score"] for s in scheduler.verb(
        "prioritize", {"Pod": pod, "Nodes": None, "NodeNames": answer["NodeNames"]})}
    best = max(answer["NodeNames"], key=lambda name: scores[name])
    assert scheduler.bind(pod, best) == ""
    meta = pod["metadata"]
    api.patch("pods", meta["name"], {"status": {"phase": "Running"}}, meta["namespace"])
    placement = json.loads(api.pod(meta["name"], meta["namespace"])["metadata"]["annotations"]["ration.dev/placement"])
    return best, sorted({gpu["uuid"] for gpus in placement["containers"].values() for gpu in gpus})


def create(api, name, pod, owner=None):
    """The pod of this manifest exists."""
    made = api.create_pod(name, spec=pod["spec"], labels=pod["metadata"]["labels"], owner=owner)
    wait_for(lambda: api.pod(name), 5)
    return made


def fates(plan):
    """{pod: what becomes of it}, where it runs with node and GPU."""
    return {pod["name"]: (pod["node"], *[gpu["index"] for gpu in pod["gpus"]]) if pod["fate"] == "runs" else pod["fate"]
            for pod in plan["pods"]}
