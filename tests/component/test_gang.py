"""Gangs as kube-scheduler and the API server see them: one ration-scheduler, calls in parallel as they come."""
import concurrent.futures
import http.client
import json
import time

import pytest

from fake_apiserver import wait_for
from gangs import GROUP, at_bind, at_once, bound, gang_of, has, member, nodes_of, ready, reasons, schedule, starts
from histories import replay, save, sums
from scheduler_fixture import gpu_node


def there(api, name, units):
    """A pod that has so many units of the only card of node a."""
    return api.create_pod(name, gpu_mem=units, node="a", annotations=has(units))


def test_all_members_are_bound_or_none_and_a_stranger_cannot_take_a_place(api, start):
    gpu_node(api, "a", 10240, 10240)
    scheduler = starts(api, start)
    pods = [member(api, f"p{i}", 5, least=4) for i in range(4)]
    stranger = api.create_pod("stranger", gpu_mem=5)
    ready(scheduler, *pods, stranger)
    assert nodes_of(scheduler, pods[3], ["a"]) == ["a"]
    assert reasons(scheduler, stranger, ["a"]) == {"no GPU has 5 units free"}
    assert at_once(scheduler, pods, ["a"]) == [""] * 4
    bindings = api.requests_for("POST", r"/binding$")
    assert len(bindings) == 4
    assert all(b.body["metadata"]["annotations"]["ration.dev/gang"] == "forming" for b in bindings)
    # Once all are there the mark goes.
    wait_for(lambda: not any("ration.dev/gang" in api.pod(f"p{i}")["metadata"]["annotations"] for i in range(4)),
             what="marks taken away")


def test_a_gang_too_large_gets_nothing_and_is_woken_when_there_is_room(api, start):
    gpu_node(api, "a", 10240)
    there(api, "there", 4)
    scheduler = starts(api, start)
    pods = [member(api, f"p{i}", 5) for i in range(2)]
    small = api.create_pod("small", gpu_mem=6)
    ready(scheduler, *pods, small)
    for pod in pods:
        assert reasons(scheduler, pod, ["a"]) == {"no room for its whole gang"}
    assert nodes_of(scheduler, small, ["a"]) == ["a"]      # nothing is held for it
    api.delete("pods", "small", "default")
    api.delete("pods", "there", "default")
    wait_for(lambda: all("ration.dev/nudge" in api.pod(f"p{i}")["metadata"]["annotations"] for i in range(2)),
             what="both nudged")
    assert at_once(scheduler, pods, ["a"]) == ["", ""]


def test_a_nudge_of_a_gang_that_does_not_arrive_is_given_again(api, start):
    scheduler, pods = gang_of(api, start, 2, 5, least=2)
    other = api.create_pod("other", gpu_mem=6)
    ready(scheduler, other)
    assert nodes_of(scheduler, other, ["a"]) == ["a"]
    assert reasons(scheduler, pods[0], ["a"]) == {"no room for its whole gang"}
    fault = api.inject("PATCH", "/pods/p0$", times=1, status=503)
    api.delete("pods", "other", "default")
    wait_for(lambda: not fault.times, what="the first nudge")
    wait_for(lambda: "ration.dev/nudge" in api.pod("p0")["metadata"]["annotations"], 3, "the second one")


def test_a_pod_that_was_told_that_others_lack_is_asked_for_again_when_only_room_lacks(api, start):
    scheduler, pods = gang_of(api, start, 2, 4, least=3)
    assert reasons(scheduler, pods[0], ["a"]) == {"waits for the other pods of its gang"}
    member(api, "p2", 4, least=3)
    wait_for(lambda: "ration.dev/nudge" in api.pod("p0")["metadata"]["annotations"], what="asked for again")
    assert reasons(scheduler, pods[0], ["a"]) == {"no room for its whole gang"}


def test_members_wait_at_bind_at_most_four_seconds_and_everything_is_given_back(api, start):
    scheduler, pods = gang_of(api, start, 2, 5, least=2)
    began = time.monotonic()
    error = schedule(scheduler, pods[0], ["a"])
    assert 3.5 < time.monotonic() - began < 6
    assert error == "not enough pods of its gang came to bind in time, trying again"
    assert scheduler.used() == {"a": [0]}
    assert not api.requests_for("POST", r"/binding$")
    assert reasons(scheduler, pods[1], ["a"]) == {"its gang is tried again in a moment"}
    time.sleep(1.5)
    assert at_once(scheduler, pods, ["a"]) == ["", ""]


