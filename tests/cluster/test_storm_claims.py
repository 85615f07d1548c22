"""Pods with ResourceClaims of all shapes in waves while everything is killed in turn: no GPU is over its total by the claims or by
the containers that run, each container has exactly what is allocated to its claim, no claim has two grants, and nothing is left
at the end. kube-scheduler allocates a GPU again as soon as the Pod object is gone, which a deletion with a grace period of 0
makes earlier than the container: the agent then waits with the next claim."""
import os

import pytest

from storm import is_over
from stormclaims import ClaimStorm, kill_controller_manager, kill_every_kube_scheduler
from stormwaves import kill_agent_supervisor, kill_agent_worker, kill_api_server, kill_kubelet, nothing

pytestmark = [pytest.mark.storm, pytest.mark.long(250)]

NODES = ["storm-d.192.168.22.1=4x10240MiB,dra", "storm-e.192.168.22.2=2x16160MiB+2x8192MiB,dra"]
PODS = 300 if os.environ.get("RATION_FULL") else 80
FAULTS = [nothing, kill_every_kube_scheduler, kill_controller_manager, kill_agent_worker, kill_agent_supervisor, kill_kubelet, kill_api_server]


@pytest.fixture
def storm(lab, seed):
    made = ClaimStorm(lab(NODES, fresh=True), seed)
    yield made
    made.end()


def wave(storm, fault, count):
    """The kill meets pods that come and pods that go."""
    before = storm.running()
    storm.create(count // 2)
    storm.delete(0.2)
    fault(storm)
    storm.create(count - count // 2)
    storm.settle(150, f"settled after {fault.__name__}")
    assert not storm.disturbed(before), f"{fault.__name__} disturbed {storm.disturbed(before)}"
    storm.delete(0.4)


def test_claims_are_held_to_what_is_allocated_while_everything_is_killed(storm):
    for fault in FAULTS:
        wave(storm, fault, PODS // len(FAULTS))
    storm.delete(1)
    storm.cluster.wait_for(storm.is_clean, 120, "the end of all claims, grants and CDI files")
    failed = [p["metadata"]["name"] for p in storm.watch.seen.values() if is_over(p) and p["metadata"]["uid"] not in storm.deleted]
    most = {uuid: f"{mib} of {storm.watch.total[uuid]}" for uuid, mib in storm.machine.most.items()}
    print(f"\n{storm.made} shapes, {len(storm.deleted)} pods deleted, {storm.claims.events} states of claims, {storm.machine.snapshots} "
          f"snapshots, {len(storm.machine.checked)} containers compared; of {storm.shares} claims for two pods {len(storm.machine.shared)} "
          f"were seen with both, {storm.forgotten} pods were deleted since the kubelet had forgotten their claim; most MiB that lived on a GPU: {most}; load {os.getloadavg()[0]:.1f}")
    assert not failed
    assert len(storm.machine.checked) >= storm.made // 3 and storm.machine.shared
