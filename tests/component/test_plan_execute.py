"""`ration plan moves --execute`: the moves are carried out one after the other, and the first surprise ends them."""
import json
import os
import pathlib
import signal
import subprocess

import pytest

from fake_apiserver import wait_for
from plan_cluster import Cluster, evictions, in_lists
from planning import RATION, create, manifest, node, schedule

NEXT = "; `ration plan moves` makes a new plan of what is left\n"


@pytest.fixture
def two_moves(api, planner, agents):    # pylint: disable=unused-argument
    """Two nodes with 5 and 6 of 8 units used, two empty ones with 6 units, and two pods of 7 units that wait."""
    node(api, "a1", 8192)
    node(api, "a2", 8192)
    planner = planner()
    for name, size in (("p1", 5), ("p2", 6)):
        made = create(api, name, manifest(gpu_mem=size, nodeSelector={"kubernetes.io/hostname": f"a{name[1]}"}), owner=f"web-{name}")
        assert schedule(api, planner.scheduler, made)[0] == f"a{name[1]}"
        api.patch("pods", name, {"spec": {"nodeSelector": None}})
    node(api, "b1", 6144)
    node(api, "b2", 6144)
    planner.scheduler.has_read_nodes()
    for name in ("big1", "big2"):
        create(api, name, manifest(gpu_mem=7))
    planner.scheduler.has_read_pods()
    return planner


def ends(planner, *argv):
    """(what it printed, its sentence)"""
    done = planner.run("moves", "--execute", *argv)
    *steps, last = done.stderr.splitlines(keepends=True)    # with JSON the steps are there, too
    assert done.returncode == 1 and last.startswith("ration: ") and (not steps or "json" in argv), done
    return done.stdout, last.removeprefix("ration: ")


def test_nothing_is_evicted_without_execute(api, two_moves):
    assert "2 moves: 2 of 2 waiting pods run" in two_moves.text("moves")
    assert not evictions(api)


@pytest.mark.parametrize("early", [False, True])
def test_the_moves_are_carried_out(api, two_moves, agents, early):
    preview = two_moves.text("moves")
    with Cluster(api, two_moves) as cluster:
        cluster.early = early
        said = two_moves.text("moves", "--execute")
    assert said == preview + (
        "1 of 2: evicting default/p1 from node a1, GPU 0; its new pod should be on node b1, GPU 0\n"
        "1 of 2: default/p1-new follows on node b1\n"
        "1 of 2: default/big1 runs on node a1\n"
        "2 of 2: evicting default/p2 from node a2, GPU 0; its new pod should be on node b2, GPU 0\n"
        "2 of 2: default/p2-new follows on node b2\n"
        "2 of 2: default/big2 runs on node a2\n"
        "All moves are done.\n")
    assert [(r.body["apiVersion"], r.body["kind"], r.body["metadata"]["name"]) for r in evictions(api)] == [
        ("policy/v1", "Eviction", "p1"), ("policy/v1", "Eviction", "p2")]
    assert all(r.body["deleteOptions"]["preconditions"]["uid"] for r in evictions(api))
    assert agents.cordoned == [("a1", 0), ("a2", 0)] and not in_lists(api)


def test_json_is_one_object_at_the_end(api, two_moves):
    with Cluster(api, two_moves):
        done = two_moves.run("moves", "--execute", "-o", "json")
    assert done.returncode == 0 and "1 of 2: default/big1 runs on node a1\n" in done.stderr
    plan = json.loads(done.stdout)
    assert plan["done"] == 2 and "stopped" not in plan
    assert [(move["name"], move["state"], move["newPod"]) for move in plan["moves"]] == [("p1", "done", "p1-new"), ("p2", "done", "p2-new")]


def test_a_plan_without_moves_evicts_nothing(api, planner):
    node(api, "a", 8192)
    planner = planner()
    assert planner.text("moves", "--execute") == "0 moves: 0 of 0 waiting pods run, 1 instead of 1 whole GPUs are free.\n"
    assert json.loads(planner.text("moves", "--execute", "-o", "json"))["done"] == 0


def test_a_refused_eviction_ends_it(api, two_moves):
    with Cluster(api, two_moves):
        api.inject("POST", "/p2/eviction$", status=429, reason="TooManyRequests",
                   message="Cannot evict pod as it would violate the pod's disruption budget.")
        said, sentence = ends(two_moves)
    assert sentence == ("the API server does not evict pod default/p2: Error from server (TooManyRequests): Cannot evict pod as it would violate "
                        "the pod's disruption budget. 1 of 2 moves are done, and pod p2 was not evicted" + NEXT)
    assert "2 of 2: evicting default/p2" in said and "All moves" not in said
    assert api.pod("p2")["spec"]["nodeName"] == "a2"


