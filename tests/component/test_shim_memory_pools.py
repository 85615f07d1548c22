"""Stream-ordered memory and graphs' memory under a limit: what the driver has reserved is what is charged."""
import pytest

from shim_memory import MIB
from shim_programs import needs_no_grant_here
from shim_scripts import GRAPHS, MANY, POOLS

pytestmark = needs_no_grant_here


def test_a_pool_is_charged_by_what_it_reserves(granted):
    granted.script(POOLS, """
        p = take(1 * MiB)
        same(32 * MiB)
        q = take(10 * MiB)
        same(32 * MiB)
        r = take(100 * MiB)
        same(132 * MiB)
        give(p), give(q), give(r)
        assert charged() >= taken()
        sync()
        same(0)
    """)


def test_over_the_limit_is_out_of_memory_and_the_next_smaller_fits(granted):
    granted.script(POOLS, """
        assert take(2155 * MiB) == OOM
        same(0)
        p = take(2000 * MiB)
        assert take(155 * MiB) == OOM
        same(2000 * MiB)
        q = take(150 * MiB)
        same(2150 * MiB)
        assert take(8 * MiB) == OOM
        same(2150 * MiB)
        give(p), give(q)
        sync()
        same(0)
    """)


def test_what_a_pool_keeps_stays_charged_until_it_is_trimmed(granted):
    granted.script(POOLS, """
        pool = default_pool()
        keep(pool, 1 << 40)
        p = take(500 * MiB)
        give(p)
        sync()
        same(500 * MiB)
        assert try_alloc(1700 * MiB) == OOM
        p = take(400 * MiB)      # out of what it keeps
        same(500 * MiB)
        give(p)
        sync()
        ok(cu.cuMemPoolTrimTo(pool, c_size_t(0)))
        same(0)
        alloc(1700 * MiB)
    """)


def test_memory_of_a_pool_that_the_driver_gave_back_is_there_for_cuMemAlloc(granted):
    """A wait that no hook sees: the refusal itself looks again."""
    granted.script(POOLS, """
        p = take(2000 * MiB)
        give(p)
        ok(real.cuCtxSynchronize())
        alloc(2000 * MiB)
        same(2000 * MiB)
    """)


def test_pools_of_ones_own_and_streams_of_ones_own(granted):
    granted.script(POOLS, """
        stream = out("cuStreamCreate", c_void_p, 0)
        pool = new_pool()
        p = take(100 * MiB, stream, pool)
        q = take(50 * MiB, stream)
        same(150 * MiB)
        assert take(2100 * MiB, stream, pool) == OOM
        give(p, stream)
        ok(cu.cuStreamSynchronize(stream))
        same(50 * MiB)
        give(q, stream)
        event = out("cuEventCreate", c_void_p, 0)
        ok(cu.cuEventRecord(event, stream))
        ok(cu.cuEventSynchronize(event))
        same()
        ok(cu.cuMemPoolDestroy(pool))
        sync()
        same(0)
    """)


def test_a_destroyed_pool_is_charged_until_its_last_memory_is_freed(granted):
    granted.script(POOLS, """
        pool = new_pool()
        ok(cu.cuDeviceSetMemPool(0, pool))
        p, q = take(100 * MiB), take(200 * MiB)
        same(300 * MiB)
        ok(cu.cuMemPoolDestroy(pool))
        same(300 * MiB)
        assert cu.cuMemPoolDestroy(pool) != OK
        # The device has its default pool again.
        r = take(40 * MiB)
        same(340 * MiB)
        give(p)
        sync()
        assert taken() <= charged() <= 340 * MiB
        give(q)
        sync()
        same(40 * MiB)
        give(r)
        sync()
        same(0)
    """)


def test_cuMemFree_frees_memory_of_pools_too(granted):
    granted.script(POOLS, """
        p = take(100 * MiB)
        same(100 * MiB)
        ok(cu.cuMemFree_v2(p))
        sync()
        same(0)
    """)


def test_the_threads_own_default_stream(granted):
    granted.script(POOLS, """
        p = c_uint64()
        ok(cu.cuMemAllocAsync_ptsz(byref(p), c_size_t(64 * MiB), None))
        same(64 * MiB)
        assert cu.cuMemAllocAsync_ptsz(byref(c_uint64()), c_size_t(2100 * MiB), None) == OOM
        ok(cu.cuMemFreeAsync_ptsz(p, None))
        ok(cu.cuStreamSynchronize_ptsz(None))
        same(0)
    """)


