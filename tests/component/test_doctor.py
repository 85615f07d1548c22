"""ration doctor on a cluster: each check is silent where all is well, and tells its fault with the command that mends it."""
import copy
import json
import os
import pathlib
import shlex
import shutil
import subprocess

import pytest

import doctor_report
from listings import gpu_device, resource_claim, resource_slice

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve()
RATION = BUILD / "src/cli/ration"
FAKE = pathlib.Path(__file__).parent.resolve() / "doctor-kubectl"
SYSTEM = "namespaces/kube-system"
LEASES = f"/apis/coordination.k8s.io/v1/{SYSTEM}/leases"
CONFIGMAPS = f"/api/v1/{SYSTEM}/configmaps"
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RESOURCE = "/apis/resource.k8s.io/v1"
SLICES, CLAIMS, CLASSES = RESOURCE + "/resourceslices", RESOURCE + "/resourceclaims", RESOURCE + "/deviceclasses"
VALIDATING = ["ration-placement-keys", "ration-gpu-requests", "ration-gpu-volumes", "ration-gpu-privileges",
              "ration-agent-own-node"]
CHECKS = ["kubernetes", "permissions", "policies", "scheduler", "ledger", "versions", "labels", "agents", "runtime",
          "capacity", "cards", "mig", "fault-lists", "foreign-plugins", "requests", "unplaced", "placements", "claims",
          "scheduler-name"]
CARD = "GPU-11111111-0000-0000-0000-00000000000"


def lease(name, holder, renewed="2026-11-22T04:00:00.000000Z", seconds=15):
    return {"metadata": {"name": name}, "spec": {"holderIdentity": holder, "renewTime": renewed,
                                                 "leaseDurationSeconds": seconds}}


def pod(name, container, image="i", namespace="kube-system", node="", ready=True, phase="Running", **spec):
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": {}},
            "spec": {"containers": [{"name": container, "image": image}], "nodeName": node, **spec},
            "status": {"phase": phase, "conditions": conditions}}


def gpu_pod(name, units=4, node="", scheduler="ack-co-scheduler", placed=None):
    made = pod(name, "main", namespace="default", node=node, schedulerName=scheduler)
    made["spec"]["containers"][0]["resources"] = {"limits": {"aliyun.com/gpu-mem": str(units)}}
    if placed is not None:
        made["metadata"]["annotations"]["ration.dev/placement"] = json.dumps(
            {"unit": 1024, "containers": {"main": [{"uuid": placed, "units": units}]}})
    return made


def node(name, mode="share", cards=(16160, 16160), **labels):
    """As a node with so many cards is after its agent has published them: floor(16160 / 1024) = 15 units each."""
    gpus = [{"index": i, "uuid": f"{CARD}{i}", "model": "T", "mib": mib, "healthy": True} for i, mib in enumerate(cards)]
    offer = {"aliyun.com/gpu-mem": str(sum(mib // 1024 for mib in cards)), "aliyun.com/gpu-count": str(len(cards)),
             "cpu": "8"}
    if mode == "core_mem":
        offer["aliyun.com/gpu-core.percentage"] = str(100 * len(cards))
    return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": {"ack.node.gpu.schedule": mode, **labels},
                         "annotations": {"ration.dev/mode": mode, "ration.dev/unit": "1024",
                                         "ration.dev/gpus": json.dumps(gpus)}},
            "status": {"capacity": dict(offer), "allocatable": dict(offer),
                       "nodeInfo": {"containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.36.3"}}}


def agent(name, tag="0.1.0"):
    return pod(f"agent-{name}", "ration-agent", f"registry.example:5000/ration/ration-agent:{tag}", node=name)


def scheduler(name, lease_of=None, tag="0.1.0", **more):
    made = pod(name, "ration-scheduler", f"ration/ration-scheduler:{tag}", **more)
    if lease_of:
        made["spec"]["containers"][0]["args"] = [f"--scheduler-lease={lease_of}"]
    return made


def healthy():
    """A cluster with a share node, a core_mem node and one without GPUs, two replicas of the scheduler, one GPU pod."""
    plain = {"metadata": {"name": "plain", "uid": "uid-plain", "labels": {"kubernetes.io/os": "linux"}},
             "status": {"capacity": {"cpu": "8"}, "nodeInfo": {"containerRuntimeVersion": "docker://20.10"}}}
    named = [{"metadata": {"name": name}} for name in VALIDATING]
    mutating = [{"metadata": {"name": "ration-scheduler-name"}}]
    return {"objects": {
        "/version": {"gitVersion": "v1.36.3", "major": "1", "minor": "36"},
        LEASES: [lease("ration-ledger", "kube-system/ack-co-scheduler"), lease("ack-co-scheduler", "sched-a_1"),
                 lease("ration-agent-n1", "n1", seconds=40), lease("ration-agent-n2", "n2", seconds=40)],
        CONFIGMAPS: [config_map("kube-root-ca.crt", x="y"), config_map("unhealthy-gpu-plain", gpus="0"),
                     config_map("n1-device-status", devices="- {deviceId: 1, deviceType: gpu, healthy: true}\n")],
        ADMISSION: {"resources": [{"name": "validatingadmissionpolicies"}, {"name": "mutatingadmissionpolicies"}]},
        ADMISSION + "/validatingadmissionpolicies": named, ADMISSION + "/validatingadmissionpolicybindings": named,
        ADMISSION + "/mutatingadmissionpolicies": mutating, ADMISSION + "/mutatingadmissionpolicybindings": mutating,
        "/api/v1/pods": [agent("n1"), agent("n2"), agent("plain"), scheduler("sched-a"), scheduler("sched-b"),
                         gpu_pod("p", node="n1", placed=f"{CARD}0"), gpu_pod("waits"),
                         pod("other", "main", namespace="default", schedulerName="default-scheduler"),
                         gpu_pod("over", node="n1") | {"status": {"phase": "Succeeded"}}],
        "/api/v1/nodes": [node("n1"), node("n2", "core_mem", (16160,)), plain],
    }}


