"""Programs in containers that use a ResourceClaim: which claim and which pod their memory counts against. Real programs with the real shim
on the simulated driver."""
import re
import time

import pytest

from agent_fixture import wait_for
from cgpu_node import needs_root, uid_of
from dra_node import DraWorld, prepared
from isolated import MIB
from obeying import CONTEXT_SCRIPT, OBEY

pytestmark = needs_root


@pytest.fixture
def world():
    with DraWorld() as w:
        yield w.up_for_claims()


def test_memory_of_programs_counts_against_the_claim_of_their_container(world):
    pod = world.pod_with("a", "slice")
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[pod])
    container = world.run(pod, "main", prepared(world, claim))
    program = world.program(pod, container, """
        ok(cu.cuInit(0))
        ctx = context()
        say(free_bytes())
        pointer = c_uint64()
        say(cu.cuMemAlloc_v2(byref(pointer), c_size_t(3 << 30)))
        wait()
        """)
    assert int(program.reads()) == (3072 - 312) * MIB    # without its context, of a V100
    assert int(program.reads()) == 2
    event = wait_for(lambda: world.api.events("GPUMemoryRefused"))[0]
    assert event["involvedObject"]["name"] == "a" and "its limit on GPU 0 is 3072 MiB" in event["message"]
    assert event["message"].startswith("ResourceClaim slice was refused GPU memory")
    time.sleep(6)
    assert not world.api.events("GPUWithoutGrant")


@pytest.mark.waits
def test_of_two_pods_on_a_claim_the_one_that_takes_memory_past_the_limit_is_reported_and_evicted():
    """The other one, which came first, has only what it may have. Its one process holds more than each of the three that take too much."""
    with DraWorld(options=("--on-bypass=evict",)) as w:
        w.up_for_claims()
        pods = [w.pod_with(name, "slice", phase="Running") for name in ("first", "second")]
        claim = w.claim("slice", {"memory": "2Gi"}, pods=pods)
        answer = prepared(w, claim)
        containers = [w.run(pod, "main", answer) for pod in pods]
        w.program(pods[0], containers[0], CONTEXT_SCRIPT, "alloc(1000 * MiB)", OBEY).reads()
        for _ in range(3):
            w.program(pods[1], containers[1], CONTEXT_SCRIPT, "alloc(800 * MiB)", OBEY, shim=False).reads()
        event, = wait_for(lambda: w.api.events("GPUOverLimit"), 20)
        assert event["involvedObject"]["name"] == "second"
        assert re.match(r"ResourceClaim slice uses \d+ MiB of GPU 0 \(GPU-.*over its limit of 2048 MiB", event["message"])
        wait_for(lambda: w.api.requests_for("POST", "pods/second/eviction$"), 20)
        assert not w.api.requests_for("POST", "pods/first/eviction$")
        wait_for(lambda: f"the pod with uid {uid_of(pods[1])} is evicted" in w.logged())
