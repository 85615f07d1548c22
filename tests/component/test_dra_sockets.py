"""The agent's worker is killed while it serves claims: the kubelet's driver stays registered, and calls wait for the next worker."""
import os
import time

import pytest

from agent_fixture import wait_for
from cgpu_node import needs_root
from dra_kubelet import DRA as PACKAGE
from dra_kubelet import Channel, msg
from dra_node import DraWorld, prepared, uid_of

pytestmark = needs_root


@pytest.fixture
def world():
    with DraWorld() as made:
        yield made.up_for_claims()


def files(world):
    """(device, inode, time) of both sockets."""
    told = [os.stat(path) for path in (world.dra.registration_socket(), world.dra.info.endpoint)]
    return [(s.st_dev, s.st_ino, s.st_ctime_ns) for s in told]


def request(claim):
    return msg("NodePrepareResourcesRequest", claims=[msg("Claim", namespace="default", uid=uid_of(claim), name=claim["metadata"]["name"])])


def kill(world):
    """Until the next worker lives, which may not serve yet."""
    before = world.kill_worker()
    return wait_for(lambda: (now := world.worker()) and now != before and now)


def test_a_call_right_after_the_workers_death_waits_for_the_next_worker(world):
    claims = [world.claim(f"c{i}", {"memory": "1Gi"}) for i in range(4)]
    before = files(world)
    with Channel(world.dra.info.endpoint) as channel:
        for claim in claims[:3]:
            kill(world)
            time.sleep(0.2)    # until this client has seen the end of its connection: a call on that is lost
            answer = channel.call(f"{PACKAGE}.DRAPlugin", "NodePrepareResources", request(claim), PACKAGE, "NodePrepareResourcesResponse")
            assert not answer.claims[0].value.error, answer
    kill(world)
    prepared(world, claims[3])    # on a connection of its own
    assert files(world) == before, "the kubelet's plugin watcher sees a driver that goes and comes"


def test_the_next_worker_knows_that_the_driver_is_registered(world):
    """The kubelet does not register it again. A worker that took it for unregistered would publish no slice."""
    kill(world)
    prepared(world, world.claim("c", {"memory": "1Gi"}))
    world.api.delete("resourceslices", world.slice()["metadata"]["name"])
    world.slice()


def test_a_worker_that_does_not_know_the_mode_at_first_goes_on_with_the_sockets(world):
    """It has lost the node's state, and offers nothing to claims before it has read the node."""
    before = files(world)
    (world.state / "agent-state.json").unlink()
    kill(world)
    wait_for(lambda: world.mode() == "dra")
    prepared(world, world.claim("c", {"memory": "1Gi"}))
    world.api.delete("resourceslices", world.slice()["metadata"]["name"])
    world.slice()
    assert files(world) == before


def test_sockets_whose_folder_was_emptied_are_made_anew(world):
    for path in (world.dra.registration_socket(), world.dra.info.endpoint):
        os.unlink(path)
    wait_for(world.dra.registration_socket)
    world.dra.register()
    prepared(world, world.claim("c0", {"memory": "1Gi"}))
    kill(world)
    world.dra.register()    # as the kubelet does, whose watcher has seen a new socket
    prepared(world, world.claim("c1", {"memory": "1Gi"}))


def test_a_node_that_leaves_the_mode_has_no_sockets_and_gets_new_ones(world):
    world.label("share")
    wait_for(lambda: not world.dra.registration_socket())
    world.label("dra")
    world.dra.register()
    prepared(world, world.claim("c", {"memory": "1Gi"}))
    kill(world)
    world.dra.register()
    prepared(world, world.claim("d", {"memory": "1Gi"}))


def test_the_agents_end_removes_the_sockets(world):
    endpoint = world.dra.info.endpoint
    kill(world)
    prepared(world, world.claim("c", {"memory": "1Gi"}))
    world.stop_agent()
    assert not world.dra.registration_socket() and not os.path.exists(endpoint)


def test_many_deaths_cost_the_supervisor_no_descriptor(world):
    def descriptors():
        return sorted(os.readlink(f"/proc/{world.agent.pid}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{world.agent.pid}/fd"))
    before = descriptors()
    for i in range(4):    # more in a row are a crash loop
        kill(world)
        prepared(world, world.claim(f"c{i}", {"memory": "1Gi"}))
    assert descriptors() == before
