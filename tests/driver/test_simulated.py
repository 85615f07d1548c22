"""The simulated driver of a version is as the real one of that version, in what can be seen without a GPU."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

import grants
from known import judge
from probes import BUILD, SHIM, SONAMES, VERSIONS, base_name, compared, exported

VALID_CALLS = pathlib.Path(__file__).with_name("valid_calls.py")

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


@pytest.fixture
def shimmed(simulated, env, tmp_path):
    """The shim in front of it."""
    card = json.loads((simulated / "gpus.json").read_text())["gpus"][0]
    grant = grants.write(tmp_path, *(simulated / "lib" / soname for soname in SONAMES),
                         [(card["uuid"], card["busId"], 2154 << 20, card["memoryMiB"] << 20)])
    return dict(env, LD_LIBRARY_PATH=str(SHIM), RATION_GRANT=str(grant))


def differences(driver, env, *arguments, names):
    """Where the driver itself dies it has read what an argument points to: there is no answer to imitate."""
    lines, count = compared(driver, env, "calls", *arguments, names=sorted(names))
    assert count > 250
    return [line for line in lines if " = Segmentation fault  |" not in line]


@pytest.mark.parametrize("way", ["env", "shimmed"])
@pytest.mark.parametrize("value", [0, 4096])
@pytest.mark.parametrize("soname", SONAMES)
def test_every_function_before_it_is_initialized(driver, request, way, soname, value):
    """With `value` for each argument: nothing, or an address at which there is nothing."""
    names = exported(driver.library(soname)) - STARTS - {"nvmlErrorString"}    # that one answers a text
    judge(differences(driver, request.getfixturevalue(way), soname, value, names=names), {})


@pytest.mark.parametrize("way", ["env", "shimmed"])
def test_every_function_of_libcuda_after_a_cuInit_that_failed(driver, request, way):
    """Where no GPU is visible. A second cuInit answers 304 on 550 and 100 before."""
    env = dict(request.getfixturevalue(way), CUDA_VISIBLE_DEVICES="")
    names = exported(driver.library("libcuda.so.1")) - STARTS
    judge(differences(driver, env, "libcuda.so.1", 0, "init", names=names), {})


@pytest.mark.parametrize("way", ["env", "shimmed"])
def test_functions_with_valid_arguments_before_it_is_initialized(driver, request, env, way):
    def answers(environment):
        done = subprocess.run([sys.executable, VALID_CALLS], env=environment, check=True, capture_output=True, text=True)
        return dict(line.split(" = ") for line in done.stdout.splitlines())
    theirs = answers(dict(env, LD_LIBRARY_PATH=str(driver.folder / "lib")))
    ours = answers(request.getfixturevalue(way))
    assert len(theirs) > 50 and "dies" not in theirs.values()
    assert {name: ours.get(name) for name in theirs} == theirs


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
