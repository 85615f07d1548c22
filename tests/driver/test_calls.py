"""Calls that need no GPU answer the same with the shim in front of the driver as without it."""
import pytest

from known import judge
from probes import VERSIONS, WAYS, base_name, compared, environment, exported


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [0, 4096])
@pytest.mark.parametrize("soname", ["libcuda.so.1", "libnvidia-ml.so.1"])
def test_every_function_before_it_is_initialized(driver, way, soname, value, tmp_path):
    """With `value` for each argument: nothing, or an address at which there is nothing."""
    names = sorted(exported(driver.library(soname)) - {"nvmlErrorString"})    # that one answers a text, not a number
    lines, count = compared(driver, environment(driver, way, tmp_path), "calls", soname, value, names=names)
    assert count > 250
    # Where the driver itself dies there is no answer that the shim would have to give.
    judge([line for line in lines if " = Segmentation fault  |" not in line or "absent" in line], {})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [0, 4096])
def test_every_function_after_a_cuInit_that_failed(driver, way, value, tmp_path):
    """On a machine without a GPU cuInit answers 100."""
    names = sorted(exported(driver.library("libcuda.so.1")))
    lines, count = compared(driver, environment(driver, way, tmp_path), "calls", "libcuda.so.1", value, "init", names=names)
    assert count > 500
    judge([line for line in lines if " = Segmentation fault  |" not in line or "absent" in line], {})


@pytest.mark.parametrize("way", WAYS)
def test_cuGetProcAddress_for_all_names_versions_and_flags(driver, way, tmp_path):
    symbols = exported(driver.library("libcuda.so.1"))
    names = sorted(symbols | {base_name(name) for name in symbols} | {"", "cu", "cuNoSuchFunction", "nvmlInit", "x" * 200})
    lines, count = compared(driver, environment(driver, way, tmp_path), "lookup", *VERSIONS, names=names)
    assert count >= len(names) * len(VERSIONS) * 5
    judge(lines, {})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", ["errors", "nvml-errors"])
def test_texts_of_errors(driver, way, what, tmp_path):
    lines, count = compared(driver, environment(driver, way, tmp_path), what)
    assert count > 1000
    judge(lines, {})
