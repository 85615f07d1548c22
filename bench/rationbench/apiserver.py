"""The API server of the component tests with a large cluster that does not change: its LISTs are bytes made before,
so that a measurement of ration-scheduler is not one of Python."""
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "component"))
from fake_apiserver import FakeApiServer    # noqa: E402

LISTS = {"/api/v1/nodes": "NodeList", "/api/v1/pods": "PodList"}


class StillApiServer(FakeApiServer):
    def __init__(self, nodes, pods):
        super().__init__()
        self.by_node = {}
        self.items = {"/api/v1/nodes": self._encode(nodes), "/api/v1/pods": self._encode(pods)}

    @staticmethod
    def _encode(objects):
        return [json.dumps(o, separators=(",", ":")).encode() for o in objects]

    def bytes_listed(self):
        return sum(len(item) for items in self.items.values() for item in items)

    def handle(self, request):
        if request.method == "GET" and request.path in self.items:
            return 200, self._page(request)
        if request.method == "POST" and re.search(r"/pods/[^/]+/binding$", request.path):
            return 201, b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
        return super().handle(request)

    def _items(self, request):
        """All, or the pods of one node."""
        items, selector = self.items[request.path], request.query.get("fieldSelector", "")
        if not selector.startswith("spec.nodeName="):
            return items
        if not self.by_node:
            for item in items:
                self.by_node.setdefault(json.loads(item)["spec"].get("nodeName", ""), []).append(item)
        return self.by_node.get(selector.removeprefix("spec.nodeName="), [])

    def _page(self, request):
        items, start = self._items(request), int(request.query.get("continue") or 0)
        end = start + (int(request.query.get("limit") or 0) or len(items))
        meta = {"resourceVersion": str(self.store.version)}
        if end < len(items):
            meta.update({"continue": str(end), "remainingItemCount": len(items) - end})
        head = json.dumps({"kind": LISTS[request.path], "apiVersion": "v1", "metadata": meta})
        return head[:-1].encode() + b',"items":[' + b",".join(items[start:end]) + b"]}"
