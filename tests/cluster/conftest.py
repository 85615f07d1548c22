"""Fixtures of the cluster tests: real labs, shared between tests that want the same nodes.

    def test_something(lab):
        cluster = lab("cn-beijing.192.168.8.44=4x15360MiB,share")    # no argument: the nodes of the documents
        cluster.apply(EXAMPLES / "job-share.yaml")
        pod = cluster.wait_running("app=tensorflow-mnist-share")[0]

Every test has a namespace of its own, removed with its pods before the next test. A test that changes the
cluster itself (labels of nodes, restarted parts) puts it back, or takes `lab(..., fresh=True)`.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
LAB = ROOT / "lab" / "lab"
LABS_AT_ONCE = 2    # running labs kept between tests; each takes about 1.5 GiB


def wait_for(predicate, timeout=60, what="the condition", every=0.15):
    """Calls predicate until it is truthy and returns that value; an assertion in it counts as not yet."""
    deadline = time.monotonic() + timeout
    last = None
    while True:
        try:
            value = predicate()
            if value:
                return value
            last = value
        except AssertionError as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}; last seen: {last}")
        time.sleep(every)


def lab_command(*arguments, check=True, timeout=600, env=None):
    """Runs lab/lab; its output is in the failure message."""
    done = subprocess.run([str(LAB), *arguments], capture_output=True, text=True, timeout=timeout, check=False,
                          env=dict(os.environ, **(env or {})), stdin=subprocess.DEVNULL)
    if check and done.returncode != 0:
        raise AssertionError(f"lab/lab {' '.join(arguments)} exited {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class Cluster:
    """A running lab, seen from one test: everything namespaced happens in the test's own namespace."""

    def __init__(self, name):
        self.name = name
        self.namespace = "default"
        self.environment = dict(os.environ, **self._exports())

    def _exports(self):
        text = lab_command("env", "--name", self.name).stdout
        return dict(re.findall(r"^export (KUBECONFIG|PATH)='(.*)'$", text, re.MULTILINE), NO_PROXY="*", no_proxy="*")

    # -- commands

    def run(self, *argv, check=True, stdin=None, timeout=120):
        """A command with the lab's KUBECONFIG and PATH."""
        done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, env=self.environment,
                              input=stdin, timeout=timeout, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, argv))} exited {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def kubectl(self, *argv, stdin=None, check=True, timeout=120):
        """kubectl in the test's namespace; its standard output."""
        return self.run("kubectl", "-n", self.namespace, *argv, stdin=stdin, check=check, timeout=timeout).stdout

    def kubectl_error(self, *argv, stdin=None):
        """What kubectl says when it must fail."""
        done = self.run("kubectl", "-n", self.namespace, *argv, stdin=stdin, check=False)
        assert done.returncode != 0, f"kubectl {' '.join(argv)} succeeded:\n{done.stdout}"
        return done.stderr

    def get(self, *argv):
        """`kubectl get ... -o json`, parsed."""
        return json.loads(self.kubectl("get", *argv, "-o", "json"))

    def apply(self, manifest):
        """A file (pathlib.Path), YAML text, or an object."""
        if isinstance(manifest, pathlib.Path):
            return self.kubectl("apply", "-f", str(manifest))
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        return self.kubectl("apply", "-f", "-", stdin=text)

    def inspect(self, *argv):
        """`kubectl inspect cgpu` as a user types it."""
        return self.run("kubectl", "inspect", "cgpu", *argv).stdout

    def restart(self, part):
        """Ends a part of the lab (kubelet@NODE, kube-scheduler ...) and starts it again."""
        lab_command("restart", "--name", self.name, part)

    def enter(self, node, *argv, check=True):
        """A command in the node's namespaces; its standard output."""
        done = lab_command("enter", "--name", self.name, node, "--", *argv, check=check)
        return done.stdout

    # -- objects

    def pods(self, selector=None):
        return self.get("pods", *(["-l", selector] if selector else []))["items"]

    def pod(self, name):
        return self.get("pod", name)

    def node(self, name):
        return self.get("node", name)

    def nodes(self):
        return self.get("nodes")["items"]

    def events(self, pod):
        """Messages of a pod's events."""
        items = self.get("events", "--field-selector", f"involvedObject.name={pod}")["items"]
        return [f"{item['reason']}: {item['message']}" for item in items]

    def exec_in(self, pod, *argv, container=None):
        """A command in a pod's container; its standard output."""
        return self.kubectl("exec", pod, *(["-c", container] if container else []), "--", *argv)

    def environment_of(self, pod, container=None):
        """The environment that a new process of the container has."""
        lines = self.exec_in(pod, "env", container=container).splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def logs(self, pod, *argv):
        return self.kubectl("logs", pod, *argv)

    def wait_running(self, selector=None, count=1, timeout=60):
        """Waits for `count` ready pods of the selector; returns them."""
        def ready():
            pods = [pod for pod in self.pods(selector) if is_ready(pod)]
            return pods if len(pods) >= count else None
        return wait_for(ready, timeout, f"{count} ready pods of {selector or 'the namespace'}")

    def wait_event(self, pod, text, timeout=60):
        return wait_for(lambda: [e for e in self.events(pod) if text in e], timeout, f"an event of {pod} with {text!r}")

    def delete_pods(self, timeout=60):
        """Removes every workload and pod of the namespace and waits until the pods are gone."""
        self.kubectl("delete", "deployments,statefulsets,daemonsets,jobs,cronjobs,replicasets", "--all", "--wait=false",
                     "--cascade=background")
        self.kubectl("delete", "pods", "--all", "--grace-period=1", "--wait=false")

        def gone():
            left = [pod["metadata"]["name"] for pod in self.pods()]
            if left:    # what a controller made in between
                self.kubectl("delete", "pods", "--all", "--grace-period=1", "--wait=false")
            assert not left, left
            return True
        wait_for(gone, timeout, "the test's pods are gone", every=0.3)

    # -- a test's turn

    def enter_namespace(self, namespace):
        self.namespace = "default"
        self.kubectl("create", "namespace", namespace)
        self.namespace = namespace
        # Pods are refused until the controller-manager has made the service account.
        wait_for(lambda: self.get("serviceaccounts")["items"], 30, "the namespace's service account")

    def leave_namespace(self):
        namespace = self.namespace
        self.delete_pods()
        self.namespace = "default"
        self.kubectl("delete", "namespace", namespace, "--wait=false")

    def describe_failure(self):
        """What a person would look at first."""
        parts = []
        for title, argv in (
                ("nodes", ["get", "nodes", "-o", "wide"]), ("pods", ["get", "pods", "-A", "-o", "wide"]),
                ("events", ["get", "events", "--sort-by=.lastTimestamp", "-o",
                            "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message"]),
                ("ration-scheduler", ["logs", "-n", "kube-system", "deployment/ack-co-scheduler", "-c",
                                      "ration-scheduler", "--tail=40"]),
                ("agents", ["logs", "-n", "kube-system", "-l", "name=gpushare-device-plugin-ds", "--tail=40",
                            "--prefix"])):
            done = self.run("kubectl", "-n", self.namespace, *argv, check=False)
            parts.append(f"--- {title}\n{done.stdout}{done.stderr}")
        for node in self.run("kubectl", "get", "nodes", "-o", "name", check=False).stdout.split():
            part = f"kubelet@{node.removeprefix('node/')}"
            done = lab_command("logs", "--name", self.name, part, "-n", "15", check=False)
            parts.append(f"--- {part}\n{done.stdout}")
        return "\n".join(parts)


def is_ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


class Labs:
    """All labs of this pytest session; `t<pid>-<n>` by name, so that leftovers of a killed session are known."""

    def __init__(self):
        self.running = {}    # layout -> Cluster, the least recently used first
        self.count = 0
        self._remove_leftovers()

    def new_name(self):
        self.count += 1
        return f"t{os.getpid()}-{self.count}"

    def get(self, nodes, charts):
        layout = (nodes, charts)
        cluster = self.running.pop(layout, None)
        if cluster is None:
            while len(self.running) >= LABS_AT_ONCE:
                self.remove(next(iter(self.running.values())))
            cluster = self.start(nodes, charts)
        self.running[layout] = cluster
        return cluster

    def start(self, nodes, charts):
        name = self.new_name()
        arguments = [argument for node in nodes for argument in ("--node", node)]
        try:
            lab_command("up", "--name", name, *arguments, *([] if charts else ["--no-charts"]))
        except BaseException:
            lab_command("down", "--name", name, check=False)
            raise
        return Cluster(name)

    def remove(self, cluster):
        self.running = {layout: other for layout, other in self.running.items() if other is not cluster}
        lab_command("down", "--name", cluster.name)

    def remove_all(self):
        for cluster in list(self.running.values()):
            self.remove(cluster)

    def _remove_leftovers(self):
        root = pathlib.Path(os.environ.get("RATION_LABS") or pathlib.Path(
            os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state") / "ration" / "labs")
        for folder in root.glob("t*-*"):
            match = re.fullmatch(r"t([0-9]+)-[0-9]+", folder.name)
            if match and not pathlib.Path("/proc", match.group(1)).exists():
                lab_command("down", "--name", folder.name)


@pytest.fixture(scope="session")
def labs():
    """The labs of this session; all are gone at its end, after Ctrl-C and SIGTERM too."""
    if os.geteuid() != 0:
        pytest.skip("a lab needs root")

    def terminated(_number, _frame):
        raise KeyboardInterrupt
    before = signal.signal(signal.SIGTERM, terminated)
    keeper = Labs()
    yield keeper
    keeper.remove_all()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def lab(labs, request):
    """Gives a Cluster with the nodes asked for; starts one only if none with this layout runs."""
    used = []

    def give(*nodes, charts=True, fresh=False):
        cluster = labs.start(nodes, charts) if fresh else labs.get(nodes, charts)
        used.append((cluster, fresh))
        cluster.enter_namespace(f"test-{time.monotonic_ns() % 10**9}")
        return cluster

    yield give
    failed = getattr(request.node, "report_of_call", None)
    failed = failed is not None and failed.failed
    for cluster, fresh in used:
        if failed:
            with contextlib.suppress(Exception):
                print(cluster.describe_failure())
        try:
            if not fresh:
                cluster.leave_namespace()
        except Exception:
            labs.remove(cluster)    # not clean: no other test shall get it
            raise
        if fresh:
            labs.remove(cluster)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.report_of_call = outcome.get_result()
