"""The simulated libcuda.so.1 by ctypes: memory apart from addresses, shared with other processes, managed, of the host.
These tests run on the driver itself (test_sim_cuda_memory.py) and again through the shim (test_shim_transparent.py)."""
import pytest

import sim_cuda
from driver_tree import RATION_SIM, run
from sim_cuda import finish

VMM = """
import array, socket
class Prop(Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("where", c_int), ("id", c_int), ("meta", c_void_p), ("flags", c_uint64)]
class Access(Structure):
    _fields_ = [("where", c_int), ("id", c_int), ("flags", c_int)]

def create(size, handles=0, where=1, ordinal=0):
    return out("cuMemCreate", c_uint64, c_size_t(size), byref(Prop(1, handles, where, ordinal)), c_uint64(0))

def reserve(size):
    return out("cuMemAddressReserve", c_uint64, c_size_t(size), c_size_t(0), c_uint64(0), c_uint64(0))

def map_at(address, size, handle, offset=0):
    return cu.cuMemMap(c_uint64(address), c_size_t(size), c_size_t(offset), handle, c_uint64(0))

def allow(address, size, flags=3):
    return cu.cuMemSetAccess(c_uint64(address), c_size_t(size), byref(Access(1, 0, flags)), c_size_t(1))

def write(address, data):
    return cu.cuMemcpyHtoD_v2(c_uint64(address), data, c_size_t(len(data)))

def read(address, size):
    buffer = create_string_buffer(size)
    ok(cu.cuMemcpyDtoH_v2(buffer, c_uint64(address), c_size_t(size)))
    return buffer.raw

def send_fd(path, fd):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path); s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])

def receive_fd(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path); s.listen(); say("ready"); peer, _ = s.accept()
        _, found, _, _ = peer.recvmsg(1, 64)
        return array.array("i", found[0][2])[0]
"""


def script(tree, text, *args, **kwargs):
    import textwrap
    return sim_cuda.script(tree, VMM + textwrap.dedent(text), *args, **kwargs)


def start(tree, text, *args, **kwargs):
    import textwrap
    return sim_cuda.start(tree, VMM + textwrap.dedent(text), *args, **kwargs)


# Virtual memory management

def test_memory_stays_until_released_and_unmapped(card):
    script(card, """
        context(); before = free_bytes()
        h = create(10 * MiB); assert before - free_bytes() == 10 * MiB
        p = reserve(20 * MiB).value; assert before - free_bytes() == 10 * MiB
        ok(map_at(p, 10 * MiB, h)); ok(cu.cuMemRelease(h))
        assert before - free_bytes() == 10 * MiB
        assert cu.cuMemRelease(h) == INVALID and map_at(p + 10 * MiB, 10 * MiB, h) == INVALID
        ok(cu.cuMemUnmap(c_uint64(p), c_size_t(10 * MiB))); assert free_bytes() == before
        ok(cu.cuMemAddressFree(c_uint64(p), c_size_t(20 * MiB)))
    """)
    assert sim_cuda.misuse(card) == {"use after free": 2}


def test_retained_handle_keeps_memory(card):
    script(card, """
        context(); before = free_bytes(); h = create(2 * MiB); p = reserve(2 * MiB).value
        ok(map_at(p, 2 * MiB, h)); ok(cu.cuMemRelease(h))
        again = out("cuMemRetainAllocationHandle", c_uint64, c_void_p(p + 4096))
        twice = out("cuMemRetainAllocationHandle", c_uint64, c_void_p(p)); assert again.value == twice.value
        ok(cu.cuMemUnmap(c_uint64(p), c_size_t(2 * MiB))); assert before - free_bytes() == 2 * MiB
        ok(cu.cuMemRelease(again)); assert before - free_bytes() == 2 * MiB
        ok(cu.cuMemRelease(again)); assert free_bytes() == before
        assert cu.cuMemRetainAllocationHandle(byref(again), c_void_p(p)) == INVALID
    """)


