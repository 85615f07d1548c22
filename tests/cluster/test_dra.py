"""Nodes of the mode dra: pods that ask for GPUs by ResourceClaims, placed by the cluster's own kube-scheduler."""
import pytest

from api import check, out_of_force
from claims import DRIVER, WHOLE, ask, claim, config, device_class, template
from nodetoken import Agent

NODE, OTHER = "dra-a.192.168.60.1", "dra-b.192.168.60.2"
NODES = [f"{NODE}=1x81559MiB,dra", f"{OTHER}=2x24564MiB,dra"]    # an H100, and two L4
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture
def cluster(lab):
    return lab(NODES)


# ---- what the API server refuses

KINDS = "the parameters for driver gpu.ration.dev are of kind {}: must be GpuConfig in ration.dev/v1"
FIELD = "the parameters for driver gpu.ration.dev have the unknown field {}; GpuConfig has policy, weight and allowDisable"
POLICY = "the parameters for driver gpu.ration.dev: policy is {}: must be a number from 0 to 5"
WEIGHT = "the parameters for driver gpu.ration.dev: weight is {}: must be a whole number from 1 to 10000"
# parameters of a claim: what is said, None if nothing
PARAMETERS = [
    ({"kind": "GpuConfiguration"}, KINDS.format("GpuConfiguration in ration.dev/v1")),
    ({"apiVersion": "ration.dev/v2"}, KINDS.format("GpuConfig in ration.dev/v2")),
    ({"memory": "3Gi"}, FIELD.format("memory")),
    ({"policy": 6}, POLICY.format("6")), ({"policy": -1}, POLICY.format("-1")), ({"policy": "fixed"}, POLICY.format("fixed")),
    ({"policy": 3.5}, POLICY.format("no number")), ({"policy": [3]}, POLICY.format("no number")),
    ({"policy": "0x3"}, POLICY.format("0x3")),
    ({"weight": 0}, WEIGHT.format("0")), ({"weight": 10001}, WEIGHT.format("10001")), ({"weight": "07"}, WEIGHT.format("07")),
    ({"weight": True}, WEIGHT.format("no number")),
    ({"allowDisable": "yes"}, "allowDisable must be true or false"),
    ({"allowDisable": True}, "allowDisable: true counts only in a DeviceClass"),
    ({}, None), ({"policy": 0}, None), ({"policy": "5"}, None), ({"weight": 1}, None), ({"weight": "10000"}, None),
    ({"policy": 2, "weight": 30, "allowDisable": False}, None),
]
REQUESTS = [
    (ask("3Gi", device_class=WHOLE), "request r0: the class whole.gpu.ration.dev gives a whole GPU: leave out capacity"),
    ([ask("3Gi"), ask(cores="5", device_class=WHOLE)], "request r0/s1: the class whole.gpu.ration.dev gives a whole GPU"),
    (ask("0"), "request r0: memory is 0: must be above 0"), (ask("-3Gi"), "request r0: memory is -3Gi: must be above 0"),
    ([ask("8Gi"), ask("0")], "request r0/s1: memory is 0: must be above 0"),
    (ask("3Gi", "-5"), "request r0: cores is -5: must be between 0 and 100 percent"),
    (ask("3Gi", "101"), "request r0: cores is 101: must be between 0 and 100 percent"),
    ({**ask(), "capacity": {"requests": {"gpu-mem": "3"}}}, "request r0: a GPU has no capacity gpu-mem; ask for memory (bytes) and cores"),
    ({**ask(), "capacity": {"requests": {f"{DRIVER}/memory": "0"}}}, "request r0: memory is 0: must be above 0"),
    (ask(), None), (ask("1"), None), (ask("3Gi", "0"), None), (ask("3Gi", "100"), None), (ask(device_class=WHOLE), None),
    ([ask("8Gi", "50"), ask("3Gi")], None),
    # Another driver's classes have capacities of their own.
    ({**ask(device_class="nic.example.com"), "capacity": {"requests": {"bandwidth": "0"}}}, None),
]


