"""A storm of pods that ask for GPUs by ResourceClaims: each claim as the API server has it, and each container as the machine shows
it."""
import collections
import os
import signal
import time

from claims import DRIVER, WHOLE, ask, claim, left_on, pod, published, quantity, template
from machine import Machine, visible
from storm import Watch, is_leaving, is_over, processes_of
from stormwaves import OBEYS, STUBBORN, Storm

PATH = "/apis/resource.k8s.io/v1/resourceclaims"
SIZES = [(gib, cores) for gib in range(1, 8) for cores in (None, "20")]


def devices_of_nodes(cluster):
    """{(pool, device): (uuid, MiB)}, by the ResourceSlices."""
    return {(s["spec"]["pool"]["name"], d["name"]): (d["attributes"]["uuid"]["string"], quantity(d["capacity"]["memory"]["value"]) >> 20)
            for s in published(cluster).values() for d in s["spec"]["devices"]}


def results_of(made):
    """[(device, MiB, percent of computing power)] that are allocated to the claim."""
    allocation = made.get("status", {}).get("allocation") or {"devices": {"results": []}}
    return [((r["pool"], r["device"]), quantity(r["consumedCapacity"]["memory"]) >> 20, int(r["consumedCapacity"]["cores"]))
            for r in allocation["devices"]["results"] if r["driver"] == DRIVER]


def claim_name_of(obj):
    """The name of the claim that the pod uses; None as long as it is not made."""
    named = obj["spec"]["resourceClaims"][0].get("resourceClaimName")
    made = obj["status"].get("resourceClaimStatuses") or [{}]
    return named or made[0].get("resourceClaimName")


class ClaimWatch(Watch):
    """No GPU is over its total in any state of the claims."""

    def __init__(self, api, devices):
        super().__init__(api, PATH)
        self.devices, self.by_name = devices, {}      # (namespace, name) -> the last state for ever
        self.memory, self.cores = collections.Counter(), collections.Counter()

    def count(self, made, sign):
        for device, mib, cores in results_of(made):
            self.memory[device] += sign * mib
            self.cores[device] += sign * cores

    def take(self, kind, obj):
        meta = obj["metadata"]
        self.events += 1
        if meta["uid"] in self.objects:
            self.count(self.objects.pop(meta["uid"]), -1)
        self.by_name[meta["namespace"], meta["name"]] = obj
        if kind == "DELETED":
            return
        self.objects[meta["uid"]] = obj
        self.count(obj, +1)
        for device, _, _ in results_of(obj):
            if self.memory[device] > self.devices[device][1] or self.cores[device] > 100:
                self.wrong.append(f"{self.memory[device]} of {self.devices[device][1]} MiB and {self.cores[device]} percent of "
                                  f"{device} are allocated with {meta['name']}")

    def fits(self, mib, cores):
        return any(mib <= total - self.memory[device] and cores <= 100 - self.cores[device]
                   for device, (_, total) in self.devices.items())


class ClaimMachine(Machine):
    """All containers of a claim have one grant: its memory counts once, even if the API server knows nothing of its pods any more."""

    def __init__(self, claims, *arguments):
        super().__init__(*arguments)
        self.claims, self.shared = claims, set()      # shared: claims of which containers of two pods were seen at once

    def read(self, pid):
        container = super().read(pid)
        try:
            status = container and container["limits"] is not None and os.stat(f"/proc/{pid}/root/run/ration/grant")
        except OSError:
            return None
        return container and {**container, "grant": (status.st_dev, status.st_ino) if status else None}

    def used_by(self, containers):
        used, grants = collections.Counter(), {c["grant"]: c for c in containers}
        for grant, container in grants.items():
            if grant is None:
                self.wrong.append(f"{self.describe(container)} has no grant: {container['env']}, {container['devices']}")
                continue
            used.update({uuid: limit >> 20 for uuid, limit in container["limits"].items()})
        self.look_at_grants(containers)
        return used

    def look_at_grants(self, containers):
        """One grant for each claim."""
        grants, pods = collections.defaultdict(set), collections.defaultdict(set)
        for container in containers:
            made = self.claim_of(container)
            if made:
                grants[made["metadata"]["uid"]].add(container["grant"])
                pods[made["metadata"]["uid"]].add(container["uid"])
        self.shared |= {uid for uid, users in pods.items() if len(users) > 1}
        self.wrong += [f"the claim {uid} has the grants {found}" for uid, found in grants.items() if len(found) > 1]

    def claim_of(self, container):
        """As it was allocated; None if that is not known yet."""
        with self.watch.lock, self.claims.lock:
            obj = self.watch.seen.get(container["uid"])
            name = obj and claim_name_of(obj)
            made = self.claims.by_name.get((obj["metadata"]["namespace"], name)) if name else None
        return made if made and results_of(made) else None

    def has(self, container):
        return {uuid: limit >> 20 for uuid, limit in (container["limits"] or {}).items()}

    def compare(self, container):
        """Allocation == grant == environment == device nodes."""
        made = self.claim_of(container)
        if not made:
            return
        self.checked.add(container["id"])
        want = {self.claims.devices[device][0]: mib << 20 for device, mib, _ in results_of(made)}
        nodes = {f"nvidia{self.gpus[uuid]['index']}" for uuid in want}
        self.grants += 1
        if (container["limits"], set(visible(container)), container["devices"]) != (want, set(want), nodes):
            self.wrong.append(f"{self.describe(container)} of claim {made['metadata']['name']} is to have {want} as {nodes}, and has the "
                              f"grant {container['limits']}, the environment {visible(container)}, the devices {container['devices']}")


