"""The simulated libcuda.so.1 by ctypes: start, cards, contexts, linear memory.
These tests run on the driver itself (test_sim_cuda.py) and again through the shim (test_shim_transparent.py)."""
import pathlib

import pytest

import sim_cuda
from driver_tree import RATION_SIM, run
from sim_cuda import finish, script, start

SYMS = pathlib.Path(__file__).resolve().parents[2] / "src" / "cuda" / "libcuda.syms"


# Start

def test_every_symbol_of_the_driver_is_exported_and_only_those(card):
    found = run("nm", "-D", "--defined-only", card.path / "lib" / "libcuda.so.1").stdout.splitlines()
    assert sorted(line.split()[-1] for line in found) == [line.split()[0] for line in SYMS.read_text().splitlines()
                                                         if int(line.split()[2]) <= 13040]
    assert "libcuda.so.1" in run("readelf", "-d", card.path / "lib" / "libcuda.so.1").stdout


def test_nothing_but_libc_is_needed(card):
    needed = [line for line in run("readelf", "-d", card.path / "lib" / "libcuda.so.1").stdout.splitlines()
              if "NEEDED" in line and "asan" not in line and "ubsan" not in line]
    assert needed and all("libc.so" in line or "ld-linux" in line or "libm.so" in line for line in needed), needed


def test_before_init_only_version_errors_and_lookup_answer(card):
    script(card, """
        assert out("cuDriverGetVersion", c_int).value == 13040
        name = out_name = c_char_p()
        ok(cu.cuGetErrorName(2, byref(name)))
        assert name.value == b"CUDA_ERROR_OUT_OF_MEMORY"
        assert cu.cuGetErrorName(12345, byref(name)) == INVALID and name.value is None
        assert cu.cuDeviceGetCount(byref(c_int())) == UNINITIALIZED
        assert try_alloc(1) == UNINITIALIZED
        assert cu.cuTexRefCreate(None) == UNINITIALIZED
        ok(cu.cuInit(0))
        assert cu.cuInit(1) == INVALID
        assert cu.cuTexRefCreate(None) == NOT_SUPPORTED
    """, init=False)


def test_without_a_visible_card_there_is_no_device(card):
    (card.path / "dev" / "nvidia0").unlink()
    script(card, "assert cu.cuInit(0) == NO_DEVICE", init=False)


@pytest.mark.parametrize("list, names", [("1", "A100"), ("1,0", "A100 V100"), ("", ""), ("0,7,1", "V100"), ("-1", ""),
                                         ("0,0", ""), ("1,0,1", ""), ("1gpu, 0", "A100 V100"), ("GPU-", ""), ("x", "")])
def test_visible_devices_choose_and_order(two_cards, list, names):
    script(two_cards, """
        wanted = sys.argv[2].split()
        assert cu.cuInit(0) == (OK if wanted else NO_DEVICE)
        for i, name in enumerate(wanted):
            buffer = create_string_buffer(100)
            ok(cu.cuDeviceGetName(buffer, 100, i))
            assert name in buffer.value.decode(), buffer.value
    """, names, init=False, CUDA_VISIBLE_DEVICES=list)


def test_visible_devices_take_uuids_and_their_beginnings(two_cards):
    uuid = two_cards.uuids()[1]
    for name in (uuid, uuid[:12]):
        script(two_cards, """
            assert out("cuDeviceGetCount", c_int).value == 1
            assert out("cuDeviceTotalMem_v2", c_size_t, 0).value == 40960 * MiB
        """, CUDA_VISIBLE_DEVICES=name)


def test_identity_is_that_of_the_card(two_cards):
    uuid = two_cards.uuids()[1]
    script(two_cards, """
        data = create_string_buffer(16)
        ok(cu.cuDeviceGetUuid_v2(data, 1))
        assert data.raw.hex() == sys.argv[2][4:].replace("-", "")
        bus = create_string_buffer(20)
        ok(cu.cuDeviceGetPCIBusId(bus, 20, 1))
        assert bus.value == b"0000:00:0a.0"
        assert out("cuDeviceGetByPCIBusId", c_int, b"0000:00:0a.0").value == 1
        assert out("cuDeviceGetAttribute", c_int, 16, 1).value == 108    # multiprocessors of an A100
        assert out("cuDeviceGetAttribute", c_int, 75, 1).value == 8
        assert cu.cuDeviceGetAttribute(byref(c_int()), 100000, 1) == INVALID
        assert cu.cuDeviceGetName(bus, 20, 2) == BAD_DEVICE
    """, uuid)