def test_mappings_show_the_same_bytes_and_need_access(card):
    script(card, """
        context(); h = create(4 * MiB); p, q = reserve(4 * MiB).value, reserve(8 * MiB).value; data = os.urandom(3 * MiB)
        ok(map_at(p, 4 * MiB, h)); assert write(p, b"x") == INVALID
        ok(allow(p, 4 * MiB)); ok(write(p + 1000, data))
        ok(map_at(q, 2 * MiB, h)); ok(map_at(q + 2 * MiB, 2 * MiB, h, 2 * MiB)); ok(allow(q, 4 * MiB))
        assert read(q + 1000, 3 * MiB) == data    # across two mappings
        ok(allow(q, 4 * MiB, 0)); assert cu.cuMemcpyDtoH_v2(create_string_buffer(1), c_uint64(q), c_size_t(1)) == INVALID
        assert map_at(q, 2 * MiB, h) == 208 and map_at(q + 4 * MiB, 8 * MiB, h) == INVALID
        assert map_at(q + 4 * MiB, MiB, h) == INVALID and map_at(q + 4 * MiB + 4096, 2 * MiB, h) == INVALID
        assert map_at(q + 4 * MiB, 2 * MiB, h, 4 * MiB) == INVALID
        assert cu.cuMemAddressFree(c_uint64(q), c_size_t(8 * MiB)) == INVALID
        assert cu.cuMemUnmap(c_uint64(q), c_size_t(MiB)) == INVALID
        ok(cu.cuMemUnmap(c_uint64(q), c_size_t(4 * MiB)))
        assert cu.cuMemFree_v2(c_uint64(p)) == INVALID
    """)


def test_card_is_that_of_the_location_not_of_the_context(two_cards):
    script(two_cards, """
        a = context(0); b = context(1); before = free_bytes(); h = create(10 * MiB, ordinal=0)
        assert free_bytes() == before
        ok(cu.cuCtxSetCurrent(a)); assert free_bytes() == (16160 - 310) * MiB
        def refused(*prop, size=2 * MiB): return cu.cuMemCreate(byref(c_uint64()), c_size_t(size), byref(Prop(*prop)), c_uint64(0))
        assert refused(1, 0, 1, 2) == BAD_DEVICE and refused(1, 0, 1, 850725928) == BAD_DEVICE and refused(1, 0, 1, -1) == BAD_DEVICE
        assert refused(0, 0, 1, 0) == INVALID and refused(1, 0, 9, 0) == INVALID and refused(1, 0, 1, 0, size=MiB) == INVALID
        assert refused(1, 8, 1, 0) == NOT_SUPPORTED and refused(1, 0, 1, 0, size=1 << 45) == OOM
        host = create(10 * MiB, where=2); assert free_bytes() == (16160 - 310) * MiB
    """)


# Between processes

def test_shared_by_descriptor_is_one_memory_charged_once(card, tmp_path):
    importer = start(card, """
        context(); fd = receive_fd(sys.argv[2]); before = free_bytes()
        hs = [out("cuMemImportFromShareableHandle", c_uint64, c_void_p(fd), 1) for i in range(2)]
        assert free_bytes() == before
        p = reserve(4 * MiB).value; ok(map_at(p, 4 * MiB, hs[0])); ok(allow(p, 4 * MiB))
        assert read(p, 5) == b"hello"
        ok(write(p, b"world")); say("mapped"); wait()
        for h in hs: ok(cu.cuMemRelease(h))    # the exporter is gone, with its context: the memory is ours alone
        assert free_bytes() - before == 300 * MiB
        ok(cu.cuMemUnmap(c_uint64(p), c_size_t(4 * MiB))); assert free_bytes() - before == 304 * MiB
    """, tmp_path / "socket")
    exporter = start(card, """
        context(); h = create(4 * MiB, handles=1); p = reserve(4 * MiB).value
        ok(map_at(p, 4 * MiB, h)); ok(allow(p, 4 * MiB)); ok(write(p, b"hello"))
        say("ready"); wait()
        before = free_bytes()
        fd = c_int(); ok(cu.cuMemExportToShareableHandle(byref(fd), h, 1, c_uint64(0)))
        send_fd(sys.argv[2], fd.value); wait()
        assert read(p, 5) == b"world" and free_bytes() == before
        say("seen"); wait()
    """, tmp_path / "socket")
    assert exporter.stdout.readline() == "ready\n"
    assert importer.stdout.readline() == "ready\n"
    exporter.stdin.write("send\n")
    exporter.stdin.flush()
    assert importer.stdout.readline() == "mapped\n", importer.stderr.read()
    exporter.stdin.write("look\n")
    exporter.stdin.flush()
    assert exporter.stdout.readline() == "seen\n", exporter.stderr.read()
    # Both show it, as on a card: contexts of 300 MiB.
    assert run(RATION_SIM, "status", card.path).stdout.count("304MiB") == 2
    assert "604MiB" in run(RATION_SIM, "status", card.path).stdout
    exporter.kill()
    exporter.communicate()
    finish(importer)
    script(card, "context(); assert free_bytes() == (16160 - 300) * MiB")


