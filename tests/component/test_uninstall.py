"""helm uninstall: what the charts' pre-delete hooks take from the cluster, and the last agent from its node."""
import os
import pathlib
import re
import signal
import subprocess
import threading

import pytest
import yaml

from agent_fixture import BUILD, World, mounts_below, wait_for
from fake_apiserver import FakeApiServer
from rights import RULE, used

AGENT, SCHEDULER = BUILD / "src/agent/ration-agent", BUILD / "src/scheduler/ration-scheduler"
CHARTS = pathlib.Path(__file__).resolve().parents[2] / "deploy/charts"
DAEMONSET, DEPLOYMENT = "gpushare-device-plugin-ds", "ack-co-scheduler"
MAP = "ration-policy"
LIVE = 2520 + 64 * 256    # of a grant; docs/internals/grant.md


@pytest.fixture
def api():
    with FakeApiServer() as server:
        server.create("configmaps", {"metadata": {"name": MAP, "namespace": "kube-system"}, "data": {"policy": "5"}})
        server.create("daemonsets", {"metadata": {"name": DAEMONSET, "namespace": "kube-system"}})
        server.create("deployments", {"metadata": {"name": DEPLOYMENT, "namespace": "kube-system"}})
        yield server


def hook(program, api, owner, *options):
    return subprocess.run([program, "--uninstall", owner, "--kubeconfig", api.kubeconfig(), *options],
                          capture_output=True, text=True, timeout=60)


def uninstall_agent(api):
    return hook(AGENT, api, f"kube-system/{DAEMONSET}")


def lease(api, name, labels=None):
    api.create("leases", {"metadata": {"name": name, "namespace": "kube-system", "labels": labels or {}}, "spec": {}})


def names(api, collection):
    return {o["metadata"]["name"] for o in api.list(collection)}


def node_with_everything(api, name):
    ours = {"ration.dev/gpus": "[]", "ration.dev/unit": "1024", "ration.dev/mode": "share",
            "ration.dev/serving": "false", "ration.dev/mode-pending": "cgpu", "ration.dev/unit-pending": "128",
            "ration.dev/problem": "p",
            "ration.dev/held": "{}", "ration.dev/mig": "[]"}
    api.create_node(name, annotations={**ours, "ration.dev/policy": "3", "example.com/theirs": "x"},
                    labels={"ack.node.gpu.schedule": "share", "aliyun.accelerator/nvidia_name": "A10",
                            "aliyun.accelerator/nvidia_mem": "1", "aliyun.accelerator/nvidia_count": "1"})
    for sums in ("capacity", "allocatable"):
        api.patch("nodes", name, {"status": {sums: {
            "aliyun.com/gpu-count": "1", "aliyun.com/gpu-mem": "0", "cpu": "2"}}})
    api.patch("nodes", name, {"status": {"conditions": [{"type": "Ready", "status": "True"},
                                                        {"type": "GPUSharingProblem", "status": "True"}]}})


def test_the_hook_takes_from_the_nodes_what_agents_wrote_and_nothing_that_people_wrote(api):
    node_with_everything(api, "n1")
    api.create_node("n2", annotations={"example.com/theirs": "x"})
    done = uninstall_agent(api)
    assert done.returncode == 0, done.stderr
    meta = api.node("n1")["metadata"]
    assert meta["annotations"] == {"ration.dev/policy": "3", "example.com/theirs": "x"}
    assert set(meta["labels"]) == {"ack.node.gpu.schedule", "kubernetes.io/hostname"}
    for sums in ("capacity", "allocatable"):
        assert api.node("n1")["status"][sums] == {"aliyun.com/gpu-mem": "0", "cpu": "2"}
    assert [c["type"] for c in api.node("n1")["status"]["conditions"]] == ["Ready"]
    assert not api.requests_for("PATCH", "/nodes/n2")


