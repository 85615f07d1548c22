"""What ration-scheduler makes of what the nodes' agents say: serving, their Leases, and what outlives its pod."""
import json
import os
import pathlib
import threading
import time

import pytest

from fake_apiserver import wait_for
from leases import RUNNING, annotate, lease, now
from scheduler_fixture import gpu_node

NOT_SERVING = "GPU node's agent is not serving"


def renew(api, node):
    api.patch("leases", f"ration-agent-{node}", {"spec": {"renewTime": now()}}, "kube-system")


def held(api, node, lives=(), ended=()):
    annotate(api, node, held=json.dumps({
        "at": now(), "ended": [p["metadata"]["uid"] for p in ended],
        "pods": [{"uid": p["metadata"]["uid"], "namespace": "default", "name": p["metadata"]["name"],
                  "cards": {f"GPU-{node}-0": {"units": 5, "core": 0}}} for p in lives]}))


def running_pod(api, scheduler, name, node):
    pod = api.create_pod(name, gpu_mem=5)
    scheduler.filter(pod, [node])
    assert scheduler.bind(pod, node) == ""
    api.patch("pods", name, {"status": RUNNING})
    return pod


def fits(scheduler, pod, node):
    answer = scheduler.filter(pod, [node])
    if answer["NodeNames"]:
        return True
    assert answer["FailedAndUnresolvableNodes"] == {node: NOT_SERVING}
    return False


def test_nothing_is_offered_or_bound_where_the_agent_is_about_to_go(api, start):
    gpu_node(api, "n", 16160)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    assert fits(scheduler, pod, "n")
    annotate(api, "n", serving="false")
    wait_for(lambda: not fits(scheduler, api.create_pod(f"q{time.time_ns()}", gpu_mem=3), "n"))
    # The card held before does not count any more.
    assert NOT_SERVING in scheduler.bind(pod, "n")
    assert not api.requests_for("POST", "/binding$")
    assert not fits(scheduler, pod, "n")
    api.clear_requests()
    annotate(api, "n", serving="true")
    wait_for(lambda: api.requests_for("PATCH", "/pods/p$"), 3, "the waiting pod is woken")
    assert fits(scheduler, pod, "n")
    assert scheduler.bind(pod, "n") == ""


def test_an_agent_whose_lease_ran_out_serves_nothing_until_it_renews(api, start):
    gpu_node(api, "dead", 16160)
    gpu_node(api, "old", 16160)
    lease(api, "dead", 2)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    assert fits(scheduler, pod, "dead")
    wait_for(lambda: not fits(scheduler, pod, "dead"), 15)
    assert "dead: its agent has not renewed its Lease" in scheduler.text()
    # The node being shown again changes nothing, and a node without a Lease serves.
    annotate(api, "dead", other="1")
    scheduler.has_read_nodes()
    assert not fits(scheduler, pod, "dead")
    assert fits(scheduler, api.create_pod("q", gpu_mem=3), "old")
    api.clear_requests()
    renew(api, "dead")
    wait_for(lambda: api.requests_for("PATCH", "/pods/p$"), 3, "the waiting pod is woken")
    assert fits(scheduler, pod, "dead")


def test_a_lease_that_is_deleted_is_none(api, start):
    gpu_node(api, "n", 16160)
    lease(api, "n", 1)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    wait_for(lambda: not fits(scheduler, pod, "n"), 15)
    api.delete("leases", "ration-agent-n", "kube-system")
    wait_for(lambda: fits(scheduler, pod, "n"), 3)


def test_a_lease_created_anew_counts_although_the_old_one_ran_out(api, start):
    gpu_node(api, "n", 16160)
    lease(api, "n", 1)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    wait_for(lambda: not fits(scheduler, pod, "n"), 15)
    api.delete("leases", "ration-agent-n", "kube-system")
    lease(api, "n", 60)
    wait_for(lambda: fits(scheduler, pod, "n"), 3)


@pytest.mark.waits
def test_an_outage_of_the_api_server_makes_no_lease_stale(api, start):
    """While nothing can be renewed nothing is seen to be renewed."""
    gpu_node(api, "n", 16160)
    lease(api, "n", 4)
    scheduler = start()
    stop = threading.Event()

    def agent():
        while not stop.wait(0.5):
            renew(api, "n")
    api.stop()
    time.sleep(9)
    api.start()
    thread = threading.Thread(target=agent)
    thread.start()
    time.sleep(9)
    stop.set()
    thread.join()
    assert "has not renewed" not in scheduler.text()
    wait_for(lambda: "has not renewed" in scheduler.text(), 15, "it would have said so")


