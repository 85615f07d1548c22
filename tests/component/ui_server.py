"""`ration ui` as a person starts it, and requests to it that a browser would not send."""
import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time

from listings import BUILD, FAKE, node, pod

RATION = BUILD / "src/cli/ration"
HOSTILE = ["<script>alert(1)</script>", "</script><script>alert(1)</script>", "<!--<script>", "]]>", "\"'`><img src=x onerror=alert(1)>", "\u202eevil",
           "a&amp;b&lt;", "${alert(1)}", "\\u003c\\", "javascript:alert(1)"]


class Ui:
    """A running `ration ui`. `world`: the file that the stand-in for kubectl serves."""

    def __init__(self, world, *options, kubectl=FAKE, program=RATION):
        self.world = world
        environment = os.environ | {"FAKE_KUBECTL": str(world), "KUBECTL": str(kubectl)}
        self.process = subprocess.Popen([program, "ui", "--no-browser", *options], env=environment, text=True, stdout=subprocess.PIPE)
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


@contextlib.contextmanager
def text_server(text):
    """A server that answers each GET with what text() returns; its port."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = text().encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


class Agents:
    """The page of metrics of every agent of a cluster: one GPU, `holders` as {(namespace, pod): (limit MiB, used MiB, share, used, waited)}; without a
    share (0) the computing power is not controlled; limit None: nothing limits the memory. What is used and waited is a part of the time."""

    def __init__(self, holders, uuid="GPU-a-0", mib=16384, used_mib=9000, container="main"):
        self.holders, self.uuid, self.mib, self.used_mib, self.container = holders, uuid, mib, used_mib, container
        self.began, self.questions = time.monotonic(), 0
        self.server = text_server(self.page)

    def __enter__(self):
        self.port = self.server.__enter__()
        return self

    def __exit__(self, *_):
        self.server.__exit__(None, None, None)

    def page(self):
        self.questions += 1

        def escaped(text):
            return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        gpu, seconds = f'gpu="0",UUID="{self.uuid}",modelName="Tesla V100"', time.monotonic() - self.began
        lines = ["# HELP ration_clock_seconds when", f"ration_clock_seconds {seconds:.4f}", f"ration_gpu_memory_bytes{{{gpu}}} {self.mib << 20}", f"ration_gpu_used_bytes{{{gpu}}} {self.used_mib << 20}"]
        for (namespace, pod_name), (limit, used, share, core, waited) in self.holders.items():
            labels = f'{gpu},namespace="{escaped(namespace)}",pod="{escaped(pod_name)}",container="{self.container}"'
            lines += [f"ration_container_used_bytes{{{labels}}} {used << 20}"]
            if limit is not None:
                lines += [f"ration_container_limit_bytes{{{labels}}} {limit << 20}"]
            if share:
                lines += [f"ration_container_core_share_ratio{{{labels}}} {share}", f"ration_container_core_rate_ratio{{{labels}}} {share}",
                          f"ration_container_core_started_seconds_total{{{labels}}} {core * seconds:.4f}",
                          f"ration_container_core_waited_seconds_total{{{labels}}} {waited * seconds:.4f}"]
        return "\n".join(lines) + "\n"


def agent_pod(on):
    return {"metadata": {"name": f"agent-{on}", "namespace": "kube-system", "uid": f"uid-agent-{on}", "labels": {"name": "gpushare-device-plugin-ds"}},
            "spec": {"nodeName": on, "containers": [{"name": "ration-agent", "args": ["--metrics=127.0.0.1:39996"]}]}, "status": {"phase": "Running"}}


def machine_with_programs(folder):
    """(a `ration` beside a ration-run that prints the file `page`, that file)."""
    (folder / "bin").mkdir()
    ration, page = folder / "bin/ration", folder / "page"
    shutil.copy2(RATION, ration)
    (folder / "bin/ration-run").write_text(f"#!/bin/sh\nexec cat {page}\n")
    (folder / "bin/ration-run").chmod(0o755)
    return ration, page


def run_lines(pid, program, gpu, limit_mib, used_mib, share=None):
    labels = f'gpu="{gpu}",UUID="GPU-{gpu}",namespace="",pod="{pid}",container="{program}"'
    return [f'ration_gpu_memory_bytes{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="Tesla V100"}} {16160 << 20}',
            f"ration_container_limit_bytes{{{labels}}} {limit_mib << 20}", f"ration_container_used_bytes{{{labels}}} {used_mib << 20}",
            *([f"ration_container_core_share_ratio{{{labels}}} {share}"] if share else [])]
