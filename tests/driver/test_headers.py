"""Our declarations against NVIDIA's own headers: how a function is called, and where a structure has what."""
import pathlib
import re

import pytest

from dwarf import compile_types
from known import judge
from probes import SHIM

ROOT = pathlib.Path(__file__).resolve().parents[2]
CUDA = [("nvidia-cuda-runtime-cu11", "11.8.89"), ("nvidia-cuda-runtime-cu12", "12.9.79"), ("nvidia-cuda-runtime", "13.0.96"),
        ("nvidia-cuda-runtime", "13.5.37")]
NVML = [("nvidia-nvml-dev-cu12", "12.0.140"), ("nvidia-nvml-dev-cu12", "12.9.79"), ("nvidia-nvml-dev", "13.5.37")]
OURS = {"shim": "src/shim/nvml-abi.h", "simulated": "sim/libnvidia-ml/nvml-abi.h"}


def header(folder, name):
    return next(folder.rglob(name))


def differing(ours, theirs):
    return [f"{name}: {ours[name]}  |  {theirs[name]}" for name in sorted(ours) if ours[name] != theirs[name]]


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def declared(text, pattern):
    return set(re.findall(pattern, without_comments(text), re.M))


@pytest.mark.parametrize("package", CUDA, ids="-".join)
def test_prototypes_of_cuda(wheel, package, tmp_path):
    official = header(wheel(*package), "cuda.h")
    text = without_comments(official.read_text())    # they name functions of other headers
    mine = declared((ROOT / "src/cuda/functions.h").read_text() + (ROOT / "src/cuda/functions-work.h").read_text(),
                    r"^CUresult (cu\w+)\(")
    # CUDA 13 declares only the newest version of a function by its plain name; others it declares for itself alone.
    internal = ["-D__CUDA_API_VERSION_INTERNAL", f"-I{official.parent}"]
    names = {name: name for name in mine if re.search(rf"\b{name}\(", text)}
    assert len(names) > 200
    ours = compile_types(tmp_path, ['"cuda/functions.h"', '"cuda/functions-work.h"'], names, [f"-I{ROOT}/src"])
    theirs = compile_types(tmp_path, ["<cuda.h>"], names, internal)
    judge(differing(ours, theirs), {})


@pytest.mark.parametrize("package", NVML, ids="-".join)
@pytest.mark.parametrize("whose", sorted(OURS))
def test_layouts_of_nvml(wheel, package, whose, tmp_path):
    official = header(wheel(*package), "nvml.h")
    text = official.read_text()
    mine = declared((ROOT / OURS[whose]).read_text(), r"^\} (nvml\w+_t);")
    names = {name: name for name in mine if re.search(rf"\b{name};", text)}
    assert len(names) >= 3
    ours = compile_types(tmp_path, [f'"{ROOT / OURS[whose]}"'], names,
                         [f"-I{ROOT}/src", f"-I{ROOT}", f"-I{SHIM}"])
    theirs = compile_types(tmp_path, [f'"{official}"'], names)
    judge(differing(ours, theirs), {})
