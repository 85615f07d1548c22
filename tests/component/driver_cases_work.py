"""The simulated libcuda.so.1 by ctypes: streams, events, kernels that take time, modules, graphs, pools.
These tests run on the driver itself (test_sim_cuda_work.py) and again through the shim (test_shim_transparent.py and
test_pacing_transparent.py)."""
import pytest

import sim_cuda
from driver_tree import RATION_SIM, run
from sim_cuda import KERNELS, finish


def script(tree, text, *args, **kwargs):
    import textwrap
    return sim_cuda.script(tree, KERNELS + textwrap.dedent(text), *args, **kwargs)


def start(tree, text, *args, **kwargs):
    import textwrap
    return sim_cuda.start(tree, KERNELS + textwrap.dedent(text), *args, **kwargs)


# Kernels and time

def test_kernel_occupies_the_card_for_the_time_its_module_says(card):
    script(card, """
        context(); ms500 = load(b"ms500"); a, b = event(), event()
        before = time.monotonic()
        ok(cu.cuEventRecord(a, None)); ok(launch(ms500)); ok(cu.cuEventRecord(b, None))
        assert cu.cuStreamQuery(None) == NOT_READY and cu.cuEventQuery(b) == NOT_READY
        assert cu.cuEventElapsedTime(byref(c_float()), a, b) == NOT_READY
        ok(cu.cuCtxSynchronize())
        assert time.monotonic() - before >= 0.5
        ok(cu.cuStreamQuery(None)); ok(cu.cuEventQuery(b))
        assert 500 <= between(a, b) < 1000, between(a, b)    # once, not twice
    """)


def test_duration_grows_with_blocks(card):
    """100 us and 10 us for each of 90 blocks. The shortest of many is judged: another process may delay one."""
    script(card, """
        context(); f = load(b"blocks"); a, b = event(), event(); times = []
        for _ in range(30):
            ok(cu.cuEventRecord(a, None)); ok(launch(f, grid=90)); ok(cu.cuEventRecord(b, None)); ok(cu.cuEventSynchronize(b))
            times.append(between(a, b))
        assert 1.0 <= min(times) < 2, times
    """)


@pytest.mark.alone
def test_many_short_kernels_run_back_to_back(card):
    script(card, """
        context(); ms = load(); a, b = event(), event()
        ok(cu.cuEventRecord(a, None))
        for i in range(100): ok(launch(ms))
        ok(cu.cuEventRecord(b, None)); ok(cu.cuEventSynchronize(b))
        assert 100 <= between(a, b) < 120, between(a, b)
    """)


def test_two_busy_processes_share_the_card_by_time_slices(card):
    """Each has 100 ms of work: both take about 200 ms, and an event pair measures the other's slices too."""
    text = """
        context(); ms = load(); a, b = event(), event()
        say("ready"); wait()
        ok(cu.cuEventRecord(a, None))
        for i in range(100): ok(launch(ms))
        ok(cu.cuEventRecord(b, None)); ok(cu.cuEventSynchronize(b))
        say(between(a, b))
    """
    both = [start(card, text), start(card, text)]
    for p in both:
        assert p.stdout.readline() == "ready\n"
    for p in both:
        p.stdin.write("go\n")
        p.stdin.flush()
    times = [float(p.stdout.readline()) for p in both]
    for p in both:
        finish(p)
    assert all(150 < t < 400 for t in times), times    # the machine may be busy, but nobody waits for the other's end twice


