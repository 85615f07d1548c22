"""Which Debian packages lab/install-packages asks for: the demo must not fetch what only tests need."""
import os
import re
import subprocess

import pytest

from fake_driver import ROOT

# What only tests and releases use, and by far the largest of all.
OF_TESTS = {"chromium", "chromium-driver", "clang-format", "dpkg-dev", "fonts-dejavu-core", "glpk-utils", "musl-tools", "python3-grpcio", "python3-pytest"}


@pytest.fixture
def missing(tmp_path):
    """What an ordinary user of a machine without any of them is told to install."""
    for name, text in (("dpkg-query", "exit 1"), ("id", "echo 1000")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def told(*option):
        done = subprocess.run([ROOT / "lab/install-packages", *option], capture_output=True, text=True, check=False, timeout=20,
                              env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "RATION_CACHE": str(tmp_path / "cache")})
        assert done.returncode == 1 and done.stdout == "", done
        return set(re.search(r"^These Debian packages are missing: (.*)$", done.stderr, re.M)[1].split())
    return told


def test_each_larger_set_has_the_smaller_one_and_only_the_largest_has_what_tests_need(missing):
    build, lab, every = missing("--build"), missing("--lab"), missing()
    assert {"meson", "gcc"} <= build < lab < every
    assert {"runc", "containernetworking-plugins", "python3-pip"} <= lab - build
    assert OF_TESTS <= every and not OF_TESTS & lab
    for option in ("--full", "--vm", "--tools", "--cri-o"):
        assert every < missing(option), option


def test_no_set_has_the_compiler_of_c_plus_plus(missing):
    """A sixth of what the demo would fetch, for a project in C."""
    assert not {"build-essential", "g++"} & (missing("--build") | missing("--full") | missing("--tools"))


def test_what_makes_a_release_is_installed_for_its_tests_and_named_on_its_page(missing):
    """build-essential brought it before. deploy/package calls dpkg-shlibdeps, deploy/cross/build-macos dpkg-source."""
    assert "dpkg-dev" in missing()
    assert re.search(r"^apt-get install .*\bdpkg-dev\b", (ROOT / "docs/guide/releases.md").read_text(), re.M)


def test_when_apt_fails_it_says_so_with_the_next_step(tmp_path):
    for name, text in (("dpkg-query", "exit 1"), ("id", "echo 0"), ("apt-get", 'echo "E: $1: no route to host" >&2; [ "$1" = update ] || exit 100')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run([ROOT / "lab/install-packages", "--build"], capture_output=True, text=True, check=False, timeout=20,
                          env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "RATION_CACHE": str(tmp_path / "cache")})
    assert done.returncode == 100
    assert re.match("== installing [0-9]+ Debian packages: gcc ", done.stdout)
    assert done.stderr.splitlines()[0] == "E: update: no route to host"
    assert re.match("apt-get install failed.*network.*run the same command again", done.stderr.splitlines()[-1])


def test_the_demo_asks_for_no_more_than_the_lab_needs():
    assert re.findall(r"lab/install-packages.*", (ROOT / "demo").read_text()) == ["lab/install-packages --lab"]
    assert re.findall(r"^lab/install-packages.*", (ROOT / "lab/demo-local").read_text(), re.M) == ["lab/install-packages --build"]
