"""`ration why` about pods that ask for GPUs by ResourceClaims: what kube-scheduler's allocator sees."""
import json
import subprocess

import pytest

from listings import BUILD, gpu_device, node, resource_claim, resource_slice

RATION = BUILD / "src/cli/ration"
SLICE = {"metadata": {"name": "gpu.ration.dev"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.ration.dev'"}}]}}
WAITS = "0/2 nodes are available: 2 cannot allocate all claims."


def pod(*references, on=None, made=(), name="web-0"):
    """A pod that names these claims, or templates ("template:x") whose claims were made."""
    claims = [{"name": f"ref-{i}"} | ({"resourceClaimTemplateName": claim[9:]} if claim.startswith("template:") else
              {"resourceClaimName": claim}) for i, claim in enumerate(references)]
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"containers": [{"name": "main"}], "resourceClaims": claims} | ({"nodeName": on} if on else {}),
            "status": {"phase": "Running" if on else "Pending",
                       "conditions": [] if on else [{"type": "PodScheduled", "status": "False", "message": WAITS}],
                       "resourceClaimStatuses": [{"name": ref, "resourceClaimName": claim} for ref, claim in made]}}


def run(cluster, *args, status=0):
    done = subprocess.run([RATION, "why", "-n", "default", *args], env=cluster.environment(), capture_output=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout.decode() if status == 0 else done.stderr.decode()


def arrange(cluster, claims, pods, slices=None, classes=(SLICE,), **more):
    cluster.set([node("a", "10.0.0.1", 16160, 16160, mode="dra"), node("b", "10.0.0.2", 16160, mode="dra")], pods,
                slices=slices or [resource_slice("a", 16160, 16160), resource_slice("b", 16160)], claims=claims,
                classes=list(classes), **more)


def results(cluster):
    """(node, device) -> the result, of the first request of the first claim."""
    answer = json.loads(run(cluster, "-o", "json", "web-0"))
    return {(d["node"], d["device"]): d["result"] for d in answer["claims"][0]["requests"][0]["devices"]}


def test_each_device_says_why_it_does_not_fit(cluster):
    tainted = gpu_device("gpu-1", 1, 16160, "GPU-a-1", taints=[{"key": "gpu.ration.dev/unhealthy", "effect": "NoSchedule"}])
    slices = [resource_slice("a", devices=[gpu_device("gpu-0", 0, 16160, "GPU-a-0"), tainted]), resource_slice("b", 16160)]
    arrange(cluster, [resource_claim("new", "6Gi", cores="30"), resource_claim("x", "10Gi", "a", pods=["p"]),
                    resource_claim("y", "2Gi", "b", cores="75", pods=["q"])], [pod("new")], slices)
    assert run(cluster, "web-0") == """\
Pod default/web-0 asks for devices by ResourceClaims. kube-scheduler allocates them; ration's scheduler has no part in that.
It is not scheduled: 0/2 nodes are available: 2 cannot allocate all claims.

Claim new is not allocated.
  Request gpu asks for 1 device of class gpu.ration.dev with 6 GiB of memory and 30 percent of computing power.
  None of 3 devices fits now.
  NODE  DEVICE  FREE MEMORY             FREE CORES  RESULT
  a     gpu-0   5920 MiB of 16160 MiB   100%        5920 MiB of memory are free, 6 GiB are asked for
  a     gpu-1   16160 MiB of 16160 MiB  100%        it has the taint gpu.ration.dev/unhealthy:NoSchedule, which the request does not tolerate
  b     gpu-0   14112 MiB of 16160 MiB  25%         25 percent of computing power are free, 30 are asked for
"""


def test_devices_that_fit_are_told(cluster):
    arrange(cluster, [resource_claim("new", "6Gi"), resource_claim("x", "10Gi", "a", pods=["p"])], [pod("new")])
    shown = run(cluster, "web-0")
    assert ("  2 of 3 devices fit now: something else keeps the pod from their nodes (`kubectl describe pod`), or kube-scheduler "
            "has not tried again yet.\n") in shown
    assert results(cluster) == {("a", "gpu-0"): "memory", ("a", "gpu-1"): "fits", ("b", "gpu-0"): "fits"}


def test_node_names_the_devices_to_show(cluster):
    arrange(cluster, [resource_claim("new", "16Gi")], [pod("new")])
    rows = [line.split()[:2] for line in run(cluster, "--node", "b", "web-0").splitlines() if "gpu-0" in line or "gpu-1" in line]
    assert rows == [["b", "gpu-0"]]


def test_more_than_a_device_gives_is_told_apart_from_a_full_one(cluster):
    arrange(cluster, [resource_claim("new", "16Gi")], [pod("new")])
    assert set(results(cluster).values()) == {"moreMemoryThanAllowed"}
    assert "it gives at most 15 GiB of memory" in run(cluster, "web-0")


@pytest.mark.parametrize("expression, result", [
    ("device.attributes['gpu.ration.dev'].productName == 'Tesla V100'", "fits"),
    ("device.attributes['gpu.ration.dev'].productName == 'NVIDIA A100'", "selector"),
    ("device.attributes['gpu.ration.dev'].missing == 'x'", "selectorFails"),
    ("device.attributes['gpu.ration.dev'].productName.matches('V1.*')", "unknown"),
])
def test_selectors_are_evaluated_where_they_are_simple(cluster, expression, result):
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.ration.dev", "selectors": [{"cel": {"expression": expression}}]}}]
    arrange(cluster, [resource_claim("new", requests=requests)], [pod("new")])
    assert set(results(cluster).values()) == {result}
    assert (expression in run(cluster, "web-0")) == (result != "fits")


def test_a_selector_cannot_control_the_terminal(cluster):
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.ration.dev", "selectors": [
        {"cel": {"expression": "device.driver ==\n\t'\x1b[2J'"}}]}}]
    arrange(cluster, [resource_claim("new", requests=requests)], [pod("new")])
    assert "it is not selected by device.driver ==  '?[2J'" in run(cluster, "web-0")


