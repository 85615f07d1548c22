"""NVIDIA's video library over the shim and the simulated GPU. It looks up 133 functions of libcuda, those for OpenGL, EGL and
VDPAU among them, and does nothing without each."""
import subprocess
import sys

import pytest

from probes import SHIM, exported
from shim_memory import _granted  # noqa: F401 (fixture)
from test_sim import tree  # noqa: F401 (fixture)

VIDEO = """
import ctypes
from ctypes import *
cu, video = CDLL("libcuda.so.1"), CDLL("libnvcuvid.so.1")
context, lock = c_void_p(), c_void_p()
assert cu.cuInit(0) == 0 and cu.cuCtxCreate_v2(byref(context), 0, 0) == 0
print(video.cuvidCtxLockCreate(byref(lock), context), video.cuvidCtxLock(lock, 0), video.cuvidCtxUnlock(lock, 0),
      video.cuvidCtxLockDestroy(lock))
"""


@pytest.mark.parametrize("way", ["by name", "preloaded"])
def test_the_video_library_finds_all_that_it_looks_up(driver, granted, tmp_path, way):
    """Where a name is missing it answers CUDA_ERROR_NO_DEVICE, or looks for ever."""
    folder = tmp_path / "video"
    folder.mkdir()
    (folder / "libnvcuvid.so.1").symlink_to(driver.library("libnvcuvid.so.1"))
    found = SHIM if way == "by name" else granted.tree.path / "lib"
    env = {"PATH": "/usr/bin", "LD_LIBRARY_PATH": f"{found}:{folder}", "RATION_GRANT": str(granted.grant)}
    if way == "preloaded":
        env["LD_PRELOAD"] = str(SHIM / "libcuda.so.1")
    result = subprocess.run([sys.executable, "-c", VIDEO], env=env, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout.split()) == (0, ["0"] * 4), result.stdout + result.stderr


def test_its_names_are_there(driver):
    """Each name of libcuda that its file holds."""
    text = driver.library("libnvcuvid.so.1").read_bytes()
    names = {name for name in exported(driver.library("libcuda.so.1")) if b"\0" + name.encode() + b"\0" in text}
    assert len(names) > 60 and "cuGLGetDevices_v2" in names
    assert names <= exported(SHIM / "libcuda.so.1")
