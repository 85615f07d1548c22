"""What another thread does between two calls that the shim makes to the driver, put there by a library before the driver: so it
happens each time."""
import pytest

from shim_programs import needs_no_grant_here
from shim_scripts import ARRAYS, GRAPHS, MANY

pytestmark = [needs_no_grant_here, pytest.mark.once]

# After an allocation of this size the stream captures.
CAPTURES = r"""
#include <stdint.h>
#define SIZE ((20u << 20) + 512)
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuMemAllocAsync(uint64_t *p, size_t size, void *stream)
{
	int r = NEXT(cuMemAllocAsync, p, size, stream);
	if (r == 0 && size == SIZE) NEXT(cuStreamBeginCapture_v2, stream, 2);
	return r;
}
int cuMemAllocFromPoolAsync(uint64_t *p, size_t size, void *pool, void *stream)
{
	int r = NEXT(cuMemAllocFromPoolAsync, p, size, pool, stream);
	if (r == 0 && size == SIZE) NEXT(cuStreamBeginCapture_v2, stream, 2);
	return r;
}
"""


@pytest.mark.parametrize("named", [False, True])
def test_an_allocation_is_undone_although_its_stream_captures_by_then(granted, named):
    """The pool has room, but in pieces, so the driver takes 32 MiB that do not fit. A free in the stream's order would fail."""
    granted.put_before_driver(CAPTURES)
    granted.script(GRAPHS, f"""
        stream, pool = out("cuStreamCreate", c_void_p, 1), default_pool()
        keep(pool, 1 << 40)
        pieces = [take(20 * MiB, stream) for _ in range(2)]
        ok(cu.cuStreamSynchronize(stream))
        rest = alloc(2090 * MiB)
        same(2154 * MiB)
        assert take(20 * MiB + 512, stream, pool if {named} else None) == OOM
        same(2154 * MiB)
        ok(cu.cuGraphDestroy(end_capture(stream)))
        for p in pieces:
            give(p, stream)
        free(rest)
        ok(cu.cuStreamSynchronize(stream))
        same(64 * MiB)
    """)


# The device's pool is another one as soon as the allocation begins.
CHANGES = r"""
#include <stdint.h>
static void *pools[2];
void cuTestPools(void *first, void *second) { pools[0] = first, pools[1] = second; }
int cuDeviceSetMemPool(int device, void *pool);
int cuMemAllocAsync(uint64_t *p, size_t size, void *stream)
{
	if (pools[1]) NEXT(cuDeviceSetMemPool, 0, pools[1]);
	int r = NEXT(cuMemAllocAsync, p, size, stream);
	if (pools[0]) NEXT(cuDeviceSetMemPool, 0, pools[0]);
	return r;
}
"""


def test_an_allocation_is_charged_although_the_device_has_another_pool_by_then(granted):
    before = granted.put_before_driver(CHANGES)
    granted.script(GRAPHS, f"""
        before = CDLL({str(before)!r})
        before.cuTestPools(new_pool(), new_pool())
        taken_so_far = 0
        while take(300 * MiB) != OOM:
            taken_so_far += 1
            assert taken_so_far <= 7, taken_so_far
            same(taken_so_far * 300 * MiB)
        assert taken_so_far == 7
    """)


# Another thread destroys the pool from which a thread is about to allocate. The driver ends it after the allocation.
DESTROYS = r"""
#include <stdint.h>
static int (*destroy)(void *), begun, result;
static void *doomed, *stream_of;
static uint64_t *address;
static size_t size_of;
void cuTestDestroy(int (*of_shim)(void *), void *pool) { destroy = of_shim, doomed = pool; }
int cuMemAllocFromPoolAsync(uint64_t *p, size_t size, void *pool, void *stream)
{
	int (*now)(void *) = pool == doomed ? destroy : 0;
	if (now) {
		destroy = 0, begun = 1, address = p, size_of = size, stream_of = stream;
		now(pool);
		if (!begun) return result;
		begun = 0;
	}
	return NEXT(cuMemAllocFromPoolAsync, p, size, pool, stream);
}
int cuMemPoolDestroy(void *pool)
{
	if (begun) begun = 0, result = NEXT(cuMemAllocFromPoolAsync, address, size_of, pool, stream_of);
	return NEXT(cuMemPoolDestroy, pool);
}
"""


def test_memory_is_charged_although_its_pool_is_destroyed_while_it_is_allocated(granted):
    """At the limit, where the pool has room: so nothing is paid before."""
    before = granted.put_before_driver(DESTROYS)
    granted.script(GRAPHS, f"""
        before = CDLL({str(before)!r})
        pool = new_pool()
        keep(pool, 1 << 40)
        give(take(300 * MiB, None, pool))
        sync()
        rest = alloc(1854 * MiB)
        same(2154 * MiB)
        before.cuTestDestroy(cast(cu.cuMemPoolDestroy, c_void_p), pool)
        p = take(300 * MiB, None, pool)
        same(2154 * MiB)
        assert take(1 * MiB, None, pool) == cu.cuMemPoolDestroy(pool) == 1
        give(p)
        sync()
        same(1854 * MiB)
        assert cu.cuMemPoolDestroy(default_pool()) == 1
    """)


