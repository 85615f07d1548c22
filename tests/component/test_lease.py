"""Exactly one active ledger: two ration-schedulers against one API server, as replicas and as strangers."""
import concurrent.futures
import contextlib
import http.client
import json
import signal
import subprocess
import time

import pytest

from fake_apiserver import wait_for
from scheduler_fixture import BUILD, gpu_node

OTHER = "another scheduler owns the GPU ledger"
PATH = "/leases/ration-ledger$"


def lease(api):
    return api.get("leases", "ration-ledger", "kube-system")["spec"]


def owns(api, identity):
    return [x for x in api.list("leases") if x["metadata"]["name"] == "ration-ledger" and
            x["spec"]["holderIdentity"] == identity]


def serves(scheduler, pod, node="n"):
    return scheduler.filter(pod, [node]).get("NodeNames") == [node]


@pytest.mark.waits
def test_the_lease_names_the_pair_and_both_replicas_serve_under_it(api, start):
    gpu_node(api, "n", 16160)
    one, two = start(), start()
    first, second = api.create_pod("p", gpu_mem=3), api.create_pod("q", gpu_mem=3)
    wait_for(lambda: serves(one, first))
    assert one.bind(first, "n") == ""
    wait_for(lambda: serves(two, second))
    assert two.bind(second, "n") == ""
    assert lease(api)["holderIdentity"] == "kube-system/ack-co-scheduler"
    assert lease(api)["leaseDurationSeconds"] == 15
    assert lease(api)["leaseTransitions"] == 0
    renewed = lease(api)["renewTime"]
    wait_for(lambda: lease(api)["renewTime"] != renewed, 8, "renewed every 5 s")


def test_a_second_pair_says_who_owns_the_ledger_and_binds_nothing(api, start):
    gpu_node(api, "n", 16160)
    first, second = start(), None
    wait_for(lambda: owns(api, "kube-system/ack-co-scheduler"))
    second = start("--scheduler-lease", "other/scheduler")
    pod = api.create_pod("p", gpu_mem=3)
    wait_for(lambda: second.filter(pod, ["n"])["Error"] == f"{OTHER}: kube-system/ack-co-scheduler")
    assert OTHER in second.bind(pod, "n")
    assert second.verb("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": ["n"]}) == []
    assert not api.requests_for("POST", "/binding$")
    assert second.ready(), "its kube-scheduler need not be restarted for that"
    assert serves(first, pod)
    assert first.bind(pod, "n") == ""


@pytest.mark.waits
def test_a_second_pair_takes_over_when_the_first_is_gone_and_gives_it_no_way_back(api, start):
    gpu_node(api, "n", 16160)
    first = start()
    wait_for(lambda: owns(api, "kube-system/ack-co-scheduler"))
    second = start("--scheduler-lease", "other/scheduler")
    pod = api.create_pod("p", gpu_mem=3)
    wait_for(lambda: OTHER in second.filter(pod, ["n"])["Error"])
    first.process.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    wait_for(lambda: serves(second, pod), 30)
    assert 10 < time.monotonic() - stopped, "not before the Lease has run out"
    assert lease(api)["holderIdentity"] == "other/scheduler" and lease(api)["leaseTransitions"] == 1
    assert second.bind(pod, "n") == ""
    # The first wakes up, believing that it owns the ledger.
    api.clear_requests()
    first.process.send_signal(signal.SIGCONT)
    late = api.create_pod("q", gpu_mem=3)
    refused = first.bind(late, "n")
    assert "Lease" in refused or OTHER in refused
    assert not api.requests_for("POST", "/pods/q/binding$")
    wait_for(lambda: OTHER in first.filter(late, ["n"])["Error"], 8)


@pytest.mark.waits
def test_filter_outlives_an_outage_of_the_api_server_and_bind_waits_for_the_lease(api, start):
    gpu_node(api, "n", 16160)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    wait_for(lambda: serves(scheduler, pod))
    broken = api.inject(path=PATH, times=-1, status=500, message="etcd is sick")
    time.sleep(11)
    assert serves(scheduler, pod) and scheduler.ready()
    assert "cannot read the Lease kube-system/ration-ledger: etcd is sick" in scheduler.bind(pod, "n")
    assert not api.requests_for("POST", "/binding$")
    broken.times = 0
    wait_for(lambda: scheduler.bind(pod, "n") == "", 5)


