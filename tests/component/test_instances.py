"""At most so many containers on a card of an isolated node (contract 5), through the verbs of ration-scheduler."""
import json
import subprocess

import pytest

import scheduler_fixture
from explanations import ask, by_name, known
from fake_apiserver import wait_for
from histories import replay, save, sums
from scheduler_fixture import gpu_node

REASON = "GPU has its maximum of containers"


def fill(api, scheduler, n, node="n", first=0, **more):
    for i in range(first, first + n):
        pod = api.create_pod(f"p{i}", gpu_mem=1, **more)
        assert scheduler.filter(pod, [node])["NodeNames"] == [node], i
        assert scheduler.bind(pod, node) == ""


def node_of(api, mode="cgpu", unit="1024", mib=81920, name="n"):
    gpu_node(api, name, mib, mode=mode)
    api.patch("nodes", name, {"metadata": {"annotations": {"ration.dev/unit": unit}}})


@pytest.mark.parametrize("unit, options, maximum", [
    ("1024", [], 20), ("512", [], 16), ("128", [], 16), ("1024", ["--max-pods-per-gpu", "3"], 3),
    ("128", ["--max-pods-per-gpu", "30"], 30), ("1024", ["--max-pods-per-gpu", "0"], 20)])
def test_one_more_than_the_maximum_waits_and_runs_when_one_ends(api, start, unit, options, maximum):
    node_of(api, unit=unit)
    scheduler = start(*options)
    fill(api, scheduler, maximum)
    last = api.create_pod("last", gpu_mem=1)
    answer = scheduler.filter(last, ["n"])
    assert not answer["NodeNames"]
    assert answer["FailedNodes"] | answer["FailedAndUnresolvableNodes"] == {"n": REASON}
    api.delete("pods", "p1")
    # It is nudged, and fits.
    wait_for(lambda: "ration.dev/nudge" in api.pod("last")["metadata"]["annotations"], 5)
    assert scheduler.filter(last, ["n"])["NodeNames"] == ["n"]


def test_a_share_node_has_no_maximum(api, start):
    node_of(api, mode="share")
    scheduler = start()
    fill(api, scheduler, 40)


def test_why_names_the_card_and_the_reason(api, start):
    gpu_node(api, "n", 81920, 4096, mode="cgpu")
    scheduler = start("--max-pods-per-gpu", "2")
    fill(api, scheduler, 4)
    pod = api.create_pod("waits", gpu_mem=2)
    assert scheduler.filter(pod, ["n"])["NodeNames"] == []
    known(scheduler, "waits")
    node = by_name(ask(scheduler, "waits"))["n"]
    assert node["reason"] == REASON
    assert [c["reason"] for c in node["cards"]] == [REASON, REASON]
    big = api.create_pod("big", gpu_mem=79)
    scheduler.filter(big, ["n"])
    known(scheduler, "big")
    node = by_name(ask(scheduler, "big"))["n"]
    assert node["reason"] == "no GPU has 79 units free"
    assert [c["reason"] for c in node["cards"]] == ["not enough units free", "GPU is not that large"]


def test_a_recorded_history_knows_the_maximum(api, start, tmp_path):
    node_of(api)
    scheduler = start("--max-pods-per-gpu", "2")
    fill(api, scheduler, 2)
    assert scheduler.filter(api.create_pod("third", gpu_mem=1), ["n"])["NodeNames"] == []
    lines = save(scheduler, tmp_path / "history")
    assert any('"instancesMax": 2' in json.dumps(line) for line in lines)
    sums(replay(tmp_path / "history"))


def test_who_is_below_goes_for_a_place(api, start):
    """kube-scheduler names its victims by sums; one is enough for the card."""
    node_of(api)
    scheduler = start("--max-pods-per-gpu", "2")
    for name in "ab":
        pod = api.create_pod(name, gpu_mem=1, spec={"priority": 0, "containers": [
            {"name": "main", "image": "x", "resources": {"limits": {"aliyun.com/gpu-mem": "1"}}}]})
        assert scheduler.filter(pod, ["n"])["NodeNames"] == ["n"]
        assert scheduler.bind(pod, "n") == ""
    pod = api.create_pod("high", spec={"priority": 1000, "containers": [
        {"name": "main", "image": "x", "resources": {"limits": {"aliyun.com/gpu-mem": "1"}}}]})
    answer = scheduler.filter(pod, ["n"])
    # In-tree preemption would find nobody whose units help: the node's sum suffices.
    assert answer["FailedAndUnresolvableNodes"] == {"n": REASON}
    wait_for(lambda: api.requests_for("POST", "/eviction$"), 5, "an eviction of our own")


@pytest.mark.parametrize("bad", ["-1", "x", "1001", ""])
def test_a_maximum_that_is_none_is_refused(api, start, bad):

    program = scheduler_fixture.BUILD / "src/scheduler/ration-scheduler"
    assert subprocess.run([program, "--max-pods-per-gpu", bad], capture_output=True).returncode == 2
