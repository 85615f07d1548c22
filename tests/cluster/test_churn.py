"""Pods come and go for a long time: nothing is ever wrong, and the memory and descriptors of both daemons stay flat. One hour in
`./check full`, which writes the table of docs/measurements/churn.md."""
import os
import pathlib
import re
import subprocess
import time

import pytest

from storm import processes_of
from stormwaves import Storm

pytestmark = pytest.mark.alone

NODES = ["churn-a.192.168.22.1=4x16160MiB,share", "churn-b.192.168.22.2=4x8192MiB,share,spread"]
MINUTES = float(os.environ.get("CHURN_MINUTES") or 60)
PACE = 0.5 if MINUTES < 10 else 2    # seconds between pods
DAEMONS = ("ration-scheduler", "ration-agent")
METRICS = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:39999/metrics').read().decode())"


def resident_kib(pid):
    return int(re.search(r"^VmRSS:\s+([0-9]+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1])


def rings_kib(name, pid):
    """What a scheduler says of its records of decisions and of changes, which fill and are dropped in large segments."""
    if name != "ration-scheduler":
        return 0
    page = subprocess.run(["nsenter", "-t", str(pid), "-n", "/usr/bin/python3", "-c", METRICS], capture_output=True, text=True, check=True).stdout
    found = re.findall(r'^ration_history_bytes\{ring="\w+"\} (\d+)$', page, re.MULTILINE)
    assert len(found) == 2, page
    return sum(map(int, found)) >> 10


def usage(cluster):
    """{process: (resident KiB, descriptors, KiB of its rings)}"""
    return {(name, pid): (resident_kib(pid), len(os.listdir(f"/proc/{pid}/fd")), rings_kib(name, pid))
            for name in DAEMONS for pid in processes_of(cluster, name)}


def highest(samples, daemon):
    """Resident KiB, descriptors and KiB of the rings: the most of each."""
    return tuple(map(max, zip(*(processes[daemon] for _, processes in samples))))


def table(samples, storm):
    lines = [f"{storm.made} pods in {MINUTES:g} minutes, {storm.machine.snapshots} snapshots of the machine, "
             f"{len(storm.machine.checked)} containers compared with their placement. Resident memory (of it the rings), descriptors.", "",
             "| minute | " + " | ".join(f"{name} {i}" for i, (name, _) in enumerate(samples[0][1])) + " |",
             "|---" * (len(samples[0][1]) + 1) + "|"]
    step = max(1, len(samples) // 12)
    return "\n".join(lines + [f"| {minute:.1f} | " + " | ".join(f"{kib} KiB{f' ({rings})' if rings else ''}, {n}" for kib, n, rings in processes.values()) + " |"
                              for minute, processes in samples[::step] + samples[-1:]]) + "\n"


@pytest.fixture
def churn(lab):
    made = Storm(lab(NODES), seed=7)
    yield made
    made.end()


@pytest.mark.hour
def test_memory_is_flat_while_pods_come_and_go(churn):
    begin, samples = time.monotonic(), []
    while time.monotonic() < begin + MINUTES * 60:
        churn.create(4, pace=PACE)
        churn.look()
        if len(churn.mine()) > 24:
            churn.delete(0.3, force=0.1)
        samples.append(((time.monotonic() - begin) / 60, usage(churn.cluster)))
    text = table(samples, churn)
    print("\n" + text)
    if os.environ.get("CHURN_OUT"):
        pathlib.Path(os.environ["CHURN_OUT"]).write_text(text)
    assert samples[0][1].keys() == samples[-1][1].keys(), "a daemon was restarted"
    third = len(samples) // 3
    for daemon in samples[-1][1]:
        (kib_before, open_before, rings_before), (kib, opened, rings) = highest(samples[:-third], daemon), highest(samples[-third:], daemon)
        # malloc keeps most of what the rings had when they were fullest. Where they become fuller, their entries leave holes: a half.
        assert kib <= kib_before * 1.02 + 256 + 1.5 * max(rings - rings_before, 0), (daemon, kib_before, rings_before, kib, rings)
        # An agent has some for each pod: their number is about the same all the time.
        assert opened <= open_before + 4, (daemon, open_before, opened)
