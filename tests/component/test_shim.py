"""The substitutes for the driver's libraries by themselves: what they export, how they pass calls on, and how they
behave where there is no grant. The driver behind them is one that does nothing (fake_driver.py)."""
import importlib.util
import re
import subprocess

import pytest

import fake_driver
import grants
import hook_rows
from shim_programs import (
    BUILD, CARD, LIBRARIES, SHIM, hooked, needs_no_grant_here, nvml_granted, python, succeeds, with_driver)

NO_DEVICE, NOT_INITIALIZED, NOT_FOUND, NOT_SUPPORTED = 100, 3, 500, 801
pytestmark = needs_no_grant_here


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A grant for the driver that does nothing."""
    folder = tmp_path_factory.mktemp("driver")
    return grants.write(folder, *[fake_driver.build(folder, name) for name in LIBRARIES], [CARD])


def readelf(*flags):
    return subprocess.run(["readelf", *flags], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("library", LIBRARIES)
def test_exactly_the_symbols_of_the_driver_are_exported(library):
    table = readelf("--dyn-syms", "-W", SHIM / library)
    exported = {fields[7].split("@")[0] for fields in (line.split() for line in table.splitlines())
                if len(fields) == 8 and fields[4] == "GLOBAL" and fields[6] not in ("UND", "ABS")}
    assert exported == set(fake_driver.symbols(library))


def test_the_lists_are_those_of_the_drivers():
    """637 symbols of libcuda 13.0, and 92 that drivers from 470 to CUDA 13.5 have besides; 412 of NVML, the text of its
    errors, what nvidia-smi asks for, and 27 of other drivers."""
    assert len(fake_driver.symbols("libcuda.so.1")) == 637 + 92
    assert len(fake_driver.symbols("libnvidia-ml.so.1")) == 412 + 2 + 27


@pytest.mark.parametrize("library", LIBRARIES)
def test_nothing_runs_at_load_time_and_nothing_unloads_it(library):
    sections = readelf("-SW", SHIM / library)
    assert not re.search(r"\.(init|fini|init_array|fini_array|ctors|dtors|preinit_array|tdata|tbss)\s", sections)
    dynamic = readelf("-dW", SHIM / library)
    assert "NODELETE" in dynamic and "BIND_NOW" in dynamic and "TEXTREL" not in dynamic and "STATIC_TLS" not in dynamic
    assert re.search(rf"\(SONAME\).*\[{re.escape(library)}\]", dynamic)
    assert set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)) == {"libc.so.6", "libdl.so.2"}
    assert "IFUNC" not in readelf("--dyn-syms", "-W", SHIM / library)


@pytest.mark.parametrize("library", LIBRARIES)
def test_it_loads_with_a_libc_from_2012(library):
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", readelf("-VW", SHIM / library))
    assert versions and max((int(a), int(b)) for a, b in versions) <= (2, 17)


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_symbol_reaches_the_function_of_its_own_name(library, plain):
    names = [name for name in fake_driver.symbols(library) if name not in hooked(library)]
    assert len(names) > 300
    out = succeeds(f"""
        lib = cuda if {library!r} == 'libcuda.so.1' else ml
        for name in {names!r}:
            print(name, getattr(lib, name)())
        """, plain)
    numbers = {name: 1000 + i for i, name in enumerate(fake_driver.symbols(library))}
    assert dict(line.split() for line in out.splitlines()) == {name: str(numbers[name]) for name in names}


ARGUMENTS = """
static int seen;
/* Twelve whole numbers, eight in vector registers, and a variadic call's count of those. */
int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, void *s,
    void **p, void **x)
{
    return f == (void *)1 && a == 2 && b == 3 && c == 4 && d == 5 && e == 6 && g == 7 && h == 8 && s == (void *)9 &&
        p == (void *)10 && x == (void *)11 ? 77 : 78;
}
int cuTexRefSetMipmapLevelClamp(double a, double b, double c, double d, double e, double f, double g, double h, int i)
{
    return a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8 && i == 9 ? 77 : 78;
}
"""


@pytest.mark.parametrize("call", ["first", "second"])
def test_all_arguments_survive_the_first_call(tmp_path, call):
    """The first call goes through the resolver, the second does not. Once each, in a process of its own."""
    grant = with_driver(tmp_path, ARGUMENTS)
    warm = "cuda.cuCtxSynchronize()" if call == "second" else ""
    for line in ("cuda.cuLaunchKernel(c_void_p(1), 2, 3, 4, 5, 6, 7, 8, c_void_p(9), c_void_p(10), c_void_p(11))",
                 "cuda.cuTexRefSetMipmapLevelClamp(*[c_double(i) for i in range(1, 9)], 9)"):
        assert succeeds(f"{warm}\nprint({line})", grant) == "77\n"


def test_a_symbol_that_this_driver_lacks_answers_not_supported(tmp_path):
    grant = with_driver(tmp_path, "", without=["cuLogsCurrent", "cuGetProcAddress_v2", "cuGetProcAddress"])
    out = succeeds("""
        p, s = c_void_p(), c_int(9)
        print(cuda.cuLogsCurrent(0, 0), cuda.cuGetProcAddress(b"cuInit", byref(p), 12000, c_uint64(0)),
              cuda.cuGetProcAddress_v2(b"cuInit", byref(p), 12000, c_uint64(0), byref(s)), s.value)
        """, grant)
    assert out.split() == [str(NOT_SUPPORTED), str(NOT_FOUND), "0", "1"]


def test_a_symbol_that_this_nvml_lacks_is_a_function_that_is_not_found(tmp_path):
    lacks = "int nvmlInitWithFlags(unsigned f) { started = 1; return 0; }"
    assert lacks in fake_driver.NVML_CARDS
    ml = fake_driver.build(tmp_path, "libnvidia-ml.so.1", fake_driver.NVML_CARDS.replace(lacks, ""),
                           without=["nvmlDeviceGetTemperature", "nvmlInitWithFlags"])
    succeeds("""
        assert ml.nvmlInitWithFlags(0) == 9    # a hook, and this driver cannot be started so
        assert ml.nvmlInit_v2() == 0
        assert ml.nvmlDeviceGetTemperature(c_void_p(100), 0, byref(c_int())) == 13
        """, grants.write(tmp_path, ml, ml, [CARD]))


@pytest.mark.parametrize("broken", ["absent", "empty", "damaged", "cut off", "other version", "no usage file",
                                    "driver absent", "driver is the shim"])
def test_without_a_grant_that_can_be_used_there_is_no_card(tmp_path, plain, broken):
    grant = tmp_path / "grant"
    data = bytearray(plain.read_bytes())
    (tmp_path / "usage").write_bytes((plain.parent / "usage").read_bytes())
    if broken == "empty":
        data = b""
    elif broken == "damaged":
        data[2520 + 96] ^= 1
    elif broken == "cut off":
        data = data[:5000]
    elif broken == "other version":
        data[8] = 2
    elif broken == "no usage file":
        (tmp_path / "usage").unlink()
    elif broken == "driver absent":
        data = grants.grant_bytes("/nowhere/libcuda.so.1", "/nowhere/libnvidia-ml.so.1", [CARD])
    elif broken == "driver is the shim":
        data = grants.grant_bytes(SHIM / "libcuda.so.1", SHIM / "libnvidia-ml.so.1", [CARD])
    if broken != "absent":
        grant.write_bytes(data)
    code = """
        n, p, s = c_int(), c_void_p(), c_char_p()
        assert cuda.cuInit(0) == 100
        assert cuda.cuMemAlloc_v2(byref(p), c_size_t(1)) == 3 and cuda.cuDeviceGet(byref(n), 0) == 3
        assert cuda.cuDriverGetVersion(byref(n)) == 0 and n.value >= 11000
        assert cuda.cuGetErrorName(100, byref(s)) == 0 and s.value == b"CUDA_ERROR_NO_DEVICE"
        assert cuda.cuGetErrorString(100, byref(s)) == 0 and s.value == b"no CUDA-capable device is detected"
        assert cuda.cuGetProcAddress(b"cuInit", byref(p), 12000, c_uint64(0)) == 0
        assert CFUNCTYPE(c_int, c_int)(p.value)(0) == 100
        for name, version, why in ((b"cuNoSuch", 12000, 1), (b"cuCtxCreate", 1000, 2), (b"-", 12000, 2)):
            p.value = 5
            assert cuda.cuGetProcAddress(name, byref(p), version, c_uint64(0)) == 500 and p.value == 5
            assert cuda.cuGetProcAddress_v2(name, byref(p), version, c_uint64(0), byref(n)) == 0
            assert n.value == why and not p.value
        ml.nvmlErrorString.restype = c_char_p
        assert ml.nvmlInit_v2() == ml.nvmlInit() == ml.nvmlInitWithFlags(0) == 9
        assert ml.nvmlErrorString(9) == b"Driver Not Loaded"
        assert ml.nvmlDeviceGetCount_v2(byref(n)) == 1
        """
    result = python(code, grant)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    log = tmp_path / "log"
    assert python(code, grant, {"RATION_LOG": str(log)}).returncode == 0
    assert "ration[" in log.read_text()


ERRORS = {    # cuda.h
    0: ("CUDA_SUCCESS", "no error"), 1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    3: ("CUDA_ERROR_NOT_INITIALIZED", "initialization error"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"), 801: ("CUDA_ERROR_NOT_SUPPORTED", "operation not supported")}


def test_without_a_driver_what_hooks_answer_has_names_and_texts(tmp_path):
    succeeds(f"""
        s = c_char_p(b"before")
        for code, (name, text) in {ERRORS!r}.items():
            assert cuda.cuGetErrorName(code, byref(s)) == 0 and s.value.decode() == name
            assert cuda.cuGetErrorString(code, byref(s)) == 0 and s.value.decode() == text
        for ask in cuda.cuGetErrorName, cuda.cuGetErrorString:
            s.value = b"before"
            assert ask(12345, byref(s)) == 1 and s.value is None
            assert ask(0, None) == 1
        assert cuda.cuDriverGetVersion(None) == 1
        ml.nvmlErrorString.restype = c_char_p
        assert [ml.nvmlErrorString(code) for code in (0, 1, 9)] == [b"Success", b"Uninitialized", b"Driver Not Loaded"]
        assert ml.nvmlErrorString(12345) == b"Unknown Error"
        """, tmp_path / "no grant")


def test_the_texts_of_errors_are_the_drivers_where_there_is_one(tmp_path):
    cuda = fake_driver.build(tmp_path, "libcuda.so.1", """
