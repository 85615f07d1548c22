"""Nodes of the mode dra: pods that ask for GPUs by ResourceClaims, placed by the cluster's own kube-scheduler."""
import json
import re

import pytest

from api import check, out_of_force
from claims import (DRIVER, WHOLE, ask, claim, claimed, claims, config, device_class, device_of, left_on, pod, published, quantity,
                    start, template)
from cluster import is_ready
from gpupods import SHOW, inventory
from gpuprogram import OUT_OF_MEMORY, last_line, program, run_in
from nodetoken import Agent

pytestmark = pytest.mark.half(0)
NODE, OTHER = "dra-a.192.168.60.1", "dra-b.192.168.60.2"
NODES = [f"{NODE}=1x81559MiB,dra", f"{OTHER}=2x24564MiB,dra"]    # an H100, and two L4
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture
def cluster(lab, release_options):
    return lab(NODES, options=release_options)


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


@pytest.mark.long(15, group="dra-2")
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


@pytest.mark.long(15, group="dra-2")
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


# ---- what nodes offer

@pytest.mark.long(15, group="dra-2")
def test_node_offers_its_gpus_in_a_slice_and_nothing_else(cluster):
    slices = published(cluster)
    for node, mib, product in ((NODE, [79 << 10], "NVIDIA H100 80GB HBM3"), (OTHER, [23 << 10] * 2, "NVIDIA L4")):
        spec = slices[node]["spec"]
        assert (spec["driver"], spec["pool"]["name"], spec["pool"]["resourceSliceCount"]) == (DRIVER, node, 1)
        assert [quantity(d["capacity"]["memory"]["value"]) >> 20 for d in spec["devices"]] == mib
        assert {d["attributes"]["productName"]["string"] for d in spec["devices"]} == {product}
        assert all(d["allowMultipleAllocations"] and "taints" not in d for d in spec["devices"])
        uuids = [d["attributes"]["uuid"]["string"] for d in spec["devices"]]
        assert sorted(uuids) == sorted(inventory(cluster.node(node)))
        allocatable = cluster.node(node)["status"]["allocatable"]
        assert {key: value for key, value in allocatable.items() if key.startswith("aliyun.com/")} in (
            {}, {"aliyun.com/gpu-mem": "0", "aliyun.com/gpu-count": "0"}), allocatable


# ---- claims

def test_ten_claims_of_different_sizes_hold_exactly_theirs_and_the_eleventh_waits(cluster):
    """55 of the 79 GiB of one GPU; 24 are left, and 25 are asked for."""
    # 2500 MiB count as 3 GiB: the slice says that memory goes in steps of one unit.
    start(cluster, *[claimed(f"p{i}", ask("2500Mi" if i == 3 else f"{i}Gi"), node=NODE) for i in range(1, 11)])
    start(cluster, claimed("late", ask("25Gi"), node=NODE))
    cluster.wait_running(names=[f"p{i}" for i in range(1, 11)])
    device, = {device_of(made) for name, made in claims(cluster).items() if name != "late"}
    for i in range(1, 11):
        limit = i << 10
        table, _, seen = cluster.exec_in(f"p{i}", "bash", "-c", f"nvidia-smi; {program('info')}").rstrip().rpartition("\n")
        assert json.loads(seen) | {"free": 0} == {"free": 0, "total": limit, "device": limit, "count": 1}
        assert f"/ {limit}MiB |" in re.sub(" +", " ", table), table
    assert run_in(cluster, "p4", "take", 4 << 10) == {"result": OUT_OF_MEMORY}    # a context takes some 490
    assert run_in(cluster, "p4", "take", (4 << 10) - 600) == {"result": 0}
    why = cluster.condition(cluster.pod("late"), "PodScheduled")
    assert why["reason"] == "Unschedulable" and "cannot allocate all claims" in why["message"], why
    cluster.kubectl("delete", "pod", "p1", "--wait=true")
    cluster.wait_running(names=["late"])
    assert device_of(claims(cluster)["late"]) == device and run_in(cluster, "late", "info")["total"] == 25 << 10


@pytest.mark.long(15, group="dra")
def test_each_replica_of_a_deployment_has_a_claim_of_its_own(cluster):
    cluster.create(template("part", ask("2Gi", "30")))
    body = pod("x", of_template="part", labels={"app": "d"})
    spec = {**body["spec"], "restartPolicy": "Always"}
    cluster.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": body["metadata"], "spec": spec}}})
    first = cluster.wait_running("app=d", count=2)
    assert len(claims(cluster)) == 2
    assert all(run_in(cluster, p, "info")["total"] == 2048 for p in first)
    cluster.kubectl("scale", "deployment", "d", "--replicas=4")
    cluster.wait_running("app=d", count=4)
    for made in claims(cluster).values():
        result, = made["status"]["allocation"]["devices"]["results"]
        assert {k: str(v) for k, v in result["consumedCapacity"].items()} == {"memory": "2Gi", "cores": "30"}
    cluster.kubectl("delete", "deployment", "d")
    cluster.wait_for(lambda: not claims(cluster), 30, "the end of the claims")


