"""The benchmark's bursts on a real etcd, API server and kube-scheduler: all it compares in its short form, and in the full form
those with ration on the clusters of its long one."""
import json
import pathlib
import signal
import subprocess
import sys

import pytest

from cluster import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from rationbench import cluster, endtoend    # noqa: E402
from rationbench.realapi import RealApi    # noqa: E402

pytestmark = [pytest.mark.alone, pytest.mark.long(25)]


def test_a_burst_of_the_benchmark_is_bound_without_a_failed_bind_or_a_card_over_its_total(tmp_path):
    done = subprocess.run([ROOT / "bench/bench", "--quick", "--only", "endtoend", "--out", tmp_path], capture_output=True,
                          text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads((tmp_path / "bench.json").read_text())
    assert {r["who"] for r in results["bursts"]} == {"no extender", "pass all", "K=16 stand-in", "ration"}
    own = [r for r in results["bursts"] if r["who"] == "ration"]
    assert [(r["failed"], r["over"]) for r in own] == [(0, 0)] * len(own), done.stdout
    assert [r["failed"] for r in results["binds"]] == [0, 0], done.stdout


@pytest.mark.full
@pytest.mark.parametrize("size", endtoend.FULL, ids=lambda size: f"{size.nodes}-nodes-{size.percent}-percent-{size.pods}-pods")
def test_a_burst_on_a_large_cluster_is_bound_without_a_failed_bind_or_a_card_over_its_total(size):
    with RealApi() as api:
        api.create_nodes([cluster.node(i, endtoend.NODE_POLICY) for i in range(size.nodes)])
        endtoend.fill_up(api, size)
        for shape in size.shapes:
            got = endtoend.measure(api, endtoend.RATION, shape, size.pods)
            print(f"\n{shape}: {size.pods} pods in {got['seconds']:.1f} s")
            assert (got["failed"], got["over"]) == (0, 0)


def processes(session):
    """{pid: command} of what runs in the session."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            if int(rest.split()[3]) == session and rest.split()[0] != "Z":
                found[int(folder.name)] = command
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_a_benchmark_that_is_stopped_takes_what_it_has_started_with_it(tmp_path):
    bench = subprocess.Popen([ROOT / "bench/bench", "--quick", "--only", "endtoend", "--out", tmp_path], start_new_session=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: {"etcd", "kube-apiserver", "kube-scheduler"} <= set(processes(bench.pid).values()), 60,
             f"its cluster, not {processes(bench.pid)}")
    bench.terminate()
    assert bench.wait(60) == 128 + signal.SIGTERM
    assert not processes(bench.pid)
