"""The kubelet's calls do not say for which pod they are. Here it lists another pod than the one that it asks for, so that
the agent takes the call for that one's, and answers with its GPU. Whatever the agent takes a call for, no container starts
with the GPU of another pod: before it starts, the kubelet's checkpoint says whose answer that was."""
import base64
import concurrent.futures
import json
import os
import statistics
import time

import pytest

from agent_fixture import World, wait_for
from cgpu_node import uid_of
from fake_kubelet import StartError
from metrics_page import agent_page


@pytest.fixture
def world():
    with World(labels={"ack.node.gpu.schedule": "cgpu"}, run_in_memory=True) as w:
        yield w.up(32)


def device(world, pod, container="main"):
    """The name of the CDI device that was answered for this container."""
    return world.kubelet.answers[uid_of(pod), container].cdi_devices[0].name.removeprefix("ration.dev/grant=")


def devices_of_files(world):
    found = [d["name"] for path in world.kubelet.cdi_dir.glob("*.json") for d in json.loads(path.read_text())["devices"]]
    assert len(found) == len(set(found)), f"the runtime takes none of two devices of one name: {found}"
    return set(found)


def has_its_own(world, pod, gpu, container="main"):
    """It starts with all that is its own."""
    started = world.kubelet.run(pod, container)
    assert started.env["ALIYUN_COM_GPU_VISIBLE_DEVICES"] == world.uuid(gpu)
    assert started.env["ALIYUN_COM_GPU_MEM_IDX"] == str(gpu)
    assert f"/dev/nvidia{gpu}" in {*started.devices, *started.mounts}
    assert f"/dev/nvidia{1 - gpu}" not in {*started.devices, *started.mounts}
    grant = started.mounts["/run/ration/grant"]["hostPath"]
    assert f"/{uid_of(pod)}/{container}/" in grant, grant
    devices_of_files(world)
    return started


def checked(world):
    page = agent_page(world)
    return {labels["result"]: page("ration_answers_checked_total", **labels)
            for labels in page.labels("ration_answers_checked_total")}


def reasons(world, name):
    return [e["reason"] for e in world.api.events() if e["involvedObject"]["name"] == name]


def test_a_container_that_was_answered_another_pods_device_starts_with_its_own(world):
    first, second = world.pod("first", 3, card=0), world.pod("second", 3, card=1)
    world.kubelet.admit(second, listed=first)
    assert device(world, second) == f"{uid_of(first)}.main"
    has_its_own(world, second, 1)
    world.kubelet.remove(first)    # it was listed too early; its turn is now
    world.kubelet.admit(first)
    has_its_own(world, first, 0)
    has_its_own(world, second, 1)    # a later start
    assert device(world, first) not in (device(world, second), f"{uid_of(second)}.main")
    wait_for(lambda: "GPUAnswerCorrected" in reasons(world, "second"))
    assert "GPUAnswerCorrected" not in reasons(world, "first")
    told = [line for line in world.logged().splitlines() if "took the call for one of pod" in line]
    assert len(told) == 1, told
    for part in ("container main of pod default/second", "pod default/first", device(world, second), world.uuid(1),
                 world.kubelet.given[uid_of(second), "main"][0]):
        assert part in told[0]
    assert checked(world) == {"own": 1, "corrected": 2, "refused": 0, "unknown": 0}


def test_the_image_that_counts_is_that_of_the_container_that_starts(world):
    (world.driver / "lib/libnvcuvid.so.1").write_text("")
    world.kubelet.images |= {"plain": [], "video": ["NVIDIA_DRIVER_CAPABILITIES=video"]}
    plain, video = (world.api.create_pod(name, node="n1", annotations=world.placement(card, main=1), spec={"containers": [
        {"name": "main", "image": name, "resources": {"limits": {"aliyun.com/gpu-mem": "1"}}}]})
        for card, name in enumerate(["plain", "video"]))
    world.kubelet.admit(video, listed=plain)
    assert "/usr/lib64/libnvcuvid.so.1" in has_its_own(world, video, 1).mounts


def swapped(world, **more):
    pods = world.pod("first", 3, card=0, **more), world.pod("second", 3, card=1, **more)
    world.kubelet.admit(pods[1], listed=pods[0])
    world.kubelet.remove(pods[0])
    world.kubelet.admit(pods[0], listed=pods[1])
    assert [device(world, p) for p in pods] == [f"{uid_of(p)}.main" for p in pods[::-1]]
    return pods


def test_two_pods_that_were_answered_each_others_devices_start_with_their_own_at_once(world):
    pods = swapped(world)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for start in [pool.submit(has_its_own, world, pod, card) for card, pod in enumerate(pods)]:
            start.result()
    world.api.delete("pods", "first")
    world.kubelet.end(pods[0])
    world.kubelet.remove(pods[0])
    wait_for(lambda: not (world.kubelet.cdi_dir / f"ration-{uid_of(pods[0])}.json").exists())
    has_its_own(world, pods[1], 1)


