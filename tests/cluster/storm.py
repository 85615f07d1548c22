"""What a storm needs: the API server without a kubectl per request, every pod as its watch tells, every container as
the machine itself shows it, and what must be true of them at any moment."""
import collections
import ctypes
import http.client
import json
import os
import pathlib
import re
import ssl
import threading
import time
import urllib.parse

from cgpupods import Grant, limit_mib
from gpupods import annotation

GPU_MEM = "aliyun.com/gpu-mem"
UNITS_MIB = (1024, 512, 256, 128)
POD_OF_CGROUP = re.compile(rb"/pod([0-9a-f-]{36})/([0-9a-f]{64})")
libc = ctypes.CDLL(None, use_errno=True)


class Api:
    """One kept connection per thread. A request that finds nobody answers (0, None)."""

    def __init__(self, kubeconfig):
        config = json.loads(pathlib.Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.url = urllib.parse.urlsplit(cluster["server"])
        self.token = user["token"]
        self.tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self.local = threading.local()

    def connect(self, timeout):
        return http.client.HTTPSConnection(self.url.hostname, self.url.port, timeout=timeout, context=self.tls)

    def headers(self, content="application/json"):
        return {"Authorization": f"Bearer {self.token}", "Content-Type": content}

    def __call__(self, method, path, body=None, content="application/json"):
        for _ in range(2):
            connection = getattr(self.local, "connection", None) or self.connect(10)
            self.local.connection = connection
            try:
                connection.request(method, path, json.dumps(body) if body is not None else None, self.headers(content))
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read() or b"null")
            except (OSError, http.client.HTTPException, ValueError):
                connection.close()
                self.local.connection = None
        return 0, None

    def insist(self, method, path, body=None, timeout=60, content="application/json"):
        """Until the API server answers: it may be the one that was killed."""
        end = time.monotonic() + timeout
        while True:
            status, answer = self(method, path, body, content)
            if status in (200, 201, 202, 404, 409):
                return status, answer
            assert time.monotonic() < end, f"{method} {path}: {status} {answer}"
            time.sleep(0.2)


def request_of(obj):
    """(units on each card, cards): Kubernetes' effective request, divided over the cards of the label gpu-count."""
    def ask(c):
        return int(c.get("resources", {}).get("limits", {}).get(GPU_MEM, 0))
    sidecars = largest = 0
    for c in obj["spec"].get("initContainers", []):
        largest = max(largest, sidecars + ask(c))
    units = max(largest, sum(ask(c) for c in obj["spec"]["containers"]))
    count = int(obj["metadata"].get("labels", {}).get("aliyun.com/gpu-count", "1"))
    return units // count, count


def unit_of(obj):
    """MiB: of its placement, else of its stamp."""
    text = annotation(obj, "ration.dev/placement")
    return json.loads(text)["unit"] if text else int(annotation(obj, "ration.dev/unit") or 1024)


def cards_of(obj):
    """Card UUIDs of the placement, or ()."""
    text = annotation(obj, "ration.dev/placement")
    shares = json.loads(text)["containers"].values() if text else ()
    return tuple(sorted({share["uuid"] for share in sum(shares, [])}))


def is_over(obj):
    return obj["status"].get("phase") in ("Succeeded", "Failed")


def version_of(obj):
    """Its resourceVersion: one count for all objects."""
    return int(obj["metadata"]["resourceVersion"])


