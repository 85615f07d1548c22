"""NVIDIA's video libraries over the shim and the simulated GPU. That for decoding looks up 133 functions of libcuda, those for
OpenGL, EGL and VDPAU among them, and does nothing without each."""
import subprocess
import sys

import pytest

from probes import SHIM, WAYS, environment, exported

UNSUPPORTED_DEVICE = 2    # NV_ENC_ERR_UNSUPPORTED_DEVICE

VIDEO = """
import ctypes
from ctypes import *
cu, video = CDLL("libcuda.so.1"), CDLL("libnvcuvid.so.1")
context, lock = c_void_p(), c_void_p()
assert cu.cuInit(0) == 0 and cu.cuCtxCreate_v2(byref(context), 0, 0) == 0
print(video.cuvidCtxLockCreate(byref(lock), context), video.cuvidCtxLock(lock, 0), video.cuvidCtxUnlock(lock, 0),
      video.cuvidCtxLockDestroy(lock))
"""


# From nvEncodeAPI.h of Video Codec SDK 11.1 to 12.2: a structure's version has that of the API (major, minor in the highest byte),
# its own, and 7 in front; of NV_ENCODE_API_FUNCTION_LIST function 30 is nvEncOpenEncodeSessionEx, 28 nvEncDestroyEncoder.
ENCODE = """
from ctypes import *
cu, encode = CDLL("libcuda.so.1"), CDLL("libnvidia-encode.so.1")
newest, context, session = c_uint32(), c_void_p(), c_void_p()
print("newest", encode.NvEncodeAPIGetMaxSupportedVersion(byref(newest)), newest.value)
api = newest.value >> 4 | (newest.value & 15) << 24
functions, parameters = (c_uint64 * 512)(api | 2 << 16 | 7 << 28), (c_uint64 * 512)(api | 1 << 16 | 7 << 28 | 1 << 32)
print("create", encode.NvEncodeAPICreateInstance(functions), sum(f != 0 for f in functions))
print("context", cu.cuInit(0), cu.cuCtxCreate_v2(byref(context), 0, 0))
parameters[1], parameters[3] = context.value or 0, api
status = CFUNCTYPE(c_int, c_void_p, c_void_p)(functions[30])(parameters, byref(session)) if context else None
print("open", status, session.value is not None)
if session:
    print("destroy", CFUNCTYPE(c_int, c_void_p)(functions[28])(session))
"""


def video(program, driver, folder, found, **env):
    """What the program says with the video libraries of the driver, and libcuda in the folder `found`."""
    libraries = folder / "video"
    libraries.mkdir(exist_ok=True)
    for name in "libnvcuvid.so.1", "libnvidia-encode.so.1":    # the second one needs the first
        if not (libraries / name).exists():
            (libraries / name).symlink_to(driver.library(name))
    result = subprocess.run([sys.executable, "-c", program], env={"PATH": "/usr/bin", "LD_LIBRARY_PATH": f"{found}:{libraries}"} | env,
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


@pytest.mark.parametrize("way", ["by name", "preloaded"])
def test_encoding_is_refused_or_works_as_without_the_shim(driver, granted, tmp_path, way):
    """The simulated GPU has no engine for it, which the library finds out by itself: on it a session is refused. What matters is
    that the shim changes nothing, and that nothing hangs."""
    plain = video(ENCODE, driver, tmp_path, granted.tree.path / "lib")
    assert plain[0].startswith("newest 0 ") and plain[1].startswith("create 0 ") and plain[2] == "context 0 0"
    assert plain[3] == f"open {UNSUPPORTED_DEVICE} False"
    found = SHIM if way == "by name" else granted.tree.path / "lib"
    preload = {"LD_PRELOAD": str(SHIM / "libcuda.so.1")} if way == "preloaded" else {}
    assert video(ENCODE, driver, tmp_path, found, RATION_GRANT=str(granted.grant), **preload) == plain


def test_encoding_without_a_gpu(driver, tmp_path):
    """The real driver says that there is none, with and without the shim."""
    plain = video(ENCODE, driver, tmp_path, driver.folder / "lib")
    assert plain[2:] == ["context 100 3", "open None False"]
    for way in WAYS:
        env = environment(driver, way, tmp_path)
        assert video(ENCODE, driver, tmp_path, env.pop("LD_LIBRARY_PATH"), **env) == plain


@pytest.mark.parametrize("way", ["by name", "preloaded"])
def test_the_video_library_finds_all_that_it_looks_up(driver, granted, tmp_path, way):
    """Where a name is missing it answers CUDA_ERROR_NO_DEVICE, or looks for ever."""
    found = SHIM if way == "by name" else granted.tree.path / "lib"
    preload = {"LD_PRELOAD": str(SHIM / "libcuda.so.1")} if way == "preloaded" else {}
    assert video(VIDEO, driver, tmp_path, found, RATION_GRANT=str(granted.grant), **preload) == ["0 0 0 0"]


def test_its_names_are_there(driver):
    """Each name of libcuda that its file holds."""
    text = driver.library("libnvcuvid.so.1").read_bytes()
    names = {name for name in exported(driver.library("libcuda.so.1")) if b"\0" + name.encode() + b"\0" in text}
    assert len(names) > 60 and "cuGLGetDevices_v2" in names
    assert names <= exported(SHIM / "libcuda.so.1")
