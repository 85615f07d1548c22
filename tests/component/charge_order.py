"""Which hooks allocate, and what is charged when the driver's function is entered (docs/internals/charging.md).

ROWS has each hook that charges, or notes, what a call takes; NOTHING each other hook of this kind, and why the call takes nothing.
tests/lint/test_charge_order.py compares both with the source of the shim, so a new hook has to be put into one of them. A key is the
name of a hook, or "hook:case" where the hook promises something else in that case."""
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

REFUSED = "refused before the driver is called"
UNDONE = "made, found to be too much, and taken back"
MADE = "made, because the call itself takes nothing"


@dataclasses.dataclass
class Row:
    call: str                 # Python
    charged: int = 300        # MiB that are charged for it when the driver is called
    after: int = None         # MiB that are charged when the hook has returned; as `charged` if it is not given
    prepare: str = ""         # Python, once, before anything is measured
    driver: str = ""          # the driver's function that the hook calls, if it has another name
    when_full: str = REFUSED  # what happens where what is charged does not fit
    why: str = ""             # why the charge that the driver meets is not what the call takes
    is_counted: bool = True   # False: the driver takes memory that is overhead


def first_of(key):
    return key.partition(":")[0]


def linear(name, sizes, small=""):
    return {name: Row(f"cu.{name}({sizes})")} | ({f"{name}:small": Row(f"cu.{name}({small})", 2)} if small else {})


POINTER, OLD = "byref(c_uint64())", "byref(c_uint())"
LINEAR = (
    linear("cuMemAlloc", f"{OLD}, 300 * MiB", f"{OLD}, 100 * KiB") |
    linear("cuMemAlloc_v2", f"{POINTER}, c_size_t(300 * MiB)", f"{POINTER}, c_size_t(100 * KiB)") |
    linear("cuMemAllocManaged", f"{POINTER}, c_size_t(300 * MiB), 1", f"{POINTER}, c_size_t(100 * KiB), 1") |
    linear("cuMemAllocPitch", f"{OLD}, {OLD}, MiB, 300, 4", f"{OLD}, {OLD}, KiB, 100, 4") |
    linear("cuMemAllocPitch_v2", f"{POINTER}, byref(c_size_t()), c_size_t(MiB), c_size_t(300), 4",
           f"{POINTER}, byref(c_size_t()), c_size_t(KiB), c_size_t(100), 4"))
LINEAR["cuMemAlloc_v2:in a block that has room"] = Row(
    "cu.cuMemAlloc_v2(byref(c_uint64()), c_size_t(100 * KiB))", 0, prepare="alloc(100 * KiB)", when_full=MADE,
    why="a block that is charged already serves it")

# 16384 floats are a row of 64 KiB.
ARRAYS = {key: Row(f"cu.{first_of(key)}(byref(c_void_p()), byref({kind}))", 2 if key.endswith(":small") else 300)
          for key, kind in {
              "cuArrayCreate": "D2v1(16384, 4800, FLOAT, 1)", "cuArrayCreate:small": "D2v1(64, 64, FLOAT, 1)",
              "cuArrayCreate_v2": "D2(16384, 4800, FLOAT, 1)", "cuArrayCreate_v2:small": "D2(64, 64, FLOAT, 1)",
              "cuArray3DCreate": "D3v1(16384, 480, 10, FLOAT, 1, 0)", "cuArray3DCreate:small": "D3v1(64, 64, 2, FLOAT, 1, 0)",
              "cuArray3DCreate_v2": "D3(16384, 480, 10, FLOAT, 1, 0)", "cuArray3DCreate_v2:small": "D3(64, 64, 2, FLOAT, 1, 0)"}.items()}
# The second level has 75 MiB, and takes 76.
ARRAYS["cuMipmappedArrayCreate"] = Row(
    "cu.cuMipmappedArrayCreate(byref(c_void_p()), byref(D3(16384, 4800, 0, FLOAT, 1, 0)), 2)", 376)
ARRAYS["cuMipmappedArrayCreate:small"] = Row(
    "cu.cuMipmappedArrayCreate(byref(c_void_p()), byref(D3(64, 64, 0, FLOAT, 1, 0)), 2)", 2)

VIRTUAL = {"cuMemCreate": Row("cu.cuMemCreate(byref(c_uint64()), c_size_t(300 * MiB), byref(properties), c_uint64(0))")}