@pytest.mark.parametrize("odd", [{}, {"renewTime": None}, {"renewTime": 7}, {"leaseDurationSeconds": -1},
                                 {"renewTime": "x" * 5000}, {"leaseDurationSeconds": "many"}])
def test_odd_leases_are_survived(api, start, odd):
    gpu_node(api, "n", 16160)
    for name in ("ration-agent-", "ration-agent-n", "else"):
        api.create("leases", {"metadata": {"name": name, "namespace": "kube-system",
                                           "labels": {"ration.dev/lease": "agent"}}, "spec": odd})
    scheduler = start()
    assert fits(scheduler, api.create_pod("p", gpu_mem=3), "n")


def test_a_pod_deleted_by_force_keeps_its_card_until_its_node_says_that_it_ended(api, start):
    gpu_node(api, "n", 8192)
    scheduler = start()
    pod = running_pod(api, scheduler, "p", "n")
    waiting = api.create_pod("q", gpu_mem=5)
    assert not scheduler.filter(waiting, ["n"])["NodeNames"]
    scheduler.has_read_pods()
    api.delete("pods", "p")
    wait_for(lambda: scheduler.inspect()["nodes"][0]["devs"][0]["pods"][0]["state"] == "held")
    assert scheduler.used() == {"n": [5]}
    held(api, "n", lives=[pod])
    scheduler.has_read_nodes()
    assert scheduler.used() == {"n": [5]}
    api.clear_requests()
    held(api, "n", ended=[pod])
    wait_for(lambda: scheduler.used() == {"n": [0]}, 2)
    wait_for(lambda: api.requests_for("PATCH", "/pods/q$"), 2, "the waiting pod is woken")


@pytest.mark.long(60)
def test_a_pod_deleted_by_force_keeps_its_gpu_while_the_watch_of_nodes_tells_nothing(api, start):
    """Without a word of its node a pod occupies its GPU for 30 s. A watch whose connection is dead has not such a word."""
    gpu_node(api, "n", 8192, 8192)
    scheduler = start()
    listed, unlisted = (running_pod(api, scheduler, name, "n") for name in ("p", "q"))
    wait_for(lambda: scheduler.used() == {"n": [5, 5]})
    on_gpus = [dev["pods"][0]["name"] for dev in scheduler.inspect()["nodes"][0]["devs"]]
    assert sorted(on_gpus) == ["p", "q"]
    api.silence(True, "nodes")
    for pod in (listed, unlisted):
        api.delete("pods", pod["metadata"]["name"])
    held(api, "n", lives=[listed])
    scheduler.has_read_pods()
    time.sleep(33)
    assert scheduler.used() == {"n": [5, 5]}
    api.silence(False)
    began = time.monotonic()
    wait_for(lambda: scheduler.used() == {"n": [5 * (name == "p") for name in on_gpus]}, 25)
    assert time.monotonic() - began > 9    # what it tells first may be old
    held(api, "n", ended=[listed])
    wait_for(lambda: scheduler.used() == {"n": [0, 0]}, 2)


def test_a_restarted_scheduler_counts_what_the_node_holds(api, start):
    gpu_node(api, "n", 8192)
    gone = {"metadata": {"name": "gone", "uid": "u-gone"}}
    held(api, "n", lives=[gone])
    scheduler = start()
    assert scheduler.used() == {"n": [5]}
    assert not scheduler.filter(api.create_pod("q", gpu_mem=5), ["n"])["NodeNames"]
    held(api, "n", ended=[gone])
    wait_for(lambda: scheduler.used() == {"n": [0]}, 2)


@pytest.mark.parametrize("how", ["removed", "emptied", "node object made anew"])
def test_what_a_node_held_is_not_free_when_somebody_takes_its_word_away(api, start, how):
    gpu_node(api, "n", 8192)
    held(api, "n", lives=[{"metadata": {"name": "gone", "uid": "u-gone"}}])
    scheduler = start()
    assert scheduler.used() == {"n": [5]}
    if how == "removed":
        api.patch("nodes", "n", {"metadata": {"annotations": {"ration.dev/held": None}}})
    elif how == "emptied":
        held(api, "n")
    else:
        api.delete("nodes", "n")
        gpu_node(api, "n", 8192)
    scheduler.has_read_nodes()
    assert scheduler.used() == {"n": [5]}
    assert not scheduler.filter(api.create_pod("q", gpu_mem=5), ["n"])["NodeNames"]


