"""An agent's token is good for its own node: the policy of the chart ack-ai-installer, on a real API server."""
import base64
import json
import ssl
import urllib.error
import urllib.request

import pytest

from cluster import ROOT
from gpupods import pod

pytestmark = pytest.mark.long(10)

A, B = "own-a.192.168.30.1", "own-b.192.168.30.2"
NODES = [f"{name}=1x16160MiB,share" for name in (A, B)]
MAPS = "/api/v1/namespaces/kube-system/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
ANNOTATE = {"metadata": {"annotations": {"example.com/written": "yes"}}}
RENEW = {"spec": {"leaseDurationSeconds": 41}}
CAPACITY = {"status": {"capacity": {"aliyun.com/gpu-count": "1"}}}
REFUSAL = f"the ration-agent of node {A} writes what belongs to its node, and nothing else"


class Agent:
    """Who has taken over the agent of a node, or a token of its service account for no node: what it may patch."""

    def __init__(self, cluster, node=A):
        config = cluster.json("config", "view", "--raw")["clusters"][0]["cluster"]
        bound = ["--bound-object-kind", "Node", "--bound-object-name", node] if node else []
        self.cluster, self.server = cluster, config["server"]
        self.token = cluster.kubectl("-n", "kube-system", "create", "token", "ration-agent", *bound).strip()
        if "certificate-authority-data" in config:
            self.tls = ssl.create_default_context(cadata=base64.b64decode(config["certificate-authority-data"]).decode())
        else:
            self.tls = ssl.create_default_context(cafile=config["certificate-authority"])

    def ask(self, method, path, body):
        """The message of the refusal; None for success."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(self.server + path, json.dumps(body).encode(), method=method, headers={
            "Authorization": f"Bearer {self.token}", "Content-Type": kind})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.tls))
        try:
            opener.open(request, timeout=10).close()
        except urllib.error.HTTPError as error:
            return json.load(error)["message"]
        return None

    def patch(self, path, body):
        return self.ask("PATCH", path, body)

    def create_lease(self, name):
        return self.ask("POST", LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}})


@pytest.fixture
def agent(lab):
    return Agent(lab(NODES))


def test_agent_writes_to_its_own_node_and_lease(agent):
    assert agent.patch(f"{LEASES}/ration-agent-{A}", RENEW) is None
    assert agent.patch(f"/api/v1/nodes/{A}", ANNOTATE) is None
    assert agent.patch(f"/api/v1/nodes/{A}/status", CAPACITY) is None
    agent.cluster.kubectl("-n", "kube-system", "delete", "lease", f"ration-agent-{A}")
    assert (agent.create_lease(f"ration-agent-{A}") or "already exists").endswith("already exists")    # the agent's own


def test_agent_cannot_write_to_another_node_nor_to_anybody_elses_lease(agent):
    for path, body in ((f"{LEASES}/ration-agent-{B}", RENEW), (f"{LEASES}/ration-ledger", RENEW),
                       (f"{LEASES}/ack-co-scheduler", RENEW), (f"/api/v1/nodes/{B}", ANNOTATE),
                       (f"/api/v1/nodes/{B}/status", CAPACITY)):
        assert REFUSAL in agent.patch(path, body)
    for name in (f"ration-agent-{B}", f"ration-agent-{A}x", "made-up"):
        assert REFUSAL in agent.create_lease(name)


def test_agent_writes_the_config_map_of_its_links_and_no_other(agent):
    def create(name):
        return agent.ask("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    assert create(f"gpu-topology-{A}") is None and agent.patch(f"{MAPS}/gpu-topology-{A}", ANNOTATE) is None
    for name in (f"gpu-topology-{B}", "made-up"):
        assert REFUSAL in create(name)
    assert REFUSAL in agent.patch(f"{MAPS}/ration-policy", ANNOTATE)
    agent.cluster.kubectl("-n", "kube-system", "delete", "configmap", f"gpu-topology-{A}")


def test_agent_writes_to_pods_of_its_own_node_only(agent):
    for name, node in (("here", A), ("there", B), ("nowhere", "gone")):
        agent.cluster.create(pod(name, 2, nodeSelector={"kubernetes.io/hostname": node}))
    agent.cluster.wait_running(names=["here", "there"])
    pods = f"/api/v1/namespaces/{agent.cluster.namespace}/pods"
    assert agent.patch(f"{pods}/here", ANNOTATE) is None
    assert REFUSAL in agent.patch(f"{pods}/there", ANNOTATE)
    assert REFUSAL in agent.patch(f"{pods}/nowhere", ANNOTATE)


def test_token_without_a_node_writes_nothing(lab):
    anybody = Agent(lab(NODES), node=None)
    for path, body in ((f"{LEASES}/ration-agent-{A}", RENEW), (f"/api/v1/nodes/{A}", ANNOTATE)):
        assert "the token of this ration-agent names no node" in anybody.patch(path, body)


def test_policy_is_understood_concerns_nobody_else_and_the_agents_work_under_it(agent):
    policy = agent.cluster.json("get", "validatingadmissionpolicy", "ration-agent-own-node")
    assert policy["status"].get("typeChecking") == {}
    agent.cluster.kubectl("annotate", "node", B, "example.com/written=yes", "--overwrite")
    said = agent.cluster.kubectl("-n", "kube-system", "logs", "-l", "name=gpushare-device-plugin-ds", "--tail=-1")
    assert "forbidden" not in said.lower() and "writes what belongs" not in said


# ---- evictions, with onBypass: evict

@pytest.fixture
def evicting(lab):
    """The lab keeps that value: nothing here is past its limit."""
    cluster = lab(NODES)
    if cluster.run("kubectl", "get", "validatingadmissionpolicy", "ration-agent-own-evictions", check=False).returncode:
        cluster.run("helm", "upgrade", "ack-ai-installer", ROOT / "deploy/charts/ack-ai-installer", "-n", "kube-system",
                    "--reuse-values", "--set", "onBypass=evict")
        cluster.kubectl("-n", "kube-system", "rollout", "status", "daemonset/gpushare-device-plugin-ds", "--timeout=60s")
    return Agent(cluster)


def evict(agent, name):
    namespace = agent.cluster.namespace
    return agent.ask("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", {
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}})


def test_agent_evicts_pods_of_its_own_node_only(evicting):
    cluster = evicting.cluster
    for name, node in (("here", A), ("there", B), ("nowhere", "gone")):
        cluster.create(pod(name, 2, nodeSelector={"kubernetes.io/hostname": node}))
    cluster.wait_running(names=["here", "there"])
    for name in ("there", "nowhere"):
        assert f"the ration-agent of node {A} evicts pods of its node, and no others" in evict(evicting, name)
    assert "the token of this ration-agent names no node" in evict(Agent(cluster, node=None), "here")
    assert cluster.pod("there")["status"]["phase"] == "Running"
    assert evict(evicting, "here") is None
    policy = cluster.json("get", "validatingadmissionpolicy", "ration-agent-own-evictions")
    assert policy["status"].get("typeChecking") == {}
