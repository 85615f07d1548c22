"""Which device is which in a run: numbered from 0 in the order of --gpu, in CUDA and NVML alike, and CUDA_VISIBLE_DEVICES
means those numbers, whoever sets it."""
import os
import re
import sys
import textwrap

import pytest

from driver_tree import BUILD, run as run_checked
from run_machine import CUDA, LAYERS

pytestmark = pytest.mark.skipif(os.path.exists("/run/ration/grant"), reason="this machine has a grant")

# Prints the UUIDs of the devices in CUDA's order, or the answer of cuInit, then those of NVML.
SHOW = """
    def cuda_order():
        r, n, uuids = cuda.cuInit(0), c_int(), []
        if r:
            return [str(r)]
        assert cuda.cuDeviceGetCount(byref(n)) == 0
        for i in range(n.value):
            d, u = c_int(), create_string_buffer(16)
            assert cuda.cuDeviceGet(byref(d), i) == 0 and d.value == i
            assert cuda.cuDeviceGetUuid_v2(u, d) == 0
            h = u.raw.hex()
            uuids.append(f"GPU-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}")
        assert cuda.cuDeviceGet(byref(d), n) == 101
        return uuids
    def nvml_order():
        ml, n, uuids = CDLL("libnvidia-ml.so.1"), c_uint(), []
        assert ml.nvmlInit_v2() == ml.nvmlDeviceGetCount_v2(byref(n)) == 0
        for i in range(n.value):
            h, u = c_void_p(), create_string_buffer(96)
            assert ml.nvmlDeviceGetHandleByIndex_v2(i, byref(h)) == ml.nvmlDeviceGetUUID(h, u, 96) == 0
            uuids.append(u.value.decode())
        return uuids
    """


@pytest.fixture
def three(machine):
    run_checked(BUILD / "sim/ration-sim", "up", machine.tree.path, "--gpus", "3x16160MiB")
    return machine


def order(machine, code="", gpus="2,0", layer="mount", env=None):
    done = machine.python(SHOW + code + "\n    print(*cuda_order()), print(*nvml_order())",
                          args=["--gpu", gpus, "--layer", layer], env=env)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("gpus", ["0", "2", "0,1,2", "2,0", "1,2,0"])
def test_devices_are_numbered_in_the_order_of_gpu(three, layer, gpus):
    uuids = three.tree.uuids()
    granted = [uuids[int(i)] for i in gpus.split(",")]
    assert order(three, gpus=gpus, layer=layer) == [granted, granted]
    unset = "\n    os.environ.pop('CUDA_VISIBLE_DEVICES')"
    assert order(three, unset, gpus=gpus, layer=layer) == [granted, granted]


# What the CUDA C++ Programming Guide (13.0, "CUDA Environment Variables") says of indices, UUIDs, their beginnings, -1
# and invalid entries; what it does not say (repeated entries, numbers with something behind, mixed lists) as PyTorch
# 2.4 has found it and imitates it (torch/cuda/__init__.py, _parse_visible_devices()). a, b: the run's own; x: another.
LISTS = [("0", [0]), ("1", [1]), ("0,1", [0, 1]), ("1,0", [1, 0]), ("0,-1,1", [0]), ("0,7,1", [0]), ("", []), ("-1", []),
         ("7", []), ("2", []), ("0,0", []), ("1,0,1", []), ("1gpu,0two", [1, 0]), (" 1, 0", [1, 0]), ("none", []),
         ("a", [0]), ("b", [1]), ("b,a", [1, 0]), ("a,x,b", [0]), ("x", []), ("a,1", [0]), ("0,b", [0]), ("b,b", []),
         ("a[:-3]", [0]), ("b[:-1],a[:-1]", [1, 0]), ("GPU-", []), ("GPU", []), ("MIG-a/1/0", []), ("a,MIG-b/1/0", [0]),
         ("99999999999999999999", []), (",", []), ("0,", [0]), ("+1", [1])]


