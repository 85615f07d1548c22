"""Preemption: the verb preempt as kube-scheduler calls it, cards kept for nominated pods, evictions of our own."""
import time

import pytest

from fake_apiserver import FOREVER, wait_for
from preemptions import cards, fits, fragmented, pod, preempt, running, uid

TEXT = "no GPU has 10 units free"
BLOCKED = "PreemptionBlocked"


def evicted(api):
    return sorted(r.path.split("/")[-2] for r in api.requests_for("POST", "/eviction$") if r.status == 201)


# ---- the verb ----

def test_victims_of_kube_scheduler_stay_and_those_without_whom_no_card_fits_are_added(api, start):
    cards(api, 15, 15)
    a, b = running(api, "a", 8, 0), running(api, "b", 7, 0)
    c, d = running(api, "c", 8, 1, priority=5), running(api, "d", 7, 1, priority=5)
    other = api.create_pod("cpu", node="n")
    scheduler = start()
    big = pod(api, "big", 15, 1000)
    # a and b together free card 0. kube-scheduler thinks that a and the CPU pod suffice.
    victims = preempt(scheduler, big, n=[a, other])["n"]
    assert set(victims[:2]) == {uid(a), uid(b)} and victims[2:] == [uid(other)]
    assert set(preempt(scheduler, big, n=[c])["n"]) == {uid(c), uid(d)}


def test_the_best_node_alone_is_answered_and_nodes_without_a_card_are_dropped(api, start):
    for name in ("dear", "cheap", "never"):
        cards(api, 15, name=name)
    dear = running(api, "a", 8, 0, "dear", priority=900)
    cheap = running(api, "b", 8, 0, "cheap", priority=1)
    never = running(api, "c", 8, 0, "never", priority=2000)
    small = running(api, "d", 2, 0, "never")
    scheduler = start()
    big = pod(api, "big", 10, 1000)
    assert preempt(scheduler, big, dear=[dear], cheap=[cheap], never=[small]) == {"cheap": [uid(cheap)]}
    assert preempt(scheduler, pod(api, "big2", 10, 1000), never=[small]) == {}
    assert preempt(scheduler, pod(api, "big3", 10, 1000), unknown=[never]) == {}


def test_budgets_of_added_victims_are_counted(api, start):
    cards(api, 15)
    a, b = running(api, "a", 8, 0, labels={"app": "x"}), running(api, "b", 7, 0, labels={"app": "x"})
    api.create_budget("keep", {"app": "x"}, 0)
    scheduler = start()
    wait_for(lambda: api.watches() >= 3)
    answer = scheduler.verb("preempt", {
        "Pod": pod(api, "big", 15, 1000), "NodeNameToMetaVictims": {
            "n": {"Pods": [{"UID": uid(a)}], "NumPDBViolations": 1}}})
    assert answer["NodeNameToMetaVictims"]["n"]["NumPDBViolations"] == 2
    assert {p["UID"] for p in answer["NodeNameToMetaVictims"]["n"]["Pods"]} == {uid(a), uid(b)}


def test_a_pod_that_asks_for_nothing_of_ours_gets_its_victims_back(api, start):
    cards(api, 15)
    a = running(api, "a", 8, 0)
    scheduler = start()
    assert preempt(scheduler, pod(api, "big", 0, 1000), n=[a], plain=[a]) == {"n": [uid(a)], "plain": [uid(a)]}


@pytest.mark.parametrize("body", ["", "{", "[]", "{}", '{"Pod":{}}', '{"NodeNameToMetaVictims":{}}',
                                  '{"Pod":7,"NodeNameToMetaVictims":{}}', '{"Pod":{},"NodeNameToMetaVictims":[]}'])
def test_what_cannot_be_understood_is_no_200(api, start, body):
    cards(api, 15)
    scheduler = start()
    status, answer = scheduler.http("POST", "/preempt", body)
    assert status == 400 and answer
    assert scheduler.process.poll() is None


@pytest.mark.parametrize("victims", [None, 7, [], {}, {"Pods": None}, {"Pods": [None, 7, {"UID": 7}, {}]},
                                     {"Pods": [{"UID": "nobody"}], "NumPDBViolations": "many"},
                                     {"Pods": [{"UID": "nobody"}], "NumPDBViolations": -5}])
