"""Gangs whose pods get other labels, and whose PodGroups change, while they wait, are bound or run."""
import concurrent.futures
import json
import time

import pytest

from fake_apiserver import wait_for
from gangs import GROUP, at_once, bound, has, member, nodes_of, ready, reasons, schedule, starts
from scheduler_fixture import gpu_node

WAITS = {"waits for the other pods of its gang"}
POD_GROUP = "scheduling.x-k8s.io/pod-group"
BY_LABEL = {GROUP + "name": "g", GROUP + "min-available": "2"}


def label(api, name, labels):
    """Gives a pod these labels; None takes one away."""
    api.patch("pods", name, {"metadata": {"labels": labels}}, "default")


def pod_group(api, least, name="g", **spec):
    return api.create("podgroups", {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
                                    "metadata": {"name": name, "namespace": "default"},
                                    "spec": {"minMember": least, **spec}})


def told(scheduler, pod):
    """The reasons of filter; none while it still names a node."""
    answer = scheduler.filter(pod, ["a"])
    return set() if answer["NodeNames"] else {*answer["FailedNodes"].values(),
                                              *answer["FailedAndUnresolvableNodes"].values()}


def waits(scheduler, pod):
    """The pod gets no node, now and after the scheduler has seen all that was changed before."""
    wait_for(lambda: not scheduler.filter(pod, ["a"])["NodeNames"], what="no node")
    scheduler.has_read_pods()
    scheduler.has_read_nodes()
    return reasons(scheduler, pod, ["a"])


def whole(api, name, **more):
    """A pod that asks for one whole GPU."""
    return api.create_pod(name, spec={"containers": [{"name": "main", "image": "x", "resources": {
        "limits": {"aliyun.com/gpu": "1"}}}]}, **more)


# ---- labels ----

def test_a_running_pod_that_is_labelled_into_a_gang_does_not_count(api, start, person):
    gpu_node(api, "a", 10240)
    scheduler = starts(api, start)
    runs, waiting = api.create_pod("runs", gpu_mem=2), member(api, "p0", 2)
    ready(scheduler, runs, waiting)
    assert schedule(scheduler, runs, ["a"]) == ""
    label(api, "runs", BY_LABEL)
    assert waits(scheduler, waiting) == WAITS
    person.world(scheduler)
    assert ("It is of gang g: 0 of 1 pods are placed; 2 at least, or none: waits for the other pods of its gang.\n"
            "1 running pod was given its label only after the scheduler had bound it, and does not count.\n"
            ) in person.why("p0")
    assert "Its labels name gang g now, but did not when it was bound: it is not part of that gang.\n" in person.why("runs")
    scheduler.stop()
    scheduler = starts(api, start)
    ready(scheduler, runs, waiting)
    assert waits(scheduler, waiting) == WAITS
    other = member(api, "p1", 2)
    ready(scheduler, other)
    assert at_once(scheduler, [waiting, other], ["a"]) == ["", ""]


def test_a_running_pod_that_gets_a_pod_groups_label_does_not_count(api, start):
    gpu_node(api, "a", 10240)
    pod_group(api, 2)
    scheduler = starts(api, start)
    runs = api.create_pod("runs", gpu_mem=2)
    waiting = api.create_pod("p0", gpu_mem=2, labels={POD_GROUP: "g"})
    ready(scheduler, runs, waiting)
    assert schedule(scheduler, runs, ["a"]) == ""
    label(api, "runs", {POD_GROUP: "g"})
    assert waits(scheduler, waiting) == WAITS
    assert bound(api, "p0") == [None]


def test_a_running_pod_that_is_labelled_into_a_job_of_whole_gpus_does_not_count(api, start):
    job = {"gpu-topology": "job", "gpu-topology-replica": "2"}
    gpu_node(api, "a", 10240, 10240, 10240, mode="topology")
    scheduler = starts(api, start)
    runs, waiting = whole(api, "runs"), whole(api, "p0", labels=job)
    ready(scheduler, runs, waiting)
    assert schedule(scheduler, runs, ["a"]) == ""
    label(api, "runs", job)
    assert waits(scheduler, waiting) == WAITS


