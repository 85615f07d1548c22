"""What the storms and the hour of churn look for (tests/cluster/storm.py, gangwatch.py, featurewatch.py, daemonmemory.py) is
found: states that must not be, told by hand, and the nearest that may."""
import ctypes
import json
import pathlib
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from cgpupods import environment    # noqa: E402
from daemonmemory import Usage, leaked_kib    # noqa: E402
from featurewatch import FeatureWatch, Level, Policy    # noqa: E402
from gangwatch import LABEL    # noqa: E402
from storm import GPU_MEM, WHOLE    # noqa: E402

CARDS = {"a": {"a0": 8192, "a1": 8192}, "w": {"w0": 16160, "w1": 16160}}
TIERED = Policy("tiered", {"tier": "t"}, (Level("idc", "a", 2, {"level": "1"}), Level("ecs", "w", None, {"level": "2"})))


@pytest.fixture
def watch():
    return FeatureWatch(None, CARDS, "n", {"w"}, [TIERED], 15)


class Told:
    """Objects as a watch tells them, each a version later."""

    def __init__(self):
        self.version = 0

    def pod(self, name, limits=None, node=None, cards=(), labels=None, leaving=False, phase="Pending"):
        self.version += 1
        shares = [{"uuid": card, "units": int((limits or {}).get(GPU_MEM, 1))} for card in cards]
        placed = {"ration.dev/placement": json.dumps({"unit": 1024, "containers": {"main": shares}})} if cards else {}
        return {"metadata": {"name": name, "uid": name, "namespace": "n", "resourceVersion": str(self.version),
                             "labels": labels or {}, "annotations": placed,
                             **({"deletionTimestamp": "now"} if leaving else {})},
                "spec": {"containers": [{"name": "main", "resources": {"limits": limits or {}}}],
                         **({"nodeName": node} if node else {})},
                "status": {"phase": phase}}


@pytest.fixture
def told():
    return Told()


def gang(least, **labels):
    return {LABEL + "name": "g", LABEL + "min-available": str(least), **labels}


def test_a_whole_card_is_nobody_elses(watch, told):
    watch.take("ADDED", told.pod("one", {WHOLE: "1"}, "w", ["w0"]))
    watch.take("ADDED", told.pod("two", {WHOLE: "1"}, "w", ["w1"]))
    assert not watch.wrong
    watch.take("ADDED", told.pod("three", {WHOLE: "1"}, "w", ["w1"]))
    assert "three" in watch.wrong[0]


@pytest.mark.parametrize("limits, node, cards", [
    ({WHOLE: "1"}, "a", ["a0"]), ({GPU_MEM: "1"}, "w", ["w0"]),    # the node does not give such
    ({WHOLE: "2"}, "w", ["w0"]), ({GPU_MEM: "1"}, "a", ["w0"])])   # too few, and another node's
def test_cards_are_of_a_node_that_gives_such(watch, told, limits, node, cards):
    watch.take("ADDED", told.pod("one", limits, node, cards))
    assert watch.wrong


def test_a_level_has_its_maximum_at_most(watch, told):
    for name in ("one", "two"):
        watch.take("ADDED", told.pod(name, {}, "a", labels={"tier": "t", "level": "1"}))
    assert not watch.wrong
    watch.take("MODIFIED", told.pod("one", {}, "a", labels={"tier": "t", "level": "1"}, leaving=True))
    watch.take("ADDED", told.pod("three", {}, "a", labels={"tier": "t", "level": "1"}))
    assert not watch.wrong and watch.inside["tiered", 0] == 2
    watch.take("ADDED", told.pod("four", {}, "a", labels={"tier": "t", "level": "1"}))
    assert "four is number 3 in level 1" in watch.wrong[0]


def test_who_came_unasked_counts_and_is_not_judged(watch, told):
    watch.open_until = time.monotonic() + 60
    for name in ("one", "two", "three"):
        watch.take("ADDED", told.pod(name, {}, "a", labels={"tier": "t", "level": "1"}))
    watch.take("ADDED", told.pod("late", {GPU_MEM: "1"}, "a", ["a0"], {"tier": "t", "level": "1"}))    # answered before them
    assert not watch.wrong
    watch.unasked = dict.fromkeys(watch.unasked, time.monotonic() - 20)
    watch.take("ADDED", told.pod("later", {GPU_MEM: "1"}, "a", ["a0"], {"tier": "t", "level": "1"}))
    assert "later is number 5 in level 1" in watch.wrong[0]


@pytest.mark.parametrize("labels", [{}, {"level": "1"}])
def test_labels_of_the_level_are_on_its_pods_and_those_of_others_are_not(watch, told, labels):
    watch.take("ADDED", told.pod("one", {WHOLE: "1"}, "w", ["w0"], {"tier": "t", **labels}))
    assert "is in level 2" in watch.wrong[0]


def test_a_gang_is_not_there_in_part_for_long(watch, told):
    for name in ("one", "two", "three"):
        watch.take("ADDED", told.pod(name, {GPU_MEM: "2"}, labels=gang(2)))
    watch.take("MODIFIED", told.pod("one", {GPU_MEM: "2"}, "a", ["a0"], gang(2)))
    watch.killed_at = -100.0
    watch.look_at_gangs()
    assert not watch.wrong and watch.part_since
    watch.part_since["g"] -= 9
    watch.look_at_gangs()
    assert "g is there in part" in watch.wrong[0]
    watch.take("MODIFIED", told.pod("two", {GPU_MEM: "2"}, "a", ["a0"], gang(2)))
    assert not watch.part_since and watch.longest_part[0] > 9