int cuGetErrorName(int code, const char **text) { *text = "name"; return 70 + code; }
int cuGetErrorString(int code, const char **text) { *text = "text"; return 80 + code; }
""")
    ml = fake_driver.build(tmp_path, "libnvidia-ml.so.1", 'const char *nvmlErrorString(int code) { return code ? "bad" : "good"; }')
    succeeds("""
        s = c_char_p()
        assert cuda.cuGetErrorName(5, byref(s)) == 75 and s.value == b"name"
        assert cuda.cuGetErrorString(6, byref(s)) == 86 and s.value == b"text"
        ml.nvmlErrorString.restype = c_char_p
        assert ml.nvmlErrorString(0) == b"good" and ml.nvmlErrorString(9) == b"bad"
        """, grants.write(tmp_path, cuda, ml, [CARD]))


def test_the_reason_is_said_where_it_was_asked_for(tmp_path):
    result = python("cuda.cuInit(0)", tmp_path / "grant", {"RATION_LOG": "stderr"})
    assert re.search(rf"^ration\[\d+\]: libcuda: no GPU for this process: grant {tmp_path}/grant: .+\n", result.stderr)
    assert python("cuda.cuInit(0)", tmp_path / "grant", {"RATION_LOG": "/nowhere/at/all"}).stderr == ""


LOOKUP = """
int real_init(unsigned flags) { return 4242; }
int cuInit(unsigned flags) { return 0; }
int cuNewInThisDriver(void) { return 56; }
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    extern int cuDriverGetVersion(void), cuLaunchKernel(void), cuLaunchKernel_ptsz(void);
    *status = 0;
    if (!strcmp(name, "cuInit"))
        *function = (void *)real_init; /* another entry than the exported one, as a driver may have it */
    else if (!strcmp(name, "cuDriverGetVersion"))
        *function = (void *)cuDriverGetVersion;
    else if (!strcmp(name, "cuLaunchKernel"))
        *function = flags & 2 ? (void *)cuLaunchKernel_ptsz : (void *)cuLaunchKernel;
    else if (!strcmp(name, "cuNewInThisDriver"))
        *function = (void *)cuNewInThisDriver;
    else if (!strcmp(name, "cuGetProcAddress"))
        *function = (void *)cuGetProcAddress_v2;
    else {
        *status = 1;
        *function = NULL;
        return 500;
    }
    return 0;
}
"""


def test_a_function_that_the_driver_hands_out_is_replaced_by_our_hook_of_it(tmp_path):
    out = succeeds("""
        def ask(name, version=12000, flags=0, lookup=cuda.cuGetProcAddress_v2):
            p, status = c_void_p(), c_int(9)
            r = lookup(name, byref(p), version, c_uint64(flags), byref(status))
            return r, status.value, p.value
        address = lambda name: cast(getattr(cuda, name), c_void_p).value
        assert ask(b"cuInit") == (0, 0, address("cuInit"))
        assert ask(b"cuDriverGetVersion") == (0, 0, address("cuDriverGetVersion"))
        assert ask(b"cuGetProcAddress") == (0, 0, address("cuGetProcAddress_v2"))
        assert ask(b"cuNoSuchName") == (500, 1, None)
        r, s, new = ask(b"cuNewInThisDriver")
        assert (r, s, CFUNCTYPE(c_int)(new)()) == (0, 0, 56)
        again = CFUNCTYPE(c_int, c_char_p, c_void_p, c_int, c_uint64, c_void_p)(ask(b"cuGetProcAddress")[2])
        assert ask(b"cuInit", lookup=again)[2] == address("cuInit")
        print(CFUNCTYPE(c_int)(ask(b"cuLaunchKernel")[2])(), CFUNCTYPE(c_int)(ask(b"cuLaunchKernel", flags=2)[2])())
        """, with_driver(tmp_path, LOOKUP))
    names = fake_driver.symbols("libcuda.so.1")
    assert out.split() == [str(1000 + names.index("cuLaunchKernel")), str(1000 + names.index("cuLaunchKernel_ptsz"))]


FOLDED = """
int refuse(void) { return 801; }
int cuParamSeti(void *f, int offset, unsigned value) __attribute__((alias("refuse")));
int cuDriverGetVersion(int *version) __attribute__((alias("refuse")));
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    *status = 0;
    *function = (void *)refuse;
    return 0;
}
"""


def test_functions_that_the_linker_folded_are_told_apart_by_name(tmp_path):
    grant = with_driver(tmp_path, FOLDED)
    succeeds("""
        p, s = c_void_p(), c_int()
        own = cast(cuda.cuDriverGetVersion, c_void_p).value
        assert cuda.cuGetProcAddress_v2(b"cuParamSeti", byref(p), 12000, c_uint64(0), byref(s)) == 0 and p.value != own
        assert cuda.cuGetProcAddress_v2(b"cuDriverGetVersion", byref(p), 12000, c_uint64(0), byref(s)) == 0
        assert p.value == own
        """, grant)


def cards_granted(tmp_path, *indices, limit=2154 << 20):
    cuda = fake_driver.build(tmp_path, "libcuda.so.1", fake_driver.CUDA_CARDS)
    return grants.write(tmp_path, cuda, cuda, [(fake_driver.uuid(i), f"00000000:{i:02x}:00.0", limit, 16160 << 20)
                                               for i in indices])


def test_only_granted_cards_are_there(tmp_path):
    """The driver has four and the grant names the third and the first: two, in the driver's order; the rest cannot be
    reached by ordinal, by device, by bus id, or with a context."""
    out = succeeds("""
        n, d, c, size, s32 = c_int(), c_int(), c_void_p(), c_size_t(), c_uint()
        assert cuda.cuDeviceGetCount(byref(n)) == 3 and cuda.cuDeviceGet(byref(d), 0) == 3
        assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(byref(n)) == 0 and n.value == 2
        devices = []
        for i in range(2):
            assert cuda.cuDeviceGet(byref(d), i) == 0
            devices.append(d.value)
        assert devices == [0, 2]
        assert [cuda.cuDeviceGet(byref(d), i) for i in (2, 3, 4, -1)] == [101] * 4
        assert cuda.cuDeviceGet(None, 0) == 1 and cuda.cuDeviceGetCount(None) == 1
        for i in range(5):
            expected = 0 if i in devices else 101
            assert cuda.cuDeviceGetByPCIBusId(byref(d), b"0000:%02x:00.0" % i) == expected
            assert cuda.cuDeviceTotalMem_v2(byref(size), i) == cuda.cuDeviceTotalMem(byref(s32), i) == expected
            assert cuda.cuCtxCreate(byref(c), 0, i) == cuda.cuCtxCreate_v2(byref(c), 0, i) == expected
            assert cuda.cuCtxCreate_v3(byref(c), 0, 0, 0, i) == cuda.cuCtxCreate_v4(byref(c), 0, 0, i) == expected
            assert cuda.cuDevicePrimaryCtxRetain(byref(c), i) == cuda.cuGreenCtxCreate(byref(c), 0, i, 0) == expected
            assert cuda.cuGLCtxCreate(byref(c), 0, i) == cuda.cuGLCtxCreate_v2(byref(c), 0, i) == expected
            assert cuda.cuVDPAUCtxCreate(byref(c), 0, i, 7, None) == expected
            assert cuda.cuVDPAUCtxCreate_v2(byref(c), 0, i, 7, None) == expected
        listed = (c_int * 3)(-1, -1, -1)
        for ask in cuda.cuGLGetDevices, cuda.cuGLGetDevices_v2:
            assert ask(byref(n), listed, 3, 1) == 0 and n.value == 2 and list(listed) == [0, 2, -1]
            assert ask(byref(n), None, 0, 1) == 0 and n.value == 2 and ask(None, listed, 3, 1) == 1
        print(cuda.cuDeviceGetByPCIBusId(None, b"0000:00:00.0"), cuda.cuDeviceGetByPCIBusId(byref(d), b"rubbish"))
        """, cards_granted(tmp_path, 2, 0), {"FAKE_CARDS": "4"})
    assert out == "1 1\n"


def test_without_a_granted_card_there_is_none(tmp_path):
    succeeds("assert cuda.cuInit(0) == 100", cards_granted(tmp_path, 7))


MEMORY = """
    f, t, f32, t32, d = c_size_t(), c_size_t(), c_uint(), c_uint(), c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuMemGetInfo_v2(byref(f), byref(t)) == 201
    assert cuda.cuCtxCreate_v2(byref(d), 0, 0) == 0
    assert cuda.cuMemGetInfo_v2(byref(f), byref(t)) == cuda.cuMemGetInfo(byref(f32), byref(t32)) == 0
    assert cuda.cuMemGetInfo_v2(None, None) == cuda.cuMemGetInfo(None, None) == 0
    print(f.value, t.value, f32.value, t32.value)
    assert cuda.cuDeviceTotalMem_v2(byref(t), 0) == cuda.cuDeviceTotalMem(byref(t32), 0) == 0
    print(t.value, t32.value)
    """


@pytest.mark.parametrize("mib,charged,overhead", [(2154, 0, 0), (2154, 1000, 154), (2154, 2154, 1), (5000, 1, 2)])
def test_the_card_is_as_large_as_the_limit(tmp_path, mib, charged, overhead):
    """free = limit - charged - overhead, never below 0; functions with 32 bits say as much as they can."""
    grant = cards_granted(tmp_path, 0, limit=mib << 20)
    grants.charge(tmp_path / "usage", 0, charged << 20)
    data = bytearray(grant.read_bytes())
    at = 2520 + 64 * 256
    data[at:at + 8] = (overhead << 20).to_bytes(8, "little")
    grant.write_bytes(data)
    total, free = mib << 20, max(0, mib - charged - overhead) << 20
    small = 0xffffffff
    assert succeeds(MEMORY, grant).split() == [str(n) for n in (free, total, min(free, small), min(total, small), total,
                                                               min(total, small))]


def test_the_keeper_is_called_when_the_driver_takes_memory_that_no_call_shows(tmp_path):
    grant = cards_granted(tmp_path, 0)
    wanted = lambda: int.from_bytes((tmp_path / "usage").read_bytes()[28:32], "little")    # noqa: E731
    assert wanted() == 0
    succeeds("cuda.cuInit(0), cuda.cuCtxCreate_v2(byref(c_void_p()), 0, 5)", grant)
    assert wanted() == 0
    succeeds("cuda.cuInit(0), cuda.cuCtxCreate_v2(byref(c_void_p()), 0, 0)", grant)
    assert wanted() == 1


def test_nvml_shows_granted_cards_only_in_the_order_of_the_grant(tmp_path):
    succeeds("""
        n, d, i = c_uint(), c_void_p(), c_uint()
        assert ml.nvmlDeviceGetCount_v2(byref(n)) == 1 and ml.nvmlDeviceGetHandleByIndex_v2(0, byref(d)) == 1
        assert ml.nvmlInit_v2() == 0
        assert ml.nvmlDeviceGetCount_v2(byref(n)) == 0 and n.value == 2
        n.value = 9
        assert ml.nvmlDeviceGetCount(byref(n)) == 0 and n.value == 2
        for function in (ml.nvmlDeviceGetHandleByIndex_v2, ml.nvmlDeviceGetHandleByIndex):
            for index, handle in ((0, 102), (1, 100)):
                assert function(index, byref(d)) == 0 and d.value == handle
                assert ml.nvmlDeviceGetIndex(d, byref(i)) == 0 and i.value == index
            assert function(2, byref(d)) == 2 and function(0, None) == 2
        for index in range(5):
            expected = 0 if index in (0, 2) else 6
            uuid = b"GPU-00000000-0000-0000-0000-%012x" % index
            assert ml.nvmlDeviceGetHandleByUUID(uuid, byref(d)) == expected
            assert ml.nvmlDeviceGetHandleByUUIDV(bytes(8) + uuid, byref(d)) == expected
            assert ml.nvmlDeviceGetHandleBySerial(b"S%x" % index, byref(d)) == expected
            assert ml.nvmlDeviceGetHandleByPciBusId_v2(b"00000000:%02x:00.0" % index, byref(d)) == expected
            assert ml.nvmlDeviceGetHandleByPciBusId(b"0000:%02x:00.0" % index, byref(d)) == expected
            assert expected or d.value == 100 + index
        assert ml.nvmlDeviceGetHandleByUUID(b"rubbish", byref(d)) == 2
        assert ml.nvmlDeviceGetHandleByUUID(uuid, None) == 2
        for ask in (lambda n, a: ml.nvmlSystemGetTopologyGpuSet(0, n, a), lambda n, a: ml.nvmlUnitGetDevices(None, n, a),
                    lambda n, a: ml.nvmlDeviceGetTopologyNearestGpus(c_void_p(100), 50, n, a)):
            n.value = 0
            assert ask(byref(n), None) == 0 and n.value == 2
            handles = (c_void_p * 2)()
            assert ask(byref(n), handles) == 0 and list(handles) == [100, 102]
            n.value = 1
            assert ask(byref(n), handles) == 7 and n.value == 2 and ask(None, handles) == 2
        """, nvml_granted(tmp_path, 2, 0), {"FAKE_CARDS": "4"})


def test_nvml_tells_the_limit_and_what_is_used_of_it(tmp_path):
    out = succeeds("""
        m, m2, bar, d = (c_ulonglong * 3)(), (c_ulonglong * 5)(0x02000028), (c_ulonglong * 3)(), c_void_p(100)
        assert ml.nvmlInit_v2() == 0
        assert ml.nvmlDeviceGetMemoryInfo(d, m) == ml.nvmlDeviceGetMemoryInfo_v2(d, m2) == 0
        assert ml.nvmlDeviceGetBAR1MemoryInfo(d, bar) == 0 and m2[0] == 0x02000028
        print(*[n >> 20 for n in (*m, *m2[1:], *bar)])
        assert ml.nvmlDeviceGetMemoryInfo(d, None) == 2 and ml.nvmlDeviceGetMemoryInfo(c_void_p(7), m) == 2
        m2[0] = 1
        assert ml.nvmlDeviceGetMemoryInfo_v2(d, m2) == 25
        """, nvml_granted(tmp_path, 0, charged=337 << 20))
    total, used = 2154, 337
    assert out.split() == [str(n) for n in (total, total - used, used, total, 0, total - used, used, total, total - used,
                                            used)]


def test_nvml_lists_the_processes_of_the_container_only(tmp_path):
    succeeds("""
        assert ml.nvmlInit_v2() == 0
        d, n = c_void_p(100), c_uint()
        def pids(buffer, size, count, offset=0):
            return [int.from_bytes(buffer.raw[i * size + offset:i * size + offset + 4], "little") for i in range(count)]
        for version, size in (("", 16), ("_v2", 24), ("_v3", 24)):
            for kind in ("Compute", "Graphics", "MPSCompute"):
                ask = getattr(ml, f"nvmlDeviceGet{kind}RunningProcesses{version}")
                n.value = 0
                assert ask(d, byref(n), None) == 7 and n.value == 2
                buffer = create_string_buffer(3 * size)
                n.value = 1
                assert ask(d, byref(n), buffer) == 7 and n.value == 2 and not any(buffer.raw)
                for room in (2, 3):
                    n.value = room
                    assert ask(d, byref(n), buffer) == 0 and n.value == 2 and pids(buffer, size, 2) == [41, 43]
                    assert not any(buffer.raw[2 * size:])
                assert ask(d, None, buffer) == 2 and ask(c_void_p(1), byref(n), buffer) == 2
        buffer = create_string_buffer(4 * 40)
        n.value = 4
        assert ml.nvmlDeviceGetProcessUtilization(d, buffer, byref(n), c_ulonglong(0)) == 0 and n.value == 2
        assert pids(buffer, 32, 4) == [41, 43, 0, 0]
        class Details(Structure):
            _fields_ = [("version", c_uint), ("mode", c_uint), ("n", c_uint), ("out", c_void_p)]
        details = Details(0, 0, 4, addressof(buffer))
        assert ml.nvmlDeviceGetRunningProcessDetailList(d, byref(details)) == 0 and details.n == 2
        assert pids(buffer, 32, 2) == [41, 43]
        class Infos(Structure):
            _fields_ = [("version", c_uint), ("n", c_uint), ("since", c_ulonglong), ("out", c_void_p)]
        infos = Infos(0, 4, 0, addressof(buffer))
        assert ml.nvmlDeviceGetProcessesUtilizationInfo(d, byref(infos)) == 0 and infos.n == 2
        assert pids(buffer, 40, 2, 8) == [41, 43]
        numbers = (c_uint * 3)()
        assert ml.nvmlDeviceGetAccountingPids(d, byref(n), numbers) == 0 and n.value == 2
        assert list(numbers) == [41, 43, 0]
        assert [ml.nvmlDeviceGetAccountingStats(d, pid, buffer) for pid in (41, 42, 43, 0)] == [0, 6, 0, 6]
        assert [ml.nvmlDeviceGetAccountingStats_v2(d, (c_uint * 20)(pid)) for pid in (41, 42)] == [0, 6]
        """, nvml_granted(tmp_path, 0, pids=[41, 43]))


def test_an_empty_list_of_processes_is_a_success(tmp_path):
    succeeds("""
        assert ml.nvmlInit_v2() == 0
        n = c_uint(0)
        assert ml.nvmlDeviceGetComputeRunningProcesses_v3(c_void_p(100), byref(n), None) == 0 and n.value == 0
        n.value, buffer = 3, create_string_buffer(96)
        assert ml.nvmlDeviceGetProcessUtilization(c_void_p(100), buffer, byref(n), c_ulonglong(0)) == 6
        """, nvml_granted(tmp_path, 0))


def test_nobody_changes_the_card_for_its_neighbours(tmp_path):
    rows = [name for _, name, kind, _ in hook_rows.read() if kind == "DENY"]
    assert "nvmlDeviceSetEccMode" in rows and "nvmlDeviceSetMigMode" in rows
    succeeds(f"""
        assert {{getattr(ml, name)() for name in {rows!r}}} == {{1}}
        assert ml.nvmlDeviceGetAccountingStats(c_void_p(100), 1, None) == 1
        assert ml.nvmlDeviceGetAccountingStats_v2(c_void_p(100), (c_uint * 20)(1)) == 1
        assert ml.nvmlInit_v2() == 0 and {{getattr(ml, name)() for name in {rows!r}}} == {{4}}
        """, nvml_granted(tmp_path, 0))


def test_many_threads_may_make_the_first_call_at_once(plain):
    succeeds("""
        go, wrong = threading.Barrier(32), []
        def call():
            go.wait()
            wrong.extend([] if cuda.cuCtxSynchronize() >= 1000 else [1])
        threads = [threading.Thread(target=call) for _ in range(32)]
        [t.start() for t in threads], [t.join() for t in threads]
        assert not wrong
        """, plain)


SLOW = """
#include <unistd.h>
int cuCtxSynchronize(void) { return 77; }
__attribute__((constructor)) static void slow(void) { usleep(300000); }
"""


def test_a_fork_in_the_middle_of_the_first_call_hangs_nobody(tmp_path):
    """The child is made while another thread is inside the driver's start: it has no driver, and is told so."""
    succeeds("""
        import time
        t = threading.Thread(target=cuda.cuCtxSynchronize)
        t.start()
        time.sleep(0.1)
        pid = os.fork()
        if pid == 0:
            os._exit(cuda.cuCtxSynchronize())
        t.join()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3 and cuda.cuCtxSynchronize() == 77
        """, with_driver(tmp_path, SLOW))