def test_a_member_deleted_at_bind_frees_the_others_at_once(api, start):
    scheduler, pods = gang_of(api, start, 3, 3, least=3)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(schedule, scheduler, pod, ["a"]) for pod in pods[:2]]
        wait_for(lambda: at_bind(scheduler, 2), what="two pods at bind")
        api.delete("pods", "p2", "default")
        assert all(w.result() for w in waiting)
    # Not because the four seconds at bind were over.
    assert decisions(scheduler, "p0")[-1]["text"] == (
        "too few of its pods are left, and no others have room; it was at bind")
    assert scheduler.used() == {"a": [0]}


def test_a_caller_that_hangs_up_costs_the_gang_its_plan_and_nobody_is_bound(api, start):
    scheduler, pods = gang_of(api, start, 2, 5, least=2)
    assert nodes_of(scheduler, pods[0], ["a"]) == ["a"]
    connection = http.client.HTTPConnection("127.0.0.1", scheduler.ports[0], timeout=5)
    meta = pods[0]["metadata"]
    connection.request("POST", "/bind", json.dumps({"PodName": meta["name"], "PodNamespace": "default",
                                                    "PodUID": meta["uid"], "Node": "a"}))
    wait_for(lambda: at_bind(scheduler, 1), what="a pod at bind")
    connection.close()
    wait_for(lambda: not at_bind(scheduler, 1), what="its caller is gone")
    assert schedule(scheduler, pods[1], ["a"]) != ""
    assert bound(api, "p0", "p1") == [None, None]


def test_a_member_that_is_made_anew_needs_nobody_else(api, start):
    scheduler, pods = gang_of(api, start, 2, 5, least=2)
    assert at_once(scheduler, pods, ["a"]) == ["", ""]
    wait_for(lambda: "ration.dev/gang" not in api.pod("p0")["metadata"]["annotations"])
    api.delete("pods", "p1", "default")
    again = member(api, "p2", 5)
    ready(scheduler, again)
    wait_for(lambda: scheduler.used() == {"a": [5]})
    assert schedule(scheduler, again, ["a"]) == ""


def test_who_is_left_of_a_gang_that_ran_before_a_restart_needs_no_others(api, start):
    gpu_node(api, "a", 10240)
    scheduler = starts(api, start)
    pods = [member(api, f"p{i}", 5, owner="job") for i in range(2)]
    ready(scheduler, *pods)
    assert at_once(scheduler, pods, ["a"]) == ["", ""]
    wait_for(lambda: not any("ration.dev/gang" in api.pod(f"p{i}")["metadata"]["annotations"] for i in range(2)))
    scheduler.stop()
    for i in range(2):
        api.set_phase(f"p{i}", "Succeeded")
    left, stranger = member(api, "p2", 5, owner="job"), member(api, "p3", 5, gang="h", owner="other")
    scheduler = starts(api, start)
    ready(scheduler, left, stranger)
    for pod in (left, stranger):
        wait_for(lambda pod=pod: reasons(scheduler, pod, ["a"]) == {"waits for the other pods of its gang"})
    wait_for(lambda: scheduler.filter(left, ["a"])["NodeNames"], 15, "nobody waited for")
    assert schedule(scheduler, left, ["a"]) == ""
    assert "ration.dev/gang" not in api.pod("p2")["metadata"]["annotations"]
    assert reasons(scheduler, stranger, ["a"]) == {"waits for the other pods of its gang"}

    def asked():
        return sorted(r.query["labelSelector"] for r in api.requests_for("GET", "^/api/v1/namespaces/default/pods$")
                      if r.status == 200)
    wait_for(lambda: len(asked()) >= 2, what="both gangs asked about")
    assert asked() == [GROUP + "name=g", GROUP + "name=h"]


def bound_while_forming(api):
    """The only member that another process had bound, on the node a."""
    gpu_node(api, "a", 10240)
    first = member(api, "p0", 5)
    api.bind("p0", "a", annotations={"ration.dev/gang": "forming", **has(5)})
    return first


