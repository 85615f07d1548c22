"""`ration top`: runs of this machine, and pods of a cluster through the user's kubectl and the agents' metrics."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

from agent_fixture import BUILD, NODE, wait_for
from shares import LIVE, STARTED, WAITED, Power
from terminal import Terminal

RATION = BUILD / "src/cli/ration"
KUBECTL = pathlib.Path(__file__).parent.resolve() / "http_kubectl.py"
needs_root = pytest.mark.skipif(os.geteuid() != 0 or os.path.exists("/run/ration/grant"),
                                reason="mounts file systems, which needs root")


@pytest.fixture(name="top")
def _top(machine, tmp_path):
    """Of the runs: nothing of a cluster is there."""
    env = {k: v for k, v in machine.env.items() if not k.startswith("KUBE")} | {"HOME": str(tmp_path)}

    def run(*args, **more):
        return subprocess.run([RATION, "top", *args], env=env, capture_output=True, text=True, timeout=60, **more)
    run.env = env
    return run


@contextlib.contextmanager
def counting(run, **per_second):
    """A process that adds so much to a run's own counters in each second."""
    code = f"""
import struct, time
begin = last = time.monotonic()
with open({str(run.folder / 'usage')!r}, 'r+b') as file:
    while last < begin + 70:    # if the test is killed, too, it ends
        time.sleep(0.01)
        now = time.monotonic()
        for at, rate in {per_second!r}.items():
            file.seek(128 + int(at[1:]))
            value = struct.unpack('<Q', file.read(8))[0] + int((now - last) * rate * 1e9)
            file.seek(128 + int(at[1:]))
            file.write(struct.pack('<Q', value))
        file.flush()
        last = now
"""
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            yield
        finally:
            process.kill()


def rates(**what):
    return {f"_{dict(started=STARTED, waited=WAITED)[k]}": v for k, v in what.items()}


# ---- runs ----

def test_without_a_run_that_is_said(top):
    shown = top("--once")
    assert (shown.returncode, shown.stdout) == (0, "No program runs under a grant of `ration run`.\n")


def test_runs_are_shown_with_what_they_have_and_use(top, start_run):
    one, other = start_run("--core", "30", mem="2154MiB"), start_run("--gpu", "1", mem="100MiB")
    rows, document, card = [], {}, {}

    def table_has_the_rates():
        rows[:] = [line.split(None, 5) for line in top().stdout.splitlines()]
        return abs(int(rows[2][3][:-1]) - 24) <= 3 and abs(int(rows[2][4][:-1]) - 70) <= 6

    def document_has_the_rates():
        document.update(json.loads(top("-o", "json").stdout))
        card.update(document["cards"][0])
        holder = card["holders"][0]
        return abs(holder["coreUsed"] - 0.24) < 0.03 and abs(holder["coreWaited"] - 0.7) < 0.06

    # Beside other tests the counting gets its processor late now and then, and a rate is too low and the next one too high.
    with counting(one, **rates(started=0.24, waited=0.7)):
        wait_for(table_has_the_rates, 30, rows)
        wait_for(document_has_the_rates, 30, document)
    assert rows[0] == ["GPU", "MEMORY", "CORE", "USED", "WAITED", "RUN"]
    assert rows[1][:3] == ["0", "0/16160MiB", "30%"] and rows[2][:3] == ["0", "0/2154MiB", "30%"]
    assert rows[2][5] == f"{one.process.pid} sh -c echo ready; exec sleep 1000"
    assert rows[4] == ["1", "0/100MiB", "-", "-", "-", f"{other.process.pid} sh -c echo ready; exec sleep 1000"]
    assert document["of"] == "runs" and (card["memoryBytes"], card["grantedBytes"]) == (16160 << 20, 2154 << 20)
    holder = card["holders"][0]
    assert (holder["pid"], holder["limitBytes"], holder["coreShare"]) == (one.process.pid, 2154 << 20, 0.3)
    assert "coreShare" not in document["cards"][1]["holders"][0]