def test_odd_victims_do_no_harm(api, start, victims):
    cards(api, 15)
    running(api, "a", 15, 0, priority=1000)
    scheduler = start()
    answer = scheduler.verb("preempt", {"Pod": pod(api, "big", 10, 1000),
                                        "NodeNameToMetaVictims": {"n": victims, "": victims}})
    assert answer == {"NodeNameToMetaVictims": {}}


# ---- nominations ----

def test_a_small_pod_does_not_steal_the_card_that_preemption_frees(api, start):
    cards(api, 15)
    a = running(api, "a", 15, 0)
    scheduler = start()
    big, small = pod(api, "big", 15, 1000), pod(api, "small", 2)
    assert preempt(scheduler, big, n=[a]) == {"n": [uid(a)]}
    api.delete("pods", "a")
    wait_for(lambda: scheduler.used() == {"n": [0]})
    assert not fits(scheduler, small)
    assert fits(scheduler, big)
    assert scheduler.bind(big, "n") == ""
    assert scheduler.used() == {"n": [15]}


@pytest.mark.waits
def test_our_nomination_ends_ten_seconds_after_nobody_confirmed_it(api, start):
    cards(api, 15)
    a = running(api, "a", 15, 0)
    scheduler = start()
    big, small = pod(api, "big", 15, 1000), pod(api, "small", 2)
    assert preempt(scheduler, big, n=[a]) == {"n": [uid(a)]}
    before = time.monotonic()
    api.delete("pods", "a")
    wait_for(lambda: fits(scheduler, small), 14)
    assert time.monotonic() - before > 9


@pytest.mark.waits
def test_a_nomination_in_the_status_lasts_and_outlives_its_end_by_ten_seconds(api, start):
    cards(api, 15)
    a = running(api, "a", 15, 0)
    scheduler = start()
    big, small = pod(api, "big", 15, 1000), pod(api, "small", 2)
    assert preempt(scheduler, big, n=[a]) == {"n": [uid(a)]}
    api.patch("pods", "big", {"status": {"nominatedNodeName": "n"}})
    api.delete("pods", "a")
    time.sleep(12)
    assert not fits(scheduler, small)
    api.patch("pods", "big", {"status": {"nominatedNodeName": None}})
    before = time.monotonic()
    wait_for(lambda: fits(scheduler, small), 14)
    assert time.monotonic() - before > 9