def test_forked_child_is_refused_and_its_parent_goes_on(card):
    script(card, """
        context(); alloc(5 * MiB)
        child = os.fork()
        if child == 0:
            right = cu.cuInit(0) == UNINITIALIZED and try_alloc(1) == UNINITIALIZED
            os._exit(0 if right else 1)
        assert os.waitpid(child, 0)[1] == 0
        ok(try_alloc(1))
    """)


def test_child_of_a_process_that_never_initialised_can(card):
    script(card, """
        child = os.fork()
        if child == 0:
            ok(cu.cuInit(0)); context(); alloc(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """, init=False)


def test_memory_of_a_process_that_execs_is_given_back(card):
    script(card, """
        context(); alloc(1000 * MiB)
        os.execv(sys.executable, [sys.executable, "-c",
            "import ctypes, sys; cu = ctypes.CDLL(sys.argv[1]); assert cu.cuInit(0) == 0;"
            "c = ctypes.c_void_p(); assert cu.cuCtxCreate_v2(ctypes.byref(c), 0, 0) == 0;"
            "n = ctypes.c_size_t(); assert cu.cuMemGetInfo_v2(ctypes.byref(n), None) == 0;"
            "assert n.value == (16160 - 300) << 20, n.value >> 20", sys.argv[1]])
    """)


def test_no_function_crashes_without_arguments(card):
    """Every symbol, with and without a context, all arguments 0."""
    script(card, """
        for name in [row[0] for row in map(str.split, open(sys.argv[2])) if int(row[2]) <= 13040]:
            child = os.fork()
            if child == 0:
                signal.alarm(20); ok(cu.cuInit(0))
                getattr(cu, name)(*[c_uint64(0)] * 12)
                context(); getattr(cu, name)(*[c_uint64(0)] * 12)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, name
    """, SYMS, init=False)


def test_threads_work_side_by_side(card):
    script(card, """
        c = context(); before = free_bytes(); wrong = []
        f = out("cuModuleGetFunction", c_void_p, out("cuModuleLoadData", c_void_p, b'{"functions": {"f": {"us": 20}}}'), b"f")
        def work():
            try:
                ok(cu.cuCtxSetCurrent(c)); s = out("cuStreamCreate", c_void_p, 1)
                for i in range(200):
                    p, q = alloc(1000), out("cuMemAllocAsync", c_uint64, c_size_t(5000), s)
                    ok(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, None, None))
                    ok(cu.cuMemcpyHtoDAsync_v2(q, b"x" * 5000, c_size_t(5000), s))
                    ok(cu.cuMemFreeAsync(q, s)); ok(cu.cuStreamSynchronize(s)); ok(cu.cuMemFree_v2(p))
                ok(cu.cuStreamDestroy_v2(s))
            except AssertionError as error:
                wrong.append(error)
        threads = [threading.Thread(target=work) for i in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not wrong, wrong
        ok(cu.cuCtxSynchronize()); assert free_bytes() == before
    """)


# Contexts

def test_context_costs_what_the_card_says_and_gives_it_back(card):
    script(card, """
        first = context()
        assert free_bytes() == (16160 - 300) * MiB
        second = context()
        assert free_bytes() == (16160 - 600) * MiB
        alloc(100 * MiB)
        ok(cu.cuCtxDestroy_v2(second))
        assert out("cuCtxGetCurrent", c_void_p).value == first.value
        assert free_bytes() == (16160 - 300) * MiB
    """)


def test_context_that_does_not_fit_is_out_of_memory(card):
    script(card, """
        context(); alloc(15700 * MiB)
        assert cu.cuCtxCreate_v2(byref(c_void_p()), 0, 0) == OOM
        ok(try_alloc(100 * MiB))
    """)


def test_stack_of_contexts_is_the_threads_own(two_cards):
    script(two_cards, """
        a, b = context(0), context(1)
        assert out("cuCtxGetDevice", c_int).value == 1
        assert out("cuCtxPopCurrent_v2", c_void_p).value == b.value
        assert out("cuCtxGetDevice", c_int).value == 0
        seen = []
        def other():
            seen.append(out("cuCtxGetCurrent", c_void_p).value)
            seen.append(try_alloc(1))
            ok(cu.cuCtxSetCurrent(b))
            seen.append(out("cuCtxGetDevice", c_int).value)
        thread = threading.Thread(target=other); thread.start(); thread.join()
        assert seen == [None, BAD_CONTEXT, 1], seen
        assert out("cuCtxGetDevice", c_int).value == 0
        ok(cu.cuCtxPushCurrent_v2(b)); ok(cu.cuCtxSetCurrent(None))
        assert out("cuCtxGetCurrent", c_void_p).value == a.value
    """)


