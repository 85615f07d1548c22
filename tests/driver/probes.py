"""Runs the probe over a driver as it is, and over the same driver with the shim in front of it."""
import functools
import os
import pathlib
import re
import subprocess

import grants

BUILD = pathlib.Path(os.environ["RATION_BUILD"])
SHIM = BUILD / "src/shim"
CARD = ("GPU-00000000-0000-0000-0000-00000000000a", "00000000:00:09.0", 2154 << 20, 16160 << 20)
SONAMES = ["libcuda.so.1", "libnvidia-ml.so.1"]
WAYS = ["grant", "preloaded"]
VERSIONS = [-1, 0, 1, 2000, 3020, 4000, 6050, 6999, 7000, 8000, 9000, 10000, 10020, 11000, 11020, 11040, 11060, 12000, 12020,
            12040, 12050, 12080, 13000, 13040, 99999]


def environment(driver, way, folder):
    """How a program finds the driver: as it is (way None), or the shim in front of it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("RATION_", "LD_", "CUDA_"))}
    env["LD_LIBRARY_PATH"] = str(SHIM if way in ("grant", "no grant") else driver.folder / "lib")
    if way in ("grant", "preloaded"):
        env["RATION_GRANT"] = str(grants.write(folder, *map(driver.library, SONAMES), [CARD]))
    if way == "preloaded":
        env["LD_PRELOAD"] = " ".join(str(SHIM / soname) for soname in SONAMES)
    return env


def probe(*arguments, names=(), env):
    """The probe's lines."""
    result = subprocess.run([BUILD / "tests/driver/probe", *map(str, arguments)], input="\n".join([*names, ""]), env=env,
                            capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.splitlines()


@functools.cache
def plain_lines(driver, *arguments, names=()):
    """What the driver says without the shim."""
    return probe(*arguments, names=names, env=environment(driver, None, None))


def compared(driver, env, *arguments, names=()):
    """Lines of the probe over the driver alone that are others in environment `env`, and how many lines there were."""
    plain = plain_lines(driver, *arguments, names=tuple(names))
    there = {line.split(" = ")[0]: line for line in probe(*arguments, names=names, env=env)}
    return [f"{line}  |  {there.get(line.split(' = ')[0], 'nothing')}" for line in plain
            if there.get(line.split(" = ")[0]) != line], len(plain)


@functools.cache
def exported(library):
    """Names of the functions and objects that a library defines for others, without those of its symbol versions."""
    # cudbg*: data and functions of the debugger's interface, which nothing but cuda-gdb asks for.
    table = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in table.splitlines())
    return {row[-1].split("@")[0] for row in rows if row[-2] in "TDBRWVi" and not row[-1].startswith("cudbg")}


def base_name(symbol):
    """The name that cuGetProcAddress knows: without the marks of versions and of per-thread streams."""
    return re.sub(r"(_v\d+)?(_ptds|_ptsz)?$", "", symbol)
