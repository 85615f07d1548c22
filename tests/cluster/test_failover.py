"""The leading pair, kube-scheduler and ration-scheduler, dies in the middle of a burst; the other one goes on.

The nodes are objects made by hand, so that the burst needs no 500 containers: API server, kube-scheduler and
ration-scheduler are the real ones, and these are what a fail-over is about. 120 pods; 500 with `./check full`.
"""
import json
import os
import subprocess
import threading
import time

import pytest

from gpupods import GPU_MEM

pytestmark = [pytest.mark.alone, pytest.mark.long(45)]

PODS = 500 if os.environ.get("RATION_FULL") else 120
NODES, CARDS, CARD_UNITS = 10, 8, 16
# kube-scheduler's leader election by default: leaseDuration, and retryPeriod with its jitter (client-go JitterFactor).
LEASE_S, RETRY_S = 15, 2 * 2.2
LEASE = ("-n", "kube-system", "get", "lease", "ack-co-scheduler")


def node(i):
    name = f"by-hand-{i}"
    cards = [{"index": c, "uuid": f"GPU-{name}-{c}", "model": "Tesla V100", "mib": CARD_UNITS * 1024, "healthy": True}
             for c in range(CARDS)]
    size = {"cpu": "64", "memory": "256Gi", "pods": "500", GPU_MEM: str(CARDS * CARD_UNITS)}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"by-hand": "yes", "kubernetes.io/hostname": name},
                         "annotations": {"ration.dev/gpus": json.dumps(cards), "ration.dev/unit": "1024",
                                         "ration.dev/mode": "share"}},
            "status": {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}}


def pod(i):
    limits = {GPU_MEM: str(1 + i % 3)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"burst-{i:03}"},
            "spec": {"nodeSelector": {"by-hand": "yes"}, "tolerations": [{"operator": "Exists"}],
                     "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}]}}


class Watch(threading.Thread):
    """Every state of every pod that the API server shows, checked as it comes."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.process, self.stopping = cluster, None, False
        self.pods = f"/api/v1/namespaces/{cluster.namespace}/pods"
        self.version = json.loads(cluster.kubectl("get", "--raw", self.pods))["metadata"]["resourceVersion"]
        self.where, self.used, self.bound_at, self.wrong = {}, {}, [], []

    def run(self):
        # The API server ends the watch of a reader that is slow; from the last version on nothing is missed.
        while not self.stopping:
            self.process = subprocess.Popen(
                ["kubectl", "get", "--raw", f"{self.pods}?watch=1&resourceVersion={self.version}"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self.cluster.environment)
            for line in self.process.stdout:
                event = json.loads(line)
                assert event["type"] != "ERROR", event
                self.version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "DELETED":
                    self.look(event["object"])
            self.process.wait()
            time.sleep(0.1)

    def look(self, shown):
        uid, on = shown["metadata"]["uid"], shown["spec"].get("nodeName")
        text = shown["metadata"].get("annotations", {}).get("ration.dev/placement")
        now = (on, text) if on else None
        if uid in self.where:
            if now != self.where[uid]:
                self.wrong.append(f"{shown['metadata']['name']} was bound twice: {self.where[uid]}, then {now}")
            return
        if not on:
            return
        self.where[uid] = now
        self.bound_at.append(time.monotonic())
        for share in json.loads(text)["containers"]["main"]:
            if not share["uuid"].startswith(f"GPU-{on}-"):
                self.wrong.append(f"{shown['metadata']['name']} on node {on} was placed on {share['uuid']}")
            self.used[share["uuid"]] = self.used.get(share["uuid"], 0) + share["units"]
            if self.used[share["uuid"]] > CARD_UNITS:
                self.wrong.append(f"{share['uuid']} is over its total: {self.used[share['uuid']]}")

    def stop(self):
        self.stopping = True
        self.process.terminate()
        self.join(10)


@pytest.fixture
def cluster(lab):
    cluster = lab()
    cluster.create({"apiVersion": "v1", "kind": "List", "items": [node(i) for i in range(NODES)]})
    yield cluster
    cluster.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")
    cluster.kubectl("delete", "nodes", "-l", "by-hand=yes")


def pairs_ready(cluster):
    """Two replicas, ready, on two nodes; by name."""
    pods = cluster.pods("app=ack-co-scheduler", namespace="kube-system")
    assert len(pods) == 2 and all(s["ready"] for p in pods for s in p["status"]["containerStatuses"])
    assert len({p["spec"]["nodeName"] for p in pods}) == 2
    return {p["metadata"]["name"]: p for p in pods}


def leader(cluster):
    """The name of its pod, and what tells this process from the one that the kubelet starts in its place."""
    name, _, process = cluster.json(*LEASE)["spec"]["holderIdentity"].partition("_")
    return name, process


def processes(cluster, pair):
    """The pids of both containers, as its node sees them."""
    table = [line.split() for line in cluster.ctr(pair["spec"]["nodeName"], "tasks", "ls").splitlines()]
    ids = [s["containerID"].removeprefix("containerd://") for s in pair["status"]["containerStatuses"]]
    return [row[1] for row in table if row[0] in ids]


def rate(times):
    return (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 0.0


def test_the_leader_dies_in_the_middle_of_a_burst(cluster):
    pairs = cluster.wait_for(lambda: pairs_ready(cluster), 120, "both replicas are ready")
    first = cluster.wait_for(lambda: leader(cluster)[0] in pairs and leader(cluster), 60, "one leads")
    pids = processes(cluster, pairs[first[0]])
    assert len(pids) == 2
    watch = Watch(cluster)
    watch.start()
    try:
        creator = threading.Thread(target=cluster.create, args=[
            {"apiVersion": "v1", "kind": "List", "items": [pod(i) for i in range(PODS)]}])
        creator.start()
        cluster.wait_for(lambda: len(watch.bound_at) >= PODS * 2 // 5, 120, "two fifths of the burst are bound")
        cluster.enter(pairs[first[0]]["spec"]["nodeName"], "kill", "-9", *pids)
        killed = time.monotonic()
        cluster.wait_for(lambda: len(watch.bound_at) == PODS or watch.wrong or not watch.is_alive(), 180, "all are bound")
        creator.join()
        time.sleep(1)    # what comes twice would come now
    finally:
        watch.stop()
    assert not watch.wrong, watch.wrong[:10]
    assert len(watch.where) == PODS
    # What the dead one had sent may show a moment after the kill: the fail-over is the longest pause from then on.
    at, last = watch.bound_at, sum(t < killed for t in watch.bound_at) - 1
    cut = max(range(last, len(at) - 1), key=lambda i: at[i + 1] - at[i], default=len(at) - 1)
    before, after = at[:cut + 1], at[cut + 1:]
    gap = after[0] - killed if after else 0.0
    print(f"| {PODS} | {len(before)} | {rate(before):.1f} | {gap:.1f} | {rate(after):.1f} |")
    assert after, "the leader died after the burst"
    assert leader(cluster) != first
    assert gap < LEASE_S + 2 * RETRY_S, "one that lives leads within the lease time"
    assert rate(after) > rate(before) / 2
    book = json.loads(cluster.scheduler_get("/inspect"))
    assert book["wrongSums"] == 0 and book["overcommittedGPUs"] == 0
    assert {d["uuid"]: d["usedGPU"] for n in book["nodes"] for d in n["devs"] if d["usedGPU"]} == watch.used
    lease = cluster.json("-n", "kube-system", "get", "lease", "ration-ledger")["spec"]
    assert lease["holderIdentity"] == "kube-system/ack-co-scheduler" and lease["leaseTransitions"] == 0
