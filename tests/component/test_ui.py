"""`ration ui`: whom its server answers, what it sends, and the page as one file. The page itself is in test_ui_browser.py."""
import base64
import concurrent.futures
import contextlib
import hashlib
import html.parser
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest

from explanations import bound, gpu_pod
from fake_apiserver import wait_for
from listings import FAKE, core_pod, node, pod, resource_claim, resource_slice, waiting_claim_pod
from scheduler_fixture import gpu_node
from ui_server import HOSTILE, RATION, Agents, Ui, agent_pod, hostile_objects, run_lines, text_server, write_file

SECRET = "only-for-the-person"


@pytest.fixture
def ui(cluster):
    """A server for a cluster with one node of this name."""
    cluster.set([node(SECRET, "10.0.0.1", 16160)])
    with Ui(cluster.path) as running:
        yield running


def inspected(cluster):
    done = subprocess.run([RATION, "inspect", "-o", "json"], env=cluster.environment(), capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


# ---- whom it answers ----

def paths(ui):
    other = ("0" if ui.token[0] != "0" else "1") + ui.token[1:]
    last = ui.token[:-1] + ("0" if ui.token[-1] != "0" else "1")
    return ["/", "/data", "/page.js", "/favicon.ico", f"/{other}/data", f"/{last}/data", f"/{last}/", f"/{ui.token[:-1]}/data", f"/{ui.token}",
            f"/{ui.token}x/data", f"/{ui.token.upper()}x", *[f"/{token}/data" for token in (ui.token.upper(), ui.token.swapcase()) if token != ui.token], f"//{ui.token}/data", f"/data?{ui.token}/", f"/%2e/{ui.token}/data", f"/{'0' * 32}/why?pod=a/b"]


def test_a_request_without_the_secret_is_refused(ui):
    for path in paths(ui):
        status, headers, body = ui.ask(path)
        assert (status, body) == (403, "This request is refused.\n"), path
        assert "ETag" not in headers
    assert SECRET in ui.get("data")[2]


@pytest.mark.parametrize("host", [None, "", "evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "localhost.evil.example:{port}", "[::1]:{port}",
                                  "127.0.0.1:{port}.evil.example", "evil.example:{port}", "0.0.0.0:{port}", "127.0.0.1:{port}, evil.example",
                                  "user@127.0.0.1:{port}", "127.0.0.1:0{port}", "127.0.0.1.:{port}", "localhost.:{port}",
                                  "127.0.0.1:{port}.", "127.1:{port}", "2130706433:{port}", "127.0.0.1:{port}:{port}", "rebound.example:{port}"])
@pytest.mark.parametrize("name", ["", "data"])
def test_a_request_for_another_host_is_refused(ui, host, name):
    status, _, body = ui.get(name, Host=host and host.format(port=ui.port))
    assert (status, body) == (403, "This request is refused.\n")


@pytest.mark.parametrize("origin", ["", "null", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://127.0.0.1:1",
                                    "http://127.0.0.1:{port}/", "http://127.0.0.1:{port}.evil.example", "http://evil.example:{port}", "file://"])
@pytest.mark.parametrize("name", ["data", "why?pod=a/b"])
def test_a_request_from_the_page_of_another_site_is_refused(ui, origin, name):
    status, headers, body = ui.get(name, Origin=origin.format(port=ui.port))
    assert (status, body) == (403, "This request is refused.\n")
    assert not [key for key in headers if key.lower().startswith("access-control")]


def test_its_own_names_are_accepted(ui):
    for host in (f"127.0.0.1:{ui.port}", f"localhost:{ui.port}", f"LOCALHOST:{ui.port}"):
        assert ui.get("data", Host=host)[0] == 200
        assert ui.get("data", Host=host, Origin=f"http://{host.lower()}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get"])
def test_only_get_and_head_are_answered(ui, method):
    status, headers, _ = ui.get("data", method=method)
    assert status == 405 and headers["Allow"] == "GET, HEAD"


def test_head_has_the_headers_of_get(ui):
    for name in ("", "page.js", "page.css", "data"):
        status, headers, body = ui.get(name, method="HEAD")
        assert status == 200 and body == "" and headers == {**ui.get(name)[1], **({"Age": headers["Age"]} if name == "data" else {})}


def test_nothing_else_is_served(ui):
    for name in ("events", "data/", "../etc/passwd", "page.html", "why/x", "data%00"):
        assert ui.get(name)[0] == 404, name


def request(ui, first=None, *lines, end=b"\r\n\r\n"):
    return b"\r\n".join([first or f"GET /{ui.token}/data HTTP/1.1".encode(), f"Host: 127.0.0.1:{ui.port}".encode(), *lines]) + end


@pytest.mark.parametrize("status, first, lines", [
    (400, b"GET", []), (400, b"GET  HTTP/1.1", []), (400, b"GET / HTTP/2.0", []), (400, b"GET / HTTP/1.1 ", []), (400, b"PRI * HTTP/2.0", []),
    (400, b"GET http://127.0.0.1/ HTTP/1.1", []), (400, b" / HTTP/1.1", []), (400, b"GET /\x00 HTTP/1.1", []), (400, b"GET /\t HTTP/1.1", []), (400, b"\x16\x03\x01\x02", []),
    (400, None, [b"Host: evil.example"]), (400, None, [b"no colon"]), (400, None, [b" folded: x"]), (400, None, [b"Host : x"]), (400, None, [b": x"]),
    (400, None, [b"X: a\nHost: evil"]), (400, None, [b"X: a\rY: b"]), (400, None, [b"X: \xff"]), (400, None, [b"Origin: a", b"origin: b"]),
    (413, None, [b"Content-Length: 5"]), (413, None, [b"Content-Length: -1"]), (413, None, [b"Transfer-Encoding: chunked"]),
    (200, None, [b"Content-Length: 0"]), (200, None, [b"If-None-Match: \"99999999999999999999999999\""]), (200, None, [b"If-None-Match: *"]),
])
def test_malformed_requests_are_refused(ui, status, first, lines):
    answer = ui.raw(request(ui, first, *lines))
    assert answer.startswith(f"HTTP/1.1 {status} "), answer[:200]
    assert (SECRET in answer) == (status == 200)
    assert ui.get("data")[0] == 200


