"""The limit holds while everything moves: programs that allocate and free in many threads and processes at their limit,
that make contexts, launch graphs with memory of their own, and live in pid namespaces of their own."""
import sys
import textwrap

import pytest

from driver_tree import BUILD
from run_machine import CUDA, SANDBOX, needs_no_grant_here

pytestmark = needs_no_grant_here
MIB = 1 << 20

CHURN = BUILD / "tests/component/limit-churn"
CONTEXT_MIB = 312      # of a V100: sim/ration-sim/models.c
LIMIT_MIB = 2154
PIECES = (LIMIT_MIB - CONTEXT_MIB) // 16


@pytest.mark.waits
@pytest.mark.parametrize("size_mib", [64, 700])
def test_threads_that_allocate_and_free_at_the_limit_gain_nothing(machine, size_mib):
    assert machine.run(CHURN, 16, 3, size_mib).stdout == f"{PIECES}\n"


@pytest.mark.waits
def test_processes_that_allocate_and_free_at_the_limit_gain_nothing(machine):
    churns = " & ".join([f"{CHURN} 1 2 700 >/dev/null"] * 4)
    done = machine.run("sh", "-c", f"{churns} & wait; exec {CHURN} 1 0 1")
    assert done.stdout == f"{PIECES}\n", done.stderr


# --- programs in pid namespaces of their own ---
HOLD = f"""
    context()
    pointers = []
    while True:
        p = c_uint64()
        if cuda.cuMemAlloc_v2(byref(p), c_size_t({64 * MIB})):
            break
        pointers.append(p)
    print(len(pointers), (memory()[1] - memory()[0]) >> 20, flush=True)
    sys.stdin.read()
    """
COUNT = HOLD.replace("sys.stdin.read()", "")


def sandboxed(*before):
    """A program for `sh -c` in the run: what it may use, in a sandbox, killed there, and what is left."""
    hold = textwrap.dedent(CUDA) + textwrap.dedent(HOLD)
    count = textwrap.dedent(CUDA) + textwrap.dedent(COUNT)
    return f"""
        import subprocess, sys, time
        before, hold, count = {list(before)!r}, {hold!r}, {count!r}
        inner = subprocess.Popen([*before, sys.executable, '-c', hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        print(inner.stdout.readline().decode().strip())
        inner.kill()
        inner.wait()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            done = subprocess.run([*before, sys.executable, '-c', count], stdin=subprocess.DEVNULL, capture_output=True)
            if done.stdout.split()[0] == b'{(LIMIT_MIB - CONTEXT_MIB) // 64}':
                break
            time.sleep(.2)
        print(done.stdout.decode().strip())
        """


@pytest.mark.waits
@pytest.mark.parametrize("before", [(), SANDBOX, [*SANDBOX, "--mount-proc"]], ids=["none", "pids", "pids and proc"])
def test_program_in_a_sandbox_is_limited_and_its_memory_is_given_back(machine, before):
    done = machine.run(sys.executable, "-c", textwrap.dedent(sandboxed(*before)))
    pieces = (LIMIT_MIB - CONTEXT_MIB) // 64
    said = f"{pieces} {pieces * 64 + CONTEXT_MIB}"
    assert done.stdout.splitlines() == [said, said], done.stderr


# --- contexts ---

CONTEXTS = """
    def make():
        c = c_void_p()
        return cuda.cuCtxCreate_v2(byref(c), 0, 0), c
    assert cuda.cuInit(0) == 0
    contexts = []
    for i in range(40):
        r, c = make()
        if r:
            break
        contexts.append(c)
    print(len(contexts), r, memory()[0] >> 20)
    """


@pytest.mark.parametrize("limit_mib, contexts", [(400, 1), (2154, 6), (313, 1)])
def test_contexts_are_refused_as_a_full_gpu_refuses_them(machine, limit_mib, contexts):
    done = machine.python(CONTEXTS, mem=f"{limit_mib}MiB")
    assert done.stdout == f"{contexts} 2 {limit_mib - contexts * CONTEXT_MIB}\n", done.stderr


def test_context_that_is_refused_leaves_room_as_it_was_and_one_that_ends_gives_it_back(machine):
    done = machine.python(textwrap.dedent(CONTEXTS) + textwrap.dedent("""
        p, active, flags, primary = c_uint64(), c_int(), c_uint(), c_void_p()
        assert cuda.cuDevicePrimaryCtxRetain(byref(primary), 0) == 2
        assert cuda.cuDevicePrimaryCtxGetState(0, byref(flags), byref(active)) == 0 and not active.value
        left = memory()[0]
        assert cuda.cuMemAlloc_v2(byref(p), c_size_t(left & ~0x1fffff)) == 0 and make()[0] == 2
        assert cuda.cuMemFree_v2(p) == 0 and memory()[0] == left
        assert cuda.cuCtxDestroy_v2(contexts.pop()) == 0
        cuda.cuCtxSetCurrent(contexts[0])
        assert memory()[0] == left + (312 << 20), memory()
        assert cuda.cuDevicePrimaryCtxRetain(byref(primary), 0) == 0
        assert make()[0] == 2
        assert cuda.cuDevicePrimaryCtxRelease_v2(0) == 0
        assert make()[0] == 0
        for c in contexts:
            assert cuda.cuCtxDestroy_v2(c) == 0
        print("ok")
        """))
    assert done.stdout.endswith("ok\n"), done.stderr