def test_a_pod_that_pod_gc_makes_failed_keeps_its_card_until_its_node_says_that_it_ended(api, start):
    gpu_node(api, "n", 8192)
    scheduler = start()
    pod = running_pod(api, scheduler, "p", "n")
    wait_for(lambda: scheduler.used() == {"n": [5]})
    api.set_phase("p", "Failed")
    scheduler.has_read_pods()
    assert scheduler.used() == {"n": [5]}
    held(api, "n", lives=[pod])
    api.delete("pods", "p")
    scheduler.has_read_nodes()
    scheduler.has_read_pods()
    assert scheduler.used() == {"n": [5]}
    held(api, "n", ended=[pod])
    wait_for(lambda: scheduler.used() == {"n": [0]}, 2)

def test_a_scheduler_that_starts_counts_a_failed_pod_until_its_node_says_that_it_ended(api, start):
    """It failed while nobody followed: a kubelet rejected it, and its containers run until the kubelet ends them."""
    gpu_node(api, "n", 8192)
    first = start()
    pod = running_pod(api, first, "p", "n")
    first.has_read_pods()
    first.stop()
    api.set_phase("p", "Failed")
    second = start()
    assert second.used() == {"n": [5]}
    assert not second.filter(api.create_pod("q", gpu_mem=5), ["n"])["NodeNames"]
    held(api, "n", ended=[pod])
    wait_for(lambda: second.used() == {"n": [0]}, 2)
    second.stop()
    third = start()
    assert third.used() == {"n": [0]}


def test_a_failed_pod_that_a_list_that_was_cut_showed_running_and_the_next_shows_ended_holds_nothing(api, start):
    gpu_node(api, "n", 8192)
    first = start()
    running_pod(api, first, "p", "n")
    first.has_read_pods()
    first.stop()
    api.set_phase("p", "Failed")
    pod = api.pod("p")
    api.create_pod("z", annotations={"text": 20000 * "x"})
    cut = api.inject("GET", "/api/v1/pods", watch=False, cut_after=10000)    # after the first pod
    ended = [{"name": c["name"], "state": {"terminated": {"exitCode": 1}}} for c in pod["spec"]["containers"]]
    second = start(ready=False)
    wait_for(lambda: not cut.times, what="a list that is cut")
    api.patch("pods", "p", {"status": {"containerStatuses": ended}}, "default")
    wait_for(second.ready)
    assert second.used() == {"n": [0]}


def test_pods_that_failed_long_ago_take_no_more_than_a_gpu_has_and_nothing_beside_pods_that_run(api, start):
    gpu_node(api, "n", 8192)
    gpu_node(api, "busy", 8192)
    first = start()
    names = [f"p{i}" for i in range(3)]
    pods = []
    for node, name in [("n", name) for name in names] + [("busy", "old")]:
        pods.append(running_pod(api, first, name, node))
        first.has_read_pods()
        api.set_phase(name, "Failed")
        first.has_read_pods()
        held(api, node, ended=pods)
        wait_for(lambda: first.used() == {"n": [0], "busy": [0]}, 2)
    running_pod(api, first, "new", "busy")
    first.has_read_pods()
    first.stop()
    held(api, "n")
    held(api, "busy")
    second = start()
    assert second.used() == {"n": [5], "busy": [5]}
    states = {d["pods"][0]["name"]: d["pods"][0]["state"] for n in second.inspect()["nodes"] for d in n["devs"]}
    assert states.pop("new") == "bound" and list(states.values()) == ["held"] and set(states) < set(names)


def test_a_pod_that_ends_frees_its_card_at_once_although_it_was_last_seen_running(api, start):
    gpu_node(api, "n", 8192)
    scheduler = start()
    running_pod(api, scheduler, "p", "n")
    scheduler.has_read_pods()
    api.set_phase("p", "Succeeded")
    wait_for(lambda: scheduler.used() == {"n": [0]}, 2)
    api.delete("pods", "p")
    scheduler.has_read_pods()
    assert scheduler.used() == {"n": [0]}


