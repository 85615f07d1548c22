"""A recorded history of a real ration-scheduler, replayed by `ration replay` without any cluster."""
import concurrent.futures
import http.client
import json
import random
import re
import select
import socket
import time

import pytest

import preemptions
from fake_apiserver import wait_for
from histories import SEED, replay, save, sums
from preemptions import fragmented, preempt, running
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
    assert [line["event"] for line in lines if line.get("event") in ("hold", "reserve")] == ["hold", "reserve", "reserve"]
    _, _, choices = sums(replay(tmp_path / "history"))
    assert choices == 3


def test_a_busy_day_replays_as_recorded(api, start, tmp_path):
    gpu_node(api, "before", 15360)
    first = api.create_pod("first", gpu_mem=3)
    scheduler = start()
    scheduler.filter(first, ["before"])
    scheduler.bind(first, "before")
    busy_day(api, scheduler, 200)
    lines = save(scheduler, tmp_path / "history")
    # The agents of this test claim what they like: the book can be over a card's total, then as now.
    changes, answers, choices = sums(replay(tmp_path / "history"), scheduler.inspect()["overcommittedGPUs"])
    assert answers == sum(line.get("decision") == "filter" for line in lines) > 100
    assert changes == sum("event" in line for line in lines) > 400
    assert choices > 100
    assert {"delete-pod", "set-node", "remove-node", "confirm", "drop-hold"} <= {line.get("event") for line in lines}
    assert any(line.get("event") == "set-node" and "held" in line["node"] for line in lines)
    numbers = [line["number"] for line in lines if "number" in line]
    assert numbers == sorted(numbers)


def test_what_has_fallen_off_the_ring_is_in_the_beginning(api, start, tmp_path):
    """More than 20,000 entries: the ledger at the ring's beginning comes from the pictures, not from the start."""
    scheduler = start()
    nodes = busy_day(api, scheduler, 60)
    pods = [api.create_pod(f"again{i}", gpu_mem=1 + i % 12) for i in range(4)]

    def keep_filtering(pod, times):
        connection = http.client.HTTPConnection("127.0.0.1", scheduler.ports[0], timeout=15)
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes})
        for _ in range(times):
            connection.request("POST", "/filter", body)
            connection.getresponse().read()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(keep_filtering, pod, 2500) for pod in pods]:
            done.result()
    lines = save(scheduler, tmp_path / "history")
    entries = sum("decision" not in line and "number" in line for line in lines)
    assert 5000 < entries <= 20000
    assert any("restorePod" in line for line in lines)
    assert sums(replay(tmp_path / "history"), scheduler.inspect()["overcommittedGPUs"])[1] > 1000


def large_world(api, nodes, pods):
    """Bound pods on cards of 15 units: nothing is over."""
    for i in range(nodes):
        gpu_node(api, f"n{i}", 15360, 15360)
    for i in range(pods):
        node = f"n{i % nodes}"
        api.create_pod(f"old{i}", gpu_mem=1, node=node, annotations={"ration.dev/placement": json.dumps(
            {"unit": 1024, "containers": {"main": [{"uuid": f"GPU-{node}-{i // nodes % 2}", "units": 1}]}})})


def long_history(api, start):
    """A scheduler whose history takes many slices, and the nodes that it was asked about."""
    large_world(api, 300, 2400)
    scheduler = start()
    pod, names = api.create_pod("asks", gpu_mem=3), [f"n{i}" for i in range(40)]
    for _ in range(2000):
        assert scheduler.filter(pod, names)["NodeNames"]
    return scheduler, names


@pytest.mark.waits
def test_a_history_written_while_the_ledger_changes_is_that_of_one_moment(api, start, tmp_path):
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
    changes = [sums(replay(path))[0] for path in written]
    assert changes == sorted(changes) and changes[-1] > changes[0]


