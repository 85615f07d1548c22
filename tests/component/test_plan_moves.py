"""`ration plan drain` and `ration plan add`: what becomes of pods, and that it then happens."""
import json
import os
import random
import subprocess
import time

import pytest

from fake_apiserver import wait_for
from histories import SEED
from planning import FULL, RATION, create, fates, manifest, node, schedule


def texts(plan):
    return {pod["name"]: pod["text"] for pod in plan["pods"] if "text" in pod}


def placed(api, planner, name, pod, owner="web", **more):
    made = create(api, name, pod, owner=owner)
    if more:
        api.patch("pods", name, more)
    assert schedule(api, planner.scheduler, made)[0]
    return made


def test_pods_of_a_drained_node_move_wait_are_lost_or_stay(api, planner):
    node(api, "a", 8192, 8192, 8192)
    planner = planner()
    for name, size, owner in (("moves", 5, "web"), ("waits", 6, "web"), ("lost", 2, None)):
        placed(api, planner, name, manifest(gpu_mem=size), owner)
    placed(api, planner, "agent", manifest(gpu_mem=1))
    api.patch("pods", "agent", {"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "agents", "uid": "d", "controller": True}]}})
    api.create_pod("static", node="a", annotations={"kubernetes.io/config.mirror": "x"}, gpu_mem=None, status={"phase": "Running"})
    api.create_pod("plain", node="a", owner="web", status={"phase": "Running"})
    api.create_pod("ended", node="a", owner="web", status={"phase": "Succeeded"})
    node(api, "b", 8192)
    planner.scheduler.has_read_nodes()
    plan = json.loads(planner.text("drain", "a", "-o", "json"))
    assert fates(plan) == {"agent": "stays", "lost": "lost", "moves": ("b", 0), "plain": "no GPU", "static": "stays", "waits": "waits"}
    assert texts(plan) == {"agent": "DaemonSet agents", "lost": "it has no controller", "static": "it is a static pod of the node"}
    waits = next(pod for pod in plan["pods"] if pod["name"] == "waits")
    assert [(n["node"], n["reason"]) for n in waits["nodes"]] == [("a", "node is unschedulable"), ("b", "no GPU has 6 units free")]
    assert planner.text("drain", "a") == (
        "POD             NODE  WHAT HAPPENS\n"
        "default/agent   a     stays: DaemonSet agents\n"
        "default/lost    a     is lost: it has no controller\n"
        "default/moves   a     runs on node b, GPU 0\n"
        "default/plain   a     asks for no GPU: kube-scheduler alone decides\n"
        "default/static  a     stays: it is a static pod of the node\n"
        "default/waits   a     waits: node is unschedulable on 1 node; no GPU has 6 units free on 1 node\n"
        "6 pods: 1 runs, 1 waits, 1 lost, 2 stays, 1 no GPU.\n")


def test_a_drained_pod_leaves_the_nodes_that_another_one_needs(api, planner):
    """Their controllers create both again at once. The one that is tried first takes the node that costs less only if no pod needs both GPUs of that node."""
    node(api, "d", 8192, 8192, 8192, cpu="24")
    planner = planner()
    placed(api, planner, "both", manifest(gpu_mem=16, cpu="1", labels={"aliyun.com/gpu-count": "2"}))
    placed(api, planner, "small", manifest(gpu_mem=1, cpu="5500m", priority=5))
    node(api, "a", 8192, 8192, cpu="16")
    node(api, "b", 8192, cpu="8")
    planner.scheduler.has_read_nodes()
    assert fates(json.loads(planner.text("drain", "d", "-o", "json"))) == {"small": ("b", 0), "both": ("a", 0, 1)}
    remove(api, "both")
    assert fates(json.loads(planner.text("drain", "d", "-o", "json"))) == {"small": ("a", 0)}


def test_a_pod_that_ends_already_is_not_evicted_again(api, planner):
    node(api, "a", 8192)
    planner = planner()
    placed(api, planner, "ending", manifest(gpu_mem=2), metadata={"deletionTimestamp": "2026-05-04T03:02:01Z"})
    plan = json.loads(planner.text("drain", "a", "-o", "json"))
    assert (fates(plan), texts(plan)) == ({"ending": "stays"}, {"ending": "it is ending already"})


def test_budgets_that_forbid_an_eviction_are_named(api, planner):
    node(api, "a", 8192, 8192, 8192)
    api.create_budget("one", {"app": "one"}, 1)
    api.create_budget("zero", {"app": "zero"}, 0)
    api.create_budget("zero-too", {"both": "yes"}, 5)
    planner = planner()
    wait_for(lambda: api.watches("poddisruptionbudgets"), 10)
    for name, labels in (("one-a", {"app": "one"}), ("one-b", {"app": "one"}), ("zero-a", {"app": "zero"}),
                         ("zero-b", {"app": "zero", "both": "yes"}), ("free", {"app": "other"})):
        placed(api, planner, name, manifest(gpu_mem=2, labels=labels))
    create(api, "unstarted", manifest(gpu_mem=2, labels={"app": "zero"}), owner="web")
    schedule(api, planner.scheduler, api.pod("unstarted"))
    api.set_phase("unstarted", "Pending")
    plan = json.loads(planner.text("drain", "a", "-o", "json"))
    assert fates(plan) == {"free": "waits", "one-a": "waits", "one-b": "not evicted", "unstarted": "waits", "zero-a": "not evicted",
                           "zero-b": "not evicted"}
    said = texts(plan)
    assert said["one-b"] == "PodDisruptionBudget one allows no further eviction now"
    assert said["zero-a"] == "PodDisruptionBudget zero allows no eviction now"
    assert said["zero-b"].startswith("more than one PodDisruptionBudget selects it")


def test_a_pod_of_higher_priority_takes_the_place_first(api, planner):
    node(api, "a", 8192, 8192)
    planner = planner()
    placed(api, planner, "early", manifest(gpu_mem=5, priority=1))
    placed(api, planner, "high", manifest(gpu_mem=5, priority=100))
    node(api, "b", 8192)
    planner.scheduler.has_read_nodes()
    assert fates(json.loads(planner.text("drain", "a", "-o", "json"))) == {"high": ("b", 0), "early": "waits"}


def test_a_pod_that_was_made_larger_is_made_again_as_its_spec_says(api, planner):
    node(api, "a", 8192)
    planner = planner()
    placed(api, planner, "p", manifest(gpu_mem=2))
    annotation = json.loads(api.pod("p")["metadata"]["annotations"]["ration.dev/placement"])
    annotation["containers"]["main"][0]["units"], annotation["resizes"] = 7, 1
    api.patch("pods", "p", {"metadata": {"annotations": {"ration.dev/placement": json.dumps(annotation)}}})
    node(api, "b", 3072)
    planner.scheduler.has_read_nodes()
    planner.scheduler.has_read_pods()
    assert planner.scheduler.used()["a"] == [7]
    assert fates(json.loads(planner.text("drain", "a", "-o", "json"))) == {"p": ("b", 0)}


def test_an_empty_node_and_an_unknown_one(api, planner):
    node(api, "a", 8192)
    planner = planner()
    assert planner.text("drain", "a") == "No pod is on these nodes.\n"
    assert planner.fails("drain", "nowhere") == "there is no node nowhere"
    assert planner.fails("add", "--like", "nowhere") == "there is no node nowhere"


def test_a_terminal_is_told_what_is_done_after_a_second(api, planner):
    node(api, "a", 8192)
    planner = planner()
    (_, path), objects = planner.save()
    ours, its = os.openpty()
    with open(path, "rb") as saved, subprocess.Popen([RATION, "plan", "drain", "a", "--history", "-", *objects], stdin=subprocess.PIPE,
                                                     stdout=subprocess.PIPE, stderr=its) as process:
        time.sleep(1.2)
        assert process.communicate(saved.read(), timeout=60)[0] == b"No pod is on these nodes.\n"
    os.close(its)
    assert os.read(ours, 4096) == b"ration: placing the pods of the nodes ...\r\n"
    os.close(ours)


def test_nodes_that_are_added_run_the_pods_that_wait_by_priority_and_age(api, planner):
    node(api, "a", 8192, unschedulable=True, taints=[{"key": "node.kubernetes.io/not-ready", "value": "", "effect": "NoExecute"}])
    planner = planner()
    for name, priority, age in (("young", 0, 3), ("old", 0, 1), ("high", 9, 2)):
        create(api, name, manifest(gpu_mem=5, priority=priority))
        api.patch("pods", name, {"metadata": {"creationTimestamp": f"2026-05-04T03:02:0{age}Z"}})
    create(api, "large", manifest(gpu_mem=9))
    assert planner.text("add", "--like", "a", "--count", "2") == (
        "POD            WHAT HAPPENS\n"
        "default/high   runs on node a-plan-1, GPU 0\n"
        "default/old    runs on node a-plan-2, GPU 0\n"
        "default/young  waits: node is unschedulable on 1 node; no GPU has 5 units free on 2 nodes\n"
        "default/large  waits: node is unschedulable on 1 node; no GPU is that large on 2 nodes\n"
        "4 pods: 2 runs, 2 waits.\n")
    assert planner.text("add", "--like", "node/a", "--count", "3").count("runs on node") == 3


TEMPLATE = """
kind: Node
metadata: {name: pool, labels: {ack.node.gpu.schedule: share, zone: x}}
spec:
  taints: [{key: gpu, value: "yes", effect: NoSchedule}]
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110", aliyun.com/gpu-mem: "30", aliyun.com/gpu-count: "2"}}
"""


def test_a_manifest_of_a_node_pool_is_a_node_to_add(api, planner):
    node(api, "a", 8192)
    planner, tolerates = planner(), [{"key": "gpu", "operator": "Exists"}]
    create(api, "p", manifest(gpu_mem=15, nodeSelector={"zone": "x"}, tolerations=tolerates))
    create(api, "q", manifest(gpu_mem=1, nodeSelector={"zone": "x"}))
    create(api, "elsewhere", manifest(gpu_mem=1, schedulerName="other"))
    plan = json.loads(planner.text("add", "-f", "-", "-o", "json", stdin=TEMPLATE))
    assert fates(plan) == {"p": ("pool-plan-1", 0), "q": "waits"}
    assert "without aliyun.com/gpu-count" in planner.fails("add", "-f", "-", stdin=TEMPLATE.replace("gpu-count", "gpu-other"))
    assert "it has no metadata" in planner.fails("add", "-f", "-", stdin="kind: Node\n")


@pytest.mark.parametrize("args", [["drain"], ["drain", "a", "-f", "x"], ["drain", "a", "--count", "2"], ["drain", "a", "--like", "b"],
                                  ["add"], ["add", "-f", "x", "--like", "b"], ["add", "a"], ["drain", "a", "--history", "x"],
                                  ["pods", "-f", "x", "--like", "b"]])
def test_wrong_arguments_are_refused(args):
    done = subprocess.run([RATION, "plan", *args], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "Try 'ration plan --help'" in done.stderr


# ---- the promise ----

def plan_of_saved(planner, *argv):
    history, objects = planner.save()
    done = planner.run(*argv, "-o", "json", *history, *objects, KUBECTL="/nonexistent")
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)


def happened(api, planner, made):
    """As the plan words it."""
    found, what = schedule(api, planner.scheduler, made)
    return (found, *sorted(int(uuid.rsplit("-", 1)[1]) for uuid in what)) if found else "waits"


def random_pod(rng, **spec):
    """It evicts none: ration-scheduler would do that by itself after a while, when a plan has been made already."""
    gpus = rng.choice([1, 1, 1, 1, 2])
    size = {"gpu_mem": rng.randint(1, 10) * gpus, "labels": {"aliyun.com/gpu-count": str(gpus)}} if rng.random() < 0.85 else {"whole": 1}
    return manifest(cpu=rng.choice(["500m", "2"]), priority=rng.choice([0, 0, 5]), preemptionPolicy="Never", **size, **spec)


def fill(api, rng, planner, n, prefix):
    for i in range(n):
        pod = create(api, f"{prefix}-{i}", random_pod(rng), owner=rng.choice(["x", "y"]))
        if schedule(api, planner.scheduler, pod)[0] is None and rng.random() < 0.5:
            api.delete("pods", pod["metadata"]["name"])


def remove(api, name):
    api.set_phase(name, "Succeeded")
    api.delete("pods", name)


def test_in_random_drains_what_the_plan_says_is_what_happens(api, planner):
    rng, seen = random.Random(SEED), set()
    for i in range(6):
        node(api, f"n{i}", *[1024 * rng.choice([8, 15])] * rng.randint(1, 3), mode=rng.choice(["share", "share", "topology"]),
             policy=rng.choice(["binpack", "spread"]), cpu=rng.choice(["6", "16"]))
    planner = planner()
    for step in range(50 if FULL else 20):
        fill(api, rng, planner, 6, f"s{step}")
        names = rng.sample([f"n{i}" for i in range(6)], rng.randint(1, 2))
        plan = plan_of_saved(planner, "drain", *names)
        for name in names:
            api.patch("nodes", name, {"spec": {"unschedulable": True}})
        specs = {pod["name"]: api.pod(pod["name"]) for pod in plan["pods"]}
        assert set(specs) == {p["metadata"]["name"] for p in api.list("pods") if p["spec"].get("nodeName") in names}, step
        for name in specs:
            remove(api, name)
        planner.scheduler.has_read_pods()
        made = {}    # their controllers make all of them before kube-scheduler tries the first
        for name, old in specs.items():
            made[name] = create(api, f"{name}-r", {"metadata": {"labels": old["metadata"].get("labels", {})}, "spec": {
                key: value for key, value in old["spec"].items() if key != "nodeName"}},
                owner=old["metadata"]["ownerReferences"][0]["uid"])
        planner.scheduler.has_read_pods()
        for name, fate in fates(plan).items():
            assert happened(api, planner, made[name]) == fate, (SEED, step, name)
            seen.add(fate if fate == "waits" else fate[0])
        for name in names:
            api.patch("nodes", name, {"spec": {"unschedulable": False}})
        for pod in rng.sample(api.list("pods"), len(api.list("pods")) // 2):
            remove(api, pod["metadata"]["name"])
        planner.scheduler.has_read_pods()
    assert len(seen) > 2 and "waits" in seen, seen


def test_in_random_additions_what_the_plan_says_is_what_happens(api, planner):
    rng, seen = random.Random(SEED + 1), []
    node(api, "n0", 15360, 8192, cpu="6")
    node(api, "n1", 8192, cpu="16", policy="spread")
    planner = planner()
    for step in range(12):
        fill(api, rng, planner, 10, f"s{step}")
        like, count = rng.choice(["n0", "n1"]), rng.randint(1, 2)
        plan = plan_of_saved(planner, "add", "--like", like, "--count", str(count))
        sizes = [gpu["mib"] for gpu in json.loads(api.node(like)["metadata"]["annotations"]["ration.dev/gpus"])]
        for i in range(1, count + 1):
            node(api, f"{like}-plan-{i}", *sizes, cpu=api.node(like)["status"]["allocatable"]["cpu"],
                 policy=api.node(like)["metadata"]["labels"]["ack.node.gpu.placement"])
        planner.scheduler.has_read_nodes()
        assert {pod["name"] for pod in plan["pods"]} == {
            p["metadata"]["name"] for p in api.list("pods") if not p["spec"].get("nodeName")}, step
        for name, fate in fates(plan).items():
            assert happened(api, planner, api.pod(name)) == fate, (SEED, step, name)
            seen.append(fate == "waits")
        for pod in api.list("pods"):
            if rng.random() < 0.7 or "-plan-" in pod["spec"].get("nodeName", ""):
                remove(api, pod["metadata"]["name"])
        for i in range(1, count + 1):
            api.delete("nodes", f"{like}-plan-{i}")
        planner.scheduler.has_read_pods()
        planner.scheduler.has_read_nodes()
    assert seen.count(True) > 5 and seen.count(False) > 5, seen
