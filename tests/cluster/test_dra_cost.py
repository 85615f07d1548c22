"""The same Job with claims and with aliyun.com/gpu-mem, in turns on one API server: pods per second, and the time from a pod's
creation until it is bound and until it runs. The nodes are the same; only their label differs."""
import os
import statistics
import time

import pytest

from api import Connections
from claims import RELEASES, ask, published, template
from cluster import built
from gpupods import IMAGE, annotation
from storm import GPU_MEM, Watch, is_over

pytestmark = [pytest.mark.alone, pytest.mark.full]    # a measurement

NODES = [f"cost-{kind}{i}.192.168.23.{number}=4x16160MiB,{mode}" for number, (kind, mode, i) in enumerate(
    ((kind, mode, i) for kind, mode in (("share", "cgpu"), ("claim", "dra")) for i in (0, 1)), 1)]
PODS, ROUNDS = int(os.environ.get("RATION_JOB_PODS") or 40), 2
GIB = 3    # five pods for each of eight GPUs: 40 run at a time


class Times(Watch):
    """When the watch has first shown each pod, that it is bound, that it runs, and that it has ended."""

    def __init__(self, api, namespace):
        super().__init__(api, f"/api/v1/namespaces/{namespace}/pods")
        self.at = {}    # uid -> {what: monotonic s}

    def take(self, _kind, obj):
        now, seen = time.monotonic(), self.at.setdefault(obj["metadata"]["uid"], {})
        seen.setdefault("created", now)
        if obj["spec"].get("nodeName"):
            seen.setdefault("bound", now)
        if obj["status"].get("phase") == "Running" or is_over(obj):
            seen.setdefault("running", now)
        if obj["status"].get("phase") == "Succeeded":
            seen.setdefault("succeeded", now)


def job(name, by_claim):
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "1"]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    if by_claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "part"}]
        container["resources"] = {"claims": [{"name": "gpu"}]}
    else:
        container["resources"] = {"limits": {GPU_MEM: GIB}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"parallelism": PODS, "completions": PODS, "backoffLimit": 0, "template": {"spec": spec}}}


def run(cluster, name, by_claim):
    """(pods per second, median s until bound, median s from bound until running)"""
    times = Times(Connections(cluster.environment["KUBECONFIG"]), cluster.namespace)
    times.start()
    try:
        cluster.create(job(name, by_claim))
        cluster.wait_for(lambda: cluster.json("get", "job", name)["status"].get("succeeded") == PODS, 300, f"the end of {name}")
        cluster.wait_for(lambda: sum("succeeded" in at for at in times.at.values()) == PODS, 20, "the watch has shown it")
    finally:
        times.stop()
    seen = list(times.at.values())
    cluster.kubectl("delete", "job", name, "--wait=true")
    cluster.wait_for(lambda: not cluster.pods(), 60, "the pods are gone")
    return (PODS / (max(at["succeeded"] for at in seen) - min(at["created"] for at in seen)),
            statistics.median(at["bound"] - at["created"] for at in seen),
            statistics.median(at["running"] - at["bound"] for at in seen))


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release or "default")
def test_a_job_with_claims_beside_one_with_gpu_mem(lab, release):
    cluster = lab(NODES, options=built(release))
    published(cluster)
    modes = {annotation(node, "ration.dev/mode") for node in cluster.nodes().values()}
    assert modes == {"cgpu", "dra"}
    cluster.create(template("part", ask(f"{GIB}Gi")))
    run(cluster, "warm-share", False)
    run(cluster, "warm-claim", True)
    table = [(kind, *run(cluster, f"{kind}-{i}", kind == "claims")) for i in range(ROUNDS) for kind in ("gpu-mem", "claims")]
    for kind, rate, bound, running in table:
        print(f"\n{PODS} pods by {kind}: {rate:.2f} pods/s, bound {bound:.2f} s after their creation, running {running:.2f} s after that", end="")
    print(f"; load {os.getloadavg()[0]:.1f}")
    cluster.wait_for(lambda: not cluster.json("get", "resourceclaims")["items"], 60, "the end of the claims")
