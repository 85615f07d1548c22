"""`ration plan unit` and `ration plan policy`: what becomes of pods when the unit or a ResourcePolicy changes, and that it then happens."""
import json
import random
import subprocess

import pytest

from histories import SEED
from planning import FULL, RATION, create, fates, manifest, node, schedule

UNIT = "ration.dev/unit"


def placed(api, planner, name, pod, owner="web"):
    made = create(api, name, pod, owner=owner)
    assert schedule(api, planner.scheduler, made)[0]
    planner.scheduler.has_read_pods()
    return made


def again(plan):
    return fates({"pods": plan["again"]})


# ---- the unit

def test_a_smaller_unit_tells_nodes_waiting_pods_and_pods_that_are_created_again(api, planner):
    node(api, "a", 8192)
    planner = planner()
    placed(api, planner, "p", manifest(gpu_mem=5))
    node(api, "b", 4096)
    planner.scheduler.has_read_nodes()
    create(api, "waits", manifest(gpu_mem=6))
    api.patch("pods", "waits", {"metadata": {"annotations": {UNIT: "1024"}}})
    assert planner.text("unit", "--unit", "512MiB") == (
        "NODE  UNIT NOW  WHAT HAPPENS\n"
        "a     1024 MiB  keeps it until its 1 GPU pod has ended, and takes no new ones\n"
        "b     1024 MiB  has no GPU pods: 512 MiB at once\n"
        "\n"
        "The pods that wait now:\n"
        "POD            WHAT HAPPENS\n"
        "default/waits  waits: GPU node changes its mode on 1 node; GPU memory unit differs on 1 node\n"
        "1 pod: 1 waits.\n"
        "\n"
        "The pods that run go on as they are. When they have ended and are created again:\n"
        "POD        NOW       CREATED AGAIN\n"
        "default/p  a, GPU 0  runs on node b, GPU 0\n"
        "1 pod: 0 as now, 1 elsewhere, 0 without a place.\n"
        "Note: The plan assumes that no pod template names a unit (ration.dev/unit): the number of aliyun.com/gpu-mem stays, and is counted in "
        "the new unit when a pod is created.\n"
        "Note: All pods of these nodes are created again at the same time, by priority, namespace and name. Before that, each node must lose "
        "its last GPU pod.\n")


def test_a_larger_unit_leaves_pods_without_a_place(api, planner):
    node(api, "a", 8192)
    api.patch("nodes", "a", {"metadata": {"annotations": {UNIT: "512"}}, "status": {"allocatable": {"aliyun.com/gpu-mem": "16"}}})
    planner = planner()
    placed(api, planner, "fits", manifest(gpu_mem=5))
    placed(api, planner, "large", manifest(gpu_mem=9))
    plan = json.loads(planner.text("unit", "--unit", "1GiB", "-o", "json"))
    assert plan["nodes"] == [{"node": "a", "unitMiB": 512, "pods": 2, "changes": "later"}]
    assert again(plan) == {"fits": ("a", 0), "large": "waits"}
    assert [pod["asNow"] for pod in plan["again"]] == [True, False]
    assert plan["again"][1]["nodes"][0]["reason"] == "no GPU is that large"


def test_the_same_unit_changes_nothing_and_whole_gpus_have_none(api, planner):
    node(api, "a", 8192)
    node(api, "whole", 8192, mode="topology")
    planner = planner()
    placed(api, planner, "p", manifest(gpu_mem=5))
    placed(api, planner, "w", manifest(whole=1))
    plan = json.loads(planner.text("unit", "--unit", "1GiB", "-o", "json"))
    assert [n["changes"] for n in plan["nodes"]] == ["same"] and plan["again"] == []
    assert [n["node"] for n in json.loads(planner.text("unit", "--unit", "128MiB", "-o", "json"))["nodes"]] == ["a"]


def test_fewer_containers_fit_on_an_isolated_gpu_with_a_small_unit(api, planner):
    node(api, "a", 24576, mode="cgpu")
    planner = planner()
    for i in range(18):
        placed(api, planner, f"p{i:02}", manifest(gpu_mem=1))
    plan = json.loads(planner.text("unit", "--unit", "512MiB", "-o", "json"))
    assert list(again(plan).values()).count("waits") == 2
    assert plan["again"][-1]["nodes"][0]["reason"] == "GPU has its maximum of containers"


