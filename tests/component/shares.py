"""What the tests of computing power share: a node whose agent divides it, counters in usage files, programs that work."""
import json
import os
import struct
import time

import grants
from agent_fixture import NODE, SANITIZED
from isolated import Node, wait_for
from sim_cuda import KERNELS

WORK = KERNELS + r"""
IMAGE = b'{"rationSimModule": 1, "functions": {"us2": {"us": 2}, "us200": {"us": 200}, "ms1": {"us": 1000}, ' \
        b'"ms5": {"us": 5000}, "ms50": {"us": 50000}, "grid": {"us": 0, "usPerBlock": 10}}}'

def kernel(name):
    return load(name, IMAGE)

def spin(seconds, one, each_us, batch=10, stream=None):
    # Share of a card that was finished in that time, with at most `batch` under way.
    begin, done = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        for i in range(batch): one()
        ok(cu.cuStreamSynchronize(stream)); done += batch
    return done * each_us * 1e-6 / (time.monotonic() - begin)
"""

LIVE = 2520 + grants.CARDS_MAX * 256
WHOLE = 1000000
STARTED, WAITED, ASKED = 56, 80, 88     # in a card of a usage file
POLICY_MAP = {"metadata": {"name": "ration-policy", "namespace": "kube-system"}, "data": {"policy": "5"}}


class Power(Node):
    """Containers by name, one in a pod; weight, percent and more as the pod asks."""

    def __init__(self, **more):
        super().__init__(**more)
        self.folders, self.containers = {}, {}

    def hold(self, name, weight=None, percent=None, card=0, units=1, env=None):
        main = {"uuid": self.uuid(card), "units": units} | ({"core": percent} if percent else {})
        limits = {"aliyun.com/gpu-mem": str(units)} | (
            {"aliyun.com/gpu-core.percentage": str(percent)} if percent else {})
        variables = env or ([{"name": "ALIYUN_COM_GPU_SCHD_WEIGHT", "value": str(weight)}] if weight is not None else [])
        pod = self.api.create_pod(
            name, node=NODE, spec={"containers": [{"name": "main", "image": "example", "env": variables,
                                                   "resources": {"limits": limits}}]},
            annotations={"ration.dev/placement": json.dumps({"unit": 1024, "containers": {"main": [main]}}),
                         "ration.dev/unit": "1024"})
        self.kubelet.admit(pod)
        self.containers[name] = self.kubelet.run(pod, "main")
        self.folders[name] = self.state / "grants" / pod["metadata"]["uid"] / "main"
        return pod

    def words(self, name, card=0):
        """Share, rate and policy."""
        with open(self.folders[name] / "grant", "rb") as file:
            file.seek(LIVE + card * 128 + 40)
            return struct.unpack("<QQQ", file.read(24))

    def shares(self, *names):
        return [self.words(name)[0] for name in names]

    def count(self, name, at=STARTED, more=1000000, card=0):
        """The container has done something."""
        with open(self.folders[name] / "usage", "r+b") as file:
            file.seek(128 + card * 128 + at)
            before = struct.unpack("<Q", file.read(8))[0]
            file.seek(128 + card * 128 + at)
            file.write(struct.pack("<Q", (before + more) % (1 << 64)))

    def work(self, *names, seconds=0.2):
        """These containers, and no others, work for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name in names:
                self.count(name)
            time.sleep(0.01)

    def policy(self, value):
        if self.api.list("configmaps"):
            self.api.patch("configmaps", "ration-policy", {"data": {"policy": value}}, "kube-system")
        else:
            self.api.create("configmaps", {**POLICY_MAP, "data": {"policy": value}})

    def node_policy(self, value):
        self.api.patch("nodes", NODE, {"metadata": {"annotations": {"ration.dev/policy": value}}})

    def settles(self, expected, *names, within=1.0):
        began = time.monotonic()
        wait_for(lambda: self.shares(*names) == expected, 10, lambda: f"{names}: {self.shares(*names)}, not {expected}")
        took = time.monotonic() - began
        assert took <= within or SANITIZED, f"took {took} s"


# Never more than it may have; less where the machine has no processor for a program just then, which the short form bears.
LACKING = 0 if os.environ.get("RATION_FULL") else 0.2


def near(shares, expected, within=0.04):
    return all(wanted - max(within, LACKING * wanted) <= share <= wanted + within
               for share, wanted in zip(shares, expected, strict=True))


class Run:
    """A run that sleeps, or what `program` is."""

    def __init__(self, machine, *args, mem="100MiB", program=("sh", "-c", "echo ready; exec sleep 1000"), **more):
        self.process = machine.start(*program, mem=mem, args=args, **more)
        line = self.process.stdout.readline()
        assert line == "ready\n", line + self.process.stderr.read()
        self.folder = next(p for p in machine.runs.iterdir() if p.name.startswith(f"{self.process.pid}."))

    def words(self, card=0):
        with open(self.folder / "grant", "rb") as file:
            file.seek(LIVE + card * 128 + 40)
            return struct.unpack("<QQQ", file.read(24))

    def count(self, at=STARTED, more=1000000, card=0):
        with open(self.folder / "usage", "r+b") as file:
            file.seek(128 + card * 128 + at)
            before = struct.unpack("<Q", file.read(8))[0]
            file.seek(128 + card * 128 + at)
            file.write(struct.pack("<Q", (before + more) % (1 << 64)))

    def keeper(self):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"ration-keeper", b"keeper"] and words[2].decode() == str(self.folder):
                return int(pid)
        return None

    def end(self):
        """A program may have come to its end; that it crashed or failed is a failure, unless the test knows of it."""
        status = 0 if self.process.returncode is not None else self.process.poll()
        self.process.kill()
        _, said = self.process.communicate()
        assert not status, f"a run has ended by itself, with {status}: {said}"
