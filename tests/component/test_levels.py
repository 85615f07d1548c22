"""ResourcePolicies, with a small API server: which nodes ration-scheduler lets a pod use, what it waits for and what it
writes. Pods without a GPU unless said otherwise: the entry that is asked about every pod."""
import json
import re
import time

import pytest

from fake_apiserver import FOREVER, wait_for
from histories import kinds, replay, save, sums
from scheduler_fixture import gpu_node
from unit_policies import NODES, ask, policy, ready, status

COST = "controller.kubernetes.io/pod-deletion-cost"
POOL_A = {"resource": "idc", "nodeSelector": {"pool": "a"}}
POOL_B = {"resource": "ecs", "nodeSelector": {"pool": "b"}}
ECI = {"resource": "eci"}


@pytest.fixture(name="nodes")
def _nodes(api):
    for name in NODES:
        api.create_node(name, labels={"type": "virtual-kubelet"} if name == "v1" else {"pool": name[0]})
    return NODES


def web(api, name, node=None, labels=None, **more):
    return api.create_pod(name, node=node, labels={"app": "web", **(labels or {})}, owner="rs",
                          spec={"containers": [{"name": "main", "image": "x", **more}]})


def names(answer):
    assert answer["Error"] == ""
    return answer["NodeNames"]


def said(answer):
    assert answer["NodeNames"] == []
    texts = set(answer["FailedAndUnresolvableNodes"].values())
    assert len(texts) == 1, texts
    return texts.pop()


def placed(api, scheduler, name, nodes=None, **more):
    """As kube-scheduler does it: filter, then a Binding of its own."""
    pod = web(api, name, **more)
    offered = names(wait_for(lambda: (lambda a: a if a["NodeNames"] else None)(ask(scheduler, pod, nodes))))
    api.bind(name, offered[0])
    return offered


def condition(api, name="team"):
    return next(iter(status(api, name).get("conditions") or []), {})


def nudged(api, name):
    return "ration.dev/nudge" in api.pod(name)["metadata"]["annotations"]


# ---- levels in their order

def test_levels_fill_in_order_up_to_their_maximum(api, start, nodes):
    policy(api, [{**POOL_A, "max": 3}, {**POOL_B, "max": 2}, ECI])
    scheduler = start()
    offered = [placed(api, scheduler, f"p{i}") for i in range(7)]
    assert offered == [["a1", "a2"]] * 3 + [["b1", "b2"]] * 2 + [["v1"]] * 2
    wait_for(lambda: [u["pods"] for u in status(api).get("units", [])] == [3, 2, 2])
    assert status(api)["pods"] == 7 and status(api)["level"] == "3/3 eci"
    assert status(api)["reason"] == ("level 3 (eci): level 1 (idc) has its maximum of 3 pods, level 2 (ecs) has its "
                                     "maximum of 2 pods")
    assert condition(api)["status"] == "True"


def test_answers_count_before_their_pods_are_bound(api, start, nodes):
    policy(api, [{**POOL_A, "max": 2}, POOL_B])
    scheduler = start()
    ready(api)
    pods = [web(api, f"p{i}") for i in range(4)]
    assert [names(ask(scheduler, pod))[0][0] for pod in pods] == ["a", "a", "b", "b"]
    # The same pod again takes no second place.
    assert [names(ask(scheduler, pod))[0][0] for pod in pods] == ["a", "a", "b", "b"]
    api.delete("pods", "p0")
    wait_for(lambda: names(ask(scheduler, pods[3]))[0][0] == "a")


def test_a_level_without_room_is_passed_over(api, start, nodes):
    policy(api, [{**POOL_A, "max": 5}, POOL_B])
    scheduler = start()
    ready(api)
    assert names(ask(scheduler, web(api, "p"), ["b2", "v1"])) == ["b2"]
    assert said(ask(scheduler, api.pod("p"), ["v1"])) == (
        "ResourcePolicy team: no level is left: level 1 (idc) has no room, level 2 (ecs) has no room")


def test_max_resources_limits_the_sum_of_requests(api, start, nodes):
    policy(api, [{**POOL_A, "maxResources": {"cpu": "2", "memory": "10Gi"}}, POOL_B])
    scheduler = start()
    ready(api)
    cpu = {"resources": {"requests": {"cpu": "900m", "memory": "1Gi"}}}
    assert [placed(api, scheduler, f"p{i}", **cpu)[0][0] for i in range(3)] == ["a", "a", "b"]
    assert placed(api, scheduler, "small", resources={"requests": {"cpu": "200m"}})[0][0] == "a"


def test_others_pods_and_pods_without_a_policy_pass(api, start, nodes):
    policy(api, [{**POOL_A, "max": 0}])
    scheduler = start()
    ready(api)
    other = api.create_pod("db", labels={"app": "db"}, spec={"containers": [{"name": "main", "image": "x"}]})
    elsewhere = api.create_pod("web", namespace="kube-system", labels={"app": "web"},
                               spec={"containers": [{"name": "main", "image": "x"}]})
    assert names(ask(scheduler, other)) == NODES and names(ask(scheduler, elsewhere)) == NODES
    assert said(ask(scheduler, web(api, "p"))).startswith("ResourcePolicy team: no level is left")
    # Asked about a pod with a GPU this entry lets it pass: the other one has narrowed its nodes.
    gpu = api.create_pod("gpu", gpu_mem=1, labels={"app": "web"})
    assert names(ask(scheduler, gpu)) == NODES


