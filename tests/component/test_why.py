"""GET /why of ration-scheduler, and `ration why` in front of it: why a pod is where it is, or nowhere."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.parse

import test_scheduler
from fake_apiserver import wait_for

gpu_node, gpus = test_scheduler.gpu_node, test_scheduler.gpus
BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve()
RATION = BUILD / "src/cli/ration"
FAKE = pathlib.Path(__file__).parent.resolve() / "fake_kubectl.py"


api, start = test_scheduler.api, test_scheduler.start


def ask(scheduler, name, namespace="default", **more):
    query = urllib.parse.urlencode({"namespace": namespace, "name": name} | more)
    status, body = scheduler.http("GET", "/why?" + query)
    assert status == 200, body
    return json.loads(body)


def known(scheduler, name):
    """The watch has told the scheduler of the pod."""
    return wait_for(lambda: ask(scheduler, name).get("pod"), 5, f"{name} is known")


def by_name(answer):
    return {node["name"]: node for node in answer["nodes"]}


def bound(scheduler, pod, nodes):
    names = scheduler.filter(pod, nodes)["NodeNames"]
    assert names, "it does not fit"
    assert scheduler.bind(pod, names[0]) == ""
    return names[0]


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
    before = resident_kib()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(keep_filtering, pod, 5000) for pod in pods]:
            done.result()
    # 10,000 decisions filled the ring; 20,000 more must not make it grow.
    assert resident_kib() - before < 3 << 10
