"""What ration-agent says while the kubelet does not have its devices, and how one gets to know it."""
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from agent_fixture import NODE, World, wait_for

SOCKET = "kubelet.sock"


@pytest.fixture
def world():
    with World(options=["--probes", "127.0.0.1:0"]) as w:
        yield w


def serving(world):
    return world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/serving")


def problem(world):
    return world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/problem", "")


def has_condition(world, status):
    condition = world.condition()
    return condition if condition and condition["status"] == status else None


def events(world):
    return [e for e in world.api.list("events") if e["reason"] == "GPUNotRegistered"]


def ports(world, what):
    return re.findall(rf"{what} on port (\d+)", world.logged())


def get(world, path, what="probes"):
    """Status and text."""
    port = wait_for(lambda: ports(world, what))[-1]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def waited_s(world):
    page = get(world, "/metrics", "metrics")[1]
    return float(re.search(r"^ration_kubelet_unregistered_seconds (\S+)$", page, re.M).group(1))


def wipe(world):
    for path in world.kubelet.plugin_dir.iterdir():
        path.unlink()


def test_agent_without_a_kubelet_socket_says_what_it_waits_for_until_it_is_back(world):
    """The folder was wiped: the kubelet runs and listens on a socket that nobody can find any more. The agent is
    replaced, so its connections to the kubelet are gone too."""
    world.up(32)
    wait_for(lambda: get(world, "/readyz")[0] == 200)
    wait_for(lambda: waited_s(world) == 0)
    assert not problem(world)
    wipe(world)
    world.kill_agent()
    world.start_agent()
    sentence = f"{world.kubelet.plugin_dir}/{SOCKET}"
    wait_for(lambda: sentence in problem(world), 20)
    assert "restart the kubelet" in problem(world) and "aliyun.com/gpu-mem" in problem(world)
    condition = wait_for(lambda: has_condition(world, "True"))    # other requests than that of the annotation
    assert condition["reason"] == "GPUNotRegistered" and sentence in condition["message"]
    assert len(wait_for(lambda: events(world))) == 1 and sentence in events(world)[0]["message"]
    assert events(world)[0]["involvedObject"]["kind"] == "Node"
    wait_for(lambda: serving(world) == "false")
    status, text = get(world, "/readyz")
    assert status == 503 and sentence in text
    assert get(world, "/healthz")[0] == 200
    assert waited_s(world) >= 9
    time.sleep(5)
    assert world.logged().count(sentence) == 1, "at a bounded rate, for as long as it lasts"
    world.kubelet.restart()
    wait_for(lambda: serving(world) is None and not problem(world))
    wait_for(lambda: get(world, "/readyz")[0] == 200)
    wait_for(lambda: has_condition(world, "False") and waited_s(world) == 0)
    assert len(events(world)) == 1


def test_kubelet_that_refuses_the_registration_is_quoted(world):
    world.kubelet.on_register = lambda request, context: context.abort(
        __import__("grpc").StatusCode.UNKNOWN, "the resource name is not welcome")
    world.kubelet.start()
    world.start_agent()
    wait_for(lambda: "the resource name is not welcome" in problem(world), 20)
    assert get(world, "/readyz")[0] == 503


def test_folder_that_is_gone_is_named(world):
    world.up(32)
    # The agent may just make a socket there.
    wait_for(lambda: shutil.rmtree(world.kubelet.plugin_dir, ignore_errors=True) or not world.kubelet.plugin_dir.exists())
    world.kill_agent()
    world.start_agent()
    wait_for(lambda: str(world.kubelet.plugin_dir) in problem(world), 20)
    world.kubelet.plugin_dir.mkdir()
    world.kubelet.restart()
    wait_for(lambda: not problem(world) and serving(world) is None)


def test_an_agent_without_inotify_serves_and_watches_when_the_limit_is_raised():
    """The limit is that of a user namespace."""
    limit = "/proc/sys/user/max_inotify_instances"
    with World() as world:
        world.wrapper = ["unshare", "-r", "sh", "-c", f'echo 0 > {limit} && exec "$@"', "sh"]
        world.up(32)
        assert world.logged().count(f"cannot watch {world.kubelet.plugin_dir}") == 1
        world.kubelet.restart()
        world.kubelet.wait_devices(32)
        assert world.logged().count(f"cannot watch {world.kubelet.plugin_dir}") == 1
        subprocess.run(["nsenter", "-U", "-t", str(world.agent.pid), "sh", "-c", f"echo 10 > {limit}"], check=True)
        wait_for(lambda: world.inotify_instances() == 1)
        socket = world.kubelet.plugin_dir / "ration-gpu-mem.sock"
        socket.unlink()    # nothing but the watch tells the agent
        wait_for(socket.exists)


def test_kubelet_that_is_away_for_a_moment_is_no_problem(world):
    world.up(32)
    world.kubelet.stop()
    time.sleep(4)
    world.kubelet.start()
    world.kubelet.wait_devices(32)
    assert not problem(world) and not events(world) and world.condition() is None


def test_node_without_a_mode_is_ready_without_a_kubelet():
    with World(labels={}, options=["--probes", "127.0.0.1:0"]) as world:
        world.kubelet.start_runtime()
        world.start_agent()
        wait_for(lambda: get(world, "/readyz")[0] == 200)
        time.sleep(11)
        assert not problem(world) and not events(world) and get(world, "/readyz")[0] == 200


def test_agent_is_not_ready_before_it_knows_the_cluster(world):
    world.api.inject("GET", r"/api/v1/nodes", times=10**9, status=503)
    world.kubelet.start()
    world.start_agent()
    assert get(world, "/readyz")[0] == 503


@pytest.mark.waits
def test_a_container_runtime_that_is_not_at_its_socket_is_named_with_the_value_that_mends_it():
    """A node with CRI-O, and the chart's default, which is containerd's socket."""
    with World(options=["--cri-socket", "/run/nowhere/containerd.sock"]) as world:
        world.kubelet.start()
        world.start_agent()
        event = wait_for(lambda: events(world), 20)[0]["message"]
        assert "the container runtime at /run/nowhere/containerd.sock does not answer" in event
        assert "criSocket has to name it (CRI-O: /run/crio/crio.sock;" in event
        wait_for(lambda: (found := world.condition()) and found["message"] == event)
