"""Gangs as the API server shows them: when their members came, were bound and ended, and that none is there in part."""
import time

from gpupods import GPU_MEM, IMAGE
from storm import PodWatch, is_over
from stormwaves import OBEYS

LABEL = "pod-group.scheduling.sigs.k8s.io/"
# A Binding leaves 5 s at the latest after bind was called and is answered within 3 s.
TOGETHER_S = 8


def member(name, units, gang=None, least=None, command=OBEYS, labels=None, **spec):
    """A pod of a gang, or of none."""
    group = {LABEL + "name": gang, LABEL + "min-available": str(least)} if gang else {}
    limits = units if isinstance(units, dict) else {GPU_MEM: str(units)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {**group, **(labels or {})}},
            "spec": {"schedulerName": "ack-co-scheduler", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                     "containers": [{"name": "main", "image": IMAGE, "command": ["bash", "-c", command],
                                     "resources": {"limits": limits}}], **spec}}


def job(name, template, count, **spec):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
        "parallelism": count, "completions": count, **spec,
        "template": {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]}}}


def group_of(obj):
    """(gang, pods that it needs) by its labels, or None."""
    labels = obj["metadata"].get("labels", {})
    if LABEL + "name" in labels:
        return labels[LABEL + "name"], int(labels.get(LABEL + "min-available", 0))
    return (labels["gpu-topology"], int(labels["gpu-topology-replica"])) if "gpu-topology" in labels else None


class GangWatch(PodWatch):
    """When the members of each gang of a namespace came, were bound and ended."""

    def __init__(self, api, cards, namespace, whole=()):
        self.namespace = namespace
        self.came, self.placed, self.ended, self.least = {}, {}, {}, {}    # gang -> {uid: time}; gang -> min-available
        self.room_since, self.longest_with_room = {}, (0.0, "")
        super().__init__(api, cards, whole)

    def take(self, kind, obj):
        super().take(kind, obj)
        meta, now = obj["metadata"], time.monotonic()
        if meta["namespace"] != self.namespace or not group_of(obj):
            return
        gang, self.least[gang] = group_of(obj)
        self.came.setdefault(gang, {}).setdefault(meta["uid"], now)
        if obj["spec"].get("nodeName"):
            self.placed.setdefault(gang, {}).setdefault(meta["uid"], now)
        if kind == "DELETED" or is_over(obj):
            self.ended.setdefault(gang, {}).setdefault(meta["uid"], now)

    def spread(self, gang):
        """Seconds between the first Binding of the gang and the one that made it whole; None: it is in parts."""
        with self.lock:
            times = sorted(self.placed.get(gang, {}).values())
        return times[self.least[gang] - 1] - times[0] if len(times) >= self.least[gang] else None

    def look(self):
        """Nothing was wrong so far, and no gang has been there in part for long."""
        assert self.is_alive() and not self.wrong, self.wrong[:5]
        for gang, placed in list(self.placed.items()):
            since = time.monotonic() - min(placed.values())
            assert self.spread(gang) is not None or since < TOGETHER_S, (
                f"{len(placed)} of {self.least[gang]} members of {gang} are bound since {since:.1f} s")

    def look_at_room(self, gangs):
        """gangs: {name: (pods, units of each)}. How long one that waits, and is all there, has room meanwhile."""
        now = time.monotonic()
        with self.lock:
            waiting = {g: n for g, n in gangs.items() if g not in self.placed and len(self.came.get(g, ())) == n[0]}
            free = [mib // 1024 - self.used[uuid] // 1024 for uuid, mib in self.total.items()]
        self.room_since = {g: self.room_since.get(g, now) for g, (n, units) in waiting.items()
                           if sum(f // units for f in free) >= n}
        for gang, since in self.room_since.items():
            self.longest_with_room = max(self.longest_with_room, (now - since, gang))

    def waited(self, gang):
        """Seconds from when it had enough members to its first Binding."""
        return max(0.0, min(self.placed[gang].values()) - sorted(self.came[gang].values())[self.least[gang] - 1])
