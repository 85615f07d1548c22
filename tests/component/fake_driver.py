"""A libcuda and a libnvidia-ml that do nothing: function number i of the list answers 1000 + i. What a test wants to
see differently it defines itself, in C."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "src/shim"))    # hook_rows
LISTS = {"libcuda.so.1": ROOT / "src/cuda/libcuda.syms", "libnvidia-ml.so.1": ROOT / "src/shim/libnvidia-ml.syms"}


def symbols(library):
    return [line.split()[0] for line in LISTS[library].read_text().splitlines()]


def build(folder, library, source="", without=()):
    """folder/library; `source` defines functions instead of those that answer their number."""
    names = symbols(library)
    defined = set(re.findall(r"^\w[\w *]*?\b(cu\w+|nvml\w+)\(", source, re.M)) | set(without)
    text = source + "".join(f"\nint {name}(void) {{ return {1000 + i}; }}" for i, name in enumerate(names)
                            if name not in defined)
    folder.mkdir(parents=True, exist_ok=True)
    code = folder / f"{library}.c"
    code.write_text("#define _GNU_SOURCE\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n" + text)
    target = folder / library
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", f"-Wl,-soname,{library}", "-Wl,-Bsymbolic", "-o", target,
                    code], check=True)
    return target


# Cards with the UUIDs ...00, ...01, ... of 16160 MiB each, of which 1000 MiB are free; a context is of the card in
# `current`, none while it is negative. FAKE_CARDS says how many.
CUDA_CARDS = r"""
#include <stdio.h>
#include <stdlib.h>
static int started, current = -1;
static int cards(void) { return getenv("FAKE_CARDS") ? atoi(getenv("FAKE_CARDS")) : 1; }
int cuInit(unsigned flags) { started = 1; return 0; }
int cuDeviceGetCount(int *n) { if (!started) return 3; if (!n) return 1; *n = cards(); return 0; }
int cuDeviceGet(int *d, int i) { if (!started) return 3; if (!d) return 1; if (i < 0 || i >= cards()) return 101; *d = i; return 0; }
int cuDeviceGetUuid(char *u, int d) { if (d < 0 || d >= cards()) return 101; memset(u, 0, 16); u[15] = d; return 0; }
int cuDeviceGetByPCIBusId(int *d, const char *id) { unsigned bus; if (!d || sscanf(id, "0000:%x:00.0", &bus) != 1) return 1;
    if (bus >= (unsigned)cards()) return 101; *d = bus; return 0; }
int cuDeviceTotalMem_v2(size_t *n, int d) { if (!n) return 1; if (d < 0 || d >= cards()) return 101; *n = 16160ul << 20; return 0; }
int cuDeviceTotalMem(unsigned *n, int d) { if (!n) return 1; if (d < 0 || d >= cards()) return 101; *n = ~0u; return 0; }
int cuMemGetInfo_v2(size_t *f, size_t *t) { if (current < 0) return 201; if (f) *f = 1000ul << 20; if (t) *t = 16160ul << 20; return 0; }
int cuMemGetInfo(unsigned *f, unsigned *t) { if (current < 0) return 201; if (f) *f = 1000u << 20; if (t) *t = ~0u; return 0; }
int cuCtxGetDevice(int *d) { if (current < 0) return 201; *d = current; return 0; }
static int create(int d) { if (d < 0 || d >= cards()) return 101; current = d; return 0; }
int cuCtxCreate(void *c, unsigned f, int d) { return create(d); }
int cuCtxCreate_v2(void *c, unsigned f, int d) { return create(d); }
int cuCtxCreate_v3(void *c, void *p, int n, unsigned f, int d) { return create(d); }
int cuCtxCreate_v4(void *c, void *p, unsigned f, int d) { return create(d); }
int cuDevicePrimaryCtxRetain(void *c, int d) { return create(d); }
int cuGreenCtxCreate(void *c, void *r, int d, unsigned f) { return create(d); }
int cuGLCtxCreate(void *c, unsigned f, int d) { return create(d); }
int cuGLCtxCreate_v2(void *c, unsigned f, int d) { return create(d); }
int cuVDPAUCtxCreate(void *c, unsigned f, int d, unsigned vdpau, void *lookup) { return create(d); }
int cuVDPAUCtxCreate_v2(void *c, unsigned f, int d, unsigned vdpau, void *lookup) { return create(d); }
static int gl(unsigned *n, int *d, unsigned room) { if (!started) return 3; if (!n) return 1; *n = cards();
    for (unsigned i = 0; i < room && i < *n; i++) d[i] = i; return 0; }