def test_without_the_right_to_the_lease_the_pods_events_say_so(api, start):
    gpu_node(api, "n", 16160)
    api.inject(path=PATH, times=-1, status=403, message="leases is forbidden")
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    wait_for(lambda: "leases is forbidden" in scheduler.filter(pod, ["n"])["Error"])


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": None}, {"holderIdentity": 7},
                                  {"holderIdentity": ""}, {"leaseTransitions": "x"}])
def test_a_lease_that_names_nobody_is_taken_at_once(api, start, spec):
    gpu_node(api, "n", 16160)
    api.create("leases", {"metadata": {"name": "ration-ledger", "namespace": "kube-system",
                                       "labels": {"kept": "yes"}}, "spec": spec})
    scheduler = start()
    wait_for(lambda: serves(scheduler, api.create_pod(f"p{time.time_ns()}", gpu_mem=3)))
    assert owns(api, "kube-system/ack-co-scheduler")[0]["metadata"]["labels"] == {"kept": "yes"}


def test_a_conflict_with_the_other_replica_is_nobodys_loss(api, start):
    gpu_node(api, "n", 16160)
    api.inject(method="PUT", path=PATH, times=2, status=409, reason="Conflict")
    api.inject(method="POST", path="/leases$", times=1, status=409, reason="AlreadyExists")
    scheduler = start()
    wait_for(lambda: serves(scheduler, api.create_pod(f"p{time.time_ns()}", gpu_mem=3)), 5)


@pytest.mark.parametrize("identity", ["", "x", "/x", "x/", "x/y/z", "X/y", "a b/c", "x/" + "y" * 400])
def test_the_name_of_the_pair_must_be_one_of_kubernetes(identity):
    done = subprocess.run([BUILD / "src/scheduler/ration-scheduler", "--scheduler-lease", identity],
                          capture_output=True, text=True, timeout=10)
    assert done.returncode == 2 and "NAMESPACE/NAME" in done.stderr


# ---- fail-over ----