def test_a_nomination_is_found_again_after_a_restart_on_the_card_that_is_being_freed(api, start):
    cards(api, 15, 15)
    running(api, "stays", 8, 0)
    running(api, "goes", 8, 1)
    api.patch("pods", "goes", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    big, small = pod(api, "big", 10, 1000), pod(api, "small", 6)
    api.patch("pods", "big", {"status": {"nominatedNodeName": "n"}})
    scheduler = start()
    api.delete("pods", "goes")
    wait_for(lambda: scheduler.used() == {"n": [8, 0]})
    assert fits(scheduler, small)
    assert scheduler.bind(small, "n") == ""
    assert scheduler.used() == {"n": [14, 0]}
    assert fits(scheduler, api.pod("big")) and scheduler.bind(big, "n") == ""


def test_a_higher_pod_passes_a_nominated_one(api, start):
    cards(api, 15)
    a = running(api, "a", 15, 0)
    scheduler = start()
    big = pod(api, "big", 15, 1000)
    assert preempt(scheduler, big, n=[a]) == {"n": [uid(a)]}
    api.delete("pods", "a")
    wait_for(lambda: scheduler.used() == {"n": [0]})
    assert not fits(scheduler, pod(api, "equal", 15, 1000))
    assert fits(scheduler, pod(api, "above", 15, 1001))


def test_a_nomination_ends_with_its_pod(api, start):
    cards(api, 15)
    a = running(api, "a", 15, 0)
    scheduler = start()
    big, small = pod(api, "big", 15, 1000), pod(api, "small", 2)
    assert preempt(scheduler, big, n=[a]) == {"n": [uid(a)]}
    api.delete("pods", "a")
    api.delete("pods", "big")
    wait_for(lambda: fits(scheduler, small), 3)


# ---- evictions of our own ----


def test_one_card_of_a_fragmented_node_is_freed_for_a_pod_of_higher_priority(api, start):
    fragmented(api)
    scheduler = start()
    big, small = pod(api, "big", 10, 1000), pod(api, "small", 7)
    answer = scheduler.filter(big, ["n"])
    assert answer["FailedAndUnresolvableNodes"] == {"n": TEXT}
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "n")
    victim, = evicted(api)
    body = api.requests_for("POST", "/eviction$")[0].body
    assert body["kind"] == "Eviction" and body["apiVersion"] == "policy/v1"
    assert body["deleteOptions"]["preconditions"]["uid"] == uid(api.pod(victim))
    condition, = api.pod(victim)["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == \
        ("DisruptionTarget", "True", "PreemptionByScheduler")
    # The victim takes its time: kube-scheduler must neither forget the nomination nor look for others.
    answer = scheduler.filter(api.pod("big"), ["n"])
    assert answer["FailedNodes"] == {"n": TEXT} and not answer["FailedAndUnresolvableNodes"]
    assert preempt(scheduler, api.pod("big"), n=[api.pod("v0")]) == {}
    before = scheduler.used()["n"]
    api.delete("pods", victim)
    wait_for(lambda: scheduler.used()["n"] != before)
    card = int(victim[1])
    # 7 units fit beside the other three, but not on the freed card once these are full.
    for i in range(3):
        filler = pod(api, f"filler{i}", 7)
        assert fits(scheduler, filler) and scheduler.bind(filler, "n") == ""
    assert scheduler.used()["n"] == [0 if i == card else 15 for i in range(4)]
    assert not fits(scheduler, small)
    wait_for(lambda: any(r.path.endswith("/pods/big") for r in api.requests_for("PATCH", "")))  # woken
    assert fits(scheduler, api.pod("big")) and scheduler.bind(big, "n") == ""
    assert scheduler.used()["n"] == [10 if i == card else 15 for i in range(4)]
    assert len(evicted(api)) == 1


def test_victim_and_preemptor_are_told_pod_node_and_gpu(api, start):
    fragmented(api)
    scheduler = start()
    scheduler.filter(pod(api, "big", 10, 1000), ["n"])
    told = wait_for(lambda: api.events("Preempting"))[0]
    victim, = evicted(api)
    gpu = f"GPU {victim[1]} (GPU-n-{victim[1]}) of node n"
    assert told["message"] == f"{gpu} is kept for this pod; evicted for it: default/{victim}"
    assert told["involvedObject"]["name"] == "big"
    told, = api.events("Preempted")
    assert told["message"] == f"evicted from {gpu} to make room for pod default/big of higher priority"
    assert told["involvedObject"]["name"] == victim


def only_others_are_evicted(api, scheduler):
    """Pods on other nodes have somebody evicted, one after the other: whoever was to be evicted before them has been."""
    for _ in range(2):
        node = f"other{time.monotonic_ns()}"
        cards(api, 15, 15, name=node)
        for i in range(2):
            running(api, f"{node}-{i}", 8, i, node)
        preemptor = pod(api, f"{node}-high", 10, 1000)
        # The node may not be known yet, and the first search may be put off.
        wait_for(lambda: scheduler.filter(preemptor, [node]) and any(name.startswith(node) for name in evicted(api)), 10,
                 f"an eviction on {node}")
    assert all("/other" in r.path for r in api.requests_for("POST", "/eviction$"))


def nothing_happens(api, scheduler, preemptor):
    for _ in range(2):
        scheduler.filter(preemptor, ["n"])
        only_others_are_evicted(api, scheduler)


def test_nobody_is_evicted_for_a_pod_that_never_preempts(api, start):
    fragmented(api)
    nothing_happens(api, start(), pod(api, "big", 10, 1000, policy="Never"))


@pytest.mark.parametrize("priority", [1000, 2000])
def test_equal_and_higher_pods_are_not_evicted(api, start, priority):
    fragmented(api, priority=priority)
    running(api, "low", 1, 0, priority=-5)
    nothing_happens(api, start(), pod(api, "big", 10, 1000))


def test_static_pods_are_not_evicted(api, start):
    fragmented(api, annotations={"kubernetes.io/config.mirror": "x"})
    nothing_happens(api, start(), pod(api, "big", 10, 1000))


def test_nobody_is_evicted_where_a_card_is_free_on_another_node(api, start):
    fragmented(api)
    cards(api, 15, name="empty")
    scheduler = start()
    assert scheduler.filter(pod(api, "big", 10, 1000), ["n", "empty"])["NodeNames"] == ["empty"]
    only_others_are_evicted(api, scheduler)


def test_nobody_is_evicted_while_kube_scheduler_preempts_for_the_pod(api, start):
    fragmented(api)
    cards(api, 15, name="full")
    a = running(api, "a", 15, 0, "full")
    scheduler = start()
    big = pod(api, "big", 10, 1000)
    scheduler.filter(big, ["n"])
    assert preempt(scheduler, big, full=[a]) == {"full": [uid(a)]}
    nothing_happens(api, scheduler, big)


def test_nobody_is_evicted_for_a_pod_that_is_gone_by_then(api, start):
    fragmented(api)
    scheduler = start()
    scheduler.filter(pod(api, "big", 10, 1000), ["n"])
    api.delete("pods", "big")
    only_others_are_evicted(api, scheduler)


def protected(api, start):
    """A scheduler that has found nobody to evict for the pod big, because the budget keep protects all others."""
    fragmented(api, labels={"app": "x"})
    api.create_budget("keep", {"app": "x"}, 0)
    scheduler = start()
    wait_for(lambda: api.watches("poddisruptionbudgets"))
    nothing_happens(api, scheduler, pod(api, "big", 10, 1000))
    return scheduler


def test_budgets_protect_and_the_pod_is_told(api, start):
    scheduler = protected(api, start)
    told, = api.events(BLOCKED)
    assert "PodDisruptionBudgets protect" in told["message"] and "node n" in told["message"]
    # It is woken after a while, finds nobody again, and rests twice as long.
    wait_for(lambda: api.requests_for("PATCH", "/pods/big$"), 15)
    scheduler.filter(api.pod("big"), ["n"])
    api.clear_requests()
    # When the budget allows it, the pod is woken and somebody goes.
    api.patch("poddisruptionbudgets", "keep", {"status": {"disruptionsAllowed": 1}})
    wait_for(lambda: api.requests_for("PATCH", "/pods/big$"), 15)
    scheduler.filter(api.pod("big"), ["n"])
    wait_for(lambda: len(evicted(api)) == 1)


def test_a_deleted_budget_protects_nobody_and_one_that_cannot_be_read_stops_nothing(api, start):
    scheduler = protected(api, start)
    api.create_budget("odd", {"app": "other"}, 0)
    api.patch("poddisruptionbudgets", "odd", {"metadata": {"namespace": None}}, "default")
    wait_for(lambda: "PodDisruptionBudget without a uid, a name or a namespace" in scheduler.text())
    for name in ("odd", "keep"):
        api.delete("poddisruptionbudgets", name, "default")
    api.clear_requests()
    # kube-scheduler asks again. After an attempt that found nobody to evict, ration-scheduler waits before the next one.
    wait_for(lambda: scheduler.filter(api.pod("big"), ["n"]) and evicted(api), 20)
    assert len(evicted(api)) == 1


def test_a_budget_that_only_the_api_server_knows_leads_to_the_next_candidate(api, start):
    fragmented(api)
    scheduler = start()
    api.inject("POST", "/pods/v[012]/eviction$", times=FOREVER, status=429, reason="TooManyRequests",
               message="Cannot evict pod as it would violate the pod's disruption budget.")
    scheduler.filter(pod(api, "big", 10, 1000), ["n"])
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "n", 15)
    assert evicted(api) == ["v3"]
    assert "disruption budget" in api.events(BLOCKED)[0]["message"]