def test_bad_arguments_get_the_drivers_answer(granted):
    granted.script(POOLS, """
        assert cu.cuMemAllocAsync(None, c_size_t(MiB), None) == INVALID
        assert take(0) == INVALID
        assert cu.cuMemPoolCreate(None, None) == INVALID
        assert cu.cuMemFreeAsync(c_uint64(4096), None) == INVALID
        assert take(MiB, None, c_void_p(12345)) not in (OK, OOM)
        sync()
        same(0)
    """)


def test_threads_share_a_pool_and_the_sum_is_exact(granted):
    granted.script(POOLS, """
        def work(n):
            ok(cu.cuCtxSetCurrent(ctx))
            stream = out("cuStreamCreate", c_void_p, 1)
            for i in range(60):
                p = take((n + 1) * 9 * MiB, stream)
                assert type(p) is c_uint64, p
                give(p, stream)
                if i % 7 == 0:
                    ok(cu.cuStreamSynchronize(stream))
            ok(cu.cuStreamSynchronize(stream))
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        sync()
        same(0)
    """)


def test_a_killed_process_leaves_nothing_of_its_pools(granted):
    first = granted.start(POOLS, "take(1500 * MiB); say('has'); wait()")
    assert first.stdout.readline() == "has\n"
    assert granted.used() == 1500 * MIB
    first.kill()
    first.wait()
    granted.script("alloc(2154 * MiB)")


# Graphs


def test_a_captured_allocation_is_charged_when_it_is_launched(granted):
    granted.script(GRAPHS, """
        stream = out("cuStreamCreate", c_void_p, 1)
        begin_capture(stream)
        p = take(300 * MiB, stream)
        give(p, stream)
        graph = end_capture(stream)
        same(0)
        run = instantiate(graph)
        for i in range(5):
            ok(cu.cuGraphLaunch(run, stream))
            ok(cu.cuStreamSynchronize(stream))
            same(300 * MiB)
        trim()
        same(0)
        ok(cu.cuGraphLaunch(run, stream))
        ok(cu.cuStreamSynchronize(stream))
        ok(cu.cuGraphExecDestroy(run))
        ok(cu.cuGraphDestroy(graph))
        trim()
        same(0)
    """)


@pytest.mark.parametrize("suffix", ["", "_ptsz"])
def test_a_captured_allocation_needs_no_room_before_its_launch(granted, suffix):
    """At the limit the driver still makes the node, as it does on a full GPU. The launch is refused until there is room."""
    granted.script(GRAPHS, f"""
        suffix, per_thread = {suffix!r}, c_void_p(2)
        stream = None if suffix else out("cuStreamCreate", c_void_p, 1)
        def capture(allocate, *pool):
            begin_capture(stream or per_thread)
            ok(getattr(cu, allocate + suffix)(byref(c_uint64()), c_size_t(300 * MiB), *pool, stream))
            return instantiate(end_capture(stream or per_thread))
        full = alloc(2154 * MiB)
        runs = [capture("cuMemAllocAsync"), capture("cuMemAllocFromPoolAsync", new_pool())]
        same(2154 * MiB)
        assert take(MiB, stream) == OOM
        for run in runs:
            assert cu.cuGraphLaunch(run, stream) == OOM
        free(full)
        for run in runs:
            ok(cu.cuGraphLaunch(run, stream))
        sync()
        same(600 * MiB)
    """)


def test_an_allocation_whose_capture_ends_meanwhile_stays_within_the_limit(granted):
    """Threads allocate what does not fit in a stream of which another thread begins and ends captures: each allocation is a node,
    or is refused."""
    granted.script(GRAPHS, """
        stream = out("cuStreamCreate", c_void_p, 1)
        alloc(2000 * MiB)
        going, nodes, refused, wrong = True, [0], [0], [0]
        def work():
            ok(cu.cuCtxSetCurrent(ctx))
            while going:
                p = take(400 * MiB, stream)
                (refused if p == OOM else nodes if isinstance(p, c_uint64) else wrong)[0] += 1
        threads = [threading.Thread(target=work) for i in range(3)]
        for t in threads: t.start()
        for i in range(20000):
            ok(cu.cuStreamBeginCapture_v2(stream, 2))
            ok(cu.cuGraphDestroy(end_capture(stream)))
            if i >= 3000 and nodes[0] > 500 and refused[0] > 500: break
        going = False
        for t in threads: t.join()
        assert nodes[0] and refused[0] and not wrong[0], (nodes, refused, wrong)
        sync()
        same(2000 * MiB)
    """)