def test_of_two_policies_the_older_one_holds(api, start, nodes):
    policy(api, [POOL_B], name="young")
    old = policy(api, [POOL_A], name="zold")
    api.update("resourcepolicies", {**old, "metadata": {**old["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"}})
    scheduler = start()
    assert placed(api, scheduler, "p") == ["a1", "a2"]


@pytest.mark.waits
def test_without_the_crd_nothing_is_asked_for_and_later_it_is_found(api, start, nodes):
    api.hidden.add("resourcepolicies")
    scheduler = start()
    assert names(ask(scheduler, web(api, "p"))) == NODES
    assert "warning" not in scheduler.text().lower()
    api.hidden.clear()
    policy(api, [POOL_B])
    wait_for(lambda: names(ask(scheduler, api.pod("p"))) == ["b1", "b2"], timeout=40)


def test_a_malformed_policy_is_said_and_holds_for_nobody(api, start, nodes):
    policy(api, [{"resource": "ecs", "max": -1}])
    scheduler = start()
    wait_for(lambda: condition(api).get("status") == "False")
    assert condition(api)["message"] == "units[0].max is not a number from 0 to 2147483647"
    assert names(ask(scheduler, web(api, "p"))) == NODES
    api.patch("resourcepolicies", "team", {"spec": {"units": [POOL_B]}}, "default")
    wait_for(lambda: condition(api).get("status") == "True")
    assert status(api)["observedGeneration"] == 2
    assert placed(api, scheduler, "q") == ["b1", "b2"]


def test_policies_of_more_namespaces_than_can_be_followed_say_so_and_come_later(api, start, nodes):
    for i in range(102):
        api.create("resourcepolicies", {"metadata": {"name": "team", "namespace": f"ns{i}"}, "spec": {"units": [POOL_A]}})
    start()

    def refused():
        found = {p["metadata"]["namespace"]: p["status"]["conditions"][0] for p in api.list("resourcepolicies")
                 if p.get("status")}
        return found if len(found) == 102 and sum(c["status"] == "False" for c in found.values()) == 2 else None

    conditions = wait_for(refused, timeout=30)
    late = sorted(name for name, c in conditions.items() if c["status"] == "False")
    assert {(conditions[name]["reason"], conditions[name]["message"]) for name in late} == {
        ("TooMany", "100 other namespaces have ResourcePolicies already")}
    api.delete("resourcepolicies", "team", next(name for name in conditions if name not in late))
    wait_for(lambda: [api.get("resourcepolicies", "team", name)["status"]["conditions"][0]["status"]
                      for name in late].count("True") == 1, timeout=20)


# ---- where the facts come from

PODS_OF_DEFAULT = "/namespaces/default/pods$"


def test_policies_open_no_watch_of_their_own_and_list_a_namespace_once(api, start, nodes):
    web(api, "before", node="a1")
    scheduler = start()
    scheduler.has_read_pods()
    policy(api, [{**POOL_A, "max": 2}, POOL_B])
    policy(api, [{**POOL_A, "max": 2}, POOL_B], name="other", selector={"app": "db"})
    wait_for(lambda: status(api).get("pods") == 1)
    api.create_node("a3", labels={"pool": "a"})
    scheduler.has_read_nodes()
    assert names(ask(scheduler, web(api, "p"), [*NODES, "a3"])) == ["a1", "a2", "a3"]
    assert names(ask(scheduler, web(api, "q"))) == ["b1", "b2"]
    api.set_phase("before", "Succeeded")
    wait_for(lambda: names(ask(scheduler, api.pod("q"))) == ["a1", "a2"])
    assert api.watches("pods") == api.watches("nodes") == 1
    assert len(api.requests_for("GET", PODS_OF_DEFAULT)) == 1


def test_what_the_watch_told_while_the_namespace_was_listed_is_newer_than_the_list(api, start, nodes):
    for name in ("stays", "ends", "goes", "leaves"):
        web(api, name, node="a1")
    web(api, "moves")
    scheduler = start()
    scheduler.has_read_pods()
    late = api.inject("GET", PODS_OF_DEFAULT, late=1.5)
    policy(api, [{**POOL_A, "max": 3}, POOL_B])
    wait_for(lambda: not late.times, what="the list is asked for")
    time.sleep(0.3)    # and made
    api.set_phase("ends", "Failed")
    api.delete("pods", "goes", "default")
    api.patch("pods", "leaves", {"metadata": {"labels": {"app": "other"}}}, "default")
    api.bind("moves", "a2")
    scheduler.has_read_pods()
    assert said(ask(scheduler, web(api, "p"))) == "ResourcePolicy team: the pods of its namespace are not read yet"
    wait_for(lambda: nudged(api, "p"), what="the list")
    assert names(ask(scheduler, api.pod("p"))) == ["a1", "a2"]
    assert names(ask(scheduler, web(api, "q"))) == ["b1", "b2"]    # three are there: stays, moves, p
    wait_for(lambda: [u["pods"] for u in status(api).get("units", [])] == [3, 1])


def test_no_pod_is_bound_before_the_pods_of_its_namespace_are_read(api, start, nodes):
    """Another process has answered filter, and this one does not know yet how many pods are there."""
    policy(api, [{**POOL_A, "max": 1}, POOL_B])
    web(api, "first", node="a1")
    pod = web(api, "p")
    late = api.inject("GET", PODS_OF_DEFAULT, delay=1.5)
    scheduler = start()
    scheduler.has_read_pods()
    assert "the pods of namespace default are not read yet" in scheduler.bind(pod, "a1")
    wait_for(lambda: "no place in a level of node a1" in scheduler.bind(pod, "a1"))
    assert not late.times and scheduler.bind(pod, "b1") == ""


def test_pods_are_bound_in_a_namespace_whose_policies_are_all_malformed(api, start, nodes):
    policy(api, [{"resource": "ecs", "max": -1}])
    scheduler = start()
    wait_for(lambda: condition(api).get("status") == "False")
    pod = web(api, "p")
    assert names(ask(scheduler, pod)) == NODES
    assert scheduler.bind(pod, "a1") == ""


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 403}, {"status": 200, "body": '{"items": [{"metadata"'}, {"status": 200, "body": "[]"},
                                   {"cut_after": 40}, {"drop": True}], ids=["error", "forbidden", "malformed", "no-list", "cut", "dropped"])