def pages(path, items, size):
    """Every URL that a list in pages of `size` is asked by, with the answer."""
    if path == PODS:
        path += "?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
        items = [i for i in items if not isinstance(i, dict) or not isinstance(i.get("status"), dict)
                 or i["status"].get("phase") not in ("Succeeded", "Failed")]
    for start in range(0, max(len(items), 1), size):
        url = path + ("&" if "?" in path else "?") + "limit=500" + (f"&continue={start}" if start else "")
        metadata = {"continue": str(start + size)} if start + size < len(items) else {}
        url += "&fieldSelector=spec.driver%3Dgpu.ration.dev" if path == SLICES else ""
        kind = {SLICES: "ResourceSliceList", CLAIMS: "ResourceClaimList"}.get(path, "List")
        yield url, {"kind": kind, "metadata": metadata, "items": items[start:start + size]}


def write_cluster(folder, cluster):
    shutil.rmtree(folder, ignore_errors=True)

    def write(name, text):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    write("missing.complaint", "Error from server (NotFound): the server could not find the requested resource")
    for path, answer in cluster["objects"].items():
        for url, page in pages(path, answer, cluster.get("page", 500)) if isinstance(answer, list) else [(path, answer)]:
            if path in cluster.get("forbidden", []) or ("continue=" in url and path in cluster.get("no_second_page", [])):
                write(url[1:] + ".complaint", f'Error from server (Forbidden): User "jane" cannot list resource "{path}"')
            else:
                write(url[1:] + ".json", json.dumps(page))
    for what in cluster.get("denied", []):
        write("denied/" + what.replace("/", "_").replace(" ", "."), "")
    if "down" in cluster:
        write("down", "")


@pytest.fixture
def doctor(tmp_path):
    def run(cluster, *args):
        write_cluster(tmp_path / "cluster", cluster)
        return subprocess.run([RATION, "doctor", *args], capture_output=True, text=True, timeout=30, check=False,
                              env=os.environ | {"KUBECTL": str(FAKE), "DOCTOR_CLUSTER": str(tmp_path / "cluster")})
    return run


def examine(doctor, cluster):
    return doctor_report.read(doctor(cluster, "-o", "json"))


def test_a_healthy_cluster_has_no_findings(doctor):
    status, findings, states = examine(doctor, healthy())
    assert findings == []
    assert states == {check: "ok" for check in CHECKS}
    assert list(states) == CHECKS
    assert status == 0
    done = doctor(healthy())
    assert (done.returncode, done.stdout) == (0, "19 checks passed\n")


def test_a_node_whose_gpus_claims_have_has_no_findings(doctor):
    cluster = healthy()
    dra(claims=[resource_claim("c", "8Gi", "n1", cores="50", pods=["x"]), resource_claim("d", "7Gi", "n1", cores="50", pods=["y"]),
                resource_claim("other", requests=[{"name": "nic", "exactly": {"deviceClassName": "nic.example.com"}}])])(cluster)
    status, findings, states = examine(doctor, cluster)
    assert (status, findings, states["claims"]) == (0, [], "ok")


def test_claims_that_may_not_be_read_are_unknown(doctor):
    cluster = healthy()
    dra()(cluster)
    cluster["forbidden"] = [SLICES]
    status, findings, states = examine(doctor, cluster)
    assert (status, findings, states["claims"]) == (3, [], "unknown")


def test_without_the_api_of_claims_one_request_more_is_made(doctor, tmp_path):
    doctor(healthy())
    log = (tmp_path / "cluster" / "log").read_text().splitlines()
    assert [line for line in log if "resource.k8s.io" in line] == ["get --raw=/apis/resource.k8s.io/v1"]


def the_node(cluster, name="n1"):
    return next(n for n in cluster["objects"]["/api/v1/nodes"] if n["metadata"]["name"] == name)


def labels(**changed):
    """Keys with dots: ack_node_gpu_placement."""
    def change(cluster):
        the_node(cluster)["metadata"]["labels"].update({k.replace("_", "."): v for k, v in changed.items()})
    return change


def annotations(**changed):
    def change(cluster):
        the_node(cluster)["metadata"]["annotations"].update({f"ration.dev/{k.replace('_', '-')}": v
                                                             for k, v in changed.items()})
    return change


def noted(reason, message):
    """The agent's word of what does not stop the node, where nothing else is wrong."""
    def change(cluster):
        the_node(cluster).setdefault("status", {})["conditions"] = [
            {"type": "Ready", "status": "True"},
            {"type": "GPUSharingProblem", "status": "False", "reason": reason, "message": message}]
    return change


def leaving(cluster):
    """SIGTERM has reached the agent: its pod is being deleted."""
    annotations(serving="false")(cluster)
    next(p for p in cluster["objects"][PODS] if p["metadata"]["name"] == "agent-n1")["metadata"]["deletionTimestamp"] = OLD


def capacity(resource, value, of="capacity", name="n1"):
    def change(cluster):
        the_node(cluster, name)["status"].setdefault(of, {})[resource] = value
    return change


def add(path, *items):
    def change(cluster):
        cluster["objects"][path] += items
    return change