def test_context_destroyed_while_another_thread_uses_it_says_so(card):
    script(card, """
        a = context()
        ready, gone, seen = threading.Event(), threading.Event(), []
        def other():
            ok(cu.cuCtxSetCurrent(a)); ready.set(); gone.wait()
            seen.append(try_alloc(1))
        thread = threading.Thread(target=other); thread.start(); ready.wait()
        ok(cu.cuCtxDestroy_v2(a)); gone.set(); thread.join()
        assert seen == [DESTROYED], seen
    """)
    assert sim_cuda.misuse(card) == {"use after free": 1}


def test_primary_context_is_one_and_counted(card):
    script(card, """
        a = out("cuDevicePrimaryCtxRetain", c_void_p, 0)
        b = out("cuDevicePrimaryCtxRetain", c_void_p, 0)
        assert a.value == b.value
        ok(cu.cuCtxSetCurrent(a)); alloc(50 * MiB)
        assert free_bytes() == (16160 - 350) * MiB
        ok(cu.cuDevicePrimaryCtxRelease_v2(0))
        assert free_bytes() == (16160 - 350) * MiB
        ok(cu.cuDevicePrimaryCtxRelease_v2(0))
        assert cu.cuDevicePrimaryCtxRelease_v2(0) == BAD_CONTEXT
        assert try_alloc(1) == DESTROYED
        context()
        assert free_bytes() == (16160 - 300) * MiB
    """)


def test_bigger_stack_of_all_threads_takes_memory(card):
    """80 multiprocessors of 2048 threads; the default of 1 KiB is in what a context costs."""
    script(card, """
        context(); before = free_bytes()
        ok(cu.cuCtxSetLimit(0, c_size_t(5 * 1024)))
        assert before - free_bytes() == 80 * 2048 * 4 * 1024
        assert out("cuCtxGetLimit", c_size_t, 0).value == 5 * 1024
        ok(cu.cuCtxSetLimit(0, c_size_t(1024)))
        assert before == free_bytes()
        alloc(15800 * MiB)
        assert cu.cuCtxSetLimit(0, c_size_t(64 * 1024)) == OOM
    """)


# Linear memory

def test_small_allocations_share_a_block_and_large_ones_are_rounded(card):
    script(card, """
        context(); before = free_bytes()
        small = [alloc(1024) for i in range(2048)]
        assert before - free_bytes() == 2 * MiB
        alloc(1)
        assert before - free_bytes() == 4 * MiB
        large = alloc(2 * MiB + 1)
        assert before - free_bytes() == 8 * MiB
        for p in small: ok(cu.cuMemFree_v2(p))
        assert before - free_bytes() == 6 * MiB
        ok(cu.cuMemFree_v2(large))
        assert before - free_bytes() == 2 * MiB
    """)


def test_allocations_never_overlap_and_free_restores_everything(card):
    script(card, """
        import random
        context(); before = free_bytes(); choose = random.Random(5); live = {}
        for step in range(3000):
            if live and choose.random() < 0.45:
                p = choose.choice(list(live)); ok(cu.cuMemFree_v2(c_uint64(p))); del live[p]
            else:
                size = choose.choice([1, 511, 512, 513, 4096, 100000, MiB, MiB + 1, 3 * MiB])
                live[alloc(size).value] = size
        ranges = sorted(live.items())
        assert all(a + n <= b for (a, n), (b, _) in zip(ranges, ranges[1:]))
        for p in live: ok(cu.cuMemFree_v2(c_uint64(p)))
        assert free_bytes() == before
    """)


def test_over_the_card_is_out_of_memory_and_the_next_smaller_fits(card):
    script(card, """
        context(); left = free_bytes()
        assert try_alloc(left + 1) == OOM and free_bytes() == left
        assert try_alloc(1 << 63) == OOM and try_alloc((1 << 64) - 1) == OOM and try_alloc(0) == INVALID
        assert cu.cuMemAlloc_v2(None, c_size_t(5)) == INVALID
        p = alloc(left)
        assert free_bytes() == 0 and try_alloc(1) == OOM
        ok(cu.cuMemFree_v2(p)); ok(try_alloc(left))
    """)


