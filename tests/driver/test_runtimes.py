"""CUDA's runtime library and what is built on it, over the real drivers with and without the shim."""
import subprocess

import pytest

from nvidia_libraries import FRAMEWORKS
from probes import WAYS, environment

RUNTIMES = [("nvidia-cuda-runtime-cu11", "11.8.89"), ("nvidia-cuda-runtime-cu12", "12.0.146"),
            ("nvidia-cuda-runtime-cu12", "12.9.79"), ("nvidia-cuda-runtime", "13.0.96"), ("nvidia-cuda-runtime", "13.5.37")]
SCRIPT = """
import sys
from ctypes import *
rt = CDLL(sys.argv[1])
rt.cudaGetErrorName.restype = rt.cudaGetErrorString.restype = c_char_p
def say(name, *args):
    value = getattr(rt, name)(*args)
    print(name, value, rt.cudaGetErrorName(value), rt.cudaGetErrorString(value))
number, pointer, free, total = c_int(-1), c_void_p(), c_size_t(), c_size_t()
for name in ("cudaRuntimeGetVersion", "cudaDriverGetVersion", "cudaGetDeviceCount", "cudaGetDevice"):
    say(name, byref(number))
    print(number.value)
say("cudaMalloc", byref(pointer), c_size_t(1 << 20))
say("cudaMallocManaged", byref(pointer), c_size_t(1 << 20), 1)
say("cudaMallocHost", byref(pointer), c_size_t(1 << 20))
say("cudaMemGetInfo", byref(free), byref(total))
say("cudaSetDevice", 0)
say("cudaFree", c_void_p())
say("cudaStreamCreate", byref(pointer))
say("cudaDeviceSynchronize")
say("cudaDeviceReset")
say("cudaGetLastError")
for code in range(0, 1001):
    print(code, rt.cudaGetErrorName(code), rt.cudaGetErrorString(code))
"""
PROGRAMS = {
    "torch": "import torch; print(torch.version.cuda, torch.cuda.is_available(), torch.cuda.device_count())\n"
             "try: torch.zeros(1, device='cuda')\nexcept Exception as e: print(type(e), str(e).splitlines()[0])",
    "cupy": "import cupy\ntry: print(cupy.cuda.runtime.getDeviceCount())\nexcept Exception as e: print(type(e), e)\n"
            "try: print(cupy.zeros(3))\nexcept Exception as e: print(type(e), e)",
}


def python(script, *args, env):
    result = subprocess.run(["/usr/bin/python3", "-c", script, *map(str, args)], env=env, capture_output=True, text=True, timeout=300)
    return result.returncode, result.stdout, result.stderr


@pytest.mark.parametrize("runtime", RUNTIMES, ids="-".join)
def test_libcudart_without_a_gpu(driver, wheel, runtime, tmp_path):
    library = next(wheel(*runtime).rglob("libcudart.so.*"))
    status, expected, err = python(SCRIPT, library, env=environment(driver, None, tmp_path))
    assert status == 0 and ("cudaErrorNoDevice" in expected or "cudaErrorInsufficientDriver" in expected), expected[:2000] + err
    for way in WAYS:
        assert python(SCRIPT, library, env=environment(driver, way, tmp_path)) == (status, expected, err), way


@pytest.mark.full    # fetches gigabytes
@pytest.mark.parametrize("framework", sorted(FRAMEWORKS))
def test_frameworks_without_a_gpu(driver, site, framework, tmp_path):
    folder = str(site(framework, FRAMEWORKS[framework]))
    plain, *shimmed = (python(PROGRAMS[framework], env=dict(environment(driver, way, tmp_path), PYTHONPATH=folder))
                       for way in [None, *WAYS])
    assert plain[0] == 0 and plain[1], plain[2]
    for way, result in zip(WAYS, shimmed):
        assert result == plain, way
