"""Linear memory under a limit: what the simulated driver takes is what the shim charges, to the byte."""
import grants
from shim_memory import MIB
from shim_programs import needs_no_grant_here
from sim_cuda import finish

pytestmark = needs_no_grant_here


def test_the_contracts_example_can_be_used_to_its_last_block_and_not_further(granted):
    granted.script("""
        assert info(cu) == (2154 * MiB, 2154 * MiB)
        p = alloc(2152 * MiB)
        same(2152 * MiB)
        assert try_alloc(2 * MiB + 1) == OOM
        q = alloc(2 * MiB)
        same(2154 * MiB)
        assert try_alloc(1) == OOM
        free(q)
        alloc(1)
        same(2154 * MiB)
    """)


def test_over_the_limit_is_out_of_memory_and_the_process_goes_on(granted):
    granted.script("""
        for size in (2155 * MiB, 16 * GiB, 1 << 62, (1 << 64) - 1):
            assert try_alloc(size) == OOM
            same(0)
        p = alloc(1000 * MiB)
        assert try_alloc(1200 * MiB) == OOM
        free(p)
        alloc(1200 * MiB)
        same(1200 * MiB)
    """)
    assert granted.misuse() == {}


def test_a_limit_that_changes_is_seen_at_the_next_call(granted):
    process = granted.start("""
        ml = CDLL(sys.argv[1].replace("libcuda.so.1", "libnvidia-ml.so.1"))
        assert ml.nvmlInit_v2() == 0
        handle = c_void_p()
        assert ml.nvmlDeviceGetHandleByIndex_v2(0, byref(handle)) == 0

        def seen():
            memory, total = (c_ulonglong * 3)(), c_size_t()
            assert ml.nvmlDeviceGetMemoryInfo(handle, memory) == 0
            ok(cu.cuDeviceTotalMem_v2(byref(total), 0))
            left, whole = info(cu)
            assert whole == total.value == memory[0] and left == memory[1] and whole - left == memory[2]
            return left // MiB, whole // MiB

        def changed():
            print(flush=True)
            sys.stdin.readline()

        p = alloc(2000 * MiB)
        assert seen() == (154, 2154)
        changed()
        assert seen() == (1231, 3231)
        q = alloc(1230 * MiB)
        assert seen() == (1, 3231)
        changed()
        assert seen() == (0, 1077)
        assert try_alloc(2 * MiB) == OOM
        free(p)
        assert seen() == (0, 1077)
        assert try_alloc(2 * MiB) == OOM
        free(q)
        assert seen() == (1077, 1077)
        alloc(1076 * MiB)
        assert try_alloc(2 * MiB) == OOM
    """)
    for limit in 3231, 1077:
        process.stdout.readline()
        grants.set_limit(granted.grant, 0, limit * MIB)
        process.stdin.write("\n")
        process.stdin.flush()
    finish(process)


def test_ten_thousand_small_allocations_cost_what_the_driver_takes(granted):
    granted.script("""
        pointers = []
        for i in range(10000):
            pointers.append(alloc(1 * KiB))
            if i % 500 == 0:
                same()
        same(10 * MiB)
        for i in range(0, 10000, 2):
            free(pointers[i])
        same()
        pointers = pointers[1::2] + [alloc(512) for i in range(3000)]
        same(10 * MiB)
        for p in pointers:
            free(p)
        same(0)
    """)


def test_sizes_around_powers_of_two(granted):
    granted.script("""
        pointers = []
        for k in range(29):
            for size in ((1 << k) - 1, 1 << k, (1 << k) + 1):
                if size:
                    pointers.append(alloc(size))
                    same()
        for p in pointers[::3] + pointers[1::3] + pointers[2::3]:
            free(p)
            same()
        same(0)
    """)


def test_a_history_of_random_sizes_stays_exact(granted):
    granted.script("""
        import random
        random.seed(7)
        live = []
        for i in range(3000):
            if live and random.random() < .5:
                free(live.pop(random.randrange(len(live))))
            else:
                size = int(2 ** random.uniform(0, 26))
                p = c_uint64()
                if cu.cuMemAlloc_v2(byref(p), c_size_t(size)) == OK:
                    live.append(p)
            if i % 10 == 0:
                same()
        for p in live:
            free(p)
        same(0)
    """)


def test_at_the_limit_a_small_allocation_still_finds_room_in_its_block(granted):
    granted.script("""
        small = alloc(1 * KiB)
        alloc(2152 * MiB)
        same(2154 * MiB)
        more = [alloc(100 * KiB) for i in range(20)]
        same(2154 * MiB)
        assert try_alloc(1 * MiB) == OOM
        free(more[0])
        alloc(100 * KiB)
        same(2154 * MiB)
    """)


def test_room_in_pieces_is_no_room(granted):
    """Half of the block is free, but no piece of it is large enough: a new block is needed, and there is none."""
    granted.script("""
        pieces = [alloc(64 * KiB) for i in range(32)]
        alloc(2152 * MiB)
        same(2154 * MiB)
        for p in pieces[::2]:
            free(p)
        assert try_alloc(128 * KiB) == OOM
        same(2154 * MiB)
        alloc(64 * KiB)
        same(2154 * MiB)
    """)
    assert granted.misuse() == {}


