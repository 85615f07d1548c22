"""What happens in a cluster while `ration plan --execute` evicts pods."""
import json
import threading
import time

from planning import create, schedule


def evictions(api):
    return api.requests_for("POST", "/eviction$")


class Thread:
    """step() again and again, until the end of the block; one thread after the other."""

    turn = threading.Lock()

    def __init__(self):
        self.failed, self.ends, self.thread = None, threading.Event(), threading.Thread(target=self.loop)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        assert self.failed is None, self.failed

    def loop(self):
        try:
            while not self.ends.wait(0.03):
                with self.turn:
                    self.step()
        except Exception as e:    # pylint: disable=broad-except
            self.failed = repr(e)


class Agents(Thread):
    """The agents of the nodes: they show the GPUs of the lists as unhealthy. `cordoned`: which those were, one after the other.
    `late_s`: how long they take to show a GPU as healthy again."""

    def __init__(self, api):
        super().__init__()
        self.api, self.cordoned, self.works, self.late_s, self.since = api, [], True, 0, {}

    def step(self):
        for listed in self.api.list("configmaps"):
            name, faulty = listed["metadata"]["name"].removeprefix("unhealthy-gpu-"), listed.get("data", {}).get("gpus", "").split(",")
            shown = json.loads(self.api.node(name)["metadata"]["annotations"]["ration.dev/gpus"])
            wanted = [{key: gpu[key] for key in ("index", "uuid", "model", "mib")} | (
                {"healthy": False, "reason": "cordoned"} if str(gpu["index"]) in faulty else {"healthy": True}) for gpu in shown]
            heals = any(now["healthy"] and not gpu["healthy"] for gpu, now in zip(shown, wanted))
            since = self.since.setdefault(name, time.monotonic()) if heals else self.since.pop(name, None)
            if wanted != shown and self.works and (not heals or time.monotonic() - since >= self.late_s):
                self.cordoned += [(name, gpu["index"]) for gpu, now in zip(shown, wanted) if gpu["healthy"] and not now["healthy"]]
                self.api.patch("nodes", name, {"metadata": {"annotations": {"ration.dev/gpus": json.dumps(wanted)}}})


def in_lists(api):
    return [listed["data"]["gpus"] for listed in api.list("configmaps") if listed.get("data", {}).get("gpus")]


class Cluster(Thread):
    """What the kubelet, the controllers and kube-scheduler do after an eviction. A test replaces a part of it."""

    def __init__(self, api, planner):
        super().__init__()
        self.api, self.planner, self.seen = api, planner, set()
        self.before = self.place = lambda name: None
        self.follows = self.places = True
        self.early = True    # the controller makes the new pod while the old one still ends, as a ReplicaSet does

    def step(self):
        for pod in self.api.list("pods"):
            if "deletionTimestamp" in pod["metadata"] and pod["metadata"]["uid"] not in self.seen:
                self.seen.add(pod["metadata"]["uid"])
                self.after(pod)
        if self.seen:
            self.planner.scheduler.has_read_nodes()
        for pod in self.api.list("pods") if self.seen else []:
            if not pod["spec"].get("nodeName"):
                self.schedule(pod["metadata"]["name"])

    def after(self, old):
        name = old["metadata"]["name"]
        self.before(name)
        if not self.early:
            self.end(name)
        owner = (old["metadata"].get("ownerReferences") or [{}])[0].get("uid")
        if self.follows and owner:
            spec = {key: value for key, value in old["spec"].items() if key != "nodeName"}
            create(self.api, f"{name}-new", {"metadata": {"labels": old["metadata"].get("labels", {})}, "spec": spec}, owner=owner)
            self.planner.scheduler.has_read_pods()
            self.schedule(f"{name}-new")
        if self.early:
            self.end(name)

    def schedule(self, name):
        if self.places is not True and name not in self.places:
            return
        if not schedule(self.api, self.planner.scheduler, self.api.pod(name))[0]:
            self.api.patch("pods", name, {"status": {"conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}]}})

    def end(self, name):
        self.api.delete("pods", name)
        self.planner.scheduler.has_read_pods()