class Watch(threading.Thread):
    """Every state of every object of a collection, in the API server's own order, goes to take(kind, object). A watch
    that breaks goes on behind the last state that it told; only where the API server has that no more (it was
    killed) states are left out, by another LIST."""

    def __init__(self, api, path):
        super().__init__(daemon=True)
        self.api, self.path, self.objects = api, path, {}    # uid -> object now
        self.wrong, self.events, self.stopped = [], 0, False
        self.version, self.lists = None, 0                   # up to which everything was told; None: a LIST is due
        self.lock = threading.RLock()

    def stop(self):
        self.stopped = True
        self.join(20)

    def run(self):
        while not self.stopped:
            try:
                if self.version is None:
                    self.list()
                else:
                    self.follow()
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.1)

    def list(self):
        status, listed = self.api("GET", self.path)
        if status != 200:
            time.sleep(0.1)
            return
        with self.lock:
            for uid in set(self.objects) - {p["metadata"]["uid"] for p in listed["items"]}:
                self.take("DELETED", self.objects[uid])
            # What has ended first: what it left may have been given to others meanwhile.
            for obj in sorted(listed["items"], key=lambda o: (not is_over(o), version_of(o))):
                self.take("MODIFIED", obj)
            self.version, self.lists = int(listed["metadata"]["resourceVersion"]), self.lists + 1

    def follow(self):
        connection = self.api.connect(5)
        try:
            connection.request("GET", f"{self.path}?watch=1&allowWatchBookmarks=true&resourceVersion={self.version}",
                               headers=self.api.headers())
            answer = connection.getresponse()
            if answer.status == 410:
                self.version = None
            if answer.status != 200:
                time.sleep(0.1)
                return
            rest = b""
            while not self.stopped and self.version is not None:
                data = answer.read1(1 << 16)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                self.told(json.loads(line) for line in filter(None, lines))
        finally:
            connection.close()

    def told(self, events):
        for event in events:
            with self.lock:
                if event["type"] == "ERROR":
                    self.version = None
                    return
                if event["type"] != "BOOKMARK":
                    self.take(event["type"], event["object"])
                self.version = version_of(event["object"])


class PodWatch(Watch):
    """What is wrong in a state of a pod is in `wrong`. Units of pods are MiB here: those of nodes may differ."""

    def __init__(self, api, cards):
        super().__init__(api, "/api/v1/pods")
        self.total = {uuid: mib for node in cards.values() for uuid, mib in node.items()}
        self.cards = cards                               # node -> {uuid: MiB}
        self.pods, self.seen = self.objects, {}          # uid -> its last state, for ever
        self.bound = {}                                  # uid -> (node, placement) as first seen
        self.bound_version, self.end_version = {}, {}    # uid -> version
        self.used = collections.Counter()                # uuid -> MiB of bound pods
        self.failed_at, self.gone_at, self.fits_since = {}, {}, {}
        self.longest_wait, self.waits = (0, ""), []      # (s, pod); s of each wait that is over

    # -- what one event means

    def occupies(self, uid, sign):
        obj = self.pods.get(uid)
        if not obj or is_over(obj) or not obj["spec"].get("nodeName"):
            return
        units, _ = request_of(obj)
        for card in cards_of(obj):
            self.used[card] += sign * units * unit_of(obj)

    def take(self, kind, obj):
        uid, name, version = obj["metadata"]["uid"], obj["metadata"]["name"], version_of(obj)
        self.events += 1
        self.occupies(uid, -1)
        if kind == "DELETED":
            self.pods.pop(uid, None)
            self.gone_at[uid] = time.monotonic()
        else:
            self.pods[uid] = obj
            self.occupies(uid, +1)
        self.seen[uid] = obj
        if obj["spec"].get("nodeName"):
            self.bound_version.setdefault(uid, version)
        if kind == "DELETED" or is_over(obj):
            self.end_version.setdefault(uid, version)
        if kind != "DELETED" and is_over(obj):
            self.failed_at.setdefault(uid, time.monotonic())
        if obj["spec"].get("nodeName") and request_of(obj)[0]:
            now = obj["spec"]["nodeName"], annotation(obj, "ration.dev/placement")
            if self.bound.setdefault(uid, now) != now:
                self.wrong.append(f"{name} was bound to {self.bound[uid]}, then to {now}")
        for card in cards_of(obj):
            if self.used[card] > self.total[card]:
                self.wrong.append(f"card {card} has {self.used[card]} of {self.total[card]} MiB given with {name}")

    # -- who waits

    def fits(self, obj):
        units, count = request_of(obj)
        mib = units * unit_of(obj)
        return any(sum(total - self.used[card] >= mib for card, total in cards.items()) >= count
                   for cards in self.cards.values())

    def waiting(self):
        with self.lock:
            return [p for p in self.pods.values() if request_of(p)[0] and not p["spec"].get("nodeName")
                    and not is_over(p) and "deletionTimestamp" not in p["metadata"]]

    def look_at_waiting(self, quiet):
        """Called all the time; while it is `quiet` (nothing was killed lately) waits count."""
        now = time.monotonic()
        with self.lock:
            waits = {p["metadata"]["uid"]: p for p in self.waiting() if self.fits(p)}
            if quiet:
                self.waits += [now - since for uid, since in self.fits_since.items() if uid not in waits]
            self.fits_since = {uid: self.fits_since.get(uid, now) for uid in waits} if quiet else {}
            for uid, since in self.fits_since.items():
                self.longest_wait = max(self.longest_wait, (now - since, waits[uid]["metadata"]["name"]))

    def rejected(self):
        """Pods that a kubelet refused: bound, and Failed without a container that ever ran."""
        with self.lock:
            return [p for p in self.seen.values() if p["status"].get("phase") == "Failed"
                    and p["status"].get("reason") in ("UnexpectedAdmissionError", "OutOfaliyun.com/gpu-mem")]


