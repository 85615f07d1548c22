"""What the token of an agent may do at the API server."""
import base64
import json
import ssl
import urllib.error
import urllib.request

A, B = "own-a.192.168.30.1", "own-b.192.168.30.2"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class Agent:
    """Who has taken over the agent of a node, or a token of its service account for no node: what it may patch."""

    def __init__(self, cluster, node=A):
        config = cluster.json("config", "view", "--raw")["clusters"][0]["cluster"]
        bound = ["--bound-object-kind", "Node", "--bound-object-name", node] if node else []
        self.cluster, self.server = cluster, config["server"]
        self.token = cluster.kubectl("-n", "kube-system", "create", "token", "ration-agent", *bound).strip()
        if "certificate-authority-data" in config:
            self.tls = ssl.create_default_context(cadata=base64.b64decode(config["certificate-authority-data"]).decode())
        else:
            self.tls = ssl.create_default_context(cafile=config["certificate-authority"])

    def ask(self, method, path, body):
        """The message of the refusal; None for success."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(self.server + path, json.dumps(body).encode(), method=method, headers={
            "Authorization": f"Bearer {self.token}", "Content-Type": kind})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.tls))
        try:
            opener.open(request, timeout=10).close()
        except urllib.error.HTTPError as error:
            return json.load(error)["message"]
        return None

    def patch(self, path, body):
        return self.ask("PATCH", path, body)

    def create_lease(self, name):
        return self.ask("POST", LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}})
