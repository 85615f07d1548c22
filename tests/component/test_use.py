"""What the agent remembers of a container's use: its peak, what its limit refused, and memory times time. Real programs with
the real shim on the simulated driver."""
import json
import os
import time

import pytest

from fake_apiserver import wait_for
from isolated import MIB, Node
from metrics_page import agent_page, fetch, use
from obeying import CONTEXT, LIMIT, folder, live, obeying, tell, wait_for_look

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or os.path.exists("/run/ration/grant"),
                                reason="mounts file systems, which needs root")
GRANTED, USED = "ration_container_granted_byte_seconds_total", "ration_container_used_byte_seconds_total"
OOM = 2


@pytest.fixture(name="node")
def _node():
    with Node() as n:
        yield n.up(30)


def start_again(node):
    """After kill_agent()."""
    served = node.logged().count("metrics on port")
    node.start_agent()
    wait_for(lambda: node.logged().count("metrics on port") > served, 20)


def labels(node, owner, pod="a", card=0):
    return {"namespace": "default", "pod": pod, "container": "main", "gpu": str(card), "UUID": node.uuid(card)} | (
        {"owner": owner} if owner is not None else {})


@pytest.fixture(name="shared")
def _shared():
    with Node(labels={"ack.node.gpu.schedule": "share"}) as n:
        yield n.up(30)


def test_a_node_without_isolation_has_the_same_numbers_without_a_limit(shared):
    """The driver's list says it; nothing stands between the program and the driver. 2 of 15 units of 16160 MiB are 2154 MiB."""
    pod, container = shared.start_container()
    other, its_container = shared.start_container("b", 3)
    one, two = (obeying(shared, p, c, shim=False) for p, c in ((pod, container), (other, its_container)))
    assert tell(one, "alloc", 3000 * MIB) == 0     # more than it was granted
    assert tell(two, "alloc", 100 * MIB) == 0
    wait_for(lambda: use(shared) and use(shared)["memory"][15], 10)
    assert tell(one, "free") == 0
    wait_for(lambda: use(shared)["usedBytes"] == CONTEXT and use(shared)["memory"][2], 10)    # 312 / 2154 are 2.3 / 16
    now = use(shared)
    assert (now["peakBytes"], now["limitBytes"], now["refused"], now["wantedBytes"]) == (CONTEXT + 3000 * MIB, LIMIT, 0, 0)
    assert now["container"] == "main" and now["seenSeconds"] >= 2 and "coreShare" not in now
    assert use(shared, "b")["peakBytes"] == CONTEXT + 100 * MIB
    page = agent_page(shared)
    assert page("ration_container_used_bytes", **labels(shared, None)) == CONTEXT
    assert page("ration_container_peak_bytes", **labels(shared, None)) == CONTEXT + 3000 * MIB
    def byte_seconds():
        found = agent_page(shared)
        return [found(name, **labels(shared, "none", "b")) for name in (GRANTED, USED)]
    begun = byte_seconds()
    wait_for(lambda: byte_seconds()[0] > begun[0], 10)
    granted, took = (after - before for after, before in zip(byte_seconds(), begun))
    assert took / granted == pytest.approx((CONTEXT / MIB + 100) / 3232)
    assert not page.labels("ration_container_limit_bytes") and not page.labels("ration_container_refused_total")
    assert page("ration_gpu_used_bytes", gpu="0", UUID=shared.uuid(0), modelName="Tesla V100-SXM2-16GB") == 2 * CONTEXT + 100 * MIB
    shared.api.delete("pods", "b", "default")
    wait_for(lambda: use(shared, "b") is None, 10)
    assert use(shared)["peakBytes"] == CONTEXT + 3000 * MIB
    shared.kill_agent()
    start_again(shared)
    wait_for(lambda: use(shared) and use(shared)["usedBytes"], 20)
    assert use(shared)["peakBytes"] == CONTEXT    # it begins anew


