"""kubectl-inspect-cgpu against a kubectl that serves objects written by hand. Expected tables are those of the
documents, or follow from the rules of the contract, section 8."""
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import time

import pytest

from agent_fixture import SANITIZED
from listings import FAKE, PROGRAM, node, pod

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from rationbench import inspect    # noqa: E402


EMPTY = """\
NAME                       IPADDRESS      GPU0(Allocated/Total)  GPU Memory(GiB)
cn-shanghai.192.168.6.104  192.168.6.104  0/15                   0/15
----------------------------------------------------------------------
Allocated/Total GPU Memory In Cluster:
0/15 (0%)
"""

THREE_OF_15 = """\
NAME                           IPADDRESS       GPU0(Allocated/Total)  GPU Memory(GiB)
cn-zhangjiakou.192.168.66.139  192.168.66.139  3/15                   3/15
---------------------------------------------------------------------------
Allocated/Total GPU Memory In Cluster:
3/15 (20%)
"""


def test_empty_node_is_shown_as_in_the_document(cluster):
    cluster.set([node("cn-shanghai.192.168.6.104", "192.168.6.104", 16160)])
    assert cluster.show() == EMPTY


def test_three_of_fifteen_is_shown_as_in_the_document(cluster):
    name = "cn-zhangjiakou.192.168.66.139"
    cluster.set([node(name, "192.168.66.139", 16160)], [pod("gpu-share-sample-abcde", name, 3, f"GPU-{name}-0")])
    assert cluster.show() == THREE_OF_15


def test_several_nodes_and_cards_and_a_pending_pod(cluster):
    cluster.set([node("b", "10.0.0.2", 16160, 16160), node("a", "10.0.0.1", 81559), node("cpu-only", "10.0.0.3")],
                [pod("placed", "b", 3, "GPU-b-1"), pod("by-hand", "b", 2), pod("init", "a", 5, "GPU-a-0", init=7)])
    # First row before alignment: 1+1 + 8+1 + 4+1 + 3+1 + 0+1 + 4 and the newline = 26 characters, and 20 more.
    assert cluster.show() == """\
NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  PENDING(Allocated)  GPU Memory(GiB)
a     10.0.0.1   7/79                   0/0                                        7/79
b     10.0.0.2   0/15                   3/15                   2                   5/30
----------------------------------------------
Allocated/Total GPU Memory In Cluster:
12/109 (11%)
"""


def test_details_are_shown_as_in_the_document(cluster):
    name = "cn-hangzhou.192.168.2.167"
    cluster.set([node(name, "192.168.2.167", 16160)],
                [pod("app-3g-v1-1", name, 4, f"GPU-{name}-0"), pod("app-3g-v1-0", name, 4, f"GPU-{name}-0")])
    assert cluster.show("-d") == """\

NAME:       cn-hangzhou.192.168.2.167
IPADDRESS:  192.168.2.167

NAME         NAMESPACE  GPU0(Allocated)
app-3g-v1-0  default    4
app-3g-v1-1  default    4
Allocated :  8 (53%)
Total :      15
--------------------------------------------------------


Allocated/Total GPU Memory In Cluster:  8/15 (53%)
"""


def test_details_put_each_pod_under_its_card_and_pending_last(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 16160)],
                [pod("by-hand", "n", 2), pod("second", "n", 4, "GPU-n-1"), pod("first", "n", 3, "GPU-n-0", "team")])
    # The rows: first team 3 0 0, second default 0 4 0, by-hand default 0 0 2: 18 + 22 + 23 characters, and 10 more.
    assert cluster.show("--details") == """\

NAME:       n
IPADDRESS:  10.0.0.1

NAME         NAMESPACE  GPU0(Allocated)  GPU1(Allocated)  Pending(Allocated)
first        team       3                0                0
second       default    0                4                0
by-hand      default    0                0                2
Allocated :  9 (30%)
Total :      30
-------------------------------------------------------------------------


Allocated/Total GPU Memory In Cluster:  9/30 (30%)
"""


