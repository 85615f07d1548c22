"""What the tests of leadership share: the Lease of the scheduler, and pods that run."""
import datetime

RUNNING = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}


def annotate(api, node, **annotations):
    api.patch("nodes", node, {"metadata": {"annotations": {f"ration.dev/{k}": v for k, v in annotations.items()}}})


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lease(api, node, duration):
    api.create("leases", {"metadata": {"name": f"ration-agent-{node}", "namespace": "kube-system",
                                       "labels": {"ration.dev/lease": "agent"}},
                          "spec": {"holderIdentity": node, "leaseDurationSeconds": duration, "renewTime": now()}})
