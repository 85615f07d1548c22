"""The simulated driver of a version is as the real one of that version, in what can be seen without a GPU."""
import os
import pathlib
import subprocess

import pytest

from known import judge
from probes import BUILD, SONAMES, base_name, compared, exported
from test_calls import VERSIONS

# What starts the driver: it answers that there is none, or no GPU.
STARTS = {"cuInit", "nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags"}


@pytest.fixture(scope="module")
def simulated(driver, tmp_path_factory):
    """A tree that imitates the version of the real driver."""
    tree = tmp_path_factory.mktemp("simulated") / "tree"
    command = [BUILD / "sim/ration-sim", "up", tree, "--gpus", "1x16160MiB", "--driver-version", driver.version]
    subprocess.run(command, check=True, capture_output=True)
    yield tree
    subprocess.run([BUILD / "sim/ration-sim", "down", tree], check=True, capture_output=True)


@pytest.fixture
def env(simulated):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RATION_", "LD_", "CUDA_"))}
    return dict(clean, LD_LIBRARY_PATH=str(pathlib.Path(simulated) / "lib"))


@pytest.mark.parametrize("soname", SONAMES)
def test_it_exports_the_names_of_its_version(driver, simulated, soname):
    real, ours = exported(driver.library(soname)), exported(simulated / "lib" / soname)
    assert ours ^ real == set()


@pytest.mark.parametrize("value", [0, 4096])
@pytest.mark.parametrize("soname", ["libnvidia-ml.so.1"])
def test_every_function_before_it_is_initialized(driver, env, soname, value):
    """With `value` for each argument: nothing, or an address at which there is nothing."""
    names = sorted(exported(driver.library(soname)) - STARTS - {"nvmlErrorString"})    # that one answers a text
    lines, count = compared(driver, env, "calls", soname, value, names=names)
    assert count > 250
    # Where the driver itself dies it has read what an argument points to: there is no answer to imitate.
    judge([line for line in lines if " = Segmentation fault  |" not in line], {})


@pytest.mark.parametrize("what", ["errors", "nvml-errors"])
def test_texts_of_errors(driver, env, what):
    lines, count = compared(driver, env, what)
    assert count > 1000
    judge(lines, {})


def test_cuGetProcAddress_for_all_names_versions_and_flags(driver, env, simulated):
    symbols = exported(simulated / "lib" / "libcuda.so.1")
    names = sorted(symbols | {base_name(name) for name in symbols} | {"", "cu", "cuNoSuchFunction", "x" * 200})
    lines, count = compared(driver, env, "lookup", *VERSIONS, names=names)
    assert count > len(names) * len(VERSIONS)
    judge(lines, {})
