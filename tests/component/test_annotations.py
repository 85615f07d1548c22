"""Pods whose annotations fill what the API server allows: 256 KiB of keys and values together."""
import concurrent.futures
import json

import pytest

import preemptions
from fake_apiserver import wait_for
from gangs import at_bind, bound, gang_of, reasons, schedule, why
from resizing import RESIZE, STATUS, ask, ration, run_pod, units
from scheduler_fixture import gpu_node

LIMIT = 256 << 10
FULL = ("the pod's annotations are too long: its GPU placement would not fit into the 256 KiB that an object's "
        "annotations may have together; shorten or remove one of them")


def annotations(api, name):
    return api.get("pods", name)["metadata"].get("annotations") or {}


def size(api, name):
    return sum(len(k.encode()) + len(v.encode()) for k, v in annotations(api, name).items())


def fill(api, name, total):
    """Makes the pod's annotations so long together, by one of them; total None removes it."""
    api.patch("pods", name, {"metadata": {"annotations": {"note": None}}}, "default")
    if total is not None:
        note = "x" * (total - size(api, name) - len("note"))
        api.patch("pods", name, {"metadata": {"annotations": {"note": note}}}, "default")


def seen(api, scheduler):
    """The scheduler has seen every change of pods so far: events come in order."""
    seen.markers += 1
    pod = api.create_pod(f"marker-{seen.markers}", gpu_mem=1)
    wait_for(lambda: why(scheduler, pod), what="an event after the others")
    api.delete("pods", f"marker-{seen.markers}")


seen.markers = 0


@pytest.mark.parametrize("length, fits_there", [(250_000, True), (262_100, False)])
def test_a_pod_whose_annotations_would_be_too_long_with_its_placement_is_not_bound(api, start, length, fits_there):
    """A Binding is not held to the 256 KiB of all annotations, whatever comes after it is: the pod could not even end."""
    gpu_node(api, "n", 16160)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3, annotations={"note": "x" * length})
    result = scheduler.filter(pod, ["n"])
    assert bool(result["NodeNames"]) == fits_there
    if fits_there:
        assert scheduler.bind(pod, "n") == ""
        assert size(api, "p") < LIMIT
    else:
        assert result["FailedAndUnresolvableNodes"]["n"] == FULL


# Around what filter counts with (4864 bytes), what the Binding really adds (between 300 and 1500), and the limit.
@pytest.mark.parametrize("total", [LIMIT - n for n in (4865, 4000, 1500, 900, 700, 600, 500, 300, 9, 0)])
def test_a_pod_whose_annotations_grow_between_filter_and_bind_is_bound_only_if_they_stay_valid(api, start, total):
    gpu_node(api, "n", 16160)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    assert scheduler.filter(pod, ["n"])["NodeNames"] == ["n"]
    fill(api, "p", total)
    seen(api, scheduler)
    error = scheduler.bind(pod, "n")
    if not error:
        assert size(api, "p") <= LIMIT
        api.patch("pods", "p", {"metadata": {"annotations": {"note2": None}}}, "default")    # it can still be changed
        return
    assert total > LIMIT - 1500
    assert error == (f"the annotations of pod default/p have {total} bytes: with its GPU placement they would exceed "
                     "the 262144 that the API server allows; remove one: kubectl annotate pod p -n default KEY-")
    assert "nodeName" not in api.get("pods", "p")["spec"]
    assert scheduler.used() == {"n": [0]}
    assert scheduler.filter(api.pod("p"), ["n"])["FailedAndUnresolvableNodes"] == {"n": FULL}
    fill(api, "p", None)
    seen(api, scheduler)
    assert scheduler.filter(api.pod("p"), ["n"])["NodeNames"] == ["n"] and scheduler.bind(pod, "n") == ""


def test_why_says_that_the_annotations_are_full(api, start, person):
    gpu_node(api, "n", 16160)
    scheduler = start()
    api.create_pod("p", gpu_mem=3)
    fill(api, "p", LIMIT)
    seen(api, scheduler)
    person.world(scheduler)
    text = person.why("p")
    assert text.startswith(f"Pod default/p cannot be bound: its annotations have {LIMIT} bytes, and its GPU placement "
                           "would not fit into the 256 KiB that the API server allows. Remove one: kubectl annotate "
                           "pod p -n default KEY-\n"), text
    fill(api, "p", None)
    seen(api, scheduler)
    person.world(scheduler)
    assert "annotations" not in person.why("p")


def test_nobody_is_preempted_for_a_pod_that_cannot_be_bound(api, start):
    """kube-scheduler asks for the nodes whose sum is short, which filter is never asked about."""
    gpu_node(api, "n", 15 * 1024)
    victim = preemptions.running(api, "victim", 15, 0)
    scheduler = start()
    preemptions.pod(api, "p", 15, priority=1000)
    fill(api, "p", LIMIT)
    assert preemptions.preempt(scheduler, api.pod("p"), n=[victim]) == {}
    fill(api, "p", None)
    assert preemptions.preempt(scheduler, api.pod("p"), n=[victim]) == {"n": [victim["metadata"]["uid"]]}


# ---- gangs ----

