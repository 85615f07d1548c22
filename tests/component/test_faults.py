"""Cards that somebody has declared faulty, by the ConfigMaps <node>-device-status and unhealthy-gpu-<node>, and cards
that the driver finds sick: what the node says of them, what the kubelet is told, and what stays as it is."""
import contextlib
import json
import time

import pytest

from agent_fixture import NODE, World
from fake_apiserver import wait_for

STATUS, GPUS = f"{NODE}-device-status", f"unhealthy-gpu-{NODE}"


def faulty(*ids):
    return "".join(f"- deviceId: {i}\n  deviceType: gpu\n  healthy: false\n" for i in ids)


class Node(World):
    """Two cards of 16 units."""

    def declare(self, name, text, key=None, **more):
        """The ConfigMap of this name says so now; text None: it is gone."""
        with contextlib.suppress(Exception):
            self.api.delete("configmaps", name, "kube-system")
        if text is not None:
            key = key or ("devices" if name == STATUS else "gpus")
            self.api.create("configmaps", {"metadata": {"name": name, "namespace": "kube-system", **more},
                                           "data": {key: text}})

    def health(self):
        return [c["healthy"] for c in self.cards()]

    def reasons(self):
        return [c.get("reason") for c in self.cards()]

    def becomes(self, *health, timeout=15):
        wait_for(lambda: self.health() == list(health), timeout, f"{health}, not {self.health()}")

    def refusals(self):
        return sorted(e["message"] for e in self.api.events("GPUFaultListRefused"))


@pytest.fixture
def node():
    with Node() as w:
        yield w.up(32)


def test_card_in_the_device_status_takes_no_pods_and_is_back_when_the_list_is_gone(node):
    running = node.pod("a", 3, card=1)
    node.kubelet.admit(running)
    node.kubelet.run(running, "main")
    node.declare(STATUS, faulty(1))
    node.becomes(True, False)
    node.kubelet.wait_devices(13, "Unhealthy")    # 16 less what the pod has: a kubelet that restarts would fail it
    ids = node.kubelet.given[running["metadata"]["uid"], "main"]
    assert all(node.kubelet.devices[i] == "Healthy" for i in ids)
    assert node.reasons() == [None, f"declared faulty by ConfigMap kube-system/{STATUS}"]
    wait_for(lambda: [e for e in node.api.events("GPUUnhealthy") if f"GPU 1 ({node.uuid(1)})" in e["message"]])
    node.declare(STATUS, None)
    began = time.monotonic()
    node.becomes(True, True)
    node.kubelet.wait_devices(32)
    assert time.monotonic() - began < 5 and not node.refusals()


def test_node_whose_cards_are_all_sick_says_so_until_one_is_well(node):
    node.declare(GPUS, "1")
    node.becomes(True, False)
    node.sim("fault", 0, "xid", 79)
    said = wait_for(node.condition, 15)
    first, why = f"GPU 0 ({node.uuid(0)})", f"declared faulty by ConfigMap kube-system/{GPUS}"
    assert said["message"] == f"no new pods, since no GPU is healthy; {first}: Xid 79"
    assert (said["status"], said["reason"]) == ("True", "GPUUnhealthy")

    def problem():    # another PATCH than the condition's
        return node.api.node(NODE)["metadata"]["annotations"].get("ration.dev/problem")
    wait_for(lambda: problem() == said["message"])
    # Each card has an Event, and pods that run are not touched.
    wait_for(lambda: {m.split(" is ")[0] for m in (e["message"] for e in node.api.events("GPUUnhealthy"))} == {
        first, f"GPU 1 ({node.uuid(1)})"})
    assert node.reasons()[1] == why
    node.declare(GPUS, None)
    wait_for(lambda: node.condition()["status"] == "False", 15)
    assert node.condition()["reason"] == "NoProblem"
    wait_for(lambda: problem() is None)


def test_cards_are_named_by_index_or_uuid_in_either_list(node):
    node.declare(STATUS, faulty(node.uuid(0)))
    node.becomes(False, True)
    node.declare(STATUS, faulty('"1"'))
    node.becomes(True, False)
    node.declare(GPUS, f"{node.uuid(0)}")
    node.becomes(False, False)
    node.declare(STATUS, "[]")
    node.becomes(False, True)
    node.declare(GPUS, "1")
    node.becomes(True, False)
    node.declare(GPUS, "")
    node.becomes(True, True)
    assert not node.refusals()


