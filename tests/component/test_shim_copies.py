"""Every copy and every fill that the shim hooks does what it does without the shim, paced and unpaced.

Each function is called with valid arguments, and what is in memory afterwards is compared with what a copy in Python gives. Names that
end with _ptds or _ptsz use the thread's own default stream. The shim answers what the driver answers where that cannot be done: the first
versions of some functions take addresses of 32 bits, which no allocation of these drivers has, and the simulated driver lacks some copies."""
import pytest

import grants
from shim_programs import hooked, needs_no_grant_here

pytestmark = needs_no_grant_here

FUNCTIONS = """
N = 4096
called = set()

def call(name, *args):
    called.add(name)
    return getattr(cu, name)(*args)

def read(at=None):
    got = create_string_buffer(N)
    ok(cu.cuCtxSynchronize())
    ok(cu.cuMemcpyDtoH_v2(got, to if at is None else at, c_size_t(N)))
    return got.raw

def clear(at=None):
    ok(cu.cuMemsetD8_v2(to if at is None else at, 0, c_size_t(N)))
    ok(cu.cuCtxSynchronize())

def moves(name, *args, expected):
    clear()
    result = call(name, *args)
    if result == NOT_SUPPORTED and name.startswith(("cuMemcpy2D", "cuMemcpy3D")):
        assert getattr(real, name)(*args) == NOT_SUPPORTED    # the simulated driver
    else:
        assert result == OK and read() == expected, (name, result)

def is_as_the_driver(name, *args):
    assert call(name, *args) == getattr(real, name)(*args), name

pattern = bytes(i * 7 % 251 for i in range(N))
source, to = alloc(N), alloc(N)
host = create_string_buffer(pattern, N)
ok(cu.cuMemcpyHtoD_v2(source, host, c_size_t(N)))
stream = out("cuStreamCreate", c_void_p, 0)
size, low = c_size_t, c_uint(0x1000)

def first(n, data=pattern):
    return data[:n] + bytes(N - n)
"""

FILLS = """
for bits, value in (8, 0x5a), (16, 0x1234), (32, 0x12345678):
    one = value.to_bytes(bits // 8, "little")
    line = first(100 * len(one), one * 100)
    for suffix in "_v2", "_v2_ptds":
        moves(f"cuMemsetD{bits}{suffix}", to, value, size(100), expected=line)
    for suffix in "Async", "Async_ptsz":
        moves(f"cuMemsetD{bits}{suffix}", to, value, size(100), stream if suffix == "Async" else None, expected=line)
    rows = b"".join((one * 5).ljust(512, bytes(1)) for _ in range(N // 512))[:3 * 512]
    for suffix in "_v2", "_v2_ptds":
        moves(f"cuMemsetD2D{bits}{suffix}", to, size(512), value, size(5), size(3), expected=rows.ljust(N, bytes(1)))
    for suffix in "Async", "Async_ptsz":
        moves(f"cuMemsetD2D{bits}{suffix}", to, size(512), value, size(5), size(3), stream if suffix == "Async" else None,
              expected=rows.ljust(N, bytes(1)))
    is_as_the_driver(f"cuMemsetD{bits}", low, value, c_uint(100))
    is_as_the_driver(f"cuMemsetD2D{bits}", low, c_uint(512), value, c_uint(5), c_uint(3))
"""

LINES = """
for suffix in "", "_ptds":
    moves("cuMemcpy" + suffix, to, source, size(1000), expected=first(1000))
    moves("cuMemcpyHtoD_v2" + suffix, to, host, size(1001), expected=first(1001))
    moves("cuMemcpyDtoD_v2" + suffix, to, source, size(1002), expected=first(1002))
    moves("cuMemcpyPeer" + suffix, to, ctx, source, ctx, size(1003), expected=first(1003))
    back = create_string_buffer(N)
    ok(call("cuMemcpyDtoH_v2" + suffix, back, source, size(1004)))
    assert back.raw == first(1004)
for suffix, on in ("", stream), ("_ptsz", None):
    moves("cuMemcpyAsync" + suffix, to, source, size(1000), on, expected=first(1000))
    moves("cuMemcpyHtoDAsync_v2" + suffix, to, host, size(1001), on, expected=first(1001))
    moves("cuMemcpyDtoDAsync_v2" + suffix, to, source, size(1002), on, expected=first(1002))
    moves("cuMemcpyPeerAsync" + suffix, to, ctx, source, ctx, size(1003), on, expected=first(1003))
    back = create_string_buffer(N)
    ok(call("cuMemcpyDtoHAsync_v2" + suffix, back, source, size(1004), on))
    ok(cu.cuCtxSynchronize())
    assert back.raw == first(1004)
is_as_the_driver("cuMemcpyHtoD", low, host, c_uint(16))
is_as_the_driver("cuMemcpyDtoH", create_string_buffer(16), low, c_uint(16))
is_as_the_driver("cuMemcpyDtoD", low, low, c_uint(16))
is_as_the_driver("cuMemcpyHtoDAsync", low, host, c_uint(16), None)
is_as_the_driver("cuMemcpyDtoHAsync", create_string_buffer(16), low, c_uint(16), None)
is_as_the_driver("cuMemcpyDtoDAsync", low, low, c_uint(16), None)
"""

