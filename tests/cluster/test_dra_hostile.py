"""Claims that no user should write: each is refused with a sentence in the pod's Events, prepares nothing and takes nothing from the
others. Where only the API server's administrator could write it, as an allocation, the test is the administrator."""
import json

import pytest

from api import Api, out_of_force
from claims import DRIVER, GROUP, ask, claim, claimed, claims, config, left_on, pod, published, start, template
from gpupods import SHOW
from gpuprogram import run_in

NODE, OTHER = "hostile-a.192.168.60.11", "hostile-b.192.168.60.12"
NODES = [f"{NODE}=2x16160MiB,dra", f"{OTHER}=1x24564MiB,dra"]
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
ADMIN = {"resource.kubernetes.io/admin-access": "true"}
EXTENDED = f"deviceclass.resource.kubernetes.io/{DRIVER}"

pytestmark = pytest.mark.long(18)


@pytest.fixture
def empty(lab, release_options):
    made = lab(NODES, options=release_options)
    published(made)
    return made


@pytest.fixture
def cluster(empty):
    """With a claim on each node, which must be untouched at the end."""
    made = empty
    start(made, *[claimed(f"bystander-{node[8]}", ask("1Gi"), node=node) for node in (NODE, OTHER)])
    made.wait_running(names=["bystander-a", "bystander-b"])
    yield made
    for name in ("bystander-a", "bystander-b"):
        assert run_in(made, name, "info")["total"] == 1024


def refusal(cluster, name):
    """What the pod's Events say about its claim."""
    return cluster.wait_for(lambda: [e["message"] for e in cluster.events(name) if e["reason"] == "FailedPrepareDynamicResources"],
                            30, "the kubelet's Event")[0]


def nothing_of(cluster, name, node):
    uid = claims(cluster)[name]["metadata"]["uid"]
    assert uid not in " ".join(left_on(cluster, node)), left_on(cluster, node)


def device(cluster, node):
    return published(cluster)[node]["spec"]["devices"][0]["name"]


def bound(name, node, **source):
    """A pod that no scheduler has seen."""
    return pod(name, nodeName=node, **source)