def held(*pods):
    """The annotation in which an agent lists pods that outlive their objects: (name, uid, {card: units})."""
    return {"ration.dev/held": json.dumps({"at": "2026-05-04T03:02:01.000000Z", "ended": ["uid-default-over"], "pods": [
        {"uid": uid, "namespace": "default", "name": name, "cards": {c: {"units": n, "core": 0} for c, n in cards.items()}}
        for name, uid, cards in pods]})}


def test_units_of_a_pod_deleted_by_force_are_allocated_while_its_container_runs(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 16160, **held(("q1", "uid-1", {"GPU-n-1": 14})))],
                [pod("p", "n", 3, "GPU-n-0")])
    lines = cluster.show().splitlines()
    assert lines[1].split()[2:] == ["3/15", "14/15", "17/30"] and lines[-1] == "17/30 (56%)"
    assert cluster.show("-d") == """\

NAME:       n
IPADDRESS:  10.0.0.1

NAME         NAMESPACE  GPU0(Allocated)  GPU1(Allocated)
p            default    3                0
q1(orphan)   default    0                14
Allocated :  17 (56%)
Total :      30
--------------------------------------------------


Allocated/Total GPU Memory In Cluster:  17/30 (56%)
"""
    shown = json.loads(cluster.show("-o", "json"))
    assert shown["allocated"] == shown["nodes"][0]["allocated"] == 17 and shown["nodes"][0]["gpus"][1]["allocated"] == 14
    assert shown["nodes"][0]["pods"] == [
        {"namespace": "default", "name": "p", "allocated": {"0": 3}, "pending": 0},
        {"namespace": "default", "name": "q1", "allocated": {"1": 14}, "pending": 0, "orphan": True}]


def test_pod_that_is_listed_and_held_counts_once(cluster):
    """The agent has not yet heard of a pod that is back in the list, or the list is older than the node."""
    cluster.set([node("n", "10.0.0.1", 16160, **held(("p", "uid-default-p", {"GPU-n-0": 3})))],
                [pod("p", "n", 3, "GPU-n-0")])
    assert cluster.show().splitlines()[1].split()[2:] == ["3/15", "3/15"]
    assert "orphan" not in cluster.show("-d") + cluster.show("-o", "json")


def test_namesake_of_an_orphan_is_a_pod_of_its_own(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, **held(("web-0", "uid-first", {"GPU-n-0": 4})))],
                [pod("web-0", "n", 5, "GPU-n-0")])
    assert cluster.show().splitlines()[1].split()[2:] == ["9/15", "9/15"]


def test_orphan_on_a_card_that_is_gone_is_pending(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, **held(("q", "uid-q", {"GPU-gone": 4, "GPU-n-0": 2})))])
    assert cluster.show().splitlines()[1].split()[2:] == ["2/15", "4", "6/15"]


def test_orphan_has_whole_gpus_of_a_topology_node(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 16160, mode="topology", **held(("q", "uid-q", {"GPU-n-1": 1})))])
    text = cluster.show("--topology")
    assert "q(orphan)  default    1" in text and text.endswith("1/2 (50%)\n")
    cluster.set([node("n", "10.0.0.1", 16160, 16160, mode="topology", **held(("q", "uid-q", {"GPU-n-1": 1}))),
                 node("m", "10.0.0.2", 16160)])
    assert cluster.show().splitlines()[-1] == "0/15 (0%)"


def test_hostile_names_of_orphans_reach_the_terminal_disarmed(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, **held(("q\x1b[2J", "uid-q", {"GPU-n-0": 2})))])
    assert "\x1b" not in cluster.show("-d") and "q?[2J(orphan)" in cluster.show("-d")


def test_named_node_is_shown_alone(cluster):
    cluster.set([node("a", "10.0.0.1", 16160), node("b", "10.0.0.2", 16160)],
                [pod("p", "a", 3, "GPU-a-0"), pod("q", "b", 4, "GPU-b-0")])
    shown = cluster.show("b").splitlines()
    assert shown[1].split() == ["b", "10.0.0.2", "4/15", "4/15"]
    assert shown[-1] == "4/15 (26%)"
    assert cluster.show("-d", "b").splitlines()[1:3] == ["NAME:       b", "IPADDRESS:  10.0.0.2"]


