"""ration-scheduler as kube-scheduler sees it: a real process, real sockets, a small API server; nodes with GPUs."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from fake_apiserver import wait_for

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build"))
READY_TIMEOUT = 20


def gpus(*mibs, node="n"):
    return json.dumps([{"index": i, "uuid": f"GPU-{node}-{i}", "model": "Simulated", "mib": mib, "healthy": True}
                       for i, mib in enumerate(mibs)])


def gpu_node(api, name, *mibs, policy="binpack", mode="share"):
    return api.create_node(name, labels={"ack.node.gpu.placement": policy},
                           annotations={"ration.dev/gpus": gpus(*mibs, node=name), "ration.dev/unit": "1024",
                                        "ration.dev/mode": mode})


class Scheduler:
    def __init__(self, api, *options):
        self.api, self.options = api, options
        self.log = open(f"{api.kubeconfig()}.log", "a+")
        self.process = None
        self.start()

    def start(self):
        assert not self.process or self.process.returncode is not None, "the test has not stopped it"
        self.ports = None
        at = self.log.seek(0, 2)
        self.process = subprocess.Popen(
            [BUILD / "src/scheduler/ration-scheduler", "--kubeconfig", self.api.kubeconfig(), "--listen",
             "127.0.0.1:0", "--probes", "127.0.0.1:0", *self.options], stderr=self.log)
        found = wait_for(lambda: re.search(r"verbs on port (\d+), probes on port (\d+)", self.text(at)),
                         READY_TIMEOUT, "listening")
        self.ports = int(found[1]), int(found[2])

    def text(self, start=0):
        with open(self.log.name) as f:
            f.seek(start)
            return f.read()

    def stop(self, signo=signal.SIGTERM):
        self.process.send_signal(signo)
        status = self.process.wait(10)
        assert status == (-signo if signo == signal.SIGKILL else 0), self.text()[-3000:]
        return status

    def end(self):
        """It lives, unless the test has stopped it, and ends as it should. pytest shows what it said of a failed test."""
        print(self.text()[-6000:])
        if self.process.returncode is None:
            assert self.process.poll() is None, \
                f"ration-scheduler has ended by itself, with {self.process.returncode}:\n{self.text()[-3000:]}"
            history = self.history()
            self.stop()
            replays(history)
        assert "ERROR: " not in self.text() and "runtime error" not in self.text(), self.text()    # sanitizers

    def http(self, method, path, body=None, port=0, timeout=15):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=timeout)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def history(self):
        """What it has recorded; nothing where it has read no lists yet or answers nobody."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            status, body = self.http("GET", "/history", timeout=5)
            return body if status == 200 else b""
        return b""

    def verb(self, name, body):
        status, answer = self.http("POST", "/" + name, json.dumps(body))
        assert status == 200
        return json.loads(answer)

    def filter(self, pod, nodes):
        return self.verb("filter", {"Pod": pod, "Nodes": None, "NodeNames": nodes})

    def bind(self, pod, node):
        meta = pod["metadata"]
        return self.verb("bind", {"PodName": meta["name"], "PodNamespace": meta["namespace"],
                                  "PodUID": meta["uid"], "Node": node})["Error"]

    def inspect(self):
        return json.loads(self.http("GET", "/inspect")[1])

    def used(self):
        return {node["name"]: [d["usedGPU"] for d in node["devs"]] for node in self.inspect()["nodes"]}

    def has_read_pods(self):
        """What has happened to pods so far is in the ledger: the watch tells it in this order."""
        marker = self.api.create_pod(f"marker-{time.monotonic_ns()}")["metadata"]
        self.api.delete("pods", marker["name"])
        wait_for(lambda: int(self.inspect()["podsVersion"]) >= int(marker["resourceVersion"]), 5, "the watch of pods")

    def has_read_nodes(self):
        """The same of nodes: one that came later has come and gone."""
        name = f"marker-{time.monotonic_ns()}"
        gpu_node(self.api, name, 1024)
        wait_for(lambda: any(node["name"] == name for node in self.inspect()["nodes"]), 5, "the watch of nodes")
        self.api.delete("nodes", name)
        wait_for(lambda: all(node["name"] != name for node in self.inspect()["nodes"]), 5, "the watch of nodes")

    def ready(self):
        return self.http("GET", "/readyz", port=1)[0] == 200


def replays(history):
    """Whatever a test does: what the scheduler decided and has become comes out the same when it is replayed."""
    if not history:
        return
    with tempfile.NamedTemporaryFile(suffix=".jsonl", delete=False) as file:
        file.write(history)
    done = subprocess.run([BUILD / "src/cli/ration", "replay", file.name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr} (the history is in {file.name})"
    os.unlink(file.name)


def placement_of(api, name):
    return json.loads(api.pod(name)["metadata"]["annotations"]["ration.dev/placement"])
