"""Gangs whose pods a ResourcePolicy selects: the whole gang goes to the first level that has room for it."""
import concurrent.futures
import json
import time

import pytest

from fake_apiserver import wait_for
from gangs import GROUP, at_once, bound, nodes_of, ready, reasons, starts
from scheduler_fixture import gpu_node
from unit_policies import ask, policy, ready as ready_levels, status

NODES = ["a", "b", "c"]
A, B, C = ({"resource": "ecs", "nodeSelector": {"pool": name}} for name in NODES)


def cluster(api, **gib):
    for name in NODES:
        gpu_node(api, name, *[gib.get(name, 10) * 1024] * 2)
        api.patch("nodes", name, {"metadata": {"labels": {"pool": name}}})


def member(api, name, units, gang="g", least=4, labels=None):
    return api.create_pod(name, gpu_mem=units, owner="rs", labels={
        "app": "web", GROUP + "name": gang, GROUP + "min-available": str(least), **(labels or {})})


def gang(api, scheduler, count, units, name="g", least=None):
    pods = [member(api, f"{name}{i}", units, name, least or count) for i in range(count)]
    ready(scheduler, *pods)
    return pods


def settled(scheduler, pods):
    """Asks until each has its node, as kube-scheduler does when it is told so."""
    def once():
        return [nodes_of(scheduler, pod, NODES) for pod in pods]
    return wait_for(lambda: (lambda found: found if all(found) else None)(once()), what="nodes for all")


def test_a_gang_goes_whole_to_the_first_level_that_has_room_for_all(api, start):
    cluster(api, a=5)
    policy(api, [{**A, "max": 10}, {**B, "max": 3}, C])
    scheduler = starts(api, start)
    ready_levels(api)
    # Level 1 has room for two of them, level 2 for all, but not so many.
    pods = gang(api, scheduler, 4, 5)
    assert at_once(scheduler, pods, NODES) == [""] * 4
    assert set(bound(api, *[f"g{i}" for i in range(4)])) == {"c"}
    assert "level 1 (ecs) has no room for 4 pods together, level 2 (ecs) would exceed its maximum of 3 pods" in status(
        wait_for(lambda: "together" in status(api).get("reason", "") and api))["reason"]


def test_what_a_gang_is_to_take_of_a_level_nobody_else_gets(api, start):
    cluster(api)
    policy(api, [{**A, "max": 4}, B])
    scheduler = starts(api, start)
    ready_levels(api)
    pods = gang(api, scheduler, 4, 3)
    assert nodes_of(scheduler, pods[0], NODES) == ["a"]
    single = api.create_pod("single", gpu_mem=1, owner="rs", labels={"app": "web"})
    ready(scheduler, single)
    assert nodes_of(scheduler, single, NODES) == ["b"]
    assert at_once(scheduler, pods, NODES) == [""] * 4
    assert set(bound(api, *[f"g{i}" for i in range(4)])) == {"a"}
    wait_for(lambda: [u["pods"] for u in status(api).get("units", [])] == [4, 1])


def test_labels_of_the_level_are_on_each_pod_before_it_is_bound(api, start):
    cluster(api, a=1)
    policy(api, [A, {**B, "podLabels": {"level": "second"}}])
    scheduler = starts(api, start)
    ready_levels(api)
    pods = gang(api, scheduler, 3, 4)
    assert at_once(scheduler, pods, NODES) == [""] * 3
    for i in range(3):
        assert api.pod(f"g{i}")["spec"]["nodeName"] == "b"
        assert api.pod(f"g{i}")["metadata"]["labels"]["level"] == "second"


def test_a_gang_waits_for_its_level_as_its_policy_says(api, start):
    cluster(api, a=4)
    policy(api, [A, B], whenTryNextUnits={"policy": "Timeout", "timeout": "2s"})
    scheduler = starts(api, start)
    ready_levels(api)
    pods = gang(api, scheduler, 2, 6)
    began = time.monotonic()
    assert reasons(scheduler, pods[0], NODES) == {
        "ResourcePolicy team: waits for level 1 (ecs): level 1 (ecs) has no room for 2 pods together"}
    assert reasons(scheduler, pods[1], NODES) <= {
        "ResourcePolicy team: waits for level 1 (ecs): level 1 (ecs) has no room for 2 pods together"}
    assert settled(scheduler, pods) == [["b"], ["b"]] and 1.8 < time.monotonic() - began < 6


