"""`ration plan moves`: which pods to move, and that the moves lead to the announced result."""
import concurrent.futures
import json
import random
import subprocess

import pytest

from fake_apiserver import wait_for
from histories import SEED
from leases import RUNNING
from planning import RATION, create, manifest, node, schedule


def placed(api, planner, name, pod, owner="web"):
    made = create(api, name, pod, owner=owner)
    assert schedule(api, planner.scheduler, made)[0]
    api.patch("pods", name, {"status": RUNNING})    # then the scheduler keeps its GPU until the containers have ended
    planner.scheduler.has_read_pods()
    return made


def remove(api, name):
    api.set_phase(name, "Succeeded")
    api.delete("pods", name)


def scattered(api, planner, *sizes, owner="web", labels=None):
    """Node a with these pods on one GPU of 8 units, then node b with a GPU of 6 units."""
    node(api, "a", 8192)
    planner = planner()
    for i, size in enumerate(sizes):
        placed(api, planner, f"p{i}", manifest(gpu_mem=size, labels=labels), owner)
    node(api, "b", 6144)
    planner.scheduler.has_read_nodes()
    return planner


def test_a_move_lets_a_waiting_pod_run(api, planner):
    planner = scattered(api, planner, 5)
    create(api, "big", manifest(gpu_mem=7))
    assert planner.text("moves") == (
        "EVICT       FROM      TO        GAIN\n"
        "default/p0  a, GPU 0  b, GPU 0  default/big runs on a, GPU 0; 1 whole GPU used\n"
        "1 move: 1 of 1 waiting pods runs, 0 instead of 1 whole GPUs are free.\n"
        "Note: Cordon the GPUs that a pod leaves (`ration cordon`) before its eviction, and uncordon them when its new pod is bound; "
        "then wait for the pods that the move lets run. --execute does so.\n")


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_pod_that_fits_beside_itself_goes_elsewhere(api, planner, kind):
    """The GPU is cordoned until its new pod has a place."""
    planner = scattered(api, planner, 3)
    api.patch("pods", "p0", {"metadata": {"ownerReferences": [{"kind": kind, "name": "web", "uid": "web", "controller": True}]}})
    create(api, "big", manifest(gpu_mem=7))
    move, = json.loads(planner.text("moves", "-o", "json"))["moves"]
    assert (move["node"], [run["name"] for run in move["runs"]]) == ("b", ["big"])


def test_pods_that_the_plan_must_not_move_stay(api, planner):
    planner = scattered(api, planner, 5, owner=None)
    create(api, "big", manifest(gpu_mem=7))
    assert planner.text("moves") == "0 moves: 0 of 1 waiting pods run, 1 instead of 1 whole GPUs are free.\n"


@pytest.mark.waits
def test_the_last_pod_of_a_gang_that_has_started_runs_by_itself(api, planner):
    labels = {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}
    node(api, "c", 2048, labels={"zone": "c"})
    planner = scattered(api, planner, 5)
    mates = [create(api, f"g{i}", manifest(gpu_mem=1, labels=labels, nodeSelector={"zone": "c"}), owner="job") for i in range(2)]
    planner.scheduler.has_read_pods()
    assert planner.scheduler.filter(mates[0], ["c"])["NodeNames"] == ["c"]
    assert planner.scheduler.filter(mates[1], ["c"])["NodeNames"] == ["c"]
    with concurrent.futures.ThreadPoolExecutor() as binds:
        assert list(binds.map(lambda pod: planner.scheduler.bind(pod, "c"), mates)) == ["", ""]
    wait_for(lambda: not any("ration.dev/gang" in api.pod(f"g{i}")["metadata"]["annotations"] for i in range(2)), 5, "it has started")
    last = create(api, "last", manifest(gpu_mem=7, labels=labels), owner="job")
    planner.scheduler.has_read_pods()
    for pod in mates:
        remove(api, pod["metadata"]["name"])
    move, = wait_for(lambda: json.loads(planner.text("moves", "-o", "json"))["moves"], 20, "no more pods of the gang are expected")
    assert (move["name"], [run["name"] for run in move["runs"]]) == ("p0", ["last"])
    remove(api, "p0")
    planner.scheduler.has_read_pods()
    assert schedule(api, planner.scheduler, last)[0] == "a"


