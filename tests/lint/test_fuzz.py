"""The fuzzers: each has a corpus that driver.c can read and a row in the README; ./check fuzz reports what libFuzzer finds."""
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUZZ = ROOT / "tests" / "fuzz"
spec = importlib.util.spec_from_file_location("campaign", FUZZ / "campaign.py")
campaign = importlib.util.module_from_spec(spec)
spec.loader.exec_module(campaign)

# Behaves like a harness under libFuzzer: counts, and leaves an input if it is told to crash.
PROGRAM = """#!/bin/sh
for option; do case $option in -artifact_prefix=*) folder=${option#*=};; esac; done
echo "#100 INITED cov: 7 ft: 9 corp: 1/1b" >&2
echo "stat::number_of_executed_units: 1234" >&2
%s
"""


def driver_limit(name):
    """A constant of driver.c."""
    value = re.search(rf"^#define {name} (.+)$", (FUZZ / "driver.c").read_text(), re.M).group(1)
    return eval(value.replace("(size_t)", ""), {"__builtins__": {}})    # 256, ((size_t)64 << 10)


@pytest.mark.parametrize("name", campaign.harnesses())
def test_each_harness_has_a_corpus_and_a_row_in_the_readme(name):
    inputs = [path for path in (FUZZ / "corpus" / name).iterdir() if not path.name.startswith(".")]
    assert 0 < len(inputs) <= driver_limit("INPUTS_MAX")
    assert all(path.stat().st_size <= driver_limit("INPUT_MAX") for path in inputs)
    rows = re.findall(r"^\| ([a-z, -]+) \|", (FUZZ / "README.md").read_text(), re.M)
    assert name in [word for row in rows for word in row.split(", ")]


def test_every_harness_and_every_corpus_is_in_the_build():
    sources = {path.stem.removeprefix("fuzz-") for path in FUZZ.glob("fuzz-*.c")
               if "\nint LLVMFuzzerTestOneInput(" in path.read_text()}
    assert sources == set(campaign.harnesses()) == {path.name for path in (FUZZ / "corpus").iterdir()}


def test_the_words_of_a_harness_become_a_dictionary():
    source = r'''const char *const fuzz_words[] = {"a\n" "b", "\"q\\",
        "\xff", "a\n" "b", "", NULL};'''
    assert campaign.dictionary(source) == '"a\\x0ab"\n"\\x22q\\x5c"\n"\\xff"\n'


@pytest.fixture
def harness(tmp_path, monkeypatch):
    """Makes a harness that runs a script instead of libFuzzer."""
    monkeypatch.setattr(campaign, "SCRATCH", tmp_path / "scratch")

    def make(end):
        made = campaign.Harness("quantity")
        made.program = tmp_path / "program"
        made.program.write_text(PROGRAM % end)
        made.program.chmod(0o755)
        made.prepare()
        return made
    return make


def test_executions_and_edges_are_reported(harness, capsys):
    quiet = harness("exit 0")
    quiet.explore("-runs=1234")
    quiet.conclude()
    assert campaign.report([quiet], 1.0) == 0
    assert re.search(r"^quantity +1234 .* 7 -> 7 ", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("left, status, kind", [
    ("crash-1", 77, "crash"), ("leak-1", 77, "leak"), ("timeout-1", 70, "timeout"), ("oom-1", 71, "out of memory")])
def test_what_ends_a_run_is_reported_with_its_input(harness, capsys, left, status, kind):
    broken = harness("exit 0")
    broken.program.write_text(PROGRAM % f"echo x > ${{folder}}{left}; exit {status}")
    broken.explore("-runs=1")
    assert campaign.report([broken], 1.0) == 1
    assert f"FOUND by quantity: {kind}; the input is {broken.scratch}/{left}" in capsys.readouterr().out


def test_a_harness_that_fails_without_an_input_is_reported(harness, capsys):
    broken = harness("exit 0")
    broken.program.write_text(PROGRAM % "kill -9 $$")
    broken.explore("-runs=1")
    assert campaign.report([broken], 1.0) == 1
    assert "FOUND by quantity: status -9" in capsys.readouterr().out


def test_the_small_new_inputs_are_kept_up_to_a_number_of_bytes(harness, tmp_path):
    made = harness("exit 0")
    made.corpus = tmp_path / "corpus"
    made.corpus.mkdir()
    made.merged.mkdir()
    for name, size in [("aaaa", 10), ("bbbb", 90), ("cccc", 20)]:
        (made.merged / name).write_bytes(b"x" * size)
    (made.corpus / "cccc").write_bytes(b"x" * 20)
    assert made.keep(most_bytes=50) == 1
    assert sorted(path.name for path in made.corpus.iterdir()) == ["cccc", "found-aaaa"]
