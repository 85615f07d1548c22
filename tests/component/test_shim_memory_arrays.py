"""Arrays under a limit. Where small ones are cannot be seen from outside: they may be charged more than they take, and not less."""
import pytest

from shim_programs import needs_no_grant_here
from shim_scripts import ARRAYS

pytestmark = needs_no_grant_here


def test_arrays_of_two_and_three_dimensions(granted):
    granted.script(ARRAYS, """
        a = array(8192, 8192, FLOAT, 4)
        same(1024 * MiB)
        b = array(512, 512, 512, FLOAT, 1, 0)
        same(1536 * MiB)
        assert array(8192, 8192, FLOAT, 4) == OOM
        same(1536 * MiB)
        destroy(a)
        c = array(1024, 1024, 6 * 8, BYTE, 4, LAYERED | CUBEMAP)
        same((512 + 192) * MiB)
        destroy(b), destroy(c)
        same(0)
    """)


def test_an_array_without_height_is_one_row(granted):
    granted.script(ARRAYS, """
        a = array(131072, 0, FLOAT, 4)
        same(2 * MiB)
        destroy(a)
        same(0)
    """)


def test_functions_of_before_cuda_3_2(granted):
    granted.script(ARRAYS, """
        class D2v1(Structure):
            _fields_ = [(n, c_uint) for n in ("Width", "Height", "Format", "NumChannels")]
        a, b = c_void_p(), c_void_p()
        ok(cu.cuArrayCreate(byref(a), byref(D2v1(8192, 8192, FLOAT, 1))))
        ok(cu.cuArray3DCreate(byref(b), byref(D3v1(512, 512, 512, FLOAT, 1, 0))))
        same(768 * MiB)
        destroy(a), destroy(b)
        same(0)
    """)


def test_mipmapped_arrays_are_charged_with_all_levels(granted):
    granted.script(ARRAYS, """
        m = c_void_p()
        ok(cu.cuMipmappedArrayCreate(byref(m), byref(D3(8192, 8192, 0, FLOAT, 1, 0)), 14))
        # 256 + 64 + 16 + 4 MiB, and ten small levels in a block: 1 MiB + 1 MiB / 4 + ...
        same((256 + 64 + 16 + 4 + 2) * MiB)
        ok(cu.cuMipmappedArrayDestroy(m))
        same(0)
        assert cu.cuMipmappedArrayCreate(byref(m), byref(D3(32768, 32768, 0, FLOAT, 1, 0)), 14) == OOM
        same(0)
    """)


@pytest.mark.parametrize("shape, levels", [
    ((1, 32768, 1024, "LAYERED"), 16), ((32768, 1, 1024, "LAYERED"), 16), ((1, 8192, 2048, "0"), 14), ((8192, 1, 2048, "0"), 14),
    ((8192, 2048, 1, "0"), 14), ((1, 1, 16384, "0"), 15), ((1, 65536, 0, "0"), 17), ((65536, 1, 0, "0"), 17), ((3, 16384, 64, "LAYERED"), 40),
    ((3, 5, 16384, "0"), 40)])
def test_no_level_of_a_mipmapped_array_is_narrower_than_one_texel(granted, shape, levels):
    """cuda.h of CUDA 13.5.37: each level is half as large as the one before, at least 1; layers stay as many as they are."""
    width, height, depth, flags = shape
    granted.script(ARRAYS, f"""
        made = []
        for i in range(20):
            m = c_void_p()
            result = cu.cuMipmappedArrayCreate(byref(m), byref(D3({width}, {height}, {depth}, FLOAT, 4, {flags})), {levels})
            assert charged() >= taken() and taken() <= 2154 * MiB, (i, charged(), taken())
            if result != OK:
                assert result == OOM, result
                break
            made.append(m)
        assert made
        for m in made:
            ok(cu.cuMipmappedArrayDestroy(m))
        same(0)
    """)


def test_video_and_compressed_arrays_are_charged_for_all_of_their_texels(granted):
    """Formats, channels and bits from cuda.h of CUDA 13.5.37. The simulated driver refuses them, so this one answers itself."""
    granted.put_before_driver("""
        static long handles = 4096;
        int cuArray3DCreate_v2(void **handle, const void *description) { *handle = (void *)handles++; return 0; }
        int cuArrayDestroy(void *handle) { return 0; }
    """)
    granted.script(ARRAYS, """
        bits = {0xb0: 12, 0x9f: 24, 0xa4: 32, 0xa7: 32, 0xa8: 32, 0xa9: 32, 0xb1: 64, 0xb2: 24, 0xb3: 48, 0xb4: 24, 0xb5: 48, 0x50: 32,
                0x52: 32, 0x56: 32, 0x57: 24, 0x58: 48, 0x5c: 32, 0x5d: 24, 0x5e: 48, 0xc5: 64, 0xcb: 64, 0x91: 4, 0x97: 4, 0x9d: 8}
        for format, of_a_texel in bits.items():
            a = array(4096, 4096, 0, format, 4, 0)
            assert charged() >= 2 * MiB * of_a_texel, (hex(format), charged())
            destroy(a)
        for format, block in (0x91, 8), (0x98, 8), (0x93, 16), (0x9e, 16):    # a block has 4 x 4 texels
            a = array(1, 1 << 20, 0, format, 4, 0)
            assert charged() >= (1 << 18) * block, (hex(format), charged())
            destroy(a)
            a = array(1 << 20, 2, 0, format, 4, 0)
            assert charged() >= (1 << 18) * block, (hex(format), charged())
            destroy(a)
        assert charged() == 0
    """)


