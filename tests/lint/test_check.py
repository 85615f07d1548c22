"""What ./check says is so: its last line and its exit status, whatever happens to the tests."""
import collections
import datetime
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PASSED = '<testsuites><testsuite name="x"><testcase name="1"/><testcase name="2"/></testsuite></testsuites>'


def module(path):
    """A program of the tests as a module of its own."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(name="check")
def _check():
    return module(ROOT / "tests" / "check.py")


def stub(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def count_unit(check, tmp_path, monkeypatch, script):
    """check's unit ring with a meson that runs `script`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "build" / "meson-logs").mkdir(parents=True)
    stub(tmp_path / "bin", "meson", f"cd {tmp_path}/build/meson-logs\n{script}")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    count = check.Count()
    check.unit(tmp_path / "build", types.SimpleNamespace(k=None, ring="unit", part=0, full=False), count)
    return count.passed, len(count.failed)


@pytest.mark.parametrize("script, expected", [
    (f"echo '{PASSED}' > testlog.junit.xml; exit 0", (2, 0)),
    # A crash, or a leak that the sanitizer tells at the end: meson knows, its report does not.
    (f"echo '{PASSED}' > testlog.junit.xml; exit 1", (2, 1)),
    ("exit 0", (0, 1)),
    ("exit 1", (0, 1)),
    (f"echo '{PASSED[:-20]}' > testlog.junit.xml; exit 0", (0, 1)),
])
def test_a_run_counts_as_passed_only_if_report_and_status_say_so(check, tmp_path, monkeypatch, script, expected):
    assert count_unit(check, tmp_path, monkeypatch, script) == expected


def test_each_unit_program_runs_in_the_plain_build_or_with_sanitizers(check, tmp_path, monkeypatch):
    """Those that are left out of the plain build are the ones that the other one runs: all begin with test- or fuzz-."""
    stub(tmp_path, "meson", f"""case "$*" in *--list*) printf '%s\n' test-a test-preemption fuzz-a simulation-a share-loop;;
        *) echo "$@" >> {tmp_path}/called;; esac""")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for without in (check.SANITIZED_UNITS, None):
        check.unit(tmp_path, types.SimpleNamespace(k=None, ring="all", part=0, full=False), check.Count(), without=without)
    plain, sanitized = (line.partition("--print-errorlogs")[2].split() for line in (tmp_path / "called").read_text().splitlines())
    assert plain == ["test-preemption", "simulation-a", "share-loop"] and sanitized == []    # no name: all of them


def test_unit_tests_are_found_by_program_and_by_sentence(check):
    names = [path.stem for path in (ROOT / "tests/unit").glob("test-*.c")]
    assert sorted(check.unit_programs(names, "ledger")) == ["test-ledger", "test-ledger-property"]
    assert check.unit_programs(names, "release_twice_changes_nothing") == ["test-ledger"]
    assert check.unit_programs(names, "no_test_is_called_so") == []


def test_a_test_that_fails_and_whose_fixture_fails_then_is_one_failure(check, tmp_path):
    (tmp_path / "junit.xml").write_text('<testsuites><testsuite><testcase classname="m" name="t"><failure/></testcase>'
                                        '<testcase classname="m" name="t"><error/></testcase></testsuite></testsuites>')
    count = check.Count()
    assert count.add_junit(tmp_path / "junit.xml") and count.failed == ["m.py::t"]


MIXED = """
import os, pathlib, pytest
def test_that_passes(): pass
def test_that_fails(): assert not "on purpose"
def test_that_is_skipped(): pytest.skip("on purpose")
def test_that_needs_a_gpu(): pytest.skip("no GPU: on purpose")
def test_that_fails_once():
    mark = pathlib.Path(__file__).with_name("was-here")
    assert mark.exists() or mark.touch()
@pytest.mark.once
def test_of_a_race_that_fails_once():
    mark = pathlib.Path(__file__).with_name("has-raced")
    assert mark.exists() or mark.touch()
@pytest.mark.storm
def test_of_a_storm_that_fails_once():
    mark = pathlib.Path(__file__).with_name("has-stormed")
    assert mark.exists() or mark.touch()
@pytest.fixture
def ends_badly():
    yield
    mark = pathlib.Path(__file__).with_name("has-ended")
    assert mark.exists() or mark.touch()
def test_whose_fixture_fails_once(ends_badly): assert pathlib.Path(__file__).with_name("has-ended").exists()
"""


