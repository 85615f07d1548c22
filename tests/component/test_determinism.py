"""The core decides the same in each process and each build. The simulation (tests/simulation) runs it, and its digest is one
number for every step of its histories. What a scheduler of it decides is recorded as ration-scheduler records it, from some event on."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("RATION_BUILD", ROOT / "build"))
pytestmark = pytest.mark.plain    # the suite `unit` plays histories with sanitizers, and fuzzers record and repeat them
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


def events(program, kind, histories, seed):
    out = subprocess.run([program, *KINDS[kind], "--table", "--histories", str(histories), "--seed", str(seed)], capture_output=True,
                         text=True, check=True).stdout
    return int(re.search(r"^\| events \| (\d+) \|$", out, re.M)[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_history_takes_the_same_steps_whatever_ran_before_it(kind):
    program = BUILD / "tests/simulation/simulation"
    alone = [events(program, kind, 1, seed) for seed in range(1, 13)]
    assert events(program, kind, 12, 1) == sum(alone) and min(alone) > 100


def simulate(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_recorded_comes_out_again(kind, tmp_path):
    program, file = BUILD / "tests/simulation/simulation", tmp_path / "recordings"
    done = simulate(program, *KINDS[kind], "--record", file, "--histories", str(HISTORIES[kind] // 3), "--seed", "3", "--table")
    assert done.returncode == 0, done.stdout[-2000:]
    recordings = int(re.search(r"recordings replayed \| (\d+)", done.stdout)[1])
    assert recordings > HISTORIES[kind] / 6
    assert f"{recordings} recordings: all as recorded" in simulate(program, "--play", file).stdout
    # Each line counts: a decision or a member of the state that is another one is found.
    lines = file.read_text().splitlines(keepends=True)
    decisions = [i for i, line in enumerate(lines) if line.startswith('{"gave":')]
    text = lines[decisions[-1]]
    lines[decisions[-1]] = text.replace('"gave":', '"x":1,"gave":')
    file.write_text("".join(lines))
    done = simulate(program, "--play", file)
    assert done.returncode == 1 and re.search(r"^recording \d+: event \d+ at .*: recorded: .*; computed: ", done.stdout), done.stdout


# It compiles all of the simulation. Debian's clang comes with the tools of ./check fuzz.
@pytest.mark.full
@pytest.mark.parametrize("compiler", ["gcc -O0", *(["clang"] if shutil.which("clang") else [])])
def test_what_another_compiler_makes_takes_the_same_steps(tmp_path, compiler):
    name, *flags = compiler.split()
    subprocess.run(["meson", "setup", *(["-Doptimization=0"] if flags else []), tmp_path / "build", ROOT], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "CC": f"ccache {name}" if shutil.which("ccache") else name})
    subprocess.run(["ninja", "-C", tmp_path / "build", "tests/simulation/simulation"], check=True, stdout=subprocess.DEVNULL)
    for kind, histories in HISTORIES.items():
        here, there = (digest(build / "tests/simulation/simulation", kind, histories * 10) for build in (BUILD, tmp_path / "build"))
        assert here == there, kind
        file = tmp_path / kind
        assert simulate(BUILD / "tests/simulation/simulation", *KINDS[kind], "--record", file, "--histories",
                        str(histories * 10)).returncode == 0
        done = simulate(tmp_path / "build/tests/simulation/simulation", "--play", file)
        assert done.returncode == 0 and int(done.stdout.split()[0]) > histories * 5, (kind, done.stdout)
        file.unlink()
