"""A made-up cluster as the API server would show it: nodes with GPUs, bound pods that fill them, pods that ask."""
import json
from dataclasses import dataclass

GPUS = 8
GPU_UNITS = 20    # of 1024 MiB
NAMESPACE = "default"
NODE_PREFIX = "cn-zhangjiakou.10"


def node_name(i):
    return f"{NODE_PREFIX}.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}"


def gpu_uuid(node, gpu):
    return f"GPU-{node:08x}-5d3a-4c1e-9f00-{gpu:012x}"


@dataclass(frozen=True)
class Fill:
    """How full every GPU is: two pods on each, of these units."""
    percent: int
    pods: tuple

    @property
    def free(self):
        return GPU_UNITS - sum(self.pods)


FILLS = {0: Fill(0, ()), 50: Fill(50, (6, 4)), 95: Fill(95, (10, 9))}


def node(i, policy, ballast=0):
    """A Node; ballast: bytes of fields that real ones have and that this benchmark does not read."""
    gpus = [{"index": c, "uuid": gpu_uuid(i, c), "model": "Tesla V100-SXM2-32GB", "mib": GPU_UNITS * 1024,
             "healthy": True} for c in range(GPUS)]
    amounts = {"cpu": "96", "memory": "788Gi", "pods": "250", "ephemeral-storage": "500Gi",
               "aliyun.com/gpu-mem": str(GPUS * GPU_UNITS)}
    return {"metadata": {"name": node_name(i), "uid": f"7d4f8a10-0000-4000-8000-{i:012x}", "resourceVersion": "1",
                         "labels": {"kubernetes.io/hostname": node_name(i), "kubernetes.io/os": "linux",
                                    "ack.node.gpu.schedule": "share", "ack.node.gpu.placement": policy},
                         "annotations": {"ration.dev/gpus": json.dumps(gpus, separators=(",", ":")),
                                         "ration.dev/unit": "1024", "ration.dev/mode": "share",
                                         **({"bench/ballast": "x" * ballast} if ballast else {})}},
            "spec": {},
            "status": {"capacity": amounts, "allocatable": amounts,
                       "addresses": [{"type": "InternalIP", "address": node_name(i).removeprefix("cn-zhangjiakou.")}],
                       "conditions": [{"type": "Ready", "status": "True"}]}}


def pod(name, units, number, owner=None, ballast=0):
    """A pending pod with one container that asks for `units`."""
    amounts = {"aliyun.com/gpu-mem": str(units)}
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"0c9e44b2-0000-4000-9000-{number:012x}",
            "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "bench"},
            "annotations": {"bench/ballast": "x" * ballast} if ballast else {}}
    if owner is not None:
        meta["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "controller": True,
                                    "uid": owner}]
    return {"metadata": meta,
            "spec": {"schedulerName": "ack-co-scheduler", "priority": 0, "tolerations": [],
                     "containers": [{"name": "main", "image": "example.com/sample:1", "command": ["sh", "-c", "serve"],
                                     "env": [{"name": f"SETTING_{k}", "value": "value"} for k in range(8)],
                                     "resources": {"limits": amounts, "requests": amounts}}]},
            "status": {"phase": "Pending"}}


def bound_pod(name, units, number, node_number, gpu, owner, ballast=0):
    made = pod(name, units, number, owner, ballast)
    made["metadata"]["annotations"]["ration.dev/placement"] = json.dumps(
        {"unit": 1024, "containers": {"main": [{"uuid": gpu_uuid(node_number, gpu), "units": units}]}})
    made["spec"]["nodeName"] = node_name(node_number)
    made["status"]["phase"] = "Running"
    return made


def filling_pods(nodes, fill, ballast=0):
    """Bound pods of owners with 100 pods each, every owner's spread over neighbouring nodes."""
    number = 0
    for i in range(nodes):
        for gpu in range(GPUS):
            for units in fill.pods:
                yield bound_pod(f"running-{number}", units, number, i, gpu, f"owner-{number // 100}", ballast)
                number += 1