def test_a_pod_that_has_ended_is_not_shown_on_a_node_without_isolation(shared):
    pod, container = shared.start_container()
    one = obeying(shared, pod, container, shim=False)
    wait_for(lambda: use(shared) and use(shared)["usedBytes"], 10)
    shared.api.set_phase("a", "Succeeded")
    wait_for(lambda: use(shared) is None, 10)
    assert one.process.poll() is None and not agent_page(shared).labels("ration_container_used_bytes")


def test_a_process_counts_for_its_own_container_only(shared):
    """Two containers of one pod, and a process that is in no pod."""
    pod = shared.pod_of("a", {"x": 2, "y": 4})
    shared.kubelet.admit(pod)
    containers = {name: shared.kubelet.run(pod, name) for name in ("x", "y")}
    x, y = (obeying(shared, pod, containers[name], shim=False, name=name) for name in ("x", "y"))
    stray = obeying(shared, pod, containers["x"], shim=False, cgroup="/system.slice/x.service")
    for program, mib in ((x, 50), (y, 700), (stray, 1000)):
        assert tell(program, "alloc", mib * MIB) == 0

    def found():
        return {c["container"]: c["usedBytes"] for c in json.loads(fetch(shared, "/use")[1])["containers"]}
    wait_for(lambda: found() == {"x": CONTEXT + 50 * MIB, "y": CONTEXT + 700 * MIB}, 10)


def test_the_peak_stays_when_memory_is_freed_and_when_the_agent_is_killed(node):
    pod, container = node.start_container()
    one = obeying(node, pod, container)
    assert tell(one, "alloc", 1200 * MIB) == 0
    wait_for_look(node, pod)
    assert tell(one, "free") == 0
    assert tell(one, "alloc", 100 * MIB) == 0
    wait_for_look(node, pod)
    now = use(node)
    assert (now["peakBytes"], now["usedBytes"], now["limitBytes"]) == (CONTEXT + 1200 * MIB, CONTEXT + 100 * MIB, LIMIT)
    assert (now["refused"], now["wantedBytes"], now["owner"]) == (0, 0, "")
    wait_for(lambda: use(node)["seenSeconds"] >= 3)
    before, metrics = use(node), agent_page(node)
    node.kill_agent()
    start_again(node)
    wait_for(lambda: use(node) and use(node)["usedBytes"], 20)
    after = use(node)
    assert after["peakBytes"] == before["peakBytes"] and after["seenSeconds"] >= before["seenSeconds"]
    assert sum(after["memory"]) >= sum(before["memory"])
    page = agent_page(node)
    for name in (GRANTED, USED):
        assert page(name, **labels(node, "none")) >= metrics(name, **labels(node, "none")) > 0
    assert page("ration_container_peak_bytes", **labels(node, None)) == CONTEXT + 1200 * MIB