@pytest.mark.waits
def test_contexts_of_several_processes_stay_within_the_limit(machine):
    """The first shows what one takes; then five more fit into 2154 MiB, whoever makes them."""
    each = textwrap.dedent(CUDA) + "assert cuda.cuInit(0) == 0\nc = c_void_p()\n" \
        "print(cuda.cuCtxCreate_v2(byref(c), 0, 0), flush=True)\nsys.stdin.read()\n"
    done = machine.run(sys.executable, "-c", textwrap.dedent(f"""
        import subprocess, sys
        start = lambda: subprocess.Popen([sys.executable, "-c", {each!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        first = start()
        assert first.stdout.readline() == b"0\\n"
        others = [start() for i in range(12)]
        print(sorted(int(p.stdout.readline()) for p in others))
        """))
    assert done.stdout == f"{[0] * 5 + [2] * 7}\n", done.stderr


# --- free memory is right at once ---

def test_free_memory_is_right_after_the_end_of_what_no_call_shows(machine):
    done = machine.python("""
        first, second, left = context(), c_void_p(), memory()[0]
        assert cuda.cuCtxCreate_v2(byref(second), 0, 0) == 0
        assert memory()[0] < left
        assert cuda.cuCtxDestroy_v2(second) == 0
        cuda.cuCtxSetCurrent(first)
        assert memory()[0] == left
        image = b'{"rationSimModule": 1, "memoryMiB": 4, "functions": {"k": {"us": 1}}}'
        at_once = 0
        for _ in range(5):
            module = c_void_p()
            assert cuda.cuModuleLoadData(byref(module), image) == 0
            deadline = time.monotonic() + 5
            while memory()[0] == left:
                assert time.monotonic() < deadline
            assert cuda.cuModuleUnload(module) == 0
            at_once += memory()[0] == left    # it waits for the keeper, 50 ms at most
            while memory()[0] != left:
                assert time.monotonic() < deadline, (memory()[0], left)
        assert at_once > 0
        print("ok")
        """)
    assert done.stdout == "ok\n", done.stderr


def test_free_memory_is_right_after_the_end_of_an_ipc_import(machine):
    """The maker has ended, so what it let others have counts until the import is closed."""
    maker = textwrap.dedent(CUDA) + textwrap.dedent("""
        context()
        p, handle = c_uint64(), (c_ubyte * 64)()
        assert cuda.cuMemAlloc_v2(byref(p), c_size_t(256 << 20)) == 0
        assert cuda.cuIpcGetMemHandle(handle, p) == 0
        print(bytes(handle).hex(), flush=True)
        sys.stdin.read()
        """)
    done = machine.python(f"""
        import subprocess
        class Handle(Structure):
            _fields_ = [("bytes", c_ubyte * 64)]
        context()
        left, at_once = memory()[0], 0
        for _ in range(3):
            maker = subprocess.Popen([sys.executable, "-c", {maker!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            handle = Handle.from_buffer_copy(bytes.fromhex(maker.stdout.readline()))
            p = c_uint64()
            assert cuda.cuIpcOpenMemHandle_v2(byref(p), handle, 1) == 0
            maker.kill()
            maker.wait()
            deadline = time.monotonic() + 30
            while memory()[0] != left - (256 << 20):
                assert time.monotonic() < deadline, (memory()[0], left)
                time.sleep(.01)
            assert cuda.cuIpcCloseMemHandle(p) == 0
            at_once += memory()[0] == left    # it waits for the keeper, 50 ms at most
            while memory()[0] != left:
                assert time.monotonic() < deadline, (memory()[0], left)
        assert at_once > 0
        print("ok")
        """)
    assert done.stdout == "ok\n", done.stderr


# --- what is charged and not taken ---

# Arrays go into the holes of other small memory, which nobody is told: they are charged blocks of their own. For a sample
# at rest that is 100 MiB that the driver does not have; the program has 312 MiB of overhead.
SURPLUS = """
    assert cuda.cuInit(0) == 0
    class Descriptor(Structure):
        _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", c_uint)]
    def allocate(size):
        p = c_uint64()
        return p if cuda.cuMemAlloc_v2(byref(p), c_size_t(size)) == 0 else None
    def array():
        a = c_void_p()
        assert cuda.cuArrayCreate_v2(byref(a), byref(Descriptor(512, 512, 0x20, 1))) == 0
        return a
    def make_surplus():
        global arrays, rest
        pieces = [allocate(1 << 20) for i in range(200)]
        holes, rest = pieces[::2], pieces[1::2]
        for p in holes:
            assert cuda.cuMemFree_v2(p) == 0
        arrays = [array() for i in range(100)]
    """

END_OF_SURPLUS = """
    context()
    make_surplus()
    time.sleep(%s)
    assert all(cuda.cuArrayDestroy(a) == 0 for a in arrays) and all(cuda.cuMemFree_v2(p) == 0 for p in rest)
    count = 0
    while allocate(16 << 20):
        count += 1
    print(count)
    """

ON_TWO_GPUS = """
    for first in 0, 1:
        contexts = [context(first)]
        make_surplus()
        contexts.append(context(1 - first))
        count = sum(allocate(16 << 20) is not None for i in range(20))
        time.sleep(1)
        while allocate(16 << 20):
            count += 1
        print(count)
        assert all(cuda.cuCtxDestroy_v2(c) == 0 for c in contexts)
    """


@pytest.mark.waits
@pytest.mark.parametrize("seconds", [0, 2])
def test_what_is_charged_and_not_taken_hides_no_overhead(machine, seconds):
    done = machine.python(SURPLUS + END_OF_SURPLUS % seconds)
    assert done.stdout == f"{PIECES}\n", done.stderr


@pytest.mark.waits
def test_what_is_charged_and_not_taken_on_a_gpu_costs_nothing_on_another(machine):
    """By whichever of the two it had such charges first."""
    done = machine.python(SURPLUS + ON_TWO_GPUS, args=["--gpu", "0,1"])
    assert done.stdout == f"{PIECES}\n{PIECES}\n", done.stderr