def is_starting(pid):
    """It is the container runtime's, before it becomes the container's program."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("runc")
    except OSError:
        return False


class Machine(threading.Thread):
    """Every 100 ms: which containers of this storm live, with which environment and which device nodes. Asks nobody
    but the kernel, so that it sees containers whose pod is gone as well."""

    def __init__(self, storm, watch, cards, isolated):
        super().__init__(daemon=True)
        self.mark = f"STORM={storm}".encode()
        self.watch, self.cards = watch, cards            # uuid -> card of its node's inventory
        self.isolated, self.grants = isolated, 0         # whether a pod is, None: not known yet; grants compared
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

    def read(self, pid):
        """What this process is in, None if it is none of ours."""
        try:
            environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if self.mark not in environ:
                return None
            cgroup = POD_OF_CGROUP.search(pathlib.Path(f"/proc/{pid}/cgroup").read_bytes())
            devices = {name for name in os.listdir(f"/proc/{pid}/root/dev") if re.fullmatch("nvidia[0-9]+", name)}
            grant = pathlib.Path(f"/proc/{pid}/root/run/ration/grant")
            limits = Grant(grant.read_bytes()).limits if cgroup and grant.exists() else None
        except OSError:
            return None
        env = dict(e.decode().split("=", 1) for e in environ if b"=" in e)
        return cgroup and {"uid": cgroup[1].decode(), "id": cgroup[2].decode(), "env": env, "devices": devices,
                           "limits": limits}

    def unit(self, container):
        """MiB, by what the container itself is told of its (largest) card."""
        env = container["env"]
        mib = max(self.cards[uuid]["mib"] for uuid in env["ALIYUN_COM_GPU_VISIBLE_DEVICES"].split(","))
        return next(unit for unit in UNITS_MIB if str(mib // unit) == env["ALIYUN_COM_GPU_MEM_DEV"])

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
        used = collections.Counter()
        for container in alive.values():
            for uuid in container["env"]["ALIYUN_COM_GPU_VISIBLE_DEVICES"].split(","):
                used[uuid] += int(container["env"]["ALIYUN_COM_GPU_MEM_CONTAINER"]) * self.unit(container)
        for uuid, units in used.items():
            self.most[uuid] = max(self.most[uuid], units)
            if units > self.watch.total[uuid]:
                self.wrong.append(f"{units} of {self.watch.total[uuid]} MiB live on card {uuid}: "
                                  + "; ".join(self.describe(c) for c in alive.values()
                                              if uuid in c["env"]["ALIYUN_COM_GPU_VISIBLE_DEVICES"]))
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
        isolated = self.isolated(obj) if obj and annotation(obj, "ration.dev/placement") else None
        if isolated is None:
            return
        self.checked.add(container["id"])
        env, name = container["env"], container["env"]["STORM_CONTAINER"]
        shares = json.loads(annotation(obj, "ration.dev/placement"))["containers"].get(name, [])
        want = {share["uuid"]: share["units"] for share in shares}
        has = set(env["ALIYUN_COM_GPU_VISIBLE_DEVICES"].split(","))
        units, nodes = {int(env["ALIYUN_COM_GPU_MEM_CONTAINER"])}, {f"nvidia{self.cards[u]['index']}" for u in want}
        if has != set(want) or units != set(want.values()) or container["devices"] != nodes:
            self.wrong.append(f"{obj['metadata']['name']}/{name} is placed on {want}, its environment says {has} with "
                              f"{units} units, its device nodes are {container['devices']}")
        if self.unit(container) != unit_of(obj):
            self.wrong.append(f"{obj['metadata']['name']}/{name} counts in {unit_of(obj)} MiB, in it {self.unit(container)}")
        limits = {u: limit_mib(self.cards[u], n, unit_of(obj)) << 20 for u, n in want.items()} if isolated else None
        self.grants += isolated
        if container["limits"] != limits:
            self.wrong.append(f"{obj['metadata']['name']}/{name} is placed on {want}, its grant says "
                              f"{container['limits']}, not {limits}")


def in_network_of(pid, work):
    """Runs work() with this process's network, in a thread of its own."""
    result = []

    def run(namespace):
        assert libc.setns(namespace.fileno(), 0x40000000) == 0, os.strerror(ctypes.get_errno())    # CLONE_NEWNET
        result.append(work())
    with open(f"/proc/{pid}/ns/net") as namespace:
        thread = threading.Thread(target=run, args=[namespace])
        thread.start()
        thread.join()
    return result[0] if result else None


