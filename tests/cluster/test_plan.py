"""`ration plan` on a real cluster: kube-scheduler and ration-scheduler then do what the plan says."""
import json
import random

import pytest

from crowdnodes import NODES
from gpupods import cards_of, inventory, pod, used_per_card

GPU_NODES = [node.split("=")[0] for node in NODES]


def settled(cluster):
    """The scheduler has what the API server has: what was deleted has ended on its node, too."""
    def equal():
        used = used_per_card(cluster.pods())    # of pods that end, too, until they are gone
        devices = [dev for node in json.loads(cluster.scheduler_get("/inspect"))["nodes"] for dev in node["devs"]]
        seen = {dev["uuid"]: dev["usedGPU"] for dev in devices if dev["usedGPU"]}
        assert seen == used, (seen, used)
        return True
    cluster.wait_for(equal, 30, "the scheduler has what the API server has")


def plan_of(cluster, *argv, stdin=None):
    settled(cluster)
    return json.loads(cluster.run("ration", "plan", *argv, "-o", "json", stdin=stdin).stdout)


def deployment(name, size, **spec):
    labels, template = {"app": name}, pod("x", size, **spec)["spec"]
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            **template, "restartPolicy": "Always", "terminationGracePeriodSeconds": 1}}}}


class Situations:
    """Random pods, each of a Deployment, come and go. Before each change a plan is made, and then it happens. `seen`: how often what happened."""

    def __init__(self, cluster, seed):
        self.cluster, self.seed, self.rng, self.running, self.seen, self.step = cluster, seed, random.Random(seed), [], {}, 0

    def note(self, what):
        self.seen[what] = self.seen.get(what, 0) + 1

    def where(self):
        return f"seed {self.seed}, situation {self.step}"

    def pod_of(self, name):
        """Its pod, except one that ends."""
        return [p for p in self.cluster.pods() if p["metadata"].get("labels", {}).get("app") == name and "deletionTimestamp" not in p["metadata"]]

    def decided(self, name):
        """(node, GPU), or what kube-scheduler says."""
        def look():
            pods = self.pod_of(name)
            return pods and (pods[0]["spec"].get("nodeName") or self.cluster.condition(pods[0], "PodScheduled").get("message")) and pods[0]
        obj = self.cluster.wait_for(look, 30, f"a decision about {name}")
        return (obj["spec"]["nodeName"], *cards_of(obj)) if obj["spec"].get("nodeName") else self.cluster.condition(obj, "PodScheduled")["message"]

    def remove(self, name):
        self.cluster.kubectl("delete", "deployment", name, "--cascade=foreground", "--wait")
        self.running.remove(name)

    def add_pod(self):
        rng, name = self.rng, f"s{self.step}"
        spec = {"nodeSelector": {"kubernetes.io/hostname": rng.choice(GPU_NODES)}} if rng.random() < 0.2 else {}
        wanted = deployment(name, rng.choice([2, 5, 7, 11, 20, 25]), **spec)
        plan = plan_of(self.cluster, "pods", "-f", "-", "--count", "1", stdin=json.dumps(wanted))
        self.cluster.create(wanted)
        self.running.append(name)
        seen = self.decided(name)
        self.note("a pod runs" if plan["fit"] else "a pod waits")
        if plan["fit"]:
            planned = plan["pods"][0]
            assert seen == (planned["node"], *[gpu["uuid"] for gpu in planned["gpus"]]), self.where()
            return
        assert isinstance(seen, str), (self.where(), plan, seen)
        if "aliyun.com/gpu-mem" not in seen:    # kube-scheduler knows only the node's sum, and asks ration about no such node
            assert not [n for n in plan["nodes"] if n["by"] == "ration" and n["reason"] not in seen], (self.where(), plan, seen)
        if rng.random() < 0.6:
            self.remove(name)

    def drain(self):
        """--execute stops if anything but the plan happens. The node comes back afterwards."""
        node = self.rng.choice(GPU_NODES)
        settled(self.cluster)
        done = self.cluster.run("ration", "plan", "drain", node, "--execute", "--force", "--timeout", "60", "-o", "json", check=False)
        plan = json.loads(done.stdout)
        assert plan["done"] == len([p for p in plan["pods"] if "state" in p]), (self.where(), done.stderr)
        # The two replicas of the scheduler may be on this node, and their budget keeps one there.
        assert (done.returncode == 0) == all(p["fate"] != "not evicted" for p in plan["pods"]), (self.where(), done.stderr)
        for planned in plan["pods"]:
            if planned["fate"] in ("runs", "waits"):
                self.note(f"a drained pod {planned['fate']}")
        self.cluster.kubectl("uncordon", node)

    def units_of(self, node):
        return int(self.cluster.node(node)["status"]["allocatable"].get("aliyun.com/gpu-mem", 0))

    def join(self):
        """A node leaves ration, and comes back as a new one, for which a pod waits."""
        node, name = self.rng.choice(GPU_NODES), f"s{self.step}"
        for other in list(self.running):
            if self.pod_of(other)[0]["spec"].get("nodeName") in (node, None):
                self.remove(other)
        self.cluster.kubectl("label", "node", node, "joins=yes")
        manifest = self.cluster.node(node)
        self.cluster.kubectl("label", "node", node, "ack.node.gpu.schedule=default", "--overwrite")
        self.cluster.wait_for(lambda: self.units_of(node) == 0, 60, f"{node} shows no GPUs")
        self.cluster.create(deployment(name, self.rng.choice([3, 9]), nodeSelector={"joins": "yes"}))
        self.running.append(name)
        assert isinstance(self.decided(name), str), self.where()
        planned, = plan_of(self.cluster, "add", "-f", "-", stdin=json.dumps(manifest))["pods"]
        self.cluster.kubectl("label", "node", node, "ack.node.gpu.schedule=share", "--overwrite")

        def runs():
            seen = self.decided(name)
            return not isinstance(seen, str) and seen
        found, uuid = self.cluster.wait_for(runs, 120, f"{name} runs on {node}")
        assert (planned["fate"], planned["node"], [gpu["index"] for gpu in planned["gpus"]]) == (
            "runs", f"{node}-plan-1", [inventory(self.cluster.node(found))[uuid]["index"]]), self.where()
        self.cluster.kubectl("label", "node", node, "joins-")
        self.note("a node is added")

    def move(self):
        settled(self.cluster)
        plan = json.loads(self.cluster.run("ration", "plan", "moves", "--max", "2", "--execute", "--timeout", "60", "-o", "json").stdout)
        assert plan["done"] == len(plan["moves"]) and "stopped" not in plan, self.where()
        for moved in plan["moves"]:
            self.note("a pod is moved")
            for run in moved["runs"]:
                assert self.decided(run["name"].rsplit("-", 2)[0]) == (run["node"], *[gpu["uuid"] for gpu in run["gpus"]]), self.where()
        assert not [c for c in self.cluster.json("get", "configmaps", "-n", "kube-system")["items"] if c.get("data", {}).get("gpus")], self.where()

    def play(self, count):
        for self.step in range(count):
            for name in self.rng.sample(self.running, min(len(self.running), self.rng.choice([0, 0, 0, 1]))):
                self.remove(name)
            kind = self.rng.choice([self.add_pod, self.add_pod, self.add_pod, self.add_pod, self.drain, self.move, self.join])
            kind()
        return self.seen


