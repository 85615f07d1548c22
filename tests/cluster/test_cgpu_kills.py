"""Everything around isolated pods is killed, restarted, rebooted, exchanged: limits hold all the time, grants are right
afterwards, and what runs goes on."""
import json
import re
import time

import pytest

import testimages
from agentpods import agent, rejected
from cgpupods import LAYOUT, NODE, OUT_OF_MEMORY, check_isolation, filler, grant_of, limit_mib, processes, said
from cluster import PRODUCT
from gpupods import card_of, container, fingerprint, inventory, pod

AGENT = "name=gpushare-device-plugin-ds"
# New processes in an old container, again and again: each line is what one of them could get.
AGAIN = "while :; do load dlopen libcuda.so.1 | tr '\\n' ' '; echo; sleep 0.2; done"


@pytest.fixture
def cluster(lab, tmp_path):
    made = lab(LAYOUT)
    testimages.give(made, tmp_path, only={"debian"})
    return made


def looper(name, units):
    return container(name, units, AGAIN, image="ration-test/debian:1", env=[{"name": "LOAD_DRIVER_FILL", "value": "once"}])


def pids_of_the_agent(cluster):
    """(supervisor, worker) as the node numbers them."""
    identity = agent(cluster)["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    rows = [line.split() for line in cluster.ctr(NODE, "tasks", "ls").splitlines()]
    supervisor = next(row[1] for row in rows if row[0] == identity)
    return supervisor, cluster.enter(NODE, "cat", f"/proc/{supervisor}/task/{supervisor}/children").split()[0]


def wait_for_agent(cluster, restarts):
    """The container has been started that many times again, and serves."""
    cluster.wait_for(lambda: (s := agent(cluster)["status"]["containerStatuses"][0])["ready"]
                     and s["restartCount"] >= restarts, 60, "the agent runs again")


def kill_worker(cluster):
    cluster.enter(NODE, "kill", "-9", pids_of_the_agent(cluster)[1])


def kill_supervisor(cluster):
    restarts = agent(cluster)["status"]["containerStatuses"][0]["restartCount"]
    cluster.enter(NODE, "kill", "-9", pids_of_the_agent(cluster)[0])
    wait_for_agent(cluster, restarts + 1)


def replace_agent(cluster):
    cluster.kubectl("-n", "kube-system", "delete", "pod", "-l", AGENT, "--wait=true")
    cluster.rolled_out("ds/gpushare-device-plugin-ds")


def kill_kubelet(cluster):
    cluster.lab("restart", "--kill", f"kubelet@{NODE}")


def lines_of(cluster, name):
    """All words of a looper but one that is being said."""
    return [said(line.replace(" ", "\n", 1)) for line in cluster.log_of(name).split("\n")[:-1]]


def check_lines(lines, limit):
    assert {total for total, _, _ in lines} == {limit}, lines
    assert {error for _, _, error in lines} == {OUT_OF_MEMORY}, lines
    assert all(limit // 2 < held <= limit for _, held, _ in lines), lines


@pytest.mark.long(30)
def test_limits_hold_while_agent_and_kubelet_are_killed(cluster):
    cluster.create(pod("holder", containers=[filler("main", 4)]))
    cluster.create(pod("looper", containers=[looper("main", 2)]))
    before = {p["metadata"]["name"]: p for p in cluster.wait_running(count=2)}
    kinds = (kill_worker, kill_supervisor, kill_kubelet, replace_agent)
    for n, kill in enumerate(kinds):
        count = len(lines_of(cluster, "looper"))
        kill(cluster)
        cluster.create(pod(f"new{n}", containers=[filler("main", 1)]))
        cluster.wait_for(lambda: len(lines_of(cluster, "looper")) > count + 1, 20, f"life after {kill.__name__}")
        cluster.wait_running(names=[f"new{n}"])
        assert rejected(cluster.pods()) == [], kill.__name__
    after = {p["metadata"]["name"]: p for p in cluster.wait_running(count=2 + len(kinds))}
    card = inventory(cluster.node(NODE))[card_of(before["looper"])]
    check_lines(lines_of(cluster, "looper"), limit_mib(card, 2))
    for name, obj in before.items():
        assert fingerprint(after[name]) == fingerprint(obj), f"{name} was disturbed"
    assert sum(check_isolation(cluster, p) for p in after.values()) == len(after)
    for n in range(len(kinds)):
        total, held, error = cluster.wait_for(lambda: said(cluster.log_of(f"new{n}")), 20, f"new{n}")
        assert total == limit_mib(card, 1) and held <= total and error == OUT_OF_MEMORY


def replicas(name, count, units):
    template = pod("x", containers=[filler("main", units)])
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": {
        "replicas": count, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {**template["spec"], "restartPolicy": "Always"}}}}


