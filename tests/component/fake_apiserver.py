#!/usr/bin/python3
"""A small API server for tests: it keeps any kind of object, serves LIST in pages, WATCH with bookmarks, the writes
that our programs do, and every kind of misfortune on demand. Facts of the real one (1.36) that it keeps: items of a
LIST carry no kind, an expired watch is a 200 with an ERROR event, metadata of a Binding is merged into the pod, a
Binding with another uid or for a bound pod is a 409, an object that leaves a selector is DELETED for that watch.

    with FakeApiServer() as api:                     # FakeApiServer(tls=True, token="secret") for HTTPS
        api.create_node("n1", annotations={"ration.dev/mode": "share"})
        pod = api.create_pod("p1", gpu_mem=3)
        start_program("--kubeconfig", api.kubeconfig())
        wait_for(lambda: api.pod("p1")["spec"].get("nodeName") == "n1")
        assert api.requests_for("POST", r"/binding$")[0].body["target"]["name"] == "n1"

Objects (collection: "pods", "nodes", "events", "leases" ...; all return deep copies, all safe from any thread):
    create(collection, object)  update(collection, object)  patch(collection, name, merge_patch, namespace=)
    delete(collection, name, namespace=)  get(collection, name, namespace=)  list(collection)
    create_pod(name, ...)  create_node(name, ...)  bind(name, node)  pod(name)  node(name)  set_phase(name, phase)
    events(reason=None)         what the program reported
Misfortune:
    inject(...)                 the next matching requests get a status, a body, a delay, a cut, silence (see there)
    expire(how="event"|"status")        forgets history: older watches and continue tokens get 410
    close_watches(mid_object=False)     cuts all open watches, if asked in the middle of an object
    silence(True, collection)   open watches, of this collection if one is named, stay open and say nothing
    stop() ; start()            down and up again, same port, same objects
What was asked:
    requests, requests_for(method, path_regex), clear_requests(); each has method, path, query (dict), headers, body
    (parsed JSON or None), status (None while it runs), time (monotonic)
    watches(collection...)      number of open watches, of these collections if any are named
"""
import copy
import json
import pathlib
import re
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import uuid

from fake_http import Fault, Handler, Server
from fake_store import NUMBERED, ApiError, Store, json_patch, merge, strategic_merge

PATH = re.compile(r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+/[^/]+))"
                  r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<collection>[a-z]+)"
                  r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?$")
FOREVER = -1


def wait_for(condition, timeout=10.0, what=None):
    """Waits until condition() is true and returns its value; AssertionError after timeout seconds. The longer it waits, the
    less often it looks: twenty tests wait at a time, and what they wait for needs the processors."""
    end, pause = time.monotonic() + timeout, 0.01
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {timeout} s: {what or condition}"
        time.sleep(pause)
        pause = min(1.2 * pause, 0.1)


