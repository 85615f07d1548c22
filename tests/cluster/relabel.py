"""A storm in which labels, units and policies of nodes change while pods come and go."""
import time

from cluster import ROOT, wait_for
from corepods import CORE
from gpupods import annotation
from storm import GPU_MEM, UNITS_MIB, Watch, is_over, version_of
from stormwaves import Storm

LABEL = "ack.node.gpu.schedule"
MODES = dict(zip(("storm-a.192.168.21.1", "storm-b.192.168.21.2", "storm-c.192.168.21.3"), ("share", "share", "cgpu")))
VALUES = ["share", "cgpu", "core_mem"] * 4 + ["default", None, "topology", "shrae"]
UNITS = {1024: "1GiB", 512: "512MiB", 256: "256MiB", 128: "128MiB"}
TURN_EVERY = 10    # changes: then one node has to take another mode


class NodeWatch(Watch):
    """Changes of nodes' modes and units."""

    def __init__(self, api, pods):
        super().__init__(api, "/api/v1/nodes")
        self.pods, self.terms, self.changes = pods, {}, []   # name -> (mode, unit, waits); (version, name, before, after)
        self.modes, self.judged = {}, 0                      # name -> [(version, mode)]; how many of changes

    def take(self, kind, obj):
        self.events += 1
        name = obj["metadata"]["name"]
        self.objects[obj["metadata"]["uid"]] = obj
        pending = {key: annotation(obj, f"ration.dev/{key}-pending") for key in ("mode", "unit")}
        now = annotation(obj, "ration.dev/mode"), annotation(obj, "ration.dev/unit")
        (*before, waited), self.terms[name] = self.terms.get(name, (*now, {})), (*now, pending)
        self.modes.setdefault(name, [(0, now[0])])
        if now[0] != self.modes[name][-1][1]:
            self.modes[name].append((version_of(obj), now[0]))
        if tuple(before) == now or not before[0]:
            return
        self.changes.append((version_of(obj), name, tuple(before), now))
        if not any(waited.values()):
            self.wrong.append(f"{name} went from {before} to {now} without a word before")

    def look(self):
        """In the API server's own order nobody is bound before a change who ends after it."""
        with self.pods.lock:
            told = self.pods.version or 0
            pods = [(self.pods.bound_version[uid], self.pods.end_version.get(uid, float("inf")), p)
                    for uid, p in self.pods.seen.items() if uid in self.pods.bound_version and GPU_MEM in str(p["spec"])]
        for version, name, before, after in self.changes[self.judged:]:
            if version > told:    # of an end before it we may hear yet
                return
            there = [p["metadata"]["name"] for bound, end, p in pods
                     if p["spec"]["nodeName"] == name and bound < version < end]
            assert not there, f"{name} went from {before} to {after} under {there}"
            self.judged += 1

    def mode_of(self, name, version):
        """In force at this version, None while we have not been told of it."""
        with self.lock:
            if (self.version or 0) < version:
                return None
            return next(mode for since, mode in reversed(self.modes[name]) if since <= version)


