#!/usr/bin/python3
"""A stand-in for kubectl. `get --raw`: serves the nodes and pods of the JSON file $FAKE_KUBECTL in pages, as the API
server would, and Leases by their holders: of the leading scheduler (key "leader"), and others (key "leases"). Where the
key "slices" is, it has resource.k8s.io/v1, with the keys "claims" and "classes" too. `config view`: the context's namespace (key
"namespace"). `port-forward`: tells the port in key "forward", where the peer must listen itself, and stays until it is
ended. Notes how it was called in $FAKE_KUBECTL.log, and there too when a port-forward ends."""
import json
import os
import signal
import sys
import time
import urllib.parse

world_path = os.environ["FAKE_KUBECTL"]
with open(world_path) as f:
    world = json.load(f)
with open(world_path + ".log", "a") as f:
    f.write(json.dumps({"argv": sys.argv[1:], "KUBECONFIG": os.environ.get("KUBECONFIG")}) + "\n")


def fail(text, status=1):
    print(text, file=sys.stderr)
    sys.exit(status)


def selected(pod, selector):
    fields = {"status.phase": pod.get("status", {}).get("phase", ""),
              "spec.nodeName": pod.get("spec", {}).get("nodeName", ""),
              "spec.driver": pod.get("spec", {}).get("driver", "")}
    for term in filter(None, selector.split(",")):
        key, negative, value = term.partition("!=") if "!=" in term else term.partition("=")
        if (fields[key] == value) == (negative == "!="):
            return False
    return True


def serve_one(parts):
    """A pod by name, or the leader's Lease."""
    namespace, name = parts[-3], parts[-1]
    for pod in world["pods"] if parts[-2] == "pods" else []:
        if (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (namespace, name):
            return {"kind": "Pod", "apiVersion": "v1"} | pod
    for claim in world.get("claims", []) if parts[-2] == "resourceclaims" else []:
        if (claim["metadata"]["namespace"], claim["metadata"]["name"]) == (namespace, name):
            return {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1"} | claim
    leases = {"ack-co-scheduler": world["leader"]} if "leader" in world else {}
    leases |= world.get("leases", {})
    if parts[-2] == "leases" and namespace == "kube-system" and name in leases:
        return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": name},
                "spec": {"holderIdentity": leases[name]}}
    fail(f'Error from server (NotFound): {parts[-2]} "{name}" not found')


def forbid(what):
    """As the API server words it; key "forbidden" lists what the user may not do."""
    if what in world.get("forbidden", []):
        fail(f'Error from server (Forbidden): {what} is forbidden: User "jane" cannot get resource "{what}"')


def port_forward():
    if "pods/portforward" in world.get("forbidden", []):
        fail('error: error upgrading connection: pods "x" is forbidden: User "jane" cannot create resource '
             '"pods/portforward" in API group "" in the namespace "kube-system"')
    if "forward_fails" in world:
        fail(world["forward_fails"])
    if world.get("forward_silent"):
        time.sleep(1000)

    def end(signo, frame):
        with open(world_path + ".log", "a") as log:
            log.write(json.dumps({"argv": ["ended"]}) + "\n")
        os._exit(0)
    signal.signal(signal.SIGTERM, end)
    print(f"Forwarding from 127.0.0.1:{world['forward']} -> 39999", flush=True)
    while True:
        signal.pause()


def serve(path, query):
    parts = path.strip("/").split("/")
    if parts[:3] == ["api", "v1", "namespaces"] and parts[4:] == ["pods"]:
        return {"kind": "PodList", "items": [pod for pod in world["pods"] if pod["metadata"]["namespace"] == parts[3]]}
    if "namespaces" in parts:
        forbid(parts[-2])
        return serve_one(parts)
    kinds = {"nodes": ("nodes", "NodeList"), "pods": ("pods", "PodList")}
    if parts[:3] == ["apis", "resource.k8s.io", "v1"] and "slices" in world:
        parts = parts[1:]
        kinds = {"resourceslices": ("slices", "ResourceSliceList"), "resourceclaims": ("claims", "ResourceClaimList"),
                 "deviceclasses": ("classes", "DeviceClassList")}
    elif parts[:2] != ["api", "v1"]:
        fail("Error from server (NotFound): the server could not find the requested resource")
    if parts[2] not in kinds:
        fail("Error from server (NotFound): the server could not find the requested resource")
    forbid(parts[2])
    items = world.get(kinds[parts[2]][0], [])
    if len(parts) == 4 and parts[2] == "deviceclasses":
        for item in items:
            if item["metadata"]["name"] == parts[3]:
                return {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1"} | item
        fail(f'Error from server (NotFound): deviceclasses.resource.k8s.io "{parts[3]}" not found')
    if len(parts) == 4:
        for item in items:
            if item["metadata"]["name"] == urllib.parse.unquote(parts[3]):
                return {"kind": "Node", "apiVersion": "v1"} | item
        fail(f'Error from server (NotFound): nodes "{parts[3]}" not found')
    items = [item for item in items if selected(item, query.get("fieldSelector", ""))]
    start = int(query["continue"].removeprefix("token/+=")) if "continue" in query else 0
    size = min(int(query.get("limit", 500)), world.get("page", 500))
    end = start + size
    metadata = {"resourceVersion": "1"}
    if end < len(items):
        metadata["continue"] = f"token/+={end}"
    return {"kind": kinds[parts[2]][1], "apiVersion": "v1", "metadata": metadata,
            "items": items[start:end]}


if "prompt" in world:
    print(world["prompt"], end="", file=sys.stderr, flush=True)
if "port-forward" in sys.argv:
    port_forward()
if sys.argv[1:3] == ["config", "view"] or "config" in sys.argv:
    sys.stdout.write(world.get("namespace", ""))
    sys.exit(0)
raw = next((a.removeprefix("--raw=") for a in sys.argv if a.startswith("--raw=")), None)
if raw is None or "get" not in sys.argv:
    fail("error: unknown command", 1)
if "fail" in world:
    fail(world["fail"], 1)
if "answer" in world:
    sys.stdout.write(world["answer"])
    sys.exit(0)
if "endless" in world:
    block = b" " * (1 << 20)
    try:
        while True:
            sys.stdout.buffer.write(block)
    except BrokenPipeError:
        os._exit(1)
url = urllib.parse.urlsplit(raw)
body = json.dumps(serve(url.path, dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))))
sys.stdout.write(body[:world.get("cut", len(body))])