def test_a_list_of_a_namespace_that_fails_is_asked_for_again_and_nobody_is_let_in_before(api, start, nodes, fault):
    web(api, "before", node="a1")
    scheduler = start()
    failing = api.inject("GET", PODS_OF_DEFAULT, times=3, **fault)
    policy(api, [{**POOL_A, "max": 1}, POOL_B])
    wait_for(lambda: failing.times < 3)
    assert said(ask(scheduler, web(api, "p"))) == "ResourcePolicy team: the pods of its namespace are not read yet"
    wait_for(lambda: nudged(api, "p"))
    assert names(ask(scheduler, api.pod("p"))) == ["b1", "b2"] and not failing.times


def test_a_pod_that_only_the_list_has_shown_is_forgotten_after_a_gap_of_the_watch(api, start, nodes):
    scheduler = start()
    scheduler.has_read_pods()
    late = api.inject("GET", PODS_OF_DEFAULT, delay=1.0)
    policy(api, [{**POOL_A, "max": 1}, POOL_B])
    wait_for(lambda: not late.times, what="the list is asked for")
    api.silence(True)
    web(api, "ghost", node="a1")
    time.sleep(1.5)    # it is in the list, and the watch has not shown it
    api.delete("pods", "ghost", "default")
    api.expire()
    time.sleep(0.3)    # the watch that is silent has no news any more
    api.silence(False)
    pod = web(api, "p")
    wait_for(lambda: ask(scheduler, pod)["NodeNames"] == ["a1", "a2"], 15, "the ghost has gone")


def test_until_the_nodes_are_read_nobody_gets_a_unit_and_no_cost_is_taken_away(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}, POOL_B])
    web(api, "first", node="a1")
    api.create_pod("second", node="b1", labels={"app": "web"}, owner="rs",
                   annotations={COST: "-1", "ration.dev/level-cost": "-1"},
                   spec={"containers": [{"name": "main", "image": "x"}]})
    failing = api.inject("GET", "/api/v1/nodes$", times=FOREVER, watch=False, status=500)
    scheduler = start(ready=False)
    wait_for(lambda: api.requests_for("GET", PODS_OF_DEFAULT), what="the pods of the namespace are read")
    web(api, "p")
    until = time.monotonic() + 2
    while time.monotonic() < until:
        assert not ask(scheduler, api.pod("p"))["NodeNames"]
        assert api.requests_for("PATCH", "/pods/second$") == [] and not status(api)
    failing.times = 0
    wait_for(lambda: ask(scheduler, api.pod("p"))["NodeNames"] == ["b1", "b2"], 15)
    assert api.requests_for("PATCH", "/pods/second$") == []


def test_costs_are_taken_back_of_a_policy_that_goes_while_its_pods_are_read(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}, POOL_B])
    start()
    ready(api)
    web(api, "first", node="a1")
    web(api, "second", node="b1")
    wait_for(lambda: api.pod("second")["metadata"]["annotations"].get(COST) == "-1")
    late = api.inject("GET", PODS_OF_DEFAULT, delay=1.5)
    api.patch("resourcepolicies", "team", {"spec": {"units": [POOL_A, {**POOL_B, "podAnnotations": {"note": "one"}}]}}, "default")
    wait_for(lambda: not late.times, what="the pods are read for the new annotation")
    api.delete("resourcepolicies", "team", "default")
    wait_for(lambda: COST not in api.pod("second")["metadata"]["annotations"], 15)


def test_annotations_that_a_new_policy_names_are_read_of_the_pods_that_are_there(api, start, nodes):
    policy(api, [POOL_A, POOL_B])
    scheduler = start()
    api.create_pod("noted", node="a1", labels={"app": "web"}, annotations={"note": "one"})
    wait_for(lambda: status(api).get("pods") == 1)
    api.patch("resourcepolicies", "team", {"spec": {"units": [{**POOL_A, "max": 1, "podAnnotations": {"note": "one"}}, POOL_B]}},
              "default")
    wait_for(lambda: status(api)["observedGeneration"] == 2 and [u["pods"] for u in status(api)["units"]] == [1, 0])
    assert names(ask(scheduler, web(api, "p"))) == ["b1", "b2"]


