"""`ration top` on nodes in mode dra: the pods that use a claim stand for it."""
import json
import os
import subprocess

import pytest

from listings import BUILD, node, resource_claim
from terminal import Terminal
from ui_server import text_server

PAGE = """\
ration_gpu_memory_bytes{gpu="0",UUID="GPU-n-0",modelName="Tesla V100"} 16945053696
ration_container_limit_bytes{namespace="default",pod="slice",container="claim",gpu="0",UUID="GPU-n-0"} 3221225472
"""


@pytest.fixture(name="metrics")
def _metrics():
    """The page of an agent; its port."""
    with text_server(lambda: PAGE) as port:
        yield port


def world(cluster, port, mode, **more):
    agent = {"metadata": {"name": "agent-x", "namespace": "kube-system"}, "spec": {"nodeName": "n", "containers": [{"name": "a"}]}}
    cluster.set([node("n", "10.0.0.1", 16160, mode=mode)], [agent], forward=port, **more)


def top(cluster, *args):
    return subprocess.run([BUILD / "src/cli/ration", "top", "--once", *args, "n"], env=cluster.environment(), capture_output=True,
                          text=True, timeout=60)


def test_a_claim_is_shown_by_its_pods(cluster, metrics):
    world(cluster, metrics, "dra", slices=[], claims=[resource_claim("slice", "3Gi", "n", pods=["web-0", "web-1"])])
    shown = top(cluster)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[2].split(None, 6) == ["n", "0", "-/3072MiB", "-", "-", "-", "default/web-0, web-1 (claim slice)"]
    *_, gpus = json.loads(top(cluster, "-o", "json").stdout).values()
    holder = gpus[0]["holders"][0]
    assert (holder["claim"], holder["pods"]) == ("slice", ["web-0", "web-1"])
    # A table is made of two samples; the claims are read once for both.
    asked = [word for call in cluster.calls() for word in call["argv"] if "resource.k8s.io" in word]
    assert asked == ["--raw=/apis/resource.k8s.io/v1/resourceclaims?limit=500"] * 2


def test_claims_that_may_not_be_read_leave_their_own_names(cluster, metrics):
    world(cluster, metrics, "dra", slices=[], forbidden=["resourceclaims"])
    shown = top(cluster)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "the pods that use ResourceClaims are not known: " in shown.stdout.splitlines()[-1]
    assert shown.stdout.splitlines()[2].endswith("default/(claim slice)")


def test_claims_that_could_not_be_read_are_read_later(cluster, metrics):
    claims = [resource_claim("slice", "3Gi", "n", pods=["web-0"])]
    world(cluster, metrics, "dra", slices=[], claims=claims, forbidden=["resourceclaims"])
    terminal = Terminal([BUILD / "src/cli/ration", "top", "n"], cluster.environment())
    terminal.reads(lambda seen: "are not known" in seen and "default/(claim slice)" in seen)
    world(cluster, metrics, "dra", slices=[], claims=claims)
    terminal.reads(lambda seen: "default/web-0 (claim slice)" in seen, seconds=25)    # at most each 10 s
    os.write(terminal.fd, b"q")
    assert terminal.ends() == 0


def test_on_other_nodes_claims_are_not_asked_for(cluster, metrics):
    world(cluster, metrics, "cgpu")
    shown = top(cluster)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[2].endswith("default/slice/claim")
    assert not any("resource.k8s.io" in word for call in cluster.calls() for word in call["argv"])