def test_a_gang_that_no_level_can_take_takes_nothing_of_any(api, start):
    cluster(api)
    policy(api, [{**A, "max": 3}, {**B, "max": 2}])
    scheduler = starts(api, start)
    ready_levels(api)
    pods = gang(api, scheduler, 4, 2)
    for pod in pods:
        assert reasons(scheduler, pod, NODES) == {
            "ResourcePolicy team: no level is left: level 1 (ecs) would exceed its maximum of 3 pods with 4 pods "
            "together, level 2 (ecs) would exceed its maximum of 2 pods with 4 pods together"}
    singles = [api.create_pod(f"s{i}", gpu_mem=1, owner="rs", labels={"app": "web"}) for i in range(5)]
    ready(scheduler, *singles)
    assert [nodes_of(scheduler, pod, NODES) for pod in singles] == [["a"]] * 3 + [["b"]] * 2
    # It is told so where people look.
    told = json.loads(scheduler.http("GET", "/why?namespace=default&name=g0")[1])
    assert "no level is left" in told["resourcePolicy"]["text"]


def test_a_gang_of_which_a_part_waits_for_others_keeps_no_place_in_a_level(api, start):
    cluster(api)
    policy(api, [{**A, "max": 2}, B])
    scheduler = starts(api, start)
    ready_levels(api)
    pods = gang(api, scheduler, 1, 2, least=2)
    assert reasons(scheduler, pods[0], NODES) == {"waits for the other pods of its gang"}
    singles = [api.create_pod(f"s{i}", gpu_mem=1, owner="rs", labels={"app": "web"}) for i in range(2)]
    ready(scheduler, *singles)
    assert [nodes_of(scheduler, pod, NODES) for pod in singles] == [["a"]] * 2
    pods += [member(api, "g1", 2, "g", 2)]
    ready(scheduler, pods[1])
    assert settled(scheduler, pods) == [["b"], ["b"]]


def test_who_is_over_the_number_of_its_gang_is_placed_like_any_pod(api, start):
    cluster(api)
    policy(api, [{**A, "max": 2}, B])
    scheduler = starts(api, start)
    ready_levels(api)
    pods = gang(api, scheduler, 3, 2, least=2)
    assert sorted(at_once(scheduler, pods[:2], NODES)) == ["", ""]
    assert set(bound(api, "g0", "g1")) == {"a"}
    wait_for(lambda: nodes_of(scheduler, pods[2], NODES) == ["b"], what="the third in level 2")


def test_members_over_the_number_do_not_divide_the_others(api, start):
    """Found by the storm: they claimed places too, so that a later one found the level full and went to another."""
    cluster(api)
    policy(api, [{**A, "max": 2}, {**B, "max": 3}])
    scheduler = starts(api, start)
    ready_levels(api)
    pods = gang(api, scheduler, 5, 2, least=3)
    assert [nodes_of(scheduler, pod, NODES) for pod in pods[:3]] == [["b"]] * 3
    assert at_once(scheduler, pods[:3], NODES) == [""] * 3
    assert set(bound(api, "g0", "g1", "g2")) == {"b"}


def test_members_that_are_made_by_others_follow_the_first(api, start):
    cluster(api)
    policy(api, [{**A, "max": 1}, {**B, "max": 3}, C])
    scheduler = starts(api, start)
    ready_levels(api)
    pods = [api.create_pod(f"g{i}", gpu_mem=units, owner=f"owner-{i}", labels={
        "app": "web", GROUP + "name": "g", GROUP + "min-available": "3"}) for i, units in enumerate((9, 2, 5))]
    ready(scheduler, *pods)
    assert settled(scheduler, pods) == [["b"]] * 3
    assert at_once(scheduler, pods, NODES) == [""] * 3
    assert set(bound(api, "g0", "g1", "g2")) == {"b"}


def test_after_a_restart_the_rest_of_a_gang_follows_those_that_are_bound(api, start):
    cluster(api)
    policy(api, [A, {**B, "podLabels": {"level": "second"}}])
    for i in range(2):
        member(api, f"g{i}", 2, labels={"level": "second"})
        placement = {"unit": 1024, "containers": {"main": [{"uuid": "GPU-b-0", "units": 2}]}}
        api.bind(f"g{i}", "b", annotations={"ration.dev/gang": "forming", "ration.dev/placement": json.dumps(placement)})
    scheduler = starts(api, start)
    ready_levels(api)
    rest = [member(api, f"g{i}", 2) for i in (2, 3)]
    ready(scheduler, *rest)
    assert at_once(scheduler, rest, NODES) == ["", ""]
    assert set(bound(api, "g2", "g3")) == {"b"}
    assert api.pod("g3")["metadata"]["labels"]["level"] == "second"


def test_what_was_taken_for_a_gang_whose_plan_has_ended_is_free_again(api, start):
    cluster(api)
    policy(api, [{**A, "max": 3}])
    scheduler = starts(api, start)
    ready_levels(api)
    pods = gang(api, scheduler, 3, 2)
    assert nodes_of(scheduler, pods[0], NODES) == ["a"]
    # Two are left, and are told what they were told before: nobody asks for the second again.
    api.delete("pods", "g2")
    wait_for(lambda: not nodes_of(scheduler, pods[0], NODES))
    singles = [api.create_pod(f"s{i}", gpu_mem=1, owner="rs", labels={"app": "web"}) for i in range(3)]
    ready(scheduler, *singles)
    assert settled(scheduler, singles) == [["a"]] * 3