def test_a_module_that_is_skipped_as_a_whole_is_a_failure_unless_its_reason_is_known(check, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "test_passes.py").write_text("def test_that_passes(): pass\n")
    for name, reason in (("purpose", "it's on purpose"), ("gpu", "no GPU: on purpose")):
        (tmp_path / f"test_{name}.py").write_text(f'import pytest\npytest.skip("{reason}", allow_module_level=True)\n')
    args, count = types.SimpleNamespace(k=None, ring="component", part=0, full=False), check.Count("component")
    check.pytest("x", [tmp_path], tmp_path / "build", args, count, workers=2)
    assert (count.passed, dict(count.skipped), count.flaky) == (1, {"no GPU: on purpose": 1}, [])
    (failed,) = count.failed
    assert failed.endswith("test_purpose.py was skipped: it's on purpose")


def test_flaky_failed_and_skipped_tests_are_named_and_both_reports_stay(check, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "test_mixed.py").write_text(MIXED)
    args, count = types.SimpleNamespace(k=None, ring="component", part=0, full=False), check.Count("component")
    check.pytest("x", [tmp_path / "test_mixed.py"], tmp_path / "build", args, count, workers=2)
    assert (count.passed, count.skipped.total(), len(count.failed), len(count.flaky)) == (3, 1, 4, 2)
    assert check.report([count], args, 1) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "3 passed, 4 failed, 1 skipped"
    assert "skipped (component): 1 x no GPU: on purpose" in out
    assert sorted(line.split("::")[-1] for line in out if line.startswith("flaky (component; ")) == [
        "test_that_fails_once", "test_whose_fixture_fails_once"]
    assert sorted(line.split("::")[-1] for line in out if line.startswith("FAILED (component): ")) == [
        "test_of_a_race_that_fails_once", "test_of_a_storm_that_fails_once", "test_that_fails", "test_that_is_skipped was skipped: on purpose"]
    (said,) = [out[at + 1] for at, line in enumerate(out) if line.startswith("FAILED") and line.endswith("test_that_fails")]
    assert said == "    AssertionError: assert not 'on purpose'"
    assert {path.name for path in (tmp_path / "build").glob("*.xml")} == {"junit-x.xml", "junit-x-again.xml"}


@pytest.mark.parametrize("flaky, status", [(2, 0), (3, 1)])
def test_more_than_two_flaky_tests_fail_the_check(check, capsys, flaky, status):
    counts = [check.Count("component"), check.Count("cluster")]
    counts[0].passed, counts[0].flaky, counts[1].flaky = 5, ["a"], ["b", "c"][:flaky - 1]
    assert check.report(counts, types.SimpleNamespace(k=None, ring="all"), 1) == status
    assert capsys.readouterr().out.splitlines()[-1] == f"5 passed, {status} failed, 0 skipped"


def collected(name, *marks, folder="component"):
    """What conftest.py needs of a collected test; a mark without arguments may be given by its name."""
    marks = {mark.name: mark for mark in (getattr(pytest.mark, mark).mark if isinstance(mark, str) else mark.mark for mark in marks)}
    return types.SimpleNamespace(path=ROOT / "tests" / folder / "test_x.py", nodeid=f"tests/{folder}/test_x.py::{name}", name=name,
                                 iter_markers=marks.values, get_closest_marker=marks.get)


def test_each_long_test_is_in_one_part_and_the_parts_take_about_as_long():
    conftest = module(ROOT / "tests/conftest.py")

    def item(path, name, seconds):
        return types.SimpleNamespace(path=ROOT / "tests" / path, name=name, get_closest_marker={"long": pytest.mark.long(seconds).mark}.get)
    items = [item(f"cluster/test_{i // 3}.py", f"test_{i}", 10 + i % 7) for i in range(90)]
    items += [item("component/test_x.py", f"test_{i}", 5) for i in range(20)]
    seconds = collections.Counter()
    of = conftest.parts(items, 20)
    assert of == conftest.parts(items[::-1], 20)
    for i in items:
        seconds[i.path.parent.name, of[conftest.group_of(i, i.get_closest_marker("long"))]] += i.get_closest_marker("long").args[0]
    assert [seconds["component", part] for part in range(20)] == [5] * 20
    assert max(seconds["cluster", part] for part in range(20)) <= 2 * min(seconds["cluster", part] for part in range(20))
    assert len({of[conftest.group_of(i, i.get_closest_marker("long"))] for i in items[:3]}) == 1, "a file's tests share a lab"


