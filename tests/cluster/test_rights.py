"""People without rights run every command: each says which right is lacking, and nothing that could not be read is shown as
fine. Tokens of service accounts, on a real API server: one without any right, one with the ClusterRole `view`, and one that
may read nodes and leases besides."""
import json

import pytest

from gpupods import pod

pytestmark = pytest.mark.long(30)

NODE = "rights-a.192.168.46.1"
NODES = [f"{NODE}=1x15360MiB,cgpu"]
FORWARD = "ask for the verb create on pods/portforward and get on pods in kube-system"
# Checks of the doctor that need nothing but the API server's version, and the answer to `kubectl auth can-i`.
WITHOUT_RIGHTS = {"kubernetes", "permissions"}


def bind(cluster, name, role):
    cluster.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                   "metadata": {"name": f"{cluster.namespace}-{name}-{role}"},
                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                   "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": cluster.namespace}]})


class Person:
    def __init__(self, cluster, name, roles):
        self.cluster = cluster
        cluster.kubectl("create", "serviceaccount", name)
        for role in roles:
            bind(cluster, name, role)
        self.token = cluster.kubectl("create", "token", name).strip()

    def run(self, *argv):
        return self.cluster.run(*argv, "--token", self.token, check=False)

    def refused(self, *argv):
        """What a command that shows nothing says."""
        done = self.run(*argv)
        assert (done.returncode, done.stdout) == (1, ""), done
        return done.stderr

    def doctor(self):
        """({check: state}, what is written of what it found)"""
        done = self.run("ration", "doctor", "-o", "json")
        assert done.returncode == 1, done    # the missing rights are findings
        answer = json.loads(done.stdout)
        return {check["name"]: check["state"] for check in answer["checks"]}, [f["what"] for f in answer["findings"]]


@pytest.fixture(name="cluster")
def cluster_fixture(lab):
    cluster = lab(NODES)
    cluster.create(pod("p", 3, nodeSelector={"kubernetes.io/hostname": NODE}))
    cluster.wait_running(names=["p"], timeout=120)
    cluster.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": f"{cluster.namespace}-read"},
                   "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
                             {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}]})
    yield cluster
    made = [line for line in cluster.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name").split()
            if f"/{cluster.namespace}-" in line]
    cluster.kubectl("delete", *made)


def test_every_command_names_the_right_that_is_missing(cluster):
    stranger = Person(cluster, "stranger", [])
    for argv in (["kubectl", "inspect", "cgpu"], ["ration", "top", "--once"]):
        said = stranger.refused(*argv)
        assert 'cannot list resource "nodes"' in said and "must be readable (verbs get and list)" in said, said
    for argv in (["ration", "why", "p"], ["ration", "set", "p", "--mem", "4"]):
        assert "ask for the verb get on pods there" in stranger.refused(*argv)
    states, found = stranger.doctor()
    assert {check for check, state in states.items() if state == "ok"} <= WITHOUT_RIGHTS, states
    for right in ("list nodes", "list pods", "list leases.coordination.k8s.io in kube-system", "create pods/portforward in kube-system"):
        assert any(what.startswith(f"you may not {right}:") for what in found), (right, found)

    viewer = Person(cluster, "viewer", ["view"])
    for argv in (["kubectl", "inspect", "cgpu"], ["ration", "top", "--once"]):
        assert 'cannot list resource "nodes"' in viewer.refused(*argv)
    assert "ask for the verb get on leases in kube-system" in viewer.refused("ration", "why", "p")
    said = viewer.refused("ration", "set", "p", "--mem", "4")
    assert "ask for the verb patch on pods" in said, said
    states, found = viewer.doctor()
    assert states["agents"] == states["capacity"] == states["cards"] == states["labels"] == "unknown", states
    assert not any(what.startswith("you may not list pods:") for what in found), found
    assert any(what.startswith("you may not list nodes:") for what in found), found

    reader = Person(cluster, "reader", ["view", f"{cluster.namespace}-read"])
    shown = reader.run("kubectl", "inspect", "cgpu")
    assert shown.returncode == 0 and NODE in shown.stdout, shown
    for argv in (["ration", "top", "--once"], ["ration", "why", "p"]):
        assert FORWARD in reader.refused(*argv)
    assert cluster.pod("p")["metadata"]["annotations"].get("ration.dev/resize") is None