@pytest.mark.alone
def test_slices_and_latency_can_be_set(card):
    assert run(RATION_SIM, "set", card.path).stdout == "slice-us=2000\nlatency-ns=3000\njitter-percent=0\nseed=1\n"
    run(RATION_SIM, "set", card.path, "--latency-ns", 20000000)
    script(card, """
        context(); ms = load(); a, b = event(), event()
        before = time.monotonic(); ok(launch(ms)); ok(cu.cuCtxSynchronize()); took = time.monotonic() - before
        assert 0.021 <= took < 0.031, took
    """)
    for wrong in ("--slice-us=0", "--latency-ns=-1", "--jitter-percent=91", "--seed=x"):
        assert run(RATION_SIM, "set", card.path, wrong, check=False).returncode == 1
    for wrong in ("--slice-us", "--nonsense=1", "slice-us=5"):
        assert run(RATION_SIM, "set", card.path, wrong, check=False).returncode == 2
    # With slices of 500 ms each of two has its 100 ms at once: the first ends when the second begins.
    run(RATION_SIM, "set", card.path, "--slice-us", 500000, "--latency-ns", 0)
    script(card, """
        a = context(); fa = load(b"ms50"); ea = event(); b = context(); fb = load(b"ms50"); eb = event()
        ok(cu.cuCtxSetCurrent(a)); ok(launch(fa)); ok(launch(fa)); ok(cu.cuEventRecord(ea, None))
        ok(cu.cuCtxSetCurrent(b)); ok(launch(fb)); ok(launch(fb)); ok(cu.cuEventRecord(eb, None))
        ok(cu.cuEventSynchronize(eb)); ok(cu.cuCtxSetCurrent(a)); ok(cu.cuEventSynchronize(ea))
        assert 95 <= between(ea, eb) <= 105, between(ea, eb)
    """)


def test_killed_process_leaves_the_card_to_others(card):
    other = start(card, "context(); f = load(b'ms50')\nfor i in range(1000): ok(launch(f))\nsay('ready'); wait()")
    assert other.stdout.readline() == "ready\n"
    other.kill()
    other.communicate()
    script(card, """
        context(); ms = load(); before = time.monotonic()
        for i in range(20): ok(launch(ms))
        ok(cu.cuCtxSynchronize())
        assert time.monotonic() - before < 5    # not the 50 s that were submitted
    """)


def test_kernel_that_fails_ends_its_context_only(card):
    script(card, """
        a = context(); bad = load(b"bad"); b = context(); ms = load()
        ok(cu.cuCtxSetCurrent(a)); ok(launch(bad))
        assert cu.cuCtxSynchronize() == 700
        assert try_alloc(1) == 700 and launch(bad) == 700
        ok(cu.cuCtxSetCurrent(b)); ok(launch(ms)); ok(cu.cuCtxSynchronize())
        ok(cu.cuCtxDestroy_v2(a))
    """)


def test_launch_is_checked(card):
    script(card, """
        a = context(); ms = load(); b = context(); other = load(); s = stream()
        assert cu.cuLaunchKernel(other, 0, 1, 1, 1, 1, 1, 0, None, None, None) == INVALID
        assert cu.cuLaunchKernel(other, 1, 1, 1, 1025, 1, 1, 0, None, None, None) == INVALID
        assert cu.cuLaunchKernel(other, 1, 1, 1, 32, 32, 2, 0, None, None, None) == INVALID
        assert cu.cuLaunchKernel(other, 1, 1, 1, 1, 1, 1, 1 << 20, None, None, None) == INVALID
        assert launch(ms) == BAD_HANDLE
        assert cu.cuLaunchCooperativeKernel(other, 161, 1, 1, 1024, 1, 1, 0, None, None) == 720
        ok(cu.cuLaunchCooperativeKernel(other, 160, 1, 1, 1024, 1, 1, 0, None, None))
        ok(cu.cuCtxSetCurrent(a))
        assert launch(ms, s) == BAD_HANDLE
        assert launch(c_void_p(0x1230)) == BAD_HANDLE
        ok(cu.cuLaunchKernel_ptsz(ms, 1, 1, 1, 1, 1, 1, 0, None, None, None))
    """)
    assert sim_cuda.misuse(card) == {"wrong context": 2, "not a handle": 1}


def test_stream_destroyed_and_used_is_an_error_and_counted(card):
    script(card, """
        context(); ms = load(); s = stream(); ok(cu.cuStreamDestroy_v2(s))
        assert launch(ms, s) == BAD_HANDLE and cu.cuStreamSynchronize(s) == BAD_HANDLE
        assert cu.cuStreamDestroy_v2(s) == BAD_HANDLE
    """)
    assert sim_cuda.misuse(card) == {"use after free": 3}


def test_handle_of_another_process_is_an_error_and_counted(card):
    other = start(card, "context(); say(stream().value); wait()")
    handle = other.stdout.readline().strip()
    script(card, "context(); assert cu.cuStreamSynchronize(c_void_p(int(sys.argv[2]))) == BAD_HANDLE", handle)
    finish(other)
    assert sim_cuda.misuse(card) == {"handle of another process": 1}