def change_unit(api, planner, unit):
    """As the agents do when the last GPU pod has ended."""
    for n in api.list("nodes"):
        sizes = [gpu["mib"] for gpu in json.loads(n["metadata"]["annotations"]["ration.dev/gpus"])]
        api.patch("nodes", n["metadata"]["name"], {
            "metadata": {"annotations": {UNIT: str(unit)}}, "status": {"allocatable": {"aliyun.com/gpu-mem": str(sum(mib // unit for mib in sizes))}}})
    planner.scheduler.has_read_nodes()


def test_in_random_changes_of_the_unit_what_the_plan_says_is_what_happens(api, planner):
    rng, seen, unit = random.Random(SEED), set(), 1024
    for i in range(4):
        node(api, f"n{i}", *[1024 * rng.choice([4, 8, 15])] * rng.randint(1, 2), policy=rng.choice(["binpack", "spread"]),
             cpu=rng.choice(["4", "16"]))
    planner = planner()
    for step in range(30):
        if step > 7 and len(seen) > 3 and "waits" in seen and not FULL:
            break
        for i in range(8):
            pod = create(api, f"s{step}-{i}", manifest(gpu_mem=rng.randint(1, 12), cpu="500m", priority=rng.choice([0, 5]), preemptionPolicy="Never"), owner=rng.choice("xy"))
            if schedule(api, planner.scheduler, pod)[0] is None:
                api.delete("pods", pod["metadata"]["name"])
        unit = rng.choice([u for u in (1024, 512, 256) if u != unit])
        plan = json.loads(planner.text("unit", "--unit", f"{unit}MiB" if unit < 1024 else "1GiB", "-o", "json"))
        specs = {pod["name"]: api.pod(pod["name"]) for pod in plan["again"]}
        assert set(specs) == {p["metadata"]["name"] for p in api.list("pods")}, step
        for name in specs:
            api.set_phase(name, "Succeeded")
            api.delete("pods", name)
        planner.scheduler.has_read_pods()
        change_unit(api, planner, unit)
        for name, fate in again(plan).items():
            spec = {key: value for key, value in specs[name]["spec"].items() if key != "nodeName"}
            made = create(api, f"{name}-r", {"metadata": {"labels": {}}, "spec": spec}, owner=specs[name]["metadata"]["ownerReferences"][0]["uid"])
            found, what = schedule(api, planner.scheduler, made)
            assert ((found, *sorted(int(uuid.rsplit("-", 1)[1]) for uuid in what)) if found else "waits") == fate, (SEED, step, name)
            seen.add(fate if fate == "waits" else fate[0])
        for pod in api.list("pods"):
            if rng.random() < 0.7 or not pod["spec"].get("nodeName"):
                api.set_phase(pod["metadata"]["name"], "Succeeded")
                api.delete("pods", pod["metadata"]["name"])
        planner.scheduler.has_read_pods()
    assert len(seen) > 3, seen    # with most seeds some pod waits, too


# ---- a ResourcePolicy

def policy(*units, name="web", selector=None, **spec):
    return {"apiVersion": "scheduling.alibabacloud.com/v1alpha1", "kind": "ResourcePolicy", "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": selector or {"app": "web"}, "units": list(units), **spec}}


def level(pool, **more):
    return {"resource": "ecs", "nodeSelector": {"pool": pool}, **more}


@pytest.fixture
def pools(api, planner):
    """Two nodes of the pool own, and one of the pool cloud; two pods of web and one of another app run on own, one of web waits."""
    node(api, "own-1", 8192, labels={"pool": "own"})
    node(api, "own-2", 4096, labels={"pool": "own"})
    node(api, "cloud", 8192, labels={"pool": "cloud"}, unschedulable=True)
    planner = planner()
    for name, app in (("w1", "web"), ("w2", "web"), ("o", "other")):
        placed(api, planner, name, manifest(gpu_mem=4, labels={"app": app}, schedulerName="ack-co-scheduler"))
    create(api, "w3", manifest(gpu_mem=3, labels={"app": "web"}, schedulerName="ack-co-scheduler"))
    api.patch("nodes", "cloud", {"spec": {"unschedulable": False}})
    planner.scheduler.has_read_nodes()
    return planner


def plan_of(planner, wanted):
    return json.loads(planner.text("policy", "-f", "-", "-o", "json", stdin=json.dumps(wanted)))


def test_a_new_policy_holds_for_pods_that_wait_and_that_are_created_again(pools):
    plan = plan_of(pools, policy(level("own", max=1), level("cloud")))
    assert fates({"pods": plan["waiting"]}) == {"w3": ("cloud", 0)}
    assert again(plan).keys() == {"w1", "w2"}    # the other app is not concerned
    assert sorted(node for node, _ in again(plan).values()) in (["cloud", "own-1"], ["cloud", "own-2"])


def test_a_policy_without_a_namespace_is_of_the_namespace_of_the_context(pools):
    wanted = policy(level("own", max=1))
    del wanted["metadata"]["namespace"]
    for namespace, concerned in (("default", {"w1", "w2"}), ("elsewhere", set())):
        said = pools.text("policy", "-f", "-", "-o", "json", stdin=json.dumps(wanted), KUBECTL_NAMESPACE=namespace)
        assert again(json.loads(said)).keys() == concerned, namespace


def test_a_policy_that_leaves_no_level_has_its_reason(pools):
    plan = plan_of(pools, policy(level("nowhere")))
    assert fates({"pods": plan["waiting"]}) == {"w3": "waits"} and set(again(plan).values()) == {"waits"}
    assert "ResourcePolicy web: " in plan["waiting"][0]["text"]


def test_a_policy_that_was_there_is_replaced(api, pools):
    made = policy(level("own", max=2), level("cloud"))
    api.create("resourcepolicies", made)
    assert [pod["fate"] for pod in plan_of(pools, policy(level("cloud")))["again"]] == ["runs", "waits"]


def test_the_text_says_what_stays(pools):
    said = pools.text("policy", "-f", "-", stdin=json.dumps(policy(level("own", max=1), level("cloud"))))
    assert "The pods that run go on as they are. When they have ended and are created again:\n" in said
    assert "2 pods: " in said and "Note: Only pods that ask for a GPU are tried." in said


@pytest.mark.parametrize("wanted, words", [
    ({"kind": "Pod"}, "it is not a ResourcePolicy, but a Pod"),
    ({"kind": "ResourcePolicy", "metadata": {}}, "it has no name"),
    (policy({"resource": "moon"}), "moon"),
    (policy(*[level("x")] * 40), "unit"),
])
def test_a_manifest_that_is_no_policy_has_a_sentence_before_the_cluster_is_asked(wanted, words):
    done = subprocess.run([RATION, "plan", "policy", "-f", "-"], capture_output=True, text=True, check=False, input=json.dumps(wanted), timeout=60,
                          env={"KUBECTL": "/nonexistent"})
    assert (done.returncode, done.stdout) == (1, "") and words in done.stderr and done.stderr.startswith("ration: -: ")


def test_a_policy_of_another_namespace_than_the_option_is_refused():
    done = subprocess.run([RATION, "plan", "policy", "-f", "-", "-n", "other"], capture_output=True, text=True, check=False, timeout=60,
                          input=json.dumps(policy(level("x"))), env={"KUBECTL": "/nonexistent"})
    assert done.returncode == 1 and "it is of namespace default, and -n names other" in done.stderr


@pytest.mark.parametrize("args", [["unit"], ["unit", "--unit", "100MiB"], ["unit", "--unit", "1GiB", "-f", "x"], ["unit", "--unit", "1GiB", "a"],
                                  ["policy"], ["policy", "-f", "x", "--unit", "1GiB"], ["policy", "-f", "x", "--count", "2"],
                                  ["drain", "a", "--unit", "1GiB"], ["unit", "--unit", "1GiB", "--execute"]])
def test_wrong_arguments_are_refused(args):
    done = subprocess.run([RATION, "plan", *args], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "Try 'ration plan --help'" in done.stderr
