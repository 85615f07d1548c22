"""tests/gpu/run on simulated drivers: so that it works when there is a GPU at last, and tells a broken promise from a kept one."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import pytest

from driver_tree import BUILD, Tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ROOT / "tests/gpu/run"
pytestmark = [pytest.mark.skipif(os.path.exists("/run/ration/grant"), reason="this machine has a grant"),
              pytest.mark.plain]    # nvidia-smi of a sanitizer's build needs help


def gpu_run(*args, program=RUN, **env):
    return subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, "RATION_BUILD": str(BUILD), **env})


class Lines:
    """The page's table: {(row, what): (simulated, measured, verdict)}."""

    def __init__(self, path):
        self.text, self.lines, row = path.read_text(), {}, ""
        for line in self.text.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if line.startswith("| ") and len(cells) == 5 and cells[0] != "row":
                row = cells[0] or row
                self.lines[row, cells[1]] = tuple(cells[2:])

    def verdicts(self):
        return {key: line[2] for key, line in self.lines.items()}

    def broken(self):
        return {row for (row, _), verdict in self.verdicts().items() if verdict.startswith("PROMISE BROKEN")}


@pytest.fixture
def other(tmp_path):
    """A second tree, in the place of hardware."""
    tree = Tree(tmp_path / "other")
    tree.up("--gpus", "1x16160MiB")
    yield tree
    subprocess.run([BUILD / "sim/ration-sim", "down", tree.path], check=False, capture_output=True)


def test_without_a_gpu_it_says_so_and_is_skipped(tmp_path):
    done = gpu_run("--driver", tmp_path, "--out", tmp_path / "page.md")
    assert done.returncode == 77 and not (tmp_path / "page.md").exists()
    assert done.stdout.startswith("no GPU to test on: ") and "libnvidia-ml.so.1" in done.stdout and done.stdout.count("\n") == 1


def test_a_simulated_driver_is_never_taken_for_hardware(tmp_path, other):
    done = gpu_run("--driver", other.path / "lib", "--out", tmp_path / "page.md")
    assert done.returncode == 77 and "is a simulated driver" in done.stdout
    # Not even where nothing around it tells: by what it does.
    (tmp_path / "alias").symlink_to(other.path / "lib")
    done = gpu_run("--driver", tmp_path / "alias", "--out", tmp_path / "page.md")
    assert done.returncode == 77 and "takes modules of ration-sim" in done.stdout
    assert not (tmp_path / "page.md").exists()


@pytest.mark.alone
@pytest.mark.waits
@pytest.mark.long(45)
def test_short_form_runs_from_begin_to_end_on_the_simulated_driver(tmp_path):
    done = gpu_run("--simulated", "--short", "--out", tmp_path / "page.md", "--junit", tmp_path / "junit.xml")
    page = Lines(tmp_path / "page.md")
    assert page.text.splitlines()[2].startswith("No GPU was there: nothing on this page was measured on hardware.")
    assert {line[1] for line in page.lines.values()} == {"not measured"} and "Not complete" not in page.text
    ends = {verdict for verdict in page.verdicts().values() if verdict in ("CRASHED", "HUNG", "FAILED")}
    assert not ends, done.stdout
    not_run = {row for (row, _), verdict in page.verdicts().items() if verdict == "not run"}
    assert not_run <= {"decoding (NVDEC)", "encoding (NVENC)", "a program in a pid namespace of its own", "shares with medium kernels"}
    assert page.broken() == set(), done.stdout
    assert done.returncode == 0
    cases = list(ET.parse(tmp_path / "junit.xml").getroot().iter("testcase"))
    assert len(cases) == int(re.search(r"\[\d+/(\d+)\]", done.stdout)[1])


