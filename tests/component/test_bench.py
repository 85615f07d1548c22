"""The benchmark's short form: it runs, every row is there and sane. How fast is asked of the long form, by people."""
import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from rationbench import endtoend, goals, plot, verbs    # noqa: E402

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).absolute()
# Side by side with everything else that the machine does, a larger cluster may be this much worse than linear.
GENEROUS = 4


def bench(*args):
    done = subprocess.run([ROOT / "bench/bench", "--quick", *args], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, RATION_BUILD=str(BUILD)), check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    table = bench("--only", "verbs", "--only", "restart", "--out", str(out))
    return table, out, json.loads((out / "bench.json").read_text())


@pytest.mark.plain    # times of a sanitizer's build say nothing
def test_every_cluster_verb_and_answer_has_a_row_and_nothing_failed(results):
    rows = results[2]["verbs"]
    seen = {(r["nodes"], r["policy"], r["fill"], r["verb"], r["answer"], r["best"]) for r in rows}
    kinds = {("filter", "accept", "K=16"), ("filter", "reject", "K=16"), ("prioritize", "accept", "K=16"),
             ("filter", "accept", "all"), ("prioritize", "accept", "all")}
    assert seen == {(n, p, f, *v) for n in (100, 500) for p in ("binpack", "spread") for f in (0, 95) for v in kinds}
    assert not [r for r in rows if r["failed"] or not 0 < r["p50"] <= r["p99"] <= r["max"] or r["floor_p50"] <= 0]


@pytest.mark.plain    # times of a sanitizer's build say nothing
def test_answers_name_what_they_must(results):
    """16 names of 20 to 25 bytes, all names, or all names with a reason: by their size."""
    sizes = {(r["nodes"], r["verb"], r["answer"], r["best"]): r["answer_bytes"] for r in results[2]["verbs"]}
    assert 16 * 20 < sizes[500, "filter", "accept", "K=16"] < 16 * 35
    assert 500 * 20 < sizes[500, "filter", "accept", "all"] < 500 * 35
    assert 500 * (20 + len("no GPU has 2 units free")) < sizes[500, "filter", "reject", "K=16"] < 500 * 70


@pytest.mark.plain    # times of a sanitizer's build say nothing
def test_cost_grows_no_faster_than_the_cluster(results):
    rows = [r for r in results[2]["verbs"] if r["verb"] == "filter" and r["best"] == "K=16"]
    cpu = {n: sum(r["cpu"] for r in rows if r["nodes"] == n) for n in (100, 500)}
    assert cpu[500] < cpu[100] * 5 * GENEROUS


@pytest.mark.plain    # times of a sanitizer's build say nothing
def test_the_table_the_page_and_the_plots_are_written(results):
    table, out, _ = results
    page = (out / "bench.md").read_text()
    assert "prioritize" in table and "ready_s" in table and "| ration" in page
    for name in ("bench-filter-p50.svg", "bench-filter-p99.svg"):
        assert name in page
        assert len(ET.parse(out / name).getroot()) > 10


@pytest.mark.plain    # times of a sanitizer's build say nothing
def test_a_restart_is_measured_with_its_memory(results):
    row, = results[2]["restart"]
    assert (row["nodes"], row["pods"]) == (200, 800)
    assert 0 < row["ready_s"] < 60 and 1 < row["steady_mb"] <= row["peak_mb"] + 0.1


