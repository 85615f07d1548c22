"""What the drivers export, the substitutes must have: a program that is linked with such a name does not start without it."""
import os
import pathlib
import subprocess

import pytest

from known import judge

SHIM = pathlib.Path(os.environ["RATION_BUILD"]) / "src/shim"

KNOWN = {
    "libcuda.so.1": {
        "C15, video: OpenGL, EGL and VDPAU": "^cu(Graphics)?(GL|EGL|VDPAU)|^cuGraphicsResourceGetMappedEglFrame",
        "C16, not in the list of 13.0": "^cuMemGetAttribute",
    },
    "libnvidia-ml.so.1": {"C16, old names": "^nvmlGetBlacklist|^nvmlRetry_NvRmControl"},
}


def exported(library):
    """Names of the functions and objects that a library defines for others, without those of its symbol versions."""
    # cudbg*: data and functions of the debugger's interface, which nothing but cuda-gdb asks for.
    table = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in table.splitlines())
    return {row[-1].split("@")[0] for row in rows if row[-2] in "TDBRWVi" and not row[-1].startswith("cudbg")}


@pytest.mark.parametrize("soname", sorted(KNOWN))
def test_the_shim_has_what_the_driver_exports(driver, soname):
    judge(sorted(exported(driver.library(soname)) - exported(SHIM / soname)), KNOWN[soname])
