"""Many isolated pods on a card: each gets all of its limit, none more, and nobody's trouble is his neighbour's."""
import re

import pytest

import testimages
from cgpupods import (CONTEXT_MIB, LARGE, LAYOUT, NODE, OUT_OF_MEMORY, check_isolation, filler, limit_mib, processes,
                      said)
from gpupods import IMAGE, card_of, cards_of, container, fingerprint, inventory, pod

pytestmark = pytest.mark.long(20)


@pytest.fixture
def cluster(lab, tmp_path):
    made = lab(LAYOUT)
    testimages.give(made, tmp_path, only={"debian"})
    return made


def used_mib(cluster, index):
    """What the driver says is in use on a card of the node, asked from outside every container."""
    driver = cluster.folder / "nodes" / NODE / "driver"
    row = cluster.run("env", f"LD_LIBRARY_PATH={driver}/lib", f"{driver}/bin/nvidia-smi", f"--id={index}",
                      "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits").stdout
    return tuple(map(int, row.split(",")))


def word_of(cluster, obj, name):
    return cluster.wait_for(lambda: re.match(r"\d+\nheld \d+, then \d+\n", log := cluster.log_of(obj, name)) and said(log),
                            30, f"the last word of {name}")


def test_fifteen_pods_of_one_unit_fill_a_card_all_at_once(cluster):
    cluster.create(pod("large", containers=[filler("main", LARGE)]))
    cluster.wait_running(names=["large"])
    cluster.create({"apiVersion": "v1", "kind": "List", "items": [
        pod(f"p{i:02}", containers=[filler("main", 1)]) for i in range(15)]})
    pods = [p for p in cluster.wait_running(count=16) if p["metadata"]["name"] != "large"]
    card = inventory(cluster.node(NODE))[card_of(pods[0])]
    assert {card_of(p) for p in pods} == {card["uuid"]}
    assert limit_mib(card, 1) == 1077    # 16160 / 15, rounded down
    # All hold what they could get: their limit without what the context takes, in pieces of 2 MiB. Where the agent looked
    # while an allocation was on its way, that much of the context is found a look later.
    least = (1077 - CONTEXT_MIB) // 2 * 2
    words = [word_of(cluster, p, "main") for p in pods]
    assert {(total, error) for total, _, error in words} == {(1077, OUT_OF_MEMORY)}, words
    assert all(least <= held <= least + 16 for _, held, _ in words), str(words)
    used, total = used_mib(cluster, card["index"])
    assert 15 * (least + CONTEXT_MIB) <= used <= total == 16160
    for p in pods:
        assert check_isolation(cluster, p) == 1
    usage = [(processes(cluster, p)["main"] / "root/run/ration/usage").stat() for p in pods]
    assert len({(file.st_dev, file.st_ino) for file in usage}) == 15
    # What a container has of the node's grants is its own, and the others' processes are not in its sight.
    root = processes(cluster, pods[0])["main"] / "root"
    assert {p.name for p in (root / "run/ration").iterdir()} == {"grant", "usage", "driver", "shim"}
    assert cluster.exec_in(pods[0], "sh", "-c", "ls -d /proc/[0-9]*").splitlines()[0] == "/proc/1"
    assert len(cluster.exec_in(pods[0], "bash", "-c", "for p in /proc/[0-9]*; do echo $p; done").splitlines()) <= 3