class ClaimStorm(Storm):
    def __init__(self, cluster, seed):
        self.devices, self.asked, self.shares, self.forgotten = devices_of_nodes(cluster), {}, 0, 0    # asked: name of a pod -> (MiB, percent)
        for gib, cores in SIZES:
            cluster.create(template(f"t{gib}-{cores or 0}", ask(f"{gib}Gi", cores)))
        cluster.create(template("either", [ask("15Gi"), ask("2Gi")]))
        cluster.create(template("whole", ask(device_class=WHOLE)))
        super().__init__(cluster, seed)
        self.claims.start()
        self.threads.append(self.claims)

    def make_machine(self, *arguments):
        self.claims = ClaimWatch(self.api, self.devices)
        return ClaimMachine(self.claims, *arguments)

    # -- pods

    def body(self, name, containers=1, init=False, **source):
        command = self.rng.choice([OBEYS] * 4 + [STUBBORN])
        made = pod(name, labels={"storm": "pod"}, **source)
        made["spec"] |= {"terminationGracePeriodSeconds": 3, "restartPolicy": "Always"}    # a killed kubelet ends what it starts
        use = {"resources": {"claims": [{"name": "gpu"}]}}
        made["spec"]["containers"] = [{**self.container(f"c{i}", {}, command), **use} for i in range(containers)]
        if init:
            made["spec"]["initContainers"] = [{**self.container("init", {}, "sleep 0.4"), **use}]
        return made

    def bodies(self):
        """A pod of a random shape, or two that share a claim."""
        self.made += 1
        name, (gib, cores) = f"p{self.made:03}", self.rng.choice(SIZES)
        shape = self.rng.choice(["plain"] * 6 + ["two", "init", "either", "whole", "shared"])
        self.asked[name] = {"whole": None, "either": (2 << 10, 0)}.get(shape, (gib << 10, int(cores or 0)))
        if shape in ("either", "whole"):
            return [self.body(name, of_template=shape)]
        if shape == "shared":
            self.shares += 1
            self.insist("POST", f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims", claim(name, ask(f"{gib}Gi", cores)))
            self.asked[f"{name}-b"] = None
            return [self.body(name, of_claim=name), self.body(f"{name}-b", of_claim=name)]
        return [self.body(name, of_template=f"t{gib}-{cores or 0}", containers=1 + (shape == "two"), init=shape == "init")]

    def insist(self, method, path, body=None):
        status, answer = self.api.insist(method, path, body)
        assert status in (200, 201, 202, 404, 409), answer

    def create(self, count, pace=0.03):
        for _ in range(count):
            for body in self.bodies():
                self.insist("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)
            time.sleep(pace)

    # -- what must be true

    def is_settled(self):
        """What is bound runs, and no pod waits that asks for what one GPU has left."""
        self.look()
        pods = [p for p in self.mine() if not is_over(p)]
        self.delete_forgotten(pods)
        late = [p["metadata"]["name"] for p in pods if p["spec"].get("nodeName") and (p["status"].get("phase") != "Running" or is_leaving(p))]
        with self.claims.lock:
            fitting = [p["metadata"]["name"] for p in pods if not p["spec"].get("nodeName") and not is_leaving(p)
                       and (asked := self.asked[p["metadata"]["name"]]) and self.claims.fits(*asked)]
        assert not late and not fitting, f"not running: {late[:8]}; fit and wait: {fitting[:8]}"
        return True

    def delete_forgotten(self, pods):
        """What a person has to do where the kubelet, before 1.37, has unprepared a claim for one pod that another needs (kubernetes/kubernetes
        pull requests 140212 and 140527): that one cannot start any more."""
        for p in pods:
            said = [s["state"].get("waiting", {}).get("message", "") for s in p["status"].get("containerStatuses", [])]
            uid = p["metadata"]["uid"]
            if any("unable to get claim info for ResourceClaim" in text for text in said) and uid not in self.deleted:
                assert len(self.asked_for_claim(p)) > 1, f"the kubelet has forgotten the claim of {p['metadata']['name']}"
                self.forgotten += 1
                self.deleted.add(uid)
                self.insist("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{p['metadata']['name']}")

    def asked_for_claim(self, obj):
        """All pods that ever named its claim."""
        with self.watch.lock:
            return [p for p in self.watch.seen.values() if p["metadata"]["namespace"] == self.namespace
                    and p["spec"].get("resourceClaims") and claim_name_of(p) == claim_name_of(obj)]

    def is_clean(self):
        """Nothing is left of any claim. The claims that two pods shared are the user's to delete."""
        self.look()
        for (namespace, name) in list(self.claims.by_name):
            if "-" not in name:
                self.insist("DELETE", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}")
        left = {node: left_on(self.cluster, node) for node, _ in self.devices}
        assert not self.claims.objects and not any(left.values()), (list(self.claims.objects), left)
        return True


def kill_every_kube_scheduler(storm):
    for pid in processes_of(storm.cluster, "kube-scheduler"):
        os.kill(pid, signal.SIGKILL)


def kill_controller_manager(storm):
    """It makes claims from templates, and ends what a pod that is gone has reserved."""
    storm.cluster.lab("restart", "--kill", "kube-controller-manager")
