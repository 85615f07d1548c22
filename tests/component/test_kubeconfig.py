"""What the commands say where kubectl cannot use its configuration: which file, and what is wrong with it, and not a
word about rights. The texts are those of kubectl 1.36.3, each made with a file (or flag) that is wrong in that way."""
import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve()
FAKE = pathlib.Path(__file__).parent.resolve() / "fake_kubectl.py"
COMMANDS = [["inspect"], ["top", "n1"], ["why", "p", "-n", "d"], ["doctor"], ["cordon", "n", "0"], ["set", "p", "--mem", "3", "-n", "d"],
            ["history"]]
CONFIG = [
    'error: error loading config file "/home/jane/.kube/config": yaml: line 1: did not find expected \',\' or \']\'',
    'error: error loading config file "/home/jane/.kube/config": read /home/jane/.kube/config: is a directory',
    "error: stat /home/jane/.kube/config: no such file or directory",
    'error: context "nope" does not exist',
    'error: cluster "nope" does not exist',
    'error: auth info "nope" does not exist',
    "error: cannot locate user jane",
    "Error in configuration: context was not found for specified context: nope",
    "Error in configuration: \n* unable to read client-cert /c.crt for u due to open /c.crt: no such file or directory",
    "error: unable to read certificate-authority /ca.crt for c due to open /ca.crt: no such file or directory",
    'error: host must be a URL or a host:port pair: "ht!tp://x y"',
    "Unable to connect to the server: getting credentials: exec: executable nosuchplugin not found\n\nIt looks like you are "
    "trying to use a client-go credential plugin that is not installed.",
]
LOGIN = "error: You must be logged in to the server (Unauthorized)"
NOWHERE = "The connection to the server localhost:8080 was refused - did you specify the right host or port?"
REFUSED = "The connection to the server 10.1.2.3:6443 was refused - did you specify the right host or port?"
UNREACHED = "Unable to connect to the server: dial tcp 10.1.2.3:6443: i/o timeout"


@pytest.fixture
def failing(tmp_path):
    """Runs a command with a kubectl that fails with this text; returns what it says last."""
    def run(command, text, *flags, **environment):
        kubectl = tmp_path / "kubectl"
        (tmp_path / "said").write_text(text + "\n")
        kubectl.write_text(f"#!/bin/sh\ncat {tmp_path}/said >&2\nexit 1\n")
        kubectl.chmod(0o755)
        without = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
        done = subprocess.run([BUILD / "src/cli/ration", *command, *flags], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, check=False,
                              env=without | {"KUBECTL": str(kubectl), "HOME": "/home/jane"} | environment)
        assert done.returncode == (3 if command == ["doctor"] else 1) and done.stdout == "", done
        return done.stderr.splitlines()[-1]
    return run


def wrong_about(said):
    return [word for word in ("rights", "readable", "may not", "verb", "?", "  ") if word in said]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_a_broken_configuration_is_named_by_every_command(failing, command):
    for text in CONFIG:
        said = failing(command, text)
        assert said.startswith("ration: kubectl cannot use its configuration (~/.kube/config): "), said
        assert text.splitlines()[-1].split(": ", 1)[-1][:40].lstrip("* ") in said or "credential plugin" in text
        assert "--kubeconfig" in said and not wrong_about(said), said


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_an_expired_login_and_a_server_that_is_away_are_told_apart(failing, command):
    said = failing(command, LOGIN)
    assert "does not accept the user of kubectl's configuration (~/.kube/config)" in said and not wrong_about(said)
    said = failing(command, NOWHERE)
    assert "kubectl's configuration (~/.kube/config) is missing or names no cluster" in said and not wrong_about(said)
    for text in (REFUSED, UNREACHED):
        said = failing(command, text)
        assert "the API server of kubectl's configuration (~/.kube/config) does not answer" in said, said
        assert "10.1.2.3:6443" in said and "readable" not in said


def test_the_file_is_the_one_that_kubectl_uses(failing):
    assert "(KUBECONFIG=/a:/b)" in failing(["inspect"], CONFIG[0], KUBECONFIG="/a:/b")
    assert "(--kubeconfig=/c)" in failing(["inspect"], CONFIG[0], "--kubeconfig", "/c", KUBECONFIG="/a:/b")
    assert "(--kubeconfig=/c)" in failing(["why", "p", "-n", "d"], CONFIG[0], "--kubeconfig=/c", KUBECONFIG="/a:/b")


def test_a_server_that_was_named_by_hand_is_no_missing_configuration(failing):
    assert "does not answer" in failing(["inspect"], NOWHERE, "--server=http://localhost:8080")


def test_missing_rights_are_still_missing_rights(failing):
    said = failing(["inspect"], 'Error from server (Forbidden): nodes is forbidden: User "eve" cannot list resource "nodes"')
    assert 'User "eve" cannot list' in said and "must be readable (verbs get and list)" in said


def test_another_failure_is_quoted_without_a_word_about_rights(failing):
    said = failing(["inspect"], "Error from server (InternalError): etcd is sick")
    assert "etcd is sick" in said and "get --raw '/api/v1/nodes?limit=500'" in said and "readable" not in said


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_a_sentence_ends_where_it_ends(failing, command):
    """kubectl ends each line with a newline, which is no letter for a person."""
    said = failing(command, 'Error from server (Forbidden): it is forbidden: User "jane" cannot do that')
    assert not said.endswith("?") and "? " not in said, said


def test_endless_complaints_are_cut_off(failing):
    assert len(failing(["inspect"], "error: " + "x" * 3_000_000)) < 1000
