"""Pods of all shapes in waves while everything is killed in turn: never on a wrong card, never over a card, what runs
goes on running, what fits does not wait. `./check full` has 300 pods on share nodes and on isolated ones. `./check` has
both kinds of nodes and ten pods for each fault; half of the faults have their turn, as for the long tests by the commit."""
import os
import statistics

import pytest

from cluster import wait_for
from storm import is_over, replayed
from stormwaves import FAULTS, MODES, NODES, Storm, releases_in_quiet

pytestmark = pytest.mark.storm

PODS = 300 if os.environ.get("RATION_FULL") else 70
PART = os.environ.get("RATION_LONG")


def faults_of_this_run():
    half = int(PART.partition("/")[0]) % 2 if PART else None
    return [fault for i, fault in enumerate(FAULTS) if fault.__name__ == "nothing" or half in (None, i % 2)]


def wave(storm, fault, count):
    """Creates, kills in the middle, creates the rest, deletes; returns the pods that a kubelet rejected."""
    rejected, before = {p["metadata"]["uid"] for p in storm.watch.rejected()}, storm.running()
    storm.create(count // 2)
    fault(storm)
    storm.create(count - count // 2)
    storm.look()
    storm.settle(150, f"settled after {fault.__name__}")
    assert not storm.disturbed(before), f"{fault.__name__} disturbed {storm.disturbed(before)}"
    new = [p for p in storm.watch.rejected() if p["metadata"]["uid"] not in rejected]
    wait_for(storm.books.are_right, 40, "every ledger equals the API server's truth")
    storm.delete(0.5)
    return new


@pytest.fixture(params=["share", "cgpu"] if os.environ.get("RATION_FULL") else ["mixed"])
def storm(lab, request, seed):
    nodes = [node.format(mode) for node, mode in zip(NODES, MODES[request.param])]
    made = Storm(lab(nodes, fresh=True), seed)
    yield made
    made.end()


def test_nothing_is_ever_on_a_wrong_card_or_over_it(storm):
    storm.create_job()
    storm.create_job()
    rejected, count = {}, PODS // len(FAULTS)
    for fault in faults_of_this_run():
        rejected[fault.__name__] = wave(storm, fault, count)
    releases_in_quiet(storm, 5 if os.environ.get("RATION_FULL") else 2)
    for name, parallelism in storm.jobs:    # every rejected pod of a Job has a successor that runs, or that waits
        alive = [p for p in storm.mine() if p["metadata"].get("labels", {}).get("job-name") == name and not is_over(p)]
        assert len(alive) == parallelism, (name, len(alive))
    storm.look()
    assert bool(storm.machine.grants) == ("cgpu" in storm.modes)
    waits = storm.watch.waits
    print(f"\n{storm.made} pods, {len(storm.deleted)} deleted, {storm.watch.events} states of pods, "
          f"{storm.machine.snapshots} snapshots, {len(storm.machine.checked)} containers compared, "
          f"{storm.machine.grants} of them with a grant; rejected by a kubelet: "
          f"{ {name: len(pods) for name, pods in rejected.items()} }; {len(waits)} waits of a pod that fits, median "
          f"{statistics.median(waits):.2f} s, longest {storm.watch.longest_wait[0]:.2f} s; longest time of a pod "
          f"that is over in a ledger {storm.books.longest:.2f} s; load {os.getloadavg()[0]:.1f}")
    print(replayed(storm.cluster))
    assert len(storm.machine.checked) >= storm.made // 3    # the storm has looked at what it promised
    assert not rejected["nothing"]
    # A kubelet that starts rejects what it admits before the agent has registered (devicemanager/manager.go, 1.36.3). That is won by
    # milliseconds on a machine of our own; beside another storm, with sixty threads that want a processor, it may be lost.
    early = [p["status"].get("message", "") for p in rejected.get("kill_kubelet", [])]
    assert not (os.environ.get("RATION_FULL") and early) and all("no healthy devices present" in text for text in early), early
    # Two seconds are promised of a machine of our own; the short form runs where strangers share the processors.
    assert not os.environ.get("RATION_FULL") or storm.books.longest <= 2
    # Some pod has waited, maybe for less than the time between two looks at it: 0.0 s.
    longest, waited = storm.watch.longest_wait
    assert waited and longest <= (2 if os.environ.get("RATION_FULL") else 5), storm.watch.longest_wait
