"""src/cuda against what NVIDIA publishes: the layouts and values of its Python bindings."""
import json
import os
import pathlib
import re
import subprocess

import pytest

import cuda_clients

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["RATION_BUILD"])
pytestmark = pytest.mark.plain    # of headers, not of a build

# Prints for each "TYPE FIELD OFFSET SIZE" of standard input what the bindings see otherwise: a field is written through
# them, the bytes that changed tell where it is.
PROBE = """
import ctypes, sys
from cuda.bindings import driver

SAME = {"CUDA_ARRAY_DESCRIPTOR": "CUDA_ARRAY_DESCRIPTOR_v2", "CUDA_ARRAY3D_DESCRIPTOR": "CUDA_ARRAY3D_DESCRIPTOR_v2",
        "CUDA_KERNEL_NODE_PARAMS": "CUDA_KERNEL_NODE_PARAMS_v3"}
for line in sys.stdin:
    name, field, offset, size = line.split()
    offset, size = int(offset), int(size)
    kind = getattr(driver, SAME.get(name, name))
    thing = kind()
    address, length = int(thing.getPtr()), driver.sizeof(kind)
    if field == "-":
        if length != size:
            print(f"{name} has {length} bytes, not {size}")
        continue
    *path, last = field.split(".")
    before = ctypes.string_at(address, length)
    target = thing
    for part in path:
        target = getattr(target, part)
    value = int.from_bytes(b"\\x7d" * size, "little")
    setattr(target, last, value)
    after = ctypes.string_at(address, length)
    changed = [i for i in range(length) if before[i] != after[i]]
    if changed != list(range(offset, offset + size)):
        print(f"{name}.{field} is at {changed}, not {size} bytes at {offset}")
"""


@pytest.fixture(scope="module")
def env():
    return cuda_clients.environment()


@pytest.mark.long(20)
def test_layouts_are_those_of_the_published_bindings(env):
    ours = subprocess.run([BUILD / "tests/component/cuda-abi"], capture_output=True, text=True, check=True).stdout
    assert len(ours.splitlines()) > 80
    result = subprocess.run([cuda_clients.python(), "-c", PROBE], input=ours, capture_output=True, text=True, env=env)
    assert result.returncode == 0 and result.stdout == "", result.stdout + result.stderr


def test_values_are_those_of_the_published_bindings(env):
    text = "".join((ROOT / "src/cuda" / name).read_text() for name in ("abi.h", "abi-launch.h"))
    ours = dict(re.findall(r"^\s*(?:#define )?(CU[A-Z_0-9]+?)(?: =)? (0x[0-9a-f]+|\d+)(?:u|ull)?\b", text, re.M))
    assert len(ours) > 150 and ours["CUDA_ERROR_UNKNOWN"] == "999"
    script = """
import json
from cuda.bindings import driver
found = {}
for holder in vars(driver).values():
    if hasattr(holder, "__members__"):
        found.update({name: int(member.value) for name, member in holder.__members__.items()})
found.update({name: value for name, value in vars(driver).items() if name.startswith("CU") and isinstance(value, int)})
print(json.dumps(found))
"""
    theirs = json.loads(subprocess.run([cuda_clients.python(), "-c", script], capture_output=True, text=True, env=env,
                                       check=True).stdout)
    unknown = set(ours) - set(theirs)
    wrong = {name: (value, theirs[name]) for name, value in ours.items()
             if name in theirs and int(value, 0) != theirs[name]}
    assert not wrong
    assert not unknown - {"CUDA_EXTERNAL_MEMORY_DEDICATED", "CU_LAUNCH_PARAM_END"}


def test_every_exported_name_says_what_it_answers_to():
    """The names of all drivers up to CUDA 13.5; a version is major * 1000 + minor * 10. cuGetProcAddress does not know
    those with "-"."""
    lines = (ROOT / "src/cuda/libcuda.syms").read_text().splitlines()
    assert len(lines) == 729
    names = [line.split()[0] for line in lines]
    assert names == sorted(set(names))
    for line in lines:
        symbol, lookup, version, *per_thread = line.split()
        if lookup == "-":
            assert version == "0" and not per_thread, line
            continue
        assert re.fullmatch(re.escape(lookup) + r"(_v\d)?(_pt[sd][zs])?", symbol), line
        assert 2000 <= int(version) <= 13050 and int(version) % 10 == 0, line
        assert bool(per_thread) == bool(re.search(r"_pt(sz|ds)$", symbol)), line
