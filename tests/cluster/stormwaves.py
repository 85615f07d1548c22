"""A storm: pods of random shapes are made and deleted, and something is killed in the middle. What is true all the time is in
storm.py and machine.py."""
import datetime
import os
import pathlib
import random
import re
import signal
import time

from api import Connections
from cluster import wait_for
from gpupods import IMAGE, annotation, inventory
from machine import Machine
from storm import GPU_MEM, Books, PodWatch, is_leaving, is_over, pod_of_process, processes_of

NODES = ["storm-a.192.168.21.1=4x10240MiB+4x8192MiB,{}", "storm-b.192.168.21.2=8x12288MiB,{},spread",
         "storm-c.192.168.21.3=2x16160MiB+6x5120MiB,{}"]
MODES = {"mixed": ("share", "share", "cgpu"), "share": ("share",) * 3, "cgpu": ("cgpu",) * 3}
# Obeys, or takes its time to go, as a training job that writes a checkpoint: then its memory is still in use.
OBEYS, STUBBORN = "trap 'exit 0' TERM; sleep 100000 & wait", "trap '' TERM; sleep 100000 & wait; wait; sleep 100000"


def cards_of_nodes(nodes):
    """{node: {uuid: MiB}}"""
    return {name: {u: c["mib"] for u, c in inventory(node).items()} for name, node in nodes.items()}


def whole_nodes(nodes):
    return {name for name, node in nodes.items() if annotation(node, "ration.dev/mode") == "topology"}


class Storm:
    def __init__(self, cluster, seed):
        self.cluster, self.namespace, self.rng = cluster, cluster.namespace, random.Random(seed)
        self.api = Connections(cluster.environment["KUBECONFIG"])
        nodes = cluster.nodes()
        self.modes = {annotation(n, "ration.dev/mode") for n in nodes.values()}
        self.mark = f"{seed}-{time.monotonic_ns()}"
        self.watch = self.make_watch(cards_of_nodes(nodes), whole_nodes(nodes))
        isolated = {name for name, n in nodes.items() if annotation(n, "ration.dev/mode") == "cgpu"}
        self.machine = self.make_machine(self.mark, self.watch, {u: c for n in nodes.values() for u, c in inventory(n).items()},
                                         lambda obj: obj["spec"]["nodeName"] in isolated)
        self.made, self.deleted, self.jobs = 0, set(), []
        self.books = Books(cluster, self.watch, lambda: asked(self))
        self.threads = [self.watch, self.machine, self.books]
        for thread in self.threads:
            thread.start()

    def make_watch(self, cards, whole):
        return PodWatch(self.api, cards, whole)

    def make_machine(self, *arguments):
        return Machine(*arguments)

    def end(self):
        for thread in reversed(self.threads):
            thread.stop()

    # -- pods

    def container(self, name, units, command=OBEYS):
        return {"name": name, "image": IMAGE, "command": ["bash", "-c", command],
                "env": [{"name": "STORM", "value": self.mark}, {"name": "STORM_CONTAINER", "value": name}],
                "resources": {"limits": units if isinstance(units, dict) else {GPU_MEM: units}}}

    def template(self):
        """One pod of a random shape: mostly one container of 1..7 units, equal sizes are frequent."""
        shape, units = self.rng.choice(["plain"] * 6 + ["two", "init", "cards", "equal", "equal"]), self.rng.randint(1, 7)
        spec, labels = {"terminationGracePeriodSeconds": 3, "restartPolicy": "Never"}, {"storm": "pod"}
        command = self.rng.choice([OBEYS] * 4 + [STUBBORN])
        spec["containers"] = [self.container("main", {"equal": 3, "cards": 2 * (units % 3 + 1)}.get(shape, units), command)]
        if shape == "two":
            spec["containers"].append(self.container("second", self.rng.randint(1, 3)))
        if shape == "init":
            spec["initContainers"] = [self.container("init", self.rng.randint(1, 7), "sleep 0.4")]
        if shape == "cards":
            labels["aliyun.com/gpu-count"] = "2"
        return {"metadata": {"labels": labels}, "spec": spec}

    def create(self, count, pace=0.03):
        for _ in range(count):
            self.made += 1
            body = {"apiVersion": "v1", "kind": "Pod", **self.template()}
            body["metadata"]["name"] = f"p{self.made:03}"
            status, answer = self.api.insist("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)
            assert status in (201, 409), answer
            time.sleep(pace)

    def create_job(self, parallelism=3):
        name = f"job{len(self.jobs)}"
        self.jobs.append((name, parallelism))
        template = self.template()
        template["spec"]["containers"][0]["command"][2] = OBEYS
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
                "spec": {"parallelism": parallelism, "completions": parallelism, "backoffLimit": 1000,
                         "template": template}}
        status, answer = self.api.insist("POST", f"/apis/batch/v1/namespaces/{self.namespace}/jobs", body)
        assert status in (201, 409), answer

    def mine(self):
        with self.watch.lock:
            return [p for p in self.watch.pods.values() if p["metadata"]["namespace"] == self.namespace]

    def delete(self, share, force=0.2):
        pods = [p for p in self.mine() if "job-name" not in p["metadata"].get("labels", {})]
        for p in self.rng.sample(pods, int(len(pods) * share)):
            self.deleted.add(p["metadata"]["uid"])
            grace = "?gracePeriodSeconds=0" if self.rng.random() < force else ""
            self.api.insist("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{p['metadata']['name']}{grace}")

    # -- what must be true

    def look(self, quiet=False):
        self.watch.look_at_waiting(quiet)
        wrong = [text for thread in self.threads for text in thread.wrong + [
            f"{type(thread).__name__} has ended: its traceback is above"] * (not thread.is_alive())]
        assert not wrong, wrong[:5]
        return True

    def is_settled(self):
        """Everything bound runs or is over, and nothing that waits would fit."""
        self.look()
        pods = [p for p in self.mine() if not is_over(p)]
        late = [p["metadata"]["name"] for p in pods if p["spec"].get("nodeName") and (
            p["status"].get("phase") != "Running" or is_leaving(p))]
        fitting = [p["metadata"]["name"] for p in self.watch.waiting() if self.watch.fits(p)]
        assert not late and not fitting, f"not running: {late[:8]}; fit and wait: {fitting[:8]}"
        return True

    def settle(self, timeout, what):
        wait_for(self.is_settled, timeout, what, every=0.2)

    def running(self):
        """{container id: uid of its pod} of what nobody has asked to go."""
        alive = dict(self.machine.alive)
        with self.watch.lock:
            return {i: c["uid"] for i, c in alive.items() if c["uid"] in self.watch.pods and c["uid"] not in self.deleted
                    and not is_leaving(self.watch.pods[c["uid"]])
                    and c["env"]["STORM_CONTAINER"] != "init"}

    def disturbed(self, before):
        """Names of the pods that were running() before and are not now, though nobody asked them to go."""
        alive = dict(self.machine.alive)
        return {self.watch.seen[uid]["metadata"]["name"] for i, uid in before.items()
                if i not in alive and uid not in self.deleted}