def without(path, *names):
    def change(cluster):
        cluster["objects"][path] = [i for i in cluster["objects"][path] if i["metadata"]["name"] not in names]
    return change


def replaced(path, *items):
    def change(cluster):
        without(path, *(i["metadata"]["name"] for i in items))(cluster)
        add(path, *items)(cluster)
    return change


def version(minor):
    def change(cluster):
        cluster["objects"]["/version"] = {"gitVersion": f"v1.{minor}.0", "major": "1", "minor": f"{minor}+"}
    return change


def served(*kinds):
    def change(cluster):
        cluster["objects"][ADMISSION] = {"resources": [{"name": kind} for kind in kinds]}
    return change


def webhook(minor, client):
    """This release serves no MutatingAdmissionPolicy, and the chart has its webhook."""
    def change(cluster):
        version(minor)(cluster)
        served("validatingadmissionpolicies", "mutatingwebhookconfigurations")(cluster)
        cluster["objects"][ADMISSION + "/mutatingwebhookconfigurations"] = [
            {"metadata": {"name": "ration-scheduler-name"}, "webhooks": [{"clientConfig": client}]}]
    return change


def kubelet(text):
    def change(cluster):
        the_node(cluster)["status"]["nodeInfo"]["kubeletVersion"] = text
    return change


def runtime(text):
    def change(cluster):
        the_node(cluster)["status"]["nodeInfo"]["containerRuntimeVersion"] = text
    return change


def denied(*what):
    def change(cluster):
        cluster["denied"] = list(what)
    return change


def config_map(name, **data):
    return {"metadata": {"name": name}, "data": data}


def listed(name, **data):
    return add(CONFIGMAPS, config_map(name, **data))


def sick(cluster, **reason):
    gpus = [{"index": 0, "uuid": f"{CARD}0", "model": "T", "mib": 16160, "healthy": True},
            {"index": 1, "uuid": f"{CARD}1", "model": "T", "mib": 16160, "healthy": False, **reason}]
    annotations(gpus=json.dumps(gpus))(cluster)
    capacity("aliyun.com/gpu-mem", "15", "allocatable")(cluster)




def no_scheduler(cluster):
    without(PODS, "sched-a", "sched-b")(cluster)
    without(LEASES, "ration-ledger")(cluster)


def foreign(owner, terms=None, **spec):
    """A pod of a DaemonSet of NVIDIA's plugin, as the DaemonSet controller makes it."""
    name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    term = name | ({"matchExpressions": terms} if terms else {})
    made = pod(f"{owner}-x", "p", "nvcr.io/nvidia/k8s-device-plugin:v0.17", node="n1", affinity={"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}, **spec)
    made["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": owner, "controller": True}]
    return made


def both(*changes):
    def change(cluster):
        for one in changes:
            one(cluster)
    return change


def because(reason):
    return lambda cluster: sick(cluster, reason=reason)


# What resets the card, whatever the driver; NVIDIA's catalogue of Xids says what else there is to do.
RESET = "kubectl drain n1 --ignore-daemonsets --delete-emptydir-data  # then reboot the node"
OLD = "2026-11-22T03:59:00.000000Z"  # a minute before the newest
N1, LEDGER = "node n1", "Lease kube-system/ration-ledger"


def dra(*more, slices=None, claims=(), classes=("gpu.ration.dev", "whole.gpu.ration.dev"), pods=()):
    """n1 gives its GPUs to claims, after these changes."""
    def change(cluster):
        shared = node("n1", "dra")
        shared["status"] = {of: {"cpu": "8"} for of in ("capacity", "allocatable")} | {"nodeInfo": shared["status"]["nodeInfo"]}
        replaced(NODES, shared)(cluster)
        without(PODS, "p", "waits", "over")(cluster)
        add(PODS, *pods)(cluster)
        add(ADMISSION + "/validatingadmissionpolicies", {"metadata": {"name": "ration-gpu-claims"}})(cluster)
        cluster["objects"] |= {
            RESOURCE: {"kind": "APIResourceList"}, CLAIMS: list(claims),
            SLICES: [resource_slice("n1", devices=[gpu_device(f"gpu-{i}", i, 16160, f"{CARD}{i}") for i in (0, 1)])]
            if slices is None else slices,
            CLASSES: {"items": [{"metadata": {"name": name}} for name in classes]}}
        both(*more)(cluster)
    return change


def claim_pod(name, claim, made=None):
    """A pod that waits, with this claim; made: the name of the claim that was made from its template."""
    waiting = pod(name, "main", namespace="default", phase="Pending", schedulerName="default-scheduler",
                  resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"} if made else
                                  {"name": "gpu", "resourceClaimName": claim}])
    if made:
        waiting["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": made}]
    return waiting


GONE = resource_claim("c", "3Gi", "n1", "gpu-7", pods=["user"])
OTHER_CLASS = resource_claim("c", requests=[{"name": "gpu", "firstAvailable": [
    {"name": "a", "deviceClassName": "gpu.ration.dev"}, {"name": "b", "deviceClassName": "big.example.com"}]}])
