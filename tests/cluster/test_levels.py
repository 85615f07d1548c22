"""ResourcePolicies on a real cluster: three levels of nodes, filled in their order and emptied in reverse. The rules, each
whenTryNextUnits and what is written: tests/component/test_levels.py."""
import collections
import os
import time

import pytest

from cluster import is_ready, wait_for
from gpupods import IMAGE

pytestmark = pytest.mark.long(20)

IDC, ECS, VIRTUAL = "idc-a.192.168.31.1", "ecs-a.192.168.31.2", "vk-a.192.168.31.3"
NODES = [f"{name}=1x16160MiB,share" for name in (IDC, ECS, VIRTUAL)]    # those of docs/guide/elastic-scheduling.md
COST = "controller.kubernetes.io/pod-deletion-cost"
TAINT = "virtual-kubelet.io/provider"
FULL = bool(os.environ.get("RATION_FULL"))
MOST, IN_LEVEL, LEFT = (30, 10, 5) if FULL else (9, 3, 3)


@pytest.fixture
def levels(lab):
    cluster = lab(NODES)
    for name, label in ((IDC, "pool=idc"), (ECS, "pool=ecs"), (VIRTUAL, "type=virtual-kubelet")):
        cluster.kubectl("label", "node", name, label, "--overwrite")
    cluster.kubectl("taint", "node", VIRTUAL, f"{TAINT}=alibabacloud:NoSchedule", "--overwrite")
    yield cluster
    cluster.kubectl("uncordon", IDC)
    cluster.kubectl("taint", "node", VIRTUAL, f"{TAINT}-")
    cluster.kubectl("label", "nodes", "--all", "pool-", "type-")


def policy(cluster, units, **spec):
    cluster.apply({"apiVersion": "scheduling.alibabacloud.com/v1alpha1", "kind": "ResourcePolicy",
                   "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "units": units, **spec}})


def unit(resource, maximum=None, **more):
    selector = {} if resource == "eci" else {"nodeSelector": {"pool": resource}}
    return {"resource": resource, **selector, **({} if maximum is None else {"max": maximum}), **more}


def deployment(cluster, replicas, **limits):
    cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "schedulerName": "ack-co-scheduler", "terminationGracePeriodSeconds": 1, "containers": [
                {"name": "main", "image": IMAGE, "command": ["sleep", "3600"], "resources": {"limits": limits}}]}}}})


def living(cluster):
    return [pod for pod in cluster.pods("app=web") if "deletionTimestamp" not in pod["metadata"]]


def where(cluster, count):
    """{node: pods}, when so many are ready."""
    def all_ready():
        pods = living(cluster)
        assert len(pods) == count and all(is_ready(pod) for pod in pods), [
            (p["metadata"]["name"], p["spec"].get("nodeName"), cluster.condition(p, "PodScheduled")) for p in pods]
        return pods
    return collections.Counter(pod["spec"]["nodeName"] for pod in wait_for(all_ready, 90, f"{count} ready pods"))


def test_a_deployment_fills_levels_in_order_and_leaves_them_in_reverse(levels):
    policy(levels, [unit("idc", IN_LEVEL), unit("ecs", IN_LEVEL), unit("eci")])
    deployment(levels, 0)
    levels.kubectl("scale", "deployment", "web", f"--replicas={MOST}")
    assert where(levels, MOST) == {IDC: IN_LEVEL, ECS: IN_LEVEL, VIRTUAL: MOST - 2 * IN_LEVEL}
    wait_for(lambda: levels.json("get", "rpol", "web")["status"].get("pods") == MOST, what="the status")

    on = collections.defaultdict(list)
    for pod in living(levels):
        on[pod["spec"]["nodeName"]].append(pod["metadata"]["name"])
    kept, given_up = on[VIRTUAL][0], on[IDC][0]
    levels.kubectl("annotate", "--overwrite", "pod", kept, f"{COST}=50")         # a user knows better, in both directions
    levels.kubectl("annotate", "--overwrite", "pod", given_up, f"{COST}=-50")
    costs = {**dict.fromkeys(on[IDC]), **dict.fromkeys(on[ECS], "-1"), **dict.fromkeys(on[VIRTUAL], "-2"), kept: "50",
             given_up: "-50"}
    wait_for(lambda: {p["metadata"]["name"]: p["metadata"].get("annotations", {}).get(COST)
                      for p in living(levels)} == costs, what=f"deletion costs {costs}")

    levels.kubectl("scale", "deployment", "web", f"--replicas={LEFT}")
    assert where(levels, LEFT) == {IDC: LEFT - 1, VIRTUAL: 1}
    assert kept in [p["metadata"]["name"] for p in living(levels)]
    assert given_up not in [p["metadata"]["name"] for p in living(levels)]


def test_a_rolling_update_stays_in_its_level_with_match_label_keys(levels):
    policy(levels, [unit("idc", 2), unit("ecs")], matchLabelKeys=["pod-template-hash"])
    deployment(levels, 2)
    assert where(levels, 2) == {IDC: 2}
    levels.kubectl("set", "env", "deployment/web", "version=2")
    levels.rolled_out("deployment/web", namespace=None)
    assert where(levels, 2) == {IDC: 2}


def test_pods_with_a_gpu_wait_for_their_level_and_go_on_in_time(levels):
    policy(levels, [unit("idc", 5, podLabels={"level": "first"}), unit("ecs")],
           whenTryNextUnits={"policy": "TimeoutOrExceedMax", "timeout": "4s"})
    deployment(levels, 1, **{"aliyun.com/gpu-mem": "10"})
    assert where(levels, 1) == {IDC: 1}
    assert living(levels)[0]["metadata"]["labels"]["level"] == "first"
    begin = time.monotonic()
    levels.kubectl("scale", "deployment", "web", "--replicas=2")
    waiting = wait_for(lambda: next((p for p in living(levels) if "waits for level 1 (idc)" in
                                     levels.condition(p, "PodScheduled").get("message", "")), None), what="it waits")
    assert where(levels, 2) == {IDC: 1, ECS: 1} and time.monotonic() - begin >= 4
    assert "It is in level 2 of 2 (ecs) of ResourcePolicy web" in levels.run(
        "ration", "why", waiting["metadata"]["name"]).stdout