def test_members_that_another_process_bound_count(api, start):
    first = bound_while_forming(api)
    scheduler = starts(api, start)
    second = member(api, "p1", 5)
    ready(scheduler, first, second)
    assert schedule(scheduler, second, ["a"]) == ""
    wait_for(lambda: "ration.dev/gang" not in api.pod("p0")["metadata"]["annotations"])


def test_a_gang_of_which_a_part_is_left_over_is_evicted_after_its_time(api, start):
    first = bound_while_forming(api)
    api.inject("POST", "/eviction$", times=1, status=429, reason="TooManyRequests", message="a budget protects it")
    scheduler = starts(api, start, "--gang-timeout", "1")
    ready(scheduler, first)
    wait_for(lambda: len(api.requests_for("POST", "/eviction$")) >= 2, 12, "asked again after a refusal")
    wait_for(lambda: api.events("GangIncomplete"), what="Event")
    wait_for(lambda: decisions(scheduler, "p0")[-1]["error"] == "", what="it is recorded")
    assert decisions(scheduler, "p0")[0]["error"] == "a budget protects it"
    assert api.events("GangIncomplete")[0]["involvedObject"]["name"] == "p0"


@pytest.mark.parametrize("value", ["x", "0", "1001"])
def test_a_min_available_that_is_none_is_refused_with_a_sentence(api, start, value):
    gpu_node(api, "a", 10240)
    scheduler = starts(api, start)
    pod = member(api, "p0", 5, least=value)
    assert reasons(scheduler, pod, ["a"]) == {
        f'label {GROUP}min-available is "{value}": must be a number from 1 to 1000'}