CALLS_BACK = """
int cuCtxSynchronize(void) { return 77; }
extern void *dlopen(const char *, int), *dlsym(void *, const char *);
int answer;
__attribute__((constructor)) static void calls_back(void)
{
    int (*ours)(void) = dlsym(dlopen("SHIM", 2), "cuCtxSynchronize");
    answer = ours();
}
int cuCtxGetFlags(void) { return answer; }
"""


def test_a_driver_that_calls_back_while_it_starts_gets_its_own_function(tmp_path):
    grant = with_driver(tmp_path, CALLS_BACK.replace("SHIM", str(SHIM / "libcuda.so.1")))
    assert succeeds("print(cuda.cuCtxGetFlags())", grant) == "77\n"


def test_errno_is_kept(plain, tmp_path):
    for grant in (plain, tmp_path / "absent"):
        succeeds("""
            n = c_int()
            for call in (lambda: cuda.cuInit(0), lambda: cuda.cuCtxSynchronize(), lambda: ml.nvmlInit_v2(),
                         lambda: cuda.cuGetProcAddress(b"cuInit", byref(c_void_p()), 12000, c_uint64(0))):
                ctypes.set_errno(42)
                call()
                assert ctypes.get_errno() == 42
            """, grant, {"RATION_LOG": str(tmp_path / "log")})


