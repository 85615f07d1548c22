"""A pod of a cgpu node that gets another size while it runs: the agent brings the limits of its containers there."""
import json
import os
import struct
import time

import pytest

import grants
from agent_fixture import NODE, wait_for
from fake_kubelet import AdmissionError
from cgpu_node import card_of, folder, isolated, needs_root, start, uid_of

pytestmark = needs_root


@pytest.fixture
def world():
    with isolated(cards="2x16160MiB") as w:
        yield w.up(30)


def resize(world, name, units, times=1, card=0, container="main"):
    """As ration-scheduler writes it; the watch tells the agent."""
    text = json.dumps({"unit": 1024, "resizes": times, "containers": {
        container: [{"uuid": world.uuid(card), "units": units}]}})
    world.api.patch("pods", name, {"metadata": {"annotations": {"ration.dev/placement": text}}}, "default")


def limit(world, pod):
    return card_of(folder(world, pod) / "grant")[3]


def becomes(world, pod, mib, timeout=2):
    return wait_for(lambda: limit(world, pod) == mib, timeout, f"a limit of {mib} MiB, not {limit(world, pod)}")


def units_of(world, text):
    """Of the pod that a record or the node's annotation names first."""
    return json.loads(text)["pods"][0]["cards"][world.uuid(0)]["units"]


def has_read_pods(world):
    """A pod that came later was resized: the watch of pods tells in order."""
    name = f"later{time.monotonic_ns()}"
    later, _ = start(world, name, units=2, card=1)
    resize(world, name, 3, card=1)
    becomes(world, later, 3232)


def test_the_limit_follows_within_a_second_and_nothing_else_of_the_grant_changes(world):
    pod, _ = start(world, units=2)
    grant = folder(world, pod) / "grant"
    before, inode = grant.read_bytes(), grant.stat().st_ino
    began = time.monotonic()
    resize(world, "a", 3)
    becomes(world, pod, 3232)
    assert time.monotonic() - began < 1
    assert grant.stat().st_ino == inode and grant.read_bytes()[:18904] == before[:18904]
    resize(world, "a", 1, times=2)
    becomes(world, pod, 1077)
    assert not world.api.events("GPUResizeRefused")


def test_a_container_that_starts_again_has_the_new_size_in_its_environment_too(world):
    pod, first = start(world, units=2)
    assert first.env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "2"
    resize(world, "a", 3)
    becomes(world, pod, 3232)
    again = world.kubelet.run(pod, "main")
    assert again.env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "3" and again.env["ALIYUN_COM_GPU_MEM_POD"] == "3"
    assert limit(world, pod) == 3232


def test_an_agent_that_was_away_catches_up(world):
    pod, _ = start(world, units=2)
    world.kill_agent()
    resize(world, "a", 5)
    assert limit(world, pod) == 2154
    world.start_agent()
    becomes(world, pod, 5386, 20)    # floor(16160 x 5/15)


def test_older_news_do_not_bring_the_older_size_back(world):
    pod, _ = start(world, units=2)
    resize(world, "a", 3, times=2)
    becomes(world, pod, 3232)
    resize(world, "a", 7, times=1)
    has_read_pods(world)
    assert limit(world, pod) == 3232


@pytest.mark.parametrize("placement", [
    {"resizes": 1, "containers": {"main": [{"uuid": "CARD-1", "units": 9}]}},     # another card
    {"resizes": 1, "containers": {"other": [{"uuid": "CARD-0", "units": 9}]}},    # another container
    {"containers": {"main": [{"uuid": "CARD-0", "units": 9}]}},                   # no resize
    {"resizes": 1, "containers": {"main": [{"uuid": "CARD-0", "units": 0}]}},
    {"resizes": "1", "containers": {"main": [{"uuid": "CARD-0", "units": 9}]}},
])
def test_what_is_no_resize_changes_no_limit(world, placement):
    pod, _ = start(world, units=2)
    text = json.dumps({"unit": 1024} | placement)
    for i in range(2):
        text = text.replace(f"CARD-{i}", world.uuid(i))
    world.api.patch("pods", "a", {"metadata": {"annotations": {"ration.dev/placement": text}}}, "default")
    has_read_pods(world)
    assert limit(world, pod) == 2154