def test_a_pod_without_a_gpu_counts_if_it_was_of_the_gang_before_it_was_bound(api, start):
    gpu_node(api, "a", 10240)
    scheduler = starts(api, start)
    runs, waiting = api.create_pod("runs"), member(api, "p0", 2)
    ready(scheduler, waiting)
    api.bind("runs", "a")
    label(api, "runs", BY_LABEL)
    assert waits(scheduler, waiting) == WAITS
    api.create_pod("launcher", labels=BY_LABEL)
    api.bind("launcher", "a")
    wait_for(lambda: scheduler.filter(waiting, ["a"])["NodeNames"], what="the launcher counts")
    assert runs["metadata"]["name"] == "runs" and schedule(scheduler, waiting, ["a"]) == ""


@pytest.mark.parametrize("change", [{GROUP + "name": None}, {GROUP + "name": "other"},
                                    {GROUP + "min-available": "x"}, {GROUP + "min-available": "3"}])
def test_a_running_member_stays_one_whatever_its_labels_say_later(api, start, change):
    """The gang has started, so a pod that is made in place of another one needs nobody else."""
    gpu_node(api, "a", 10240)
    scheduler = starts(api, start)
    pods = [member(api, f"p{i}", 5) for i in range(2)]
    ready(scheduler, *pods)
    assert at_once(scheduler, pods, ["a"]) == ["", ""]
    wait_for(lambda: not any("ration.dev/gang" in api.pod(f"p{i}")["metadata"]["annotations"] for i in range(2)))
    label(api, "p0", change)
    api.delete("pods", "p1", "default")
    again = member(api, "p2", 5)
    ready(scheduler, again)
    wait_for(lambda: scheduler.used() == {"a": [5]})
    assert schedule(scheduler, again, ["a"]) == ""


def test_half_a_gang_that_an_older_scheduler_bound_counts_by_its_labels(api, start):
    """Bindings of older versions have no record of the gang."""
    gpu_node(api, "a", 10240)
    for i in range(2):
        member(api, f"p{i}", 2, least=4)
        api.bind(f"p{i}", "a", annotations={"ration.dev/gang": "forming", **has(2)})
    scheduler = starts(api, start)
    pods = [member(api, f"p{i}", 2, least=4) for i in range(2, 4)]
    ready(scheduler, *pods)
    assert waits_alone(scheduler, pods[0])
    assert at_once(scheduler, pods, ["a"]) == ["", ""]
    wait_for(lambda: not any("ration.dev/gang" in api.pod(f"p{i}")["metadata"]["annotations"] for i in range(4)),
             what="the gang has started")
    assert [api.pod(f"p{i}")["metadata"]["annotations"].get("ration.dev/bound-gang") for i in range(4)] == [
        None, None, '{"name":"g","min":4}', '{"name":"g","min":4}']


def waits_alone(scheduler, pod):
    """Bind of this pod alone is turned away: two others are bound, and four are needed."""
    assert nodes_of(scheduler, pod, ["a"]) == ["a"]
    refused = scheduler.bind(pod, "a")
    time.sleep(1.2)     # the gang is tried again after one second
    return refused == "not enough pods of its gang came to bind in time, trying again"


def test_a_pod_that_an_older_scheduler_bound_is_not_labelled_into_a_gang_either(api, start):
    gpu_node(api, "a", 10240)
    api.create_pod("old", gpu_mem=2, node="a", annotations=has(2))
    scheduler = starts(api, start)
    waiting = member(api, "p0", 2)
    ready(scheduler, waiting)
    label(api, "old", BY_LABEL)
    assert waits(scheduler, waiting) == WAITS


def test_a_record_that_a_user_wrote_on_a_waiting_pod_says_nothing(api, start):
    """The policy ration-placement-keys refuses it; without the policy it is of no use."""
    gpu_node(api, "a", 10240)
    scheduler = starts(api, start)
    pod = member(api, "p0", 2, annotations={"ration.dev/bound-gang": "{}"})
    ready(scheduler, pod)
    assert waits(scheduler, pod) == WAITS