@pytest.mark.long(30)
def test_a_rebooted_node_gives_each_container_its_grant_again(cluster):
    cluster.create(replicas("rs", 5, 3))
    old = {p["metadata"]["uid"] for p in cluster.wait_running("app=rs", count=5)}
    cluster.lab("reboot", NODE)

    def all_run():
        pods = [p for p in cluster.pods("app=rs") if p["status"].get("phase") == "Running"
                and any("running" in s["state"] for s in p["status"].get("containerStatuses", []))]
        assert len(pods) == 5, [(p["metadata"]["name"], p["status"].get("phase"), p["status"].get("reason"))
                                for p in cluster.pods("app=rs")]
        # What the API server still believes of the time before has no process.
        assert sum(len(processes(cluster, p)) for p in pods) == 5
        return pods
    pods = cluster.wait_for(all_run, 120, "five pods that run after the reboot")
    assert sum(check_isolation(cluster, p) for p in pods) == 5
    for obj in pods:
        card = inventory(cluster.node(NODE))[card_of(obj)]
        total, held, error = cluster.wait_for(lambda: said(cluster.log_of(obj)), 20, "its words")
        assert total == limit_mib(card, 3) and total // 2 < held <= total and error == OUT_OF_MEMORY
    kept = len(old & {p["metadata"]["uid"] for p in pods})
    print(f"\nreboot: {kept} of 5 pods were let live by the kubelet, {5 - kept} were replaced")


@pytest.mark.long(15)
def test_a_grant_that_is_lost_is_made_again_before_the_container_starts(cluster):
    """As after a reboot for a pod that the kubelet lets live: nobody calls Allocate again."""
    body = pod("again", containers=[filler("main", 2)])
    body["spec"]["restartPolicy"] = "Always"
    cluster.create(body)
    obj = cluster.wait_running(names=["again"])[0]
    uid = obj["metadata"]["uid"]
    kill_supervisor(cluster)    # so that the agent knows no more than what it finds
    cluster.enter(NODE, "sh", "-c", f"umount -l /run/ration/grants/{uid}; rm -r /run/ration/grants/{uid} "
                                    f"/var/run/cdi/ration-{uid}.json")
    cluster.kill_container(obj, "main")
    cluster.wait_for(lambda: cluster.pod("again")["status"]["containerStatuses"][0]["restartCount"] == 1, 60, "the restart")
    obj = cluster.wait_running(names=["again"])[0]
    assert check_isolation(cluster, obj) == 1 and obj["metadata"]["uid"] == uid
    card = inventory(cluster.node(NODE))[card_of(obj)]
    assert cluster.wait_for(lambda: said(cluster.log_of(obj)), 20, "its words")[0] == limit_mib(card, 2)


def versions(cluster, obj):
    """The driver's version as the container's own processes are told."""
    return re.search(r"Driver Version: ([0-9.]+)", cluster.exec_in(obj, "nvidia-smi")).group(1)


@pytest.mark.long(30)
def test_a_changed_driver_version_reaches_new_pods_and_leaves_limits(cluster):
    driver = cluster.folder / "nodes" / NODE / "driver"
    before = json.loads((driver / "gpus.json").read_text())["driverVersion"]
    other = "570.86.15"
    assert other != before
    cluster.create(pod("old", containers=[looper("main", 2)]))
    old = cluster.wait_running(names=["old"])[0]
    assert versions(cluster, old) == before
    cluster.wait_for(lambda: len(lines_of(cluster, "old")) > 2, 20, "its words")
    try:
        cluster.run(PRODUCT / "sim" / "ration-sim", "up", driver, "--driver-version", other)

        def new_version():
            name = f"new{time.monotonic_ns()}"
            cluster.create(pod(name, containers=[filler("main", 2)]))
            obj = cluster.wait_running(names=[name])[0]
            assert versions(cluster, obj) == other
            return obj
        new = cluster.wait_for(new_version, 60, f"a pod with driver {other}")
        assert check_isolation(cluster, new) == 1 and grant_of(processes(cluster, new)["main"]).cuda_library
        card = inventory(cluster.node(NODE))[card_of(new)]
        assert cluster.wait_for(lambda: said(cluster.log_of(new)), 20, "its words")[0] == limit_mib(card, 2)
        # A process that has the old libraries may find no card any more; never the whole one.
        count = len(cluster.log_of(old).splitlines())
        cluster.wait_for(lambda: len(cluster.log_of(old).splitlines()) > count + 2, 20, "words of the old pod")
        for line in cluster.log_of(old).splitlines()[:-1]:
            assert line.strip() in ("no card", "error") or said(line.replace(" ", "\n", 1))[0] == limit_mib(card, 2), line
        assert fingerprint(cluster.pod("old")) == fingerprint(old)
    finally:
        cluster.run(PRODUCT / "sim" / "ration-sim", "up", driver, "--driver-version", before)


