"""The agent is upgraded and rolled back, node by node, while claims are in use: no container restarts, each keeps exactly its memory, no slice
is withdrawn, and what ends or begins meanwhile is released and prepared. (Pods with aliyun.com/gpu-mem: test_cgpu_upgrade.py, test_upgrade.py.)"""
import threading

import pytest

import testimages
from claims import DRIVER, ask, claim, claims, left_on, pod, published, template
from cluster import ROOT
from gpupods import fingerprint
from gpuprogram import OUT_OF_MEMORY, program, run_in

pytestmark = pytest.mark.long(200)

NODES = ["dra-u.192.168.60.6", "dra-v.192.168.60.7"]
LAYOUT = [f"{node}=2x24564MiB,dra" for node in NODES]
GIB = [1, 2, 3, 5, 8]    # of the pods of each node
HOLD = 200               # MiB that each program holds all the time


@pytest.fixture
def cluster(lab):
    made = lab(LAYOUT)
    published(made)
    testimages.give_next(made)
    return made


class Slices(threading.Thread):
    """Lists the ResourceSlices all the time: one that is missing or lists no GPU would keep pods from its node, or end the node's claims."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.seen, self.looks, self.done = cluster, set(), 0, threading.Event()
        self.start()

    def run(self):
        while not self.done.wait(0.3):
            slices = [s for s in self.cluster.json("get", "resourceslices")["items"] if s["spec"]["driver"] == DRIVER]
            self.seen.add(tuple(sorted((s["spec"]["nodeName"], s["metadata"]["uid"], len(s["spec"].get("devices", []))) for s in slices)))
            self.looks += 1

    def end(self):
        self.done.set()
        self.join(20)
        return self.seen


def on_node(made, node):
    made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return made


def holder(name, node, **source):
    return on_node(pod(name, command=program("hold", HOLD), **source), node)


def check_limits(cluster, pods):
    """pods: {name: GiB}. A process that starts now sees the claim, and cannot have more."""
    for name, gib in pods.items():
        seen = cluster.wait_for(lambda name=name: run_in(cluster, name, "info"), 20, f"what {name} sees")
        assert seen["total"] == gib << 10, (name, seen)
        assert run_in(cluster, name, "take", gib << 10)["result"] == OUT_OF_MEMORY, name


def test_the_agent_is_upgraded_and_rolled_back_under_claims(cluster):
    cluster.create({"apiVersion": "v1", "kind": "List", "items": [
        *[template(f"t{gib}", ask(f"{gib}Gi")) for gib in GIB], claim("shared", ask("4Gi")),
        *[holder(f"p{at}-{gib}", node, of_template=f"t{gib}") for at, node in enumerate(NODES) for gib in GIB],
        holder("s0", NODES[0], of_claim="shared"), holder("s1", NODES[0], of_claim="shared")]})
    have = {**{f"p{at}-{gib}": gib for at in range(2) for gib in GIB}, "s0": 4, "s1": 4}
    before = {p["metadata"]["name"]: p for p in cluster.wait_running(names=list(have), timeout=150)}
    slices, chart = Slices(cluster), ROOT / "deploy/charts/ack-ai-installer"

    def check(step):
        """One more pod came meanwhile, and one has gone."""
        new, old = f"new-{step}", {"upgraded": "p0-8", "back": "p1-8"}[step]
        for at, node in enumerate(NODES):
            cluster.create(holder(f"{new}-{at}", node, of_template="t2"))
            have[f"{new}-{at}"] = 2
        cluster.kubectl("delete", "pod", old, "--wait=true")
        del have[old], before[old]
        cluster.rolled_out("ds/gpushare-device-plugin-ds")
        now = {p["metadata"]["name"]: p for p in cluster.wait_running(names=list(have), timeout=90)}
        assert {name: fingerprint(now[name]) for name in before} == {name: fingerprint(p) for name, p in before.items()}
        check_limits(cluster, have)
        before.update(now)

    try:
        cluster.run("helm", "upgrade", "ack-ai-installer", chart, "-n", "kube-system", "--reuse-values", "--set", "image.tag=next")
        check("upgraded")
        cluster.run("helm", "rollback", "ack-ai-installer", "-n", "kube-system")
        check("back")
    finally:
        cluster.run("helm", "rollback", "ack-ai-installer", "1", "-n", "kube-system", check=False)
        cluster.rolled_out("ds/gpushare-device-plugin-ds")
    assert len(slices.end()) == 1 and [devices for _, _, devices in list(slices.seen)[0]] == [2, 2], slices.seen
    cluster.kubectl("delete", "pods", "--all", "--wait=true", "--timeout=120s")
    cluster.kubectl("delete", "resourceclaim", "shared", "--timeout=30s")
    cluster.wait_for(lambda: not claims(cluster) and not any(left_on(cluster, node) for node in NODES), 60, "the end of claims and grants")
    print(f"\n{len(have)} pods at the end, the slices looked at {slices.looks} times")
