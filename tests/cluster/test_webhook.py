"""GPU pods that name no scheduler, where a webhook of ration-scheduler names it for them."""
import base64
import contextlib
import json
import time

import pytest

import helmcharts
from cluster import EXAMPLES, lab_command
from gpupods import container, pod
from releases import for_both, install

NODE = "cn-beijing.192.168.8.44"
LAYOUT = [f"{NODE}=1x16384MiB,share"]
# The lab's own release with the webhook in the place of the policies, and one that serves none of them.
RELEASES = ["", pytest.param("1.30.14", marks=pytest.mark.full)]
BUILD_S = 3600
# A webhook that hangs would cost its timeoutSeconds of 5.
USUAL_S = 3

pytestmark = pytest.mark.long(30)


@pytest.fixture(params=RELEASES, ids=lambda release: release or "default")
def cluster(lab, request):
    if request.param:
        lab_command("build", "--kubernetes", request.param, timeout=BUILD_S)
        yield lab(LAYOUT, options=("--kubernetes", request.param))
        return
    cluster = lab(LAYOUT)
    for_both(lambda chart: install(cluster, chart, "webhook.enabled=true"))
    try:
        cluster.rolled_out()
        wait_trusted(cluster)
        yield cluster
    finally:
        for_both(lambda chart: install(cluster, chart))
        cluster.rolled_out()


def bundles(cluster):
    """{name: the certificates that the API server trusts, in base64}"""
    items = cluster.json("get", "mutatingwebhookconfigurations")["items"]
    return {i["metadata"]["name"]: i["webhooks"][0]["clientConfig"].get("caBundle", "") for i in items}


def secret(cluster):
    return cluster.json("-n", "kube-system", "get", "secret", "ration-webhook").get("data", {})


def configurations(cluster):
    """{name: whether it trusts a certificate}"""
    return {name: bool(bundle) for name, bundle in bundles(cluster).items()}


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
        cluster.rolled_out()


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


def test_the_certificate_is_renewed_while_pods_are_created(cluster, certificate):
    wait_trusted(cluster)
    with no_replica(cluster):
        old = certificate(10)    # days; one that ends within 120 gets a successor
        gone = dict.fromkeys(("next.crt", "next.key", "previous.crt"))
        cluster.kubectl("-n", "kube-system", "patch", "secret", "ration-webhook", "--type=merge", "-p", json.dumps({"data": old | gone}))

    def trusts(certificate_):
        return all(base64.b64decode(certificate_) in base64.b64decode(bundle) for bundle in bundles(cluster).values())
    cluster.wait_for(lambda: trusts(old["tls.crt"]), 60, "the API server trusts the certificate that ends soon")
    time.sleep(5)    # it has read the configuration
    names, shown, until = [], set(), time.monotonic() + 180
    while time.monotonic() < until:
        names.append(f"p{len(names)}")
        assert created(cluster, names[-1], containers=[container("main", 1)]) < USUAL_S
        now = secret(cluster)
        if now["tls.crt"] != old["tls.crt"] and not shown - {old["tls.crt"]}:
            until = time.monotonic() + 20    # the other replica looks every 10 s
        shown.add(now["tls.crt"])
    assert len(shown) == 2 and trusts(now["tls.crt"]), "the certificate was not renewed"
    schedulers = {p["metadata"]["name"]: p["spec"]["schedulerName"] for p in cluster.json("get", "pods")["items"]}
    assert len(names) > 20 and {schedulers[name] for name in names} == {helmcharts.SCHEDULER}, schedulers
