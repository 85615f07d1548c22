"""The agent's two processes killed on a real kubelet, with pods running and pods arriving; pods deleted by force."""
import json
import threading
import time

import pytest

from agentpods import agent, rejected, supervisor_pid, worker_pid
from cluster import is_ready
from gpupods import SHOW, annotation, card_of, check_what_it_sees, container, fingerprint, pod

NODE = "cn-beijing.192.168.8.44"
LAYOUT = [f"{NODE}=2x15360MiB,share"]


def agent_log(cluster):
    return cluster.kubectl("-n", "kube-system", "logs", agent(cluster)["metadata"]["name"], "--tail=-1")


@pytest.mark.long(40)
def test_worker_killed_while_pods_run_and_arrive_rejects_none(lab):
    cluster = lab(LAYOUT)
    for i in range(2):
        cluster.create(pod(f"old{i}", 2))
    before = {p["metadata"]["uid"]: fingerprint(p) for p in cluster.wait_running(count=2)}
    supervisor, kills = supervisor_pid(cluster, NODE), 0
    for i in range(12):
        cluster.create(pod(f"new{i}", 1, 1))
        cluster.enter(NODE, "kill", "-9", str(worker_pid(cluster, NODE, supervisor)))
        kills += 1
        time.sleep(1)    # faster is a crash loop
    pods = cluster.wait_running(count=14, timeout=60)
    assert rejected(cluster.pods()) == []
    for p in pods:
        if p["metadata"]["uid"] in before:
            assert fingerprint(p) == before[p["metadata"]["uid"]]
    for p in pods[:6]:
        check_what_it_sees(cluster, p, cluster.nodes())
    assert agent(cluster)["status"]["containerStatuses"][0]["restartCount"] == 0
    back = [line.split("started ")[1].split(" ms")[0] for line in agent_log(cluster).splitlines()
            if " ms after the end of the one before" in line]
    print(f"\n{kills} kills of the worker while 12 pods came: 0 rejected; next worker forked after "
          f"{max(map(float, back)):.1f} ms at most")


def used_units(cluster):
    return sum(card["allocated"] for node in cluster.inspect_json()["nodes"] for card in node["gpus"])


@pytest.mark.long(40)
def test_supervisor_killed_while_a_job_runs_costs_pods_that_are_replaced(lab):
    cluster = lab(LAYOUT)
    cluster.create(pod("old", 2))
    before = fingerprint(cluster.wait_running(count=1)[0])
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "crowd"},
           # Indexed: the Job controller's back-off, 10 s and doubling, is each pod's own and not that of six failures.
           "spec": {"parallelism": 6, "completions": 6, "completionMode": "Indexed", "backoffLimitPerIndex": 100,
                    "template": {"metadata": {"labels": {"job": "crowd"}}, "spec": {
                        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                        "containers": [container("main", 2, SHOW)]}}}}
    # The second kill within a while is followed by the kubelet's back-off of 10 s.
    for n in range(1, 3):
        before_kill = agent(cluster)["status"]["containerStatuses"][0]["restartCount"]
        victim = str(supervisor_pid(cluster, NODE))
        killer = threading.Thread(target=lambda: cluster.enter(NODE, "kill", "-9", victim))
        killer.start()
        if n == 2:
            cluster.create(job)    # its pods are on their way when the agent goes
        killer.join()
        cluster.wait_for(lambda: agent(cluster)["status"]["containerStatuses"][0]["restartCount"] > before_kill
                         and is_ready(agent(cluster)), 60, "the agent's container runs again")

    def six_run():
        ready = [p for p in cluster.pods("job=crowd") if is_ready(p)]
        assert len(ready) == 6, [p["status"].get("reason") or p["status"]["phase"] for p in cluster.pods("job=crowd")]
        return ready
    pods = cluster.wait_for(six_run, 90, "the Job's six pods")
    lost = rejected(cluster.pods("job=crowd"))
    print(f"\nsupervisor killed while 6 pods came: {len(lost)} rejected by the kubelet, all replaced")
    assert fingerprint(cluster.pod("old")) == before
    for p in pods:
        check_what_it_sees(cluster, p, cluster.nodes())
    # What the kubelet rejected holds nothing.
    cluster.wait_for(lambda: used_units(cluster) == 2 + 6 * 2, 2, "a ledger without the rejected pods")


@pytest.mark.long(35)    # as tests/component/test_agent_held.py
def test_card_of_a_pod_deleted_by_force_is_given_away_only_when_its_container_has_ended(lab):
    cluster = lab(["cn-beijing.192.168.8.45=1x15360MiB,share"])
    node = "cn-beijing.192.168.8.45"
    deaf = "trap '' TERM; while true; do sleep 0.2; done"
    cluster.create(pod("deaf", containers=[container("main", 15, deaf)], terminationGracePeriodSeconds=8))
    old = cluster.wait_running(names=["deaf"])[0]
    cluster.kubectl("delete", "pod", "deaf", "--force", "--grace-period=0")
    begin = time.monotonic()
    cluster.create(pod("next", 15))

    def held():
        return json.loads(annotation(cluster.node(node), "ration.dev/held") or "{}")
    seen = cluster.wait_for(lambda: held().get("pods"), 5, "the annotation")
    assert [(p["uid"], p["name"], p["cards"]) for p in seen] == [
        (old["metadata"]["uid"], "deaf", {card_of(old): {"units": 15, "core": 0}})]
    identity = old["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")

    def runs():
        return any(row.split()[0] == identity and "RUNNING" in row
                   for row in cluster.ctr(node, "tasks", "ls").splitlines())
    ended = None
    while True:
        bound = cluster.pod("next")["spec"].get("nodeName")
        alive = runs()    # after the look at the pod: if that was bound, the container had ended before
        if not alive and ended is None:
            ended = time.monotonic()
        assert not (alive and bound), "the card was given away while the container ran"
        if bound:
            break
        assert time.monotonic() - begin < 40
        time.sleep(0.1)
    cluster.wait_running(names=["next"])
    assert old["metadata"]["uid"] in held()["ended"]
    print(f"\nforce delete: container ran on for {ended - begin:.1f} s, the next pod was bound "
          f"{max(0, time.monotonic() - ended):.1f} s later at most")
