"""What an image's environment says of the driver's files: ration-agent asks the container runtime when a container is started."""
import concurrent.futures
import json
import time

import pytest

from agent_fixture import NODE, World, wait_for

VIDEO = "NVIDIA_DRIVER_CAPABILITIES=video"


@pytest.fixture(params=["cgpu", "share"])
def world(request):
    with World("1x16384MiB", labels={"ack.node.gpu.schedule": request.param}, run_in_memory=True) as w:
        for name in ("libnvcuvid.so.1", "libGLX_nvidia.so.0"):
            (w.driver / "lib" / name).write_text("")
        yield w.up(16)


def pod_of(world, name, image="example", env=()):
    return world.api.create_pod(name, node=NODE, annotations=world.placement(0, main=1), spec={"containers": [
        {"name": "main", "image": image, "resources": {"limits": {"aliyun.com/gpu-mem": "1"}},
         "env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": value} for value in env]}]})


def libraries(world, pod):
    """Of those that not every container has, as the runtime reads the file when the container is made."""
    text = (world.kubelet.cdi_dir / f"ration-{pod['metadata']['uid']}.json").read_text()
    mounts = {m["containerPath"].rpartition("/")[2] for d in json.loads(text)["devices"] for m in d["containerEdits"]["mounts"]}
    return mounts & {"libnvcuvid.so.1", "libGLX_nvidia.so.0"}


def started(world, pod):
    world.kubelet.admit(pod)
    before = time.monotonic()
    world.kubelet.run(pod, "main")
    return libraries(world, pod), time.monotonic() - before


def test_an_image_says_what_its_containers_need_and_the_pod_says_it_better(world):
    world.kubelet.images |= {"ffmpeg:7": ["A=b", VIDEO], "plain:1": ["A=b"], "empty:1": []}
    assert started(world, pod_of(world, "plain", "plain:1"))[0] == set()
    assert started(world, pod_of(world, "empty", "empty:1"))[0] == set()
    assert started(world, pod_of(world, "video", "ffmpeg:7"))[0] == {"libnvcuvid.so.1"}
    assert started(world, pod_of(world, "own", "ffmpeg:7", ["graphics"]))[0] == {"libGLX_nvidia.so.0"}
    assert started(world, pod_of(world, "none", "ffmpeg:7", [""]))[0] == set()


def test_another_image_of_the_same_name_counts_from_the_next_start(world):
    world.kubelet.images["mine:latest"] = []
    pod = pod_of(world, "p", "mine:latest")
    assert started(world, pod)[0] == set()
    world.kubelet.images["mine:latest"] = [VIDEO]
    time.sleep(5.5)    # an answer is good for 5 s
    world.kubelet.run(pod, "main")
    assert libraries(world, pod) == {"libnvcuvid.so.1"}


def test_many_containers_of_different_images_start_at_once(world):
    world.kubelet.images |= {f"i{i}": [VIDEO] if i % 2 else [] for i in range(6)}
    pods = [pod_of(world, f"p{i}", f"i{i}") for i in range(6)]
    for pod in pods:
        world.kubelet.admit(pod)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda pod: world.kubelet.run(pod, "main"), pods))
    assert [libraries(world, pod) for pod in pods] == [set(), {"libnvcuvid.so.1"}] * 3


def test_a_runtime_that_does_not_know_or_is_slow_holds_no_container_up_for_long(world):
    found, took = started(world, pod_of(world, "unknown", "nowhere:1"))
    assert found == set() and took < 2
    assert "cannot ask the container runtime about image nowhere:1" in world.logged()
    world.kubelet.images["slow:1"], world.kubelet.image_delay = [VIDEO], 20
    found, took = started(world, pod_of(world, "slow", "slow:1"))
    assert found == set() and took < 4


def test_many_images_that_the_runtime_is_slow_about_hold_no_container_up_for_long(world):
    """The agent asks about one image at a time, for 2 s each; a container waits 3 s in all."""
    world.kubelet.image_delay = 20
    pods = [pod_of(world, f"p{i}", f"slow:{i}") for i in range(6)]
    for pod in pods:
        world.kubelet.admit(pod)
    before = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda pod: world.kubelet.run(pod, "main"), pods))
    assert time.monotonic() - before < 6


def test_an_image_with_a_name_that_is_no_capability_is_told(world):
    world.kubelet.images["old:1"] = ["NVIDIA_DRIVER_CAPABILITIES=compat32,video"]
    assert started(world, pod_of(world, "p", "old:1"))[0] == {"libnvcuvid.so.1"}
    told = wait_for(lambda: world.api.events("GPUDriverCapabilityUnknown"), 5)
    assert '"compat32"' in told[0]["message"] and told[0]["involvedObject"]["name"] == "p"
