"""`ration plan drain --execute`: the nodes are cordoned, then one pod after the other is evicted, and the first surprise ends it."""
import json

import pytest

from fake_apiserver import wait_for
from plan_cluster import Cluster, evictions
from planning import create, manifest, node, schedule


def placed(api, planner, name, pod, owner="web"):
    made = create(api, name, pod, owner=owner)
    assert schedule(api, planner.scheduler, made)[0]
    return made


@pytest.fixture
def two_pods(api, planner):
    """Node a has pods of 5 and 6 units; node b has room for one of them."""
    node(api, "a", 8192, 8192)
    planner = planner()
    for name, size in (("p1", 5), ("p2", 6)):
        placed(api, planner, name, manifest(gpu_mem=size), owner=f"web-{name}")
    node(api, "b", 8192)
    planner.scheduler.has_read_nodes()
    planner.scheduler.has_read_pods()
    return planner


def ends(planner, *argv):
    """(what it printed, its sentence)"""
    done = planner.run("drain", "a", "--execute", *argv)
    *steps, last = done.stderr.splitlines(keepends=True)    # with JSON the steps are there, too
    assert done.returncode == 1 and last.startswith("ration: ") and (not steps or "json" in argv), done
    return done.stdout, last.removeprefix("ration: ")


def is_cordoned(api, name="a"):
    return bool(api.node(name)["spec"].get("unschedulable"))


def test_the_plan_is_carried_out(api, two_pods):
    preview = two_pods.text("drain", "a")
    assert not evictions(api) and not is_cordoned(api)
    with Cluster(api, two_pods):
        assert two_pods.text("drain", "a", "--execute") == preview + (
            "1 of 2: evicting default/p1 from node a; its new pod should be on node b, GPU 0\n"
            "1 of 2: default/p1-new follows on node b\n"
            "2 of 2: evicting default/p2 from node a; its new pod should wait\n"
            "2 of 2: default/p2-new follows and waits\n"
            "The nodes are drained.\n")
    assert is_cordoned(api)
    assert {p["metadata"]["name"]: p["spec"].get("nodeName") for p in api.list("pods")} == {"p1-new": "b", "p2-new": None}


def test_the_node_is_cordoned_before_the_first_eviction(api, two_pods):
    api.inject("PATCH", "/nodes/a$", status=403, reason="Forbidden", message="no")
    _, sentence = ends(two_pods)
    assert "no pod is evicted, because kubectl cannot cordon node a" in sentence and not evictions(api)


def test_json_is_one_object_at_the_end(api, two_pods):
    with Cluster(api, two_pods):
        done = two_pods.run("drain", "a", "--execute", "-o", "json")
    assert done.returncode == 0 and "1 of 2: default/p1-new follows on node b\n" in done.stderr
    plan = json.loads(done.stdout)
    assert plan["done"] == 2 and "stopped" not in plan
    assert [(pod["name"], pod["fate"], pod["state"], pod["newPod"]) for pod in plan["pods"]] == [
        ("p1", "runs", "done", "p1-new"), ("p2", "waits", "done", "p2-new")]


def test_a_pod_that_should_wait_and_runs_is_a_surprise(api, two_pods):
    node(api, "c", 8192, unschedulable=True)
    two_pods.scheduler.has_read_nodes()
    with Cluster(api, two_pods) as cluster:
        cluster.before = lambda name: name == "p2" and api.patch("nodes", "c", {"spec": {"unschedulable": False}})
        _, sentence = ends(two_pods)
    assert sentence == ("pod default/p2-new is on node c, GPU 0, and does not wait as planned. 1 of 2 evictions are done, and pod p2 was evicted; "
                        "the nodes stay cordoned: run the command again to go on, or use `kubectl uncordon`\n")


