"""Memory that several processes have counts once, whoever ends first: with the keeper of a real `ration run`, since what a
process has of another one only the driver's own numbers show. A context takes 312 MiB on this simulated card."""
import os
import select
import subprocess
import sys
import textwrap

import pytest

from driver_tree import run as run_checked
from run_machine import CUDA, needs_no_grant_here

pytestmark = needs_no_grant_here
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


# ---- what a maker has taken stays charged while others have it ----------------------------------------------------------------
# Measured from outside: the driver counts memory once that several processes have.

OPENERS = """
    class Handle64(Structure):
        _fields_ = [("bytes", c_ubyte * 64)]

    def allocate(size):
        p = c_uint64()
        return cuda.cuMemAlloc_v2(byref(p), c_size_t(size)), p

    def fill(seconds):
        # 16 MiB at a time, until there was nothing left for so long.
        until, got = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            if allocate(16 * MiB)[0] == 0:
                got += 16
                until = time.monotonic() + seconds
        return got

    def offer(size):
        r, p = allocate(size)
        ok(r)
        handle = (c_ubyte * 64)()
        ok(cuda.cuIpcGetMemHandle(handle, p))
        return p, bytes(handle)

    def open_handle(data):
        p = c_uint64()
        ok(cuda.cuIpcOpenMemHandle_v2(byref(p), Handle64((c_ubyte * 64).from_buffer_copy(data)), 1))
        return p

    # A child that answers to lines; `body` is a generator that begins with a context and yields answers.
    class Child:
        def __init__(self, body, *args):
            self.end, its = socket.socketpair()
            self.pid = os.fork()
            if self.pid == 0:
                try:
                    for answer in body(*args):
                        its.send(answer)
                        its.recv(1)
                finally:
                    os._exit(0)
            its.close()
        def answer(self):
            return self.end.recv(64)
        def go(self):
            self.end.send(b"g")
        def kill(self):
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            self.pid = 0

    def maker(ending):
        c = context()
        p, handle = offer(600 * MiB)
        yield handle
        if ending == "free":
            ok(cuda.cuMemFree_v2(p))
        elif ending == "context":
            ok(cuda.cuCtxDestroy_v2(c))
        yield b"x"

    def opener(data):
        context()
        p = open_handle(data)
        yield b"x"
        ok(cuda.cuIpcCloseMemHandle(p))
        yield b"x"

    def say(*words):
        print(*words, flush=True)
"""


def outside(machine):
    """MiB of the GPU that are taken, as the driver's own tool says where nothing is granted."""
    return int(run_checked(machine.tree.path / "bin/nvidia-smi", "-i", "0", "--query-gpu=memory.used",
                           "--format=csv,noheader,nounits").stdout)


class Watched:
    """A program in a run of 4000 MiB; most is what it had at most while until() was called."""
    def __init__(self, machine, code):
        text = textwrap.dedent(CUDA) + textwrap.dedent(COMMON) + textwrap.dedent(OPENERS) + textwrap.dedent(code)
        self.machine, self.most = machine, 0
        self.process = machine.start(sys.executable, "-c", text, mem="4000MiB", stdin=subprocess.PIPE)

    def until(self, word):
        while not select.select([self.process.stdout], [], [], .005)[0]:
            self.most = max(self.most, outside(self.machine))
        line = self.process.stdout.readline().split()
        assert line and line[0] == word, (line, self.process.stderr.read())
        return [int(number) for number in line[1:]]

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        self.go()
        out, err = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, out + err


ENDINGS = """
    m = Child(maker, "%(ending)s")
    data = m.answer()
    openers = [Child(opener, data) for _ in range(%(openers)d)]
    for o in openers:
        assert o.answer() == b"x"
    context()
    fill(.1)
    say("full")
    %(end)s
    fill(.5)
    time.sleep(1.2)
    fill(.3)
    say("again")
    sys.stdin.readline()
    %(last)s
    time.sleep(1.2)
    say("left", fill(.3))
    sys.stdin.readline()
    for child in [m, *openers]:
        child.kill()
"""
KILLED, ENDED = "m.kill()", "m.go(); m.answer()"
CLOSED, DIED = "[(o.go(), o.answer()) for o in openers]", "[o.kill() for o in openers]"


@pytest.mark.waits
@pytest.mark.parametrize("openers", [1, 3])
@pytest.mark.parametrize("ending, end, last", [("kill", KILLED, CLOSED), ("kill", KILLED, DIED), ("free", ENDED, CLOSED),
                                               ("free", ENDED, DIED), ("context", ENDED, CLOSED)])
