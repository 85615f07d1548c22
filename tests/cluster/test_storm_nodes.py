"""Nodes leave and join again, with other GPUs under the same name, while pods come and go. What is true in any storm
(test_storm.py) is true here, and no ledger keeps anything of a machine that is gone. `./check` has two waves, another two each
day, `./check full` all of them twice."""
import os
import random
import time

import pytest

from cluster import wait_for
from storm import is_over, replayed
from stormnodes import KEPT, SPECS, WAVES, NodeStorm
from stormwaves import releases_in_quiet

pytestmark = [pytest.mark.storm, pytest.mark.long(300)]


@pytest.fixture
def storm(lab, seed):
    made = NodeStorm(lab([f"{name}={spec}" for name, spec in SPECS.items()], fresh=True), seed)
    yield made
    made.end()


def chosen(seed):
    rng = random.Random(seed)
    return [wave for _ in range(2) for wave in rng.sample(WAVES, len(WAVES))] if os.environ.get("RATION_FULL") else rng.sample(WAVES, 2)


def wave(storm, change):
    """(what it was, s that it took until everything was settled, pods that a kubelet rejected)"""
    rejected, begin = len(storm.watch.rejected()), time.monotonic()
    seen = storm.while_pods_come_and_go(change(storm))
    storm.settle(150, f"settled after a node {change.__name__}")
    assert not storm.disturbed(seen), f"{change.__name__} disturbed {storm.disturbed(seen)}"
    wait_for(storm.books.are_right, 40, "every ledger equals the API server's truth")
    wait_for(storm.ledgers_have_the_machines_that_are_there, 60, "no ledger has anything of a machine that is gone")
    return change.__name__, round(time.monotonic() - begin), len(storm.watch.rejected()) - rejected


def has_all_pods(storm, name, parallelism):
    """A pod of the Job that was drained ended as it should, and the Job counts it as succeeded."""
    alive = [p for p in storm.mine() if p["metadata"].get("labels", {}).get("job-name") == name and not is_over(p)]
    status = storm.cluster.json("get", "job", name)["status"]
    assert not [c for c in status.get("conditions", []) if c["type"] == "Failed"], (name, status)
    return len(alive) + status.get("succeeded", 0) == parallelism


def test_nodes_leave_and_join_again_while_pods_come_and_go(storm, seed):
    storm.create_job()
    storm.create_job()
    storm.create(KEPT)
    storm.settle(120, "the storm has begun")
    report = [wave(storm, change) for change in chosen(seed)]
    releases_in_quiet(storm, 2)
    # Every pod of a Job that went with its node has a successor as soon as the Job controller creates it: it waits up to some minutes
    # after several failures.
    for name, parallelism in storm.jobs:
        wait_for(lambda name=name, parallelism=parallelism: has_all_pods(storm, name, parallelism), 400,
                 f"each of the {parallelism} pods of Job {name} runs or has succeeded")
    storm.look()
    print(f"\n{report}\n{storm.made} pods, {len(storm.machine.checked)} containers compared, {storm.machine.grants} of them with a "
          f"grant, {storm.machine.lost} without devices because their pod was deleted by force; machines that joined: {storm.joined}, "
          f"containers without a GPU that they started for pods of the machine before: "
          f"{storm.machine.relics}; {len(storm.watch.waits)} waits of a pod that fits, longest "
          f"{storm.watch.longest_wait[0]:.2f} s; longest time of a pod that is over in a ledger {storm.books.longest:.2f} s; "
          f"load {os.getloadavg()[0]:.1f}")
    print(replayed(storm.cluster))
    assert storm.machine.grants and len(storm.machine.checked) >= storm.made // 4
    # As in test_storm.py: two seconds are promised of a machine of our own.
    assert storm.watch.longest_wait[0] <= (2 if os.environ.get("RATION_FULL") else 5), storm.watch.longest_wait