def test_a_planned_pod_that_leaves_its_gang_gives_its_place_back(api, start):
    gpu_node(api, "a", 10240)
    scheduler = starts(api, start)
    pods, single = [member(api, f"p{i}", 5) for i in range(2)], api.create_pod("single", gpu_mem=5)
    ready(scheduler, *pods, single)
    assert nodes_of(scheduler, pods[0], ["a"]) == ["a"]
    assert scheduler.used() == {"a": [10]}
    label(api, "p1", {GROUP + "name": "other"})
    wait_for(lambda: scheduler.used() == {"a": [0]}, what="both places are given back")
    moved = api.pod("p1")
    assert waits(scheduler, pods[0]) == WAITS and waits(scheduler, moved) == WAITS
    assert schedule(scheduler, single, ["a"]) == ""
    label(api, "p1", {GROUP + "name": "g"})
    wait_for(lambda: told(scheduler, pods[0]) == {"no room for its whole gang"})


def test_a_pod_that_leaves_its_gang_at_bind_is_not_bound_with_it(api, start):
    gpu_node(api, "a", 10240)
    scheduler = starts(api, start)
    pods = [member(api, f"p{i}", 3, least=3) for i in range(3)]
    ready(scheduler, *pods)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(schedule, scheduler, pod, ["a"]) for pod in pods[:2]]
        wait_for(lambda: two_at_bind(scheduler, "p0"))
        label(api, "p0", {GROUP + "name": None, GROUP + "min-available": None})
        assert all(call.result() for call in calls)
    assert bound(api, "p0", "p1", "p2") == [None] * 3
    wait_for(lambda: scheduler.used() == {"a": [0]})
    assert schedule(scheduler, api.pod("p0"), ["a"]) == ""
    assert api.pod("p0")["metadata"]["annotations"]["ration.dev/bound-gang"] == "{}"
    assert waits(scheduler, pods[1]) == WAITS


def two_at_bind(scheduler, name):
    """The gang of this pod has two pods at bind."""
    answer = json.loads(scheduler.http("GET", f"/why?namespace=default&name={name}")[1])
    return answer.get("gang", {}).get("atBind") == 2


# ---- PodGroups ----

def in_group(api, name, units=3, group="g"):
    return api.create_pod(name, gpu_mem=units, labels={POD_GROUP: group})


def group_of(api, start, n, least, *options):
    """A node with a GPU of 10 units, a PodGroup, and n pods of 3 units that the scheduler has seen."""
    gpu_node(api, "a", 10240)
    pod_group(api, least)
    scheduler = starts(api, start, *options)
    pods = [in_group(api, f"p{i}") for i in range(n)]
    ready(scheduler, *pods)
    return scheduler, pods


def change(api, **spec):
    api.patch("podgroups", "g", {"spec": spec}, "default")


def gang(scheduler, name):
    return json.loads(scheduler.http("GET", f"/why?namespace=default&name={name}")[1]).get("gang", {})


def at_bind(scheduler, pods):
    """The calls of bind of these pods, which wait for more."""
    pool = concurrent.futures.ThreadPoolExecutor(len(pods))
    calls = [pool.submit(schedule, scheduler, pod, ["a"]) for pod in pods]
    pool.shutdown(wait=False)
    wait_for(lambda: gang(scheduler, pods[0]["metadata"]["name"]).get("atBind") == len(pods), what="at bind")
    return calls


def nudged(api, name):
    return "ration.dev/nudge" in api.pod(name)["metadata"]["annotations"]


def test_a_pod_group_that_needs_more_while_its_pods_are_at_bind_lets_none_start(api, start):
    scheduler, pods = group_of(api, start, 3, 3)
    calls = at_bind(scheduler, pods[:2])
    change(api, minMember=4)
    assert all(call.result() for call in calls)
    assert bound(api, "p0", "p1", "p2") == [None] * 3
    wait_for(lambda: scheduler.used() == {"a": [0]}, what="all places are given back")
    wait_for(lambda: told(scheduler, pods[2]) == WAITS)
    change(api, minMember=3)
    wait_for(lambda: nudged(api, "p0"), what="they are woken")
    assert at_once_again(scheduler, pods) == [""] * 3