int cuGLGetDevices(unsigned *n, int *d, unsigned room, int which) { return gl(n, d, room); }
int cuGLGetDevices_v2(unsigned *n, int *d, unsigned room, int which) { return gl(n, d, room); }
"""


def uuid(index):
    return f"GPU-00000000-0000-0000-0000-{index:012x}"


# NVML with cards as above. Their handles are 100, 101, ...; the processes 41, 42, 43 are on each, with memory.
NVML_CARDS = r"""
#include <stdio.h>
#include <stdlib.h>
typedef unsigned long long ull;
static int started;
static int cards(void) { return getenv("FAKE_CARDS") ? atoi(getenv("FAKE_CARDS")) : 1; }
static int bad(long d) { return !started ? 1 : d < 100 || d >= 100 + cards() ? 2 : 0; }
int nvmlInit(void) { started = 1; return 0; }
int nvmlInit_v2(void) { started = 1; return 0; }
int nvmlInitWithFlags(unsigned f) { started = 1; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { if (!started) return 1; if (!n) return 2; *n = cards(); return 0; }
int nvmlDeviceGetCount(unsigned *n) { return nvmlDeviceGetCount_v2(n); }
int nvmlDeviceGetUUID(long d, char *u, unsigned n) { if (bad(d)) return bad(d);
    snprintf(u, n, "GPU-00000000-0000-0000-0000-%012lx", d - 100); return 0; }
static int handle(const char *text, const char *format, long *d) { unsigned i; if (!started) return 1;
    if (!d || sscanf(text, format, &i) != 1) return 2; if (i >= (unsigned)cards()) return 6; *d = 100 + i; return 0; }
int nvmlDeviceGetHandleByUUID(const char *u, long *d) { return handle(u, "GPU-00000000-0000-0000-0000-%x", d); }
int nvmlDeviceGetHandleByUUIDV(const char *u, long *d) { return handle(u + 8, "GPU-00000000-0000-0000-0000-%x", d); }
int nvmlDeviceGetHandleBySerial(const char *u, long *d) { return handle(u, "S%x", d); }
int nvmlDeviceGetHandleByPciBusId_v2(const char *u, long *d) { return handle(u, "00000000:%x:00.0", d); }
int nvmlDeviceGetHandleByPciBusId(const char *u, long *d) { return handle(u, "0000:%x:00.0", d); }
int nvmlDeviceGetIndex(long d, unsigned *i) { if (bad(d)) return bad(d); *i = d - 100; return 0; }
static int all(unsigned *n, long *d) { if (!started) return 1; if (!n) return 2; *n = cards();
    for (int i = 0; d && i < cards(); i++) d[i] = 100 + i; return 0; }
int nvmlDeviceGetTopologyNearestGpus(long d, int l, unsigned *n, long *out) { return all(n, out); }
int nvmlSystemGetTopologyGpuSet(unsigned c, unsigned *n, long *out) { return all(n, out); }
int nvmlUnitGetDevices(long u, unsigned *n, long *out) { return all(n, out); }
int nvmlDeviceGetMemoryInfo(long d, ull *m) { if (bad(d)) return bad(d); if (!m) return 2;
    m[0] = 16160ull << 20; m[1] = 1ull << 30; m[2] = m[0] - m[1]; return 0; }
int nvmlDeviceGetMemoryInfo_v2(long d, ull *m) { if (bad(d)) return bad(d); if (!m) return 2; if ((unsigned)*m != 0x02000028) return 25;
    m[1] = 16160ull << 20; m[2] = 300ull << 20; m[3] = 1ull << 30; m[4] = m[1] - m[2] - m[3]; return 0; }
int nvmlDeviceGetBAR1MemoryInfo(long d, ull *m) { if (bad(d)) return bad(d); if (!m) return 2;
    m[0] = 16384ull << 20; m[1] = 16000ull << 20; m[2] = 384ull << 20; return 0; }
static int list(long d, unsigned *n, char *out, size_t size) { if (bad(d)) return bad(d); if (!n || (*n && !out)) return 2;
    if (*n < 3) { *n = 3; return 7; } *n = 3;
    for (unsigned i = 0; i < 3; i++) { memset(out + i * size, 0x11, size); *(unsigned *)(out + i * size) = 41 + i;
        *(ull *)(out + i * size + 8) = (ull)(i + 1) << 20; } return 0; }
int nvmlDeviceGetComputeRunningProcesses(long d, unsigned *n, char *out) { return list(d, n, out, 16); }
int nvmlDeviceGetComputeRunningProcesses_v2(long d, unsigned *n, char *out) { return list(d, n, out, 24); }
int nvmlDeviceGetComputeRunningProcesses_v3(long d, unsigned *n, char *out) { return list(d, n, out, 24); }
int nvmlDeviceGetGraphicsRunningProcesses(long d, unsigned *n, char *out) { return list(d, n, out, 16); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(long d, unsigned *n, char *out) { return list(d, n, out, 24); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(long d, unsigned *n, char *out) { return list(d, n, out, 24); }
int nvmlDeviceGetMPSComputeRunningProcesses(long d, unsigned *n, char *out) { return list(d, n, out, 16); }
int nvmlDeviceGetMPSComputeRunningProcesses_v2(long d, unsigned *n, char *out) { return list(d, n, out, 24); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(long d, unsigned *n, char *out) { return list(d, n, out, 24); }
int nvmlDeviceGetProcessUtilization(long d, char *out, unsigned *n, ull t) { return !out ? (*n = 3, 7) : list(d, n, out, 32); }
struct details { unsigned version, mode, n; char *out; };
int nvmlDeviceGetRunningProcessDetailList(long d, struct details *l) { return list(d, &l->n, l->out, 32); }
struct infos { unsigned version, n; ull since; char *out; };
int nvmlDeviceGetProcessesUtilizationInfo(long d, struct infos *l) { if (l->n < 3) { l->n = 3; return 7; } l->n = 3;
    for (int i = 0; i < 3; i++) *(unsigned *)(l->out + 40 * i + 8) = 41 + i; return 0; }
int nvmlDeviceGetAccountingPids(long d, unsigned *n, unsigned *out) { if (!out) { *n = 3; return 7; } *n = 3;
    for (int i = 0; i < 3; i++) out[i] = 41 + i; return 0; }
int nvmlDeviceGetAccountingStats(long d, unsigned pid, void *out) { return 0; }
int nvmlDeviceGetAccountingStats_v2(long d, void *out) { return 0; }
"""
