"""A simulated GPU and programs that keep it busy, each with a share of its time."""
import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

from .programs import BenchError, build, wait_until

GPU = "1x81559MiB"
MEMORY = "2GiB"
SAMPLE_MS = 20


class SimulatedGpu:
    """A driver tree with one GPU, whose true use is sampled all the time."""

    def __init__(self, folder, slice_us, latency_ns, jitter_percent, elapsed):
        self.folder, self.tree, self.samples = folder, folder / "tree", []
        self.elapsed, self.keepers_ended = elapsed, False
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("RATION_", "CUDA_", "LD_"))}
        self.env["RATION_RUNS"] = str(folder / "runs")
        self._sim("up", self.tree, "--gpus", GPU, "--slice-us", slice_us, "--latency-ns", latency_ns,
                  "--jitter-percent", jitter_percent)
        (folder / "runs").mkdir()
        self.runner = self._runner()
        argv = [build() / "sim/ration-sim", "usage", self.tree, "--json", "--every", str(SAMPLE_MS)]
        self.teller = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.teller.terminate()
        self.teller.wait()
        self.reader.join()
        self._sim("down", self.tree)
        wait_until(lambda: self.keepers_ended or not list((self.folder / "runs").iterdir()), 10, "the keepers end")

    def _sim(self, *args):
        done = subprocess.run([build() / "sim/ration-sim", *map(str, args)], env=self.env, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"ration-sim {args[0]}: {done.stderr.strip()}")

    def _runner(self):
        """ration run looks for the shim beside itself."""
        built = build() / "src/run/ration-run"
        if not self.elapsed:
            return built
        (self.folder / "bin").mkdir()
        (self.folder / "shim").mkdir()
        os.link(built, self.folder / "bin/ration-run")
        (self.folder / "shim/libcuda.so.1").symlink_to(build() / "tests/component/elapsed/libcuda.so.1")
        (self.folder / "shim/libnvidia-ml.so.1").symlink_to(build() / "src/shim/libnvidia-ml.so.1")
        return self.folder / "bin/ration-run"

    def _read(self):
        for line in self.teller.stdout:
            told = json.loads(line)
            gpu = told["cards"][0]
            self.samples.append((gpu["atNs"], gpu["smNs"], {p["pid"]: p["smNs"] for p in told["processes"]}))

    def end_keepers(self):
        """The runs go on with the rates that they have. A keeper's arguments name the driver."""
        self.keepers_ended = True
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = file.read_bytes().split(b"\0")
                if words[:2] == [b"ration-keeper", b"keeper"] and words[3].startswith(bytes(self.tree)):
                    os.kill(int(file.parent.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass    # it ended by itself

    def done(self, pids, at_ns):
        """(when, ns that the GPU has worked, ns of these processes) by the first sample at that time or after it."""
        for at, gpu, processes in self.samples:
            if at >= at_ns:
                return at, gpu, sum(processes.get(pid, 0) for pid in pids)
        raise BenchError("the simulated GPU no longer answers")

    def wait_until(self, at_ns):
        wait_until(lambda: self.samples and self.samples[-1][0] >= at_ns, 120, "the GPU goes on", 0.02)


class Tenant:
    """bench-tenant, with `percent` percent of the GPU's time; None: without a limit."""

    def __init__(self, gpu, percent, options):
        argv = [str(build() / "bench/bench-tenant"), *options]
        env = dict(gpu.env)
        if percent is None:
            env["LD_LIBRARY_PATH"] = str(gpu.tree / "lib")
        else:
            argv = [str(gpu.runner), "run", "--mem", MEMORY, "--core", str(percent), "--driver",
                    str(gpu.tree / "lib"), "--", *argv]
        self.percent = percent
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        processes = int(options[options.index("--processes") + 1]) if "--processes" in options else 1
        self.pids = [self._ready() for _ in range(processes)]

    def _ready(self):
        found = re.match(r"ready (\d+)", self.process.stdout.readline())
        if not found:
            raise BenchError(f"bench-tenant: {self.process.communicate()[1].strip()}")
        return int(found[1])

    def go(self):
        self.process.stdin.write("g" * len(self.pids))
        self.process.stdin.flush()

    def end(self):
        """Its own words: what it saw done."""
        out, err = self.process.communicate(timeout=60)
        if self.process.returncode != 0:
            raise BenchError(f"bench-tenant: status {self.process.returncode}: {err.strip()}")
        return [json.loads(line) for line in out.splitlines()]


def start(gpu, percents, options):
    tenants = []
    try:
        for percent in percents:
            tenants.append(Tenant(gpu, percent, options))
    except BaseException:
        for tenant in tenants:
            tenant.process.kill()
            tenant.process.communicate()
        raise
    return tenants
