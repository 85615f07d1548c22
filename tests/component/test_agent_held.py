"""Pods deleted by force while their containers run on: the node's annotation ration.dev/held, until they have ended."""
import json
import time

import pytest

from agent_fixture import NODE, wait_for
from cgpu_node import new_watches, uid_of
from fake_apiserver import FOREVER
from fake_kubelet import StartError


def held(world):
    text = world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/held")
    return json.loads(text) if text else None


def run(world, name, units=3, card=1):
    """A pod whose container runs and is shown so."""
    pod = world.pod(name, units, card=card)
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "main")
    world.api.patch("pods", name, {"status": {"phase": "Running", "containerStatuses": [
        {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}})
    return pod


def cdi_file(world, pod):
    return world.kubelet.cdi_dir / f"ration-{uid_of(pod)}.json"


def delete_by_force(world, pod):
    world.api.delete("pods", pod["metadata"]["name"])
    world.kubelet.remove(pod)    # the kubelet forgets it at once, its containers run on


def test_pod_deleted_by_force_is_held_until_its_container_has_ended(world):
    pod = run(world, "stubborn")
    delete_by_force(world, pod)
    it = wait_for(lambda: held(world), timeout=2)
    assert it["pods"] == [{"uid": uid_of(pod), "namespace": "default", "name": "stubborn",
                           "cards": {world.uuid(1): {"units": 3, "core": 0}}}]
    assert it["ended"] == [] and cdi_file(world, pod).exists()
    first = it["at"]
    world.kubelet.end(pod)
    it = wait_for(lambda: (h := held(world))["ended"] and h, timeout=2)
    assert it["ended"] == [uid_of(pod)] and it["pods"] == [] and it["at"] > first
    wait_for(lambda: not cdi_file(world, pod).exists())


@pytest.mark.waits    # the agent asks 10 s after the kubelet has named the pod
def test_pods_that_the_watch_never_showed_are_asked_for_and_those_that_are_gone_are_held(world):
    """The kubelet was faster than the watch, and the pods went before the watch showed them."""
    world.api.silence(True)
    pods = {name: run(world, name, units=2) for name in ("there", "failing", "torn", "gone", "moved", "again")}
    world.api.inject("GET", r"/pods/failing$", status=500)
    world.api.inject("GET", r"/pods/torn$", status=200, body="{")
    for name in ("gone", "moved", "again"):
        delete_by_force(world, pods[name])
    world.api.create_pod("moved", gpu_mem=2, node="n2")
    again = world.api.create_pod("again", gpu_mem=2, node=NODE)
    assert uid_of(again) != uid_of(pods["again"])
    world.api.clear_requests()
    for name in pods:
        wait_for(lambda name=name: any(r.status for r in world.api.requests_for("GET", f"/pods/{name}$")), timeout=25)
    left = {uid_of(pods[name]) for name in ("gone", "moved", "again")}
    wait_for(lambda: held(world) and {p["uid"] for p in held(world)["pods"]} == left)
    for name in ("gone", "moved", "again"):
        world.kubelet.end(pods[name])
    wait_for(lambda: set(held(world)["ended"]) == left)
    for name, pod in pods.items():
        wait_for(lambda pod=pod, stays=uid_of(pod) not in left: cdi_file(world, pod).exists() == stays, what=name)


def test_container_that_has_ended_in_a_sandbox_that_is_ready_may_come_again(world):
    pod = run(world, "crashing")
    delete_by_force(world, pod)
    world.kubelet.end(pod, sandbox=False)
    wait_for(lambda: held(world) and held(world)["pods"], timeout=2)
    world.kubelet.end(pod)
    wait_for(lambda: held(world)["ended"] == [uid_of(pod)], timeout=2)


def test_pod_that_pod_gc_fails_and_deletes_is_held_while_its_container_runs(world):
    """As for a node that was away: phase Failed by PodGC, while the statuses are the kubelet's last ones."""
    pod = run(world, "a")
    world.api.set_phase("a", "Failed")
    delete_by_force(world, pod)
    assert wait_for(lambda: held(world), timeout=2)["pods"][0]["uid"] == uid_of(pod)
    world.kubelet.end(pod)
    wait_for(lambda: held(world)["ended"] == [uid_of(pod)], timeout=2)


def test_pod_deleted_before_the_kubelet_told_its_status_is_held_while_its_container_runs(world):
    pod = world.pod("a", 3, card=1)
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "main")
    delete_by_force(world, pod)
    assert wait_for(lambda: held(world), timeout=2)["pods"][0]["uid"] == uid_of(pod)


def test_pod_deleted_by_force_while_its_container_is_started_again_is_held(world):
    """The kubelet shows such a container as terminated until it has looked at it again, in a pod that is Running."""
    pod = run(world, "crashed")
    world.api.patch("pods", "crashed", {"status": {"phase": "Running", "containerStatuses": [
        {"name": "main", "state": {"terminated": {"exitCode": 1}}}]}})
    delete_by_force(world, pod)
    it = wait_for(lambda: held(world), timeout=2)
    assert [p["name"] for p in it["pods"]] == ["crashed"]
    world.kubelet.end(pod)
    wait_for(lambda: held(world)["ended"] == [uid_of(pod)], timeout=2)


def test_pod_that_waits_for_room_waits_after_a_restart_of_the_agent_too(world):
    """Two schedulers have given more than a GPU has, and the kubelet, which was restarted, did not list the first pod when it
    asked for the second."""
    first = run(world, "first", units=10)
    world.kubelet.remove(first)
    second = world.pod("second", 8, card=1)
    world.kubelet.admit(second)
    with pytest.raises(StartError, match="the pods that have started there leave too little"):
        world.kubelet.run(second, "main")
    world.api.clear_requests()
    world.kill_worker()
    wait_for(lambda: new_watches(world))
    with pytest.raises(StartError, match="the pods that have started there leave too little"):
        world.kubelet.run(second, "main")
    world.kubelet.end(first)
    world.api.patch("pods", "first", {"status": {"phase": "Succeeded", "containerStatuses": [
        {"name": "main", "state": {"terminated": {"exitCode": 0}}}]}})
    wait_for(lambda: starts(world, second))


def test_pod_that_has_ended_does_not_come_back_with_a_late_answer(world):
    """The agent asks for the first pod, since its GPU would be over its total. The answer shows it running, and comes after the
    watch has shown its end. The first pod is not deleted, so that nothing shows it again."""
    first = run(world, "first", units=10)
    second = world.pod("second", 10, card=1)
    with world.answered_late("first", second, 2):
        world.kubelet.end(first)
        world.api.patch("pods", "first", {"status": {"phase": "Succeeded", "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": 0}}}]}})
    for pod in (first, second):
        world.kubelet.remove(pod)
    world.api.delete("pods", "second")
    third = world.pod("third", 10, card=1)
    world.kubelet.admit(third)
    wait_for(lambda: starts(world, third), 5)