# -- the container's cgroup

def kubelet_with(cluster, text):
    """Gives the kubelet another file. Its memory of processors belongs to one policy. The kubelet that is ending may write it again;
    the next one ends at once then, and the one after it finds no such memory."""
    (cluster.folder / "nodes" / NODE / "kubelet.json").write_text(text)
    lives = ""
    while not lives:
        cluster.enter(NODE, "rm", "-f", "/var/lib/kubelet/cpu_manager_state")
        cluster.lab("restart", f"kubelet@{NODE}")
        lives = cluster.enter(NODE, "sh", "-c", "sleep 3; pgrep -x kubelet || :")


def kubelet_setting(cluster, change):
    before = (cluster.folder / "nodes" / NODE / "kubelet.json").read_text()
    kubelet_with(cluster, json.dumps(change(json.loads(before))))
    return lambda: kubelet_with(cluster, before)


def may_open(cluster, name, device):
    """No module is behind a simulated card's node: who may open it is told so, who may not is told that."""
    told = cluster.exec_in(name, "bash", "-c", f"exec 2>&1; : < {device}; true")
    assert "No such device or address" in told or "Operation not permitted" in told, told
    return "No such device or address" in told


def cpuset(cluster, obj):
    """Where this machine mounts cpuset: what the container's processes may run on."""
    status = (processes(cluster, obj)["main"] / "status").read_text()
    return re.search(r"^Cpus_allowed_list:\s+(\S+)$", status, re.M).group(1)


@pytest.mark.long(30)
def test_a_pod_keeps_its_card_when_its_cgroup_is_rewritten(cluster):
    put_back = kubelet_setting(cluster, lambda c: {**c, "cpuManagerPolicy": "static", "kubeReserved": {"cpu": "500m"}})
    try:
        body = pod("shared", containers=[looper("main", 2)])
        body["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "100m"}
        cluster.create(body)
        shared = cluster.wait_running(names=["shared"])[0]
        index = inventory(cluster.node(NODE))[card_of(shared)]["index"]
        assert may_open(cluster, "shared", f"/dev/nvidia{index}")
        # The card that it was not given stays closed, whatever name the container makes for it.
        other = next(i for i in range(3) if i != index)
        cluster.exec_in("shared", "bash", "-c", f"busybox mknod /dev/other c 195 {other}")
        assert not may_open(cluster, "shared", "/dev/other")
        before = cpuset(cluster, shared)
        # A pod with a processor of its own: every other container's cgroup is rewritten.
        exclusive = pod("exclusive", containers=[looper("main", 2)])
        exclusive["spec"]["containers"][0]["resources"] = {
            "limits": {"cpu": "1", "memory": "128Mi", **exclusive["spec"]["containers"][0]["resources"]["limits"]}}
        cluster.create(exclusive)
        cluster.wait_running(names=["exclusive"])
        cluster.wait_for(lambda: cpuset(cluster, shared) != before, 30, "the rewritten cgroup")
        cluster.kubectl("patch", "pod", "shared", "--subresource", "resize", "-p", json.dumps(
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "150m"}}}]}}))
        cluster.wait_for(lambda: cluster.pod("shared")["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"]
                         == "150m", 30, "the resize")
        for name in ("shared", "exclusive"):
            count = len(lines_of(cluster, name))
            cluster.wait_for(lambda: len(lines_of(cluster, name)) > count + 1, 20, "new processes")
            obj = cluster.pod(name)
            card = inventory(cluster.node(NODE))[card_of(obj)]
            check_lines(lines_of(cluster, name), limit_mib(card, 2))
            assert may_open(cluster, name, f"/dev/nvidia{card['index']}") and check_isolation(cluster, obj) == 1
        assert not may_open(cluster, "shared", "/dev/other")
        assert fingerprint(cluster.pod("shared")) == fingerprint(shared)
    finally:
        cluster.delete_pods()
        put_back()
