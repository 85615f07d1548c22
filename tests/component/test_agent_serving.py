"""What ration-agent tells the scheduler about itself: ration.dev/serving and the node's Lease."""
import datetime
import os
import signal
import time

import pytest

from agent_fixture import NODE, World, wait_for
from fake_apiserver import FOREVER
from fake_kubelet import AdmissionError

LEASE = "ration-agent-n1"


def serving(world):
    return world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/serving")


def lease(world):
    found = [o for o in world.api.list("leases") if o["metadata"]["name"] == LEASE]
    return found[0] if found else None


def age(lease_):
    at = datetime.datetime.strptime(lease_["spec"]["renewTime"], "%Y-%m-%dT%H:%M:%S.%fZ")
    return (datetime.datetime.utcnow() - at).total_seconds()


# ---- planned exit ----

def test_agent_that_is_asked_to_go_says_so_and_serves_what_is_on_its_way(world):
    wait_for(lambda: serving(world) is None)
    late = world.pod("late", 3, card=1)
    begin = time.monotonic()
    world.agent.send_signal(signal.SIGTERM)
    wait_for(lambda: serving(world) == "false")
    told = time.monotonic() - begin
    time.sleep(1)
    world.kubelet.admit(late)
    assert world.kubelet.run(late, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"
    assert world.agent.wait(5) == 0
    print(f"\nSIGTERM to serving=false: {told * 1000:.1f} ms, to the end: {time.monotonic() - begin:.2f} s")
    assert 2 <= time.monotonic() - begin < 4
    assert not (world.kubelet.plugin_dir / "ration-gpu-mem.sock").exists()
    with pytest.raises(AdmissionError):
        world.kubelet.admit(world.pod("too-late", 3, card=1))


def test_next_agent_takes_the_word_back_once_the_kubelet_has_its_devices(world):
    world.stop_agent(patient=True)
    assert serving(world) == "false"
    world.kubelet.stop()
    world.start_agent()
    world.has_read_node()
    assert serving(world) == "false"    # no kubelet has the devices yet
    world.kubelet.start()
    world.kubelet.wait_devices(32)
    wait_for(lambda: serving(world) is None)


def test_second_signal_ends_it_at_once(world):
    world.agent.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    begin = time.monotonic()
    world.agent.send_signal(signal.SIGTERM)
    assert world.agent.wait(5) == 0 and time.monotonic() - begin < 1.5    # without it, 2 s


def test_planned_exit_does_not_wait_for_an_api_server_that_is_away(world):
    world.api.inject("PATCH", r"/nodes/n1$", times=FOREVER, hang=True)
    begin = time.monotonic()
    world.agent.send_signal(signal.SIGTERM)
    assert world.agent.wait(8) == 0 and time.monotonic() - begin < 5


def test_worker_killed_during_the_planned_exit_ends_it(world):
    world.agent.send_signal(signal.SIGTERM)
    wait_for(lambda: serving(world) == "false")
    world.kill_worker()
    assert world.agent.wait(2) == 0


def no_worker(world):
    """Its workers die one after the other: the next one waits for a second."""
    time.sleep(1.1)
    for _ in range(6):
        old = wait_for(world.worker)
        world.kill_worker(signal.SIGABRT)
        wait_for(lambda: world.worker() != old)
    assert world.worker() is None


def test_agent_without_a_worker_says_that_it_goes(world):
    wait_for(lambda: serving(world) is None)
    no_worker(world)
    begin = time.monotonic()
    world.agent.send_signal(signal.SIGTERM)
    assert world.agent.wait(5) == 0 and time.monotonic() - begin < 1
    assert serving(world) == "false" and "while no worker lives" in world.logged()


def test_agent_without_a_worker_does_not_wait_for_an_api_server_that_is_away(world):
    no_worker(world)
    world.api.inject("PATCH", r"/nodes/n1$", times=FOREVER, hang=True)
    begin = time.monotonic()
    world.agent.send_signal(signal.SIGTERM)
    assert world.agent.wait(8) == 0 and time.monotonic() - begin < 4


def test_worker_that_dies_before_it_can_say_that_it_goes_has_it_said(world):
    wait_for(lambda: any("share" in f.read_text() for f in world.state.glob("*.json")))    # it is remembered
    os.kill(world.worker(), signal.SIGSTOP)
    world.agent.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    world.kill_worker()
    assert world.agent.wait(5) == 0
    assert serving(world) == "false"


SLOW = r"""
#include <dlfcn.h>
#include <unistd.h>
/* The driver's own, after a while: the agent has looked about by then and its cards come between two ticks. */
int nvmlDeviceGetCount_v2(unsigned *count)
{
	int (*next)(unsigned *) = dlsym(RTLD_NEXT, "nvmlDeviceGetCount_v2");
	usleep(600000);
	return next(count);
}
"""


def test_cards_are_remembered_before_the_kubelet_has_their_units():
    """Else nobody says that an agent goes whose first worker dies before its next tick."""
    with World() as w:
        w.change_driver(SLOW)
        w.up(32)
        w.kill_worker(signal.SIGSTOP)
        w.agent.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        w.kill_worker()
        assert w.agent.wait(5) == 0
        assert serving(w) == "false"


def test_second_signal_ends_an_agent_whose_worker_is_stuck_without_a_word(world):
    os.kill(world.worker(), signal.SIGSTOP)
    world.agent.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    world.agent.send_signal(signal.SIGTERM)
    world.kill_worker()
    world.statuses = {1}    # its worker did not end as it should
    assert world.agent.wait(2) == 1
    assert serving(world) is None


def test_agent_that_only_waits_for_another_one_to_end_says_nothing(world):
    first = world.agent
    wait_for(lambda: serving(world) is None)
    world.start_agent()
    wait_for(lambda: "another ration-agent" in world.logged())
    world.agent.send_signal(signal.SIGTERM)
    assert world.agent.wait(5) == 0
    assert serving(world) is None
    world.agent = first


def test_idle_agent_without_a_worker_has_nothing_to_say():
    with World(labels={}) as w:
        w.kubelet.start()
        w.start_agent()
        wait_for(lambda: w.api.watches("nodes", "pods") >= 2)
        no_worker(w)
        w.agent.send_signal(signal.SIGTERM)
        assert w.agent.wait(5) == 0
        assert serving(w) is None


def test_idle_agent_goes_at_once():
    with World(labels={}) as w:
        w.kubelet.start()
        w.start_agent()
        wait_for(lambda: w.api.watches("nodes", "pods") >= 2)
        begin = time.monotonic()
        w.agent.send_signal(signal.SIGTERM)
        assert w.agent.wait(5) == 0 and time.monotonic() - begin < 1
        assert serving(w) is None


# ---- the Lease ----

def test_node_has_a_lease_that_belongs_to_it(world):
    it = wait_for(lambda: lease(world))
    assert it["metadata"]["namespace"] == "kube-system"
    assert it["metadata"]["labels"] == {"ration.dev/lease": "agent"}
    assert it["spec"]["holderIdentity"] == NODE and it["spec"]["leaseDurationSeconds"] == 40
    owner = it["metadata"]["ownerReferences"][0]
    assert (owner["apiVersion"], owner["kind"], owner["name"]) == ("v1", "Node", NODE)
    assert owner["uid"] == world.api.node(NODE)["metadata"]["uid"]
    assert -1 < age(it) < 10


@pytest.mark.waits
def test_lease_is_renewed_every_10_s(world):
    first = wait_for(lambda: lease(world))["spec"]["renewTime"]
    begin = time.monotonic()
    wait_for(lambda: lease(world)["spec"]["renewTime"] != first, timeout=13)
    assert time.monotonic() - begin < 12


def test_lease_that_was_deleted_comes_back_and_refusals_disturb_nobody(world):
    wait_for(lambda: lease(world))
    world.api.inject("PATCH", r"/leases/", times=1, status=403)
    world.api.delete("leases", LEASE, namespace="kube-system")
    world.kill_worker()    # the next one renews at its start
    wait_for(lambda: lease(world), timeout=8)
    pod = world.pod("a", 3, card=1)
    world.kubelet.admit(pod)
    assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"


def test_node_without_gpus_to_share_has_no_lease():
    with World(labels={}) as w:
        w.kubelet.start()
        w.start_agent()
        w.has_read_node()
        assert lease(w) is None