def test_pod_of_a_record_is_held_also_if_its_files_are_found_before_the_agent_has_read_everything(world):
    """The files of pods that are over are looked for 5 s after the start. The list of ConfigMaps comes later."""
    pod = run(world, "stubborn")
    world.kill_agent()
    delete_by_force(world, pod)
    away = world.api.inject("GET", "/configmaps", times=FOREVER, status=500)
    world.start_agent()
    time.sleep(7)
    away.times = 0
    assert [p["uid"] for p in wait_for(lambda: held(world))["pods"]] == [uid_of(pod)]


def test_pod_that_has_ended_gets_no_files_when_another_one_starts_with_its_ids(world):
    first = run(world, "first", units=3)
    world.kubelet.end(first)
    world.api.patch("pods", "first", {"status": {"phase": "Succeeded", "containerStatuses": [
        {"name": "main", "state": {"terminated": {"exitCode": 0}}}]}})
    ids = world.kubelet.given[uid_of(first), "main"]
    world.kubelet.remove(first)
    second = world.pod("second", 3, card=1)
    world.kubelet.admit(second)
    assert world.kubelet.given[uid_of(second), "main"] == ids
    cdi_file(world, first).unlink(missing_ok=True)
    world.kubelet.run(second, "main")
    assert not cdi_file(world, first).exists()


def starts(world, pod):
    try:
        return world.kubelet.run(pod, "main")
    except StartError:
        return None


def test_pod_deleted_in_order_costs_no_write(world):
    pod = run(world, "a")
    world.api.patch("pods", "a", {"status": {"phase": "Succeeded", "containerStatuses": [
        {"name": "main", "state": {"terminated": {"exitCode": 0}}}]}})
    world.kubelet.end(pod)
    world.api.delete("pods", "a")
    delete_by_force(world, run(world, "stubborn"))
    assert [p["name"] for p in wait_for(lambda: held(world))["pods"]] == ["stubborn"] and held(world)["ended"] == []


