"""Labels, units and policies of nodes change at random while pods come and go: what pods came under stays until the last
one has ended, nothing that runs is disturbed, no card is ever over, and in the end every node is as it is asked to be.
`./check` has 20 changes, `./check full` 100."""
import json
import os
import time

import pytest

from cluster import wait_for
from relabel import MODES, Relabel, everything_was_looked_at
from stormwaves import NODES

pytestmark = [pytest.mark.storm, pytest.mark.long(200)]    # the storm changes no labels, but kills the same programs
SERVED = {"share", "cgpu", "core_mem"}
CHANGES = 100 if os.environ.get("RATION_FULL") else 20


@pytest.fixture
def storm(lab, seed):
    cluster = lab([node.format(mode) for node, mode in zip(NODES, MODES.values())])
    made = Relabel(cluster, seed)
    yield made
    made.put_back()
    made.end()


def test_pods_keep_what_they_came_under_while_everything_is_relabelled(storm):
    begin = time.monotonic()
    storm.create(20)
    for _ in range(CHANGES):
        storm.step()
    storm.end_turn()
    storm.put_back()
    for p in storm.mine():
        storm.deleted.add(p["metadata"]["uid"])
    storm.api.insist("DELETE", f"/api/v1/namespaces/{storm.namespace}/pods")    # those too of which our watch knows nothing yet
    wait_for(storm.is_put_back, 60, "every node is as it is asked to be")
    storm.percentages = 0       # no node is core_mem now
    storm.create(12)
    storm.settle(60, "new pods run")
    wait_for(storm.books.are_right, 40, "every ledger equals the API server's truth")
    storm.patch_node(list(MODES)[0], annotations={"storm/step": "end"})
    wait_for(lambda: everything_was_looked_at(storm), 30, "every change and every container was looked at")
    changes = [(before, after) for _, _, before, after in storm.nodes.changes]
    modes, units = sum(b[0] != a[0] for b, a in changes), sum(b[1] != a[1] and a[0] in SERVED for b, a in changes)
    print(f"\n{json.dumps(storm.done)}, {storm.turns} nodes had to change: {modes} changes of a mode and {units} of a unit "
          f"came into force; {storm.made} pods, {len(storm.machine.checked)} containers compared, {storm.machine.grants} of "
          f"them with a grant, {storm.machine.snapshots} snapshots; rejected by a kubelet: {len(storm.watch.rejected())}; "
          f"{time.monotonic() - begin:.0f} s; load {os.getloadavg()[0]:.1f}")
    assert not storm.watch.rejected()
