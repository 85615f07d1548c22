"""kubectl drain of a node whose GPU pods a PodDisruptionBudget protects: the drain waits for a replacement on the other node,
the replacement waits for a GPU, and no GPU is ever above its total."""
import subprocess

import pytest

from gpupods import card_of, check_what_it_sees, container, fingerprint, used_per_card
from orphans import CARD_UNITS, DEAF, NODES, Totals, create

pytestmark = pytest.mark.long(125)

UNITS, FILLER_UNITS = 6, 10    # the filler and one replica do not fit on one GPU, two replicas do
REFUSED = "would violate the pod's disruption budget"    # kubectl 1.36.3 prints it for status 429 of an eviction, and retries


def create_protected_replicas(cluster):
    labels = {"app": "served"}
    cluster.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "served"},
                   "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}})
    cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "served"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [container("main", UNITS)]}}}})
    pods = cluster.wait_running("app=served", count=2)
    cluster.wait_for(lambda: cluster.json("get", "pdb", "served")["status"].get("disruptionsAllowed") == 1, 30,
                     "the disruption controller has counted the replicas")
    return pods


def start_drain(cluster, node, *argv):
    return subprocess.Popen(["kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=150s", *argv],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=cluster.environment)


def waiting_replica(cluster):
    return next((p for p in cluster.pods("app=served") if cluster.condition(p, "PodScheduled").get("reason") == "Unschedulable"),
                None)


@pytest.fixture(name="nodes")
def nodes_fixture(lab, request):
    """(cluster, the node that is drained, the other). A drain of everything leaves both schedulers on one node."""
    cluster = lab(NODES, fresh=request.param == "everything")
    drained, other = sorted(cluster.nodes())
    cluster.kubectl("cordon", other)
    yield cluster, drained, other
    cluster.kubectl("uncordon", drained, other)


@pytest.mark.parametrize("nodes", ["gpu-pods", pytest.param("everything", marks=pytest.mark.full)], indirect=True)
def test_a_drain_waits_for_its_budget_and_the_pods_run_on_the_other_node(nodes, request):
    cluster, drained, other = nodes
    replicas = {p["metadata"]["uid"]: fingerprint(p) for p in create_protected_replicas(cluster)}
    cluster.kubectl("uncordon", other)
    create(cluster, other, "filler", FILLER_UNITS, DEAF, grace=3)
    gpu = card_of(cluster.wait_running(names=["filler"])[0])

    whole = "everything" in request.node.name
    drain = start_drain(cluster, drained, *([] if whole else ["--pod-selector=app=served"]))
    try:
        assert any(REFUSED in line for line in drain.stdout), "the drain ended and no eviction was refused"
        waits = cluster.wait_for(lambda: waiting_replica(cluster), 60, "the replacement finds no room")
        # The node has one GPU, so that kube-scheduler's own sum refuses it.
        assert "Insufficient aliyun.com/gpu-mem" in cluster.condition(waits, "PodScheduled")["message"]
        stays = [p for p in cluster.pods("app=served") if p["metadata"]["uid"] in replicas and "deletionTimestamp" not in p["metadata"]]
        assert [fingerprint(p) for p in stays] == [replicas[p["metadata"]["uid"]] for p in stays] and len(stays) == 1
        def refers_to_kubernetes():
            """The drained node has room again when the evicted pod has ended, but takes no pods: the reason is Kubernetes'."""
            why = cluster.run("ration", "why", waits["metadata"]["name"]).stdout
            assert f"{CARD_UNITS - FILLER_UNITS} of {CARD_UNITS} units free" in why and f"{cluster.namespace}/filler 10" in why, why
            assert "other rules keep the pod from the nodes below (see `kubectl describe pod`)" in " ".join(why.split()), why
            return True
        cluster.wait_for(refers_to_kubernetes, 60, "the command refers to Kubernetes' own reason")

        with Totals(cluster, other) as totals:
            cluster.kubectl("delete", "pod", "filler", "--wait=false")
            said, _ = drain.communicate(timeout=180)
            pods = cluster.wait_running("app=served", count=2)
    finally:
        drain.kill()
        drain.wait()
    assert drain.returncode == 0, said
    assert {p["spec"]["nodeName"] for p in pods} == {other} and not {p["metadata"]["uid"] for p in pods} & set(replicas)
    assert used_per_card(pods) == {gpu: 2 * UNITS}
    for p in pods:
        check_what_it_sees(cluster, p, cluster.nodes())
    totals.check(gpu, FILLER_UNITS)
    assert f"is bound to node {other}" in cluster.run("ration", "why", pods[0]["metadata"]["name"]).stdout
