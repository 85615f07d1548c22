"""`ration ui` as a person starts it, and requests to it that a browser would not send."""
import http.client
import json
import os
import re
import socket
import subprocess

from listings import BUILD, FAKE, node, pod

RATION = BUILD / "src/cli/ration"
HOSTILE = ["<script>alert(1)</script>", "</script><script>alert(1)</script>", "<!--<script>", "]]>", "\"'`><img src=x onerror=alert(1)>", "\u202eevil",
           "a&amp;b&lt;", "${alert(1)}", "\\u003c\\", "javascript:alert(1)"]



class Ui:
    """A running `ration ui`. `world`: the file that the stand-in for kubectl serves."""

    def __init__(self, world, *options, kubectl=FAKE):
        self.world = world
        environment = os.environ | {"FAKE_KUBECTL": str(world), "KUBECTL": str(kubectl)}
        self.process = subprocess.Popen([RATION, "ui", "--no-browser", *options], env=environment, text=True, stdout=subprocess.PIPE)
        self.url = self.process.stdout.readline().strip()
        self.port, self.token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/", self.url).groups()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def get(self, name="", method="GET", **headers):
        """(status, headers, body) of a path behind the token; a header None is left out."""
        return self.ask(f"/{self.token}/{name}", method, **headers)

    def ask(self, path, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", int(self.port), timeout=60)
        sent = {"Host": f"127.0.0.1:{self.port}"} | {key.replace("_", "-"): value for key, value in headers.items()}
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for key, value in sent.items():
            if value is not None:
                connection.putheader(key, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        try:
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    def raw(self, data, timeout=20):
        """What the server says to these bytes."""
        with self.connect(timeout) as peer:
            peer.sendall(data)
            return b"".join(iter(lambda: peer.recv(65536), b"")).decode()

    def connect(self, timeout=20):
        return socket.create_connection(("127.0.0.1", int(self.port)), timeout)


def write_file(world, path, kubectl=FAKE):
    return subprocess.run([RATION, "ui", "--static", path], capture_output=True, text=True, timeout=120, check=False,
                          env=os.environ | {"FAKE_KUBECTL": str(world), "KUBECTL": str(kubectl)})


def hostile_objects():
    """(nodes, pods) with such names, and with such texts about their GPUs."""
    nodes = [node(f"n{i}-{text}", "10.0.0.1", 16160) for i, text in enumerate(HOSTILE)]
    for one, text in zip(nodes, HOSTILE):
        gpus = json.loads(one["metadata"]["annotations"]["ration.dev/gpus"])
        gpus[0] |= {"uuid": "GPU-x", "model": text[:60], "healthy": False, "reason": text}
        one["metadata"]["annotations"]["ration.dev/gpus"] = json.dumps(gpus)
    nodes.append(node("good", "10.0.0.2", 16160))
    pods = [pod(f"p-{text}", "good", 1, "GPU-good-0", f"ns-{text}") for text in HOSTILE]
    return nodes, [*pods, *[pod(f"w-{text}", None, 1, namespace=text) for text in HOSTILE]]