def test_pitch_is_charged_as_the_driver_chose_it(granted):
    granted.script("""
        p, pitch = c_uint64(), c_size_t()
        ok(cu.cuMemAllocPitch_v2(byref(p), byref(pitch), c_size_t(1025), c_size_t(10000), 4))
        assert pitch.value == 1536
        same(16 * MiB)
        small = c_uint64()
        ok(cu.cuMemAllocPitch_v2(byref(small), byref(pitch), c_size_t(100), c_size_t(10), 4))
        same(18 * MiB)
        assert cu.cuMemAllocPitch_v2(byref(c_uint64()), byref(pitch), c_size_t(1 << 20), c_size_t(2155), 4) == OOM
        assert cu.cuMemAllocPitch_v2(byref(c_uint64()), byref(pitch), c_size_t(1 << 60), c_size_t(1 << 60), 4) != OK
        same(18 * MiB)
        free(p), free(small)
        same(0)
    """)


def test_managed_memory_is_charged_in_full(granted):
    granted.script("""
        p = c_uint64()
        ok(cu.cuMemAllocManaged(byref(p), c_size_t(1000 * MiB), 1))
        same(1000 * MiB)
        assert cu.cuMemAllocManaged(byref(c_uint64()), c_size_t(1155 * MiB), 1) == OOM
        small = c_uint64()
        ok(cu.cuMemAllocManaged(byref(small), c_size_t(100 * KiB), 1))
        same(1002 * MiB)
        assert cu.cuMemAllocManaged(None, c_size_t(MiB), 1) == INVALID
        assert cu.cuMemAllocManaged(byref(c_uint64()), c_size_t(MiB), 77) == INVALID
        free(p), free(small)
        same(0)
    """)


def test_memory_of_the_machine_is_not_charged(granted):
    granted.script("""
        p = c_void_p()
        ok(cu.cuMemHostAlloc(byref(p), c_size_t(64 * MiB), 0))
        same(0)
        ok(cu.cuMemFreeHost(p))
        same(0)
    """)


def test_functions_of_before_cuda_3_2_are_charged_too(granted):
    granted.script("""
        p, pitch = c_uint32(), c_uint32()
        ok(cu.cuMemAlloc(byref(p), 100 * MiB))
        same(100 * MiB)
        assert cu.cuMemAlloc(byref(c_uint32()), 2100 * MiB) == OOM
        ok(cu.cuMemFree(p))
        ok(cu.cuMemAllocPitch(byref(p), byref(pitch), 1025, 10000, 4))
        same(16 * MiB)
        ok(cu.cuMemFree(p))
        same(0)
    """)


def test_bad_arguments_get_the_drivers_answer_and_cost_nothing(granted):
    granted.script("""
        assert cu.cuMemAlloc_v2(None, c_size_t(MiB)) == INVALID
        assert try_alloc(0) == INVALID
        assert cu.cuMemAllocPitch_v2(byref(c_uint64()), None, c_size_t(4), c_size_t(4), 4) == INVALID
        assert cu.cuMemFree_v2(c_uint64(12345)) == INVALID
        ok(cu.cuMemFree_v2(c_uint64(0)))
        ok(cu.cuMemGetInfo_v2(None, None))
        same(0)
        ok(cu.cuCtxSetCurrent(None))
        assert try_alloc(MiB) == BAD_CONTEXT
        ok(cu.cuCtxSetCurrent(ctx))
        same(0)
    """)


def test_a_double_free_is_refunded_once(granted):
    granted.script("""
        p, q = alloc(100 * MiB), alloc(50 * MiB)
        free(p)
        assert cu.cuMemFree_v2(p) == INVALID
        same(50 * MiB)
    """)


def test_memory_is_freed_on_another_thread_in_another_context_and_on_another_device(granted):
    granted.script("""
        p = alloc(100 * MiB)
        same(100 * MiB)
        def work():
            ok(cu.cuCtxSetCurrent(context(1)))
            assert info(cu) == (1024 * MiB, 1024 * MiB)
            free(p)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        same(0)
    """)


def test_each_card_has_its_own_limit(granted):
    granted.script("""
        alloc(2000 * MiB)
        other = context(1)
        assert try_alloc(1025 * MiB) == OOM
        alloc(1024 * MiB)
        assert try_alloc(1) == OOM
        ok(cu.cuCtxSetCurrent(ctx))
        alloc(154 * MiB)
        assert try_alloc(1) == OOM
        """)


def test_a_destroyed_context_gives_back_all_its_memory_and_no_other(granted):
    granted.script("""
        keep = alloc(100 * MiB)
        small = alloc(1 * KiB)
        second = context()
        lost = [alloc(7 * MiB) for i in range(20)] + [alloc(100 * KiB) for i in range(50)]
        assert charged() == 102 * MiB + 20 * 8 * MiB + 6 * MiB
        ok(cu.cuCtxDestroy_v2(second))
        ok(cu.cuCtxSetCurrent(ctx))
        same(102 * MiB)
        # Their addresses are given out again: to be charged, and refunded once.
        again = [alloc(7 * MiB) for i in range(20)] + [alloc(100 * KiB) for i in range(50)]
        same()
        for p in again:
            free(p)
        same(102 * MiB)
    """)


