"""The version before this one: the charts and programs of the commit that the file previous-version names, built once
into the cache."""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from cluster import ROOT

sys.path.insert(0, str(ROOT / "lab"))
from rationlab import paths    # noqa: E402

COMMIT = (pathlib.Path(__file__).parent / "previous-version").read_text(encoding="ascii").split()[0]
PROGRAMS = {"ration-agent": "src/agent/ration-agent", "ration-scheduler": "src/scheduler/ration-scheduler",
            "shim/libcuda.so.1": "src/shim/libcuda.so.1", "shim/libnvidia-ml.so.1": "src/shim/libnvidia-ml.so.1"}


def _quietly(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout.decode(errors='replace')[-3000:]}"


def _build(folder):
    (folder / "source").mkdir(parents=True)
    _quietly("git", "-C", ROOT, "archive", "-o", folder / "source.tar", COMMIT)
    _quietly("tar", "-xf", folder / "source.tar", "-C", folder / "source")
    (folder / "source.tar").unlink()
    _quietly("meson", "setup", folder / "build", folder / "source")
    _quietly("nice", "ninja", "-C", folder / "build", *PROGRAMS.values())


def get():
    """(folder of its charts, programs as lab's recipes name them)"""
    there = subprocess.run(["git", "-C", ROOT, "cat-file", "-e", COMMIT + "^{commit}"], capture_output=True, check=False)
    if there.returncode != 0:
        pytest.skip(f"this clone has not the commit {COMMIT} of tests/cluster/previous-version (git fetch --unshallow)")
    root = paths.cache_root() / "previous"
    made = root / COMMIT
    root.mkdir(parents=True, exist_ok=True)
    with open(root / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_dir():
            scratch = root / "building"
            shutil.rmtree(scratch, ignore_errors=True)
            _build(scratch)
            os.rename(scratch, made)
    return made / "source/deploy/charts", {name: made / "build" / path for name, path in PROGRAMS.items()}
