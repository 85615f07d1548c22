"""The cluster's own kube-scheduler has the ledger, by what `ration doctor --scheduler-config` prints."""
import json

import pytest

import helmcharts
from cluster import EXAMPLES

pytestmark = pytest.mark.long(35)

NODE = "cn-beijing.192.168.8.44"
SECOND = "ration-second-pair"


def doctor(cluster):
    """(exit status, [(check, severity, where, what)])"""
    done = cluster.run("ration", "doctor", "-o", "json", check=False)
    findings = json.loads(done.stdout)["findings"]
    return done.returncode, [tuple(f[key] for key in ("check", "severity", "where", "what")) for f in findings]


def start_second_pair(cluster):
    """The Deployment of the chart, as somebody has it who installs it beside the control plane's pair."""
    objects = helmcharts.rendered(helmcharts.SCHEDULER, "--set", "replicas=1", "--set", f"image.tag={version(cluster)}",
                                 "--set", "profiles[0].schedulerName=ack-co-scheduler",
                                 "--set", f"profiles[1].schedulerName={SECOND}")
    deployment = helmcharts.find(objects, "Deployment")
    deployment["spec"]["template"]["spec"]["serviceAccountName"] = SECOND
    subject = {"kind": "ServiceAccount", "name": SECOND, "namespace": "kube-system"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SECOND, "namespace": "kube-system"}}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": SECOND},
               "roleRef": role, "subjects": [subject]}
    for obj in (account, binding, helmcharts.find(objects, "ConfigMap"), deployment):
        cluster.apply(obj)


def version(cluster):
    agents = cluster.json("-n", "kube-system", "get", "ds", "gpushare-device-plugin-ds")
    return agents["spec"]["template"]["spec"]["containers"][0]["image"].rsplit(":", 1)[1]


def test_manifests_without_scheduler_name_and_a_second_pair_that_is_refused(lab):
    cluster = lab([f"{NODE}=1x16384MiB,share"], options=("--default-scheduler",))
    # The documents' manifests, with and without a scheduler's name.
    cluster.apply(EXAMPLES / "job-share.yaml")
    cluster.apply(EXAMPLES / "job-co-scheduler.yaml")
    pod = cluster.wait_running("app=tensorflow-mnist-share")[0]
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert "ration.dev/placement" in pod["metadata"]["annotations"]
    assert cluster.wait_running("app=gpu-share-sample")[0]["spec"]["schedulerName"] == "ack-co-scheduler"
    assert "7/16" in cluster.kubectl("inspect", "cgpu")    # 4 and 3
    status, findings = doctor(cluster)
    # Here ration-scheduler is a process beside kube-scheduler, not a container of its static pod.
    assert (status, [f[:3] for f in findings]) == (0, [("ledger", "note", "Lease kube-system/ration-ledger")]), findings

    start_second_pair(cluster)
    theirs = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "theirs"},
              "spec": {"schedulerName": SECOND, "containers": [
                  {"name": "main", "image": "none", "resources": {"limits": {"aliyun.com/gpu-mem": "2"}}}]}}
    cluster.apply(theirs)
    sentence = "another scheduler owns the GPU ledger: kube-system/kube-scheduler"
    cluster.wait_for(lambda: any(sentence in event["message"] for event in cluster.events("theirs")), 30,
                     "the second pair's kube-scheduler tells who owns the ledger")
    second = cluster.json("-n", "kube-system", "get", "pods", "-l", "app=ack-co-scheduler")["items"][0]["metadata"]["name"]
    assert sentence in cluster.kubectl("-n", "kube-system", "logs", second, "-c", "ration-scheduler")
    status, findings = doctor(cluster)
    assert status == 1
    assert ("ledger", "error", f"pod kube-system/{second}") in [f[:3] for f in findings]
    lease = cluster.json("-n", "kube-system", "get", "lease", "ration-ledger")
    assert lease["spec"]["holderIdentity"] == "kube-system/kube-scheduler"
    assert lease["spec"].get("leaseTransitions", 0) == 0
    cluster.kubectl("-n", "kube-system", "delete", f"deployment/{helmcharts.SCHEDULER}", f"configmap/{helmcharts.SCHEDULER}",
                    f"serviceaccount/{SECOND}", f"clusterrolebinding/{SECOND}")