def allocate(cluster, name, **result):
    """A claim and a pod, whose allocation and Binding are written as kube-scheduler does. result: what differs in the allocation."""
    cluster.create(claim(name, ask("2Gi")))
    cluster.create(pod(name, of_claim=name, schedulerName="none"))
    whole = {"request": "r0", "driver": DRIVER, "pool": NODE, "device": device(cluster, NODE),
             "shareID": "00000000-0000-0000-0000-000000000001", "consumedCapacity": {"memory": "2Gi", "cores": "0"}, **result}
    status = {"allocation": {"devices": {"results": [{k: v for k, v in whole.items() if v is not None}]}},
              "reservedFor": [{"resource": "pods", "name": name, "uid": cluster.pod(name)["metadata"]["uid"]}]}
    cluster.kubectl("patch", "resourceclaim", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    assert cluster.bind(name, NODE, {}) is None


# ---- allocations that cannot be

ALLOCATIONS = {
    "zero": ({"consumedCapacity": {"memory": "0"}}, "consumedCapacity memory is 0: must be above 0"),
    "negative": ({"consumedCapacity": {"memory": "-1Gi"}}, "consumedCapacity memory"),
    "huge": ({"consumedCapacity": {"memory": "17Gi"}}, "17408 MiB of memory are allocated on GPU 0, which has 16160"),
    "endless": ({"consumedCapacity": {"memory": "8Ei"}}, "consumedCapacity memory"),
    "part": ({"consumedCapacity": {"memory": "1500k"}}, "not whole MiB"),
    "nothing": ({"consumedCapacity": None, "shareID": None}, "consumedCapacity has no memory"),
    "cores": ({"consumedCapacity": {"memory": "2Gi", "cores": "101"}}, "consumedCapacity cores"),
    "gone": ({"device": "gpu-00000000-0000-0000-0000-000000000000"}, "is not on this node (any more): delete the pod"),
    "elsewhere": ({"pool": OTHER}, f"is in the pool {OTHER}, not on this node"),
}


def test_allocation_that_cannot_be_is_refused_in_the_pods_events(cluster):
    for name, (result, _) in ALLOCATIONS.items():
        allocate(cluster, name, **result)
    for name, (_, words) in ALLOCATIONS.items():
        said = refusal(cluster, name)
        assert words in said and f"ResourceClaim {cluster.namespace}/{name}" in said, (name, said)
        nothing_of(cluster, name, NODE)
    cluster.kubectl("delete", "pods", *ALLOCATIONS, "--timeout=60s")


def test_allocation_of_another_driver_is_not_ours_to_prepare(cluster):
    """The kubelet has no such driver, says so, and does not ask ration."""
    allocate(cluster, "theirs", driver="nic.example.com")
    assert "nic.example.com" in refusal(cluster, "theirs")
    nothing_of(cluster, "theirs", NODE)
    cluster.kubectl("delete", "pod", "theirs", "--timeout=30s")


# ---- parameters

def test_parameters_of_another_type_are_refused_by_the_api_server_or_in_the_pods_events(cluster):
    def with_parameters(name, parameters):
        return claim(name, ask("2Gi"), configs=[{"opaque": {"driver": DRIVER, "parameters": parameters}}])
    with Api(cluster) as api:
        for parameters in ("text", ["policy"], 7, True, {}, {"apiVersion": 1, "kind": []}):
            assert api.refusal(with_parameters("x", parameters)), parameters
    good = {"apiVersion": "ration.dev/v1", "kind": "GpuConfig"}
    bad = {"nested": with_parameters("nested", {**good, "policy": {"policy": 3}}), "large": with_parameters("large", {**good, "weight": 10**30}),
           "disable": with_parameters("disable", {**good, "allowDisable": True}),
           "many": claim("many", ask("2Gi"), configs=[config(policy=9)] * 8)}
    with out_of_force(cluster, {"ration-gpu-claims": bad["disable"]}):
        for made in bad.values():
            cluster.create(made)
    for name, words in {"nested": "policy is not a number", "large": "weight is", "disable": "allowDisable: true counts only in a DeviceClass",
                        "many": "policy is 9"}.items():
        cluster.create(pod(name, of_claim=name))
        said = refusal(cluster, name)
        assert words in said, (name, said)
        nothing_of(cluster, name, cluster.pod(name)["spec"]["nodeName"])
    cluster.kubectl("delete", "pods", *bad, "--timeout=60s")


# ---- what the API offers, used against the others

def test_admin_access_gives_nothing(cluster):
    """In a namespace that an administrator has not labelled the API server refuses it, and in one that is labelled the agent does."""
    made = claim("admin", ask(adminAccess=True))
    with Api(cluster) as api:
        assert "admin" in api.refusal(made)
    cluster.kubectl("label", "namespace", cluster.namespace, *[f"{k}={v}" for k, v in ADMIN.items()])
    cluster.create(made)
    cluster.create(pod("admin", of_claim="admin"))
    said = refusal(cluster, "admin")
    assert "request r0: ration gives no admin access to GPUs" in said, said
    nothing_of(cluster, "admin", cluster.pod("admin")["spec"]["nodeName"])
    cluster.kubectl("delete", "pod", "admin", "--timeout=30s")


def test_claim_of_another_namespace_cannot_be_used(cluster):
    start(cluster, claimed("mine", ask("2Gi"), node=NODE))
    cluster.wait_running(names=["mine"])
    cluster.kubectl("create", "namespace", "thief")
    try:
        thief = bound("thief", NODE, of_claim="mine")
        thief["metadata"]["namespace"] = "thief"
        cluster.create(thief)
        events = cluster.wait_for(lambda: cluster.json("-n", "thief", "get", "events")["items"], 30, "an Event")
        cluster.wait_for(lambda: any("mine" in e["message"] for e in cluster.json("-n", "thief", "get", "events")["items"]), 30, "the refusal")
        assert not cluster.json("-n", "thief", "get", "pod", "thief")["status"].get("containerStatuses", [{}])[0].get("started"), events
    finally:
        cluster.kubectl("delete", "namespace", "thief", "--timeout=60s")
    assert run_in(cluster, "mine", "info")["total"] == 2048


def test_two_requests_of_a_template_are_one_grant_and_two_claims_of_a_container_are_refused(cluster):
    cluster.create(template("two", ask("2Gi"), ask("3Gi")))
    made = pod("two", of_template="two", containers=2, nodeSelector={"kubernetes.io/hostname": OTHER})    # with one GPU
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu", "request": "r0"}]
    cluster.create(made)
    cluster.wait_running(names=["two"])
    for container in ("c0", "c1"):    # of the one GPU, as one limit (ADR 056)
        assert run_in(cluster, "two", "info", container=container) | {"free": 0} == {"free": 0, "total": 5120, "device": 5120, "count": 1}
    cluster.create(claim("first", ask("1Gi")))
    cluster.create(claim("second", ask("1Gi")))
    both = pod("both", of_claim="first")
    both["spec"]["resourceClaims"].append({"name": "more", "resourceClaimName": "second"})
    both["spec"]["containers"][0]["resources"]["claims"].append({"name": "more"})
    cluster.create(both)
    said = refusal(cluster, "both")
    assert "container c0 uses the claim" in said and "make them requests of one claim" in said, said
    cluster.kubectl("delete", "pods", "both", "two", "--timeout=60s")


def test_extended_resource_of_the_class_is_a_claim_with_a_limit(cluster):
    """Every user may ask for it, and kube-scheduler makes the claim. It has no capacity, so it has the whole GPU, and no other claim is on it."""
    def asking(name, **more):
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": NODE}, "containers": [
                {"name": "c0", "image": pod("x", of_claim="x")["spec"]["containers"][0]["image"], "command": ["bash", "-c", SHOW],
                 "resources": {"limits": {EXTENDED: "1"}}, **more}]}}
    cluster.create(asking("extended"))
    cluster.wait_running(names=["extended"])
    assert run_in(cluster, "extended", "info") | {"free": 0} == {"free": 0, "total": 15 << 10, "device": 15 << 10, "count": 1}
    cluster.create(asking("second"))
    assert "cannot allocate" in cluster.wait_for(lambda: cluster.condition(cluster.pod("second"), "PodScheduled").get("message"), 20, "the reason")
    cluster.kubectl("delete", "pods", "extended", "second", "--timeout=60s")
    cluster.create(asking("privileged", securityContext={"privileged": True}))
    assert 'container "c0": privileged: true' in refusal(cluster, "privileged")
    cluster.kubectl("delete", "pod", "privileged", "--timeout=60s")