def test_a_node_that_comes_back_under_its_name_has_its_new_labels(api, start, nodes):
    policy(api, [POOL_A, POOL_B])
    scheduler = start()
    ready(api)
    api.delete("nodes", "a1")
    scheduler.has_read_nodes()
    assert names(ask(scheduler, web(api, "p"))) == ["a2"]
    api.create_node("a1", labels={"pool": "b"})
    scheduler.has_read_nodes()
    assert names(ask(scheduler, api.pod("p"))) == ["a2"]
    assert names(ask(scheduler, api.pod("p"), ["a1", "b1"])) == ["a1", "b1"]


# ---- whenTryNextUnits

def test_exceed_max_waits_for_its_level_until_there_is_room_or_it_is_full(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}, POOL_B], whenTryNextUnits={"policy": "ExceedMax"})
    scheduler = start()
    ready(api)
    pod = web(api, "p")
    for _ in range(3):
        assert said(ask(scheduler, pod, ["b1"])) == (
            "ResourcePolicy team: waits for level 1 (idc): level 1 (idc) has no room")
    assert names(ask(scheduler, pod)) == ["a1", "a2"]
    assert names(ask(scheduler, web(api, "q"), ["b1"])) == ["b1"]    # level 1 is full by the first


@pytest.mark.waits
def test_timeout_or_exceed_max_wakes_the_pod_when_its_time_is_over(api, start, nodes):
    policy(api, [{**POOL_A, "max": 5}, POOL_B], whenTryNextUnits={"policy": "TimeoutOrExceedMax", "timeout": "2s"})
    scheduler = start()
    ready(api)
    pod, began = web(api, "p"), time.monotonic()
    assert said(ask(scheduler, pod, ["b1"])).startswith("ResourcePolicy team: waits for level 1 (idc)")
    wait_for(lambda: nudged(api, "p"), timeout=8)
    assert time.monotonic() - began >= 2
    assert names(ask(scheduler, pod, ["b1"])) == ["b1"]
    # Without max there is no waiting, unless the label asks for it.
    api.patch("resourcepolicies", "team", {"spec": {"units": [POOL_A, POOL_B]}}, "default")
    wait_for(lambda: names(ask(scheduler, web(api, f"q{time.monotonic_ns()}"), ["b1"])) == ["b1"])
    api.patch("resourcepolicies", "team", {"spec": {"units": [
        {**POOL_A, "podLabels": {"k8s.aliyun.com/resource-policy-wait-for-ecs-scaling": "true"}}, POOL_B]}}, "default")
    wait_for(lambda: status(api).get("observedGeneration") == 3)
    assert "waits for level 1" in said(ask(scheduler, web(api, "r"), ["b1"]))


def test_lack_and_no_terminating_waits_for_the_end_of_a_pod(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}, POOL_B], whenTryNextUnits={"policy": "LackResourceAndNoTerminating"})
    scheduler = start()
    ready(api)
    placed(api, scheduler, "old")
    assert placed(api, scheduler, "more") == ["b1", "b2"]
    api.patch("pods", "old", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "default")
    wait_for(lambda: (status(api).get("units") or [{}])[0].get("terminating") == 1)
    pod = web(api, "new")
    assert said(ask(scheduler, pod, ["b1"])) == (
        "ResourcePolicy team: waits for the end of a terminating pod of level 1 (idc): level 1 (idc) has no room")
    api.delete("pods", "old")
    wait_for(lambda: nudged(api, "new"))
    assert names(ask(scheduler, pod)) == ["a1", "a2"]


def test_a_terminating_pod_makes_room_at_once_unless_it_is_to_count(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}])
    policy(api, [{**POOL_A, "max": 1}], name="strict", selector={"app": "db"}, ignoreTerminatingPod=False)
    for app in ("web", "db"):
        api.create_pod(f"old-{app}", node="a1", labels={"app": app})
        api.patch("pods", f"old-{app}", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "default")
    scheduler = start()
    assert placed(api, scheduler, "p") == ["a1", "a2"]
    db = api.create_pod("q", labels={"app": "db"}, spec={"containers": [{"name": "main", "image": "x"}]})
    assert said(ask(scheduler, db)).endswith("level 1 (idc) has its maximum of 1 pods")
    api.delete("pods", "old-db")
    wait_for(lambda: nudged(api, "q"))


def test_pods_from_before_the_policy_count_unless_it_ignores_them(api, start, nodes):
    bound = {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True",
                                                 "lastTransitionTime": "2020-01-01T00:00:00Z"}]}
    api.create_pod("old", node="a1", labels={"app": "web"}, status=bound)
    api.create_pod("old-db", node="a1", labels={"app": "db"}, status=bound)
    policy(api, [{**POOL_A, "max": 1}, POOL_B])
    policy(api, [{**POOL_A, "max": 1}, POOL_B], name="lenient", selector={"app": "db"}, ignorePreviousPod=True)
    scheduler = start()
    assert placed(api, scheduler, "p") == ["b1", "b2"]
    db = api.create_pod("q", labels={"app": "db"}, spec={"containers": [{"name": "main", "image": "x"}]})
    assert names(ask(scheduler, db)) == ["a1", "a2"]


# ---- groups, edits

