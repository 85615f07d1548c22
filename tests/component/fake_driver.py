"""A libcuda and a libnvidia-ml that do nothing: function number i of the list answers 1000 + i. What a test wants to
see differently it defines itself, in C."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
"""


def uuid(index):
    return f"GPU-00000000-0000-0000-0000-{index:012x}"
