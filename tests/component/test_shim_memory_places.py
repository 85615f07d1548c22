"""Memory that is asked for by its location, and pools that the program got in another way than from cuMemPoolCreate: each of them
is charged, or refused."""
import pytest

from driver_tree import NEWEST, RATION_SIM
from shim_memory import MIB, Granted
from shim_programs import needs_no_grant_here
from shim_scripts import POOLS

pytestmark = needs_no_grant_here

PLACES = POOLS + """
NONE, DEVICE, HOST, NUMA, CURRENT_NUMA, INVISIBLE, DOMAIN = range(7)
PINNED, MANAGED = 1, 2

class AllocationProp(Structure):
    _fields_ = [("type", c_int), ("handleTypes", c_int), ("location", Location), ("meta", c_void_p), ("flags", c_ubyte * 8)]

def ask(name, place=DEVICE, device=0, kind=PINNED):
    pool = c_void_p()
    r = getattr(cu, name)(byref(pool), byref(Location(place, device)), kind)
    return pool if r == OK else r

def create(place, device=0, kind=PINNED):
    pool = c_void_p()
    r = cu.cuMemPoolCreate(byref(pool), byref(PoolProps(kind, 0, Location(place, device))))
    return pool if r == OK else r

def physical(size, place, device=0, kind=PINNED):
    handle = c_uint64()
    r = cu.cuMemCreate(byref(handle), c_size_t(size), byref(AllocationProp(kind, 0, Location(place, device))), c_uint64(0))
    return handle if r == OK else r

def fill(once):
    made = []
    while len(made) < 40 and (p := once()) != OOM:
        assert type(p) is c_uint64, p
        made.append(p)
        assert charged() >= taken(), (charged(), taken())
    assert len(made) == 7, len(made)
    same(2100 * MiB)
    return made
"""


@pytest.mark.parametrize("suffix", ["", "_ptsz"])
@pytest.mark.parametrize("kind", ["PINNED", "MANAGED"])
@pytest.mark.parametrize("name", ["cuMemGetDefaultMemPool", "cuMemGetMemPool"])
def test_a_pool_that_is_got_by_its_location_is_charged(granted, name, kind, suffix):
    granted.script(PLACES, f"""
        pool = ask({name!r}, kind={kind})
        def once():
            p = c_uint64()
            r = cu.cuMemAllocFromPoolAsync{suffix}(byref(p), c_size_t(300 * MiB), pool, None)
            return p if r == OK else r
        for p in fill(once):
            ok(cu.cuMemFreeAsync{suffix}(p, None))
        sync()
        same(0)
    """)


@pytest.mark.parametrize("place", ["NONE", "DEVICE", "HOST", "NUMA"])
@pytest.mark.parametrize("own", [True, False])
def test_a_pool_of_managed_memory_is_charged_in_full_wherever_it_prefers_to_be(granted, place, own):
    granted.script(PLACES, f"""
        pool = create({place}, 0, MANAGED) if {own} else ask("cuMemGetDefaultMemPool", {place}, 0, MANAGED)
        for p in fill(lambda: take(300 * MiB, None, pool)):
            give(p)
        sync()
        same(0)
        p = take(MiB, None, pool)
        if {own}:
            ok(cu.cuMemPoolDestroy(pool))
        same(32 * MiB)
        give(p)
        sync()
        same(0)
    """)


@pytest.mark.parametrize("device", [0, 1])
def test_memory_of_a_locality_domain_is_charged_to_its_gpu(granted, device):
    """The first byte of the location's union is the GPU and the second the domain; the other two mean nothing."""
    granted.script(PLACES, f"""
        limit = [2154, 1024][{device}] * MiB
        ok(cu.cuCtxSetCurrent(context({device})))
        begin()
        for id in {device}, 0x7f340000 | {device}, -0x10000 + {device}:
            assert physical(limit + 2 * MiB, DOMAIN, id) == OOM
            handle = physical(limit, DOMAIN, id)
            same(limit)
            assert physical(2 * MiB, DOMAIN, id) == OOM
            ok(cu.cuMemRelease(handle))
            same(0)
            pool = create(DOMAIN, id)
            assert take(limit + MiB, None, pool) == OOM
            p = take(limit, None, pool)
            same(limit)
            give(p)
            sync()
            ok(cu.cuMemPoolDestroy(pool))
            same(0)
            for name in "cuMemGetDefaultMemPool", "cuMemGetMemPool":
                pool = ask(name, DOMAIN, id)
                assert take(limit + MiB, None, pool) == OOM
                p = take(limit, None, pool)
                same(limit)
                give(p)
                sync()
                same(0)
    """)


LENIENT = r"""
#include <stdint.h>
#include <string.h>
/* Takes a location of any type for GPU 0's memory, as a driver that is newer than the shim might. */
struct place { int type, id; };
int cuMemCreate(uint64_t *handle, size_t size, void *prop, unsigned long long flags)
{
	char copy[32];
	memcpy(copy, prop, 32);
	memcpy(copy, &(int){1}, 4), memcpy(copy + 8, &(struct place){1, 0}, 8);
	return NEXT(cuMemCreate, handle, size, (void *)copy, flags);
}
int cuMemPoolCreate(void **pool, void *props)
{
	char copy[88];
	memcpy(copy, props, 88);
	memcpy(copy, &(int){1}, 4), memcpy(copy + 8, &(struct place){1, 0}, 8);
	return NEXT(cuMemPoolCreate, pool, (void *)copy);
}
int cuMemGetDefaultMemPool(void **pool, struct place *place, int type)
{
	return NEXT(cuMemGetDefaultMemPool, pool, &((struct place){1, 0}), 1);
}
int cuMemGetMemPool(void **pool, struct place *place, int type)
{
	return NEXT(cuMemGetMemPool, pool, &((struct place){1, 0}), 1);
}
"""


