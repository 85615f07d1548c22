"""What a shell offers behind `ration`: fish and zsh, each asked as a person who presses the tabulator key."""
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess

import pytest

COMPLETIONS = pathlib.Path(__file__).resolve().parents[2] / "completions"
KUBECTL = r"""#!/bin/sh
case "$*" in
*"get pods --namespace=team"*) printf 'pod/a1\npod/a2\n';;
*"get pods"*) printf 'pod/p1\npod/p2\n';;
*"get nodes"*) printf 'node/n1\nnode/n2\n';;
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
COMMANDS = {"run", "ps", "top", "why", "set", "cordon", "uncordon", "inspect", "doctor", "history", "replay", "help"}


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    shutil.copy(COMPLETIONS / "kubectl_complete-inspect-cgpu", tmp_path)
    shutil.copy(COMPLETIONS / "ration.zsh", tmp_path / "_ration")
    (tmp_path / ".zshrc").write_text(ZSHRC)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "dumb", "LANG": "C"}


def fish(line, environment):
    done = subprocess.run(["fish", "-N", "-c", f"source {COMPLETIONS / 'ration.fish'}; complete --do-complete='{line}'"],
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


@pytest.mark.parametrize("shell", [fish, zsh])
@pytest.mark.parametrize("line, offered", [
    ("ration ", COMMANDS),
    ("ration why ", {"p1", "p2"}),
    ("ration why -n team ", {"a1", "a2"}),
    ("ration cordon ", {"n1", "n2"}),
    ("ration cordon n1 ", {"0", "1"}),
    ("ration top ", {"n1", "n2"}),
    ("ration top -o ", {"json"}),
    ("ration set p1 --m", {"--mem"}),
    ("ration run --la", {"--layer"}),
    ("ration run -m 1GiB -- lsbl", {"lsblk"}),
    ("ration doctor --context ", {"prod"}),
    ("ration inspect --det", {"--details"}),
    ("ration uncordon n1 --", {"--as", "--context", "--help", "--kubeconfig", "--timeout"}),
])
def test_what_a_shell_offers(environment, shell, line, offered):
    assert {word.rstrip("=") for word in shell(line, environment)} == offered
