"""The charts as helm renders them, without a cluster; the helm is the lab's."""

import pathlib
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHARTS = ROOT / "deploy/charts"
sys.path.insert(0, str(ROOT / "lab"))
from rationlab import binaries    # noqa: E402
from rationlab.layout import KUBERNETES    # noqa: E402

NEWEST = "1.37.2"    # the newest Kubernetes on which tests run, in the full form

AGENT, SCHEDULER = "ack-ai-installer", "ack-co-scheduler"
IMAGES = {AGENT: "ration-agent", SCHEDULER: "ration-scheduler"}
API_VERSIONS = ",".join((*(f"admissionregistration.k8s.io/v1/{kind}AdmissionPolicy" for kind in ("Mutating", "Validating")),
                         "resource.k8s.io/v1/DeviceClass"))


def helm(*argv):
    """The finished process; its output is text."""
    return subprocess.run([binaries.program("helm", KUBERNETES), *map(str, argv)], capture_output=True, text=True,
                          check=False, timeout=60)


def named(chart):
    """The one value that has no default. Of the agent's chart without its part `scheduler`."""
    alone = ",scheduler.enabled=false" if chart == AGENT else ""
    return ["--set", f"image.repository=ration/{IMAGES[chart]}{alone}"]


def template(chart, *argv, version=KUBERNETES, name=True):
    served = ["--api-versions", API_VERSIONS] if version == KUBERNETES else []
    return helm("template", chart, CHARTS / chart, "-n", "kube-system", "--kube-version", version, *served,
                *(named(chart) if name else []), *argv)


def rendered(chart, *argv, **kwargs):
    """The objects of a chart, in helm's order."""
    done = template(chart, *argv, **kwargs)
    assert done.returncode == 0, done.stderr
    return [obj for obj in yaml.safe_load_all(done.stdout) if obj]


def refusal(chart, *argv):
    done = template(chart, *argv)
    assert done.returncode != 0, f"{argv} is taken"
    return done.stderr


def find(objects, kind, name=None):
    """The one of this kind (and name)."""
    found = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    assert len(found) == 1, [(o["kind"], o["metadata"]["name"]) for o in objects]
    return found[0]