# Another thread looks at the program's variable as soon as the driver has made the executable graph.
WATCHES = r"""
static void **watched, *seen;
void cuTestWatch(void **variable) { watched = variable; }
void *cuTestSeen(void) { return seen; }
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
	int r = NEXT(cuGraphInstantiateWithFlags, exec, graph, flags);
	if (watched) seen = *watched;
	return r;
}
"""


def test_a_graph_is_handed_out_when_it_is_known_what_it_allocates(granted):
    """A launch before that would be charged nothing."""
    before = granted.put_before_driver(WATCHES)
    granted.script(GRAPHS, f"""
        before = CDLL({str(before)!r})
        handle, stream = c_void_p(), out("cuStreamCreate", c_void_p, 1)
        before.cuTestSeen.restype = c_void_p
        begin_capture(stream)
        take(300 * MiB, stream)
        graph = end_capture(stream)
        before.cuTestWatch(byref(handle))
        ok(cu.cuGraphInstantiateWithFlags(byref(handle), graph, c_uint64(0)))
        assert handle.value and before.cuTestSeen() is None
        ok(cu.cuGraphLaunch(handle, stream))
        same(300 * MiB)
    """)


# Another thread goes on as soon as a launch has come to the driver, until it is done, or for half a second.
HOLDS = r"""
#include <semaphore.h>
#include <stdint.h>
#include <time.h>
static sem_t begun, done;
static int held;
static size_t least = -1;
int cuMemGetInfo_v2(size_t *free, size_t *total);
void cuTestHold(void) { sem_init(&begun, 0, 0), sem_init(&done, 0, 0), held = 1; }
void cuTestBegun(void) { sem_wait(&begun); }
void cuTestDone(void) { sem_post(&done); }
uint64_t cuTestLeastFree(void) { return least; }
int cuGraphLaunch(void *exec, void *stream)
{
	struct timespec until;
	size_t free = -1, total;
	if (__atomic_exchange_n(&held, 0, __ATOMIC_SEQ_CST)) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 500000000, until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
		sem_post(&begun);
		sem_timedwait(&done, &until);
	}
	int r = NEXT(cuGraphLaunch, exec, stream);
	NEXT(cuMemGetInfo_v2, &free, &total);
	least = free < least ? free : least;
	return r;
}
"""

MEANWHILE = MANY + """
    def launch_and(run, meanwhile):
        # Its result, and that of meanwhile() in another thread while the driver is about to launch it.
        def work():
            ok(cu.cuCtxSetCurrent(ctx))
            before.cuTestBegun()
            other.append(meanwhile())
            before.cuTestDone()
        other, thread = [], threading.Thread(target=work)
        before.cuTestHold()
        thread.start()
        r = cu.cuGraphLaunch(run, stream)
        thread.join()
        sync()
        before.cuTestLeastFree.restype = c_uint64
        assert base - before.cuTestLeastFree() <= 2154 * MiB, (base - before.cuTestLeastFree()) // MiB
        same()
        return r, other[0]
"""


def test_a_launch_keeps_the_memory_that_its_graph_has_while_another_thread_trims(granted):
    """At the limit, so what is trimmed is taken by others at once."""
    before = granted.put_before_driver(HOLDS)
    granted.script(GRAPHS, f"before = CDLL({str(before)!r})", MEANWHILE, """
        run = capture(freed=True)
        assert launch(run, "cuGraphUpload") == OK
        rest = alloc(1854 * MiB)
        same(2154 * MiB)
        def trim_and_take():
            trim()
            return try_alloc(300 * MiB)
        r, taken = launch_and(run, trim_and_take)
        assert r == OK
    """)


def test_launches_at_the_same_time_take_what_graphs_have_left_once(granted):
    before = granted.put_before_driver(HOLDS)
    granted.script(GRAPHS, f"before = CDLL({str(before)!r})", MEANWHILE, """
        begin_capture(stream)
        give(take(300 * MiB, stream), stream)
        graph = end_capture(stream)
        run = instantiate(graph)
        assert launch(run) == OK
        ok(cu.cuGraphExecDestroy(run))
        ok(cu.cuGraphDestroy(graph))
        rest = alloc(1854 * MiB)
        same(2154 * MiB)
        second = out("cuStreamCreate", c_void_p, 1)
        runs = [capture(freed=False) for i in range(2)]
        r = launch_and(runs[0], lambda: cu.cuGraphLaunch(runs[1], second))
        assert r == (OK, OOM)
    """)


