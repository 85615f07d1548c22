"""The tests for a real card (tests/gpu), on a simulated one: so that they work when there is a card at last."""
import os
import pathlib
import subprocess
import xml.etree.ElementTree as ET

import pytest

from test_run import machine    # noqa: F401, a fixture

ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.skipif(os.path.exists("/run/ration/grant"), reason="this machine has a grant"),
              pytest.mark.skipif("RATION_SANITIZE" in os.environ, reason="nvidia-smi of a sanitizer's build needs help")]


def gpu_tests(*args, **env):
    return subprocess.run([ROOT / "tests/gpu/run", *args], capture_output=True, text=True, timeout=300, check=False,
                          env=dict(os.environ, **env))


def test_without_a_card_it_says_so_and_is_skipped(tmp_path):
    for args, env in (((), {"PATH": "/nowhere"}), (("--driver", tmp_path), {"PATH": "/nowhere"})):
        done = gpu_tests(*args, **env)
        assert done.returncode == 77, done.stderr
        assert done.stdout.startswith("no GPU to test on: nvidia-smi: No such file") and done.stdout.count("\n") == 1


def test_all_but_pytorch_passes_on_a_simulated_card_and_leaves_a_table(machine, tmp_path):    # noqa: F811
    done = gpu_tests("--driver", machine.lib, "--out", tmp_path / "gpu.md", "--junit", tmp_path / "junit.xml",
                     RATION_RUNS=str(machine.runs))
    assert done.returncode == 0, done.stdout + done.stderr
    cases = ET.parse(tmp_path / "junit.xml").getroot().iter("testcase")
    skipped = {case.get("classname").split(".")[-1]: case.find("skipped") is not None for case in cases}
    assert skipped == {"test_memory": False, "test_cost": False, "test_torch": True}
    page = (tmp_path / "gpu.md").read_text()
    assert "SIMULATED" in page and "| 2154MiB" in page
    # 16160 / 4; 512 bytes of a block of 2 MiB for each of 4096.
    assert "4040.0" in page and "| 512 " in page and all(f"| {way} " in page for way in ("linear", "async", "virtual"))