def test_a_member_whose_annotations_grew_before_bind_keeps_its_whole_gang_back(api, start):
    """Of three, two stand at bind when the third one comes, without room for its placement."""
    scheduler, pods = gang_of(api, start, 3, 3, least=3)
    for pod in pods:
        assert scheduler.filter(pod, ["a"])["NodeNames"] == ["a"]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(scheduler.bind, pod, "a") for pod in pods[:2]]
        wait_for(lambda: at_bind(scheduler, 2))
        fill(api, "p2", LIMIT)
        seen(api, scheduler)
        calls.append(pool.submit(scheduler.bind, pods[2], "a"))
        errors = [call.result() for call in calls]
    # kube-scheduler writes what bind answers as an Event of each of the three pods.
    assert errors == [f"the annotations of pod default/p2 have {LIMIT} bytes: with its GPU placement they would exceed "
                      "the 262144 that the API server allows; remove one: kubectl annotate pod p2 -n default KEY-"] * 3
    assert bound(api, "p0", "p1", "p2") == [None] * 3
    assert not api.requests_for("POST", "/binding$")
    assert scheduler.used() == {"a": [0]}


def test_a_gang_does_not_wait_at_bind_for_a_member_whose_annotations_are_full(api, start):
    scheduler, pods = gang_of(api, start, 3, 3, least=3)
    fill(api, "p2", LIMIT)
    seen(api, scheduler)
    assert reasons(scheduler, api.pod("p2"), ["a"]) == {FULL}
    for pod in pods[:2]:
        assert reasons(scheduler, pod, ["a"]) == {"waits for the other pods of its gang"}
    assert scheduler.used() == {"a": [0]}
    # With room again the others are asked for again, and all three are bound.
    fill(api, "p2", None)
    wait_for(lambda: scheduler.filter(pods[0], ["a"])["NodeNames"] == ["a"], what="the gang is planned")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda i: schedule(scheduler, api.pod(f"p{i}"), ["a"]), range(3))) == [""] * 3


def test_a_gang_that_has_enough_others_starts_without_the_member_whose_annotations_are_full(api, start):
    scheduler, pods = gang_of(api, start, 3, 3, least=2)
    fill(api, "p2", LIMIT)
    seen(api, scheduler)
    assert reasons(scheduler, api.pod("p2"), ["a"]) == {FULL}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda pod: schedule(scheduler, pod, ["a"]), pods[:2])) == ["", ""]
    assert bound(api, "p0", "p1", "p2") == ["a", "a", None]


# ---- another size for a pod that runs ----

@pytest.fixture(name="cgpu")
def _cgpu(api, start):
    gpu_node(api, "n", 16160, mode="cgpu")
    scheduler = start()
    run_pod(api, scheduler, "p", 2)
    return scheduler


def patches(api):
    return len(api.requests_for("PATCH", "/pods/p$"))


def test_a_size_is_answered_as_far_as_the_annotations_have_room_for_the_answer(api, cgpu):
    """From no room at all: the request is only taken away; then there is room for a no; then for a yes."""
    answers, now = [], 2
    for room in range(0, 170, 10):
        wanted = 3 if now == 2 else 2
        request = json.dumps({"main": wanted})
        api.patch("pods", "p", {"metadata": {"annotations": {STATUS: None}}}, "default")
        fill(api, "p", LIMIT - room - len(RESIZE) - len(request))
        before = patches(api)
        ask(api, "p", request)
        wait_for(lambda: RESIZE not in annotations(api, "p"), 8, "an answer")
        assert size(api, "p") <= LIMIT and patches(api) == before + 1
        told = json.loads(annotations(api, "p").get(STATUS, "{}"))
        assert told.get("applied") or told.get("message") in (None, "its annotations are full: remove one")
        now = wanted if told.get("applied") else now
        assert units(api, "p") == {"main": [now]}
        wait_for(lambda: cgpu.used() == {"n": [now]})
        answers.append(told.get("applied"))
    order = [None, False, True]
    assert sorted(answers, key=order.index) == answers and set(answers) == set(order), answers


def test_an_answer_of_an_earlier_request_is_not_taken_for_one_that_had_no_room(api, cgpu):
    assert ration(api, "p", "--mem", "3").returncode == 0
    assert ration(api, "p", "--mem", "2").returncode == 0
    request = '{"main":3}'
    api.patch("pods", "p", {"metadata": {"annotations": {
        STATUS: json.dumps({"request": request, "applied": True, "message": ""})}}}, "default")
    fill(api, "p", LIMIT - len(RESIZE) - len(request))
    done = ration(api, "p", "--mem", "3")
    assert done.returncode == 1 and "leaves no room for another size" in done.stderr, done.stderr + done.stdout
    assert done.stdout == "" and units(api, "p") == {"main": [2]}


# No room for the answer, or for the request itself.
@pytest.mark.parametrize("room", [40, 10, 0])
def test_ration_set_says_that_the_annotations_leave_no_room(api, cgpu, room):
    fill(api, "p", LIMIT - room)
    done = ration(api, "p", "--mem", "3")
    assert done.returncode == 1
    assert f"the annotations of pod default/p have {LIMIT - room} bytes" in done.stderr
    assert "remove one: kubectl annotate pod p -n default KEY-" in done.stderr
    assert RESIZE not in annotations(api, "p") and units(api, "p") == {"main": [2]}
    fill(api, "p", None)
    assert ration(api, "p", "--mem", "3").returncode == 0