def pooled(end):
    own, named = f"cuMemAllocAsync{end}", f"cuMemAllocFromPoolAsync{end}"
    sized = f"{POINTER}, c_size_t(%d * MiB)"
    step = "whether the pool grows by a step is known only afterwards"
    later = "the launch of the graph pays; the capture may have ended when the driver is called, so it is charged for that time"
    captured = "stream = begin_capture()"
    return {
        own: Row(f"cu.{own}({sized % 300}, None)", driver=named),
        f"{own}:small": Row(f"cu.{own}({sized % 1}, None)", 32, driver=named, why=step),
        f"{own}:captured": Row(f"cu.{own}({sized % 300}, stream)", 300, 0, captured, named, MADE, later),
        named: Row(f"cu.{named}({sized % 300}, pool, None)", prepare="pool = new_pool()"),
        f"{named}:small": Row(f"cu.{named}({sized % 1}, pool, None)", 32, prepare="pool = new_pool()", why=step),
        f"{named}:captured": Row(f"cu.{named}({sized % 300}, pool, stream)", 300, 0, "pool = new_pool()\n" + captured,
                                 when_full=MADE, why=later),
        f"{named}:of no known pool": Row(
            f"cu.{named}({sized % 300}, pool, None)", 0, 300, "pool = unknown_pool()", when_full=UNDONE,
            why="the memory tells which GPU pays, so the first allocation is charged when it is made"),
    }


POOLS = pooled("") | pooled("_ptsz")

GRAPHS = {name: Row(f"cu.{name}(run, None)", prepare="run = instantiate(captured())")
          for name in ("cuGraphLaunch", "cuGraphLaunch_ptsz", "cuGraphUpload", "cuGraphUpload_ptsz")}
GRAPHS |= {name: Row(f"cu.{name}(byref(c_void_p()), graph, (c_uint64 * 4)(2))", prepare="graph = captured()")    # 2: upload
           for name in ("cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams_ptsz")}

# What a context takes is known: the keeper has written it. (300 MiB in the simulated driver.)
CONTEXTS = {name: Row(f"cu.{name}(byref(c_void_p()), {arguments})") for name, arguments in {
    "cuCtxCreate": "0, 0", "cuCtxCreate_v2": "0, 0", "cuCtxCreate_v3": "None, 0, 0, 0", "cuCtxCreate_v4": "None, 0, 0",
    "cuDevicePrimaryCtxRetain": "0", "cuGreenCtxCreate": "None, 0, 1", "cuGLCtxCreate": "0, 0", "cuGLCtxCreate_v2": "0, 0",
    "cuVDPAUCtxCreate": "0, 0, 0, None", "cuVDPAUCtxCreate_v2": "0, 0, 0, None"}.items()}

UNKNOWN_COST = "what it takes is known only afterwards: a block of 2 MiB during the call, then overhead, which the keeper finds"
CODE = {name: Row(f"cu.{name}({arguments})", 2, 0, why=UNKNOWN_COST, is_counted=False) for name, arguments in {
    "cuCtxSetLimit": "2, c_size_t(64 * MiB)",
    "cuModuleLoad": "byref(c_void_p()), FILE", "cuModuleLoadData": "byref(c_void_p()), IMAGE",
    "cuModuleLoadDataEx": "byref(c_void_p()), IMAGE, 0, None, None", "cuModuleLoadFatBinary": "byref(c_void_p()), IMAGE",
    "cuLibraryLoadData": "byref(c_void_p()), IMAGE, None, None, 0, None, None, 0",
    "cuLibraryLoadFromFile": "byref(c_void_p()), FILE, None, None, 0, None, None, 0"}.items()}

ROWS = LINEAR | ARRAYS | VIRTUAL | POOLS | GRAPHS | CONTEXTS | CODE

# The process that made the memory is charged for it. A sample must not take what comes meanwhile for overhead: the call is
# counted as under way, and what is opened by an IPC handle is noted. The rest is tested by test_shim_memory_shared.py.
HANDLE = "(c_char * 64)()"
UNDER_WAY = {
    "cuIpcGetMemHandle": f"cu.cuIpcGetMemHandle({HANDLE}, rest)",
    "cuIpcOpenMemHandle": f"cu.cuIpcOpenMemHandle({POINTER}, IpcHandle(), 1)",
    "cuIpcOpenMemHandle_v2": f"cu.cuIpcOpenMemHandle_v2({POINTER}, IpcHandle(), 1)",
    "cuMemExportToShareableHandle": f"cu.cuMemExportToShareableHandle({POINTER}, c_uint64(1), 1, c_uint64(0))",
    "cuMemPoolImportFromShareableHandle":
        "cu.cuMemPoolImportFromShareableHandle(byref(c_void_p()), c_void_p(1), 1, c_uint64(0))",
    "cuMemPoolImportPointer": f"cu.cuMemPoolImportPointer({POINTER}, c_void_p(1), {HANDLE})",
    "cuImportExternalMemory": f"cu.cuImportExternalMemory(byref(c_void_p()), {'(c_char * 128)()'})",
}