def at_once_again(scheduler, pods):
    """As kube-scheduler does it: asks until the gang is tried again, then all of its pods."""
    wait_for(lambda: nodes_of(scheduler, pods[0], ["a"]), 40, "a plan")
    return at_once(scheduler, pods, ["a"])


def test_a_pod_group_that_needs_fewer_lets_those_at_bind_go_at_once(api, start):
    scheduler, pods = group_of(api, start, 3, 3)
    calls = at_bind(scheduler, pods[:2])
    change(api, minMember=2)
    assert [call.result() for call in calls] == ["", ""]
    assert schedule(scheduler, pods[2], ["a"]) == ""


def test_a_pod_group_that_needs_fewer_wakes_the_pods_that_were_too_few(api, start):
    scheduler, pods = group_of(api, start, 2, 3)
    assert [reasons(scheduler, pod, ["a"]) for pod in pods] == [WAITS, WAITS]
    change(api, minMember=2)
    wait_for(lambda: nudged(api, "p0") and nudged(api, "p1"), what="both are woken")
    assert at_once(scheduler, pods, ["a"]) == ["", ""]


def test_a_pod_group_that_is_deleted_while_its_pods_are_at_bind(api, start):
    scheduler, pods = group_of(api, start, 2, 2)
    calls = at_bind(scheduler, pods[:1])
    api.delete("podgroups", "g", "default")
    assert calls[0].result() != ""
    wait_for(lambda: scheduler.used() == {"a": [0]}, what="all places are given back")
    assert reasons(scheduler, pods[1], ["a"]) == {"its gang has no PodGroup and no min-available"}
    pod_group(api, 2)
    wait_for(lambda: nudged(api, "p0") and nudged(api, "p1"), what="both are woken")
    assert at_once_again(scheduler, pods) == ["", ""]


@pytest.mark.parametrize("value", [0, -1, 1001, 1.5, "2", None, [2], 10**30])
def test_a_pod_group_with_a_malformed_min_member_lets_nobody_start_and_says_so(api, start, person, value):
    """Also where the pods' labels say a number: a PodGroup comes before them."""
    reason = "its PodGroup's minMember is not a number from 1 to 1000"
    gpu_node(api, "a", 10240)
    pod_group(api, value)
    scheduler = starts(api, start)
    pods = [member(api, f"p{i}", 3) for i in range(2)]
    ready(scheduler, *pods)
    wait_for(lambda: told(scheduler, pods[0]) == {reason})
    person.world(scheduler)
    assert f"0 of 2 pods are placed: {reason}.\n" in person.why("p0")
    change(api, minMember=2)
    wait_for(lambda: nudged(api, "p0"), what="they are woken")
    change(api, minMember=value)
    wait_for(lambda: told(scheduler, pods[0]) == {reason})
    api.delete("podgroups", "g", "default")
    wait_for(lambda: nodes_of(scheduler, pods[0], ["a"]) == ["a"], 40, "the labels' number counts")


def test_a_pod_group_that_becomes_malformed_while_its_pods_are_planned(api, start):
    scheduler, pods = group_of(api, start, 2, 2)
    assert nodes_of(scheduler, pods[0], ["a"]) == ["a"]
    change(api, minMember=5000)
    wait_for(lambda: scheduler.used() == {"a": [0]}, 5, "the places are given back")
    assert schedule(scheduler, api.create_pod("single", gpu_mem=10), ["a"]) == ""


def test_a_pod_group_that_needs_more_than_run_does_not_end_them(api, start):
    """Nor after a restart, nor when the PodGroup goes: the gang has started. A pod in place of another needs nobody."""
    scheduler, pods = group_of(api, start, 2, 2, "--gang-timeout", "1")
    assert at_once(scheduler, pods, ["a"]) == ["", ""]
    wait_for(lambda: not any("ration.dev/gang" in api.pod(f"p{i}")["metadata"]["annotations"] for i in range(2)))
    change(api, minMember=5)
    scheduler.stop()
    scheduler = starts(api, start, "--gang-timeout", "1")
    later = in_group(api, "p2")
    ready(scheduler, *pods, later)
    wait_for(lambda: gang(scheduler, "p0").get("cameAbout"), what="the gang has started")
    assert schedule(scheduler, later, ["a"]) == ""
    api.delete("podgroups", "g", "default")
    pod_group(api, 2, name="later")
    after = in_group(api, "after", units=1, group="later")
    wait_for(lambda: told(scheduler, after) == {"waits for the other pods of its gang"}, what="the watch of PodGroups")
    time.sleep(2)    # twice --gang-timeout
    assert not api.requests_for("POST", "/eviction$")