def test_two_pods_on_one_claim_share_one_limit(cluster):
    cluster.create(claim("shared", ask("3Gi")))
    for name in ("a", "b"):
        cluster.create(pod(name, of_claim="shared", command=program("hold", 1100) if name == "a" else SHOW))
    pods = {p["metadata"]["name"]: p for p in cluster.wait_running(names=["a", "b"])}
    assert pods["a"]["spec"]["nodeName"] == pods["b"]["spec"]["nodeName"]
    cluster.wait_for(lambda: "rounds" in last_line(cluster.log_of("a")), 20, "the first round of a")
    seen = run_in(cluster, "b", "info")
    assert seen["total"] == 3072 and seen["free"] < 3072 - 1100, seen
    assert run_in(cluster, "b", "take", 1900) == {"result": OUT_OF_MEMORY}
    assert run_in(cluster, "b", "take", 500) == {"result": 0}
    cluster.kubectl("delete", "pod", "a", "--wait=true")
    assert run_in(cluster, "b", "take", 1900) == {"result": 0}    # the claim is still b's


@pytest.mark.long(15, group="dra")
def test_containers_of_a_pod_share_the_claim_that_they_name(cluster):
    cluster.create(template("t", ask("3Gi")))
    cluster.create(pod("two", of_template="t", containers=2))
    cluster.wait_running(names=["two"])
    for container in ("c0", "c1"):
        assert run_in(cluster, "two", "info", container=container)["total"] == 3072


@pytest.mark.long(15, group="dra")
def test_first_alternative_that_fits_is_taken(cluster):
    cluster.create(claim("big", ask("60Gi")))
    cluster.create(pod("big", of_claim="big"))
    cluster.wait_running(names=["big"])
    cluster.create(claim("choice", [ask("30Gi"), ask("20Gi"), ask("1Gi")]))
    cluster.create(pod("choice", of_claim="choice"))
    cluster.wait_running(names=["choice"])
    result, = claims(cluster)["choice"]["status"]["allocation"]["devices"]["results"]
    assert result["request"] == "r0/s1" and run_in(cluster, "choice", "info")["total"] == 20 << 10


@pytest.mark.long(15, group="dra")
def test_gpu_is_chosen_by_its_model(cluster):
    start(cluster, *[claimed(name, ask("4Gi", selector=f'device.attributes["{DRIVER}"].productName.contains("{model}")'))
                     for name, model in (("h100", "H100"), ("l4", "NVIDIA L4"))])
    pods = {p["metadata"]["name"]: p for p in cluster.wait_running(names=["h100", "l4"])}
    assert (pods["h100"]["spec"]["nodeName"], pods["l4"]["spec"]["nodeName"]) == (NODE, OTHER)


@pytest.mark.long(15, group="dra-2")
def test_whole_gpu_is_alone_on_it(cluster):
    start(cluster, claimed("small", ask("1Gi"), node=OTHER))
    cluster.wait_running(names=["small"])
    start(cluster, claimed("whole", ask(device_class=WHOLE), node=OTHER))
    cluster.wait_running(names=["whole"])
    assert run_in(cluster, "whole", "info")["total"] == 23 << 10
    start(cluster, claimed("second", ask(device_class=WHOLE), node=OTHER), claimed("beside", ask("20Gi"), node=OTHER))
    cluster.wait_running(names=["beside"])
    gpus = {name: device_of(made) for name, made in claims(cluster).items() if name != "second"}
    assert gpus["beside"] == gpus["small"] != gpus["whole"]
    assert cluster.pod("second")["spec"].get("nodeName") is None


@pytest.mark.long(15, group="dra-2")
def test_claims_go_to_the_emptiest_gpu_of_a_node_with_the_label_spread(cluster):
    """kube-scheduler takes the first GPU of the slice that fits; else all of these would be on one."""
    first = [d["name"] for d in published(cluster)[OTHER]["spec"]["devices"]]
    cluster.kubectl("label", "node", OTHER, "ack.node.gpu.placement=spread", "--overwrite")
    try:
        for name, order in (("s0", first[::-1]), ("s1", first)):
            start(cluster, claimed(name, ask("2Gi"), node=OTHER))
            cluster.wait_running(names=[name])
            cluster.wait_for(lambda order=order: [d["name"] for d in published(cluster)[OTHER]["spec"]["devices"]] == order, 20,
                             f"the order of the slice after {name}")
        assert {device_of(claims(cluster)[name])[1] for name in ("s0", "s1")} == set(first)
    finally:
        cluster.kubectl("label", "node", OTHER, "ack.node.gpu.placement-")
        cluster.kubectl("delete", "pods", "--all", "--wait=true")


