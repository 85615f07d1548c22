"""What the tests of listings share: nodes, pods and containers as the API server and kubectl return them."""
import json
import os
import pathlib
import subprocess

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve()
PROGRAM = BUILD / "src/cli/kubectl-inspect-cgpu"
FAKE = pathlib.Path(__file__).parent.resolve() / "fake_kubectl.py"


def node(name, address, *mibs, unit=1024, mode="share", indices=None, allocatable=None, **annotations):
    gpus = [{"index": indices[i] if indices else i, "uuid": f"GPU-{name}-{i}", "model": "Tesla V100", "mib": mib,
             "healthy": True} for i, mib in enumerate(mibs)]
    notes = {"ration.dev/gpus": json.dumps(gpus), "ration.dev/unit": str(unit), "ration.dev/mode": mode} if mibs else {}
    addresses = [{"type": "Hostname", "address": name}]
    if address:
        addresses += [{"type": "InternalIP", "address": address}, {"type": "InternalIP", "address": "9.9.9.9"}]
    return {"metadata": {"name": name, "uid": f"uid-{name}", "annotations": notes | annotations},
            "status": {"addresses": addresses, "allocatable": allocatable or {"cpu": "4"}}}


def container(name, units):
    return {"name": name, "resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}}


def pod(name, on, units, card=None, namespace="default", phase="Running", init=None, **annotations):
    """On the node `on`, with the placement that ration-scheduler writes if card (a UUID) is given."""
    spec = {"nodeName": on, "containers": [container("main", units)]}
    placed = {"main": [{"uuid": card, "units": units}]}
    if init:
        spec["initContainers"] = [container("init", init)]
        placed["init"] = [{"uuid": card, "units": init}]
    notes = {"ration.dev/placement": json.dumps({"unit": 1024, "containers": placed})} if card else {}
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}",
                         "annotations": notes | annotations},
            "spec": spec, "status": {"phase": phase}}


def core_pod(name, on, units, core, uuid, namespace):
    made = pod(name, on, units, uuid, namespace)
    made["spec"]["containers"][0]["resources"]["limits"]["aliyun.com/gpu-core.percentage"] = str(core)
    made["metadata"]["annotations"]["ration.dev/placement"] = json.dumps(
        {"unit": 1024, "containers": {"main": [{"uuid": uuid, "units": units, "core": core}]}})
    return made


def gpu_device(name, index, mib, uuid, **more):
    """A device as the agent of a node in mode dra publishes it, with a unit of 1 GiB."""
    most = f"{mib // 1024}Gi"
    return {"name": name, "allowMultipleAllocations": True,
            "attributes": {"uuid": {"string": uuid}, "index": {"int": index}, "productName": {"string": "Tesla V100"}},
            "capacity": {"memory": {"value": f"{mib}Mi", "requestPolicy": {
                "default": most, "validRange": {"min": "1Gi", "max": most, "step": "1Gi"}}},
                "cores": {"value": "100", "requestPolicy": {
                    "default": "0", "validRange": {"min": "0", "max": "100", "step": "5"}}}}} | more


def resource_slice(node_name, *mibs, generation=1, devices=None):
    devices = devices or [gpu_device(f"gpu-{i}", i, mib, f"GPU-{node_name}-{i}") for i, mib in enumerate(mibs)]
    return {"metadata": {"name": f"{node_name}-gpu.ration.dev-abcde"},
            "spec": {"driver": "gpu.ration.dev", "nodeName": node_name, "devices": devices,
                     "pool": {"name": node_name, "generation": generation, "resourceSliceCount": 1}}}


def resource_claim(name, memory=None, on=None, device="gpu-0", cores=None, pods=(), namespace="default", requests=None, **more):
    """Allocated to a device of the node `on`, where that is given, and reserved for these pods."""
    asked = {k: v for k, v in (("memory", memory), ("cores", cores)) if v}
    requests = requests or [{"name": "gpu", "exactly": {"deviceClassName": "gpu.ration.dev", "capacity": {"requests": asked}}}]
    result = {"request": requests[0]["name"], "driver": "gpu.ration.dev", "pool": on, "device": device,
              "shareID": f"share-{name}", "consumedCapacity": {"memory": memory, "cores": cores or "0"}}
    status = {"allocation": {"devices": {"results": [result]}}} if on else {}
    if pods:
        status["reservedFor"] = [{"resource": "pods", "name": pod_name, "uid": f"uid-{pod_name}"} for pod_name in pods]
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-claim-{name}"} | more,
            "spec": {"devices": {"requests": requests}}, "status": status}


def waiting_claim_pod(name, *claims, on=None, made=()):
    """claims: (name in the pod, name of the ResourceClaim, or None for one that a template makes)."""
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"containers": [{"name": "main"}], "resourceClaims": [{"name": inside} | ({"resourceClaimName": claim} if claim else
                     {"resourceClaimTemplateName": "t"}) for inside, claim in claims]} | ({"nodeName": on} if on else {}),
            "status": {"phase": "Pending", "resourceClaimStatuses": [{"name": inside, "resourceClaimName": claim} for inside, claim in made]}}


class Cluster:
    def __init__(self, directory):
        self.path = directory / "world.json"
        self.set()

    def set(self, nodes=(), pods=(), **more):
        text = json.dumps({"nodes": list(nodes), "pods": list(pods)} | more)
        temporary = self.path.with_suffix(".new")
        temporary.write_text(text)
        temporary.rename(self.path)

    def environment(self, **more):
        return os.environ | {"FAKE_KUBECTL": str(self.path), "KUBECTL": str(FAKE)} | more

    def run(self, *args, **environment):
        return subprocess.run([PROGRAM, *args], env=self.environment(**environment), capture_output=True, timeout=60)

    def show(self, *args, **environment):
        """Its output; nothing may be said on stderr."""
        done = self.run(*args, **environment)
        assert (done.returncode, done.stderr.decode()) == (0, "")
        return done.stdout.decode()

    def calls(self):
        return [json.loads(line) for line in open(f"{self.path}.log")]
