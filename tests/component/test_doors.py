"""Every door of the real processes under guests that nobody invited. The bytes themselves are the fuzzers' business
(tests/fuzz); the device plugin's socket is test_agent_grpc.py's, the API client alone test_kube_*.py's."""
import contextlib
import gzip
import json
import os
import pathlib
import re
import socket
import struct
import threading
import time

import pytest

from agent_fixture import SANITIZED, World
from fake_apiserver import FOREVER, wait_for
from scheduler_fixture import Scheduler, gpu_node

GROWTH_KIB = 200_000 if SANITIZED else 6_000


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def rss_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


@contextlib.contextmanager
def unchanged(pid, growth=GROWTH_KIB):
    """Files are as before within 15 s (silence in a body may last 10 s), memory within a bound."""
    before, memory = fds(pid), rss_kib(pid)
    yield
    # Kept connections to the API server come and go.
    wait_for(lambda: fds(pid) <= before + 4, 15, f"{before} open files")
    assert rss_kib(pid) < memory + growth


def say(port, data, seconds=2.0, end=False):
    """What is answered to these bytes until the server closes, or is silent for so long."""
    heard = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as s:
        with contextlib.suppress(OSError):
            s.sendall(data)
            if end:
                s.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while piece := s.recv(65536):
                heard += piece
    return heard


def request(method, path, body=b"", headers=""):
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def ask_filter(scheduler, pod, nodes):
    return scheduler.http("POST", "/filter", json.dumps({"Pod": pod, "NodeNames": nodes}))


@pytest.fixture
def doors(api, start):
    """A scheduler with its three doors, and the ports of them: verbs, probes, metrics."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    gpu_node(api, "n1", 8192)
    scheduler = start("--metrics", f"127.0.0.1:{port}")
    scheduler.ports += (port,)
    return scheduler


def still_answers(scheduler, api):
    pod = api.create_pod(f"after-{time.monotonic_ns()}", gpu_mem=1)
    status, body = ask_filter(scheduler, pod, ["n1"])
    assert status == 200 and json.loads(body)["NodeNames"] == ["n1"]
    assert scheduler.http("GET", "/readyz", port=1)[0] == 200
    assert scheduler.http("GET", "/metrics", port=2)[0] == 200


BAD_REQUESTS = {
    "nothing": b"", "garbage": bytes(range(256)) * 20, "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "one-line": b"GET /metrics", "no-version": b"GET /\r\n\r\n",
    "cut-headers": b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Le",
    "cut-body": request("POST", "/filter", b"{" * 100)[:-50],
    "length-minus": b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\nhello",
    "length-huge": b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
    "length-twice": b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\n{}abc",
    "chunk-garbage": b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "chunk-huge": b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
    "smuggled": b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / x",
    "header-long": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
    "headers-many": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
    "header-endless-name": b"GET / HTTP/1.1\r\n" + b"y" * 300_000,
    "path-long": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "path-odd": b"GET /%00%2e%2e/..//inspect/\xff\xfe?%zz#x HTTP/1.1\r\nHost: x\r\n\r\n",
}


def is_no_success(answer):
    """Nothing, an HTTP error, or a verb's answer that says Error (kube-scheduler wants status 200)."""
    return not answer or re.match(rb"HTTP/1\.[01] (4|5)\d\d ", answer) or \
        re.match(rb'HTTP/1\.1 200 OK\r\n[^{]*\{"Error":"[^"]', answer)


@pytest.mark.parametrize("port", [0, 1, 2], ids=["verbs", "probes", "metrics"])
def test_bytes_that_are_no_request_cost_their_connection_and_nothing_else(api, doors, port):
    with unchanged(doors.process.pid):
        for name, data in BAD_REQUESTS.items():
            answer = say(doors.ports[port], data, 1.0, end=True)
            assert is_no_success(answer), (name, answer[:200])
        still_answers(doors, api)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "XYZZY"])
def test_other_methods_do_nothing(api, doors, method):
    wait_for(lambda: doors.http("GET", "/history")[0] == 200)    # a child writes the first state
    for path in ("/filter", "/prioritize", "/bind", "/preempt", "/inspect", "/metrics", "/why", "/history", "/healthz", "*"):
        for port in (0, 2):
            answer = say(doors.ports[port], request(method, path, b"{}", "Connection: close\r\n"))
            good = method == "GET" and (path == "/metrics" or (port == 0 and path in ("/inspect", "/history")))
            assert answer.startswith(b"HTTP/1.1 200") == good, (path, answer[:100])
    assert not api.requests_for("POST", "/binding$")