def test_each_group_of_match_label_keys_has_the_maximum(api, start, nodes):
    policy(api, [{**POOL_A, "max": 2}, POOL_B], matchLabelKeys=["pod-template-hash"])
    scheduler = start()
    ready(api)
    old, new = {"labels": {"pod-template-hash": "old"}}, {"labels": {"pod-template-hash": "new"}}
    assert [placed(api, scheduler, f"o{i}", **old)[0][0] for i in range(3)] == ["a", "a", "b"]
    assert [placed(api, scheduler, f"n{i}", **new)[0][0] for i in range(3)] == ["a", "a", "b"]
    assert said(ask(scheduler, web(api, "p"))) == "ResourcePolicy team: the pod lacks a label of its matchLabelKeys"


def test_a_policy_edited_while_pods_run_holds_for_all_of_them(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}, POOL_B])
    scheduler = start()
    placed(api, scheduler, "p0")
    waiting = web(api, "w")
    assert names(ask(scheduler, waiting)) == ["b1", "b2"]
    api.patch("resourcepolicies", "team", {"spec": {"units": [{**POOL_A, "max": 1}]}}, "default")
    wait_for(lambda: not ask(scheduler, waiting)["NodeNames"])
    api.patch("resourcepolicies", "team", {"spec": {"units": [{**POOL_A, "max": 2}]}}, "default")
    wait_for(lambda: nudged(api, "w"))
    assert names(ask(scheduler, waiting)) == ["a1", "a2"]
    api.delete("resourcepolicies", "team", "default")
    wait_for(lambda: names(ask(scheduler, waiting)) == NODES)


def test_a_relabelled_node_changes_its_level(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}, POOL_B])
    scheduler = start()
    placed(api, scheduler, "p0")
    waiting = web(api, "w")
    api.patch("nodes", "a1", {"metadata": {"labels": {"pool": "b"}}})
    wait_for(lambda: names(ask(scheduler, waiting)) == ["a2"])


# ---- what is written

def test_marks_of_a_level_are_on_the_pod_before_it_may_be_bound(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1, "podLabels": {"level": "first"}, "podAnnotations": {"note": "one"}},
                 {**POOL_B, "podLabels": {"tier": "second"}}])
    scheduler = start()
    assert placed(api, scheduler, "p") == ["a1", "a2"]
    # Before the policies were read the pod may have waited, and was requeued by an annotation.
    patches = [request.body["metadata"] for request in api.requests_for("PATCH", r"/pods/p$") if "labels" in request.body["metadata"]]
    assert patches[0]["labels"] == {"level": "first"} and patches[0]["uid"]
    assert api.pod("p")["metadata"]["labels"] == {"app": "web", "level": "first"}
    assert api.pod("p")["metadata"]["annotations"]["note"] == "one"
    # Somebody's pod of the same labels on the same node, but without the marks, does not count.
    api.create_pod("foreign", node="a1", labels={"app": "web"})
    wait_for(lambda: [u["pods"] for u in status(api).get("units", [])] == [1, 0])
    # Another level, other labels: those of the first go.
    pod = web(api, "q", labels={"level": "first"})
    assert names(ask(scheduler, pod)) == ["b1", "b2"]
    assert api.pod("q")["metadata"]["labels"] == {"app": "web", "tier": "second"}
    third = web(api, "r", labels={"level": "first"})
    api.patch("resourcepolicies", "team", {"spec": {"units": [
        {**POOL_A, "max": 1, "podLabels": {"level": "first"}}, POOL_B]}}, "default")
    wait_for(lambda: status(api).get("observedGeneration") == 2)
    assert names(ask(scheduler, third)) == ["b1", "b2"] and api.pod("r")["metadata"]["labels"] == {"app": "web"}


def test_without_its_marks_a_pod_is_not_offered_a_node(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1, "podLabels": {"level": "first"}}])
    scheduler = start()
    ready(api)
    pod = web(api, "p")
    api.inject("PATCH", r"/pods/p$", status=500)
    assert said(ask(scheduler, pod)) == "the labels of its level could not be written, trying again"
    wait_for(lambda: nudged(api, "p"))
    assert names(ask(scheduler, pod)) == ["a1", "a2"]


def test_a_question_about_a_pod_that_is_bound_already_writes_nothing(api, start, nodes):
    """kube-scheduler's view may be older than ours: somebody else has bound the pod."""
    policy(api, [{**POOL_A, "podLabels": {"level": "first"}, "podAnnotations": {"note": "one"}}, POOL_B])
    scheduler = start()
    ready(api)
    pod = web(api, "p")
    assert names(ask(scheduler, web(api, "q"))) == ["a1", "a2"]
    api.bind("p", "a2")
    api.create_pod("last", node="a1", labels={"app": "web", "level": "first"}, annotations={"note": "one"})
    wait_for(lambda: status(api).get("pods") == 2)
    assert names(ask(scheduler, pod)) == ["a1", "a2"]
    assert api.requests_for("PATCH", r"/pods/p$") == [] and scheduler.process.poll() is None


