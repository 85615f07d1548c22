"""kubectl-inspect-cgpu in a cluster where ResourceClaims have GPUs (nodes in mode dra)."""
import json

import pytest

from listings import node, pod, resource_claim, resource_slice


def test_claims_are_counted_beside_the_pods_of_other_nodes(cluster):
    cluster.set([node("a", "10.0.0.1", 16160, 16160, mode="dra"), node("b", "10.0.0.2", 16160, mode="cgpu")],
                [pod("p", "b", 3, "GPU-b-0")], slices=[resource_slice("a", 16160, 16160)],
                claims=[resource_claim("x", "3Gi", "a", pods=["web-0"]), resource_claim("y", "4Gi", "a", "gpu-1", pods=["web-1"]),
                        resource_claim("waits", "4Gi")])
    # First row before alignment: 1+1 + 8+1 + 4+1 + 4+1 + 4 and the newline = 26 characters, and 20 more.
    assert cluster.show() == """\
NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  GPU Memory(GiB)
a     10.0.0.1   3/15                   4/15                   7/30
b     10.0.0.2   3/15                   0/0                    3/15
----------------------------------------------
Allocated/Total GPU Memory In Cluster:
10/45 (22%)
"""


def test_details_have_a_row_for_each_pod_that_uses_a_claim(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, mode="dra")], slices=[resource_slice("n", 16160)],
                claims=[resource_claim("one", "3Gi", "n", pods=["web-0"]), resource_claim("two", "2Gi", "n", pods=["a", "b"]),
                        resource_claim("left", "1Gi", "n", namespace="team")])
    # The rows with their three tabs and the newline: 9+7+1+4 twice, 5+7+1+4, 11+4+1+4: 79 characters, and 10 more.
    assert cluster.show("-d") == """\

NAME:       n
IPADDRESS:  10.0.0.1

NAME         NAMESPACE  GPU0(Allocated)
a(shared)    default    2
b(shared)    default    2
web-0        default    3
left(claim)  team       1
Allocated :  6 (40%)
Total :      15
-----------------------------------------------------------------------------------------


Allocated/Total GPU Memory In Cluster:  6/15 (40%)
"""


def test_a_claim_to_a_device_that_is_gone_is_pending(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, mode="dra")], slices=[resource_slice("n", 16160)],
                claims=[resource_claim("gone", "3Gi", "n", "gpu-9", pods=["web-0"])])
    assert cluster.show().splitlines()[1].split() == ["n", "10.0.0.1", "0/15", "3", "3/15"]


def test_json_has_the_bytes_of_each_claim(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, mode="dra")], slices=[resource_slice("n", 16160)],
                claims=[resource_claim("one", "3Gi", "n", cores="30", pods=["web-0"]), resource_claim("left", "1Gi", "n")])
    shown = json.loads(cluster.show("-o", "json"))
    left, web = shown["nodes"][0]["pods"]
    assert shown["nodes"][0]["mode"] == "dra" and shown["nodes"][0]["allocated"] == 4
    assert web == {"namespace": "default", "name": "web-0", "allocated": {"0": 3}, "pending": 0, "claims": [
        {"name": "one", "request": "gpu", "gpu": 0, "memoryBytes": 3 << 30, "cores": 30}]}
    assert left["name"] == "left" and left["unusedClaim"] is True


def test_one_node_is_asked_for_its_own_slices(cluster):
    cluster.set([node("n", "10.0.0.1", 16160, mode="dra")], slices=[resource_slice("n", 16160), resource_slice("m", 16160)],
                claims=[resource_claim("x", "3Gi", "n", pods=["p"]), resource_claim("y", "3Gi", "m", pods=["q"])])
    assert cluster.show("n").splitlines()[1].split() == ["n", "10.0.0.1", "3/15", "3/15"]
    asked = [word for call in cluster.calls() for word in call["argv"] if "resourceslices" in word]
    assert asked == ["--raw=/apis/resource.k8s.io/v1/resourceslices?limit=500&fieldSelector="
                     "spec.driver%3Dgpu.ration.dev%2Cspec.nodeName%3Dn"]


def test_a_cluster_without_such_a_node_is_not_asked(cluster):
    cluster.set([node("n", "10.0.0.1", 16160)], [pod("p", "n", 3, "GPU-n-0")])
    assert cluster.show().splitlines()[1].split()[2:] == ["3/15", "3/15"]
    assert not any("resource.k8s.io" in word for call in cluster.calls() for word in call["argv"])


def test_a_claim_that_cannot_be_understood_does_not_hide_the_others(cluster):
    broken = resource_claim("broken", "-3Gi", "n")
    cluster.set([node("n", "10.0.0.1", 16160, mode="dra")], slices=[resource_slice("n", 16160)],
                claims=[broken, resource_claim("x", "3Gi", "n", pods=["p"])])
    done = cluster.run()
    assert done.returncode == 0 and done.stdout.decode().splitlines()[1].split()[2:] == ["3/15", "3/15"]
    assert done.stderr.decode() == (
        "kubectl-inspect-cgpu: warning: ResourceClaim default/broken: allocation result 0: consumedCapacity memory is -3Gi: "
        "must not be negative\n")


@pytest.mark.parametrize("what", ["resourceslices", "resourceclaims"])
def test_claims_that_may_not_be_read_are_an_error_and_no_zero(cluster, what):
    cluster.set([node("n", "10.0.0.1", 16160, mode="dra")], slices=[], claims=[], forbidden=[what])
    done = cluster.run()
    assert done.returncode == 1 and done.stdout == b"" and f"{what} is forbidden" in done.stderr.decode()