class Relabel(Storm):
    def __init__(self, cluster, seed):
        super().__init__(cluster, seed)
        self.nodes = NodeWatch(self.api, self.watch)
        self.nodes.start()
        self.threads.append(self.nodes)
        self.machine.isolated = self.is_isolated
        self.percentages = 0.25     # of pods that ask for one
        self.unit, self.done = 1024, {"label": 0, "unit": 0, "policy": 0}
        self.steps, self.turns, self.turn = 0, 0, None    # (node, mode that it has to take)
        wait_for(lambda: len(self.nodes.terms) == len(MODES), 30, "the nodes are watched")

    def is_isolated(self, obj):
        """By the mode in which the pod was bound; None while we are not told of it."""
        with self.watch.lock:
            version = self.watch.bound_version[obj["metadata"]["uid"]]
        mode = self.nodes.mode_of(obj["spec"]["nodeName"], version)
        return mode and mode in ("cgpu", "core_mem")

    def template(self):
        made = super().template()
        if len(made["spec"]["containers"]) == 1 and "initContainers" not in made["spec"] and self.rng.random() < self.percentages \
                and "aliyun.com/gpu-count" not in made["metadata"]["labels"]:
            made["spec"]["containers"][0]["resources"]["limits"][CORE] = self.rng.choice([5, 10, 25])
        return made

    def patch_node(self, name, **metadata):
        self.api.insist("PATCH", f"/api/v1/nodes/{name}", {"metadata": metadata}, content="application/merge-patch+json")

    def helm(self, **values):
        self.cluster.run("helm", "upgrade", "ack-ai-installer", ROOT / "deploy/charts/ack-ai-installer", "-n", "kube-system",
                         "--reuse-values", "--set", ",".join(f"{key}={value}" for key, value in values.items()))

    def change(self):
        what = self.rng.choice(["label"] * 7 + ["unit"] + ["policy"] * 2)
        name = self.rng.choice([name for name in MODES if not self.turn or name != self.turn[0]])
        self.done[what] += 1
        if what == "label":
            self.patch_node(name, labels={LABEL: self.rng.choice(VALUES)})
        elif what == "policy":
            self.patch_node(name, annotations={"ration.dev/policy": self.rng.choice([*"012345", "9", None])})
        else:
            self.unit = self.rng.choice([unit for unit in UNITS_MIB if unit != self.unit])
            self.helm(gpuMemoryUnit=UNITS[self.unit])

    def empty(self, name):
        """Asks all pods of the node to go."""
        for p in self.mine():
            if p["spec"].get("nodeName") == name and "deletionTimestamp" not in p["metadata"]:
                self.deleted.add(p["metadata"]["uid"])
                self.api.insist("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{p['metadata']['name']}")

    def waiting_to_change(self):
        return [name for name, (*_, pending) in self.nodes.terms.items() if any(pending.values())]

    def begin_turn(self):
        """One node after the other is asked for another mode, and emptied at each step until it has it."""
        name = list(MODES)[self.turns % len(MODES)]
        self.turn = name, {"share": "cgpu", "cgpu": "core_mem"}.get(self.nodes.terms[name][0], "share")
        self.turns += 1
        self.patch_node(name, labels={LABEL: self.turn[1]})

    def has_turned(self):
        if self.turn:
            name, mode = self.turn
            if self.nodes.terms[name][0] != mode:
                self.empty(name)
                return False
            self.turn = None
        return True

    def step(self):
        before = self.running()
        if self.steps % TURN_EVERY == 0:
            self.end_turn()
            self.begin_turn()
        self.steps += 1
        self.change()
        self.create(3)
        self.delete(0.1)
        self.has_turned()
        waiting = self.waiting_to_change()
        if waiting and self.rng.random() < 0.5:
            self.empty(self.rng.choice(waiting))
        # Nodes' watch has something to tell, so that it is known up to when it has told everything.
        self.patch_node(list(MODES)[0], annotations={"storm/step": str(self.steps)})
        time.sleep(0.3)
        self.check(before)

    def end_turn(self):
        wait_for(self.has_turned, 60, f"the node takes its mode: {self.turn}")

    def check(self, before):
        self.look()
        self.nodes.look()
        assert not self.disturbed(before), self.disturbed(before)

    def put_back(self):
        for name, mode in MODES.items():
            self.patch_node(name, labels={LABEL: mode}, annotations={"ration.dev/policy": None, "storm/step": None})
        self.helm(gpuMemoryUnit="1GiB")

    def is_put_back(self):
        for name, mode in MODES.items():
            node = self.cluster.node(name)
            assert self.nodes.terms[name] == (mode, "1024", {"mode": None, "unit": None}), (name, self.nodes.terms[name])
            status = node["status"]["allocatable"]
            assert status[GPU_MEM] == str(sum(mib // 1024 for mib in self.watch.cards[name].values())), (name, status)
            assert status.get(CORE, "0") == "0" and status["aliyun.com/gpu-count"] == "8"
            conditions = {c["type"]: c["status"] for c in node["status"]["conditions"]}
            assert conditions.get("GPUSharingProblem", "False") == "False"
        return True


def everything_was_looked_at(storm):
    """Every change of a node, every container that runs."""
    storm.check({})
    assert storm.nodes.lists == storm.watch.lists == 1 and storm.nodes.judged == len(storm.nodes.changes)
    containers = {s["containerID"].removeprefix("containerd://") for p in storm.mine() if not is_over(p)
                  for s in p["status"].get("containerStatuses", []) if "running" in s["state"]}
    assert containers and containers <= storm.machine.checked, containers - storm.machine.checked
    return True
