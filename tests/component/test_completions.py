"""What a shell offers behind each program: bash, fish and zsh, each asked as a person who presses the tabulator key."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess

import pytest

BUILD = pathlib.Path(os.environ["RATION_BUILD"])
pytestmark = pytest.mark.plain    # of shell scripts
COMPLETIONS = BUILD / "completions"
KUBECTL = r"""#!/bin/sh
case "$*" in
*"get pods --namespace=team"*) printf 'pod/a1\npod/a2\n';;
*"get pods"*) printf 'pod/p1\npod/p2\n';;
*"get nodes"*) printf 'node/n1\nnode/n2\n';;
*"get namespaces"*) printf 'namespace/team\n';;
*"get node n1"*) printf '[{"index":0,"uuid":"x","mib":5},{"index":1,"uuid":"y"}]';;
*get-contexts*) printf 'prod\n';;
esac
"""
# Prints what is offered, without what the terminal shows of it, and ends.
ZSHRC = r"""
fpath=($ZDOTDIR $fpath)
autoload -Uz compinit
compinit -u -d $ZDOTDIR/dump
bindkey '^I' complete-word
at_end () { print -r -- END; exit }
comppostfuncs=(at_end)
compadd () {
	local -a hits
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
		builtin compadd "$@"
		return
	fi
	builtin compadd -A hits "$@"
	print -r -- "OFFERED ${hits[*]}"
	builtin compadd "$@"
}
print READY
"""
# What bash does for a line whose cursor is at its end (bash(1), Programmable Completion): words are split at blanks and at "=".
BASH = r"""
set -u
source "$1"
function=$(complete -p "$2" | sed -n 's/^complete .*-F \([^ ]*\) .*/\1/p')
COMP_LINE=$3
COMP_POINT=${#COMP_LINE}
shift 3
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
"$function" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
[ "${#COMPREPLY[@]}" = 0 ] || printf '%s\n' "${COMPREPLY[@]}"
"""
TABLES = {table["program"]: table for table in json.loads((BUILD / "docs/options/option-tables.json").read_text())}
# The file's name, and how a person begins the line.
PROGRAMS = ("ration", "ration-agent", "ration-scheduler", "ration-sim", "kubectl-inspect-cgpu")
COMMANDS = {program: {command["name"] for command in TABLES[program]["commands"]} for program in ("ration", "ration-sim")}


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "ration-sim").write_text("#!/bin/sh\nprintf 'CARD MODEL\\n0 V100 GPU-a\\n1 V100 GPU-b\\n'\n")
    (tmp_path / "ration-sim").chmod(0o755)
    for program in PROGRAMS:
        shutil.copy(COMPLETIONS / f"_{program}", tmp_path)
    (tmp_path / ".zshrc").write_text(ZSHRC)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "dumb", "LANG": "C"}


def bash(line, environment):
    words = re.findall(r"[^ =]+|=", line) + ([""] if line.endswith(" ") else [])
    program = words[0]
    done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", COMPLETIONS / program, program, line, *words],
                          capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert not done.stderr, done.stderr
    return set(done.stdout.splitlines())


def fish(line, environment):
    program = line.split()[0]
    done = subprocess.run(["fish", "-N", "-c", f"source {COMPLETIONS / program}.fish; complete --do-complete='{line}'"],
                          capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert not done.stderr, done.stderr
    return {offered.split("\t")[0] for offered in done.stdout.splitlines()}


def read_until(terminal, what, told=""):
    while what not in told:
        assert select.select([terminal], [], [], 15)[0], told
        told += os.read(terminal, 65536).decode()
    return told


def zsh(line, environment):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("zsh", ["zsh", "-d", "-i"], environment)
    try:
        read_until(terminal, "READY")
        os.write(terminal, f"{line}\t".encode())
        told = read_until(terminal, "END")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return {word for text in told.splitlines() for word in text.partition("OFFERED ")[2].split()}


# One table makes the completions of all three shells. zsh needs as much time as all other tests of this file.
SHELLS = [pytest.param(shell, marks=[pytest.mark.skipif(not shutil.which(shell.__name__), reason=f"{shell.__name__} is not installed"), *rotating])
          for shell, rotating in ((bash, []), (fish, [pytest.mark.long(1)]), (zsh, [pytest.mark.long(1)]))]


def spellings(row):
    return {f"--{row['name']}"} | ({f"-{row['letter']}"} if row["letter"] else set())


def options_of(table):
    return {"--help", "-h"} | ({"--version"} if table["version"] else set()) | {
        spelling for row in table["options"] + table["passedOn"] for spelling in spellings(row)}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("line, offered", [
    ("ration ", COMMANDS["ration"]),
    ("ration why ", {"p1", "p2"}),
    ("ration why -n team ", {"a1", "a2"}),
    ("ration why -n ", {"team"}),
    ("ration why --node ", {"n1", "n2"}),
    ("ration why --node n1 ", {"p1", "p2"}),
    ("ration cordon ", {"n1", "n2"}),
    ("ration cordon --timeout 3 ", {"n1", "n2"}),
    ("ration cordon n1 ", {"0", "1"}),
    ("ration top ", {"n1", "n2"}),
    ("ration top n1 ", {"n1", "n2"}),
    ("ration top -o ", {"json"}),
    ("ration set p1 --me", {"--mem"}),
    ("ration run --la", {"--layer"}),
    ("ration run --layer ", {"mount", "preload"}),
    ("ration doctor --context ", {"prod"}),
    ("ration inspect --det", {"--details"}),
    ("ration inspect -o ", {"json", "wide"}),
    ("ration inspect ", {"n1", "n2"}),
    ("ration-agent --unit ", {"1GiB", "512MiB", "256MiB", "128MiB"}),
    ("ration-agent --on-bypass evict --pol", {"--policy"}),
    ("ration-scheduler --job-mixing ", {"forbid", "allow"}),
    ("ration-sim ", COMMANDS["ration-sim"]),
    ("ration-sim fault /tmp ", {"0", "1"}),
    ("ration-sim fault /tmp 0 ", {"xid", "lost", "ecc", "heal", "oom", "slow", "fail", "kill", "calm"}),
    ("ration-sim up /tmp --links ", {"dgx1-v100", "dgx-a100", "pcie-8"}),
    ("kubectl-inspect-cgpu ", {"n1", "n2"}),
    ("kubectl-inspect-cgpu -o ", {"json", "wide"}),
])
def test_what_a_shell_offers(environment, shell, line, offered):
    assert {word.rstrip("=") for word in shell(line, environment)} == offered


@pytest.mark.parametrize("shell, line", [
    pytest.param(*shell.values, line, marks=shell.marks) for shell in SHELLS[1:]
    for line in ("ration run -m 1GiB -- lsbl", "ration run -m 1GiB lsbl")])
def test_behind_ration_run_the_program_is_completed(environment, shell, line):
    assert shell(line, environment) == {"lsblk"}


def test_bash_completes_a_program_of_ration_run_and_its_arguments(environment):
    assert "lsblk" in bash("ration run -m 1GiB -- lsbl", environment)
    offset = environment | {"BASH_ENV": environment["HOME"] + "/env"}
    pathlib.Path(offset["BASH_ENV"]).write_text("_command_offset () { COMPREPLY=(from \"$1\"); }\n")
    assert bash("ration run -m 1GiB -- ls -l ", offset) == {"from", "5"}
    assert bash("ration run --mem=1GiB ls -l ", offset) == {"from", "5"}


@pytest.mark.parametrize("line, offered", [
    ("ration inspect --output=", {"json", "wide"}), ("ration inspect --output=w", {"wide"}),
    ("ration why --namespace=team ", {"a1", "a2"}), ("ration-agent --policy=", set("012345"))])
def test_bash_completes_a_value_behind_an_equals_sign(environment, line, offered):
    assert bash(line, environment) == offered


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", sorted(TABLES))
def test_a_shell_offers_the_options_of_the_table_and_no_others(environment, shell, program):
    line = program.replace("kubectl inspect cgpu", "kubectl-inspect-cgpu")
    wanted = options_of(TABLES[program])
    if shell is bash:
        assert bash(f"{line} -", environment) == wanted
    else:
        assert {word.rstrip("=") for word in shell(f"{line} --", environment)} == {word for word in wanted if word.startswith("--")}


def test_kubectl_offers_the_options_of_the_plugin(environment):
    def offered(*words):
        done = subprocess.run(["sh", COMPLETIONS / "kubectl_complete-inspect-cgpu", *words], env=environment, capture_output=True,
                              text=True, check=True)
        *candidates, directive = done.stdout.splitlines()
        assert directive == ":4"
        return set(candidates)
    assert offered("-") == options_of(TABLES["kubectl inspect cgpu"])
    assert offered("") == {"n1", "n2"}
    assert offered("-o", "") == {"json", "wide"}
