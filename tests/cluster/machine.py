"""Every container of a storm as the machine itself shows it: its environment, device nodes and grant, and how much of which
card lives."""
import collections
import json
import os
import pathlib
import re
import threading
import time

from cgpupods import Grant, environment, limit_mib
from gpupods import annotation
from storm import GPU_MEM, POD_OF_CGROUP, UNITS_MIB, asked_of, asks, unit_of


def visible(container):
    """UUIDs of the cards that it is told of, in that order."""
    return [uuid for uuid in container["env"].get("ALIYUN_COM_GPU_VISIBLE_DEVICES", "").split(",") if uuid]


def shares_of(obj, container):
    """{card: units} of this container by its pod's placement; {} while that is not known."""
    placed = json.loads(annotation(obj, "ration.dev/placement") or "{}") if obj else {}
    shares = placed.get("containers", {}).get(container["env"]["STORM_CONTAINER"], [])
    return {share["uuid"]: share["units"] for share in shares}


def is_starting(pid):
    """It is the container runtime's, before it becomes the container's program."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("runc")
    except OSError:
        return False


class Machine(threading.Thread):
    """Every 100 ms: which containers of this storm live, with which environment and which device nodes. Asks nobody
    but the kernel, so that it sees containers whose pod is gone as well."""

    def __init__(self, storm, watch, gpus, isolated):
        super().__init__(daemon=True)
        self.mark = str(storm)
        self.watch, self.gpus = watch, gpus             # uuid -> what its node's inventory says
        self.isolated = isolated                         # whether a pod is, None: not known yet
        self.grants = self.whole = 0                     # containers compared with a grant, and with whole cards
        self.lost = 0                                    # ... and of pods that were deleted by force before they were created
        self.known = {}                                  # pid -> (since when it may become one of ours, container)
        self.alive, self.checked = {}, set()             # container id -> container; ids compared with the placement
        self.snapshots, self.wrong, self.stopped = 0, [], False
        self.most = collections.Counter()                # uuid -> most MiB seen at once

    def stop(self):
        self.stopped = True
        self.join(20)

    def run(self):
        while not self.stopped:
            begin = time.monotonic()
            self.snapshot()
            time.sleep(max(0.01, 0.1 - (time.monotonic() - begin)))

    def limits_of(self, pid):
        """The limits in the grant of this process, None if it has no grant. An OSError if the process has ended: its root has no files then."""
        try:
            return Grant(pathlib.Path(f"/proc/{pid}/root/run/ration/grant").read_bytes()).limits
        except FileNotFoundError:
            os.stat(f"/proc/{pid}/root/dev")
            return None

    def read(self, pid):
        """What this process is in, None if it is none of ours."""
        try:
            env = environment(pathlib.Path(f"/proc/{pid}"))
            if env.get("STORM") != self.mark:
                return None
            cgroup = POD_OF_CGROUP.search(pathlib.Path(f"/proc/{pid}/cgroup").read_bytes())
            devices = {name for name in os.listdir(f"/proc/{pid}/root/dev") if re.fullmatch("nvidia[0-9]+", name)}
            limits = self.limits_of(pid) if cgroup else None
        except OSError:
            return None
        if "STORM_CONTAINER" not in env:
            self.wrong.append(f"process {pid} of the storm is of no container: {env}")
            return None
        return cgroup and {"uid": cgroup[1].decode(), "id": cgroup[2].decode(), "env": env, "devices": devices,
                           "limits": limits}

    def unit(self, container):
        """MiB, by what the container itself is told of its (largest) card."""
        mib = max(self.gpus[uuid]["mib"] for uuid in visible(container))
        return next(unit for unit in UNITS_MIB if str(mib // unit) == container["env"]["ALIYUN_COM_GPU_MEM_DEV"])

    def has(self, container):
        """{card: MiB}. Of whole cards a container may see those of others too: its own are known when its pod is."""
        if "ALIYUN_COM_GPU_MEM_CONTAINER" in container["env"]:
            mib = int(container["env"]["ALIYUN_COM_GPU_MEM_CONTAINER"]) * self.unit(container)
            return dict.fromkeys(visible(container), mib)
        with self.watch.lock:
            obj = self.watch.seen.get(container["uid"])
        return {uuid: self.watch.total[uuid] for uuid in shares_of(obj, container)} if visible(container) else {}

    def used_by(self, containers):
        """{UUID: MiB} of all of them together."""
        used = collections.Counter()
        for container in containers:
            if "ALIYUN_COM_GPU_MEM_CONTAINER" in container["env"] and not visible(container):
                self.wrong.append(f"{self.describe(container)} has units of no GPU: {container['env']}, {container['devices']}, {container['limits']}")
                continue
            used.update(self.has(container))
        return used

    def snapshot(self):
        now, alive = time.monotonic(), {}
        pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
        for pid in set(self.known) - set(pids):
            del self.known[pid]
        for pid in pids:
            since, container = self.known.get(pid, (now, None))
            if container is None and since is not None:    # it may still become one of ours by exec
                container = self.read(pid)
                if container is None and now - since > 2:
                    since = now if is_starting(pid) else None
            self.known[pid] = since, container
            if container:
                alive[container["id"]] = container
        for uuid, units in self.used_by(alive.values()).items():
            self.most[uuid] = max(self.most[uuid], units)
            if units > self.watch.total[uuid]:
                self.wrong.append(f"{units} of {self.watch.total[uuid]} MiB live on card {uuid}: "
                                  + "; ".join(self.describe(c) for c in alive.values()
                                              if uuid in self.has(c)))
        for identity in set(alive) - self.checked:
            self.compare(alive[identity])
        self.alive, self.snapshots = alive, self.snapshots + 1

    def describe(self, container):
        with self.watch.lock:
            obj, gone = self.watch.seen.get(container["uid"]), self.watch.gone_at.get(container["uid"])
        meta = obj["metadata"] if obj else {"name": container["uid"]}
        return (f"{meta['name']}/{container['env']['STORM_CONTAINER']} of {meta.get('creationTimestamp')}, assumed at "
                f"{meta.get('annotations', {}).get('ALIYUN_COM_GPU_MEM_ASSUME_TIME')}, deletion "
                f"{meta.get('deletionTimestamp')} with {meta.get('deletionGracePeriodSeconds')} s, "
                + (f"gone since {time.monotonic() - gone:.1f} s" if gone else "not gone")
                + f", last phase {obj and obj['status'].get('phase')}, "
                + str([s["state"] for s in (obj or {"status": {}})["status"].get("containerStatuses", [])]))

    def compare(self, container):
        """Placement == environment == device nodes == grant; later, if our watches have not told of it yet."""
        with self.watch.lock:
            obj = self.watch.seen.get(container["uid"])
        is_told = obj and obj["spec"].get("nodeName") and (annotation(obj, "ration.dev/placement") or not asks(obj))
        isolated = self.isolated(obj) if is_told else None
        if isolated is None:
            return
        self.checked.add(container["id"])
        if self.lost_its_devices(container):
            self.lost += 1
            return
        where, want = f"{obj['metadata']['name']}/{container['env']['STORM_CONTAINER']}", shares_of(obj, container)
        sees = json.loads(annotation(obj, "ration.dev/placement") or "{}").get("visible") or list(want)
        nodes = {f"nvidia{self.gpus[u]['index']}" for u in sees}
        # The order counts where others' cards are seen: a container's own are the first.
        if set(visible(container)) != set(sees) or set(visible(container)[:len(want)]) != set(want) or (
                container["devices"] != nodes):
            self.wrong.append(f"{where} is placed on {want} and sees {sees}, its environment says {visible(container)}, its "
                              f"device nodes are {container['devices']}")
            return
        if asked_of(obj, GPU_MEM):
            self.compare_shares(where, obj, want, container, isolated)
        self.whole += bool(want and not asked_of(obj, GPU_MEM))
        if not asked_of(obj, GPU_MEM) and container["limits"] is not None:
            self.wrong.append(f"{where} asks for no gpu-mem and has a grant: {container['limits']}")

    def lost_its_devices(self, container):
        """If a pod is deleted by force while its container is being created, the kubelet has forgotten its devices by then and starts
        the container without any (GetDeviceRunContainerOptions, pkg/kubelet/cm/devicemanager/manager.go:973 at 1.36.3)."""
        with self.watch.lock:
            gone = container["uid"] in self.watch.gone_at
        return gone and not (visible(container) or container["devices"] or container["limits"] or
                             any(name.startswith("ALIYUN_COM_GPU") for name in container["env"]))

    def compare_shares(self, where, obj, want, container, isolated):
        if "ALIYUN_COM_GPU_MEM_CONTAINER" not in container["env"]:
            self.wrong.append(f"{self.describe(container)} is placed on {want} and has no units: {container['env']}, {container['devices']}, "
                              f"{container['limits']}")
            return
        if {int(container["env"]["ALIYUN_COM_GPU_MEM_CONTAINER"])} != set(want.values()):
            self.wrong.append(f"{where} is placed on {want}, its environment says "
                              f"{container['env']['ALIYUN_COM_GPU_MEM_CONTAINER']} units")
        if self.unit(container) != unit_of(obj):
            self.wrong.append(f"{where} counts in {unit_of(obj)} MiB, in it {self.unit(container)}")
        limits = {u: limit_mib(self.gpus[u], n, unit_of(obj)) << 20 for u, n in want.items()} if isolated else None
        self.grants += isolated
        if container["limits"] != limits:
            self.wrong.append(f"{where} is placed on {want}, its grant says {container['limits']}, not {limits}")
