"""The guide: what its pages point to exists, and the grammar of what is executed in them means what it says."""
import pathlib
import re
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cluster"))
import guide    # noqa: E402

DOCS = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "deploy").rglob("*.md")]
PAGES = sorted((ROOT / "docs/guide").glob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", DOCS, ids=[str(path.relative_to(ROOT)) for path in DOCS])
def test_links_to_files_of_the_project_resolve(page):
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert not [link for link in targets if not (page.parent / link).exists()]


def test_each_page_is_in_the_table_of_the_first():
    text = (ROOT / "docs/guide/README.md").read_text()
    assert not [page.name for page in PAGES if page.name != "README.md" and f"({page.name})" not in text]


@pytest.mark.parametrize("page", PAGES, ids=[path.stem for path in PAGES])
def test_pages_have_commands_only_where_a_lab_is_named(page):
    nodes, steps = guide.parse(page.read_text())
    assert bool(nodes) == bool(steps)


@pytest.mark.parametrize("expected, output, fits", [
    (["a", "b"], "a\nb\n", True),
    (["a", "b"], "a  \nb\n\n", True),
    (["a", "b"], "a\n", False),
    (["a", "b"], "a\nx\nb\n", False),
    (["a", "...", "b"], "a\nx\ny\nb\n", True),
    (["a", "...", "b"], "a\nb\n", True),
    (["pod ... is here"], "pod x-1 is here\n", True),
    (["pod ... is here"], "pod\nis here\n", False),
    (["1.5 (20%)"], "1x5 (20%)\n", False),
    ([], "anything", True),
])
def test_output_is_compared_as_the_grammar_says(expected, output, fits):
    step = guide.Step(1, "true")
    step.expected = expected
    assert (step.mismatch(output) is None) == fits


def test_blocks_become_steps():
    nodes, steps = guide.parse("""<!-- lab: a=1x100MiB b=2x5MiB -->
text
```yaml x.yaml
key: 1
```
<!-- run: hidden -->
```console
$ one \\
    two
out
$ three
[exit 2]
```
```
$ not executed
```
""")
    assert nodes == ["a=1x100MiB", "b=2x5MiB"]
    assert [(s.command, s.name, s.expected, s.status) for s in steps] == [
        (None, "x.yaml", ["key: 1"], 0), ("hidden", None, [], 0), ("one two", None, ["out"], 0), ("three", None, [], 2)]


def test_what_an_api_server_must_serve_holds_until_the_next_heading():
    _, steps = guide.parse("""```console
$ one
```
<!-- needs: validatingadmissionpolicies -->
```yaml x.yaml
key: 1
```
```console
$ two
```
## Next
```console
$ three
```
""")
    assert [(s.command or s.name, s.needs) for s in steps] == [
        ("one", None), ("x.yaml", "validatingadmissionpolicies"), ("two", "validatingadmissionpolicies"), ("three", None)]


POD = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": 3}}}]}}
PLAIN = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c"}]}}


def in_job(pod):
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod["spec"]}}}


def scheduled(spec):
    return {**spec, "schedulerName": "ack-co-scheduler"}


@pytest.mark.parametrize("manifest, expected", [
    (POD, {**POD, "spec": scheduled(POD["spec"])}),
    (in_job(POD), {**in_job(POD), "spec": {"template": {"spec": scheduled(POD["spec"])}}}),
    (PLAIN, PLAIN),
    ({**POD, "spec": {**POD["spec"], "schedulerName": "mine"}}, {**POD, "spec": {**POD["spec"], "schedulerName": "mine"}}),
], ids=["pod", "template", "no-gpu", "named"])
def test_manifests_of_gpu_pods_name_the_scheduler_where_the_cluster_does_not(manifest, expected):
    assert list(yaml.safe_load_all(guide.name_scheduler(yaml.safe_dump_all([manifest, PLAIN])))) == [expected, PLAIN]


@pytest.mark.parametrize("text", ["```console\nout\n```\n", "```console\n$ x\n"], ids=["output first", "not closed"])
def test_a_page_that_is_not_written_so_is_refused(text):
    with pytest.raises(guide.GuideError):
        guide.parse(text)


@pytest.mark.parametrize("command, looks", [
    ("kubectl get pods", True), ("kubectl -n kube-system get pods", True), ("ration why x", True), ("ration doctor", True),
    ("kubectl delete pod x", False), ("kubectl apply -f x", False), ("helm upgrade x", False), ("ration cordon n 0", False)])
def test_only_what_looks_is_repeated(command, looks):
    assert guide.Step(1, command).only_looks() == looks
