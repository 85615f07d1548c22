"""What the drivers export, the substitutes must have: a program that is linked with such a name does not start without it."""
import pytest

from known import judge
from probes import SHIM, exported

KNOWN = {
    "libcuda.so.1": {
        "C15, video: OpenGL, EGL and VDPAU": "^cu(Graphics)?(GL|EGL|VDPAU)|^cuGraphicsResourceGetMappedEglFrame",
        "C16, not in the list of 13.0": "^cuMemGetAttribute",
    },
    "libnvidia-ml.so.1": {"C16, old names": "^nvmlGetBlacklist|^nvmlRetry_NvRmControl"},
}


@pytest.mark.parametrize("soname", sorted(KNOWN))
def test_the_shim_has_what_the_driver_exports(driver, soname):
    judge(sorted(exported(driver.library(soname)) - exported(SHIM / soname)), KNOWN[soname])
