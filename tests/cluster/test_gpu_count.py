"""Pods on several cards of one node: label aliyun.com/gpu-count."""
import pathlib

import pytest

import gpupods
from gpupods import annotation, cards_of, check_what_it_sees, container, inventory, pod
from sharingnodes import BINPACK, NODES, SPREAD, run_one_by_one

pytestmark = pytest.mark.long(12)

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def wide(name, cards, *units, **more):
    return pod(name, *units, labels={"aliyun.com/gpu-count": str(cards)}, **more)


def indices(cluster, obj):
    cards = inventory(cluster.nodes()[obj["spec"]["nodeName"]])
    return sorted(cards[uuid]["index"] for uuid in cards_of(obj))


def row_of(cluster, node):
    return [line for line in cluster.kubectl("inspect", "cgpu").splitlines() if line.startswith(node)][0].split()


def test_the_example_has_two_cards_in_its_environment_its_devices_and_the_table(lab):
    cluster = lab(NODES)
    cluster.apply(EXAMPLES / "pod-two-cards.yaml")
    p = cluster.wait_running()[0]
    assert indices(cluster, p) == [0, 1]
    env = dict(line.split("=", 1) for line in cluster.exec_in(p, "env").splitlines() if "=" in line)
    assert env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "4" and env["ALIYUN_COM_GPU_MEM_POD"] == "8"
    assert env["ALIYUN_COM_GPU_MEM_DEV"] == "15" and env["ALIYUN_COM_GPU_MEM_IDX"] == "0,1"
    assert set(env["ALIYUN_COM_GPU_VISIBLE_DEVICES"].split(",")) == set(cards_of(p))
    devices = [line for line in cluster.exec_in(p, "ls", "/dev").split() if line.startswith("nvidia")]
    assert {"nvidia0", "nvidia1"} <= set(devices) and not {"nvidia2", "nvidia3"} & set(devices)
    assert annotation(p, "scheduler.framework.gpushare.allocation") == '{"0":{"0":4,"1":4}}'
    assert row_of(cluster, p["spec"]["nodeName"])[2:] == ["4/15", "4/15", "0/15", "0/15", "8/60"]
    details = cluster.kubectl("inspect", "cgpu", "-d", p["spec"]["nodeName"]).splitlines()
    assert [line.split()[2:] for line in details if line.startswith("two-cards ")] == [["4", "4", "0", "0"]]


def test_binpack_takes_the_fullest_cards_and_spread_the_emptiest(lab):
    cluster = lab(NODES)
    run_one_by_one(cluster, [pod("a", 9, nodeSelector=BINPACK), pod("b", 7, nodeSelector=BINPACK),
                             pod("c", 9, nodeSelector=SPREAD), wide("packed", 2, 12, nodeSelector=BINPACK),
                             wide("spread", 3, 6, nodeSelector=SPREAD)])
    pods = {p["metadata"]["name"]: p for p in cluster.wait_running(count=5)}
    # Free on the binpack node were 6, 8, 15 and 15, on the other 6, 15, 15 and 15.
    assert indices(cluster, pods["packed"]) == [0, 1] and indices(cluster, pods["spread"]) == [1, 2, 3]
    for name in ("packed", "spread"):
        check_what_it_sees(cluster, pods[name], cluster.nodes())


def test_init_containers_are_on_the_same_cards_and_count_by_the_larger_step(lab):
    cluster = lab(NODES)
    # The kubelet gives any 4 of the init container's 10 ids to the others: ids say nothing about cards.
    cluster.create(wide("init", 2, init=[container("i1", 10, command="env | grep ALIYUN; nvidia-smi -L")],
                        containers=[container("c0", 4), container("c1", 2)], nodeSelector=BINPACK))
    p = cluster.wait_running()[0]
    assert gpupods.units_of(p) == 10
    check_what_it_sees(cluster, p, cluster.nodes())
    log = cluster.log_of(p, "i1")
    assert "ALIYUN_COM_GPU_MEM_CONTAINER=5" in log and all(uuid in log for uuid in cards_of(p))
    assert row_of(cluster, p["spec"]["nodeName"])[2:] == ["5/15", "5/15", "0/15", "0/15", "10/60"]


def test_a_pod_waits_while_only_one_card_has_room_and_starts_within_two_seconds_of_a_release(lab):
    cluster = lab(NODES)
    run_one_by_one(cluster, [pod(f"full{i}", 13, nodeSelector=BINPACK) for i in range(3)])
    cluster.create(wide("waits", 2, 6, nodeSelector=BINPACK))
    said = cluster.wait_for(lambda: cluster.condition(cluster.pod("waits"), "PodScheduled"), 30, "a verdict")
    assert "no 2 GPUs have 3 units free" in said["message"], said
    assert cluster.pod("waits")["spec"].get("nodeName") is None
    cluster.kubectl("delete", "pod", "full1", "--wait=true")
    cluster.wait_for(lambda: cluster.pod("waits")["spec"].get("nodeName"), 5, "a node after the release")
    p = [p for p in cluster.wait_running(names=["waits"]) if p["metadata"]["name"] == "waits"][0]
    assert indices(cluster, p) == [1, 3]
    check_what_it_sees(cluster, p, cluster.nodes())


def test_a_pod_that_does_not_divide_is_told_why(lab):
    """Where the policy did not see it: test_policies.py."""
    said = lab(NODES).create_fails(wide("odd", 2, 7))
    assert "aliyun.com/gpu-mem is 7: must be a multiple of 2, the value of label aliyun.com/gpu-count" in said