@pytest.mark.parametrize("in_the_gap", [True, False], ids=["in the gap", "just after it"])
def test_pod_deleted_in_order_around_a_gap_of_the_watches_is_named_as_ended(world, in_the_gap):
    """The scheduler lists anew too, without the pods that have ended: it cannot know that this one has."""
    pod = run(world, "a")
    world.api.patch("pods", "a", {"status": {"phase": "Succeeded", "containerStatuses": [
        {"name": "main", "state": {"terminated": {"exitCode": 0}}}]}})
    world.kubelet.end(pod)
    time.sleep(0.3)
    lists = len(world.api.requests_for("GET", "/api/v1/pods$"))
    away = world.api.inject("GET", "/api/v1/pods$", times=-1, status=503)
    world.api.expire()
    wait_for(lambda: len(world.api.requests_for("GET", "/api/v1/pods$")) > lists)
    if in_the_gap:
        world.api.delete("pods", "a")
    away.times = 0
    wait_for(lambda: any(r.status == 200 for r in world.api.requests_for("GET", "/api/v1/pods$")[lists:]))
    if not in_the_gap:
        time.sleep(0.5)
        world.api.delete("pods", "a")
    it = wait_for(lambda: held(world), timeout=5)
    assert it["pods"] == [] and it["ended"] == [uid_of(pod)]


def test_pod_whose_end_was_not_told_is_named_as_ended_at_once(world):
    pod = run(world, "a")
    world.kubelet.end(pod)
    world.api.delete("pods", "a")
    it = wait_for(lambda: held(world), timeout=2)
    assert it["pods"] == [] and it["ended"] == [uid_of(pod)]


def test_two_containers_and_init_containers_hold_what_the_pod_occupies(world):
    pod = world.pod_of("many", {"m1": 3, "m2": 2}, init={"i1": 7}, card=0)
    world.kubelet.admit(pod)
    for name in ("i1", "m1", "m2"):
        world.kubelet.run(pod, name)
    world.api.patch("pods", "many", {"status": {"containerStatuses": [{"name": "m1", "state": {"running": {}}}]}})
    delete_by_force(world, pod)
    it = wait_for(lambda: held(world))
    assert it["pods"][0]["cards"] == {world.uuid(0): {"units": 7, "core": 0}} and it["pods"][0]["containers"] == 2
    world.kill_worker()
    wait_for(lambda: held(world)["at"] > it["at"])
    assert held(world)["pods"] == it["pods"]


def test_death_of_the_worker_forgets_nothing(world):
    pod = run(world, "stubborn")
    delete_by_force(world, pod)
    wait_for(lambda: held(world))
    at = held(world)["at"]
    world.kill_worker()
    wait_for(lambda: held(world)["at"] > at)
    assert [p["uid"] for p in held(world)["pods"]] == [uid_of(pod)]
    world.kubelet.end(pod)
    wait_for(lambda: held(world)["ended"] == [uid_of(pod)])


def test_pod_deleted_by_force_while_the_agent_was_away_is_found(world):
    pod, ended = run(world, "stubborn"), run(world, "ended", card=0)
    world.kill_agent()
    delete_by_force(world, pod)
    delete_by_force(world, ended)
    world.kubelet.end(ended)
    world.start_agent()
    it = wait_for(lambda: held(world))
    assert [p["uid"] for p in it["pods"]] == [uid_of(pod)] and it["ended"] == [uid_of(ended)]
    assert it["pods"][0]["cards"] == {world.uuid(1): {"units": 3, "core": 0}}


def test_lost_state_is_made_up_for_by_the_annotation(world):
    import shutil
    pod = run(world, "stubborn")
    delete_by_force(world, pod)
    wait_for(lambda: held(world))
    world.kill_agent()
    shutil.rmtree(world.state)
    at = held(world)["at"]
    world.start_agent()
    wait_for(lambda: held(world)["at"] > at)
    assert [p["uid"] for p in held(world)["pods"]] == [uid_of(pod)]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"at":1}', "x" * 100000], ids=range(5))