def test_a_request_may_come_in_pieces_and_is_limited(ui):
    with ui.connect() as peer:
        for byte in request(ui):
            peer.sendall(bytes([byte]))
        assert peer.recv(12) == b"HTTP/1.1 200"
    room = 8192 - len(request(ui, None, b"X: "))
    assert ui.raw(request(ui, None, b"X: " + b"a" * room)).startswith("HTTP/1.1 200 ")
    assert ui.raw(request(ui, None, b"X: " + b"a" * (room + 1))).startswith("HTTP/1.1 431 ")
    assert ui.raw(b"a" * 100000).startswith("HTTP/1.1 431 ")


def test_silent_peers_keep_no_one_out(ui):
    """More than the server keeps: the oldest of them gives way."""
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(ui.connect()) for _ in range(60)]
        for peer in silent[::2]:
            peer.sendall(b"GET /")
        began = time.monotonic()
        assert [ui.get("data")[0] for _ in range(5)] == [200] * 5
        assert time.monotonic() - began < 8    # less than the patience with a silent peer
        silent[0].settimeout(5)
        assert silent[0].recv(100) == b""


@pytest.mark.plain
def test_peers_that_do_not_take_their_answer_are_closed_and_leave_the_server_alone(cluster):
    cluster.set([node(f"n{i}", "10.0.0.1", *[16160] * 8) for i in range(3000)])
    with Ui(cluster.path) as ui, contextlib.ExitStack() as stack:
        assert ui.get("data")[0] == 200
        for _ in range(20):
            peer = stack.enter_context(socket.socket())
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.connect(("127.0.0.1", int(ui.port)))
            peer.sendall(request(ui))
        assert ui.get("data")[0] == 200
        status = pathlib.Path(f"/proc/{ui.process.pid}/status").read_text()
        assert int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) < 100_000


def test_it_listens_on_the_loopback_only(ui):
    listening = [line.split()[1] for table in ("tcp", "tcp6") for line in open(f"/proc/{ui.process.pid}/net/{table}").readlines()[1:]
                 if line.split()[3] == "0A" and line.split()[1].endswith(f":{int(ui.port):04X}")]
    assert listening == [f"0100007F:{int(ui.port):04X}"]


def test_each_start_has_a_secret_of_its_own(cluster):
    with Ui(cluster.path) as one, Ui(cluster.path) as other:
        assert one.token != other.token and one.port != other.port


def test_every_answer_has_the_headers_that_confine_the_page(ui):
    answers = [ui.get(""), ui.get("page.js"), ui.get("page.css"), ui.get("data"), ui.get("missing"), ui.ask("/"), ui.get("", method="POST"), ui.get("why")]
    assert [status for status, _, _ in answers] == [200, 200, 200, 200, 404, 403, 405, 400]
    for _, headers, _ in answers:
        rules = dict(rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";"))
        assert rules == {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'", "img-src": "data:",
                         "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"], headers["Cache-Control"]) == ("nosniff", "no-referrer", "no-store")
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin" and headers["X-Frame-Options"] == "DENY"


# ---- what it sends ----

def test_the_data_is_what_inspect_prints_with_all_modes_and_waiting_pods(cluster):
    share = [node("b", "10.0.0.2", 16160, 81559), node("a", "10.0.0.1", 16160, unit=128)]
    whole = node("whole", "10.0.0.3", 81559, 81559, mode="topology", allocatable={"aliyun.com/gpu": "2"})
    whole["spec"] = {"unschedulable": True}
    claims = node("c", "10.0.0.4", 16384, mode="dra")
    pods = [pod("x", "b", 3, "GPU-b-1"), pod("pending", "b", 2), pod("waits", None, 7, namespace="team"), pod("also", None, 9, namespace="team"),
            pod("over", None, 5, phase="Succeeded"), pod("waits-too", None, 4)]
    pods[-1]["spec"]["containers"][0]["resources"]["limits"]["aliyun.com/gpu-core.percentage"] = "30"
    pods.append({"metadata": {"name": "big", "namespace": "team", "uid": "uid-big"}, "status": {"phase": "Pending"},
                 "spec": {"containers": [{"name": "main", "resources": {"limits": {"aliyun.com/gpu": "8"}}}]}})
    cluster.set([*share, whole, claims], pods, slices=[resource_slice("c", 16384)], claims=[resource_claim("mine", "3Gi", "c", cores="20")], classes=[])
    with Ui(cluster.path) as ui:
        data = json.loads(ui.get("data")[2])
    nodes = {n["name"]: n for n in data["cluster"]["nodes"]}
    assert {n["name"]: n for n in inspected(cluster)["nodes"]} == {name: nodes[name] for name in ("a", "b", "c")}
    assert (nodes["whole"]["mode"], nodes["whole"]["total"], nodes["whole"]["unschedulable"]) == ("topology", 2, True)
    assert data["waiting"] == [
        {"namespace": "default", "name": "waits-too", "units": 4, "gpus": 1, "core": 30, "whole": False},
        {"namespace": "team", "name": "also", "units": 9, "gpus": 1, "core": 0, "whole": False},
        {"namespace": "team", "name": "big", "units": 8, "gpus": 8, "core": 0, "whole": True},
        {"namespace": "team", "name": "waits", "units": 7, "gpus": 1, "core": 0, "whole": False}]
    assert data["warnings"] == []
    # a has units of 128 MiB: no pod has such, and those that wait (4 with a percentage, 7, 9) fill its 126 units. b: 15 units without a pod, filled
    # by 7 and 2 pods of 4? No: 4 asks for a percentage, which only core_mem gives. So 7, 9 and the 3 of x are the kinds: 15 = 3 * 5; 79 less 3 = 76 = 9 * 7 + 7 + 3 + 3.
    # c: its claim has 3 GiB, so that of 13 GiB one is left. The cordoned node strands both of its GPUs.
    assert data["stranded"] == [[0], [0, 0], [1], [1, 1]]