def test_ipc_handle_opens_the_same_memory_in_another_process(card):
    exporter = start(card, """
        context(); first = alloc(1000); p = alloc(5000); ok(write(p.value, b"hello")); handle = create_string_buffer(64)
        ok(cu.cuIpcGetMemHandle(handle, p)); say(handle.raw.hex()); wait()
        assert read(p.value, 5) == b"world"; ok(cu.cuMemFree_v2(p)); say("freed"); wait()
    """)
    handle = exporter.stdout.readline().strip()
    assert handle, exporter.stderr.read()
    script(card, """
        class Handle(Structure): _fields_ = [("data", c_char * 64)]
        context(); before = free_bytes(); handle = Handle.from_buffer_copy(bytes.fromhex(sys.argv[2]))
        p = out("cuIpcOpenMemHandle_v2", c_uint64, handle, 1); q = out("cuIpcOpenMemHandle_v2", c_uint64, handle, 1)
        assert p.value == q.value and free_bytes() == before and read(p.value, 5) == b"hello"
        ok(write(p.value, b"world")); assert cu.cuMemFree_v2(p) == INVALID
        assert cu.cuMemcpyDtoH_v2(create_string_buffer(5001), p, c_size_t(5001)) == INVALID
        ok(cu.cuIpcCloseMemHandle(p)); assert read(p.value, 5) == b"world"
        ok(cu.cuIpcCloseMemHandle(p)); assert cu.cuIpcCloseMemHandle(p) == INVALID
        assert cu.cuIpcOpenMemHandle_v2(byref(p), Handle(b"nonsense"), 1) == INVALID
    """, handle)
    assert [f.name for f in (card.path / "state").glob("ipc-*")]
    exporter.stdin.write("free\n")
    exporter.stdin.flush()
    assert exporter.stdout.readline() == "freed\n", exporter.stderr.read()
    finish(exporter)
    script(card, """
        class Handle(Structure): _fields_ = [("data", c_char * 64)]
        context(); assert free_bytes() == (16160 - 300) * MiB
        assert cu.cuIpcOpenMemHandle_v2(byref(c_uint64()), Handle.from_buffer_copy(bytes.fromhex(sys.argv[2])), 1) == INVALID
        p = alloc(5 * MiB); h = Handle(); ok(cu.cuIpcGetMemHandle(byref(h), p))
        assert cu.cuIpcOpenMemHandle_v2(byref(c_uint64()), h, 1) == BAD_CONTEXT
        assert cu.cuIpcGetMemHandle(byref(h), c_uint64(5)) == INVALID
        os.kill(os.getpid(), signal.SIGKILL)
    """, handle, status=-9)
    script(card, "context(); assert free_bytes() == (16160 - 300) * MiB")
    assert not list((card.path / "state").glob("ipc-*"))


