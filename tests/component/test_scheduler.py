"""ration-scheduler as kube-scheduler sees it: real process, real sockets, a small API server."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import resource
import signal
import socket
import subprocess
import time

import pytest

from fake_apiserver import wait_for
from scheduler_fixture import BUILD, READY_TIMEOUT, Scheduler, gpu_node, placement_of


def test_binpack_fills_the_fullest_node_and_card_and_bind_writes_the_contract(api, start):
    gpu_node(api, "big", 16160, 16160)
    gpu_node(api, "small", 8192)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    assert scheduler.filter(pod, ["big", "small"])["NodeNames"] == ["small", "big"]
    assert scheduler.bind(pod, "small") == ""

    annotations = api.pod("p")["metadata"]["annotations"]
    assert api.pod("p")["spec"]["nodeName"] == "small"
    assert json.loads(annotations["ration.dev/placement"]) == {
        "unit": 1024, "containers": {"main": [{"uuid": "GPU-small-0", "units": 3}]}}
    assert json.loads(annotations["scheduler.framework.gpushare.allocation"]) == {"0": {"0": 3}}
    assert annotations["ALIYUN_COM_GPU_MEM_IDX"] == "0"
    assert annotations["ALIYUN_COM_GPU_MEM_POD"] == "3"
    assert annotations["ALIYUN_COM_GPU_MEM_DEV"] == "8"
    assert annotations["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "false"
    assert annotations["ration.dev/unit"] == "1024"
    assert abs(int(annotations["ALIYUN_COM_GPU_MEM_ASSUME_TIME"]) - time.time_ns()) < 60e9
    bindings = api.requests_for("POST", r"/binding$")
    assert len(bindings) == 1 and bindings[0].body["metadata"]["uid"] == pod["metadata"]["uid"]
    assert not api.requests_for("PATCH", r"/pods/")


def test_spread_takes_the_emptiest_card_and_avoids_replicas_of_one_owner(api, start):
    gpu_node(api, "n1", 15360, 15360, 15360, 15360, policy="spread")
    scheduler = start()
    for i in range(3):
        pod = api.create_pod(f"p{i}", gpu_mem=4, owner="job")
        assert scheduler.filter(pod, ["n1"])["NodeNames"] == ["n1"]
        assert scheduler.bind(pod, "n1") == ""
    assert sorted(scheduler.used()["n1"]) == [0, 4, 4, 4]


def test_a_pod_that_fits_nowhere_gets_the_constant_reason_of_every_node(api, start):
    gpu_node(api, "full", 8192, 8192)
    gpu_node(api, "tiny", 2048)
    api.create_node("plain")
    for i, card in enumerate(("GPU-full-0", "GPU-full-1")):
        api.create_pod(f"old{i}", gpu_mem=5, node="full", annotations={"ration.dev/placement": json.dumps(
            {"unit": 1024, "containers": {"main": [{"uuid": card, "units": 5}]}})})
    scheduler = start()
    answer = scheduler.filter(api.create_pod("p", gpu_mem=4), ["full", "tiny", "plain", "unknown"])
    assert answer["NodeNames"] == [] and answer["Error"] == ""
    reasons = {**answer["FailedNodes"], **answer["FailedAndUnresolvableNodes"]}
    # 3 + 3 units are free: the node is fragmented, and preemption of kube-scheduler could not help.
    assert reasons == {"full": "no GPU has 4 units free", "tiny": "no GPU is that large",
                       "plain": "GPU node's agent is not serving", "unknown": "GPU node's agent is not serving"}
    assert "full" in answer["FailedAndUnresolvableNodes"]


def test_only_the_k_best_nodes_are_offered(api, start):
    for i in range(30):
        gpu_node(api, f"n{i:02}", 16160)
    scheduler = start()
    names = [f"n{i:02}" for i in range(30)]
    assert len(scheduler.filter(api.create_pod("p", gpu_mem=1), names)["NodeNames"]) == 16


def test_all_fitting_nodes_are_offered_with_zero_best_nodes(api, start):
    for i in range(30):
        gpu_node(api, f"n{i:02}", 16160)
    scheduler = start("--best-nodes", "0")
    names = [f"n{i:02}" for i in range(30)]
    assert scheduler.filter(api.create_pod("p", gpu_mem=1), names)["NodeNames"] == names


def test_prioritize_gives_ten_to_exactly_the_held_node(api, start):
    for name, mib in (("a", 16384), ("b", 8192), ("c", 40960)):
        gpu_node(api, name, mib)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=2)
    names = scheduler.filter(pod, ["a", "b", "c"])["NodeNames"]
    scores = {h["Host"]: h["Score"]
              for h in scheduler.verb("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": names})}
    assert scores["b"] == 10 and scores["a"] <= 9 and scores["c"] <= 9 and scores["a"] > scores["c"]


def test_a_held_card_is_not_promised_to_another_pod(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    first, second = api.create_pod("first", gpu_mem=3), api.create_pod("second", gpu_mem=3)
    assert scheduler.filter(first, ["n1"])["NodeNames"] == ["n1"]
    assert scheduler.filter(second, ["n1"])["NodeNames"] == []
    # The same pod asked again is not in its own way, and the end of the first frees its hold.
    assert scheduler.filter(first, ["n1"])["NodeNames"] == ["n1"]
    api.delete("pods", "first")
    wait_for(lambda: scheduler.filter(second, ["n1"])["NodeNames"] == ["n1"])


def test_a_hold_ends_when_the_pod_is_called_unschedulable(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    first, second = api.create_pod("first", gpu_mem=3), api.create_pod("second", gpu_mem=3)
    assert scheduler.filter(first, ["n1"])["NodeNames"] == ["n1"]
    api.patch("pods", "first", {"status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no volume"}]}})
    wait_for(lambda: scheduler.filter(second, ["n1"])["NodeNames"] == ["n1"])


def test_bind_to_another_node_than_the_held_one_moves_the_reservation(api, start):
    gpu_node(api, "a", 4096)
    gpu_node(api, "b", 8192)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    assert scheduler.filter(pod, ["a", "b"])["NodeNames"] == ["a", "b"]
    assert scheduler.bind(pod, "b") == ""
    assert scheduler.used() == {"a": [0], "b": [3]}


def test_bind_without_filter_reads_the_pod_and_picks_a_card(api, start):
    gpu_node(api, "n1", 8192)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    assert scheduler.bind(pod, "n1") == ""
    assert scheduler.used() == {"n1": [3]}


def test_bind_of_a_full_node_says_why(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    first, second = api.create_pod("first", gpu_mem=3), api.create_pod("second", gpu_mem=3)
    assert scheduler.bind(first, "n1") == ""
    assert "no GPU has 3 units free on node n1" in scheduler.bind(second, "n1")
    assert "nodeName" not in api.pod("second")["spec"]


def test_a_pod_recreated_under_its_name_is_not_bound_by_the_old_uid(api, start):
    gpu_node(api, "n1", 8192)
    scheduler = start()
    old = api.create_pod("p", gpu_mem=3)
    api.delete("pods", "p")
    api.create_pod("p", gpu_mem=3)
    assert scheduler.bind(old, "n1") != ""
    assert "nodeName" not in api.pod("p")["spec"]
    wait_for(lambda: scheduler.used() == {"n1": [0]}, 15)


def test_a_refused_binding_frees_the_card_and_tells_the_server_text(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    first, second = api.create_pod("first", gpu_mem=3), api.create_pod("second", gpu_mem=3)
    api.inject("POST", "/binding$", status=403, message="binding is forbidden today")
    assert "binding is forbidden today" in scheduler.bind(first, "n1")
    assert scheduler.bind(second, "n1") == ""


@pytest.mark.waits
def test_a_binding_of_unknown_outcome_keeps_its_card(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    first, second = api.create_pod("first", gpu_mem=3), api.create_pod("second", gpu_mem=3)
    api.inject("POST", "/binding$", hang=True)
    before = time.monotonic()
    assert scheduler.bind(first, "n1") != ""
    assert 2.5 < time.monotonic() - before < 5  # the deadline, well inside kube-scheduler's 10 s
    # It may still land: nobody else gets the card, the pod itself must wait.
    assert "no GPU has 3 units free" in scheduler.bind(second, "n1")
    assert "not known yet" in scheduler.filter(first, ["n1"])["Error"]
    # It did land, says the watch, with the very card that is reserved for it.
    api.bind("first", "n1", annotations={"ration.dev/placement": json.dumps(
        {"unit": 1024, "containers": {"main": [{"uuid": "GPU-n1-0", "units": 3}]}})})
    time.sleep(12)  # past the doubt
    assert scheduler.used() == {"n1": [3]}


@pytest.mark.waits
def test_a_binding_of_unknown_outcome_that_never_lands_frees_its_card(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    first, second = api.create_pod("first", gpu_mem=3), api.create_pod("second", gpu_mem=3)
    api.inject("POST", "/binding$", hang=True)
    assert scheduler.bind(first, "n1") != ""
    wait_for(lambda: scheduler.bind(second, "n1") == "", 20)


def test_a_pod_bound_past_us_counts_against_the_node_as_a_whole(api, start):
    gpu_node(api, "n1", 4096, 4096)
    api.create_pod("stray", gpu_mem=3, node="n1")
    scheduler = start()
    node = scheduler.inspect()["nodes"][0]
    assert node["pendingGPU"] == 3 and [p["name"] for p in node["unplaced"]] == ["stray"]
    assert scheduler.filter(api.create_pod("p6", gpu_mem=4), ["n1"])["NodeNames"] == ["n1"]
    assert scheduler.filter(api.create_pod("p7", gpu_mem=2), ["n1"])["NodeNames"] == []


@pytest.mark.parametrize("text", ids=range(11), argvalues=["", "{", "null", "[]", '{"unit":1024}', '{"unit":-1,"containers":{}}',
                                  '{"unit":1024,"containers":{"main":[{"uuid":"GPU-n1-0","units":99999999999}]}}',
                                  '{"unit":1024,"containers":{"other":[{"uuid":"GPU-n1-0","units":3}]}}',
                                  '{"unit":1024,"containers":{"main":[{"uuid":"GPU-elsewhere","units":3}]}}',
                                  "\\u0000" * 100, "[" * 5000])
def test_a_malformed_placement_is_an_unplaced_pod(api, start, text):
    gpu_node(api, "n1", 4096)
    api.create_pod("odd", gpu_mem=3, node="n1", annotations={"ration.dev/placement": text})
    scheduler = start()
    node = scheduler.inspect()["nodes"][0]
    assert node["pendingGPU"] == 3 and node["usedGPU"] == 0
    assert scheduler.inspect()["wrongSums"] == 0


@pytest.mark.parametrize("value, message", [("-1", "must not be negative"), ("1500m", "must be a whole number"), ("3x", "must be a number"),
                                            ("9" * 400, None), ("1k", None), ("10G", None)])
def test_odd_quantities_get_a_clear_answer(api, start, value, message):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=value)
    answer = scheduler.filter(pod, ["n1"])
    if message:
        text = answer["FailedAndUnresolvableNodes"]["n1"]
        assert answer["Error"] == "" and message in text and "aliyun.com/gpu-mem" in text and "main" in text
    else:
        assert "no GPU is that large" in answer["FailedAndUnresolvableNodes"].values() or answer["Error"]
    assert scheduler.process.poll() is None


def test_a_release_wakes_the_waiting_pods_that_fit_and_no_others(api, start):
    gpu_node(api, "n1", 8192)
    scheduler = start()
    for name, units in (("old", 5), ("tiny", 1)):
        assert scheduler.bind(api.create_pod(name, gpu_mem=units), "n1") == ""
    waiting = {name: api.create_pod(name, gpu_mem=units) for name, units in (("large", 9), ("whole", 8), ("small", 6))}
    for pod in waiting.values():
        assert scheduler.filter(pod, ["n1"])["NodeNames"] == []
    api.delete("pods", "old")
    released = time.monotonic()
    wait_for(lambda: "ration.dev/nudge" in api.pod("small")["metadata"]["annotations"], 2)
    assert time.monotonic() - released < 2
    assert "ration.dev/nudge" not in api.pod("whole")["metadata"]["annotations"]
    api.delete("pods", "tiny")
    wait_for(lambda: "ration.dev/nudge" in api.pod("whole")["metadata"]["annotations"], 2)
    assert "ration.dev/nudge" not in api.pod("large")["metadata"]["annotations"]


def test_higher_priority_is_nudged_first(api, start):
    gpu_node(api, "n1", 40960)
    scheduler = start()
    assert scheduler.bind(api.create_pod("old", gpu_mem=40), "n1") == ""
    main = {"name": "main", "image": "example", "resources": {"limits": {"aliyun.com/gpu-mem": "1"}}}
    for i in range(30):
        pod = api.create_pod(f"w{i}", spec={"priority": 100 if i == 29 else 0, "containers": [main]})
        assert scheduler.filter(pod, ["n1"])["NodeNames"] == []
    api.delete("pods", "old")
    # 16 a look: the last to come is in the first batch because of its priority.
    wait_for(lambda: len(api.requests_for("PATCH", "/pods/w")) >= 16)
    assert "w29" in [r.path.rsplit("/", 1)[1] for r in api.requests_for("PATCH", "/pods/w")[:16]]


def test_ready_only_after_both_lists_and_for_good(api):
    gpu_node(api, "n1", 8192)
    slow = api.inject("GET", "/api/v1/pods", times=-1, delay=1.5)
    scheduler = Scheduler(api)
    try:
        assert not scheduler.ready()
        answer = scheduler.filter(api.create_pod("p", gpu_mem=1), ["n1"])
        assert "has not read" in answer["Error"]
        assert scheduler.http("GET", "/healthz", port=1)[0] == 200
        slow.times = 0
        wait_for(scheduler.ready, READY_TIMEOUT)
        api.stop()
        wait_for(lambda: "is it running, and reachable from here?" in scheduler.text(), READY_TIMEOUT)
        assert scheduler.ready()
        api.start()
    finally:
        assert scheduler.stop() == 0


def test_a_restart_rebuilds_the_ledger_from_the_api_server(api, start):
    gpu_node(api, "n1", 16160, 16160)
    scheduler = start()
    for i, units in enumerate((7, 5, 9)):
        assert scheduler.bind(api.create_pod(f"p{i}", gpu_mem=units), "n1") == ""
    before = scheduler.used()
    scheduler.stop(signal.SIGKILL)
    scheduler.start()
    wait_for(scheduler.ready, READY_TIMEOUT)
    assert scheduler.used() == before == {"n1": [12, 9]}


def ended(api, node, pod):
    """What the node's agent says when no container of a deleted pod lives."""
    held = {"at": f"2026-01-01T00:00:00.{time.monotonic_ns() // 1000 % 1000000:06d}Z", "pods": [],
            "ended": [pod["metadata"]["uid"]]}
    api.patch("nodes", node, {"metadata": {"annotations": {"ration.dev/held": json.dumps(held)}}})
    time.sleep(0.1)
    return True