def test_a_neighbours_refusal_crash_and_kill_disturb_nobody(cluster):
    cluster.create(pod("quiet", containers=[filler("main", 3)]))
    quiet = cluster.wait_running(names=["quiet"])[0]
    said_first = word_of(cluster, quiet, "main")
    crash = "load dlopen libcuda.so.1 & sleep 2; kill -SEGV $!; kill -SEGV $$"
    loud = [container(f"c{i}", 2, command, image="ration-test/debian:1", env=[{"name": "LOAD_DRIVER_FILL", "value": how}])
            for i, (command, how) in enumerate([
                ("load dlopen libcuda.so.1; load dlopen libcuda.so.1", "once"), (crash, "stay"),
                ("load dlopen libcuda.so.1 & sleep 2; kill -9 $!; wait; load dlopen libcuda.so.1", "stay")])]
    cluster.create(pod("loud", containers=loud))
    obj = cluster.wait_for(lambda: (p := cluster.pod("loud")) and p["status"].get("containerStatuses") and p, 30, "loud")
    assert card_of(obj) == card_of(quiet)
    # Twice refused, and what a killed process held is there again for the next of its container.
    words = {name: cluster.wait_for(lambda: len(w := re.findall(r"^held (\d+), then (\d+)$", cluster.log_of("loud", name),
                                                                re.M)) == 2 and w, 30, f"both words of {name}")
             for name in ("c0", "c2")}
    limit = limit_mib(inventory(cluster.node(NODE))[card_of(obj)], 2)
    for name, (first, second) in words.items():
        assert first[1] == second[1] == str(OUT_OF_MEMORY), words
        assert limit - CONTEXT_MIB - 2 < int(second[0]) <= limit and int(first[0]) <= limit, words
    assert fingerprint(cluster.pod("quiet")) == fingerprint(quiet)
    cluster.create(pod("after", containers=[filler("main", 3)]))
    after = cluster.wait_running(names=["after"])[0]
    assert card_of(after) == card_of(quiet) and word_of(cluster, after, "main") == said_first
    assert fingerprint(cluster.pod("quiet")) == fingerprint(quiet)


def test_each_container_of_a_pod_has_its_own_limit_and_init_containers_too(cluster):
    cluster.create(pod("several", containers=[filler("a", 1), filler("b", 3), container("plain")],
                       init=[filler("first", 5, stay=False), filler("side", 2, restartPolicy="Always")]))
    obj = cluster.wait_running(names=["several"])[0]
    card = inventory(cluster.node(NODE))[card_of(obj)]
    for name, units in {"first": 5, "side": 2, "a": 1, "b": 3}.items():
        total, held, error = word_of(cluster, obj, name)
        assert total == limit_mib(card, units) and held > total // 2 and error == OUT_OF_MEMORY, name
    assert check_isolation(cluster, obj) == 3


def test_a_pod_on_two_cards_has_its_limit_on_each(cluster):
    code = """
import ctypes
cuda, n, total = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(n)) == 0
for d in range(n.value):
    c, p = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuDeviceTotalMem_v2(ctypes.byref(total), d) == 0 == cuda.cuCtxCreate_v2(ctypes.byref(c), 0, d)
    fits = total.value // 2
    print(total.value >> 20, cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(fits)),
          cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(fits + (1 << 20))), flush=True)
import time
time.sleep(100000)
"""
    cluster.create(pod("pair", containers=[{**container("main", 6), "image": IMAGE, "command": ["python", "-c", code]}],
                       labels={"aliyun.com/gpu-count": "2"}))
    obj = cluster.wait_running(names=["pair"])[0]
    cards = [inventory(cluster.node(NODE))[uuid] for uuid in cards_of(obj)]
    log = cluster.wait_for(lambda: len(t := cluster.log_of(obj).splitlines()) == 2 and t, 20, "a line for each card")
    assert [tuple(map(int, line.split())) for line in log] == [(limit_mib(c, 3), 0, OUT_OF_MEMORY) for c in cards]
    assert check_isolation(cluster, obj) == 1


def test_the_twenty_first_container_of_a_card_waits_until_one_ends(cluster):
    """Container instances are counted, not pods; the card has 24 units, so that memory is not what is missing."""
    for i in range(2):    # the small cards are full
        cluster.create(pod(f"full{i}", 15))
    cluster.wait_running(names=["full0", "full1"])
    for i in range(4):
        cluster.create(pod(f"five{i}", 1, 1, 1, 1, 1))
    pods = cluster.wait_running(names=[f"five{i}" for i in range(4)])
    assert len({card_of(p) for p in pods}) == 1
    cluster.create(pod("more", 1))
    verdict = cluster.wait_for(lambda: cluster.condition(cluster.pod("more"), "PodScheduled").get("message"), 20, "a verdict")
    assert "GPU has its maximum of containers" in verdict
    cluster.kubectl("delete", "pod", "five0", "--wait=true")
    more = cluster.wait_running(names=["more"])[0]
    assert card_of(more) == card_of(pods[0]) and check_isolation(cluster, more) == 1