def test_claim_that_no_gpu_can_satisfy_is_refused_in_words(cluster):
    cases, allowed = {}, []
    for number, (request, parameters, words) in enumerate(
            [(ask("3Gi"), [config(**p)], words) for p, words in PARAMETERS] + [(r, [], words) for r, words in REQUESTS]):
        for kind in (claim, template):
            made = kind(f"{kind.__name__}-{number}", request, configs=parameters)
            if words:
                cases[made["metadata"]["name"]] = (made, words)
            else:
                allowed.append(made)
    check(cluster, cases, allowed)


def test_class_is_held_to_the_same_parameters_and_may_allow_what_a_claim_may_not(cluster):
    check(cluster, {"bad": (device_class("bad", [config(policy=9)]), POLICY.format("9"))},
          [device_class("good", [config(allowDisable=True)]), device_class("plain")])


def test_parameters_of_other_drivers_are_not_looked_at(cluster):
    other = {"opaque": {"driver": "nic.example.com", "parameters": {"policy": 9}}}
    check(cluster, {}, [claim("mixed", ask("3Gi"), configs=[other, config(policy=3)]), device_class("theirs", [other])])


def test_claim_from_before_the_policy_can_be_labelled_and_deleted(cluster):
    """kube-scheduler and the garbage collector write to its metadata."""
    bad = claim("old", ask("0"))
    with out_of_force(cluster, {"ration-gpu-claims": bad}):
        cluster.create(bad)
    cluster.kubectl("label", "resourceclaim", "old", "a=b")
    cluster.kubectl("delete", "resourceclaim", "old", "--timeout=20s")


# ---- the agent's rights

def resource_slice(name, node, driver=DRIVER, pool=None):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
            "spec": {"driver": driver, "nodeName": node, "devices": [{"name": "gpu-0"}],
                     "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": 1}}}


@pytest.fixture
def far(cluster):
    """A Node on which no agent runs, which would remove slices that are not its own."""
    name = "dra-far.192.168.60.9"
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}})
    yield name
    cluster.kubectl("delete", "node", name)


def test_agent_writes_resource_slices_of_its_own_node_only(cluster, far):
    agent = Agent(cluster, node=far)
    refusal = f"the ration-agent of node {far} writes ResourceSlices of driver {DRIVER} in the pool of its node, and no others"
    everywhere = resource_slice("s", far)
    everywhere["spec"]["allNodes"] = True
    del everywhere["spec"]["nodeName"]

    def write(method, made, agent=agent):
        """What is said when it is refused; nothing is written."""
        path = SLICES + ("" if method == "POST" else f"/{made['metadata']['name']}")
        return agent.ask(method, path + "?dryRun=All", made if method != "DELETE" else {})
    for made in (resource_slice("s", NODE), resource_slice("s", far, driver="nic.example.com"),
                 resource_slice("s", far, pool=NODE), everywhere):
        assert refusal in write("POST", made)
    assert write("POST", resource_slice("s", far)) is None
    assert "the token of this ration-agent names no node" in write("POST", resource_slice("s", far), Agent(cluster, node=None))

    stored = {name: resource_slice(name, *where) for name, where in {
        "own": (far,), "of-another-node": ("gone.192.168.60.8",), "of-another-driver": (far, "nic.example.com")}.items()}
    try:
        for name, made in stored.items():
            cluster.create(made)
            made = cluster.json("get", "resourceslice", name)
            said = [write(method, made) for method in ("PUT", "DELETE")]
            assert said == [None, None] if name == "own" else all(refusal in words for words in said), (name, said)
    finally:
        cluster.kubectl("delete", "resourceslices", *stored, "--ignore-not-found")


def test_policies_are_understood_by_the_api_server(cluster):
    for name in ("ration-gpu-claims", "ration-agent-own-slices"):
        found = cluster.wait_for(lambda name=name: cluster.json("get", "validatingadmissionpolicy", name).get("status", {}).get("typeChecking")
                                 is not None and cluster.json("get", "validatingadmissionpolicy", name), 30, "the look at its types")
        assert found["status"]["typeChecking"] == {}, found["status"]