def test_memory_times_time_and_the_histogram_say_how_much_of_the_grant_was_used(node):
    pod, container = node.start_container()
    one = obeying(node, pod, container)
    assert tell(one, "alloc", LIMIT // 2 + 100 * MIB - CONTEXT) == 0
    wait_for_look(node, pod)
    begin, first = time.monotonic(), agent_page(node)
    time.sleep(4)
    last, took = agent_page(node), time.monotonic() - begin
    grown = {name: last(name, **labels(node, "none")) - first(name, **labels(node, "none")) for name in (GRANTED, USED)}
    assert abs(grown[GRANTED] / LIMIT - took) < 1.5
    assert abs(grown[USED] / grown[GRANTED] - (LIMIT // 2 + 100 * MIB) / LIMIT) < 0.02
    # (1077 + 100) / 2154 is between 8/16 and 9/16.
    memory = use(node)["memory"]
    assert memory[8] >= 3 and sum(memory[1:8] + memory[9:]) <= 1


def test_a_container_whose_image_is_pulled_grows_no_older(node):
    """Else a pod that has waited for its image would look as if it had used nothing for a long time."""
    pod, _ = node.start_container()
    wait_for(lambda: (use(node) or {}).get("seenSeconds", 0) >= 1, 10)
    for state, grows in (({"waiting": {"reason": "ImagePullBackOff"}}, False), ({"running": {}}, True)):
        node.api.patch("pods", "a", {"status": {"containerStatuses": [{"name": "main", "state": state}]}})
        wait_for_look(node, pod, 3)
        before, page = use(node), agent_page(node)
        time.sleep(3)
        assert (use(node)["seenSeconds"] >= before["seenSeconds"] + 2) == grows and sum(use(node)["memory"]) <= use(node)["seenSeconds"]
        assert agent_page(node)(GRANTED, **labels(node, "none")) > page(GRANTED, **labels(node, "none"))


def test_what_a_refused_allocation_would_have_needed_is_remembered(node):
    pod, container = node.start_container()
    one = obeying(node, pod, container)
    assert tell(one, "alloc", 1000 * MIB) == 0
    assert tell(one, "alloc", 2000 * MIB) == OOM
    wait_for(lambda: use(node)["wantedBytes"] == CONTEXT + 3000 * MIB, 10)    # known a sample after the number of refusals
    assert use(node)["refused"] == 1
    # The container can write any number into its usage file; no GPU has more than 16160 MiB.
    with open(folder(node, pod) / "usage", "r+b") as usage:
        for offset in (24, 8):    # what was wanted is read when the number of refusals has grown
            usage.seek(128 + offset)
            usage.write(b"\xff" * 8)
            usage.flush()
    wait_for(lambda: use(node)["wantedBytes"] == 16160 * MIB, 10)
    assert use(node)["refused"] == (1 << 63) - 1


def test_owner_of_a_replicaset_of_a_deployment_is_the_deployment(node):
    def start(name, kind, owner, **labels_of_pod):
        metadata = {"labels": labels_of_pod, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u", "controller": True}]}
        made = node.pod(name, 1, card=0)
        node.api.patch("pods", name, {"metadata": metadata})
        node.kubelet.admit(made)
        node.kubelet.run(made, "main")
    start("web-5d8f-x", "ReplicaSet", "web-5d8f", **{"pod-template-hash": "5d8f"})
    start("bare-x", "ReplicaSet", "bare-5d8f", **{"pod-template-hash": "other"})
    start("db-0", "StatefulSet", "db")
    wait_for(lambda: len([label for label in agent_page(node).labels(GRANTED) if label["owner"] != "none"]) == 3, 10)
    owners = {label["pod"]: label["owner"] for label in agent_page(node).labels(USED)}
    assert owners == {"web-5d8f-x": "Deployment/web", "bare-x": "ReplicaSet/bare-5d8f", "db-0": "StatefulSet/db"}


def test_containers_cannot_see_the_record_and_a_damaged_one_begins_anew(node):
    pod, container = node.start_container()
    one = obeying(node, pod, container)
    wait_for_look(node, pod)
    record = folder(node, pod) / "use"
    assert record.stat().st_mode & 0o777 == 0o600
    assert not any(mount["hostPath"].endswith("/use") or mount["hostPath"] == str(record.parent) for mount in container.mounts.values())
    for content in (b"", b"\xff" * 400, record.read_bytes()[:-1]):
        node.kill_agent()
        record.write_bytes(content)
        start_again(node)
        looks = live(node, pod)[1]
        wait_for(lambda looks=looks: live(node, pod)[1] > looks, 20)
        wait_for(lambda: use(node), 10)
        assert use(node)["peakBytes"] == CONTEXT and use(node)["seenSeconds"] <= 10
    one.end()


def test_an_agent_without_room_for_the_record_goes_on(node):
    pod, container = node.start_container()
    one = obeying(node, pod, container)
    wait_for_look(node, pod)
    (folder(node, pod) / "use").unlink()
    node.kill_agent()
    with open(folder(node, pod) / "filler", "wb") as filler:    # what a container can do with its usage file
        with pytest.raises(OSError):
            while True:
                filler.write(b"x" * MIB)
                filler.flush()
    start_again(node)
    assert tell(one, "alloc", 500 * MIB) == 0
    wait_for(lambda: use(node) and use(node)["peakBytes"] == CONTEXT + 500 * MIB, 20)