def test_loading_it_changes_nothing_in_the_process(plain):
    """No thread, no descriptor, no signal handler, no umask, no output: before and after the libraries are used. SigQ
    counts the signals of all processes of the user."""
    assert succeeds("""
        import signal
        def state():
            mask = os.umask(0)
            os.umask(mask)
            return (sorted(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), mask,
                    [l for l in open("/proc/self/status") if l.startswith(("Sig", "Shd")) and not l.startswith("SigQ")], dict(os.environ))
        before = state()
        cuda.cuInit(0), cuda.cuCtxSynchronize(), ml.nvmlInit_v2(), ml.nvmlDeviceGetCount_v2(byref(c_int()))
        assert state() == before
        """, plain) == ""


def test_a_debugger_and_an_exception_can_walk_through_the_resolver():
    for library in LIBRARIES:
        frames = readelf("--debug-dump=frames", SHIM / library)
        assert frames.count(" FDE ") > 2 * 300


def test_stubs_are_made_for_arm64_too(tmp_path):
    """The code is run under an emulator by hand."""
    text = subprocess.run(["cpp", "-undef", "-D__aarch64__", "-D__ASSEMBLER__", "-I", fake_driver.ROOT / "src/shim",
                           BUILD / "src/shim/libcuda-stubs.S"], check=True, capture_output=True).stdout
    subprocess.run(["aarch64-linux-gnu-as", "-o", tmp_path / "stubs.o", "-"], input=text, check=True)
    assert (tmp_path / "stubs.o").stat().st_size > 729 * 16