def test_nothing_is_repeated_in_do_nothing_mode(card):
    script(card, """
        context(); ms50 = load(b"ms50"); before = time.monotonic()
        for i in range(100): ok(launch(ms50))
        ok(cu.cuCtxSynchronize()); ok(cu.cuStreamSynchronize(None))
        made = [alloc(size).value for i in range(1000) for size in (4096, 5 * MiB)]
        assert len(set(made)) == 2000
        assert len({small // (2 * MiB) for small in made[::2]}) <= 3    # 512 of them in a block
        ok(cu.cuMemFree_v2(c_uint64(made[7]))); ok(cu.cuMemFree_v2(c_uint64(made[6])))
        assert alloc(4000).value == made[6] and alloc(5 * MiB).value == made[7]
        assert alloc(4096).value not in made
        assert time.monotonic() - before < 4    # the kernels would take 5 s
    """, RATION_SIM_DO_NOTHING="1")
    assert "No process" in run(RATION_SIM, "status", card.path).stdout


# Streams

def test_function_of_the_host_runs_in_the_streams_order(card):
    script(card, """
        context(); long, f = load(b"ms500"), load(b"ms5"); s = stream(); seen = []
        HOST = CFUNCTYPE(None, c_void_p)
        call = HOST(lambda data: seen.append((data, threading.get_ident() != main)))
        main = threading.get_ident(); before = time.monotonic()
        ok(launch(long, s)); ok(cu.cuLaunchHostFunc(s, call, c_void_p(7))); ok(launch(f, s)); ok(cu.cuLaunchHostFunc(s, call, c_void_p(8)))
        assert seen == []    # half a second is left for that, since another process may delay this one
        ok(cu.cuStreamSynchronize(s))
        assert seen == [(7, True), (8, True)], seen
        assert time.monotonic() - before >= 0.505
        back = CFUNCTYPE(None, c_void_p, c_int, c_void_p)(lambda st, r, d: seen.append((st, r, d)))
        ok(cu.cuStreamAddCallback(s, back, c_void_p(9), 0)); ok(cu.cuStreamSynchronize(s))
        assert seen[2] == (s.value, 0, 9), seen
    """)


def test_stream_waits_for_an_event_of_another_card(two_cards):
    script(two_cards, """
        a = context(0); fa = load(b"ms50"); ea = event(); ok(launch(fa)); ok(cu.cuEventRecord(ea, None))
        b = context(1); fb = load(); s = stream(); eb = event()
        ok(cu.cuStreamWaitEvent(s, ea, 0)); ok(launch(fb, s)); ok(cu.cuEventRecord(eb, s))
        ok(cu.cuEventSynchronize(eb)); ok(cu.cuEventQuery(ea))
    """)


def test_legacy_stream_waits_for_blocking_streams(card):
    script(card, """
        context(); f = load(b"ms50"); s = stream(0); p = alloc(100); e = event(); ok(launch(f, s)); ok(cu.cuEventRecord(e, s))
        ok(cu.cuMemcpyDtoH_v2(create_string_buffer(100), p, c_size_t(100))); ok(cu.cuEventQuery(e))
    """)


def test_per_thread_stream_is_the_threads_own(card):
    script(card, """
        c = context(); ms500 = load(b"ms500"); ok(cu.cuLaunchKernel_ptsz(ms500, 1, 1, 1, 1, 1, 1, 0, None, None, None))
        assert cu.cuStreamQuery(c_void_p(2)) == NOT_READY
        seen = []
        def other():
            ok(cu.cuCtxSetCurrent(c)); seen.append(cu.cuStreamQuery_ptsz(None)); seen.append(cu.cuStreamQuery(c_void_p(2)))
        t = threading.Thread(target=other); t.start(); t.join()
        assert seen == [OK, OK], seen
    """)


