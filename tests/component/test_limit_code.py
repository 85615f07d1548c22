"""Code, stacks and heaps of kernels at the limit: what does not fit is refused, as on a full GPU, and takes nothing."""
import pytest

from test_run import machine, pytestmark    # noqa: F401 (fixture, skip)

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
def test_module_that_does_not_fit_is_refused(machine, how):    # noqa: F811
    done = machine.python(BEGIN + f"""
    print(load(64, "{how}"), settles(40), load(20, "{how}"), settles(20), load(64, "{how}"), settles(20))
    """)
    assert done.stdout.split() == ["2", "True", "0", "True", "2", "True"], done.stderr


def test_heap_that_does_not_fit_is_refused_and_the_one_before_stays(machine):    # noqa: F811
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


def test_program_at_its_limit_gets_no_module_at_all(machine):    # noqa: F811
    done = machine.python(BEGIN + """
    assert cuda.cuMemAlloc_v2(byref(p), c_size_t(40 << 20)) == 0
    print(load(2), settles(0), cuda.cuMemFree_v2(p), load(2), settles(38))
    """)
    assert done.stdout.split() == ["2", "True", "0", "0", "True"], done.stderr
