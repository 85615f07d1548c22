"""Threads that wait for each other, or should not: for what others have paid, for launches that take long in the driver, for trims."""
import pytest

import sim_cuda
from shim_programs import needs_no_grant_here
from shim_scripts import BESIDE, GRAPHS, MANY, STOPS

pytestmark = needs_no_grant_here


@pytest.mark.parametrize("named", [False, True])
def test_what_another_thread_has_paid_for_a_pool_is_not_missing(granted, named):
    """Both fit. The first that asks the driver sees the memory of both in the pool, of which the other has paid its own part. When it
    has freed its memory, its next allocation waits until it is known whether the pool has that still."""
    before = granted.put_before_driver(STOPS)
    granted.script(GRAPHS, f"before = CDLL({str(before)!r})", BESIDE, f"""
        second, pool = out("cuStreamCreate", c_void_p, 1), new_pool() if {named} else None
        rest = alloc(1504 * MiB)
        def meanwhile():
            p = take(300 * MiB, second, pool)
            assert p != OOM
            give(p, second)
            ok(cu.cuStreamSynchronize(second))
            threading.Timer(0.2, before.cuTestDone).start()
            p = take(300 * MiB, second, pool)
            assert p != OOM and take(100 * MiB, second, pool) == OOM
        assert while_held(lambda: take(302 * MiB, stream, pool), meanwhile, size=302 * MiB) != OOM
        sync()
        same(2106 * MiB)
    """)


def test_what_another_thread_has_paid_for_a_launch_is_not_missing(granted):
    """A launch that is in the driver for long neither makes others be refused, nor wait."""
    before = granted.put_before_driver(STOPS)
    granted.script(GRAPHS, f"before = CDLL({str(before)!r})", BESIDE, """
        second = out("cuStreamCreate", c_void_p, 1)
        runs = [capture(freed=False) for i in range(2)] + [capture(freed=True)]
        rest = alloc(1204 * MiB)
        def meanwhile():
            begin = time.monotonic()
            for run in runs[1], runs[2], runs[2]:
                assert cu.cuGraphLaunch(run, second) == OK
                ok(cu.cuStreamSynchronize(second))
            assert time.monotonic() - begin < 0.9, time.monotonic() - begin
        assert while_held(lambda: cu.cuGraphLaunch(runs[0], stream), meanwhile, run=runs[0]) == OK
        sync()
        same(2104 * MiB)
    """)


# Each trim takes some time, so that of several threads one always trims.
SLOW_TRIMS = """
#include <unistd.h>
int cuDeviceGraphMemTrim(int device)
{
	usleep(20000);
	return NEXT(cuDeviceGraphMemTrim, device);
}
"""


def test_threads_that_trim_without_a_rest_let_launches_through(granted):
    granted.put_before_driver(SLOW_TRIMS)
    granted.script(GRAPHS, MANY, """
        run, until, trims = capture(freed=True), time.monotonic() + 4, []
        def trim_on():
            ok(cu.cuCtxSetCurrent(ctx))
            while time.monotonic() < until:
                trim()
                trims.append(1)
        threads = [threading.Thread(target=trim_on) for i in range(4)]
        for t in threads:
            t.start()
        launches = 0
        while (launches < 50 or len(trims) < 10) and time.monotonic() < until:
            assert launch(run) == OK
            launches += 1
        left, until = until - time.monotonic(), 0
        for t in threads:
            t.join()
        assert left > 0, (launches, len(trims))
        same(0)
    """)