def test_a_pod_that_ended_in_a_gap_of_the_watch_is_no_ghost_and_one_deleted_there_is(api, start):
    gpu_node(api, "n", 16160)
    scheduler = start()
    running_pod(api, scheduler, "ended", "n")
    deleted = running_pod(api, scheduler, "deleted", "n")
    scheduler.has_read_pods()
    assert scheduler.used() == {"n": [10]}
    gap = api.inject(method="GET", path="/pods$", times=-1, watch=True, status=503)
    api.inject(method="GET", path="/pods/ended$", times=-1, status=503)    # who starts answers some, and others not
    api.close_watches()
    api.set_phase("ended", "Succeeded")
    api.delete("pods", "deleted")
    api.expire()
    gap.times = 0
    wait_for(lambda: scheduler.used() == {"n": [5]}, 15)
    scheduler.has_read_pods()
    assert [p["state"] for p in scheduler.inspect()["nodes"][0]["devs"][0]["pods"]] == ["held"]
    held(api, "n", ended=[deleted])
    wait_for(lambda: scheduler.used() == {"n": [0]}, 2)


@pytest.mark.waits
def test_an_api_server_that_is_away_is_tried_each_second_and_what_happened_is_known_soon_after(api, start):
    gpu_node(api, "n", 16160)
    scheduler = start()
    running_pod(api, scheduler, "p", "n")
    wait_for(lambda: scheduler.used() == {"n": [5]})
    gap = api.inject(method="GET", path="/pods$", times=-1, status=503)
    api.close_watches()
    api.set_phase("p", "Succeeded")
    time.sleep(4)    # by now the usual time between two tries is 2.5 s at least
    tried = len(api.requests_for("GET", "/pods$"))
    time.sleep(4)
    assert len(api.requests_for("GET", "/pods$")) - tried >= 3
    gap.times = 0
    wait_for(lambda: scheduler.used() == {"n": [0]}, 2)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"at":1,"pods":[]}', '{"at":"x","pods":[{}]}'])
def test_a_node_whose_held_cannot_be_read_is_given_nothing_and_said_so(api, start, text):
    gpu_node(api, "n", 16160)
    annotate(api, "n", held=text)
    scheduler = start()
    result = scheduler.filter(api.create_pod("p", gpu_mem=3), ["n"])
    assert not result["NodeNames"]
    reasons = {**(result.get("FailedNodes") or {}), **(result.get("FailedAndUnresolvableNodes") or {})}
    assert reasons == {"n": "GPU node's ration.dev/held cannot be read"}
    assert "annotation ration.dev/held" in scheduler.text()
    assert [d["totalGPU"] for d in scheduler.inspect()["nodes"][0]["devs"]] == [15]
    held(api, "n")
    wait_for(lambda: scheduler.filter(api.create_pod(f"p{time.monotonic_ns()}", gpu_mem=3), ["n"])["NodeNames"] == ["n"], 2)


def cpu_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.full    # 15 s of renewals
def test_the_leases_of_five_thousand_agents_cost_little(api, start):
    """Each renews every 10 s: 500 events a second."""
    for i in range(5000):
        lease(api, f"n{i}", 40)
    scheduler = start()
    time.sleep(2)
    before, began, renewals = cpu_seconds(scheduler.process), time.monotonic(), 0
    while time.monotonic() - began < 15:
        renew(api, f"n{renewals % 5000}")
        renewals += 1
        time.sleep(max(0.0, began + renewals / 500 - time.monotonic()))
    spent, took = cpu_seconds(scheduler.process) - before, time.monotonic() - began
    print(f"{renewals / took:.0f} renewals a second: {100 * spent / took:.1f} % of a core, "
          f"{1e6 * spent / renewals:.0f} us each")
    assert renewals > 6000, "the test itself was too slow"
    assert spent / took < 0.1


def test_a_pod_asked_for_after_a_gap_is_asked_for_after_the_next_one_too(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    scheduler.has_read_pods()
    # Every watch of pods is too old, and no LIST has the pod: only the answer about itself tells of it.
    empty = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})
    api.inject("GET", "/api/v1/pods$", times=-1, watch=True, status=410)
    api.inject("GET", "/api/v1/pods$", times=-1, watch=False, status=200, body=empty.encode())
    api.clear_requests()
    api.close_watches()
    wait_for(lambda: any("watch" not in r.query and r.status for r in api.requests_for("GET", "/api/v1/pods$")))
    pod = api.create_pod("p", gpu_mem=3)
    assert scheduler.bind(pod, "n1") == ""
    wait_for(lambda: api.requests_for("GET", "/pods/p$")[1:], 10, "asked for after two gaps")
    assert scheduler.used() == {"n1": [3]}
    api.delete("pods", "p")
    held(api, "n1", ended=[pod])
    wait_for(lambda: scheduler.used() == {"n1": [0]}, 15)