@pytest.mark.waits
def test_members_that_wait_for_their_volumes_keep_their_places_when_the_plan_is_given_up(api, start):
    """kube-scheduler does not ask for them again before it binds them."""
    cluster(api)
    policy(api, [{**A, "max": 2}])
    scheduler = starts(api, start)
    ready_levels(api)
    pods = gang(api, scheduler, 2, 2)
    assert [nodes_of(scheduler, pod, NODES) for pod in pods] == [["a"], ["a"]]
    single = api.create_pod("single", gpu_mem=1, owner="rs", labels={"app": "web"})
    ready(scheduler, single)
    end = time.monotonic() + 18
    while time.monotonic() < end:
        assert nodes_of(scheduler, single, NODES) == []
        time.sleep(0.3)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda pod: scheduler.bind(pod, "a"), pods)) == ["", ""]
    assert nodes_of(scheduler, single, NODES) == []


@pytest.mark.waits
def test_a_member_without_a_gpu_keeps_its_place_while_kube_scheduler_binds_it(api, start):
    cluster(api)
    policy(api, [{**A, "max": 1}])
    scheduler = starts(api, start)
    ready_levels(api)
    labels = {"app": "web", GROUP + "name": "cpu", GROUP + "min-available": "2"}
    pods = [api.create_pod(f"cpu{i}", labels=labels, owner="rs", spec={"containers": [{"name": "main", "image": "x"}]})
            for i in range(2)]
    assert ask(scheduler, pods[0], NODES)["NodeNames"] == ["a"]
    time.sleep(3)
    assert ask(scheduler, pods[1], NODES)["NodeNames"] == []


def single(api, scheduler, name):
    pod = api.create_pod(name, gpu_mem=1, owner="rs", labels={"app": "web"})
    ready(scheduler, pod)
    return pod


@pytest.mark.parametrize("first", [{**C, "max": 0}, {**A, "max": 1, "podLabels": {"level": "first"}}])
def test_nobody_is_bound_without_a_place_in_a_level_of_its_node(api, start, first):
    """What filter gave can be lost until bind: here by another version of the policy."""
    cluster(api)
    policy(api, [{**A, "max": 1}, B])
    scheduler = starts(api, start)
    ready_levels(api)
    pod = single(api, scheduler, "p")
    assert nodes_of(scheduler, pod, NODES) == ["a"]
    api.patch("resourcepolicies", "team", {"spec": {"units": [first, B]}}, "default")
    wait_for(lambda: status(api).get("observedGeneration") == 2)
    assert scheduler.bind(pod, "a") == (
        "ResourcePolicy team: the pod has no place in a level of node a any more, trying again")
    assert not api.pod("p")["spec"].get("nodeName")
    expected = "b" if first["nodeSelector"]["pool"] == "c" else "a"
    assert nodes_of(scheduler, pod, NODES) == [expected] and scheduler.bind(pod, expected) == ""


def test_a_place_that_only_a_dead_process_knew_is_taken_again_at_bind(api, start):
    cluster(api)
    policy(api, [{**A, "max": 1, "podLabels": {"level": "first"}}, B])
    scheduler = starts(api, start)
    ready_levels(api)
    first, second = single(api, scheduler, "first"), single(api, scheduler, "second")
    assert nodes_of(scheduler, first, NODES) == ["a"]
    scheduler.stop()
    scheduler.start()
    wait_for(scheduler.ready)
    ready(scheduler, first, second)
    # The second lacks what it would be counted by there.
    wait_for(lambda: "no place in a level of node a" in scheduler.bind(second, "a"), what="the namespace is read")
    wait_for(lambda: not scheduler.bind(first, "a") or None)
    assert nodes_of(scheduler, second, NODES) == ["b"]


def test_a_member_without_a_gpu_counts_when_the_others_ask(api, start):
    """kube-scheduler binds it by itself, perhaps right now."""
    cluster(api)
    policy(api, [{**A, "max": 2}, B])
    scheduler = starts(api, start)
    ready_levels(api)
    labels = {"app": "web", GROUP + "name": "g", GROUP + "min-available": "2"}
    launcher = api.create_pod("launcher", labels=labels, owner="rs", spec={"containers": [{"name": "main", "image": "x"}]})
    assert ask(scheduler, launcher, NODES)["NodeNames"] == ["a"]
    pods = gang(api, scheduler, 2, 2)
    assert settled(scheduler, pods) == [["b"], ["b"]]