def test_memory_outlives_its_exporter_until_the_importer_closes(card):
    exporter = start(card, """
        context(); p = alloc(100 * MiB); handle = create_string_buffer(64)
        ok(cu.cuIpcGetMemHandle(handle, p)); say(handle.raw.hex()); wait()
    """)
    handle = exporter.stdout.readline().strip()
    importer = start(card, """
        class Handle(Structure): _fields_ = [("data", c_char * 64)]
        context(); p = out("cuIpcOpenMemHandle_v2", c_uint64, Handle.from_buffer_copy(bytes.fromhex(sys.argv[2])), 1)
        say("open"); wait(); assert free_bytes() == (16160 - 400) * MiB
        ok(cu.cuIpcCloseMemHandle(p)); assert free_bytes() == (16160 - 300) * MiB
    """, handle)
    assert importer.stdout.readline() == "open\n", importer.stderr.read()
    exporter.kill()
    exporter.communicate()
    finish(importer)
    assert not list((card.path / "state").glob("ipc-*"))


def test_external_memory_is_the_memory_of_its_descriptor(card):
    script(card, """
        class Desc(Structure): _fields_ = [("type", c_int), ("pad", c_int), ("fd", c_int), ("rest", c_char * 12), ("size", c_uint64), ("flags", c_uint), ("reserved", c_uint * 16)]
        class Buffer(Structure): _fields_ = [("offset", c_uint64), ("size", c_uint64), ("flags", c_uint), ("reserved", c_uint * 16)]
        context(); before = free_bytes(); h = create(4 * MiB, handles=1)
        fd = c_int(); ok(cu.cuMemExportToShareableHandle(byref(fd), h, 1, c_uint64(0)))
        e = out("cuImportExternalMemory", c_void_p, byref(Desc(1, 0, fd, b"", 4 * MiB)))
        p = out("cuExternalMemoryGetMappedBuffer", c_uint64, e, byref(Buffer(4096, MiB)))
        assert before - free_bytes() == 4 * MiB
        q = reserve(4 * MiB).value; ok(map_at(q, 4 * MiB, h)); ok(allow(q, 4 * MiB)); ok(write(q + 4096, b"hello")); assert read(p.value, 5) == b"hello"
        ok(cu.cuMemRelease(h)); ok(cu.cuMemUnmap(c_uint64(q), c_size_t(4 * MiB))); ok(cu.cuDestroyExternalMemory(e))
        assert before - free_bytes() == 4 * MiB
        ok(cu.cuMemFree_v2(p)); assert free_bytes() == before
        assert cu.cuDestroyExternalMemory(e) == BAD_HANDLE
        assert cu.cuImportExternalMemory(byref(e), byref(Desc(1, 0, os.open("/dev/null", os.O_RDONLY), b"", 5))) == INVALID
        assert cu.cuImportExternalMemory(byref(e), byref(Desc(4, 0, 0, b"", 5))) == NOT_SUPPORTED
    """)


# Managed, host

def test_managed_memory_is_charged_in_full_and_is_the_processors_too(card):
    script(card, """
        context(); before = free_bytes(); p = out("cuMemAllocManaged", c_uint64, c_size_t(10 * MiB), 1)
        assert before - free_bytes() == 10 * MiB
        memmove(p.value, b"hello", 5); assert read(p.value, 5) == b"hello"
        ok(cu.cuMemsetD8_v2(p, 65, c_size_t(3))); assert string_at(p.value, 5) == b"AAAlo"
        managed = c_uint(); ok(cu.cuPointerGetAttribute(byref(managed), 8, p)); assert managed.value == 1
        ok(cu.cuMemPrefetchAsync(p, c_size_t(10 * MiB), 0, None))
        ok(cu.cuMemFree_v2(p)); assert free_bytes() == before
        assert cu.cuMemAllocManaged(byref(p), c_size_t(1), 7) == INVALID
    """)


