"""A machine for `ration run`: a driver tree and a registry of its own; programs that call CUDA."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest

from driver_tree import BUILD, Tree, run as run_checked

RATION = BUILD / "src/cli/ration"
LAYERS = ["mount", "preload"]
SANITIZED = b"libasan.so" in (BUILD / "sim/libcuda.so.1").read_bytes()
needs_no_grant_here = pytest.mark.skipif(os.path.exists("/run/ration/grant"), reason="this machine has a grant")


class Machine:
    """A driver tree and a registry of its own, both open to every user."""

    def __init__(self, path):
        self.tree = Tree(path / "tree")
        self.lib = self.tree.path / "lib"
        self.runs = path / "runs"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("RATION_", "CUDA_", "LD_"))}
        self.env["RATION_RUNS"] = str(self.runs)
        if SANITIZED:    # programs load the simulated driver, whose sanitizer has to be there before them
            libasan = run_checked("gcc", "-print-file-name=libasan.so").stdout.strip()
            self.env |= {"LD_PRELOAD": libasan, "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
        self.leaves_folders = False    # a test that kills a keeper, or makes folders of its own, says so
        self.runs.mkdir()
        self.runs.chmod(0o1777)

    def command(self, *program, mem="2154MiB", args=()):
        return [str(a) for a in (RATION, "run", "--mem", mem, "--driver", self.lib, *args, "--", *program)]

    def run(self, *program, mem="2154MiB", args=(), env=None, **kwargs):
        kwargs = {"capture_output": True, "text": True, "timeout": 60, **kwargs}
        return subprocess.run(self.command(*program, mem=mem, args=args), env=self.env | (env or {}), **kwargs)

    def start(self, *program, mem="2154MiB", args=(), **kwargs):
        kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **kwargs}
        return subprocess.Popen(self.command(*program, mem=mem, args=args), env=self.env, **kwargs)

    def python(self, code, **kwargs):
        return self.run(sys.executable, "-c", textwrap.dedent(CUDA) + textwrap.dedent(code), **kwargs)

    def ps(self):
        return subprocess.run([RATION, "ps"], env=self.env, capture_output=True, text=True, check=True).stdout

    def folders(self):
        return sorted(p.name for p in self.runs.iterdir())

    def becomes_empty(self, within=5):
        deadline = time.monotonic() + within
        while self.folders() and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self.folders()


CUDA = """
    import os, sys, time
    from ctypes import *
    cuda = CDLL("libcuda.so.1")
    def context(device=0):
        c, d = c_void_p(), c_int()
        assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(byref(d), device) == 0
        assert cuda.cuCtxCreate_v2(byref(c), 0, d) == 0
        return c
    def memory():
        free, total = c_size_t(), c_size_t()
        assert cuda.cuMemGetInfo_v2(byref(free), byref(total)) == 0
        return free.value, total.value
"""


def keeper_of(machine):
    """The one that has the folder of a run open. `ration run` itself has it open too, until it becomes the program."""
    for _ in range(100):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                is_keeper = pathlib.Path(f"/proc/{pid}/comm").read_text() == "ration-keeper\n"
                if is_keeper and any(os.readlink(f"/proc/{pid}/fd/{fd}").startswith(str(machine.runs) + "/")
                                     for fd in os.listdir(f"/proc/{pid}/fd")):
                    return int(pid)
            except OSError:
                pass
        time.sleep(0.02)
    raise AssertionError("no keeper")


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def as_nobody(machine, *command, within=()):
    """Skips where another user cannot read what was built. within: a command of root's that begins the user's."""
    if subprocess.run([*NOBODY, RATION, "--version"], capture_output=True).returncode != 0:
        pytest.skip("the build folder is closed to other users")
    return subprocess.run([*within, *NOBODY, *command], env=machine.env, capture_output=True, text=True, cwd="/",
                          timeout=60)


def as_root(machine, *program, within=()):
    return subprocess.run([*within, *program], env=machine.env, capture_output=True, text=True)


SANDBOX = ["unshare", "-Urpf", "--kill-child"]


@contextlib.contextmanager
def temporary_machine(*options):
    """options: of `ration-sim up`."""
    # pytest's own folders are closed to other users.
    path = pathlib.Path(tempfile.mkdtemp(prefix="ration-run-test-", dir="/tmp"))
    path.chmod(0o755)
    made = Machine(path)
    made.tree.up("--gpus", "2x16160MiB", *options)
    subprocess.run(["chmod", "-R", "a+rwX", made.tree.path / "state"], check=True)
    yield made
    empty = made.leaves_folders or made.becomes_empty(within=20)
    run_checked(BUILD / "sim/ration-sim", "down", made.tree.path, check=False)
    shutil.rmtree(path, ignore_errors=True)
    assert empty, "a keeper has not cleaned up after its run: it has died, or the run has not ended"
