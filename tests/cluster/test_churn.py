"""Pods come and go for a long time: nothing is ever wrong, and the memory and descriptors of both daemons stay flat. One hour in
`./check full`, which writes the table of docs/measurements/churn.md."""
import os
import pathlib
import time

import pytest

from daemonmemory import leaked_kib, usage_of
from stormwaves import Storm

pytestmark = pytest.mark.alone

NODES = ["churn-a.192.168.22.1=4x16160MiB,share", "churn-b.192.168.22.2=4x8192MiB,share,spread"]
MINUTES = float(os.environ.get("CHURN_MINUTES") or 60)
PACE = 0.5 if MINUTES < 10 else 2    # seconds between pods


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
        samples.append(((time.monotonic() - begin) / 60, usage_of(churn.cluster)))
    text = table(samples, churn)
    print("\n" + text)
    if os.environ.get("CHURN_OUT"):
        pathlib.Path(os.environ["CHURN_OUT"]).write_text(text)
    assert samples[0][1].keys() == samples[-1][1].keys(), "a daemon was restarted"
    for daemon in samples[-1][1]:
        used = [processes[daemon] for _, processes in samples]
        # pytest would shorten a list.
        assert leaked_kib(used) <= 0, f"{daemon}: {leaked_kib(used):.0f} KiB; (resident, rings) {[(u.kib, u.rings) for u in used]}"
        # An agent has some for each pod: their number is about the same all the time.
        opened = [u.descriptors for u in used]
        third = len(opened) // 3
        assert max(opened[-third:]) <= max(opened[:-third]) + 4, (daemon, opened)
