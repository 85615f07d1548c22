"""What the tests of RBAC share: the rules of a chart, and the requests that a program has made."""
import re

RULE = re.compile(r"^- \{apiGroups:.*?\}", re.M)
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def used(request):
    """What the API server would want to be allowed for this request."""
    parts = request.path.strip("/").split("/")
    group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    verb = VERBS.get(request.method) or ("get" if len(parts) > 1 else "watch" if "watch" in request.query else "list")
    return group, "/".join([parts[0], *parts[2:]]), verb
