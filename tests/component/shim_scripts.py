"""Parts of scripts under the shim (shim_memory.py) that several tests use: arrays, pools, graphs, virtual memory."""

ARRAYS = """
class D2(Structure):
    _fields_ = [("Width", c_size_t), ("Height", c_size_t), ("Format", c_int), ("NumChannels", c_uint)]

class D3(Structure):
    _fields_ = [("Width", c_size_t), ("Height", c_size_t), ("Depth", c_size_t), ("Format", c_int), ("NumChannels", c_uint),
                ("Flags", c_uint)]

class D3v1(Structure):
    _fields_ = [(n, c_uint) for n in ("Width", "Height", "Depth", "Format", "NumChannels", "Flags")]

FLOAT, BYTE, LAYERED, CUBEMAP, SPARSE = 0x20, 1, 1, 4, 0x40

def array(*d):
    handle = c_void_p()
    kind, function = (D2, "cuArrayCreate_v2") if len(d) == 4 else (D3, "cuArray3DCreate_v2")
    result = getattr(cu, function)(byref(handle), byref(kind(*d)))
    return handle if result == OK else result

def destroy(handle):
    ok(cu.cuArrayDestroy(handle))
"""

POOLS = """
class Location(Structure):
    _fields_ = [("type", c_int), ("id", c_int)]

class PoolProps(Structure):
    _fields_ = [("allocType", c_int), ("handleTypes", c_int), ("location", Location), ("security", c_void_p),
                ("maxSize", c_size_t), ("usage", c_ushort), ("reserved", c_ubyte * 54)]

THRESHOLD = 4

def new_pool(device=0):
    pool = c_void_p()
    ok(cu.cuMemPoolCreate(byref(pool), byref(PoolProps(1, 0, Location(1, device)))))
    return pool

def take(size, stream=None, pool=None):
    p = c_uint64()
    result = cu.cuMemAllocFromPoolAsync(byref(p), c_size_t(size), pool, stream) if pool else \
        cu.cuMemAllocAsync(byref(p), c_size_t(size), stream)
    return p if result == OK else result

def give(p, stream=None):
    ok(cu.cuMemFreeAsync(p, stream))

def sync():
    ok(cu.cuCtxSynchronize())

def keep(pool, size):
    ok(cu.cuMemPoolSetAttribute(pool, THRESHOLD, byref(c_uint64(size))))

def default_pool():
    pool = c_void_p()
    ok(cu.cuDeviceGetDefaultMemPool(byref(pool), 0))
    return pool
"""

GRAPHS = POOLS + """
def begin_capture(stream):
    ok(cu.cuStreamBeginCapture_v2(stream, 0))

def end_capture(stream):
    graph = c_void_p()
    ok(cu.cuStreamEndCapture(stream, byref(graph)))
    return graph

def instantiate(graph):
    handle = c_void_p()
    ok(cu.cuGraphInstantiateWithFlags(byref(handle), graph, c_uint64(0)))
    return handle

def trim():
    ok(cu.cuDeviceGraphMemTrim(0))
"""

MANY = """
    stream = out("cuStreamCreate", c_void_p, 1)

    def capture(freed):
        begin_capture(stream)
        p = take(300 * MiB, stream)
        if freed:
            give(p, stream)
        return instantiate(end_capture(stream))

    def launch(run, function="cuGraphLaunch"):
        r = getattr(cu, function)(run, stream)
        ok(cu.cuStreamSynchronize(stream))
        return r
"""

VIRTUAL = """
class Location(Structure):
    _fields_ = [("type", c_int), ("id", c_int)]

class Prop(Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("win32", c_void_p), ("flags", c_ubyte * 8)]

class Access(Structure):
    _fields_ = [("location", Location), ("flags", c_int)]

DEVICE, HOST, FD = 1, 2, 1

def create(size, device=0, kind=DEVICE, handles=0):
    handle = c_uint64()
    result = cu.cuMemCreate(byref(handle), c_size_t(size), byref(Prop(1, handles, Location(kind, device))), c_uint64(0))
    return handle if result == OK else result

def release(handle):
    ok(cu.cuMemRelease(handle))

def reserve(size):
    return out("cuMemAddressReserve", c_uint64, c_size_t(size), c_size_t(0), c_uint64(0), c_uint64(0))

def at(address, offset):
    return c_uint64(address.value + offset)

def map_at(address, size, handle):
    ok(cu.cuMemMap(address, c_size_t(size), c_size_t(0), handle, c_uint64(0)))

def unmap(address, size):
    ok(cu.cuMemUnmap(address, c_size_t(size)))
"""

# For put_before_driver(): a thread is held between the driver's answer and the shim's next step, after an allocation of a size or a
# launch of a graph.
STOPS = r"""
#include <semaphore.h>
#include <stdint.h>
#include <time.h>
static sem_t begun, done;
static size_t held_size;
static void *held_exec;
void cuTestHold(size_t size, void *exec) { sem_init(&begun, 0, 0), sem_init(&done, 0, 0), held_size = size, held_exec = exec; }
void cuTestBegun(void) { sem_wait(&begun); }
void cuTestDone(void) { sem_post(&done); }
static void hold(void)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	held_size = 0, held_exec = 0;
	sem_post(&begun);
	sem_timedwait(&done, &until);
}
int cuMemAllocFromPoolAsync(uint64_t *p, size_t size, void *pool, void *stream)
{
	int r = NEXT(cuMemAllocFromPoolAsync, p, size, pool, stream);
	if (size == held_size) hold();
	return r;
}
int cuGraphLaunch(void *exec, void *stream)
{
	int r = NEXT(cuGraphLaunch, exec, stream);
	if (exec == held_exec) hold();
	return r;
}
"""

BESIDE = MANY + """
    def while_held(held, meanwhile, size=0, run=None):
        # Calls meanwhile() while another thread is held in held(), whose result this is.
        def work():
            ok(cu.cuCtxSetCurrent(ctx))
            results.append(held())
        results, thread = [], threading.Thread(target=work)
        before.cuTestHold(c_size_t(size), run)
        thread.start()
        before.cuTestBegun()
        meanwhile()
        before.cuTestDone()
        thread.join()
        return results[0]
"""