def test_each_functional_test_runs_in_one_build_and_in_the_other_one_for_other_commits(check, monkeypatch):
    conftest = module(ROOT / "tests/conftest.py")
    functional = [collected(f"test_{i}") for i in range(200)]
    others = [collected("test_w", "waits"), collected("test_a", "alone"), collected("test_c", folder="cluster")]
    runs = collections.Counter()
    for turn in range(5, 5 + conftest.SANITIZED_IN):
        monkeypatch.setattr(conftest, "TURN", str(turn))
        for build in ("plain", "sanitized"):
            monkeypatch.delenv("RATION_SANITIZE", raising=False)
            if build == "sanitized":
                monkeypatch.setenv("RATION_SANITIZE", "1")
            left = [i for i in functional if not conftest.is_left_out(i, {}, 0)]
            assert len(left) == pytest.approx(50 if build == "sanitized" else 150, abs=20)
            runs.update((i.nodeid, build) for i in left)
            assert not any(conftest.is_left_out(i, {}, 0) for i in others)
            assert conftest.is_left_out(collected("test_p", "plain"), {}, 0) == (build == "sanitized")
    assert all(runs[i.nodeid, "sanitized"] == 1 and runs[i.nodeid, "plain"] == conftest.SANITIZED_IN - 1 for i in functional)


def test_a_half_runs_for_every_other_commit_and_its_long_tests_in_their_part(monkeypatch):
    conftest = module(ROOT / "tests/conftest.py")
    halves = [collected(f"test_{n}", pytest.mark.half(n), folder="cluster") for n in (0, 1)]
    for turn, left_out in (("6", [False, True]), ("7", [True, False]), (None, [None, None])):
        monkeypatch.setattr(conftest, "TURN", turn)
        assert [conftest.is_left_out(i, {}, 0) for i in halves] == left_out
    long = collected("test_l", pytest.mark.half(0), pytest.mark.long(9), folder="cluster")
    monkeypatch.setattr(conftest, "TURN", "7")
    part_of = {conftest.group_of(long, long.get_closest_marker("long")): 3}
    assert not conftest.is_left_out(long, part_of, 3) and conftest.is_left_out(long, part_of, 4)


def test_a_long_storm_takes_the_place_of_the_other_storms(monkeypatch):
    conftest = module(ROOT / "tests/conftest.py")
    config = types.SimpleNamespace(hook=types.SimpleNamespace(pytest_deselected=lambda items: None))
    plain, storm = collected("test_n", folder="cluster"), collected("test_s", "storm", folder="cluster")
    long = collected("test_l", "storm", pytest.mark.long(9), folder="cluster")
    for part, chosen in (("0/2", [plain, long]), ("1/2", [plain, storm]), (None, [plain, storm, long])):
        monkeypatch.setattr(conftest, "PART", part)
        items = [plain, storm, long]
        conftest.pytest_collection_modifyitems(config, items)
        assert items == chosen


def test_storms_and_the_files_that_take_longest_begin_and_a_quick_one_is_behind_a_storm(monkeypatch):
    conftest = module(ROOT / "tests/cluster/conftest.py")
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")

    def tests(file, count, *marks):
        return [types.SimpleNamespace(path=ROOT / "tests/cluster" / file, get_closest_marker={m.name: m for m in marks}.get)
                for _ in range(count)]
    few, many, long = tests("test_a.py", 1), tests("test_b.py", 3), tests("test_c.py", 2, pytest.mark.long(40).mark)
    storm, quick = tests("test_d.py", 1, pytest.mark.storm.mark), tests(conftest.QUICK, 60)
    items = [*few, *many, *quick, *long, *storm]
    conftest.pytest_collection_modifyitems(items)
    assert items == [*storm, *long, *quick, *many, *few]