def test_the_hook_deletes_the_agents_leases_and_no_others(api):
    lease(api, "ration-agent-n1", {"ration.dev/lease": "agent"})
    lease(api, "ration-agent-gone", {"ration.dev/lease": "agent"})
    lease(api, "kube-scheduler")
    assert uninstall_agent(api).returncode == 0
    assert names(api, "leases") == {"kube-scheduler"}


def test_the_hook_deletes_the_links_of_topology_nodes_and_no_other_config_maps(api):
    for name, labels in (("gpu-topology-n1", {"ration.dev/topology": "agent", "ack.node.gpu.schedule": "topology"}),
                         ("gpu-topology-acks", {"ack.node.gpu.schedule": "topology"})):
        api.create("configmaps", {"metadata": {"name": name, "namespace": "kube-system", "labels": labels}, "data": {}})
    before = names(api, "configmaps")
    assert uninstall_agent(api).returncode == 0
    assert before - names(api, "configmaps") == {"gpu-topology-n1"}


def test_the_agents_hear_that_they_are_the_last_before_they_are_ended(api):
    assert uninstall_agent(api).returncode == 0
    said = [(r.method, r.path.rsplit("/", 1)[1], r.body) for r in api.requests if r.method in ("PATCH", "DELETE")]
    assert said[0] == ("PATCH", MAP, {"data": {"uninstall": "true"}})
    assert said[1][:2] == ("DELETE", DAEMONSET)
    assert api.requests_for("DELETE", DAEMONSET)[0].query["propagationPolicy"] == "Foreground"


def test_nodes_are_cleared_only_when_the_last_agent_has_ended(api):
    """One that lived would write it all again."""
    node_with_everything(api, "n1")
    api.inject("DELETE", f"/{DAEMONSET}$", status=200, body={"kind": "Status", "status": "Success"})
    result = []
    runner = threading.Thread(target=lambda: result.append(uninstall_agent(api)))
    runner.start()
    wait_for(lambda: len(api.requests_for("GET", f"/{DAEMONSET}$")) >= 3)
    assert "ration.dev/gpus" in api.node("n1")["metadata"]["annotations"]
    api.delete("daemonsets", DAEMONSET, "kube-system")
    runner.join(20)
    assert result[0].returncode == 0 and "ration.dev/gpus" not in api.node("n1")["metadata"]["annotations"]


def test_a_hook_that_runs_again_after_it_was_cut_off_succeeds(api):
    node_with_everything(api, "n1")
    fault = api.inject("PATCH", "/nodes/n1", status=500)
    first = uninstall_agent(api)
    assert first.returncode == 1 and "/nodes/n1: the API server answered 500" in first.stderr
    fault.times = 0
    assert uninstall_agent(api).returncode == 0
    assert uninstall_agent(api).returncode == 0


def test_all_pages_of_a_large_cluster_are_read(api):
    for i in range(205):
        api.create_node(f"n{i:03}", annotations={"ration.dev/unit": "1024"})
    assert uninstall_agent(api).returncode == 0
    assert not [o for o in api.list("nodes") if "ration.dev/unit" in o["metadata"].get("annotations", {})]


def test_what_is_wrong_is_said_in_words(api):
    for program in (AGENT, SCHEDULER):
        done = hook(program, api, "no-slash")
        assert done.returncode == 1 and re.search(r"--uninstall no-slash: must be NAMESPACE/D", done.stderr)
    api.inject("DELETE", "", status=403, message="may not")
    done = uninstall_agent(api)
    assert done.returncode == 1 and "403: may not" in done.stderr


def test_the_schedulers_hook_deletes_its_two_leases_after_the_deployment(api):
    for name in ("ack-co-scheduler", "ration-ledger", "kube-scheduler"):
        lease(api, name)
    done = hook(SCHEDULER, api, f"kube-system/{DEPLOYMENT}")
    assert done.returncode == 0, done.stderr
    assert names(api, "leases") == {"kube-scheduler"} and not names(api, "deployments")
    assert [r.path.rsplit("/", 1)[1] for r in api.requests_for("DELETE", "")] == [
        DEPLOYMENT, "ack-co-scheduler", "ration-ledger"]