def test_filter_is_answered_while_a_history_is_written(api, start):
    scheduler, names = long_history(api, start)
    pod = api.create_pod("p", gpu_mem=3)

    def filter_is_first():
        with socket.create_connection(("127.0.0.1", scheduler.ports[0])) as connection:
            connection.sendall(b"GET /history HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            time.sleep(0.003)
            assert scheduler.filter(pod, names)["NodeNames"]
            first = not select.select([connection], [], [], 0)[0]
            while connection.recv(1 << 20):
                pass
            return first
    assert any([filter_is_first() for _ in range(5)])


def test_one_history_at_a_time_and_nobody_who_hangs_up_keeps_the_others_from_it(api, start, tmp_path):
    scheduler, _ = long_history(api, start)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = [future.result() for future in [pool.submit(scheduler.http, "GET", "/history") for _ in range(4)]]
    statuses = [status for status, _ in answers]
    assert 200 in statuses and set(statuses) <= {200, 503}
    assert all(b"another history" in body for status, body in answers if status == 503)
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", scheduler.ports[0])) as connection:
            connection.sendall(b"GET /history HTTP/1.1\r\nhost: x\r\n\r\n")
    wait_for(lambda: scheduler.http("GET", "/history")[0] == 200, 5)
    # It ends cleanly in the middle of one (start's fixture looks at the exit status).
    with socket.create_connection(("127.0.0.1", scheduler.ports[0])) as connection:
        connection.sendall(b"GET /history HTTP/1.1\r\nhost: x\r\n\r\n")
        time.sleep(0.003)
        assert scheduler.stop() == 0


def test_preemption_is_in_the_history_and_skipped_by_replay(api, start, tmp_path):
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
    kinds = [line["decision"] for line in lines if "decision" in line]
    assert {"filter", "filter-error", "preempt", "evict-search", "evict-plan", "evict-answer"} == set(kinds)
    assert {"nominate"} <= {line.get("event") for line in lines}
    done = replay(tmp_path / "history")
    assert sums(done)[1] == 1
    skipped = sum(kind == "preempt" or kind.startswith("evict") for kind in kinds)
    assert f"{skipped} decisions of preemption were not computed again" in done.stdout


def test_the_history_has_no_more_of_a_pod_than_names_and_numbers(api, start, tmp_path):
    gpu_node(api, "n", 15360)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3, annotations={"note": "s3cret"}, labels={"label": "s3cret"})
    api.patch("pods", "p", {"spec": {"containers": [{"name": "main", "image": "s3cret", "env": [{"name": "s3cret"}],
                                                     "resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}]}})
    scheduler.filter(api.pod("p"), ["n"])
    scheduler.bind(pod, "n")
    wait_for(lambda: scheduler.used() == {"n": [3]}, 5)
    save(scheduler, tmp_path / "history")
    assert "s3cret" not in (tmp_path / "history").read_text()


def altered(lines, path, alter):
    """The history with one line changed."""
    lines = json.loads(json.dumps(lines))
    alter(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return replay(path)


def test_the_first_difference_is_told(api, start, tmp_path):
    scheduler = start()
    busy_day(api, scheduler, 60)
    lines = save(scheduler, tmp_path / "history")
    holds = [i for i, line in enumerate(lines) if line.get("event") == "hold"]
    offers = [i for i, line in enumerate(lines) if line.get("decision") == "filter" and len(line["nodes"]) > 1]

    def other_card(lines):
        lines[holds[5]]["placement"]["containers"]["main"][0]["uuid"] = "GPU-other"
    done = altered(lines, tmp_path / "card", other_card)
    assert done.returncode == 1
    assert re.search(r"^The first decision that comes out otherwise: \d+, hold of pod default/p\d+ on node n\d: "
                     r"recorded: GPU-other; computed: GPU-n\d-\d$", done.stdout.strip()), done.stdout

    def other_order(lines):
        lines[offers[2]]["nodes"].reverse()
    done = altered(lines, tmp_path / "order", other_order)
    assert done.returncode == 1 and "filter of pod" in done.stdout

    def other_count(lines):
        lines[offers[2]]["fitting"] += 1
    assert "nodes fit; computed:" in altered(lines, tmp_path / "count", other_count).stdout


@pytest.mark.parametrize("text", ["", "{}\n", "[]\n", '{"history":2}\n', '{"history":1}\n{"event":"hold"}\n', '{"history":1}\n{"eve',
                                  '{"history":1}\n{"restorePod":{"state":"bound","on":"n","facts":{"uid":"u","containers":[]}}}\n'
                                  '{"restoreNode":{"name":1}}\n',
                                  '{"history":1}\n{"event":"set-node","node":{"name":"n","uid":"u","mode":"share","policy":"binpack",'
                                  '"unit":1024,"cards":[{"index":0,"uuid":"' + "G" * 99 + '","units":1}]}}\n',
                                  '{"history":1}\n{"asked":7}\n', '{"history":1}\n{"event":"hold","on":"n","pod":{"uid":"u","containers":[]},'
                                  '"placement":{"unit":1024,"containers":{}}}\n', '{"history":1}\n{"event":"nominate","key":"u"}\n', "\x00\n"])
def test_what_is_no_history_is_refused_with_a_sentence(tmp_path, text):
    (tmp_path / "x").write_text(text)
    done = replay(tmp_path / "x")
    assert done.returncode == 1 and done.stderr.startswith("ration: ") and done.stderr.count("\n") == 1, done


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
    assert sums(replay(tmp_path / "history"))[1] == 1
    person.world(scheduler, leader=None)
    done = person.run("history")
    assert done.returncode == 1 and "Is the chart ack-co-scheduler installed?" in done.stderr
