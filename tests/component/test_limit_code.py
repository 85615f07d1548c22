"""Code, stacks and heaps of kernels at the limit: what does not fit is refused, as on a full GPU, and takes nothing."""
import textwrap

import pytest

from run_machine import CUDA, SANDBOX, needs_no_grant_here

pytestmark = needs_no_grant_here

# 2154 MiB less the context of 312 (a V100: sim/ration-sim/models.c) is 1842; with 1802 allocated 40 are left.
BEGIN = """
    cuda.cuCtxSetLimit.argtypes = [c_int, c_size_t]
    cuda.cuCtxGetLimit.argtypes = [c_void_p, c_int]
    context()
    p = c_uint64()
    assert cuda.cuMemAlloc_v2(byref(p), c_size_t(1802 << 20)) == 0
    def left():
        free, total = memory()
        return free >> 20
    def settles(mib):
        deadline = time.monotonic() + 5
        while left() != mib and time.monotonic() < deadline:
            time.sleep(.01)
        return left() == mib
    def load(mib, how="cuModuleLoadData"):
        module, image = c_void_p(), b'{"rationSimModule": 1, "memoryMiB": %d, "functions": {"f": {"us": 1}}}' % mib
        if how == "cuModuleLoadDataEx":
            return getattr(cuda, how)(byref(module), image, 0, None, None)
        return getattr(cuda, how)(byref(module), image)
    """


@pytest.mark.parametrize("how", ["cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary"])
def test_module_that_does_not_fit_is_refused(machine, how):
    done = machine.python(BEGIN + f"""
    print(load(64, "{how}"), settles(40), load(20, "{how}"), settles(20), load(64, "{how}"), settles(20))
    """)
    assert done.stdout.split() == ["2", "True", "0", "True", "2", "True"], done.stderr


def test_heap_that_does_not_fit_is_refused_and_the_one_before_stays(machine):
    """The default is 8 MiB, which a context has already: sim/libcuda/context.c."""
    done = machine.python(BEGIN + """
    def heap(mib):
        return cuda.cuCtxSetLimit(2, mib << 20)
    def now():
        value = c_size_t()
        assert cuda.cuCtxGetLimit(byref(value), 2) == 0
        return value.value >> 20
    print(heap(108), now(), settles(40), heap(28), now(), settles(20), heap(8), now(), settles(40))
    """)
    assert done.stdout.split() == ["2", "8", "True", "0", "28", "True", "0", "8", "True"], done.stderr


def test_program_at_its_limit_gets_no_module_at_all(machine):
    done = machine.python(BEGIN + """
    assert cuda.cuMemAlloc_v2(byref(p), c_size_t(40 << 20)) == 0
    print(load(2), settles(0), cuda.cuMemFree_v2(p), load(2), settles(38))
    """)
    assert done.stdout.split() == ["2", "True", "0", "0", "True"], done.stderr


@pytest.mark.waits
def test_turn_of_a_program_that_is_killed_in_a_pid_namespace_of_its_own_is_given_on(machine):
    """Only the keeper sees its end. It holds no memory: its context is the run's first, which is not charged."""
    inner = textwrap.dedent(CUDA) + textwrap.dedent("""
        import threading
        image = b'{"rationSimModule": 1, "memoryMiB": 2000, "functions": {"f": {"us": 1}}}'
        ctx = context()
        def load():
            cuda.cuCtxSetCurrent(ctx)
            while cuda.cuModuleLoadData(byref(c_void_p()), image):
                print("refused", flush=True)
        for i in range(4):
            threading.Thread(target=load).start()
        """)
    done = machine.python(f"""
        import subprocess
        inner = subprocess.Popen([*{SANDBOX}, sys.executable, "-c", {inner!r}], stdout=subprocess.PIPE)
        inner.stdout.readline()
        inner.kill()
        inner.wait()
        c, begin = c_void_p(), time.monotonic()
        assert cuda.cuInit(0) == 0
        while cuda.cuCtxCreate_v2(byref(c), 0, 0) and time.monotonic() - begin < 20:    # its module is there until it has ended
            time.sleep(.01)
        assert cuda.cuMemAlloc_v2(byref(c_uint64()), c_size_t(1500 << 20)) == 0    # where there is plenty no turn is needed
        begin = time.monotonic()
        print(cuda.cuModuleLoadData(byref(c_void_p()), b'{{"rationSimModule": 1, "memoryMiB": 20, "functions": {{}}}}'))
        print(time.monotonic() - begin < 20)
        """)
    assert done.stdout.split() == ["0", "True"], done.stdout + done.stderr


# The test is the keeper, by the layout in docs/internals/grant.md: the first card's overhead, its generation, looked_for and
# known_for; look_wanted of the usage file.
KEEPER = """
import fcntl, mmap, struct, threading
grant, usage = (mmap.mmap(os.open(path, os.O_RDWR), 0) for path in
                (os.environ["RATION_GRANT"], os.path.dirname(os.environ["RATION_GRANT"]) + "/usage"))
LIVE = 2520 + 64 * 256

# A living keeper holds a lock on the usage file.
def live():
    global lock
    lock = os.open(os.path.dirname(os.environ["RATION_GRANT"]) + "/usage", os.O_RDONLY)
    fcntl.fcntl(lock, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))

def sample(overhead, known):
    wanted, = struct.unpack_from("<I", usage, 28)
    if known:
        struct.pack_into("<Q", grant, LIVE, overhead)
        struct.pack_into("<Q", grant, LIVE + 112, 1 << 32 | wanted)
    generation, = struct.unpack_from("<Q", grant, LIVE + 8)
    struct.pack_into("<Q", grant, LIVE + 8, generation + 1)
    struct.pack_into("<Q", grant, LIVE + 24, wanted)

# When the module has been loaded and a sample asked for, calls come and go for a while, so that the samples tell nothing;
# then they do.
def keep():
    before = usage[28:32]
    while usage[28:32] == before:
        time.sleep(.0001)
    begin = time.monotonic()
    while not done.wait(.001):
        told = time.monotonic() > begin + .1
        sample(64 * MiB if told else 0, told)
done = threading.Event()
"""


def test_module_waits_for_a_sample_that_can_tell_what_it_took(granted):
    """Samples during which calls of the container began or ended leave open what the module took. The container was above its limit
    for a tenth of a second; then it rests for as long, since a neighbour may want that memory."""
    granted.script(KEEPER, """
        live()
        sample(0, True)
        alloc(2114 * MiB)
        keeper = threading.Thread(target=keep)
        image = b'{"rationSimModule": 1, "memoryMiB": 64, "functions": {"f": {"us": 1}}}'
        keeper.start()
        begin = time.monotonic()
        answer = cu.cuModuleLoadData(byref(c_void_p()), image)
        took = time.monotonic() - begin
        done.set()
        keeper.join()
        assert answer == OOM, answer
        assert took >= .2, took
    """)


@pytest.mark.parametrize("lives, answer", [(True, 2), (False, 0)])
def test_module_is_undone_while_a_keeper_lives_that_cannot_tell(granted, lives, answer):
    """Where none lives, what is charged decides."""
    granted.script(KEEPER, f"""
        if {lives}:
            live()
        sample(0, True)
        alloc(2114 * MiB)
        def keep():
            while not done.wait(.001):
                sample(0, False)
        keeper = threading.Thread(target=keep)
        keeper.start()
        image = b'{{"rationSimModule": 1, "memoryMiB": 24, "functions": {{"f": {{"us": 1}}}}}}'
        answer = cu.cuModuleLoadData(byref(c_void_p()), image)
        done.set()
        keeper.join()
        assert answer == {answer}, answer
    """)