EXCLUSIVE = resource_slice("n1", devices=[gpu_device("gpu-0", 0, 16160, f"{CARD}0", allowMultipleAllocations=False)])
TORN = resource_slice("n1", devices=[{"name": "a.b"}])
FAULTS = [
    # what, change, check, severity, where, words of what is said, words of the command
    ("too-old", version(28), "kubernetes", "error", "cluster", "1.29", ""),
    ("no-validating", version(29), "kubernetes", "warning", "cluster", "ValidatingAdmissionPolicy v1", ""),
    ("no-mutating-either", version(29), "kubernetes", "warning", "cluster", "schedulerName: ack-co-scheduler", ""),
    ("no-mutating", version(35), "kubernetes", "note", "cluster", "schedulerName: ack-co-scheduler", ""),
    ("may-not", denied("create pods/portforward"), "permissions", "warning", "you", "create pods/portforward in kube-system",
     "kubectl auth can-i create pods/portforward --namespace=kube-system"),
    ("policy", without(ADMISSION + "/validatingadmissionpolicies", "ration-placement-keys"), "policies", "warning",
     "ValidatingAdmissionPolicy/ration-placement-keys", "can forge", "policies.placementKeys=true"),
    ("binding", without(ADMISSION + "/validatingadmissionpolicybindings", "ration-gpu-volumes"), "policies", "warning",
     "ValidatingAdmissionPolicyBinding/ration-gpu-volumes", "replace the agent's grant", "policies.volumes=true"),
    ("mutating", without(ADMISSION + "/mutatingadmissionpolicies", "ration-scheduler-name"), "policies", "note",
     "MutatingAdmissionPolicy/ration-scheduler-name", "must name their scheduler", ""),
    ("webhook-without-certificate", webhook(35, {}), "policies", "warning", "MutatingWebhookConfiguration/ration-scheduler-name",
     "no ration-scheduler has written its certificate", "logs -l app=ack-co-scheduler -c ration-scheduler"),
    ("validating-unserved", served("mutatingadmissionpolicies"), "policies", "warning", "cluster", "is not served", ""),
    ("no-scheduler", no_scheduler, "scheduler", "error", "cluster", "no scheduler chooses GPUs",
     "helm upgrade --install ack-ai-installer deploy/charts/ack-ai-installer -n kube-system --reset-then-reuse-values "
     "--set scheduler.enabled=true"),
    ("not-ready", replaced(PODS, scheduler("sched-a", ready=False), scheduler("sched-b", ready=False)), "scheduler",
     "error", "cluster", "none of the 2 pods", "kubectl -n kube-system describe pods -l app=ack-co-scheduler"),
    ("no-leader", without(LEASES, "ack-co-scheduler"), "scheduler", "error", "kube-system/ack-co-scheduler",
     "no GPU pod is placed", "describe pods"),
    ("leader-stopped", replaced(LEASES, lease("ack-co-scheduler", "sched-a_1", OLD)), "scheduler", "error",
     "kube-system/ack-co-scheduler", "sched-a_1 no longer renews it", "describe pods"),
    ("unowned", without(LEASES, "ration-ledger"), "ledger", "error", LEDGER, "no scheduler owns", "describe pods"),
    ("owner-stopped", replaced(LEASES, lease("ration-ledger", "kube-system/ack-co-scheduler", OLD)), "ledger", "error",
     LEDGER, "no longer renews", "describe pods"),
    ("outside", without(PODS, "sched-a", "sched-b"), "ledger", "note", LEDGER, "outside of pods", ""),
    ("second-pair", add(PODS, scheduler("kube-scheduler-cp1", "kube-system/kube-scheduler")), "ledger", "error",
     "pod kube-system/kube-scheduler-cp1", "owned by kube-system/ack-co-scheduler", "kubectl"),
    ("gpushare", add(PODS, pod("gpushare-schd-extender-x", "main", "acs/k8s-gpushare-schd-extender:1.11", node="plain")),
     "ledger", "error", "pod kube-system/gpushare-schd-extender-x", "ledger of its own", "kubectl -n kube-system get pod"),
    ("two-agents", replaced(PODS, agent("n2", "0.0.9")), "versions", "warning", "agents", "2 versions", "get pods"),
    ("skew", replaced(PODS, agent("n1", "0.2.0"), agent("n2", "0.2.0"), agent("plain", "0.2.0")), "versions", "warning",
     "cluster", "agents are of version 0.2.0 and the scheduler of 0.1.0",
     "helm upgrade --install ack-ai-installer deploy/charts/ack-ai-installer -n kube-system --reset-then-reuse-values"),
    ("value-typo", labels(ack_node_gpu_schedule="shared"), "labels", "error", N1, "schedule=shared is not a mode",
     "kubectl label node n1 ack.node.gpu.schedule=share --overwrite"),
    ("placement-typo", labels(ack_node_gpu_placement="Spread"), "labels", "warning", N1, "neither binpack nor spread",
     "kubectl label node n1 ack.node.gpu.placement=spread --overwrite"),
    ("key-typo", labels(ack_node_gpu_scheduler="cgpu"), "labels", "warning", N1, "ack.node.gpu.scheduler",
     "kubectl label node n1 ack.node.gpu.schedule=cgpu ack.node.gpu.scheduler-"),
    ("key-typo-case", labels(ack_node_gpu_Placment="spread"), "labels", "warning", N1, "was ack.node.gpu.placement meant",
     "ack.node.gpu.placement=spread ack.node.gpu.Placment-"),
    ("legacy", labels(gpushare="yes"), "labels", "warning", N1, "gpushare=yes", "kubectl label node n1 gpushare-"),
    ("legacy-too", labels(cgpu="true"), "labels", "note", N1, "the second counts", "kubectl label node n1 cgpu-"),
    ("policy-7", annotations(policy="7"), "labels", "warning", N1, "not a policy from 0 to 5",
     "kubectl annotate node n1 ration.dev/policy-"),
    ("no-agent", without(PODS, "agent-n1"), "agents", "error", N1, "no ration-agent runs",
     "kubectl -n kube-system describe daemonset gpushare-device-plugin-ds"),
    ("no-lease", without(LEASES, "ration-agent-n1"), "agents", "error", N1, "no Lease",
     "kubectl -n kube-system logs agent-n1 -c ration-agent"),
    ("agent-stopped", replaced(LEASES, lease("ration-agent-n1", "n1", OLD, 40)), "agents", "error", N1, "no longer renews",
     "logs agent-n1"),
    ("problem", annotations(problem="the driver is gone"), "agents", "error", N1, "the driver is gone", "logs agent-n1"),
    ("leaving", leaving, "agents", "warning", N1, "about to stop", "logs agent-n1"),
    ("unregistered", annotations(serving="false"), "agents", "warning", N1, "the kubelet does not have its devices yet",
     "logs agent-n1"),
    ("unknown-functions", noted("GPUDriverUnknownFunctions", "the NVIDIA driver 620.1 has 2 functions that this version of "
                                "ration does not know"), "agents", "warning", N1, "has 2 functions that", ""),
    ("lost-at-reload", noted("GPULostAtReload", "containers of this node lose their GPUs"), "agents", "warning", N1,
     "ration-agent says: containers of this node lose their GPUs", ""),
    ("pending", annotations(mode_pending="cgpu"), "agents", "note", N1, "its mode changes to cgpu", ""),
    ("unit-pending", annotations(unit_pending="128"), "agents", "note", N1, "its unit (MiB) changes to 128", ""),
    ("old-containerd", runtime("containerd://1.6.33"), "runtime", "error", N1, "does not support CDI", "ration doctor --node"),
    ("old-kubelet", kubelet("v1.27.16"), "runtime", "error", N1, "v1.27.16 takes no CDI devices from device plugins", ""),
    ("gated-kubelet", kubelet("v1.28.3-aliyun.1"), "runtime", "warning", N1, "feature gate DevicePluginCDIDevices", ""),
    ("docker", runtime("docker://20.10.7"), "runtime", "warning", N1, "docker://20.10.7", "ration doctor --node"),
    ("old-cri-o", runtime("cri-o://1.33.4"), "runtime", "warning", N1, "cri-o://1.33.4; the oldest CRI-O", "ration doctor --node"),
    ("too-little", capacity("aliyun.com/gpu-mem", "15"), "capacity", "error", N1,
     "capacity has 15 of aliyun.com/gpu-mem, but its GPUs are 30 units of 1024 MiB", "delete pod"),
    ("not-allocatable", capacity("aliyun.com/gpu-mem", "29", "allocatable"), "capacity", "warning", N1, "only 29",
     "--field-selector spec.nodeName=n1"),
    ("core", capacity("aliyun.com/gpu-core.percentage", "200"), "capacity", "error", N1, "and 0 is right", "delete pod"),
    ("no-core", capacity("aliyun.com/gpu-core.percentage", "0", name="n2"), "capacity", "error", "node n2",
     "and 100 is right", "delete pod"),
    ("count", capacity("aliyun.com/gpu-count", "1"), "capacity", "warning", N1, "it has 2 GPUs", "delete pod"),
    ("torn", annotations(gpus="["), "capacity", "error", N1, "malformed", "delete pod"),
    ("left-over", capacity("aliyun.com/gpu-mem", "15", name="plain"), "capacity", "error", "node plain",
     "no mode is in force", "delete pod"),
    ("sick", sick, "cards", "warning", N1, f"GPU 1 ({CARD}1) is faulty", "kubectl get events"),
    ("cordoned", because("cordoned: fan"), "cards", "warning", N1, "takes no new pods: cordoned: fan", "ration uncordon n1 1"),
    ("xid", because("Xid 48"), "cards", "error", N1, f"GPU 1 ({CARD}1) is faulty: no new pods go there; Xid 48", RESET),
    ("ecc", because("uncorrectable ECC error"), "cards", "error", N1, "uncorrectable ECC error", RESET),
    ("lost", because("does not answer: GPU is lost"), "cards", "error", N1, "GPU is lost", RESET),
    ("declared", because("declared faulty by ConfigMap kube-system/n1-device-status: x"), "cards", "warning", N1, "device-status",
     "kubectl -n kube-system edit configmap n1-device-status"),
    ("declared-too", because("declared faulty by ConfigMap kube-system/unhealthy-gpu-n1"), "cards", "warning", N1,
     "unhealthy-gpu-n1", "kubectl -n kube-system edit configmap unhealthy-gpu-n1"),
    ("declared-by-a-joker", because("declared faulty by ConfigMap kube-system/$(reboot)"), "cards", "warning", N1, "ConfigMap",
     "kubectl get events"),
    ("mig", annotations(mig='[{"index":1,"uuid":"GPU-mig-1"}]'), "mig", "warning", N1,
     "GPU 1 (GPU-mig-1) is divided by MIG, and is not shared", "nvidia-smi -i 1 -mig 0  # on the node"),
    ("torn-list", listed("n1-device-status", devices="- deviceId: ["), "fault-lists", "error",
     "configmap kube-system/n1-device-status", "malformed", "edit configmap n1-device-status"),
    ("torn-gpus", listed("unhealthy-gpu-n1", gpus="0;1"), "fault-lists", "error",
     "configmap kube-system/unhealthy-gpu-n1", "malformed", "edit configmap unhealthy-gpu-n1"),
    ("no-list", listed("n1-device-status", device="x"), "fault-lists", "error", "configmap kube-system/n1-device-status",
     "no data.devices", "edit configmap"),
    ("no-such-card", listed("unhealthy-gpu-n1", gpus="1,2"), "fault-lists", "warning",
     "configmap kube-system/unhealthy-gpu-n1", "GPU 2, which node n1 does not have", "edit configmap"),
    ("no-dra", labels(ack_node_gpu_schedule="dra"), "claims", "error", "cluster", "does not serve resource.k8s.io/v1 (from 1.34)", ""),
    ("no-slice", dra(slices=[]), "claims", "error", N1, "has published no ResourceSlice", "logs agent-n1 -c ration-agent"),
    ("slice-of-no-agent", dra(replaced(LEASES, lease("ration-agent-n1", "n1", OLD, 40))), "claims", "error", N1,
     "no ration-agent serves there, but its ResourceSlice n1-gpu.ration.dev-abcde exists",
     "kubectl -n kube-system describe daemonset gpushare-device-plugin-ds"),
    ("slice-of-another-mode", dra(replaced(NODES, node("n1")), classes=("gpu.ration.dev", "whole.gpu.ration.dev")), "claims", "error",
     N1, "it is not in mode dra or does not exist", "kubectl delete resourceslice n1-gpu.ration.dev-abcde"),
    ("exclusive", dra(slices=[EXCLUSIVE]), "claims", "error", N1, "the feature gate DRAConsumableCapacity is off", ""),
    ("torn-slice", dra(slices=[TORN, resource_slice("n1", 16160)]), "claims", "error", "cluster",
     "ResourceSlice n1-gpu.ration.dev-abcde: devices[0]: name is \"a.b\"", ""),
    ("no-class", dra(classes=("whole.gpu.ration.dev",)), "claims", "warning", "DeviceClass gpu.ration.dev", "does not exist",
     "--set claims.enabled=true"),
    ("no-policy-of-claims", dra(without(ADMISSION + "/validatingadmissionpolicies", "ration-gpu-claims")), "claims", "warning",
     "ValidatingAdmissionPolicy/ration-gpu-claims", "it is not installed", "--set policies.claims=true"),
    ("device-gone", dra(claims=[GONE]), "claims", "error", "ResourceClaim default/c", "allocated to device gpu-7 of pool n1, which no",
     "kubectl -n default delete pod user"),
    ("device-gone-unused", dra(claims=[resource_claim("c", "3Gi", "n9")]), "claims", "error", "ResourceClaim default/c",
     "device gpu-0 of pool n9", "kubectl -n default delete resourceclaim c"),
    ("over-total", dra(claims=[resource_claim(name, "8Gi", "n1", pods=["x"]) for name in "ab"]), "claims", "error", N1,
     "its device gpu-0 has claims for 16 GiB of 16160 MiB of memory and 0 percent", "kubectl get resourceclaims"),
    ("over-total-cores", dra(claims=[resource_claim(name, "1Gi", "n1", cores="55", pods=["x"]) for name in "ab"]), "claims", "error",
     N1, "2 GiB of 16160 MiB of memory and 110 percent", "kubectl get resourceclaims"),
    ("broken-claim", dra(claims=[resource_claim("c", "0", "n1")]), "claims", "error", "ResourceClaim default/c",
     "memory is 0: must be above 0", "kubectl -n default delete resourceclaim c"),
    ("class-of-claim", dra(claims=[OTHER_CLASS]), "claims", "warning", "ResourceClaim default/c",
     "names DeviceClass big.example.com, which does not exist", "delete resourceclaim c"),
    ("claim-waits", dra(claims=[resource_claim("c", "3Gi")], pods=[claim_pod("w", "c")]), "claims", "note", "pod default/w",
     "its ResourceClaim c is not allocated", "ration why -n default w"),
    ("made-claim-waits", dra(claims=[resource_claim("w-gpu-x", "3Gi")], pods=[claim_pod("w", None, "w-gpu-x")]), "claims", "note",
     "pod default/w", "its ResourceClaim w-gpu-x is not allocated", "ration why -n default w"),
    ("no-such-node", listed("unhealthy-gpu-n9", gpus="0"), "fault-lists", "note",
     "configmap kube-system/unhealthy-gpu-n9", "their node does not exist", "delete configmap unhealthy-gpu-n9"),
    ("nvidia", add(PODS, pod("nvidia-device-plugin-daemonset-x", "p", "nvcr.io/nvidia/k8s-device-plugin:v0.17", node="n1")),
     "foreign-plugins", "error", N1, "as nvidia.com/gpu", "kubectl -n kube-system get pod nvidia-device-plugin-daemonset-x"),
    ("gpushare-plugin", add(PODS, pod("gpushare-device-plugin-ds-x", "p", "acs/k8s-gpushare-plugin:v2", node="n1")),
     "foreign-plugins", "error", N1, "device plugin of gpushare", "get pod gpushare-device-plugin-ds-x"),
    ("daemonset", add(PODS, foreign(owner="nvdp")), "foreign-plugins", "error", N1, "NVIDIA's device plugin runs there too",
     "kubectl -n kube-system patch daemonset nvdp -p '{\"spec\":"),
    ("daemonset-affinity", add(PODS, foreign(owner="nvdp", terms=[{"key": "gpu", "operator": "Exists"}])), "foreign-plugins",
     "error", N1, "NVIDIA's device plugin", "kubectl -n kube-system edit daemonset nvdp  # add to the matchExpressions"),
    ("gpu-operator", add(PODS, foreign(owner="nvdp", nodeSelector={"nvidia.com/gpu.deploy.device-plugin": "true"})),
     "foreign-plugins", "error", N1, "NVIDIA's device plugin",
     "kubectl label node n1 nvidia.com/gpu.deploy.device-plugin=false --overwrite"),
    ("second-offer", capacity("nvidia.com/gpu", "2", "allocatable"), "foreign-plugins", "error", N1, "nvidia.com/gpu: 2",
     "--field-selector spec.nodeName=n1 | grep -i device-plugin"),
    ("second-offer-shared", capacity("nvidia.com/gpu.shared", "8", "allocatable"), "foreign-plugins", "error", N1,
     "nvidia.com/gpu.shared: 8", "grep"),
    ("second-offer-operator", both(labels(**{"nvidia_com/gpu_deploy_device-plugin": "true"}),
                                   capacity("nvidia.com/gpu", "2", "allocatable")), "foreign-plugins", "error", N1,
     "nvidia.com/gpu: 2", "kubectl label node n1 nvidia.com/gpu.deploy.device-plugin=false --overwrite"),
    ("impossible", add(PODS, gpu_pod("odd", units="-1")), "requests", "warning", "pod default/odd", "gpu-mem",
     "kubectl -n default delete pod odd"),
    ("unplaced", add(PODS, gpu_pod("bare", node="n1")), "unplaced", "error", "pod default/bare",
     "asks for 4 of aliyun.com/gpu-mem and is bound to node n1", "kubectl -n default delete pod bare"),
    ("another-machine", add(PODS, gpu_pod("left", node="n1", placed="GPU-99999999-0000-0000-0000-000000000000")), "placements",
     "error", "pod default/left", "GPU-99999999-0000-0000-0000-000000000000, which node n1 does not have",
     "kubectl -n default delete pod left"),
    ("other-scheduler", add(PODS, gpu_pod("lost", scheduler="default-scheduler")), "scheduler-name", "error",
     "pod default/lost", 'its schedulerName is "default-scheduler"', "kubectl -n default delete pod lost"),
]


