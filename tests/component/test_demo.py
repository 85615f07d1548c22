"""What ./demo shows while it works and when it fails. Its parts are stand-ins; tests/cluster/test_readme.py runs the real one."""
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from fake_apiserver import wait_for
from fake_driver import ROOT
from terminal import Terminal

# A round of the demo's sign of life is a second; here it is shorter, and counted.
STAND_INS = {
    "bin/sleep": 'echo >>"$DEMO/rounds"; exec /bin/sleep 0.01',
    "bin/id": "echo 0",
    "bin/meson": 'echo "meson looks for libcurl"',
    "lab/install-packages": 'echo INSTALLING; until [ "$(wc -l <"$DEMO/rounds")" -ge 65 ]; do /bin/sleep 0.01; done',
    "deploy/build-installed": "echo compiling",
    "lab/lab": 'case "$*" in *"get pods -l"*) echo a-pod;; *exec*env) echo A_GPU=1;; *) echo "lab $*";; esac',
}
STATUS = r"in progress: Debian packages \(([0-9]+) s so far, usually 1 minute\)"


@pytest.fixture
def tree(tmp_path):
    shutil.copy(ROOT / "demo", tmp_path / "demo")
    (tmp_path / "rounds").write_text("")
    for name, text in STAND_INS.items():
        replace(tmp_path, name, text)
    return tmp_path


def replace(tree, name, text):
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text(f"#!/bin/sh\n{text}\n")
    (tree / name).chmod(0o755)


def environment(tree):
    return {**os.environ, "PATH": f"{tree}/bin:{os.environ['PATH']}", "DEMO": str(tree), "TMPDIR": str(tree)}


def demo(tree):
    return subprocess.run([tree / "demo"], capture_output=True, text=True, check=False, timeout=60, env=environment(tree))


def rounds(tree):
    return len((tree / "rounds").read_text())


def test_it_says_first_what_it_will_do_and_how_long_each_part_takes(tree):
    done = demo(tree)
    assert done.returncode == 0, done
    told = done.stdout.split("INSTALLING")[0]
    assert re.search(r"takes [a-z ]+ minutes.*Debian packages \(1 minute\).*compiled \(.* minutes\).*cluster \(20 s\).*jobs \(10 s\)", told, re.S)


def test_without_a_terminal_there_is_a_line_for_each_half_minute(tree):
    replace(tree, "deploy/build-installed", ":")
    done = demo(tree)
    lines = [line for line in done.stderr.splitlines() if re.fullmatch(STATUS, line)]
    assert len(lines) in (2, rounds(tree) // 30) and "\x1b" not in done.stdout + done.stderr


def test_on_a_terminal_one_line_is_renewed_each_second_and_cleared_in_the_end(tree):
    terminal = Terminal([tree / "demo"], environment(tree))
    terminal.reads(lambda seen: "two jobs from" in seen, 60)
    shown = re.findall(rf"\r\x1b\[K{STATUS}\r", terminal.seen)
    assert len(shown) >= 60
    assert re.search(rf"{STATUS}\r\r\x1b\[K\r?\n== building Kubernetes", terminal.seen)
    assert terminal.ends() == 0


def test_a_line_is_no_wider_than_a_terminal_of_eighty_columns(tree):
    terminal = Terminal([tree / "demo"], environment(tree))
    assert terminal.ends() == 0
    assert all(len(text) < 80 for text in re.findall(r"in progress: [^\r\n]*", terminal.seen))


@pytest.mark.parametrize("part, text, said, next_step", [
    ("bin/id", "echo 1000", "must run as root", "sudo ./demo"),
    ("bin/meson", "echo 'Dependency \"libcurl\" not found'; exit 1", 'Dependency "libcurl" not found', "run ./demo again"),
    ("deploy/build-installed", "echo 'main.c:1: error'; exit 1", "main.c:1: error", "run ./demo again"),
    ("lab/lab", 'case "$*" in *"get pods"*) echo a-pod;; *wait*) echo "error: timed out"; exit 1;; esac', "error: timed out", "describe pods"),
])
def test_what_fails_is_shown_and_what_to_do_then(tree, part, text, said, next_step):
    replace(tree, part, text)
    done = demo(tree)
    assert done.returncode == 1
    assert said in done.stderr and next_step in done.stderr.splitlines()[-1], done.stderr
    assert done.stderr.splitlines()[-1].startswith("demo: ")


def test_what_a_part_says_itself_is_the_last_word(tree):
    """install-packages and the lab tell their own next step."""
    replace(tree, "lab/install-packages", "echo 'apt-get install failed' >&2; exit 100")
    done = demo(tree)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (100, "apt-get install failed")


def of_tree(tree):
    """Processes of this demo."""
    mark, found = f"DEMO={tree}".encode(), []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ:
                if mark in environ.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_no_process_and_no_file(tree, number):
    replace(tree, "deploy/build-installed", "exec /bin/sleep 1000")
    replace(tree, "lab/lab", 'echo >"$DEMO/here"; exec /bin/sleep 1000')
    with subprocess.Popen([tree / "demo"], env=environment(tree), start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for((tree / "here").exists, 30)
        os.killpg(process.pid, number)
        assert process.wait(30) != 0
    wait_for(lambda: not of_tree(tree), 30)
    assert not list(tree.glob("tmp.*"))