def test_unknown_node_is_an_error_with_kubectls_reason(cluster):
    done = cluster.run("nowhere")
    assert done.returncode == 1 and done.stdout == b""
    assert b'nodes "nowhere" not found' in done.stderr


def test_another_unit_is_named_and_mixed_units_are_units(cluster):
    cluster.set([node("a", "10.0.0.1", 16160, unit=128)])
    assert cluster.show().splitlines()[0].endswith("  GPU Memory(128MiB)")
    assert cluster.show().splitlines()[1].split()[2:] == ["0/126", "0/126"]
    cluster.set([node("a", "10.0.0.1", 16160, unit=128), node("b", "10.0.0.2", 16160)])
    assert cluster.show().splitlines()[0].endswith("  GPU Memory(units)")


def test_card_is_found_by_uuid_when_indices_changed(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 16160, indices=(1, 0))], [pod("p", "n", 3, "GPU-n-1")])
    assert cluster.show().splitlines()[1].split()[2:] == ["3/15", "0/15", "3/30"]


def test_missing_index_is_an_empty_column(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 16160, indices=(0, 2))])
    assert cluster.show().splitlines()[1].split()[2:] == ["0/15", "0/0", "0/15", "0/30"]


def test_placement_on_a_card_that_is_gone_is_pending(cluster):
    cluster.set([node("n", "10.0.0.1", 16160)],
                [pod("p", "n", 3, "GPU-gone", **{"ALIYUN_COM_GPU_MEM_IDX": "0",
                                                 "scheduler.framework.gpushare.allocation": '{"0":{"0":3}}'})])
    assert cluster.show().splitlines()[1].split()[2:] == ["0/15", "3", "3/15"]


def test_older_allocation_annotation_is_read(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 16160)],
                [pod("p", "n", 4, **{"scheduler.framework.gpushare.allocation": '{"0":{"0":1,"1":2},"2":{"1":1}}',
                                     "ALIYUN_COM_GPU_MEM_IDX": "0"})])
    assert cluster.show().splitlines()[1].split()[2:] == ["1/15", "3/15", "4/30"]


def test_oldest_index_annotation_is_read_with_the_request(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 16160)],
                [pod("p", "n", 4, init=6, **{"ALIYUN_COM_GPU_MEM_IDX": "1"})])
    assert cluster.show().splitlines()[1].split()[2:] == ["0/15", "6/15", "6/30"]


def test_node_of_another_agent_has_equal_cards(cluster):
    cluster.set([node("n", None, allocatable={"aliyun.com/gpu-mem": "61", "aliyun.com/gpu-count": "4"})],
                [pod("p", "n", 4, **{"ALIYUN_COM_GPU_MEM_IDX": "3"})])
    assert cluster.show().splitlines()[1].split() == ["n", "unknown", "0/15", "0/15", "0/15", "4/15", "4/61"]


def test_nodes_without_shared_memory_are_left_out(cluster):
    cluster.set([node("shared", "10.0.0.1", 16160), node("whole", "10.0.0.2", 16160, mode="topology"),
                 node("zero", "10.0.0.3", allocatable={"aliyun.com/gpu-mem": "0"})])
    assert [line.split()[0] for line in cluster.show().splitlines()[1:2]] == ["shared"]
    assert "whole" not in cluster.show() and "zero" not in cluster.show()


def test_no_gpu_node_is_a_table_without_rows_and_a_hint(cluster):
    cluster.set([node("cpu-only", "10.0.0.3")])
    done = cluster.run()
    assert done.returncode == 0
    assert done.stdout.decode() == """\
NAME  IPADDRESS  GPU Memory(GiB)

Allocated/Total GPU Memory In Cluster:
0/0 (0%)
"""
    assert b"ack.node.gpu.schedule=share" in done.stderr
    assert b"this node shares no GPU memory" in cluster.run("cpu-only").stderr