def test_copies_arrive_where_they_should(card):
    script(card, """
        context(); p, q = alloc(3 * MiB), alloc(3 * MiB)
        data = os.urandom(3 * MiB); back = create_string_buffer(3 * MiB)
        ok(cu.cuMemcpyHtoD_v2(p, data, c_size_t(3 * MiB)))
        ok(cu.cuMemcpyDtoDAsync_v2(q, p, c_size_t(3 * MiB), None))
        ok(cu.cuMemcpyDtoH_v2(back, q, c_size_t(3 * MiB)))
        assert back.raw == data
        ok(cu.cuMemsetD32_v2(c_uint64(q.value + 4096), 0x01020304, c_size_t(1000)))
        ok(cu.cuMemcpy(c_uint64(addressof(back)), q, c_size_t(3 * MiB)))
        assert back.raw == data[:4096] + b"\\x04\\x03\\x02\\x01" * 1000 + data[8096:]
        assert cu.cuMemcpyHtoD_v2(p, data, c_size_t(3 * MiB + 1)) == INVALID
        ok(cu.cuMemFree_v2(q))
        assert cu.cuMemcpyDtoH_v2(back, q, c_size_t(1)) == INVALID
    """)


def test_the_processor_cannot_read_device_memory(card):
    script(card, "context(); p = alloc(100); string_at(p.value, 1)", status=-11)


def test_copies_of_boxes_and_arrays(card):
    script(card, """
        class Copy(Structure):
            _fields_ = [(n, t) for side in ("src", "dst") for n, t in
                        ((side + "X", c_size_t), (side + "Y", c_size_t), (side + "Type", c_uint), (side + "Host", c_void_p),
                         (side + "Device", c_uint64), (side + "Array", c_void_p), (side + "Pitch", c_size_t))] + [
                        ("Width", c_size_t), ("Height", c_size_t)]
        class Array(Structure):
            _fields_ = [("Width", c_size_t), ("Height", c_size_t), ("Format", c_uint), ("Channels", c_uint)]
        context(); before = free_bytes()
        array = out("cuArrayCreate_v2", c_void_p, byref(Array(1000, 3000, 0x20, 1)))
        assert before - free_bytes() == 12 * MiB    # 12,000,000 bytes are 11.4 MiB
        data = os.urandom(40 * 30); back = create_string_buffer(40 * 30)
        ok(cu.cuMemcpy2D_v2(byref(Copy(srcType=1, srcHost=cast(data, c_void_p).value, srcPitch=40,
                                       dstType=3, dstArray=array, dstX=400, dstY=7, Width=40, Height=30))))
        ok(cu.cuMemcpy2D_v2(byref(Copy(srcType=3, srcArray=array, srcX=400, srcY=7,
                                       dstType=1, dstHost=addressof(back), dstPitch=40, Width=40, Height=30))))
        assert back.raw == data
        assert cu.cuMemcpy2D_v2(byref(Copy(srcType=3, srcArray=array, srcX=3990, srcY=7,
                                dstType=1, dstHost=addressof(back), dstPitch=40, Width=40, Height=30))) == INVALID
        ok(cu.cuArrayDestroy(array)); assert free_bytes() == before
        assert cu.cuArrayDestroy(array) == BAD_HANDLE
        assert cu.cuArrayCreate_v2(byref(c_void_p()), byref(Array(131073, 0, 0x20, 1))) == INVALID
    """)


def test_mipmapped_arrays_and_volumes_are_charged(card):
    script(card, """
        class Array(Structure):
            _fields_ = [("Width", c_size_t), ("Height", c_size_t), ("Depth", c_size_t), ("Format", c_uint), ("Channels", c_uint), ("Flags", c_uint)]
        context(); before = free_bytes()
        volume = out("cuArray3DCreate_v2", c_void_p, byref(Array(256, 256, 256, 0x20, 1, 0)))
        assert before - free_bytes() == 64 * MiB
        ok(cu.cuArrayDestroy(volume))
        mipmap = out("cuMipmappedArrayCreate", c_void_p, byref(Array(2048, 2048, 0, 0x20, 1, 0)), 3)
        assert before - free_bytes() == (16 + 4 + 2) * MiB    # the third level's 1 MiB shares a block
        level = out("cuMipmappedArrayGetLevel", c_void_p, mipmap, 2)
        assert cu.cuArrayDestroy(level) == BAD_HANDLE
        ok(cu.cuMipmappedArrayDestroy(mipmap)); assert free_bytes() == before
        sparse = out("cuArray3DCreate_v2", c_void_p, byref(Array(256, 256, 256, 0x20, 1, 0x40)))
        assert free_bytes() == before
    """)