def test_more_than_the_card_has_is_not_given_until_others_have_gone(world):
    """Two schedulers at a change of the leader: one lets a pod grow, the other places one there."""
    pod, _ = start(world, units=5)
    other, _ = start(world, "b", units=9)
    resize(world, "a", 7)
    event = wait_for(lambda: world.api.events("GPUResizeRefused"))[0]
    assert event["involvedObject"]["name"] == "a"
    assert "GPU 0 has 15 units, and its pods would hold 16 with the new size of this one" in event["message"]
    assert limit(world, pod) == 5386
    resize(world, "a", 2, times=2)
    becomes(world, pod, 2154)
    resize(world, "a", 8, times=3)
    wait_for(lambda: len(world.api.events("GPUResizeRefused")) == 2)
    world.api.set_phase("b", "Succeeded")
    world.kubelet.end(other)
    world.kubelet.remove(other)
    world.api.delete("pods", "b")
    becomes(world, pod, 8618, 5)    # floor(16160 x 8/15)


def test_before_another_pod_gets_what_was_given_back_the_limit_is_lower(world):
    """The watch lags: the agent asks because the card would be over its total, and learns of the resize so."""
    pod, _ = start(world, units=10)
    world.api.silence(True)
    resize(world, "a", 5)
    other = world.pod("b", 10, card=0)
    time.sleep(0.3)
    assert limit(world, pod) == 10773
    world.kubelet.admit(other)
    world.kubelet.run(other, "main")
    assert limit(world, pod) == 5386
    world.api.silence(False)


def test_a_pod_that_is_placed_where_another_has_grown_does_not_start(world):
    start(world, units=5)
    resize(world, "a", 11)
    has_read_pods(world)
    other = world.pod("b", 5, card=0)
    with pytest.raises(AdmissionError, match="its pods would hold 16"):
        world.kubelet.admit(other)


def test_what_lives_on_after_a_force_delete_is_told_with_the_new_size(world):
    pod, _ = start(world, units=2)
    resize(world, "a", 6)
    becomes(world, pod, 6464)
    record = world.state / "pods" / f"{uid_of(pod)}.json"
    wait_for(lambda: units_of(world, record.read_text()) == 6)


@pytest.mark.parametrize("units, mib, recorded_first", [(6, 6464, True), (2, 2154, False)])
def test_the_record_never_tells_less_than_what_the_container_has(world, units, mib, recorded_first):
    """A new agent believes the record. The write of the record waits here, as on a disk that is slow."""
    pod, _ = start(world, units=4)
    has_read_pods(world)
    record = world.state / "pods" / f"{uid_of(pod)}.json"
    waits = record.with_name(f"{record.name}.tmp-{world.worker()}")
    os.mkfifo(waits)
    resize(world, "a", units)
    if recorded_first:
        time.sleep(0.5)
        assert limit(world, pod) == 4309
    else:
        becomes(world, pod, mib)
    with open(waits, "rb") as reader:
        assert units_of(world, reader.read()) == units
    becomes(world, pod, mib)


def runs(world, pod, *containers):
    """The API server shows them running."""
    world.api.patch("pods", pod["metadata"]["name"], {"status": {"phase": "Running", "containerStatuses": [
        {"name": name, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}} for name in containers]}})
    has_read_pods(world)