@pytest.mark.parametrize("name, text, why", [
    (STATUS, "- {deviceId: 0, deviceType: gpu, healthy: nope}", "entry 1: healthy is neither true nor false"),
    (STATUS, "deviceId: 0", "it is not a list"),
    (STATUS, "- {", "no valid YAML"),
    (STATUS, faulty(0, 0), "entry 2 is about the same GPU"),
    (STATUS, "#" * 70000, "longer than 65536 bytes"),
    (GPUS, "zero", 'this node has no GPU zero'),
    (GPUS, "0,,1", "nothing between two commas"),
    (GPUS, "0,0", "GPU 0 is there twice"),
    (GPUS, "0 1", '"0 1" is neither'),
    (GPUS, "0," * 40000 + "1", "longer than 65536 bytes"),
])
def test_malformed_list_is_told_once_and_makes_no_card_sick(node, name, text, why):
    node.declare(name, text)
    wait_for(node.refusals)
    node.api.patch("configmaps", name, {"metadata": {"labels": {"again": "yes"}}}, "kube-system")
    other = GPUS if name == STATUS else STATUS
    node.declare(other, "- {later")
    wait_for(lambda: any(f"ConfigMap kube-system/{other}, " in text for text in node.refusals()), what="that of a later list")
    assert node.health() == [True, True]
    (told,) = (text for text in node.refusals() if f"ConfigMap kube-system/{other}, " not in text)
    assert f"ConfigMap kube-system/{name}, data." in told and why in told and "is ignored" in told


def test_wrong_key_is_told_and_an_entry_for_a_card_that_is_not_there_leaves_the_others(node):
    node.declare(STATUS, faulty(0), key="device")
    wait_for(lambda: [t for t in node.refusals() if "data.devices: there is no such key" in t])
    assert node.health() == [True, True]
    node.declare(STATUS, faulty(7, 1))
    node.becomes(True, False)
    wait_for(lambda: [t for t in node.refusals() if "this node has no GPU 7" in t])


def test_spoilt_list_leaves_what_it_said_before(node):
    node.declare(GPUS, "1")
    node.becomes(True, False)
    node.api.patch("configmaps", GPUS, {"data": {"gpus": "1;0"}}, "kube-system")
    wait_for(lambda: [t for t in node.refusals() if "what it said before stays in force" in t])
    assert node.health() == [True, False]
    node.api.patch("configmaps", GPUS, {"data": {"gpus": "0"}}, "kube-system")
    node.becomes(False, True)


def test_what_is_noted_of_a_cordoned_card_follows_the_card(node):
    uuid = node.uuid(1)
    node.declare(GPUS, "0", annotations={
        "ration.dev/cordoned": '{"gpus":"0","cards":{"0":{"uuid":"%s","reason":"fan, ticket 7"}}}' % uuid})
    node.becomes(True, False)    # it was 0 when that was written
    assert node.reasons() == [None, "cordoned: fan, ticket 7"]


@pytest.mark.waits
@pytest.mark.parametrize("reboot", [False, True])
def test_agent_that_starts_never_says_that_a_declared_card_is_well(node, reboot):
    node.declare(STATUS, faulty(1))
    node.becomes(True, False)
    node.kill_agent()
    if reboot:
        (node.state / "agent-state.json").unlink()
    slow = node.api.inject(path="configmaps", method="GET", times=1 << 30, delay=2)
    seen = len(node.api.requests_for("PATCH", f"nodes/{NODE}$"))
    node.api.patch("nodes", NODE, {"metadata": {"annotations": {"ration.dev/unit": "1"}}})    # to be repaired
    node.start_agent()
    wait_for(lambda: node.api.node(NODE)["metadata"]["annotations"].get("ration.dev/unit") == "1024", 20)
    slow.times = 0
    for request in node.api.requests_for("PATCH", f"nodes/{NODE}$")[seen:]:
        said = json.loads(request.body["metadata"].get("annotations", {}).get("ration.dev/gpus") or "[]")
        assert [card["healthy"] for card in said] in ([], [True, False])
    assert node.health() == [True, False]


def test_list_that_was_corrected_while_the_agent_was_away_counts(node):
    node.declare(STATUS, faulty(0, 1))
    node.becomes(False, False)
    node.kill_agent()
    node.declare(STATUS, faulty(0))
    node.start_agent()
    node.becomes(False, True)


def test_card_that_is_declared_faulty_and_sick_needs_both_to_end(node):
    node.declare(GPUS, "1")
    node.becomes(True, False)
    node.sim("fault", 1, "xid", 79)
    wait_for(lambda: node.reasons() == [None, "Xid 79"], 15)
    node.declare(GPUS, None)
    node.declare(STATUS, faulty(0))
    node.becomes(False, False)
    node.declare(STATUS, None)
    node.becomes(True, False)
    node.sim("fault", 1, "heal")
    node.becomes(True, True, timeout=20)


def test_agent_that_may_not_read_the_lists_goes_on_without_them_and_says_so():
    with Node(options=["--no-fault-lists"]) as w:
        w.up(32)
        w.declare(STATUS, faulty(0))
        w.has_read_node()
        assert w.health() == [True, True]
        assert not [r for r in w.api.requests if STATUS in str(r.query)]


def test_hundred_rewrites_of_a_bad_list_are_few_events(node):
    for i in range(100):
        node.declare(GPUS, f"bad {i}")
    wait_for(lambda: "bad 99" in node.logged())
    time.sleep(1)
    assert 1 <= len(node.refusals()) <= 10 and node.health() == [True, True]