def test_finished_and_unbound_pods_do_not_count_even_if_served(cluster):
    waiting = pod("waiting", "", 4)
    del waiting["spec"]["nodeName"]
    cluster.set([node("n", "10.0.0.1", 16160)],
                [pod("done", "n", 3, "GPU-n-0", phase="Succeeded"), pod("bad", "n", 3, "GPU-n-0", phase="Failed"),
                 waiting, pod("starting", "n", 5, "GPU-n-0", phase="Pending")])
    assert cluster.show().splitlines()[-1] == "5/15 (33%)"
    assert "done" not in cluster.show("-d")


def test_all_pages_are_read(cluster):
    nodes = [node(f"n{i:02}", f"10.0.0.{i}", 16160) for i in range(7)]
    cluster.set(nodes, [pod(f"p{i}", f"n{i % 7:02}", 1, f"GPU-n{i % 7:02}-0") for i in range(30)], page=3)
    shown = cluster.show().splitlines()
    assert [line.split()[0] for line in shown[1:8]] == [f"n{i:02}" for i in range(7)]
    assert shown[-1] == "30/105 (28%)"
    # 7 nodes in pages of 3, 30 pods in pages of 3
    assert len(cluster.calls()) == 3 + 10


def test_global_flags_and_kubeconfig_reach_kubectl(cluster):
    cluster.set([node("n", "10.0.0.1", 16160)])
    cluster.show("--kubeconfig", "/some where/config", "--context=other", "--as", "me", "--as-group=g1",
                 "--as-group=g2", "-s", "https://x", "--insecure-skip-tls-verify", "n", KUBECONFIG="/from/environment")
    for call in cluster.calls():
        assert call["KUBECONFIG"] == "/from/environment"
        assert call["argv"][:-2] == ["--kubeconfig=/some where/config", "--context=other", "--as=me", "--as-group=g1",
                                     "--as-group=g2", "--server=https://x", "--insecure-skip-tls-verify"]
        assert call["argv"][-2] == "get"


def test_kubectl_is_found_on_path(cluster, tmp_path):
    cluster.set([node("cn-shanghai.192.168.6.104", "192.168.6.104", 16160)])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").symlink_to(FAKE)
    assert cluster.show(KUBECTL="", PATH=f"{tmp_path}/bin:{os.environ['PATH']}") == EMPTY


def test_missing_kubectl_says_what_to_do(cluster, tmp_path):
    done = cluster.run(KUBECTL="", PATH=str(tmp_path))
    assert done.returncode == 1 and done.stdout == b""
    assert b"install kubectl on PATH, or name it in the variable KUBECTL" in done.stderr


def test_failing_kubectl_is_heard_with_the_next_step(cluster):
    cluster.set(fail='Error from server (Forbidden): nodes is forbidden: User "eve" cannot list resource "nodes"')
    done = cluster.run()
    assert done.returncode == 1 and done.stdout == b""
    assert b'User "eve" cannot list' in done.stderr
    assert b"get --raw '/api/v1/nodes?limit=500'" in done.stderr


@pytest.mark.parametrize("answer, reason", [
    ("", "ends in the middle"), ("<html>502 Bad Gateway</html>", "not valid JSON"), ("[]", "not a NodeList"),
    ("{}", "not a NodeList"), ('{"kind":"NodeList","items":{}}', "not a list"), ('{"kind":"Status"}', "Status"),
    ('{"kind":"NodeList","items":[]} tail', "text after the end"), ("[" * 100000, "not valid JSON"),
    ('{"kind":"NodeList\\u001b[2J","items":[]}', "not a NodeList"),
])
def test_garbage_is_an_error_not_an_empty_cluster(cluster, answer, reason):
    cluster.set(answer=answer)
    done = cluster.run()
    assert done.returncode == 1 and done.stdout == b""
    assert reason in done.stderr.decode() and b"\x1b" not in done.stderr


