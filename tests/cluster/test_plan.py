"""`ration plan` on a real cluster: kube-scheduler and ration-scheduler then do what the plan says."""
import json
import random

import pytest

from crowdnodes import NODES
from gpupods import cards_of, pod, used_per_card

GPU_NODES = [node.split("=")[0] for node in NODES]


def settled(cluster):
    """The scheduler has what the API server has: what was deleted has ended on its node, too."""
    used = used_per_card(cluster.pods())

    def equal():
        devices = [dev for node in json.loads(cluster.scheduler_get("/inspect"))["nodes"] for dev in node["devs"]]
        seen = {dev["uuid"]: dev["usedGPU"] for dev in devices if dev["usedGPU"]}
        assert seen == used, (seen, used)
        return True
    cluster.wait_for(equal, 30, "the scheduler has what the API server has")


def happened(cluster, name):
    """(node, GPU) of the pod that was created, or what kube-scheduler says."""
    def decided():
        obj = cluster.pod(name)
        return obj if obj["spec"].get("nodeName") else cluster.condition(obj, "PodScheduled").get("message")
    seen = cluster.wait_for(decided, 30, f"a decision about {name}")
    return seen if isinstance(seen, str) else (seen["spec"]["nodeName"], *cards_of(seen))


def situations(cluster, count, seed):
    """Random pods come and go. Before each of them a plan is made, and then it happens; how many fit, and how many wait."""
    rng, running, waited = random.Random(seed), [], 0
    for step in range(count):
        for name in rng.sample(running, min(len(running), rng.randint(0, 2))):
            cluster.kubectl("delete", "pod", name)
            running.remove(name)
        settled(cluster)
        spec = {"nodeSelector": {"kubernetes.io/hostname": rng.choice(GPU_NODES)}} if rng.random() < 0.3 else {}
        name, wanted = f"s{step}", pod(f"s{step}", rng.choice([2, 5, 7, 11, 20, 25]), **spec)
        plan = json.loads(cluster.run("ration", "plan", "pods", "-f", "-", "--count", "1", "-o", "json",
                                      stdin=json.dumps(wanted)).stdout)
        cluster.create(wanted)
        seen = happened(cluster, name)
        if plan["fit"]:
            planned = plan["pods"][0]
            assert seen == (planned["node"], *[gpu["uuid"] for gpu in planned["gpus"]]), (seed, step)
            running.append(name)
            continue
        assert isinstance(seen, str), (seed, step, plan, seen)
        if "aliyun.com/gpu-mem" not in seen:    # kube-scheduler knows only the node's sum, and asks ration about no such node
            assert not [node for node in plan["nodes"] if node["by"] == "ration" and node["reason"] not in seen], (seed, step, plan, seen)
        waited += 1
        cluster.kubectl("delete", "pod", name)
    return count - waited, waited


def test_ten_random_pods_go_where_the_plan_says_or_wait_for_its_reason(lab):
    fitting, waiting = situations(lab(NODES), 10, 4)
    assert fitting >= 3 and waiting >= 1, (fitting, waiting)


@pytest.mark.long(150)
def test_fifty_random_pods_go_where_the_plan_says_or_wait_for_its_reason(lab):
    fitting, waiting = situations(lab(NODES), 50, 5)
    assert fitting >= 15 and waiting >= 5, (fitting, waiting)


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
