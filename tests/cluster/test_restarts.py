"""Kubelet, agent and scheduler restarted with pods running: nothing running is disturbed, new pods are served."""
import time

import pytest

from crowdnodes import NODES
from gpupods import check_what_it_sees, fingerprint, pod, used_per_card

AGENTS = "name=gpushare-device-plugin-ds"


def restart_kubelets(cluster):
    for node in cluster.nodes():
        cluster.lab("restart", f"kubelet@{node}")


def restart_agents(cluster):
    cluster.kubectl("-n", "kube-system", "delete", "pod", "-l", "name=gpushare-device-plugin-ds", "--wait=true")
    cluster.rolled_out("ds/gpushare-device-plugin-ds")


def kill_agents(cluster):
    """Not asked to go: the process is gone, the kubelet starts the container again."""
    for p in cluster.pods("name=gpushare-device-plugin-ds", namespace="kube-system"):
        cluster.kill_container(p, "ration-agent")
    cluster.wait_for(lambda: all(s["ready"] and s["restartCount"] > 0
                                 for p in cluster.pods("name=gpushare-device-plugin-ds", namespace="kube-system")
                                 for s in p["status"]["containerStatuses"]), 60, "agents run again")


def restart_scheduler(cluster):
    cluster.kubectl("-n", "kube-system", "delete", "pod", "-l", "app=ack-co-scheduler", "--wait=true")
    cluster.rolled_out("deployment/ack-co-scheduler")


def kill_ration_scheduler(cluster):
    p = cluster.pods("app=ack-co-scheduler", namespace="kube-system")[0]
    cluster.kill_container(p, "ration-scheduler")


def restart_api_server(cluster):
    cluster.lab("restart", "kube-apiserver")


def restart_containerd(cluster):
    for node in cluster.nodes():
        cluster.lab("restart", f"containerd@{node}")


def problem_of(cluster, node):
    found = [c for c in cluster.node(node)["status"]["conditions"] if c["type"] == "GPUSharingProblem"]
    return found[0]["reason"] if found and found[0]["status"] == "True" else None


def wipe_plugin_folders(cluster):
    """The kubelet's socket is gone, and the agents that had registered there are replaced: all say what they wait for, and
    a kubelet that is started anew has the devices again."""
    for node in cluster.nodes():
        cluster.enter(node, "sh", "-c", "rm -f /var/lib/kubelet/device-plugins/*.sock")
    cluster.kubectl("-n", "kube-system", "delete", "pod", "-l", AGENTS, "--wait=true")
    cluster.wait_for(lambda: all(problem_of(cluster, node) == "GPUNotRegistered" for node in cluster.nodes()), 60,
                     "the agents say that the kubelet does not have their devices")
    assert not any(s["ready"] for p in cluster.pods(AGENTS, namespace="kube-system")
                   for s in p["status"]["containerStatuses"])
    restart_kubelets(cluster)
    cluster.rolled_out("ds/gpushare-device-plugin-ds")
    cluster.wait_for(lambda: not any(problem_of(cluster, node) for node in cluster.nodes()), 30, "no problem is left")


@pytest.mark.parametrize("restart", [
    pytest.param(f, marks=pytest.mark.long(25)) for f in (restart_agents, restart_kubelets, restart_api_server, kill_agents, restart_scheduler, kill_ration_scheduler, restart_containerd,
                                                   wipe_plugin_folders)],
                         ids=lambda f: f.__name__)
def test_nothing_running_is_disturbed_and_new_pods_are_served(lab, restart):
    cluster = lab(NODES)
    init = {"name": "init", "image": "registry.cn-beijing.aliyuncs.com/ai-samples/gpushare-sample:tensorflow-1.5",
            "command": ["true"], "resources": {"limits": {"aliyun.com/gpu-mem": 1}}}
    for i in range(4):
        cluster.create(pod(f"old{i}", 3, 2, init=[init]))
    before = {p["metadata"]["uid"]: fingerprint(p) for p in cluster.wait_running(count=4)}

    restart(cluster)
    # New pods come at once, while things are still on their way up.
    for i in range(4):
        cluster.create(pod(f"new{i}", 3))
    pods = cluster.wait_running(count=8, timeout=120)
    for p in pods:
        if p["metadata"]["uid"] in before:
            assert fingerprint(p) == before[p["metadata"]["uid"]]
        check_what_it_sees(cluster, p, cluster.nodes())
    used = used_per_card(pods)
    assert sum(used.values()) == 4 * 5 + 4 * 3


@pytest.mark.long(40, group="restarts-record")
def test_running_pods_and_new_ones_do_without_the_kubelets_checkpoint(lab):
    """A kubelet that cannot read it starts without one. The agent goes on with its own record. (For pods with init containers
    that ask for GPU memory the kubelet asks anew: tests/component/test_agent_lost_record.py.)"""
    cluster = lab(NODES)
    for i in range(4):
        cluster.create(pod(f"old{i}", 3))
    before = {p["metadata"]["uid"]: fingerprint(p) for p in cluster.wait_running(count=4)}
    time.sleep(2)    # the agent cannot exclude a container that was created less than 2 s before a kubelet starts (alive.h)
    for node in cluster.nodes():
        cluster.enter(node, "sh", "-c", "echo '{spoilt' > /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")
        cluster.lab("restart", "--kill", f"kubelet@{node}")
    for i in range(2):
        cluster.create(pod(f"new{i}", 3))
    pods = cluster.wait_running(count=6, timeout=120)
    assert all(fingerprint(p) == before[p["metadata"]["uid"]] for p in pods if p["metadata"]["uid"] in before)
    for p in pods:
        check_what_it_sees(cluster, p, cluster.nodes())
    assert sum(used_per_card(pods).values()) == 6 * 3
