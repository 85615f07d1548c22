"""The README followed literally on a fresh clone: both of its commands work."""
import os
import re
import shutil
import subprocess
import tempfile
import time
import pathlib

import pytest

from cluster import ROOT

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def clone():
    """What somebody gets who clones now: the commit, nothing that lies around beside it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ration-clone-"))
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder / "ration")], check=True)
    yield folder / "ration"
    shutil.rmtree(folder)


def run(clone, command, timeout):
    """As typed into a shell in the clone; labs of its own, so that a demo of the person who tests stays alive."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RATION_LAB", "RATION_BUILD"))}
    environment["RATION_LABS"] = str(clone.parent / "labs")
    return subprocess.run(["bash", "-c", command], cwd=clone, env=environment, capture_output=True, text=True,
                          timeout=timeout, stdin=subprocess.DEVNULL)


def commands_of(clone):
    """The lines of the README's code blocks that start with ./"""
    return re.findall(r"^(\./\S+.*)$", (clone / "README.md").read_text(), re.M)


@pytest.mark.long(1)
def test_the_readme_has_exactly_these_commands(clone):
    assert commands_of(clone) == ["./demo --local", "./demo", "./check"]


@pytest.mark.long(35)
def test_demo_local_takes_less_than_two_minutes_and_leaves_nothing(clone):
    started = time.monotonic()
    done = run(clone, "./demo --local", 300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert time.monotonic() - started < 120
    assert "SIMULATED" in done.stdout or "this machine's own card" in done.stdout
    assert re.search(r"MiB / +2154MiB", done.stdout) and "CUDA_ERROR_OUT_OF_MEMORY" in done.stdout
    assert "1 other run has the rest" in done.stdout + done.stderr and "(exit status 125)" in done.stdout


@pytest.mark.long(100, group="readme-demo")
def test_demo_shows_the_table_the_environment_and_nvidia_smi_and_goes_away(clone):
    try:
        done = run(clone, "./demo", 1500)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        out = done.stdout
        assert "SIMULATED" in out
        node, = set(re.findall(r" Running .* (cn-\S+) +<none> +<none>$", out, re.M))    # one for both jobs
        units, mib, row = {"cn-beijing.192.168.8.44": (16, 16384, "7/16 +0/0 +7/16"),
                           "cn-zhangjiakou.192.168.66.139": (15, 16160, "7/15 +0/15 +7/30")}[node]
        assert re.search(rf"^{re.escape(node)} +\S+ +{row}", out, re.M), out[-4000:]
        assert f"ALIYUN_COM_GPU_MEM_CONTAINER=4\nALIYUN_COM_GPU_MEM_DEV={units}\n" in out
        assert f"/ {mib}MiB |" in out
        # The three commands it offers work as printed.
        offered = out[out.index("Three things to try"):]
        lines = [line.strip().split("   #")[0] for line in offered.splitlines() if line.startswith("  kubectl")]
        assert len(lines) == 3
        for line in lines:
            tried = run(clone, f'eval "$(lab/lab env)"; {line}', 180)
            assert tried.returncode == 0 and "cgpu" in line and "Allocated" in tried.stdout, (line, tried)
        started = time.monotonic()
        again = run(clone, "./demo", 300)
        assert again.returncode == 0, again.stdout[-2000:] + again.stderr[-2000:]
        assert time.monotonic() - started < 60, "a second start takes under 60 s"
    finally:
        down = run(clone, "./demo down", 120)
    assert down.returncode == 0, down.stderr
    assert not list((clone.parent / "labs").glob("*/nodes"))


@pytest.mark.long(100, group="readme-check")
def test_check_runs_in_the_clone_and_ends_with_the_count(clone):
    """This very test is part of a whole ./check; a ring of it must do."""
    done = run(clone, "./check unit", 1500)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.fullmatch(r"[1-9][0-9]* passed, 0 failed, [0-9]+ skipped", done.stdout.strip().splitlines()[-1])


@pytest.mark.long(1)
def test_demo_refuses_what_it_does_not_know(clone):
    assert run(clone, "./demo sideways", 30).returncode == 2
    assert "Usage" in run(clone, "./demo --help", 30).stdout
