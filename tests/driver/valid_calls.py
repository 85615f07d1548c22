"""Calls functions of libcuda before cuInit, with arguments that would be valid after it, and prints what they answer. Each is called in a
child of its own. Handles are such as nothing has made yet. Without cuUserObjectCreate, which needs no driver: the real one makes an object,
the simulated one has none."""
import ctypes, os, sys
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p, create_string_buffer
cu = ctypes.CDLL("libcuda.so.1")

class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]

class PoolProps(ctypes.Structure):
    _fields_ = [("allocType", c_int), ("handleTypes", c_int), ("location", Location), ("rest", ctypes.c_ubyte * 72)]

class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]

p, q, n, v, s = c_void_p(), c_uint64(), c_size_t(), c_int(), create_string_buffer(256)
callback = ctypes.CFUNCTYPE(None, c_void_p)(lambda data: None)
gpu, size, address = Location(1, 0), c_size_t(4096), c_uint64(1 << 33)
calls = dict(
    cuDeviceGetCount=[byref(v)], cuDeviceGet=[byref(v), 0], cuDeviceGetName=[s, 256, 0], cuDeviceTotalMem_v2=[byref(n), 0],
    cuDeviceGetAttribute=[byref(v), 75, 0], cuDeviceGetUuid=[s, 0], cuDeviceGetPCIBusId=[s, 256, 0], cuDeviceGetByPCIBusId=[byref(v), s],
    cuDevicePrimaryCtxGetState=[0, byref(c_uint()), byref(v)], cuDevicePrimaryCtxRetain=[byref(p), 0], cuDeviceCanAccessPeer=[byref(v), 0, 0],
    cuDeviceGetDefaultMemPool=[byref(p), 0], cuDeviceGetGraphMemAttribute=[0, 0, byref(q)], cuDeviceGraphMemTrim=[0],
    cuCtxCreate_v2=[byref(p), 0, 0], cuCtxGetCurrent=[byref(p)], cuCtxSetCurrent=[None], cuCtxGetDevice=[byref(v)], cuCtxGetFlags=[byref(c_uint())],
    cuCtxSynchronize=[], cuCtxGetLimit=[byref(n), 0], cuCtxGetStreamPriorityRange=[byref(v), byref(v)],
    cuMemAlloc_v2=[byref(q), size], cuMemAllocManaged=[byref(q), size, 1], cuMemAllocPitch_v2=[byref(q), byref(n), size, c_size_t(4), 4],
    cuMemAllocHost_v2=[byref(p), size], cuMemHostAlloc=[byref(p), size, 0], cuMemHostRegister_v2=[s, c_size_t(256), 0],
    cuMemAllocAsync=[byref(q), size, None], cuMemGetInfo_v2=[byref(n), byref(n)], cuMemFree_v2=[address], cuMemFreeAsync=[address, None],
    cuMemPoolCreate=[byref(p), byref(PoolProps(1, 0, gpu))], cuMemcpyHtoD_v2=[address, s, size], cuMemsetD8_v2=[address, 0, size],
    cuMemGetAddressRange_v2=[byref(q), byref(n), address], cuMemAdvise_v2=[address, size, 3, gpu],
    cuMemPrefetchAsync_v2=[address, size, gpu, 0, None], cuMemAddressReserve=[byref(q), c_size_t(2 << 20), c_size_t(0), c_uint64(0), c_uint64(0)],
    cuPointerGetAttribute=[byref(v), 2, address], cuIpcGetMemHandle=[byref(Handle()), address],
    cuIpcOpenMemHandle_v2=[byref(q), Handle(), 1], cuStreamCreate=[byref(p), 1], cuStreamCreateWithPriority=[byref(p), 1, 0],
    cuStreamSynchronize=[None], cuStreamQuery=[None], cuStreamIsCapturing=[None, byref(v)], cuStreamBeginCapture_v2=[None, 1],
    cuStreamEndCapture=[None, byref(p)], cuEventCreate=[byref(p), 0], cuGraphCreate=[byref(p), 0], cuModuleLoad=[byref(p), s],
    cuModuleLoadData=[byref(p), s], cuLibraryLoadData=[byref(p), s, None, None, 0, None, None, 0], cuModuleGetLoadingMode=[byref(v)],
    cuThreadExchangeStreamCaptureMode=[byref(c_int(1))], cuLaunchHostFunc=[None, callback, None],
    cuProfilerStart=[], cuProfilerStop=[], cuFuncGetModule=[byref(p), p], cuCoredumpGetAttributeGlobal=[1, byref(v), byref(c_size_t(4))],
    cuCoredumpSetAttributeGlobal=[1, byref(c_int(1)), byref(c_size_t(4))])

for name, arguments in calls.items():
    function = getattr(cu, name, None)
    if function:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print(name, "=", function(*arguments), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            print(name, "= dies")
