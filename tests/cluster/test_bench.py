"""The benchmark's bursts on a real etcd, API server and kube-scheduler, in their short form."""
import json
import os
import pathlib
import subprocess

import pytest

pytestmark = [pytest.mark.alone, pytest.mark.long(25)]

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_burst_of_the_benchmark_is_bound_without_a_failed_bind_or_a_card_over_its_total(tmp_path):
    size = [] if os.environ.get("RATION_FULL") else ["--quick"]
    done = subprocess.run([ROOT / "bench/bench", *size, "--only", "endtoend", "--out", tmp_path], capture_output=True,
                          text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads((tmp_path / "bench.json").read_text())
    assert {r["who"] for r in results["bursts"]} == {"no extender", "pass all", "K=16 stand-in", "ration"}
    own = [r for r in results["bursts"] if r["who"] == "ration"]
    assert [(r["failed"], r["over"]) for r in own] == [(0, 0)] * len(own), done.stdout
    assert [r["failed"] for r in results["binds"]] == [0, 0], done.stdout
