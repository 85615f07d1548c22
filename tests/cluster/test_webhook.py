"""GPU pods that name no scheduler, where a webhook of ration-scheduler names it for them."""
import contextlib
import time

import pytest

import helmcharts
from cluster import EXAMPLES, lab_command
from gpupods import container, pod
from releases import for_both, install, rolled_out

NODE = "cn-beijing.192.168.8.44"
LAYOUT = [f"{NODE}=1x16384MiB,share"]
# The lab's own release with the webhook in the place of the policies, and one that serves none of them.
RELEASES = ["", pytest.param("1.30.14", marks=pytest.mark.full)]
BUILD_S = 3600
# A webhook that hangs would cost its timeoutSeconds of 5.
USUAL_S = 3

pytestmark = pytest.mark.long(60)


@pytest.fixture(params=RELEASES, ids=lambda release: release or "default")
def cluster(lab, request):
    if request.param:
        lab_command("build", "--kubernetes", request.param, timeout=BUILD_S)
        yield lab(LAYOUT, options=("--kubernetes", request.param))
        return
    cluster = lab(LAYOUT)
    for_both(lambda chart: install(cluster, chart, "webhook.enabled=true"))
    try:
        rolled_out(cluster)
        wait_trusted(cluster)
        yield cluster
    finally:
        for_both(lambda chart: install(cluster, chart))
        rolled_out(cluster)


def configurations(cluster):
    """{name: whether it trusts a certificate}"""
    items = cluster.json("get", "mutatingwebhookconfigurations")["items"]
    return {i["metadata"]["name"]: bool(i["webhooks"][0]["clientConfig"].get("caBundle")) for i in items}


def wait_trusted(cluster):
    cluster.wait_for(lambda: configurations(cluster) == {"ration-scheduler-name": True, "ration-unit-stamp": True}, 60,
                     "the webhooks trust the certificate")


@contextlib.contextmanager
def no_replica(cluster):
    cluster.kubectl("-n", "kube-system", "scale", "deployment", "ack-co-scheduler", "--replicas=0")
    cluster.wait_for(lambda: not cluster.pods("app=ack-co-scheduler", "kube-system"), 60, "no replica is left")
    try:
        yield
    finally:
        cluster.kubectl("-n", "kube-system", "scale", "deployment", "ack-co-scheduler", "--replicas=2")
        rolled_out(cluster)


def created(cluster, name, **more):
    """Seconds that it took the API server."""
    began = time.monotonic()
    cluster.create(pod(name, **more))
    return time.monotonic() - began


def test_the_documents_job_has_our_scheduler_and_the_unit(cluster):
    wait_trusted(cluster)
    # Nothing but the webhook names the scheduler. (1.30 does not serve the policies.)
    assert "ration-" not in cluster.run("kubectl", "get", "-o", "name", "mutatingadmissionpolicies", check=False).stdout
    cluster.apply(EXAMPLES / "job-share.yaml")
    found = cluster.wait_running("app=tensorflow-mnist-share")[0]
    assert found["spec"]["schedulerName"] == helmcharts.SCHEDULER
    assert found["metadata"]["annotations"]["ration.dev/unit"] == "1024"
    created(cluster, "mine", containers=[container("main", 1)], schedulerName="another-one")
    created(cluster, "plain", containers=[{"name": "main", "image": "none"}])
    assert cluster.pod("mine")["spec"]["schedulerName"] == "another-one"
    assert cluster.pod("plain")["spec"]["schedulerName"] == "default-scheduler"
    assert "ration.dev/unit" not in cluster.pod("plain")["metadata"].get("annotations", {})


def test_without_a_replica_pods_are_created_and_gpu_pods_say_what_is_wrong(cluster):
    wait_trusted(cluster)
    with no_replica(cluster):
        assert created(cluster, "plain", containers=[{"name": "main", "image": "none"}]) < USUAL_S
        created(cluster, "gpu", containers=[container("main", 1)])
        assert cluster.pod("gpu")["spec"]["schedulerName"] == "default-scheduler"
        cluster.wait_for(lambda: any("without a GPU being chosen for it: set schedulerName: ack-co-scheduler" in e["message"]
                                     for e in cluster.events("gpu")), 30, "an Event explains it")
        findings = cluster.run("ration", "doctor", check=False).stdout
        assert f"unplaced: pod {cluster.namespace}/gpu: " in findings and 'schedulerName is "default-scheduler"' in findings, findings
    wait_trusted(cluster)
    created(cluster, "after", containers=[container("main", 1)])
    assert cluster.wait_running(names={"after"})[0]["spec"]["schedulerName"] == helmcharts.SCHEDULER
