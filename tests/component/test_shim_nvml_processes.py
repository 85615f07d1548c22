"""Who is on a GPU, as the substitute for NVML tells it: over drivers with each layout of the lists, and by name."""
import subprocess

import pytest

import fake_driver
import grants
from shim_programs import BUILD, needs_no_grant_here, succeeds

pytestmark = needs_no_grant_here
WIDE = BUILD / "tests/unit/nvml-wide.so"
SANITIZED = b"libasan.so" in WIDE.read_bytes()


def wide_granted(tmp_path, *pids):
    grant = grants.write(tmp_path, WIDE, WIDE, [("GPU-old", "00000000:00:00.0", 2154 << 20, 16160 << 20)])
    grants.charge(tmp_path / "usage", 0, 0, pids)
    return grant


# --- drivers 535.54 to 535.98: entries of 32 bytes (fixture-nvml-wide.c) ---

def under_asan(**env):
    libasan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    return {"LD_PRELOAD": libasan, "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0", **env}


@pytest.mark.parametrize("number", [1, 24, 25, 26, 200, 4000])
@pytest.mark.parametrize("kind", ["Compute", "Graphics", "MPSCompute"])
def test_lists_with_entries_of_32_bytes(tmp_path, number, kind):
    """Under the address sanitizer: the driver writes where the shim has made room."""
    pids = sorted({1000, 1000 + number // 2, 999 + number})
    out = succeeds("""
        import struct
        assert ml.nvmlInit_v2() == 0
        d, n = c_void_p(), c_uint()
        assert ml.nvmlDeviceGetHandleByUUID(b"GPU-old", byref(d)) == 0
        ask = getattr(ml, "nvmlDeviceGet" + os.environ["KIND"] + "RunningProcesses_v3")
        ours = int(os.environ["OURS"])
        assert ask(d, byref(n), None) == 7 and n.value == ours
        buffer = create_string_buffer(32 * ours)
        assert ask(d, byref(n), buffer) == 0 and n.value == ours
        for pid, used, gi, ci, protected in struct.iter_unpack("<I4xQIIQ", buffer.raw):
            assert used == pid - 999 << 20 and gi == ci == 2**32 - 1 and protected == 2**64 - 1
            print(pid)
        """, wide_granted(tmp_path, *pids),
        under_asan(NVML_WIDE_PROCESSES=str(number), KIND=kind, OURS=str(len(pids))))
    assert out.split() == [str(pid) for pid in pids]


def test_lists_of_24_bytes_of_the_same_driver_stay_so(tmp_path):
    succeeds("""
        assert ml.nvmlInit_v2() == 0
        d, n = c_void_p(), c_uint(2)
        assert ml.nvmlDeviceGetHandleByUUID(b"GPU-old", byref(d)) == 0
        buffer = create_string_buffer(bytes([7]) * 72, 72)
        assert ml.nvmlDeviceGetComputeRunningProcesses_v2(d, byref(n), buffer) == 0 and n.value == 2
        assert [int.from_bytes(buffer.raw[at:at + 4], "little") for at in (0, 24)] == [1003, 1029]
        assert buffer.raw[48:] == bytes([7]) * 24
        """, wide_granted(tmp_path, 1003, 1029), under_asan(NVML_WIDE_PROCESSES="30"))


# --- names ---

NAMES = fake_driver.NVML_CARDS + r"""
int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned n) { if (!started) return 1; if (!name || !n) return 2;
    if (pid == 0) return 6; snprintf(name, n, "process %u", pid); return 0; }
"""


def test_only_the_programs_own_processes_have_names(tmp_path):
    """Those that have used a GPU under the grant, and the one that asks."""
    ml = fake_driver.build(tmp_path, "libnvidia-ml.so.1", NAMES)
    grant = grants.write(tmp_path, ml, ml, [(fake_driver.uuid(0), "", 2154 << 20, 16160 << 20)])
    grants.charge(tmp_path / "usage", 0, 0, [41, 43])
    succeeds("""
        name, ask = create_string_buffer(b"x" * 39, 40), ml.nvmlSystemGetProcessName
        assert ask(41, name, 40) == 1 and ask(42, name, 40) == 1
        assert ml.nvmlInit_v2() == 0
        for pid in (0, 1, 42, os.getppid(), 2**32 - 1):
            assert ask(pid, name, 40) == 6 and name.raw == b"x" * 39 + bytes(1), pid
            assert ask(pid, None, 40) == 2 and ask(pid, name, 0) == 2, pid
        for pid in (41, 43, os.getpid()):
            assert ask(pid, name, 40) == 0 and name.value == b"process %d" % pid
        assert ask(41, name, 8) == 0 and name.value == b"process"
        """, grant)