# Modules

def test_module_takes_memory_and_its_names_are_found(card):
    script(card, """
        context(); before = free_bytes()
        m = out("cuModuleLoadData", c_void_p, b'{"rationSimModule": 1, "memoryMiB": 5, "functions": {"f": {"us": 1}}, "globals": {"g": 5000}}')
        assert before - free_bytes() == 6 * MiB
        assert cu.cuModuleGetFunction(byref(c_void_p()), m, b"g") == NOT_FOUND
        p, n = c_uint64(), c_size_t(); ok(cu.cuModuleGetGlobal_v2(byref(p), byref(n), m, b"g")); assert n.value == 5000
        ok(cu.cuMemsetD8_v2(p, 1, c_size_t(5000)))
        assert cu.cuMemFree_v2(p) == INVALID
        f = out("cuModuleGetFunction", c_void_p, m, b"f"); ok(launch(f))
        ok(cu.cuModuleUnload(m)); assert launch(f) == BAD_HANDLE and cu.cuModuleUnload(m) == BAD_HANDLE
        assert free_bytes() == before
    """)


@pytest.mark.parametrize("image", [b"", b"hello", b"{}x", b'{"functions": {"f": 5}}', b'{"functions": {"f": {"us": -1}}}',
                                   b'{"functions": {"f": {"us": 1}', b'{"nothing": 1}', b"\x7fELF" + b"\0" * 100])
def test_image_that_is_none_is_refused(card, image):
    script(card, "context(); assert cu.cuModuleLoadData(byref(c_void_p()), bytes.fromhex(sys.argv[2]) + bytes(8)) == 200", image.hex())


def test_names_in_ptx_are_found(card):
    script(card, """
        context()
        f = load(b"_Z3addPf", b".version 8.0\\n.target sm_70\\n.visible .entry _Z3addPf(\\n.param .u64 p\\n)\\n{ ret; }\\n")
        ok(launch(f)); ok(cu.cuCtxSynchronize())
    """)


def test_library_is_loaded_into_each_context_that_uses_it(card):
    script(card, """
        lib = out("cuLibraryLoadData", c_void_p, MODULE, None, None, 0, None, None, 0)
        k = out("cuLibraryGetKernel", c_void_p, lib, b"ms")
        a = context(); ok(launch(k)); fa = out("cuKernelGetFunction", c_void_p, k)
        b = context(); ok(launch(k)); fb = out("cuKernelGetFunction", c_void_p, k)
        assert fa.value != fb.value and launch(fa) == BAD_HANDLE
        ok(launch(fb)); ok(cu.cuCtxSynchronize()); ok(cu.cuLibraryUnload(lib))
        assert launch(k) == BAD_HANDLE and launch(fb) == BAD_HANDLE
    """)


# Graphs

def test_captured_work_is_done_at_each_launch(card):
    script(card, """
        context(); ms5 = load(b"ms5"); s, t = stream(), stream(); e, f = event(), event()
        ok(cu.cuStreamBeginCapture_v2(s, 0))
        status = c_int(); ok(cu.cuStreamIsCapturing(s, byref(status))); assert status.value == 1
        before = time.monotonic()
        for i in range(4): ok(launch(ms5, s))
        ok(cu.cuEventRecord(e, s)); ok(cu.cuStreamWaitEvent(t, e, 0)); ok(launch(ms5, t)); ok(cu.cuEventRecord(f, t)); ok(cu.cuStreamWaitEvent(s, f, 0))
        graph = c_void_p(); ok(cu.cuStreamEndCapture(s, byref(graph)))
        n = c_size_t(); ok(cu.cuGraphGetNodes(graph, None, byref(n))); assert n.value == 5
        ok(cu.cuGraphGetRootNodes(graph, None, byref(n))); assert n.value == 1
        ok(cu.cuGraphGetEdges(graph, None, None, byref(n))); assert n.value == 4
        assert time.monotonic() - before < 2
        run = out("cuGraphInstantiateWithFlags", c_void_p, graph, c_uint64(0))
        times = []
        for i in range(5):
            a, b = event(), event(); ok(cu.cuEventRecord(a, s))
            ok(cu.cuGraphLaunch(run, s)); ok(cu.cuEventRecord(b, s)); ok(cu.cuStreamSynchronize(s))
            times.append(between(a, b))
        assert 25 <= min(times) < 35, times
        ok(cu.cuGraphExecDestroy(run)); ok(cu.cuGraphDestroy(graph))
        assert cu.cuGraphLaunch(run, s) == BAD_HANDLE
    """)