ARRAYS = """
class Array(Structure):    # CUDA_ARRAY_DESCRIPTOR
    _fields_ = [("Width", c_size_t), ("Height", c_size_t), ("Format", c_int), ("NumChannels", c_uint)]

def array():
    return out("cuArrayCreate_v2", c_void_p, byref(Array(N, 0, 1, 1)))

one, two = array(), array()

# The simulated driver copies neither to arrays nor from them, so here too the shim answers what the driver answers.
back = create_string_buffer(N)
for suffix in "", "_ptds":
    is_as_the_driver("cuMemcpyHtoA_v2" + suffix, one, size(0), host, size(1000))
    is_as_the_driver("cuMemcpyDtoA_v2" + suffix, one, size(0), source, size(1000))
    is_as_the_driver("cuMemcpyAtoA_v2" + suffix, one, size(0), two, size(0), size(1000))
    is_as_the_driver("cuMemcpyAtoD_v2" + suffix, to, two, size(0), size(1000))
    is_as_the_driver("cuMemcpyAtoH_v2" + suffix, back, two, size(0), size(1000))
for suffix, on in ("", stream), ("_ptsz", None):
    is_as_the_driver("cuMemcpyHtoAAsync_v2" + suffix, one, size(0), host, size(1000), on)
    is_as_the_driver("cuMemcpyAtoHAsync_v2" + suffix, back, two, size(0), size(1000), on)
for name, args in {
        "cuMemcpyHtoA": (one, c_uint(0), host, c_uint(16)), "cuMemcpyHtoAAsync": (one, c_uint(0), host, c_uint(16), None),
        "cuMemcpyDtoA": (one, c_uint(0), low, c_uint(16)), "cuMemcpyAtoD": (low, two, c_uint(0), c_uint(16)),
        "cuMemcpyAtoA": (one, c_uint(0), two, c_uint(0), c_uint(16)),
        "cuMemcpyAtoH": (create_string_buffer(16), two, c_uint(0), c_uint(16)),
        "cuMemcpyAtoHAsync": (create_string_buffer(16), two, c_uint(0), c_uint(16), None)}.items():
    is_as_the_driver(name, *args)
"""

