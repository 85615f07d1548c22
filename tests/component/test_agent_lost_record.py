"""The kubelet has lost its record of devices (kubelet_internal_checkpoint) while pods run. It starts, asks anew for each
container that does not run, init containers that have ended among them, and says for none which one it means."""
import json
import time

import pytest

from agent_fixture import World, wait_for
from cgpu_node import uid_of
from fake_kubelet import AdmissionError, StartError


@pytest.fixture
def world():
    with World(labels={"ack.node.gpu.schedule": "cgpu"}, run_in_memory=True) as w:
        yield w.up(32)


def statuses(names, state):
    return [{"name": name, "state": {state: {}}} for name in names]


def show(world, pod, running=(), waiting=(), ended=()):
    """What the kubelet last told the API server."""
    inits = [c["name"] for c in pod["spec"].get("initContainers", [])]
    every = statuses(running, "running") + statuses(waiting, "waiting") + statuses(ended, "terminated")
    world.api.patch("pods", pod["metadata"]["name"], {"status": {
        "phase": "Running", "initContainerStatuses": [s for s in every if s["name"] in inits],
        "containerStatuses": [s for s in every if s["name"] not in inits]}})


def start(world, name, card, containers=None, init=None):
    """A pod whose init containers have ended and whose containers run."""
    containers, init = containers or {"main": 3}, {"init": 3} if init is None else init
    pod = world.pod_of(name, containers, init=init, card=card)
    world.kubelet.admit(pod)
    for container in init:
        world.kubelet.run(pod, container)
        world.kubelet.containers[uid_of(pod), container] = 2
    for container in containers:
        world.kubelet.run(pod, container)
    show(world, pod, running=containers, ended=init)
    return pod


def end(world, pod, container):
    world.kubelet.containers[uid_of(pod), container] = 2


def lose_record(world, how):
    if how == "missing":
        world.kubelet.checkpoint.unlink()
    elif how == "no JSON":
        world.kubelet.checkpoint.write_text('{"Data":')
    else:
        world.kubelet.checksum_is_wrong = True


def given_to(world, pod, container):
    """Uid and container whose CDI device the kubelet was answered for this container."""
    name = world.kubelet.answers[uid_of(pod), container].cdi_devices[0].name
    return tuple(name.removeprefix("ration.dev/grant=").rsplit(".", 1))


def grants(world):
    """Their constant parts: rates of computing power change."""
    return {path: path.read_bytes()[:18904] for path in (world.state / "grants").glob("*/*/grant")}


def restart_and_compare(world, pods, asked):
    """All pods stay, and each of the containers that the kubelet asks for gets its own devices. Limits stay."""
    world.kubelet.answers.clear()
    before = grants(world)
    world.kubelet.restart_with(pods)
    assert sorted(world.kubelet.answers) == sorted((uid_of(p), c) for p, c in asked)
    for pod, container in asked:
        assert given_to(world, pod, container) == (uid_of(pod), container)
    assert before and grants(world) == before


LOSSES = pytest.mark.parametrize("how", ["missing", "no JSON", "wrong checksum"])


