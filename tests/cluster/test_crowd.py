"""Forty pods at once on cards of different size: never on the wrong card, never over a card, all that fit run."""
import json
import random

import pytest

from crowdnodes import NODES
from gpupods import (
    GPU_MEM, annotation, card_of, check_what_it_sees, fingerprint, inventory, pod, units_of, used_per_card)


def totals(cluster):
    return {uuid: card["mib"] // 1024 for node in cluster.nodes().values() for uuid, card in inventory(node).items()}


def settled(cluster, count):
    """All pods run, or wait with a verdict, and none of those that wait fits on any card."""
    pods = cluster.pods()
    if len(pods) != count:
        return None
    running = [p for p in pods if p["status"]["phase"] == "Running"]
    waiting = [p for p in pods if not p["spec"].get("nodeName")]
    if len(running) + len(waiting) != count:
        return None
    total, used = totals(cluster), used_per_card(pods)
    largest = max(total[c] - used.get(c, 0) for c in total)
    if any(units_of(p) <= largest for p in waiting):
        return None
    return running, waiting


def check(cluster, running, waiting):
    nodes, total = cluster.nodes(), totals(cluster)
    used = used_per_card(running)
    assert all(used[card] <= total[card] for card in used), (used, total)
    for p in running:
        check_what_it_sees(cluster, p, nodes)
        assert annotation(p, "ALIYUN_COM_GPU_MEM_IDX") == str(
            inventory(nodes[p["spec"]["nodeName"]])[card_of(p)]["index"])
    for p in waiting:
        verdict = cluster.condition(p, "PodScheduled")
        assert (f"no GPU has {units_of(p)} units free" in verdict["message"] or "no GPU is that large" in
                verdict["message"] or f"Insufficient {GPU_MEM}" in verdict["message"]), verdict
    book = json.loads(cluster.scheduler_get("/inspect"))
    assert book["wrongSums"] == 0 and book["overcommittedGPUs"] == 0
    assert {d["uuid"]: d["usedGPU"] for n in book["nodes"] for d in n["devs"] if d["usedGPU"]} == used


@pytest.mark.long(80)
def test_forty_pods_at_once_then_half_of_them_go(lab):
    cluster = lab(NODES)
    rng = random.Random(20)
    sizes = [rng.randint(1, 7) for _ in range(40)]
    assert sum(sizes) > sum(totals(cluster).values()), "the crowd must not fit as a whole"
    cluster.create({"apiVersion": "v1", "kind": "List",
                    "items": [pod(f"p{i:02}", n) for i, n in enumerate(sizes)]})
    running, waiting = cluster.wait_for(lambda: settled(cluster, 40), 180, "everything that fits runs")
    assert waiting
    check(cluster, running, waiting)

    gone = rng.sample([p["metadata"]["name"] for p in running], len(running) // 2)
    kept = {p["metadata"]["uid"]: fingerprint(p) for p in running if p["metadata"]["name"] not in gone}
    cluster.kubectl("delete", "pod", "--wait=true", *gone)
    running, waiting = cluster.wait_for(lambda: settled(cluster, 40 - len(gone)), 120, "what fits now runs")
    check(cluster, running, waiting)
    for p in running:
        if p["metadata"]["uid"] in kept:
            assert fingerprint(p) == kept[p["metadata"]["uid"]], "a running pod was disturbed"
