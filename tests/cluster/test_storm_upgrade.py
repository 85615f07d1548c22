"""A rolling upgrade while pods come and go: the charts go from the version before to this one and back, each alone and
both, with and without something killed in the middle. What is true in any storm (test_storm.py) is true here, and no kubelet
rejects a pod, except one that was killed: an agent that is replaced tells the scheduler before it goes."""
import concurrent.futures
import os
import time

import pytest

from cluster import wait_for
from releases import steps, version_before, versions
from storm import GPU_MEM, is_over, replayed
from stormwaves import MODES, NODES, Storm, kill_agent_worker, kill_kubelet, kill_process, nothing, releases_in_quiet

pytestmark = [pytest.mark.storm, pytest.mark.long(250)]

KEPT, PACE_S = 45, 0.7    # so many pods, of which one goes as one comes: the cards are nearly full, and some wait
EARLY = "no healthy devices present"    # as a kubelet says it that was started before the device plugin
# In the order of steps(): each of them expects what the one before has left.
WAVES = [("agent", nothing), ("scheduler", nothing), ("agent-back", nothing), ("scheduler-back", nothing), ("both", nothing),
         ("both-back", kill_process("ration-scheduler")), ("both", kill_agent_worker),
         ("both-back", kill_process("kube-scheduler")), ("both", kill_kubelet)]


@pytest.fixture
def storm(lab, seed):
    cluster = lab([node.format(mode) for node, mode in zip(NODES, MODES["mixed"])])
    with version_before(cluster):
        made = Storm(cluster, seed)
        yield made
        made.end()


def come_and_go(storm, seen):
    storm.create(1)
    storm.delete(1 / KEPT)
    storm.look()
    seen.update(storm.running())
    time.sleep(PACE_S)


def upgrade(storm, work, fault):
    """Pods come and go for as long as helm and the rollout take; returns {container: pod} of all that were seen."""
    seen, kill_at = storm.running(), time.monotonic() + storm.rng.uniform(2, 8)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        done = pool.submit(lambda: (work(), storm.cluster.rolled_out()))
        while not done.done() or kill_at:
            come_and_go(storm, seen)
            if kill_at and time.monotonic() > kill_at:
                fault(storm)
                kill_at = None
        done.result()
    return seen


def refused_again(storm, before):
    """Pods that ran and that their kubelet refused when it was started again, before the node's agent had registered. It
    does so with a pod that it had just started, and with any whose init container asked for devices: that one no longer
    runs, so the kubelet looks for its devices (devicesToAllocate() in devicemanager/manager.go, 1.36.3). `before`: uids of
    the pods that ran before it was killed."""
    with storm.watch.lock:
        ours = [p for p in storm.watch.seen.values() if p["metadata"]["namespace"] == storm.namespace and is_over(p)]
    may_be = [p for p in ours if p["metadata"]["uid"] not in before or GPU_MEM in str(p["spec"].get("initContainers"))]
    return [p for p in may_be if any(event["reason"] == "UnexpectedAdmissionError" and EARLY in event["message"]
                                     for event in storm.cluster.events(p["metadata"]["name"]))]


def wave(storm, step, fault):
    """(what it was, s that it took, uids of the pods that a kubelet rejected)"""
    before, begin, ran = uids(storm.watch.rejected()), time.monotonic(), set(storm.running().values())
    work, tags = steps(storm.cluster)[step]
    seen = upgrade(storm, work, fault)
    took = time.monotonic() - begin
    storm.settle(150, f"settled after {step}")
    assert versions(storm.cluster) == [{tag} for tag in tags], step
    rejected = [p for p in storm.watch.rejected() if p["metadata"]["uid"] not in before]
    # A kubelet that starts rejects what it admits before the agent has registered (test_storm.py), and the node's agent may be
    # between its two versions just then.
    assert not rejected or fault is kill_kubelet and all(
        EARLY in p["status"].get("message", "") for p in rejected), rejected
    if fault is kill_kubelet:
        rejected += refused_again(storm, ran)
    disturbed = storm.disturbed(seen) - {p["metadata"]["name"] for p in rejected}
    assert not disturbed, (step, fault.__name__, [(p["status"], storm.cluster.events(p["metadata"]["name"]))
                                                  for p in storm.watch.seen.values() if p["metadata"]["name"] in disturbed])
    wait_for(storm.books.are_right, 40, "every ledger equals the API server's truth")
    return f"{step}, {fault.__name__}", round(took), uids(rejected)


def uids(pods):
    return {p["metadata"]["uid"] for p in pods}


def failed(storm, rejected):
    """Pods that have ended although the storm did not delete them. `rejected`: those that a kubelet rejected when it started; they do not count."""
    with storm.watch.lock:
        return [(p["metadata"]["name"], p["status"]) for uid, p in storm.watch.seen.items()
                if is_over(p) and uid not in storm.deleted | rejected and GPU_MEM in str(p["spec"])]


def test_pods_come_and_go_while_each_chart_is_upgraded_and_rolled_back(storm):
    storm.create_job()
    storm.create(KEPT)
    storm.settle(120, "the storm has begun, in the version before")
    waves = [wave(storm, step, fault) for step, fault in WAVES]
    rejected = set().union(*(of_wave for _, _, of_wave in waves))
    releases_in_quiet(storm, 2)
    assert bool(storm.machine.grants)
    print(f"\n{[(what, took, len(of_wave)) for what, took, of_wave in waves]}\n{storm.made} pods, {len(storm.deleted)} deleted, {len(storm.machine.checked)} containers compared, "
          f"{storm.machine.grants} of them with a grant; {len(storm.watch.waits)} waits of a pod that fits, longest "
          f"{storm.watch.longest_wait[0]:.2f} s; longest time of a pod that is over in a ledger {storm.books.longest:.2f} s; "
          f"load {os.getloadavg()[0]:.1f}")
    print(replayed(storm.cluster))
    assert not failed(storm, rejected)
    # As in test_storm.py: two seconds are promised of a machine of our own.
    assert storm.watch.longest_wait[0] <= (2 if os.environ.get("RATION_FULL") else 5), storm.watch.longest_wait
