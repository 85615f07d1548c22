"""A pod whose annotations fill the 256 KiB that the API server allows: it waits, or cannot be resized, and says why."""
import json

import pytest

from cgpupods import LAYOUT
from gpupods import placement, pod

pytestmark = pytest.mark.long(20)

LIMIT = 256 << 10
RESIZE, STATUS = "ration.dev/resize", "ration.dev/resize-status"


def annotations(cluster, name):
    return cluster.pod(name)["metadata"].get("annotations", {})


def annotate(cluster, name, **values):
    """By a file, since an argument of a program cannot be so long."""
    return cluster.run("kubectl", "patch", "pod", name, "--type=merge", "--patch-file=/dev/stdin", check=False,
                       stdin=json.dumps({"metadata": {"annotations": values}}))


def fill(cluster, name, total):
    """Makes all annotations so long together, by one of them."""
    assert annotate(cluster, name, note=None).returncode == 0
    used = sum(len(k) + len(v) for k, v in annotations(cluster, name).items())
    return annotate(cluster, name, note="x" * (total - used - len("note")))


def test_a_pod_with_full_annotations_waits_with_a_reason_and_starts_without_them(lab):
    cluster = lab(LAYOUT)
    cluster.create(pod("p", 2, annotations={"note": "x" * 262_000}))
    cluster.wait_for(lambda: any("the pod's annotations are too long" in e["message"] and
                                 e["reason"] == "FailedScheduling" for e in cluster.events("p")), 60, "an Event")
    assert "nodeName" not in cluster.pod("p")["spec"]
    assert annotate(cluster, "p", note=None).returncode == 0
    cluster.wait_running(names=["p"])


def test_a_running_pod_with_full_annotations_is_told_that_there_is_no_room_and_ends(lab):
    cluster = lab(LAYOUT)
    cluster.create(pod("p", 2))
    cluster.wait_running(names=["p"])
    # What the scheduler computes is what the API server allows.
    over = fill(cluster, "p", LIMIT + 1)
    assert over.returncode != 0 and "metadata.annotations" in over.stderr, over.stderr
    assert fill(cluster, "p", LIMIT).returncode == 0
    done = cluster.run("ration", "set", "p", "--mem", "3", check=False)
    assert done.returncode == 1 and f"have {LIMIT} bytes, which leaves no room" in done.stderr, done.stderr
    # Room for the request, and none for an answer.
    assert fill(cluster, "p", LIMIT - len(RESIZE) - len('{"c0":3}')).returncode == 0
    done = cluster.run("ration", "set", "p", "--mem", "3", check=False)
    assert done.returncode == 1 and "which leaves no room for another size" in done.stderr, done.stderr
    assert not {RESIZE, STATUS} & set(annotations(cluster, "p"))
    assert [c["units"] for c in placement(cluster.pod("p"))["containers"]["c0"]] == [2]
    # Its kubelet can still write its status.
    cluster.kubectl("delete", "pod", "p", "--timeout=90s")


def test_a_size_that_an_admission_policy_refuses_is_answered_with_its_reason(lab):
    cluster = lab(LAYOUT)
    cluster.create(pod("p", 2))
    cluster.wait_running(names=["p"])
    name = f"no-resize-{cluster.namespace}"
    policy = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
              "metadata": {"name": name}, "spec": {
                  "matchConstraints": {"resourceRules": [{
                      "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}],
                      "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}},
                  "validations": [{"message": "nobody changes a size here", "expression":
                                   "!has(oldObject.metadata.annotations) || !('ration.dev/resize' in oldObject.metadata.annotations) || "
                                   "'ration.dev/resize' in object.metadata.annotations"}]}}
    binding = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
               "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    for obj in (policy, binding):
        cluster.run("kubectl", "create", "-f", "-", stdin=json.dumps(obj))
    try:
        cluster.wait_for(lambda: annotate(cluster, "p", **{RESIZE: '{"c9":1}'}) and any(
            e["reason"] == "ResizeUnanswered" for e in cluster.events("p")), 60, "the policy in force")
        done = cluster.run("ration", "set", "p", "--mem", "3", "--timeout", "10", check=False)
        assert done.returncode == 1 and "nobody changes a size here" in done.stderr, done.stderr
    finally:
        cluster.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)
    cluster.wait_for(lambda: annotate(cluster, "p", **{RESIZE: None}).returncode == 0, 60, "the policy is gone")
    assert cluster.run("ration", "set", "p", "--mem", "3").returncode == 0