@LOSSES
@pytest.mark.parametrize("killed", [None, "worker", "agent"])
def test_pods_with_init_containers_of_equal_size_stay_and_a_new_pod_gets_its_own_gpu(world, how, killed):
    pods = [start(world, f"p{i}", card=i % 2) for i in range(4)]
    lose_record(world, how)
    if killed == "agent":
        world.kill_agent()
        world.start_agent()
        wait_for(lambda: world.api.watches("nodes", "pods") >= 2)
        world.kubelet.wait_devices(32)
    elif killed:
        world.kill_worker()
    restart_and_compare(world, pods, [(p, "init") for p in pods])
    new = world.pod_of("new", {"main": 3}, init={"init": 3}, card=1)
    world.kubelet.admit(new)
    assert world.kubelet.run(new, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"
    assert given_to(world, new, "init") == (uid_of(new), "init") and given_to(world, new, "main") == (uid_of(new), "main")


@LOSSES
@pytest.mark.parametrize("list_takes", [0, 0.5, 1.5])
def test_a_new_pod_is_served_by_an_agent_that_was_replaced_after_the_loss(world, how, list_takes):
    """Also if the kubelet is slow: without its list of the pods before this one the agent could not tell them apart."""
    pods = [start(world, f"p{i}", card=i % 2) for i in range(4)]
    lose_record(world, how)
    world.kubelet.restart_with(pods)
    world.kubelet.checksum_is_wrong = False
    world.kill_agent()
    registered = len(world.kubelet.registrations)
    world.kubelet.next_list_takes = list_takes
    world.kubelet.cri_refusals = 10 ** 6    # the container runtime could tell which containers run
    world.start_agent()
    wait_for(lambda: len(world.kubelet.registrations) > registered)
    world.kubelet.wait_devices(32)
    for i in range(2):
        new = world.pod_of(f"new{i}", {"main": 3}, init={"init": 3}, card=i)
        world.kubelet.admit(new)
        assert world.kubelet.run(new, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == str(i)
        assert given_to(world, new, "init") == (uid_of(new), "init")


@pytest.mark.parametrize("refused", [0, 12])
def test_a_new_pod_is_told_from_those_that_a_kubelet_lists_some_time_after_its_start(world, refused):
    """Found in a lab: the kubelet has no pods at first, or does not answer, and then has all pods and the new one within a second."""
    pods = [start(world, f"p{i}", card=i, init={}) for i in range(2)]
    lose_record(world, "missing")
    lists, world.kubelet.exhaust, world.kubelet.pods = world.kubelet.lists, refused, {}
    world.kubelet.restart()
    wait_for(lambda: world.kubelet.lists > lists)
    for pod in pods:
        world.kubelet.list_pod(pod)    # its container runs, and is not asked for
    lists = max(lists + refused, world.kubelet.lists)    # the next one is an answer, and has them
    wait_for(lambda: world.kubelet.lists > lists, 2, "the agent asks again")
    new = world.pod("new", 3, card=1)
    world.kubelet.admit(new)
    assert given_to(world, new, "main") == (uid_of(new), "main")


@LOSSES
def test_containers_that_crashed_are_served_beside_those_that_run(world, how):
    """Of equal sizes, in pods on different GPUs."""
    pods = [start(world, f"p{i}", card=i % 2, containers={"a": 2, "b": 2, "c": 2}, init={}) for i in range(3)]
    for pod, crashed in zip(pods, "bca"):
        end(world, pod, crashed)
        show(world, pod, running=sorted({*"abc"} - {crashed}), waiting=[crashed])
    lose_record(world, how)
    restart_and_compare(world, pods, list(zip(pods, "bca")))


@LOSSES
def test_a_container_that_ended_without_the_api_server_knowing_is_served(world, how):
    """It crashed while the kubelet was away: its status is still that it runs."""
    pods = [start(world, f"p{i}", card=i % 2, containers={"main": 3 + i}, init={}) for i in range(3)]
    end(world, pods[1], "main")
    lose_record(world, how)
    restart_and_compare(world, pods, [(pods[1], "main")])


@LOSSES
def test_of_two_pods_that_may_be_meant_the_container_runtime_says_which_one_crashed(world, how):
    """As before, of equal sizes."""
    pods = [start(world, f"p{i}", card=i % 2, init={}) for i in range(3)]
    end(world, pods[1], "main")
    lose_record(world, how)
    restart_and_compare(world, pods, [(pods[1], "main")])


def test_a_call_that_may_be_of_either_of_two_pods_gives_neither_the_others_gpu(world):
    """As before, and the container runtime does not answer."""
    pods = [start(world, f"p{i}", card=i % 2, init={}) for i in range(3)]
    end(world, pods[1], "main")
    lose_record(world, "missing")
    world.kubelet.answers.clear()
    world.kubelet.cri_refusals = 10 ** 6
    with pytest.raises(AdmissionError, match="the kubelet asks for 3 units, but no pod"):
        world.kubelet.restart_with(pods)
    assert not world.kubelet.answers
    assert "cannot ask the container runtime which pod the kubelet's call is for" in world.logged()
    new = world.pod_of("new", {"main": 3}, card=1)
    world.kubelet.admit(new)
    assert given_to(world, new, "main") == (uid_of(new), "main")


def restart_while_a_pod_is_bound(world):
    """Its name may return. For all that the agent knows, the kubelet may still list the pod before it."""
    new = world.pod("new", 3, card=1)
    world.kubelet.list_pod(new)
    lose_record(world, "missing")
    lists = world.kubelet.lists
    world.kubelet.restart()
    wait_for(lambda: world.kubelet.lists > lists)
    return new


def test_a_new_pod_whose_name_may_return_is_served_beside_pods_that_run(world):
    """Found in a lab: a kubelet that starts admits the pods that it had and a new one within milliseconds."""
    for i in range(2):
        start(world, f"p{i}", card=i, init={})
    new = restart_while_a_pod_is_bound(world)
    world.kubelet.admit(new)
    assert given_to(world, new, "main") == (uid_of(new), "main")
    assert "cannot ask the container runtime" not in world.logged()


@pytest.mark.parametrize("doubt, later", [
    ("the runtime is away", 0), ("just created", 0), ("no kubelet socket", 0),
    pytest.param("just created", 11, marks=pytest.mark.long(13))])    # the agent no longer lists the kubelet's pods by itself
def test_a_new_pod_whose_name_may_return_is_refused_beside_one_that_may_be_meant_and_its_successor_is_served(world, doubt, later):
    """The call may be for p0, which may have ended meanwhile, or may not have run when the kubelet looked."""
    pods = [start(world, f"p{i}", card=i, init={}) for i in range(2)]
    if doubt == "just created":
        world.kubelet.created_at[uid_of(pods[0]), "main"] = time.time_ns() - 10 ** 9
    new = restart_while_a_pod_is_bound(world)
    time.sleep(later)
    if doubt == "the runtime is away":
        world.kubelet.cri_refusals = 10 ** 6
    elif doubt == "no kubelet socket":
        (world.kubelet.plugin_dir / "kubelet.sock").unlink()
    with pytest.raises(AdmissionError, match="default/new and default/p0"):
        world.kubelet.admit(new)
    world.kubelet.cri_refusals = 0

    def make_anew():
        world.api.delete("pods", "new")
        time.sleep(0.3)    # its controller and the scheduler
        again = world.pod("new", 3, card=1)
        try:
            world.kubelet.admit(again)
        except AdmissionError:
            return None
        return again
    again = wait_for(make_anew)
    assert given_to(world, again, "main") == (uid_of(again), "main")


@LOSSES
def test_a_container_that_runs_without_the_api_server_knowing_gets_nobody_elses_call(world, how):
    """It had just started when the kubelet died; the name of such a pod does not come again."""
    pods = []
    for i, name in enumerate(["p-bcdf2", "p-bcdf4", "p-bcdf5"]):
        pods.append(start(world, name, card=i % 2))
        world.api.patch("pods", name, {"metadata": {"generateName": "p-"}})
        show(world, pods[i], waiting=["main"], ended=["init"])
    lose_record(world, how)
    restart_and_compare(world, pods, [(p, "init") for p in pods])


def test_a_card_is_not_given_beyond_its_total_after_a_loss(world):
    """The kubelet takes every unit for free."""
    pods = [start(world, f"p{i}", card=0, containers={"main": 7}, init={"init": 7}) for i in range(2)]
    lose_record(world, "missing")
    restart_and_compare(world, pods, [(p, "init") for p in pods])
    with pytest.raises(AdmissionError, match="its pods would hold 17"):
        world.kubelet.admit(world.pod("new", 3, card=0))


def test_a_new_pod_waits_for_an_orphan_beside_pods_whose_record_is_lost(world):
    """6 and 8 of 16 units run; the pod of 8 is deleted by force, and another pod of 8 comes."""
    beside, old = (start(world, name, card=1, containers={"main": units}, init={}) for name, units in (("beside", 6), ("old", 8)))
    lose_record(world, "missing")
    restart_and_compare(world, [beside, old], [])
    world.api.delete("pods", "old")
    world.kubelet.remove(old)
    new = world.pod("new", 8, card=1)
    world.kubelet.admit(new)
    for _ in range(2):
        with pytest.raises(StartError, match="pod default/old .* was deleted, but its containers still run"):
            world.kubelet.run(new, "main")
    end(world, old, "main")
    world.kubelet.sandboxes.discard(uid_of(old))

    def starts():
        try:
            return world.kubelet.run(new, "main")
        except StartError:
            return None
    assert wait_for(starts)


def test_a_container_that_is_refused_takes_nothing_from_those_of_its_pod_that_run(world):
    """A pod of 3 and 3 units gets 9 by `ration set`, while 8 of 16 units are those of a pod that was deleted by force. A
    container that crashed waits; the one that runs keeps what it has."""
    pod = start(world, "pod", card=1, containers={"a": 3, "b": 3}, init={})
    old = start(world, "old", card=1, containers={"main": 8}, init={})
    end(world, pod, "b")
    show(world, pod, running=["a"], waiting=["b"])
    lose_record(world, "missing")
    restart_and_compare(world, [pod, old], [(pod, "b")])
    world.api.delete("pods", "old")
    world.kubelet.remove(old)
    placement = json.dumps({"unit": 1024, "resizes": 1, "containers": {
        name: [{"uuid": world.uuid(1), "units": units}] for name, units in (("a", 6), ("b", 3))}})
    world.api.patch("pods", "pod", {"metadata": {"annotations": {"ration.dev/placement": placement}}})
    before = grants(world)

    def is_refused():
        try:
            world.kubelet.run(pod, "b")
        except StartError as e:
            return "pod default/old" in str(e)
    wait_for(is_refused)
    assert (world.kubelet.cdi_dir / f"ration-{uid_of(pod)}.json").exists()
    assert {path for path in before if uid_of(pod) in str(path)} <= set(grants(world))
