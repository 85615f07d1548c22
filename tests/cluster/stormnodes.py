"""A storm in which nodes leave and join again, with other GPUs under the same name."""
import concurrent.futures
import time

from cluster import lab_command, wait_for
from gpupods import annotation, inventory
from machine import Machine, visible
from storm import PodWatch, book_of, cards_of, is_over, pod_of_process, processes_of
from stormwaves import NODES, Storm, cards_of_nodes, kill_process, leading

MODES = ("share", "cgpu", "share")
SPECS = dict(node.format(mode).split("=") for node, mode in zip(NODES, MODES))
# What each has when it joins again, in turn; as many units as before or so.
CARDS = {"storm-a.192.168.21.1": ("6x9216MiB", "4x10240MiB+4x8192MiB"), "storm-b.192.168.21.2": ("4x16160MiB+2x8192MiB", "8x12288MiB"),
         "storm-c.192.168.21.3": ("8x7168MiB", "2x16160MiB+6x5120MiB")}
KEPT, PACE_S = 45, 0.3    # pods, of which one goes as one comes


class Cards(dict):
    """By UUID. Of one that it does not know it asks the API server: a pod may be on a new machine before we look at that."""

    def __init__(self, known, learn):
        super().__init__(known)
        self._learn = learn

    def __missing__(self, uuid):
        self._learn()
        return dict(self)[uuid]


class ChangingWatch(PodWatch):
    """`cards` has the nodes that are there now, `ever` what each name ever had."""

    def __init__(self, api, cards, whole):
        super().__init__(api, cards, whole)
        self.ever, self.learn = {name: set(known) for name, known in cards.items()}, None

    def cards_of_node(self, node, asked):
        if not set(asked) <= self.ever[node]:
            self.learn()
        return self.ever[node]

    def is_relic(self, obj):
        """Placed on GPUs of a machine that is gone."""
        cards, node = cards_of(obj), obj["spec"].get("nodeName")
        return bool(cards and node) and not set(cards) & set(self.cards.get(node, ()))


class ChangingMachine(Machine):
    """Pods of a machine that is gone are still bound to its name: what another machine of that name starts of them has no GPU at
    all. (Its kubelet does so before its agent has come: it knows of no such resource then.)"""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        # name -> when its last machine was gone; container id -> begin of the first snapshot with it; how many
        self.left, self.first_seen, self.relics = {}, {}, 0
        self.began = 0.0

    def snapshot(self):
        self.began = time.monotonic()
        super().snapshot()

    def compare(self, container):
        seen = self.first_seen.setdefault(container["id"], self.began)
        with self.watch.lock:
            obj = self.watch.seen.get(container["uid"])
            # A container of the machine before is dead when that machine is gone.
            if not obj or not self.watch.is_relic(obj) or seen < self.left[obj["spec"]["nodeName"]]:
                return super().compare(container)
        self.checked.add(container["id"])
        self.relics += 1
        if visible(container) or container["devices"] or container["limits"]:
            self.wrong.append(f"{self.describe(container)} has {container['env']}, {container['devices']} and {container['limits']} "
                              "of a machine that has not the GPUs on which it was placed")