def book_of(pid):
    """The ledger of one ration-scheduler, None while it does not answer."""
    def get():
        connection = http.client.HTTPConnection("127.0.0.1", 39999, timeout=5)
        try:
            connection.request("GET", "/inspect")
            return json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
    try:
        return in_network_of(pid, get)
    except OSError:
        return None


def pod_of_process(pid):
    """The uid of its pod, None if it is in none."""
    try:
        cgroup = POD_OF_CGROUP.search(pathlib.Path(f"/proc/{pid}/cgroup").read_bytes())
    except OSError:
        return None
    return cgroup and cgroup[1].decode()


def processes_of(cluster, program):
    """Host pids of a program in the containers of this lab, oldest first."""
    mark, found = f"{cluster.folder}/", []
    for entry in os.listdir("/proc"):
        try:
            if (entry.isdigit() and pathlib.Path(f"/proc/{entry}/comm").read_text().strip() == program[:15]
                    and mark in pathlib.Path(f"/proc/{entry}/mountinfo").read_text()):
                found.append(int(entry))
        except OSError:
            continue
    return sorted(found)


class Books(threading.Thread):
    """Every ration-scheduler's ledger, several times a second: a pod that is over must have left it 2 s after the
    ledger says that it has read of its end, however late that is; how late is in `longest`."""

    def __init__(self, cluster, watch):
        super().__init__(daemon=True)
        self.cluster, self.watch = cluster, watch
        self.trust_after = 0.0      # before that time ledgers may lag: the API server is away
        self.longest, self.wrong, self.stopped = 0.0, [], False
        self.known_over = {}        # (pid, uid of a pod) -> since when the ledger knows that it is over, and has it

    def stop(self):
        self.stopped = True
        self.join(20)

    def run(self):
        pids = []
        while not self.stopped:
            if not pids or not all(os.path.exists(f"/proc/{pid}") for pid in pids):
                pids = processes_of(self.cluster, "ration-scheduler")
            for pid in pids:
                self.look(pid, time.monotonic(), book_of(pid))
            time.sleep(0.3)

    def look(self, pid, now, book):
        """now: before the ledger was asked."""
        if not book or not book["ready"] or now < self.trust_after:
            return
        if book["wrongSums"] or book["overcommittedGPUs"]:
            self.wrong.append(f"a ledger has {book['wrongSums']} wrong sums, {book['overcommittedGPUs']} cards over")
        states = {p["uid"]: p["state"] for n in book["nodes"] for d in n["devs"] for p in d["pods"]}
        with self.watch.lock:
            over = {uid: (self.watch.failed_at[uid], self.watch.end_version[uid])
                    for uid in states.keys() & self.watch.failed_at.keys()}
        self.known_over = {key: since for key, since in self.known_over.items() if key[0] != pid or key[1] in over}
        for uid, (at, version) in over.items():
            self.longest = max(self.longest, now - at)
            if int(book.get("podsVersion") or 0) >= version:    # the version before does not tell it
                since = now - self.known_over.setdefault((pid, uid), now)
                if since > 2:
                    ended = self.watch.seen[uid]
                    self.wrong.append(f"process {pid} knows since {since:.1f} s that {ended['metadata']['name']} is over, "
                                      f"and has it as {states[uid]}: {ended['status']}")

    def are_right(self):
        """Every ledger believes what the API server says, now."""
        with self.watch.lock:
            used = {uuid: mib for uuid, mib in self.watch.used.items() if mib}
        for pid in processes_of(self.cluster, "ration-scheduler"):
            book = book_of(pid)
            assert book and book["ready"], book
            assert {d["uuid"]: d["usedGPU"] * n["unitMiB"] for n in book["nodes"] for d in n["devs"] if d["usedGPU"]} == used
        return True