# Another thread asks for an upload when the shim has looked.
UPLOADS = r"""
#include <stdint.h>
static uint64_t *changed;
void cuTestChange(uint64_t *flags) { changed = flags; }
int cuGraphInstantiateWithParams(void **exec, void *graph, uint64_t *params)
{
	*changed = 2;
	return NEXT(cuGraphInstantiateWithParams, exec, graph, params);
}
"""


def test_a_graph_is_uploaded_as_the_shim_was_asked_to(granted):
    before = granted.put_before_driver(UPLOADS)
    granted.script(GRAPHS, f"before = CDLL({str(before)!r})", MANY, """
        begin_capture(stream)
        take(300 * MiB, stream)
        graph, run, params = end_capture(stream), c_void_p(), (c_uint64 * 4)(0)
        before.cuTestChange(params)
        full = alloc(2154 * MiB)
        ok(cu.cuGraphInstantiateWithParams(byref(run), graph, params))
        same(2154 * MiB)
        assert launch(run) == OOM
    """)


def test_refused_allocations_in_busy_streams_do_not_add_up(granted):
    """The pool has room, but in pieces, and what a refused call gives back waits for its stream."""
    granted.script(GRAPHS, """
        pool, event = new_pool(), threading.Event()
        keep(pool, 1 << 40)
        pieces = [take(20 * MiB, None, pool) for i in range(40)]
        rest = alloc(874 * MiB)
        same(2154 * MiB)
        wait = CFUNCTYPE(None, c_void_p)(lambda data: event.wait(20))
        streams = [out("cuStreamCreate", c_void_p, 1) for i in range(6)]
        for s in streams:
            ok(cu.cuLaunchHostFunc(s, wait, None))
        assert [take(400 * MiB, s, pool) for s in streams] == 6 * [OOM]
        most = taken()
        event.set()
        for s in streams:
            ok(cu.cuStreamSynchronize(s))
        assert most <= 2554 * MiB, most // MiB
        same(2154 * MiB)
        # What was beyond the limit is no longer in anybody's way.
        free(rest)
        give(take(400 * MiB, streams[0], pool), streams[0])
    """)


# Another thread adds an allocation to the graph when the shim has looked at it.
GROWS = r"""
#include <stdint.h>
static void *graph, *params;
int cuGraphAddMemAllocNode(void **node, void *graph, void *dependencies, uint64_t count, void *params);
void cuTestGrow(void *of, void *by) { graph = of, params = by; }
int cuGraphInstantiateWithParams(void **exec, void *of, void *how)
{
	void *node;
	if (graph) NEXT(cuGraphAddMemAllocNode, &node, graph, 0, 0, params);
	graph = 0;
	return NEXT(cuGraphInstantiateWithParams, exec, of, how);
}
"""


@pytest.mark.parametrize("size, answer", [(3000, "OOM"), (300, "OK")])
def test_a_graph_that_grows_until_it_is_uploaded_is_charged_or_undone(granted, size, answer):
    before = granted.put_before_driver(GROWS)
    granted.script(GRAPHS, MANY, f"before = CDLL({str(before)!r})", f"""
        class Node(Structure):
            _fields_ = [("props", PoolProps), ("access", c_void_p), ("count", c_size_t), ("size", c_size_t), ("dptr", c_uint64)]
        class How(Structure):
            _fields_ = [("flags", c_uint64), ("stream", c_void_p), ("node", c_void_p), ("result", c_int)]
        capture(freed=True)
        graph, exec = out("cuGraphCreate", c_void_p, 0), c_void_p()
        node = Node(PoolProps(1, 0, Location(1, 0)), None, 0, {size} * MiB, 0)
        before.cuTestGrow(graph, byref(node))
        assert cu.cuGraphInstantiateWithParams(byref(exec), graph, byref(How(2, stream))) == {answer}
        sync()
        same(0 if {answer} == OOM else {size} * MiB)
        assert bool(exec.value) == ({answer} == OK)
    """)


# Another thread writes to the description when the shim has looked at it.
WRITES = r"""
#include <stddef.h>
static size_t *written;
void cuTestWrite(size_t *height) { written = height; }
int cuArray3DCreate_v2(void **a, void *d) { *written = 65536; return NEXT(cuArray3DCreate_v2, a, d); }
int cuMipmappedArrayCreate(void **a, void *d, unsigned n) { *written = 65536; return NEXT(cuMipmappedArrayCreate, a, d, n); }
"""


@pytest.mark.parametrize("call", ["cuArray3DCreate_v2", "cuMipmappedArrayCreate"])
def test_an_array_is_made_as_it_was_charged(granted, call):
    before = granted.put_before_driver(WRITES)
    granted.script(ARRAYS, f"""
        before = CDLL({str(before)!r})
        shape = D3(4096, 512, 0, FLOAT, 4, 0)
        before.cuTestWrite(byref(shape, D3.Height.offset))
        ok(cu.{call}(byref(c_void_p()), byref(shape), 1))
        same(32 * MiB)
    """)
