"""client.py NAME [NUMBER...]: programs that use a GPU step by step. After each step it prints a line of JSON and waits for a
line, so that the row can measure from outside meanwhile."""
import ctypes
import json
import os
import subprocess
import sys
import time
from ctypes import byref, c_int, c_size_t, c_ulonglong, c_void_p

from cudalib import (LOCAL_PTX, MIB, OK, TABLE_BYTES, AccessDesc, AllocNode, ArrayShape, Cuda, ExternalHandle, IpcHandle,
                     Location, say, wait)

GRAPH_USED, GRAPH_RESERVED, POOL_RESERVED, POOL_USED = 0, 2, 5, 7
POSIX_FD = 1


def contexts(count):
    """So many contexts, one after the other, until one is refused; then as much memory as there is."""
    cuda, made, refusal, allocated = Cuda().open(), 0, 0, 0
    context = c_void_p()
    for _ in range(count):
        refusal = cuda.call("cuCtxCreate_v2", byref(context), 0, cuda.device)
        if refusal != OK:
            break
        made += 1
        if count <= 8:
            say(made=made)
            if not wait():
                return
    if count <= 8:
        return
    say(made=made, refusal=refusal)
    wait()
    while made and cuda.try_alloc(16 * MIB)[0] == OK:
        allocated += 16 * MIB
    say(allocated=allocated)
    wait()


def memory_after_context():
    """Free memory before, during and after a second context in which nothing is allocated."""
    cuda = Cuda().open()
    cuda.context()
    say(free=cuda.memory()[0])
    wait()
    second = cuda.context()
    say(free=cuda.memory()[0])
    wait()
    cuda.must("cuCtxDestroy_v2", second)
    say(free=cuda.memory()[0])
    wait()
    say(free=cuda.memory()[0])