def test_truncated_answer_is_an_error(cluster):
    cluster.set([node("n", "10.0.0.1", 16160)], cut=300)
    done = cluster.run()
    assert done.returncode == 1 and done.stdout == b""
    assert b"ends in the middle" in done.stderr


def test_endless_answer_is_cut_off(cluster):
    cluster.set(endless=True)
    done = cluster.run()
    assert done.returncode == 1 and done.stdout == b""
    assert b"longer than 256 MiB" in done.stderr


def test_list_that_never_ends_is_given_up_on_a_repeated_token(cluster):
    cluster.set(answer=json.dumps({"kind": "NodeList", "metadata": {"continue": "again"}, "items": []}))
    done = cluster.run()
    assert done.returncode == 1 and done.stdout == b""
    assert b"same page repeatedly" in done.stderr


def test_hostile_names_reach_the_terminal_disarmed(cluster):
    evil = "n\x1b[2J\tx\ny\x9b\u202e"
    bad = node(evil, "10.0.0.1\x1b]0;owned\x07", 16160)
    bad["metadata"]["annotations"]["ration.dev/gpus"] = json.dumps(
        [{"index": 0, "uuid": "GPU-0", "model": "\x1b[31mred", "mib": 16160, "healthy": True}])
    sick = node("sick", "10.0.0.2", allocatable={"aliyun.com/gpu-mem": "1"}, **{"ration.dev/mode": "\x1b[5mmps"})
    cluster.set([bad, sick], [pod(evil, evil, 3, "GPU-0", namespace="\x1b[7m")])
    for args in ([], ["-d"], ["-o", "wide"], ["-o", "json"]):
        done = cluster.run(*args)
        assert done.returncode == 0
        for stream in (done.stdout, done.stderr):
            assert all(32 <= c < 127 or c == 10 for c in stream), stream
    assert len(cluster.run().stdout.splitlines()) == 6


def test_malformed_annotations_are_pending_and_told(cluster):
    cases = ["", "{", "[]", '{"unit":1024,"containers":{}}', '{"unit":1024,"containers":{"main":[]}}',
             '{"unit":1024,"containers":{"main":[{"uuid":"GPU-n-0","units":-3}]}}', "x" * 70000]
    for text in cases:
        cluster.set([node("n", "10.0.0.1", 16160)], [pod("p", "n", 3, **{"ration.dev/placement": text})])
        done = cluster.run()
        assert done.returncode == 0
        assert done.stdout.decode().splitlines()[1].split()[2:] == ["0/15", "3", "3/15"]
        assert b"warning: pod default/p: annotation ration.dev/placement" in done.stderr


@pytest.mark.parametrize("text", ["", "x", "{}", "[]", '{"0":3}', '{"0":{"x":3}}', '{"0":{"-1":3}}', '{"0":{"0":-3}}',
                                  '{"0":{"0":1.5}}', '{"0":{"64":3}}', '{"0":{"1":3}}', '{"0":{"0":99999999999999999999}}'])
def test_malformed_older_annotations_are_pending(cluster, text):
    for index in ("-1", "1", "64", "0x0", "", "99999999999999999999"):
        cluster.set([node("n", "10.0.0.1", 16160)],
                    [pod("p", "n", 3, **{"scheduler.framework.gpushare.allocation": text,
                                         "ALIYUN_COM_GPU_MEM_IDX": index})])
        assert cluster.show().splitlines()[1].split()[2:] == ["0/15", "3", "3/15"]


def test_malformed_inventory_is_told_and_the_sum_is_used(cluster):
    cluster.set([node("n", "10.0.0.1", allocatable={"aliyun.com/gpu-mem": "15", "aliyun.com/gpu-count": "1"},
                      **{"ration.dev/gpus": "[{]"})])
    done = cluster.run()
    assert done.returncode == 0
    assert b"warning: node n: annotation ration.dev/gpus" in done.stderr
    assert done.stdout.decode().splitlines()[1].split()[2:] == ["0/15", "0/15"]