@pytest.mark.parametrize("answer, words", [
    ({"status": 201, "body": {"kind": "Status", "status": "Failure", "code": 500, "message": "This pod has two budgets."}}, "This pod has two budgets"),
    ({"status": 403, "reason": "Forbidden", "message": 'pods "p1" is forbidden: User "jane" cannot create resource "pods/eviction" in API group ""'},
     "you may not evict pod p1 in namespace default: ask for the verb create on pods/eviction there"),
    ({"status": 404, "reason": "NotFound", "message": 'pods "p1" not found'}, 'pods "p1" not found'),
    ({"status": 409, "reason": "Conflict", "message": "the UID in the precondition does not match"}, "the UID in the precondition does not match"),
])
def test_whatever_refuses_the_first_eviction_leaves_all_as_it_was(api, two_moves, answer, words):
    api.inject("POST", "/p1/eviction$", **answer)
    _, sentence = ends(two_moves)
    assert words in sentence and "0 of 2 moves are done, and pod p1 was not evicted" in sentence
    assert len(evictions(api)) == 1


def test_a_new_pod_on_another_node_ends_it(api, two_moves):
    node(api, "c", 6144, unschedulable=True)
    two_moves.scheduler.has_read_nodes()
    with Cluster(api, two_moves) as cluster:
        def change(name):
            api.patch("nodes", "c", {"spec": {"unschedulable": False}})
            for other in ("b1", "b2"):
                api.patch("nodes", other, {"spec": {"unschedulable": True}})
        cluster.before = change
        _, sentence = ends(two_moves)
    assert sentence == ("pod default/p1-new is on node c, GPU 0, and not on node b1, GPU 0 as planned. 0 of 2 moves are done, and pod p1 was evicted" + NEXT)
    assert len(evictions(api)) == 1


def test_a_new_pod_that_was_bound_by_hand_ends_it(api, two_moves):
    with Cluster(api, two_moves) as cluster, two_moves.start("moves", "--execute") as process:
        cluster.places = ["big1"]
        wait_for(lambda: any(pod["metadata"]["name"] == "p1-new" for pod in api.list("pods")), 60)
        api.bind("p1-new", "b1")
        sentence = process.communicate(timeout=60)[1]
    assert "pod default/p1-new is on node b1 without a GPU of ration, and not on node b1, GPU 0 as planned" in sentence


def test_a_new_pod_on_another_gpu_ends_it(api, planner, agents):    # pylint: disable=unused-argument
    node(api, "a", 8192)
    planner = planner()
    assert schedule(api, planner.scheduler, create(api, "p", manifest(gpu_mem=5), owner="web"))[0]
    node(api, "b", 6144, 6144)
    planner.scheduler.has_read_nodes()
    create(api, "big", manifest(gpu_mem=7))
    with Cluster(api, planner) as cluster:
        cluster.before = lambda name: schedule(api, planner.scheduler, create(
            api, "intruder", manifest(gpu_mem=6, nodeSelector={"kubernetes.io/hostname": "b"})))
        _, sentence = ends(planner)
    assert "pod default/p-new is on node b, GPU 1, and not on node b, GPU 0 as planned" in sentence


@pytest.mark.parametrize("follows, places, words", [
    (False, [], "no new pod has followed pod default/p1 within 3 s: `kubectl describe ReplicaSet web-p1 -n default` may tell why"),
    (True, ["big1", "big2"], "pod default/p1-new was not bound within 3 s, and should be on node b1, GPU 0: "
                             "`ration why p1-new -n default` tells what it waits for"),
    (True, ["p1-new"], "pod default/big1 was not bound within 3 s, and should be on node a1, GPU 0: `ration why big1 -n default`"),
])
def test_a_pod_that_is_never_bound_ends_it(api, two_moves, follows, places, words):
    with Cluster(api, two_moves) as cluster:
        cluster.follows, cluster.places = follows, places
        said, sentence = ends(two_moves, "--timeout", "3", "-o", "json")
    assert words in sentence and "0 of 2 moves are done, and pod p1 was evicted" in sentence
    plan = json.loads(said)
    assert (plan["done"], [move["state"] for move in plan["moves"]]) == (0, ["evicted", "not begun"])
    assert plan["stopped"] == sentence.rstrip("\n")


def test_a_pod_that_has_changed_since_the_plan_is_not_evicted(api, two_moves):
    for change, words in (({"uid": "other"}, "is another pod than when the plan was made"),
                          ({"deletionTimestamp": "2026-05-04T03:02:01Z"}, "is being deleted by someone else")):
        pod = api.pod("p1")
        pod["metadata"].update(change)
        api.inject("GET", "/namespaces/default/pods/p1$", status=200, body=pod)
        _, sentence = ends(two_moves)
        assert words in sentence and "pod p1 was not evicted" in sentence
    assert not evictions(api)