def test_a_gang_that_was_whole_may_lose_members_until_none_is_left(watch, told):
    for name in ("one", "two"):
        watch.take("ADDED", told.pod(name, {GPU_MEM: "2"}, "a", ["a0"], gang(2)))
    watch.take("DELETED", told.pod("one", {GPU_MEM: "2"}, "a", ["a0"], gang(2)))
    assert "g" in watch.whole_since and not watch.part_since
    watch.take("MODIFIED", told.pod("two", {GPU_MEM: "2"}, "a", ["a0"], gang(2), phase="Succeeded"))
    assert "g" not in watch.whole_since and watch.was_whole == {"g"}


def test_a_gang_fits_where_enough_of_it_find_room(watch, told):
    pods = [told.pod(f"m{i}", {GPU_MEM: "5"}, labels=gang(2)) for i in range(3)]
    watch.take("ADDED", pods[0])
    assert not watch.fits(pods[0])    # one of two
    watch.take("ADDED", pods[1])
    assert watch.fits(pods[0])
    watch.take("ADDED", told.pod("other", {GPU_MEM: "4"}, "a", ["a1"]))
    assert not watch.fits(pods[0])


def test_a_gang_is_not_divided_among_levels(watch, told):
    watch.policies = [Policy("tiered", {"tier": "t"}, (Level("idc", "a"), Level("idc", "b")))]
    watch.cards, watch.total = {**CARDS, "b": {"b0": 8192}}, {**watch.total, "b0": 8192}
    for name, node, card in (("one", "a", "a0"), ("two", "b", "b0")):
        assert not watch.wrong
        watch.take("ADDED", told.pod(name, {GPU_MEM: "2"}, node, [card], gang(2, tier="t")))
    watch.look_at_gangs()
    assert not watch.wrong    # Bindings come in any order
    watch.to_judge["g"] -= 9
    watch.look_at_gangs()
    assert "g is divided" in watch.wrong[0]


def test_a_gang_fits_where_one_level_has_room_for_enough_of_it(watch, told):
    pods = [told.pod(f"m{i}", {GPU_MEM: "1"}, labels=gang(2, tier="t")) for i in range(2)]
    for pod in pods:
        watch.take("ADDED", pod)
    assert watch.fits(pods[0])
    watch.take("ADDED", told.pod("one", {}, "a", labels={"tier": "t", "level": "1"}))
    assert not watch.fits(pods[0])    # two more would be three


def test_a_pod_fits_where_its_level_has_room(watch, told):
    waiting = told.pod("waits", {GPU_MEM: "8"}, labels={"tier": "t"})
    watch.take("ADDED", waiting)
    assert watch.fits(waiting)
    watch.take("ADDED", told.pod("one", {GPU_MEM: "1"}, "a", ["a0"], {"tier": "t", "level": "1"}))
    assert watch.fits(waiting)
    watch.take("ADDED", told.pod("two", {}, "a", labels={"tier": "t", "level": "1"}))
    assert not watch.fits(waiting) and not watch.wrong
    watch.take("DELETED", told.pod("two", {}, "a", labels={"tier": "t", "level": "1"}))
    watch.take("ADDED", told.pod("three", {GPU_MEM: "1"}, "a", ["a1"]))
    assert not watch.fits(waiting)


@pytest.mark.parametrize("second, is_whole", [(b"B=2", True), (b"B=", True), (b"B", False)])
def test_an_environment_is_not_taken_while_bash_reads_it(second, is_whole):
    def become():
        """Popen() itself refuses a name without a value."""
        libc.execve(b"/bin/sleep", (ctypes.c_char_p * 3)(b"sleep", b"60", None), (ctypes.c_char_p * 4)(b"A=1", second, b"C=3", None))
    libc = ctypes.CDLL(None)
    with subprocess.Popen(["/bin/false"], preexec_fn=become) as process:
        try:
            proc = pathlib.Path(f"/proc/{process.pid}")
            if is_whole:
                assert environment(proc) == {"A": "1", "B": second.decode()[2:], "C": "3"}
            else:
                with pytest.raises(OSError, match="no value is after 'B'"):
                    environment(proc)
        finally:
            process.kill()


def hour(leak=0, holes=0):
    """Samples of a scheduler, two a minute: its rings fill in 25 minutes, then lose a third; malloc keeps what they had. Each
    quarter of an hour has a sample far above the others. In KiB: leak, in the hour; holes, once, from minute 48 on."""
    samples, most = [], 0
    for i in range(120):
        rings = 60 + 120 * i if i < 50 else 4000 + 100 * (i % 21)
        most = max(most, rings)
        above = 2900 + i * 20 if i % 30 == 20 else i * 37 % 90
        samples.append(Usage(13000 + most + above + leak * i // 120 + (holes if i >= 96 else 0), 14, rings))
    return samples


def test_a_daemon_that_leaks_is_told_from_one_whose_rings_fill():
    assert leaked_kib(hour()) <= 0 and leaked_kib(hour(holes=500)) <= 0
    assert leaked_kib(hour(leak=3000)) > 0
    flat = [Usage(8500, 15, 0)] * 120
    assert leaked_kib(flat) <= 0 and leaked_kib(flat[:80] + [Usage(9000, 15, 0)] * 40) > 0
