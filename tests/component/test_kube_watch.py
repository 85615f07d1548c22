"""A mirror of the API server's objects, through everything that happens to a watch."""
import time

import pytest

from fake_apiserver import FOREVER, FakeApiServer, wait_for
from kube_probe import Probe

PODS = "/api/v1/pods"


@pytest.fixture
def api():
    with FakeApiServer(bookmark_interval=0.2) as server:
        yield server


def watch(api, *args, **options):
    return Probe(api, "watch", PODS, *args, **options)


def follows(api, p):
    """A change made now arrives."""
    name = f"proof-{time.monotonic_ns()}"
    api.create_pod(name)
    p.wait(f" {name} ")


def test_list_then_changes(api):
    api.create_pod("before")
    with watch(api) as p:
        p.wait("synced")
        assert [line.split()[0] for line in p.lines] == ["object", "synced"]
        api.create_pod("later")
        p.wait(" later ")
        api.patch("pods", "later", {"metadata": {"labels": {"a": "b"}}})
        p.wait(" later ", 2)
        api.delete("pods", "before")
        p.wait("deleted")
        assert p.objects() == ["later"]
        assert p.lines[-1].split()[2] == "before", "the last state comes with the end"
        assert p.ask() == "connected=1 synced=1"


def test_an_empty_list_is_synced(api):
    with watch(api) as p:
        p.wait("synced")
        assert p.lines == ["synced"]