def filled(text, a, b, x):
    names = {"a": a, "b": b, "x": x}
    return re.sub(r"(?<![A-Za-z-])([abx])(\[:(-\d)\])?(?![a-z])|(?<=MIG-)([ab])",
                  lambda m: names[m[1] or m[4]][:int(m[3]) if m[3] else None], text)


@pytest.mark.parametrize("text,expected,setter", [(*case, "program") for case in LISTS] +
                         [(*case, "launcher") for case in LISTS if case[0] in ("0", "1,0", "", "b", "a,x,b")])
def test_visible_devices_are_the_runs_own(three, text, expected, setter):
    """Set by the program for itself, and by one that starts it. NVML does not know the variable."""
    uuids = three.tree.uuids()
    granted = [uuids[2], uuids[0]]
    value = filled(text, *granted, uuids[1])
    if setter == "program":
        seen = order(three, f"\n    os.environ['CUDA_VISIBLE_DEVICES'] = {value!r}")
    else:
        code = textwrap.dedent(CUDA) + textwrap.dedent(SHOW) + "print(*cuda_order()), print(*nvml_order())"
        done = three.run("env", f"CUDA_VISIBLE_DEVICES={value}", sys.executable, "-c", code, args=["--gpu", "2,0"])
        seen = [line.split() for line in done.stdout.splitlines()]
    assert seen == [[granted[i] for i in expected] or ["100"], granted]


@pytest.mark.parametrize("value", ["PCI_BUS_ID", "FASTEST_FIRST"])
def test_the_order_of_gpu_is_above_that_of_the_machine(three, value):
    uuids = three.tree.uuids()
    assert order(three, env={"CUDA_DEVICE_ORDER": value})[0] == [uuids[2], uuids[0]]


def test_the_programs_environment_stays_its_own(three):
    """Of the C library and of the kernel, also in what another thread reads or starts meanwhile."""
    done = three.python(SHOW + """
    import subprocess, threading
    libc = CDLL(None)
    libc.getenv.restype = c_char_p
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    seen, stop = set(), False
    def look():
        while not stop:
            seen.add(libc.getenv(b"CUDA_VISIBLE_DEVICES"))
            seen.add(subprocess.run(["printenv", "CUDA_VISIBLE_DEVICES"], capture_output=True).stdout.strip())
    threads = [threading.Thread(target=look) for _ in range(4)]
    [t.start() for t in threads]
    devices = cuda_order()
    time.sleep(0.1)
    stop = True
    [t.join() for t in threads]
    print(devices, seen)
    """, args=["--gpu", "2,0"])
    assert done.stdout == f"{[three.tree.uuids()[0]]} {{b'1'}}\n", done.stderr


def test_each_device_is_its_own_card(three):
    """What is allocated on a device is taken from the card that NVML shows under the same number."""
    done = three.python("""
        os.environ["CUDA_VISIBLE_DEVICES"] = "1"
        ml, h, m, p = CDLL("libnvidia-ml.so.1"), c_void_p(), (c_ulonglong * 3)(), c_ulonglong()
        context()
        assert cuda.cuMemAlloc_v2(byref(p), c_size_t(1000 << 20)) == 0
        used = []
        assert ml.nvmlInit_v2() == 0
        for i in range(2):
            assert ml.nvmlDeviceGetHandleByIndex_v2(i, byref(h)) == ml.nvmlDeviceGetMemoryInfo(h, m) == 0
            used.append(m[2] >> 20)
        assert used[0] < 500 and used[1] >= 1000, used
        print("done")
        """, args=["--gpu", "2,0"])
    assert done.stdout == "done\n", done.stderr


def test_threads_that_begin_at_once_see_the_same_devices(three):
    done = three.python(SHOW + """
    import threading
    os.environ["CUDA_VISIBLE_DEVICES"] = "1,0"
    found = []
    threads = [threading.Thread(target=lambda: found.append(cuda_order())) for _ in range(16)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert len(found) == 16
    print(*sorted(map(str, found))[::15])
    """, args=["--gpu", "2,0"])
    uuids = three.tree.uuids()
    assert done.stdout == f"{[uuids[0], uuids[2]]} {[uuids[0], uuids[2]]}\n", done.stderr
