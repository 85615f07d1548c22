"""ResourceClaims for ration's driver, and the pods that use them."""
import pytest

from cgpupods import node_root
from gpupods import IMAGE, SHOW
from helmcharts import NEWEST

DRIVER = "gpu.ration.dev"
WHOLE = "whole.gpu.ration.dev"
GROUP = "resource.k8s.io/v1"
# Of Kubernetes. "": the lab's own.
RELEASES = ["", pytest.param(NEWEST, marks=pytest.mark.full)]


def ask(memory=None, cores=None, device_class=DRIVER, selector=None, **more):
    """What a request asks for: the field `exactly`, or with a name one of `firstAvailable`."""
    asked = {name: value for name, value in (("memory", memory), ("cores", cores)) if value is not None}
    return {"deviceClassName": device_class, **({"capacity": {"requests": asked}} if asked else {}),
            **({"selectors": [{"cel": {"expression": selector}}]} if selector else {}), **more}


def config(**parameters):
    """Parameters for the driver; apiVersion and kind may be given, too."""
    return {"opaque": {"driver": DRIVER, "parameters": {"apiVersion": "ration.dev/v1", "kind": "GpuConfig", **parameters}}}


def devices(*requests, configs=()):
    """requests: what ask() gives, or a list of alternatives."""
    named = [{"name": f"r{i}", **({"firstAvailable": [{"name": f"s{n}", **s} for n, s in enumerate(r)]} if isinstance(r, list)
                                  else {"exactly": r})} for i, r in enumerate(requests)]
    return {"requests": named, **({"config": list(configs)} if configs else {})}


def claim(name, *requests, configs=()):
    return {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": {"devices": devices(*requests, configs=configs)}}


def template(name, *requests, configs=()):
    return {"apiVersion": GROUP, "kind": "ResourceClaimTemplate", "metadata": {"name": name},
            "spec": {"spec": {"devices": devices(*requests, configs=configs)}}}


def device_class(name, configs=(), expression=f"device.driver == '{DRIVER}'"):
    return {"apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}], **({"config": list(configs)} if configs else {})}}


def pod(name, of_claim=None, of_template=None, command=SHOW, labels=None, containers=1, **spec):
    """A pod whose containers all use one claim. It ends as pods do: only when its containers and its claim are gone from the node, its
    object is, too. With a grace period of 0 the object would go first, and kube-scheduler would give the GPU away before."""
    source = {"resourceClaimName": of_claim} if of_claim else {"resourceClaimTemplateName": of_template}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}},
            "spec": {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never",
                     "resourceClaims": [{"name": "gpu", **source}],
                     "containers": [{"name": f"c{i}", "image": IMAGE, "command": ["bash", "-c", command],
                                     "resources": {"claims": [{"name": "gpu"}]}} for i in range(containers)], **spec}}


def claimed(name, *requests, node=None, configs=(), **more):
    """A claim and a pod of one name that uses it, as one object for kubectl; node: only there."""
    where = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return {"apiVersion": "v1", "kind": "List", "items": [claim(name, *requests, configs=configs), pod(name, of_claim=name, **where, **more)]}


def start(cluster, *made):
    """What claimed() gives, in this order."""
    cluster.create({"apiVersion": "v1", "kind": "List", "items": [item for one in made for item in one["items"]]})


def claims(cluster):
    return {made["metadata"]["name"]: made for made in cluster.json("get", "resourceclaims")["items"]}


def published(cluster):
    """{node: its ResourceSlice of ration's driver}, as soon as each node of the mode has one."""
    def read():
        nodes = [name for name, node in cluster.nodes().items() if node["metadata"]["labels"].get("ack.node.gpu.schedule") == "dra"]
        slices = {s["spec"]["nodeName"]: s for s in cluster.json("get", "resourceslices")["items"] if s["spec"]["driver"] == DRIVER}
        return slices if set(slices) >= set(nodes) else None
    return cluster.wait_for(read, 30, "the ResourceSlices")


def device_of(made):
    """(pool, device) that the claim has."""
    result, = made["status"]["allocation"]["devices"]["results"]
    return result["pool"], result["device"]


def quantity(text):
    """A quantity of bytes as a number."""
    for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti"), 1):
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) << (10 * power)
    return int(text)


def left_on(cluster, node):
    """Grants and CDI files on the node, of claims or of pods."""
    root = node_root(cluster, node)
    return sorted(str(path.relative_to(root)) for pattern in ("run/ration/grants/*", "run/ration/claims/*", "run/cdi/ration*")
                  for path in root.glob(pattern))
