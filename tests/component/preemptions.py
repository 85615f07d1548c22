"""What the tests of preemption share: pods with a priority, running victims, the preempt verb."""
import json

from scheduler_fixture import gpu_node


def pod(api, name, units, priority=0, policy=None, labels=None, requests=None):
    limits = {"aliyun.com/gpu-mem": str(units)} if units else {}
    spec = {"priority": priority, "containers": [{"name": "main", "image": "x",
                                                  "resources": {"limits": limits, "requests": limits}}]}
    if policy:
        spec["preemptionPolicy"] = policy
    return api.create_pod(name, spec=spec, labels=labels)


def running(api, name, units, card, node="n", priority=0, labels=None, annotations=None):
    spec = {"priority": priority, "containers": [{"name": "main", "image": "x", "resources": {
        "limits": {"aliyun.com/gpu-mem": str(units)}}}]}
    placement = {"ration.dev/placement": json.dumps(
        {"unit": 1024, "containers": {"main": [{"uuid": f"GPU-{node}-{card}", "units": units}]}})}
    return api.create_pod(name, spec=spec, node=node, labels=labels, annotations={**placement, **(annotations or {})},
                          status={"phase": "Running", "startTime": "2026-01-01T00:00:00Z"})


def uid(pod):
    return pod["metadata"]["uid"]


def preempt(scheduler, preemptor, **nodes):
    """nodes: name=[victims of kube-scheduler]; -> {node: [uids]}"""
    answer = scheduler.verb("preempt", {
        "Pod": preemptor, "NodeNameToVictims": None, "NodeNameToMetaVictims": {
            node: {"Pods": [{"UID": uid(v)} for v in victims], "NumPDBViolations": 0}
            for node, victims in nodes.items()}})
    return {node: [p["UID"] for p in victims["Pods"]]
            for node, victims in answer["NodeNameToMetaVictims"].items()}


def fits(scheduler, preemptor, *nodes):
    return scheduler.filter(preemptor, list(nodes or ["n"]))["NodeNames"] != []


def cards(api, *mibs, name="n"):
    return gpu_node(api, name, *(m * 1024 for m in mibs))


def fragmented(api, **changes):
    """Four cards of 15 units, 8 of each used: 28 are free, 10 nowhere."""
    cards(api, 15, 15, 15, 15)
    for i in range(4):
        running(api, f"v{i}", 8, i, **changes)
