"""Programs that try to get past the limit of their container."""
import base64
import json

DRIVER = "/run/ration/driver/cuda/libcuda.so"    # where the shim finds the driver's own

# USE LIBRARY MIB [SECONDS]: what this library says of the first GPU, and whether it gives so much memory.
USE = r"""
import ctypes, json, sys, time
cu = ctypes.CDLL(sys.argv[1])
def must(result, what):
    if result:
        print(json.dumps({"failed": what, "result": result}), flush=True)
        sys.exit(0)
must(cu.cuInit(0), "cuInit")
device, context, total, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_ulonglong()
must(cu.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
must(cu.cuDeviceTotalMem_v2(ctypes.byref(total), device), "cuDeviceTotalMem")
must(cu.cuCtxCreate_v2(ctypes.byref(context), 0, device), "cuCtxCreate")
result = cu.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(int(sys.argv[2]) << 20))
print(json.dumps({"total": total.value >> 20, "result": result}), flush=True)
if len(sys.argv) > 3:
    time.sleep(100000)
"""


def load(source):
    return f"import base64; exec(base64.b64decode('{base64.b64encode(source.encode()).decode()}').decode())"


# A grant with a limit of 15 GiB from the container's own: live[0].limit_bytes, src/grant/grant.h.
FORGE = ("python3 -c \"import struct; b = bytearray(open('/run/ration/grant', 'rb').read()); "
         "struct.pack_into('<Q', b, 2520 + 64 * 256 + 16, 15 << 30); open('{}', 'wb').write(b)\"")
# Puts it in place of the container's own.
MOVE = (FORGE.format("/tmp/grant") + "; mv /run/ration /was; mkdir /run/ration; cp /tmp/grant /run/ration; "
                                     "ln -s /was/usage /was/driver /was/shim /run/ration;")


def use(library="libcuda.so.1", *stay):
    return ["python3", "-c", load(USE), library, "3000", *stay]


def shell(*argv):
    return " ".join(f'"{word}"' for word in argv)


def last(text):
    return json.loads(text.strip().splitlines()[-1])