def test_many_malformed_objects_are_not_all_told(cluster):
    cluster.set([node("n", "10.0.0.1", 16160)],
                [pod(f"p{i}", "n", 1, **{"ration.dev/placement": "{"}) for i in range(50)])
    done = cluster.run()
    assert done.stderr.count(b"\n") == 11
    assert done.stdout.decode().splitlines()[-1] == "50/15 (333%)"


def test_huge_and_impossible_numbers_do_no_harm(cluster):
    cluster.set([node("n", "10.0.0.1", allocatable={"aliyun.com/gpu-mem": "8Ei", "aliyun.com/gpu-count": "1e30"}),
                 node("odd", "10.0.0.2", allocatable={"aliyun.com/gpu-mem": "-5"}),
                 node("text", "10.0.0.2", allocatable={"aliyun.com/gpu-mem": "many"})],
                [pod("huge", "n", "9E"), pod("negative", "n", "-3"), pod("half", "n", "1500m"), pod("word", "n", "x")])
    done = cluster.run()
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert lines[0].count("GPU") == 64 + 1
    # One card of 64 has floor(1073741823 / 64) units; the huge pod is as large as the largest number we count.
    assert lines[1].split()[2] == "0/16777215"
    assert lines[-1] == "1073741823/1073741823 (100%)"
    for name in (b"negative", b"half", b"word"):
        assert b"pod default/" + name in done.stderr


def test_absurd_card_index_makes_no_thousand_columns(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 16160, indices=(3, 4000))], [pod("p", "n", 2, "GPU-n-1")])
    assert cluster.show().splitlines()[1].split()[2:] == ["0/15", "2/15", "2/30"]


def test_wide_adds_mode_unit_and_models(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 16160)])
    lines = cluster.show("-o", "wide").splitlines()
    assert lines[0].endswith("GPU Memory(GiB)  MODE   UNIT  MODEL         HEALTH")
    assert lines[1].endswith("0/30             share  GiB   2xTesla V100  healthy")


def test_wide_says_which_card_is_unhealthy_and_why_and_that_a_mode_changes(cluster):
    sick = node("n", "10.0.0.1", 16160, 16160, 16160, **{"ration.dev/mode-pending": "cgpu"})
    cards = json.loads(sick["metadata"]["annotations"]["ration.dev/gpus"])
    cards[0] |= {"healthy": False, "reason": "Xid 79"}
    cards[2] |= {"healthy": False}
    sick["metadata"]["annotations"]["ration.dev/gpus"] = json.dumps(cards)
    cluster.set([sick, node("older", None, allocatable={"aliyun.com/gpu-mem": "15"})])
    lines = cluster.show("-o", "wide").splitlines()
    assert lines[1].endswith("  share (changing)  GiB   3xTesla V100  GPU0 unhealthy (Xid 79), GPU2 unhealthy")
    assert lines[2].endswith("  unknown           GiB   unknown       unknown")
    shown = json.loads(cluster.show("-o", "json"))["nodes"][0]
    assert shown["changing"] and [(c["healthy"], c.get("reason")) for c in shown["gpus"]] == [
        (False, "Xid 79"), (True, None), (False, None)]


def test_default_output_does_not_change_with_health_or_mode(cluster):
    name = "cn-shanghai.192.168.6.104"
    sick = node(name, "192.168.6.104", 16160, **{"ration.dev/mode-pending": "cgpu"})
    sick["metadata"]["annotations"]["ration.dev/gpus"] = sick["metadata"]["annotations"]["ration.dev/gpus"].replace(
        "true", 'false, "reason": "fan"')
    cluster.set([sick])
    assert cluster.show() == EMPTY