@pytest.mark.alone    # what counts for the program has to get a processor all the time
@pytest.mark.waits
def test_what_a_shim_counts_wrongly_is_corrected_by_what_its_keeper_knows(machine, top, start_run):
    run = start_run("--core", "40")
    machine.leaves_folders = True
    os.kill(run.keeper(), signal.SIGKILL)
    with open(run.folder / "grant", "r+b") as file:
        file.seek(LIVE + 40)
        file.write(struct.pack("<QQ", 400000, 800000))
    with counting(run, **rates(started=0.8)):
        holder = json.loads(top("-o", "json").stdout)["cards"][0]["holders"][0]
    assert abs(holder["coreUsed"] - 0.4) < 0.04


def test_names_of_programs_do_not_command_the_terminal(top, start_run):
    start_run("--core", "5", program=("sh", "-c", "echo ready; exec sleep 100 # \x1b[2J\"\\\n\t\x07 end"))
    shown = top("--once").stdout
    assert not set(shown) & set("\x1b\x07\t") and 'sleep 100 # ?[2J"\\?' in shown
    assert len(shown.splitlines()) == 3
    name = json.loads(top("-o", "json").stdout)["cards"][0]["holders"][0]["program"]
    assert name.endswith("# \x1b[2J\"\\\n\t\x07 end")


@pytest.mark.parametrize("helper, told", [
    (None, "`ration sample` needs ration-run in {folder}/../lib/ration: No such file or directory"),
    ("closed", "`ration sample` needs ration-run in {folder}/../lib/ration: Permission denied"),
    ("echo 'card 0'; exit 3", ""), ("kill -9 $$", "")])
def test_programs_that_ration_run_cannot_tell_are_said_to_be_unknown(top, tmp_path, helper, told):
    """ration alone in a folder, or beside a ration-run that is broken."""
    ration = pathlib.Path(shutil.copy2(RATION, tmp_path / "ration"))
    if helper:
        (tmp_path / "ration-run").write_text(f"#!/bin/sh\n{helper}\n")
        (tmp_path / "ration-run").chmod(0o644 if helper == "closed" else 0o755)
    shown = subprocess.run([ration, "top", "--once"], env=top.env, capture_output=True, text=True, timeout=60)
    lines = shown.stderr.splitlines()
    assert shown.returncode == 1 and not shown.stdout, shown
    assert lines[:-1] == ([f"ration: {told.format(folder=tmp_path)}"] if told else [])
    assert lines[-1].endswith("ration-run cannot tell which programs run")


def test_numbers_that_go_back_are_not_shown_as_use(top, start_run):
    run = start_run("--core", "50")
    run.count(more=1 << 62)
    shown = subprocess.Popen([RATION, "top", "--once"], env=top.env, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    run.count(more=-1 << 61)
    row = shown.communicate()[0].splitlines()[2].split(None, 5)
    assert row[2:4] == ["50%", "-"]


@pytest.mark.parametrize("args", [["-o", "yaml"], ["--runs", "node"], ["--runs", "--context", "x"], ["--nothing"]])
def test_wrong_arguments_get_the_way_to_help(top, args):
    shown = top(*args)
    assert shown.returncode == 2 and "\nTry 'ration top --help'" in shown.stderr and not shown.stdout


def test_help_is_no_error(top):
    shown = top("--help")
    assert shown.returncode == 0 and shown.stdout.startswith("Usage: ration top")


# ---- a terminal ----

@pytest.mark.parametrize("end", ["q", "\x03", signal.SIGTERM])
def test_the_table_lives_until_it_is_ended_and_the_terminal_is_as_before(top, start_run, end):
    first = start_run("--core", "30")
    terminal = Terminal([RATION, "top"], top.env)
    terminal.reads(lambda seen: "30%" in seen and f"{first.process.pid} sh" in seen)
    second = start_run("--core", "45")
    terminal.reads(lambda seen: "45%" in seen and f"{second.process.pid} sh" in seen)
    frames = terminal.seen.count("\x1b[H")
    terminal.reads(lambda seen: seen.count("\x1b[H") >= frames + 2)
    if isinstance(end, str):
        os.write(terminal.fd, end.encode())
    else:
        os.kill(terminal.pid, end)
    assert terminal.ends() == 0
    assert terminal.seen.count("\x1b[?1049h") == terminal.seen.count("\x1b[?1049l") == 1
    assert terminal.seen.rindex("\x1b[?25h") > terminal.seen.rindex("\x1b[H")


# ---- pods ----

@pytest.fixture
def node():
    with Power() as n:
        yield n.up(30)


class Cluster:
    """A user with a kubectl, in front of the fake API server and the agent's page."""

    def __init__(self, node, tmp_path):
        port = wait_for(lambda: re.findall(r"metrics on port ([0-9]+)", node.logged()))[-1]
        node.api.create_pod("agent-x", namespace="kube-system", node=NODE,
                            labels={"name": "gpushare-device-plugin-ds"},
                            spec={"containers": [{"name": "ration-agent", "args": ["--metrics=127.0.0.1:39996"]}]})
        self.log = tmp_path / "kubectl.log"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")} | {
            "KUBECTL": str(KUBECTL), "API_URL": node.api.url, "HOME": str(tmp_path), "KUBECONFIG": str(node.kubeconfig),
            "FORWARD": json.dumps({"agent-x": int(port)}), "FORWARD_LOG": str(self.log)}

    def top(self, *args):
        return subprocess.run([RATION, "top", *args], env=self.env, capture_output=True, text=True, timeout=60)


