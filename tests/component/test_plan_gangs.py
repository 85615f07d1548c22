"""`ration plan` and gangs: enough pods of a gang have places, or none of them is bound."""
import concurrent.futures
import json

import pytest

from fake_apiserver import wait_for
from leases import RUNNING
from plan_cluster import Cluster
from planning import create, fates, manifest, node, schedule

GANG = "pod-group.scheduling.sigs.k8s.io"


def member(gpu_mem, least, gang="train", **more):
    return manifest(gpu_mem=gpu_mem, labels={f"{GANG}/name": gang, f"{GANG}/min-available": str(least)}, **more)


def bind_gang(api, planner, names, pod, owner="job"):
    """kube-scheduler tries all of them: filter for each one, then bind, which waits for the others."""
    made = [create(api, name, pod, owner=owner) for name in names]
    planner.scheduler.has_read_pods()
    wait_for(lambda: api.watches("podgroups"), what="PodGroups are watched")    # before, no gang is planned
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        assert all(found for found, _ in pool.map(lambda one: schedule(api, planner.scheduler, one), made))
    planner.scheduler.has_read_pods()


def test_a_gang_fits_as_a_whole(api, planner):
    node(api, "a", 8192, 8192)
    plan = planner().pods(member(4, 4))
    assert (plan["fit"], plan["gangNeeds"]) == (4, 4)
    assert sorted((pod["node"], pod["gpus"][0]["index"]) for pod in plan["pods"]) == [("a", 0)] * 2 + [("a", 1)] * 2


def test_a_gang_of_which_one_pod_has_no_room_waits_as_a_whole(api, planner):
    node(api, "a", 8192, 8192)
    planner = planner()
    plan = planner.pods(member(4, 5))
    assert (plan["fit"], plan["pods"], plan["text"]) == (0, [], "no room for its whole gang")
    assert (plan["gangNeeds"], plan["gangHasRoomFor"]) == (5, 4)
    assert planner.text("pods", "-f", "-", stdin=json.dumps(member(4, 5))).endswith(
        "Its gang starts with 5 pods or not at all; 4 would find room.\n")


def test_more_pods_than_the_gang_needs_are_tried_one_by_one(api, planner):
    node(api, "a", 8192, 8192)
    planner = planner()
    plan = planner.pods(member(4, 2))
    assert (plan["fit"], plan["text"] if "text" in plan else "") == (4, "")
    assert planner.pods(member(4, 2), "--count", "5")["fit"] == 4


def test_fewer_pods_than_the_gang_needs_wait_for_the_others(api, planner):
    node(api, "a", 8192, 8192)
    plan = planner().pods(member(4, 3), "--count", "2")
    assert (plan["fit"], plan["text"]) == (0, "waits for the other pods of its gang")


def test_cpu_that_is_short_for_one_pod_leaves_all_waiting(api, planner):
    node(api, "a", 8192, 8192, cpu="3")
    plan = planner().pods(member(2, 4, cpu="1"))
    assert (plan["fit"], plan["pods"]) == (0, [])


@pytest.fixture
def running_gang(api, planner):
    """A gang of two pods on the two GPUs of node a. Node b has room for one of them."""
    node(api, "a", 8192, 8192)
    planner = planner()
    bind_gang(api, planner, ["w0", "w1"], member(5, 2))
    node(api, "b", 8192)
    planner.scheduler.has_read_nodes()
    return planner


def test_a_drained_gang_comes_back_as_a_whole_or_waits(api, running_gang):
    plan = json.loads(running_gang.text("drain", "a", "-o", "json"))
    assert fates(plan) == {"w0": "waits", "w1": "waits"}
    assert {pod["text"] for pod in plan["pods"]} == {"no room for its whole gang"}
    node(api, "c", 8192)
    running_gang.scheduler.has_read_nodes()
    assert sorted(fates(json.loads(running_gang.text("drain", "a", "-o", "json"))).values()) == [("b", 0), ("c", 0)]


def test_a_gang_that_is_drained_pod_by_pod_has_not_ended(api, running_gang):
    """The other pod still runs when the first one is created again, so each is placed by itself."""
    with Cluster(api, running_gang):
        said = running_gang.text("drain", "a", "--execute")
    assert said.endswith("The nodes are drained.\n") and "2 pods: 1 runs, 1 waits.\n" in said
    assert {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in api.list("pods")} == {"w0-new": "b", "w1-new": None}


def test_a_waiting_gang_starts_on_the_added_nodes_or_not_at_all(api, planner):
    node(api, "a", 8192, unschedulable=True)
    planner = planner()
    for name in ("w0", "w1"):
        create(api, name, member(5, 2))
    planner.scheduler.has_read_pods()
    assert set(fates(json.loads(planner.text("add", "--like", "a", "-o", "json"))).values()) == {"waits"}
    plan = json.loads(planner.text("add", "--like", "a", "--count", "2", "-o", "json"))
    assert sorted(fates(plan).values()) == [("a-plan-1", 0), ("a-plan-2", 0)]