@pytest.mark.parametrize("count", [499, 500, 501, 1203])
def test_lists_come_in_pages_of_500(api, count):
    for i in range(count):
        api.create_pod(f"p{i:04}")
    with watch(api) as p:
        p.wait("synced")
        assert len(p.objects()) == count
    lists = [r for r in api.requests if "watch" not in r.query]
    assert len(lists) == -(-count // 500)
    assert all(r.query["limit"] == "500" and "resourceVersion" not in r.query for r in lists)


def test_the_query_goes_along_with_list_and_watch(api):
    api.create_pod("mine", node="n1")
    api.create_pod("other", node="n2")
    with watch(api, "fieldSelector=spec.nodeName%3Dn1") as p:
        p.wait("synced")
        api.create_pod("late", node="n2")
        follows_on_n1 = api.create_pod("mine2", node="n1")
        p.wait(follows_on_n1["metadata"]["uid"])
        assert p.objects() == ["mine", "mine2"]
        api.patch("pods", "mine", {"spec": {"nodeName": "n3"}})
        p.wait("deleted")
    assert all(r.query["fieldSelector"] == "spec.nodeName=n1" for r in api.requests)


def test_bookmarks_move_the_version(api):
    with watch(api) as p:
        p.wait("synced")
        for i in range(3):
            api.create("configmaps", {"metadata": {"name": f"c{i}"}})
        time.sleep(0.5)
        newest = api.store.version
        api.close_watches()
        wait_for(lambda: len(api.requests_for("GET", "pods")) >= 3)
        again = api.requests_for("GET", "pods")[-1].query
        assert again["resourceVersion"] == str(newest) and again["allowWatchBookmarks"] == "true"
        follows(api, p)
        assert p.count("synced") == 1, "no new LIST was needed"


def test_a_cut_watch_goes_on_where_it_was(api):
    api.create_pod("a")
    with watch(api) as p:
        p.wait("synced")
        for mid_object in (False, True):
            wait_for(api.watches)
            api.close_watches(mid_object)
            wait_for(lambda: not api.watches())
            name = f"meanwhile-{mid_object}"
            api.create_pod(name)
            p.wait(f" {name} ")
        assert p.count(" a ") == 1 and p.count("synced") == 1


@pytest.mark.parametrize("how", ["event", "status"])
def test_an_expired_version_lists_again_and_tells_what_is_gone(api, how):
    api.create_pod("stays")
    api.create_pod("goes")
    with watch(api) as p:
        p.wait("synced")
        wait_for(api.watches)
        fault = api.inject("GET", PODS, times=FOREVER, watch=True, status=503)
        api.close_watches()
        wait_for(lambda: not api.watches())
        gone = api.delete("pods", "goes")
        api.create_pod("new")
        api.expire(how)
        fault.times = 0
        p.wait("synced", 2)
        assert p.objects() == ["new", "stays"]
        assert f"deleted {gone['metadata']['uid']} -" in p.lines
        follows(api, p)


def test_410_in_the_middle_of_an_open_watch(api):
    api.create_pod("a")
    with watch(api) as p:
        p.wait("synced")
        wait_for(api.watches)
        api.expire("event")
        p.wait("synced", 2)
        follows(api, p)


def test_an_expired_continue_token_starts_the_list_again(api):
    for i in range(1100):
        api.create_pod(f"p{i:04}")
    # The second page is asked for at once and waits half a second: time enough to see that the first is out.
    api.inject("GET", PODS, times=2, delay=0.5, watch=False)
    with watch(api) as p:
        wait_for(lambda: len(api.store.pages) == 1)
        api.expire()
        p.wait("synced")
        assert len(p.objects()) == 1100
    assert any(r.status == 410 for r in api.requests)


def test_what_was_deleted_during_a_broken_list_is_told(api):
    for i in range(600):
        api.create_pod(f"p{i:04}")
    with watch(api) as p:
        p.wait("synced")
        wait_for(api.watches)
        api.inject("GET", PODS, watch=False, cut_after=50000)
        api.expire()
        p.wait_log("cannot list")
        api.delete("pods", "p0000")
        p.wait("synced", 2)
        follows(api, p)
        assert "p0000" not in p.objects() and len(p.objects()) == 600


@pytest.mark.parametrize("fault, said", [
    ({"status": 401, "message": "Unauthorized"}, "Unauthorized"),
    ({"status": 403, "message": 'pods is forbidden: User "x" cannot list'}, "pods is forbidden"),
    ({"status": 500}, "injected"),
    ({"status": 200, "body": "<html>hello</html>"}, "no valid JSON"),
    ({"status": 200, "body": {"kind": "PodList", "items": []}}, "no valid JSON"),
    ({"status": 200, "body": '{"metadata":{"resourceVersion":"1"},"items":['}, "no valid JSON"),
    ({"status": 200, "body": '{"metadata":{"resourceVersion":"1"},"items":{}}'}, "no valid JSON"),
    ({"status": 200, "body": '{"metadata":{"resourceVersion":7},"items":[]}'}, "no valid JSON"),
    ({"status": 200, "body": ""}, "no valid JSON"),
    ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/"}, "body": ""}, "redirects"),
    ({"drop": True}, "closed the connection"),
    ({"cut_after": 20}, "cut in the middle"),
])
def test_a_list_that_fails_is_logged_once_and_tried_again(api, fault, said):
    api.create_pod("a")
    api.inject("GET", PODS, times=3, watch=False, **fault)
    with watch(api) as p:
        p.wait("synced")
        p.wait_log("following /api/v1/pods again")
        assert p.objects() == ["a"]
        assert sum("cannot list /api/v1/pods" in line for line in p.log) == 1
        assert any(said in line for line in p.log), p.log
        follows(api, p)


@pytest.mark.parametrize("stream", [
    b"garbage\n", b"[]\n", b'{"type":"ADDED"}\n', b'{"type":7,"object":{}}\n', b'{"type":"ADDED","object":3}\n',
    b'{"type":"ADDED","object":{"metadata":{"uid":"x","name":"\xff\xfe"}}}\n', b'{"object":{}}\n',
    b'{"type":"ERROR","object":{"code":500,"message":"etcd is sad"}}\n', b'{"type":"ERROR","object":{}}\n',
])
def test_a_watch_that_says_nonsense_is_opened_again(api, stream):
    api.create_pod("a")
    api.inject("GET", PODS, times=2, watch=True, stream=stream)
    with watch(api) as p:
        p.wait("synced")
        follows(api, p)
        p.wait_log("cannot watch /api/v1/pods")


def test_a_watch_that_says_nonsense_for_ever_lists_again(api):
    api.create_pod("a")
    fault = api.inject("GET", PODS, times=FOREVER, watch=True, stream=b"{]\n")
    with watch(api) as p:
        p.wait("synced", 2, timeout=30)
        fault.times = 0
        follows(api, p)


def test_events_of_unknown_types_and_without_uid_are_passed_over(api):
    api.inject("GET", PODS, watch=True, stream=b'{"type":"SOMETHING","object":{"metadata":{}}}\n'
               b'{"type":"ADDED","object":{"metadata":{"name":"nobody"}}}\n'
               b'{"type":"ADDED","object":{"metadata":{"uid":"u1","name":"somebody"}}}\n')
    with watch(api) as p:
        p.wait("somebody")
        assert p.count("nobody") == 0


def test_an_object_that_cannot_be_read_hides_no_other_and_nothing_is_called_deleted(api):
    api.create_pod("a")
    with watch(api) as p:
        p.wait("synced")
        wait_for(api.watches)
        deep = '{"metadata":{"uid":"d"},"x":' + "[" * 100 + "]" * 100 + "}"
        api.inject("GET", PODS, watch=False, status=200,
                   body='{"metadata":{"resourceVersion":"%d"},"items":[%s,{"metadata":{"uid":"b","name":"b"}}]}'
                   % (api.store.version + 1, deep))
        api.expire()
        p.wait("synced", 2)
        assert p.objects() == ["a", "b"]
        p.wait_log("an object that cannot be read")


def test_an_object_over_4_mib_is_an_error_and_one_under_is_not(api):
    api.create_pod("large", status={"message": "x" * (3 << 20)})
    with watch(api) as p:
        p.wait("synced")
        assert p.objects() == ["large"]
        fault = api.inject("GET", PODS, times=FOREVER, watch=True,
                           stream='{"type":"ADDED","object":{"metadata":{"uid":"u","name":"' + "x" * (5 << 20))
        api.close_watches()
        p.wait_log("an object over 4 MiB")
        fault.times = 0
        follows(api, p)


def test_a_list_without_end_is_refused(api):
    api.inject("GET", PODS, watch=False, status=200, body='{"metadata":{"x":"' + "y" * (20 << 20))
    with watch(api) as p:
        p.wait("synced")
        assert any("cannot list" in line for line in p.log)


def test_a_silent_watch_is_noticed(api):
    with watch(api, options=["--idle-ms", 700]) as p:
        p.wait("synced")
        wait_for(api.watches)
        api.silence(True)
        p.wait_log("silent for 700 ms")
        api.silence(False)
        follows(api, p)


def test_a_silent_list_is_noticed(api):
    api.inject("GET", PODS, watch=False, hang=True)
    with watch(api, options=["--idle-ms", 700]) as p:
        p.wait_log("silent for 700 ms")
        p.wait("synced")


def test_a_watch_kept_alive_by_bookmarks_is_not_silent(api):
    with watch(api, options=["--idle-ms", 700]) as p:
        p.wait("synced")
        time.sleep(2)
        assert p.log == [] and len(api.requests) == 2


def test_a_server_that_is_away_and_returns(api):
    api.create_pod("a")
    with watch(api) as p:
        p.wait("synced")
        wait_for(api.watches)
        api.stop()
        p.wait_log("cannot watch /api/v1/pods")
        wait_for(lambda: p.ask() == "connected=0 synced=1")
        api.create_pod("b")
        api.start()
        p.wait(" b ")
        p.wait_log("following /api/v1/pods again")
        assert p.lines.count("synced") == 1


def test_a_server_that_is_not_there_yet():
    api = FakeApiServer()
    api.start()
    kubeconfig = api.kubeconfig()
    api.stop()
    with watch(api, kubeconfig=kubeconfig) as p:
        p.wait_log("is it running, and reachable from here?")
        assert p.ask() == "connected=0 synced=0"
        api.start()
        p.wait("synced")
    api.stop()


def test_retries_slow_down(api):
    api.inject("GET", PODS, times=FOREVER, status=500)
    with watch(api) as p:
        p.wait_log("cannot list")
        time.sleep(3)
        # 0.05..0.1, 0.1..0.2, 0.2..0.4, 0.4..0.8, 0.8..1.6, 1.6..3.2: in 3 s at most 6, at least 4.
        assert 4 <= len(api.requests) <= 8


def test_many_changes_arrive_in_order(api):
    with watch(api) as p:
        p.wait("synced")
        for i in range(500):
            api.create_pod(f"p{i}")
            if i % 2:
                api.delete("pods", f"p{i}")
            if i % 100 == 50:
                api.close_watches(mid_object=True)
        follows(api, p)
        assert len(p.objects()) == 251
        versions = [int(line.split()[3]) for line in p.lines if line.startswith("object")]
        assert versions == sorted(versions)


def test_it_all_works_over_tls_too():
    with FakeApiServer(tls=True, token="t", client_auth=True, bookmark_interval=0.2) as api:
        for i in range(700):
            api.create_pod(f"p{i}")
        with watch(api) as p:
            p.wait("synced")
            wait_for(api.watches)
            api.close_watches(mid_object=True)
            follows(api, p)
            assert len(p.objects()) == 701
