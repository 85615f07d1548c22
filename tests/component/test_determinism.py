"""The core decides the same in each process and each build. The simulation (tests/simulation) runs it, and its digest is one
number for every step of its histories."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("RATION_BUILD", ROOT / "build"))
KINDS = {"plain": [], "leaders": ["--leaders"], "gangs": ["--gangs"], "cards": ["--cards"], "cards-of-gangs": ["--cards", "--gangs"],
         "priorities": ["--priorities"]}
HISTORIES = {"plain": 500, "leaders": 200, "gangs": 40, "cards": 300, "cards-of-gangs": 40, "priorities": 200}


def digest(program, kind, histories, seed=1):
    done = subprocess.run([program, *KINDS[kind], "--digest", "--histories", str(histories), "--seed", str(seed)],
                          capture_output=True, text=True, check=True)
    return re.search(r"^digest (\w{16})$", done.stdout, re.M)[1]


@pytest.mark.parametrize("kind", KINDS)
def test_each_process_takes_the_same_steps(kind):
    program = BUILD / "tests/simulation/simulation"
    first = digest(program, kind, HISTORIES[kind])
    assert digest(program, kind, HISTORIES[kind]) == first
    assert digest(program, kind, HISTORIES[kind], seed=2) != first


# Debian's clang comes with the tools of ./check fuzz.
@pytest.mark.plain
@pytest.mark.long(1)
@pytest.mark.parametrize("compiler", ["gcc -O0", *(["clang"] if shutil.which("clang") else [])])
def test_what_another_compiler_makes_takes_the_same_steps(tmp_path, compiler):
    name, *flags = compiler.split()
    subprocess.run(["meson", "setup", *(["-Doptimization=0"] if flags else []), tmp_path / "build", ROOT], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "CC": f"ccache {name}" if shutil.which("ccache") else name})
    subprocess.run(["ninja", "-C", tmp_path / "build", "tests/simulation/simulation"], check=True, stdout=subprocess.DEVNULL)
    for kind, histories in HISTORIES.items():
        here, there = (digest(build / "tests/simulation/simulation", kind, histories * 10) for build in (BUILD, tmp_path / "build"))
        assert here == there, kind
