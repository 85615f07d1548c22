"""The guide followed page by page, on the nodes that each page names. What the pages may say: guide.py."""
import pathlib
import re
import subprocess
import time

import pytest

import guide
from cluster import ROOT

# Those that want the same nodes one after the other: they share a lab, unless one takes the charts away.
PAGES = sorted((path for path in (ROOT / "docs/guide").glob("*.md") if guide.parse(path.read_text())[0]),
               key=lambda path: guide.parse(path.read_text())[0])
LONG = ("from-gpushare", "from-hami")    # their manifests are much like those of the other pages
LOOK_FOR_S = 60
# Of kubectl's client library, as of a watch that it begins anew.
KLOG = re.compile(r"^[IWE]\d{4} \d\d:\d\d:.*\n", re.M)
VALUES = ROOT / "lab/values/ack-ai-installer.yaml"


@pytest.fixture(name="folder")
def _folder(tmp_path):
    """What a reader has: the checkout, and the values of his cluster."""
    for name in ("examples", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "my-cluster.yaml").write_text(VALUES.read_text())
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


@pytest.mark.parametrize("page", [pytest.param(path, id=path.stem, marks=[pytest.mark.long] if path.stem in LONG else [])
                                  for path in PAGES])
def test_page_does_what_it_says(lab, folder, page):
    nodes, steps = guide.parse(pathlib.Path(page).read_text())
    cluster = lab(nodes, fresh="helm uninstall" in page.read_text())
    for step in steps:
        if step.command is None:
            (folder / step.name).write_text("\n".join(step.expected) + "\n")
            continue
        wrong = follow(cluster, folder, step)
        assert wrong is None, f"{page.name}:{step.line}: $ {step.command}\n{wrong}"
