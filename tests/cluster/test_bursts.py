"""Bursts of pods with something in the middle that no pod of the burst may notice for long: containerd stands still, is killed
or is replaced while the kubelet allocates; the unit of GPU memory changes while the scheduler places. What is true in any storm
(test_storm.py) is true here: placement == environment == devices == grant, and no GPU is above its total."""
import collections
import concurrent.futures
import contextlib
import os
import threading
import time

import pytest

from cluster import is_ready, wait_for
from gpupods import annotation
from relabel import MODES as LABELS, UNITS, Relabel, everything_was_looked_at
from storm import asks, is_leaving, is_over
from stormwaves import MODES, NODES, Storm

pytestmark = pytest.mark.storm

PODS = 24
STOPPED_S = 8    # longer than the kubelet's and the agent's calls usually take


class Burst(Storm):
    def template(self):
        """A container whose start failed with containerd is started again: in the end each pod runs."""
        made = super().template()
        made["spec"]["restartPolicy"] = "Always"
        return made

    def arrivals(self):
        """Pods of each node that are bound and do not run yet."""
        return collections.Counter(p["spec"]["nodeName"] for p in self.mine() if p["spec"].get("nodeName")
                                   and p["status"].get("phase") == "Pending" and not is_leaving(p))


def create_until(storm, over):
    for _ in range(6):
        storm.create(PODS // 6, pace=0.05)
        over.wait(0.5)
    storm.create(PODS // 6)


@contextlib.contextmanager
def burst(storm):
    """Pods are made meanwhile, before and after what is done, and all are there at the end."""
    over = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as one:
        creating = one.submit(create_until, storm, over)
        try:
            yield
        finally:
            over.set()
        creating.result()


def stop(cluster, node):
    pid = cluster.enter(node, "pidof", "containerd").split()[0]
    cluster.enter(node, "kill", "-STOP", pid)
    try:
        time.sleep(STOPPED_S)
    finally:
        cluster.enter(node, "kill", "-CONT", pid)


def kill(cluster, node):
    cluster.lab("restart", "--kill", f"containerd@{node}")


def replace(cluster, node):
    cluster.lab("restart", f"containerd@{node}")


def all_ready(storm):
    late = [p["metadata"]["name"] for p in storm.mine() if p["spec"].get("nodeName") and not is_leaving(p) and not is_ready(p)]
    assert not late, late
    return True


@pytest.fixture(name="storm")
def storm_fixture(lab, seed):
    cluster = lab([node.format(mode) for node, mode in zip(NODES, MODES["mixed"])])
    made = Burst(cluster, seed)
    yield made
    made.end()


@pytest.mark.long(180)
def test_containerd_goes_while_the_kubelet_allocates(storm):
    struck = []
    for fault in (stop, kill, replace, kill):
        before = storm.running()
        with burst(storm):
            node = wait_for(lambda: next((name for name, count in storm.arrivals().most_common(1) if count >= 2), None), 60,
                            "pods are on their way")
            struck.append((fault.__name__, node, storm.arrivals()[node]))
            fault(storm.cluster, node)
        storm.settle(180, f"settled after containerd met {fault.__name__}")
        wait_for(lambda: all_ready(storm), 120, f"every container runs after {fault.__name__}")
        assert not storm.disturbed(before), f"{fault.__name__} disturbed {storm.disturbed(before)}"
        assert not [p["metadata"]["name"] for p in storm.mine() if is_over(p) and not is_leaving(p)]
        wait_for(storm.books.are_right, 40, "every ledger equals the API server's truth")
        storm.delete(0.5)
    assert not storm.watch.rejected() and storm.machine.grants
    print(f"\n{storm.made} pods, {len(storm.machine.checked)} containers compared, {storm.machine.grants} with a grant; pods on "
          f"their way at each fault: {struck}; load {os.getloadavg()[0]:.1f}")


@pytest.fixture(name="relabel")
def relabel_fixture(lab, seed):
    cluster = lab([node.format(mode) for node, mode in zip(NODES, LABELS.values())])
    made = Relabel(cluster, seed)
    made.percentages = 0
    yield made
    made.put_back()
    made.end()


def stamps_of(storm):
    """How many pods count in which unit."""
    return collections.Counter(annotation(p, "ration.dev/unit") for p in storm.mine() if not is_leaving(p))


def delete_all_of_other_units(storm):
    """Those that run hold their nodes in the old unit, and those that wait can go nowhere."""
    for p in storm.mine():
        if asks(p) and not is_leaving(p) and annotation(p, "ration.dev/unit") != str(storm.unit):
            storm.deleted.add(p["metadata"]["uid"])
            storm.api.insist("DELETE", f"/api/v1/namespaces/{storm.namespace}/pods/{p['metadata']['name']}")


def all_count_in_the_unit(storm):
    delete_all_of_other_units(storm)
    return all((mode, unit, any(pending.values())) == (LABELS[name], str(storm.unit), False)
               for name, (mode, unit, pending) in storm.nodes.terms.items())


@pytest.mark.long(120, group="bursts-unit")
def test_unit_changes_while_a_burst_is_scheduled(relabel):
    storm, straddled = relabel, []
    for unit in (512, 128, 256, 1024):
        before = storm.running()
        with burst(storm):
            wait_for(lambda: len(storm.mine()) - len(before) >= PODS // 4, 60, "the burst has begun")
            storm.unit = unit
            storm.helm(gpuMemoryUnit=UNITS[unit])
        storm.check(before)
        # helm has returned before the API server's policy has the new unit.
        wait_for(lambda: str(unit) in stamps_of(storm) or storm.create(2), 60, "pods are made in the new unit")
        assert len(stamps_of(storm)) > 1, f"the burst has pods of one unit only: {stamps_of(storm)}"
        straddled.append(dict(stamps_of(storm)))
        wait_for(lambda: all_count_in_the_unit(storm), 90, f"every node counts in {unit} MiB")
        storm.settle(90, f"what was made in units of {unit} MiB runs")
        wait_for(storm.books.are_right, 40, "every ledger equals the API server's truth")
        storm.delete(0.5)
    storm.patch_node(next(iter(LABELS)), annotations={"storm/step": "end"})
    wait_for(lambda: everything_was_looked_at(storm), 30, "every change and every container was looked at")
    assert not storm.watch.rejected() and len(storm.nodes.changes) >= 4 * len(LABELS)
    print(f"\n{storm.made} pods, by unit after each change {straddled}; {len(storm.nodes.changes)} changes of a node's unit, "
          f"{len(storm.machine.checked)} containers compared, {storm.machine.grants} with a grant; load {os.getloadavg()[0]:.1f}")
