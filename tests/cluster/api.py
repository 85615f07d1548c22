"""The API server over one connection, for questions by the hundred: each kubectl is a process."""
import base64
import contextlib
import http.client
import json
import pathlib
import ssl
import threading
import time
import urllib.parse

_CORE, _APPS, _BATCH, _RESOURCE = "/api/v1", "/apis/apps/v1", "/apis/batch/v1", "/apis/resource.k8s.io/v1"
# Every kind that makes pods, Pod itself, and those of ResourceClaims.
PATHS = {"Pod": f"{_CORE}/namespaces/{{}}/pods", "PodTemplate": f"{_CORE}/namespaces/{{}}/podtemplates",
         "ReplicationController": f"{_CORE}/namespaces/{{}}/replicationcontrollers",
         "Deployment": f"{_APPS}/namespaces/{{}}/deployments", "ReplicaSet": f"{_APPS}/namespaces/{{}}/replicasets",
         "StatefulSet": f"{_APPS}/namespaces/{{}}/statefulsets", "DaemonSet": f"{_APPS}/namespaces/{{}}/daemonsets",
         "Job": f"{_BATCH}/namespaces/{{}}/jobs", "CronJob": f"{_BATCH}/namespaces/{{}}/cronjobs",
         "ResourceClaim": f"{_RESOURCE}/namespaces/{{}}/resourceclaims", "DeviceClass": f"{_RESOURCE}/deviceclasses",
         "ResourceClaimTemplate": f"{_RESOURCE}/namespaces/{{}}/resourceclaimtemplates"}


class Connections:
    """One kept connection per thread, with the credentials of a kubeconfig; `token`, `user`: with these instead, the user as kubectl's
    --as has it. A request that gets no answer returns (0, None)."""

    def __init__(self, kubeconfig, token=None, user=None):
        config = json.loads(pathlib.Path(kubeconfig).read_text())
        server = config["clusters"][0]["cluster"]
        authority = server.get("certificate-authority-data")
        self.url = urllib.parse.urlsplit(server["server"])
        self.token = token or config["users"][0]["user"]["token"]
        self.user = {"Impersonate-User": user} if user else {}
        self.tls = ssl.create_default_context(**({"cadata": base64.b64decode(authority).decode()} if authority else
                                                 {"cafile": server["certificate-authority"]}))
        self.local = threading.local()

    def connect(self, timeout):
        return http.client.HTTPSConnection(self.url.hostname, self.url.port, timeout=timeout, context=self.tls)

    def close(self):
        """That of this thread."""
        if connection := getattr(self.local, "connection", None):
            connection.close()
            self.local.connection = None

    def headers(self, content="application/json"):
        return {"Authorization": f"Bearer {self.token}", "Content-Type": content, **self.user}

    def __call__(self, method, path, body=None, content="application/json", timeout=10):
        for _ in range(2):
            connection = getattr(self.local, "connection", None) or self.connect(timeout)
            self.local.connection = connection
            try:
                connection.request(method, path, json.dumps(body) if body is not None else None, self.headers(content))
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read() or b"null")
            except (OSError, http.client.HTTPException, ValueError):
                self.close()
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


class Api:
    """Asks as the lab's administrator, as whoever the token is of, or for this user as kubectl's --as does."""

    def __init__(self, cluster, token=None, user=None):
        self.namespace = cluster.namespace
        self._connections = Connections(cluster.environment["KUBECONFIG"], token, user)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._connections.close()

    def ask(self, method, path, body=None, content_type="application/json"):
        """The answer, parsed: of a refusal a Status with its code."""
        status, answer = self._connections(method, path, body, content_type, timeout=30)
        assert status, f"{method} {path}: the API server does not answer"
        return answer

    def path(self, obj):
        return PATHS[obj["kind"]].format(self.namespace)

    def create(self, obj, dry_run=False):
        """The object as it is made; an AssertionError with the message where it is refused."""
        answer = self.ask("POST", self.path(obj) + ("?dryRun=All" if dry_run else ""), obj)
        assert answer["kind"] != "Status", answer.get("message")
        return answer

    def refusal(self, obj):
        """Why the object would not be made, None if it would; it is not made."""
        answer = self.ask("POST", self.path(obj) + "?dryRun=All", obj)
        return answer["message"] if answer["kind"] == "Status" else None

    def patch(self, obj, body, subresource=None, dry_run=False, content_type="application/merge-patch+json"):
        """What is said when the change is refused, None if it is made. obj: anything with kind and name."""
        path = f"{self.path(obj)}/{obj['metadata']['name']}" + (f"/{subresource}" if subresource else "")
        answer = self.ask("PATCH", path + ("?dryRun=All" if dry_run else ""), body, content_type)
        return answer["message"] if answer["kind"] == "Status" and answer.get("status") == "Failure" else None


    def bind(self, name, node, annotations, door="pods/{}/binding"):
        """Binds a pod as a scheduler does; what is said when it may not be."""
        answer = self.ask("POST", f"/api/v1/namespaces/{self.namespace}/{door.format(name)}", {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}})
        return answer["message"] if answer.get("status") == "Failure" else None


def refusals(cluster, objects):
    """{name: message} of those objects that the API server refuses; each has a name of its own, and none is made."""
    names = [obj["metadata"]["name"] for obj in objects]
    assert len(set(names)) == len(names)
    with Api(cluster) as api:
        said = {obj["metadata"]["name"]: api.refusal(obj) for obj in objects}
    return {name: message for name, message in said.items() if message}


def check(cluster, cases, allowed=()):
    """cases: {name: (object, words)}: each is refused with its words, and what is allowed is not."""
    said = refusals(cluster, [obj for obj, _ in cases.values()] + list(allowed))
    assert {name: words for name, words in said.items() if name not in cases} == {}
    assert set(said) == set(cases)
    for name, (_, words) in cases.items():
        assert words in said[name], (name, said[name])


@contextlib.contextmanager
def out_of_force(cluster, probes):
    """probes: {policy: an object that it refuses}. Inside they refuse nothing; afterwards they do again."""
    bindings = []
    for name in probes:
        binding = cluster.json("get", "validatingadmissionpolicybinding", name)
        binding["metadata"] = {k: v for k, v in binding["metadata"].items() if k in ("name", "labels", "annotations")}
        bindings.append(binding)
    cluster.kubectl("delete", "validatingadmissionpolicybinding", *probes)
    try:
        with Api(cluster) as api:
            cluster.wait_for(lambda: not any(map(api.refusal, probes.values())), 30, "the policies out of force")
        yield
    finally:
        for binding in bindings:
            cluster.apply(binding)
        with Api(cluster) as api:
            cluster.wait_for(lambda: all(map(api.refusal, probes.values())), 30, "the policies in force")
