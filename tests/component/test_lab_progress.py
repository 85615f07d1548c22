"""What lab/lab shows while a step lasts, and what it says when a build fails."""
import os
import re
import subprocess
import sys

import pytest

from fake_driver import ROOT
from terminal import Terminal

sys.path.insert(0, str(ROOT / "lab"))
from rationlab import binaries    # noqa: E402
from rationlab.errors import LabError    # noqa: E402

# A second is a hundredth here, and half a minute ten of them. The step ends after twenty signs of life.
STEPS = f"""
import sys, threading
sys.path.insert(0, {str(ROOT / "lab")!r})
from rationlab import progress
progress.RENEW_S, progress.REPEAT_S = 0.01, 0.1
asked, enough = [], threading.Event()
def detail():
    asked.append(1)
    if len(asked) == 20:
        enough.set()
    return f"{{len(asked)}} packages"
def fails():
    with progress.step("a step that fails"):
        raise RuntimeError("it")
with progress.step("outer"):
    with progress.step("built etcd", "40 s", detail):
        enough.wait(60)
        progress.say("a line between")
try:
    fails()
except RuntimeError:
    progress.say("the end")
"""
STATUS = r"in progress: built etcd \([0-9]+ s so far, usually 40 s, [0-9]+ packages\)"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "steps.py"
    path.write_text(STEPS)
    return path


def test_without_a_terminal_a_step_that_lasts_says_so_at_times(script):
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=120)
    lines = done.stderr.splitlines()
    said = len([line for line in lines if re.fullmatch(rf"\[ *[0-9.]+ s\] {STATUS}", line)])
    assert 20 <= said <= float(re.search(r"built etcd \(([0-9.]+) s\)", done.stderr)[1]) / 0.1 + 1
    assert "\x1b" not in done.stderr and "\r" not in done.stderr and "in progress: outer" not in done.stderr
    ends = [re.sub(r"[0-9]+\.[0-9]+", "N", line) for line in lines if "in progress" not in line]
    assert [re.sub(r"^\[ *N s\] ", "", end) for end in ends] == ["a line between", "built etcd (N s)", "outer (N s)", "the end"]


def test_on_a_terminal_the_line_is_renewed_in_place_and_never_left(script):
    terminal = Terminal([sys.executable, script], dict(os.environ))
    assert terminal.ends() == 0
    assert len(re.findall(rf"\r\x1b\[K{STATUS}\r", terminal.seen)) >= 20
    # Each full line begins with the clearing of what was there.
    assert not [text for text in re.findall(r"in progress: [^\r\n]*", terminal.seen) if len(text) >= 80]
    for line in re.split(r"\r?\n", terminal.seen.rstrip()):
        assert re.search(r"\r\x1b\[K\[[^\r]*$", line), repr(line)


def test_a_dumb_terminal_gets_no_codes(script):
    terminal = Terminal(["/usr/bin/env", "TERM=dumb", sys.executable, script], dict(os.environ))
    assert terminal.ends() == 0
    assert "\x1b" not in terminal.seen


@pytest.fixture
def go(tmp_path):
    """go(text): a compiler that does this."""
    def factory(text):
        (tmp_path / "go").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "go").chmod(0o755)
        return str(tmp_path / "go")
    return factory


ETCD = next(module for module in binaries.modules("1.36.3") if module.name == "etcd")


def compile_with(program, folder):
    compiled = []
    binaries._compile(program, dict(os.environ), folder, ETCD, folder, compiled)    # pylint: disable=protected-access
    return compiled


def test_each_package_that_go_compiles_is_counted_and_nothing_else_that_it_says(go, tmp_path):
    program = go('printf "%s\\n" "go: downloading go.uber.org/zap v1.27.1" go.uber.org/zap go.etcd.io/etcd/server/v3 >&2; echo >"$(dirname "$0")/server"')
    assert [name.strip() for name in compile_with(program, tmp_path)] == ["go.uber.org/zap", "go.etcd.io/etcd/server/v3"]


def test_what_the_modules_share_is_compiled_once(go, tmp_path):
    """With -trimpath Go's cache takes a package of a replaced module for another one where another version of it is required."""
    compile_with(go('echo "$*" >"$(dirname "$0")/arguments"; echo >"$(dirname "$0")/server"'), tmp_path)
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments[0] == "build" and "-gcflags=all=-dwarf=false" in arguments and "-trimpath" not in arguments


@pytest.mark.parametrize("error, cure", [
    ("write /tmp/x: no space left on device", "RATION_CACHE, GOCACHE, GOMODCACHE and TMPDIR"),
    ('Get "https://proxy.golang.org/x": dial tcp: lookup proxy.golang.org: no such host', "see to the network, or set GOPROXY"),
    ("compile: signal: killed", "memory"),
])
def test_a_build_that_fails_because_of_the_machine_says_what_to_do(go, tmp_path, error, cure):
    program = go(f"printf '%s\\n' go.uber.org/zap '{error}' >&2; exit 1")
    with pytest.raises(LabError) as raised:
        compile_with(program, tmp_path)
    assert error in str(raised.value) and cure in str(raised.value) and "go.uber.org/zap" not in str(raised.value)
    assert str(raised.value).endswith("the same command then goes on from here")


def test_an_error_of_the_code_is_left_as_it_is(go, tmp_path):
    with pytest.raises(LabError) as raised:
        compile_with(go("echo 'x.go:1: undefined: y' >&2; exit 1"), tmp_path)
    assert str(raised.value) == "go build of go.etcd.io/etcd/server/v3 failed: x.go:1: undefined: y"
