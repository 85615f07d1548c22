"""The rights that the chart gives the agent: those that it uses, each of them, and no other."""
import pathlib
import re
import time

import pytest

from agent_fixture import World
from fake_kubelet import StartError

CONDITIONAL = re.compile(r"^\{\{- if eq \.Values\.onBypass \"evict\" \}\}\n(.*?)^\{\{- end \}\}\n", re.M | re.S)
RULE = re.compile(r"^- \{apiGroups: \[(.*?)\], resources: \[(.*?)\], verbs: \[(.*?)\](?:, resourceNames: .*?)?\}", re.M)
CHARTS = pathlib.Path(__file__).resolve().parents[2] / "deploy/charts"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def given(chart):
    """Every (group, resource, verb) of the chart's roles, with its default values."""
    text = CONDITIONAL.sub("", (CHARTS / chart / "templates/rbac.yaml").read_text())
    return {(group.strip('"'), resource, verb)
            for groups, resources, verbs in RULE.findall(text) for group in groups.split(", ")
            for resource in resources.split(", ") for verb in verbs.split(", ")}


def used(request):
    """What the API server would want to be allowed for this request."""
    parts = request.path.strip("/").split("/")
    group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    verb = VERBS.get(request.method) or ("get" if len(parts) > 1 else "watch" if "watch" in request.query else "list")
    return group, "/".join([parts[0], *parts[2:]]), verb


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
    assert [RULE.findall(rules) for rules in CONDITIONAL.findall(text)] == [[('""', "pods/eviction", "create")]]
    assert "eviction" not in CONDITIONAL.sub("", text)
    policies = CONDITIONAL.findall((CHARTS / "ack-ai-installer/templates/own-node.yaml").read_text())
    assert [held_by(policy) for policy in policies] == [{("", "pods/eviction", "CREATE")}]
    assert "\nonBypass: report\n" in (CHARTS / "ack-ai-installer/values.yaml").read_text()


@pytest.fixture
def world():
    with World() as w:
        yield w.up(32)


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

    def unused():
        return rights - {used(r) for r in list(world.api.requests)}
    for _ in range(150):
        if not unused():
            break
        time.sleep(0.1)
    assert not unused()
    assert {used(r) for r in world.api.requests} <= rights