def leader_of(storm, pids):
    """(Of these processes the one in the pod of the kube-scheduler that leads or None, for how many seconds both have
    been so.)"""
    status, lease = storm.api("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/ack-co-scheduler")
    spec = lease["spec"] if status == 200 else {}
    for pid in pids:
        pod = storm.watch.seen.get(pod_of_process(pid))
        if pod and pod["metadata"]["name"] == spec.get("holderIdentity", "").partition("_")[0]:
            since = datetime.datetime.fromisoformat(spec["acquireTime"]).timestamp()
            return pid, time.time() - max(since, os.stat(f"/proc/{pid}").st_mtime)
    return None, 0.0


def asked(storm):
    return leader_of(storm, processes_of(storm.cluster, "ration-scheduler"))


def leading(storm, pids):
    """Of the processes of two replicas the one whose kube-scheduler leads: the other's death disturbs nobody."""
    return leader_of(storm, pids)[0] or max(pids)


def kill_process(program):
    def kill(storm):
        pids = wait_for(lambda: processes_of(storm.cluster, program), 30, f"{program} runs")
        os.kill(leading(storm, pids), signal.SIGKILL)
    kill.__name__ = program
    return kill


def kill_agent_worker(storm):
    """The supervisor's child: the younger of a node's two."""
    pids = processes_of(storm.cluster, "ration-agent")
    parents = {pid: int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]) for pid in pids}
    workers = [pid for pid, parent in parents.items() if parent in pids]
    os.kill(storm.rng.choice(workers), signal.SIGKILL)


def kill_agent_supervisor(storm):
    pids = processes_of(storm.cluster, "ration-agent")
    parents = {pid: int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]) for pid in pids}
    os.kill(storm.rng.choice([pid for pid, parent in parents.items() if parent not in pids]), signal.SIGKILL)


def kill_kubelet(storm):
    storm.cluster.lab("restart", "--kill", f"kubelet@{storm.rng.choice(list(storm.watch.cards))}")


def kill_api_server(storm):
    storm.books.trust_after = float("inf")    # nobody can tell a ledger anything
    storm.cluster.lab("restart", "--kill", "kube-apiserver")
    storm.books.trust_after = time.monotonic() + 10


def nothing(_storm):
    pass


FAULTS = [nothing, kill_process("ration-scheduler"), kill_process("kube-scheduler"), kill_agent_worker,
          kill_agent_supervisor, kill_kubelet, kill_api_server]


def wait_for_a_processor(patience=90):
    """After the kills everything starts anew at once; and others may be at work on the machine. Waits are the
    scheduler's only where it does not wait for a processor itself. (The machine's load is an average over a minute: it would
    still tell of what is over.)"""
    end = time.monotonic() + patience
    while runnable() > 2 * os.cpu_count() and time.monotonic() < end:
        pass


def runnable():
    """How many threads run or want to, on average over a second."""
    counts = []
    for _ in range(20):
        counts.append(int(re.search(r"^procs_running ([0-9]+)", pathlib.Path("/proc/stat").read_text(), re.MULTILINE)[1]))
        time.sleep(0.05)
    return sum(counts) / len(counts)


def releases_in_quiet(storm, rounds, queue=25):
    """Nobody is killed: whoever fits after a release is bound within 2 s, with a queue of pods that wait."""
    wait_for_a_processor()
    while len(storm.watch.waiting()) < queue:
        storm.create(10)
        storm.settle(90, "the queue has formed")
    for _ in range(rounds):
        bound = [p for p in storm.mine() if p["spec"].get("nodeName") and not is_over(p) and
                 "job-name" not in p["metadata"].get("labels", {})]
        for p in storm.rng.sample(bound, min(6, len(bound))):
            storm.deleted.add(p["metadata"]["uid"])
            storm.api.insist("DELETE", f"/api/v1/namespaces/{storm.namespace}/pods/{p['metadata']['name']}")
        end = time.monotonic() + 8
        while time.monotonic() < end:
            storm.look(quiet=True)
            time.sleep(0.05)
    storm.watch.look_at_waiting(False)
