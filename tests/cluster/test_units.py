"""Another memory unit by helm upgrade (seeds/0), on share and on cgpu nodes, with pods that count in the old one."""
import pytest

from cluster import ROOT, wait_for
from gpupods import GPU_MEM, annotation, check_what_it_sees, container, fingerprint, pod

SHARE, CGPU = "units-a.192.168.27.1", "units-b.192.168.27.2"
NODES = [f"{SHARE}=1x16160MiB,share", f"{CGPU}=1x16160MiB,cgpu"]
UNITS_128 = "126"       # 16160 / 128 = 126.25
MOST = 16               # containers on a card of a node that isolates, with a unit under 1 GiB (seeds/0)


def helm(cluster, unit):
    cluster.run("helm", "upgrade", "ack-ai-installer", ROOT / "deploy/charts/ack-ai-installer", "-n", "kube-system",
                "--reuse-values", "--set", f"gpuMemoryUnit={unit}")


def counts_in(cluster, name, unit, units, pending=None):
    node = cluster.node(name)
    return (annotation(node, "ration.dev/unit") == unit and annotation(node, "ration.dev/unit-pending") == pending
            and node["status"]["allocatable"][GPU_MEM] == units)


def agents(cluster):
    return {p["metadata"]["uid"]: fingerprint(p) for p in cluster.pods("name=gpushare-device-plugin-ds", "kube-system")}


def reason(cluster, name):
    return (cluster.condition(cluster.pod(name), "PodScheduled") or {}).get("message", "")


@pytest.fixture
def cluster(lab):
    made = lab(NODES)
    yield made
    helm(made, "1GiB")


@pytest.mark.long(80)
def test_unit_changes_node_by_node_as_pods_that_count_in_the_old_one_end(cluster):
    old = pod("old", 3, nodeSelector={"kubernetes.io/hostname": SHARE})
    cluster.create(old)
    before, working = fingerprint(cluster.wait_running(names=["old"])[0]), agents(cluster)
    helm(cluster, "128MiB")
    wait_for(lambda: counts_in(cluster, CGPU, "128", UNITS_128), 20, "the empty node counts in 128 MiB")
    assert counts_in(cluster, SHARE, "1024", "15", "128")
    assert "GPUModePending" in str(cluster.node_events(SHARE))

    cluster.apply(ROOT / "examples/statefulset-128mib.yaml")      # unchanged: 16 units of 128 MiB
    p = cluster.wait_running("app=binpack-1")[0]
    assert p["spec"]["nodeName"] == CGPU and annotation(p, "ration.dev/unit") == "128"
    env = dict(line.split("=", 1) for line in cluster.exec_in(p, "env").splitlines() if "=" in line)
    assert (env["ALIYUN_COM_GPU_MEM_CONTAINER"], env["ALIYUN_COM_GPU_MEM_DEV"]) == ("16", UNITS_128)
    assert f"/ {16160 * 16 // 126}MiB" in cluster.exec_in(p, "nvidia-smi").replace("  ", " ")
    table = cluster.inspect()
    assert "GPU Memory(units)" in table and "16/126" in table and "3/15" in table

    crowd = pod("crowd", containers=[container(f"c{i}", 1, "sleep 100000") for i in range(MOST - 1)])
    cluster.create(crowd)
    cluster.wait_running(names=["crowd"])
    cluster.create(pod("late", 8))
    why = "GPU memory unit differs" if annotation(cluster.pod("late"), "ration.dev/unit") else "GPU node changes its mode"
    wait_for(lambda: "GPU has its maximum of containers" in reason(cluster, "late") and why in reason(cluster, "late"), 20,
             "why the late one waits")
    assert fingerprint(cluster.pod("old")) == before and agents(cluster) == working

    cluster.kubectl("delete", "pod", "old")
    late = cluster.wait_running(names=["late"], timeout=30)[0]
    assert late["spec"]["nodeName"] == SHARE
    wait_for(lambda: counts_in(cluster, SHARE, "128", UNITS_128), 20, "the other node counts in 128 MiB")
    check_what_it_sees(cluster, late, cluster.nodes())
    assert "GPU Memory(128MiB)" in cluster.inspect() and agents(cluster) == working
