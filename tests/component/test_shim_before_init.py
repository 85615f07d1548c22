"""Before cuInit and nvmlInit the driver refuses a call without reading what its arguments point to, and so does the shim:
every hooked function, with pointers that are NULL, unmapped or misaligned, each in a process of its own, against the
driver without the shim."""
import json
import os
import subprocess
import sys

import pytest

import fake_driver
import hook_rows
from driver_tree import NEWEST
from shim_programs import hooked

pytestmark = [pytest.mark.skipif(os.path.exists("/run/ration/grant"), reason="this machine has a grant"),
              pytest.mark.plain,    # the sanitizer answers for the driver
              # All hooked functions are there.
              pytest.mark.parametrize("machine", [["--driver-version", NEWEST]], indirect=True, ids=[NEWEST])]

# NULL, unmapped, misaligned and unmapped, no address at all.
VALUES = [0, 8, 0x1001, 0xffff800000000001]
SWEEP = """
import ctypes, json, os, resource, sys
library, prepare, names, values = json.load(sys.stdin)
lib = ctypes.CDLL(library)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
exec(prepare)
answers = {}
for name in names:
    function = getattr(lib, name, None)
    for value in values if function else []:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            # More than any function takes: some take structures by value, which lie on the stack.
            os.write(write, b"%d" % function(*[ctypes.c_uint64(value)] * 24))
            os._exit(0)
        os.close(write)
        answer = os.read(read, 16).decode()
        status = os.waitpid(pid, 0)[1]
        os.close(read)
        answers[f"{name}({value:#x})"] = answer or f"signal {os.WTERMSIG(status)}"
print(json.dumps(answers))
"""
# Return a text, or nothing.
NO_NUMBER = {"nvmlErrorString"}


def answers(library, names, env, command=(), prepare=""):
    done = subprocess.run([*command, sys.executable, "-c", SWEEP], env=env, capture_output=True, text=True, timeout=300,
                          input=json.dumps([library, prepare, sorted(names), VALUES]))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def differences(machine, library, args, prepare=""):
    names = hooked(library) - NO_NUMBER
    if library != "libcuda.so.1":
        names = {name for name in names if name in hooks_only()}
    bare = answers(library, names, machine.env | {"LD_LIBRARY_PATH": str(machine.lib)}, prepare=prepare)
    under = answers(library, names, machine.env, machine.command(args=args), prepare=prepare)
    assert len(under) == len(names) * len(VALUES) > 100
    # No simulated driver has the functions of CUDA 13.5.
    assert {call.split("(")[0] for call in under.keys() - bare.keys()} <= {"cuFabricCpyBatchAsync", "cuFabricCpyBatchAsync_ptsz"}
    # Where the simulated driver is not as strict as NVIDIA's, which says that it is not initialised.
    right = "3" if library == "libcuda.so.1" else "1"
    return {call: (bare[call], under[call]) for call in bare if under[call] not in (bare[call], right)}


def hooks_only():
    """Not those that are denied to everybody: their answer is the shim's own."""
    return {name for library, name, kind, _ in hook_rows.read() if library == "NVML" and kind != "DENY"}


@pytest.mark.parametrize("args", [[], ["--core", "30"]], ids=["memory", "computing power"])
def test_cuda_before_cuinit(machine, args):
    assert differences(machine, "libcuda.so.1", args) == {}


def test_nvml_before_nvmlinit(machine):
    assert differences(machine, "libnvidia-ml.so.1", []) == {}


@pytest.mark.parametrize("args", [[], ["--core", "30"]], ids=["memory", "computing power"])
def test_cuda_without_a_context(machine, args):
    """Each child starts the driver itself: one that was forked afterwards may not use it. NULL only: with another pointer
    that leads nowhere the driver may read it, too."""
    prepare = "values = [0]\nfork = os.fork\nos.fork = lambda: fork() or (lib.cuInit(0), 0)[1]"
    names = hooked("libcuda.so.1")
    bare = answers("libcuda.so.1", names, machine.env | {"LD_LIBRARY_PATH": str(machine.lib)}, prepare=prepare)
    under = answers("libcuda.so.1", names, machine.env, machine.command(args=args), prepare=prepare)
    assert {call: (bare[call], under[call]) for call in bare if bare[call] != under[call]} == {}