def test_annotation_and_records_that_make_no_sense_are_replaced(world, text):
    world.kill_agent()
    (world.state / "pods").mkdir(parents=True, exist_ok=True)
    (world.state / "pods" / "torn.json").write_text(text)
    world.api.patch("nodes", NODE, {"metadata": {"annotations": {"ration.dev/held": text}}})
    world.start_agent()
    wait_for(lambda: "ration.dev/held" not in world.api.node(NODE)["metadata"]["annotations"] or not text)
    wait_for(lambda: not (world.state / "pods" / "torn.json").exists())


def test_container_that_a_kubelet_created_before_it_died_holds_nothing(world):
    """No kubelet starts what another one has created. It removes it a minute later; the pod had another container, which has ended."""
    pod = run(world, "struck")
    key = uid_of(pod), "main"
    world.kubelet.containers[key], world.kubelet.created_at[key] = 0, time.time_ns()
    world.kubelet.sandboxes.discard(uid_of(pod))
    delete_by_force(world, pod)
    assert [p["name"] for p in wait_for(lambda: held(world), timeout=2)["pods"]] == ["struck"]    # this kubelet may start it
    world.kubelet.restart()
    wait_for(lambda: held(world)["ended"] == [uid_of(pod)] and not held(world)["pods"], timeout=3)
    assert not cdi_file(world, pod).exists()


def test_container_that_this_kubelet_created_may_be_started_and_holds_its_card(world):
    world.kubelet.restart()
    pod = run(world, "slow")
    key = uid_of(pod), "main"
    world.kubelet.containers[key], world.kubelet.created_at[key] = 0, time.time_ns()
    world.kubelet.sandboxes.discard(uid_of(pod))
    delete_by_force(world, pod)
    wait_for(lambda: held(world) and held(world)["pods"])
    looked = len(world.api.requests_for("PATCH", r"/nodes/n1$"))
    world.kubelet.containers[key] = 1
    time.sleep(1)
    assert held(world)["pods"] and held(world)["ended"] == [] and len(world.api.requests_for("PATCH", r"/nodes/n1$")) == looked
    world.kubelet.end(pod)
    wait_for(lambda: held(world)["ended"] == [uid_of(pod)])


def test_runtime_that_is_away_is_asked_again_and_nothing_is_said_before(world):
    pod = run(world, "stubborn")
    world.kubelet.cri_server.stop(0).wait()
    delete_by_force(world, pod)
    wait_for(lambda: "cannot ask the container runtime" in world.logged())
    assert held(world) is None
    world.kubelet.start_runtime()
    wait_for(lambda: held(world) and held(world)["pods"])


def test_runtime_that_refuses_to_answer_is_asked_again_by_the_same_worker(world):
    pod, worker = run(world, "stubborn"), world.worker()
    world.kubelet.cri_refusals = 3
    delete_by_force(world, pod)
    wait_for(lambda: held(world) and held(world)["pods"])
    assert world.kubelet.cri_refusals == 0 and world.worker() == worker


def test_write_that_fails_is_repeated(world):
    pod = run(world, "stubborn")
    fault = world.api.inject("PATCH", r"/nodes/n1$", times=FOREVER, status=503)
    delete_by_force(world, pod)
    wait_for(lambda: any(r.status == 503 for r in world.api.requests_for("PATCH", r"/nodes/n1$")))
    fault.times = 0
    wait_for(lambda: held(world) and held(world)["pods"])


def test_thirty_pods_deleted_at_once_are_all_named_in_few_writes(world):
    pods = [run(world, f"p{i}", 1, card=i % 2) for i in range(32)]
    for pod in pods:
        delete_by_force(world, pod)
    wait_for(lambda: held(world) and len(held(world)["pods"]) == 32)
    for pod in pods:
        world.kubelet.end(pod)
    wait_for(lambda: len(held(world)["ended"]) == 32)
    assert len(world.api.requests_for("PATCH", r"/nodes/n1$")) < 40


def starts(world, pod):
    try:
        return world.kubelet.run(pod, "main")
    except StartError:
        return None


def sentences(world, reason):
    return [e["message"] for e in world.api.events(reason)]


def bound_beside(world, units):
    """A pod on the card of one that was deleted by force; the kubelet has admitted it."""
    pod = world.pod("new", units, card=1)
    world.kubelet.admit(pod)
    return pod


