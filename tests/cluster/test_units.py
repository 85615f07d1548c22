"""Another memory unit (seeds/0), on share and on cgpu nodes: by the two scenarios of the document, and by helm upgrade with pods
that count in the old one."""
import pytest

from cluster import ROOT, wait_for
from gpupods import GPU_MEM, annotation, check_what_it_sees, container, fingerprint, pod
from releases import AGENT, SCHEDULER

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


def deploy(cluster, chart, *settings):
    """As the README installs a chart, with the values of the lab instead of those of a registry."""
    cluster.run("helm", "upgrade", "--install", "-n", "kube-system", chart, ROOT / "deploy/charts" / chart,
                "--values", ROOT / "lab/values" / f"{chart}.yaml", *settings)


def uninstall(cluster, chart):
    cluster.run("helm", "uninstall", "-n", "kube-system", chart, "--wait")


def check_example_of_the_document(cluster):
    """The StatefulSet unchanged: 16 units of 128 MiB are 2 GiB."""
    cluster.rolled_out()
    for name in (SHARE, CGPU):
        wait_for(lambda: counts_in(cluster, name, "128", UNITS_128), 60, f"{name} counts in 128 MiB")
    cluster.apply(ROOT / "examples/statefulset-128mib.yaml")
    p = cluster.wait_running("app=binpack-1")[0]
    assert p["spec"]["schedulerName"] == SCHEDULER and annotation(p, "ration.dev/unit") == "128"
    env = dict(line.split("=", 1) for line in cluster.exec_in(p, "env").splitlines() if "=" in line)
    assert (env["ALIYUN_COM_GPU_MEM_CONTAINER"], env["ALIYUN_COM_GPU_MEM_DEV"]) == ("16", UNITS_128)
    limit = 16160 * 16 // 126 if p["spec"]["nodeName"] == CGPU else 16160
    assert f"/ {limit}MiB" in cluster.exec_in(p, "nvidia-smi").replace("  ", " ")
    table = cluster.inspect()
    assert "GPU Memory(128MiB)" in table and "16/126" in table and "16/252 (6%)" in table


@pytest.fixture
def cluster(lab):
    made = lab(NODES)
    yield made
    helm(made, "1GiB")


@pytest.mark.long(20)
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


@pytest.mark.long(35)
def test_scenario_1_the_first_installation_has_another_unit(lab):
    """Of the one component that the document names, which brings the scheduler."""
    cluster = lab(NODES, fresh=True)
    for chart in (SCHEDULER, AGENT):
        uninstall(cluster, chart)
    deploy(cluster, AGENT, "--set", "gpuMemoryUnit=128MiB")
    check_example_of_the_document(cluster)


@pytest.mark.long(35)
def test_scenario_2_uninstallation_and_installation_with_another_unit(cluster):
    for name in (SHARE, CGPU):
        wait_for(lambda: counts_in(cluster, name, "1024", "15"), 60, f"{name} counts in GiB")
    cluster.create(pod("old", 3))
    cluster.wait_running(names=["old"])
    cluster.kubectl("delete", "pod", "old")    # "Delete existing GPU pods first"
    uninstall(cluster, AGENT)
    for name in (SHARE, CGPU):
        wait_for(lambda: cluster.node(name)["status"]["allocatable"].get(GPU_MEM, "0") == "0", 60, f"{name} offers nothing")
        assert annotation(cluster.node(name), "ration.dev/unit") is None
    deploy(cluster, AGENT, "--set", "gpuMemoryUnit=128MiB")
    check_example_of_the_document(cluster)
