"""A node of the mode dra in its agent's tests."""
import pathlib

from agent_fixture import NODE, wait_for
from cgpu_node import card_of, uid_of
from dra_kubelet import DraKubelet
from fake_kubelet import Container
from isolated import Node

DRIVER = "gpu.ration.dev"
GIB = 1 << 30
DRA = {"ack.node.gpu.schedule": "dra"}


class DraWorld(Node):
    """gates: those of the API server."""

    def __init__(self, gpus="2x16160MiB", labels=None, gates=None, **more):
        super().__init__(gpus, labels=DRA if labels is None else labels, **more)
        if gates is not None:
            self.api.gates = set(gates)
        self.dra = DraKubelet(self.dir)

    def up_for_claims(self):
        """The agent has published its GPUs."""
        self.kubelet.start()
        self.start_agent()
        self.dra.register()
        self.slice()
        return self

    def slices(self):
        return self.api.list("resourceslices")

    def slice(self, matches=lambda slice_: True, timeout=10):
        return wait_for(lambda: next((s for s in self.slices() if matches(s)), None), timeout, what="a ResourceSlice")

    def devices(self):
        return self.slice()["spec"]["devices"]

    def mode(self):
        return self.api.node(NODE)["metadata"]["annotations"].get("ration.dev/mode")

    def label(self, mode):
        self.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.schedule": mode}}})

    def claim(self, name, *results, pods=(), config=(), **more):
        """An allocated ResourceClaim. Each of results: {"gpu": index, "memory": quantity, "cores": "30", ...}; other members of a result
        as they are."""
        allocated = []
        for at, result in enumerate(results):
            result = dict(result)
            device = self.devices()[result.pop("gpu", 0)]["name"]
            capacity = {k: result.pop(k) for k in ("memory", "cores") if k in result}
            allocated.append({"request": "gpu", "driver": DRIVER, "pool": NODE, "device": device, "shareID": f"00000000-0000-0000-0000-{at:012}",
                              "consumedCapacity": capacity, **result})
        return self.api.create("resourceclaims", {
            "metadata": {"name": name, "namespace": "default"}, "spec": {},
            "status": {"allocation": {"devices": {"results": allocated, "config": list(config)}},
                       "reservedFor": [{"resource": "pods", "name": p["metadata"]["name"], "uid": p["metadata"]["uid"]} for p in pods]},
            **more})

    def pod_with(self, name, claim=None, containers=("main",), phase="Pending", claims=None):
        """A bound pod whose containers use a claim, by its name."""
        claims = claims or {"gpu": claim}
        return self.api.create_pod(name, node=NODE, status={"phase": phase}, spec={
            "resourceClaims": [{"name": n, "resourceClaimName": c} for n, c in claims.items()],
            "containers": [{"name": c, "image": "example", "resources": {"claims": [{"name": n} for n in claims]}} for c in containers]})

    def run(self, pod, container, prepared):
        """What a container of the pod finds inside that uses all of this prepared claim."""
        found = Container()
        for device in prepared.devices:
            for name in device.cdi_device_ids:
                self.kubelet.inject(name, found)
        with self.kubelet.lock:
            self.kubelet.containers[pod["metadata"]["uid"], container] = 1
            self.kubelet.sandboxes.add(pod["metadata"]["uid"])
        return found

    def grants(self):
        """uid -> the folder of its grant"""
        folder = self.state / "grants"
        return {p.name: p for p in folder.iterdir()} if folder.exists() else {}

    def cdi_files(self):
        return sorted(p.name for p in pathlib.Path(self.kubelet.cdi_dir).glob("*.json"))

    def records(self):
        folder = self.state / "claims"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def prepared(w, claim):
    """The kubelet's answer, which is no error."""
    answer = w.dra.prepare(claim)[uid_of(claim)]
    assert not answer.error, answer.error
    return answer


def grant(w, claim):
    return w.state / "grants" / uid_of(claim) / "claim" / "grant"


def limits(w, claim, gpus=1):
    """(UUID, MiB) of each GPU, as the grant says now."""
    found = [card_of(grant(w, claim), i) for i in range(gpus)]
    return [(uuid, now) for uuid, _, _, now in found]


def nothing_left(w):
    assert w.cdi_files() == [] and w.grants() == {} and w.records() == []
