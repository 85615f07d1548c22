#!/usr/bin/python3
"""A stand-in for kubectl that knows `get --raw`: serves the nodes and pods of the JSON file $FAKE_KUBECTL in pages, as
the API server would, and notes how it was called in $FAKE_KUBECTL.log."""
import json
import os
import sys
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
              "spec.nodeName": pod.get("spec", {}).get("nodeName", "")}
    for term in filter(None, selector.split(",")):
        key, negative, value = term.partition("!=") if "!=" in term else term.partition("=")
        if (fields[key] == value) == (negative == "!="):
            return False
    return True


def serve(path, query):
    parts = path.strip("/").split("/")
    if parts[:2] != ["api", "v1"] or parts[2] not in ("nodes", "pods"):
        fail("Error from server (NotFound): the server could not find the requested resource")
    items = world[parts[2]]
    if len(parts) == 4:
        for item in items:
            if item["metadata"]["name"] == urllib.parse.unquote(parts[3]):
                return {"kind": "Node", "apiVersion": "v1"} | item
        fail(f'Error from server (NotFound): nodes "{parts[3]}" not found')
    items = [item for item in items if selected(item, query.get("fieldSelector", ""))]
    start = int(query["continue"].removeprefix("token/+=")) if "continue" in query else 0
    size = min(int(query["limit"]), world.get("page", 500))
    end = start + size
    metadata = {"resourceVersion": "1"}
    if end < len(items):
        metadata["continue"] = f"token/+={end}"
    return {"kind": {"nodes": "NodeList", "pods": "PodList"}[parts[2]], "apiVersion": "v1", "metadata": metadata,
            "items": items[start:end]}


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