@pytest.fixture
def no_limit(tmp_path):
    """A build whose shim is the simulated driver itself: it limits nothing."""
    made = tmp_path / "build"
    for name in ("src/cli/ration", "src/run/ration-run", "tests/gpu/gpu-probe", "sim/ration-sim"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(BUILD / name, made / name)
    for name in ("nvidia-smi", "libcuda.so.1", "libnvidia-ml.so.1"):
        shutil.copy2(BUILD / "sim" / name, made / "sim" / name)
    (made / "src/shim").mkdir(parents=True)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        shutil.copy2(BUILD / "sim" / name, made / "src/shim" / name)
    return made


def test_a_shim_that_limits_nothing_breaks_promises(tmp_path, no_limit, other):
    done = gpu_run("--simulated", "--simulated-driver", other.path, "--short", "-k", "size", "--out", tmp_path / "page.md",
                   RATION_BUILD=str(no_limit))
    assert done.returncode == 1, done.stdout
    assert Lines(tmp_path / "page.md").broken() == {"each question about the size has the same answer"}
    assert "1 promises broken" not in done.stdout.splitlines()[-1] and "promises broken" in done.stdout.splitlines()[-1]


@pytest.mark.alone    # where the processors have other work, shares are not judged
@pytest.mark.long(15)
def test_shares_of_a_shim_that_paces_nothing_are_a_broken_promise(tmp_path, no_limit, other):
    done = gpu_run("--simulated", "--simulated-driver", other.path, "--short", "-k", "shares with medium", "--out", tmp_path / "page.md",
                   RATION_BUILD=str(no_limit))
    assert done.returncode == 1 and Lines(tmp_path / "page.md").broken() == {"shares with medium kernels"}, done.stdout


@pytest.mark.long(15)
@pytest.mark.alone
def test_another_gpu_than_the_simulated_one_is_told_apart_and_no_failure(tmp_path, other):
    text = (other.path / "gpus.json").read_text()
    (other.path / "gpus.json").write_text(re.sub(r'"contextMiB": *\d+', '"contextMiB": 100', text))
    subprocess.run([BUILD / "sim/ration-sim", "up", other.path], check=True, capture_output=True)
    subprocess.run([BUILD / "sim/ration-sim", "set", other.path, "--slice-us", "5000"], check=True, capture_output=True)
    done = gpu_run("--pretend", other.path, "--short", "-k", "take", "--out", tmp_path / "take.md")
    page = Lines(tmp_path / "take.md")
    assert page.text.splitlines()[2].startswith("PRETENDED: ") and done.returncode == 0, done.stdout
    assert page.lines["what contexts take", "the first context of a second process"] == (
        "312 MiB", "100 MiB", "DIFFERS: the simulation must follow")
    assert page.lines["what contexts take", "SIGKILL gives all of it back within a second"] == ("yes", "yes", "holds")
    for _ in range(3):    # a gap that lasts until a program has a processor again tells nothing of the GPU
        gpu_run("--pretend", other.path, "--short", "-k", "time slices", "--out", tmp_path / "slices.md")
        slices = Lines(tmp_path / "slices.md").lines["two programs without ration: time slices", "length of a gap, median: the other's time slice"]
        told, found = (float(text.split()[0]) for text in slices[:2])
        if found == pytest.approx(5, 0.3):
            break
    assert slices[2].startswith("DIFFERS") and told == pytest.approx(2, 0.3) and found == pytest.approx(5, 0.3), slices


def fault(tree, *words):
    subprocess.run([BUILD / "sim/ration-sim", "fault", tree.path, "0", *words], check=True, capture_output=True)


def test_a_row_that_hangs_is_a_verdict_and_the_next_one_is_asked(tmp_path, other):
    fault(other, "slow", "cuMemAddressReserve", "600000")
    began = time.monotonic()
    done = gpu_run("--simulated", "--simulated-driver", other.path, "--short", "-k", "memory", "--limit", "8", "--out", tmp_path / "page.md")
    page = Lines(tmp_path / "page.md")
    assert done.returncode == 1 and page.verdicts()["virtual memory", "(the row)"] == "HUNG", done.stdout
    assert page.lines["virtual memory", "(the row)"][0] == "hung: no end in 8 s"
    assert ("memory pools", "1 MiB: reserved, used, taken of the GPU") in page.lines    # before it
    assert time.monotonic() - began < 120
    assert not left_behind(other)


def left_behind(tree):
    """Programs of a row that still hold memory of the GPU."""
    time.sleep(0.2)
    said = subprocess.run([BUILD / "sim/ration-sim", "status", tree.path], check=True, capture_output=True, text=True).stdout
    return re.findall(r"^\d+ +\d+ +\d+MiB$", said, re.M)


def test_a_row_that_crashes_is_a_verdict_and_the_next_one_is_asked(tmp_path, other):
    fault(other, "kill", "cuMemMap")
    done = gpu_run("--simulated", "--simulated-driver", other.path, "--short", "-k", "memory", "--out", tmp_path / "page.md")
    page = Lines(tmp_path / "page.md")
    assert done.returncode == 1 and page.verdicts()["virtual memory", "(the row)"] == "CRASHED", done.stdout
    assert page.lines["virtual memory", "(the row)"][0].startswith("crashed: ended by signal 9")
    assert page.verdicts()["virtual memory", "64 MiB created: taken of the GPU"] == "not measured"    # what it had is kept
    assert "2 rows" not in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_the_table_of_what_was_done(tmp_path, other, number):
    argv = [RUN, "--simulated", "--simulated-driver", other.path, "--out", tmp_path / "page.md"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "RATION_BUILD": str(BUILD)}) as process:
        for line in process.stdout:
            if line.startswith("[3/"):
                process.send_signal(number)
                break
        last = process.stdout.read().splitlines()[-1]
        assert process.wait(30) == 130
    page = Lines(tmp_path / "page.md")
    assert "**Not complete: it was interrupted; 2 of " in page.text and str(tmp_path / "page.md") in last
    assert ("a run starts", "layer that ration run uses on this machine") in page.lines
    assert not left_behind(other)


