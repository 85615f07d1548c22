"""Drivers that lack functions, call themselves by their exported names, or are found half opened."""
import subprocess

import fake_driver
import grants
from shim_programs import CARD, SHIM, needs_no_grant_here, succeeds

pytestmark = needs_no_grant_here


def nvml_driver(folder, source, without=(), flags=(), pids=()):
    """A grant with a driver that is made of `source` besides fake_driver.NVML_CARDS."""
    text = fake_driver.NVML_CARDS + source
    library = fake_driver.build(folder, "libnvidia-ml.so.1", text, without)
    if flags:
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-Wl,-soname,libnvidia-ml.so.1", *flags, "-o", library,
                        folder / "libnvidia-ml.so.1.c"], check=True)
    grant = grants.write(folder, library, library, [(fake_driver.uuid(0), "00000000:00:00.0", 2154 << 20, 16160 << 20)])
    if pids:
        grants.charge(folder / "usage", 0, 0, pids)
    return grant


LACKS = [f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in ("Compute", "Graphics", "MPSCompute")]


def test_newer_versions_of_a_function_are_answered_by_older_ones(tmp_path):
    """As on 470: a program finds the newer version in the shim, whatever the driver has, and asks for no other."""
    text = fake_driver.NVML_CARDS
    for name in [*LACKS, "nvmlDeviceGetMemoryInfo_v2"]:
        assert f"int {name}(" in text
        text = text.replace(f"int {name}(", f"static int lacks_{name}(")
    library = fake_driver.build(tmp_path, "libnvidia-ml.so.1", text, [*LACKS, "nvmlDeviceGetMemoryInfo_v2",
                                                                    "nvmlDeviceGetConfComputeMemSizeInfo"])
    grant = grants.write(tmp_path, library, library, [(fake_driver.uuid(0), "00000000:00:00.0", 2154 << 20, 16160 << 20)])
    grants.charge(tmp_path / "usage", 0, 337 << 20, [41, 43])
    succeeds("""
        d, n, buffer, m = c_void_p(100), c_uint(3), create_string_buffer(3 * 24), (c_ulonglong * 5)(0x02000028)
        asked = [getattr(ml, f"nvmlDeviceGet{kind}RunningProcesses_v3") for kind in ("Compute", "Graphics", "MPSCompute")]
        assert [ask(d, byref(n), buffer) for ask in asked] + [ml.nvmlDeviceGetMemoryInfo_v2(d, m)] == [1] * 4
        assert ml.nvmlInit_v2() == 0
        for ask in asked:
            n.value = 3
            assert ask(d, byref(n), buffer) == 0 and n.value == 2
            assert [int.from_bytes(buffer.raw[i:i + 4], "little") for i in (0, 24, 48)] == [41, 43, 0]
        assert ml.nvmlDeviceGetMemoryInfo_v2(d, m) == 0 and [x >> 20 for x in m[1:]] == [2154, 0, 2154 - 337, 337]
        m[0] = 1
        assert ml.nvmlDeviceGetMemoryInfo_v2(d, m) == 25 and ml.nvmlDeviceGetMemoryInfo_v2(d, None) == 2
        """, grant)


CALLS_ITSELF = r"""
int nvmlSystemGetDriverVersion(char *out, unsigned n)
{
    unsigned count; long d = 0; ull m[5] = {0x02000028};
    if (nvmlDeviceGetCount_v2(&count) || nvmlDeviceGetHandleByIndex_v2(1, &d) || nvmlDeviceGetMemoryInfo_v2(d, m))
        return 999;
    snprintf(out, n, "%u %ld %llu", count, d, m[1] >> 20);
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, long *d) { if (!started) return 1; if (i >= (unsigned)cards()) return 2;
    *d = 100 + i; return 0; }
"""


def test_a_driver_that_calls_itself_reaches_itself(tmp_path):
    """NVML before 575 calls its exported functions through the linker, so they come to the shim where that is in the global
    scope. The program sees one GPU of 2154 MiB; the driver sees its own two of 16160 MiB."""
    grant = nvml_driver(tmp_path, CALLS_ITSELF, flags=["-Wl,-z,lazy"])
    succeeds(f"""
        ml = CDLL({str(SHIM / 'libnvidia-ml.so.1')!r}, mode=RTLD_GLOBAL)
        n, text, d, m = c_uint(), create_string_buffer(80), c_void_p(), (c_ulonglong * 5)(0x02000028)
        assert ml.nvmlInit_v2() == 0
        assert ml.nvmlSystemGetDriverVersion(text, 80) == 0 and text.value == b"2 101 16160", text.value
        assert ml.nvmlDeviceGetCount(byref(n)) == 0 and n.value == 1
        assert ml.nvmlDeviceGetCount_v2(byref(n)) == 0 and n.value == 1
        assert ml.nvmlDeviceGetHandleByIndex_v2(1, byref(d)) == 2 and ml.nvmlDeviceGetHandleByIndex_v2(0, byref(d)) == 0
        assert ml.nvmlDeviceGetMemoryInfo_v2(d, m) == 0 and m[1] == 2154 << 20
        """, grant, {"FAKE_CARDS": "2", "LD_PRELOAD": str(SHIM / "libnvidia-ml.so.1")})


SLOW_START = r"""
#include <unistd.h>
static int (*start)(void);
static int good(void) { return 0; }
__attribute__((constructor)) static void begin(void) { usleep(500000); start = good; }
int cuInit(unsigned flags) { return start(); }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
"""


def test_a_child_that_was_forked_while_the_driver_was_opened_gets_an_error(tmp_path):
    """The library is half opened in it, for good. The driver's own word to a child of a process that uses it is 3; and
    where the parent has the driver, a child that comes later has it, too."""
    library = fake_driver.build(tmp_path, "libcuda.so.1", fake_driver.CUDA_CARDS.replace("int cuInit(", "int unused_init(") +
                                SLOW_START)
    succeeds("""
        import time
        def child():
            pid = os.fork()
            if not pid:
                os._exit(cuda.cuInit(0))
            return os.waitpid(pid, 0)[1]
        thread = threading.Thread(target=lambda: cuda.cuDriverGetVersion(byref(c_int())))
        thread.start()
        time.sleep(0.2)
        assert child() == 3 << 8
        thread.join()
        assert child() in (0, 100 << 8) and cuda.cuInit(0) in (0, 100)
        """, grants.write(tmp_path, library, library, [CARD]))
