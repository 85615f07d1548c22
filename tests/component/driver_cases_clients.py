"""Programs that nobody here wrote, on the simulated driver: NVIDIA's bindings, a JIT compiler for kernels, a monitor.
These tests run on the driver itself (test_sim_cuda_clients.py) and again through the shim (test_shim_transparent.py
and test_pacing_transparent.py)."""
import subprocess
import textwrap
import time

import pytest

import cuda_clients
import sim_cuda
from sim_cuda import KERNELS


def client(tree, script):
    env = cuda_clients.environment(tree.path / "lib", NUMBA_CACHE_DIR=str(tree.path.parent / "cache"),
                                   NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS="0")
    done = subprocess.run([cuda_clients.python(), "-c", textwrap.dedent(script)], capture_output=True, text=True, env=env,
                          timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_cuda_bindings_finds_every_function_and_works(h100):
    """It resolves everything through cuGetProcAddress, with versions."""
    client(h100, """
        import ctypes
        from cuda.bindings import driver as cu
        def ok(answer):
            assert answer[0] == cu.CUresult.CUDA_SUCCESS, answer
            return answer[1] if len(answer) == 2 else answer[1:]
        ok(cu.cuInit(0)); device = ok(cu.cuDeviceGet(0))
        assert ok(cu.cuDriverGetVersion()) == 13000
        context = ok(cu.cuCtxCreate(None, 0, device))
        assert ok(cu.cuMemGetInfo()) == ((81559 - 500) << 20, 81559 << 20)
        stream = ok(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
        module = ok(cu.cuModuleLoadData(b'{"rationSimModule": 1, "functions": {"work": {"us": 2000}}}\\0'))
        kernel = ok(cu.cuModuleGetFunction(module, b"work"))
        start, end = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
        ok(cu.cuEventRecord(start, stream)); ok(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0))
        ok(cu.cuEventRecord(end, stream)); ok(cu.cuStreamSynchronize(stream))
        assert 2 <= ok(cu.cuEventElapsedTime(start, end)) < 1000
        p = ok(cu.cuMemAllocAsync(1000, stream)); ok(cu.cuMemcpyHtoDAsync(p, bytes(range(200)) * 5, 1000, stream))
        back = (ctypes.c_ubyte * 1000)(); ok(cu.cuMemcpyDtoHAsync(ctypes.addressof(back), p, 1000, stream))
        ok(cu.cuStreamSynchronize(stream)); assert bytes(back) == bytes(range(200)) * 5
        ok(cu.cuMemFreeAsync(p, stream))
        prop = cu.CUmemAllocationProp(); prop.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE; prop.location.id = 0
        size = ok(cu.cuMemGetAllocationGranularity(prop, cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM))
        handle, address = ok(cu.cuMemCreate(size, prop, 0)), ok(cu.cuMemAddressReserve(size, 0, 0, 0))
        ok(cu.cuMemMap(address, size, 0, handle, 0)); ok(cu.cuMemUnmap(address, size)); ok(cu.cuMemRelease(handle))
        ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
        ok(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0))
        graph = ok(cu.cuStreamEndCapture(stream)); run = ok(cu.cuGraphInstantiate(graph, 0)); ok(cu.cuGraphLaunch(run, stream))
        ok(cu.cuCtxSynchronize())
        assert cu.cuMemAlloc(1 << 60)[0] == cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY
        ok(cu.cuCtxDestroy(context))
    """)


@pytest.mark.long(20)    # as in test_shim_transparent.py, without the shim
def test_numba_compiles_and_launches_kernels(h100):
    """Arrays, streams, events, every kind of memory, and its own compiler's cubins."""
    client(h100, """
        import numpy as np
        from numba import cuda
        a = np.arange(1 << 20, dtype=np.float32); d = cuda.to_device(a)
        assert (d.copy_to_host() == a).all()
        free, total = cuda.current_context().get_memory_info()
        assert total == 81559 << 20 and total - free == (500 + 4) << 20, (total - free) >> 20
        stream, start, end = cuda.stream(), cuda.event(), cuda.event()
        cuda.mapped_array(100); cuda.pinned_array(100); managed = cuda.managed_array(100, dtype=np.int8); managed[5] = 7
        @cuda.jit
        def add(x):
            i = cuda.grid(1)
            if i < x.size:
                x[i] += 1
        start.record(stream); add[8192, 128, stream](d); end.record(stream); end.synchronize()
        assert start.elapsed_time(end) > 0.004, start.elapsed_time(end)    # 5 us, for what was made for a real card
        try:
            cuda.device_array(1 << 40)
            raise SystemExit("no error")
        except cuda.cudadrv.driver.CudaAPIError as error:
            assert "OUT_OF_MEMORY" in str(error), error
        del d
    """)


def busy(tree):
    process = sim_cuda.start(tree, KERNELS + textwrap.dedent("""
        context(); alloc(1000 * MiB); ms5 = load(b"ms5"); say("ready"); end = time.monotonic() + 600    # a client that starts beside twenty tests takes a minute
        while time.monotonic() < end:
            ok(launch(ms5)); ok(cu.cuCtxSynchronize()); time.sleep(0.005)
    """))
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.2)
    return process


def test_nvml_bindings_show_memory_processes_and_utilisation(h100):
    process = busy(h100)
    out = client(h100, """
        import pynvml as n
        n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)
        print(n.nvmlDeviceGetMemoryInfo(h).used >> 20)
        print([(p.pid, p.usedGpuMemory >> 20) for p in n.nvmlDeviceGetComputeRunningProcesses(h)])
        print(n.nvmlDeviceGetUtilizationRates(h).gpu)
        print([(s.pid, s.smUtil) for s in n.nvmlDeviceGetProcessUtilization(h, 0)])
    """).splitlines()
    process.kill()
    process.communicate()
    assert out[0] == "1500" and out[1] == str([(process.pid, 1500)]), out
    pid, share = eval(out[3])[0]
    assert 10 <= int(out[2]) <= 60 and pid == process.pid and 10 <= share <= 60, out


def test_nvitop_shows_who_uses_the_card(h100):
    process = busy(h100)
    env = cuda_clients.environment(h100.path / "lib", COLUMNS="120", TERM="dumb")
    out = subprocess.run([cuda_clients.python(), "-m", "nvitop", "-1"], capture_output=True, text=True, env=env, timeout=300)
    process.kill()
    process.communicate()
    assert out.returncode == 0, out.stderr
    assert "1500MiB / 79.65GiB" in out.stdout and f" {process.pid} " in out.stdout, out.stdout