def test_object_that_is_no_json_is_told_and_hides_no_other(cluster, tmp_path):
    good = [node("a", "10.0.0.1", 16160), node("b", "10.0.0.2", 16160)]
    items = [json.dumps(good[0]), '{"metadata":{"name":"gpu","annotations":{"ration.dev/gpus" "x"}}}', json.dumps(good[1])]
    (tmp_path / "nodes").write_text('{"kind":"NodeList","items":[' + ",".join(items) + "]}")
    items = [json.dumps(pod("p", "a", 3, "GPU-a-0")), '{"aliyun.com/gpu-mem":01,}', json.dumps(pod("q", "b", 4, "GPU-b-0"))]
    (tmp_path / "pods").write_text('{"kind":"PodList","items":[' + ",".join(items) + "]}")
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\ncase "$*" in *pods*) cat {tmp_path}/pods ;; *) cat {tmp_path}/nodes ;; esac\n')
    kubectl.chmod(0o755)
    done = cluster.run(KUBECTL=str(kubectl))
    assert done.returncode == 0 and done.stdout.decode().splitlines()[-1] == "7/30 (23%)"
    assert b"warning: an object of the NodeList is left out: " in done.stderr
    assert b"warning: an object of the PodList is left out: " in done.stderr
    assert done.stderr.count(b"\n") == 2


def test_object_over_4_mib_is_an_error(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, **{"x": "y" * (5 << 20)})])
    done = cluster.run()
    assert done.returncode == 1 and done.stdout == b"" and b"an object over 4 MiB" in done.stderr


def show_large_cluster(kubectl, options):
    """Processor time; what is shown is right, in the memory that is allowed."""
    _, cpu, mib, text = inspect.run_once(kubectl, *options)
    assert SANITIZED or mib * 1.048576 < inspect.GOAL_MIB
    if options == ["-o", "json"]:
        shown = json.loads(text)
        assert len(shown["nodes"]) == 5000 and sum(len(n["pods"]) for n in shown["nodes"]) == 20000
        assert (shown["allocated"], shown["total"]) == (60000, 5000 * 8 * 80)
    else:
        assert text.splitlines()[-1] == b"60000/3200000 (1%)"
    return cpu


@pytest.mark.waits
def test_large_cluster_is_shown_within_100_mb_and_in_a_time_like_a_parsers(tmp_path):
    """Processor time, beside that of Python's parser for the same pages: the machine and who else works on it slow down
    both. The best of up to three rounds counts."""
    kubectl, size = inspect.make_cluster(tmp_path, 5000, 20000)
    assert size > 150e6    # objects as large as real ones
    every = ([], ["-o", "wide"], ["-o", "json"])
    program, parser = [float("inf")] * len(every), float("inf")
    for _ in range(3):
        program = [min(best, show_large_cluster(kubectl, options)) for best, options in zip(program, every)]
        parser = min(parser, inspect.parser_alone(tmp_path))
        if SANITIZED or max(program) < inspect.GOAL_OF_PARSER * parser:
            return
    assert max(program) < inspect.GOAL_OF_PARSER * parser, (program, parser)


def test_json_has_the_percentage_of_a_pod_and_says_that_a_node_is_cordoned(cluster):
    closed, open_ = node("closed", "10.0.0.1", 16160), node("open", "10.0.0.2", 16160)
    closed["spec"], open_["spec"] = {"unschedulable": True}, {"unschedulable": False}
    half = pod("half", "open", 4)
    half["spec"]["containers"][0]["resources"]["limits"]["aliyun.com/gpu-core.percentage"] = "50"
    cluster.set([closed, open_], [half, pod("none", "open", 3)])
    shown = {n["name"]: n for n in json.loads(cluster.show("-o", "json"))["nodes"]}
    assert shown["closed"]["unschedulable"] is True and "unschedulable" not in shown["open"]
    assert {p["name"]: p.get("core") for p in shown["open"]["pods"]} == {"half": 50, "none": None}