@pytest.mark.parametrize("place", [5, 7, 100, 0x7fffffff, -1])
def test_a_location_of_a_type_that_the_shim_does_not_know_is_refused(granted, place):
    """As a driver from before the type refuses it, with CUDA_ERROR_INVALID_VALUE, although this driver would accept it."""
    granted.put_before_driver(LENIENT)
    granted.script(PLACES, f"""
        for kind in PINNED, MANAGED, 3, -1:
            assert physical(2 * MiB, {place}, 0, kind) == INVALID
            assert create({place}, 0, kind) == INVALID
            for name in "cuMemGetDefaultMemPool", "cuMemGetMemPool":
                assert ask(name, {place}, 0, kind) == INVALID
        same(0)
    """)


def test_memory_of_no_place_is_charged(granted):
    """A driver that accepts it may put it on a GPU."""
    granted.put_before_driver(LENIENT)
    granted.script(PLACES, """
        handle = physical(300 * MiB, NONE)
        same(300 * MiB)
        assert physical(1900 * MiB, NONE) == OOM
        ok(cu.cuMemRelease(handle))
        pool = create(NONE)
        fill(lambda: take(300 * MiB, None, pool))
    """)


def test_the_driver_ends_a_pool_of_the_machines_memory(granted):
    """At once, also while memory of it is in use: nothing is charged for it. (Here its memory is the GPU's.)"""
    granted.put_before_driver(LENIENT)
    granted.script(PLACES, """
        pool = create(HOST)
        p = take(300 * MiB, None, pool)
        assert charged() == 0
        ok(cu.cuMemPoolDestroy(pool))
        assert cu.cuMemPoolTrimTo(pool, c_size_t(0)) not in (OK, OOM)
        give(p)
        sync()
        same(0)
    """)


@pytest.mark.parametrize("suffix", ["", "_ptsz"])
def test_a_pool_that_no_hook_has_seen_is_charged_from_its_first_allocation_on(granted, suffix):
    """The handle comes from the driver itself. The GPU is found by what is allocated, and need not be the stream's."""
    granted.script(PLACES, f"""
        for device, limit in (0, 2154), (1, 1024):
            pool = c_void_p()
            ok(real.cuDeviceGetDefaultMemPool(byref(pool), device))
            def unknown(size):
                p = c_uint64()
                r = cu.cuMemAllocFromPoolAsync{suffix}(byref(p), c_size_t(size), pool, None)
                return p if r == OK else r
            ok(cu.cuCtxSetCurrent(ctx if device == 0 else context(1)))
            begin()
            ok(cu.cuCtxSetCurrent(ctx))
            first = unknown((limit + 100) * MiB)
            p = unknown(limit * MiB)
            again = unknown(MiB)
            ok(cu.cuCtxSetCurrent(ctx) if device == 0 else cu.cuCtxSetCurrent(context(1)))
            assert first == OOM and again == OOM, (first, again)
            assert charged() == limit * MiB
            ok(cu.cuMemFree_v2(p))
            ok(cu.cuMemPoolTrimTo(pool, c_size_t(0)))
            assert charged() == 0
    """)


def test_a_pool_of_a_gpu_that_is_not_granted_is_refused(tree, tmp_path):
    tree.sim = RATION_SIM
    tree.up_file({"gpus": [{"memoryMiB": 16160, "contextMiB": 300}] * 2, "driverVersion": NEWEST})
    Granted(tree, tmp_path, [2154 * MIB]).script(PLACES, """
        for place, id in (DEVICE, 1), (DOMAIN, 1), (DOMAIN, 255), (DEVICE, -1), (DEVICE, 2**31 - 1), (DEVICE, 256):
            assert ask("cuMemGetDefaultMemPool", place, id) == ask("cuMemGetMemPool", place, id) == 101
            assert create(place, id) == physical(2 * MiB, place, id) == 101
        for id in 1, -1, 2**31 - 1:
            assert cu.cuDeviceGetDefaultMemPool(byref(c_void_p()), id) == cu.cuDeviceGetMemPool(byref(c_void_p()), id) == 101
    """)


def test_null_gets_the_drivers_answer(granted):
    granted.script(PLACES, """
        place = Location(DEVICE, 0)
        for name in "cuMemGetDefaultMemPool", "cuMemGetMemPool":
            assert getattr(cu, name)(None, byref(place), PINNED) == INVALID
            assert getattr(cu, name)(byref(c_void_p()), None, PINNED) == INVALID
            assert getattr(cu, name)(None, None, MANAGED) == INVALID
        assert cu.cuDeviceGetMemPool(None, 0) == cu.cuDeviceGetDefaultMemPool(None, 0) == INVALID
        assert cu.cuMemPoolCreate(None, byref(PoolProps(PINNED, 0, place))) == INVALID
        pool = ask("cuMemGetMemPool")
        assert cu.cuMemAllocFromPoolAsync(None, c_size_t(MiB), pool, None) == INVALID
        assert cu.cuMemAllocFromPoolAsync(None, c_size_t(MiB), c_void_p(4711), None) not in (OK, OOM)
        assert cu.cuMemAllocFromPoolAsync(byref(c_uint64()), c_size_t(MiB), None, None) not in (OK, OOM)
        sync()
        same(0)
    """)
