"""A running lab as a cluster test sees it, and the helpers that tests import."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

from api import Connections

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
LAB = ROOT / "lab" / "lab"
PRODUCT = pathlib.Path(os.environ.get("RATION_BUILD") or ROOT / "build").absolute()
WORKLOADS = ["ds/gpushare-device-plugin-ds", "deployment/ack-co-scheduler"]    # of the two charts
PATIENCE = float(os.environ.get("RATION_PATIENCE") or 1)    # how many times as long to wait, on a machine that is so much slower


def wait_for(predicate, timeout=60, what="the condition", every=None):
    """Calls predicate until it is truthy and returns that value; an AssertionError in it counts as not yet. every: seconds between two
    calls; without it they become rarer, since a question costs the lab time of a processor."""
    timeout *= PATIENCE
    pause = every or 0.1
    deadline = time.monotonic() + timeout
    while True:
        try:
            last = predicate()
            if last:
                return last
        except AssertionError as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}; last seen: {last}")
        time.sleep(pause)
        pause = every or min(1.2 * pause, 0.5)


def lab_command(*arguments, check=True, timeout=600, env=None):
    """Runs lab/lab; its output is in the failure message."""
    done = subprocess.run([str(LAB), *arguments], capture_output=True, text=True, timeout=timeout * PATIENCE, check=False,
                          env=dict(os.environ, **(env or {})), stdin=subprocess.DEVNULL)
    if check and done.returncode != 0:
        raise AssertionError(f"lab/lab {' '.join(arguments)} exited {done.returncode}\n{done.stdout}{done.stderr}")
    return done


BUILD_S = 3600    # of Kubernetes: 3 minutes on two cores that have nothing else to do (lab/rationlab/binaries.py)


def built(kubernetes):
    """Options of a lab with this release of Kubernetes, which is built if it is not there; "": the lab's own."""
    options = ("--kubernetes", kubernetes) if kubernetes else ()
    if options:
        lab_command("build", *options, timeout=BUILD_S)
    return options


def name_of(pod):
    """Tests may name a pod by its name or give its object."""
    return pod if isinstance(pod, str) else pod["metadata"]["name"]