def test_a_pod_whose_label_has_become_invalid_stays(api, planner):
    """It does not say what the next pod asks for."""
    planner = scattered(api, planner, 5)
    create(api, "big", manifest(gpu_mem=7))
    api.patch("pods", "p0", {"metadata": {"labels": {"aliyun.com/gpu-count": "many"}}})
    assert planner.text("moves") == "0 moves: 0 of 1 waiting pods run, 1 instead of 1 whole GPUs are free.\n"


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_budget_is_respected(api, planner, allowed):
    api.create_budget("budget", {"app": "one"}, allowed)
    planner = scattered(api, planner, 5, labels={"app": "one"})
    create(api, "big", manifest(gpu_mem=7))
    assert len(json.loads(planner.text("moves", "-o", "json"))["moves"]) == allowed


def test_whole_gpus_become_free_where_no_pod_waits(api, planner):
    node(api, "a", 8192)
    planner = planner()
    placed(api, planner, "p", manifest(gpu_mem=2))
    node(api, "b", 8192, unschedulable=True)
    planner.scheduler.has_read_nodes()
    placed(api, planner, "fills", manifest(gpu_mem=6))
    api.patch("nodes", "b", {"spec": {"unschedulable": False}})
    placed(api, planner, "r", manifest(gpu_mem=6))
    remove(api, "fills")
    planner.scheduler.has_read_pods()
    assert [api.pod(name)["spec"]["nodeName"] for name in ("p", "r")] == ["a", "b"]
    plan = json.loads(planner.text("moves", "-o", "json"))
    assert (plan["waitingBefore"], plan["wholeGPUsBefore"], plan["wholeGPUsAfter"]) == (0, 0, 1)
    assert [(move["name"], move["node"]) for move in plan["moves"]] == [("p", "b")]


@pytest.mark.parametrize("args", [["moves", "a"], ["moves", "--max", "0"], ["moves", "--max", "201"], ["moves", "--count", "2"],
                                  ["moves", "-f", "x"], ["drain", "a", "--max", "3"]])
def test_wrong_arguments_are_refused(args):
    done = subprocess.run([RATION, "plan", *args], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "Try 'ration plan --help'" in done.stderr


# ---- the promise ----

def gpus(api, name):
    placement = json.loads(api.pod(name)["metadata"]["annotations"]["ration.dev/placement"])
    return sorted(int(gpu["uuid"].rsplit("-", 1)[1]) for shares in placement["containers"].values() for gpu in shares)


def whole_free(api):
    """Counted from the pods' placements."""
    used = {(pod["spec"]["nodeName"], i) for pod in api.list("pods") if pod["spec"].get("nodeName")
            for i in gpus(api, pod["metadata"]["name"])}
    return sum(len(json.loads(n["metadata"]["annotations"]["ration.dev/gpus"])) for n in api.list("nodes")) - len(used)


def waiting(api):
    return [pod["metadata"]["name"] for pod in api.list("pods") if not pod["spec"].get("nodeName")]


def priority(pod):
    return pod["spec"].get("priority") or 0


def cordon(api, planner, move, healthy):
    shown = json.loads(api.node(move["from"])["metadata"]["annotations"]["ration.dev/gpus"])
    for gpu in move["fromGPUs"]:
        shown[gpu["index"]]["healthy"] = healthy
    api.patch("nodes", move["from"], {"metadata": {"annotations": {"ration.dev/gpus": json.dumps(shown)}}})
    planner.scheduler.has_read_nodes()


def carry_out(api, planner, move, step):
    """The GPUs are cordoned, and the pod is evicted. kube-scheduler tries the new one while the old one ends, then the pods that wait, by priority
    and age, and the new one if it had no room. When it is bound, the GPUs are uncordoned, and those that wait are tried again."""
    old = api.pod(move["name"])
    assert old["spec"]["nodeName"] == move["from"] and gpus(api, move["name"]) == sorted(g["index"] for g in move["fromGPUs"])
    spec = {key: value for key, value in old["spec"].items() if key != "nodeName"}
    ahead = sorted((api.pod(name) for name in waiting(api)), key=lambda pod: (
        -priority(pod), pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]))
    new = create(api, f"{move['name']}-{step}", {"metadata": {"labels": old["metadata"].get("labels", {})}, "spec": spec},
                 owner=old["metadata"]["ownerReferences"][0]["uid"])
    ran = {}

    def attempt(*pods):
        for pod in pods:
            name = pod["metadata"]["name"]
            found = name not in ran and schedule(api, planner.scheduler, pod)[0]
            if found:
                ran[name] = (found, gpus(api, name))
                planner.scheduler.has_read_pods()
    cordon(api, planner, move, False)
    attempt(new)
    remove(api, move["name"])
    planner.scheduler.has_read_pods()
    if new["metadata"]["name"] not in ran:
        attempt(*sorted([*ahead, new], key=lambda pod: -priority(pod)))
    cordon(api, planner, move, True)
    attempt(*ahead)
    assert ran.pop(new["metadata"]["name"]) == (move["node"], sorted(g["index"] for g in move["gpus"]))
    assert ran == {run["name"]: (run["node"], sorted(g["index"] for g in run["gpus"])) for run in move["runs"]}