def test_a_pod_group_says_how_many(api, start):
    gpu_node(api, "a", 10240)
    api.create("podgroups", {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
                             "metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}})
    scheduler = starts(api, start)
    wait_for(lambda: "the cluster has PodGroups" in scheduler.text())
    pods = [api.create_pod(f"p{i}", gpu_mem=5, labels={"scheduling.x-k8s.io/pod-group": "g"}) for i in range(2)]
    ready(scheduler, *pods)
    assert at_once(scheduler, pods, ["a"]) == ["", ""]


def test_a_pod_group_that_is_made_anew_while_nobody_watches_is_the_new_one(api, start):
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
             "metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 3}}
    gpu_node(api, "a", 10240)
    api.create("podgroups", group)
    scheduler = starts(api, start)
    wait_for(lambda: api.watches("podgroups"))
    api.stop()
    api.delete("podgroups", "g", "default")
    api.create("podgroups", {**group, "spec": {"minMember": 2}})
    api.expire()
    api.start()
    pods = [api.create_pod(f"p{i}", gpu_mem=5, labels={"scheduling.x-k8s.io/pod-group": "g"}) for i in range(2)]
    ready(scheduler, *pods)
    wait_for(lambda: scheduler.filter(pods[0], ["a"])["NodeNames"] == ["a"], what="a gang of two")


def test_nobody_is_preempted_for_a_part_of_a_gang(api, start):
    gpu_node(api, "a", 10240)
    low = there(api, "low", 10)
    scheduler = starts(api, start)
    pods = [member(api, f"p{i}", 5, spec={"priority": 100, "containers": [
        {"name": "main", "image": "x", "resources": {"limits": {"aliyun.com/gpu-mem": "5"}}}]}) for i in range(2)]
    ready(scheduler, low, *pods)
    assert reasons(scheduler, pods[0], ["a"]) == {"no room for its whole gang"}
    answer = scheduler.verb("preempt", {"Pod": pods[0], "NodeNameToMetaVictims": {
        "a": {"Pods": [{"UID": low["metadata"]["uid"]}]}}})
    assert answer == {"NodeNameToMetaVictims": {}}


def test_small_pods_are_kept_out_for_a_gang_that_has_waited_long(api, start):
    gpu_node(api, "a", 10240)
    for i in range(2):
        there(api, f"there{i}", 5)
    scheduler = starts(api, start, "--gang-keep-after", "1")
    pods = [member(api, f"p{i}", 5) for i in range(2)]
    small = api.create_pod("small", gpu_mem=1)
    ready(scheduler, *pods, small)
    assert reasons(scheduler, pods[0], ["a"]) == {"no room for its whole gang"}
    time.sleep(2.5)
    api.delete("pods", "there0", "default")
    wait_for(lambda: scheduler.used() == {"a": [5]})
    assert reasons(scheduler, small, ["a"]) == {"no GPU has 1 units free"}
    assert {d["decision"] for d in decisions(scheduler, "p0")} == {"gang-kept"}
    api.delete("pods", "there1", "default")
    wait_for(lambda: "ration.dev/nudge" in api.pod("p0")["metadata"]["annotations"], what="nudged")
    assert at_once(scheduler, pods, ["a"]) == ["", ""]


def test_why_speaks_of_the_gang(api, start, person):
    scheduler, pods = gang_of(api, start, 2, 3, least=3)
    assert reasons(scheduler, pods[0], ["a"]) == {"waits for the other pods of its gang"}
    person.world(scheduler)
    text = person.why("p0")
    assert "Pod default/p0 waits for a GPU.\n" in text
    assert ("It is of gang g: 0 of 2 pods are placed; 3 at least, or none: "
            "waits for the other pods of its gang.\n") in text
    pods.append(member(api, "p2", 3, least=3))
    ready(scheduler, *pods)
    assert at_once(scheduler, pods, ["a"]) == [""] * 3
    wait_for(lambda: "3 of 3 pods are placed; 3 at least, or none. The gang has started: " in person.why("p0"))


def test_the_plan_of_a_gang_of_unequal_members_replays_as_recorded(api, start, tmp_path):
    """The large member is planned first; where the small ones go each alone would say otherwise."""
    gpu_node(api, "a", 10240, 10240)
    there(api, "there", 1)
    scheduler = starts(api, start)
    pods = [member(api, f"p{i}", units, least=3) for i, units in enumerate([1, 3, 9])]
    ready(scheduler, *pods)
    assert at_once(scheduler, pods, ["a"]) == [""] * 3
    lines = save(scheduler, tmp_path / "history")
    first = {}
    for line in lines:
        if line.get("gave") == "hold":
            first.setdefault(line["uid"], line["placement"]["containers"][0]["gpus"][0]["uuid"])
    assert [first[pod["metadata"]["uid"]] for pod in pods] == ["GPU-a-1", "GPU-a-1", "GPU-a-0"]
    assert sum(line.get("gave") == "binding" for line in lines) >= 3
    assert sums(replay(tmp_path / "history"))[1] >= 6


def decisions(scheduler, name):
    answer = json.loads(scheduler.http("GET", f"/why?namespace=default&name={name}")[1])
    return [d for d in answer["decisions"] if d["decision"].startswith("gang-")]


def test_what_becomes_of_a_gang_is_in_the_flight_recorder(api, start, person):
    scheduler, pods = gang_of(api, start, 2, 5, least=2)
    assert schedule(scheduler, pods[0], ["a"]) != ""
    plan, end = decisions(scheduler, "p0")
    assert plan["decision"] == "gang-plan" and plan["node"] == "a" and [c["index"] for c in plan["cards"]] == [0]
    assert plan["text"] == "2 of 2 pods of gang default/g have room, 2 are needed"
    assert end["decision"] == "gang-given-up"
    assert end["text"] == "not enough of its pods came to bind in time; it was at bind"
    assert decisions(scheduler, "p1")[-1]["text"].endswith("; kube-scheduler had not asked for it")
    person.world(scheduler)
    text = person.why("p0")
    assert ("They did not come to bind together 1 time; the last time pod p1 was missing: something else than GPUs "
            "keeps it (see `kubectl describe pod p1`).\n") in text
    assert "  gang: held on a: GPU 0 (10 of 10 units free before); 2 of 2 pods of gang default/g have room" in text
    assert "  gang: its place on a is given back: not enough of its pods came to bind in time; it was at bind\n" in text


def test_a_gang_without_room_is_told_what_lacks(api, start, person):
    scheduler, pods = gang_of(api, start, 3, 4, least=3)
    assert reasons(scheduler, pods[0], ["a"]) == {"no room for its whole gang"}
    person.world(scheduler)
    assert "Of the 3 that are needed 2 would find room now.\n" in person.why("p0")