def test_a_refused_eviction_ends_it(api, two_pods):
    api.inject("POST", "/p1/eviction$", status=429, reason="TooManyRequests", message="Cannot evict pod.")
    said, sentence = ends(two_pods, "-o", "json")
    assert "0 of 2 evictions are done, and pod p1 was not evicted" in sentence
    assert [pod["state"] for pod in json.loads(said)["pods"]] == ["not begun"] * 2
    assert len(evictions(api)) == 1 and is_cordoned(api)


def test_a_pod_that_came_to_the_node_since_the_plan_ends_it_before_the_first_eviction(api, two_pods):
    api.inject("PATCH", "/nodes/a$", delay=2)
    with two_pods.start("drain", "a", "--execute") as process:
        wait_for(lambda: api.requests_for("PATCH", "/nodes/a$") or process.poll() is not None, 60)
        api.create_pod("late", node="a", status={"phase": "Running"})
        sentence = process.communicate(timeout=60)[1]
    assert "pod default/late has come to node a since the plan was made; no pod is evicted" in sentence
    assert sentence.startswith("ration: 1 node is cordoned: ")
    assert not evictions(api) and is_cordoned(api)


def test_pods_that_would_be_lost_are_evicted_with_force_only(api, planner):
    node(api, "a", 8192)
    planner = planner()
    placed(api, planner, "alone", manifest(gpu_mem=2), owner=None)
    _, sentence = ends(planner)
    assert sentence.startswith("nothing is done: 1 pod would be lost, the first is default/alone") and not is_cordoned(api)
    with Cluster(api, planner):
        said = planner.text("drain", "a", "--execute", "--force")
    assert "evicting default/alone from node a; no controller makes it again\n" in said and not api.list("pods")


def test_a_budget_is_respected_and_the_pod_that_stays_is_named(api, two_pods):
    api.patch("pods", "p2", {"metadata": {"labels": {"app": "two"}}})
    api.create_budget("two", {"app": "two"}, 0)
    two_pods.scheduler.has_read_pods()
    with Cluster(api, two_pods):
        said, sentence = ends(two_pods)
    assert sentence == ("the evictions of the plan are done, and 1 pod is still there: pod default/p2, because PodDisruptionBudget two allows no "
                        "eviction now; the nodes stay cordoned: run the command again later\n")
    assert "1 of 1: default/p1-new follows" in said and [e.path.split("/")[-2] for e in evictions(api)] == ["p1"]


def test_a_pod_that_was_ending_before_is_awaited(api, two_pods):
    api.patch("pods", "p2", {"metadata": {"deletionTimestamp": "2026-05-04T03:02:01Z"}})
    two_pods.scheduler.has_read_pods()
    with Cluster(api, two_pods) as cluster:
        cluster.seen.add(api.pod("p2")["metadata"]["uid"])    # it does not end
        said, sentence = ends(two_pods, "--timeout", "4")
    assert "pod default/p2 has not ended within 4 s" in sentence and "drained" not in said
    assert [e.path.split("/")[-2] for e in evictions(api)] == ["p1"]


def test_a_pod_that_does_not_end_is_named(api, two_pods):
    with Cluster(api, two_pods) as cluster:
        cluster.end = lambda name: None
        _, sentence = ends(two_pods, "--timeout", "4")
    assert "all pods are evicted, but pod default/p1 has not ended within 4 s" in sentence


def test_pods_that_ask_for_no_gpu_are_evicted_and_those_of_daemon_sets_stay(api, planner):
    node(api, "a", 8192)
    planner = planner()
    api.create_pod("plain", node="a", owner="web", status={"phase": "Running"})
    api.create_pod("agent", node="a", status={"phase": "Running"})
    api.patch("pods", "agent", {"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "agents", "uid": "d", "controller": True}]}})
    planner.scheduler.has_read_pods()
    with Cluster(api, planner) as cluster:
        cluster.follows = False
        said = planner.text("drain", "a", "--execute")
    assert "1 of 1: evicting default/plain from node a; kube-scheduler alone places its new pod\n" in said
    assert [p["metadata"]["name"] for p in api.list("pods")] == ["agent"]