def test_the_primary_context_gives_back_when_the_last_releases_it_or_on_reset(granted):
    granted.script("""
        primary = c_void_p()
        for end in ("cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2"):
            ok(cu.cuDevicePrimaryCtxRetain(byref(primary), 0))
            ok(cu.cuDevicePrimaryCtxRetain(byref(primary), 0))
            ok(cu.cuCtxSetCurrent(primary))
            alloc(100 * MiB)
            ok(cu.cuDevicePrimaryCtxRelease_v2(0))
            assert charged() == 100 * MiB
            ok(getattr(cu, end)(0))
            ok(cu.cuCtxSetCurrent(ctx))
            assert charged() == 0
    """)


def test_threads_allocate_and_free_and_the_sum_is_exact(granted):
    granted.script("""
        def work(n):
            ok(cu.cuCtxSetCurrent(ctx))
            for i in range(400):
                p, q = alloc((n + 1) * MiB), alloc(n * KiB + 1)
                free(p), free(q)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        same(0)
    """)


def test_processes_share_the_limit_and_a_killed_one_gives_all_back(granted):
    first = granted.start("alloc(1300 * MiB); say('has'); wait()")
    assert first.stdout.readline() == "has\n"
    assert granted.used() == 1300 * MIB
    granted.script("""
        assert info(cu)[0] == 854 * MiB
        assert try_alloc(1300 * MiB) == OOM
        alloc(854 * MiB)
    """)
    first.kill()
    first.wait()
    granted.script("""
        assert info(cu)[0] == 2154 * MiB
        alloc(2154 * MiB)
    """)


def test_the_next_allocation_finds_what_a_killed_neighbour_had_without_a_query(granted):
    first = granted.start("alloc(2000 * MiB); say('has'); wait()")
    assert first.stdout.readline() == "has\n"
    second = granted.start("assert try_alloc(2000 * MiB) == OOM; say('no'); wait(); alloc(2000 * MiB); say('yes')")
    assert second.stdout.readline() == "no\n"
    first.kill()
    first.wait()
    second.stdin.write("\n")
    second.stdin.flush()
    assert finish(second) == "yes\n"


def test_a_failure_of_the_driver_costs_nothing(granted):
    """The card itself is full: a neighbour without a limit has the rest."""
    granted.script("""
        import ctypes
        size = c_size_t(15000 * MiB)
        ok(real.cuMemAlloc_v2(byref(c_uint64()), size))
        before = charged()
        assert try_alloc(2000 * MiB) == OOM
        assert charged() == before == 0
        alloc(200 * MiB)
        assert charged() == 200 * MiB
    """)


def test_what_the_shim_never_saw_is_freed_by_the_driver(granted):
    granted.script("""
        p = c_uint64()
        ok(real.cuMemAlloc_v2(byref(p), c_size_t(100 * MiB)))
        free(p)
        same(0)
        # And at an address that was charged before.
        q = alloc(100 * MiB)
        free(q)
        ok(real.cuMemAlloc_v2(byref(p), c_size_t(100 * MiB)))
        free(p)
        same(0)
    """)


def test_a_forked_child_leaves_its_parents_charges_alone(granted):
    granted.script("""
        p = alloc(500 * MiB)
        pid = os.fork()
        if pid == 0:
            cu.cuMemFree_v2(p)
            cu.cuMemAlloc_v2(byref(c_uint64()), c_size_t(MiB))
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        same(500 * MiB)
        free(p)
        same(0)
    """)


def test_two_who_ask_60_percent_at_the_same_time_never_both_and_never_neither(granted):
    """Through the shim and the driver; 10,000 rounds of the protocol itself are in test_reservation.py."""
    code = """
        import mmap
        board = (c_uint32 * 8).from_buffer(mmap.mmap(os.open(os.environ["BOARD"], os.O_RDWR), 32))
        me, rounds, pages = int(os.environ["ME"]), 1000, c_uint64()
        ALLOC, FREE = cu.cuMemAlloc_v2, cu.cuMemFree_v2
        def meet(value):
            board[me] = value
            while board[1 - me] < value:
                os.sched_yield()
        for i in range(rounds):
            meet(3 * i + 1)
            got = ALLOC(byref(pages), c_size_t(1292 * MiB)) == OK
            board[2 + me] = got
            meet(3 * i + 2)
            assert board[2] + board[3] == 1, (i, board[2], board[3])
            meet(3 * i + 3)
            if got:
                free(pages)
    """
    board = granted.folder / "board"
    board.write_bytes(bytes(32))
    both = [granted.start(code, BOARD=str(board), ME=str(me)) for me in (0, 1)]
    for process in both:
        finish(process)
