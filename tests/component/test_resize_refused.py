"""Answers to ration.dev/resize that the API server refuses: by validation, by an admission webhook, by a policy."""
import pytest

from fake_apiserver import FOREVER, wait_for
from resizing import RESIZE, annotations, answer, ask, ration, resize, run_pod, units
from scheduler_fixture import gpu_node

DENIED = {"status": 422, "reason": "Invalid", "message": "admission denies it"}
UNANSWERED = ('the request for another size, {"main": 3}, cannot be answered: the API server refuses to change the '
              'pod: ')


@pytest.fixture(name="scheduler")
def _scheduler(api, start):
    gpu_node(api, "n", 16160, mode="cgpu")
    scheduler = start()
    run_pod(api, scheduler, "p", 2)
    return scheduler


def patches(api):
    return len(api.requests_for("PATCH", "/pods/p$"))


def events(api):
    return [e["message"] for e in api.events("ResizeUnanswered")]


def refused(api, scheduler, **denied):
    """A request that the API server takes no answer to."""
    fault = api.inject("PATCH", "/pods/p$", times=FOREVER, **(DENIED | denied))
    ask(api, "p", {"main": 3})
    wait_for(lambda: events(api), 10, "an Event")
    return fault


@pytest.mark.parametrize("status", [400, 403, 422])
def test_a_yes_that_the_api_server_refuses_becomes_a_no_with_its_reason(api, scheduler, status):
    api.inject("PATCH", "/pods/p$", times=1, **(DENIED | {"status": status}))
    ask(api, "p", {"main": 3})
    told = answer(api, "p")
    assert not told["applied"] and told["message"].startswith("the API server refuses to write the new size: ")
    assert "admission denies it" in told["message"]
    assert units(api, "p") == {"main": [2]} and events(api) == []
    wait_for(lambda: scheduler.used() == {"n": [2]})
    assert patches(api) == 2
    # What was refused counts for this request only.
    assert resize(api, "p", {"main": 3})[0]


def test_ration_set_tells_what_the_api_server_refuses(api, scheduler):
    policy = api.inject("PATCH", "/pods/p$", times=FOREVER, body_has="ration.dev/placement", **DENIED)
    done = ration(api, "p", "--mem", "3")
    assert done.returncode == 1 and "the API server refuses to write the new size: " in done.stderr
    assert "admission denies it" in done.stderr
    policy.times = 0
    assert ration(api, "p", "--mem", "3").returncode == 0


@pytest.mark.parametrize("status", [400, 403, 422])
def test_an_answer_that_is_always_refused_is_not_repeated_and_an_event_says_why(api, scheduler, status):
    refused(api, scheduler, status=status)
    assert len(events(api)) == 1 and events(api)[0].startswith(UNANSWERED) and "admission denies it" in events(api)[0]
    sent = patches(api)
    assert sent == 2    # the yes, and the no
    # Changes of the pod that have nothing to do with it: its kubelet writes its status all the time.
    for i in range(5):
        api.set_phase("p", "Pending" if i % 2 else "Running")
        scheduler.has_read_pods()
    # Another pod's request, which came later, has been answered.
    run_pod(api, scheduler, "later", 2)
    assert resize(api, "later", {"main": 3})[0]
    assert patches(api) == sent and len(events(api)) == 1
    assert scheduler.used() == {"n": [5]} and units(api, "p") == {"main": [2]}
    assert RESIZE in annotations(api, "p")


def test_after_a_refusal_another_request_is_answered(api, scheduler):
    refused(api, scheduler).times = 0
    assert resize(api, "p", {"main": 4})[0]


def test_after_a_refusal_the_same_request_is_answered_once_it_was_taken_back(api, scheduler):
    refused(api, scheduler).times = 0
    api.patch("pods", "p", {"metadata": {"annotations": {RESIZE: None}}}, "default")
    assert resize(api, "p", {"main": 3})[0]


def test_after_a_refusal_the_request_is_answered_when_the_annotations_change(api, scheduler):
    refused(api, scheduler).times = 0
    api.patch("pods", "p", {"metadata": {"annotations": {"note": "shorter"}}}, "default")
    assert answer(api, "p")["applied"] and units(api, "p") == {"main": [3]}


def test_a_pod_that_ends_after_a_refusal_leaves_nothing_behind(api, scheduler):
    refused(api, scheduler)
    api.delete("pods", "p")
    wait_for(lambda: scheduler.used() == {"n": [0]})
    run_pod(api, scheduler, "q", 5)
    assert resize(api, "q", {"main": 15})[0]


def test_a_yes_that_was_lost_and_then_refused_keeps_no_units(api, scheduler):
    api.inject("PATCH", "/pods/p$", times=1, drop=True)
    api.inject("PATCH", "/pods/p$", times=1, **DENIED)
    assert resize(api, "p", {"main": 9})[0] is False
    wait_for(lambda: scheduler.used() == {"n": [2]})
    assert resize(api, "p", {"main": 9})[0] and scheduler.used() == {"n": [9]}


def test_a_pod_that_was_bound_above_the_limit_of_annotations_is_answered_once_it_can_be_changed(api, scheduler):
    """As older versions bound it."""
    api.create_pod("q", gpu_mem=3)
    api.bind("q", "n", annotations={RESIZE: '{"main":4}', "note": "x" * (256 << 10), "ration.dev/placement":
             '{"unit":1024,"containers":{"main":[{"uuid":"GPU-n-0","units":3}]}}'})
    wait_for(lambda: events(api), 10, "an Event")
    assert "Too long" in events(api)[0] and scheduler.used() == {"n": [5]}
    api.patch("pods", "q", {"metadata": {"annotations": {"note": None}}}, "default")
    assert answer(api, "q")["applied"]
    wait_for(lambda: scheduler.used() == {"n": [6]})


def test_a_token_that_is_too_old_and_too_many_requests_pass_by_themselves(api, scheduler):
    for status in (401, 429):
        api.inject("PATCH", "/pods/p$", times=1, status=status, message="later")
    ask(api, "p", {"main": 3})
    assert answer(api, "p")["applied"] and events(api) == []


def test_ration_set_tells_that_no_answer_can_be_written(api, scheduler):
    api.inject("PATCH", "/pods/p$", times=FOREVER, body_has="resourceVersion", **DENIED)
    done = ration(api, "p", "--mem", "3", "--timeout", "4")
    assert done.returncode == 1
    assert ('the request for another size, {"main":3}, cannot be answered: the API server refuses to change the pod: '
            in done.stderr)
    assert "admission denies it" in done.stderr
    assert "`kubectl annotate pod p -n default ration.dev/resize-` takes it back" in done.stderr
    # Another request's Event says nothing about this one.
    scheduler.stop()
    assert ration(api, "p", "--mem", "4", "--timeout", "0").stderr.count("has not answered within 0 s") == 1