def test_prefetched_memory_crosses_between_machine_and_card_once(card):
    """240 MiB at 12 GB/s take 21 ms, each way on its own engine; what is there already is not moved."""
    script(card, """
        class Location(Structure): _fields_ = [("type", c_int), ("id", c_int)]
        context(); size = c_size_t(240 * MiB); p = out("cuMemAllocManaged", c_uint64, size, 1)
        def took(call):
            a, b = (out("cuEventCreate", c_void_p, 0) for _ in range(2))
            ok(cu.cuEventRecord(a, None)); ok(call()); ok(cu.cuEventRecord(b, None)); ok(cu.cuCtxSynchronize())
            return out("cuEventElapsedTime", c_float, a, b).value
        assert 20 < took(lambda: cu.cuMemPrefetchAsync(p, size, 0, None)) < 41    # once
        assert took(lambda: cu.cuMemPrefetchAsync(p, size, 0, None)) < 20
        assert 20 < took(lambda: cu.cuMemPrefetchAsync_v2(p, size, Location(2, 0), 0, None)) < 41
        assert took(lambda: cu.cuMemPrefetchAsync(p, size, -1, None)) < 20
        both = (c_uint64 * 1)(p.value), (c_size_t * 1)(240 * MiB), c_size_t(1), (Location * 1)(Location(1, 0)), (c_size_t * 1)(0)
        assert 20 < took(lambda: cu.cuMemPrefetchBatchAsync(*both, c_size_t(1), c_uint64(0), None)) < 41
        assert cu.cuMemPrefetchAsync(p, size, 5, None) == 101 and cu.cuMemPrefetchAsync(alloc(100), c_size_t(100), 0, None) == INVALID
        assert cu.cuMemPrefetchAsync(p, c_size_t(0), 0, None) == INVALID
        assert cu.cuMemPrefetchAsync_v2(p, size, Location(0, 0), 0, None) == INVALID
        assert cu.cuMemPrefetchBatchAsync(*both, c_size_t(2), c_uint64(0), None) == INVALID
    """)


def test_host_memory_costs_the_card_nothing(card):
    script(card, """
        context(); before = free_bytes(); p = out("cuMemHostAlloc", c_void_p, c_size_t(10 * MiB), 3)
        memmove(p.value, b"hello", 5); d = alloc(100); ok(cu.cuMemcpyHtoDAsync_v2(d, p, c_size_t(5), None)); ok(cu.cuMemFree_v2(d))
        assert free_bytes() == before and out("cuMemHostGetDevicePointer_v2", c_uint64, p, 0).value == p.value
        kind = c_uint(); ok(cu.cuPointerGetAttribute(byref(kind), 2, c_uint64(p.value + 100))); assert kind.value == 1
        ok(cu.cuMemFreeHost(p)); assert cu.cuMemFreeHost(p) == INVALID
        buffer = create_string_buffer(10000)
        ok(cu.cuMemHostRegister_v2(buffer, c_size_t(10000), 0)); assert cu.cuMemHostRegister_v2(buffer, c_size_t(10), 0) == 712
        ok(cu.cuMemHostUnregister(buffer)); assert cu.cuMemHostUnregister(buffer) == 713
    """)


def test_address_says_what_it_is(two_cards):
    script(two_cards, """
        context(0); c = context(1); p = alloc(1000)
        def ask(which, kind, address):
            value = kind(); r = cu.cuPointerGetAttribute(byref(value), which, c_uint64(address)); return value.value if r == OK else -r
        assert ask(1, c_uint64, p.value) == c.value and ask(2, c_uint, p.value) == 2 and ask(9, c_int, p.value + 5) == 1
        assert ask(11, c_uint64, p.value + 5) == p.value and ask(12, c_uint64, p.value) == 1000
        assert ask(2, c_uint, 0x1234) == -INVALID and ask(99, c_uint, p.value) == -INVALID
        kinds = (c_int * 2)(2, 9); a, b = c_uint(7), c_int(7); outs = (c_void_p * 2)(addressof(a), addressof(b))
        ok(cu.cuPointerGetAttributes(2, kinds, outs, c_uint64(0x1234))); assert (a.value, b.value) == (0, -2)
    """)


