"""bench/bench packing: small lists whose allocation is known by hand, and the generated cluster."""
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from rationbench import bound, live, packing    # noqa: E402

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).absolute()
NODES = "node,cpu_milli,memory_mib,gpu,model\n"
PODS = "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


def bench(tmp_path, *args):
    """What bench/bench packing writes: {(list, policy): its row}."""
    done = subprocess.run([ROOT / "bench/bench", "packing", "--out", tmp_path / "out", *map(str, args)], capture_output=True, text=True,
                          timeout=120, env=dict(os.environ, RATION_BUILD=str(BUILD)), check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return {(row["list"], row["policy"]): row for row in rows_of(tmp_path / "out/packing.json")}


def rows_of(path):
    return json.loads(path.read_text())


def write(tmp_path, nodes, pods):
    """The arguments that name these lists."""
    (tmp_path / "nodes.csv").write_text(NODES + nodes)
    (tmp_path / "list.csv").write_text(PODS + pods)
    return "--trace", tmp_path / "nodes.csv", tmp_path / "list.csv"


def replay(tmp_path, nodes, pods, **more):
    rows = bench(tmp_path, *write(tmp_path, nodes, pods), "--seeds", more.get("seeds", 3))
    return {policy: row["at_130"] for (_, policy), row in rows.items()}


def test_two_parts_of_600_do_not_fit_on_one_gpu(tmp_path):
    """Two GPUs, one part on each: 1.2 of 2, whatever the policy."""
    got = replay(tmp_path, "n,96000,393216,2,T4\n", "1000,1024,1,600,\n")
    assert set(got) == set(packing.POLICIES)
    assert all(value == pytest.approx(60) for value in got.values()), got


@pytest.mark.parametrize("pod", ["3000,1024,1,1000,\n", "1000,2500,1,1000,\n"], ids=["cpu", "memory"])
def test_pods_end_where_cpu_or_memory_does(tmp_path, pod):
    """Of 4 GPUs one is used: 4 CPUs serve one pod with 3, 4,000 MiB one with 2,500."""
    got = replay(tmp_path, "n,4000,4000,4,T4\n", pod)
    assert all(value == pytest.approx(25) for value in got.values()), got


def test_a_pod_that_names_a_model_gets_no_other(tmp_path):
    got = replay(tmp_path, "a,96000,393216,1,T4\nb,96000,393216,3,A10\n", "1000,1024,1,1000,T4|P100\n")
    assert all(value == pytest.approx(25) for value in got.values()), got


def test_a_pod_with_two_gpus_gets_them_on_one_node(tmp_path):
    """Nodes of 1, 2 and 3 GPUs: one pod each on two of them, 4 of 6."""
    got = replay(tmp_path, "a,96000,393216,1,T4\nb,96000,393216,2,T4\nc,96000,393216,3,T4\n", "1000,1024,2,1000,\n")
    assert all(value == pytest.approx(100 * 4 / 6) for value in got.values()), got


def test_cpu_is_kept_for_the_gpus_that_need_it(tmp_path):
    """Pods for CPU only fill the node with one GPU and 64 CPUs, not the one with eight and 64: GPUs would
    be left without CPU otherwise. The rule knows it, binpack by GPU memory does not."""
    nodes = "a-eight,64000,262144,8,T4\n" + "".join(f"b-one-{i},64000,262144,1,T4\n" for i in range(4))
    got = replay(tmp_path, nodes, "8000,8192,1,1000,\n" * 12 + "8000,8192,0,0,\n" * 24, seeds=10)
    assert got["balanced"] > got["binpack"] and got["balanced"] > got["random"], got
    assert got["balanced"] == pytest.approx(100), got
    assert got["ration"] > got["ration-fullest"], got


def test_the_generated_cluster_is_fullest_by_the_rule(tmp_path):
    rows = bench(tmp_path, "--nodes", 150, "--seeds", 4)
    got = {policy: row["at_130"] for (_, policy), row in rows.items()}
    others = [value for policy, value in got.items() if policy not in ("balanced", "ration")]
    assert min(got["balanced"], got["ration"]) > max(others), got
    # The rule alone, and the decision of the core with kube-scheduler for pods without a GPU, differ by those pods only.
    assert abs(got["balanced"] - got["ration"]) < 0.5, got
    assert got["spread"] < got["binpack"], got
    assert "polyline" in (tmp_path / "out/packing-generated.svg").read_text()


def test_the_bound_stands_beside_the_policies(tmp_path):
    """Each of two GPUs has room for one part of 600, 60 % of both; three parts have arrived at 100 %."""
    rows = bench(tmp_path, *write(tmp_path, "n,96000,393216,2,T4\n", "1000,1024,1,600,\n"), "--seeds", 2, "--bound")
    row = rows["list", "bound"]
    assert (row["at_100"], row["at_130"], row["seeds"]) == (pytest.approx(60), pytest.approx(60), 2)
    assert rows["list", "ration"]["at_130"] == pytest.approx(60)


def test_no_policy_allocates_more_than_the_bound(tmp_path):
    rows = bench(tmp_path, "--nodes", 30, "--seeds", 3, "--bound")
    most = rows.pop(("generated", "bound"))
    for percent in packing.ARRIVALS:
        assert all(row[f"at_{percent}"] <= most[f"at_{percent}"] for row in rows.values()), (percent, rows, most)
        assert most[f"at_{percent}"] < 100


def test_a_scheduler_that_is_asked_over_http_fills_the_cluster_as_its_code_alone_does(tmp_path):
    """The same lists and orders, once through core_filter() and once through the real verbs."""
    rows = bench(tmp_path, "--nodes", 12, "--seeds", 2, "--live", "--policy", "ration", "--policy", "ration-fullest")
    for percent in packing.ARRIVALS:
        at = {policy: row[f"at_{percent}"] for (_, policy), row in rows.items()}
        assert at["live"] == pytest.approx(at["ration"], abs=0.5), at


def test_a_live_scheduler_with_the_order_before_wastes_the_cpu_that_gpus_need():
    """The list of test_cpu_is_kept_for_the_gpus_that_need_it: 12 GPUs and 12 pods for one, and pods for CPU only that can take their CPU."""
    nodes = [bound.NodeType(64000, 262144, 8, 0)] + [bound.NodeType(64000, 262144, 1, 0)] * 4
    kinds, got = [bound.Kind(8000, 8192, 1, 1000, 0), bound.Kind(8000, 8192, 0, 0, 0)], {}
    for order in "balanced", "fullest":
        allocated = []
        for seed in range(4):
            pods = [0] * 12 + [1] * 24
            random.Random(seed).shuffle(pods)
            allocated.append(live.replay(nodes, kinds, pods, 130, ("--node-order", order))["allocated"][-1])
        got[order] = sum(allocated) / len(allocated)
    assert got["balanced"] > got["fullest"], got


def test_hours_show_what_is_stranded_while_pods_come_and_go(tmp_path):
    """Each part of 600 milli strands the 400 beside it, whatever the policy: two thirds of what is allocated."""
    bench_hours = ("--seeds", 3, "--hours", 13)
    subprocess.run([ROOT / "bench/bench", "packing", "--out", tmp_path / "out", *map(str, bench_hours),
                    *write(tmp_path, "n,96000,393216,8,T4\n", "1000,1024,1,600,\n")], check=True, timeout=120, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, RATION_BUILD=str(BUILD)))
    rows = rows_of(tmp_path / "out/packing-hours.json")
    assert [(row["policy"], row["from"], row["to"]) for row in rows] == [
        (policy, *window) for policy in packing.HOURS_POLICIES for window in ((1, 12), (13, 13))]
    for row in rows:
        assert row["seeds"] == 3 and 0 < row["allocated"] <= 60, row
        assert row["stranded"] == pytest.approx(row["allocated"] * 2 / 3, abs=0.001), row
        assert row["stranded_least"] < row["stranded"] < row["stranded_most"], row
    assert (tmp_path / "out/packing-hours-list.svg").read_text().count("polyline") == len(packing.HOURS_POLICIES)


