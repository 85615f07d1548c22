"""helm upgrade to an agent with another shim and another layout of the grants, and rollback, under thirty running pods:
none is restarted, all limits hold, new pods get the new version."""
import pytest

import testimages
from cgpupods import LAYOUT, NODE, OUT_OF_MEMORY, check_isolation, filler, grant_of, limit_mib, processes, said
from cluster import PRODUCT, ROOT
from gpupods import card_of, fingerprint, inventory, pod
from testimages import SHIMS

NEXT = "next"    # tag of the other image


@pytest.fixture
def cluster(lab, tmp_path):
    made = lab(LAYOUT)
    testimages.give(made, tmp_path, only={"debian"})
    return made


def version_of(cluster, obj):
    """Of the grant that the container has."""
    return grant_of(processes(cluster, obj)["main"]).version


def shim_of(cluster, obj):
    """What the container has in the driver's place."""
    return (processes(cluster, obj)["main"] / "root/usr/lib/x86_64-linux-gnu/libcuda.so.1").read_bytes()


@pytest.mark.long(90)
def test_an_upgrade_and_a_rollback_under_thirty_pods(cluster):
    cluster.create({"apiVersion": "v1", "kind": "List", "items": [
        pod(f"p{i:02}", containers=[filler("main", 1)]) for i in range(30)]})
    testimages.give_next(cluster, NEXT)
    old = {p["metadata"]["name"]: p for p in cluster.wait_running(count=30, timeout=90)}

    def check(new):
        pods = {p["metadata"]["name"]: p for p in cluster.wait_running(count=30 + len(new))}
        assert {name: fingerprint(pods[name]) for name in old} == {name: fingerprint(p) for name, p in old.items()}
        assert sum(check_isolation(cluster, p) for p in pods.values()) == 30 + len(new)
        cards = inventory(cluster.node(NODE))
        for name in ("p00", "p29", *new):    # a program that starts now in a container of before, and of now
            total, held, error = said(cluster.exec_in(
                name, "env", "LOAD_DRIVER_FILL=once", "load", "dlopen", "libcuda.so.1"))
            assert total == limit_mib(cards[card_of(pods[name])], 1) and held < total and error == OUT_OF_MEMORY, name
        return pods
    chart = ROOT / "deploy/charts/ack-ai-installer"
    first = shim_of(cluster, old["p00"])
    cluster.run("helm", "upgrade", "ack-ai-installer", chart, "-n", "kube-system", "--reuse-values", "--set",
                f"image.tag={NEXT}")
    try:
        cluster.rolled_out("ds/gpushare-device-plugin-ds")
        cluster.create(pod("after", containers=[filler("main", 1)]))
        pods = check(["after"])
        assert shim_of(cluster, pods["after"]) == (PRODUCT / "tests/component/next" / SHIMS[0]).read_bytes() != first
        assert shim_of(cluster, pods["p29"]) == first
        assert version_of(cluster, pods["after"]) == 1 + version_of(cluster, pods["p29"])
    finally:
        cluster.run("helm", "rollback", "ack-ai-installer", "-n", "kube-system")
        cluster.rolled_out("ds/gpushare-device-plugin-ds")
    cluster.create(pod("again", containers=[filler("main", 1)]))
    pods = check(["after", "again"])
    assert shim_of(cluster, pods["again"]) == first != shim_of(cluster, pods["after"])
    assert version_of(cluster, pods["again"]) == version_of(cluster, pods["p29"]) < version_of(cluster, pods["after"])