BOXES = """
HOST, DEVICE = 1, 2    # CU_MEMORYTYPE_*

class Side2(Structure):
    _fields_ = [("x", c_size_t), ("y", c_size_t), ("type", c_uint), ("host", c_void_p), ("device", c_uint64),
                ("array", c_void_p), ("pitch", c_size_t)]

class Copy2(Structure):    # CUDA_MEMCPY2D
    _fields_ = [("source", Side2), ("to", Side2), ("width", c_size_t), ("height", c_size_t)]

class Side3(Structure):
    _fields_ = [("x", c_size_t), ("y", c_size_t), ("z", c_size_t), ("lod", c_size_t), ("type", c_uint), ("host", c_void_p),
                ("device", c_uint64), ("array", c_void_p), ("context", c_void_p), ("pitch", c_size_t), ("height", c_size_t)]

class Copy3(Structure):    # CUDA_MEMCPY3D; with contexts in place of reserved words CUDA_MEMCPY3D_PEER
    _fields_ = [("source", Side3), ("to", Side3), ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t)]

def rows_at(offsets, width):
    expected = bytearray(N)
    for offset in offsets:
        expected[offset:offset + width] = pattern[offset:offset + width]
    return bytes(expected)

flat = Copy2(Side2(0, 0, HOST, addressof(host), 0, None, 256), Side2(0, 0, DEVICE, None, to, None, 256), 50, 3)
for name in "cuMemcpy2D_v2", "cuMemcpy2D_v2_ptds", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DUnaligned_v2_ptds":
    moves(name, byref(flat), expected=rows_at([0, 256, 512], 50))
for name, on in ("cuMemcpy2DAsync_v2", stream), ("cuMemcpy2DAsync_v2_ptsz", None):
    moves(name, byref(flat), on, expected=rows_at([0, 256, 512], 50))
deep = Copy3(Side3(0, 0, 0, 0, HOST, addressof(host), 0, None, None, 256, 4),
             Side3(0, 0, 0, 0, DEVICE, None, to, None, None, 256, 4), 50, 2, 3)
in_depth = rows_at([plane * 1024 + row * 256 for plane in range(3) for row in range(2)], 50)
for name in "cuMemcpy3D_v2", "cuMemcpy3D_v2_ptds":
    moves(name, byref(deep), expected=in_depth)
for name, on in ("cuMemcpy3DAsync_v2", stream), ("cuMemcpy3DAsync_v2_ptsz", None):
    moves(name, byref(deep), on, expected=in_depth)
peer = Copy3(Side3(0, 0, 0, 0, DEVICE, None, source, None, ctx, 256, 4),
             Side3(0, 0, 0, 0, DEVICE, None, to, None, ctx, 256, 4), 50, 2, 3)
for name in "cuMemcpy3DPeer", "cuMemcpy3DPeer_ptds":
    moves(name, byref(peer), expected=in_depth)
for name, on in ("cuMemcpy3DPeerAsync", stream), ("cuMemcpy3DPeerAsync_ptsz", None):
    moves(name, byref(peer), on, expected=in_depth)
"""

FIRST_BOXES = """
class OldSide2(Structure):
    _fields_ = [("x", c_uint), ("y", c_uint), ("type", c_uint), ("host", c_void_p), ("device", c_uint), ("array", c_void_p), ("pitch", c_uint)]

class OldCopy2(Structure):    # CUDA_MEMCPY2D_v1
    _fields_ = [("source", OldSide2), ("to", OldSide2), ("width", c_uint), ("height", c_uint)]

class OldSide3(Structure):
    _fields_ = [("x", c_uint), ("y", c_uint), ("z", c_uint), ("lod", c_uint), ("type", c_uint), ("host", c_void_p), ("device", c_uint),
                ("array", c_void_p), ("context", c_void_p), ("pitch", c_uint), ("height", c_uint)]

class OldCopy3(Structure):    # CUDA_MEMCPY3D_v1
    _fields_ = [("source", OldSide3), ("to", OldSide3), ("width", c_uint), ("height", c_uint), ("depth", c_uint)]

flat = OldCopy2(OldSide2(0, 0, HOST, addressof(host), 0, None, 256), OldSide2(0, 0, DEVICE, None, 0x1000, None, 256), 50, 3)
is_as_the_driver("cuMemcpy2D", byref(flat))
is_as_the_driver("cuMemcpy2DUnaligned", byref(flat))
is_as_the_driver("cuMemcpy2DAsync", byref(flat), None)
deep = OldCopy3(OldSide3(0, 0, 0, 0, HOST, addressof(host), 0, None, None, 256, 4),
                OldSide3(0, 0, 0, 0, DEVICE, None, 0x1000, None, None, 256, 4), 50, 2, 3)
is_as_the_driver("cuMemcpy3D", byref(deep))
is_as_the_driver("cuMemcpy3DAsync", byref(deep), None)
"""

# Lists of copies, and copies with attributes: test_shim_passed_on.py, test_shim_new_symbols.py.
LEFT = {name for name in hooked("libcuda") if name.startswith(("cuMemcpyBatch", "cuMemcpy3DBatch", "cuMemcpyWithAttributes",
                                                               "cuMemcpy3DWithAttributes"))}


@pytest.mark.parametrize("paced", [False, True], ids=["unpaced", "paced"])
def test_each_copy_and_fill_is_called_and_moves_its_bytes(granted, paced):
    if paced:
        grants.set_core(granted.grant, 0, 500_000)
    names = granted.script(FUNCTIONS, FILLS, LINES, ARRAYS, BOXES, FIRST_BOXES, "\nsay(*sorted(called))\n").split()
    assert set(names) == {name for name in hooked("libcuda") if name.startswith(("cuMemset", "cuMemcpy"))} - LEFT
