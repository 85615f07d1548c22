"""A recorded history of a real ration-scheduler, replayed by `ration replay` without any cluster."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import time

import pytest

import gangs
import preemptions
import unit_policies
from fake_apiserver import FOREVER, wait_for
from histories import SEED, kinds, parts, replay, save, save_and_count, sums
from preemptions import fragmented, preempt, running
from resizing import resize, run_pod
from scheduler_fixture import gpu_node


def busy_day(api, scheduler, steps):
    """Pods come, are bound, end, are deleted, force deleted; cards fall ill; nodes go and come."""
    rng = random.Random(SEED)
    for i in range(4):
        gpu_node(api, f"n{i}", *[15360] * 3, 8192, policy=["binpack", "spread"][i % 2])
    nodes, waiting, bound = [f"n{i}" for i in range(4)], [], []
    for step in range(steps):
        what = rng.random()
        if what < 0.6 or not bound:
            pod = api.create_pod(f"p{step}", gpu_mem=2 * rng.randint(1, 6), owner=rng.choice(["a", "b", None]),
                                 **({"labels": {"aliyun.com/gpu-count": "2"}} if step % 5 == 0 else {}))
            waiting.append(pod)
        pod = rng.choice(waiting) if waiting else None
        if pod:
            names = scheduler.filter(pod, rng.sample(nodes, rng.randint(1, 4))).get("NodeNames")
            if names and len(names) > 1:
                scores = scheduler.verb("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": [*names[::-1], "unknown"]})
                assert {"Host": "unknown", "Score": 0} in scores
            if names and rng.random() < 0.8:
                if rng.random() < 0.1:
                    api.inject(method="POST", path=r"/binding$", status=rng.choice([403, 409]))
                if scheduler.bind(pod, rng.choice(names)) == "":
                    bound.append(pod)
                waiting.remove(pod)
        if bound and what > 0.5:
            pod = bound.pop(rng.randrange(len(bound)))
            name, node = pod["metadata"]["name"], api.pod(pod["metadata"]["name"])["spec"]["nodeName"]
            if rng.random() < 0.5:
                api.set_phase(name, "Succeeded")
            elif rng.random() < 0.7:    # a force delete: it becomes a ghost
                api.patch("pods", name, {"status": {"phase": "Running", "containerStatuses": [
                    {"name": "main", "state": {"running": {}}}]}})
            api.delete("pods", name)
            if rng.random() < 0.3:
                api.patch("nodes", node, {"metadata": {"annotations": {"ration.dev/held": json.dumps(
                    {"at": f"2026-05-04T03:02:01.{step:06}Z", "ended": [],
                     "pods": [{"uid": pod["metadata"]["uid"], "namespace": "default", "name": name,
                               "cards": {f"GPU-{node}-0": {"units": 1, "core": 0}}}]})}}})
        if what < 0.05:
            node = rng.choice(nodes)
            cards = json.loads(api.node(node)["metadata"]["annotations"]["ration.dev/gpus"])
            rng.choice(cards)["healthy"] = rng.random() < 0.6
            api.patch("nodes", node, {"metadata": {"annotations": {"ration.dev/gpus": json.dumps(cards)}}})
        if what > 0.97:
            api.delete("nodes", "n3")
            gpu_node(api, "n3", 15360, 15360)
    return nodes


def test_a_gpu_that_falls_ill_between_filter_and_bind_is_chosen_anew_in_a_replay_too(api, start, tmp_path):
    gpu_node(api, "n", 8192, 8192)
    scheduler, pod = start(), api.create_pod("p", gpu_mem=3)
    assert scheduler.filter(pod, ["n"])["NodeNames"] == ["n"]
    held = scheduler.used()["n"].index(3)
    gpus = json.loads(api.node("n")["metadata"]["annotations"]["ration.dev/gpus"])
    gpus[held]["healthy"] = False
    api.patch("nodes", "n", {"metadata": {"annotations": {"ration.dev/gpus": json.dumps(gpus)}}})
    wait_for(lambda: not scheduler.inspect()["nodes"][0]["devs"][held]["healthy"], what="the scheduler sees it")
    assert scheduler.bind(pod, "n") == ""
    lines = save(scheduler, tmp_path / "history")
    cards = [line["placement"]["containers"][0]["gpus"][0]["uuid"] for line in lines
             if line.get("gave") in ("hold", "binding")]
    assert cards == [f"GPU-n-{held}", f"GPU-n-{1 - held}"]
    sums(replay(tmp_path / "history"))


def test_a_busy_day_replays_as_recorded(api, start, tmp_path):
    gpu_node(api, "before", 15360)
    first = api.create_pod("first", gpu_mem=3)
    scheduler = start()
    scheduler.filter(first, ["before"])
    scheduler.bind(first, "before")
    busy_day(api, scheduler, 200)
    # The agents of this test claim what they like: the book can be over a card's total.
    lines, over = save_and_count(scheduler, tmp_path / "history")
    events, decisions = sums(replay(tmp_path / "history"), over)
    assert events == sum("event" in line for line in lines) > 1000
    assert decisions == sum("gave" in line for line in lines) > 500
    gave, happened = kinds(lines, "gave"), kinds(lines, "event")
    assert gave["filter"] > 100 and gave["hold"] > 50 and gave["binding"] > 50
    assert {"pod-seen", "pod-gone", "node-seen", "node-gone", "filter", "bind", "binding-answered"} <= set(happened)
    assert any(line.get("event") == "node-seen" and line["node"].get("held") for line in lines)
    times = [line["at"] for line in lines if line.get("event") in ("filter", "bind", "pod-seen")]
    assert times == sorted(times)


def test_a_day_of_everything_replays_as_recorded(api, start, tmp_path):
    """Gangs, ResourcePolicies, sizes that change, victims of kube-scheduler and of our own: all in one history."""
    gpu_node(api, "a", 10240, 10240)
    gpu_node(api, "c", 16160, 16160, mode="cgpu")
    for name in ("n", "m"):
        gpu_node(api, name, 15360)
    unit_policies.policy(api, [{"resource": "idc", "nodeSelector": {"kubernetes.io/hostname": "a"}, "max": 1},
                               {"resource": "ecs", "nodeSelector": {"kubernetes.io/hostname": "m"}}])
    victims = [running(api, "low", 8, 0, node="n"), running(api, "small", 8, 0, node="m")]
    api.create_budget("budget", {"app": "low"}, 0)
    scheduler = gangs.starts(api, start)
    wait_for(lambda: scheduler.used()["m"] == [8] and scheduler.used()["n"] == [8], 10)
    members = [gangs.member(api, f"g{i}", 3, least=3) for i in range(3)]
    gangs.ready(scheduler, *members)
    unit_policies.ready(api)
    assert gangs.at_once(scheduler, members, ["a"]) == [""] * 3
    run_pod(api, scheduler, "sized", 2, node="c")
    assert resize(api, "sized", {"main": 3})[0]
    assert not resize(api, "sized", {"main": 99})[0]
    assert list(preempt(scheduler, preemptions.pod(api, "other", 10, 1000), n=victims[:1])) == ["n"]
    web = [api.create_pod(f"web{i}", gpu_mem=1, labels={"app": "web"}) for i in range(2)]
    gangs.ready(scheduler, *web)
    for pod in web:
        wait_for(lambda pod=pod: scheduler.filter(pod, ["a", "m"])["NodeNames"], 10, "an answer of a level")
    assert unit_policies.ask(scheduler, api.create_pod("plain", labels={"app": "web"}), ["a", "m"])["Error"] == ""
    big = preemptions.pod(api, "big", 10, 1000)
    scheduler.filter(big, ["m"])
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "m", 15)
    lines = save(scheduler, tmp_path / "history", "everything")
    sums(replay(tmp_path / "history"))
    assert {"filter", "hold", "binding", "bind-order", "narrowed", "preemption", "victims", "eviction-order",
            "resize-order"} <= set(kinds(lines, "gave")), kinds(lines, "gave")
    assert {"names", "resize", "patch"} <= set(kinds(lines, "told"))
    assert {"policy-pod-seen", "policy-narrow", "gangs-look", "resize-listed", "eviction-answered",
            "resize-answered"} <= set(kinds(lines, "event")), kinds(lines, "event")


def test_two_nodes_replay_as_recorded(api, start, tmp_path):
    """What the test of the lab does (tests/cluster/test_why.py)."""
    for name in ("a", "b"):
        gpu_node(api, name, 16160, 16160)
    scheduler = start()

    def pod(name, units, cards=None):
        labels = {"aliyun.com/gpu-count": str(cards)} if cards else {}
        return api.create_pod(name, gpu_mem=units, labels=labels)

    def schedule(pod):
        for node in scheduler.filter(pod, ["a", "b"])["NodeNames"][:1]:
            assert scheduler.bind(pod, node) == ""
            api.set_phase(pod["metadata"]["name"], "Running")
            return True
        return False
    pods = [pod(f"p{i}", 3 + 5 * (i % 4), 2 if i % 3 == 0 else None) for i in range(12)]
    running_ones = [schedule(p) for p in pods]
    assert 5 <= sum(running_ones) < 12
    for name in ("p1", "p2"):
        api.delete("pods", name)
    assert not schedule(pod("large", 25))
    scheduler.has_read_pods()
    for p, runs in zip(pods[3:], running_ones[3:]):
        if not runs:
            schedule(p)
    save(scheduler, tmp_path / "history", "two-nodes")
    events, decisions = sums(replay(tmp_path / "history"))
    assert events > 60 and decisions > 30


def test_the_scores_of_a_thousand_nodes_take_no_more_of_a_history_than_those_of_ten(api, start, tmp_path):
    names = [f"n{i}" for i in range(1000)]
    for name in names:
        gpu_node(api, name, 15360)
    scheduler = start("--best-nodes", "0")
    pod = api.create_pod("asks", gpu_mem=3)
    chosen = scheduler.filter(pod, names)["NodeNames"][0]
    for _ in range(10):
        random.Random(SEED).shuffle(names)
        scores = scheduler.verb("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": names})
        assert sorted(score["Score"] for score in scores)[-11:] == list(range(11))
        assert {"Host": chosen, "Score": 10} in scores
    lines = save(scheduler, tmp_path / "history")
    _, _, events, _ = parts(lines)
    about = [line for line in events if line.get("gave") == "scores" or line.get("told") == "names"]
    assert kinds(events, "event")["prioritize"] == kinds(events, "gave")["scores"] == 10
    assert max(len(json.dumps(line)) for line in about) < 1000
    sums(replay(tmp_path / "history"))


def test_a_call_that_names_a_node_twice_replays_as_recorded(api, start, tmp_path):
    for name in ("a", "b", "c"):
        gpu_node(api, name, 15360)
    scheduler = start()
    scores = scheduler.verb("prioritize", {"Pod": api.create_pod("asks", gpu_mem=3), "Nodes": None, "NodeNames": ["b", "a", "a", "c"]})
    assert [score["Score"] for score in scores] == [9, 10, 10, 8]
    save(scheduler, tmp_path / "history")
    sums(replay(tmp_path / "history"))


def test_what_has_fallen_off_the_ring_is_in_the_beginning(api, start, tmp_path):
    """More than two segments of 3 MiB hold: the beginning is a state of the middle, and the end follows from it."""
    scheduler = start()
    nodes = busy_day(api, scheduler, 60)
    labels = {f"label-{i}": "x" * 60 for i in range(16)}    # a line that has the pod has more than 1 KiB
    pods = [api.create_pod(f"again{i}", gpu_mem=1 + i % 12, labels=labels) for i in range(4)]

    def keep_filtering(pod, times):
        connection = http.client.HTTPConnection("127.0.0.1", scheduler.ports[0], timeout=15)
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes})
        for _ in range(times):
            connection.request("POST", "/filter", body)
            connection.getresponse().read()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(keep_filtering, pod, 2500) for pod in pods]:
            done.result()
    lines, over = save_and_count(scheduler, tmp_path / "history")
    _, beginning, events, _ = parts(lines)
    size = sum(len(json.dumps(line, separators=(",", ":"))) + 1 for line in events)
    assert 4 << 20 < size < 10 << 20
    assert kinds(events, "event")["filter"] < 9000    # of more than 10,000
    assert sum("node" in line for line in beginning) == 4 and sum("pod" in line for line in beginning) > 10
    assert sums(replay(tmp_path / "history"), over)[1] > 2000
    page = scheduler.http("GET", "/metrics")[1].decode()
    assert size < int(re.search(r'^ration_history_bytes{ring="changes"} (\d+)$', page, re.M)[1]) < 18 << 20


def large_world(api, nodes, pods):
    """Bound pods on cards of 15 units: nothing is over."""
    for i in range(nodes):
        gpu_node(api, f"n{i}", 15360, 15360)
    for i in range(pods):
        node = f"n{i % nodes}"
        api.create_pod(f"old{i}", gpu_mem=1, node=node, annotations={"ration.dev/placement": json.dumps(
            {"unit": 1024, "containers": {"main": [{"uuid": f"GPU-{node}-{i // nodes % 2}", "units": 1}]}})})


def long_history(api, start):
    """A scheduler whose history takes a while to write, and nodes that it can be asked about."""
    large_world(api, 300, 2400)
    scheduler = start()
    pod, names = api.create_pod("asks", gpu_mem=3), [f"n{i}" for i in range(40)]
    # The API server of the test lists 2,400 pods, and on a busy machine it may answer for the Lease too late.
    wait_for(lambda: scheduler.filter(pod, names).get("NodeNames"), 20)
    for _ in range(1000):
        assert scheduler.filter(pod, names)["NodeNames"]
    return scheduler, names


@pytest.mark.long(18)
@pytest.mark.waits
def test_a_history_written_while_the_scheduler_works_is_that_of_one_moment(api, start, tmp_path):
    scheduler, names = long_history(api, start)
    rng, stop, written = random.Random(SEED), False, []

    def write_histories():
        while not stop:
            path = tmp_path / f"history{len(written)}"
            save(scheduler, path)
            written.append(path)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_histories)
        try:
            for step in range(150):
                pod = api.create_pod(f"new{step}", gpu_mem=rng.randint(1, 5))
                fitting = scheduler.filter(pod, rng.sample(names, 20))["NodeNames"]
                assert scheduler.bind(pod, fitting[0]) == ""
                api.delete("pods", f"old{step}")
                api.patch("nodes", f"n{rng.randrange(len(names), 300)}", {"metadata": {"annotations": {
                    "ration.dev/serving": rng.choice(["true", "false"])}}})
        finally:
            stop = True
        writing.result()
    assert len(written) >= 3
    events = [sums(replay(path))[0] for path in written]
    assert events == sorted(events) and events[-1] > events[0]


@contextlib.contextmanager
def written_by_a_child_that_stands_still(scheduler):
    """GET /history whose child process is stopped: (its connection, the child)."""
    children = pathlib.Path(f"/proc/{scheduler.process.pid}/task/{scheduler.process.pid}/children")
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", scheduler.ports[0])) as connection:
            wait_for(lambda: not children.read_text(), 10, "no history is being written")
            connection.sendall(b"GET /history HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            end = time.monotonic() + 1
            while not (child := children.read_text()) and time.monotonic() < end:
                pass
            with contextlib.suppress(ProcessLookupError, ValueError):
                child = int(child)
                os.kill(child, signal.SIGSTOP)
                wait_for(lambda: re.search(r"State:\s+[TZ]", pathlib.Path(f"/proc/{child}/status").read_text()), 5)
                if "State:\tT" in pathlib.Path(f"/proc/{child}/status").read_text():
                    yield connection, child
                    return
            with contextlib.suppress(OSError):
                while connection.recv(1 << 20):
                    pass
    raise AssertionError("no child was met while it wrote")


def received(connection):
    return b"".join(iter(lambda: connection.recv(1 << 20), b""))


def test_filter_is_answered_while_a_history_is_written_and_there_is_one_at_a_time(api, start, tmp_path):
    scheduler, names = long_history(api, start)
    pod = api.create_pod("p", gpu_mem=3)
    with written_by_a_child_that_stands_still(scheduler) as (connection, child):
        assert scheduler.bind(pod, scheduler.filter(pod, names)["NodeNames"][0]) == ""
        status, body = scheduler.http("GET", "/history")
        assert status == 503 and b"another history is being written" in body
        os.kill(child, signal.SIGCONT)
        head, _, body = received(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    # What came after the question is not in the answer.
    (tmp_path / "history").write_bytes(body)
    sums(replay(tmp_path / "history"))
    assert b'"event":"bind"' not in body
    assert kinds(save(scheduler, tmp_path / "later"), "event")["bind"] == 1


def test_a_child_that_is_killed_and_a_caller_that_hangs_up_keep_nobody_from_the_next_history(api, start, tmp_path):
    scheduler, _ = long_history(api, start)
    with written_by_a_child_that_stands_still(scheduler) as (connection, child):
        os.kill(child, signal.SIGKILL)
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 503") and b"the history cannot be written, try again" in answer
    sums(save(scheduler, tmp_path / "a") and replay(tmp_path / "a"))
    with written_by_a_child_that_stands_still(scheduler) as (connection, child):
        connection.close()
        os.kill(child, signal.SIGCONT)
    wait_for(lambda: scheduler.http("GET", "/history")[0] == 200, 5)
    # It ends cleanly in the middle of one (start's fixture looks at the exit status), and no child is left.
    with written_by_a_child_that_stands_still(scheduler) as (connection, child):
        assert scheduler.stop() == 0
        received(connection)
    assert not pathlib.Path(f"/proc/{child}").exists()


def filter_until(scheduler, pod, names, condition):
    """Asks filter about the pod, on one connection, until condition()."""
    connection = http.client.HTTPConnection("127.0.0.1", scheduler.ports[0], timeout=15)
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names})
    while not condition():
        connection.request("POST", "/filter", body)
        connection.getresponse().read()


@pytest.mark.waits
def test_a_state_that_could_not_be_written_leaves_no_gap(api, start, tmp_path):
    """The child that writes the state of the second segment is killed: the first one goes on until another one is written."""
    large_world(api, 300, 2400)
    scheduler = start()
    save(scheduler, tmp_path / "first")
    children = pathlib.Path(f"/proc/{scheduler.process.pid}/task/{scheduler.process.pid}/children")
    pod, names = api.create_pod("asks", gpu_mem=3, labels={f"x{i}": "y" * 60 for i in range(30)}), ["n0", "n1", "n2"]
    killed, stop = [], False

    def kill():
        while not stop and not killed:
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)
                killed.append(child)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        end = time.monotonic() + 60
        filter_until(scheduler, pod, names, lambda: killed or time.monotonic() > end)
        stop = True
        killing.result()
    wait_for(lambda: "cannot be recorded" in scheduler.text(), 5)
    lines = save(scheduler, tmp_path / "meanwhile")
    sums(replay(tmp_path / "meanwhile"))
    assert kinds(parts(lines)[2], "event")["filter"] > 500
    assert scheduler.bind(pod, "n0") == ""
    # After 10 s a state is written again. The events before it are gone with the segment that has none.
    other, end = api.create_pod("other", gpu_mem=3), time.monotonic() + 12
    filter_until(scheduler, other, names, lambda: time.sleep(0.2) or time.monotonic() > end)
    lines = save(scheduler, tmp_path / "later")
    sums(replay(tmp_path / "later"))
    assert not kinds(lines, "event")["bind"] and sum("pod" in line for line in parts(lines)[1]) > 2400


def test_before_the_first_lists_are_read_there_is_no_history(api, start, tmp_path):
    gpu_node(api, "n", 15360)
    fault = api.inject("GET", "/pods", times=FOREVER, status=503)
    scheduler = start(ready=False)
    wait_for(lambda: api.requests_for("GET", "/pods"))
    status, body = scheduler.http("GET", "/history")
    assert status == 503 and b"nothing is recorded yet" in body
    fault.times = 0
    wait_for(scheduler.ready, 20)
    save(scheduler, tmp_path / "history")
    sums(replay(tmp_path / "history"))


def test_preemption_and_evictions_are_made_again(api, start, tmp_path):
    fragmented(api)
    gpu_node(api, "m", 15360)
    scheduler = start()
    big = preemptions.pod(api, "big", 10, 1000)
    victim = running(api, "v", 8, 0, node="m")
    wait_for(lambda: scheduler.used()["m"] == [8], 5)
    scheduler.filter(big, ["n"])
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "n", 15)
    other = preemptions.pod(api, "other", 10, 1000)
    assert list(preempt(scheduler, other, m=[victim])) == ["m"]
    scheduler.filter(api.create_pod("bad", gpu_mem=3, labels={"aliyun.com/gpu-count": "x"}), ["n"])
    lines = save(scheduler, tmp_path / "history")
    assert {"filter", "preemption", "victims", "eviction-order"} <= set(kinds(lines, "gave"))
    preemption, = [line for line in lines if line.get("gave") == "preemption"]
    assert preemption["name"] == "m" and preemption["names"] == [victim["metadata"]["uid"]]
    sums(replay(tmp_path / "history"))


def test_the_history_has_names_numbers_and_labels_of_pods_that_ask_for_a_gpu(api, start, tmp_path):
    gpu_node(api, "n", 15360)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3, annotations={"note": "s3cret"}, labels={"team": "blue"})
    api.create_pod("other", annotations={"note": "s3cret"}, labels={"team": "s3cret"})
    api.patch("pods", "p", {"spec": {"containers": [{"name": "main", "image": "s3cret", "env": [{"name": "s3cret"}],
                                                     "resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}]}})
    scheduler.filter(api.pod("p"), ["n"])
    scheduler.bind(pod, "n")
    wait_for(lambda: scheduler.used() == {"n": [3]}, 5)
    save(scheduler, tmp_path / "history")
    text = (tmp_path / "history").read_text()
    assert "s3cret" not in text and "team=blue" in text


def altered(path, number, alter):
    """The history with one line changed; numbers as in json.loads() of its lines."""
    lines = path.read_text().splitlines()
    line = json.loads(lines[number])
    alter(line)
    lines[number] = json.dumps(line, separators=(",", ":"))
    (path.parent / "altered").write_text("".join(line + "\n" for line in lines))
    return replay(path.parent / "altered")


def test_the_first_difference_is_told(api, start, tmp_path):
    scheduler = start()
    busy_day(api, scheduler, 60)
    path = tmp_path / "history"
    lines, over = save_and_count(scheduler, path, "mixed")
    sums(altered(path, 0, lambda line: None), over)
    hold = [i for i, line in enumerate(lines) if line.get("gave") == "hold"][5]
    offer = [i for i, line in enumerate(lines) if line.get("gave") == "filter" and len(line.get("names", "")) > 1][2]

    def other_card(line):
        line["placement"]["containers"][0]["gpus"][0]["uuid"] = "GPU-other"
    done = altered(path, hold, other_card)
    assert done.returncode == 1 and done.stderr == ""
    assert re.search(r'^The first difference: event \d+ at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, filter of p\d+: recorded: '
                     r'\{"gave":"hold",.*GPU-other.*; computed: \{"gave":"hold",.*GPU-n\d-\d', done.stdout), done.stdout
    for number, alter, words in (
            (offer, lambda line: line["names"].reverse(), 'recorded: {"gave":"filter"'),
            (offer, lambda line: line.update(number=line["number"] + 1), '"number":'),
            (offer, lambda line: line["reasons"].update({"3": 77}), '"3":77'),
            # An event that was otherwise leads to other decisions, here or later.
            (next(i for i, line in enumerate(lines) if line.get("event") == "node-seen"),
             lambda line: [gpu.update(mib=1024) for gpu in line["node"]["gpus"]], "computed: "),
            (len(lines) - 1, lambda line: line["gangs"].update(timeout=1), "the state at the end: recorded: ")):
        done = altered(path, number, alter)
        assert done.returncode == 1 and words in done.stdout, (words, done)
    text = path.read_text().splitlines(keepends=True)
    for number, words in ((hold, 'recorded: {"gave":"bind-order"|recorded: nothing; computed: {"gave":"hold"'),
                          (len(lines) - 1, "recorded: nothing; computed: ")):
        (tmp_path / "cut").write_text("".join(text[:number] + text[number + 1:]))
        done = replay(tmp_path / "cut")
        assert done.returncode == 1 and any(part in done.stdout for part in words.split("|")), done


HEAD = '{"history":4,"clock":0}\n'


@pytest.mark.parametrize("text, words", [
    ("", "it is empty"),
    ("{}\n", "line 1: the first line is not that of a history of version 4"),
    ("[]\n", "line 1: the first line is not that of a history of version 4"),
    ('{"history":1,"bestNodes":16}\n', "line 1: the first line is not that of a history of version 4"),
    (HEAD, "it ends in the middle"),
    (HEAD + '{"event":"tick"}\n', "it ends in the middle"),
    (HEAD + '{"eve', "line 2: "),
    ("\x00\n", "line 1: "),
    (HEAD + '{"what":{}}\n', "line 2: a line of a state that names nothing known"),
    (HEAD + '{"event":"hold"}\n', '"event" is "hold", which this version does not know'),
    (HEAD + '{"gave":"filter"}\n', "line 2: a decision without an event"),
    (HEAD + '{"told":"names"}\n', "line 2: an answer without an event"),
    (HEAD + '{"event":"tick"}\n{"node":{}}\n', "line 3: neither an event nor what belongs to one"),
    (HEAD + '{"node":{"name":1}}\n', "line 2: node: "),
    (HEAD + '{"node":{"name":"n","uid":"u","unit":1024,"gpus":[{"uuid":"' + "G" * 99 + '"}]}}\n', "line 2: node: "),
    (HEAD + '{"pod":{"state":7}}\n', "line 2: pod: "),
    (HEAD + '{"order":{"node":"n","pods":["u"]}}\n', "line 2: order: "),
    (HEAD + '{"event":"pod-seen"}\n{"end":true}\n', "an event pod-seen that lacks something"),
    (HEAD + '{"event":"nodes-told","number":-1}\n{"end":true}\n', "an event nodes-told that lacks something"),
    (HEAD + '{"event":"bind-answered","bind":7}\n{"end":true}\n', "bind 7 does not wait for bind-answered"),
    (HEAD + '{"event":"resize-leads","uid":"u"}\n{"end":true}\n', "the resize of pod u does not wait for resize-leads"),
    (HEAD + '{"event":"victim-marked","uid":"u"}\n{"end":true}\n', "the eviction for pod u does not wait for"),
    (HEAD + '{"event":"policy-pod-gone","namespace":"x","uid":"u"}\n{"end":true}\n', "namespace x has no ResourcePolicies"),
])
def test_what_is_no_history_is_refused_with_a_sentence(tmp_path, text, words):
    (tmp_path / "x").write_text(text)
    done = replay(tmp_path / "x")
    assert done.returncode == 1 and done.stderr.startswith("ration: ") and done.stderr.count("\n") == 1, done
    assert words in done.stderr, done.stderr


def test_replay_of_garbled_histories_never_crashes(api, start, tmp_path):
    scheduler = start()
    busy_day(api, scheduler, 25)
    save(scheduler, tmp_path / "history")
    text, rng = (tmp_path / "history").read_bytes(), random.Random(SEED)
    for _ in range(60):
        garbled = bytearray(text)
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(garbled))
            if rng.random() < 0.5:
                garbled[at:at + rng.randint(0, 40)] = b""
            else:
                garbled[at] = rng.choice(b'0123456789"{}[],:abn-')
        (tmp_path / "x").write_bytes(garbled)
        assert replay(tmp_path / "x").returncode in (0, 1)


def test_file_without_end_or_lines_is_no_history():
    done = replay("/dev/zero")
    assert done.returncode == 1 and "a line is longer than 16 MiB" in done.stderr


def test_ration_history_fetches_it_through_port_forward(api, start, person, tmp_path):
    gpu_node(api, "n", 15360)
    scheduler = start()
    scheduler.filter(api.create_pod("p", gpu_mem=3), ["n"])
    person.world(scheduler)
    done = person.run("history")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "history").write_text(done.stdout)
    assert sums(replay(tmp_path / "history"))[1] == 2    # filter's answer, and its hold
    person.world(scheduler, leader=None)
    done = person.run("history")
    assert done.returncode == 1 and "Is the chart ack-co-scheduler installed?" in done.stderr
