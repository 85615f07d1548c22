"""The programs that are measured: started, asked for their ports and memory, ended."""
import http.client
import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]


def build():
    return Path(os.environ.get("RATION_BUILD") or REPO / "build").absolute()


class BenchError(Exception):
    """Nothing can be measured; the text says why."""


def wait_until(condition, timeout, what, pause=0.005):
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise BenchError(f"not within {timeout} s: {what}")
        time.sleep(pause)
    return value


class Program:
    """A child process whose stderr is kept for the case that it fails."""

    def __init__(self, argv, name=None):
        self.name = name or Path(str(argv[0])).name
        self.log = tempfile.NamedTemporaryFile("w+", prefix=f"{self.name}-", suffix=".log")
        self.process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, stderr=self.log, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def text(self):
        return Path(self.log.name).read_text(errors="replace")

    def check_running(self):
        if self.process.poll() is not None:
            raise BenchError(f"{self.name} ended with {self.process.returncode}: {self.text()[-1500:]}")
        return True

    def wait_for(self, pattern, timeout=30):
        return wait_until(lambda: self.check_running() and re.search(pattern, self.text()), timeout,
                          f"{pattern} in the log of {self.name}")

    def cpu_ns(self):
        """On a CPU so far, by the kernel's own count: unlike the latency, it hardly depends on what else runs."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0])

    def memory_mb(self):
        """(peak, now) of the resident memory in MB (10^6 bytes)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return tuple(int(re.search(rf"{key}:\s+(\d+) kB", status)[1]) * 1024 / 1e6 for key in ("VmHWM", "VmRSS"))


def http_get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class RationScheduler(Program):
    """url: of the verbs. started: when the process was made, monotonic."""

    def __init__(self, kubeconfig, *options, program=None):
        self.started = time.monotonic()
        super().__init__([program or build() / "src/scheduler/ration-scheduler", "--kubeconfig", kubeconfig, "--listen",
                          "127.0.0.1:0", "--probes", "127.0.0.1:0", *options])
        self.ports = None

    def wait_ready(self, timeout=60):
        """Seconds from the start of the process until it may be asked."""
        found = self.wait_for(r"verbs on port (\d+), probes on port (\d+)", 10)
        self.ports = int(found[1]), int(found[2])
        wait_until(lambda: self.check_running() and http_get(self.ports[1], "/readyz")[0] == 200, timeout,
                   "ration-scheduler is ready")
        return time.monotonic() - self.started

    @property
    def url(self):
        return f"http://127.0.0.1:{self.ports[0]}"


class Floor(Program):
    def __init__(self):
        super().__init__([build() / "bench/bench-floor"])
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"


def load(url, bodies, calls, connections=1, header=None):
    """Runs bench-load; its answer is in milliseconds. bodies: a list of JSON-able things or of bytes."""
    with tempfile.NamedTemporaryFile("wb", prefix="bench-bodies-") as file:
        file.write(b"\n".join(b if isinstance(b, bytes) else json.dumps(b).encode() for b in bodies) + b"\n")
        file.flush()
        argv = [str(build() / "bench/bench-load"), "--calls", str(calls), "--connections", str(connections)]
        if header:
            argv += ["--header", header]
        done = subprocess.run([*argv, url, file.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"bench-load {url}: {done.stderr.strip()}")
    return json.loads(done.stdout)
