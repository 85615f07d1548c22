"""A stand-in for the documents' benchmark: keeps a GPU busy, and prints each round as their log does.

A round is 300 ms of the GPU's work (300 kernels of 1 ms on the simulated GPU, whose modules say how long they take) and
a copy of 32,000,000 bytes to it. Where there is no GPU it becomes the other sample program.
"""

import argparse
import ctypes
import os
import signal
import sys
import time

ROUND_KERNELS = 300
MODULE = b'{"rationSimModule": 1, "functions": {"work": {"us": 1000}}}'
COPY_BYTES = 32_000_000
WITHOUT_GPU = "/root/tensorflow-sample-code/tfjob/docker/mnist/main.py"


def must(result, what):
    if result:
        sys.exit(f"{what}: CUresult {result}")


def load():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        if cuda.cuInit(0) == 0:
            return cuda
    except OSError:
        pass
    os.execv(sys.executable, [sys.executable, WITHOUT_GPU, *sys.argv[1:]])


class Gpu:
    def __init__(self):
        self.cuda = load()
        name, context, module = ctypes.create_string_buffer(100), ctypes.c_void_p(), ctypes.c_void_p()
        self.function, self.memory = ctypes.c_void_p(), ctypes.c_uint64()
        self.bytes = ctypes.create_string_buffer(COPY_BYTES)
        must(self.cuda.cuDeviceGetName(name, 100, 0), "cuDeviceGetName")
        must(self.cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0), "cuCtxCreate")
        must(self.cuda.cuMemAlloc_v2(ctypes.byref(self.memory), ctypes.c_size_t(COPY_BYTES)), "cuMemAlloc")
        if self.cuda.cuModuleLoadData(ctypes.byref(module), MODULE):
            module = None     # a real GPU: only copies
        else:
            must(self.cuda.cuModuleGetFunction(ctypes.byref(self.function), module, b"work"), "cuModuleGetFunction")
        self.kernels = ROUND_KERNELS if module else 0
        self.name = name.value.decode()

    def work(self):
        for _ in range(self.kernels):
            must(self.cuda.cuLaunchKernel(self.function, 1, 1, 1, 1, 1, 1, 0, None, None, None), "cuLaunchKernel")
        must(self.cuda.cuCtxSynchronize(), "cuCtxSynchronize")
        must(self.cuda.cuMemcpyHtoD_v2(self.memory, self.bytes, ctypes.c_size_t(COPY_BYTES)), "cuMemcpyHtoD")


def main():
    # Pid 1 of a container ignores SIGTERM unless it handles it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_batches", type=int, default=500_000_000)
    rounds = parser.parse_known_args()[0].num_batches
    gpu = Gpu()
    print(f"[CUDA Bandwidth Test] - Starting...\nRunning on...\n\n Device 0: {gpu.name}\n Quick Mode\n", flush=True)
    for count in range(rounds):
        gpu.work()
        print(f"time: {time.strftime('%Y-%m-%d/%H:%M:%S')},count: {count},memSize: {COPY_BYTES},"
              "succeed to copy data from host to gpu", flush=True)


if __name__ == "__main__":
    main()
