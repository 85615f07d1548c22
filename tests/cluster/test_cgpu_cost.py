"""What isolation costs a pod at its start: the same program on a share node and on an isolated one, by turns. Prints the
table of docs/measurements/cgpu.md."""
import os
import statistics
import time

import pytest

import testimages
from gpupods import container, pod

pytestmark = pytest.mark.full    # a measurement
NODES = {"share": "cost-share.192.168.31.1", "cgpu": "cost-cgpu.192.168.31.2"}
LAYOUT = [f"{name}=4x16160MiB,{mode}" for mode, name in NODES.items()]
PODS = 20    # of each kind
# When the container's program began, and when cuInit had succeeded in a program that it started: wall clock, seconds.
SAY = "begin=$EPOCHREALTIME; load dlopen libcuda.so.1 && echo $begin $EPOCHREALTIME; sleep 100000"


def start_one(cluster, mode, number):
    """Seconds from the pod's creation, and from its program's first instruction, to cuInit."""
    name = f"{mode}{number}"
    body = pod(name, containers=[container("main", 1, SAY, image=testimages.name("debian"))],
               nodeSelector={"kubernetes.io/hostname": NODES[mode]})
    created = time.time()
    cluster.create(body)
    time.sleep(1.5)    # no question to the API server while the pod starts
    begin, end = map(float, cluster.wait_for(lambda: cluster.log_of(name).splitlines()[1:], 20, "cuInit")[0].split())
    return end - created, end - begin


def test_the_start_of_a_pod_with_and_without_isolation(lab, tmp_path):
    cluster = lab(LAYOUT)
    testimages.give(cluster, tmp_path, only={"debian"})
    for mode in NODES:
        start_one(cluster, mode, "warm")
    took = {mode: [] for mode in NODES}
    for number in range(PODS):
        for mode in sorted(NODES, reverse=number % 2):
            took[mode].append(start_one(cluster, mode, number))
    print(f"\n{PODS} pods of each kind by turns, load {os.getloadavg()[0]:.1f}; ms, median (least to most)")
    for column, what in enumerate(("pod created to first successful cuInit", "program begun to first successful cuInit")):
        for mode in NODES:
            all_ms = [1000 * row[column] for row in took[mode]]
            print(f"| {what} | {mode} | {statistics.median(all_ms):.0f} ({min(all_ms):.0f} to {max(all_ms):.0f}) |")
    share, cgpu = (statistics.median(row[0] for row in took[mode]) for mode in ("share", "cgpu"))
    assert cgpu < 1.25 * share, (share, cgpu)