def test_everything_of_a_process_killed_at_any_point_is_given_back(card):
    """SIGKILL at the points where something is taken but not yet recorded, and where it is about to be given back."""
    for point in ("memory.taken", "memory.recorded", "memory.giving", "physical.created", "cuMemFree_v2"):
        for skip in (0, 1, 5):
            card.fault("0", "kill", point, str(skip))
            script(card, """
                context()
                for i in range(20):
                    a = alloc(5 * MiB); b = alloc(100); h = create(2 * MiB, handles=1)
                    p = out("cuMemAllocAsync", c_uint64, c_size_t(100), None); ok(cu.cuMemFreeAsync(p, None))
                    ok(cu.cuMemFree_v2(a)); ok(cu.cuMemFree_v2(b)); ok(cu.cuMemRelease(h))
            """, status=-9)
            script(card, "context(); assert free_bytes() == (16160 - 300) * MiB")


# Faults

def test_injected_faults_hit_the_next_calls(card):
    card.fault("0", "oom", "2")
    card.fault("0", "fail", "cuMemFree_v2", "999")
    card.fault("0", "slow", "cuMemGetInfo_v2", "300")
    script(card, """
        import time
        assert cu.cuCtxCreate_v2(byref(c_void_p()), 0, 0) == OOM
        assert cu.cuCtxCreate_v2(byref(c_void_p()), 0, 0) == OOM
        context(); p = alloc(5)
        assert cu.cuMemFree_v2(p) == 999
        ok(cu.cuMemFree_v2(p))
        before = time.monotonic(); free_bytes(); assert time.monotonic() - before >= 0.3
        before = time.monotonic(); free_bytes(); assert time.monotonic() - before < 0.3
    """)
    card.fault("0", "oom", "1000")
    card.fault("0", "calm")
    script(card, "context()")
    for wrong in (["slow", "cuInit"], ["kill"], ["fail", "x", "1000"], ["oom", "-1"], ["calm", "1", "2", "3", "4"],
                  ["kill", "x" * 60]):
        assert card.fault("0", *wrong, check=False).returncode != 0, wrong


@pytest.mark.parametrize("fault, answer", [(["lost"], 999), (["ecc"], 214), (["xid", "79"], 999), (["xid", "31"], 0)])
def test_sick_card_ends_its_contexts_and_no_others(two_cards, fault, answer):
    """Xid 31 is a program's own fault: a neighbour's is none of ours."""
    process = start(two_cards, """
        a = context(0); b = context(1); say("ready"); wait()
        ok(try_alloc(5)); ok(cu.cuCtxSetCurrent(a)); say(try_alloc(5)); say(try_alloc(5)); wait()
    """)
    assert process.stdout.readline() == "ready\n"
    two_cards.fault("0", *fault)
    process.stdin.write("go\n")
    process.stdin.flush()
    assert [process.stdout.readline() for _ in range(2)] == [f"{answer}\n"] * 2
    finish(process)


def test_lost_card_is_no_device_of_a_new_process(two_cards):
    two_cards.fault("0", "lost")
    script(two_cards, "assert out('cuDeviceGetCount', c_int).value == 1 and out('cuDeviceTotalMem_v2', c_size_t, 0).value == 40960 * MiB")


@pytest.mark.parametrize("kind", ["plain", "managed", "ordered"])
def test_memory_is_freed_without_a_current_context(card, kind):
    script(card, """
        c = context()
        before = free_bytes()
        address = c_uint64()
        if %r == "plain": ok(cu.cuMemAlloc_v2(byref(address), c_size_t(64 * MiB)))
        elif %r == "managed": ok(cu.cuMemAllocManaged(byref(address), c_size_t(64 * MiB), 1))
        else: ok(cu.cuMemAllocAsync(byref(address), c_size_t(64 * MiB), None)); ok(cu.cuStreamSynchronize(None))
        popped = c_void_p()
        ok(cu.cuCtxPopCurrent_v2(byref(popped)))
        assert try_alloc(MiB) == BAD_CONTEXT
        ok(cu.cuMemFree_v2(address))
        assert cu.cuMemFree_v2(address) != OK
        ok(cu.cuCtxPushCurrent_v2(popped))
        ok(cu.cuMemPoolTrimTo(out("cuDeviceGetMemPool", c_void_p, 0), c_size_t(0)))
        assert free_bytes() == before
    """ % (kind, kind))