def test_capture_that_is_disturbed_is_void(card):
    script(card, """
        context(); ms = load(); s, t = stream(), stream(); e = event(); graph = c_void_p()
        def broken(action, answer, end=901):
            ok(cu.cuStreamBeginCapture_v2(s, 0)); ok(launch(ms, s))
            assert action() == answer, action
            assert cu.cuStreamEndCapture(s, byref(graph)) == end and not graph.value
            ok(launch(ms, s)); ok(cu.cuStreamSynchronize(s))
        broken(lambda: cu.cuStreamSynchronize(s), 900)
        broken(lambda: cu.cuCtxSynchronize(), 900)
        broken(lambda: try_alloc(5), 900)
        ok(cu.cuEventRecord(e, t))
        broken(lambda: cu.cuStreamWaitEvent(s, e, 0), 905)
        def fork():
            ok(cu.cuEventRecord(e, s)); ok(cu.cuStreamWaitEvent(t, e, 0)); return launch(ms, t)
        broken(fork, 0, 904)
        assert cu.cuStreamEndCapture(s, byref(graph)) == 401
        assert cu.cuStreamBeginCapture_v2(None, 0) == 900
    """)


def test_graph_is_built_sorted_updated_and_refused_in_a_circle(card):
    script(card, """
        class Kernel(Structure):
            _fields_ = [("func", c_void_p)] + [(n, c_uint) for n in "gx gy gz bx by bz shared".split()] + [("params", c_void_p), ("extra", c_void_p), ("kern", c_void_p), ("ctx", c_void_p)]
        def nodes(*n): return (c_void_p * len(n))(*n)
        context(); ms, ms50 = load(), load(b"ms50"); s = stream()
        def add(graph, function, *deps):
            node = c_void_p()
            ok(cu.cuGraphAddKernelNode_v2(byref(node), graph, nodes(*deps), c_size_t(len(deps)), byref(Kernel(function, 1, 1, 1, 1, 1, 1))))
            return node.value
        def once(run):
            a, b = event(), event(); ok(cu.cuEventRecord(a, s))
            ok(cu.cuGraphLaunch(run, s)); ok(cu.cuEventRecord(b, s)); ok(cu.cuStreamSynchronize(s)); return between(a, b) / 1000
        def timed(run): return min(once(run) for _ in range(5))    # another process may delay one
        g = out("cuGraphCreate", c_void_p, 0); a = add(g, ms); b = add(g, ms, a); c = add(g, ms)
        ok(cu.cuGraphAddDependencies(g, nodes(c), nodes(a), c_size_t(1)))
        run = out("cuGraphInstantiateWithFlags", c_void_p, g, c_uint64(0))
        assert timed(run) < 0.03
        ok(cu.cuGraphExecKernelNodeSetParams_v2(run, c_void_p(b), byref(Kernel(ms50, 1, 1, 1, 1, 1, 1))))
        assert timed(run) >= 0.052
        h = out("cuGraphClone", c_void_p, g); result = create_string_buffer(24)
        ok(cu.cuGraphExecUpdate_v2(run, h, result)); assert timed(run) < 0.03
        add(h, ms); assert cu.cuGraphExecUpdate_v2(run, h, result) == 910 and result.raw[0] == 2
        ok(cu.cuGraphAddDependencies(g, nodes(b), nodes(c), c_size_t(1)))
        assert cu.cuGraphInstantiateWithFlags(byref(c_void_p()), g, c_uint64(0)) == INVALID
        ok(cu.cuGraphNodeSetEnabled(run, c_void_p(b), 0)); ok(cu.cuGraphDestroy(g))
        assert cu.cuGraphDestroy(g) == BAD_HANDLE and timed(run) < 0.03
    """)