@needs_root
def test_pods_of_the_cluster_are_shown_with_what_they_have_and_use(node, tmp_path):
    node.policy("2")
    node.hold("a", weight=1, units=2)
    node.hold("b", weight=3)
    node.settles([250000, 750000], "a", "b")
    wait_for(lambda: node.api.node(NODE)["metadata"]["labels"].get("aliyun.accelerator/nvidia_count"))
    cluster = Cluster(node, tmp_path)
    shown = cluster.top()
    assert shown.returncode == 0, shown.stderr
    rows = [line.split(None, 6) for line in shown.stdout.splitlines()]
    assert rows[0] == ["NODE", "GPU", "MEMORY", "CORE", "USED", "WAITED", "POD"]
    assert rows[1][:3] == [NODE, "0", "0/16160MiB"] and rows[1][6] == "Tesla V100-SXM2-16GB"
    assert rows[2][:4] == [NODE, "0", "0/2154MiB", "25%"] and rows[2][6] == "default/a/main"
    assert rows[3][:4] == [NODE, "0", "0/1077MiB", "75%"] and rows[3][6] == "default/b/main"
    document = json.loads(cluster.top("-o", "json", NODE).stdout)
    assert document["of"] == "pods" and document["cards"][0]["node"] == NODE
    assert [h["coreShare"] for h in document["cards"][0]["holders"]] == [0.25, 0.75]
    assert [h["coreUsed"] for h in document["cards"][0]["holders"]] == [0, 0]
    # No kubectl is left behind.
    assert cluster.log.read_text().count("begun") == cluster.log.read_text().count("ended") == 2


@needs_root
def test_what_keeps_top_from_the_cluster_is_said(node, tmp_path):
    wait_for(lambda: node.api.node(NODE)["metadata"]["labels"].get("aliyun.accelerator/nvidia_count"))
    cluster = Cluster(node, tmp_path)
    assert "not all of these are nodes with isolation" in cluster.top("n7").stderr
    cluster.env["FORWARD"] = "{}"
    refused = cluster.top()
    assert refused.returncode == 1 and "create on pods/portforward" in refused.stderr
    node.api.delete("pods", "agent-x", "kube-system")
    assert f"no agent of ration runs on node {NODE}" in cluster.top().stderr
    node.api.patch("nodes", NODE, {"metadata": {"labels": {"aliyun.accelerator/nvidia_count": None}}})
    node.kill_agent()
    node.api.patch("nodes", NODE, {"metadata": {"labels": {"aliyun.accelerator/nvidia_count": None}}})
    assert "this cluster has no node with isolation" in cluster.top().stderr
