"""Requests to an API server: what arrives there, what comes back, and what is said when nothing does."""
import base64
import contextlib
import json
import pathlib
import re
import socket
import threading
import time

import pytest

from fake_apiserver import FOREVER, FakeApiServer, wait_for
from kube_probe import Probe, probe


@pytest.fixture
def api():
    with FakeApiServer() as server:
        yield server


@pytest.fixture
def tls():
    with FakeApiServer(tls=True) as server:
        yield server


def one(lines):
    assert len(lines) == 1, lines
    match = re.fullmatch(r"result=(-?\d+) status=(\d+) len=(\d+) text=(.*)", lines[0])
    assert match, lines
    return int(match[1]), int(match[2]), int(match[3]), match[4]


def get(api, path="/version", **options):
    return one(probe(api, "request", "GET", path, **options))


# ---- requests ----

def test_get_answers_the_body(api):
    assert get(api) == (0, 200, len(json.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.3"},
                                               separators=(",", ":"))), "")
    headers = api.requests[0].headers
    assert headers["User-Agent"] == "kube-probe/1" and headers["Accept"] == "application/json"
    assert "Authorization" not in headers and "Expect" not in headers


def test_patch_post_put_delete_carry_body_and_type(api):
    api.create_node("n1")
    patch = json.dumps({"metadata": {"annotations": {"a": "ü" * 5000}}})
    assert one(probe(api, "request", "PATCH", "/api/v1/nodes/n1", patch, "application/merge-patch+json"))[1] == 200
    assert api.node("n1")["metadata"]["annotations"]["a"] == "ü" * 5000
    api.create_pod("p")
    binding = json.dumps({"metadata": {"annotations": {"x": "y"}, "uid": api.pod("p")["metadata"]["uid"]},
                          "target": {"name": "n1"}})
    path = "/api/v1/namespaces/default/pods/p/binding"
    assert one(probe(api, "request", "POST", path, binding))[:2] == (0, 201)
    assert api.pod("p")["spec"]["nodeName"] == "n1"
    result, status, _, text = one(probe(api, "request", "POST", path, binding))
    assert (result, status) == (0, 409) and 'already assigned to node "n1"' in text
    node = json.dumps({"metadata": {"name": "n1"}, "spec": {"unschedulable": True}})
    assert one(probe(api, "request", "PUT", "/api/v1/nodes/n1", node))[1] == 200
    assert one(probe(api, "request", "DELETE", "/api/v1/nodes/n1"))[1] == 200
    assert api.list("nodes") == []


def test_a_refusal_says_what_the_server_said(api):
    api.inject(status=403, reason="Forbidden", message='nodes is forbidden: User "u" cannot list resource')
    result, status, _, text = get(api)
    assert (result, status, text) == (0, 403, 'nodes is forbidden: User "u" cannot list resource')


@pytest.mark.parametrize("body", ["", "Bad Gateway", "{}", "[]", '{"message":7}', '{"message":""}'])
def test_a_refusal_without_words_gives_its_number_and_the_server(api, body):
    api.inject(status=502, body=body)
    result, status, _, text = get(api)
    assert (result, status) == (0, 502) and text == f"HTTP 502 from API server {api.url}"


def test_redirects_are_not_followed(api):
    api.inject(status=307, headers={"Location": "/api/v1/nodes"}, body="")
    result, status, _, text = get(api)
    assert (result, status) == (0, 307) and "redirects" in text
    assert len(api.requests) == 1


def test_requests_share_a_connection(api):
    assert connections_made(api, lambda: probe(api, "request", "GET", "/version", options=["--times", 20])) == 1


def connections_made(api, run):
    made = []
    accept = api.http.get_request
    api.http.get_request = lambda: made.append(1) or accept()
    run()
    return len(made)