def test_pod_waits_until_the_containers_of_a_deleted_pod_have_ended_and_starts_then(world):
    """12 and 6 of 16 units. The scheduler has given up the old pod's units: it heard nothing of the node for too long."""
    old = run(world, "old", 12)
    delete_by_force(world, old)
    new = bound_beside(world, 6)     # an error of Allocate would fail the pod for good
    for _ in range(2):
        with pytest.raises(StartError) as refused:
            world.kubelet.run(new, "main")
        for part in ("pod default/new waits", world.uuid(1), f"pod default/old (uid {uid_of(old)})"):
            assert part in str(refused.value)
    assert not cdi_file(world, new).exists()     # a kubelet that has just started asks nobody
    assert world.api.get("pods", "new")["metadata"]["annotations"].get("ALIYUN_COM_GPU_MEM_ASSIGNED") != "true"
    wait_for(lambda: sentences(world, "GPUStillInUse") == [str(refused.value)])
    world.kubelet.end(old)
    assert wait_for(lambda: starts(world, new)).env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "6"


def test_pod_that_fits_beside_the_containers_of_a_deleted_pod_does_not_wait(world):
    delete_by_force(world, run(world, "old", 12))
    assert starts(world, bound_beside(world, 4))
    assert sentences(world, "GPUStillInUse") == []


def test_container_that_ran_beside_the_deleted_pod_starts_again_though_a_new_pod_waits(world):
    beside = run(world, "beside", 4)
    old = run(world, "old", 10)
    delete_by_force(world, old)
    new = bound_beside(world, 10)
    assert not starts(world, new)
    assert starts(world, beside)
    world.kubelet.end(old)
    assert wait_for(lambda: starts(world, new))


@pytest.mark.waits
@pytest.mark.parametrize("killed", ["worker", "agent"])
def test_pod_waits_for_the_containers_of_a_deleted_pod_over_the_death_of_the_agent(world, killed):
    old = run(world, "old", 12)
    if killed == "agent":
        world.kill_agent()
    delete_by_force(world, old)
    registered = len(world.kubelet.registrations)
    if killed == "agent":
        world.start_agent()
        wait_for(lambda: len(world.kubelet.registrations) > registered)
        world.kubelet.wait_devices(32)
    else:
        world.kill_worker()
    new = bound_beside(world, 6)
    for _ in range(3):    # each for as long as the agent lets a kubelet wait
        assert not starts(world, new)
    world.kubelet.end(old)
    assert wait_for(lambda: starts(world, new))


def test_pod_waits_for_the_containers_of_a_pod_that_pod_gc_made_failed(world):
    """PodGC makes a pod of a node that was away Failed before it deletes it; the kubelet then ends its containers."""
    old = run(world, "old", 12)
    world.api.set_phase("old", "Failed")
    world.kubelet.remove(old)
    time.sleep(0.2)
    new = bound_beside(world, 6)
    assert not starts(world, new)
    assert [p["name"] for p in wait_for(lambda: held(world))["pods"]] == ["old"]
    world.kubelet.end(old)
    assert wait_for(lambda: starts(world, new))
    assert wait_for(lambda: held(world)["ended"] == [uid_of(old)])


def test_pod_waits_for_the_containers_of_a_pod_that_a_kubelet_without_its_record_rejected(world):
    """The kubelet has lost its record of devices, starts anew and rejects the pod, whose status then names no container (kubelet.go
    rejectPod(), 1.36.3). What runs of it ends later. That the agent gave the devices has not reached the API server."""
    old = run(world, "old", 12)
    wait_for(lambda: world.api.get("pods", "old")["metadata"]["annotations"].get("ALIYUN_COM_GPU_MEM_ASSIGNED") == "true")
    world.api.patch("pods", "old", {"metadata": {"annotations": {"ALIYUN_COM_GPU_MEM_ASSIGNED": "false"}}})
    world.kubelet.checkpoint.unlink()
    world.kubelet.restart_with([])
    world.kill_worker()    # what it knew of the devices goes with the kubelet's record
    world.kubelet.wait_devices(32)
    world.api.patch("pods", "old", {"status": {"phase": "Failed", "containerStatuses": None}})
    world.kubelet.remove(old)
    new = bound_beside(world, 6)
    assert not starts(world, new)
    world.kubelet.end(old)
    assert wait_for(lambda: starts(world, new))


