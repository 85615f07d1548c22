"""What the tests of the simulated libcuda share: scripts that call it by ctypes, each in a process of its own."""
import os
import subprocess
import sys
import textwrap

from driver_tree import run

# `cu.NAME(...)` returns the CUresult; `ok(cu.NAME(...))` insists on success. Outputs by new(): value = new(c_int).
PRELUDE = """
import ctypes, os, signal, sys, threading, time
from ctypes import *
cu = CDLL(sys.argv[1])
MiB = 1 << 20
OK, INVALID, OOM, UNINITIALIZED, NO_DEVICE, BAD_DEVICE = 0, 1, 2, 3, 100, 101
BAD_CONTEXT, BAD_HANDLE, NOT_FOUND, NOT_READY, DESTROYED, NOT_SUPPORTED = 201, 400, 500, 600, 709, 801

def ok(result):
    assert result == OK, f"CUresult {result}"

def out(function, kind, *args):
    value = kind()
    result = getattr(cu, function)(byref(value), *args)
    assert result == OK, f"{function}: CUresult {result}"
    return value

def context(ordinal=0):
    return out("cuCtxCreate_v2", c_void_p, 0, ordinal)

def alloc(size):
    return out("cuMemAlloc_v2", c_uint64, c_size_t(size))

def try_alloc(size):
    return cu.cuMemAlloc_v2(byref(c_uint64()), c_size_t(size))

def free_bytes():
    left, total = c_size_t(), c_size_t()
    ok(cu.cuMemGetInfo_v2(byref(left), byref(total)))
    return left.value

def say(*words):
    print(*words, flush=True)

def wait():
    sys.stdin.readline()
"""


def sanitizer_environment(library):
    """What a program that loads this library needs if the library is instrumented: Python itself is not, so the
    sanitizer has to be first, and Python's own leaks are not ours."""
    if b"libasan.so" not in library.read_bytes():
        return {}
    return {"LD_PRELOAD": run("gcc", "-print-file-name=libasan.so").stdout.strip(),
            "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:verify_asan_link_order=0"}


def start(tree, script, *args, init=True, **env):
    """The process; it can say() and wait() for a line."""
    library = tree.path / "lib" / "libcuda.so.1"
    environment = dict(os.environ, **env) | sanitizer_environment(library)
    environment.pop("RATION_SIM_DIR", None)
    begin = "ok(cu.cuInit(0))\n" if init else ""
    return subprocess.Popen([sys.executable, "-c", PRELUDE + begin + textwrap.dedent(script), library, *map(str, args)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment)


def finish(process, status=0):
    out, err = process.communicate(timeout=120)
    assert process.returncode == status, out + err
    return out


def script(tree, text, *args, init=True, status=0, **env):
    return finish(start(tree, text, *args, init=init, **env), status)


def misuse(tree):
    """What `ration-sim status` counts."""
    lines = run(tree.sim, "status", tree.path).stdout.split("MISUSE")
    return {} if len(lines) == 1 else {line[:26].strip(): int(line[26:]) for line in lines[1].splitlines()[1:]}


# Of scripts that start kernels: load() gives the function of a module, launch() one block of one thread.
KERNELS = """
MODULE = b'{"rationSimModule": 1, "functions": {"ms": {"us": 1000}, "ms5": {"us": 5000}, "ms50": {"us": 50000}, '\\
         b'"ms500": {"us": 500000}, "blocks": {"us": 100, "usPerBlock": 10}, "bad": {"us": 1000, "fault": 700}}, "globals": {"table": 4096}}'

def load(name=b"ms", image=MODULE):
    return out("cuModuleGetFunction", c_void_p, out("cuModuleLoadData", c_void_p, image), name)

def launch(function, stream=None, grid=1):
    return cu.cuLaunchKernel(function, grid, 1, 1, 1, 1, 1, 0, stream, None, None)

def event(flags=0):
    return out("cuEventCreate", c_void_p, flags)

def stream(flags=1):
    return out("cuStreamCreate", c_void_p, flags)

def between(first, second):
    return out("cuEventElapsedTime", c_float, first, second).value
"""