@pytest.mark.parametrize("killed", ["worker", "agent"])
def test_an_agent_that_did_not_answer_the_calls_corrects_them_too(world, killed):
    pods = swapped(world)
    world.kubelet.write_checkpoint()
    if killed == "agent":
        world.kill_agent()
        world.start_agent()
        world.kubelet.wait_devices(32)
    else:
        world.kill_worker()
    for card, pod in enumerate(pods):
        has_its_own(world, pod, card)


def test_a_kubelet_that_has_just_started_and_does_not_call_the_agent_finds_no_devices_of_another_pod(world):
    """It does not call PreStartContainer before the plugin is registered (GetDeviceRunContainerOptions(), 1.36.3)."""
    pods = swapped(world)
    world.kubelet.restart()
    world.kubelet.wait_devices(32)
    assert not devices_of_files(world) & {device(world, p) for p in pods}
    for card, pod in enumerate(pods):
        has_its_own(world, pod, card)


def test_containers_of_one_pod_keep_their_own_devices(world):
    """Both of the second pod's calls are taken for the first pod's."""
    first, second = (world.pod_of(name, {"main": 3, "side": 2}, card=card) for card, name in enumerate(["first", "second"]))
    world.kubelet.admit(second, listed=first)
    world.kubelet.remove(first)
    world.kubelet.admit(first, listed=second)
    for _ in range(2):
        for container in ("side", "main"):
            has_its_own(world, second, 1, container)
            has_its_own(world, first, 0, container)


def test_a_pod_that_the_kubelet_does_not_know_to_be_gone_does_not_start_with_its_successors_gpu(world):
    """Only names are listed: the agent takes the call for the pod that has the name now."""
    old = world.pod("x-0", 3, card=0)
    world.api.delete("pods", "x-0")
    new = world.pod("x-0", 3, card=1)
    world.kubelet.admit(old)
    assert device(world, old) == f"{uid_of(new)}.main"
    with pytest.raises(StartError, match=f"the placement of the pod with uid {uid_of(old)} is not known"):
        world.kubelet.run(old, "main")
    world.kubelet.remove(old)
    world.kubelet.admit(new)
    has_its_own(world, new, 1)


def test_a_call_for_a_pod_without_a_placement_gives_it_no_other_pods_gpu(world):
    placed, unplaced = world.pod("placed", 3, card=1), world.pod("unplaced", 3)
    world.kubelet.admit(unplaced, listed=placed)
    for _ in range(2):
        with pytest.raises(StartError, match="without a GPU being chosen"):
            world.kubelet.run(unplaced, "main")
    world.kubelet.remove(placed)
    world.kubelet.admit(placed)
    has_its_own(world, placed, 1)


