"""Another size for a pod that runs: ration-scheduler answers ration.dev/resize, and `ration set` asks for it.

A card of 16160 MiB has 15 units, and n of them are floor(16160 * n / 15) MiB: 1077, 2154, 3232."""
import json
import os
import socket
import signal
import subprocess
import time

import pytest

from fake_apiserver import FOREVER, wait_for
from histories import kinds, parts, replay, save, sums
from resizing import KUBECTL, PLACEMENT, RATION, RESIZE, annotations, answer, ask, ration, resize, run_pod, units
from scheduler_fixture import gpu_node

TWO = {"containers": [{"name": name, "image": "x", "resources": {"limits": {"aliyun.com/gpu-mem": str(n)}}}
                      for name, n in (("a", 2), ("b", 3))]}


def fits(api, scheduler, n, name="asking"):
    pod = api.create_pod(name, gpu_mem=n)
    try:
        return bool(scheduler.filter(pod, ["n"]).get("NodeNames"))
    finally:
        api.delete("pods", name)


@pytest.fixture(name="scheduler")
def _scheduler(api, start):
    gpu_node(api, "n", 16160, mode="cgpu")
    return start()


def uses(scheduler, units):
    """The scheduler gives units back when it hears that the API server has the smaller size: a moment after the pod shows it."""
    wait_for(lambda: scheduler.used() == units, 5, f"the ledger says {units}")


