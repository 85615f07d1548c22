"""`ration advise` on a real cluster: for programs of known peaks the advice is right within one unit, and --apply gives it."""
import json
import math

import pytest

from cgpupods import CONTEXT_MIB, with_documents_cards
from gpupods import card_of, container, pod
from gpuprogram import OUT_OF_MEMORY, program, run_in

UNIT = 16160 / 15
HOLD = {"small": (6, 1228), "middle": (7, 2764), "right": (10, 9400)}    # units, MiB beside the context


@pytest.fixture
def cluster(lab):
    return with_documents_cards(lab)


def advice(cluster, *args):
    document = json.loads(cluster.run("ration", "advise", "--min-age", "3", "-o", "json", "-n", cluster.namespace, *args).stdout)
    return {c["pod"]: c for c in document["containers"]}


@pytest.mark.long(40)    # as tests/component/test_advise.py
def test_programs_of_known_peaks_get_the_right_size_within_a_unit_and_apply_gives_it(cluster):
    for name, (units, mib) in HOLD.items():
        cluster.create(pod(name, containers=[container("c0", units, command=program("hold", mib))]))
    pods = {p["metadata"]["name"]: p for p in cluster.wait_running(names=[*HOLD])}
    cluster.wait_for(lambda: all((found := advice(cluster).get(name)) and found["peakBytes"] >> 20 == mib + CONTEXT_MIB
                                 and found["advice"] != "too young" for name, (_, mib) in HOLD.items()), 40, "samples of all programs")
    found = advice(cluster)
    for name, (units, mib) in HOLD.items():
        peak = math.ceil((mib + CONTEXT_MIB) / UNIT)
        assert 0 <= found[name]["units"] - peak <= 1, (name, found[name])
        assert found[name]["grantedUnits"] == units
    # With a tenth on top these peaks are 2, 4 and 10 units; the pod of the large GPU has used nothing.
    assert {name: c["units"] for name, c in found.items()} == {"small": 2, "middle": 4, "right": 10, "large": 1}
    assert found["right"]["advice"] == "keep"
    cluster.kubectl("delete", "pod", "large")
    applied = cluster.run("ration", "advise", "--min-age", "3", "-n", cluster.namespace, "--apply").stdout
    assert "pod small container c0: 2 units of GPU" in applied and "pod middle container c0: 4 units of GPU" in applied
    assert applied.endswith("2 of 2 commands were carried out.\n"), applied
    for name, limit in (("small", 2154), ("middle", 4309)):
        cluster.wait_for(lambda name=name, limit=limit: run_in(cluster, name, "info")["total"] == limit, 20, f"the new size of {name}")
        assert card_of(cluster.pod(name)) == card_of(pods[name])
    # A program that was refused memory should have more.
    assert run_in(cluster, "small", "take", 1500) == {"result": OUT_OF_MEMORY}
    cluster.wait_for(lambda: advice(cluster)["small"]["advice"] == "more", 20, "the refusal")