def test_a_pod_that_is_gone_and_had_the_same_ids_does_not_let_another_one_start(world):
    """Two living pods can have the same ids (src/node/served.h), and the checkpoint keeps a pod that is gone until the
    kubelet gives devices again. The containers of that one still run, so its CDI file is still there."""
    gone, unplaced = world.pod("gone", 3, card=0), world.pod("unplaced", 3)
    for pod in (gone, unplaced):
        world.kubelet.admit(pod)
    has_its_own(world, gone, 0)
    world.kubelet.given[uid_of(gone), "main"] = world.kubelet.given[uid_of(unplaced), "main"]
    world.kubelet.write_checkpoint()
    world.api.patch("pods", "gone", {"status": {"phase": "Running", "containerStatuses": [
        {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}})
    world.api.delete("pods", "gone")
    wait_for(lambda: uid_of(gone) in world.api.node("n1")["metadata"]["annotations"].get("ration.dev/held", ""))
    for _ in range(2):
        with pytest.raises(StartError, match="without a GPU being chosen"):
            world.kubelet.run(unplaced, "main")
    assert f"{uid_of(gone)}.main" in devices_of_files(world)


def name_twice(world):
    """The second pod has the answer that the first one has as well."""
    pods = world.pod("first", 3, card=0), world.pod("second", 3, card=1)
    for pod in pods:
        world.kubelet.admit(pod)
    world.kubelet.answers[uid_of(pods[1]), "main"] = world.kubelet.answers[uid_of(pods[0]), "main"]
    world.kubelet.write_checkpoint()
    return pods


def test_one_device_for_two_pods_is_that_of_the_pod_in_its_name_and_the_other_one_is_told_to_go(world):
    first, second = name_twice(world)
    for _ in range(2):
        with pytest.raises(StartError, match="pod default/second: delete this pod, so that it is created anew"):
            world.kubelet.run(second, "main")
    has_its_own(world, first, 0)
    wait_for(lambda: "GPUAnswerRefused" in reasons(world, "second"))
    assert reasons(world, "first") == []
    assert checked(world) == {"own": 1, "corrected": 0, "refused": 2, "unknown": 0}
    world.api.delete("pods", "first")
    world.kubelet.end(first)
    world.kubelet.remove(first)

    def starts():
        try:
            return has_its_own(world, second, 1)
        except StartError:
            return None
    assert wait_for(starts)


def test_where_the_runtime_does_no_cdi_a_container_with_another_pods_gpu_does_not_start():
    with World(cdi=False).up(32) as world:
        first, second = world.pod("first", 3, card=0), world.pod("second", 3, card=1)
        alike = world.pod("alike", 3, card=0)
        world.kubelet.admit(second, listed=first)
        world.kubelet.remove(first)
        world.kubelet.admit(alike, listed=first)
        for _ in range(2):
            with pytest.raises(StartError, match=f"default/second: delete this pod.*{world.uuid(0)}"):
                world.kubelet.run(second, "main")
        assert world.kubelet.run(alike, "main").env["NVIDIA_VISIBLE_DEVICES"] == world.uuid(0)
        assert checked(world) == {"own": 1, "corrected": 0, "refused": 2, "unknown": 0}


def late(world):
    """Two writers of the checkpoint at once: the earlier content comes last."""
    world.checkpoint_before.replace(world.kubelet.checkpoint)


def without_answers(world):
    data = json.loads(world.kubelet.checkpoint.read_text())
    for entry in data["Data"]["PodDeviceEntries"]:
        entry["AllocResp"] = base64.b64encode(os.urandom(200)).decode()
    world.kubelet.checkpoint.write_text(json.dumps(data))


SPOILT = {
    "late": late,
    "missing": lambda w: w.kubelet.checkpoint.unlink(),
    "no JSON": lambda w: w.kubelet.checkpoint.write_text('{"Data":'),
    "no list": lambda w: w.kubelet.checkpoint.write_text('{"Data":{"PodDeviceEntries":{"a":1}}}'),
    "too large": lambda w: os.truncate(w.kubelet.checkpoint, 17 << 20),
    "a folder": lambda w: (w.kubelet.checkpoint.unlink(), w.kubelet.checkpoint.mkdir()),
    "a pipe": lambda w: (w.kubelet.checkpoint.unlink(), os.mkfifo(w.kubelet.checkpoint)),
    "entries without an answer": without_answers,
}


@pytest.mark.parametrize("how", SPOILT)
def test_without_a_checkpoint_that_can_be_read_containers_start_with_what_the_agent_knows(world, how):
    world.kubelet.admit(world.pod("before", 1, card=0))
    world.checkpoint_before = world.kubelet.checkpoint.with_suffix(".before")
    world.checkpoint_before.write_bytes(world.kubelet.checkpoint.read_bytes())
    pods = [world.pod(f"p{card}", 3, card=card) for card in range(2)]
    for pod in pods:
        world.kubelet.admit(pod)
    SPOILT[how](world)
    for card, pod in enumerate(pods * 2):
        has_its_own(world, pod, card % 2)
    unknown = 0 if how == "entries without an answer" else 4
    assert checked(world) == {"own": 4 - unknown, "corrected": 0, "refused": 0, "unknown": unknown}
    told = world.logged().count("it cannot be checked for which pods the kubelet asked for devices")
    assert told == (0 if how in ("late", "entries without an answer") else 1)


def test_an_old_checkpoint_moves_nothing(world):
    """It has another pod under the ids of the container that starts, as that pod had them before."""
    old = world.pod("old", 3, card=0)
    world.kubelet.admit(old)
    has_its_own(world, old, 0)
    before = world.kubelet.checkpoint.read_bytes()
    world.api.delete("pods", "old")
    world.kubelet.end(old)
    world.kubelet.remove(old)
    wait_for(lambda: not (world.kubelet.cdi_dir / f"ration-{uid_of(old)}.json").exists())
    new = world.pod("new", 3, card=0)
    world.kubelet.admit(new)
    world.kubelet.checkpoint.write_bytes(before)
    has_its_own(world, new, 0)
    assert checked(world)["refused"] == 0


@pytest.mark.waits
def test_reading_the_checkpoint_delays_no_start_of_110_pods():
    """Eight GPUs of 141 GiB in units of 128 MiB, nearly all of them given: as large as a checkpoint of one node gets."""
    with World(cards="8x144384MiB", unit="128MiB", labels={"ack.node.gpu.schedule": "cgpu"}, run_in_memory=True).up(9024) as world:
        annotations = [{"ration.dev/placement": json.dumps({"unit": 128, "containers": {
            "main": [{"uuid": world.uuid(i % 8), "units": 80}]}}), "ration.dev/unit": "128"} for i in range(110)]
        pods = [world.api.create_pod(f"p{i}", gpu_mem=80, node="n1", annotations=a) for i, a in enumerate(annotations)]
        time.sleep(0.5)
        times = []
        for i, pod in enumerate(pods):
            world.kubelet.admit(pod)
            begin = time.monotonic()
            started = world.kubelet.run(pod, "main")
            times.append((time.monotonic() - begin) * 1000)
            assert started.env["ALIYUN_COM_GPU_MEM_IDX"] == str(i % 8)
        print(f"\nPreStartContainer: median {statistics.median(times):.1f} ms, the last ten {statistics.median(times[-10:]):.1f} ms, "
              f"max {max(times):.1f} ms; checkpoint {world.kubelet.checkpoint.stat().st_size} bytes")
        assert checked(world)["own"] == 110
        assert statistics.median(times[-10:]) < 200
