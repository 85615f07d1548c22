"""GET /why of ration-scheduler, and `ration why` in front of it: why a pod is where it is, or nowhere."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess

import pytest

import preemptions
from agent_fixture import SANITIZED
from explanations import FAKE, RATION, ask, bound, by_name, gpu_pod, known
from fake_apiserver import FOREVER, wait_for
from preemptions import fragmented, preempt, running
from scheduler_fixture import gpu_node

GANG, GANG_MIN = (f"pod-group.scheduling.sigs.k8s.io/{key}" for key in ("name", "min-available"))


def test_every_node_and_card_says_why_it_does_not_fit(api, start):
    gpu_node(api, "full", 15360, 8192)
    gpu_node(api, "other-mode", 15360, mode="topology")
    api.create_node("cpu-only")
    scheduler = start()
    bound(scheduler, api.create_pod("first", gpu_mem=10), ["full"])
    pod = api.create_pod("second", gpu_mem=9)
    assert scheduler.filter(pod, ["full", "other-mode"])["NodeNames"] == []
    known(scheduler, "second")

    answer = ask(scheduler, "second")
    assert answer["pod"]["state"] == "waiting"
    assert answer["pod"]["request"]["units"] == 9
    assert (answer["gpuNodes"], answer["fittingNodes"], answer["otherNodes"]) == (2, 0, 1)
    nodes = by_name(answer)
    assert set(nodes) == {"full", "other-mode"}
    assert nodes["full"]["reason"] == "no GPU has 9 units free"
    assert nodes["other-mode"]["reason"] == "GPU sharing mode does not fit"
    first, second = nodes["full"]["cards"]
    assert (first["total"], first["used"], first["free"]) == (15, 10, 5)
    assert (first["fits"], first["reason"]) == (False, "not enough units free")
    assert [(p["name"], p["units"], p["state"]) for p in first["pods"]] == [("first", 10, "bound")]
    assert (second["fits"], second["reason"], second["pods"]) == (False, "GPU is not that large", [])
    assert "reason" not in nodes["other-mode"]["cards"][0]


def test_waiting_nudges_and_decisions_are_told_in_order(api, start):
    gpu_node(api, "n", 15360)
    scheduler = start()
    bound(scheduler, api.create_pod("first", gpu_mem=10), ["n"])
    pod = api.create_pod("second", gpu_mem=9)
    scheduler.filter(pod, ["n"])
    known(scheduler, "second")
    waiting = ask(scheduler, "second")["waiting"]
    assert 0 <= waiting["forMs"] < 60000 and waiting["nudges"] == 0
    api.delete("pods", "first")
    wait_for(lambda: ask(scheduler, "second")["waiting"]["nudges"] == 1, 5, "it is nudged")
    assert bound(scheduler, pod, ["n"]) == "n"
    wait_for(lambda: ask(scheduler, "second")["pod"]["state"] == "bound", 5)

    answer = ask(scheduler, "second")
    assert "waiting" not in answer
    assert answer["pod"]["node"] == "n"
    rejected, nudge, accepted, bind, outcome = answer["decisions"]
    assert rejected["decision"] == "filter" and rejected["fitting"] == 0
    assert rejected["reasons"] == [{"reason": "no GPU has 9 units free", "nodes": 1}]
    assert nudge["decision"] == "nudge"
    assert (accepted["decision"], accepted["fitting"], accepted["node"]) == ("filter", 1, "n")
    assert (accepted["policy"], accepted["cardsFitting"]) == ("binpack", 1)
    assert accepted["cards"] == [{"index": 0, "uuid": "GPU-n-0", "free": 15, "total": 15}]
    assert bind["decision"] == "bind" and bind["cards"] == accepted["cards"]
    assert outcome["decision"] == "outcome" and outcome["error"] == "" and outcome["node"] == "n"
    times = [d["time"] for d in answer["decisions"]]
    assert times == sorted(times) and all(t.endswith("Z") for t in times)
    assert all(d["uid"] == pod["metadata"]["uid"] for d in answer["decisions"])


def test_a_held_card_is_shown_as_held_and_does_not_stand_in_its_own_way(api, start):
    gpu_node(api, "n", 15360)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=15)
    assert scheduler.filter(pod, ["n"])["NodeNames"] == ["n"]
    known(scheduler, "p")
    answer = ask(scheduler, "p")
    assert answer["pod"]["state"] == "tentative" and answer["pod"]["node"] == "n"
    assert 0 < answer["pod"]["holdEndsInMs"] <= 600000
    card, = by_name(answer)["n"]["cards"]
    assert (card["fits"], card["turn"], card["free"], card["used"]) == (True, 1, 15, 15)


def test_a_failed_binding_is_remembered_with_its_reason(api, start):
    gpu_node(api, "n", 15360)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    scheduler.filter(pod, ["n"])
    api.inject(method="POST", path=r"/binding$", status=403)
    assert scheduler.bind(pod, "n") != ""
    outcome = ask(scheduler, "p")["decisions"][-1]
    assert outcome["decision"] == "outcome" and "Binding failed" in outcome["error"]


def kinds(answer):
    return [d["decision"] for d in answer["decisions"]]


def victim_names(decision):
    return [(v["namespace"], v["name"], v["priority"]) for v in decision["victims"]]


def test_what_filter_refuses_is_remembered_with_its_sentence(api, start):
    gpu_node(api, "n", 15360)
    scheduler = start()
    bad = api.create_pod("bad", gpu_mem=4, labels={"aliyun.com/gpu-count": "two"})
    scheduler.filter(bad, ["n"])
    decision, = ask(scheduler, "bad")["decisions"]
    assert decision["decision"] == "filter-error" and 'aliyun.com/gpu-count is "two"' in decision["error"]
    # In doubt: the Binding was not answered clearly.
    pod = api.create_pod("p", gpu_mem=3)
    api.inject(method="POST", path=r"/binding$", status=500)
    scheduler.filter(pod, ["n"])
    assert scheduler.bind(pod, "n") != ""
    said = scheduler.filter(pod, ["n"])["Error"]
    assert "not known yet" in said
    last = ask(scheduler, "p")["decisions"][-1]
    assert (last["decision"], last["error"]) == ("filter-error", said)
    # What names no pod is about no pod.
    before = sum(len(ask(scheduler, name)["decisions"]) for name in ("bad", "p"))
    for body in (b"{", b"{}", b'{"Pod":{},"NodeNames":["n"]}', b'{"Pod":{"metadata":{"uid":""}},"NodeNames":["n"]}'):
        assert json.loads(scheduler.http("POST", "/filter", body)[1])["Error"]
    assert sum(len(ask(scheduler, name)["decisions"]) for name in ("bad", "p")) == before


def test_who_does_not_own_the_ledger_remembers_whom_it_refused(api, start):
    gpu_node(api, "n", 15360)
    start()
    second = start("--scheduler-lease", "other/scheduler")
    said = wait_for(lambda: second.filter(api.create_pod("p", gpu_mem=3), ["n"])["Error"], 5)
    assert "another scheduler owns" in said
    decision, = ask(second, "p")["decisions"]
    assert (decision["decision"], decision["error"]) == ("filter-error", said)


def test_the_verb_preempt_is_remembered_with_node_victims_and_why_not_elsewhere(api, start):
    """15 units each: on best 8 must go, on worse 9 and of higher priority; spare has no victim named; on small no
    card has 10."""
    for name in ("best", "worse", "spare"):
        gpu_node(api, name, 15360)
    gpu_node(api, "small", 8192)
    victims = [running(api, "v-best", 8, 0, node="best", priority=1), running(api, "v-worse", 9, 0, node="worse", priority=5),
               running(api, "v-spare", 9, 0, node="spare"), running(api, "v-small", 5, 0, node="small")]
    scheduler = start()
    big = preemptions.pod(api, "big", 10, 1000)
    answer = preempt(scheduler, big, best=[victims[0]], worse=[victims[1]], spare=[], small=[victims[3]])
    assert list(answer) == ["best"]
    decision, = ask(scheduler, "big")["decisions"]
    assert (decision["decision"], decision["asked"], decision["fitting"], decision["node"]) == ("preempt", 4, 2, "best")
    assert victim_names(decision) == [("default", "v-best", 1)]
    assert decision["cards"] == [{"index": 0, "uuid": "GPU-best-0", "free": 7, "total": 15}]
    assert {r["reason"]: r["nodes"] for r in decision["reasons"]} == {
        "no GPU is that large": 1, "kube-scheduler names no victims": 1, "other victims are to be preferred": 1}
    # The victim learns for whom it goes; who stays learns nothing.
    told, = ask(scheduler, "v-best")["decisions"]
    assert (told["decision"], told["name"]) == ("preempt", "big")
    assert ask(scheduler, "v-worse")["decisions"] == []


def test_our_own_evictions_are_remembered_from_the_search_to_the_end(api, start):
    fragmented(api)
    scheduler = start()
    api.inject("POST", "/pods/v[012]/eviction$", times=FOREVER, status=429, message="Cannot evict pod: budget.")
    big = preemptions.pod(api, "big", 10, 1000)
    scheduler.filter(big, ["n"])
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "n", 15)
    answer = preempt(scheduler, api.pod("big"), n=[api.pod("v0")])
    assert answer == {}
    api.delete("pods", "v3")
    wait_for(lambda: scheduler.filter(api.pod("big"), ["n"])["NodeNames"] == ["n"], 5)
    assert scheduler.bind(big, "n") == ""
    wait_for(lambda: "evict-end" in kinds(ask(scheduler, "big")), 5)
    decisions = ask(scheduler, "big")["decisions"]
    search, = [d for d in decisions if d["decision"] == "evict-search"]
    assert (search["asked"], search["fitting"], search["nodes"]) == (1, 1, [{"name": "n"}])
    plans = [d for d in decisions if d["decision"] == "evict-plan"]
    answers = [d for d in decisions if d["decision"] == "evict-answer"]
    assert [victim_names(d) for d in plans] == [[("default", v["name"], 0)] for d in answers for v in d["victims"]]
    assert [bool(d["error"]) for d in answers] == [True] * (len(answers) - 1) + [False]
    assert len(answers) > 1 and all("Cannot evict pod: budget." in d["error"] for d in answers[:-1])
    assert plans[-1]["cards"] == [{"index": 3, "uuid": "GPU-n-3", "free": 7, "total": 15}]
    refused_verb, = [d for d in decisions if d["decision"] == "preempt"]
    assert refused_verb["text"] == "pods are being evicted for it already" and "node" not in refused_verb
    end = [d for d in decisions if d["decision"] == "evict-end"]
    assert [(d["node"], d["text"]) for d in end] == [("n", "the pod is bound")]


def test_budgets_that_protect_everybody_are_remembered(api, start):
    fragmented(api, labels={"app": "x"})
    api.create_budget("keep", {"app": "x"}, 0)
    scheduler = start()
    wait_for(lambda: api.watches() >= 3)
    big = preemptions.pod(api, "big", 10, 1000)

    def search():
        scheduler.filter(big, ["n"])
        return [d for d in ask(scheduler, "big")["decisions"] if d["decision"] == "evict-search"
                and "PodDisruptionBudgets protect" in d.get("text", "")]
    assert wait_for(search, 10)[0]["fitting"] == 0


def test_a_pod_nobody_has_heard_of_is_an_answer_and_bad_questions_are_refused(api, start):
    gpu_node(api, "n", 15360)
    scheduler = start()
    answer = ask(scheduler, "nobody")
    assert "pod" not in answer and answer["decisions"] == []
    assert scheduler.http("GET", "/why")[0] == 400
    assert scheduler.http("GET", "/why?name=x")[0] == 400
    assert scheduler.http("GET", "/why?namespace&name=x")[0] == 400
    assert ask(scheduler, '"</script>\\', namespace="\n")["decisions"] == []


def test_the_uid_tells_apart_pods_that_had_the_same_name(api, start):
    gpu_node(api, "n", 15360)
    scheduler = start()
    old = api.create_pod("p", gpu_mem=16)
    scheduler.filter(old, ["n"])
    api.delete("pods", "p")
    new = api.create_pod("p", gpu_mem=3)
    scheduler.filter(new, ["n"])
    assert len(ask(scheduler, "p")["decisions"]) == 2
    only, = ask(scheduler, "p", uid=new["metadata"]["uid"])["decisions"]
    assert only["fitting"] == 1


def test_with_many_nodes_the_answer_is_bounded_and_one_node_can_be_asked_for(api, start):
    names = [f"n{i:03}" for i in range(200)]
    for name in names:
        gpu_node(api, name, 15360)
    gpu_node(api, "big", 81920)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=16)
    scheduler.filter(pod, names)
    known(scheduler, "p")
    answer = ask(scheduler, "p")
    assert (answer["gpuNodes"], answer["fittingNodes"]) == (201, 1)
    assert len(answer["nodes"]) == 32 and answer["nodes"][0]["name"] == "big"
    assert answer["moreNodes"] == [{"reason": "no GPU is that large", "nodes": 169,
                                    "examples": ["n031", "n032", "n033"]}]
    only = ask(scheduler, "p", node="n150")
    assert list(by_name(only)) == ["n150"] and only["moreNodes"] == []
    assert ask(scheduler, "p", node="nowhere")["nodes"] == []


@pytest.mark.waits
def test_twenty_askers_do_not_disturb_filter_and_memory_stays_bounded(api, start):
    names = [f"n{i}" for i in range(16)]
    for name in names:
        gpu_node(api, name, *[15360] * 8)
    scheduler = start()
    waiting = api.create_pod("waiting", gpu_mem=16)
    scheduler.filter(waiting, names)
    known(scheduler, "waiting")
    status = pathlib.Path(f"/proc/{scheduler.process.pid}/status")

    def resident_kib():
        return int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmRSS")))

    def keep_filtering(pod, times):
        connection = http.client.HTTPConnection("127.0.0.1", scheduler.ports[0], timeout=15)
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names})
        for _ in range(times):
            connection.request("POST", "/filter", body)
            assert json.loads(connection.getresponse().read())["Error"] == ""

    def keep_asking(times):
        for _ in range(times):
            assert len(ask(scheduler, "waiting")["nodes"]) == 16

    pods = [api.create_pod(f"p{i}", gpu_mem=3) for i in range(4)]
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        work = [pool.submit(keep_filtering, pod, 2500) for pod in pods] + [pool.submit(keep_asking, 10)
                                                                          for _ in range(20)]
        for done in work:
            done.result()

    def growth_kib():
        before = resident_kib()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(keep_filtering, pod, 5000) for pod in pods]:
                done.result()
        return resident_kib() - before
    # 10,000 decisions filled the ring. Later it may lie in other pages, but decisions that were kept would need memory each time.
    assert SANITIZED or any(growth_kib() < 1 << 10 for _ in range(3))


# -- ration why


def test_why_explains_a_waiting_pod_node_by_node_and_card_by_card(api, start, person):
    gpu_node(api, "full", 15360, 8192)
    gpu_node(api, "other-mode", 15360, mode="topology")
    scheduler = start()
    bound(scheduler, gpu_pod(api, "first", 10), ["full"])
    pod = gpu_pod(api, "second", 9)
    scheduler.filter(pod, ["full", "other-mode"])
    known(scheduler, "second")
    person.world(scheduler)
    lines = person.why("second").splitlines()
    assert lines[0] == "Pod default/second waits for a GPU."
    assert lines[1] == "It asks for 9 units of aliyun.com/gpu-mem."
    assert re.fullmatch(r"First rejected \d+ s ago, last \d+ s ago; woken 0 times because something was freed\.", lines[2])
    assert lines[4:12] == [
        "Node full (binpack, unit GiB): no GPU has 9 units free",
        "  GPU 0: not enough units free: 5 of 15 units free; held by default/first 10",
        "  GPU 1: GPU is not that large: 8 of 8 units free",
        "",
        "Node other-mode (whole GPUs): GPU sharing mode does not fit",
        "  GPU 0: free",
        "",
        "Decisions, oldest first:"]
    assert lines[12].endswith(
        "filter: 2 nodes asked, none fits; not: GPU sharing mode does not fit (1), no GPU has 9 units free (1)")
    assert len(lines) == 13
    forward = next(argv for argv in person.calls() if "port-forward" in argv)
    assert forward == ["--namespace=kube-system", "port-forward", "--address=127.0.0.1",
                       "pod/ack-co-scheduler-7c9f8d-x2x4z", ":39999"]
    assert person.calls()[-1] == ["ended"]


IMPOSSIBLE = [
    (dict(gpu_mem=4, labels={GANG: "team", GANG_MIN: "all"}), [f'label {GANG_MIN} is "all"']),
    (dict(gpu_mem=4, labels={GANG: "team", GANG_MIN: "0"}), [f'label {GANG_MIN} is "0"']),
    (dict(gpu_mem=4, labels={"aliyun.com/gpu-count": "two"}), ['aliyun.com/gpu-count is "two"']),
    (dict(gpu_mem=4, labels={"aliyun.com/gpu-count": "3"}), ["gpu-count"]),
    (dict(gpu_mem=-4), ["aliyun.com/gpu-mem"]),
    (dict(gpu_mem="4500m"), ["aliyun.com/gpu-mem"]),
    (dict(gpu_core=30), ["gpu-core.percentage"]),
    (dict(gpu_mem=4, labels={GANG: "team", GANG_MIN: "-1", "aliyun.com/gpu-count": "two"}),
     [f'label {GANG_MIN} is "-1"', 'aliyun.com/gpu-count is "two"']),
]


@pytest.mark.parametrize("what,wrong", IMPOSSIBLE)
def test_why_of_a_pod_that_asks_for_what_cannot_be_lists_what_is_wrong(api, start, person, what, wrong):
    gpu_node(api, "n", 15360)
    scheduler = start()
    scheduler.filter(gpu_pod(api, "odd", **what), ["n"])
    person.world(scheduler)
    lines = person.why("odd").splitlines()
    assert lines[0] == "Pod default/odd gets no GPU: its request is not valid."
    assert lines[1].startswith("Wrong: ") and all(w in lines[1] for w in wrong), lines
    assert lines[2].startswith("No node is considered for it, so none is listed.") and len(lines) == 3


@pytest.mark.parametrize("what,wrong", IMPOSSIBLE)
def test_reasons_for_kube_scheduler_are_the_same_for_all_pods(api, start, what, wrong):
    """They become the Events and conditions of pods; contract, section 5."""
    gpu_node(api, "n", 15360)
    scheduler = start()
    answers = [scheduler.filter(gpu_pod(api, name, **what), ["n"])["FailedAndUnresolvableNodes"]
               for name in ("odd-7f9c", "odd-x2x4")]
    assert answers[0] == answers[1] and all(w in answers[0]["n"] for w in wrong)
    assert "odd" not in answers[0]["n"] and "default" not in answers[0]["n"]


def test_why_says_that_a_card_is_unhealthy_and_since_what(api, start, person):
    gpu_node(api, "n", 15360, 15360)
    scheduler = start()
    bound(scheduler, gpu_pod(api, "first", 15), ["n"])
    cards = json.loads(api.node("n")["metadata"]["annotations"]["ration.dev/gpus"])
    cards[0] |= {"healthy": False, "reason": "cordoned: fan\x1b[2J, ticket 7"}
    cards[1] |= {"healthy": False, "reason": "Xid 79"}
    api.patch("nodes", "n", {"metadata": {"annotations": {"ration.dev/gpus": json.dumps(cards)}}})
    pod = gpu_pod(api, "second", 3)
    wait_for(lambda: known(scheduler, "second"))
    wait_for(lambda: by_name(ask(scheduler, "second"))["n"]["cards"][1].get("unhealthyBecause") == "Xid 79")
    assert scheduler.filter(pod, ["n"])["NodeNames"] == []
    person.world(scheduler)
    text = person.why("second")
    assert ("  GPU 0: GPU is unhealthy (cordoned: fan [2J, ticket 7): 0 of 15 units free; held by default/first 15\n"
            "  GPU 1: GPU is unhealthy (Xid 79): 15 of 15 units free\n") in text
    assert "GPU 0: 0 of 15 units free, unhealthy (cordoned: fan [2J, ticket 7); held by" in person.why("first")
    cards[0].pop("reason")
    cards[0]["healthy"] = cards[1]["healthy"] = True
    api.patch("nodes", "n", {"metadata": {"annotations": {"ration.dev/gpus": json.dumps(cards)}}})
    wait_for(lambda: scheduler.filter(pod, ["n"])["NodeNames"] == ["n"], 5)


def test_why_says_where_a_bound_pod_is_and_why_there(api, start, person):
    gpu_node(api, "n", 15360, 15360, 15360)
    scheduler = start()
    bound(scheduler, gpu_pod(api, "first", 4), ["n"])
    bound(scheduler, gpu_pod(api, "second", 3), ["n"])
    wait_for(lambda: known(scheduler, "second")["state"] == "bound", 5)
    person.world(scheduler)
    text = person.why("second")
    assert "Pod default/second is bound to node n, GPU 0 (GPU-n-0); the node has not given it its devices yet." in text
    assert ("Chosen: GPU 0 (11 of 15 units free before), of 3 GPUs with room: binpack prefers the GPU with the least "
            "free, then the lowest index.") in text
    assert "GPU 0: 8 of 15 units free; held by default/first 4, default/second 3" in text
    assert "bound to n (after " in text


def test_why_tells_who_had_to_go_and_the_victim_for_whom(api, start, person):
    fragmented(api)
    scheduler = start()
    api.inject("POST", "/pods/v[012]/eviction$", times=FOREVER, status=429, message="Cannot evict pod: budget.")
    # Its card is that of v3, the only one that may go.
    limits = {"aliyun.com/gpu-mem": "10"}
    big = api.create_pod("big", spec={"schedulerName": "ack-co-scheduler", "priority": 1000, "containers": [
        {"name": "main", "image": "x", "resources": {"limits": limits, "requests": limits}}]})
    scheduler.filter(big, ["n"])
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "n", 15)
    preempt(scheduler, api.pod("big"), n=[api.pod("v0")])
    person.world(scheduler)
    text = person.why("big")
    assert "search for pods to evict: 1 node looked at; possible, best first: n\n" in text
    assert "eviction on n: default/v3 (priority 0); kept: GPU 3 (7 of 15 units free before)\n" in text
    assert re.search(r"eviction of default/v[012] \(priority 0\) from n: .*Cannot evict pod: budget\.\n", text)
    assert "eviction of default/v3 (priority 0) from n: accepted\n" in text
    assert "preempt: 1 node asked; pods are being evicted for it already\n" in text
    api.patch("pods", "v3", {"spec": {"schedulerName": "ack-co-scheduler"}})
    person.world(scheduler)
    assert "for pod default/big: eviction on n: default/v3 (priority 0)" in person.why("v3")


def test_why_tells_what_preempt_answered_and_why_not_elsewhere(api, start, person):
    gpu_node(api, "best", 15360)
    gpu_node(api, "small", 8192)
    victims = [running(api, "a", 8, 0, node="best", priority=-5), running(api, "b", 5, 0, node="small")]
    scheduler = start()
    gpu_pod(api, "big", 10)
    preemptor = api.patch("pods", "big", {"spec": {"priority": 1000}})
    preempt(scheduler, preemptor or api.pod("big"), best=[victims[0]], small=[victims[1]])
    person.world(scheduler)
    assert ("preempt: 2 nodes asked; on best default/a (priority -5) must go, and for this pod is kept GPU 0 (7 of 15 units "
            "free before); not: no GPU is that large (1)\n") in person.why("big")


def test_why_of_a_pod_that_was_bound_past_the_scheduler(api, start, person):
    gpu_node(api, "n", 15360)
    scheduler = start()
    gpu_pod(api, "by-hand", 3)
    api.bind("by-hand", "n")
    wait_for(lambda: ask(scheduler, "by-hand").get("pod", {}).get("state") == "bound", 5)
    person.world(scheduler)
    text = person.why("by-hand")
    assert "without ration-scheduler: it has no GPU" in text
    assert "3 units count against the node as a whole: pods without a GPU; held by default/by-hand 3" in text


def test_why_says_when_a_pod_is_none_of_ours(api, person):
    api.create_pod("cpu", spec={"containers": [{"name": "main", "image": "x"}], "schedulerName": "default-scheduler"})
    gpu_pod(api, "theirs", 3, scheduler="default-scheduler")
    person.world()
    assert person.why("cpu").startswith("Pod default/cpu asks for no aliyun.com/gpu-mem")
    text = person.why("theirs")
    assert "the scheduler default-scheduler, which does not use ration" in text and "schedulerName: ack-co-scheduler" in text
    assert not any("port-forward" in argv for argv in person.calls())
    # The API server takes any text for schedulerName (1.36.3): it must not command the terminal of who asks.
    gpu_pod(api, "forged", 3, scheduler="x\x1b[2J\x1b]0;owned\x07")
    person.world()
    text = person.why("forged")
    assert "the scheduler x?[2J?]0;owned?, which does not use ration" in text and text.count("\n") == 1


def test_the_default_scheduler_is_asked_where_it_owns_the_ledger(api, start, person):
    gpu_node(api, "n", 15360)
    scheduler = start()
    gpu_pod(api, "p", 20, scheduler="default-scheduler")
    known(scheduler, "p")
    person.world(scheduler, leases={"ration-ledger": "kube-system/kube-scheduler", "kube-scheduler": "CP-1_6f1c"})
    assert "waits" in person.why("p")
    # kubeadm's static pod on the node of that host name.
    assert any("pod/kube-scheduler-cp-1" in call for call in person.calls())
    person.world(scheduler, leases={"ration-ledger": "kube-system/ack-co-scheduler"})
    assert "the scheduler default-scheduler, which does not use ration" in person.why("p")
    gpu_pod(api, "q", 20)
    known(scheduler, "q")
    # A Lease that somebody else wrote says nothing.
    person.world(scheduler, leases={"ration-ledger": "../x/y"})
    assert "waits" in person.why("q")
    assert any("pod/ack-co-scheduler-7c9f8d-x2x4z" in call for call in person.calls())


def test_why_of_a_pod_that_has_ended_tells_its_decisions(api, start, person):
    gpu_node(api, "n", 15360)
    scheduler = start()
    bound(scheduler, gpu_pod(api, "p", 3), ["n"])
    api.set_phase("p", "Succeeded")
    wait_for(lambda: "pod" not in ask(scheduler, "p"), 5)
    person.world(scheduler)
    text = person.why("p")
    assert "it has ended" in text and "bound to n" in text


def test_why_prints_the_scheduler_s_answer_as_json(api, start, person):
    gpu_node(api, "n", 15360)
    scheduler = start()
    gpu_pod(api, "p", 3)
    known(scheduler, "p")
    person.world(scheduler)
    assert json.loads(person.why("-o", "json", "p"))["pod"]["name"] == "p"
    assert [n["name"] for n in json.loads(person.why("-o", "json", "--node", "n", "p"))["nodes"]] == ["n"]


def test_the_namespace_is_the_context_s_or_the_one_given_and_flags_reach_kubectl(api, person):
    person.world(namespace="team-a")
    assert "no pod p in namespace team-a" in person.why_fails("p")
    assert "no pod p in namespace team-b" in person.why_fails("-n", "team-b", "p")
    person.why_fails("--context", "other", "--as=jane", "p")
    assert all(argv[:2] == ["--context=other", "--as=jane"] for argv in person.calls())


def test_every_failure_is_a_sentence_with_the_next_step(api, start, person):
    gpu_node(api, "n", 15360)
    scheduler = start()
    gpu_pod(api, "p", 3)
    known(scheduler, "p")
    person.world(scheduler)
    assert "install kubectl on PATH" in person.why_fails("p", KUBECTL="/nonexistent/kubectl")
    assert "kubectl get pods -n default" in person.why_fails("q")
    person.world(scheduler, forbidden=["pods"])
    assert "verb get on pods" in person.why_fails("p")
    person.world(scheduler, forbidden=["leases"])
    assert "verb get on leases in kube-system" in person.why_fails("p")
    person.world(scheduler, forbidden=["pods/portforward"])
    assert "verb create on pods/portforward" in person.why_fails("p")
    person.world(scheduler, leader=None)
    assert "Is the chart ack-co-scheduler installed?" in person.why_fails("p")
    person.world(scheduler, leader="")
    assert "try again in 15 seconds" in person.why_fails("p")
    person.world(scheduler, forward_fails='Error from server (NotFound): pods "x" not found')
    assert "another one will lead soon" in person.why_fails("p")
    person.world(scheduler, leader="--all_1")
    person.why_fails("p")
    person.world(scheduler, leader="a/../b_1")
    person.why_fails("p")


@pytest.mark.full    # 30 s of patience
def test_a_kubectl_that_accepts_no_connection_any_more_holds_nobody_for_minutes(api, person):
    gpu_pod(api, "p", 3)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as held:
        for _ in range(4):    # nobody accepts these: the kernel answers no further one
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        person.world(forward=server.getsockname()[1])
        assert "does not answer on port 39999" in (said := person.why_fails("p")) and "timed out" in said, said


def answer_once(server, answer):
    """Other tests run at the same time, and a program of theirs may still ask the process that had this port before."""
    while True:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            with contextlib.suppress(OSError):
                if connection.recv(4096).startswith(b"GET /why"):
                    connection.sendall(answer)
                    return


def test_a_scheduler_without_why_or_without_manners_is_a_sentence(api, person):
    gpu_pod(api, "p", 3)

    def against(answer):
        with socket.create_server(("127.0.0.1", 0)) as server:
            person.world(forward=server.getsockname()[1])
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                pool.submit(answer_once, server, answer)
                return person.why_fails("p")
    assert "upgrade the chart ack-co-scheduler" in against(b"HTTP/1.0 404 Not Found\r\n\r\nPOST /filter\n")
    assert "does not answer" in against(b"")
    assert "does not answer" in against(b"SSH-2.0-OpenSSH\r\n\r\n")
    assert "status 500" in against(b"HTTP/1.1 500 Internal\r\n\r\nout of memory")
    assert "no valid JSON" in against(b"HTTP/1.1 200 OK\r\n\r\n{\"pod\":")
    assert "broke off" in against(b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{\"ready\":true}")
    # Whatever shape the answer has: a text or a sentence, no crash.
    for body in (b"[]", b"{}", b'{"pod":7,"nodes":{},"decisions":"x"}', b'{"pod":{},"nodes":[1,null,{"cards":[[]]}]}',
                 b'{"ready":true,"pod":{"state":"bound","node":"\\u001b[31m"},"decisions":[{},7,{"decision":"filter"}]}'):
        with socket.create_server(("127.0.0.1", 0)) as server:
            person.world(forward=server.getsockname()[1])
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                pool.submit(answer_once, server, b"HTTP/1.1 200 OK\r\n\r\n" + body)
                done = person.run("why", "p")
                assert done.returncode == 0 and "\x1b" not in done.stdout, done


def test_nothing_is_left_running_when_why_is_killed(api, person):
    """A scheduler that never answers; SIGKILL, which no handler sees."""
    gpu_pod(api, "p", 3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        person.world(forward=server.getsockname()[1])
        process = subprocess.Popen([RATION, "why", "p"], stdout=subprocess.DEVNULL,
                                   env=os.environ | {"FAKE_KUBECTL": str(person.path), "KUBECTL": str(FAKE)})
        server.accept()
        process.kill()
        process.wait()
        wait_for(lambda: "ended" in pathlib.Path(f"{person.path}.log").read_text(), 30, "kubectl has ended")


def test_what_kubectl_asks_the_user_is_seen(api, person):
    person.world(prompt="To sign in, open https://example.com and enter ABC\n")
    done = person.run("why", "q")
    assert "To sign in" in done.stderr and "there is no pod q" in done.stderr


def test_ration_knows_its_commands_and_refuses_others(person):
    person.world()
    assert person.run("--version").stdout == "ration 0.1.0\n"
    assert "why" in person.run("help").stdout and person.run("help").returncode == 0
    for wrong in ([], ["top-secret"], ["why"], ["why", "a", "b"], ["why", "A/b"], ["why", "-o", "yaml", "a"],
                  ["why", "--nonsense", "a"], ["why", "-n", "a b", "c"], ["why", "-n", "x" * 300, "c"]):
        done = person.run(*wrong)
        assert done.returncode == 2 and re.search(r"\nTry 'ration( why)? --help' for more information.\n$", done.stderr), wrong
    assert "Usage: ration inspect" in person.run("inspect", "--help").stdout
    assert person.run("inspect").returncode == 0