def test_double_free_and_wild_free_are_errors_and_counted(card):
    script(card, """
        context(); a, b = alloc(100), alloc(5 * MiB)
        ok(cu.cuMemFree_v2(a)); ok(cu.cuMemFree_v2(b)); ok(cu.cuMemFree_v2(c_uint64(0)))
        assert cu.cuMemFree_v2(a) == INVALID and cu.cuMemFree_v2(b) == INVALID
        c = alloc(1000)
        assert cu.cuMemFree_v2(c_uint64(c.value + 512)) == INVALID
        assert cu.cuMemFree_v2(c_uint64(0x1234)) == INVALID
        ok(cu.cuMemFree_v2(c))
    """)
    assert sim_cuda.misuse(card) == {"double free": 2, "pointer to no memory": 2}


def test_memory_is_freed_from_another_thread_and_context(two_cards):
    script(two_cards, """
        a = context(0); p = alloc(10 * MiB); b = context(1)
        ok(cu.cuMemFree_v2(p))
        ok(cu.cuCtxSetCurrent(a))
        assert free_bytes() == (16160 - 300) * MiB
    """)


def test_pitch_is_what_is_charged(card):
    script(card, """
        context(); before = free_bytes()
        p, pitch = c_uint64(), c_size_t()
        ok(cu.cuMemAllocPitch_v2(byref(p), byref(pitch), c_size_t(1000), c_size_t(4096), 4))
        assert pitch.value == 1024 and before - free_bytes() == 4 * MiB
        assert cu.cuMemAllocPitch_v2(byref(p), byref(pitch), c_size_t(1000), c_size_t(4096), 5) == INVALID
        assert cu.cuMemAllocPitch_v2(byref(p), byref(pitch), c_size_t(1 << 40), c_size_t(1 << 40), 4) in (INVALID, OOM)
        ok(cu.cuMemFree_v2(p)); assert free_bytes() == before
    """)


def test_functions_of_before_cuda_3_2_give_pointers_of_32_bits(card):
    script(card, """
        context(); before = free_bytes()
        p = out("cuMemAlloc", c_uint32, c_uint(3 * MiB))
        assert 0 < p.value < 1 << 32 and before - free_bytes() == 4 * MiB
        ok(cu.cuMemFree(p))
        assert free_bytes() == before
        assert out("cuDeviceTotalMem", c_uint32, 0).value == (1 << 32) - 1
    """)


def test_address_range_is_what_was_asked_for(card):
    script(card, """
        context(); p = alloc(1000); base, size = c_uint64(), c_size_t()
        ok(cu.cuMemGetAddressRange_v2(byref(base), byref(size), c_uint64(p.value + 999)))
        assert (base.value, size.value) == (p.value, 1000)
        ok(cu.cuMemGetAddressRange_v2(None, None, p))
        assert cu.cuMemGetAddressRange_v2(byref(base), byref(size), c_uint64(p.value + 1000)) == NOT_FOUND
    """)


# All processes of the machine

def test_two_processes_see_one_card(card):
    holder = start(card, "context(); alloc(10000 * MiB); say('ready'); wait()")
    assert holder.stdout.readline() == "ready\n"
    script(card, """
        context()
        assert free_bytes() == (16160 - 10600) * MiB
        assert try_alloc(6000 * MiB) == OOM
        ok(try_alloc(5000 * MiB))
    """)
    assert "10300MiB" in run(RATION_SIM, "status", card.path).stdout
    assert "10300MiB" in card.smi().stdout
    finish(holder)
    assert "No process" in run(RATION_SIM, "status", card.path).stdout


def test_killed_process_holds_nothing(card):
    holder = start(card, "context(); alloc(10000 * MiB); say('ready'); wait()")
    assert holder.stdout.readline() == "ready\n"
    holder.kill()
    holder.communicate()
    script(card, "context(); assert free_bytes() == (16160 - 300) * MiB")


def test_two_that_want_most_of_the_card_never_both_get_it(card):
    """60 % each, 500 rounds: exactly one."""
    text = """
        context(0)
        wait()
        for i in range(500):
            p = c_uint64()
            r = cu.cuMemAlloc_v2(byref(p), c_size_t(9000 * MiB))
            say(r); wait()
            if r == OK: ok(cu.cuMemFree_v2(p))
            say("freed"); wait()
    """
    both = [start(card, text), start(card, text)]
    for i in range(500):
        for p in both:
            p.stdin.write("go\n")
            p.stdin.flush()
        assert sorted(p.stdout.readline() for p in both) == ["0\n", "2\n"], i
        for p in both:
            p.stdin.write("on\n")
            p.stdin.flush()
        assert [p.stdout.readline() for p in both] == ["freed\n"] * 2
    for p in both:
        p.stdin.write("end\n")
        p.stdin.close()
        p.stdin = None
        finish(p)