def test_expired_history_and_cut_watches_lose_nothing(api, start):
    gpu_node(api, "n1", 16160)
    scheduler = start()
    pods = [api.create_pod(f"p{i}", gpu_mem=2) for i in range(4)]
    for pod in pods:
        assert scheduler.bind(pod, "n1") == ""
    api.stop()
    api.start()
    api.delete("pods", "p0")
    api.expire()
    # Nobody has seen p0's last state: it counts until the node says that its containers have ended, at most 30 s.
    wait_for(lambda: ended(api, "n1", pods[0]) and scheduler.used() == {"n1": [6]}, 20)
    api.close_watches(mid_object=True)
    api.delete("pods", "p1")
    wait_for(lambda: scheduler.used() == {"n1": [4]}, 20)


def test_finished_pods_free_their_card(api, start):
    gpu_node(api, "n1", 16160)
    scheduler = start()
    assert scheduler.bind(api.create_pod("p", gpu_mem=2), "n1") == ""
    api.set_phase("p", "Succeeded")
    wait_for(lambda: scheduler.used() == {"n1": [0]})


def test_the_ledger_says_up_to_which_version_it_has_everything_about_pods(api, start):
    gpu_node(api, "n1", 16160)
    first = api.create_pod("first")["metadata"]["resourceVersion"]
    scheduler = start()
    assert int(scheduler.inspect()["podsVersion"]) >= int(first)
    assert scheduler.bind(api.create_pod("p", gpu_mem=2), "n1") == ""
    ended = int(api.set_phase("p", "Succeeded")["metadata"]["resourceVersion"])
    state = wait_for(lambda: (s := scheduler.inspect()) and int(s["podsVersion"]) >= ended and s)
    assert [d["usedGPU"] for d in state["nodes"][0]["devs"]] == [0]