@pytest.mark.parametrize("captured", [False, True])
def test_what_another_thread_has_paid_does_not_refuse_what_the_pool_has_room_for(granted, captured):
    """74 MiB below the limit, so nothing is paid for what the pool has unused."""
    before = granted.put_before_driver(STOPS)
    granted.script(GRAPHS, f"before = CDLL({str(before)!r})", BESIDE, f"""
        second, pool, taken_beside = out("cuStreamCreate", c_void_p, 1), new_pool(), []
        keep(pool, 1 << 40)
        first, last = take(800 * MiB, stream, pool), take(200 * MiB, stream, pool)
        give(last, stream)
        sync()
        same(1000 * MiB)
        rest = alloc(780 * MiB)
        def meanwhile():
            if {captured}:
                begin_capture(second)
            threading.Timer(0.002, before.cuTestDone).start()    # before 50 ms are over
            taken_beside.append(take(100 * MiB, second, pool))
        assert while_held(lambda: take(300 * MiB, stream, pool), meanwhile, size=300 * MiB) != OOM
        assert taken_beside != [OOM]
    """)


def test_a_refusal_waits_for_payments_only_if_they_may_be_enough_and_once(granted):
    before = granted.put_before_driver(STOPS)
    granted.script(GRAPHS, f"before = CDLL({str(before)!r})", BESIDE, """
        first, runs, times = capture(freed=True), [capture(freed=False) for i in range(2)], []
        assert launch(first) == OK
        rest, other = alloc(1204 * MiB), context(1)
        def refused(size, where=ctx):
            begin = time.monotonic()
            ok(cu.cuCtxSetCurrent(where))
            assert cu.cuMemAlloc_v2(byref(c_uint64()), c_size_t(size)) == OOM
            times.append(time.monotonic() - begin)
        def meanwhile():
            for size, where in (3000 * MiB, ctx), (1100 * MiB, other), (600 * MiB, ctx), (600 * MiB, ctx), (600 * MiB, ctx):
                refused(size, where)
        assert while_held(lambda: cu.cuGraphLaunch(runs[0], stream), meanwhile, run=runs[0]) == OK
        assert [t > 0.9 for t in times] == [False, False, True, False, False], times
    """)


# Between an allocation's payment and its settlement some time passes.
SLOW_POOLS = r"""
#include <stdint.h>
#include <unistd.h>
int cuMemAllocFromPoolAsync(uint64_t *p, size_t size, void *pool, void *stream)
{
	usleep(300);
	return NEXT(cuMemAllocFromPoolAsync, p, size, pool, stream);
}
"""

WARM = """
    keep(default_pool(), 1 << 40)
    give(take(32 * MiB))
    sync()
"""

CHURN = """
    stop = threading.Event()
    def churn():
        ok(cu.cuCtxSetCurrent(ctx))
        s = out("cuStreamCreate", c_void_p, 1)
        while not stop.is_set():
            p = take(4096, s)
            assert p != OOM
            give(p, s)
    threads = [threading.Thread(target=churn) for i in range(8)]
    for t in threads:
        t.start()
"""

ASK = """
    until, tries = time.monotonic() + 2, 0
    while time.monotonic() < until:
        free(alloc(64 * MiB))
        tries += 1
    assert tries > 10
"""


@pytest.mark.parametrize("beside", ["thread", "process"])
def test_small_allocations_from_a_pool_do_not_take_the_last_room_for_a_moment(granted, tmp_path, beside):
    """128 MiB below the limit: 32 MiB for each of eight threads would be more than that."""
    granted.put_before_driver(SLOW_POOLS)
    if beside == "thread":
        granted.script(GRAPHS, WARM, "rest = alloc(1994 * MiB)", CHURN, ASK, "stop.set()")
        return
    begin = tmp_path / "begin"
    other = granted.start(GRAPHS, WARM, f"""
        print("ready", flush=True)
        while not os.path.exists({str(begin)!r}):
            time.sleep(0.01)
    """, CHURN, """
        sys.stdin.readline()
        stop.set()
    """)
    assert other.stdout.readline() == "ready\n"
    granted.script("rest = alloc(1994 * MiB)\n", f"open({str(begin)!r}, 'w')", ASK)
    other.stdin.write("\n")
    sim_cuda.finish(other)