def stranded_of(cluster, nodes, pods, **more):
    cluster.set(nodes, pods, **more)
    with Ui(cluster.path) as ui:
        data = json.loads(ui.get("data")[2])
    return {n["name"]: units for n, units in zip(data["cluster"]["nodes"], data["stranded"], strict=True)}


def whole_pod(name, on, *uuids, wants=None):
    placed = {"unit": 1024, "containers": {"main": [{"uuid": uuid, "units": 1} for uuid in uuids]}}
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": {"ration.dev/placement": json.dumps(placed)} if uuids else {}},
            "spec": {"nodeName": on, "containers": [{"name": "main", "resources": {"limits": {"aliyun.com/gpu": str(wants or len(uuids))}}}]},
            "status": {"phase": "Running" if on else "Pending"}}


def test_stranded_is_what_no_pod_of_the_cluster_could_use(cluster):
    nodes = [node("core", "10.0.0.1", 16384, 16384, mode="core_mem"), node("empty-core", "10.0.0.2", 16384, mode="core_mem"),
             node("plain", "10.0.0.3", 16384, mode="cgpu"), node("small-units", "10.0.0.4", 16384, mode="share", unit=128)]
    pods = [core_pod("c", "core", 10, 40, "GPU-core-0", "default"), pod("p", "plain", 12, "GPU-plain-0")]
    # core: pods with 10 units and 40 %, no others beside them: 6 are left on GPU 0, 6 beside one on GPU 1. empty-core may have either kind: 12 is more than 10.
    # plain: 4 are left beside 12; on a node with other units no pod is of a kind.
    assert stranded_of(cluster, nodes, pods) == {"core": [6, 6], "empty-core": [4], "plain": [4], "small-units": [128]}
    # A pod that waits can use any unit: 2 beside 12 and 2 on plain; it has no percentage, so it is not beside c.
    assert stranded_of(cluster, nodes, [*pods, pod("waits", None, 2)]) == {"core": [6, 6], "empty-core": [0], "plain": [0], "small-units": [0]}


def test_whole_gpus_are_stranded_where_no_pod_takes_so_few(cluster):
    nodes = [node(name, "10.0.0.1", *[81559] * 4, mode="topology", allocatable={"aliyun.com/gpu": "4"}) for name in ("a", "b")]
    pods = [whole_pod("pair", "a", "GPU-a-0", "GPU-a-1"), whole_pod("waits", None, wants=3)]
    pods.append(whole_pod("single", "b", "GPU-b-0"))
    assert stranded_of(cluster, nodes, pods) == {"a": [0, 0, 0, 0], "b": [0, 0, 0, 0]}    # one is a kind
    pods[-1] = whole_pod("all", "b", "GPU-b-0", "GPU-b-1", "GPU-b-2")
    assert stranded_of(cluster, nodes, pods) == {"a": [0, 0, 0, 0], "b": [0, 0, 0, 1]}


