"""The objects of fake_apiserver.py and their history, and what the API's patches and selectors do to them."""
import base64
import copy
import re
import threading
import time
import uuid

KINDS = {"pods": "Pod", "nodes": "Node", "events": "Event", "leases": "Lease", "configmaps": "ConfigMap",
         "namespaces": "Namespace", "secrets": "Secret", "resourcepolicies": "ResourcePolicy",
         "poddisruptionbudgets": "PodDisruptionBudget", "daemonsets": "DaemonSet", "deployments": "Deployment",
         "resourceslices": "ResourceSlice", "resourceclaims": "ResourceClaim"}
CLUSTER_SCOPED = {"nodes", "namespaces", "resourceslices"}
GROUPS = {"leases": "coordination.k8s.io/v1", "poddisruptionbudgets": "policy/v1", "daemonsets": "apps/v1",
          "deployments": "apps/v1", "resourcepolicies": "scheduling.alibabacloud.com/v1alpha1",
          "resourceslices": "resource.k8s.io/v1", "resourceclaims": "resource.k8s.io/v1"}
# Their specs have a number, as those of custom resources with a status subresource have.
NUMBERED = {"resourcepolicies"}


class ApiError(Exception):
    def __init__(self, code, reason, message):
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message

    def status(self):
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": self.message, "reason": self.reason, "code": self.code}