# Lookup

def test_lookup_gives_the_version_that_was_asked_for(card):
    script(card, """
        def address(name): return cast(getattr(cu, name), c_void_p).value
        def look(name, version, flags=0):
            f, status = c_void_p(), c_int(-1)
            ok(cu.cuGetProcAddress_v2(name, byref(f), version, c_uint64(flags), byref(status)))
            return f.value, status.value
        assert look(b"cuMemAlloc", 2000) == (address("cuMemAlloc"), 0)
        assert look(b"cuMemAlloc", 12000) == (address("cuMemAlloc_v2"), 0)
        assert look(b"cuCtxCreate", 11040) == (address("cuCtxCreate_v3"), 0)
        assert look(b"cuGetProcAddress", 11030) == (address("cuGetProcAddress"), 0)
        assert look(b"cuGetProcAddress", 12000) == (address("cuGetProcAddress_v2"), 0)
        assert look(b"cuMemAllocAsync", 11000) == (None, 2)
        assert look(b"cuMemAllocNever", 12000) == (None, 1)
        assert look(b"cuLaunchKernel", 12000, 1) == (address("cuLaunchKernel"), 0)
        assert look(b"cuLaunchKernel", 12000, 2) == (address("cuLaunchKernel_ptsz"), 0)
        assert look(b"cuMemcpyDtoH", 12000, 2) == (address("cuMemcpyDtoH_v2_ptds"), 0)
        assert look(b"cuMemAlloc", 12000, 2) == (address("cuMemAlloc_v2"), 0)
        f = c_void_p()
        assert cu.cuGetProcAddress(b"cuNever", byref(f), 12000, c_uint64(0)) == NOT_FOUND and f.value is None
        f.value = 7    # what is not found leaves the pointer as it was
        assert cu.cuGetProcAddress(b"cuNever", byref(f), 12000, c_uint64(0)) == NOT_FOUND and f.value == 7
        ok(cu.cuGetProcAddress(b"cuInit", byref(f), 99000, c_uint64(0)))
        assert f.value == address("cuInit")
        assert cu.cuGetProcAddress(b"cuInit", None, 12000, c_uint64(0)) == INVALID
        assert cu.cuGetProcAddress(None, byref(f), 12000, c_uint64(0)) == INVALID
        ok(cu.cuGetProcAddress(b"cuInit", byref(f), 12000, c_uint64(3)))
        assert cu.cuGetProcAddress(b"cuInit", byref(f), 12000, c_uint64(4)) == INVALID
    """, init=False)


def test_driver_of_11_7_does_not_know_newer_functions(card):
    card.up("--driver-version", "515.105.01")
    script(card, """
        f = c_void_p()
        ok(cu.cuGetProcAddress(b"cuCtxCreate", byref(f), 11070, c_uint64(0)))
        assert f.value == cast(cu.cuCtxCreate_v3, c_void_p).value
        assert cu.cuGetProcAddress(b"cuLibraryLoadData", byref(f), 11070, c_uint64(0)) == NOT_FOUND
    """)


@pytest.mark.parametrize("after", ["nothing", "others in their places"])
def test_a_program_that_closes_its_descriptors_still_holds_its_memory(card, after):
    """As daemons do. Neither is its memory free for others, nor is the card without a limit for itself."""
    holder = start(card, """
        context()
        alloc(8000 * MiB)
        os.closerange(3, 1000)
        if sys.argv[2] != "nothing":
            files = [os.open("/dev/null", os.O_RDWR) for _ in range(20)]
        say("closed")
        wait()
        assert free_bytes() < 8000 * MiB, free_bytes()
        assert try_alloc(8000 * MiB) == OOM
        again = alloc(1000 * MiB)
        say("asked")
        wait()
        ok(cu.cuMemFree_v2(again))
        say("freed")
        wait()
    """, after)
    assert holder.stdout.readline() == "closed\n", holder.communicate()[1]
    look = "context(); say(free_bytes() // MiB)"
    left = 16160 - 8000 - 300 - 300    # two contexts
    assert int(script(card, look)) == left
    assert str(holder.pid) in card.smi().stdout
    for answer, more in (("asked", 1000), ("freed", 0)):
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == answer + "\n", holder.communicate()[1]
        assert int(script(card, look)) == left - more
    holder.kill()
    holder.wait()
    assert int(script(card, look)) == 16160 - 300