def test_a_pod_group_that_needs_more_after_a_part_was_bound_has_the_part_evicted(api, start):
    gpu_node(api, "a", 10240)
    pod_group(api, 2)
    first = in_group(api, "p0")
    api.bind("p0", "a", annotations={"ration.dev/gang": "forming", "ration.dev/bound-gang": '{"name":"g"}', **has(3)})
    scheduler = starts(api, start, "--gang-timeout", "2")
    ready(scheduler, first)
    change(api, minMember=3)
    second = in_group(api, "p1")
    ready(scheduler, second)
    assert waits(scheduler, second) == WAITS
    wait_for(lambda: api.events("GangIncomplete"), 20, what="the part is evicted")
    assert bound(api, "p1") == [None]


def test_gpus_are_not_kept_for_a_gang_whose_pod_group_is_gone(api, start):
    gpu_node(api, "a", 10240)
    for i in range(2):
        api.create_pod(f"there{i}", gpu_mem=5, node="a", annotations=has(5))
    pod_group(api, 3)
    scheduler = starts(api, start, "--gang-keep-after", "1")
    pods, small = [in_group(api, f"p{i}") for i in range(3)], api.create_pod("small", gpu_mem=1)
    ready(scheduler, *pods, small)
    assert reasons(scheduler, pods[0], ["a"]) == {"no room for its whole gang"}
    wait_for(lambda: gang(scheduler, "p0").get("keeping"), what="GPUs are kept")
    api.delete("pods", "there0", "default")
    wait_for(lambda: scheduler.used() == {"a": [5]})
    assert reasons(scheduler, small, ["a"]) == {"no GPU has 1 units free"}
    api.delete("podgroups", "g", "default")
    wait_for(lambda: nodes_of(scheduler, small, ["a"]) == ["a"], what="nothing is kept any more")


def test_a_pod_group_that_changes_all_the_time_loses_and_blocks_nothing(api, start):
    """Raised, lowered, malformed, deleted and made anew while kube-scheduler asks: no part is bound, then all are."""
    scheduler, pods = group_of(api, start, 3, 4)    # with 3 the first answers could bind all
    end = time.monotonic() + 8
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(keep_asking, scheduler, pod, end) for pod in pods]
        turn = 0
        while time.monotonic() < end:
            turn += 1
            if turn % 4 == 3:
                api.delete("podgroups", "g", "default")
                pod_group(api, 5)
            else:
                change(api, minMember=[4, "x", 1000][turn % 3])
            time.sleep(0.05)
        assert [call.result() for call in calls] == [None] * 3
    assert bound(api, "p0", "p1", "p2") == [None] * 3
    change(api, minMember=3)
    assert at_once_again(scheduler, pods) == [""] * 3
    wait_for(lambda: scheduler.used() == {"a": [9]})


def keep_asking(scheduler, pod, end):
    """As kube-scheduler does with a pod that it cannot place; fails if the pod is bound."""
    while time.monotonic() < end:
        assert schedule(scheduler, pod, ["a"]) != ""
        time.sleep(0.2)


def test_a_pod_group_of_another_name_is_none_of_the_gangs(api, start):
    scheduler, pods = group_of(api, start, 2, 2)
    api.delete("podgroups", "g", "default")
    pod_group(api, 2, name="other")
    wait_for(lambda: told(scheduler, pods[0]) == {"its gang has no PodGroup and no min-available"})
    for name in ("p0", "p1"):
        label(api, name, {POD_GROUP: "other"})
    pods = [api.pod("p0"), api.pod("p1")]
    wait_for(lambda: nodes_of(scheduler, pods[0], ["a"]) == ["a"], what="a gang of the other name")
    assert at_once(scheduler, pods, ["a"]) == ["", ""]