def test_many_requests_at_once_use_a_limited_number_of_connections(api):
    api.inject(times=FOREVER, delay=0.02)
    results = []
    count = connections_made(api, lambda: results.extend(
        probe(api, "together", "GET", "/version", options=["--times", 300])))
    assert len(results) == 300 and all("status=200" in r for r in results)
    assert 1 < count <= 128


def test_a_kept_connection_that_the_server_closed_is_replaced(api):
    fault = api.inject("GET", "version", headers={"Connection": "close"}, status=200, body="{}", times=FOREVER)
    lines = probe(api, "request", "GET", "/version", options=["--times", 5])
    assert all("status=200" in line for line in lines) and fault.times == FOREVER and len(lines) == 5


# ---- failures ----

def test_nobody_listens(api):
    kubeconfig = api.kubeconfig()
    api.stop()
    result, status, _, text = get(api, kubeconfig=kubeconfig)
    assert (result, status) == (-111, 0)
    assert api.url in text and "is it running, and reachable from here?" in text


def test_a_name_that_does_not_resolve(api):
    result, _, _, text = get(api, kubeconfig=api.kubeconfig(server="http://no-such-host.invalid:6443"))
    assert result == -113 and "cannot be resolved" in text


def test_no_answer_in_time(api):
    api.inject(hang=True)
    start = time.monotonic()
    result, status, _, text = get(api, options=["--timeout-ms", 500])
    assert result == -110 and "no answer in time" in text and time.monotonic() - start < 3


