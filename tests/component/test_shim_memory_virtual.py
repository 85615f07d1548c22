"""Virtual memory management under a limit: physical memory is charged once, for as long as anything refers to it."""
from shim_memory import MIB
from shim_programs import needs_no_grant_here
from shim_scripts import VIRTUAL

pytestmark = needs_no_grant_here


def test_created_memory_is_charged_until_it_is_released(granted):
    granted.script(VIRTUAL, """
        h = create(1000 * MiB)
        same(1000 * MiB)
        assert create(1156 * MiB) == OOM
        same(1000 * MiB)
        g = create(1154 * MiB)
        same(2154 * MiB)
        release(h), release(g)
        same(0)
    """)


def test_create_map_release_unmap(granted):
    """What frameworks do: the handle goes first, the memory with the mapping."""
    granted.script(VIRTUAL, """
        a = reserve(100 * MiB)
        h = create(100 * MiB)
        map_at(a, 100 * MiB, h)
        release(h)
        same(100 * MiB)
        assert try_alloc(2055 * MiB) == OOM
        unmap(a, 100 * MiB)
        same(0)
        ok(cu.cuMemAddressFree(a, c_size_t(100 * MiB)))
    """)


def test_unmap_first_then_release(granted):
    granted.script(VIRTUAL, """
        a = reserve(100 * MiB)
        h = create(100 * MiB)
        map_at(a, 100 * MiB, h)
        unmap(a, 100 * MiB)
        same(100 * MiB)
        release(h)
        same(0)
        assert cu.cuMemRelease(h) != OK
        same(0)
    """)


def test_two_mappings_of_one_handle_are_one_memory(granted):
    granted.script(VIRTUAL, """
        a = reserve(200 * MiB)
        h = create(100 * MiB)
        map_at(a, 100 * MiB, h)
        map_at(at(a, 100 * MiB), 100 * MiB, h)
        same(100 * MiB)
        release(h)
        unmap(a, 100 * MiB)
        same(100 * MiB)
        unmap(at(a, 100 * MiB), 100 * MiB)
        same(0)
    """)


def test_neighbouring_mappings_are_undone_together(granted):
    granted.script(VIRTUAL, """
        a = reserve(1000 * MiB)
        for i in range(100):
            h = create(10 * MiB)
            map_at(at(a, i * 10 * MiB), 10 * MiB, h)
            release(h)
        same(1000 * MiB)
        unmap(a, 500 * MiB)
        same(500 * MiB)
        unmap(at(a, 500 * MiB), 500 * MiB)
        same(0)
    """)


def test_a_retained_handle_keeps_the_memory(granted):
    granted.script(VIRTUAL, """
        a = reserve(100 * MiB)
        h = create(100 * MiB)
        map_at(a, 100 * MiB, h)
        again = out("cuMemRetainAllocationHandle", c_uint64, c_void_p(a.value + 5 * MiB))
        release(h)
        unmap(a, 100 * MiB)
        same(100 * MiB)
        release(again)
        same(0)
        # And of memory of which no handle was left.
        h = create(100 * MiB)
        map_at(a, 100 * MiB, h)
        release(h)
        again = out("cuMemRetainAllocationHandle", c_uint64, c_void_p(a.value))
        unmap(a, 100 * MiB)
        same(100 * MiB)
        release(again)
        same(0)
    """)


def test_the_card_is_the_one_of_the_properties(granted):
    granted.script(VIRTUAL, """
        other = context(1)
        h = create(1026 * MiB, 0)
        assert type(h) is c_uint64
        assert create(1026 * MiB, 1) == OOM
        ok(cu.cuCtxSetCurrent(ctx))
        same(1026 * MiB)
        assert create(2 * MiB, 2) == BAD_DEVICE
        assert create(2 * MiB, -1) == BAD_DEVICE
    """)


def test_created_memory_outlives_contexts(granted):
    granted.script(VIRTUAL, """
        second = context()
        h = create(100 * MiB)
        ok(cu.cuCtxDestroy_v2(second))
        ok(cu.cuCtxSetCurrent(ctx))
        same(100 * MiB)
        release(h)
        same(0)
    """)


def test_errors_cost_nothing(granted):
    granted.script(VIRTUAL, """
        assert cu.cuMemCreate(None, c_size_t(2 * MiB), byref(Prop(1, 0, Location(DEVICE, 0))), c_uint64(0)) == INVALID
        assert cu.cuMemCreate(byref(c_uint64()), c_size_t(2 * MiB), None, c_uint64(0)) == INVALID
        assert create(2 * MiB + 1) == INVALID
        assert create(0) == INVALID
        assert cu.cuMemRelease(c_uint64(77)) != OK
        a = reserve(100 * MiB)
        h = create(100 * MiB)
        assert cu.cuMemMap(at(a, 1), c_size_t(100 * MiB), c_size_t(0), h, c_uint64(0)) != OK
        assert cu.cuMemMap(a, c_size_t(100 * MiB), c_size_t(0), c_uint64(77), c_uint64(0)) != OK
        assert cu.cuMemUnmap(a, c_size_t(100 * MiB)) != OK
        assert cu.cuMemUnmap(a, c_size_t(1 << 60)) != OK
        same(100 * MiB)
        release(h)
        same(0)
    """)


def test_imported_twice_is_charged_once(granted):
    granted.script(VIRTUAL, """
        h = create(600 * MiB, handles=FD)
        fd = c_int()
        ok(cu.cuMemExportToShareableHandle(byref(fd), h, FD, c_uint64(0)))
        one = out("cuMemImportFromShareableHandle", c_uint64, c_void_p(fd.value), FD)
        two = out("cuMemImportFromShareableHandle", c_uint64, c_void_p(fd.value), FD)
        same(600 * MiB)
        a = reserve(1200 * MiB)
        map_at(a, 600 * MiB, one)
        map_at(at(a, 600 * MiB), 600 * MiB, two)
        release(one), release(two)
        same(600 * MiB)
        unmap(a, 1200 * MiB)
        same(600 * MiB)
        release(h)
        os.close(fd.value)
        same(0)
    """)


def test_a_killed_process_leaves_nothing(granted):
    first = granted.start(VIRTUAL, "create(1500 * MiB); say('has'); wait()")
    assert first.stdout.readline() == "has\n"
    assert granted.used() == 1500 * MIB
    first.kill()
    first.wait()
    granted.script("alloc(2154 * MiB)")