def test_a_pod_grows_and_everything_derived_from_its_placement_with_it(api, scheduler):
    before = run_pod(api, scheduler, "p", 2)["metadata"]["annotations"]
    api.patch("pods", "p", {"metadata": {"annotations": {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}}}, "default")
    assert resize(api, "p", {"main": 3}) == (True, "container main: 3 units of GPU 0 (3232 MiB)")
    now = annotations(api, "p")
    assert json.loads(now[PLACEMENT]) == {"unit": 1024, "resizes": 1, "containers": {
        "main": [{"uuid": "GPU-n-0", "units": 3}]}}
    assert json.loads(now["scheduler.framework.gpushare.allocation"]) == {"0": {"0": 3}}
    assert now["ALIYUN_COM_GPU_MEM_POD"] == "3" and now["ALIYUN_COM_GPU_MEM_DEV"] == "15"
    # What its start said stays.
    assert now["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "true"
    assert now["ALIYUN_COM_GPU_MEM_ASSUME_TIME"] == before["ALIYUN_COM_GPU_MEM_ASSUME_TIME"]
    assert scheduler.used() == {"n": [3]}
    assert not fits(api, scheduler, 13) and fits(api, scheduler, 12)


def test_a_pod_shrinks_and_others_may_grow_by_what_it_gave_back(api, scheduler):
    run_pod(api, scheduler, "p", 10)
    run_pod(api, scheduler, "q", 2)
    assert not fits(api, scheduler, 4)
    assert resize(api, "p", {"main": 1}) == (True, "container main: 1 units of GPU 0 (1077 MiB)")
    # The kubelet has ids for 3 more units only: it counts p's 10 by its spec. A new pod would fail there.
    assert not fits(api, scheduler, 4) and fits(api, scheduler, 3)
    assert resize(api, "q", {"main": 14})[0]
    assert not fits(api, scheduler, 1)
    assert resize(api, "q", {"main": 1})[0]
    api.delete("pods", "q")
    wait_for(lambda: scheduler.used() == {"n": [1]}, 5)
    assert resize(api, "p", {"main": 15})[0]
    assert resize(api, "p", {"main": 2})[0]
    assert json.loads(annotations(api, "p")[PLACEMENT])["resizes"] == 3
    uses(scheduler, {"n": [2]})


def test_more_than_is_free_on_its_card_is_refused_and_nothing_changes(api, scheduler):
    run_pod(api, scheduler, "p", 2)
    run_pod(api, scheduler, "q", 12)
    before = annotations(api, "p")[PLACEMENT]
    assert resize(api, "p", {"main": 4}) == (
        False, "2 more units are needed on GPU 0, which has 1 units free")
    assert annotations(api, "p")[PLACEMENT] == before
    assert resize(api, "p", {"main": 3})[0]
    assert scheduler.used() == {"n": [15]}
    page = scheduler.http("GET", "/metrics")[1].decode()
    assert 'ration_resizes_total{result="refused"} 1' in page and 'ration_resizes_total{result="applied"} 1' in page


def test_a_node_that_isolates_nobody_refuses(api, start):
    gpu_node(api, "n", 16160)
    scheduler = start()
    run_pod(api, scheduler, "p", 2)
    assert resize(api, "p", {"main": 1}) == (
        False, "node n is in mode share, in which containers have no memory limit: it can be changed on cgpu and "
        "core_mem nodes only")


def test_of_several_containers_the_named_ones_change(api, scheduler):
    run_pod(api, scheduler, "p", spec=TWO)
    assert resize(api, "p", {"b": 1}) == (True, "container b: 1 units of GPU 0 (1077 MiB)")
    assert units(api, "p") == {"a": [2], "b": [1]}
    assert resize(api, "p", {"a": 4, "b": 5})[0]
    assert units(api, "p") == {"a": [4], "b": [5]}
    assert scheduler.used() == {"n": [9]}


def test_on_two_cards_each_has_an_equal_part(api, start):
    gpu_node(api, "n", 16160, 8192, mode="cgpu")
    scheduler = start()
    run_pod(api, scheduler, "p", 4, labels={"aliyun.com/gpu-count": "2"})
    assert resize(api, "p", {"main": 5}) == (
        False, "container main: 5 units cannot be divided by 2, the number of its GPUs")
    assert resize(api, "p", {"main": 6}) == (
        True, "container main: 3 units of GPU 0 (3232 MiB), 3 units of GPU 1 (3072 MiB)")
    # The second card has 8 units.
    assert not resize(api, "p", {"main": 18})[0]
    assert scheduler.used() == {"n": [3, 3]}


BAD = ["", "x", "[]", "3", "{}", '{"main":0}', '{"main":-1}', '{"main":1.5}', '{"main":"3"}', '{"nobody":3}',
       '{"main":null}', '{"main":3,"nobody":1}', '{"main":99999999999999999999}', '{"main":1073741823}', "{" * 5000,
       '{"' + "m" * 9000 + '":1}', '{"main":3', '{"main":3}x']


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_what_is_no_request_is_answered_with_a_sentence(api, scheduler, text):
    run_pod(api, scheduler, "p", 2)
    before = annotations(api, "p")[PLACEMENT]
    ask(api, "p", text)
    status = answer(api, "p")
    assert not status["applied"] and len(status["message"]) > 20, status
    assert annotations(api, "p")[PLACEMENT] == before
    assert scheduler.used() == {"n": [2]}


def test_the_same_size_again_changes_nothing_and_is_answered(api, scheduler):
    run_pod(api, scheduler, "p", 2)
    before = annotations(api, "p")[PLACEMENT]
    assert resize(api, "p", {"main": 2}) == (True, "container main: 2 units of GPU 0 (2154 MiB)")
    assert annotations(api, "p")[PLACEMENT] == before


def test_a_conflict_is_tried_again(api, scheduler):
    run_pod(api, scheduler, "p", 2)
    api.inject("PATCH", "/pods/p$", times=3, status=409, reason="Conflict", message="the object has been modified")
    assert resize(api, "p", {"main": 3})[0]
    uses(scheduler, {"n": [3]})


def test_who_writes_the_pod_meanwhile_is_not_overwritten(api, scheduler):
    run_pod(api, scheduler, "p", 2)
    api.inject("PATCH", "/pods/p$", delay=0.7)
    ask(api, "p", {"main": 3})
    wait_for(lambda: api.requests_for("PATCH", "/pods/p$"), 5)
    second = ask(api, "p", {"main": 4})
    status = answer(api, "p")
    assert status["request"] == second and status["applied"]
    assert units(api, "p") == {"main": [4]}
    wait_for(lambda: scheduler.used() == {"n": [4]}, 5)


def test_who_asks_again_before_the_scheduler_has_heard_that_its_answer_was_taken_is_answered(api, scheduler):
    run_pod(api, scheduler, "p", 2)
    api.inject("PATCH", "/pods/p$", late=0.7)
    assert resize(api, "p", {"main": 3})[0]
    assert resize(api, "p", {"main": 4})[0]
    wait_for(lambda: scheduler.used() == {"n": [4]}, 5)


def test_while_the_outcome_is_unknown_the_larger_size_counts(api, scheduler):
    run_pod(api, scheduler, "p", 2)
    # It landed, but nobody hears of it: neither an answer nor the watch.
    silence = api.inject("GET", "/api/v1/pods$", times=FOREVER, watch=True, status=500)
    api.close_watches()
    lost = api.inject("PATCH", "/pods/p$", times=FOREVER, drop=True)
    ask(api, "p", {"main": 10})
    silence.times = 0
    wait_for(lambda: len(api.requests_for("PATCH", "/pods/p$")) > 1, 8, "it is sent again")
    assert scheduler.used() == {"n": [10]}
    assert not fits(api, scheduler, 6) and fits(api, scheduler, 5)
    lost.times = 0
    assert answer(api, "p", 15)["applied"]
    assert scheduler.used() == {"n": [10]}


def test_an_answer_that_is_lost_after_it_was_applied_does_no_harm(api, scheduler):
    run_pod(api, scheduler, "p", 8)
    api.inject("PATCH", "/pods/p$", cut_after=0)
    assert resize(api, "p", {"main": 3})[0]
    wait_for(lambda: scheduler.used() == {"n": [3]}, 8)
    assert json.loads(annotations(api, "p")[PLACEMENT])["resizes"] == 1
    assert resize(api, "p", {"main": 4})[0]
    uses(scheduler, {"n": [4]})


def test_a_conflict_with_what_was_applied_unheard_gives_nothing_away(api, scheduler):
    """Found by the simulation: applied, the answer lost; sent again it is refused, as the pod's version is another."""
    run_pod(api, scheduler, "p", 2)
    api.inject("PATCH", "/pods/p$", delay=0.5, cut_after=0)
    ask(api, "p", {"main": 10})
    wait_for(lambda: api.requests_for("PATCH", "/pods/p$"), 8)
    api.silence(True)
    api.clear_requests()
    api.inject("GET", "/api/v1/pods$", watch=False, delay=1.0)
    wait_for(lambda: api.requests_for("PATCH", "/pods/p$") and api.requests_for("GET", "/api/v1/pods$"), 8, "asked anew")
    until = time.monotonic() + 2
    while time.monotonic() < until:
        assert scheduler.used() == {"n": [10]}
    assert units(api, "p") == {"main": [10]}
    api.silence(False)
    assert answer(api, "p")["applied"] and scheduler.used() == {"n": [10]}
    assert resize(api, "p", {"main": 3})[0]
    uses(scheduler, {"n": [3]})


@pytest.mark.parametrize("gap", [False, True])
def test_a_request_that_came_after_the_list_that_it_waits_for_is_answered(api, scheduler, gap):
    """The scheduler hears of the second request before the list arrives, in which the first one is withdrawn; or, after a gap of the watch,
    of the second one only."""
    run_pod(api, scheduler, "p", 2)
    api.inject("GET", "/leases/ack-co-scheduler$", delay=0.5)
    ask(api, "p", {"main": 10})
    wait_for(lambda: api.requests_for("GET", "/leases/ack-co-scheduler$"), 8, "the first request is heard")
    api.silence(True)
    api.patch("pods", "p", {"metadata": {"annotations": {RESIZE: None}}}, "default")
    api.clear_requests()
    api.inject("GET", "/api/v1/pods$", watch=False, late=2.0)
    wait_for(lambda: api.requests_for("GET", "/api/v1/pods$"), 8, "the list is asked for")
    time.sleep(0.3)    # and made
    if gap:
        ask(api, "p", {"main": 3})
        api.expire()
        time.sleep(0.3)    # the watch that is silent has no news any more
    api.silence(False)
    assert (answer(api, "p")["applied"] if gap else resize(api, "p", {"main": 3})[0])
    uses(scheduler, {"n": [3]})


def test_a_pod_that_is_deleted_meanwhile_leaves_nothing_behind(api, scheduler):
    run_pod(api, scheduler, "p", 2)
    api.inject("PATCH", "/pods/p$", delay=0.7)
    ask(api, "p", {"main": 10})
    wait_for(lambda: api.requests_for("PATCH", "/pods/p$"), 5)
    api.delete("pods", "p")
    wait_for(lambda: scheduler.used() == {"n": [0]}, 8)
    assert fits(api, scheduler, 15)


def test_two_that_want_the_last_units_at_once_one_gets_them(api, scheduler):
    run_pod(api, scheduler, "p", 5)
    run_pod(api, scheduler, "q", 5)
    api.inject("PATCH", "/pods/[pq]$", times=2, delay=0.3)
    for name in "pq":
        ask(api, name, {"main": 10})
    answers = [answer(api, name)["applied"] for name in "pq"]
    assert sorted(answers) == [False, True]
    assert scheduler.used() == {"n": [15]}


def test_only_the_replica_whose_kube_scheduler_leads_answers(api, start):
    gpu_node(api, "n", 16160, mode="cgpu")
    lease = {"metadata": {"name": "ack-co-scheduler", "namespace": "kube-system"},
             "spec": {"holderIdentity": "another-host_0b5f"}}
    api.create("leases", lease)
    scheduler = start()
    run_pod(api, scheduler, "p", 2)
    ask(api, "p", {"main": 3})
    scheduler.has_read_pods()
    asked = len(api.requests_for("GET", "/leases/ack-co-scheduler$"))
    wait_for(lambda: len(api.requests_for("GET", "/leases/ack-co-scheduler$")) >= asked + 2, what="asked who leads")
    assert units(api, "p") == {"main": [2]} and RESIZE in annotations(api, "p")
    assert not api.requests_for("PATCH", "/pods/p$")
    api.patch("leases", "ack-co-scheduler", {"spec": {"holderIdentity": socket.gethostname() + "_1c2d"}}, "kube-system")
    assert answer(api, "p", 15)["applied"]


def test_two_replicas_at_once_apply_it_once(api, start):
    """As if both led: the resourceVersion decides, and both books are right."""
    gpu_node(api, "n", 16160, mode="cgpu")
    one, two = start(), start()
    run_pod(api, one, "p", 2)
    wait_for(lambda: two.used() == {"n": [2]}, 5)
    for i, n in enumerate((3, 9, 1, 15)):
        assert resize(api, "p", {"main": n})[0]
        wait_for(lambda: one.used() == two.used() == {"n": [n]}, 8)
        assert json.loads(annotations(api, "p")[PLACEMENT])["resizes"] == i + 1


def test_a_new_process_goes_on_where_the_old_one_was_killed(api, start):
    gpu_node(api, "n", 16160, mode="cgpu")
    scheduler = start()
    run_pod(api, scheduler, "p", 2)
    hang = api.inject("PATCH", "/pods/p$", times=FOREVER, hang=True)
    ask(api, "p", {"main": 7})
    wait_for(lambda: api.requests_for("PATCH", "/pods/p$"), 5)
    scheduler.stop(signal.SIGKILL)
    hang.times = 0
    scheduler.start()
    wait_for(scheduler.ready, 10)
    assert answer(api, "p")["applied"]
    uses(scheduler, {"n": [7]})


def test_a_restarted_scheduler_counts_the_resized_pod(api, start):
    gpu_node(api, "n", 16160, mode="cgpu")
    scheduler = start()
    run_pod(api, scheduler, "p", spec=TWO)
    assert resize(api, "p", {"a": 8})[0]
    scheduler.stop()
    scheduler.start()
    wait_for(scheduler.ready, 10)
    assert scheduler.used() == {"n": [11]}
    assert not fits(api, scheduler, 5) and fits(api, scheduler, 4)
    assert resize(api, "p", {"a": 1})[0]
    uses(scheduler, {"n": [4]})


FORGED = [
    {"resizes": 1, "containers": {"main": [{"uuid": "GPU-n-1", "units": 2}]}},    # another card
    {"resizes": 1, "containers": {"main": [{"uuid": "GPU-n-0", "units": 1}, {"uuid": "GPU-n-1", "units": 1}]}},
    {"resizes": 1, "containers": {"other": [{"uuid": "GPU-n-0", "units": 1}]}},
    {"containers": {"main": [{"uuid": "GPU-n-0", "units": 1}]}},                  # smaller, and no resize
    {"resizes": -1, "containers": {"main": [{"uuid": "GPU-n-0", "units": 1}]}},
]


@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
def test_what_is_no_resize_of_what_it_was_changes_nothing_in_the_book(api, start, forged):
    gpu_node(api, "n", 16160, 16160, mode="cgpu")
    scheduler = start()
    run_pod(api, scheduler, "p", 2)
    text = json.dumps({"unit": 1024} | forged)
    api.patch("pods", "p", {"metadata": {"annotations": {PLACEMENT: text}}}, "default")
    scheduler.has_read_pods()
    assert scheduler.used() == {"n": [2, 0]}


def test_a_recorded_history_with_resizes_replays(api, scheduler, tmp_path):
    run_pod(api, scheduler, "p", spec=TWO)
    assert resize(api, "p", {"a": 8})[0]
    run_pod(api, scheduler, "q", 4)
    assert not resize(api, "p", {"a": 9})[0]
    # A history is written while one is on its way.
    lost = api.inject("PATCH", "/pods/p$", times=FOREVER, drop=True)
    ask(api, "p", {"a": 3})
    wait_for(lambda: len(api.requests_for("PATCH", "/pods/p$")) > 4, 8)
    assert any("resizing" in line for line in parts(save(scheduler, tmp_path / "first"))[3])
    lost.times = 0
    assert answer(api, "p", 15)["applied"]
    run_pod(api, scheduler, "r", 5)
    lines = save(scheduler, tmp_path / "second")
    for name in ("first", "second"):
        sums(replay(tmp_path / name))
    assert kinds(lines, "told")["patch"] >= 3 and kinds(lines, "gave")["resize-order"] >= 3


# ---- ration set ----


def test_ration_set_tells_what_the_pod_has_now(api, scheduler):
    run_pod(api, scheduler, "p", 2)
    done = ration(api, "p", "--mem", "3")
    assert (done.returncode, done.stdout, done.stderr) == (
        0, "pod p container main: 3 units of GPU 0 (3232 MiB)\n", "")
    assert units(api, "p") == {"main": [3]}


def test_inspect_and_why_show_what_the_pod_has(api, scheduler):
    run_pod(api, scheduler, "p", 2)
    assert ration(api, "p", "--mem", "7").returncode == 0
    environment = os.environ | {"KUBECTL": str(KUBECTL), "API_URL": api.url}
    done = subprocess.run([RATION, "inspect"], capture_output=True, text=True, timeout=60, env=environment)
    assert "7/15" in done.stdout, done.stdout + done.stderr
    status, body = scheduler.http("GET", "/why?namespace=default&name=p")
    assert status == 200 and json.loads(body)["pod"]["request"]["units"] == 7


def test_ration_set_tells_why_not(api, scheduler):
    run_pod(api, scheduler, "p", 2)
    done = ration(api, "pod/p", "--mem", "16", "-n", "default")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ration: pod p: 14 more units are needed on GPU 0, which has 13 units free\n"


def test_ration_set_asks_which_container(api, scheduler):
    run_pod(api, scheduler, "p", spec=TWO)
    done = ration(api, "p", "--mem", "3")
    assert done.returncode == 1 and "2 containers that ask" in done.stderr and "-c a" in done.stderr
    assert RESIZE not in annotations(api, "p")
    assert ration(api, "p", "--mem", "4", "-c", "b").stdout == "pod p container b: 4 units of GPU 0 (4309 MiB)\n"
    done = ration(api, "p", "--mem", "4", "-c", "c")
    assert done.returncode == 1 and "no container c" in done.stderr


def test_ration_set_says_when_there_is_nothing_to_set(api, scheduler):
    api.create_pod("waits", gpu_mem=2)
    api.create_pod("none")
    for name, text in (("waits", "has no GPU yet"), ("none", "asks for no aliyun.com/gpu-mem"),
                       ("gone", "there is no pod gone in namespace default")):
        done = ration(api, name, "--mem", "3")
        assert done.returncode == 1 and text in done.stderr, done.stderr


def test_ration_set_gives_up_when_nobody_answers(api, start):
    gpu_node(api, "n", 16160, mode="cgpu")
    scheduler = start()
    run_pod(api, scheduler, "p", 2)
    scheduler.stop()
    began = time.monotonic()
    done = ration(api, "p", "--mem", "3", "--timeout", "1")
    assert done.returncode == 1 and "has not answered within 1 s; the request stays" in done.stderr
    assert time.monotonic() - began < 10
    scheduler.start()
    wait_for(scheduler.ready, 10)
    assert answer(api, "p")["applied"]


def test_ration_set_says_when_another_request_came_after_it(api, start):
    gpu_node(api, "n", 16160, mode="cgpu")
    scheduler = start()
    run_pod(api, scheduler, "p", 2)
    hold = api.inject("GET", "/api/v1/pods$", times=FOREVER, watch=False, delay=1.5)
    environment = os.environ | {"KUBECTL": str(KUBECTL), "API_URL": api.url}
    first = subprocess.Popen([RATION, "set", "p", "--mem", "3"], stderr=subprocess.PIPE, text=True, env=environment)
    wait_for(lambda: RESIZE in annotations(api, "p"), 5)
    ask(api, "p", {"main": 5})
    error = first.communicate(timeout=30)[1]
    hold.times = 0
    assert first.returncode == 1 and "another request has replaced this one" in error
    assert units(api, "p") == {"main": [5]}


@pytest.mark.parametrize("args", [[], ["p"], ["p", "--mem", "0"], ["p", "--mem", "x"], ["p", "q", "--mem", "1"],
                                  ["../p", "--mem", "1"], ["p", "--mem", "1", "-c", "A/b"], ["p", "--mem", "1", "-n", ""]])
def test_ration_set_refuses_what_it_cannot_mean(api, args):
    assert ration(api, *args).returncode == 2
