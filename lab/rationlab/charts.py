"""Installs the charts of this repository with the real helm, and tells why when they do not become ready."""

import json
import subprocess
import time

from . import binaries
from .errors import LabError
from .paths import CHARTS, LAB_SOURCE
from .patience import deadline_in
from .procs import run
from .progress import say, step

AGENT, SCHEDULER = "ack-ai-installer", "ack-co-scheduler"
NAMES = (SCHEDULER, AGENT)    # AGENT brings a scheduler where there is none
NAMESPACE = "kube-system"
_BAD = ("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "CreateContainerConfigError",
        "InvalidImageName", "CreateContainerError", "RunContainerError")


def install(lab, changed_images):
    """Both charts, installed or upgraded; pods whose image changed under the same name are replaced."""
    for name in NAMES:
        chart = CHARTS / name
        if not (chart / "Chart.yaml").exists():
            say(f"chart {name} is not in this checkout: skipped")
            continue
        before = _workloads(lab, name)
        with step(f"chart {name} installed"):
            run([binaries.program("helm", lab.kubernetes), "upgrade", "--install", name, chart,
                 "--namespace", NAMESPACE, "--values", LAB_SOURCE / "values" / f"{name}.yaml",
                 *(["--set", "defaultScheduler=true"] if lab.default_scheduler and name == SCHEDULER else []),
                 *(["--set", f"criSocket={lab.nodes[0].runtime.socket}"] if name == AGENT else []),
                 "--kubeconfig", lab.pki.kubeconfig("admin")], f"chart {name}", env=lab.environment())
        if changed_images:
            for workload in before:
                lab.kubectl_output("rollout", "restart", "-n", NAMESPACE, workload)


def _workloads(lab, release):
    """DaemonSets and Deployments of a release, as kubectl names them."""
    listing = json.loads(lab.kubectl_output("get", "daemonsets,deployments", "-n", NAMESPACE, "-o", "json"))
    found = []
    for item in listing["items"]:
        if item["metadata"].get("annotations", {}).get("meta.helm.sh/release-name") == release:
            found.append(f"{item['kind'].lower()}/{item['metadata']['name']}")
    return found


def wait_ready(lab, timeout=120):
    """Waits until every workload of the charts has all its pods ready; the error shows events and logs."""
    workloads = [workload for name in NAMES for workload in _workloads(lab, name)]
    deadline, hopeless = deadline_in(timeout), deadline_in(45)
    for workload in workloads:
        with step(f"{workload} ready"):
            while not _is_ready(lab, workload):
                stuck = _stuck_pod(lab)
                if time.monotonic() > deadline or (stuck and time.monotonic() > hopeless):
                    raise LabError(f"{workload} is not ready.\n{_explain(lab)}")
                time.sleep(0.2)
    if lab.default_scheduler:
        with step("the default scheduler has the ledger"):
            while not _default_scheduler_has_ledger(lab):
                lab.control.part("ration-scheduler").check_running()
                if time.monotonic() > deadline:
                    raise LabError("the default scheduler has no ledger; the end of ration-scheduler's log:\n"
                                   + lab.control.part("ration-scheduler").log_tail())
                time.sleep(0.2)


def _default_scheduler_has_ledger(lab):
    leases = lab.control.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")["items"]
    return any(lease["metadata"]["name"] == "ration-ledger"
               and lease["spec"].get("holderIdentity") == f"{NAMESPACE}/kube-scheduler" for lease in leases)


def _is_ready(lab, workload):
    item = json.loads(lab.kubectl_output("get", "-n", NAMESPACE, workload, "-o", "json"))
    status = item.get("status", {})
    if status.get("observedGeneration", 0) < item["metadata"]["generation"]:
        return False
    if item["kind"] == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
        return status.get("numberReady", 0) >= wanted and status.get("updatedNumberScheduled", 0) >= wanted
    wanted = item["spec"]["replicas"]
    # `replicas` counts no pod that is ending: two schedulers for a moment, of which one holds the lease.
    return (status.get("readyReplicas", 0) >= wanted and status.get("updatedReplicas", 0) >= wanted
            and status.get("replicas", 0) == wanted)


def _not_ready_pods(lab):
    pods = json.loads(lab.kubectl_output("get", "pods", "-n", NAMESPACE, "-o", "json"))["items"]
    return [pod for pod in pods
            if not any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))]


def _stuck_pod(lab):
    for pod in _not_ready_pods(lab):
        for container in pod["status"].get("containerStatuses", []):
            if container.get("state", {}).get("waiting", {}).get("reason") in _BAD:
                return pod["metadata"]["name"]
    return None


def _explain(lab):
    """For every pod that is not ready: its events and the end of its containers' logs."""
    parts = []
    for pod in _not_ready_pods(lab):
        name = pod["metadata"]["name"]
        parts.append(f"--- pod {name}: {pod['status'].get('phase')}")
        parts.append(_kubectl(lab, "get", "events", "-n", NAMESPACE, "--field-selector", f"involvedObject.name={name}",
                              "-o", "custom-columns=REASON:.reason,MESSAGE:.message", "--no-headers"))
        parts.append(_kubectl(lab, "logs", "-n", NAMESPACE, name, "--all-containers", "--tail=15", "--prefix"))
    if not parts:
        parts.append(_kubectl(lab, "get", "events", "-n", NAMESPACE, "-o",
                              "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message"))
    return "\n".join(part.strip() for part in parts)


def _kubectl(lab, *argv):
    done = subprocess.run(lab.kubectl(*argv), capture_output=True, text=True, check=False, env=lab.environment())
    return done.stdout + done.stderr