def test_a_page_is_there_after_each_row_and_time_that_is_over_is_said(tmp_path, other):
    done = gpu_run("--simulated", "--simulated-driver", other.path, "--minutes", "0.05", "--out", tmp_path / "page.md")
    assert done.returncode in (1, 3) and "--minutes were over" in (tmp_path / "page.md").read_text()


def test_two_at_a_time_on_one_gpu_are_refused(tmp_path, other):
    argv = [RUN, "--pretend", other.path, "--out", tmp_path / "page.md"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "RATION_BUILD": str(BUILD)}) as first:
        assert first.stdout.readline().startswith("[1/")
        second = gpu_run("--pretend", other.path, "--out", tmp_path / "second.md")
        first.send_signal(signal.SIGINT)
    assert second.returncode == 1 and f"another one asks {other.uuids()[0]}" in second.stderr
    assert not (tmp_path / "second.md").exists()


def test_measurements_are_not_overwritten_by_simulated_numbers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# On hardware\n\n<!-- has measurements of hardware -->\n")
    before = page.read_text()
    done = gpu_run("--simulated", "--short", "-k", "a run starts", "--out", page)
    assert done.returncode == 1 and "has measurements of hardware" in done.stderr and page.read_text() == before


def test_what_is_missing_is_said_before_anything_is_started(tmp_path):
    done = gpu_run("--simulated", "--out", tmp_path / "page.md", RATION_BUILD="/nowhere")
    assert done.returncode == 1 and "/nowhere has no src/cli/ration. Build it" in done.stderr and "--bundle" in done.stderr


def test_a_bundle_runs_where_nothing_else_of_the_project_is(tmp_path):
    assert gpu_run("--bundle", tmp_path / "bundle.tar.gz").returncode == 0
    subprocess.run(["tar", "xzf", "bundle.tar.gz"], cwd=tmp_path, check=True)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "ration-gpu/tests/gpu/run", "--simulated", "--short", "-k", "what", "--out", "hardware.md"],
                          cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = Lines(tmp_path / "hardware.md")
    assert page.verdicts()["what contexts take", "SIGKILL gives all of it back within a second"] == "not measured"
