"""When pods that ration-scheduler rejected are woken: in time, whatever freed the card and whoever was away."""
import time

import pytest

from fake_apiserver import FOREVER, wait_for
from scheduler_fixture import gpu_node


def nudges(api, name):
    return len(api.requests_for("PATCH", f"/pods/{name}$"))


def test_a_pod_is_woken_soon_after_the_api_server_is_back(api, start):
    gpu_node(api, "n1", 8192)
    scheduler = start()
    assert scheduler.bind(api.create_pod("old", gpu_mem=5), "n1") == ""
    assert scheduler.filter(api.create_pod("waits", gpu_mem=6), ["n1"])["NodeNames"] == []
    outage = api.inject(method="PATCH", path="/pods/waits$", times=FOREVER, status=503)
    api.delete("pods", "old")
    time.sleep(4)               # with a growing back-off the next nudge would be due at 7 s
    assert 2 <= nudges(api, "waits") <= 6
    outage.times = 0
    wait_for(lambda: "ration.dev/nudge" in api.pod("waits")["metadata"]["annotations"], 2)
    assert scheduler.text().count("cannot nudge") == 1


def test_a_pod_whose_rejection_nobody_could_write_down_is_woken_by_the_next_process(api, start):
    """kube-scheduler's condition was lost in an outage, and so is what we knew."""
    gpu_node(api, "n1", 8192)
    scheduler = start()
    assert scheduler.bind(api.create_pod("old", gpu_mem=5), "n1") == ""
    assert scheduler.filter(api.create_pod("waits", gpu_mem=6), ["n1"])["NodeNames"] == []
    scheduler.stop()
    api.delete("pods", "old")
    scheduler.start()
    wait_for(lambda: "ration.dev/nudge" in api.pod("waits")["metadata"]["annotations"], 10)


@pytest.mark.waits
def test_a_nudge_that_is_forbidden_is_not_sent_every_second(api, start):
    gpu_node(api, "n1", 8192)
    scheduler = start()
    assert scheduler.bind(api.create_pod("old", gpu_mem=5), "n1") == ""
    assert scheduler.filter(api.create_pod("waits", gpu_mem=6), ["n1"])["NodeNames"] == []
    api.inject(method="PATCH", path="/pods/waits$", times=FOREVER, status=403)
    api.delete("pods", "old")
    wait_for(lambda: nudges(api, "waits"), 10, "the first attempt")
    time.sleep(5)    # the next ones after 1 s and 3 s, then after 7 s
    assert nudges(api, "waits") in (2, 3)


@pytest.mark.waits
def test_what_ends_by_time_wakes_who_waits_for_it_within_two_seconds(api, start):
    gpu_node(api, "n1", 8192)
    scheduler = start()
    gone, waits = api.create_pod("gone", gpu_mem=5), api.create_pod("waits", gpu_mem=6)
    api.delete("pods", "gone")
    scheduler.has_read_pods()
    assert scheduler.filter(gone, ["n1"])["NodeNames"] == ["n1"]
    held = time.monotonic()
    assert scheduler.filter(waits, ["n1"])["NodeNames"] == []
    wait_for(lambda: nudges(api, "waits"), 15)
    assert 9.9 <= time.monotonic() - held < 12


def test_pods_in_kube_scheduler_s_queue_are_not_woken_when_both_start(api, start):
    """kube-scheduler asks for each of them by itself. One that it does not ask for was rejected by an earlier process."""
    gpu_node(api, "n1", 98304)
    pods = [api.create_pod(f"p{i:02}", gpu_mem=1) for i in range(60)]
    scheduler = start()
    begin, pause = time.monotonic(), 0
    for pod in pods[:-1]:
        assert scheduler.filter(pod, ["n1"])["NodeNames"] == ["n1"]
        begin, pause = time.monotonic(), max(pause, time.monotonic() - begin)
        time.sleep(0.05)
    assert len(api.requests_for("PATCH", "/pods/p")) <= 16 or pause > 0.9    # on a busy machine
    wait_for(lambda: nudges(api, "p59"), 5)


def test_a_slow_api_server_gets_no_more_than_64_patches_at_a_time(api, start):
    gpu_node(api, "n1", 98304)
    pods = [api.create_pod(f"p{i:02}", gpu_mem=1) for i in range(90)]
    api.inject(method="PATCH", path="/pods/p", times=FOREVER, delay=2.5)
    start()
    wait_for(lambda: len(api.requests_for("PATCH", "/pods/p")) == 64, 10)
    time.sleep(1)
    assert len(api.requests_for("PATCH", "/pods/p")) == 64
    wait_for(lambda: all(nudges(api, pod["metadata"]["name"]) for pod in pods), 4, "the others come after the first answers")
