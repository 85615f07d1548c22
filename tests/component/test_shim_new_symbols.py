"""Functions of drivers that are newer than this version: what is known of them is hooked, and of what is not known nothing
goes around a hook."""
import fake_driver
import grants
from shim_programs import needs_no_grant_here, succeeds, with_driver

pytestmark = needs_no_grant_here

# A driver with a newer version of a hooked name (13.6), a newer version of a name that is not hooked, and a name that
# nobody knows. What it exports of them is not in the list of this version.
NEWER = """
int cuMemAlloc_v9(void) { return 99; }
int cuEventQuery_v9(void) { return 98; }
int cuNewInThisDriver(void) { return 97; }
static int ask(const char *name, void **function, int version, int *status)
{
    extern int cuMemAlloc_v2(void), cuEventQuery(void);
    *status = 0;
    if (!strcmp(name, "cuMemAlloc"))
        *function = version >= 13060 ? (void *)cuMemAlloc_v9 : (void *)cuMemAlloc_v2;
    else if (!strcmp(name, "cuEventQuery"))
        *function = version >= 13060 ? (void *)cuEventQuery_v9 : (void *)cuEventQuery;
    else if (!strcmp(name, "cuNewInThisDriver"))
        *function = (void *)cuNewInThisDriver;
    else
        *function = NULL, *status = 1;
    return 0;
}
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    return ask(name, function, version, status);
}
int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    int status;
    return ask(name, function, version, &status) || status ? 500 : 0;
}
"""


def test_a_newer_version_of_a_hooked_name_is_withheld(tmp_path):
    """As if the driver were older. The older version is still our hook; what is not hooked is handed out, and a log says
    so."""
    grant = with_driver(tmp_path, NEWER)
    log = tmp_path / "log"
    succeeds("""
        def ask(name, version):
            p, status = c_void_p(5), c_int(9)
            r = cuda.cuGetProcAddress_v2(name, byref(p), version, c_uint64(0), byref(status))
            old = c_void_p(5)
            assert (cuda.cuGetProcAddress(name, byref(old), version, c_uint64(0)), old.value) == ((0, p.value) if p else (500, 5))
            return r, status.value, p.value
        address = lambda name: cast(getattr(cuda, name), c_void_p).value
        assert ask(b"cuMemAlloc", 13050) == (0, 0, address("cuMemAlloc_v2"))
        assert ask(b"cuMemAlloc", 13060) == (0, 2, None)
        assert ask(b"cuNoSuch", 13060) == (0, 1, None)
        assert CFUNCTYPE(c_int)(ask(b"cuEventQuery", 13060)[2])() == 98
        assert CFUNCTYPE(c_int)(ask(b"cuNewInThisDriver", 13060)[2])() == 97
        """, grant, {"RATION_LOG": str(log)})
    said = log.read_text()
    assert "cuMemAlloc is withheld" in said and "cuNewInThisDriver is handed out without a limit" in said


def test_a_hook_of_a_function_that_the_driver_lacks_is_never_handed_out(tmp_path):
    """A driver of CUDA 13.0 answers for 13.4 with the older function, here by an address that it does not export."""
    grant = with_driver(tmp_path, """
static int older(void) { return 55; }
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    *status = 0;
    *function = strcmp(name, "cuGraphAddNode") ? NULL : (void *)older;
    return 0;
}
""", without=["cuGraphAddNode_v3"])
    succeeds("""
        p, s = c_void_p(), c_int()
        assert cuda.cuGetProcAddress_v2(b"cuGraphAddNode", byref(p), 13000, c_uint64(0), byref(s)) == 0
        assert p.value in [cast(f, c_void_p).value for f in (cuda.cuGraphAddNode, cuda.cuGraphAddNode_v2)]
        """, grant)


def test_grids_of_which_no_document_tells_are_refused(tmp_path):
    cuda = fake_driver.build(tmp_path, "libcuda.so.1", fake_driver.CUDA_CARDS)
    succeeds("""
        names = "cuSubgridCreate", "cuSubgridWorkerGridCreate", "cuSubgridWorksetCreate"
        assert {getattr(cuda, name)(0, 0, 0) for name in names} == {3}
        assert cuda.cuInit(0) == 0 and {getattr(cuda, name)(0, 0, 0) for name in names} == {801}
        """, grants.write(tmp_path, cuda, cuda, [(fake_driver.uuid(0), "00000000:00:00.0", 2154 << 20, 16160 << 20)]))