def test_no_pod_of_a_running_gang_is_moved(api, planner):
    node(api, "a", 8192)
    planner = planner()
    bind_gang(api, planner, ["w0", "w1"], member(2, 2))
    node(api, "b", 6144)
    planner.scheduler.has_read_nodes()
    create(api, "big", manifest(gpu_mem=7))
    assert json.loads(planner.text("moves", "-o", "json"))["moves"] == []


def moves(planner):
    return json.loads(planner.text("moves", "-o", "json"))


def moved(api, planner, *sizes):
    """Node a with a pod p of 5 units on its GPU of 8, b where p could go, and GPUs that are free."""
    node(api, "a", 8192)
    planner = planner()
    old = create(api, "p", manifest(gpu_mem=5), owner="web")
    assert schedule(api, planner.scheduler, old)[0]
    api.patch("pods", "p", {"status": RUNNING})
    node(api, "b", 6144)
    if sizes:
        node(api, "c", *sizes)
    planner.scheduler.has_read_nodes()
    planner.scheduler.has_read_pods()
    return planner


def test_a_move_lets_a_waiting_gang_run_as_it_then_does(api, planner):
    planner = moved(api, planner, 8192)
    names = ["w0", "w1"]
    made = [create(api, name, member(7, 2)) for name in names]
    planner.scheduler.has_read_pods()
    plan = moves(planner)
    move, = plan["moves"]
    assert (move["name"], move["node"], plan["waitingBefore"], plan["waitingAfter"], plan["notTried"], plan["fitsNow"]) == ("p", "b", 2, 0, 0, 0)
    planned = {run["name"]: run["node"] for run in move["runs"]}
    assert sorted(planned) == names and sorted(planned.values()) == ["a", "c"]
    api.set_phase("p", "Succeeded")
    api.delete("pods", "p")
    api.patch("nodes", "a", {"spec": {"unschedulable": True}})
    assert schedule(api, planner.scheduler, create(api, "p-new", manifest(gpu_mem=5), owner="web"))[0] == "b"
    api.patch("nodes", "a", {"spec": {"unschedulable": False}})
    planner.scheduler.has_read_pods()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert {name: found for name, (found, _) in zip(names, pool.map(lambda one: schedule(api, planner.scheduler, one), made))} == planned


def test_a_gang_for_which_one_move_is_not_enough_leaves_the_room_to_others(api, planner):
    planner = moved(api, planner, 8192)
    for name in ("w0", "w1", "w2"):
        create(api, name, member(7, 3))
    create(api, "big", manifest(gpu_mem=8))
    planner.scheduler.has_read_pods()
    plan = moves(planner)
    # "big" has room on c without a move, then the gang has room for one of three after it.
    assert (plan["fitsNow"], plan["moves"], plan["waitingAfter"]) == (1, [], 3)
    api.delete("pods", "big")
    create(api, "first", manifest(gpu_mem=7, priority=5))
    create(api, "second", manifest(gpu_mem=7))
    planner.scheduler.has_read_pods()
    plan = moves(planner)
    assert (plan["fitsNow"], [run["name"] for move in plan["moves"] for run in move["runs"]], plan["waitingAfter"]) == (1, ["second"], 3)


def test_a_gang_that_runs_without_a_move_needs_none(api, planner):
    planner = moved(api, planner, 8192, 8192)
    for name in ("w0", "w1"):
        create(api, name, member(7, 2))
    planner.scheduler.has_read_pods()
    plan = moves(planner)
    assert (plan["fitsNow"], plan["waitingBefore"]) == (2, 0)
    assert not any(move["runs"] for move in plan["moves"])


def test_the_rest_of_a_gang_that_runs_is_tried_one_by_one(api, planner):
    planner = moved(api, planner)
    bind_gang(api, planner, ["w0"], member(1, 1, gang="more"))
    create(api, "w1", member(7, 1, gang="more"))
    planner.scheduler.has_read_pods()
    plan = moves(planner)
    move, = plan["moves"]
    assert (move["name"], [(run["name"], run["node"]) for run in move["runs"]], plan["notTried"], plan["waitingAfter"]) == ("p", [("w1", "a")], 0, 0)


def test_a_gang_that_lacks_a_pod_does_not_start_by_being_tried_twice(api, planner):
    """It needs three, of which two exist; three of their size would have room after the move."""
    planner = moved(api, planner, 8192, 8192)
    for name in ("w0", "w1"):
        create(api, name, member(7, 3))
    create(api, "big", manifest(gpu_mem=7, priority=-1))
    create(api, "more", manifest(gpu_mem=7, priority=-1))
    planner.scheduler.has_read_pods()
    plan = moves(planner)
    assert {run["name"] for move in plan["moves"] for run in move["runs"]} <= {"big", "more"} and plan["waitingAfter"] == 2, plan