def test_a_deleting_pod_keeps_its_card_until_it_is_gone(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    assert scheduler.bind(api.create_pod("p", gpu_mem=3), "n1") == ""
    api.patch("pods", "p", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    scheduler.has_read_pods()
    assert scheduler.filter(api.create_pod("next", gpu_mem=3), ["n1"])["NodeNames"] == []


def test_pods_without_a_gpu_pass_and_bind_without_annotations(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=0)
    assert scheduler.filter(pod, ["n1", "elsewhere"])["NodeNames"] == ["n1", "elsewhere"]
    assert scheduler.bind(pod, "n1") == ""
    assert not [k for k in api.pod("p")["metadata"]["annotations"] if "ration" in k or "GPU" in k]


def test_three_hundred_pods_from_many_threads_never_overfill_a_card(api, start, seed):
    sizes = {"a": (16160, 8192), "b": (24576,), "c": (4096, 4096, 4096)}
    for name, mibs in sizes.items():
        gpu_node(api, name, *mibs)
    scheduler = start()
    rng = random.Random(seed)
    pods = [api.create_pod(f"p{i}", gpu_mem=rng.randint(1, 7)) for i in range(300)]

    def schedule(pod):
        for _ in range(3):
            names = scheduler.filter(pod, list(sizes))["NodeNames"]
            if not names:
                return "full"
            if scheduler.bind(pod, rng.choice(names)) == "":
                return "bound"
        return "lost"
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        results = list(pool.map(schedule, pods))
    used = {}
    for pod in api.list("pods"):
        if pod["spec"].get("nodeName"):
            for card in placement_of(api, pod["metadata"]["name"])["containers"]["main"]:
                used[card["uuid"]] = used.get(card["uuid"], 0) + card["units"]
    totals = {f"GPU-{n}-{i}": mib // 1024 for n, mibs in sizes.items() for i, mib in enumerate(mibs)}
    assert all(used[uuid] <= totals[uuid] for uuid in used), used
    assert results.count("bound") == sum(1 for p in api.list("pods") if p["spec"].get("nodeName")) > 10
    state = scheduler.inspect()
    assert state["wrongSums"] == 0 and state["overcommittedGPUs"] == 0


@pytest.mark.parametrize("body", ids=range(10), argvalues=[b"", b"{", b"null", b"[]", b'{"Pod":1,"NodeNames":[]}', b'{"Pod":{},"NodeNames":{}}',
                                  b'{"Pod":{},"NodeNames":[]}', b"\xff\xfe" * 50, b"[" * 100000,
                                  b'{"Pod":{"metadata":{"uid":7}},"NodeNames":[1,null,{}]}'])
@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind"])
def test_malformed_bodies_are_answered_and_survived(api, start, verb, body):
    scheduler = start()
    status, answer = scheduler.http("POST", "/" + verb, body)
    assert status == 200
    assert verb == "prioritize" or json.loads(answer)["Error"]
    assert scheduler.process.poll() is None


def test_the_door_has_limits(api, start):
    scheduler = start()
    assert scheduler.http("GET", "/filter")[0] == 404
    assert scheduler.http("POST", "/etc/passwd", b"{}")[0] == 404
    status, _ = scheduler.http("POST", "/filter", b" " * (9 << 20))
    assert status == 413
    # Slow and silent clients do not keep others out.
    silent = [socket.create_connection(("127.0.0.1", scheduler.ports[0])) for _ in range(200)]
    silent[0].sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert scheduler.http("GET", "/inspect")[0] == 200
    for s in silent:
        s.close()


def test_a_caller_that_hangs_up_during_bind_does_no_harm(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=1)
    api.inject("POST", "/binding$", delay=0.5)
    body = json.dumps({"PodName": "p", "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "n1"})
    s = socket.create_connection(("127.0.0.1", scheduler.ports[0]))
    s.sendall(f"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    wait_for(lambda: api.requests_for("POST", "/binding$"))
    s.close()
    wait_for(lambda: api.pod("p")["spec"].get("nodeName") == "n1")
    assert scheduler.ready()


def test_help_version_and_bad_options():
    program = BUILD / "src/scheduler/ration-scheduler"
    assert "--best-nodes" in subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    assert subprocess.run([program, "--version"], capture_output=True, text=True).stdout.startswith("ration-scheduler")
    for bad in (["--best-nodes", "-1"], ["--log-level", "loud"], ["stray"], ["--nonsense"]):
        assert subprocess.run([program, *bad], capture_output=True).returncode == 2
    result = subprocess.run([program, "--kubeconfig", "/nonexistent"], capture_output=True, text=True)
    assert result.returncode == 1 and "/nonexistent" in result.stderr


def test_a_pod_deleted_in_a_gap_of_the_watch_does_not_stay_in_the_book(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    # The watch of pods says nothing from now on, so only the Binding tells of the pod; then it is cut.
    pod = api.create_pod("p", gpu_mem=3)
    scheduler.has_read_pods()
    refused = api.inject("GET", "/api/v1/pods$", times=-1, watch=True, status=500)
    api.close_watches()
    wait_for(lambda: any(r.status == 500 for r in api.requests_for("GET", "/api/v1/pods$")))
    late = api.create_pod("late", gpu_mem=1)
    assert scheduler.bind(pod, "n1") == "" and scheduler.bind(late, "n1") == ""
    assert scheduler.used() == {"n1": [4]}
    api.delete("pods", "late")
    api.expire()
    refused.times = 0
    wait_for(lambda: ended(api, "n1", late) and scheduler.used() == {"n1": [3]}, 20)


@pytest.mark.waits
def test_doubt_lasts_as_long_as_nobody_can_tell(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    first, second = api.create_pod("first", gpu_mem=3), api.create_pod("second", gpu_mem=3)
    scheduler.has_read_pods()
    api.inject("POST", "/binding$", hang=True)
    assert scheduler.bind(first, "n1") != ""
    refused = api.inject("GET", "/api/v1/pods$", times=-1, watch=True, status=500)
    api.close_watches()
    time.sleep(11)
    assert "no GPU has 3 units free" in scheduler.bind(second, "n1")
    refused.times = 0
    wait_for(lambda: scheduler.bind(second, "n1") == "", 20)


def test_nobody_in_the_pod_network_can_keep_the_probes_from_being_answered(api, start):
    scheduler = start("--probes", "0.0.0.0:0")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    silent = []
    try:
        # More connections than the server takes altogether, from one address; the kubelet comes from another.
        for _ in range(1100):
            silent.append(socket.create_connection(("127.0.0.1", scheduler.ports[1]), source_address=("127.0.0.2", 0)))
        for s in silent:
            with contextlib.suppress(OSError):
                s.sendall(b"GET /readyz HTTP/1.1\r\n")
        assert scheduler.http("GET", "/healthz", port=1, timeout=3)[0] == 200
        assert len(os.listdir(f"/proc/{scheduler.process.pid}/fd")) < 200
    finally:
        for s in silent:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_card_given_up_for_another_node_wakes_who_waits_for_it(api, start):
    gpu_node(api, "n1", 4096)
    gpu_node(api, "n2", 4096)
    scheduler = start()
    first, second = api.create_pod("first", gpu_mem=3), api.create_pod("second", gpu_mem=3)
    scheduler.has_read_pods()
    assert scheduler.filter(first, ["n1"])["NodeNames"] == ["n1"]
    assert scheduler.filter(second, ["n1"])["NodeNames"] == []
    # No event tells of it: kube-scheduler only asks again, and n1 is cordoned by now.
    assert scheduler.filter(first, ["n2"])["NodeNames"] == ["n2"]
    wait_for(lambda: "ration.dev/nudge" in api.pod("second")["metadata"]["annotations"], 2)


def test_events_without_end_do_not_put_a_wake_up_off(api, start):
    gpu_node(api, "n1", 8192)
    scheduler = start()
    assert scheduler.bind(api.create_pod("old", gpu_mem=5), "n1") == ""
    assert scheduler.filter(api.create_pod("waits", gpu_mem=6), ["n1"])["NodeNames"] == []
    api.create_pod("busy", gpu_mem=1, node="n1")
    api.delete("pods", "old")
    end = time.monotonic() + 2
    while time.monotonic() < end and "ration.dev/nudge" not in api.pod("waits")["metadata"]["annotations"]:
        api.patch("pods", "busy", {"metadata": {"annotations": {"beat": str(time.monotonic())}}})
        time.sleep(0.005)
    assert "ration.dev/nudge" in api.pod("waits")["metadata"]["annotations"]


@pytest.mark.waits
def test_a_pod_deleted_before_filter_asks_for_it_does_not_wait_for_ever(api, start):
    gpu_node(api, "n1", 4096)
    scheduler = start()
    gone, waits = api.create_pod("gone", gpu_mem=9), api.create_pod("waits", gpu_mem=9)
    scheduler.has_read_pods()
    api.delete("pods", "gone")
    scheduler.has_read_pods()
    for pod in (gone, waits):
        assert scheduler.filter(pod, ["n1"])["NodeNames"] == []
    assert scheduler.inspect()["waiting"] == 2
    wait_for(lambda: scheduler.inspect()["waiting"] == 1, 20)
    time.sleep(6)
    assert scheduler.inspect()["waiting"] == 1  # the one that exists goes on waiting


@pytest.mark.waits
def test_no_binding_is_sent_when_kube_scheduler_may_have_given_the_pod_up(api, start):
    gpu_node(api, "n1", 409600)
    scheduler = start()
    pods = [api.create_pod(f"p{i}", gpu_mem=1) for i in range(260)]
    scheduler.has_read_pods()
    api.inject("POST", "/binding$", times=-1, delay=2.5)
    asked = {}    # on a machine that has other work not all threads begin at once

    def bind(pod):
        asked[pod["metadata"]["name"]] = begin = time.monotonic()
        return scheduler.bind(pod, "n1"), time.monotonic() - begin
    with concurrent.futures.ThreadPoolExecutor(len(pods)) as pool:
        answers = list(pool.map(bind, pods))
    assert max(seconds for _, seconds in answers) < 9  # of the 10 s that kube-scheduler waits
    assert all(r.time - asked[r.path.split("/")[-2]] < 7 for r in api.requests_for("POST", "/binding$"))
    assert any("too slow" in error for error, _ in answers)


def test_the_cost_of_prioritize_grows_with_the_nodes_not_with_their_square(api, start):
    names = [f"node-{i:04}" for i in range(4000)]
    for name in names:
        gpu_node(api, name, 16160)
    scheduler = start("--best-nodes", "0")
    pod = api.create_pod("p", gpu_mem=3)

    def cpu(n):
        """Nanoseconds of a processor for ten calls: others may use the machine as well."""
        def now():
            return int(pathlib.Path(f"/proc/{scheduler.process.pid}/schedstat").read_text().split()[0])
        begin = now()
        for _ in range(10):
            assert len(scheduler.verb("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": names[:n]})) == n
        return now() - begin
    # 4 by the number of names, 16 by its square.
    assert cpu(4000) / cpu(1000) < 8