def test_a_drop_of_an_answer_at_a_time(api):
    """A body that trickles for ever ends at the timeout, which covers everything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def trickle():
            connection, _ = server.accept()
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            try:
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.05)
            except OSError:
                pass
        threading.Thread(target=trickle, daemon=True).start()
        kubeconfig = api.kubeconfig(server=f"http://127.0.0.1:{server.getsockname()[1]}")
        assert get(api, kubeconfig=kubeconfig, options=["--timeout-ms", 600])[0] == -110


@pytest.mark.parametrize("answer, errno", [
    (b"", -104), (b"SSH-2.0-OpenSSH_9.2\r\n", -71), (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", -104),
    # curl 7.88 calls headers over its limit "out of memory".
    (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 500000 + b"\r\n\r\n", -12), (b"\x00\xff" * 1000, -71),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", -104)],
    ids=["nothing", "ssh", "half-a-body", "endless-header", "bytes", "bad-chunk"])
def test_what_is_no_http_is_an_error_not_a_crash(api, answer, errno):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def say():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connection.recv(65536)
                    connection.sendall(answer)
                    connection.close()
        thread = threading.Thread(target=say, daemon=True)
        thread.start()
        kubeconfig = api.kubeconfig(server=f"http://127.0.0.1:{server.getsockname()[1]}")
        try:
            result, _, _, text = get(api, kubeconfig=kubeconfig)
        finally:
            # Ends the accept before its number may become another test's socket.
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)
        assert result == errno, text
        assert "API server http://127.0.0.1" in text


def test_answers_over_16_mib_are_refused_and_15_are_not(api):
    api.inject(status=200, body=b"x" * (15 << 20))
    assert get(api)[:3] == (0, 200, 15 << 20)
    api.inject(status=200, body=b"x" * (17 << 20))
    result, _, _, text = get(api)
    assert result == -90 and "over the limit" in text


def test_a_stream_is_opened_before_it_says_anything_and_ends_when_silent(api):
    lines = probe(api, "stream", "/api/v1/pods?watch=1&resourceVersion=100", options=["--idle-ms", 500])
    assert lines[0] == "data=0"
    assert lines[-1].startswith("result=-110 ") and "silent for 500 ms" in lines[-1]


def test_a_stream_that_is_refused_gives_its_status_and_no_data(api):
    api.inject(status=403, message="no")
    lines = probe(api, "stream", "/api/v1/pods?watch=1")
    assert len(lines) == 1 and "status=403" in lines[0] and lines[0].endswith("text=no")


def test_cancelling_and_asking_from_within_a_callback(api):
    api.create_pod("p")
    lines = probe(api, "cancel", "/api/v1/pods?watch=1&resourceVersion=100")
    assert lines[0].startswith("data=") and "status=200" in lines[1] and len(lines) == 2


# ---- who is who ----

def test_tls_with_a_ca_from_a_file_or_from_data(tls):
    assert get(tls)[:2] == (0, 200)
    data = base64.b64encode(pathlib.Path(tls.ca_file).read_bytes()).decode()
    assert get(tls, kubeconfig=tls.kubeconfig(certificate_authority=None, certificate_authority_data=data))[1] == 200


def test_an_unknown_ca_is_refused_with_the_next_step(tls):
    result, status, _, text = get(tls, kubeconfig=tls.kubeconfig(certificate_authority=None))
    assert (result, status) == (-71, 0)
    assert tls.url in text and "not trusted" in text and "kubeconfig" in text
    assert tls.requests == []


def test_another_ca_of_the_same_name_is_refused(tls):
    with FakeApiServer(tls=True) as other:
        assert get(tls, kubeconfig=tls.kubeconfig(certificate_authority=other.ca_file))[0] == -71


def test_a_certificate_for_another_name_is_refused_and_tls_server_name_says_which():
    with FakeApiServer(tls=True, server_name="kubernetes.default.svc") as api:
        assert get(api)[0] == -71
        assert get(api, kubeconfig=api.kubeconfig(tls_server_name="kubernetes.default.svc"))[:2] == (0, 200)


def test_insecure_is_obeyed_only_when_said(tls):
    kubeconfig = tls.kubeconfig(certificate_authority=None, insecure_skip_tls_verify=True)
    assert get(tls, kubeconfig=kubeconfig)[:2] == (0, 200)


def test_a_ca_file_that_is_not_there(tls):
    result, _, _, text = get(tls, kubeconfig=tls.kubeconfig(certificate_authority="/nonexistent/ca.crt"))
    assert result == -71 and "certificate" in text


def test_plain_http_on_a_tls_port_and_the_reverse(api, tls):
    assert get(api, kubeconfig=api.kubeconfig(server=api.url.replace("http:", "https:")))[0] == -71
    result = get(tls, kubeconfig=tls.kubeconfig(server=tls.url.replace("https:", "http:")))[0]
    assert result < 0


def test_client_certificates_from_files_and_from_data():
    with FakeApiServer(tls=True, client_auth=True) as api:
        assert get(api)[:2] == (0, 200)
        cert, key = (base64.b64encode(pathlib.Path(f).read_bytes()).decode()
                     for f in (api.client_cert_file, api.client_key_file))
        kubeconfig = api.kubeconfig(client_certificate=None, client_key=None, client_certificate_data=cert,
                                    client_key_data=key)
        assert get(api, kubeconfig=kubeconfig)[:2] == (0, 200)
        assert get(api, kubeconfig=api.kubeconfig(client_certificate=None, client_key=None))[0] < 0
        result, _, _, text = get(api, kubeconfig=api.kubeconfig(client_key=api.ca_file))
        assert result == -71 and "client-key" in text


def test_ipv6():
    if not socket.has_ipv6 or not pathlib.Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    with FakeApiServer(host="::1", tls=True) as api:
        assert get(api)[:2] == (0, 200)


def test_a_token_is_sent_and_a_wrong_one_is_refused_in_words():
    with FakeApiServer(token="right") as api:
        assert get(api, "/api/v1/pods")[1] == 200
        for token in ("wrong", None):
            _, status, _, text = get(api, "/api/v1/pods", kubeconfig=api.kubeconfig(token=token))
            assert (status, text) == (401, "Unauthorized")


def test_a_rotated_token_file_is_read_again(tmp_path):
    """As the kubelet rotates it: a new folder, and a symlink that is renamed over the old."""
    def write(token):
        folder = tmp_path / f"..{token}"
        folder.mkdir()
        (folder / "token").write_text(token + "\n")
        (tmp_path / "..new").symlink_to(folder.name)
        (tmp_path / "..new").rename(tmp_path / "..data")

    write("first")
    (tmp_path / "token").symlink_to("..data/token")
    with FakeApiServer(token="first") as api:
        kubeconfig = api.kubeconfig(token=None, tokenFile=str(tmp_path / "token"))
        with Probe(api, "watch", "/api/v1/pods", kubeconfig=kubeconfig) as p:
            p.wait("synced")
            wait_for(api.watches)
            write("second")
            api.token = "second"
            api.close_watches()
            wait_for(lambda: api.requests[-1].headers["Authorization"] == "Bearer second")
            api.create_pod("later")
            p.wait(" later ")
            (tmp_path / "token").unlink()
            api.close_watches()
            api.create_pod("latest")
            p.wait(" latest ")


@pytest.mark.parametrize("token", ["a\r\nX-Injected: 1", "a b", "\x01"])
def test_a_token_file_cannot_add_headers(tmp_path, token):
    (tmp_path / "token").write_text(token)
    with FakeApiServer() as api:
        get(api, kubeconfig=api.kubeconfig(tokenFile=str(tmp_path / "token")))
        assert "X-Injected" not in api.requests[0].headers


def test_proxy_variables_are_not_for_the_api_server(api):
    env = {"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"}
    assert get(api, env=env)[1] == 200


def test_the_sentence_names_the_kubeconfig_that_is_wrong(api):
    lines = probe(api, "request", "GET", "/", kubeconfig="/nonexistent/kubeconfig")
    assert "cannot read kubeconfig /nonexistent/kubeconfig" in lines[0]


# ---- Events ----

def test_an_event_of_a_pod_is_as_kubectl_describe_looks_for_it(api):
    pod = api.create_pod("p", namespace="team")
    with Probe(api, "event", "Pod", "team", "p", pod["metadata"]["uid"], "Warning", "PlacementMissing", "do this"):
        event = wait_for(api.events)[0]
    assert event["metadata"]["namespace"] == "team" and event["metadata"]["name"].startswith("p.")
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "team",
                                       "uid": pod["metadata"]["uid"]}
    assert (event["type"], event["reason"], event["message"], event["count"]) == \
        ("Warning", "PlacementMissing", "do this", 1)
    assert event["source"] == {"component": "kube-probe", "host": "here"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event["firstTimestamp"])


def test_an_event_of_a_node_lives_in_default(api):
    with Probe(api, "event", "Node", "", "n1", "n1", "Normal", "R", "m"):
        event = wait_for(api.events)[0]
    assert event["metadata"]["namespace"] == "default" and "namespace" not in event["involvedObject"]
    assert event["involvedObject"]["uid"] == "n1"


def test_the_same_event_again_is_not_posted_twice_and_not_complained_about(api):
    for times in (3, 1):
        with Probe(api, "event", "Node", "", "n1", "n1", "Normal", "R", "m", options=["--times", times]) as p:
            wait_for(lambda: len(api.requests_for("POST", "events")) >= (3 if times == 3 else 4))
            time.sleep(0.1)
        assert p.log == []
    assert len(api.events()) == 1
    with Probe(api, "event", "Node", "", "n1", "n1", "Normal", "R", "another"):
        wait_for(lambda: len(api.events()) == 2)


def test_a_long_message_is_cut_between_characters(api):
    with Probe(api, "event", "Node", "", "n" * 253, "n1", "Normal", "R", "ü" * 600):
        event = wait_for(api.events)[0]
    assert event["message"] == "ü" * 512
    assert len(event["metadata"]["name"]) <= 253


def test_an_event_that_is_refused_is_logged_and_forgotten(api):
    api.inject("POST", "events", status=403, message="events is forbidden")
    with Probe(api, "event", "Node", "", "n1", "n1", "Normal", "R", "m") as p:
        p.wait_log("cannot post an Event, ignoring: events is forbidden")