def test_when_everybody_is_refused_the_hold_ends_and_it_is_tried_again_later(api, start):
    fragmented(api)
    scheduler = start()
    fault = api.inject("POST", "/eviction$", times=FOREVER, status=429, message="not now")
    big = pod(api, "big", 10, 1000)
    scheduler.filter(big, ["n"])
    wait_for(lambda: len(api.requests_for("POST", "/eviction$")) == 4)
    assert fits(scheduler, pod(api, "small", 7))
    api.delete("pods", "small")
    fault.times = 0
    api.clear_requests()
    wait_for(lambda: api.requests_for("PATCH", "/pods/big$"), 10)
    wait_for(lambda: scheduler.filter(api.pod("big"), ["n"]) and evicted(api), 5)


def test_a_pod_with_two_budgets_is_left_alone_although_the_answer_is_201(api, start):
    fragmented(api)
    scheduler = start()
    api.inject("POST", "/eviction$", status=201, body={
        "kind": "Status", "status": "Failure", "code": 500, "message": "more than one PodDisruptionBudget"})
    scheduler.filter(pod(api, "big", 10, 1000), ["n"])
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "n", 10)
    assert len(api.requests_for("POST", "/eviction$")) == 2
    assert "more than one PodDisruptionBudget" in api.events(BLOCKED)[0]["message"]