def test_a_missing_class_and_a_claim_of_each_other_state(cluster):
    requests = [{"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": "big.example.com"},
                                                   {"name": "small", "deviceClassName": "gpu.ration.dev"}]}]
    arrange(cluster, [resource_claim("new", requests=requests), resource_claim("broken", "0", "a")],
          [pod("new", "gone", "template:slice", "broken")])
    shown = run(cluster, "web-0")
    assert "There is no DeviceClass big.example.com: no device is considered." in shown
    assert "Request gpu/small asks for 1 device of class gpu.ration.dev.\n  3 of 3 devices fit now" in shown
    assert "Claim gone does not exist: create it, and the pod is scheduled." in shown
    assert "The claim of template slice is not created yet" in shown
    assert ("Claim broken cannot be used: ResourceClaim default/broken: allocation result 0: consumedCapacity memory is 0: "
            "must be above 0.") in shown


def test_an_allocated_claim_says_where_it_is_and_who_shares_it(cluster):
    arrange(cluster, [resource_claim("made", "3Gi", "a", "gpu-1", cores="30", pods=["web-0", "web-1"]),
                    resource_claim("lost", "2Gi", "a", "gpu-9", pods=["web-0"])],
          [pod("template:slice", "lost", on="a", made=[("ref-0", "made")])])
    assert run(cluster, "web-0") == """\
Pod default/web-0 asks for devices by ResourceClaims. kube-scheduler allocates them; ration's scheduler has no part in that.
It is on node a.

Claim made is allocated:
  GPU 1 of node a (Tesla V100, GPU-a-1): 3 GiB of memory and 30 percent of computing power.
It is shared with pod web-1.

Claim lost is allocated:
  device gpu-9 of node a: 2 GiB of memory. No ResourceSlice lists this device: it is gone, or the node's agent has withdrawn it; the pod does not start. `ration doctor` says what to do.
"""


def test_a_waiting_pod_is_bound_to_the_node_of_its_allocated_claim(cluster):
    arrange(cluster, [resource_claim("shared", "3Gi", "b", pods=["other"])], [pod("shared")])
    assert ("It is not reserved for this pod. The pod can only run on node b, where the claim's GPU is.\n"
            "It is shared with pod other.\n") in run(cluster, "web-0")


def test_claims_of_other_drivers_only(cluster):
    arrange(cluster, [resource_claim("nic", requests=[{"name": "nic", "exactly": {"deviceClassName": "nic.example.com"}}])], [pod("nic")],
          classes=[{"metadata": {"name": "nic.example.com"},
                    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'nic.example.com'"}}]}}])
    assert "  Its selectors select no device of ration.\n" in run(cluster, "web-0")


def test_what_may_not_be_read_is_told(cluster):
    arrange(cluster, [resource_claim("new", "6Gi")], [pod("new")], forbidden=["resourceslices"])
    assert "resourceslices is forbidden" in run(cluster, "web-0", status=1)
