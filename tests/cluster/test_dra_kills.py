"""The agent and the kubelet killed while claims are prepared and released: nothing leaks, nothing is given twice."""
import json
import threading
import time

import pytest

from agentpods import agent, supervisor_pid, worker_pid
from claims import ask, claimed, claims, device_of, left_on, pod, published, start, template
from cluster import is_ready
from gpuprogram import run_in

pytestmark = pytest.mark.once

NODE = "dra-k.192.168.60.3"
NODES = [f"{NODE}=2x81559MiB,dra"]


@pytest.fixture
def cluster(lab, release_options):
    made = lab(NODES, options=release_options)
    published(made)
    return made


# A kubelet that has just started fails for pods until it has registered the driver again. It tries them again at its next
# synchronisation, after 60 to 90 s (kuberuntime_manager.go SyncPod() returns no error, pod_workers.go completeWork(); 1.36.3).
# One that never lives so long may start no pod.
KUBELET_LIVES_S = 100


class Killer:
    """Kills the agent's worker, and now and then the kubelet, while the block runs."""

    def __init__(self, cluster, *, kubelet=True, every=1):
        self.cluster, self.kubelet, self.every = cluster, kubelet, every
        self.kills, self.stop, self.failure, self.started = 0, threading.Event(), None, -KUBELET_LIVES_S
        self.supervisor = supervisor_pid(cluster, NODE)

    def __enter__(self):
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        return self

    def _run(self):
        try:
            while not self.stop.wait(self.every):    # faster is a crash loop
                if self.kubelet and time.monotonic() > self.started + KUBELET_LIVES_S:
                    self.cluster.lab("restart", "--kill", f"kubelet@{NODE}")
                    self.started = time.monotonic()
                elif worker := worker_pid(self.cluster, NODE, self.supervisor):
                    self.cluster.enter(NODE, "sh", "-c", f"kill -9 {worker} || :")
                self.kills += 1
        except BaseException as error:    # the test shows it
            self.failure = error

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        if self.failure:
            raise self.failure


def gone(cluster):
    assert not claims(cluster) and not left_on(cluster, NODE), (list(claims(cluster)), left_on(cluster, NODE))
    return True


def check_limit(cluster, name, gib):
    """As soon as the kubelet knows the pod again."""
    assert cluster.wait_for(lambda: run_in(cluster, name, "info"), 20, f"what {name} sees")["total"] == gib << 10


@pytest.mark.long(140)
def test_kills_while_claims_are_prepared_and_released_leave_nothing(cluster):
    cluster.create(template("part", ask("7Gi", "5")))
    with Killer(cluster) as killer:
        for _ in range(2):
            for i in range(20):    # of 7 of the 79 GiB of a GPU, so that each GPU has 11 at most
                # Always: a kubelet that is killed while a container starts has it fail (StartError, context canceled).
                cluster.create(pod(f"p{i}", of_template="part", restartPolicy="Always"))
            pods = cluster.wait_running(count=20, timeout=240)
            placed = [device_of(made) for made in claims(cluster).values()]
            assert len(placed) == 20 and all(placed.count(device) <= 11 for device in placed), placed
            for p in pods[::5]:
                check_limit(cluster, p, 7)
            cluster.kubectl("delete", "pods", "--all", "--wait=true", "--timeout=120s")
    cluster.wait_for(lambda: gone(cluster), 90, "the end of all claims, grants and CDI files")
    assert agent(cluster)["status"]["containerStatuses"][0]["restartCount"] == 0
    print(f"\n{killer.kills} kills while 40 pods came and went")


@pytest.mark.long(20)
def test_pods_run_on_while_the_agent_and_the_kubelet_are_killed(cluster):
    start(cluster, claimed("p", ask("3Gi")))
    p, = cluster.wait_running(names=["p"])
    before = p["status"]["containerStatuses"]
    for part in ("agent", "kubelet"):
        if part == "agent":
            cluster.enter(NODE, "kill", "-9", str(worker_pid(cluster, NODE, supervisor_pid(cluster, NODE))))
        else:
            cluster.lab("restart", "--kill", f"kubelet@{NODE}")
            cluster.wait_for(lambda: is_ready(cluster.pod("p")), 30, "the pod is ready for the new kubelet")
        check_limit(cluster, "p", 3)
        assert [s["containerID"] for s in cluster.pod("p")["status"]["containerStatuses"]] == [s["containerID"] for s in before]
    start(cluster, claimed("q", ask("3Gi")))
    cluster.wait_running(names=["q"])
    for name in ("p", "q"):
        cluster.kubectl("delete", "pod", name, "--wait=true")
        cluster.kubectl("delete", "resourceclaim", name, "--timeout=30s")
    cluster.wait_for(lambda: gone(cluster), 60, "the end of grants and CDI files")


@pytest.mark.long(10)
def test_slice_comes_back_when_it_is_deleted(cluster):
    """As by the kubelet, which deletes the slices of a driver that was away for 30 s."""
    before = published(cluster)[NODE]
    cluster.kubectl("delete", "resourceslice", before["metadata"]["name"])
    after = published(cluster)[NODE]
    assert after["metadata"]["uid"] != before["metadata"]["uid"] and json.dumps(after["spec"]["devices"]) == json.dumps(
        before["spec"]["devices"])
    begin = time.monotonic()
    start(cluster, claimed("p", ask("3Gi")))
    cluster.wait_running(names=["p"])
    print(f"\nrunning {time.monotonic() - begin:.1f} s after its creation")
