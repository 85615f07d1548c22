"""bench/bench packing --dra: kube-scheduler's own allocator of claims, built from the Kubernetes that the lab has, on clusters whose
allocation is known by hand."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from rationbench import bound, dra    # noqa: E402

pytestmark = pytest.mark.long(30)

LARGE = bound.NodeType(96000, 393216, 2, 0)    # CPU and memory for all pods of these tests


def part(milli, gpus=1, cpu=1000, models=0):
    return bound.Kind(cpu, 1024, gpus, milli, models)


def allocated(nodes, *pods):
    """{policy: percent of all GPUs} after these pods have arrived in this order."""
    return {run["policy"]: run["allocated"][-1] for run in dra.replay(nodes, list(pods), [(1, range(len(pods)))], 130)}


def everywhere(percent):
    return pytest.approx({d["name"]: percent for d in dra.DEVICES})


def test_the_allocator_takes_the_first_gpu_that_fits_in_the_order_of_the_slice():
    """By index the part of 200 goes beside that of 300, and 700 has no room; fullest first it goes beside 800. An order that is published
    once in 100 arrivals is the one of the empty node."""
    assert allocated([LARGE], part(300), part(800), part(200), part(700)) == pytest.approx(
        {"dra": 65, "dra-fullest": 100, "dra-fullest-late": 65, "dra-emptiest": 65})
    assert allocated([LARGE], part(500), part(500), part(1000)) == pytest.approx(
        {"dra": 100, "dra-fullest": 100, "dra-fullest-late": 100, "dra-emptiest": 50})


def test_several_gpus_of_a_pod_are_different_ones_of_one_node():
    one = bound.NodeType(96000, 393216, 1, 0)
    assert allocated([one, one], part(1000, gpus=2)) == everywhere(0)
    assert allocated([one, LARGE], part(1000, gpus=2)) == everywhere(200 / 3)


def test_the_node_is_the_one_that_the_default_scores_prefer():
    """The pod goes to the node with more free CPU, which has the only whole GPU left; a pod that names the model of the other node does not."""
    small, large = bound.NodeType(8000, 393216, 1, 0), bound.NodeType(64000, 393216, 1, 1)
    assert allocated([small, large], part(100), part(1000, models=0b10)) == everywhere(5)
    assert allocated([small, large], part(100, models=0b01), part(1000, models=0b10)) == everywhere(55)


def test_the_benchmark_prints_it_beside_the_policies(tmp_path):
    done = subprocess.run([ROOT / "bench/bench", "packing", "--nodes", "12", "--seeds", "1", "--policy", "ration", "--dra", "--out", tmp_path],
                          capture_output=True, text=True, timeout=300, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr[-2000:]
    rows = {row["policy"]: row for row in json.loads((tmp_path / "packing.json").read_text())}
    assert set(rows) == {"ration", *(d["name"] for d in dra.DEVICES)} and all(50 < row["at_130"] <= 100 for row in rows.values()), rows
