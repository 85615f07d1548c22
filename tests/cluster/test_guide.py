"""The guide followed page by page, on the nodes that each page names. What the pages may say: guide.py."""
import json
import pathlib
import re
import subprocess
import time

import pytest

import guide
from cluster import ROOT

pytestmark = pytest.mark.half(0)
# Those that want the same nodes one after the other: they share a lab, unless one takes the charts away.
PAGES = sorted((path for path in (ROOT / "docs/guide").glob("*.md") if guide.parse(path.read_text())[0]),
               key=lambda path: guide.parse(path.read_text())[0])
# The manifests of the other pages are much like those of this one, or of the tests of what they are about.
ALWAYS = ("share",)
LOOK_FOR_S = 60
# Of kubectl's client library, as of a watch that it begins anew.
KLOG = re.compile(r"^[IWE]\d{4} \d\d:\d\d:.*\n", re.M)
VALUES = {"my-cluster.yaml": "ack-ai-installer.yaml", "my-scheduler.yaml": "ack-co-scheduler.yaml"}


@pytest.fixture(name="folder")
def _folder(tmp_path):
    """What a reader has: the checkout, and the values of his cluster."""
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    for name, values in VALUES.items():
        (tmp_path / name).write_text((ROOT / "lab/values" / values).read_text())
    return tmp_path


def follow(cluster, folder, step):
    """One command, again and again if it only looks; what is wrong with it in the end, or None."""
    deadline = time.monotonic() + (LOOK_FOR_S if step.only_looks() else 0)
    while True:
        done = subprocess.run(["bash", "-c", step.command], cwd=folder, env=cluster.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180, check=False)
        wrong = step.mismatch(KLOG.sub("", done.stdout))
        if done.returncode != step.status:
            wrong = f"exit {done.returncode}, not {step.status}:\n{done.stdout}"
        if wrong is None or time.monotonic() > deadline:
            return wrong
        time.sleep(0.3)


def served(cluster):
    """What this API server has of the groups that older ones lack."""
    found = set()
    for group in ("admissionregistration.k8s.io", "resource.k8s.io"):
        done = cluster.run("kubectl", "get", "--raw", f"/apis/{group}/v1", check=False)
        found |= {resource["name"] for resource in json.loads(done.stdout)["resources"]} if done.returncode == 0 else set()
    return found


def write_examples(folder, name_scheduler):
    (folder / "examples").mkdir()
    for path in (ROOT / "examples").glob("*.yaml"):
        text = path.read_text()
        (folder / "examples" / path.name).write_text(guide.name_scheduler(text) if name_scheduler else text)


@pytest.mark.parametrize("page", [pytest.param(path, id=path.stem, marks=[] if path.stem in ALWAYS else
                                               [pytest.mark.long(40, group=path.stem)]) for path in PAGES])
def test_page_does_what_it_says(lab, folder, page):
    nodes, steps = guide.parse(pathlib.Path(page).read_text())
    cluster = lab(nodes, fresh="helm uninstall" in page.read_text())
    has = served(cluster)
    names_scheduler = "mutatingadmissionpolicies" not in has    # the reader has to: docs/internals/admission.md
    write_examples(folder, names_scheduler)
    for step in steps:
        if step.needs and step.needs not in has:
            continue
        if step.command is None:
            text = "\n".join(step.expected) + "\n"
            (folder / step.name).write_text(guide.name_scheduler(text) if names_scheduler and text.startswith("apiVersion") else text)
            continue
        wrong = follow(cluster, folder, step)
        assert wrong is None, f"{page.name}:{step.line}: $ {step.command}\n{wrong}"