@pytest.mark.long(95)    # as tests/component/test_plan*.py
def test_in_twelve_random_situations_what_the_plan_says_is_what_happens(lab):
    seen = Situations(lab(NODES), 4).play(12)
    assert seen.get("a pod runs", 0) >= 3, seen


@pytest.mark.full
def test_in_fifty_random_situations_what_the_plan_says_is_what_happens(lab):
    seen = Situations(lab(NODES), 5).play(50)
    assert seen.keys() >= {"a pod runs", "a pod waits", "a drained pod runs", "a node is added", "a pod is moved"}, seen


# ---- plan moves --execute

SMALL, OTHER = "plan-a.192.168.71.1", "plan-b.192.168.71.2"


@pytest.mark.long(40)
def test_moves_are_carried_out_as_planned_and_a_budget_prevents_them(lab):
    """A pod of 5 units has to leave the GPU of 8 units, so that one of 6 units runs. Its new pod, which comes while it still ends, does not
    fit beside it."""
    cluster = lab([f"{SMALL}=1x8192MiB,share", f"{OTHER}=1x5120MiB,share"])
    cluster.kubectl("cordon", OTHER)
    labels = {"app": "web"}
    template = pod("x", 5)
    spec = {**template["spec"], "restartPolicy": "Always", "terminationGracePeriodSeconds": 2}
    cluster.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}})
    web, = cluster.wait_running("app=web")
    cluster.kubectl("uncordon", OTHER)
    cluster.create(pod("big", 6))
    cluster.wait_for(lambda: cluster.condition(cluster.pod("big"), "PodScheduled").get("reason") == "Unschedulable", 30, "big waits")
    cluster.create({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
                    "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}})
    cluster.wait_for(lambda: cluster.json("get", "poddisruptionbudget", "web").get("status", {}).get("currentHealthy") == 1, 30, "the budget")
    assert cluster.run("ration", "plan", "moves", "--execute").stdout.startswith("0 moves: ")
    assert cluster.pod(web["metadata"]["name"])["metadata"]["uid"] == web["metadata"]["uid"]
    cluster.kubectl("delete", "poddisruptionbudget", "web")
    settled(cluster)
    done = cluster.run("ration", "plan", "moves", "--execute").stdout
    assert done.endswith("All moves are done.\n"), done
    moved, big = cluster.wait_running("app=web") + [cluster.pod("big")]
    assert (moved["spec"]["nodeName"], big["spec"]["nodeName"]) == (OTHER, SMALL), done
    cluster.wait_running(names=["big"])