class FakeApiServer:
    """tls: HTTPS with a CA of its own (self.ca_file). token: asked of every request. client_auth: a client
    certificate is asked for (self.client_cert_file, self.client_key_file). host: "127.0.0.1" or "::1".
    server_name: what the certificate is for (default: host)."""

    def __init__(self, tls=False, token=None, client_auth=False, host="127.0.0.1", server_name=None,
                 bookmark_interval=1.0):
        self.tls, self.token, self.client_auth, self.host = tls, token, client_auth, host
        self.server_name, self.bookmark_interval = server_name or host, bookmark_interval
        self.store, self.requests, self.faults = Store(), [], []
        self.connections, self.open_watches = set(), []
        self.hidden = set()    # collections that it does not know
        self.gates = {"DRAConsumableCapacity", "DRADeviceTaints"}    # without one it drops fields of ResourceSlices
        self.stopping, self.silent, self.expire_by, self.port = threading.Event(), False, "event", 0
        self.http = None
        self.directory = tempfile.TemporaryDirectory(prefix="fake-apiserver-")
        self.path = pathlib.Path(self.directory.name)
        if tls:
            self.make_certificates()

    # ---- life ----

    def start(self):
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        handler = type("BoundHandler", (Handler,), {"api": self})
        self.stopping.clear()
        self.http = type("BoundServer", (Server,), {"address_family": family})((self.host, self.port), handler)
        self.port = self.http.server_address[1]
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.path / "server.pem", self.path / "server.key")
            if self.client_auth:
                context.load_verify_locations(self.path / "ca.pem")
                context.verify_mode = ssl.CERT_REQUIRED
            self.http.tls = context
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self):
        if not self.http:
            return
        self.stopping.set()
        self.http.shutdown()
        self.http.server_close()
        self.http = None
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
        self.directory.cleanup()

    @property
    def url(self):
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    @property
    def ca_file(self):
        return str(self.path / "ca.pem")

    @property
    def client_cert_file(self):
        return str(self.path / "client.pem")

    @property
    def client_key_file(self):
        return str(self.path / "client.key")

    def kubeconfig(self, **changes):
        """Writes a kubeconfig for this server and returns its path; changes replace values of the cluster
        (server, certificate-authority ...) or the user (token ...); None removes."""
        cluster, user = {"server": self.url}, {}
        if self.tls:
            cluster["certificate-authority"] = self.ca_file
        if self.client_auth:
            user = {"client-certificate": self.client_cert_file, "client-key": self.client_key_file}
        if self.token:
            user["token"] = self.token
        for key, value in changes.items():
            key = key.replace("_", "-")
            part = user if key in ("token", "tokenFile") or key.startswith("client-") else cluster
            part.pop(key, None) if value is None else part.update({key: value})
        path = self.path / f"kubeconfig-{uuid.uuid4().hex[:6]}"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "clusters": [{"name": "fake", "cluster": cluster}], "users": [{"name": "fake", "user": user}]}))
        return str(path)

    def make_certificates(self):
        def openssl(*args):
            subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, cwd=self.path)

        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        is_ip = re.match(r"^[0-9a-f.:]+$", self.server_name)
        openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-days", 2, "-subj", "/CN=fake-ca")
        for name, alt in (("server", f"{'IP' if is_ip else 'DNS'}:{self.server_name}"), ("client", "DNS:client")):
            (self.path / f"{name}.ext").write_text(f"subjectAltName={alt}\n")
            openssl("req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
            openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                    "-days", 2, "-extfile", f"{name}.ext", "-out", f"{name}.pem")

    # ---- objects ----

    def create(self, collection, obj):
        return self.store.create(collection, None, obj)

    def update(self, collection, obj):
        """Replaces an object, whatever its resourceVersion; the status is replaced too."""
        meta = obj["metadata"]

        def change(old):
            new = copy.deepcopy(obj)
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            new["metadata"].setdefault("uid", old["metadata"]["uid"])
            return new
        return self.store.replace(collection, meta.get("namespace"), meta["name"], change)

    def patch(self, collection, name, patch, namespace=None):
        return self.store.replace(collection, namespace, name, lambda old: merge(old, patch))

    def delete(self, collection, name, namespace=None):
        return self.store.delete(collection, namespace, name)

    def get(self, collection, name, namespace=None):
        with self.store.changed:
            return copy.deepcopy(self.store.get(collection, namespace, name))

    def list(self, collection):
        with self.store.changed:
            return copy.deepcopy([o for _, o in sorted(self.store.objects.get(collection, {}).items())])

    def create_pod(self, name, gpu_mem=None, gpu_core=None, namespace="default", node=None, annotations=None,
                   labels=None, owner=None, spec=None, status=None):
        """One container "main" that asks for gpu_mem, unless spec says all itself."""
        limits = {k: str(v) for k, v in (("aliyun.com/gpu-mem", gpu_mem),
                                         ("aliyun.com/gpu-core.percentage", gpu_core)) if v is not None}
        spec = copy.deepcopy(spec) if spec else {"containers": [
            {"name": "main", "image": "example", "resources": {"limits": limits, "requests": limits}}]}
        spec.setdefault("schedulerName", "ack-co-scheduler")
        if node:
            spec["nodeName"] = node
        meta = {"name": name, "namespace": namespace, "annotations": annotations or {}, "labels": labels or {}}
        if owner:
            meta["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner,
                                        "controller": True}]
        return self.create("pods", {"metadata": meta, "spec": spec, "status": status or {"phase": "Pending"}})

    def create_node(self, name, annotations=None, labels=None, address="10.0.0.1"):
        return self.create("nodes", {
            "metadata": {"name": name, "annotations": annotations or {},
                         "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": {}, "status": {"addresses": [{"type": "Hostname", "address": name},
                                                 {"type": "InternalIP", "address": address}],
                                   "conditions": [{"type": "Ready", "status": "True"}],
                                   "capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}})

    def pod(self, name, namespace="default"):
        return self.get("pods", name, namespace)

    def node(self, name):
        return self.get("nodes", name)

    def set_phase(self, name, phase, namespace="default"):
        return self.patch("pods", name, {"status": {"phase": phase}}, namespace)

    def bind(self, name, node, namespace="default", annotations=None):
        """What `kubectl create -f binding.yaml` does."""
        return self.bind_pod(namespace, name, {"metadata": {"annotations": annotations or {}},
                                               "target": {"kind": "Node", "name": node}})

    def events(self, reason=None):
        return [e for e in self.list("events") if reason is None or e.get("reason") == reason]

    # ---- misfortune ----

    def inject(self, method=None, path="", times=1, watch=None, **what):
        """The next `times` (FOREVER: all) requests with this method and a path that matches the regex (and, if
        watch is True or False, that are or are not watches; with body_has=, that have this text in their body)
        suffer: status=, body=, headers=, message=, reason=; delay= or late= seconds; hang=True; drop=True; cut_after= bytes; stream= bytes. Returns the Fault; set its .times to
        0 to end it."""
        fault = Fault(method, path, times, watch, **what)
        with self.store.changed:
            self.faults.append(fault)
        return fault

    def take_fault(self, method, path, watch, raw):
        with self.store.changed:
            for fault in self.faults:
                if fault.matches(method, path, watch, raw):
                    if fault.times > 0:
                        fault.times -= 1
                    return fault
        return None

    def expire(self, how="event"):
        with self.store.changed:
            self.store.version += 1
            self.store.oldest = self.store.version
            self.store.history.clear()
            self.store.pages.clear()
            self.expire_by = how
            self.store.changed.notify_all()

    def close_watches(self, mid_object=False):
        for watch in list(self.open_watches):
            watch.cut = "mid_object" if mid_object else "now"
        with self.store.changed:
            self.store.changed.notify_all()

    def silence(self, silent, collection=None):
        """collection: only watches of this one."""
        self.silent = (collection or True) if silent else False

    def is_silent(self, collection):
        return self.silent in (True, collection)

    def watches(self, *collections):
        return sum(not collections or w.collection in collections for w in list(self.open_watches))

    def requests_for(self, method, path_regex):
        return [r for r in list(self.requests) if r.method == method and re.search(path_regex, r.path)]

    def clear_requests(self):
        self.requests.clear()

    # ---- HTTP ----

    def match(self, path, request):
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            raise ApiError(401, "Unauthorized", "Unauthorized")
        match = PATH.match(path)
        if not match:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        match = match.groupdict()
        if match["collection"] in self.hidden:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        if match["collection"] == "namespaces" or match["namespace"] and match["collection"] is None:
            match["namespace"] = None
        return match

    def handle(self, request):
        """-> (status, JSON-able body)"""
        if request.path in ("/readyz", "/livez", "/healthz"):
            return 200, b"ok"
        if request.path == "/version":
            return 200, {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
        m = self.match(request.path, request)
        collection, namespace, name, sub = m["collection"], m["namespace"], m["name"], m["sub"]
        if request.method == "GET" and name:
            return 200, self.get(collection, name, namespace)
        if request.method == "GET":
            return 200, self.store.page(collection, namespace, request.query)
        if request.method == "POST" and sub == "binding":
            return 201, self.bind_pod(namespace, name, self.body(request))
        if request.method == "POST" and sub == "eviction":
            return 201, self.evict_pod(namespace, name, self.body(request))
        if request.method in ("POST", "PUT") and collection == "resourceslices":
            self.drop_fields(self.body(request))
        if request.method == "POST" and not name and request.query.get("dryRun") == "All":
            return 201, self.body(request)
        if request.method == "POST" and not name:
            return 201, self.store.create(collection, namespace, self.body(request))
        if request.method == "PATCH" and name:
            return 200, self.write(collection, namespace, name, sub, self.patcher(request))
        if request.method == "PUT" and name:
            return 200, self.write(collection, namespace, name, sub, lambda old: self.put(old, self.body(request)))
        if request.method == "DELETE" and name:
            uid = ((request.body or {}).get("preconditions") or {}).get("uid")
            return 200, self.store.delete(collection, namespace, name, uid)
        if request.method == "DELETE" and request.query.get("labelSelector"):
            gone = self.store.page(collection, namespace, {"labelSelector": request.query["labelSelector"]})
            for item in gone["items"]:
                self.store.delete(collection, namespace, item["metadata"]["name"])
            return 200, gone
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def drop_fields(self, slice_):
        """dropDisabledFields() of resourceslice/strategy.go, 1.36.3; and the default of timeAdded."""
        for device in slice_["spec"].get("devices") or []:
            if "DRAConsumableCapacity" not in self.gates:
                device.pop("allowMultipleAllocations", None)
                for capacity in device.get("capacity", {}).values():
                    capacity.pop("requestPolicy", None)
            if "DRADeviceTaints" not in self.gates:
                device.pop("taints", None)
            for taint in device.get("taints", []):
                taint.setdefault("timeAdded", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    @staticmethod
    def body(request):
        if not isinstance(request.body, dict):
            raise ApiError(400, "BadRequest", "the object provided is unrecognized")
        return request.body

    def patcher(self, request):
        patch, kind = request.body, request.headers.get("Content-Type", "")
        if not isinstance(patch, list if kind == "application/json-patch+json" else dict):
            raise ApiError(400, "BadRequest", "the object provided is unrecognized")
        if kind == "application/merge-patch+json":
            return lambda old: merge(old, patch)
        if kind == "application/strategic-merge-patch+json":
            return lambda old: strategic_merge(old, patch)
        if kind == "application/json-patch+json":
            return lambda old: json_patch(old, patch)
        raise ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {kind}")

    @staticmethod
    def put(old, new):
        new = copy.deepcopy(new)
        new["metadata"].setdefault("uid", old["metadata"]["uid"])
        new["metadata"].setdefault("resourceVersion", old["metadata"]["resourceVersion"])
        return new

    def write(self, collection, namespace, name, sub, change):
        """The status is written through /status only, everything else not through it (metadata by both)."""
        def guarded(old):
            new = change(copy.deepcopy(old))
            if sub == "status":
                kept = {k: v for k, v in old.items() if k not in ("status", "metadata")}
                return {**kept, "metadata": new["metadata"], "status": new.get("status", {})}
            if collection in {"pods", "nodes"} | NUMBERED and "status" in old:
                new["status"] = old["status"]
            return new
        return self.store.replace(collection, namespace, name, guarded)

    def bind_pod(self, namespace, name, binding):
        def change(pod):
            meta = binding.get("metadata") or {}
            if meta.get("uid") and meta["uid"] != pod["metadata"]["uid"]:
                raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on pods/binding "{name}": '
                               f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: "
                               f"{pod['metadata']['uid']}")
            if pod["spec"].get("nodeName"):
                raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on pods/binding "{name}": pod '
                               f'{name} is already assigned to node "{pod["spec"]["nodeName"]}"')
            for key in ("annotations", "labels"):
                pod["metadata"][key] = {**pod["metadata"].get(key, {}), **(meta.get(key) or {})}
            pod["spec"]["nodeName"] = binding["target"]["name"]
            return strategic_merge(pod, {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}})
        self.store.replace("pods", namespace, name, change, of_binding=True)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def create_budget(self, name, match_labels, allowed, namespace="default"):
        return self.create("poddisruptionbudgets", {
            "metadata": {"name": name, "namespace": namespace}, "spec": {"selector": {"matchLabels": match_labels}},
            "status": {"disruptionsAllowed": allowed}})

    def evict_pod(self, namespace, name, eviction):
        """The pod is told to end and stays until delete(), as if its kubelet took its time (a pod that was never
        bound is gone at once). Budgets hold, by matchLabels."""
        pod = self.get("pods", name, namespace)
        if (eviction.get("metadata") or {}).get("name") != name:
            raise ApiError(400, "BadRequest", "name in URL does not match name in Eviction object")
        uid = ((eviction.get("deleteOptions") or {}).get("preconditions") or {}).get("uid")
        if uid and uid != pod["metadata"]["uid"]:
            raise ApiError(409, "Conflict", "the UID in the precondition does not match the UID in record")
        ends_anyway = pod["status"].get("phase") == "Pending" or "deletionTimestamp" in pod["metadata"]
        budgets = [] if ends_anyway else [
            b for b in self.list("poddisruptionbudgets") if b["metadata"]["namespace"] == namespace and
            b["spec"]["selector"]["matchLabels"].items() <= pod["metadata"].get("labels", {}).items()]
        if len(budgets) > 1:  # the real one answers 201 with this body
            return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message":
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}
        for budget in budgets:
            if budget["status"]["disruptionsAllowed"] <= 0:
                raise ApiError(429, "TooManyRequests",
                               "Cannot evict pod as it would violate the pod's disruption budget.")
            allowed = budget["status"]["disruptionsAllowed"] - 1
            self.patch("poddisruptionbudgets", budget["metadata"]["name"],
                       {"status": {"disruptionsAllowed": allowed}}, namespace)
        if not pod["spec"].get("nodeName"):
            self.delete("pods", name, namespace)
        else:
            self.store.replace("pods", namespace, name, lambda old: strategic_merge(old, {
                "metadata": {"deletionTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30))},
                "status": {"conditions": [{"type": "DisruptionTarget", "status": "True",
                                           "reason": "EvictionByEvictionAPI"}]}}))
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


if __name__ == "__main__":
    # By hand: python3 fake_apiserver.py, then curl; ends with Ctrl-C.
    with FakeApiServer() as server:
        print(server.url, server.kubeconfig(), flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