def test_pods_that_wait_for_claims_wait(cluster):
    classes = [{"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}}
               for name, driver in (("gpu.ration.dev", "gpu.ration.dev"), ("mine", "gpu.ration.dev"), ("nic", "nic.example.com"))]
    other = [{"name": "n", "exactly": {"deviceClassName": "nic"}}]
    pair = [{"name": "g", "exactly": {"deviceClassName": "mine", "count": 2, "capacity": {"requests": {"memory": "40Gi"}}}}]
    claims = [resource_claim("slice", "20Gi", cores="30"), resource_claim("pair", requests=pair), resource_claim("net", requests=other),
              resource_claim("made-for-it", "5Gi")]
    pods = [waiting_claim_pod("one", ("gpu", "slice"), ("nic", "net")), waiting_claim_pod("two", ("gpu", "pair")), waiting_claim_pod("network", ("nic", "net")),
            waiting_claim_pod("of-template", ("gpu", None), made=[("gpu", "made-for-it")]), waiting_claim_pod("too-early", ("gpu", None)),
            waiting_claim_pod("missing", ("gpu", "nowhere")), waiting_claim_pod("bound", ("gpu", "slice"), on="c")]
    world = {"slices": [resource_slice("c", 16384)], "claims": claims, "classes": classes}
    cluster.set([node("c", "10.0.0.1", 16384, mode="dra")], pods, **world)
    with Ui(cluster.path) as ui:
        data = json.loads(ui.get("data")[2])
    gib = 1 << 30
    assert data["waiting"] == [
        {"namespace": "default", "name": "of-template", "claims": "made-for-it", "memoryBytes": 5 * gib, "gpus": 1, "core": 0, "whole": False},
        {"namespace": "default", "name": "one", "claims": "slice", "memoryBytes": 20 * gib, "gpus": 1, "core": 30, "whole": False},
        {"namespace": "default", "name": "two", "claims": "pair", "memoryBytes": 40 * gib, "gpus": 2, "core": 0, "whole": False}]
    assert data["warnings"] == [] and data["stranded"] == [[1]]    # 3 pods of 5 GiB fill 15 of the 16
    cluster.set([node("c", "10.0.0.1", 16384, mode="dra")], pods, forbidden=["deviceclasses"], **world)
    with Ui(cluster.path) as ui:
        data = json.loads(ui.get("data")[2])
    assert data["waiting"] == [] and len(data["warnings"]) == 1
    assert data["warnings"][0].startswith("pods that wait for ResourceClaims are not shown: ") and "deviceclasses" in data["warnings"][0]


def test_an_unchanged_cluster_is_not_sent_again(cluster):
    cluster.set([node("a", "10.0.0.1", 16160)])
    with Ui(cluster.path) as ui:
        status, headers, _ = ui.get("data")
        assert status == 200
        assert ui.get("data", If_None_Match=headers["ETag"])[::2] == (304, "")
        time.sleep(2)
        status, later, _ = ui.get("data", If_None_Match=headers["ETag"])
        assert (status, later["ETag"], later["Age"]) == (304, headers["ETag"], "0")
        cluster.set([node("a", "10.0.0.1", 16160), node("b", "10.0.0.2", 16160)])
        time.sleep(2)
        status, changed, body = ui.get("data", If_None_Match=headers["ETag"])
        assert status == 200 and changed["ETag"] != headers["ETag"]
        assert [n["name"] for n in json.loads(body)["cluster"]["nodes"]] == ["a", "b"]


def readings(cluster):
    return sum("/api/v1/nodes" in word for call in cluster.calls() for word in call["argv"])


def test_however_many_ask_the_cluster_is_read_once_in_two_seconds(cluster):
    cluster.set([node("a", "10.0.0.1", 16160)])
    with Ui(cluster.path) as ui, concurrent.futures.ThreadPoolExecutor(16) as pool:
        began = time.monotonic()
        statuses = [done.result()[0] for done in [pool.submit(ui.get, "data") for _ in range(200)]]
        took = time.monotonic() - began
        assert statuses == [200] * 200
        assert 1 <= readings(cluster) <= 1 + took / 2


def test_a_cluster_that_cannot_be_read_is_a_sentence_and_comes_back(cluster):
    cluster.set([node("a", "10.0.0.1", 16160)], fail='Error from server (Forbidden): nodes is forbidden: User "<b>jane</b>" cannot list\x07')
    with Ui(cluster.path) as ui:
        status, headers, body = ui.get("data")
        assert status == 502 and "ETag" not in headers
        assert '"<b>jane</b>" cannot list' in json.loads(body)["error"] and "\x07" not in json.loads(body)["error"]
        cluster.set([node("a", "10.0.0.1", 16160)])
        time.sleep(2)
        assert ui.get("data")[0] == 200


def test_objects_that_cannot_be_read_are_named(cluster):
    broken = node("broken", "10.0.0.9", 16160)
    broken["metadata"]["annotations"]["ration.dev/gpus"] = "<script>"
    cluster.set([node("a", "10.0.0.1", 16160), broken])
    with Ui(cluster.path) as ui:
        data = json.loads(ui.get("data")[2])
    assert len(data["warnings"]) == 1 and "broken" in data["warnings"][0]


def test_why_is_the_text_of_ration_why(api, start, person):
    gpu_node(api, "a", 16160)
    scheduler = start()
    gpu_pod(api, "p", gpu_mem=20)
    scheduler.filter("p", ["a"])
    person.world(scheduler)
    text = person.why("p")
    assert "p" in text and "20" in text
    with Ui(person.path) as ui:
        status, headers, body = ui.get("why?pod=default/p")
        assert status == 200 and headers["Content-Type"].startswith("application/json")
        told = json.loads(body)["text"]
        status, _, missing = ui.get("why?pod=default/missing")
        assert status == 502 and json.loads(missing)["error"] == person.why_fails("missing")
    without_ages = re.compile(r"\d+(\.\d+)? ?(s|seconds?|ms|minutes?)\b|\d\d:\d\d:\d\d(\.\d+)?Z?")
    assert without_ages.sub("", told) == without_ages.sub("", text)


@pytest.mark.parametrize("query", ["", "?", "?pod=", "?pod=a", "?pod=/", "?pod=a/", "?pod=/b", "?pod=a/b/c", "?pod=-a/b", "?pod=a/-b", "?pod=A/b", "?name=a/b",
                                   "?pod=a/b&pod=c/d", "?pod=a%2fb", "?pod=../x", "?pod=a/--help", "?pod=" + "a" * 254 + "/b", "?pod=a/" + "b" * 254])
def test_why_of_what_is_not_a_pod_is_refused(cluster, ui, query):
    assert ui.get("why" + query)[0] == 400
    assert not pathlib.Path(f"{cluster.path}.log").exists()


def kubectls(world):
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"FAKE_KUBECTL={world}\0".encode() in (process / "environ").read_bytes() and FAKE.name.encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


def test_questions_that_no_browser_waits_for_are_ended_and_their_number_is_limited(api, start, person):
    gpu_node(api, "a", 16160)
    scheduler = start()
    gpu_pod(api, "p", gpu_mem=3)
    person.world(scheduler, forward_silent=True)
    with Ui(person.path) as ui, contextlib.ExitStack() as stack:
        asking = []
        for _ in range(4):
            asking.append(stack.enter_context(ui.connect()))
            asking[-1].sendall(request(ui, f"GET /{ui.token}/why?pod=default/p HTTP/1.1".encode()))
        wait_for(lambda: len(kubectls(person.path)) == 4, 20)
        status, _, body = ui.get("why?pod=default/p")
        assert status == 503 and "ask again" in json.loads(body)["error"]
        assert ui.get("data")[0] == 200
        asking[0].close()
        wait_for(lambda: len(kubectls(person.path)) == 3, 20)
        ui.process.kill()
        wait_for(lambda: not kubectls(person.path), 20)


# ---- what is used ----

def used(ui, nodes, until, seconds=20):
    """The answer about these nodes for which until(answer) holds."""
    answers = []

    def asked():
        status, _, body = ui.get(f"use?nodes={nodes}")
        assert status == 200, body
        answers.append(json.loads(body))
        return until(answers[-1])
    wait_for(asked, seconds, what="what is used")
    return answers[-1]


def gpus_of(answer, node_name):
    return answer["nodes"].get(node_name, {"use": {}})["use"].get("cards", [])


def holders_of(answer, node_name):
    return {holder["pod"]: holder for gpu in gpus_of(answer, node_name) for holder in gpu["holders"]}


def test_use_is_measured_and_an_agent_that_is_not_there_is_a_sentence(cluster):
    with Agents({("team", "busy"): (2048, 1500, 0.3, 0.25, 0.5), ("team", "plain"): (4096, 100, 0, 0, 0)}) as agents:
        nodes = [node("a", "10.0.0.1", 16384, mode="core_mem"), node("b", "10.0.0.2", 16384, mode="cgpu")]
        cluster.set(nodes, [agent_pod("a")], forward=agents.port)
        with Ui(cluster.path) as ui:
            answer = used(ui, "a,b", lambda said: len(said["nodes"]) == 2 and "coreUsed" in holders_of(said, "a").get("busy", {}))
            assert "error" not in answer and answer["nodes"]["a"]["age"] < 10
            busy, plain = (holders_of(answer, "a")[name] for name in ("busy", "plain"))
            assert (busy["limitBytes"], busy["usedBytes"], busy["coreShare"]) == (2048 << 20, 1500 << 20, 0.3)
            assert abs(busy["coreUsed"] - 0.25) < 0.05 and abs(busy["coreWaited"] - 0.5) < 0.1
            assert (plain["limitBytes"], plain["usedBytes"]) == (4096 << 20, 100 << 20) and "coreUsed" not in plain
            assert answer["nodes"]["b"]["use"]["error"].startswith("no agent of ration runs on node b: ")


@pytest.mark.waits
def test_pages_that_look_at_different_nodes_take_turns(cluster):
    with Agents({("team", "busy"): (2048, 1500, 0, 0, 0)}) as agents:
        cluster.set([node(name, "10.0.0.1", 16384, mode="cgpu") for name in ("a", "b")], [agent_pod("a"), agent_pod("b")], forward=agents.port)
        with Ui(cluster.path) as ui:
            known = set()

            def both():
                for name in ("a", "b"):
                    known.update(name for name in json.loads(ui.get(f"use?nodes={name}")[2])["nodes"])
                return known == {"a", "b"}
            wait_for(both, 30, what="each of them was measured")


@pytest.mark.waits
def test_an_agent_that_starts_later_is_found_and_the_measuring_ends_when_no_page_asks(cluster):
    with Agents({("team", "busy"): (2048, 1500, 0, 0, 0)}) as agents:
        nodes = [node("a", "10.0.0.1", 16384, mode="cgpu")]
        cluster.set(nodes, forward=agents.port)
        with Ui(cluster.path) as ui:
            used(ui, "a", lambda said: "error" in said["nodes"].get("a", {}).get("use", {}))
            cluster.set(nodes, [agent_pod("a")], forward=agents.port)
            used(ui, "a", lambda said: holders_of(said, "a").get("busy"), seconds=25)
            assert kubectls(cluster.path)
            wait_for(lambda: not kubectls(cluster.path), 25, what="kubectl has ended")
            questions = agents.questions
            time.sleep(3)
            assert agents.questions == questions
            used(ui, "a", lambda said: holders_of(said, "a").get("busy"))    # and it begins again


def test_what_keeps_the_server_from_measuring_is_a_sentence(cluster):
    cluster.set([node("a", "10.0.0.1", 81559, mode="topology", allocatable={"aliyun.com/gpu": "1"})])
    with Ui(cluster.path) as ui:
        answer = used(ui, "a", lambda said: "error" in said)
        assert answer["error"].startswith("not all of these are nodes that share GPU memory") and answer["nodes"] == {}
        for _ in range(2):
            time.sleep(2.2)    # as the page, which asks every 2 s
            assert used(ui, "a", lambda said: True)["error"] == answer["error"]
        cluster.set([node("a", "10.0.0.1", 16384, mode="cgpu")], [agent_pod("a")], forbidden=["pods/portforward"], forward=1)
        answer = used(ui, "a", lambda said: said["nodes"])
        assert answer["nodes"]["a"]["use"]["error"].startswith("you may not open a port to the agent")
        assert ui.get("data")[0] == 200


@pytest.mark.parametrize("query", ["?nodes=", "?nodes=a,", "?nodes=,a", "?nodes=a,,b", "?nodes=A", "?nodes=-a", "?nodes=a%2cb", "?node=a", "?nodes=../a",
                                   "?nodes=" + "a" * 254, "?nodes=" + ",".join(f"n{i}" for i in range(33)), "?nodes=a&nodes=b"])
def test_the_use_of_what_are_not_nodes_is_refused(cluster, ui, query):
    assert ui.get("use" + query)[0] == 400
    assert not pathlib.Path(f"{cluster.path}.log").exists()


def test_an_agent_that_says_anything_is_harmless(cluster):
    """Its page is another program's: names with every character, and far too much."""
    holders = {(text, text): (10, 5, 0.5, 0.1, 0) for text in [*HOSTILE, "a\tb\nc", "\x00\x01\xff"]}
    with Agents(holders, uuid='GPU-"\n\t<script>') as agents:
        cluster.set([node("a", "10.0.0.1", 16384, mode="cgpu")], [agent_pod("a")], forward=agents.port)
        with Ui(cluster.path) as ui:
            answer = used(ui, "a", lambda said: said["nodes"])
            assert set(answer["nodes"]) == {"a"}
            agents.page = lambda: "x" * (17 << 20)
            answer = used(ui, "a", lambda said: "error" in said["nodes"]["a"]["use"])
            assert ui.get("data")[0] == 200


# ---- the past ----

def moment(ui, seconds):
    status, _, body = ui.get(f"moment?at={int(seconds * 1000)}")
    assert status == 200, body
    return json.loads(body)


def on_nodes(data):
    return {n["name"]: {p["name"]: p["allocated"] for p in n["pods"]} for n in data["cluster"]["nodes"]}


def read_history(ui):
    answers = []

    def answered():
        answers.append(ui.get("history"))
        return answers[-1][0] == 200
    wait_for(answered, 10, what="the scheduler has recorded something")
    return json.loads(answers[-1][2])


def eventful(api, start):
    """A scheduler, and times: when "first" ran, when "large" waited too, when "first" was gone and "second" ran."""
    gpu_node(api, "a", 16160)
    gpu_node(api, "b", 8192, 8192)
    scheduler = start()
    times = []
    bound(scheduler, api.create_pod("first", gpu_mem=12), ["a", "b"])
    time.sleep(0.15)    # the question is in whole milliseconds
    times.append(time.time())
    time.sleep(0.15)
    assert scheduler.filter(api.create_pod("large", gpu_mem=10), ["a", "b"])["NodeNames"] == []
    time.sleep(0.15)    # the question is in whole milliseconds
    times.append(time.time())
    time.sleep(0.15)
    api.delete("pods", "first")
    wait_for(lambda: scheduler.used()["a"] == [0], what="the scheduler sees the end")
    bound(scheduler, api.create_pod("second", gpu_mem=6), ["b"])
    time.sleep(0.15)    # the question is in whole milliseconds
    times.append(time.time())
    time.sleep(0.15)
    return scheduler, times


def test_a_moment_of_the_past_is_the_cluster_of_then(api, start, person):
    scheduler, times = eventful(api, start)
    person.world(scheduler)
    with Ui(person.path) as ui:
        assert json.loads(ui.get(f"moment?at={int(times[0] * 1000)}")[2])["error"] == "No history was read yet."
        read = read_history(ui)
        assert read["from"] <= times[0] * 1000 < times[2] * 1000 <= read["to"] + 300
        then = [moment(ui, at) for at in times]
        assert [on_nodes(data) for data in then] == [
            {"a": {"first": {"0": 12}}, "b": {}}, {"a": {"first": {"0": 12}}, "b": {}}, {"a": {}, "b": {"second": {"0": 6}}}]
        assert [[w["name"] for w in data["waiting"]] for data in then] == [[], ["large"], ["large"]]
        assert then[1]["waiting"][0]["why"] == [["no GPU is that large", 1], ["no GPU has 10 units free", 1]]
        assert then[2]["waiting"][0]["why"] == [["it has room", 1], ["no GPU is that large", 1]]
        assert all(at * 1000 - 1500 < data["at"] <= at * 1000 for at, data in zip(times, then))
        # 12 of 15 are taken; pods of 12 or 10 do not fit into 3, and into 8 neither.
        assert then[1]["stranded"] == [[3], [8, 8]]
        # Much later, and much earlier.
        assert on_nodes(moment(ui, times[2] + 9e6)) == on_nodes(then[2])
        status, _, body = ui.get(f"moment?at={read['from'] - 1}")
        assert (status, json.loads(body)["error"]) == (404, "The history does not go back that far.")
        for query in ("", "?at=", "?at=x", "?at=-1", "?at=1e9", "?at=" + "1" * 16, "?at=1&at=2"):
            assert ui.get("moment" + query)[0] == 400


@pytest.mark.plain
def test_a_moment_of_a_large_cluster_comes_soon(api, start, person):
    """With the measured times, docs/measurements/ui.md; a test machine may be busy with other tests."""
    for i in range(1000):
        gpu_node(api, f"n{i:03}", *[81559] * 8)
    scheduler, names, times = start(), [f"n{i:03}" for i in range(1000)], []
    for i in range(300):
        bound(scheduler, api.create_pod(f"p{i}", gpu_mem=5 + i % 60), names)
        times.append(time.time())
    person.world(scheduler)
    with Ui(person.path) as ui:
        read_history(ui)
        began = time.monotonic()
        read_history(ui)
        took, found = [time.monotonic() - began], []
        for i in (0, 150, 299):
            began = time.monotonic()
            found.append(sum(map(len, on_nodes(moment(ui, times[i])).values())))
            took.append(time.monotonic() - began)
        size = len(scheduler.http("GET", "/history")[1]) / 1e6
        print(f"\na history of {size:.1f} MB is read in {took[0]:.2f} s; moments at its beginning, its middle and its end: {took[1]:.2f}, {took[2]:.2f}, {took[3]:.2f} s")
        # The next pod may have its GPU in the same millisecond.
        assert all(0 <= pods - expected <= 1 for pods, expected in zip(found, (1, 151, 300))) and max(took) < 10


def test_a_history_that_cannot_be_had_is_a_sentence(api, start, person, tmp_path):
    person.world(None, leader=None)
    with Ui(person.path) as ui:
        status, _, body = ui.get("history")
        assert status == 502 and "ration: " + json.loads(body)["error"] + "\n" == person.run("history").stderr
    scheduler, times = eventful(api, start)
    person.world(scheduler)
    with Ui(person.path) as ui:
        read_history(ui)
        person.world(scheduler, forward_fails="error: unable to forward port")
        status, _, body = ui.get("history")
        assert status == 502 and "unable to forward port" in json.loads(body)["error"]
        assert on_nodes(moment(ui, times[0]))["a"]    # the one that was read stays


@pytest.mark.parametrize("text, said", [
    ("", "the scheduler has recorded nothing yet"), ("{}", "does not begin with its clock"), ("not json", ""), ('{"history":4,"clock":1}', "nothing yet"),
    ('{"history":1,"clock":1}\n{"event":"watch","at":5}\n{"end":true}\n', None), ('{"history":4,"clock":1}\n{"event":"watch","at":5,"yes":true}\n', None),
    ('{"history":4,"clock":1}\n{"event":"nothing","at":5}\n{"end":true}\n', None), ('{"history":4,"clock":-1}\n{"event":"watch","at":-5}\n', "nothing yet"),
    ('{"history":4,"clock":1}\n{"event":"watch","at":5}\n{"gave":"hold","uid":"x"}\n{"event":"watch","at":6}\n{"end":true}\n', None)])
def test_a_history_that_is_none_is_a_sentence(api, person, text, said):
    """said: by the question for the history; None: by the one for its last moment."""
    with text_server(lambda: text) as port:
        person.world(None, forward=port)
        with Ui(person.path) as ui:
            status, _, body = ui.get("history")
            if said is None:
                assert status == 200
                status, _, body = ui.get(f"moment?at={json.loads(body)['to']}")
            assert status == 502 and (said or "") in json.loads(body)["error"] and json.loads(body)["error"], body


# ---- the programs of one machine ----

def test_the_programs_of_one_machine_are_a_node_with_its_use(few_runs):
    ration, page = few_runs
    page.write_text("\n".join([*run_lines(41, "python train.py", 0, 2154, 1000, 0.3), *run_lines(43, "</script>", 2, 100, 50)]) + "\n")
    with Ui("/nowhere", "--runs", program=ration) as ui:
        data = json.loads(ui.get("data")[2])
        assert data["runs"] is True and data["waiting"] == []
        machine, = data["cluster"]["nodes"]
        assert (machine["name"], machine["unitMiB"]) == (socket.gethostname(), 1)
        assert [(gpu["index"], gpu["total"], gpu["allocated"]) for gpu in machine["gpus"]] == [(0, 16160, 2154), (2, 16160, 100)]
        assert [(p["name"], p["pid"], p["allocated"], p.get("core")) for p in machine["pods"]] == [
            ("python train.py", 41, {"0": 2154}, 30), ("</script>", 43, {"2": 100}, None)]
        answer = used(ui, "", lambda said: said["nodes"])
        assert [(gpu["index"], holder["pid"], holder["usedBytes"]) for gpu in gpus_of(answer, socket.gethostname()) for holder in gpu["holders"]] == [(0, 41, 1000 << 20), (2, 43, 50 << 20)]
        assert ui.get("why?pod=a/b")[0] == 404
        page.write_text("")
        used(ui, "", lambda said: not gpus_of(said, socket.gethostname()))
        time.sleep(2)
        assert json.loads(ui.get("data")[2])["cluster"]["nodes"] == []


def test_programs_that_cannot_be_told_are_a_sentence(few_runs, tmp_path):
    ration, page = few_runs
    with Ui("/nowhere", "--runs", program=ration) as ui:    # the page is not there: ration-run fails
        status, _, body = ui.get("data")
        assert status == 502 and json.loads(body)["error"] == "ration-run cannot tell which programs run"
        answer = used(ui, "", lambda said: said["nodes"])
        assert answer["nodes"][socket.gethostname()]["use"] == {"error": "ration-run cannot tell which programs run"}
    page.write_text("\n".join(run_lines(41, "python", 0, 2154, 1000)))
    written = tmp_path / "page.html"
    done = subprocess.run([ration, "ui", "--runs", "--static", written], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "") and '"pid": 41' in written.read_text()
    done = subprocess.run([ration, "ui", "--runs", "--context", "x"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "--runs is about this machine" in done.stderr


# ---- one file ----

class Page(html.parser.HTMLParser):
    """The elements of a page: (tag, attributes, text)."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open = [], False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])
        self.open = True

    def handle_endtag(self, tag):
        self.open = False

    def handle_data(self, data):
        if self.open:
            self.elements[-1][2] += data

    def of(self, tag):
        return [(attributes, text) for found, attributes, text in self.elements if found == tag]


def test_hostile_names_cannot_leave_the_data(cluster, tmp_path):
    cluster.set(*hostile_objects())
    path = tmp_path / "page.html"
    assert write_file(cluster.path, path).returncode == 0
    page = Page(path.read_text())
    assert [a for a, _ in page.of("script")] == [{"type": "application/json", "id": "data"}, {}] and not page.of("img")
    (_, data), _ = page.of("script")
    assert "<" not in data
    written = json.loads(data)
    shown = {"".join(chr(byte) if 32 <= byte <= 126 else "?" for byte in text.encode()) for text in HOSTILE}
    bad = [n for n in written["cluster"]["nodes"] if n["name"] != "good"]
    assert {n["name"].split("-", 1)[1] for n in bad} == shown and {n["gpus"][0]["reason"] for n in bad} == shown
    # Kubernetes has no such names of pods; the reader leaves them out and says so.
    assert len(written["warnings"]) == len(HOSTILE) + 1 and all("is not valid" in text for text in written["warnings"][:-1])


def test_the_page_names_no_other_place_either(ui):
    for name in ("", "page.js", "page.css"):
        assert not re.search(r"https?:|//[a-z]|@import|url\(|innerHTML|insertAdjacentHTML|document\.write|eval\(", ui.get(name)[2])


def test_standard_output_is_a_file_too(cluster):
    cluster.set([node("a", "10.0.0.1", 16160)])
    done = write_file(cluster.path, "-")
    assert done.returncode == 0 and done.stdout.startswith("<!doctype html>") and done.stdout.endswith("</html>\n")


def test_json_is_what_the_page_shows(cluster, ui):
    done = subprocess.run([RATION, "ui", "-o", "json"], env=cluster.environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "") and json.loads(done.stdout) == json.loads(ui.get("data")[2])
    for more in (["--static", "-"], ["--port", "80"], ["--no-browser"]):
        refused = subprocess.run([RATION, "ui", "-o", "json", *more], capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode == 2 and refused.stdout == "" and "-o json" in refused.stderr
    cluster.set(fail="Error from server (Forbidden): nodes is forbidden")
    done = subprocess.run([RATION, "ui", "-o", "json"], env=cluster.environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "") and "nodes is forbidden" in done.stderr


def test_what_goes_wrong_is_a_sentence(cluster, tmp_path):
    cluster.set([node("a", "10.0.0.1", 16160)])
    done = write_file(cluster.path, tmp_path / "no-such-folder/page.html")
    assert done.returncode == 1 and re.fullmatch(r"ration: .*no-such-folder/page.html cannot be written: No such file or directory\n", done.stderr)
    cluster.set(fail="Error from server (Forbidden): nodes is forbidden")
    done = write_file(cluster.path, tmp_path / "page.html")
    assert done.returncode == 1 and "nodes is forbidden" in done.stderr and not (tmp_path / "page.html").exists()
    done = subprocess.run([RATION, "ui", "--static", "x", "--port", "80"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "leave out --port" in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run([RATION, "ui", "--no-browser", "--port", str(port)], env=cluster.environment(), capture_output=True, text=True,
                              timeout=60, check=False)
        assert (done.returncode, done.stdout) == (1, "") and f"127.0.0.1:{port}" in done.stderr


@pytest.mark.plain
def test_the_file_replaces_files_only(cluster, tmp_path):
    """A pipe, which stands for /dev/null and /dev/stdout here, stays one; a link is replaced and not followed; others read the file as umask says."""
    cluster.set([node("a", "10.0.0.1", 16160)])
    pipe, folder, private, link, page = (tmp_path / name for name in ("pipe", "folder", "private", "link", "page.html"))
    os.mkfifo(pipe)
    folder.mkdir()
    private.write_text("kept")
    link.symlink_to(private)
    for path in (pipe, folder):
        done = write_file(cluster.path, path)
        assert (done.returncode, done.stderr) == (1, f"ration: {path} cannot be written: it is not a regular file; - is the standard output\n")
    assert pipe.is_fifo() and folder.is_dir()
    assert write_file(cluster.path, link).returncode == 0
    assert private.read_text() == "kept" and not link.is_symlink() and link.read_text().startswith("<!doctype html>")
    link.unlink()
    link.symlink_to("/dev/null")
    assert write_file(cluster.path, link).returncode == 1 and link.is_symlink()
    before = os.umask(0o027)
    try:
        assert write_file(cluster.path, page).returncode == 0
    finally:
        os.umask(before)
    assert page.stat().st_mode & 0o777 == 0o640
    page.chmod(0o600)    # its owner has hidden the names of the pods
    assert write_file(cluster.path, page).returncode == 0
    assert page.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("p")) == ["page.html", "pipe", "private"]


def as_another_user():
    os.setgid(65534)
    os.setuid(65534)


@pytest.mark.plain
@pytest.mark.skipif(os.geteuid() != 0, reason="runs the program as another user, which needs root")
def test_a_file_that_may_not_be_written_stays(cluster):
    """The folder may be written, so that a new file could take its place."""
    cluster.set([node("a", "10.0.0.1", 16160)])
    with tempfile.TemporaryDirectory() as folder:
        world, log, page = (pathlib.Path(folder) / name for name in ("world", "world.log", "page.html"))
        world.write_text(cluster.path.read_text())
        log.touch()
        page.write_text("kept")
        for path, mode in ((folder, 0o777), (world, 0o644), (log, 0o666), (page, 0o444)):
            os.chmod(path, mode)
        done = subprocess.run([RATION, "ui", "--static", page], env=os.environ | {"FAKE_KUBECTL": str(world), "KUBECTL": str(FAKE)},
                              capture_output=True, text=True, timeout=60, check=False, preexec_fn=as_another_user)
        assert (done.returncode, done.stderr) == (1, f"ration: {page} cannot be written: Permission denied\n")
        assert page.read_text() == "kept"


def test_the_browser_is_started_with_an_address_that_is_good_once(cluster, tmp_path):
    opener = tmp_path / "bin/xdg-open"
    opener.parent.mkdir()
    opener.write_text(f"#!/bin/sh\necho \"$1\" > {tmp_path}/opened\n")
    opener.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = cluster.environment(PATH=f"{opener.parent}:{os.environ['PATH']}")
    with subprocess.Popen([RATION, "ui", "--port", str(port)], env=environment, text=True, stdout=subprocess.PIPE) as process:
        url = process.stdout.readline().strip()
        assert url.startswith(f"http://127.0.0.1:{port}/")
        wait_for(lambda: (tmp_path / "opened").exists() and (tmp_path / "opened").read_text().endswith("\n"), 10)
        opened = (tmp_path / "opened").read_text().strip()
        assert opened.startswith(f"http://127.0.0.1:{port}/") and url.rstrip("/").rsplit("/", 1)[1] not in opened
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(opened, method="HEAD"), timeout=20)
        assert refused.value.code == 403
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(opened, headers={"Host": "evil.example"}), timeout=20)
        assert refused.value.code == 403
        with urllib.request.urlopen(opened, timeout=20) as answer:    # it follows the redirection
            assert answer.url == url and "<title>ration" in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(opened, timeout=20)
        assert refused.value.code == 403
        process.terminate()