# Each other hook of a kind that may allocate.
NOTHING = {
    "cuMemRetainAllocationHandle": "one more reference to memory that is charged",
    "cuMemMap": "one more reference to memory that is charged",
    "cuMemImportFromShareableHandle": "the process that made the memory is charged",
    "cuMemPoolCreate": "a pool takes memory when something is allocated from it",
    "cuDeviceGetDefaultMemPool": "a handle of a pool",
    "cuDeviceGetMemPool": "a handle of a pool",
    "cuMemGetDefaultMemPool": "a handle of a pool",
    "cuMemGetMemPool": "a handle of a pool",
    "cuGraphAddMemAllocNode": "the launch or the upload of the graph pays",
    "cuGraphAddNode": "the launch or the upload of the graph pays",
    "cuGraphAddNode_v2": "the launch or the upload of the graph pays",
    "cuGraphAddNode_v3": "the launch or the upload of the graph pays",
    "cuGraphInstantiate": "the launch or the upload of the graph pays",
    "cuGraphInstantiate_v2": "the launch or the upload of the graph pays",
    "cuGraphInstantiateWithFlags": "the launch pays: its flags upload nothing (cuda.h of CUDA 13.0.96)",
    "cuDestroyExternalMemory": "gives back",
    "cuIpcCloseMemHandle": "gives back",
}

# ---- the library between shim and driver ----

# Notes what the usage file (grant/usage.h) says when the function `cuTestWatched` is entered, and may fail it.
LOOKS = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cuda/functions.h"
#include "grant/account.h"
const char *cuTestWatched;
int cuTestCalls, cuTestFail;
long cuTestCharged, cuTestElsewhere, cuTestUnderWay, cuTestTurn, cuTestNoted;
static unsigned long long word(long offset)
{
	unsigned long long word = 0;
	int fd = open(getenv("USAGE"), O_RDONLY);
	if (pread(fd, &word, sizeof(word), offset) != sizeof(word)) abort();
	close(fd);
	return word;
}
void cuTestLook(void)
{
	cuTestCharged = (long)(word(128) & 0xffffffff) * 4096;
	cuTestElsewhere = (long)(word(128 + 128) & 0xffffffff) * 4096; /* on the second GPU */
	cuTestTurn = (long)word(128 + 104 + 8 * ACCOUNT_TURN_CODE);
	cuTestUnderWay = (long)(word(128 + 64 * 128 + 32) & 0x7fffffff);
	cuTestNoted = 0; /* regions that this process has of others, or others of it (grant/share.h) */
	for (int i = 0; i < 64; i++)
		cuTestNoted += word(128 + 64 * 128 + 64 + 64 * 8 + 8 * i) != 0;
}
static int entered(const char *name)
{
	if (!cuTestWatched || strcmp(name, cuTestWatched) != 0)
		return 0;
	cuTestLook();
	cuTestCalls++;
	return cuTestFail;
}
#define ENTER(name) do { int r = entered(#name); if (r) return r; } while (0)
"""

# What the simulated driver has not, in terms of what it has.
CONTEXT_OF = "\tENTER({name});\n\treturn cuCtxCreate_v2(a0, a1, a2);\n"
NOT_SIMULATED = {
    "cuGreenCtxCreate": ("CUgreenCtx *, void *, CUdevice, unsigned int",
                         "\tENTER(cuGreenCtxCreate);\n\treturn cuDevicePrimaryCtxRetain((CUcontext *)a0, a2);\n"),
    "cuGraphInstantiateWithParams_ptsz": (
        "CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *",
        "\tENTER({name});\n\treturn cuGraphInstantiateWithParams(a0, a1, a2);\n"),
    "cuGLCtxCreate": ("CUcontext *, unsigned int, CUdevice", CONTEXT_OF),
    "cuGLCtxCreate_v2": ("CUcontext *, unsigned int, CUdevice", CONTEXT_OF),
    "cuVDPAUCtxCreate": ("CUcontext *, unsigned int, CUdevice, unsigned int, void *", CONTEXT_OF),
    "cuVDPAUCtxCreate_v2": ("CUcontext *, unsigned int, CUdevice, unsigned int, void *", CONTEXT_OF),
}


def prototypes():
    text = "".join((ROOT / "src/cuda" / name).read_text() for name in ("functions.h", "functions-work.h"))
    return dict(re.findall(r"^CUresult (cu\w+)\(([^;]*)\);", text, re.M))


def definition(name, known):
    types, body = NOT_SIMULATED.get(name, (None, None))
    types = (types or known[re.sub("_ptsz$", "", name)]).split(",")
    names = [f"a{i}" for i in range(len(types))]
    body = (body or "\tENTER({name});\n\treturn NEXT({name}, {names});\n").format(name=name, names=", ".join(names))
    arguments = ", ".join(map(" ".join, zip(types, names)))
    return f"CUresult {name}({arguments})\n{{\n{body}}}\n"


def driver_of(key):
    return key in ROWS and ROWS[key].driver or first_of(key)


def source():
    """C: each function of the driver that a hook of ROWS or UNDER_WAY calls."""
    known, called = prototypes(), sorted({driver_of(key) for key in [*ROWS, *UNDER_WAY]})
    declared = "".join(f"CUresult {name}({known[name[:-5]]});\n" for name in called if name.endswith("_ptsz"))
    return LOOKS + declared + "".join(definition(name, known) for name in called)
