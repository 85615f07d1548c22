"""The real nvidia-smi says the same with and without the shim where there is no GPU."""
import subprocess

import pytest

from probes import WAYS, environment

ARGUMENTS = ["", "-L", "-q", "-q -x", "-q -d MEMORY,PIDS", "--help", "--version", "-h -q", "--query-gpu=name,memory.total --format=csv",
             "--query-compute-apps=pid,used_memory --format=csv,noheader", "--help-query-gpu", "-i 0", "-pm 1", "-r", "pmon -c 1",
             "dmon -c 1", "topo -m", "nvlink -s", "mig -lgip", "vgpu", "drain -l", "clocks", "boost-slider -l", "--no-such-option",
             "no-such-verb", "-f /dev/null -q"]


def smi(driver, arguments, env):
    result = subprocess.run([driver.smi, *arguments.split()], env=env, capture_output=True, text=True, timeout=60)
    return result.returncode, result.stdout, result.stderr


@pytest.mark.parametrize("way", WAYS)
def test_it_says_the_same_without_a_gpu(driver, way, tmp_path):
    plain, shimmed = (environment(driver, which, tmp_path) for which in (None, way))
    for arguments in ARGUMENTS:
        expected = smi(driver, arguments, plain)
        assert smi(driver, arguments, shimmed) == expected, arguments
        assert expected[0] != 0 or "-h" in arguments or "--version" in arguments, arguments    # there is no GPU
