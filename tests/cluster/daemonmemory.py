"""The memory and the descriptors of the daemons of a lab while pods come and go."""
import os
import pathlib
import re
import subprocess
import typing

from storm import processes_of

DAEMONS = ("ration-scheduler", "ration-agent")
METRICS = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:39999/metrics').read().decode())"


class Usage(typing.NamedTuple):
    kib: int             # resident
    descriptors: int
    rings: int           # KiB of it, by what a scheduler says


def _resident_kib(pid):
    return int(re.search(r"^VmRSS:\s+([0-9]+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1])


def _rings_kib(name, pid):
    """What a scheduler says of its records of decisions and of changes, which fill and are dropped in large segments."""
    if name != "ration-scheduler":
        return 0
    page = subprocess.run(["nsenter", "-t", str(pid), "-n", "/usr/bin/python3", "-c", METRICS], capture_output=True, text=True, check=True).stdout
    found = re.findall(r'^ration_history_bytes\{ring="\w+"\} (\d+)$', page, re.MULTILINE)
    assert len(found) == 2, page
    return sum(map(int, found)) >> 10


def usage_of(cluster):
    """{(program, pid): Usage}"""
    return {(name, pid): Usage(_resident_kib(pid), len(os.listdir(f"/proc/{pid}/fd")), _rings_kib(name, pid))
            for name in DAEMONS for pid in processes_of(cluster, name)}


def leaked_kib(samples):
    """How much more memory a daemon has in the last third of its samples, a Usage each, than noise and its rings explain; 0 or less: no leak.

    A leak raises both the highest memory and the lowest without the rings. The highest has single samples far above the others. The
    lowest rises without a leak while the rings are emptier than before, since malloc keeps most of what they had when they were fullest.
    Where the rings become fuller, their entries leave holes: a half. What begins after the first samples of the last third is not found."""
    third = len(samples) // 3
    before, last = samples[:-third], samples[-third:]
    highest = max(s.kib for s in before)
    fuller = max(0, max(s.rings for s in last) - max(s.rings for s in before))
    more_at_most = max(s.kib for s in last) - highest - 1.5 * fuller
    more_at_least = min(s.kib - s.rings for s in last) - min(s.kib - s.rings for s in before[third:])    # a daemon grows while it starts
    return min(more_at_most, more_at_least) - highest * 0.02 - 256