def test_another_extender_is_asked_the_same():
    floor = subprocess.Popen([BUILD / "bench/bench-floor"], stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{int(floor.stdout.readline())}"
        rows = verbs.run([100], [95], ["binpack"], True, [url], ["filter"], say=lambda text: None)
    finally:
        floor.kill()
        floor.wait()
        floor.stdout.close()
    rows = [r for r in rows if r["who"] == url]
    assert [(r["verb"], r["answer"]) for r in rows] == [("filter", "accept"), ("filter", "reject")]


@pytest.fixture(scope="module")
def shim_results(tmp_path_factory):
    if os.path.exists("/run/ration/grant"):
        pytest.skip("this machine has a grant")
    out = tmp_path_factory.mktemp("bench-shim")
    table = bench("--only", "shim", "--out", str(out))
    return table, json.loads((out / "bench.json").read_text())


@pytest.mark.plain    # times of a sanitizer's build say nothing
def test_each_call_is_measured_without_and_with_the_shim(shim_results):
    rows = {(r["what"], r.get("live"), r["processes"]): r for r in shim_results[1]["shim"]}
    launches = {("cuLaunchKernel", None), ("cuLaunchKernel, computing power controlled", None)}
    pairs = {(f"cuMemAlloc + cuMemFree, {size}", live) for size in ("4 KiB", "2 MiB") for live in (1, 1000, 100000)}
    pairs |= {("cuMemAlloc + cuMemFree of the oldest, 4 KiB", live) for live in (1, 1000, 100000)}
    pairs |= {("cuMemAllocAsync + cuMemFreeAsync, 2 MiB", 0)}
    assert set(rows) == {(*what, n) for what in launches | pairs for n in (1, 8)}
    assert not [r for r in rows.values() if not 0 < r["without"] < 1e6 or not 0 < r["with"] < 1e6 or r["rounds"] != 3]
    # An allocation under the shim does an atomic operation or two more: no noise makes it as cheap as nothing.
    assert not [r for (what, _, _), r in rows.items() if "cuMemAlloc" in what and r["added"] <= 0]
    assert "cuLaunchKernel" in shim_results[0] and "added to an allocation" in shim_results[0]


@pytest.mark.plain    # times of a sanitizer's build say nothing
def test_the_start_of_cuda_and_a_program_without_it_are_measured(shim_results):
    init = shim_results[1]["shim_init"]
    assert [r["processes"] for r in init] == [1, 8]
    assert not [r for r in init if not 0 < r["took_p50"] <= r["took_p99"] <= r["took_with_load_p99"]]
    idle = {r["under"]: r for r in shim_results[1]["shim_idle"]}
    assert set(idle) == {"nothing", "the driver", "the shim", "both shims", "ration run, preload", "ration run, mount"}
    assert idle["nothing"]["added_ms"] == 0 < idle["both shims"]["added_rss_kib"]
    assert idle["ration run, preload"]["lives_ms"] > idle["both shims"]["lives_ms"]


def row(**what):
    return {"who": "ration", "verb": "filter", "best": "K=16", "fill": 95, "policy": "spread", "answer": "accept",
            "floor_p50": 0.1, **what}


def test_a_missed_goal_is_called_missed():
    judged = goals.judge({"verbs": [row(nodes=1000, p50=0.35, p99=0.5), row(nodes=5000, p50=2.1, p99=2.01)],
                          "binds": [{"connections": 1, "p50": 2.0}],
                          "bursts": [{"who": "ration", "shape": "equal", "pods": 2000, "rates": [95], "failed": 1,
                                      "over": 0},
                                     {"who": "K=16 stand-in", "shape": "equal", "pods": 2000, "rates": [100],
                                      "failed": 0, "over": 0}]})
    assert [met for _, _, _, met in judged] == [False, True, False, True, True, False, True]


def test_what_the_shim_may_add_is_judged_by_the_worst_row():
    def call(what, processes, added):
        return {"what": what, "processes": processes, "added": added}
    judged = goals.judge({"shim": [call("cuLaunchKernel", 1, 15.0), call("cuLaunchKernel", 8, 15.1),
                                   call("cuMemAlloc + cuMemFree, 4 KiB", 1, 199), call("cuMemAlloc + x", 1, 201),
                                   call("cuMemAlloc + y of the oldest", 1, 90)],
                          "shim_init": [{"processes": 64, "cpu_p99_added": 0.9}]})
    assert [(got, met) for _, _, got, met in judged] == [
        ("15.0 ns", True), ("15.1 ns", False), ("201 ns", False), ("90 ns", True), ("0.90 ms", True)]


def test_cards_over_their_total_are_counted():
    def pod(uuid, units):
        placement = {"unit": 1024, "containers": {"main": [{"uuid": uuid, "units": units}]}}
        return {"metadata": {"annotations": {"ration.dev/placement": json.dumps(placement)}}}
    assert endtoend.overcommitted([pod("a", 19), pod("a", 1), pod("b", 19), pod("b", 2), {"metadata": {}}]) == 1


def test_a_plot_of_one_point_is_no_error():
    assert "polyline" in plot.lines("one", {"only": [(100, 0.5)]}, "ms", 2)


# The table of shares

def shares_table(tmp_path, *args):
    argv = [ROOT / "bench/bench", "shares", "--quick", "--jobs", "3", "--out", tmp_path, *args]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False,
                          env=dict(os.environ, RATION_BUILD=str(BUILD)))
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((tmp_path / "shares.json").read_text())["rows"]


def right(row):
    """The mean error is less than a sixth of a mean share: 0.8 points where twenty have 5 each. Ten times what a quiet machine has
    (docs/measurements/shares.md), a fifth of what it is where one of the twenty takes what the others do not get."""
    return 80 < row["total"] < 101 and row["error"] < row["granted"] / len(row["got"]) / 6


@pytest.mark.alone
def test_table_of_shares_has_every_row_and_its_page(tmp_path):
    """The simulated GPU needs this machine's processors. Where they have other work it is idle for want of launches, and the bench says so
    (`driven` is false): such a row says nothing about shares. That is measured a few seconds before the row, so a wrong row is repeated."""
    for attempt in range(3):
        out = tmp_path / str(attempt)
        rows = shares_table(out)
        if all(right(row) or not row["driven"] for row in rows):
            break
    assert [(r["share"], r["work"]) for r in rows] == [("30/70", "200 us"), ("20 x 5", "2 us"), ("50/30/20", "5 ms")]
    assert [len(r["got"]) for r in rows] == [2, 20, 3]
    page = (out / "shares.md").read_text()
    assert page.count("\n| ") == 4 and "shares-1.svg" in page
    for name in ("shares-1.svg", "shares-2.svg"):
        ET.fromstring((out / name).read_text())
    assert [row for row in rows if row["driven"] and not right(row)] == []
    if not any(row["driven"] for row in rows):
        pytest.skip("this machine's processors have other work: no row says anything about shares")


@pytest.mark.waits
def test_table_of_shares_can_fail(tmp_path):
    """A shim that charges elapsed time gives those that compete far less than they were granted, if no keeper helps."""
    (row,) = shares_table(tmp_path, "--charge-elapsed", "--warm", "6", "--rows", "50/30/20")
    assert {"early", "error", "loss"} <= set(row["missed"]) and row["error"] > 6 and row["loss"] > 15, row