class NodeStorm(Storm):
    def __init__(self, cluster, seed):
        super().__init__(cluster, seed)
        self.watch.learn = self.learn
        self.watch.total = Cards(self.watch.total, self.learn)
        self.machine.gpus = Cards(self.machine.gpus, self.learn)
        self.joined = dict.fromkeys(SPECS, 0)

    def make_watch(self, cards, whole):
        return ChangingWatch(self.api, cards, whole)

    def make_machine(self, *arguments):
        return ChangingMachine(*arguments)

    def learn(self):
        """The GPUs of the nodes that are there."""
        _, listed = self.api.insist("GET", "/api/v1/nodes")
        nodes = {n["metadata"]["name"]: n for n in listed["items"] if annotation(n, "ration.dev/gpus")}
        with self.watch.lock:
            for name, cards in cards_of_nodes(nodes).items():
                self.watch.cards[name] = cards
                self.watch.ever[name] |= set(cards)
                self.watch.total.update(cards)
                self.machine.gpus.update(inventory(nodes[name]))

    def forgive(self, name):
        """Pods of this node are ended by its end."""
        with self.watch.lock:
            self.deleted |= {uid for uid, p in self.watch.seen.items() if p["spec"].get("nodeName") == name}

    def leave(self, name, *options):
        lab_command("remove-node", "--name", self.cluster.name, name, *options)
        with self.watch.lock:
            del self.watch.cards[name]
            self.machine.left[name] = time.monotonic()
        self.forgive(name)

    def join(self, name):
        self.forgive(name)    # who was bound to it while it went
        cards = CARDS[name][self.joined[name] % 2]
        self.joined[name] += 1
        lab_command("add-node", "--name", self.cluster.name, f"{name}={cards},{SPECS[name].split(',', 1)[1]}")
        wait_for(lambda: self.learn() or name in self.watch.cards, 60, "the agent tells the GPUs of the new machine")
        self.delete_relics(name)

    def delete_relics(self, name):
        """As a person does: on the new machine they have no GPU. Those that may not start again fail by themselves."""
        time.sleep(2)
        with self.watch.lock:
            relics = [p for p in self.watch.pods.values() if p["spec"].get("nodeName") == name and self.watch.is_relic(p)]
            self.deleted |= {p["metadata"]["uid"] for p in relics}
        for p in relics:
            if not is_over(p):
                self.api.insist("DELETE", f"/api/v1/namespaces/{p['metadata']['namespace']}/pods/{p['metadata']['name']}")

    def while_pods_come_and_go(self, work):
        """Returns the containers that were seen to run."""
        seen = self.running()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            done = pool.submit(work)
            while not done.done():
                self.create(1)
                self.delete(1 / KEPT)
                self.look()
                seen.update(self.running())
                time.sleep(PACE_S)
            done.result()
        return seen

    def ledgers_have_the_machines_that_are_there(self):
        for pid in processes_of(self.cluster, "ration-scheduler"):
            book = book_of(pid)
            assert book and book["ready"], book
            assert {n["name"]: {d["uuid"] for d in n["devs"]} for n in book["nodes"]} == {
                name: set(cards) for name, cards in self.watch.cards.items()}
            unplaced = {n["name"]: n["unplaced"] for n in book["nodes"] if n["pendingGPU"]}
            assert not unplaced, unplaced
        return True


def any_node(storm):
    return storm.rng.choice(sorted(SPECS))


def node_of_the_leader(storm):
    pid = leading(storm, processes_of(storm.cluster, "ration-scheduler"))
    return storm.watch.seen[pod_of_process(pid)]["spec"]["nodeName"]


# Each takes the storm and says which node it takes, and what is done while pods come and go.

def joins_at_once(storm):
    """Before the garbage collector has seen that the old one is gone: its pods are bound to the new one."""
    name = any_node(storm)
    return lambda: (storm.leave(name), storm.join(name))


def joins_when_its_pods_are_collected(storm):
    name = any_node(storm)

    def collected():
        with storm.watch.lock:
            return not [p for p in storm.watch.pods.values() if p["spec"].get("nodeName") == name]
    return lambda: (storm.leave(name), wait_for(collected, 120, f"the pods of {name} are collected"), storm.join(name))


def leaves_with_the_leading_scheduler(storm):
    name = node_of_the_leader(storm)
    return lambda: (storm.leave(name), time.sleep(5), storm.join(name))


def leaves_as_the_scheduler_is_killed(storm):
    name = any_node(storm)
    return lambda: (storm.leave(name), kill_process("ration-scheduler")(storm), storm.join(name))


def is_drained_first(storm):
    name = any_node(storm)
    return lambda: (storm.forgive(name), storm.leave(name, "--drain"), storm.join(name))


WAVES = [joins_at_once, joins_when_its_pods_are_collected, leaves_with_the_leading_scheduler, leaves_as_the_scheduler_is_killed,
         is_drained_first]