def test_a_users_copy_of_our_cost_does_not_keep_a_namespace_followed(api, start, nodes):
    made = policy(api, [POOL_A, POOL_B])
    start()
    ready(api)
    api.create_pod("copied", labels={"app": "web"}, annotations={COST: "-1", "ration.dev/level-cost": "-1"})
    api.create_pod("zero", node="a1", labels={"app": "web"}, annotations={COST: "0", "ration.dev/level-cost": "0"})
    read = len(api.requests_for("GET", "/namespaces/default/pods$"))
    api.delete("resourcepolicies", made["metadata"]["name"], "default")
    time.sleep(2.5)    # it is forgotten in its second
    policy(api, [POOL_A, POOL_B], name="next")
    wait_for(lambda: len(api.requests_for("GET", "/namespaces/default/pods$")) == read + 1, what="its pods are read anew")


def test_pods_of_later_levels_are_scaled_in_first_and_a_users_own_cost_stays(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}, {**POOL_B, "max": 1}, ECI])
    scheduler = start()
    for i in range(3):
        placed(api, scheduler, f"p{i}")
    api.create_pod("own", node="v1", labels={"app": "web"}, owner="rs", annotations={COST: "7"})
    api.create_pod("single", node="v1", labels={"app": "web"})

    def costs():
        return {p["metadata"]["name"]: p["metadata"]["annotations"].get(COST) for p in api.list("pods")}
    wait_for(lambda: costs() == {"p0": None, "p1": "-1", "p2": "-2", "own": "7", "single": None})
    # A user takes over: his value stays whatever happens.
    api.patch("pods", "p2", {"metadata": {"annotations": {COST: "99"}}}, "default")
    api.patch("resourcepolicies", "team", {"spec": {"units": [POOL_B, POOL_A, ECI]}}, "default")
    wait_for(lambda: costs() == {"p0": "-1", "p1": None, "p2": "99", "own": "7", "single": None})
    # Without the policy what we wrote goes.
    api.delete("resourcepolicies", "team", "default")
    wait_for(lambda: costs() == {"p0": None, "p1": None, "p2": "99", "own": "7", "single": None})


def test_who_may_need_a_virtual_node_gets_its_toleration_when_it_waits(api, start, nodes):
    policy(api, [{**POOL_A, "max": 5}, ECI])
    scheduler = start()
    ready(api)
    web(api, "bare")
    api.create_pod("some", labels={"app": "web"}, spec={"containers": [{"name": "main", "image": "x"}], "tolerations": [
        {"key": "x", "operator": "Exists"}]})
    api.create_pod("other", labels={"app": "web"}, spec={"containers": [{"name": "main", "image": "x"}],
                                                        "schedulerName": "default-scheduler"})
    verdict = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}
    web(api, "later")
    api.store.replace("pods", "default", "later", lambda old: {**old, "status": {**old["status"], **verdict["status"]}})
    wait_for(lambda: api.pod("later")["spec"].get("tolerations"), what="one that came later waits, and has it")
    assert not api.requests_for("PATCH", r"/pods/(bare|some|other)$")    # they may fit on a real node
    for name in ("bare", "some", "other"):
        api.store.replace("pods", "default", name, lambda old: {**old, "status": {**old["status"], **verdict["status"]}})
    added = {"key": "virtual-kubelet.io/provider", "operator": "Exists", "effect": "NoSchedule"}
    wait_for(lambda: api.pod("bare")["spec"].get("tolerations") == [added])
    wait_for(lambda: api.pod("some")["spec"]["tolerations"] == [{"key": "x", "operator": "Exists"}, added])
    assert "tolerations" not in api.pod("other")["spec"]


@pytest.mark.waits
def test_only_the_replica_that_leads_writes(api, start, nodes):
    api.create("leases", {"metadata": {"name": "ack-co-scheduler", "namespace": "kube-system"},
                          "spec": {"holderIdentity": "another-host_0b5f"}})
    policy(api, [{**POOL_A, "max": 0}, POOL_B])
    web(api, "p", node="b1")
    start()
    time.sleep(2.5)
    assert not status(api) and COST not in api.pod("p")["metadata"]["annotations"]
    api.delete("leases", "ack-co-scheduler", "kube-system")
    wait_for(lambda: api.pod("p")["metadata"]["annotations"].get(COST) == "-1" and status(api))


def test_status_is_written_at_most_once_a_second(api, start, nodes):
    policy(api, [POOL_A])
    scheduler = start()
    ready(api)
    api.clear_requests()
    began = time.monotonic()
    for i in range(60):
        placed(api, scheduler, f"p{i}")
    wait_for(lambda: status(api).get("pods") == 60)
    assert len(api.requests_for("PATCH", r"/status$")) <= time.monotonic() - began + 2


# ---- preemption

def preempt(scheduler, pod, nodes):
    return scheduler.verb("levels/preempt", {"Pod": pod, "NodeNameToMetaVictims": {
        n: {"Pods": [{"UID": "u"}], "NumPDBViolations": 0} for n in nodes}})["NodeNameToMetaVictims"]


def test_preemption_comes_after_all_levels_and_not_where_a_level_is_full(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}, POOL_B], whenTryNextUnits={"policy": "TimeoutOrExceedMax", "timeout": "1s"})
    scheduler = start()
    ready(api)
    pod = web(api, "p")
    ask(scheduler, pod, ["b1"])
    assert not preempt(scheduler, pod, ["a1", "b2"])    # it still waits for the first level
    time.sleep(1)
    assert set(preempt(scheduler, pod, ["a1", "b2", "v1"])) == {"a1", "b2"}    # filter had nothing to be asked about
    placed(api, scheduler, "q", nodes=["a1"])
    assert set(preempt(scheduler, pod, ["a1", "b2", "v1"])) == {"b2"}


