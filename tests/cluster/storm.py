"""What a storm needs: the API server without a kubectl per request, every pod as its watch tells, every ledger, and what
must be true of them at any moment. Containers: machine.py; what makes and kills: stormwaves.py."""
import collections
import ctypes
import http.client
import json
import os
import pathlib
import re
import threading
import time

from gpupods import annotation

GPU_MEM = "aliyun.com/gpu-mem"
WHOLE = "aliyun.com/gpu"
UNITS_MIB = (1024, 512, 256, 128)
POD_OF_CGROUP = re.compile(rb"/pod([0-9a-f-]{36})/([0-9a-f]{64})")
libc = ctypes.CDLL(None, use_errno=True)


def asked_of(obj, resource):
    """Kubernetes' effective request of a pod without sidecars."""
    def ask(c):
        return int(c.get("resources", {}).get("limits", {}).get(resource, 0))
    inits = [ask(c) for c in obj["spec"].get("initContainers", [])]
    return max([sum(ask(c) for c in obj["spec"]["containers"]), *inits])


def request_of(obj):
    """(units on each card, cards): its gpu-mem, divided over the cards of the label gpu-count."""
    count = int(obj["metadata"].get("labels", {}).get("aliyun.com/gpu-count", "1"))
    return asked_of(obj, GPU_MEM) // count, count


def asks(obj):
    """Whether it asks for a GPU at all."""
    return bool(asked_of(obj, GPU_MEM) or asked_of(obj, WHOLE))


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


def is_leaving(obj):
    return "deletionTimestamp" in obj["metadata"]


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
            # What has ended, or is to end, first: what it left may have been given to others meanwhile.
            for obj in sorted(listed["items"], key=lambda o: (not is_over(o), not is_leaving(o), version_of(o))):
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
    """What is wrong in a state of a pod is in `wrong`. Units of pods are MiB here: those of nodes may differ. A card that is
    given whole counts as all that it has."""

    def __init__(self, api, cards, whole=()):
        super().__init__(api, "/api/v1/pods")
        self.total = {uuid: mib for node in cards.values() for uuid, mib in node.items()}
        self.cards, self.whole = cards, set(whole)       # node -> {uuid: MiB}; nodes that give whole cards
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
        for card in cards_of(obj):
            self.used[card] += sign * self.need(obj, card)

    def need(self, obj, card):
        """MiB that it has, or would have, of this card."""
        return self.total[card] if asked_of(obj, WHOLE) else request_of(obj)[0] * unit_of(obj)

    def cards_of_node(self, node, _asked):
        return self.cards[node]

    def check_cards(self, obj):
        """As many as it asks for, of a node that gives such."""
        cards, node = cards_of(obj), obj["spec"].get("nodeName")
        if not node or not cards:
            return
        whole = asked_of(obj, WHOLE)
        if len(cards) != (whole or request_of(obj)[1]) or not set(cards) <= set(self.cards_of_node(node, cards)):
            self.wrong.append(f"{obj['metadata']['name']} on {node} has cards {cards}")
        if bool(whole) != (node in self.whole):
            self.wrong.append(f"{obj['metadata']['name']} is on {node}, which does not give what it asks for")

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
        if obj["spec"].get("nodeName") and asks(obj):
            self.check_cards(obj)
            now = obj["spec"]["nodeName"], annotation(obj, "ration.dev/placement")
            if self.bound.setdefault(uid, now) != now:
                self.wrong.append(f"{name} was bound to {self.bound[uid]}, then to {now}")
        for card in cards_of(obj):
            if self.used[card] > self.total[card]:
                self.wrong.append(f"card {card} has {self.used[card]} of {self.total[card]} MiB given with {name}")

    # -- who waits

    def places(self, obj, node):
        """How many cards of the node have room for its part of one."""
        if bool(asked_of(obj, WHOLE)) != (node in self.whole):
            return 0
        return sum(total - self.used[card] >= self.need(obj, card) for card, total in self.cards[node].items())

    def nodes_with_room(self, obj):
        if not asks(obj):
            return list(self.cards)
        count = asked_of(obj, WHOLE) or request_of(obj)[1]
        return [node for node in self.cards if self.places(obj, node) >= count]

    def fits(self, obj):
        return bool(self.nodes_with_room(obj))

    def is_prompt(self, _obj):
        """Whether it is to be placed as soon as it fits."""
        return True

    def waiting(self):
        with self.lock:
            return [p for p in self.pods.values() if asks(p) and not p["spec"].get("nodeName")
                    and not is_over(p) and not is_leaving(p)]

    def look_at_waiting(self, quiet):
        """Called all the time; while it is `quiet` (nothing was killed lately) waits count."""
        now = time.monotonic()
        with self.lock:
            waits = {p["metadata"]["uid"]: p for p in self.waiting() if self.is_prompt(p) and self.fits(p)}
            if quiet:
                self.waits += [now - since for uid, since in self.fits_since.items() if uid not in waits]
            self.fits_since = {uid: self.fits_since.get(uid, now) for uid in waits} if quiet else {}
            for uid, since in self.fits_since.items():
                self.longest_wait = max(self.longest_wait, (now - since, waits[uid]["metadata"]["name"]))

    def rejected(self):
        """Pods that a kubelet refused: bound, and Failed without a container that ever ran."""
        with self.lock:
            return [p for p in self.seen.values() if p["status"].get("phase") == "Failed"
                    and p["status"].get("reason") in ("UnexpectedAdmissionError", f"OutOf{GPU_MEM}", f"OutOf{WHOLE}")]


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


