"""The charts' monitoring on a lab: a real Prometheus scrapes what the ServiceMonitors say, and evaluates each
expression of the dashboard and of the alert rules; the long form has a browser draw it into build/dashboard.png."""
import json
import math
import os
import struct
import subprocess
import time

import pytest

import dashboardpage
from cluster import PRODUCT
from corepods import sample
from gpupods import container, pod
from helmcharts import AGENT, CHARTS, SCHEDULER, template
from prometheus import Prometheus

pytestmark = pytest.mark.long(60)

CORE, SHARE = "gpu-1.192.168.60.1", "gpu-2.192.168.60.2"
NODES = [f"{CORE}=2x16160MiB,core_mem", f"{SHARE}=2x16160MiB,share"]
FULL = bool(os.environ.get("RATION_FULL"))
SCALE = 0.75
HISTORY = 120 if FULL else 60    # seconds
# The operator's own definitions say more of what may be in them; that they take what is there is all that we need.
CRD = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
OPENED = {"metrics": {"listen": "0.0.0.0:39996", "serviceMonitor": {"enabled": True}}, "alerts": {"enabled": True}}


def definition(kind):
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {**CRD, "metadata": {"name": f"{plural}.monitoring.coreos.com"}, "spec": {
        "group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}}


@pytest.fixture
def opened(lab):
    """A lab whose metrics are open, with what the operator would read."""
    cluster = lab(NODES)
    if cluster.run("kubectl", "get", "servicemonitors", "-A", check=False).returncode:
        for kind in ("ServiceMonitor", "PrometheusRule"):
            cluster.apply(definition(kind))
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=20s")
        for chart, more in ((AGENT, {"grafanaDashboard": {"enabled": True}}), (SCHEDULER, {"replicas": 1})):
            cluster.run("helm", "upgrade", chart, CHARTS / chart, "-n", "kube-system", "--reset-then-reuse-values",
                        "--values", "-", stdin=json.dumps({**OPENED, **more}))
        cluster.rolled_out()
    return cluster


def monitors(cluster):
    return cluster.json("get", "servicemonitors", "-n", "kube-system")["items"]


def busy(cluster):
    """Pods with and without a share of computing power, one that waits, and one in need of more than it may have."""
    for name, percent in (("train", 60), ("infer", 30)):
        cluster.create(sample(name, 4, percent))
    for i in range(2):
        cluster.create(pod(f"share-{i}", 5 + i))
    cluster.create(pod("too-large", containers=[container("main", 16)]))
    cluster.wait_running(names=["train", "infer", "share-0", "share-1"])


def test_prometheus_gets_every_number_of_the_dashboard_and_no_alert_is_wrong(opened):
    cluster = opened
    config = cluster.json("get", "configmap", "-n", "kube-system", "ration-dashboard")
    dashboard = json.loads(config["data"]["ration.json"])
    rules = [CHARTS / chart / "files/alerts.yaml" for chart in (AGENT, SCHEDULER)]
    with Prometheus(cluster, monitors(cluster), rules) as prometheus:
        cluster.wait_for(lambda: sorted(job for job, _ in prometheus.targets()) == [
            "ack-co-scheduler", "ration-agent", "ration-agent"] and set(prometheus.targets().values()) == {"up"}, 20,
            "all targets are scraped")
        time.sleep(2)    # what is counted from now on is a rate
        busy(cluster)
        if FULL:
            come_and_go(cluster)

        def drawn():
            page, empty, *size = dashboardpage.page(dashboard, lambda expr: prometheus.range(expr, HISTORY))
            assert not empty, f"panels without data: {empty}"
            return page, *size
        page, width, height = cluster.wait_for(drawn, 40, "data in every panel")
        cluster.wait_for(lambda: check_numbers(cluster, prometheus), 10, "the numbers of what runs")
        # A rule is evaluated once a second, and the agents have only just been replaced.
        cluster.wait_for(lambda: check_rules(prometheus), 20, "the alert of the pod that waits, and no other")
    if FULL:
        take_picture(page, width, height)


def come_and_go(cluster):
    """Something to see in the picture."""
    end = time.monotonic() + HISTORY - 30
    for i in range(1000):
        if time.monotonic() > end:
            break
        cluster.create(sample(f"job-{i}", 2, 10))
        cluster.create(pod(f"work-{i}", 3))
        time.sleep(4)
        if i > 1:
            cluster.kubectl("delete", "pod", f"job-{i - 2}", f"work-{i - 2}", "--wait=false")
    cluster.kubectl("delete", "pods", *(f"{name}-{j}" for j in (i - 2, i - 1) for name in ("job", "work")))


def check_numbers(cluster, prometheus):
    """A few of them by what was made above: units by the pods' limits, names as in the cluster."""
    assert prometheus.query("max(ration_ledger_owned * ration_ledger_may_bind)")[0][1] == 1
    nodes = {labels["mode"]: value for labels, value in prometheus.query("max by (mode) (ration_nodes) > 0")}
    assert nodes == {"core_mem": 1, "share": 1}
    granted = {labels["node"]: value for labels, value in prometheus.query("sum by (node) (ration_gpu_granted_units)")}
    assert granted == {CORE: 8, SHARE: 11}
    assert prometheus.query('max(ration_pods{state="waiting"})')[0][1] == 1
    limits = {(labels["namespace"], labels["pod"], labels["node"]): value
              for labels, value in prometheus.query("ration_container_limit_bytes")}
    assert limits == {(cluster.namespace, name, CORE): math.floor(16160 * 4 / 15) << 20 for name in ("train", "infer")}
    shares = {labels["pod"]: value for labels, value in prometheus.query("ration_container_core_share_ratio")}
    assert shares == {"train": 0.6, "infer": 0.3}
    return True


def check_rules(prometheus):
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 10 and {rule["name"]: rule["lastError"] for rule in rules if rule.get("lastError")} == {}
    assert {rule["health"] for rule in rules} == {"ok"}
    # The pod that waits is one from its first second, and an alert half an hour later.
    assert {rule["name"]: rule["state"] for rule in rules if rule.get("state", "inactive") != "inactive"} in (
        {"RationPodsWaiting": "pending"}, {"RationPodsWaiting": "pending", "RationContainerThrottled": "pending"})
    return True


def take_picture(page, width, height):
    source, picture = PRODUCT / "dashboard.html", PRODUCT / "dashboard.png"
    source.write_text(page + f"<style>svg {{ zoom: {SCALE} }}</style>")
    width, height = round(width * SCALE), round(height * SCALE)
    subprocess.run(["chromium-headless-shell", "--no-sandbox", "--hide-scrollbars", f"--window-size={width},{height}",
                    f"--screenshot={picture}", f"file://{source}"], check=True, capture_output=True, timeout=60)
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == (width, height)
    assert len(data) > 50000, "hardly anything is drawn"


def test_api_server_knows_every_field_of_both_charts(opened, tmp_path):
    """Strictly: helm itself lets pass what the API server drops."""
    cluster = opened
    for chart, more in ((AGENT, {"grafanaDashboard": {"enabled": True}, "onBypass": "evict"}), (SCHEDULER, {})):
        values = {**OPENED, **more, "networkPolicy": {"apiServerPorts": [6443]}, "imagePullSecrets": [{"name": "x"}],
                  "affinity": {"nodeAffinity": {}}, "podLabels": {"a": "b"}, "podAnnotations": {"a": "b"}}
        (tmp_path / "values.yaml").write_text(json.dumps(values))
        manifest = template(chart, "--values", tmp_path / "values.yaml").stdout
        assert "kind: PrometheusRule" in manifest
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict",
                        "-f", "-", stdin=manifest)