@pytest.mark.parametrize("change,check,severity,where,what,mend", [fault[1:] for fault in FAULTS],
                         ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_told_by_its_check_with_what_mends_it(doctor, change, check, severity, where, what, mend):
    cluster = copy.deepcopy(healthy())
    change(cluster)
    doctor_report.assert_tells(examine(doctor, cluster), check, severity, where, what, mend)


def test_cri_o_that_ration_was_tried_with_is_well(doctor):
    cluster = healthy()
    runtime("cri-o://1.34.0")(cluster)
    assert examine(doctor, cluster)[:2] == (0, [])


@pytest.mark.parametrize("releases, command", [
    (("gpu", "gpu"), "helm upgrade --install gpu deploy/charts/ack-ai-installer -n kube-system --reset-then-reuse-values "
                     "--set scheduler.policies.requests=true"),
    (("gpu", "sched"), "helm upgrade --install sched deploy/charts/ack-co-scheduler -n kube-system --reset-then-reuse-values "
                       "--set policies.requests=true")], ids=["a part of the agents' release", "a release of its own"])
def test_a_value_of_the_scheduler_is_set_in_the_release_that_has_it(doctor, releases, command):
    cluster = healthy()
    for made in cluster["objects"][PODS]:
        name = made["spec"]["containers"][0]["name"]
        if name in ("ration-agent", "ration-scheduler"):
            made["metadata"]["labels"] = {"app.kubernetes.io/instance": releases[name == "ration-scheduler"]}
    without(ADMISSION + "/validatingadmissionpolicies", "ration-gpu-requests")(cluster)
    doctor_report.assert_tells(examine(doctor, cluster), "policies", "warning", "ValidatingAdmissionPolicy/ration-gpu-requests",
                               "is not installed", command)


def test_every_check_has_a_fault():
    assert {fault[2] for fault in FAULTS} == set(CHECKS)


def test_what_may_not_be_read_is_unknown_and_never_well(doctor):
    cluster = healthy() | {"forbidden": [LEASES]}
    status, findings, states = examine(doctor, cluster)
    assert (status, findings) == (3, [])
    assert {check for check, state in states.items() if state == "unknown"} == {"scheduler", "ledger", "agents",
                                                                               "claims", "scheduler-name"}
    text = doctor(cluster).stdout
    assert 'unknown  ledger: could not look: /apis/coordination.k8s.io/v1/namespaces/kube-system/leases: Error from ' \
        'server (Forbidden): User "jane"' in text
    assert text.endswith("14 checks passed, 5 could not be made\n")


@pytest.mark.parametrize("minor", [30, 35])
def test_a_cluster_whose_webhook_names_the_scheduler_has_no_findings(doctor, minor):
    cluster = copy.deepcopy(healthy())
    webhook(minor, {"caBundle": "LS0t"})(cluster)
    assert examine(doctor, cluster)[:2] == (0, [])


def test_a_finding_outweighs_what_could_not_be_looked_at(doctor):
    cluster = healthy() | {"forbidden": [LEASES]}
    annotations(policy="7")(cluster)
    assert doctor(cluster).returncode == 1


def test_a_check_with_a_finding_that_ends_early_is_in_both_numbers(doctor):
    """The second page of nodes does not come, and 10 of 19 checks need the nodes."""
    cluster = healthy() | {"page": 1, "no_second_page": ["/api/v1/nodes"]}
    annotations(policy="7")(cluster)
    cluster["objects"]["/api/v1/nodes"].append({"metadata": {"name": "n9", "uid": "u9"}})
    done = doctor(cluster)
    assert (done.returncode, done.stdout.count("error  "), done.stdout.count("warning  ")) == (1, 0, 1)
    assert "warning  labels: node n1: " in done.stdout and "unknown  labels: could not look: " in done.stdout
    assert done.stdout.endswith("\n9 checks passed, 1 had 1 finding, 10 could not be made\n")


def test_without_a_cluster_it_could_not_look(doctor, tmp_path):
    done = doctor(healthy() | {"down": True})
    assert (done.returncode, done.stdout) == (3, "")
    assert "was refused" in done.stderr and "ration: the API server of kubectl's configuration (" in done.stderr
    done = subprocess.run([RATION, "doctor"], capture_output=True, text=True, timeout=10, check=False,
                          env=os.environ | {"KUBECTL": str(tmp_path / "none")})
    assert done.returncode == 3 and "install kubectl" in done.stderr


def test_it_only_reads(doctor, tmp_path):
    doctor(healthy())
    calls = [line.split() for line in (tmp_path / "cluster/log").read_text().splitlines()]
    assert {tuple(call[:2]) for call in calls if call[0] != "get"} == {("auth", "can-i")}
    paths = [call[1] for call in calls if call[0] == "get"]
    assert paths and all(path.startswith("--raw=/") for path in paths)


def test_lists_are_read_page_by_page(doctor):
    cluster = healthy() | {"page": 2}
    add(PODS, gpu_pod("last", node="n1"))(cluster)
    _, findings, _ = examine(doctor, cluster)
    assert [f[2] for f in findings] == ["pod default/last"]


def test_many_findings_of_one_check_are_counted(doctor):
    cluster = healthy()
    add(PODS, *(gpu_pod(f"p{i}", node="n1") for i in range(60)))(cluster)
    done = doctor(cluster)
    assert done.stdout.count("error    unplaced: ") == 50
    assert "more     unplaced: 10 further ones are not shown\n" in done.stdout
    assert done.stdout.endswith("checks passed, 1 had 60 findings\n")


def test_the_worst_comes_first_and_the_command_is_below(doctor):
    cluster = healthy()
    annotations(policy="7")(cluster)
    add(PODS, gpu_pod("bare", node="n1"))(cluster)
    lines = doctor(cluster).stdout.splitlines()
    assert lines[0].startswith("error    unplaced: pod default/bare: ")
    assert lines[1] == "         kubectl -n default delete pod bare"
    assert lines[2].startswith("warning  labels: node n1: ")


def test_names_cannot_command_the_terminal(doctor):
    cluster = healthy()
    add(PODS, gpu_pod("lost", scheduler="\x1b[2J\nevil"))(cluster)
    annotations(problem="\x1b]0;owned\x07")(cluster)
    out = doctor(cluster).stdout
    assert "\x1b" not in out and "\x07" not in out and "\nevil" not in out


def test_the_default_scheduler_is_ours_where_it_owns_the_ledger(doctor):
    cluster = healthy()
    without(PODS, "sched-a", "sched-b")(cluster)
    without(LEASES, "ration-ledger", "ack-co-scheduler")(cluster)
    add(LEASES, lease("ration-ledger", "kube-system/kube-scheduler"), lease("kube-scheduler", "cp1_1"))(cluster)
    without(ADMISSION + "/mutatingadmissionpolicies", "ration-scheduler-name")(cluster)
    add(PODS, scheduler("kube-scheduler-cp1", "kube-system/kube-scheduler"), gpu_pod("q", scheduler="default-scheduler"))(
        cluster)
    assert examine(doctor, cluster)[1] == []


def test_answers_of_another_shape_do_not_break_it(doctor):
    cluster = healthy()
    for path in (LEASES, PODS, NODES, CONFIGMAPS):
        add(path, 7, None, [], {}, {"metadata": 3, "spec": [], "status": "x"},
            {"metadata": {"name": "odd", "uid": "u", "labels": 3, "annotations": []}, "spec": 1,
             "status": {"capacity": [], "conditions": 3}})(cluster)
    done = doctor(cluster)
    assert done.returncode in (0, 1) and done.stderr == ""


@pytest.mark.parametrize("args,words", [(["-o", "yaml"], '--output: invalid value "yaml"; must be json'), (["n1"], "unexpected argument n1"),
                                        (["--unknown"], 'unknown option "--unknown"')])
def test_wrong_arguments_are_refused(doctor, args, words):
    done = doctor(healthy(), *args)
    assert done.returncode == 2 and words in done.stderr and "\nTry 'ration doctor --help'" in done.stderr


@pytest.mark.parametrize("change", [
    capacity("nvidia.com/gpu", "2"), capacity("nvidia.com/gpu", "0", "allocatable"),
    capacity("nvidia.com/mig-1g.10gb", "7", "allocatable"), capacity("nvidia.com/gpu", "2", "allocatable", "plain")],
    ids=["capacity-of-a-plugin-that-is-gone", "none", "parts-of-mig", "a-node-that-is-not-ours"])
def test_what_gives_no_gpu_a_second_time_is_no_finding(doctor, change):
    cluster = healthy()
    change(cluster)
    assert [f for f in examine(doctor, cluster)[1] if f[0] == "foreign-plugins"] == []


def test_the_command_that_keeps_a_daemonset_off_is_a_patch(doctor):
    """What kubectl patch is given is JSON, and selects nodes that do not have the label by which this node is ration's."""
    for key, legacy in (("ack.node.gpu.schedule", False), ("cgpu", True)):
        cluster = healthy()
        add(PODS, foreign(owner="nvdp"))(cluster)
        if legacy:
            the_node(cluster)["metadata"]["labels"] = {"cgpu": "true"}
        mend = next(f[4] for f in examine(doctor, cluster)[1] if f[0] == "foreign-plugins")
        *_, patch = shlex.split(mend)
        affinity = json.loads(patch)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        assert affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
            {"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}]