def condition_of(obj, kind):
    """The condition of this type, or {} while there is none."""
    return next((c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def is_ready(pod):
    return condition_of(pod, "Ready").get("status") == "True" and "deletionTimestamp" not in pod["metadata"]


class Cluster:
    """A running lab, seen from one test: kubectl's current namespace is the test's own."""

    def __init__(self, name):
        self.name = name
        exports = lab_command("env", "--name", name).stdout
        values = dict(re.findall(r"^export (KUBECONFIG|PATH)='(.*)'$", exports, re.MULTILINE))
        self._admin = pathlib.Path(values["KUBECONFIG"])
        self.folder = self._admin.parents[1]
        self._scratch = pathlib.Path(tempfile.mkdtemp(prefix="ration-test-"))
        self.environment = dict(os.environ, PATH=values["PATH"], KUBECONFIG=str(self._scratch / "kubeconfig"),
                                NO_PROXY="*", no_proxy="*")
        self.use_namespace("default")

    def use_namespace(self, namespace):
        """Sets it in a kubeconfig of the test's own: `kubectl -n NS inspect` would not find the plugin."""
        config = json.loads(self._admin.read_text())
        config["contexts"][0]["context"]["namespace"] = namespace
        (self._scratch / "kubeconfig").write_text(json.dumps(config))
        self.namespace = namespace
        self._connections = Connections(self.environment["KUBECONFIG"])

    def forget(self):
        shutil.rmtree(self._scratch, ignore_errors=True)

    # -- commands

    def run(self, *argv, check=True, stdin=None, timeout=180):
        """A command with the lab's KUBECONFIG and PATH."""
        done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, env=self.environment,
                              input=stdin, timeout=timeout * PATIENCE, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, argv))} exited {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def kubectl(self, *argv, stdin=None):
        """kubectl's standard output."""
        return self.run("kubectl", *argv, stdin=stdin).stdout

    def rolled_out(self, *workloads, namespace="kube-system"):
        """Waits until a rollout of each of them is complete; without any, of both charts' workloads."""
        for workload in workloads or WORKLOADS:
            self.kubectl("-n", namespace or self.namespace, "rollout", "status", workload, f"--timeout={90 * PATIENCE:.0f}s")

    def json(self, *argv):
        """`kubectl ... -o json`, parsed."""
        return json.loads(self.kubectl(*argv, "-o", "json"))

    def apply(self, manifest):
        """A file (pathlib.Path), YAML text, or an object."""
        if isinstance(manifest, pathlib.Path):
            return self.kubectl("apply", "-f", str(manifest))
        return self.kubectl("apply", "-f", "-", stdin=manifest if isinstance(manifest, str) else json.dumps(manifest))

    def create(self, obj):
        return self.kubectl("create", "-f", "-", stdin=json.dumps(obj))

    def create_fails(self, obj):
        """What kubectl says when the object is refused."""
        done = self.run("kubectl", "create", "-f", "-", stdin=json.dumps(obj), check=False)
        assert done.returncode != 0, f"it was accepted: {done.stdout}"
        return done.stderr

    def bind(self, pod, node, annotations, *argv, door="pods/{}/binding"):
        """Binds a pod as a scheduler does, `argv` may say as whom (--as USER); what kubectl says when it may not, or None."""
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name_of(pod), "annotations": annotations},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        path = f"/api/v1/namespaces/{self.namespace}/{door.format(name_of(pod))}"
        done = self.run("kubectl", "create", "--raw", path, "-f", "-", *argv, stdin=json.dumps(body), check=False)
        return done.stderr if done.returncode else None

    def inspect(self, *argv):
        """`kubectl inspect cgpu` as a user types it."""
        return self.kubectl("inspect", "cgpu", *argv)

    def inspect_json(self):
        return json.loads(self.inspect("-o", "json"))

    def lab(self, command, *arguments):
        """`lab/lab COMMAND --name THIS ...`; its standard output."""
        return lab_command(command, "--name", self.name, *arguments).stdout

    def enter(self, node, *argv):
        """A command in the node's namespaces; its standard output."""
        return self.lab("enter", node, "--", *argv)

    def ctr(self, node, *argv):
        return self.lab("ctr", node, "--", *argv)

    def pids(self, node):
        """{container's id: pid of its first process} of a node, as its container runtime has them."""
        if json.loads((self.folder / "lab.json").read_text())["runtime"] == "cri-o":
            rows = self.enter(node, "runc", "--root", "/run/runc", "list").splitlines()[1:]
        else:
            rows = self.ctr(node, "tasks", "ls").splitlines()[1:]
        return {row[0]: row[1] for row in map(str.split, rows)}

    # -- objects

    def get(self, path, **query):
        """What `kubectl get -o json` shows: an object, or the items of a list. Tests ask many times until something is so, and each
        kubectl would be a process."""
        path += "?" + urllib.parse.urlencode(query) if query else ""
        status, answer = self._connections("GET", path, timeout=30 * PATIENCE)
        assert status == 200, f"GET {path}: {answer['message'] if status else 'the API server does not answer'}"
        objects = [answer]
        if "items" in answer:
            objects = [{"apiVersion": answer["apiVersion"], "kind": answer["kind"].removesuffix("List"), **item} for item in answer["items"]]
        for obj in objects:
            obj["metadata"].pop("managedFields", None)
        return objects if "items" in answer else answer

    def pods(self, selector=None, namespace=None):
        return self.get(f"/api/v1/namespaces/{namespace or self.namespace}/pods", **({"labelSelector": selector} if selector else {}))

    def pod(self, name):
        return self.get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def node(self, name):
        return self.get(f"/api/v1/nodes/{name}")

    def nodes(self):
        """All nodes by name."""
        return {node["metadata"]["name"]: node for node in self.get("/api/v1/nodes")}

    def condition(self, obj, kind):
        return condition_of(obj, kind)

    def events(self, pod):
        """Event objects about a pod, oldest first."""
        return self._events(f"/api/v1/namespaces/{self.namespace}/events", f"involvedObject.name={name_of(pod)}")

    def node_events(self, name):
        """Event objects about a node; cluster-scoped objects have theirs in `default`, some writers in kube-system."""
        return self._events("/api/v1/events", f"involvedObject.kind=Node,involvedObject.name={name}")

    def _events(self, path, about):
        items = self.get(path, fieldSelector=about)
        for item in items:
            item.setdefault("message", "")    # kube-proxy's "Starting" has none
        return items

    def restarts(self, namespace):
        """{(pod, container): restarts}"""
        return {(pod["metadata"]["name"], status["name"]): status["restartCount"]
                for pod in self.pods(namespace=namespace) for status in pod["status"].get("containerStatuses", [])}

    def exec_in(self, pod, *argv, container=None):
        """A command in a pod's container; its standard output."""
        return self.kubectl("exec", name_of(pod), *(["-c", container] if container else []), "--", *argv)

    def log_of(self, pod, container=None):
        return self.kubectl("logs", name_of(pod), *(["-c", container] if container else []))

    # -- waiting

    def wait_for(self, predicate, timeout=60, what="the condition"):
        return wait_for(predicate, timeout, what)

    def wait_running(self, selector=None, count=1, names=None, timeout=60):
        """Waits until all pods of the selector (or of these names), at least `count`, are ready; returns them."""
        def all_ready():
            pods = [p for p in self.pods(selector) if names is None or p["metadata"]["name"] in names]
            late = {p["metadata"]["name"]: p["status"] for p in pods if not is_ready(p)}
            assert not late, late
            assert len(pods) >= (count if names is None else len(names)), [p["metadata"]["name"] for p in pods]
            return pods
        return wait_for(all_ready, timeout, f"ready pods: {names or selector or 'all of the namespace'}")

    # -- the scheduler's book, faults

    def scheduler_get(self, path):
        """GET of ration-scheduler's page, which listens on the pod's loopback only: port-forward, as its manual says."""
        process = subprocess.Popen(["kubectl", "-n", "kube-system", "port-forward", "deployment/ack-co-scheduler", ":39999"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment)
        try:
            line = process.stdout.readline()
            match = re.search(r"127\.0\.0\.1:([0-9]+) ->", line)
            assert match, f"port-forward says {line!r}"
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{match.group(1)}{path}", timeout=20) as answer:
                return answer.read().decode()
        finally:
            process.terminate()
            process.communicate()

    def fault(self, node, card, *fault):
        """`ration-sim fault` on a card of the node, e.g. fault(NODE, 0, "xid", "79") or "heal"."""
        driver = self.folder / "nodes" / node / "driver"
        return self.run(PRODUCT / "sim" / "ration-sim", "fault", driver, str(card), *fault).stdout

    def kill_container(self, pod, container):
        """SIGKILL to the first process of a container, as a crash: nobody is asked, nothing is cleaned up."""
        status = next(s for s in pod["status"]["containerStatuses"] if s["name"] == container)
        node = pod["spec"]["nodeName"]
        self.enter(node, "kill", "-9", self.pids(node)[status["containerID"].partition("://")[2]])

    # -- a test's turn

    def enter_namespace(self, namespace):
        self.kubectl("create", "namespace", namespace)
        self.use_namespace(namespace)
        # Pods are refused until the controller-manager has made the service account.
        wait_for(lambda: self.json("get", "serviceaccounts")["items"], 30, "the namespace's service account")

    def leave_namespace(self):
        namespace = self.namespace
        self.delete_pods()
        self.use_namespace("default")
        self.kubectl("delete", "namespace", namespace, "--wait=false")

    def delete_pods(self, timeout=60):
        """Removes every workload and pod of the namespace and waits until the pods are gone."""
        self.kubectl("delete", "deployments,statefulsets,daemonsets,cronjobs,jobs,replicasets", "--all", "--wait=false")

        def gone():
            left = [pod["metadata"]["name"] for pod in self.pods()]
            if left:    # again and again: a controller may have made one in between
                self.kubectl("delete", "pods", "--all", "--grace-period=1", "--wait=false")
            assert not left, left
            return True
        wait_for(gone, timeout, "the test's pods are gone", every=0.3)

    def describe_failure(self):
        """What a person would look at first."""
        parts = []
        for title, argv in (
                ("nodes", ["get", "nodes", "-o", "wide"]), ("pods", ["get", "pods", "-A", "-o", "wide"]),
                ("events", ["get", "events", "--sort-by=.lastTimestamp", "-o",
                            "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message"]),
                ("ration-schedulers", ["logs", "-n", "kube-system", "-l", "app=ack-co-scheduler", "-c", "ration-scheduler",
                                       "--tail=60", "--prefix"]),
                ("agents", ["logs", "-n", "kube-system", "-l", "name=gpushare-device-plugin-ds", "--tail=40",
                            "--prefix"])):
            done = self.run("kubectl", *argv, check=False)
            parts.append(f"--- {title}\n{done.stdout}{done.stderr}")
        for node in self.run("kubectl", "get", "nodes", "-o", "name", check=False).stdout.split():
            part = f"kubelet@{node.removeprefix('node/')}"
            done = lab_command("logs", "--name", self.name, "-n", "15", part, check=False)
            parts.append(f"--- {part}\n{done.stdout}")
        return "\n".join(parts)