@pytest.mark.long(15, group="dra-2")
def test_unhealthy_gpu_is_tainted_and_gets_no_claim(cluster):
    def tainted():
        return [d["attributes"]["index"]["int"] for d in published(cluster)[OTHER]["spec"]["devices"] if d.get("taints")]
    assert tainted() == []
    cluster.fault(OTHER, 0, "xid", "79")
    try:
        cluster.wait_for(lambda: tainted() == [0], 20, "the taint")
        start(cluster, *[claimed(name, ask("12Gi"), node=OTHER) for name in ("a", "b")])
        cluster.wait_for(lambda: len(placed := [p for p in cluster.pods() if p["spec"].get("nodeName")]) == 1 and is_ready(placed[0]), 30,
                         "one pod on the other GPU")
    finally:
        cluster.fault(OTHER, 0, "heal")
    cluster.wait_running(names=["a", "b"])    # the last one on the GPU that is healthy again
    assert len(set(map(device_of, claims(cluster).values()))) == 2 and tainted() == []


# ---- bad input past the API server's policy

def refusal(cluster, name):
    """What the pod's Events say about its claim."""
    return cluster.wait_for(lambda: [e["message"] for e in cluster.events(name) if e["reason"] == "FailedPrepareDynamicResources"],
                            30, "the kubelet's Event")[0]


@pytest.mark.long(15, group="dra")
def test_claim_with_unknown_parameters_is_refused_at_its_start_in_words(cluster):
    """As on a cluster without the policy, or with a claim that is older than it."""
    bad = claim("bad", ask("3Gi"), configs=[config(memory="3Gi")])
    with out_of_force(cluster, {"ration-gpu-claims": bad}):
        cluster.create(bad)
    cluster.create(pod("bad", of_claim="bad"))
    said = refusal(cluster, "bad")
    assert "unknown field memory; GpuConfig has policy, weight and allowDisable" in said, said
    node = cluster.pod("bad")["spec"]["nodeName"]
    assert claims(cluster)["bad"]["metadata"]["uid"] not in " ".join(left_on(cluster, node))
    cluster.kubectl("delete", "pod", "bad", "--timeout=30s")
    cluster.kubectl("delete", "resourceclaim", "bad", "--timeout=30s")


@pytest.mark.long(15, group="dra")
def test_pod_that_a_claim_would_not_limit_does_not_start_and_says_why(cluster):
    cluster.create(template("part", ask("2Gi")))
    cases = {"privileged": ({}, {"securityContext": {"privileged": True}}, 'container "c0": privileged: true'),
             "devices": ({"volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}]}, {}, 'volume "dev": hostPath /dev')}
    for name, (spec, container, _) in cases.items():
        made = pod(name, of_template="part", **spec)
        made["spec"]["containers"][0].update(container)
        cluster.create(made)
    for name, (_, _, words) in cases.items():
        said = refusal(cluster, name)
        assert f"pod {name}: {words}: not in a pod with a claim of gpu.ration.dev" in said, said
        assert not cluster.pod(name)["status"].get("containerStatuses", [{}])[0].get("state", {}).get("running")
    cluster.kubectl("delete", "pod", *cases, "--timeout=60s")


@pytest.mark.long(15, group="dra")
def test_pod_that_begins_to_use_a_claim_later_is_reported(cluster):
    """The kubelet does not ask for a claim again that it has."""
    start(cluster, claimed("shared", ask("2Gi"), command="sleep 1000"))
    cluster.wait_running(names=["shared"])
    made = pod("late", of_claim="shared", command="sleep 1000")
    made["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    cluster.create(made)
    said = cluster.wait_for(lambda: [e["message"] for e in cluster.events("late") if e["reason"] == "GPUClaimNotLimited"], 30, "the agent's Event")
    assert 'container "c0": privileged: true' in said[0] and "shared" in said[0]
    cluster.kubectl("delete", "pods", "--all", "--wait=true")


def test_nothing_is_left_on_the_nodes_when_the_pods_are_gone(cluster):
    start(cluster, *[claimed(f"p-{node[4]}", ask("3Gi"), node=node) for node in (NODE, OTHER)])
    cluster.wait_running(count=2)
    assert left_on(cluster, NODE) and left_on(cluster, OTHER)
    cluster.kubectl("delete", "pods", "--all", "--wait=true")
    cluster.wait_for(lambda: not left_on(cluster, NODE) and not left_on(cluster, OTHER), 30, "the end of grants and CDI files")
