"""etcd, the API server and kube-scheduler that the lab builds, without kubelets and without controllers: Node
objects are only written, and no controller taints them."""
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from .programs import REPO, BenchError, Program, build, load, wait_until

sys.path.insert(0, str(REPO / "lab"))
from rationlab import binaries, pki    # noqa: E402
from rationlab.layout import KUBERNETES    # noqa: E402


def is_built():
    return binaries.is_built(KUBERNETES)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class _Pki(pki.Pki):
    def __init__(self, folder, port):
        super().__init__(folder, 0)
        self.port = port

    def server(self):
        return f"https://127.0.0.1:{self.port}"


class RealApi:
    """with RealApi() as api: ... ; api.kubeconfig is the admin's."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ration-bench-")
        self.port, self.parts = free_port(), []
        self.pki = _Pki(Path(self.folder.name), self.port)
        self.pki.create([])
        self.kubeconfig = str(self.pki.kubeconfig("admin"))
        self.context = ssl.create_default_context(cafile=str(self.pki.ca))
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                                  urllib.request.HTTPSHandler(context=self.context))

    def __enter__(self):
        etcd, peer = free_port(), free_port()
        self.parts.append(Program([
            binaries.program("etcd", KUBERNETES), "--name=bench", f"--data-dir={self.folder.name}/etcd",
            f"--listen-client-urls=http://127.0.0.1:{etcd}", f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=bench=http://127.0.0.1:{peer}", "--unsafe-no-fsync", "--log-level=error"]))
        key = self.pki.account_key
        self.parts.append(Program([
            binaries.program("kube-apiserver", KUBERNETES), f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1", f"--secure-port={self.port}", "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC", f"--token-auth-file={self.pki.tokens}",
            f"--tls-cert-file={self.pki.server_cert}", f"--tls-private-key-file={self.pki.server_key}",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}", "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=2000",
            # Without controllers no namespace has its ServiceAccount, and no controller removes the taint of a new node.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]))
        try:
            wait_until(self._is_ready, 120, "the API server is ready", 0.2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for part in reversed(self.parts):
            part.__exit__()
        self.folder.cleanup()

    def _is_ready(self):
        for part in self.parts:
            part.check_running()
        try:
            return self.request("GET", "/readyz") is not None
        except (OSError, BenchError):
            return False

    def request(self, method, path, body=None, content_type="application/json"):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.pki.server() + path, data, method=method, headers={
            "Authorization": f"Bearer {self.pki.admin_token()}", "Content-Type": content_type})
        try:
            with self.opener.open(request, timeout=120) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise BenchError(f"{method} {path}: {error.read().decode(errors='replace')[:400]}") from None
        return json.loads(text) if text.startswith(b"{") else text

    def create(self, path, objects):
        """Creates all, 16 at a time, by bench-load: Python would be the slowest part."""
        done = load(self.pki.server() + path, objects, len(objects), 16,
                    f"Authorization: Bearer {self.pki.admin_token()}")
        if done["failed"]:
            raise BenchError(f"{done['failed']} of {len(objects)} objects not created: {done['failure']}")

    def create_nodes(self, nodes):
        self.create("/api/v1/nodes", [{"apiVersion": "v1", "kind": "Node", **strip(n)} for n in nodes])

    def create_pods(self, pods, namespace="default"):
        self.create(f"/api/v1/namespaces/{namespace}/pods",
                    [{"apiVersion": "v1", "kind": "Pod", **strip(p)} for p in pods])

    def pods(self, namespace="default"):
        return self.request("GET", f"/api/v1/namespaces/{namespace}/pods?resourceVersion=0")["items"]

    def delete_pods(self):
        self.request("DELETE", "/api/v1/namespaces/default/pods?gracePeriodSeconds=0")
        wait_until(lambda: not self.request("GET", "/api/v1/namespaces/default/pods?limit=1")["items"], 120,
                   "the pods are deleted", 0.1)

    def watch_pods(self):
        """The open stream of a watch that begins with what is there."""
        request = urllib.request.Request(
            f"{self.pki.server()}/api/v1/namespaces/default/pods?watch=1",
            headers={"Authorization": f"Bearer {self.pki.admin_token()}"})
        return self.opener.open(request, timeout=60)


def strip(made):
    """What a client may not write."""
    meta = {k: v for k, v in made["metadata"].items() if k not in ("uid", "resourceVersion", "creationTimestamp")}
    return {**made, "metadata": meta}


class KubeScheduler(Program):
    """The unmodified kube-scheduler; extender: the URL of one, or None."""

    def __init__(self, api, extender):
        self.port = free_port()
        self.config = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump(scheduler_config(api, extender), self.config)
        self.config.flush()
        super().__init__([binaries.program("kube-scheduler", KUBERNETES), f"--config={self.config.name}",
                          f"--secure-port={self.port}", "--bind-address=127.0.0.1",
                          "--authorization-always-allow-paths=/metrics", f"--cert-dir={api.folder.name}/scheduler",
                          f"--authentication-kubeconfig={api.kubeconfig}",
                          f"--authorization-kubeconfig={api.kubeconfig}"])
        self.api = api

    def failed_attempts(self):
        """Scheduling attempts that ended in an error (a failed bind is one), by kube-scheduler's own count."""
        context = ssl._create_unverified_context()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                             urllib.request.HTTPSHandler(context=context))
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}/metrics", headers={
            "Authorization": f"Bearer {self.api.pki.admin_token()}"})
        with opener.open(request, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines
                   if line.startswith("scheduler_schedule_attempts_total{") and 'result="error"' in line)


def scheduler_config(api, extender):
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
              "leaderElection": {"leaderElect": False},
              "clientConnection": {"kubeconfig": api.kubeconfig, "qps": 5000, "burst": 5000},
              "percentageOfNodesToScore": 100, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1,
              "profiles": [{"schedulerName": "ack-co-scheduler"}]}
    if extender:
        config["extenders"] = [{
            "urlPrefix": extender, "filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind",
            "weight": 150, "nodeCacheCapable": True, "ignorable": False, "httpTimeout": "10s",
            "managedResources": [{"name": "aliyun.com/gpu-mem", "ignoredByScheduler": False}]}]
    return config


class Standin(Program):
    def __init__(self, api, best):
        super().__init__([build() / "bench/bench-standin", "--best-nodes", best, "--kubeconfig", api.kubeconfig])
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
