"""The driver's library by ctypes, for programs that end at the first error. Values and layouts: src/cuda/abi.h."""
import ctypes
import json
import sys
from ctypes import POINTER, Structure, byref, c_char, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_ushort, c_void_p

MIB = 1 << 20
OK, OUT_OF_MEMORY = 0, 2

# Only the simulated driver takes the first; a driver compiles the second for its GPU. The table of 4 MiB is to be seen
# in what the module takes.
TABLE_BYTES = 4 * MIB
SIM_MODULE = '{"rationSimModule": 1, "functions": {"touch": {"us": 5}}, "globals": {"table": %d}}' % TABLE_BYTES
PTX_MODULE = f""".version 6.0
.target sm_50
.address_size 64
.visible .global .align 8 .b8 table[{TABLE_BYTES}];
.visible .entry touch(.param .u64 at)
{{
.reg .b64 %a;
.reg .b32 %v;
ld.param.u64 %a, [at];
cvta.to.global.u64 %a, %a;
mov.u32 %v, 7;
st.global.u32 [%a], %v;
ret;
}}
"""
# Each thread needs 8 KiB of local memory: the driver has to find room for those of all threads that run at a time.
LOCAL_PTX = """.version 6.0
.target sm_50
.address_size 64
.visible .entry deep(.param .u64 at)
{
.local .align 8 .b8 room[8192];
.reg .b64 %a, %w, %r, %l;
.reg .b32 %v, %i;
ld.param.u64 %a, [at];
cvta.to.global.u64 %a, %a;
ld.global.u32 %i, [%a];
cvt.u64.u32 %w, %i;
and.b64 %w, %w, 8188;
xor.b64 %r, %w, 512;
mov.u64 %l, room;
add.u64 %w, %l, %w;
add.u64 %r, %l, %r;
mov.u32 %v, 7;
st.local.u32 [%w], %v;
ld.local.u32 %i, [%r];
st.global.u32 [%a], %i;
ret;
}
"""


class Location(Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class AllocationProp(Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("win32", c_void_p), ("flags", c_ubyte * 8)]


class AccessDesc(Structure):
    _fields_ = [("location", Location), ("flags", c_int)]


class PoolProps(Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("security", c_void_p), ("max", c_size_t),
                ("usage", c_ushort), ("reserved", c_ubyte * 54)]


class AllocNode(Structure):
    _fields_ = [("pool", PoolProps), ("access", c_void_p), ("access_count", c_size_t), ("bytes", c_size_t),
                ("address", c_ulonglong)]


class ArrayShape(Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", c_uint)]


class ExternalHandle(Structure):
    _fields_ = [("type", c_int), ("fd", c_ulonglong), ("pad", c_void_p), ("size", c_ulonglong), ("flags", c_uint),
                ("reserved", c_uint * 16)]


class IpcHandle(Structure):
    _fields_ = [("bytes", c_char * 64)]




assert [ctypes.sizeof(kind) for kind in (AllocationProp, PoolProps, ExternalHandle, AllocNode)] == [32, 88, 104, 120]


class Cuda:
    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.device = c_int()

    def open(self):
        self.must("cuInit", 0)
        self.must("cuDeviceGet", byref(self.device), 0)
        return self

    def call(self, name, *args):
        """The CUresult; None where the driver has no such function."""
        function = getattr(self.lib, name, None)
        return None if function is None else function(*args)

    def must(self, name, *args):
        code = self.call(name, *args)
        if code != OK:
            sys.exit(f"{name} says {code}" if code is not None else f"the driver has no {name}")

    def made(self, kind, name, *args):
        """What the function puts into its first argument."""
        value = kind()
        self.must(name, byref(value), *args)
        return value

    def context(self):
        return self.made(c_void_p, "cuCtxCreate_v2", 0, self.device)

    def memory(self):
        """(free, total)"""
        free, total = c_size_t(), c_size_t()
        self.must("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def alloc(self, size):
        return self.made(c_ulonglong, "cuMemAlloc_v2", c_size_t(size))

    def free(self, address):
        self.must("cuMemFree_v2", address)

    def try_alloc(self, size):
        address = c_ulonglong()
        return self.call("cuMemAlloc_v2", byref(address), c_size_t(size)), address

    def module(self, ptx=PTX_MODULE):
        module = c_void_p()
        if ptx == PTX_MODULE and self.call("cuModuleLoadData", byref(module), SIM_MODULE.encode()) == OK:
            return module
        self.must("cuModuleLoadData", byref(module), ptx.encode())
        return module

    def run_kernel(self, module, name, address):
        kernel = self.made(c_void_p, "cuModuleGetFunction", module, name)
        at = c_ulonglong(address)
        params = (c_void_p * 1)(ctypes.cast(POINTER(c_ulonglong)(at), c_void_p))
        self.must("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, None, params, None)
        self.must("cuCtxSynchronize")

    def alloc_prop(self, handles=0):
        return AllocationProp(type=1, handles=handles, location=Location(1, self.device.value))

    def pool_props(self):
        return PoolProps(type=1, location=Location(1, self.device.value))

    def graph_attribute(self, number):
        value = c_ulonglong()
        self.must("cuDeviceGetGraphMemAttribute", self.device, number, byref(value))
        return value.value

    def pool_attribute(self, pool, number):
        value = c_ulonglong()
        self.must("cuMemPoolGetAttribute", pool, number, byref(value))
        return value.value


def say(**values):
    print(json.dumps(values), flush=True)


def wait():
    """False: standard input ended."""
    return bool(sys.stdin.readline())