def test_moves_free_the_gpus_that_three_parts_on_each_other_gpu_leave(tmp_path):
    """Three parts of 300 milli fit on a GPU, so moves can bring all pods onto a third of as many GPUs."""
    done = subprocess.run([ROOT / "bench/bench", "packing", "--out", tmp_path / "out", "--seeds", "12", "--hours", "4", "--moves", "50", "--policy",
                           "ration", *map(str, write(tmp_path, "n,96000,393216,8,T4\n", "1000,1024,1,300,\n"))], check=True, timeout=120,
                          capture_output=True, text=True, env=dict(os.environ, RATION_BUILD=str(BUILD)))
    rows = rows_of(tmp_path / "out/packing-moves.json")
    assert len(rows) == 12 and "a plan of at most 50 moves" in done.stdout
    for row in rows:
        assert row["whole_after"] == 8 - -(-row["pods"] // 3) >= row["whole_before"], row
        assert row["free"] == pytest.approx(8 - 0.3 * row["pods"]) and (row["moves"] > 0) == (row["whole_after"] > row["whole_before"])
    assert any(row["moves"] for row in rows)


@pytest.mark.parametrize("args", [["--moves", "20"], ["--hours", "3", "--moves", "0"]])
def test_moves_need_hours(args):
    done = subprocess.run([ROOT / "bench/bench", "packing", *args], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "--moves takes a number from 1, and needs --hours" in done.stderr


def test_hours_are_means_of_each_policy_window_and_order():
    runs = [{"policy": "fgd", "seed": seed, "hour": hour, "allocated": 50, "stranded": seed + hour} for seed in (1, 3) for hour in range(1, 25)]
    assert [(r["from"], r["to"], r["stranded"], r["stranded_least"], r["stranded_most"]) for r in packing.hours_summary("list", runs)] == [
        (1, 12, 8.5, 7.5, 9.5), (13, 24, 20.5, 19.5, 21.5)]
    assert packing.hours_curves(runs)["fgd"][:2] == [(1, 3), (2, 4)]


def test_a_list_that_is_none_ends_with_its_line(tmp_path):
    done = subprocess.run([ROOT / "bench/bench", "packing", *write(tmp_path, "n,4000,4000,99,T4\n", "")], capture_output=True,
                          text=True, timeout=60, env=dict(os.environ, RATION_BUILD=str(BUILD)), check=False)
    assert done.returncode == 1 and "not a node with 1 to 16 GPUs: n,4000,4000,99,T4" in done.stderr, done.stderr