@pytest.mark.parametrize("fault", [dict(status=500), dict(drop=True), dict(status=409)])
def test_an_eviction_without_a_clear_answer_is_asked_again(api, start, fault):
    fragmented(api)
    scheduler = start()
    api.inject("POST", "/eviction$", **fault)
    scheduler.filter(pod(api, "big", 10, 1000), ["n"])
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "n", 10)
    assert len(evicted(api)) == 1 and api.events(BLOCKED) == []


def test_a_victim_that_is_gone_already_is_no_failure(api, start):
    fragmented(api)
    scheduler = start()
    api.inject("POST", "/eviction$", status=404, message="not found")
    scheduler.filter(pod(api, "big", 10, 1000), ["n"])
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "n", 10)
    assert len(api.requests_for("POST", "/eviction$")) == 1


def test_two_preemptors_take_two_cards_one_eviction_after_the_other(api, start):
    fragmented(api)
    scheduler = start()
    for name in ("big1", "big2"):
        pod(api, name, 10, 1000)

    def nominated(name):
        """A search that comes too soon after another is put off until kube-scheduler asks again."""
        scheduler.filter(api.pod(name), ["n"])
        return api.pod(name)["status"].get("nominatedNodeName") == "n"
    for name in ("big1", "big2"):
        wait_for(lambda: nominated(name), 30)
    victims = evicted(api)
    assert len(set(victims)) == 2
    times = [r.time for r in api.requests_for("POST", "/eviction$")]
    assert times[1] - times[0] >= 0.05
    for victim in victims:
        api.delete("pods", victim)
    wait_for(lambda: sorted(scheduler.used()["n"]) == [0, 0, 8, 8])
    for name in ("big1", "big2"):
        assert fits(scheduler, api.pod(name)) and scheduler.bind(api.pod(name), "n") == ""
    assert sorted(scheduler.used()["n"]) == [8, 8, 10, 10]


def test_only_as_many_pods_go_as_one_card_needs(api, start):
    cards(api, 15, 15)
    for card in range(2):
        for i in range(4):
            running(api, f"p{card}{i}", 3, card)
    scheduler = start()
    scheduler.filter(pod(api, "big", 6, 1000), ["n"])
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "n", 10)
    victims = evicted(api)
    assert len(victims) == 1 and scheduler.inspect()["wrongSums"] == 0  # 3 are free, 3 more are needed


def test_a_pod_of_higher_priority_that_takes_the_card_leads_to_a_new_attempt(api, start):
    fragmented(api)
    scheduler = start()
    big = pod(api, "big", 10, 1000)
    scheduler.filter(big, ["n"])
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "n", 10)
    first, = evicted(api)
    api.delete("pods", first)
    wait_for(lambda: 0 in scheduler.used()["n"])
    above = pod(api, "above", 15, 2000)
    assert fits(scheduler, above) and scheduler.bind(above, "n") == ""
    answer = scheduler.filter(api.pod("big"), ["n"])
    assert answer["FailedAndUnresolvableNodes"] == {"n": TEXT}  # so that kube-scheduler clears the nomination

    def asked_again():
        scheduler.filter(api.pod("big"), ["n"])
        return len(evicted(api)) == 2
    wait_for(asked_again, 20)


def test_the_program_ends_cleanly_while_an_eviction_is_on_its_way(api, start):
    fragmented(api)
    scheduler = start()
    api.inject("POST", "/eviction$", hang=True)
    scheduler.filter(pod(api, "big", 10, 1000), ["n"])
    wait_for(lambda: api.requests_for("POST", "/eviction$"))
    assert scheduler.stop() == 0
