"""Kubelet, agent and scheduler restarted with pods running: nothing running is disturbed, new pods are served."""
import pytest

from gpupods import check_what_it_sees, fingerprint, pod, used_per_card
from test_crowd import NODES


def restart_kubelets(cluster):
    for node in cluster.nodes():
        cluster.lab("restart", f"kubelet@{node}")


def restart_agents(cluster):
    cluster.kubectl("-n", "kube-system", "delete", "pod", "-l", "name=gpushare-device-plugin-ds", "--wait=true")
    cluster.kubectl("-n", "kube-system", "rollout", "status", "ds/gpushare-device-plugin-ds", "--timeout=60s")


def kill_agents(cluster):
    """Not asked to go: the process is gone, the kubelet starts the container again."""
    for p in cluster.pods("name=gpushare-device-plugin-ds", namespace="kube-system"):
        cluster.kill_container(p, "ration-agent")
    cluster.wait_for(lambda: all(s["ready"] and s["restartCount"] > 0
                                 for p in cluster.pods("name=gpushare-device-plugin-ds", namespace="kube-system")
                                 for s in p["status"]["containerStatuses"]), 60, "agents run again")


def restart_scheduler(cluster):
    cluster.kubectl("-n", "kube-system", "delete", "pod", "-l", "app=ack-co-scheduler", "--wait=true")
    cluster.kubectl("-n", "kube-system", "rollout", "status", "deployment/ack-co-scheduler", "--timeout=90s")


def kill_ration_scheduler(cluster):
    p = cluster.pods("app=ack-co-scheduler", namespace="kube-system")[0]
    cluster.kill_container(p, "ration-scheduler")


def restart_api_server(cluster):
    cluster.lab("restart", "kube-apiserver")


def restart_containerd(cluster):
    for node in cluster.nodes():
        cluster.lab("restart", f"containerd@{node}")


@pytest.mark.parametrize("restart", [restart_agents] + [
    pytest.param(f, marks=pytest.mark.long) for f in (restart_kubelets, restart_api_server, kill_agents, restart_scheduler, kill_ration_scheduler, restart_containerd)],
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
