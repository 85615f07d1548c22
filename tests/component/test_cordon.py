"""ration cordon and uncordon, by a person's kubectl, with the agent of the node that takes it up."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import time

import pytest

from agent_fixture import BUILD, NODE, World
from fake_apiserver import wait_for

RATION = BUILD / "src/cli/ration"
KUBECTL = pathlib.Path(__file__).parent.resolve() / "http_kubectl.py"
MAP = f"unhealthy-gpu-{NODE}"


class Node(World):
    def run(self, *words):
        return subprocess.run([RATION, *words], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "KUBECTL": str(KUBECTL), "API_URL": self.api.url})

    def says(self, *words):
        done = self.run(*words)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def fails(self, *words):
        done = self.run(*words)
        assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith("ration: "), done
        return done.stderr

    def map(self):
        return self.api.get("configmaps", MAP, "kube-system")

    def listed(self):
        return self.map().get("data", {}).get("gpus")

    def health(self):
        return [c["healthy"] for c in self.cards()]


@pytest.fixture
def node():
    with Node() as w:
        yield w.up(32)


def test_cordoned_gpu_takes_no_new_pods_and_who_is_on_it_is_named(node):
    node.pod("a", 3, card=1)
    node.pod("other", 5, card=0)
    uuid = node.uuid(1)
    assert node.says("cordon", NODE, "1", "--reason", 'fan, "ticket 7"') == (
        f'GPU 1 ({uuid}) of node {NODE} takes no new pods: cordoned: fan, "ticket 7"\n'
        "1 pod is still on it, and goes on:\n  default/a 3\n")
    assert node.health() == [True, False]
    assert node.listed() == "1"
    assert json.loads(node.map()["metadata"]["annotations"]["ration.dev/cordoned"]) == {
        "gpus": "1", "cards": {"1": {"uuid": uuid, "reason": 'fan, "ticket 7"'}}}
    assert node.says("uncordon", f"node/{NODE}", uuid) == f"GPU 1 ({uuid}) of node {NODE} takes pods again.\n"
    assert node.health() == [True, True]
    # What the open scheduler extender would take for card 0 is not there.
    assert node.listed() is None and "ration.dev/cordoned" not in node.map()["metadata"].get("annotations", {})


def test_output_that_cannot_be_written_is_an_error(node):
    with open("/dev/full", "w") as full:
        done = subprocess.run([RATION, "cordon", NODE, "1"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                              env={**os.environ, "KUBECTL": str(KUBECTL), "API_URL": node.api.url})
    assert done.returncode == 1 and "cannot be written" in done.stderr
    assert node.listed() == "1"    # what was asked for has been done


def test_the_second_time_changes_nothing(node):
    uuid = node.uuid(0)
    node.says("cordon", NODE, uuid, "--reason", "fan")
    version = node.map()["metadata"]["resourceVersion"]
    assert node.says("cordon", NODE, "0") == (
        f"GPU 0 ({uuid}) of node {NODE} was cordoned already: cordoned: fan\nNo pod is on it.\n")
    assert node.map()["metadata"]["resourceVersion"] == version
    node.says("cordon", NODE, "0", "--reason", "fan and power")
    assert '"fan and power"' in node.map()["metadata"]["annotations"]["ration.dev/cordoned"]
    node.says("uncordon", NODE, "0")
    version = node.map()["metadata"]["resourceVersion"]
    assert node.says("uncordon", NODE, "0") == f"GPU 0 ({uuid}) of node {NODE} was not cordoned, and takes pods.\n"
    assert node.map()["metadata"]["resourceVersion"] == version


def test_of_eight_people_at_once_none_loses_his_change():
    with Node(cards="8x16384MiB") as node:
        node.up(128)
        node.api.inject(method="GET", path=f"configmaps/{MAP}", times=8, delay=0.5)    # all see the same
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            done = list(pool.map(lambda i: node.run("cordon", NODE, str(i), "--reason", f"r{i}"), range(8)))
        assert [(d.returncode, d.stderr) for d in done] == [(0, "")] * 8
        assert sorted(node.listed().split(",")) == list("01234567")
        assert node.health() == [False] * 8
        assert {c["reason"] for c in node.cards()} == {f"cordoned: r{i}" for i in range(8)}
        assert [r.status for r in node.api.requests if r.method in ("PUT", "POST") and "configmaps" in r.path].count(409)


def test_what_others_have_in_the_object_stays(node):
    node.api.create("configmaps", {
        "metadata": {"name": MAP, "namespace": "kube-system", "labels": {"l": "1"}, "annotations": {"a": "2"}},
        "data": {"gpus": " 1 ", "note": "by hand"}})
    wait_for(lambda: node.health() == [True, False])
    node.says("cordon", NODE, "0")
    found = node.map()
    assert found["data"] == {"gpus": "1,0", "note": "by hand"}
    assert found["metadata"]["labels"] == {"l": "1"} and found["metadata"]["annotations"]["a"] == "2"
    node.says("uncordon", NODE, "1")
    assert node.listed() == "0" and node.map()["data"]["note"] == "by hand"


def test_malformed_list_is_not_touched(node):
    node.api.create("configmaps", {"metadata": {"name": MAP, "namespace": "kube-system"}, "data": {"gpus": "0;1"}})
    said = node.fails("cordon", NODE, "0")
    assert "is malformed" in said and f"kubectl edit configmap -n kube-system {MAP}" in said and '"0;1"' in said
    assert node.listed() == "0;1"


def test_gpu_that_is_sick_anyhow_is_told(node):
    node.sim("fault", 1, "xid", 79)
    wait_for(lambda: node.health() == [True, False], 15)
    node.says("cordon", NODE, "1")
    said = node.says("uncordon", NODE, "1")
    assert said.endswith(f"of node {NODE} is no longer cordoned, but takes no new pods: Xid 79\n"), said
    node.api.create("configmaps", {"metadata": {"name": f"{NODE}-device-status", "namespace": "kube-system"},
                                   "data": {"devices": "- {deviceId: 0, deviceType: gpu, healthy: false}"}})
    wait_for(lambda: node.health() == [False, False])
    said = node.says("uncordon", NODE, "0")
    assert f"was not cordoned, but takes no new pods: declared faulty by ConfigMap kube-system/{NODE}-device-status" in said


def test_wrong_gpu_or_node_is_a_sentence(node):
    said = node.fails("cordon", NODE, "7")
    assert f"node {NODE} has no GPU 7: it has 0 ({node.uuid(0)}), 1 ({node.uuid(1)})" in said
    assert f"has no GPU GPU-{'x' * 40}" in node.fails("cordon", NODE, f"GPU-{'x' * 40}")
    node.api.create_node("cpu-only")
    assert "node cpu-only shows no GPUs" in node.fails("cordon", "cpu-only", "0")
    done = node.run("cordon", "nowhere", "0")
    assert done.returncode == 1 and '"nowhere" not found' in done.stderr
    assert not node.api.list("configmaps")


def test_gpu_that_the_node_does_not_show_any_more_can_be_uncordoned(node):
    node.api.create("configmaps", {"metadata": {"name": MAP, "namespace": "kube-system"}, "data": {"gpus": "0,7"}})
    assert node.says("uncordon", NODE, "7") == f"GPU 7 of node {NODE} is no longer cordoned; the node does not show it.\n"
    assert node.listed() == "0"


def test_what_may_not_be_done_says_which_right_is_missing(node):
    node.api.inject(method="GET", path=f"configmaps/{MAP}", times=1, status=403, reason="Forbidden", message="forbidden: no")
    assert "you may not read ConfigMap" in node.fails("cordon", NODE, "0")
    node.api.inject(method="POST", path="configmaps", times=1, status=403, reason="Forbidden", message="forbidden: no")
    assert "you may not create ConfigMap" in (said := node.fails("cordon", NODE, "0"))
    assert "get, create and update on configmaps" in said


def test_agent_that_does_not_take_it_up_is_told(node):
    node.stop_agent()
    began = time.monotonic()
    said = node.fails("cordon", NODE, "0", "--timeout", "1")
    assert "the change is stored, but the agent of node n1 has not applied it within 1 s" in said
    assert time.monotonic() - began < 10 and node.listed() == "0"
    assert "the change is stored; it takes effect when the node's agent has read it" in node.says("cordon", NODE, "1", "--timeout=0")
    node.start_agent()
    wait_for(lambda: node.health() == [False, False])


def test_a_card_that_gets_another_index_stays_cordoned_and_the_list_follows(node):
    node.says("cordon", NODE, "1")
    uuid, other = node.uuid(1), node.uuid(0)
    node.stop_agent()
    cards = node.cards()
    cards[0]["index"], cards[1]["index"] = 1, 0
    node.api.patch("nodes", NODE, {"metadata": {"annotations": {"ration.dev/gpus": json.dumps(cards)}}})
    node.says("cordon", NODE, other, "--timeout=0")
    assert node.listed() == "0,1"
    notes = json.loads(node.map()["metadata"]["annotations"]["ration.dev/cordoned"])
    assert {k: v["uuid"] for k, v in notes["cards"].items()} == {"0": uuid, "1": other}


@pytest.mark.parametrize("words", [
    [], ["n1"], ["n1", "0", "1"], ["N1", "0"], ["../n1", "0"], ["n1", "-1"], ["n1", "0 1"], ["n1", ""], ["n1", "0", "--reason", ""],
    ["n1", "0", "--reason", "a\nb"], ["n1", "0", "--reason", "x" * 141], ["n1", "0", "--timeout", "soon"], ["n1", "0", "--no"],
    ["n1", "99999"]])
def test_wrong_arguments_end_with_2_and_the_way_to_help(tmp_path, words):
    for command in ("cordon", "uncordon"):
        done = subprocess.run([RATION, command, *words], env={**os.environ, "KUBECTL": "/nonexistent"}, capture_output=True)
        assert done.returncode == 2 and f"\nTry 'ration {command} --help'".encode() in done.stderr, done


def test_uncordon_takes_no_reason_and_help_needs_no_cluster(tmp_path):
    env = {**os.environ, "KUBECTL": "/nonexistent"}
    done = subprocess.run([RATION, "uncordon", "n1", "0", "--reason", "x"], env=env, capture_output=True, text=True)
    assert done.returncode == 2 and 'unknown option "--reason"' in done.stderr
    for command in ("cordon", "uncordon"):
        done = subprocess.run([RATION, command, "--help"], env=env, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(f"Usage: ration {command} NODE GPU")