def test_a_launch_that_does_not_fit_is_out_of_memory_and_later_runs(granted):
    granted.script(GRAPHS, """
        stream = out("cuStreamCreate", c_void_p, 1)
        begin_capture(stream)
        p, q = take(300 * MiB, stream), take(700 * MiB, stream)
        give(p, stream), give(q, stream)
        graph = end_capture(stream)
        run = instantiate(graph)
        other = alloc(1200 * MiB)
        assert cu.cuGraphLaunch(run, stream) == OOM
        same(1200 * MiB)
        free(other)
        ok(cu.cuGraphLaunch(run, stream))
        ok(cu.cuStreamSynchronize(stream))
        same(1000 * MiB)
        assert try_alloc(1200 * MiB) == OOM
        trim()
        alloc(1200 * MiB)
    """)


def test_graphs_whose_memory_lives_on_take_the_limit_and_no_more(granted):
    """7 x 300 MiB fit into 2154; what is not freed cannot be trimmed."""
    granted.script(GRAPHS, MANY, """
        runs = [capture(freed=False) for i in range(40)]
        assert [launch(run) for run in runs] == [OK] * 7 + [OOM] * 33
        same(2100 * MiB)
        ok(cu.cuGraphExecDestroy(runs.pop(0)))
        trim()
        assert charged() <= 2100 * MiB
    """)


@pytest.mark.parametrize("function", ["cuGraphLaunch", "cuGraphUpload"])
def test_graphs_that_rest_make_room_for_others(granted, function):
    granted.script(GRAPHS, MANY, f"""
        runs = [capture(freed=True) for i in range(40)]
        for again in range(2):
            for run in runs:
                assert launch(run, {function!r}) == OK
                same()
                assert charged() <= 2100 * MiB
    """)


def test_graph_that_has_its_memory_is_launched_again_at_the_limit(granted):
    granted.script(GRAPHS, MANY, """
        run = capture(freed=True)
        assert launch(run, "cuGraphUpload") == OK
        same(300 * MiB)
        other = alloc(1854 * MiB)
        for i in range(5):
            assert launch(run) == OK
            same(2154 * MiB)
        trim()
        same(1854 * MiB)
        assert launch(run) == OK
        assert try_alloc(2 * MiB) == OOM
        trim()
        alloc(2 * MiB)
        assert launch(run) == OOM
    """)


def test_a_graph_whose_memory_the_driver_gave_to_another_is_launched_at_the_limit(granted):
    """On a full GPU the driver takes the memory of graphs that do not run. The shim learns it only when the graph is launched again
    and the driver has taken more: what other graphs keep is trimmed at once."""
    granted.script(GRAPHS, MANY, """
        def take_all_of_the_gpu():
            pointer = c_uint64()
            ok(real.cuMemAlloc_v2(byref(pointer), c_size_t(driver_free() - 100 * MiB)))
            return pointer
        first, second = capture(freed=True), capture(freed=True)
        assert launch(first) == OK
        others = take_all_of_the_gpu()
        assert launch(second) == OK
        ok(real.cuMemFree_v2(others))
        same(300 * MiB)
        alloc(1854 * MiB)
        assert launch(first) == OK
        assert driver_free() >= base - 2154 * MiB
        same()
    """)


def test_graphs_without_allocations_cost_nothing(granted):
    granted.script(GRAPHS, """
        import struct
        graph = out("cuGraphCreate", c_void_p, 0)
        node = c_void_p()
        ok(cu.cuGraphAddEmptyNode(byref(node), graph, None, c_size_t(0)))
        run = instantiate(graph)
        ok(cu.cuGraphLaunch(run, None))
        sync()
        same(0)
    """)


@pytest.mark.parametrize("version", ["", "_v2", "_v3"])
def test_allocations_of_a_graph_made_node_by_node_are_charged(granted, version):
    """By each version of cuGraphAddNode: the launch that does not fit is refused."""
    granted.script(GRAPHS, f"""
        import struct
        graph = out("cuGraphCreate", c_void_p, 0)
        params = create_string_buffer(256)
        struct.pack_into("<i", params, 0, 10)                           # CU_GRAPH_NODE_TYPE_MEM_ALLOC
        struct.pack_into("<iiii", params, 16, 1, 0, 1, 0)               # pinned, no handles, on device 0
        struct.pack_into("<Q", params, 16 + 88 + 16, 2100 * MiB)
        node = c_void_p()
        edges = [None] if {version!r} else []
        ok(cu.cuGraphAddNode{version}(byref(node), graph, None, *edges, c_size_t(0), params))
        alloc(100 * MiB)
        exec = instantiate(graph)
        assert cu.cuGraphLaunch(exec, None) == OOM
    """)
