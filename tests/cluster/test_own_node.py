"""An agent's token is good for its own node: the policy of the chart ack-ai-installer, on a real API server."""
import pytest

from cluster import ROOT
from gpupods import pod
from nodetoken import A, B, LEASES, Agent

pytestmark = pytest.mark.long(10)

NODES = [f"{name}=1x16160MiB,share" for name in (A, B)]
MAPS = "/api/v1/namespaces/kube-system/configmaps"
ANNOTATE = {"metadata": {"annotations": {"example.com/written": "yes"}}}
RENEW = {"spec": {"leaseDurationSeconds": 41}}
CAPACITY = {"status": {"capacity": {"aliyun.com/gpu-count": "1"}}}
REFUSAL = f"the ration-agent of node {A} writes what belongs to its node, and nothing else"


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
        cluster.rolled_out("daemonset/gpushare-device-plugin-ds")
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