STEPS, STEPS_MAX = 20, 400    # of one cluster, and of all: how much happens depends on the cluster that is drawn


def draw_cluster(api, rng, planner, number):
    """The pods and nodes of the previous cluster are gone."""
    for pod in api.list("pods"):
        remove(api, pod["metadata"]["name"])
    for old in api.list("nodes"):
        api.delete("nodes", old["metadata"]["name"])
    for i in range(4):
        node(api, f"n{number}-{i}", *[1024 * rng.choice([8, 15])] * rng.randint(1, 3), policy=rng.choice(["binpack", "spread"]),
             cpu=rng.choice(["6", "16"]))
    planner.scheduler.has_read_pods()
    planner.scheduler.has_read_nodes()


def test_random_moves_lead_to_the_announced_result(api, planner):
    rng, ran, freed, planner = random.Random(SEED), 0, 0, planner()
    for step in range(STEPS_MAX):
        if step % STEPS == 0:
            if ran > 3 and freed:
                return
            draw_cluster(api, rng, planner, step // STEPS)
        for i in range(25):
            gpus_asked = rng.choice([1, 1, 1, 2])
            pod = create(api, f"s{step}-{i}", manifest(gpu_mem=rng.randint(1, 9) * gpus_asked, cpu=rng.choice(["100m", "1"]),
                                                       priority=rng.choice([0, 0, 5]), labels={"aliyun.com/gpu-count": str(gpus_asked)},
                                                       preemptionPolicy="Never"), owner=rng.choice(["x", "y"]))
            bound = schedule(api, planner.scheduler, pod)[0]
            if bound is None and rng.random() < 0.7:
                api.delete("pods", pod["metadata"]["name"])
            elif bound and rng.random() < 0.5:
                api.patch("pods", pod["metadata"]["name"], {"status": RUNNING})
        for pod in api.list("pods"):
            if rng.random() < 0.4 and pod["spec"].get("nodeName"):
                remove(api, pod["metadata"]["name"])
        planner.scheduler.has_read_pods()
        for name in sorted(waiting(api), key=lambda n: (-priority(api.pod(n)), api.pod(n)["metadata"].get("creationTimestamp", ""), n)):
            schedule(api, planner.scheduler, api.pod(name))
        planner.scheduler.has_read_pods()    # the plan takes pods from the API server, and the rest from the scheduler
        history, objects = planner.save()
        done = planner.run("moves", "-o", "json", *history, *objects, KUBECTL="/nonexistent")
        assert (done.returncode, done.stderr) == (0, ""), done
        plan = json.loads(done.stdout)
        assert (plan["waitingBefore"], plan["wholeGPUsBefore"], plan["fitsNow"]) == (len(waiting(api)), whole_free(api), 0), (SEED, step)
        waited = len(waiting(api))
        for i, move in enumerate(plan["moves"]):
            carry_out(api, planner, move, f"m{step}-{i}")
            assert len(waiting(api)) <= waited, (SEED, step, i)
            waited = len(waiting(api))
        assert (plan["waitingAfter"], plan["wholeGPUsAfter"]) == (len(waiting(api)), whole_free(api)), (SEED, step)
        ran += plan["waitingBefore"] - plan["waitingAfter"]
        freed += plan["wholeGPUsAfter"] > plan["wholeGPUsBefore"]
        for pod in api.list("pods"):
            if rng.random() < 0.5:
                remove(api, pod["metadata"]["name"])
        planner.scheduler.has_read_pods()
    assert ran > 3 and freed, f"too little happened in {STEPS_MAX} steps: {ran} pods ran, {freed} plans made GPUs free (seed {SEED})"