def test_five_thousand_names_and_eight_mib_are_answered_and_more_is_refused(api, doors):
    pod = api.create_pod("p", gpu_mem=3)
    names = [f"node-{i:04}-{'x' * 200}" for i in range(4999)] + ["n1"]
    with unchanged(doors.process.pid, GROWTH_KIB + (16 << 10)):     # malloc keeps the largest body
        status, body = ask_filter(doors, pod, names)
        assert status == 200 and json.loads(body)["NodeNames"] == ["n1"]
        for size, expected in ((8 << 20, 200), ((8 << 20) + 1, 413), (64 << 20, 413)):
            with contextlib.suppress(OSError):      # it may hang up before it has all of it
                assert doors.http("POST", "/filter", b" " * size)[0] == expected
        for port in (1, 2):
            with contextlib.suppress(OSError):
                assert doors.http("POST", "/metrics", b" " * (1 << 20), port=port)[0] in (404, 413)
        still_answers(doors, api)


def test_a_chunked_body_is_a_body(api, doors):
    body = json.dumps({"Pod": api.create_pod("p", gpu_mem=3), "NodeNames": ["n1"]}).encode()
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]) for i in range(0, len(body), 7))
    answer = say(doors.ports[0], b"POST /filter HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                                 b"Transfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200") and b'["n1"]' in answer


def test_requests_in_one_packet_are_answered_in_order(api, doors):
    paths = ["/healthz", "/nothing", "/readyz", "/healthz"] * 25
    answer = say(doors.ports[1], b"".join(request("GET", p) for p in paths), 1.0)
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == [b"404" if p == "/nothing" else b"200" for p in paths]


def test_slow_and_abandoned_callers_delay_nobody(api, doors):
    body = json.dumps({"Pod": api.create_pod("slow", gpu_mem=1), "NodeNames": ["n1"]}).encode()
    data = request("POST", "/filter", body)
    with unchanged(doors.process.pid):
        slow = socket.create_connection(("127.0.0.1", doors.ports[0]))
        for i in range(200):        # abandoned in the middle, some with a reset
            s = socket.create_connection(("127.0.0.1", doors.ports[0]))
            s.sendall(data[:len(data) * i // 200])
            if i % 2:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        for i in range(0, 40):
            slow.sendall(data[i:i + 1])
            began = time.monotonic()
            assert doors.http("GET", "/healthz", port=1)[0] == 200
            assert time.monotonic() - began < 1
        slow.sendall(data[40:])
        slow.settimeout(5)
        assert slow.recv(4096).startswith(b"HTTP/1.1 200")
        slow.close()
        still_answers(doors, api)


def test_two_hundred_callers_at_once_all_get_their_answer(api, doors):
    pod = api.create_pod("p", gpu_mem=1)
    results = []

    def call():
        status, body = ask_filter(doors, pod, ["n1"])
        results.append((status, json.loads(body)["NodeNames"]))
    with unchanged(doors.process.pid):
        threads = [threading.Thread(target=call) for _ in range(200)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert results == [(200, ["n1"])] * 200


def test_answers_that_nobody_reads_do_not_pile_up(api, doors):
    """A reader that stops: the server stops reading its requests too."""
    pid = doors.process.pid
    with unchanged(pid):
        s = socket.create_connection(("127.0.0.1", doors.ports[0]))
        s.settimeout(0.5)
        with contextlib.suppress(OSError):
            for _ in range(20_000):
                s.sendall(request("GET", "/metrics"))
        assert rss_kib(pid) < 60_000 or SANITIZED
        still_answers(doors, api)
        s.close()


@pytest.mark.parametrize("name", ["..", "a/b", "a?x=1", "a\r\nX-Evil: 1", "a%2f..", "A", "x" * 300, "", " ", "\u0000"])
def test_bind_sends_nothing_for_a_name_that_is_none(api, doors, name):
    before = len(api.requests)
    answer = doors.verb("bind", {"PodName": name, "PodNamespace": "default", "PodUID": "u", "Node": "n1"})
    assert answer["Error"]
    answer = doors.verb("bind", {"PodName": "p", "PodNamespace": name, "PodUID": "u", "Node": "n1"})
    assert answer["Error"]
    assert not [r for r in api.requests[before:] if "/pods/" in r.path]


# ---- what the API server answers ----

OBJECT = {"metadata": {"resourceVersion": "5"}, "items": []}
HUGE = b'{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"uid":"u","name":"a","x":"' + b"y" * (64 << 20)
NONSENSE = {
    "truncated": {"status": 200, "body": json.dumps(OBJECT)[:-9]}, "cut": {"status": 200, "body": "x" * 1000, "cut_after": 10},
    "empty": {"status": 200, "body": b""}, "html": {"status": 200, "body": "<html>", "headers": {"Content-Type": "text/html"}},
    "not-an-object": {"status": 200, "body": b"[1,2,3]"}, "null": {"status": 200, "body": b"null"},
    "64-mib": {"status": 200, "body": HUGE}, "deep": {"status": 200, "body": b'{"items":[' + b"[" * 100_000},
    "gzip": {"status": 200, "body": gzip.compress(json.dumps(OBJECT).encode()), "headers": {"Content-Encoding": "gzip"}},
    "redirect": {"status": 302, "body": b"", "headers": {"Location": "http://127.0.0.1:1/evil"}},
    "no-metadata": {"status": 200, "body": json.dumps({"metadata": {"resourceVersion": ""}, "items": [{}, {"metadata": None}, 7]})},
    "not-utf8": {"status": 200, "body": b'{"metadata":{"resourceVersion":"\xff\xfe"},"items":[]}'},
    "204": {"status": 204, "body": b""}, "500": {"status": 500, "body": b"\x00" * 1000},
}


@pytest.mark.parametrize("fault", NONSENSE.values(), ids=NONSENSE)
def test_scheduler_survives_nonsense_for_a_list_and_is_ready_after_it(api, start, fault):
    gpu_node(api, "n1", 8192)
    nonsense = [api.inject("GET", r"/(nodes|pods)$", times=FOREVER, watch=False, **fault)]
    scheduler = Scheduler(api)
    try:
        wait_for(lambda: len(api.requests_for("GET", r"/(nodes|pods)$")) >= 4, 20)
        assert not scheduler.ready() and scheduler.process.poll() is None
        assert rss_kib(scheduler.process.pid) < (400_000 if SANITIZED else 60_000)
        nonsense[0].times = 0
        wait_for(scheduler.ready, 20)
        assert json.loads(ask_filter(scheduler, api.create_pod("p", gpu_mem=1), ["n1"])[1])["NodeNames"] == ["n1"]
    finally:
        assert scheduler.stop() == 0, scheduler.text()[-3000:]


WATCH_NONSENSE = {"object-64-mib": b'{"type":"ADDED","object":{"x":"' + b"y" * (64 << 20), "endless-blanks": b" \n" * (8 << 20),
                  "types": b'{"type":7,"object":[]}\n', "no-metadata": b'{"type":"ADDED","object":{}}\n' * 5000,
                  "error": b'{"type":"ERROR","object":{"code":"x"}}\n', "deleted": b'{"type":"DELETED","object":{"metadata":{}}}\n',
                  "conditions": b'{"type":"ADDED","object":{"metadata":{"uid":"u","name":"a","namespace":"d"},"status":'
                                b'{"conditions":[{"type":null},7]},"spec":{"containers":[{"name":"c","resources":{"limits":'
                                b'{"aliyun.com/gpu-mem":"1"}}}]}}}\n'}


@pytest.mark.parametrize("stream", WATCH_NONSENSE.values(), ids=WATCH_NONSENSE)
def test_both_daemons_survive_nonsense_in_a_watch(api, start, stream):
    gpu_node(api, "n1", 8192)
    api.inject("GET", r"/(nodes|pods)$", times=4, watch=True, stream=stream)
    scheduler = start()
    pid = scheduler.process.pid
    wait_for(lambda: len([r for r in api.requests_for("GET", r"/pods$") if "watch" in r.query]) >= 1, 20)
    time.sleep(0.5)
    assert rss_kib(pid) < (400_000 if SANITIZED else 60_000)
    api.close_watches()
    wait_for(lambda: scheduler.http("GET", "/readyz", port=1)[0] == 200, 10)
    scheduler.http("GET", "/metrics")
    still = api.create_pod("p", gpu_mem=1)
    wait_for(lambda: json.loads(ask_filter(scheduler, still, ["n1"])[1]).get("NodeNames") == ["n1"], 20)


# ---- what lies around on the node ----

def serves(world, name, card=0):
    pod = world.pod(name, 1, card=card)
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "main")
    return pod


def cdi_file(world, pod):
    return world.kubelet.cdi_dir / f"ration-{pod['metadata']['uid']}.json"


def test_a_cdi_directory_full_of_foreign_things_is_left_alone_and_costs_no_pod():
    with World() as world:
        cdi, outside = world.kubelet.cdi_dir, world.dir / "outside"
        cdi.mkdir(exist_ok=True)
        outside.write_text("precious")
        for i in range(2000):
            (cdi / f"vendor-{i}.yaml").write_text("x")
        (cdi / "ration-.json").mkdir()
        (cdi / "ration-directory.json").mkdir()
        (cdi / "ration-link.json").symlink_to(outside)
        (cdi / "ration-dangling.json").symlink_to("/nonexistent/x")
        open(os.fsencode(cdi) + b"/ration-\xff\xfe\n.json", "w").close()
        world.up(32)
        pod = world.pod("p", 1, card=0)
        world.kubelet.admit(pod)        # run() would read the others' files too
        assert json.loads(cdi_file(world, pod).read_text())["kind"] == "ration.dev/grant"
        assert len(list(cdi.glob("vendor-*"))) == 2000
        assert outside.read_text() == "precious"


@pytest.mark.parametrize("what", ["fifo", "link", "directory", "unreadable", "huge", "socket"])
def test_whatever_lies_where_a_pods_cdi_file_belongs_does_not_stop_the_agent(what):
    with World().up(32) as world:
        pod = world.pod("p", 1, card=0)
        path, outside = cdi_file(world, pod), world.dir / "outside"
        outside.write_text("precious")
        if what == "fifo":
            os.mkfifo(path)
        elif what == "link":
            path.symlink_to(outside)
        elif what == "directory":
            path.mkdir()
        elif what == "unreadable":
            path.write_bytes(os.urandom(100))
            path.chmod(0)
        elif what == "huge":
            with open(path, "wb") as f:
                f.truncate(4 << 30)
        else:
            socket.socket(socket.AF_UNIX).bind(str(path))
        world.kubelet.admit(pod)
        if what == "directory":     # nobody can write there; the pod is told, the next one is served
            world.kubelet.admit(world.pod("q", 1, card=0))
        else:
            world.kubelet.run(pod, "main")
            assert json.loads(path.read_text())["kind"] == "ration.dev/grant" and path.is_file()
        assert outside.read_text() == "precious"


@pytest.mark.parametrize("what", ["100-mib", "fifo", "directory", "garbage", "not-utf8", "socket"])
def test_whatever_the_checkpoint_is_the_agent_starts_with_an_empty_record(what):
    with World() as world:
        path = world.kubelet.plugin_dir / "kubelet_internal_checkpoint"
        path.unlink(missing_ok=True)
        if what == "100-mib":
            path.write_bytes(b'{"Data":{"PodDeviceEntries":[' + b'{"PodUID":"x"},' * (7 << 20))
        elif what == "fifo":
            os.mkfifo(path)
        elif what == "directory":
            path.mkdir()
        elif what == "socket":
            socket.socket(socket.AF_UNIX).bind(str(path))
        else:
            path.write_bytes(b"\xff\xfe" * 5000 if what == "not-utf8" else b"{" * 5000)
        world.start_agent()
        wait_for(lambda: "starting with an empty record" in world.logged(), 20)
        worker = wait_for(world.worker)
        assert int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{worker}/status").read_text())[1]) < \
            (2_000_000 if SANITIZED else 128 << 10), "over the chart's memory limit"
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
        world.kubelet.start()
        world.kubelet.wait_devices(32)
        wait_for(lambda: world.api.watches("nodes", "pods") >= 2)
        serves(world, "p")


NOISE = {"garbage": b"\x00\xff" * 5000, "http1": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
         "settings-flood": b"\0\0\0\4\0\0\0\0\0" * 100_000, "nothing": b""}


class NoisyServer:
    """A unix socket that says the same to everybody."""

    def __init__(self, path, noise):
        pathlib.Path(path).unlink(missing_ok=True)
        self.socket, self.noise, self.calls = socket.socket(socket.AF_UNIX), noise, 0
        self.socket.bind(str(path))
        self.socket.listen(64)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                peer = self.socket.accept()[0]
                self.calls += 1
                with contextlib.suppress(OSError):
                    peer.settimeout(1)
                    peer.sendall(self.noise)
                peer.close()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_a_kubelet_that_lists_nonsense_costs_that_allocate_and_no_more(noise):
    with World().up(32) as world:
        wait_for(world.worker)
        pid = world.worker()
        serves(world, "first")      # its connections to the API server stay
        world.kubelet.resources_server.stop(0).wait()
        server = NoisyServer(world.kubelet.pod_resources_socket, noise)
        with unchanged(pid):
            with pytest.raises(Exception, match="cannot ask the kubelet|UnexpectedAdmission|which pod"):
                world.kubelet.admit(world.pod("refused", 1, card=0))
            assert server.calls
            server.close()
            world.api.delete("pods", "refused")
            world.kubelet.restart()
            world.kubelet.wait_devices(32)
            serves(world, "p")
        assert world.worker() == pid


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_a_runtime_that_talks_nonsense_is_asked_until_it_answers(noise):
    with World() as world:
        world.kubelet.start()
        world.kubelet.cri_server.stop(0).wait()
        server = NoisyServer(world.kubelet.cri_socket, noise)
        world.start_agent()
        wait_for(lambda: server.calls >= 2, 15)
        assert rss_kib(wait_for(world.worker)) < (400_000 if SANITIZED else 40_000)
        server.close()
        world.kubelet.start_runtime()
        world.kubelet.wait_devices(32, timeout=20)


GARBAGE = ["", "{", "[]", "null", "[" * 50, '[{"index":0}]', "\u0000", "x" * 60_000, '{"at":7,"pods":{}}']


@pytest.mark.parametrize("text", GARBAGE, ids=range(len(GARBAGE)))
def test_annotations_of_the_node_that_another_wrote_are_put_right_by_the_agent(text):
    with World().up(32) as world:
        good = wait_for(lambda: world.api.node("n1")["metadata"]["annotations"].get("ration.dev/gpus"))
        keys = ("ration.dev/gpus", "ration.dev/unit", "ration.dev/mode")
        before = {k: world.api.node("n1")["metadata"]["annotations"][k] for k in keys}
        world.api.patch("nodes", "n1", {"metadata": {"annotations": {**dict.fromkeys(keys, text), "ration.dev/held": text}}})
        wait_for(lambda: {k: world.api.node("n1")["metadata"]["annotations"].get(k) for k in keys} == before, 10)
        assert json.loads(good)
        serves(world, "p")


@pytest.mark.parametrize("fault", NONSENSE.values(), ids=NONSENSE)
def test_agent_survives_nonsense_of_the_api_server_and_serves_after_it(fault):
    with World() as world:
        nonsense = world.api.inject("GET", r"/(nodes|pods)$", times=FOREVER, watch=False, **fault)
        world.kubelet.start()
        world.start_agent()
        wait_for(lambda: len(world.api.requests_for("GET", r"/(nodes|pods)$")) >= 4, 20)
        assert rss_kib(wait_for(world.worker)) < (400_000 if SANITIZED else 60_000)
        nonsense.times = 0
        world.kubelet.wait_devices(32, timeout=20)
        wait_for(lambda: world.api.watches("nodes", "pods") >= 2, 20)
        serves(world, "p")


def test_metrics_of_the_agent_survive_the_same_guests():
    with World().up(32) as world:
        port = int(wait_for(lambda: re.findall(r"metrics on port (\d+)", world.logged()))[-1])
        serves(world, "first")      # its connections to the API server stay
        with unchanged(world.worker()):
            for name, data in BAD_REQUESTS.items():
                answer = say(port, data, 1.0, end=True)
                assert is_no_success(answer), (name, answer[:200])
            silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
            assert b"ration_gpu_units" in say(port, request("GET", "/metrics", headers="Connection: close\r\n"))
            serves(world, "p")
            for s in silent:
                s.close()