def test_each_commit_has_its_part_and_each_part_runs_in_either_build(check, monkeypatch, tmp_path):
    def git(*argv):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c", *argv], check=True, capture_output=True)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert check.turn() == datetime.date.today().toordinal(), "no repository"
    git("init")
    turns = []
    for text in "abcdefgh":
        git("commit", "--allow-empty", "-m", text)
        turns.append(check.turn())
        assert check.turn() == turns[-1]
    assert len(set(turns)) == len(turns)
    monkeypatch.setattr(check, "ROOT", ROOT)
    chosen = set()
    for number in range(1000):
        monkeypatch.setattr(check, "turn", lambda number=number: number)
        args = types.SimpleNamespace(full=False, ring="all", k=None, part=number % check.PARTS)
        environment = check.environment_of(args)
        chosen.add((environment["RATION_LONG"], int(environment["RATION_TURN"]) % 4))
    assert chosen == {(f"{part}/{check.PARTS}", turn) for part in range(check.PARTS) for turn in range(4)}


def run_main(tmp_path, *arguments, **scripts):
    """./check's second half with stubs for meson and ninja."""
    for name in ("meson", "ninja"):
        stub(tmp_path, name, scripts.get(name, "exit 0"))
    return subprocess.Popen([sys.executable, str(ROOT / "tests/check.py"), *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, start_new_session=True,
                            env=dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}", RATION_CHECKED=str(ROOT)))


def test_a_second_check_in_the_same_checkout_is_refused_but_not_one_that_a_test_starts(check, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setenv("RATION_CHECKED", "/another/checkout")
    with check.lock_checkout():
        assert check.lock_checkout() is None
        monkeypatch.setenv("RATION_CHECKED", "")    # as of another shell
        with pytest.raises(SystemExit, match=f"another ./check runs in {tmp_path}. Wait until it has ended, or"):
            check.lock_checkout()
    check.lock_checkout().close()


def test_a_failed_build_is_a_failure_in_the_last_line(tmp_path):
    process = run_main(tmp_path, "unit", ninja="exit 1")
    assert process.communicate(timeout=60)[0].splitlines()[-1] == "0 passed, 1 failed, 0 skipped"
    assert process.returncode == 1


def test_a_name_that_no_test_has_is_said_and_is_no_success(tmp_path):
    process = run_main(tmp_path, "unit", "-k", "no_test_is_called_so")
    out = process.communicate(timeout=60)[0]
    assert "no test is called like no_test_is_called_so" in out
    assert out.splitlines()[-1] == "0 passed, 0 failed, 0 skipped"
    assert process.returncode == 1


@pytest.mark.parametrize("to_group, number", [(True, signal.SIGINT), (False, signal.SIGTERM)])
def test_an_interrupted_check_lets_its_child_clean_up_and_then_ends(tmp_path, to_group, number):
    """Ctrl-C reaches the whole group, a CI's SIGTERM perhaps only us; labs must be gone either way."""
    name = signal.Signals(number).name.removeprefix("SIG")
    process = run_main(tmp_path, "unit", ninja=f"trap 'sleep 1; touch {tmp_path}/cleaned; exit 1' {name}; "
                       f"touch {tmp_path}/started; while :; do sleep 0.1; done")
    deadline = time.monotonic() + 30
    while not (tmp_path / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (os.killpg if to_group else os.kill)(process.pid, number)
    out = process.communicate(timeout=60)[0]
    assert (tmp_path / "cleaned").exists()
    assert out.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"
    assert process.returncode == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_at_the_start_of_a_child_waits_for_it_too(check, tmp_path, monkeypatch, number):
    """A busy machine may let the child run for a while before Popen() returns."""
    class Late(subprocess.Popen):
        def __init__(self, *arguments, **kwargs):
            super().__init__(*arguments, **kwargs)
            while not (tmp_path / "ready").exists():
                time.sleep(0.01)
            os.kill(os.getpid(), number)
    monkeypatch.setattr(check.subprocess, "Popen", Late)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        check.run("sh", "-c", f"trap 'touch {tmp_path}/told' TERM; touch {tmp_path}/ready; sleep 1; touch {tmp_path}/ended")
    assert (tmp_path / "ended").exists() and (tmp_path / "told").exists() == (number == signal.SIGTERM)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


HOUR = """import pathlib, pytest, time
@pytest.mark.hour
def test_of_an_hour():
    try:
        pathlib.Path("begun-SUITE").touch()
        time.sleep(HOW_LONG)
    finally:
        pathlib.Path("ended-SUITE").touch()
"""
SUITES = ("component", "cluster")


def all_have(folder, what):
    return all((folder / f"{what}-{suite}").exists() for suite in SUITES)


def full_form(check, tmp_path, monkeypatch, judging, how_long, *arguments):
    """./check full, or another form, with a test of an hour in two modules of one name, a suite that judges no times, and one that does."""
    (tmp_path / "build").mkdir()
    for suite in SUITES:
        (tmp_path / "tests" / suite).mkdir(parents=True)
        (tmp_path / f"tests/{suite}/test_hour.py").write_text(HOUR.replace("HOW_LONG", str(how_long)).replace("SUITE", suite))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = hour: takes an hour\n")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setenv("RATION_CHECKED", str(tmp_path))
    monkeypatch.setattr(check, "build", lambda *_: None)
    monkeypatch.setattr(check, "build_lab", lambda *_: None)

    def beside(_args, count):
        deadline = time.monotonic() + 30
        while not all_have(tmp_path, "begun"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        count.passed += 1
    monkeypatch.setattr(check, "STEPS", [check.Step("unit", judging, judges_times=True), check.Step("lint", beside)])
    monkeypatch.setattr(sys, "argv", ["check", *(arguments or ["full"])])
    with pytest.raises(SystemExit) as end:
        check.main()
    assert (tmp_path / "build/full.json").exists() == (not arguments), "the record of this checkout's own run is another one"
    return end.value.code


def test_what_takes_an_hour_runs_beside_what_judges_no_times(check, tmp_path, monkeypatch, capsys):
    def judging(_args, count):
        assert all_have(tmp_path, "ended")
        count.passed += 1
    assert full_form(check, tmp_path, monkeypatch, judging, 1) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "4 passed, 0 failed, 0 skipped"


def test_the_parts_of_the_full_form_run_one_by_one(check, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RATION_LONG", "1/20")    # as in ./check
    def judging(args, count):
        environment = check.environment_of(args)
        assert environment["RATION_FULL"] == "1" and "RATION_LONG" not in environment
        count.passed += 1
    assert full_form(check, tmp_path, monkeypatch, judging, 1, "unit", "--full") == 0
    assert not any((tmp_path / f"begun-{suite}").exists() for suite in SUITES)
    monkeypatch.setattr(sys, "argv", ["check", "hours"])
    with pytest.raises(SystemExit) as end:
        check.main()
    assert end.value.code == 0 and all_have(tmp_path, "ended")
    assert [line for line in capsys.readouterr().out.splitlines() if line.endswith("skipped")] == [
        "1 passed, 0 failed, 0 skipped", "2 passed, 0 failed, 0 skipped"]


def test_an_interrupted_check_ends_what_takes_an_hour(check, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check.Hours, "finish", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    assert full_form(check, tmp_path, monkeypatch, None, 100) == 130
    assert all_have(tmp_path, "ended") and capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def repository(folder):
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def resumed(check, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["check", "full", "--resume"])
    with pytest.raises(SystemExit) as end:
        check.main()
    return end.value.code


def test_an_interrupted_full_form_goes_on_with_the_part_that_it_had_begun(check, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RATION_SEED", "7")
    runs = []

    def judging(args, count):
        runs.append(check.environment_of(args)["RATION_SEED"])
        if len(runs) < 3:
            count.passed += 5
            raise KeyboardInterrupt
        count.passed += 1
        count.failed.append("a")
    monkeypatch.setattr(check.Progress, "_commit", staticmethod(lambda: "c"))
    assert full_form(check, tmp_path, monkeypatch, judging, 1) == 130
    monkeypatch.setenv("RATION_SEED", "8")    # the parts of one run have one seed
    for suite in SUITES:
        (tmp_path / f"begun-{suite}").unlink()
    capsys.readouterr()
    assert resumed(check, monkeypatch) == 130 and "FAILED (unit): interrupted" in capsys.readouterr().out
    assert resumed(check, monkeypatch) == 1 and runs == ["7", "7", "7"]
    assert not any((tmp_path / f"begun-{suite}").exists() for suite in SUITES), "the tests of an hour had ended"
    assert capsys.readouterr().out.splitlines()[-1] == "4 passed, 1 failed, 0 skipped"
    # All has ended: its report is given again, and its failure stays one.
    assert resumed(check, monkeypatch) == 1 and len(runs) == 3
    assert capsys.readouterr().out.splitlines()[-1] == "4 passed, 1 failed, 0 skipped"
    # Another run that is interrupted before its first suite has ended must not be resumed as this one.
    monkeypatch.setattr(check, "build", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    monkeypatch.setattr(sys, "argv", ["check", "full"])
    with pytest.raises(SystemExit):
        check.main()
    assert "no run to resume" in str(resumed(check, monkeypatch))


def test_only_a_run_of_the_same_commit_is_resumed(check, tmp_path, monkeypatch):
    (tmp_path / "build").mkdir()
    monkeypatch.setattr(check, "ROOT", tmp_path)
    (tmp_path / ".gitignore").write_text("build\n")
    repository(tmp_path)
    assert "no run to resume" in str(resumed(check, monkeypatch))
    check.Progress(False).add("lint", {})
    assert check.Progress(True).steps == ["lint"]
    (tmp_path / "changed").touch()
    assert "no files are changed" in str(resumed(check, monkeypatch))
    check.Progress(False).add("lint", {})    # by a run with changed files, which others may have been
    assert "no files are changed" in str(resumed(check, monkeypatch))
    (tmp_path / "changed").unlink()
    assert "the interrupted run tested changed files" in str(resumed(check, monkeypatch))


@pytest.mark.parametrize("text", ["", "{", "\x80", "[]", "{}", '{"of": "c", "steps": [], "suites": {}}', '{"of": {"commit": "c"}, "steps": [], "suites": {}}',
                                  '{"of": {"commit": "c", "seed": "7"}, "steps": 1, "suites": {}}', '{"of": {"commit": "c", "seed": "7"}, "steps": [], "suites": []}',
                                  '{"of": {"commit": "c", "seed": "7"}, "steps": [], "suites": {"lint": {"passed": 1}}}',
                                  '{"of": {"commit": "c", "seed": "7"}, "steps": [], "suites": {"lint": 1}}'])
def test_a_damaged_record_is_refused_with_its_name(check, tmp_path, monkeypatch, text):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check.Progress, "_commit", staticmethod(lambda: "c"))
    (tmp_path / "build").mkdir()
    (tmp_path / "build/full.json").write_bytes(text.encode("latin-1"))
    assert resumed(check, monkeypatch) == f"./check: {tmp_path}/build/full.json does not describe a run. Run ./check full without --resume."


@pytest.mark.parametrize("arguments", [["--resume"], ["component", "--resume"], ["full", "--resume", "-k", "x"]])
def test_only_the_full_form_is_resumed(arguments):
    done = subprocess.run([sys.executable, ROOT / "tests/check.py", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--resume belongs to ./check full" in done.stderr


@pytest.mark.parametrize("ring, k, passed", [("vm", None, 1), ("full", None, 1), ("full", "machine", 1), ("all", None, 0)])
def test_the_virtual_machine_is_tested_by_its_name_and_in_the_full_form(check, tmp_path, monkeypatch, ring, k, passed):
    (tmp_path / "build").mkdir()
    (tmp_path / "tests/vm").mkdir(parents=True)
    (tmp_path / "tests/vm/test_x.py").write_text("import os\ndef test_machine(): assert os.environ['RATION_FULL']\n")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "build_lab", lambda _count: True)
    count = check.Count("vm")
    check.ring_vm(types.SimpleNamespace(ring=ring, k=k, part=0, full=ring == "full"), count)
    assert (count.passed, count.failed) == (passed, [])


def test_help_installs_nothing():
    done = subprocess.run(["bash", "-x", str(ROOT / "check"), "--help"], capture_output=True, text=True, check=True)
    assert "usage: ./check" in done.stdout
    assert "install-packages" not in done.stderr


def test_vm_runs_a_cluster_under_both_cgroup_drivers_one_after_the_other():
    """In one process, since a machine emulates its processors: the fixture `machine` is one for all."""
    listed = subprocess.run(["/usr/bin/python3", "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/vm"], cwd=ROOT,
                            env={**os.environ, "RATION_FULL": "1"}, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"::test_a_cluster_holds_its_pods_to_their_limits\[(.*)\]", listed) == ["cgroupfs", "systemd"]
