"""Gangs whose pods get other labels, and whose PodGroups change, while they wait, are bound or run."""
import concurrent.futures
import json
import time

import pytest

from fake_apiserver import wait_for
from test_gang import GROUP, at_once, bound, has, member, nodes_of, ready, reasons, schedule
from test_scheduler import api, gpu_node, start  # noqa: F401
from test_why import person  # noqa: F401

WAITS = {"waits for the other pods of its gang"}
POD_GROUP = "scheduling.x-k8s.io/pod-group"
BY_LABEL = {GROUP + "name": "g", GROUP + "min-available": "2"}


def label(api, name, labels):  # noqa: F811
    """Gives a pod these labels; None takes one away."""
    api.patch("pods", name, {"metadata": {"labels": labels}}, "default")


def pod_group(api, least, name="g", **spec):  # noqa: F811
    return api.create("podgroups", {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
                                    "metadata": {"name": name, "namespace": "default"},
                                    "spec": {"minMember": least, **spec}})


def starts(api, start, *options):  # noqa: F811
    """A scheduler that watches PodGroups; there is one at least."""
    scheduler = start(*options)
    wait_for(lambda: api.watches("podgroups"), what="PodGroups are watched")
    return scheduler


def told(scheduler, pod):
    """The reasons of filter; none while it still names a node."""
    answer = scheduler.filter(pod, ["a"])
    return set() if answer["NodeNames"] else {*answer["FailedNodes"].values(),
                                              *answer["FailedAndUnresolvableNodes"].values()}


def waits(scheduler, pod):
    """The pod gets no node, now and after the scheduler has seen all that was changed before."""
    wait_for(lambda: not scheduler.filter(pod, ["a"])["NodeNames"], what="no node")
    time.sleep(0.3)
    return reasons(scheduler, pod, ["a"])


def whole(api, name, **more):  # noqa: F811
    """A pod that asks for one whole GPU."""
    return api.create_pod(name, spec={"containers": [{"name": "main", "image": "x", "resources": {
        "limits": {"aliyun.com/gpu": "1"}}}]}, **more)


# ---- labels ----

def test_a_running_pod_that_is_labelled_into_a_gang_does_not_count(api, start, person):  # noqa: F811
    gpu_node(api, "a", 10240)
    scheduler = start()
    runs, waiting = api.create_pod("runs", gpu_mem=2), member(api, "p0", 2)
    ready(scheduler, runs, waiting)
    assert schedule(scheduler, runs, ["a"]) == ""
    label(api, "runs", BY_LABEL)
    assert waits(scheduler, waiting) == WAITS
    person.world(scheduler)
    assert ("It is of gang g: 0 of 1 pods are placed; 2 at least, or none: waits for the other pods of its gang.\n"
            "1 running pod was given its label only after the scheduler had bound it, and does not count.\n"
            ) in person.why("p0")
    assert "Its labels name gang g now, but did not when it was bound: it is no pod of that gang.\n" in person.why("runs")
    scheduler.stop()
    scheduler = start()
    ready(scheduler, runs, waiting)
    assert waits(scheduler, waiting) == WAITS
    other = member(api, "p1", 2)
    ready(scheduler, other)
    assert at_once(scheduler, [waiting, other], ["a"]) == ["", ""]


def test_a_running_pod_that_gets_a_pod_groups_label_does_not_count(api, start):  # noqa: F811
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


def test_a_running_pod_that_is_labelled_into_a_job_of_whole_gpus_does_not_count(api, start):  # noqa: F811
    job = {"gpu-topology": "job", "gpu-topology-replica": "2"}
    gpu_node(api, "a", 10240, 10240, 10240, mode="topology")
    scheduler = start()
    runs, waiting = whole(api, "runs"), whole(api, "p0", labels=job)
    ready(scheduler, runs, waiting)
    assert schedule(scheduler, runs, ["a"]) == ""
    label(api, "runs", job)
    assert waits(scheduler, waiting) == WAITS


def test_a_pod_without_a_gpu_counts_if_it_was_of_the_gang_before_it_was_bound(api, start):  # noqa: F811
    gpu_node(api, "a", 10240)
    scheduler = start()
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
def test_a_running_member_stays_one_whatever_its_labels_say_later(api, start, change):  # noqa: F811
    """The gang has started, so a pod that is made in place of another one needs nobody else."""
    gpu_node(api, "a", 10240)
    scheduler = start()
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


def test_half_a_gang_that_an_older_scheduler_bound_counts_by_its_labels(api, start):  # noqa: F811
    """Bindings of older versions have no record of the gang."""
    gpu_node(api, "a", 10240)
    for i in range(2):
        member(api, f"p{i}", 2, least=4)
        api.bind(f"p{i}", "a", annotations={"ration.dev/gang": "forming", **has(2)})
    scheduler = start()
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


def test_a_pod_that_an_older_scheduler_bound_is_not_labelled_into_a_gang_either(api, start):  # noqa: F811
    gpu_node(api, "a", 10240)
    api.create_pod("old", gpu_mem=2, node="a", annotations=has(2))
    scheduler = start()
    waiting = member(api, "p0", 2)
    ready(scheduler, waiting)
    label(api, "old", BY_LABEL)
    assert waits(scheduler, waiting) == WAITS


def test_a_record_that_a_user_wrote_on_a_waiting_pod_says_nothing(api, start):  # noqa: F811
    """The policy ration-placement-keys refuses it; without the policy it is of no use."""
    gpu_node(api, "a", 10240)
    scheduler = start()
    pod = member(api, "p0", 2, annotations={"ration.dev/bound-gang": "{}"})
    ready(scheduler, pod)
    assert waits(scheduler, pod) == WAITS


def test_a_planned_pod_that_leaves_its_gang_gives_its_place_back(api, start):  # noqa: F811
    gpu_node(api, "a", 10240)
    scheduler = start()
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


def test_a_pod_that_leaves_its_gang_at_bind_is_not_bound_with_it(api, start):  # noqa: F811
    gpu_node(api, "a", 10240)
    scheduler = start()
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
