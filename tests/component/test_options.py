"""What every program's table of options promises: the help, the man page and the parser know the same options."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

BUILD = pathlib.Path(os.environ["RATION_BUILD"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = {table["program"]: table for table in json.loads((BUILD / "docs/options/option-tables.json").read_text())}
FILES = {"ration": "src/cli/ration", "kubectl": "src/cli/kubectl-inspect-cgpu", "ration-agent": "src/agent/ration-agent",
         "ration-scheduler": "src/scheduler/ration-scheduler", "ration-sim": "sim/ration-sim"}
PAGES = {"ration": "ration.1", "ration why": "ration.1", "ration history": "ration.1", "ration replay": "ration.1",
         "ration run": "ration-run.1", "ration ps": "ration-ps.1", "ration top": "ration-top.1", "ration set": "ration-set.1",
         "ration cordon": "ration-cordon.1", "ration uncordon": "ration-cordon.1", "ration doctor": "ration-doctor.1", "ration plan": "ration-plan.1",
         "ration advise": "ration-advise.1", "ration ui": "ration-ui.1",
         "ration inspect": "kubectl-inspect-cgpu.1", "kubectl inspect cgpu": "kubectl-inspect-cgpu.1",
         "ration-scheduler": "ration-scheduler.8", "ration-agent": "ration-agent.8"} | {
             program: "ration-sim.1" for program in TABLES if program.startswith("ration-sim")}
USAGE_STATUS = {"ration run": 125}
programs = pytest.mark.parametrize("program", sorted(TABLES))


def run(program, *args):
    words = program.split()
    command = [BUILD / FILES[words[0]], *([] if words[0] == "kubectl" else words[1:]), *args]
    environment = {"PATH": "/usr/bin:/bin", "KUBECTL": "/nonexistent", "HOME": "/nonexistent", "RATION_RUN": "/nonexistent"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)


def own_options(table):
    return {"--help", "-h"} | ({"--version"} if table["version"] else set()) | {
        spelling for row in table["options"] for spelling in (f"--{row['name']}", f"-{row['letter']}") if spelling != "-None"}


def passed_on(table):
    return {spelling for row in table["passedOn"] for spelling in (f"--{row['name']}", f"-{row['letter']}") if spelling != "-None"}


@programs
def test_no_name_is_in_a_table_twice(program):
    table = TABLES[program]
    rows = table["options"] + table["passedOn"]
    for key, reserved in (("name", ["help", "version"]), ("letter", ["h"])):
        names = [row[key] for row in rows if row[key]] + reserved
        assert len(names) == len(set(names))
    assert all(row["help"] and not row["help"].endswith(".") for row in rows + table["arguments"])


@programs
def test_help_names_the_options_of_the_table_and_no_others(program):
    table = TABLES[program]
    done = run(program, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: {program} ")
    assert max(map(len, done.stdout.splitlines())) <= 80 and not re.search(r"[ \t]$", done.stdout, re.M)
    entries = re.findall(r"^  (?:(-\w), |    )(--[\w-]+)", done.stdout, re.M)
    assert {spelling for entry in entries for spelling in entry if spelling} == own_options(table)
    listed = re.search(r"^These options are passed on to kubectl:((?:.|\n  )*)", done.stdout, re.M)
    assert set(re.findall(r"-[\w-]+", listed[1]) if listed else []) == passed_on(table)
    commands = re.search(r"^Commands:\n((?:  .*\n)*)", done.stdout, re.M)
    assert re.findall(r"^  (\w+)", commands[1] if commands else "", re.M) == [c["name"] for c in table["commands"]]
    assert run(program, "-h").stdout == done.stdout


def page_entries(text):
    """The options that are entries, and those of kubectl that are listed, of the text of a section."""
    plain = re.sub(r"\\f[BRI]", "", text).replace("\\-", "-")
    passed = re.search(r"^These options are passed on to kubectl: ((?:.+\n)*)", plain, re.M)
    entries = [line for line in plain.splitlines() if re.match(r"-\w, --|--[a-z]", line)]
    return {spelling for line in entries for spelling in re.findall(r"(?<![\w-])--?[a-z][\w-]*", re.sub(r"(--[\w-]+) .*", r"\1", line))}, \
        set(re.findall(r"-[\w-]+", passed[1]) if passed else [])


@programs
def test_the_man_page_has_the_options_of_the_table_and_no_others(program):
    text = (BUILD / "docs/man" / PAGES[program]).read_text()
    section = re.search(r"^\.SH OPTIONS\n(.*?)(?=^\.SH |\Z)", text, re.M | re.S)[1]
    parts = re.split(r"^\.SS (.*)\n", section, flags=re.M)
    of_commands = dict(zip(parts[1::2], parts[2::2]))
    entries, listed = page_entries(of_commands.get(program, parts[0]))
    assert entries == own_options(TABLES[program])
    assert listed == passed_on(TABLES[program])


@pytest.mark.parametrize("page", sorted(set(PAGES.values())))
def test_the_synopsis_of_a_page_names_no_unknown_option(page):
    synopsis = re.search(r"^# SYNOPSIS\n(.*?)^# ", (ROOT / f"docs/man/{page}.scd").read_text(), re.M | re.S)[1]
    # The page of `ration` shows how each of its commands is called.
    known = set().union(*(own_options(table) for program, table in TABLES.items()
                          if PAGES[program] == page or page == "ration.1"))
    assert set(re.findall(r"\*(--?[a-z][\w-]*)\*", synopsis)) <= known


@pytest.mark.parametrize("page", sorted(set(PAGES.values())))
@pytest.mark.skipif(not shutil.which("man"), reason="man is not installed")
def test_man_shows_each_page_without_a_warning(page):
    done = subprocess.run(["man", "--warnings", "-l", BUILD / "docs/man" / page], capture_output=True, text=True, check=False,
                          env=os.environ | {"MANPAGER": "cat", "MANWIDTH": "100"})
    assert done.returncode == 0 and not done.stderr


@programs
@pytest.mark.parametrize("wrong", ["--nonsense", "--help=yes", "-\x1b"])
def test_a_usage_error_is_two_lines(program, wrong):
    done = run(program, wrong)
    assert done.returncode == USAGE_STATUS.get(program, 2) and not done.stdout
    problem, way, *more = done.stderr.split("\n")
    assert problem.startswith(f"{program}: ") and wrong.split("=")[0].replace("\x1b", "?") in problem
    assert (way, more) == (f"Try '{program} --help' for more information.", [""])


@programs
def test_a_value_that_is_none_is_two_lines_that_say_what_is_accepted(program):
    for row in TABLES[program]["options"]:
        if not row["choices"]:
            continue
        done = run(program, f"--{row['name']}=neither")
        assert done.returncode == USAGE_STATUS.get(program, 2) and not done.stdout
        words = ("one of " if len(row["choices"]) > 1 else "") + ", ".join(row["choices"])
        assert done.stderr == (f'{program}: --{row["name"]}: invalid value "neither"; must be {words}\n'
                               f"Try '{program} --help' for more information.\n")


@programs
def test_an_argument_too_many_or_too_few_is_two_lines(program):
    arguments = TABLES[program]["arguments"]
    if TABLES[program]["commands"]:
        problems = {"COMMAND is missing": [], 'unknown command "nonsense"': ["nonsense"]}
    elif any(row["repeated"] for row in arguments):
        return
    else:
        mem = ["--mem=1"] if program == "ration set" else []
        problems = {"unexpected argument d": [*mem, "a", "b", "c", "d"][:len(mem) + len(arguments)] + ["d"]}
        if program == "ration cordon" or program == "ration uncordon":
            problems["GPU is missing"] = ["n1"]
    for problem, args in problems.items():
        done = run(program, *args)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"{program}: {problem}\nTry '{program} --help' for more information.\n"