def looks_for_the_new_pod(api, evicted):
    """kubectl has had the answer to the eviction: `ration plan` lists the pods after it."""
    calls = [(request.method, request.path) for request in list(api.requests)]
    eviction = ("POST", f"/api/v1/namespaces/default/pods/{evicted}/eviction")
    return eviction in calls and ("GET", "/api/v1/namespaces/default/pods") in calls[calls.index(eviction):]


@pytest.mark.parametrize("to_group", [False, True])
def test_an_interrupt_says_what_was_done(api, two_moves, to_group):
    with Cluster(api, two_moves) as cluster, two_moves.start("moves", "--execute", "-o", "json") as process:
        cluster.places = ["p1-new", "big1", "big2"]
        wait_for(lambda: looks_for_the_new_pod(api, "p2") or process.poll() is not None, 60)
        (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
        out, sentence = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "interrupted by signal 2. 1 of 2 moves are done, and pod p2 was evicted" in sentence.splitlines()[-1]
    assert [move["state"] for move in json.loads(out)["moves"]] == ["done", "evicted"]
    assert not in_lists(api)


def test_an_interrupt_in_the_middle_of_an_eviction_says_that_it_may_have_happened(api, two_moves):
    api.inject("POST", "/p1/eviction$", hang=True)
    with two_moves.start("moves", "--execute", "-o", "json") as process:
        wait_for(lambda: evictions(api) or process.poll() is not None, 60)
        os.killpg(process.pid, signal.SIGINT)
        out, sentence = process.communicate(timeout=60)
    assert "0 of 2 moves are done, and pod p1 may have been evicted" in sentence.splitlines()[-1]
    assert [move["state"] for move in json.loads(out)["moves"]] == ["unknown", "not begun"]


# ---- the GPUs are cordoned meanwhile ----

def test_a_new_pod_that_fits_beside_the_old_one_goes_elsewhere(api, planner, agents):
    """Without the cordon, it would take the place of 3 units beside the old one."""
    node(api, "a", 8192)
    planner = planner()
    assert schedule(api, planner.scheduler, create(api, "p", manifest(gpu_mem=3), owner="web"))[0]
    node(api, "b", 4096)
    planner.scheduler.has_read_nodes()
    create(api, "big", manifest(gpu_mem=7))
    with Cluster(api, planner):
        assert planner.text("moves", "--execute").endswith("All moves are done.\n")
    assert (api.pod("p-new")["spec"]["nodeName"], api.pod("big")["spec"]["nodeName"]) == ("b", "a")
    assert agents.cordoned == [("a", 0)] and not in_lists(api)


def test_a_gpu_that_a_second_pod_leaves_is_cordoned_again(api, planner, agents):
    """The second move waits until the agent shows that the first one has uncordoned the GPU."""
    agents.late_s = 3
    node(api, "b", 8192)
    node(api, "c", 8192)
    planner = planner()
    for name in ("fixed1", "fixed2"):    # no controller: they stay
        assert schedule(api, planner.scheduler, create(api, name, manifest(gpu_mem=6)))[0]
    node(api, "a", 8192)
    planner.scheduler.has_read_nodes()
    for name in ("p1", "p2"):
        made = create(api, name, manifest(gpu_mem=2, nodeSelector={"kubernetes.io/hostname": "a"}), owner=f"web-{name}")
        assert schedule(api, planner.scheduler, made)[0] == "a"
        api.patch("pods", name, {"spec": {"nodeSelector": None}})
    create(api, "big", manifest(gpu_mem=8))
    planner.scheduler.has_read_pods()
    with Cluster(api, planner):
        assert planner.text("moves", "--execute").endswith("2 of 2: default/big runs on node a\nAll moves are done.\n")
    assert agents.cordoned == [("a", 0), ("a", 0)] and not in_lists(api)


def test_an_interrupt_ends_the_wait_for_an_agent_that_does_not_uncordon(api, two_moves, agents):
    with Cluster(api, two_moves) as cluster, two_moves.start("moves", "--execute") as process:
        cluster.places, cluster.before = ["p1-new"], lambda name: setattr(agents, "works", False)
        wait_for(lambda: "p1-new" in [pod["metadata"]["name"] for pod in api.list("pods") if pod["spec"].get("nodeName")], 60)
        wait_for(lambda: not in_lists(api), 60)
        process.send_signal(signal.SIGINT)
        sentence = process.communicate(timeout=20)[1]
    assert "interrupted by signal 2. 0 of 2 moves are done, and pod p1 was evicted" in sentence and "stays cordoned" not in sentence


def test_other_cordons_of_the_node_stay(api, two_moves):
    entry = {"uuid": "GPU-old", "reason": "fan"}
    api.create("configmaps", {"metadata": {"name": "unhealthy-gpu-a1", "namespace": "kube-system", "annotations": {
        "ration.dev/cordoned": json.dumps({"gpus": "7", "entries": [entry]})}}, "data": {"gpus": "7"}})
    with Cluster(api, two_moves):
        two_moves.text("moves", "--execute")
    assert in_lists(api) == ["7"]


def test_a_surprise_leaves_no_gpu_cordoned(api, two_moves, agents):
    api.inject("POST", "/p1/eviction$", status=429, reason="TooManyRequests", message="Cannot evict pod.")
    ends(two_moves)
    assert agents.cordoned == [("a1", 0)] and not in_lists(api)


def test_a_gpu_that_cannot_be_cordoned_ends_it_before_the_eviction(api, two_moves):
    api.inject("POST", "/configmaps$", status=403, reason="Forbidden", message='configmaps is forbidden: User "jane" cannot create')
    _, sentence = ends(two_moves)
    assert "you may not create ConfigMap unhealthy-gpu-a1 in kube-system" in sentence and "pod p1 was not evicted" in sentence
    assert not evictions(api)


def test_an_interrupt_ends_the_wait_for_an_agent(api, two_moves, agents):
    agents.works = False
    with two_moves.start("moves", "--execute") as process:
        wait_for(lambda: in_lists(api) or process.poll() is not None, 60)
        process.send_signal(signal.SIGINT)
        sentence = process.communicate(timeout=20)[1]
    assert "interrupted by signal 2. 0 of 2 moves are done, and pod p1 was not evicted" in sentence
    assert not in_lists(api) and not evictions(api)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGPIPE])