@pytest.mark.parametrize("chart, program, owner", [("ack-ai-installer", AGENT, DAEMONSET),
                                                   ("ack-co-scheduler", SCHEDULER, DEPLOYMENT)])
def test_the_charts_give_the_hooks_the_rights_that_they_use_and_no_other(api, chart, program, owner):
    node_with_everything(api, "n1")
    lease(api, "ration-agent-n1", {"ration.dev/lease": "agent"})
    assert hook(program, api, f"kube-system/{owner}").returncode == 0

    def verb(request):
        group, resource, name = used(request)
        return group, resource, "deletecollection" if "labelSelector" in request.query else name
    rules = yaml.safe_load("\n".join(RULE.findall((CHARTS / chart / "templates/uninstall.yaml").read_text())))
    given = {(group, resource, verb_) for rule in rules for group in rule["apiGroups"]
             for resource in rule["resources"] for verb_ in rule["verbs"]}
    assert {verb(r) for r in api.requests} == given


# ---- the last agent of a node ----

@pytest.fixture
def world():
    with World(cards="2x16160MiB", labels={"ack.node.gpu.schedule": "cgpu" if os.geteuid() == 0 else "share"}) as w:
        w.api.create("configmaps", {"metadata": {"name": MAP, "namespace": "kube-system"},
                                    "data": {"policy": "5", "uninstall": "false"}})
        yield w.up(30)


def told(world):
    world.api.patch("configmaps", MAP, {"data": {"uninstall": "true"}}, namespace="kube-system")


def end(world):
    world.agent.send_signal(signal.SIGTERM)
    assert world.agent.wait(10) == 0, world.logged()


def run_pod(world, name):
    pod = world.pod(name, 2, card=0)
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "main")
    return pod["metadata"]["uid"]


def ours(folder):
    return sorted(p.name for p in folder.glob("*")) if folder.exists() else []


def last_agent(world):
    told(world)
    wait_for(lambda: world.api.get("configmaps", MAP, "kube-system")["data"]["uninstall"] == "true")
    end(world)
    assert "this agent was the last one here" in world.logged()


@pytest.mark.skipif(os.geteuid() != 0, reason="the agent mounts file systems, which needs root")
def test_the_last_agent_leaves_nothing_on_a_node_without_pods(world):
    uid = run_pod(world, "over")
    world.api.set_phase("over", "Succeeded")
    wait_for(lambda: (world.kubelet.cdi_dir / f"ration-{uid}.json").exists())
    last_agent(world)
    assert ours(world.kubelet.cdi_dir) == [] and ours(world.state) == []
    assert not [m for m in mounts_below(world.state)]
    assert not (world.kubelet.plugin_dir / "ration-gpu-mem.sock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="the agent mounts file systems, which needs root")
def test_the_last_agent_keeps_what_a_running_pod_has_open_and_the_next_takes_it_over(world):
    uid = run_pod(world, "runs")
    grant = world.state / "grants" / uid / "main/grant"
    before, inode = grant.read_bytes(), grant.stat().st_ino
    shims = ours(world.state / "shim")
    last_agent(world)
    assert ours(world.kubelet.cdi_dir) == [] and ours(world.state / "shim") == shims
    assert grant.read_bytes()[:LIVE] == before[:LIVE]
    world.api.patch("configmaps", MAP, {"data": {"uninstall": "false"}}, namespace="kube-system")
    world.start_agent()
    world.kubelet.wait_devices(30)
    assert grant.stat().st_ino == inode
    world.kubelet.run(world.api.pod("runs"), "main")
    assert (world.kubelet.cdi_dir / f"ration-{uid}.json").exists()


def test_an_agent_that_is_replaced_keeps_everything(world):
    uid = run_pod(world, "runs")
    end(world)
    assert ours(world.kubelet.cdi_dir) == [f"ration-{uid}.json"] and "agent-state.json" in ours(world.state)
    assert "last one here" not in world.logged()
