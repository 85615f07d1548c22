"""The rights that the charts give agent and scheduler: those that they use, each of them, and no other."""
import pathlib
import re
import time

import pytest
import yaml

from agent_fixture import World
from dra_node import DraWorld, prepared
from fake_apiserver import wait_for
from fake_kubelet import StartError
from preemptions import fits, fragmented, pod
from rights import RULE, used
from scheduler_fixture import gpu_node

CONDITIONAL = re.compile(r"^\{\{- if eq \.Values\.onBypass \"evict\" \}\}\n(.*?)^\{\{- end \}\}\n", re.M | re.S)
CHARTS = pathlib.Path(__file__).resolve().parents[2] / "deploy/charts"


def given(chart):
    """Every (group, resource, verb) of the chart's roles, with its default values."""
    return rules_in(CONDITIONAL.sub("", (CHARTS / chart / "templates/rbac.yaml").read_text()))


def rules_in(text):
    return {(group, resource, verb) for line in RULE.findall(text) for rule in yaml.safe_load(line)
            for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]}


def held_by(policy):
    """Every (group, resource, operation) that it looks at."""
    return {(group.strip('"'), resource, verb)
            for group, resources, verbs in re.findall(
                r"- \{apiGroups: \[(.*?)\], apiVersions: \[v1\], resources: \[(.*?)\], operations: \[(.*?)\]\}", policy)
            for resource in resources.split(", ") for verb in verbs.split(", ")}


def test_the_policy_holds_the_agent_to_its_node_wherever_it_may_write():
    policy = (CHARTS / "ack-ai-installer/templates/own-node.yaml").read_text()
    held = held_by(CONDITIONAL.sub("", policy))
    words = {"create": "CREATE", "patch": "UPDATE", "update": "UPDATE", "delete": "DELETE"}
    may = {(group, resource, words[verb]) for group, resource, verb in given("ack-ai-installer") if verb in words}
    assert may - held == {("", "events", "CREATE")} and held <= may


def test_the_agent_may_evict_only_where_the_chart_is_told_so():
    text = (CHARTS / "ack-ai-installer/templates/rbac.yaml").read_text()
    assert [rules_in(rules) for rules in CONDITIONAL.findall(text)] == [{("", "pods/eviction", "create")}]
    assert "eviction" not in CONDITIONAL.sub("", text)
    policies = CONDITIONAL.findall((CHARTS / "ack-ai-installer/templates/own-node.yaml").read_text())
    assert [held_by(policy) for policy in policies] == [{("", "pods/eviction", "CREATE")}]
    assert "\nonBypass: report\n" in (CHARTS / "ack-ai-installer/values.yaml").read_text()


def assert_uses(api, rights, seconds, elsewhere=frozenset()):
    """Each of them within so long, or elsewhere, and no other."""
    deadline = time.monotonic() + seconds
    while (unused := rights - elsewhere - {used(r) for r in list(api.requests)}) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not unused and elsewhere <= rights
    assert {used(r) for r in api.requests} <= rights


def used_for_claims():
    """What the agent of a node of the mode dra uses: its slice is published, restored and removed, and a claim is prepared."""
    with DraWorld() as node:
        node.up_for_claims()
        prepared(node, claim := node.claim("slice", {"memory": "3Gi"}))
        node.dra.unprepare(claim)
        devices = node.devices()
        node.api.patch("resourceslices", node.slice()["metadata"]["name"], {"spec": {"devices": devices[:1]}})
        node.slice(lambda s: s["spec"]["devices"] == devices)
        node.label("share")
        wait_for(lambda: not node.slices())
        return {used(r) for r in list(node.api.requests)}


def test_the_chart_gives_the_agent_the_rights_that_it_uses_and_no_other(world):
    pod = world.pod("placed", 3, card=1)
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "main")
    lost = world.pod("by-hand", 3)    # nobody placed it: refused, with an Event
    world.kubelet.admit(lost)
    with pytest.raises(StartError):
        world.kubelet.run(lost, "main")
    rights = given("ack-ai-installer")
    assert len(rights) > 10
    with World(cards="8x16160MiB", labels={"ack.node.gpu.schedule": "topology"}, links="pcie-8") as other:
        other.kubelet.start()
        other.start_agent()
        wait_for(lambda: [r for r in other.api.requests if used(r) == ("", "configmaps", "create")])
        elsewhere = {used(r) for r in list(other.api.requests)}
    assert_uses(world.api, rights, 15, elsewhere | used_for_claims())


def test_the_chart_gives_the_scheduler_the_rights_that_it_uses_and_no_other(api, start):
    """kube-scheduler in the same pod has its own from Kubernetes' roles, and of ours its Lease: the same verbs."""
    rights = given("ack-co-scheduler")
    assert len(rights) > 12
    fragmented(api)
    api.create("resourcepolicies", {"metadata": {"name": "team", "namespace": "default"},
                                    "spec": {"selector": {"app": "web"}, "units": [{"resource": "ecs"}]}})
    scheduler = start()
    assert not fits(scheduler, pod(api, "big", 10, 1000))               # somebody is evicted for it, and it is told so
    gpu_node(api, "other", 4096)
    small = pod(api, "small", 3)
    wait_for(lambda: fits(scheduler, small, "other"))
    wait_for(lambda: scheduler.bind(small, "other") == "")      # not before the pods of its namespace are read
    assert scheduler.bind({**small, "metadata": {**small["metadata"], "uid": "another"}}, "other") != ""    # it is read
    assert not fits(scheduler, pod(api, "waits", 4), "other")
    api.delete("pods", "small")                                         # room: it is woken
    assert_uses(api, rights, 10)