def test_free_waits_for_the_contexts_work(card):
    script(card, """
        context(); f = load(b"ms50"); p = alloc(5); before = time.monotonic(); ok(launch(f)); ok(cu.cuMemFree_v2(p))
        assert time.monotonic() - before >= 0.05
    """)


# Pools

def test_pool_reserves_chunks_and_gives_back_at_a_synchronisation(card):
    script(card, """
        context(); s = stream(); before = free_bytes(); pool = out("cuDeviceGetDefaultMemPool", c_void_p, 0)
        def attribute(n):
            value = c_uint64(); ok(cu.cuMemPoolGetAttribute(pool, n, byref(value))); return value.value
        p = out("cuMemAllocAsync", c_uint64, c_size_t(1000), s)
        assert before - free_bytes() == 32 * MiB and attribute(5) == 32 * MiB and attribute(7) == 1000
        q = out("cuMemAllocAsync", c_uint64, c_size_t(40 * MiB + 1), s)
        assert before - free_bytes() == 74 * MiB
        ok(cu.cuMemFreeAsync(p, s)); ok(cu.cuMemFreeAsync(q, s))
        assert attribute(7) == 0 and attribute(5) == 74 * MiB
        ok(cu.cuStreamSynchronize(s)); assert free_bytes() == before and attribute(6) == 74 * MiB
        ok(cu.cuMemPoolSetAttribute(pool, 4, byref(c_uint64(1 << 40))))
        p = out("cuMemAllocAsync", c_uint64, c_size_t(1000), s); ok(cu.cuMemFreeAsync(p, s)); ok(cu.cuCtxSynchronize())
        assert before - free_bytes() == 32 * MiB
        ok(cu.cuMemPoolTrimTo(pool, c_size_t(0))); assert free_bytes() == before
        assert cu.cuMemFreeAsync(p, s) == INVALID and cu.cuMemPoolDestroy(pool) == INVALID
        p = out("cuMemAllocAsync_ptsz", c_uint64, c_size_t(1000), None); ok(cu.cuMemFree_v2(p))
    """)
    assert sim_cuda.misuse(card) == {"double free": 1}


def test_own_pool_keeps_to_its_maximum(card):
    script(card, """
        class Props(Structure):
            _fields_ = [("type", c_int), ("handles", c_int), ("where", c_int), ("id", c_int), ("security", c_void_p), ("max", c_size_t), ("rest", c_char * 56)]
        context(); before = free_bytes()
        pool = out("cuMemPoolCreate", c_void_p, byref(Props(1, 0, 1, 0, None, 40 * MiB)))
        assert free_bytes() == before
        p = out("cuMemAllocFromPoolAsync", c_uint64, c_size_t(30 * MiB), pool, None)
        assert cu.cuMemAllocFromPoolAsync(byref(c_uint64()), c_size_t(30 * MiB), pool, None) == OOM
        ok(cu.cuMemPoolDestroy(pool)); assert before - free_bytes() == 32 * MiB
        ok(cu.cuMemFreeAsync(p, None)); assert free_bytes() == before
        assert cu.cuMemPoolCreate(byref(c_void_p()), byref(Props(1, 0, 1, 5, None, 0))) == BAD_DEVICE
    """)


def test_cooperative_launches_take_as_many_blocks_as_the_occupancy_says(card):
    script(card, """
        context()
        f, sms = load(b"ms"), out("cuDeviceGetAttribute", c_int, 16, 0).value
        def launch(blocks, threads, shared):
            return cu.cuLaunchCooperativeKernel(f, blocks, 1, 1, threads, 1, 1, shared, None, None)
        for threads, shared in ((1, 0), (33, 0), (64, 0), (256, 0), (768, 0), (1024, 0), (64, 40000), (1024, 49152)):
            n = out("cuOccupancyMaxActiveBlocksPerMultiprocessor", c_int, f, threads, c_size_t(shared)).value
            assert n > 0
            assert launch(n * sms, threads, shared) == OK, (threads, shared, n)
            assert launch(n * sms + 1, threads, shared) == 720, (threads, shared, n)
        grid, block = c_int(), c_int()
        ok(cu.cuOccupancyMaxPotentialBlockSize(byref(grid), byref(block), f, None, c_size_t(0), 33))
        assert launch(grid.value, block.value, 0) == OK
    """)