def merge(target, patch, of_value=None):
    """RFC 7386; of_value: how what a member has is merged, if not likewise."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = (of_value or merge)(result.get(key), value)
    return result


def strategic_merge(target, patch):
    """As much of it as we use: lists of things with a `type` (conditions, addresses) are merged by it."""
    if not (isinstance(patch, list) and patch and all(isinstance(p, dict) and "type" in p for p in patch)):
        return merge(target, patch, strategic_merge)
    result = {t["type"]: t for t in target or []}
    for p in patch:
        if p.get("$patch") == "delete":
            result.pop(p["type"], None)
            continue
        result[p["type"]] = merge(result.get(p["type"]), p)
    return list(result.values())


def json_patch(target, operations):
    """As much of RFC 6902 as we use: test, and add of a member or at the end of a list."""
    result = copy.deepcopy(target)
    for operation in operations:
        *path, last = operation["path"].strip("/").split("/")
        at = result
        for part in path:
            if isinstance(at, list) and part.isdigit() and int(part) < len(at):
                at = at[int(part)]
            else:
                at = at.get(part) if isinstance(at, dict) else None
        if operation["op"] == "test" and (not isinstance(at, dict) or at.get(last) != operation["value"]):
            raise ApiError(422, "Invalid", f"testing value {operation['path']} failed: test failed")
        if operation["op"] == "add" and last == "-" and isinstance(at, list):
            at.append(operation["value"])
        elif operation["op"] == "add" and isinstance(at, dict):
            at[last] = operation["value"]
        elif operation["op"] != "test":
            raise ApiError(422, "Invalid", f"add operation does not apply: {operation['path']}")
    return result


def field(obj, path):
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return "" if obj is None else str(obj)


def selects(query, namespace, obj):
    if namespace and obj["metadata"].get("namespace") != namespace:
        return False
    for selector, value_of in (("fieldSelector", lambda k: field(obj, k)),
                               ("labelSelector", lambda k: obj["metadata"].get("labels", {}).get(k, ""))):
        for term in filter(None, query.get(selector, "").split(",")):
            if "=" not in term:    # it exists
                if not value_of(term):
                    return False
                continue
            key, op, value = re.match(r"([^!=]+)(!=|==?)(.*)", term).groups()
            if (value_of(key) == value) != (op != "!="):
                return False
    return True


class Store:
    """Objects and their history; every change is one step of one resourceVersion counter."""

    def __init__(self):
        self.changed = threading.Condition(threading.RLock())
        self.version, self.oldest = 100, 100
        self.objects = {}    # collection -> {(namespace, name): object}
        self.history = []    # (version, collection, object before or None, object after or None)
        self.pages = {}      # continue token -> (version, remaining items)

    def record(self, collection, key, before, after):
        self.version += 1
        if after is not None:
            after["metadata"]["resourceVersion"] = str(self.version)
            self.objects.setdefault(collection, {})[key] = after
        else:
            del self.objects[collection][key]
            before = copy.deepcopy(before)
            before["metadata"]["resourceVersion"] = str(self.version)
        self.history.append((self.version, collection, before, after))
        self.changed.notify_all()

    def key(self, collection, namespace, name):
        return ("" if collection in CLUSTER_SCOPED else namespace or "default", name)

    def get(self, collection, namespace, name):
        try:
            return self.objects[collection][self.key(collection, namespace, name)]
        except KeyError:
            raise ApiError(404, "NotFound", f'{collection} "{name}" not found') from None

    def create(self, collection, namespace, obj):
        with self.changed:
            obj = copy.deepcopy(obj)
            meta = obj.setdefault("metadata", {})
            if "generateName" in meta and "name" not in meta:
                meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
            if not meta.get("name"):
                raise ApiError(422, "Invalid", "metadata.name: Required value: name or generateName is required")
            key = self.key(collection, meta.get("namespace") or namespace, meta["name"])
            if key in self.objects.get(collection, {}):
                raise ApiError(409, "AlreadyExists", f'{collection} "{meta["name"]}" already exists')
            if key[0]:
                meta["namespace"] = key[0]
            obj.setdefault("apiVersion", GROUPS.get(collection, "v1"))
            obj.setdefault("kind", KINDS.get(collection, collection))
            meta.setdefault("uid", str(uuid.uuid4()))
            meta.setdefault("creationTimestamp", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            if collection in NUMBERED:
                meta["generation"] = 1
            if collection == "pods":
                obj.setdefault("status", {}).setdefault("phase", "Pending")
            self.check_event(collection, key[0], obj)
            self.check_annotations(obj)
            self.record(collection, key, None, obj)
            return copy.deepcopy(obj)

    @staticmethod
    def check_annotations(obj):
        """All of an object together (ValidateAnnotationsSize(), apimachinery 1.36.3); a Binding is not held to it."""
        size = sum(len(k.encode()) + len(v.encode()) for k, v in (obj["metadata"].get("annotations") or {}).items())
        if size > 256 << 10:
            raise ApiError(422, "Invalid", "metadata.annotations: Too long: may not be more than 262144 bytes")

    @staticmethod
    def check_event(collection, namespace, obj):
        if collection != "events":
            return
        about = obj.get("involvedObject", {}).get("namespace", "")
        if namespace != (about or "default"):
            raise ApiError(422, "Invalid", "involvedObject.namespace: does not match event.namespace")
        if len(obj.get("message", "").encode()) > 1024:
            raise ApiError(422, "Invalid", "message: can have at most 1024 bytes")

    def replace(self, collection, namespace, name, change, of_binding=False):
        """change: a function from the old object to the new one."""
        with self.changed:
            before = self.get(collection, namespace, name)
            after = change(copy.deepcopy(before))
            if after["metadata"].get("uid", "") != before["metadata"]["uid"]:
                raise ApiError(409, "Conflict", f"Precondition failed: UID in precondition: "
                               f"{after['metadata'].get('uid')}, UID in object meta: {before['metadata']['uid']}")
            if after["metadata"].get("resourceVersion") != before["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on {collection} "{name}": '
                               "the object has been modified")
            if not of_binding:
                self.check_annotations(after)
            if collection in NUMBERED and after["spec"] != before["spec"]:
                after["metadata"]["generation"] += 1
            if after != before:
                self.record(collection, self.key(collection, namespace, name), before, after)
            return copy.deepcopy(after)

    def delete(self, collection, namespace, name, uid=None):
        with self.changed:
            before = self.get(collection, namespace, name)
            if uid and uid != before["metadata"]["uid"]:
                raise ApiError(409, "Conflict", "Precondition failed: UID in precondition")
            self.record(collection, self.key(collection, namespace, name), before, None)
            return copy.deepcopy(before)

    def page(self, collection, namespace, query):
        with self.changed:
            token = query.get("continue")
            if token:
                if token not in self.pages:
                    raise ApiError(410, "Expired", "The provided continue parameter is too old to display a "
                                   "consistent list result.")
                version, items = self.pages.pop(token)
            else:
                version = self.version
                items = [copy.deepcopy(o) for _, o in sorted(self.objects.get(collection, {}).items())
                         if selects(query, namespace, o)]
            limit = int(query.get("limit") or 0) or len(items)
            meta = {"resourceVersion": str(version)}
            if len(items) > limit:
                meta["continue"] = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
                meta["remainingItemCount"] = len(items) - limit
                self.pages[meta["continue"]] = (version, items[limit:])
            for item in items:
                item.pop("kind", None), item.pop("apiVersion", None)
            return {"kind": KINDS.get(collection, collection) + "List", "apiVersion": "v1", "metadata": meta,
                    "items": items[:limit]}

    def event_of(self, change, namespace, query):
        """What one change is for one watch: (type, object) or None."""
        _, _, before, after = change
        was = before is not None and selects(query, namespace, before)
        now = after is not None and selects(query, namespace, after)
        if now:
            return ("MODIFIED" if was else "ADDED", after)
        if was:
            gone = copy.deepcopy(before)
            gone["metadata"]["resourceVersion"] = str(change[0])
            return ("DELETED", gone)
        return None