def small():
    """Where the driver puts requests of one byte, and of 1 MiB and a byte more."""
    cuda = Cuda().open()
    cuda.context()
    ones = sorted(cuda.alloc(1).value for _ in range(64))
    least = min(b - a for a, b in zip(ones, ones[1:]))
    halves = [cuda.alloc(MIB // 2).value for _ in range(8)]
    over = [cuda.alloc(MIB + 1).value for _ in range(4)]
    say(step=least, block=len({a >> 21 for a in halves}), over=len({a >> 21 for a in over}),
        over_aligned=all(a % (2 * MIB) == 0 for a in over))


def modules():
    """A module with a table of 4 MiB; a kernel; local memory; limits of the context."""
    cuda = Cuda().open()
    cuda.context()
    address = cuda.alloc(4096)
    say(step="context")
    wait()
    module = cuda.module()
    say(step="module")
    wait()
    cuda.run_kernel(module, b"touch", address.value)
    say(step="kernel")
    wait()
    deep = cuda.module(LOCAL_PTX)
    cuda.run_kernel(deep, b"deep", address.value)
    say(step="local")
    wait()
    cuda.call("cuCtxSetLimit", 2, c_size_t(256 * MIB))
    say(step="heap")
    wait()
    cuda.must("cuModuleUnload", module)
    say(step="unload", table=TABLE_BYTES)
    wait()


def pools():
    cuda = Cuda().open()
    cuda.context()
    pool = cuda.made(c_void_p, "cuDeviceGetDefaultMemPool", cuda.device)
    own = cuda.made(c_void_p, "cuMemPoolCreate", byref(cuda.pool_props()))

    def told(step, which):
        say(step=step, reserved=cuda.pool_attribute(which, POOL_RESERVED), used=cuda.pool_attribute(which, POOL_USED))
        wait()

    first, second = c_ulonglong(), c_ulonglong()
    told("none", pool)
    cuda.must("cuMemAllocAsync", byref(first), c_size_t(MIB), None)
    cuda.must("cuCtxSynchronize")
    told("1 MiB", pool)
    cuda.must("cuMemAllocAsync", byref(second), c_size_t(33 * MIB), None)
    cuda.must("cuCtxSynchronize")
    told("1 and 33 MiB", pool)
    cuda.must("cuMemFreeAsync", second, None)
    cuda.must("cuMemFreeAsync", first, None)
    told("freed", pool)
    cuda.must("cuCtxSynchronize")
    told("synchronised", pool)
    cuda.must("cuMemPoolTrimTo", pool, c_size_t(0))
    told("trimmed", pool)
    cuda.must("cuMemAllocFromPoolAsync", byref(first), c_size_t(MIB), own, None)
    cuda.must("cuCtxSynchronize")
    told("1 MiB of a pool of its own", own)


def _alloc_graph(cuda, size):
    graph, node, execution = cuda.made(c_void_p, "cuGraphCreate", 0), c_void_p(), c_void_p()
    params = AllocNode(pool=cuda.pool_props(), bytes=size)
    cuda.must("cuGraphAddMemAllocNode", byref(node), graph, None, c_size_t(0), byref(params))
    cuda.must("cuGraphInstantiateWithFlags", byref(execution), graph, c_ulonglong(0))
    return graph, execution, params.address


def graphs():
    """What graph memory is used and reserved as a graph with an allocation node goes its way."""
    cuda = Cuda().open()
    cuda.context()

    def told(step):
        say(step=step, reserved=cuda.graph_attribute(GRAPH_RESERVED), used=cuda.graph_attribute(GRAPH_USED))
        wait()

    told("none")
    graph, execution, address = _alloc_graph(cuda, 64 * MIB)
    told("instantiated")
    cuda.must("cuGraphLaunch", execution, None)
    cuda.must("cuCtxSynchronize")
    told("launched")
    cuda.must("cuMemFreeAsync", c_ulonglong(address), None)
    cuda.must("cuCtxSynchronize")
    told("freed")
    _, other, second = _alloc_graph(cuda, 64 * MIB)
    cuda.must("cuGraphLaunch", other, None)
    cuda.must("cuCtxSynchronize")
    told("another graph launched")
    cuda.must("cuGraphExecDestroy", execution)
    cuda.must("cuGraphDestroy", graph)
    cuda.must("cuGraphExecDestroy", other)
    told("graphs destroyed")
    say(step="free after that", code=cuda.call("cuMemFreeAsync", c_ulonglong(second), None))
    wait()
    cuda.must("cuCtxSynchronize")
    cuda.must("cuDeviceGraphMemTrim", cuda.device)
    told("trimmed")


def managed(mib):
    """Managed memory: when does it take memory of the GPU?"""
    cuda = Cuda().open()
    cuda.context()
    stream = cuda.made(c_void_p, "cuStreamCreate", 1)
    say(step="context")
    wait()
    address = c_ulonglong()
    code = cuda.call("cuMemAllocManaged", byref(address), c_size_t(mib * MIB), 1)
    say(step="allocated", code=code)
    wait()
    if code != OK:
        return

    def prefetch(device):
        return cuda.call("cuMemPrefetchAsync", address, c_size_t(mib * MIB), device, stream)

    code = prefetch(cuda.device)
    cuda.must("cuStreamSynchronize", stream)
    say(step="prefetched", code=code)
    wait()
    code = prefetch(c_int(-1))
    cuda.must("cuStreamSynchronize", stream)
    say(step="prefetched back", code=code)
    wait()
    cuda.must("cuMemsetD8_v2", address, 1, c_size_t(mib * MIB))
    cuda.must("cuCtxSynchronize")
    say(step="written by the GPU")
    wait()
    cuda.free(address)
    say(step="freed")
    wait()


def virtual():
    cuda = Cuda().open()
    cuda.context()
    prop, least, best = cuda.alloc_prop(POSIX_FD), c_size_t(), c_size_t()
    cuda.must("cuMemGetAllocationGranularity", byref(least), byref(prop), 0)
    cuda.must("cuMemGetAllocationGranularity", byref(best), byref(prop), 1)
    say(step="context", least=least.value, best=best.value)
    wait()
    size = 64 * MIB
    handle = cuda.made(c_ulonglong, "cuMemCreate", c_size_t(size), byref(prop), c_ulonglong(0))
    say(step="created")
    wait()
    address = cuda.made(c_ulonglong, "cuMemAddressReserve", c_size_t(size), c_size_t(0), c_ulonglong(0), c_ulonglong(0))
    cuda.must("cuMemMap", address, c_size_t(size), c_size_t(0), handle, c_ulonglong(0))
    access = AccessDesc(Location(1, cuda.device.value), 3)
    cuda.must("cuMemSetAccess", address, c_size_t(size), byref(access), c_size_t(1))
    cuda.must("cuMemRelease", handle)
    say(step="released, mapped")
    wait()
    cuda.must("cuMemUnmap", address, c_size_t(size))
    say(step="unmapped")
    wait()


def shared():
    """Memory of cuMemCreate by a descriptor: imported, and as external memory."""
    cuda = Cuda().open()
    cuda.context()
    prop, fd, size = cuda.alloc_prop(POSIX_FD), c_int(), 64 * MIB
    handle = cuda.made(c_ulonglong, "cuMemCreate", c_size_t(size), byref(prop), c_ulonglong(0))
    say(step="created", free=cuda.memory()[0])
    wait()
    cuda.must("cuMemExportToShareableHandle", byref(fd), handle, POSIX_FD, c_ulonglong(0))
    imported = cuda.made(c_ulonglong, "cuMemImportFromShareableHandle", c_void_p(fd.value), POSIX_FD)
    say(step="imported", free=cuda.memory()[0])
    wait()
    external, told = c_void_p(), ExternalHandle(type=1, fd=os.dup(fd.value), size=size)
    code = cuda.call("cuImportExternalMemory", byref(external), byref(told))
    say(step="external", code=code, free=cuda.memory()[0])
    wait()
    if code == OK:
        cuda.must("cuDestroyExternalMemory", external)
    cuda.must("cuMemRelease", imported)
    cuda.must("cuMemRelease", handle)
    os.close(fd.value)
    say(step="released", free=cuda.memory()[0])
    wait()


def ipc_maker(mib):
    cuda = Cuda().open()
    cuda.context()
    address, handle = cuda.alloc(mib * MIB), IpcHandle()
    cuda.must("cuMemsetD8_v2", address, 0x5a, c_size_t(mib * MIB))
    cuda.must("cuCtxSynchronize")
    cuda.must("cuIpcGetMemHandle", byref(handle), address)
    say(handle=ctypes.string_at(byref(handle), 64).hex(), free=cuda.memory()[0])
    while wait():
        say(free=cuda.memory()[0])


def ipc_opener():
    cuda = Cuda().open()
    cuda.context()
    say(free=cuda.memory()[0])
    handle, address = IpcHandle(), c_ulonglong()
    ctypes.memmove(byref(handle), bytes.fromhex(sys.stdin.readline().strip()), 64)
    code = cuda.call("cuIpcOpenMemHandle_v2", byref(address), handle, 1)
    first = (ctypes.c_ubyte * 1)()
    if code == OK:
        cuda.must("cuMemcpyDtoH_v2", first, address, c_size_t(1))
    say(code=code, byte=first[0], free=cuda.memory()[0])
    wait()
    if code == OK:
        cuda.must("cuIpcCloseMemHandle", address)
    say(free=cuda.memory()[0])
    wait()


def ipc_pair(mib):
    """A maker and an opener as two processes of one run: free memory as the opener sees it."""
    def start(*words):
        return subprocess.Popen([sys.executable, __file__, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def told(process):
        return json.loads(process.stdout.readline())

    def go(process, line="go"):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return told(process)

    maker, opener = start("ipc_maker", str(mib)), start("ipc_opener")
    handle, _ = told(maker)["handle"], told(opener)
    time.sleep(0.3)    # until both contexts are charged
    before = go(maker)["free"]
    opened = go(opener, handle)
    time.sleep(0.3)
    free = go(maker)["free"]
    closed = go(opener)
    time.sleep(0.3)
    say(code=opened["code"], byte=opened["byte"], before=before, opened=free, closed=go(maker)["free"], then=closed)
    for process in (maker, opener):
        process.kill()


def arrays():
    cuda = Cuda().open()
    cuda.context()
    made = []
    say(step="context", sizes=[])
    wait()
    for width, height, count in ((64, 64, 256), (1000, 1000, 8), (4096, 4096, 2)):
        shape = ArrayShape(width, height, 0x20, 1)
        made += [cuda.made(c_void_p, "cuArrayCreate_v2", byref(shape)) for _ in range(count)]
        say(step=f"{count} arrays of {width} x {height} floats", count=count, bytes=4 * width * height)
        wait()


def huge():
    """Requests that no GPU can meet, and none at all."""
    cuda = Cuda().open()
    cuda.context()
    say(codes=[cuda.try_alloc(size)[0] for size in (0, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)])


def green():
    """A green context of half of the multiprocessors, and what can be allocated in it."""
    cuda, text = Cuda().open(), ""
    primary = cuda.made(c_void_p, "cuDevicePrimaryCtxRetain", cuda.device)
    cuda.must("cuCtxSetCurrent", primary)
    # CUdevResource: 144 bytes in CUDA 12.4 and 13.0; only one is handed on, so its size need not be known here.
    resource, desc, context, plain = ctypes.create_string_buffer(4096), c_void_p(), c_void_p(), c_void_p()
    for name, args in (("cuDeviceGetDevResource", (cuda.device, resource, 1)),
                       ("cuDevResourceGenerateDesc", (byref(desc), resource, 1)),
                       ("cuGreenCtxCreate", (byref(context), desc, cuda.device, 1)),
                       ("cuCtxFromGreenCtx", (byref(plain), context)),
                       ("cuCtxSetCurrent", (plain,))):
        code = cuda.call(name, *args)
        if code != OK:
            text = f"{name} says {code}" if code is not None else f"{name} is not there"
            break
    allocated = 0
    while not text and cuda.try_alloc(16 * MIB)[0] == OK:
        allocated += 16 * MIB
    say(stopped=text, allocated=allocated)
    wait()


def hold(mib):
    """So much memory, as a program of the run; its process id as it sees itself."""
    cuda = Cuda().open()
    cuda.context()
    code, _ = cuda.try_alloc(mib * MIB)
    say(code=code, pid=os.getpid(), free=cuda.memory()[0])
    wait()


def nvml_view():
    """What the management library tells in a run: memory, processes, how busy the GPU is."""
    ml = ctypes.CDLL("libnvidia-ml.so.1")
    device, count, rates = c_void_p(), ctypes.c_uint(256), (ctypes.c_uint * 2)()
    room = (ctypes.c_ulonglong * (3 * 256))()
    ml.nvmlInit_v2()
    ml.nvmlDeviceGetHandleByIndex_v2(0, byref(device))
    code = ml.nvmlDeviceGetComputeRunningProcesses_v3(device, byref(count), room)
    ml.nvmlDeviceGetUtilizationRates(device, rates)
    gpus = ctypes.c_uint()
    ml.nvmlDeviceGetCount_v2(byref(gpus))
    say(code=code, processes=[room[3 * i] & 0xffffffff for i in range(count.value)], busy=rates[0], gpus=gpus.value)


def load():
    """How long the first use takes, in ms: the library and cuInit, the context."""
    began = time.monotonic()
    cuda = Cuda().open()
    opened = time.monotonic()
    cuda.context()
    say(init_ms=(opened - began) * 1e3, context_ms=(time.monotonic() - opened) * 1e3)


class Clock:
    """A pair of events in a stream of its own."""

    def __init__(self, cuda):
        self.cuda, self.stream = cuda, cuda.made(c_void_p, "cuStreamCreate", 1)
        self.before, self.after = (cuda.made(c_void_p, "cuEventCreate", 0) for _ in range(2))

    def ms(self, work):
        """The least of nine."""
        return min(self.once(work) for _ in range(9))

    def once(self, work):
        elapsed = ctypes.c_float()
        self.cuda.must("cuEventRecord", self.before, self.stream)
        work()
        self.cuda.must("cuEventRecord", self.after, self.stream)
        self.cuda.must("cuEventSynchronize", self.after)
        self.cuda.must("cuEventElapsedTime", byref(elapsed), self.before, self.after)
        return elapsed.value


def speeds():
    """Copies in GB/s, fills, and how long a kernel takes that does next to nothing, in us."""
    cuda = Cuda().open()
    cuda.context()
    size, clock = 64 * MIB, Clock(cuda)
    module, there, other = cuda.module(), cuda.alloc(size), cuda.alloc(size)
    kernel = cuda.made(c_void_p, "cuModuleGetFunction", module, b"touch")
    at = c_ulonglong(there.value)
    params = (c_void_p * 1)(ctypes.cast(ctypes.pointer(at), c_void_p))
    pinned = cuda.made(c_void_p, "cuMemHostAlloc", c_size_t(size), 0)
    pageable = ctypes.create_string_buffer(size)

    def gbps(name, *args):
        return size / clock.ms(lambda: cuda.must(name, *args, c_size_t(size), clock.stream)) / 1e6

    say(to_gpu=gbps("cuMemcpyHtoDAsync_v2", there, pinned), from_gpu=gbps("cuMemcpyDtoHAsync_v2", pinned, there),
        pageable=gbps("cuMemcpyHtoDAsync_v2", there, pageable), within=gbps("cuMemcpyDtoDAsync_v2", other, there),
        kernel_us=clock.ms(lambda: cuda.must("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, clock.stream, params, None)) * 1e3,
        empty_us=clock.ms(lambda: None) * 1e3)


PROGRAMS = {program.__name__: program for program in (
    contexts, memory_after_context, small, modules, pools, graphs, managed, virtual, shared, ipc_maker, ipc_opener, ipc_pair, arrays,
    huge, green, hold, nvml_view, load, speeds)}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*map(int, sys.argv[2:]))