def test_json_has_everything(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, 81559)],
                [pod("p", "n", 3, "GPU-n-1", init=5), pod("by-hand", "n", 2, namespace="team")])
    assert json.loads(cluster.show("-o", "json")) == {
        "nodes": [{
            "name": "n", "address": "10.0.0.1", "mode": "share", "changing": False, "unitMiB": 1024, "total": 94, "allocated": 7,
            "pending": 2,
            "gpus": [
                {"index": 0, "uuid": "GPU-n-0", "model": "Tesla V100", "healthy": True, "total": 15, "allocated": 0},
                {"index": 1, "uuid": "GPU-n-1", "model": "Tesla V100", "healthy": True, "total": 79, "allocated": 5}],
            "pods": [
                {"namespace": "default", "name": "p", "allocated": {"1": 5}, "pending": 0},
                {"namespace": "team", "name": "by-hand", "allocated": {}, "pending": 2}]}],
        "allocated": 7, "total": 94, "percent": 7}


@pytest.mark.parametrize("args", [["--nonsense"], ["-o", "yaml"], ["-o"], ["a", "b"], [""], ["x" * 254], ["--context"]])
def test_bad_arguments_end_with_2_and_the_way_to_help(cluster, args):
    done = cluster.run(*args)
    assert done.returncode == 2 and done.stdout == b""
    assert done.stderr.endswith(b"\nTry 'kubectl inspect cgpu --help' for more information.\n")


def test_help_and_version_need_no_cluster(cluster):
    for option in ("-h", "--help"):
        done = cluster.run(option, KUBECTL="/nonexistent")
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.startswith(b"Usage: kubectl inspect cgpu")
    assert cluster.show("--version").startswith("kubectl-inspect-cgpu 0.")


@pytest.mark.parametrize("options", [[], ["-w"]])
def test_full_output_device_is_an_error(cluster, options):
    cluster.set([node("n", "10.0.0.1", 16160)])
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, *options], env=cluster.environment(), stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1 and b"cannot be written" in done.stderr


def read_until(fd, text, deadline=20):
    got = b""
    end = time.monotonic() + deadline
    while text not in got and time.monotonic() < end:
        got += os.read(fd, 65536)
    assert text in got
    return got


def test_watch_prints_again_when_something_changed(cluster):
    cluster.set([node("n", "10.0.0.1", 16160)])
    process = subprocess.Popen([PROGRAM, "-w"], env=cluster.environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    try:
        read_until(process.stdout.fileno(), b"0/15 (0%)\n")
        while len(cluster.calls()) < 4:  # a second round that finds nothing new
            time.sleep(0.1)
        cluster.set([node("n", "10.0.0.1", 16160)], [pod("p", "n", 3, "GPU-n-0")])
        assert read_until(process.stdout.fileno(), b"3/15 (20%)\n").count(b"NAME") == 1
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)
    assert process.returncode == -signal.SIGINT


def test_watch_outlives_an_api_server_that_is_away(cluster):
    cluster.set([node("n", "10.0.0.1", 16160)])
    process = subprocess.Popen([PROGRAM, "-w"], env=cluster.environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    try:
        read_until(process.stdout.fileno(), b"0/15 (0%)\n")
        cluster.set(fail="The connection to the server was refused")
        read_until(process.stderr.fileno(), b"was refused")
        cluster.set([node("n", "10.0.0.1", 16160)], [pod("p", "n", 3, "GPU-n-0")])
        read_until(process.stdout.fileno(), b"3/15 (20%)\n")
    finally:
        process.kill()
        process.wait(10)


def test_watch_clears_the_screen_of_a_terminal(cluster):
    cluster.set([node("n", "10.0.0.1", 16160)])
    master, slave = pty.openpty()
    process = subprocess.Popen([PROGRAM, "--watch"], env=cluster.environment(), stdout=slave)
    try:
        assert read_until(master, b"0/15 (0%)").startswith(b"\x1b[H\x1b[2J")
    finally:
        process.kill()
        process.wait(10)
        os.close(master)
        os.close(slave)


@pytest.mark.plain    # sanitizers need the shared libc
def test_plugin_is_one_static_file():
    assert "not a dynamic executable" in subprocess.run(["ldd", PROGRAM], capture_output=True, text=True).stderr