def test_a_lost_terminal_and_a_closed_pipe_leave_no_gpu_cordoned(api, two_moves, agents, number):
    agents.works = False
    # The tests may run under nohup, which the next test is about.
    with two_moves.start("moves", "--execute", before=["env", "--default-signal=HUP"]) as process:
        wait_for(lambda: in_lists(api) or process.poll() is not None, 60)
        process.send_signal(number)
        sentence = process.communicate(timeout=20)[1]
    assert f"interrupted by signal {number.value}. 0 of 2 moves are done, and pod p1 was not evicted" in sentence
    assert not in_lists(api) and not evictions(api)


def test_with_nohup_a_lost_terminal_does_not_end_the_moves(api, two_moves, agents):    # pylint: disable=unused-argument
    with Cluster(api, two_moves) as cluster, two_moves.start("moves", "--execute", before=["nohup"]) as process:
        cluster.before = lambda name: process.send_signal(signal.SIGHUP)
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and said.endswith("All moves are done.\n")


def test_a_gpu_that_someone_else_cordons_meanwhile_stays_cordoned(api, two_moves):
    def cordon(name):
        subprocess.run([RATION, "cordon", "a1", "0", "--reason", "its fan", "--timeout", "0"], check=True, capture_output=True,
                       env=two_moves.environment()) if name == "p1" else None
    with Cluster(api, two_moves) as cluster:
        cluster.before = cordon
        ends(two_moves, "--timeout", "4")
    assert in_lists(api) == ["0"]
    assert "its fan" in api.list("configmaps")[0]["metadata"]["annotations"]["ration.dev/cordoned"]


def test_a_gpu_that_cannot_be_uncordoned_is_named(api, two_moves):
    with Cluster(api, two_moves) as cluster:
        cluster.before = lambda name: api.inject("PUT", "/configmaps/unhealthy-gpu-a1$", status=500, times=9, reason="InternalError", message="no")
        _, sentence = ends(two_moves)
    assert "GPU 0 of node a1 stays cordoned: `ration uncordon a1 0` gives it back" in sentence
    assert in_lists(api) == ["0"]


@pytest.mark.parametrize("args", [["pods", "-f", "x", "--execute"], ["add", "--like", "a", "--execute"], ["drain", "a", "--force"], ["moves", "--execute", "--force"], ["moves", "--timeout", "0", "--execute"],
                                  ["moves", "--execute", "--history", "x", "--objects", "y"], ["moves", "--execute=yes"]])
def test_wrong_arguments_are_refused(args):
    done = subprocess.run([RATION, "plan", *args], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "Try 'ration plan --help'" in done.stderr


def test_the_example_of_the_guide_is_what_is_printed(api, planner, agents):    # pylint: disable=unused-argument
    node(api, "a1", 8192)
    planner = planner()
    assert schedule(api, planner.scheduler, create(api, "p1", manifest(gpu_mem=5), owner="web"))[0]
    node(api, "b1", 6144)
    planner.scheduler.has_read_nodes()
    create(api, "big1", manifest(gpu_mem=7))
    with Cluster(api, planner):
        said = planner.text("moves", "--execute")
    assert "All moves are done.\n" in said
    assert f"```\n{said}```\n" in (pathlib.Path(__file__).resolve().parents[2] / "docs/guide/plan.md").read_text()