class KubeScheduler:
    """A process that asks: like Go's HTTP client it keeps its connection; when it dies, the connection is closed."""
    def __init__(self, scheduler):
        self.connection = http.client.HTTPConnection("127.0.0.1", scheduler.ports[0], timeout=15)

    def verb(self, name, body):
        self.connection.request("POST", "/" + name, json.dumps(body), {"Content-Type": "application/json"})
        return json.loads(self.connection.getresponse().read())

    def filter(self, pod, nodes):
        return self.verb("filter", {"Pod": pod, "Nodes": None, "NodeNames": nodes})["NodeNames"]

    def bind(self, pod, node):
        meta = pod["metadata"]
        return self.verb("bind", {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"],
                                  "Node": node})["Error"]

    def leads_for(self, api, seconds, node="n"):
        """Asks all the time, so that no pause tells of another leader, and leaves nothing behind."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.bind(api.create_pod(f"lead-{time.time_ns()}", gpu_mem=0), node)
            time.sleep(0.25)

    def dies(self):
        self.connection.close()


def lists_of_nodes(api):
    return [r for r in api.requests_for("GET", "/pods$") if "spec.nodeName=" in r.query.get("fieldSelector", "")]


def card_of(api, name):
    return api.pod(name)["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"]


@pytest.mark.waits
def test_leadership_that_is_back_within_two_seconds_is_a_new_leaders(api, start):
    """A kube-scheduler is started again, and the other one too, before ours has paused for long."""
    gpu_node(api, "n", 8192, 8192)
    ours, other = start(), start()
    first = KubeScheduler(ours)
    wait_for(lambda: first.filter(api.create_pod(f"p{time.time_ns()}", gpu_mem=3), ["n"]))
    first.leads_for(api, 6)
    api.silence(True)
    first.dies()
    assert KubeScheduler(other).bind(api.create_pod("p", gpu_mem=5), "n") == ""
    again = KubeScheduler(ours)
    pod = api.create_pod("q", gpu_mem=5)
    assert again.filter(pod, ["n"]) == ["n"]
    assert again.bind(pod, "n") == ""
    assert sorted([card_of(api, "p"), card_of(api, "q")]) == ["0", "1"]


@pytest.mark.waits
def test_somebody_who_only_looks_on_does_not_hide_that_kube_scheduler_was_started_again(api, start):
    gpu_node(api, "n", 81920)
    scheduler = start()
    looker = http.client.HTTPConnection("127.0.0.1", scheduler.ports[0], timeout=15)
    first = KubeScheduler(scheduler)
    first.leads_for(api, 6)
    looker.request("GET", "/inspect")
    assert looker.getresponse().read()
    api.clear_requests()
    assert first.bind(api.create_pod("a", gpu_mem=1), "n") == "" and not lists_of_nodes(api)
    first.dies()
    assert KubeScheduler(scheduler).bind(api.create_pod("b", gpu_mem=1), "n") == "" and lists_of_nodes(api)


@pytest.mark.parametrize("size", [0, 8 << 20])
@pytest.mark.waits
def test_a_dead_kube_schedulers_unread_call_does_not_hide_that_it_was_started_again(api, start, size):
    """ration-scheduler finds the last call of the dead process, longer than what has room, and the first of the next
    one together."""
    gpu_node(api, "n", 81920)
    scheduler = start()
    first = KubeScheduler(scheduler)
    first.leads_for(api, 6)
    api.clear_requests()
    last, pod = api.create_pod("a", gpu_mem=1), api.create_pod("b", gpu_mem=1)
    scheduler.process.send_signal(signal.SIGSTOP)
    body = json.dumps({"Pod": last, "Nodes": None, "NodeNames": ["n"]}) + " " * size
    first.connection.sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        first.connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
    first.dies()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(KubeScheduler(scheduler).bind, pod, "n")
        time.sleep(0.5)
        scheduler.process.send_signal(signal.SIGCONT)
        assert answer.result() == "" and lists_of_nodes(api)

def test_a_new_leader_sees_the_binding_that_its_watch_has_not_shown(api, start):
    """The old leader's last Binding is applied; the new leader's watch is silent."""
    gpu_node(api, "n", 8192, 8192)
    old, new = start(), start()
    one, two = api.create_pod("p", gpu_mem=5), api.create_pod("q", gpu_mem=5)
    wait_for(lambda: serves(old, one) and serves(new, two))
    api.silence(True)
    assert old.bind(one, "n") == ""
    assert new.used() == {"n": [5, 0]}, "its own hold, on the card that the old leader has just given away"
    assert new.bind(two, "n") == ""
    cards = [api.pod(p)["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] for p in "pq"]
    assert sorted(cards) == ["0", "1"]
    third = api.create_pod("r", gpu_mem=5)
    assert "units free" in new.bind(third, "n")


@pytest.mark.waits
def test_a_pod_that_only_an_old_list_shows_is_asked_for_and_let_go(api, start):
    """It was deleted before the watch began, and after the list of its node was made: no event tells its end."""
    gpu_node(api, "n", 8192)
    scheduler = start()
    wait_for(lambda: serves(scheduler, api.create_pod(f"p{time.time_ns()}", gpu_mem=1)))
    gone = api.create_pod("other", gpu_mem=0)
    gone = {**gone, "metadata": {**gone["metadata"], "name": "gone", "uid": "of-the-pod-that-is-gone"}, "spec": {
        "nodeName": "n", "containers": [{"name": "main", "resources": {"limits": {"aliyun.com/gpu-mem": "5"}}}]}}
    api.inject("GET", "/pods$", status=200, body=json.dumps({"kind": "PodList", "metadata": {}, "items": [gone]}), watch=False)
    assert "units free" in scheduler.bind(api.create_pod("p", gpu_mem=5), "n") and lists_of_nodes(api)
    assert not api.requests_for("GET", "/pods/gone$"), "the watch may still show it"
    wait_for(lambda: api.requests_for("GET", "/pods/gone$"), 15)
    assert "units free" in scheduler.bind(api.create_pod("q", gpu_mem=5), "n"), "its containers may still run"
    held = json.dumps({"at": "2026-01-01T00:00:00.000000Z", "pods": [], "ended": [gone["metadata"]["uid"]]})
    api.patch("nodes", "n", {"metadata": {"annotations": {"ration.dev/held": held}}})
    wait_for(lambda: scheduler.bind(api.create_pod(f"r{time.time_ns()}", gpu_mem=5), "n") == "")
    assert len(api.requests_for("GET", "/pods/gone$")) == 1


@pytest.mark.waits
def test_a_leader_that_is_asked_all_the_time_lists_nodes_in_its_first_five_seconds_only(api, start):
    """One that has many connections, as it has for binds at the same time, and drops most of them."""
    gpu_node(api, "n", 161600)
    scheduler = start()
    began = time.monotonic()
    late = 0
    idle = KubeScheduler(scheduler)
    for i in range(30):
        pod = api.create_pod(f"p{i}", gpu_mem=1)
        if i == 0:
            wait_for(lambda: idle.filter(pod, ["n"]))
        wait_for(lambda: serves(scheduler, pod))
        api.clear_requests()
        assert scheduler.bind(pod, "n") == ""
        lists = lists_of_nodes(api)
        if time.monotonic() - began < 4:
            assert lists and "resourceVersion" not in lists[0].query
        if time.monotonic() - began > 6:
            late += 1
            assert not lists
        time.sleep(0.25)
    assert late and b"ration_takeovers_total 1\n" in scheduler.http("GET", "/metrics")[1]


def test_a_pod_that_ended_while_its_node_was_listed_does_not_come_back(api, start):
    gpu_node(api, "n", 16160)
    scheduler = start()
    dead, pod = api.create_pod("dead", gpu_mem=5, node="n"), api.create_pod("p", gpu_mem=3)
    wait_for(lambda: scheduler.inspect()["nodes"][0]["pendingGPU"] == 5)
    wait_for(lambda: serves(scheduler, pod))
    listing = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [dead]}
    api.inject(method="GET", path="/pods$", watch=False, body=listing, status=200)
    api.delete("pods", "dead")
    wait_for(lambda: scheduler.inspect()["nodes"][0]["pendingGPU"] == 0)
    assert scheduler.bind(pod, "n") == ""
    assert scheduler.inspect()["nodes"][0]["pendingGPU"] == 0


@pytest.mark.parametrize("answer", [{"status": 500}, {"status": 200, "body": "no"},
                                    {"status": 200, "body": {"items": 7}}, {"drop": True}])
def test_a_node_that_cannot_be_listed_is_not_bound_to_blindly(api, start, answer):
    gpu_node(api, "n", 16160)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    wait_for(lambda: serves(scheduler, pod))
    api.inject(method="GET", path="/pods$", watch=False, times=2, **answer)
    assert "cannot read the pods of node n" in scheduler.bind(pod, "n")
    wait_for(lambda: scheduler.bind(pod, "n") == "")


def test_a_burst_of_binds_to_one_node_after_a_takeover_shares_its_lists(api, start):
    gpu_node(api, "n", 81920, 81920)
    gpu_node(api, "other", 81920)
    scheduler = start()
    pods = [api.create_pod(f"p{i}", gpu_mem=2) for i in range(40)]
    wait_for(lambda: all(scheduler.filter(p, ["n"])["NodeNames"] == ["n"] for p in pods[-1:]))
    api.clear_requests()
    api.inject("GET", r"/api/v1/pods$", watch=False, delay=0.3)    # the list is still on its way when the others come
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert list(pool.map(lambda p: scheduler.bind(p, "n"), pods)) == [""] * 40
    took = time.monotonic() - began
    assert scheduler.bind(api.create_pod("elsewhere", gpu_mem=1), "other") == ""
    lists = [r.query["fieldSelector"].split(",")[0] for r in api.requests_for("GET", "/pods$")
             if "spec.nodeName=" in r.query.get("fieldSelector", "")]
    assert lists[-1] == "spec.nodeName=other"
    assert len(lists) - 1 <= 1 + took / 0.2, "one answer is good for 200 ms"


def test_a_list_that_failed_after_a_takeover_is_asked_for_again_by_who_waited(api, start):
    gpu_node(api, "n", 81920)
    scheduler = start()
    pods = [api.create_pod(f"p{i}", gpu_mem=2) for i in range(8)]
    api.clear_requests()
    api.inject("GET", r"/api/v1/pods$", watch=False, status=500, delay=0.3)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda p: scheduler.bind(p, "n"), pods))
    assert sorted(a == "" for a in answers) == [False] + [True] * 7, answers
    assert len([a for a in answers if "cannot read the pods of node n" in a]) == 1