def test_before_next_unit_preempts_level_by_level(api, start, nodes):
    policy(api, [POOL_A, POOL_B, ECI], preemptPolicy="BeforeNextUnit")
    scheduler = start()
    ready(api)
    pod = web(api, "p")
    assert "waits for level 1" in said(ask(scheduler, pod, ["v1"]))
    assert set(preempt(scheduler, pod, ["a1", "b1"])) == {"a1"}
    wait_for(lambda: nudged(api, "p"))    # nothing came of it
    assert "waits for level 2" in said(ask(scheduler, pod, ["v1"]))
    assert set(preempt(scheduler, pod, ["a1", "b1"])) == {"a1", "b1"}
    assert names(ask(scheduler, pod, ["v1"])) == ["v1"]


def test_pods_with_a_gpu_are_no_business_of_the_entry_for_all_pods(api, start, nodes):
    policy(api, [{**POOL_A, "max": 0}])
    scheduler = start()
    ready(api)
    assert set(preempt(scheduler, gpu_pod(api, "gpu"), ["a1", "b1"])) == {"a1", "b1"}


# ---- with a GPU

def gpu_levels(api):
    for name, pool in (("a1", "a"), ("b1", "b")):
        gpu_node(api, name, 8192)
        api.patch("nodes", name, {"metadata": {"labels": {"pool": pool}}})


def gpu_pod(api, name, units=3):
    return api.create_pod(name, gpu_mem=units, labels={"app": "web"}, owner="rs")


def test_gpu_pods_fill_levels_by_cards(api, start, person):
    gpu_levels(api)
    policy(api, [{**POOL_A, "podLabels": {"level": "first"}}, POOL_B])
    scheduler = start()
    ready(api)
    offered = []
    for i in range(5):
        pod = gpu_pod(api, f"p{i}")
        answer = scheduler.filter(pod, ["b1", "a1"])
        offered.append(answer["NodeNames"])
        if answer["NodeNames"]:
            assert scheduler.bind(pod, answer["NodeNames"][0]) == ""
    assert offered == [["a1"], ["a1"], ["b1"], ["b1"], []]
    assert api.pod("p0")["metadata"]["labels"]["level"] == "first" and "level" not in api.pod("p2")["metadata"]["labels"]
    person.world(scheduler)
    said_so = person.why("p2")
    assert "It is in level 2 of 2 (ecs) of ResourcePolicy team. Last answer: ResourcePolicy team: level 2 (ecs): level 1 " \
           "(idc) has no room.\n" in said_so
    assert "not the level that the ResourcePolicy gives" not in said_so
    why = json.loads(scheduler.http("GET", "/why?namespace=default&name=p2")[1])
    assert why["resourcePolicy"]["level"] == 2
    assert any(d.get("text") == "ResourcePolicy team: level 2 (ecs): level 1 (idc) has no room"
               for d in why["decisions"] if d["decision"] == "filter")


def test_gpu_pods_wait_for_their_level_though_another_has_a_card(api, start, tmp_path):
    gpu_levels(api)
    policy(api, [{**POOL_A, "max": 9}, POOL_B], whenTryNextUnits={"policy": "ExceedMax"})
    scheduler = start()
    ready(api)
    big = gpu_pod(api, "big", 8)
    assert scheduler.filter(big, ["b1", "a1"])["NodeNames"] == ["a1"]
    assert scheduler.bind(big, "a1") == ""
    pod = gpu_pod(api, "p")
    answer = scheduler.filter(pod, ["b1", "a1"])
    reasons = {**answer["FailedNodes"], **answer["FailedAndUnresolvableNodes"]}
    assert reasons == {"a1": "no GPU has 3 units free",
                       "b1": "ResourcePolicy team: waits for level 1 (idc): level 1 (idc) has no room"}
    api.delete("pods", "big")
    wait_for(lambda: nudged(api, "p"))
    assert scheduler.filter(pod, ["b1", "a1"])["NodeNames"] == ["a1"]
    # The level is computed again, and so is its reason.
    lines = save(scheduler, tmp_path / "history")
    sums(replay(tmp_path / "history"))
    gave = kinds(lines, "gave")
    assert (gave["filter"], gave["hold"], gave["binding"]) == (3, 2, 1)
    assert any("waits for level 1 (idc)" in line["text"] for line in lines if line.get("gave") in ("filter", "narrowed"))


def test_a_gpu_pod_that_its_level_holds_back_is_not_nudged_at_each_change_of_the_ledger(api, start):
    gpu_levels(api)
    policy(api, [{**POOL_A, "max": 9}, POOL_B], whenTryNextUnits={"policy": "ExceedMax"})
    scheduler = start()
    ready(api)
    big = gpu_pod(api, "big", 8)
    assert scheduler.bind(big, scheduler.filter(big, ["b1", "a1"])["NodeNames"][0]) == ""
    pod, other = gpu_pod(api, "p"), api.create_pod("other", gpu_mem=1)
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        assert scheduler.filter(pod, ["b1", "a1"])["NodeNames"] == []    # though b1 has room
        assert scheduler.filter(other, ["b1"])["NodeNames"] == ["b1"]
        time.sleep(0.15)
    assert 1 <= len(api.requests_for("PATCH", "/pods/p$")) <= 3    # after 0 s, 1 s and 3 s


