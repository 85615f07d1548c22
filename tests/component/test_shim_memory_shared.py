"""Memory that several processes have counts once, whoever ends first: with the keeper of a real `ration run`, since what a
process has of another one only the driver's own numbers show. A context takes 312 MiB on this simulated card."""
import textwrap

import pytest

from test_run import machine, pytestmark  # noqa: F401 (fixture; no tests where the machine has a grant)

COMMON = """
    import signal, socket
    MiB = 1 << 20
    CONTEXT = 312

    def used():
        free, total = memory()
        return (total - free) // MiB

    def ok(result):
        assert result == 0, result

    def becomes(expected):
        # At most a second until the keeper looks unasked; then it has to stay.
        deadline = time.monotonic() + 5
        while used() != expected:
            assert time.monotonic() < deadline, (used(), expected)
            time.sleep(0.01)
        time.sleep(1.2)
        assert used() == expected, (used(), expected)

    class Location(Structure):
        _fields_ = [("type", c_int), ("id", c_int)]

    class Prop(Structure):
        _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("win32", c_void_p),
                    ("flags", c_ubyte * 8)]

    def create(size):
        handle = c_uint64()
        ok(cuda.cuMemCreate(byref(handle), c_size_t(size), byref(Prop(1, 1, Location(1, 0))), c_uint64(0)))
        return handle

    def export(handle):
        fd = c_int()
        ok(cuda.cuMemExportToShareableHandle(byref(fd), handle, 1, c_uint64(0)))
        return fd.value

    def import_and_map(fd, size):
        handle, address = c_uint64(), c_uint64()
        ok(cuda.cuMemImportFromShareableHandle(byref(handle), c_void_p(fd), 1))
        ok(cuda.cuMemAddressReserve(byref(address), c_size_t(size), c_size_t(0), c_uint64(0), c_uint64(0)))
        ok(cuda.cuMemMap(address, c_size_t(size), c_size_t(0), handle, c_uint64(0)))
        ok(cuda.cuMemRelease(handle))
        return address

    here, there = socket.socketpair()
"""


def run(machine, code):
    done = machine.python(textwrap.dedent(COMMON) + textwrap.dedent(code), mem="4000MiB")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.waits
def test_memory_opened_by_an_ipc_handle_counts_once_and_goes_with_the_last_who_has_it(machine):
    run(machine, """
        maker = os.fork()
        if maker == 0:
            context()
            p, handle = c_uint64(), (c_ubyte * 64)()
            ok(cuda.cuMemAlloc_v2(byref(p), c_size_t(600 * MiB)))
            ok(cuda.cuIpcGetMemHandle(handle, p))
            there.send(bytes(handle))
            signal.pause()
        data = here.recv(64)
        context()
        handle, p = (c_ubyte * 64).from_buffer_copy(data), c_uint64()
        class Handle64(Structure):
            _fields_ = [("bytes", c_ubyte * 64)]
        ok(cuda.cuIpcOpenMemHandle_v2(byref(p), Handle64(handle), 1))
        becomes(2 * CONTEXT + 600)
        os.kill(maker, signal.SIGKILL)
        os.waitpid(maker, 0)
        becomes(CONTEXT + 600)
        ok(cuda.cuIpcCloseMemHandle(p))
        becomes(CONTEXT)
        """)


@pytest.mark.waits
def test_memory_imported_by_a_descriptor_counts_once_and_goes_with_the_last_who_has_it(machine):
    run(machine, """
        maker = os.fork()
        if maker == 0:
            context()
            handle = create(600 * MiB)
            socket.send_fds(there, [b"x"], [export(handle)])
            signal.pause()
        fd = socket.recv_fds(here, 1, 1)[1][0]
        context()
        address = import_and_map(fd, 600 * MiB)
        os.close(fd)
        becomes(2 * CONTEXT + 600)
        os.kill(maker, signal.SIGKILL)
        os.waitpid(maker, 0)
        becomes(CONTEXT + 600)
        ok(cuda.cuMemUnmap(address, c_size_t(600 * MiB)))
        becomes(CONTEXT)
        """)


def test_two_importers_of_one_memory_count_it_once(machine):
    run(machine, """
        ends, children = [], []
        for i in range(2):
            mine, its = socket.socketpair()
            children.append(os.fork())
            if children[-1] == 0:
                fd = socket.recv_fds(its, 1, 1)[1][0]
                context()
                import_and_map(fd, 600 * MiB)
                its.send(b"y")
                signal.pause()
            ends.append(mine)
        context()
        handle = create(600 * MiB)
        fd = export(handle)
        for end in ends:
            socket.send_fds(end, [b"x"], [fd])
            assert end.recv(1) == b"y"
        becomes(3 * CONTEXT + 600)
        for child in children:
            os.kill(child, signal.SIGKILL)
        """)


def test_external_memory_made_in_the_same_process_counts_once(machine):
    run(machine, """
        context()
        handle = create(600 * MiB)
        fd = export(handle)
        class Description(Structure):
            _fields_ = [("type", c_int), ("fd", c_uint64), ("second", c_uint64), ("size", c_uint64), ("flags", c_uint),
                        ("reserved", c_uint * 16)]
        external = c_void_p()
        ok(cuda.cuImportExternalMemory(byref(external), byref(Description(1, fd, 0, 600 * MiB))))
        becomes(CONTEXT + 600)
        ok(cuda.cuDestroyExternalMemory(external))
        ok(cuda.cuMemRelease(handle))
        becomes(CONTEXT)
        """)


def test_what_several_have_does_not_make_room_for_more(machine):
    """600 MiB that two have are 600 MiB: the limit is not reached sooner, and not later."""
    run(machine, """
        maker = os.fork()
        if maker == 0:
            context()
            handle = create(600 * MiB)
            socket.send_fds(there, [b"x"], [export(handle)])
            signal.pause()
        fd = socket.recv_fds(here, 1, 1)[1][0]
        context()
        import_and_map(fd, 600 * MiB)
        becomes(2 * CONTEXT + 600)
        left = 4000 - 2 * CONTEXT - 600
        p = c_uint64()
        assert cuda.cuMemAlloc_v2(byref(p), c_size_t((left + 2) * MiB)) == 2
        ok(cuda.cuMemAlloc_v2(byref(p), c_size_t(left * MiB)))
        becomes(4000)
        os.kill(maker, signal.SIGKILL)
        """)