VERDICTS = fake_driver.ROOT / "src/shim/verdicts.py"


def test_every_symbol_is_hooked_or_says_why_not():
    """And the published table says so too."""
    done = subprocess.run([VERDICTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    published = (fake_driver.ROOT / "docs/internals/hook-table.md").read_text()
    assert done.stdout in published, f"run {VERDICTS} --write docs/internals/hook-table.md"
    assert "### libcuda: 729 symbols" in published and "### libnvidia-ml: 441 symbols" in published


@pytest.mark.parametrize("symbol,fits", [("cuMemAllocFancy", False), ("cuLaunchSomething_ptsz", False),
                                         ("cuFooCreate_v7", False), ("cuMemImportFromShareableHandle", False),
                                         ("cuGraphAddNode_v4", False), ("cuStreamQuerySomething", True),
                                         ("cuMystery", False)])
def test_a_new_symbol_that_allocates_or_launches_needs_a_verdict_of_its_own(symbol, fits):
    """No pattern speaks for it, as for those that only ask."""
    spec = importlib.util.spec_from_file_location("verdicts", VERDICTS)
    verdicts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(verdicts)
    rules = [rule for rule in verdicts.read_rules() if "*" in rule[0]]
    assert (verdicts.judge(symbol, {}, rules) is not None) == fits