def test_many_small_arrays_share_blocks(granted):
    granted.script(ARRAYS, """
        arrays = [array(64, 64, FLOAT, 1) for i in range(1000)]
        same(16 * MiB)      # 1000 x 16 KiB
        for a in arrays[:500]:
            destroy(a)
        assert taken() <= charged() <= 16 * MiB
        for a in arrays[500:]:
            destroy(a)
        same(0)
    """)


def test_bad_descriptions_get_the_drivers_answer(granted):
    granted.script(ARRAYS, """
        assert array(0, 0, FLOAT, 1) == INVALID
        assert array(1 << 62, 1 << 62, 1 << 62, FLOAT, 4, 0) in (INVALID, OOM)
        assert cu.cuArrayCreate_v2(byref(c_void_p()), None) == INVALID
        assert cu.cuArrayCreate_v2(None, byref(D2(8, 8, FLOAT, 1))) == INVALID
        assert cu.cuArray3DCreate_v2(byref(c_void_p()), None) == INVALID
        assert cu.cuMipmappedArrayCreate(byref(c_void_p()), None, 3) == INVALID
        assert array(64, 64, 0, FLOAT, 1, SPARSE) != OOM
        same(0)
    """)


def test_arrays_go_with_their_context(granted):
    granted.script(ARRAYS, """
        second = context()
        array(8192, 8192, FLOAT, 1), array(64, 64, FLOAT, 1)
        assert charged() == 258 * MiB
        ok(cu.cuCtxDestroy_v2(second))
        ok(cu.cuCtxSetCurrent(ctx))
        same(0)
    """)


HALVES = ARRAYS + """
def half(kib=1024):
    return array(512, kib // 2, FLOAT, 1)     # 2 KiB a row
"""


def test_blocks_that_arrays_leave_half_empty_stay_charged(granted):
    """Two arrays of 1 MiB share a block, of which one goes."""
    granted.script(HALVES, """
        arrays = [half() for i in range(400)]
        assert charged() >= taken() == 400 * MiB
        for a in arrays[::2]:
            destroy(a)
        assert taken() == 400 * MiB
        assert charged() >= taken(), charged() // MiB
        big = alloc(1754 * MiB)
        assert try_alloc(2 * MiB) == OOM
        free(big)
        for a in arrays[1::2]:
            destroy(a)
        same(0)
    """)


def test_holes_that_are_too_small_for_the_next_arrays_stay_charged(granted):
    granted.script(HALVES, """
        arrays = [half() for i in range(200)]
        for i in range(0, 200, 2):
            destroy(arrays[i])
            arrays[i] = half(kib=520)
        assert charged() >= taken() == 200 * MiB
        more = [half(kib=600) for i in range(90)]     # three of them fill a block
        assert charged() >= taken() >= 260 * MiB, (charged() // MiB, taken() // MiB)
        for a in arrays + more:
            destroy(a)
        same(0)
    """)


def test_blocks_that_arrays_shared_with_other_memory_stay_charged(granted):
    """A small array is put into the rest of each of 300 blocks; then only the arrays are left there."""
    granted.script(HALVES, """
        pieces = [alloc(MiB) for i in range(600)]
        same(600 * MiB)
        rest, arrays = [], []
        for p in pieces[::2]:
            free(p)
            arrays.append(half(kib=64))
            rest.append(alloc(960 * KiB))
        assert charged() >= taken() == 600 * MiB
        for p in pieces[1::2] + rest:
            free(p)
        assert taken() == 600 * MiB
        assert charged() >= taken(), charged() // MiB
        assert charged() <= 602 * MiB
        for a in arrays:
            destroy(a)
        same(0)
    """)


@pytest.mark.parametrize("seed", range(4))
def test_small_arrays_and_other_memory_are_never_charged_too_little(granted, seed):
    granted.script(HALVES, f"""
        import random
        draw = random.Random({seed})
        arrays, pieces = [], []
        def mipmap(width, height, depth, levels):
            handle = c_void_p()
            levels = min(levels, max(width, height, depth).bit_length())
            ok(cu.cuMipmappedArrayCreate(byref(handle), byref(D3(width, height, depth, FLOAT, 4, 0)), levels))
            return handle
        def end(a):
            ok(a[1](a[0]))
        for i in range(6000):
            full = len(arrays) + len(pieces) >= draw.choice([50, 400])
            kib = draw.choice([2, 4, 16, 64, 400, 520, 600, 700, 1024])
            if full and arrays and draw.random() < 0.5:
                end(arrays.pop(draw.randrange(len(arrays))))
            elif full and pieces:
                free(pieces.pop(draw.randrange(len(pieces))))
            elif draw.random() < 0.4:
                arrays.append((half(kib), cu.cuArrayDestroy))
            elif draw.random() < 0.1:
                shape = [draw.choice([1, 7, 100, 333, 600]) for i in range(2)] + [draw.choice([0, 1, 5])]
                arrays.append((mipmap(*shape, draw.randint(1, 8)), cu.cuMipmappedArrayDestroy))
            else:
                pieces.append(alloc(kib * KiB))
            if i % 10 == 0:
                assert charged() >= taken(), (i, charged() // MiB, taken() // MiB)
        assert charged() <= taken() + len(arrays) * 8 * 2 * MiB, (charged() // MiB, taken() // MiB, len(arrays))
        for p in pieces: free(p)
        for a in arrays: end(a)
        same(0)
    """)
