"""A small CUDA program for pods of the sample image: the driver's API by ctypes, as any program uses it.

    pod("a", containers=[container("main", 2, command=program("hold", 500))])
    run_in(cluster, "a", "info")         ->  {"total": 2154, "free": ...}     MiB; a process of its own
    run_in(cluster, "a", "take", 3000)   ->  {"result": 2}                    CUDA_ERROR_OUT_OF_MEMORY
"""
import base64
import json

OUT_OF_MEMORY = 2       # CUDA_ERROR_OUT_OF_MEMORY, cuda.h
NO_DEVICE = 100         # CUDA_ERROR_NO_DEVICE
MIB = 1 << 20

SOURCE = r"""
import ctypes, json, sys, time
MIB = 1 << 20

def must(result, what):
    if result:
        print(json.dumps({"failed": what, "result": result}), flush=True)
        sys.exit(0)

def cuda(card=0):
    cu = ctypes.CDLL("libcuda.so.1")
    must(cu.cuInit(0), "cuInit")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    must(cu.cuDeviceGet(ctypes.byref(device), card), "cuDeviceGet")
    must(cu.cuCtxCreate_v2(ctypes.byref(context), 0, device), "cuCtxCreate")
    return cu, device

def info(card=0):
    cu, device = cuda(int(card))
    free, total, whole, count = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
    must(cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "cuMemGetInfo")
    must(cu.cuDeviceTotalMem_v2(ctypes.byref(whole), device), "cuDeviceTotalMem")
    must(cu.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
    return {"free": free.value / MIB, "total": total.value / MIB, "device": whole.value / MIB, "count": count.value}

def nvml():
    class Memory(ctypes.Structure):
        _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]
    ml = ctypes.CDLL("libnvidia-ml.so.1")
    must(ml.nvmlInit_v2(), "nvmlInit")
    device, memory, count = ctypes.c_void_p(), Memory(), ctypes.c_uint()
    must(ml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)), "nvmlDeviceGetHandleByIndex")
    must(ml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)), "nvmlDeviceGetMemoryInfo")
    must(ml.nvmlDeviceGetCount_v2(ctypes.byref(count)), "nvmlDeviceGetCount")
    return {"total": memory.total / MIB, "used": memory.used / MIB, "count": count.value}

def allocate(cu, mib):
    pointer = ctypes.c_ulonglong()
    return cu.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(int(mib) * MIB)), pointer

def take(mib):
    return {"result": allocate(cuda()[0], mib)[0]}

# As much as there is, in steps of one MiB at the end.
def fill():
    cu, taken, step = cuda()[0], 0, 1024
    while step:
        while allocate(cu, step)[0] == 0:
            taken += step
        step //= 2
    return {"taken": taken}

# Holds so much and writes to it again and again; what it read back wrong is counted.
def hold(mib):
    cu, size = cuda()[0], 4096
    result, pointer = allocate(cu, mib)
    must(result, "cuMemAlloc")
    read, rounds, wrong = ctypes.create_string_buffer(size), 0, 0
    print(json.dumps({"holds": int(mib)}), flush=True)
    while True:
        value = rounds % 251
        must(cu.cuMemsetD8_v2(pointer, ctypes.c_ubyte(value), ctypes.c_size_t(size)), "cuMemset")
        must(cu.cuMemcpyDtoH_v2(read, pointer, ctypes.c_size_t(size)), "cuMemcpy")
        wrong += read.raw != bytes([value]) * size
        rounds += 1
        print(json.dumps({"rounds": rounds, "wrong": wrong}), flush=True)
        time.sleep(0.2)

print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])), flush=True)
"""

_LOAD = f"import base64; exec(base64.b64decode('{base64.b64encode(SOURCE.encode()).decode()}').decode())"


def argv(verb, *arguments):
    return ["python3", "-c", _LOAD, verb, *map(str, arguments)]


def program(verb, *arguments):
    """A shell command for container(..., command=)."""
    return "exec python3 -c \"" + _LOAD + "\" " + " ".join([verb, *map(str, arguments)])


def last_line(text):
    assert text.strip(), "it has said nothing yet"
    return json.loads(text.strip().splitlines()[-1])


def run_in(cluster, pod, verb, *arguments, container=None):
    """What a new process in the pod's container says."""
    return last_line(cluster.exec_in(pod, *argv(verb, *arguments), container=container))
