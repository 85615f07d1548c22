"""The charts' own documents say what the charts do: values, their table, their schema."""
import json
import pathlib
import re

import pytest
import yaml

CHARTS = pathlib.Path(__file__).resolve().parents[2] / "deploy/charts"
NAMES = ["ack-ai-installer", "ack-co-scheduler"]
ROW = re.compile(r"^\| `([\w.]+)` \| `(.*?)` \| (.+) \|$", re.M)


def values_of(chart):
    return yaml.safe_load((CHARTS / chart / "values.yaml").read_text())


def schema_of(chart):
    return json.loads((CHARTS / chart / "values.schema.json").read_text())


def resolve(schema, node):
    return schema["definitions"][node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else node


def settings(schema, values, node=None, path=()):
    """(name, default) as the table has them: each value that is no map with names of ours."""
    node = resolve(schema, node or schema)
    for key, value in values.items():
        inner = resolve(schema, node["properties"][key])
        if inner.get("required"):
            yield from settings(schema, value, inner, (*path, key))
        else:
            yield ".".join((*path, key)), value


@pytest.mark.parametrize("chart", NAMES)
def test_table_of_values_has_each_value_with_its_default(chart):
    table = ROW.findall((CHARTS / chart / "README.md").read_text())
    assert [(name, json.loads(default)) for name, default, _ in table] == list(
        settings(schema_of(chart), values_of(chart)))


@pytest.mark.parametrize("chart", NAMES)
def test_schema_is_closed_and_asks_for_each_value(chart):
    """helm upgrade --reuse-values leaves out what is new: nothing may be off because of that."""
    schema = schema_of(chart)

    def check(values, node, path):
        node = resolve(schema, node)
        # Other charts' values are there too: those of a part have its own schema.
        assert node.get("additionalProperties") is (None if path in (("global",), ("scheduler",)) else False), path
        assert set(node["required"]) == set(values), path
        # The chart that has it as a part says whether it is on.
        assert set(node["properties"]) - ({"enabled"} if chart == "ack-co-scheduler" and not path else set()) == set(values), path
        for key, value in values.items():
            inner = resolve(schema, node["properties"][key])
            assert inner.get("type") or inner.get("enum"), (*path, key)
            if inner.get("required"):
                check(value, inner, (*path, key))
    check(values_of(chart), schema, ())


@pytest.mark.parametrize("chart", NAMES)
def test_no_object_of_the_schema_takes_names_that_nobody_knows(chart):
    """Only Kubernetes' own objects are not described: the API server knows their names."""
    def objects(node, path=()):
        if isinstance(node, dict):
            if "object" in (node.get("type") or ()) and "additionalProperties" not in node:
                yield path[-1]
            for key, value in node.items():
                yield from objects(value, (*path, key))
        elif isinstance(node, list):
            for value in node:
                yield from objects(value, path)
    assert set(objects(schema_of(chart))) <= {"global", "scheduler", "nodeAffinity", "podAffinity", "podAntiAffinity", "ipBlock",
                                              "namespaceSelector", "podSelector", "plugins", "items"}


def test_what_the_charts_share_is_alike():
    """They may be parts of one chart, where a template's name is one for all."""
    one, other = ((CHARTS / name / "templates/_shared.tpl").read_text() for name in NAMES)
    assert one == other


def test_every_object_of_a_template_has_the_recommended_labels():
    """In one line below its metadata; _shared.tpl says which. What templates make of it: tests/cluster/test_charts.py."""
    wrong = []
    for path in sorted(CHARTS.glob("*/templates/*")):
        for manifest in re.split(r"^---$", path.read_text(), flags=re.M):
            head = re.search(r"^metadata:\n((?:  .*\n)+)", manifest, re.M)
            if head and '\n  labels: {{ include "ration.labels" (list ' not in head.group(1):
                wrong.append(f"{path.relative_to(CHARTS)}: {head.group(1).strip()}")
    assert not wrong, wrong


def test_agent_knows_the_host_paths_of_the_policy():
    """src/kube/pod-rights.c judges pods with claims as the policy judges those with gpu-mem."""
    template = (CHARTS / "ack-ai-installer/templates/gpu-volumes.yaml").read_text()
    code = (CHARTS.parents[1] / "src/kube/pod-rights.c").read_text()
    of_policy = re.findall(r'"([^"]+)"', re.search(r"\$host := list (.*?)}}", template, re.S)[1])
    of_agent = re.findall(r'"([^"]+)"', re.search(r"pod_rights_host_paths\[\] = {(.*?)};", code, re.S)[1])
    assert of_agent == of_policy and len(of_agent) > 20
    taken = re.search(r"name: taken\n.*?\[(.*?)\]", (CHARTS / "ack-ai-installer/templates/gpu-privileges.yaml").read_text(), re.S)[1]
    assert re.findall(r'"([^"]+)"', re.search(r"capabilities\[\] = {(.*?)};", code, re.S)[1]) == re.findall(r"'([^']+)'", taken)