def test_claim_that_is_edited_or_deleted_while_it_is_prepared_keeps_its_limit(cluster):
    start(cluster, claimed("p", ask("2Gi"), node=NODE))
    cluster.wait_running(names=["p"])

    def patch(what, *more):
        return cluster.run("kubectl", "patch", "resourceclaim", "p", *more, "--type=merge", "-p", json.dumps(what), check=False)
    larger = claim("p", ask("9Gi"))["spec"]
    assert "immutable" in patch({"spec": larger}).stderr
    allocation = claims(cluster)["p"]["status"]["allocation"]
    allocation["devices"]["results"][0]["consumedCapacity"]["memory"] = "9Gi"
    refused = patch({"status": {"allocation": allocation}}, "--subresource=status").stderr
    assert "immutable" in refused or "cannot be modified once set" in refused, refused    # 1.36, 1.37
    assert patch({"metadata": {"labels": {"a": "b"}}}).returncode == 0
    cluster.kubectl("delete", "resourceclaim", "p", "--wait=false")
    assert claims(cluster)["p"]["metadata"]["deletionTimestamp"]
    cluster.lab("restart", f"kubelet@{NODE}")
    assert cluster.wait_for(lambda: run_in(cluster, "p", "info"), 30, "what p sees")["total"] == 2048
    cluster.kubectl("delete", "pod", "p", "--timeout=30s")
    cluster.wait_for(lambda: "p" not in claims(cluster), 30, "the end of the claim")


def test_claim_is_not_prepared_on_a_second_node(cluster):
    """Past kube-scheduler, which would not bind the pod there. The controller manager reserves an allocated claim for a pod that is bound."""
    start(cluster, claimed("shared", ask("2Gi"), node=NODE))
    cluster.wait_running(names=["shared"])
    cluster.create(bound("far", OTHER, of_claim="shared"))
    cluster.wait_for(lambda: any(f"is in the pool {NODE}, not on this node" in e["message"] for e in cluster.events("far")), 60, "the refusal")
    nothing_of(cluster, "shared", OTHER)
    cluster.kubectl("delete", "pod", "far", "--timeout=30s")
    assert run_in(cluster, "shared", "info")["total"] == 2048


