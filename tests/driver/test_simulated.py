"""The simulated driver of a version is as the real one of that version, in what can be seen without a GPU."""
import os
import pathlib
import subprocess

import pytest

from known import judge
from probes import BUILD, base_name, compared, exported
from test_calls import VERSIONS

# Names that the simulated NVML lacks.
KNOWN = {"libcuda.so.1": {},
         "libnvidia-ml.so.1": {"old and internal names": "^nvmlGetBlacklist|^nvmlRetry_NvRmControl|^nvmlInternalGetExportTable"}}


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


@pytest.mark.parametrize("soname", sorted(KNOWN))
def test_it_exports_the_names_of_its_version(driver, simulated, soname):
    real, ours = exported(driver.library(soname)), exported(simulated / "lib" / soname)
    assert ours - real == set()
    judge(sorted(real - ours), KNOWN[soname])


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