def page_of(pid, path):
    """A page of one ration-scheduler, None while it does not answer."""
    def get():
        connection = http.client.HTTPConnection("127.0.0.1", 39999, timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return None
    try:
        return in_network_of(pid, get)
    except OSError:
        return None


def book_of(pid):
    """The ledger of one ration-scheduler, None while it does not answer."""
    try:
        return json.loads(page_of(pid, "/inspect") or "null")
    except ValueError:
        return None


def pod_of_process(pid):
    """The uid of its pod, None if it is in none."""
    try:
        cgroup = POD_OF_CGROUP.search(pathlib.Path(f"/proc/{pid}/cgroup").read_bytes())
    except OSError:
        return None
    return cgroup and cgroup[1].decode()


def processes_of(cluster, program):
    """Host pids of a program in the containers of this lab, oldest first. Without the children of a ration-scheduler, which
    write a part of its history and end (src/scheduler/event-log.c)."""
    mark, parents = f"{cluster.folder}/", {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        proc = pathlib.Path("/proc", entry)
        try:
            if (proc / "comm").read_text().strip() == program[:15] and mark in (proc / "mountinfo").read_text():
                parents[int(entry)] = int((proc / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return sorted(pid for pid, parent in parents.items() if program != "ration-scheduler" or parent not in parents)


LAG_S = 5     # how long the watch of a scheduler may lag (src/core/leadership.h)


class Books(threading.Thread):
    """Every ration-scheduler's ledger, several times a second: its sums are right, no GPU is over its total, and a pod
    that is over must have left it 2 s after the ledger says that it has read of its end, however late that is; how late
    is in `longest`.

    The replica that is not asked reads the Bindings of the other one. Its watch of pods may show them before its watch
    of nodes shows which containers had ended for them: its ledger may be over for LAG_S, and so may the ledger of a
    replica that is asked since less than that."""

    def __init__(self, cluster, watch, asked):
        """asked(): (host pid of the replica whose kube-scheduler leads or None, for how many seconds)."""
        super().__init__(daemon=True)
        self.cluster, self.watch, self.asked = cluster, watch, asked
        self.over_since = {}        # pid -> since when a GPU is over its total in the ledger
        self.trust_after = 0.0      # before that time ledgers may lag: the API server is away
        self.longest, self.wrong, self.saved, self.stopped = 0.0, [], [], False
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
        self.look_at_sums(pid, now, book)
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

    def look_at_sums(self, pid, now, book):
        if book["wrongSums"]:
            self.wrong.append(f"the ledger of process {pid} has {book['wrongSums']} wrong sums")
        if not book["overcommittedGPUs"]:
            self.over_since.pop(pid, None)
            return
        since = now - self.over_since.setdefault(pid, now)
        leader, leads_s = self.asked()
        if since <= LAG_S and (pid != leader or leads_s <= LAG_S):
            return
        over = [(n["name"], d) for n in book["nodes"] for d in n["devs"] if d["usedGPU"] > d["totalGPU"]]
        self.wrong.append(f"the ledger of process {pid} has {book['overcommittedGPUs']} GPUs over since {since:.1f} s; process "
                          f"{leader} is asked since {leads_s:.1f} s; {over}; {self.save_histories()}")

    def save_histories(self):
        """Once: where the event log of each replica is now, for `ration replay`."""
        if not self.saved:
            for pid in processes_of(self.cluster, "ration-scheduler"):
                path = pathlib.Path(os.environ["RATION_BUILD"], f"storm-history-{pid}.ndjson")
                path.write_bytes(page_of(pid, "/history") or b"")
                self.saved.append(str(path))
        return f"event logs: {', '.join(self.saved)}"

    def are_right(self):
        """Every ledger believes what the API server says, now."""
        with self.watch.lock:
            used, total = {uuid: mib for uuid, mib in self.watch.used.items() if mib}, self.watch.total
        wrong = {}
        for pid in processes_of(self.cluster, "ration-scheduler"):
            book = book_of(pid)
            assert book and book["ready"], book
            wrong.update({(pid, n["name"], d["uuid"]): [d["usedGPU"], used.get(d["uuid"], 0), d["pods"]] for n in book["nodes"] for d in n["devs"]
                          if d["usedGPU"] * (total[d["uuid"]] if n["mode"] == "topology" else n["unitMiB"]) != used.get(d["uuid"], 0)})
        assert not wrong, (wrong, {name: annotation(node, "ration.dev/held") for name, node in self.cluster.nodes().items()})
        return True


def replayed(cluster):
    """What the scheduler that leads has decided comes out the same elsewhere; the sums of it."""
    said = cluster.run("ration", "replay", "-", stdin=cluster.run("ration", "history").stdout).stdout
    assert "all as recorded, and so is the state at the end." in said and " 0 wrong sums, 0 GPUs over" in said, said
    return said