# ---- slices that others write

def test_taint_that_another_writes_is_removed_and_what_runs_stays(cluster):
    """NoSchedule here: for NoExecute Kubernetes itself evicts the pods, before the agent has restored its slice."""
    made = published(cluster)[OTHER]
    start(cluster, claimed("p", ask("2Gi"), node=OTHER))
    cluster.wait_running(names=["p"])
    taint = [{"op": "add", "path": "/spec/devices/0/taints", "value": [{"key": "example.com/mine", "effect": "NoSchedule"}]}]
    cluster.kubectl("patch", "resourceslice", made["metadata"]["name"], "--type=json", "-p", json.dumps(taint))
    cluster.wait_for(lambda: not published(cluster)[OTHER]["spec"]["devices"][0].get("taints"), 20, "the slice without the taint")
    start(cluster, claimed("q", ask("2Gi"), node=OTHER))
    cluster.wait_running(names=["q"])
    assert run_in(cluster, "p", "info")["total"] == 2048


def test_pods_that_a_taint_evicts_leave_nothing_and_their_successors_are_prepared(empty):
    cluster, made = empty, published(empty)[OTHER]
    cluster.create(template("part", ask("2Gi")))
    body = pod("x", of_template="part", labels={"app": "d"}, nodeSelector={"kubernetes.io/hostname": OTHER})
    spec = {**body["spec"], "restartPolicy": "Always"}
    cluster.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": body["metadata"], "spec": spec}}})
    before = {p["metadata"]["uid"] for p in cluster.wait_running("app=d", count=2)}
    taint = [{"op": "add", "path": "/spec/devices/0/taints", "value": [{"key": "example.com/mine", "effect": "NoExecute"}]}]
    cluster.kubectl("patch", "resourceslice", made["metadata"]["name"], "--type=json", "-p", json.dumps(taint))

    def settled():
        running = [p for p in cluster.pods("app=d") if p["status"]["phase"] == "Running" and "deletionTimestamp" not in p["metadata"]]
        mine = [made for made in claims(cluster).values() if made["metadata"]["name"].startswith("d-")]
        assert len(running) == len(mine) == 2 and not published(cluster)[OTHER]["spec"]["devices"][0].get("taints")
        prepared = [path for path in left_on(cluster, OTHER) if path.startswith("run/ration/claims/")]
        assert len(prepared) == 2, prepared
        return running
    running = cluster.wait_for(settled, 60, "two pods with a claim each")
    print(f"\n{len(before - {p['metadata']['uid'] for p in running})} of 2 pods were evicted")
    assert all(run_in(cluster, p, "info")["total"] == 2048 for p in running)
    cluster.kubectl("delete", "deployment", "d", "--timeout=60s")
    cluster.wait_for(lambda: not cluster.pods("app=d"), 60, "the end of the pods")


@pytest.mark.parametrize("generation", [0, 10**9], ids=["earlier", "later"])
def test_slice_of_another_generation_is_removed_and_its_device_gets_no_grant(cluster, generation):
    """As an agent of another uid of the node may have left it. While it is there, kube-scheduler believes the highest generation."""
    cluster.create({"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": {"name": "left"}, "spec": {
        "driver": DRIVER, "nodeName": OTHER, "pool": {"name": OTHER, "generation": generation, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-of-before", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "99Gi"}, "cores": {"value": "100"}}}]}})
    start(cluster, claimed("p", ask("2Gi"), node=OTHER))
    cluster.wait_for(lambda: "left" not in [s["metadata"]["name"] for s in cluster.json("get", "resourceslices")["items"]], 20, "its end")
    start(cluster, claimed("q", ask("2Gi"), node=OTHER))
    cluster.wait_running(names=["q"])
    assert run_in(cluster, "q", "info")["total"] == 2048
    if claims(cluster)["p"]["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-of-before":
        assert "is not on this node (any more): delete the pod" in refusal(cluster, "p")
        nothing_of(cluster, "p", OTHER)
    else:
        cluster.wait_running(names=["p"])
    cluster.kubectl("delete", "pods", "p", "q", "--timeout=60s")
