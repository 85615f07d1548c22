"""The shim by itself: programs that load it, drivers that do nothing, and the symbols that it hooks."""
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

import fake_driver
import grants
import hook_rows
from sim_cuda import sanitizer_environment

BUILD = pathlib.Path(os.environ["RATION_BUILD"])
SHIM = BUILD / "src/shim"
SANITIZED_SHIM = BUILD / "tests/component/sanitized"    # only in a build with sanitizers
LOADED_SHIM = SANITIZED_SHIM if SANITIZED_SHIM.exists() else SHIM    # by programs that load a sanitizer first
LIBRARIES = ["libcuda.so.1", "libnvidia-ml.so.1"]
CARD = ("GPU-00000000-0000-0000-0000-00000000000a", "00000000:00:09.0", 2154 << 20, 16160 << 20)
needs_no_grant_here = pytest.mark.skipif(os.path.exists("/run/ration/grant"), reason="this machine has a grant")


def python(code, grant=None, env=None, **kwargs):
    """Runs a script with `cuda` and `ml` loaded from the shim, in a process of its own."""
    prelude = f"""
        import ctypes, os, sys, threading
        from ctypes import *
        cuda = CDLL({str(LOADED_SHIM / 'libcuda.so.1')!r}, use_errno=True)
        ml = CDLL({str(LOADED_SHIM / 'libnvidia-ml.so.1')!r}, use_errno=True)
        """
    full = {k: v for k, v in os.environ.items() if not k.startswith("RATION_")}
    full |= sanitizer_environment(LOADED_SHIM / "libcuda.so.1") | (env or {})
    if grant:
        full["RATION_GRANT"] = str(grant)
    return subprocess.run([sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(code)], env=full, text=True,
                          capture_output=True, timeout=60, **kwargs)


def succeeds(*args, **kwargs):
    result = python(*args, **kwargs)
    assert result.returncode == 0, result.stderr
    return result.stdout


def with_driver(tmp_path, source, **more):
    cuda = fake_driver.build(tmp_path, "libcuda.so.1", source, **more)
    return grants.write(tmp_path, cuda, cuda, [CARD])


def hooked(library):
    return {name for of, name, _, _ in hook_rows.read() if of == ("CUDA" if "cuda" in library else "NVML")}


def nvml_granted(tmp_path, *indices, pids=(), limit=2154 << 20, charged=0):
    ml = fake_driver.build(tmp_path, "libnvidia-ml.so.1", fake_driver.NVML_CARDS)
    grant = grants.write(tmp_path, ml, ml, [(fake_driver.uuid(i), f"00000000:{i:02x}:00.0", limit, 16160 << 20)
                                            for i in indices])
    grants.charge(tmp_path / "usage", 0, charged, pids)
    return grant
