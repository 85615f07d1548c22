"""The charge comes before the driver's call: while the driver allocates, the ledger has the memory already, and what is over
the limit does not reach the driver. A charge after the call would let two processes be over the limit for a moment."""
import pytest

from shim_programs import needs_no_grant_here
from shim_scripts import POOLS

pytestmark = needs_no_grant_here

# Each call of the driver that allocates notes what the usage file (grant/usage.h) says is charged on the first GPU.
LOOKS = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
typedef unsigned long long address;
int cuTestCalls;
long cuTestCharged;
static void look(void)
{
	unsigned long long total = 0;
	int fd = open(getenv("USAGE"), O_RDONLY);
	if (pread(fd, &total, sizeof(total), 128) != sizeof(total)) abort();
	close(fd);
	cuTestCharged = (long)(total & 0xffffffff) * 4096;
	cuTestCalls++;
}
int cuMemAlloc_v2(address *p, size_t n) { look(); return NEXT(cuMemAlloc_v2, p, n); }
int cuMemAllocManaged(address *p, size_t n, unsigned flags) { look(); return NEXT(cuMemAllocManaged, p, n, flags); }
int cuMemAllocPitch_v2(address *p, size_t *pitch, size_t width, size_t height, unsigned element)
{
	look();
	return NEXT(cuMemAllocPitch_v2, p, pitch, width, height, element);
}
int cuMemAllocFromPoolAsync(address *p, size_t n, void *pool, void *stream)
{
	look();
	return NEXT(cuMemAllocFromPoolAsync, p, n, pool, stream);
}
int cuMemCreate(address *handle, size_t n, void *properties, address flags)
{
	look();
	return NEXT(cuMemCreate, handle, n, properties, flags);
}
int cuGraphLaunch(void *run, void *stream) { look(); return NEXT(cuGraphLaunch, run, stream); }
"""

CALLS = {
    "cuMemAlloc_v2": "cu.cuMemAlloc_v2(byref(c_uint64()), c_size_t(mib * MiB))",
    "cuMemAllocManaged": "cu.cuMemAllocManaged(byref(c_uint64()), c_size_t(mib * MiB), 1)",
    "cuMemAllocPitch_v2": "cu.cuMemAllocPitch_v2(byref(c_uint64()), byref(c_size_t()), c_size_t(MiB), c_size_t(mib), 4)",
    "cuMemAllocAsync": "cu.cuMemAllocAsync(byref(c_uint64()), c_size_t(mib * MiB), None)",
    "cuMemAllocFromPoolAsync": "cu.cuMemAllocFromPoolAsync(byref(c_uint64()), c_size_t(mib * MiB), pool, None)",
    "cuMemCreate": "cu.cuMemCreate(byref(c_uint64()), c_size_t(mib * MiB), byref(properties), c_uint64(0))",
    "cuGraphLaunch": "cu.cuGraphLaunch(graph_of(mib), None)",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_memory_is_charged_before_the_driver_allocates_it(granted, call):
    before = granted.put_before_driver(LOOKS)
    granted.script(POOLS, f"""
        before = CDLL({str(before)!r})
        calls, seen = c_int.in_dll(before, "cuTestCalls"), c_long.in_dll(before, "cuTestCharged")
        pool, properties = new_pool(), create_string_buffer(64)
        properties[0], properties[8] = 1, 1        # pinned, on device 0 (CUmemAllocationProp, cuda.h of CUDA 13.0.96)

        def graph_of(mib):
            stream, graph, run = out("cuStreamCreate", c_void_p, 1), c_void_p(), c_void_p()
            ok(cu.cuStreamBeginCapture_v2(stream, 0))
            take(mib * MiB, stream)
            ok(cu.cuStreamEndCapture(stream, byref(graph)))
            ok(cu.cuGraphInstantiateWithFlags(byref(run), graph, c_uint64(0)))
            calls.value = 0     # the captured call took nothing
            return run

        def call(mib):
            calls.value = 0
            return {call}

        assert call(300) == OK
        assert (calls.value, seen.value) == (1, 300 * MiB), (calls.value, seen.value)
        # 1854 MiB are left.
        assert call(1855) == OOM
        assert calls.value == 0
        assert charged() == 300 * MiB
        assert call(1854) == OK
        assert (calls.value, seen.value) == (1, 2154 * MiB), (calls.value, seen.value)
    """, USAGE=str(granted.folder / "usage"))


# cuCtxAttach() and cuCtxDetach() count references to a context (cuda.h of CUDA 13.0.96); the simulated driver has neither.
DETACHES = r"""
static int attached;
int cuCtxDestroy_v2(void *context);
int cuCtxAttach(void **context, unsigned flags) { attached++; return 0; }
int cuCtxDetach(void *context)
{
	if (attached > 0) {
		attached--;
		return 0;
	}
	return NEXT(cuCtxDestroy_v2, context);
}
"""


def test_a_context_that_is_detached_from_gives_back_its_memory_when_that_was_the_last_reference(granted):
    granted.put_before_driver(DETACHES)
    granted.script("""
        second = context()
        alloc(500 * MiB)
        ok(cu.cuCtxAttach(byref(second), 0))
        ok(cu.cuCtxDetach(second))
        assert charged() == 500 * MiB
        assert try_alloc(1700 * MiB) == OOM
        ok(cu.cuCtxDetach(second))
        ok(cu.cuCtxSetCurrent(ctx))
        same(0)
        alloc(2154 * MiB)
    """)