def test_pod_waits_for_the_containers_of_a_pod_that_only_a_question_shows_failed(world):
    """The watch is behind. The agent asks for the pod since it and the new one have more than the GPU together."""
    old = run(world, "old", 12)
    world.api.silence(True)
    world.api.patch("pods", "old", {"status": {"phase": "Failed", "containerStatuses": None}})
    world.api.clear_requests()
    new = bound_beside(world, 6)
    assert not starts(world, new)
    assert world.api.requests_for("GET", "/pods/old$")
    world.kubelet.end(old)
    assert wait_for(lambda: starts(world, new))


def test_pod_is_remembered_when_its_container_starts(world):
    """Allocate may have taken the call for one of another pod, and recorded that one."""
    old = world.pod("old", 12, card=1)
    world.kubelet.admit(old)
    (world.state / "pods" / f"{uid_of(old)}.json").unlink()
    world.kubelet.run(old, "main")
    world.kill_agent()
    delete_by_force(world, old)
    registered = len(world.kubelet.registrations)
    world.start_agent()
    wait_for(lambda: len(world.kubelet.registrations) > registered)
    world.kubelet.wait_devices(32)
    assert not starts(world, bound_beside(world, 6))


def test_runtime_that_does_not_answer_makes_the_new_pod_wait(world):
    old = run(world, "old", 12)
    world.kubelet.cri_server.stop(0).wait()
    delete_by_force(world, old)
    new = bound_beside(world, 6)
    wait_for(lambda: "cannot ask the container runtime" in world.logged())
    assert not starts(world, new)
    world.kubelet.end(old)
    world.kubelet.start_runtime()
    assert wait_for(lambda: starts(world, new))


@pytest.mark.parametrize("text", [None, "{=", '{"at":"x","pods":[],"ended":[]}'], ids=["removed", "malformed", "emptied"])
def test_annotation_that_somebody_changes_is_restored(world, text):
    delete_by_force(world, run(world, "stubborn"))
    it = wait_for(lambda: held(world) and held(world)["pods"] and held(world))
    time.sleep(1.2)
    world.api.patch("nodes", NODE, {"metadata": {"annotations": {"ration.dev/held": text}}})
    wait_for(lambda: world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/held") == json.dumps(
        it, separators=(",", ":")), timeout=5)


def test_annotation_that_somebody_invents_is_removed(world):
    time.sleep(0.5)
    world.api.patch("nodes", NODE, {"metadata": {"annotations": {"ration.dev/held": "{="}}})
    wait_for(lambda: "ration.dev/held" not in world.api.node(NODE)["metadata"]["annotations"], timeout=5)


def written_since(world, n):
    """What the Node object had after each write of the agent, from its n-th request on: names of annotations -> values."""
    has = {}
    for request in world.api.requests_for("PATCH", f"/nodes/{NODE}$")[n:]:
        if request.status == 200:
            has |= request.body["metadata"].get("annotations", {})
            yield {name: value for name, value in has.items() if value is not None}


@pytest.mark.parametrize("when", ["at rest", "just written", "refused", "open"])
def test_node_object_that_is_made_anew_never_shows_gpus_without_what_is_held(world, when):
    """The Node object is away when another orphan is noted: the write of it is refused (404), or is still open when the object
    is there again."""
    first, second = run(world, "stubborn"), run(world, "second", card=0)
    delete_by_force(world, first)
    names = {"stubborn"}
    wait_for(lambda: held(world) and held(world)["pods"])
    if when != "just written":
        time.sleep(1.2)
    writes = len(world.api.requests_for("PATCH", f"/nodes/{NODE}$"))
    world.api.delete("nodes", NODE)
    if when in ("refused", "open"):
        names |= {"second"}
        slow = world.api.inject("PATCH", f"/nodes/{NODE}$", body_has='second', delay=1.5 if when == "open" else 0)
        delete_by_force(world, second)
        wait_for(lambda: slow.times == 0)
    if when == "refused":
        wait_for(lambda: any(r.status == 404 for r in world.api.requests_for("PATCH", f"/nodes/{NODE}$")[writes:]))
    world.api.create_node(NODE, labels={"ack.node.gpu.schedule": "share"})
    shown = wait_for(lambda: next((has for has in written_since(world, writes) if "ration.dev/gpus" in has), None), timeout=10)
    assert {pod["name"] for pod in json.loads(shown.get("ration.dev/held", '{"pods": []}'))["pods"]} == names
    wait_for(lambda: {pod["name"] for pod in held(world)["pods"]} == names, timeout=5)
