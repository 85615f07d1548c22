"""PyTorch's own allocators on the simulated GPU: under `ration run` they find what they find on a GPU of that size.

NVIDIA's runtime library does not work with the simulated driver, which has no functions without names (cuGetExportTable). One of
ours on public functions (runtime.c) is in its place; kernels are not launched. CuPy has NVIDIA's linked into it: it runs without a
GPU only (test_runtimes.py)."""
import os
import re
import subprocess

import pytest

from driver_tree import BUILD, Tree
from nvidia_libraries import FRAMEWORKS
from run_machine import LAYERS

pytestmark = [pytest.mark.full,    # fetches gigabytes
              pytest.mark.plain,    # a sanitized driver cannot be loaded by PyTorch
              pytest.mark.skipif(os.path.exists("/run/ration/grant"), reason="this machine has a grant")]

HERE = os.path.dirname(__file__)
ALLOCATORS = {"pieces": "", "segments": "expandable_segments:True", "pools": "backend:cudaMallocAsync"}
PROGRAM = """
import torch
MiB = 1 << 20
def info():
    left, total = torch.cuda.mem_get_info()
    return left // MiB, total // MiB
def take(mib):
    return torch.empty(mib * MiB, dtype=torch.uint8, device="cuda")
def refused(mib):
    try:
        take(mib)
    except torch.OutOfMemoryError as error:
        return str(error).splitlines()[0]
print("name", torch.cuda.get_device_name(0))
print("device", torch.cuda.device_count(), torch.cuda.get_device_properties(0).total_memory // MiB)
print("begin", *info())
held = take(500)
print("with 500", *info())
rest = take(info()[0] - 40)
print("with the rest", *info())
print("refused", refused(200))
part = torch.ones(MiB, dtype=torch.uint8)
held[:MiB].copy_(part)
print("still works", int(held[:MiB].cpu().sum()), *info())
del held, rest
torch.cuda.empty_cache()
print("empty", *info())
print("whole", take(info()[0] - 40).numel() // MiB)
print("more than there is", refused(100000))
"""


@pytest.fixture
def runtime(site, machine, tmp_path):
    """A folder with PyTorch, and the runtime library for it. What runtime.c does not have says that it is not supported."""
    folder = site("torch", FRAMEWORKS["torch"])
    undefined = set()
    for library in [*folder.glob("torch/lib/*.so*"), *folder.glob("nvidia/*/lib/*.so*")]:
        table = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
        undefined |= set(re.findall(r" U (\w+)@libcudart\.so\.12$", table, re.M))
    with open(f"{HERE}/runtime.c", encoding="ascii") as source:
        ours = set(re.findall(r"\b(\w+)\([^;{}]*\)\s*\{", source.read()))
    assert len(undefined & ours) > 40
    (tmp_path / "others.c").write_text("".join(f"int {name}(void) {{ return 801; }}\n" for name in sorted(undefined - ours)))
    (tmp_path / "map").write_text("libcudart.so.12 { *; };\n")
    target = machine.runs.parent / "libcudart.so.12"
    subprocess.run(["cc", "-std=gnu11", "-O1", "-w", "-shared", "-fPIC", f"-I{folder}/nvidia/cuda_runtime/include",
                    f"-I{folder}/triton/backends/nvidia/include", f"-Wl,-soname,{target.name},--version-script={tmp_path}/map",
                    "-o", target, f"{HERE}/runtime.c", tmp_path / "others.c", machine.lib / "libcuda.so.1"], check=True)
    return folder, target


def said(command, env):
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    return dict(re.findall(r"^(name|device|begin|with 500|with the rest|refused|still works|empty|whole|more than there is) (.*)$",
                           result.stdout, re.M))


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_it_finds_a_gpu_of_the_size_of_the_grant(machine, runtime, allocator):
    folder, library = runtime
    env = machine.env | {"PYTHONPATH": str(folder), "PYTORCH_CUDA_ALLOC_CONF": ALLOCATORS[allocator]}
    small = Tree(machine.runs.parent / "small")
    small.up("--gpus", "1x2154MiB")
    try:
        expected = said(["/usr/bin/python3", "-c", PROGRAM],
                        env | {"LD_LIBRARY_PATH": str(small.path / "lib"), "LD_PRELOAD": str(library)})
    finally:
        subprocess.run([BUILD / "sim/ration-sim", "down", small.path], check=True, capture_output=True)
    assert expected.pop("name") == "NVIDIA Simulated-2154MiB"
    numbers = {what: [int(word) for word in text.split() if word.isdigit()] for what, text in expected.items()}
    left, total = numbers["begin"]
    assert numbers["device"] == [1, 2154] and total == 2154 and 0 < total - left < 1024    # what a context takes
    assert numbers["with 500"] == [left - 500, 2154] and numbers["with the rest"][0] <= 40
    assert "llocat" in expected["refused"] and "None" not in (expected["refused"], expected["more than there is"])
    assert numbers["still works"][0] == 1 << 20 and numbers["empty"] == [left, total] and numbers["whole"] == [left - 40]
    for layer in LAYERS:
        # After what the layer of preloading has there.
        inside = f'LD_PRELOAD="${{LD_PRELOAD:+$LD_PRELOAD:}}{library}" exec "$@"'
        command = machine.command("sh", "-c", inside, "sh", "/usr/bin/python3", "-c", PROGRAM, args=["--layer", layer])
        found = said(command, env)
        assert found.pop("name") == "Tesla V100-SXM2-16GB"    # the name of the GPU itself
        assert found == expected, layer