def held_units(world):
    text = wait_for(lambda: world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/held"))
    return units_of(world, text)


@pytest.mark.parametrize("how", ["deleted", "failed"])
def test_a_pod_that_shrank_and_was_given_up_at_once_has_what_is_told(world, how):
    """The last news of the pod show the smaller size, which the scheduler counts as given back. Its containers
    run on, as after a deletion by force, or if a node that was thought lost comes back."""
    pod, _ = start(world, units=10)
    runs(world, pod, "main")
    world.api.silence(True)
    resize(world, "a", 4)
    if how == "deleted":
        world.api.delete("pods", "a")
        world.kubelet.remove(pod)
    else:
        world.api.patch("pods", "a", {"status": {"phase": "Failed", "reason": "NodeLost"}})
    world.api.silence(False)
    assert held_units(world) == 4
    assert limit(world, pod) == 4309


def start_two(world):
    """Container a has 2 units, container b 6."""
    pod = world.pod_of("two", {"a": 2, "b": 6}, card=0)
    world.kubelet.admit(pod)
    for name in "ab":
        world.kubelet.run(pod, name)
    runs(world, pod, "a", "b")
    return pod


def resize_two(world, a, b, **beside):
    text = json.dumps({"unit": 1024, "resizes": 1, "containers": {
        name: [{"uuid": world.uuid(0), "units": units}] for name, units in (("a", a), ("b", b))}})
    world.api.patch("pods", "two", {"metadata": {"annotations": {"ration.dev/placement": text}}, **beside}, "default")


def limits(world, pod):
    return [card_of(folder(world, pod, name) / "grant")[3] for name in "ab"]


def test_a_container_gives_back_though_its_pod_has_failed_and_another_one_was_to_grow(world):
    """Resize and failure come in one event. If the agent saw the resize first, it would rightly make container a larger."""
    pod = start_two(world)
    resize_two(world, 3, 2, status={"phase": "Failed", "reason": "NodeLost"})
    assert held_units(world) == 5
    assert limits(world, pod) == [2154, 2154]


def test_a_container_gives_back_though_its_card_has_not_what_another_one_was_to_get(world):
    pod = start_two(world)
    start(world, "other", units=7)
    resize_two(world, 8, 1)
    wait_for(lambda: world.api.events("GPUResizeRefused"))
    assert limits(world, pod) == [2154, 1077]


def test_an_answer_that_comes_late_makes_no_deleted_pod_larger(world):
    """The agent asks for the pod, since its GPU would be over its total. The answer shows a size that the watch has not
    shown, and comes when a new list has told that the pod is gone."""
    pod, _ = start(world, units=4)
    runs(world, pod, "main")
    world.api.silence(True)
    resize(world, "a", 9)
    other = world.pod("b", 12, card=0)
    with world.answered_late("a", other, 3) as admission:
        world.api.delete("pods", "a")
        world.kubelet.remove(pod)
        world.api.expire()
        time.sleep(0.2)    # no open watch has the old events in its hands any more
        world.api.silence(False)
        assert held_units(world) == 4 and not admission.done()
    time.sleep(0.5)
    assert limit(world, pod) == 4309


def test_a_kubelet_and_an_agent_that_have_lost_their_records_still_lower_a_limit(world):
    """What counts is the grant that the container has. Found by the simulation."""
    pod, _ = start(world, units=7)
    world.kill_agent()
    world.kubelet.checkpoint.write_text("{}")
    world.start_agent()
    wait_for(lambda: world.api.watches("nodes", "pods") >= 2, 10)
    resize(world, "a", 2)
    becomes(world, pod, 2154, 5)


def rewrite_as(grant, version, readable_from):
    """The grant as an agent of another version had written it, with a word more in reserved bytes."""
    data = bytearray(grant.read_bytes())
    struct.pack_into("<I", data, 8, version)
    struct.pack_into("<I", data, 28, readable_from)
    data[2520 + 112:2520 + 120] = b"later on"
    constant = 2520 + grants.CARDS_MAX * 256
    struct.pack_into("<Q", data, 16, grants.fnv1a(bytes(data[:16] + data[24:constant])))
    with open(grant, "r+b") as file:
        file.write(data)


def test_after_a_rollback_grants_of_the_newer_agent_are_kept_and_changed(world):
    pod, _ = start(world, units=2)
    grant = folder(world, pod) / "grant"
    world.kill_agent()
    rewrite_as(grant, version=2, readable_from=1)
    constant = grant.read_bytes()[:18904]
    world.start_agent()
    wait_for(lambda: world.api.watches("nodes", "pods") >= 2, 10)
    resize(world, "a", 3)
    becomes(world, pod, 3232, 5)
    assert grant.read_bytes()[:18904] == constant
    assert not world.api.events("GPUGrantDamaged")


def test_a_grant_that_older_agents_would_misread_is_reported_and_left_to_its_container(world):
    pod, _ = start(world, units=2)
    grant = folder(world, pod) / "grant"
    world.kill_agent()
    rewrite_as(grant, version=2, readable_from=2)
    before = grant.read_bytes()
    world.start_agent()
    event = wait_for(lambda: world.api.events("GPUGrantDamaged"), 10)[0]
    assert "by a newer version of ration, which this one cannot read" in event["message"]
    resize(world, "a", 3)
    world.kubelet.wait_devices(30)
    has_read_pods(world)
    assert grant.read_bytes() == before