def test_why_of_a_pod_that_its_policy_holds_back_begins_with_the_policy(api, start, person):
    gpu_levels(api)
    policy(api, [{**POOL_A, "max": 9}, POOL_B], whenTryNextUnits={"policy": "ExceedMax"})
    scheduler = start()
    ready(api)
    big = gpu_pod(api, "big", 8)
    assert scheduler.bind(big, scheduler.filter(big, ["b1", "a1"])["NodeNames"][0]) == ""
    assert scheduler.filter(gpu_pod(api, "p"), ["b1", "a1"])["NodeNames"] == []
    wait_for(lambda: json.loads(scheduler.http("GET", "/why?namespace=default&name=p")[1]).get("pod"))
    person.world(scheduler)
    text = re.sub(r"for \d+ s", "for N s", person.why("p"))
    assert text.startswith("Pod default/p is held back by its ResourcePolicy: ResourcePolicy team: waits for level 1 (idc): level 1 "
                           "(idc) has no room.\nIt asks for 3 units of aliyun.com/gpu-mem.\n")
    assert "It waits for a level, for N s.\n" in text and "although there is room" not in text
    # When the reason has gone, so has the sentence.
    api.delete("pods", "big")
    wait_for(lambda: nudged(api, "p"))
    assert scheduler.filter(api.pod("p"), ["b1", "a1"])["NodeNames"] == ["a1"]
    assert person.why("p").startswith("Pod default/p is being placed: ")


def test_why_tells_of_the_level_of_a_pod_without_a_gpu(api, start, nodes, person):
    policy(api, [{**POOL_A, "max": 0}])
    scheduler = start()
    ready(api)
    said(ask(scheduler, web(api, "p")))
    person.world(scheduler)
    text = re.sub(r"for \d+ s", "for N s", person.why("p"))
    assert text.startswith("Pod default/p asks for no aliyun.com/gpu-mem.\nIt waits for a level, for N s. Last answer: "
                           "ResourcePolicy team: no level is left: level 1 (idc) has its maximum of 0 pods.\n")
    assert "filter: 5 nodes asked, none fits; ResourcePolicy team: no level is left" in text


# ---- after a restart

def test_counts_are_those_of_the_cluster_after_a_restart(api, start, nodes):
    policy(api, [{**POOL_A, "max": 2}, POOL_B])
    scheduler = start()
    placed(api, scheduler, "p0")
    placed(api, scheduler, "p1")
    assert scheduler.stop() == 0
    scheduler.start()
    wait_for(scheduler.ready)
    assert placed(api, scheduler, "p2") == ["b1", "b2"]


def test_who_waited_before_a_restart_is_asked_about_after_it(api, start, nodes):
    """kube-scheduler goes on, and keeps them back until something happens to them."""
    policy(api, [{**POOL_A, "max": 1}])
    scheduler = start()
    placed(api, scheduler, "first")
    pod = web(api, "p")
    assert "no level is left" in said(ask(scheduler, pod))
    assert scheduler.stop() == 0
    api.delete("pods", "first")
    scheduler.start()
    wait_for(scheduler.ready)
    wait_for(lambda: nudged(api, "p"))
    assert names(ask(scheduler, pod)) == ["a1", "a2"]


# ---- who is gone

def test_a_pod_that_is_asked_about_after_its_end_takes_no_place(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}])
    scheduler = start()
    ready(api)
    gone, waits = web(api, "gone"), web(api, "waits")
    assert names(ask(scheduler, gone)) == ["a1", "a2"]
    assert said(ask(scheduler, waits))
    api.delete("pods", "gone")
    wait_for(lambda: nudged(api, "waits"), timeout=8)
    # kube-scheduler had it in hand and has not heard.
    assert said(ask(scheduler, gone)) == "the pod has been deleted"
    assert scheduler.verb("levels/preempt", {"Pod": gone, "NodeNameToMetaVictims": {"a1": {}, "v1": {}}}) == {
        "NodeNameToMetaVictims": {}}
    assert names(ask(scheduler, waits)) == ["a1", "a2"]


@pytest.mark.waits
def test_a_pod_that_never_was_as_far_as_the_watch_tells_has_its_place_for_some_seconds_only(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}])
    scheduler = start()
    ready(api)
    unseen = web(api, "seen")
    unseen = {**unseen, "metadata": {**unseen["metadata"], "name": "unseen", "uid": "of-nobody"}}
    assert names(ask(scheduler, unseen)) == ["a1", "a2"]
    waits = web(api, "waits")
    assert said(ask(scheduler, waits))
    wait_for(lambda: nudged(api, "waits"), timeout=20)
    assert names(ask(scheduler, waits)) == ["a1", "a2"]


def test_a_nudge_that_does_not_arrive_is_given_again(api, start, nodes):
    policy(api, [{**POOL_A, "max": 1}])
    scheduler = start()
    ready(api)
    placed(api, scheduler, "first")
    waits = web(api, "waits")
    assert said(ask(scheduler, waits))
    fault = api.inject("PATCH", "/pods/waits", times=1, status=503)
    api.delete("pods", "first")
    wait_for(lambda: fault.times == 0)
    wait_for(lambda: nudged(api, "waits"), timeout=5)