def test_what_others_have_open_stays_charged_without_its_maker(machine, ending, end, last, openers):
    """Contexts of maker, openers and the main program: 312 each. The main program fills what is left of 4000, again and again:
    after the end of the maker, and after the last has closed what it had made."""
    watched = Watched(machine, ENDINGS % {"ending": ending, "openers": openers, "end": end, "last": last})
    watched.until("full")
    watched.until("again")
    assert watched.most <= 4000
    # What the maker had beside, its context, was had again.
    assert 4000 - 16 < outside(machine) <= 4000
    watched.go()
    left, = watched.until("left")
    closed = 600 + (312 * openers if last == DIED else 0)
    assert closed - 16 < left < closed + 16, left
    assert watched.most <= 4000
    watched.end()


ELSEWHERE = """
    def apart(ending):
        # In a pid namespace of its own, with a child that never speaks to the GPU.
        assert CDLL(None).unshare(0x20000000) == 0    # CLONE_NEWPID
        its = os.fork()
        if its == 0:
            c = context()
            p, handle = offer(600 * MiB)
            if os.fork() == 0:
                signal.pause()
            there.send(handle)
            signal.pause()
        yield here.recv(64)
        os.kill(its, signal.SIGKILL)
        os.waitpid(its, 0)
        yield b"x"
"""


@pytest.mark.waits
@pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace needs root")
def test_maker_of_another_pid_namespace_with_a_child(machine):
    watched = Watched(machine, textwrap.dedent(ELSEWHERE) + textwrap.dedent(
        ENDINGS % {"ending": "kill", "openers": 2, "end": ENDED, "last": CLOSED}).replace("Child(maker", "Child(apart"))
    watched.until("full")
    watched.until("again")
    assert 4000 - 16 < outside(machine) <= 4000
    watched.go()
    left, = watched.until("left")
    assert 600 - 16 < left < 600 + 16, left
    assert watched.most <= 4000
    watched.end()


SHAREABLE = """
    def creator(ending):
        context()
        handle = create(600 * MiB)
        fd = export(handle)
        socket.send_fds(there, [b"x"], [fd])
        os.close(fd)
        yield b"x"
        ok(cuda.cuMemRelease(handle))
        yield b"x"

    def importer(fd):
        context()
        address = import_and_map(fd, 600 * MiB)
        os.close(fd)
        yield b"x"
        ok(cuda.cuMemUnmap(address, c_size_t(600 * MiB)))
        yield b"x"
"""


@pytest.mark.waits
@pytest.mark.parametrize("ending, end", [("kill", KILLED), ("release", ENDED)])
def test_what_others_imported_by_a_descriptor_stays_charged(machine, ending, end):
    """As above. Nobody keeps the descriptor, which might hold the memory, too."""
    code = textwrap.dedent(ENDINGS % {"ending": ending, "openers": 1, "end": end, "last": CLOSED})
    code = code.replace("Child(maker", "Child(creator").replace("Child(opener", "Child(importer")
    code = code.replace('say("full")', 'os.close(data)\nsay("full")').replace("data = m.answer()", "m.answer(); data = socket.recv_fds(here, 1, 1)[1][0]")
    watched = Watched(machine, textwrap.dedent(SHAREABLE) + code)
    watched.until("full")
    watched.until("again")
    assert 4000 - 16 < outside(machine) <= 4000
    watched.go()
    watched.until("left")
    assert 4000 - 16 < outside(machine) <= 4000
    assert watched.most <= 4000
    watched.end()


@pytest.mark.waits
def test_more_regions_than_there_are_records_for(machine):
    """63 for a grant of one GPU; what is beyond counts by its sum."""
    run(machine, textwrap.dedent(OPENERS) + textwrap.dedent("""
        def makes():
            context()
            yield b"".join(offer(16 * MiB)[1] for _ in range(70))
        m = Child(makes)
        data = b""
        while len(data) < 70 * 64:
            data += m.end.recv(70 * 64)
        context()
        opened = [open_handle(data[i:i + 64]) for i in range(0, len(data), 64)]
        becomes(2 * CONTEXT + 70 * 16)
        m.kill()
        becomes(CONTEXT + 70 * 16)
        for p in opened:
            ok(cuda.cuIpcCloseMemHandle(p))
        becomes(CONTEXT)
        """))


@pytest.mark.waits
def test_context_that_ends_closes_what_was_opened_in_it(machine):
    run(machine, textwrap.dedent(OPENERS) + textwrap.dedent("""
        m = Child(maker, "")
        data = m.answer()
        c = context()
        first = open_handle(data)
        becomes(2 * CONTEXT + 600)
        ok(cuda.cuCtxDestroy_v2(c))
        context()
        becomes(2 * CONTEXT + 600)
        second = open_handle(data)
        m.kill()
        becomes(CONTEXT + 600)
        ok(cuda.cuIpcCloseMemHandle(second))
        becomes(CONTEXT)
        """))
