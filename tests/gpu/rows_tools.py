"""What the driver's tools and other libraries see in a run: NVML, nvidia-smi, video; and one pod of a cgpu node."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpu import HERE, ROOT, Broken, NotRun, build
from rows import row

NVML = "NVML and nvidia-smi in a run"
VIDEO = "Video"
POD = "A pod"
SAMPLE_IMAGE = "registry.cn-beijing.aliyuncs.com/ai-samples/gpushare-sample:tensorflow-1.5"    # the lab has a small one of this name
GPU_MEM = "aliyun.com/gpu-mem"
LAB_NODE = "n1.192.168.9.1"
FILL = """
import ctypes, json, time
cuda, free, total, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_ulonglong()
context, device = ctypes.c_void_p(), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
time.sleep(1.5)
cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
held = 0
while cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(16 << 20)) == 0:
    held += 16
print(json.dumps({"total": total.value >> 20, "held": held}), flush=True)
time.sleep(5)
"""


@row("NVML's lists of processes", NVML, 60)
def lists(gpu, tell):
    with gpu.start("2GiB", *gpu.client("hold", 64)) as other:
        other.line()
        view = gpu.limited("2GiB", *gpu.client("nvml_view"))
        tell.promise("programs of others in the list that an idle program of a run gets", len(view["processes"]), not view["processes"])
        tell.promise("GPUs in its list", view["gpus"], view["gpus"] == 1)
    with gpu.start("2GiB", sys.executable, str(HERE / "crowd.py"), "after", *gpu.client("hold", 64), "--",
                   *gpu.client("nvml_view")) as run:
        run.line()
        view = run.line()
    tell.promise("programs that have ended and are still in its list", len(view["processes"]), not view["processes"])


@row("how busy the GPU is, to an idle program beside a busy one", NVML, 60)
def busy(gpu, tell):
    with gpu.start_plain(*gpu.probe("work", 1_000_000, 500_000, 20)) as other:
        other.line()
        other.go()
        began = time.monotonic()
        while time.monotonic() - began < 2:
            other.line()
        outside = gpu.plain(*gpu.client("nvml_view"))["busy"]
        other.line()
        inside = gpu.limited("2GiB", *gpu.client("nvml_view"))["busy"]
    tell.fact("nvmlDeviceGetUtilizationRates beside a busy program, without ration, is over 50 percent", outside > 50)
    tell.promise("the same in a run, which is told about the GPU and not about itself", inside > 50, inside > 50)


def smi(gpu, run):
    """The text of nvidia-smi, in a run or without."""
    program = [gpu.nvidia_smi()]
    if not gpu.simulated and not shutil.which(program[0]):
        raise NotRun("there is no nvidia-smi")
    done = gpu.limited_process("2GiB", program) if run else gpu.plain_process(program)
    if done.returncode != 0:
        raise Broken(f"nvidia-smi ends with {done.returncode}: {(done.stdout + done.stderr).strip()[:200]}")
    return done.stdout


def table_pids(text):
    return [int(pid) for pid in re.findall(r"^\|\s+\d+\s+(?:\S+\s+\S+\s+)?(\d+)\s+\S+\s", text.partition("Processes:")[2], re.M)]


@row("nvidia-smi", NVML, 60)
def nvidia_smi(gpu, tell):
    text = smi(gpu, True)
    used, total = map(int, re.search(r"(\d+)MiB / +(\d+)MiB", text).groups())
    tell.promise("size that it shows in a run of 2048 MiB", total, total == 2048, "MiB")
    tell.promise("memory in use is no more than that", used, used <= total, "MiB")
    with gpu.start("2GiB", *gpu.client("hold", 64)) as other:
        pid = other.line()["pid"]
        seen = [other.pid, pid]
        outside, inside = table_pids(smi(gpu, False)), table_pids(smi(gpu, True))
        tell.fact("its table without ration has the program", bool(set(outside) & set(seen)))
        tell.fact("programs of others in its table in a run", len(inside))
        query = gpu.limited_process("2GiB", [gpu.nvidia_smi(), "--query-compute-apps=pid,used_memory", "--format=csv,noheader"])
        told = re.findall(r"^\d+", query.stdout, re.M)
        tell.fact("programs of others by --query-compute-apps in a run", len(told))


def cache():
    return Path(os.environ.get("RATION_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ration")


def lend_video_libraries(gpu, folder):
    """The simulated driver has none: NVIDIA's own, where `./check driver` has fetched them, work on any libcuda.so.1."""
    for found in sorted(cache().glob("nvidia/*/lib/libnv*"), reverse=True):
        link = Path(folder) / found.name
        if found.name.startswith(("libnvcuvid.so.1", "libnvidia-encode.so.1")) and not link.exists():
            link.symlink_to(found)
    gpu.env["LD_LIBRARY_PATH"] = folder


def video(gpu, tell, what):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        if gpu.simulated:
            lend_video_libraries(gpu, folder)
        compare_video(gpu, tell, what)


def compare_video(gpu, tell, what):
    program = [sys.executable, str(HERE / "video.py"), what]
    told, taken = {}, {}
    for name, start in (("plain", gpu.start_plain), ("run", lambda *a: gpu.start(f"{gpu.limit_mib}MiB", *a))):
        with gpu.anchor():
            before = gpu.settled_mib()
            with start(*program) as talk:
                said = talk.line(45)
                if "missing" in said:
                    raise NotRun(said["missing"])
                if "waits" in said:
                    taken[name] = round(gpu.settled_mib() - before)
                    talk.go()
                    said = talk.line(45)
                told[name] = said
    plain, run = told["plain"], told["run"]
    tell.number("what each call answers without ration", ", ".join(f"{name} {code}" for name, code in plain["codes"]))
    tell.promise("in a run each answers the same", "yes" if run == plain else str(run["codes"]), run == plain or
                 (run["codes"] == plain["codes"] and what == "encode"))
    for name, mib in taken.items():
        tell.number(f"memory of the GPU that it takes {'in a run' if name == 'run' else 'without ration'}", mib, "MiB")
    if what == "encode" and not plain["bytes"]:
        raise NotRun("no frame was encoded: data centre GPUs have decoders only, and the simulated one has neither")


for name, word in (("decoding (NVDEC)", "decode"), ("encoding (NVENC)", "encode")):
    row(name, VIDEO, 120)(lambda gpu, tell, word=word: video(gpu, tell, word))


def why_no_lab():
    if os.geteuid() != 0:
        return "the lab needs root"
    if not (ROOT / "lab/lab").exists():
        return "the lab is not in a bundle"
    for program in ("runc", "iptables", "ip", "openssl"):
        if not shutil.which(program):
            return f"the lab needs {program} (lab/install-packages)"
    if not (build() / "src/agent/ration-agent").exists():
        return "ration-agent is not built"
    if not cache().is_dir():
        return "the lab's Kubernetes is not built (lab/lab build, some ten minutes)"
    return None


class Lab:
    """A lab with one cgpu node: of a simulated GPU, or of this machine's own."""

    def __init__(self, gpu):
        self.gpu, self.name = gpu, f"gpu-rows-{os.getpid()}"
        self.env = {**gpu.env, "RATION_LAB": self.name}

    def __enter__(self):
        cards = "1x16160MiB" if self.gpu.simulated else "0"
        done = self.run(str(ROOT / "lab/lab"), "up", "--name", self.name, "--node", f"{LAB_NODE}={cards},cgpu", seconds=180)
        if done.returncode != 0:
            self.__exit__()
            raise NotRun(f"lab/lab up: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1]}")
        return self

    def __exit__(self, *_):
        self.run(str(ROOT / "lab/lab"), "down", "--name", self.name, seconds=120)

    def run(self, *argv, seconds=60, text=None):
        return subprocess.run(argv, env=self.env, input=text, capture_output=True, text=True, timeout=seconds, check=False)

    def kubectl(self, *words, text=None, seconds=60):
        return self.run(str(ROOT / "lab/lab"), "kubectl", "--", *words, seconds=seconds, text=text)

    def use_hardware(self):
        """The chart's own default: the driver lies where a node has it."""
        words = ("bash", "-c", 'eval "$("$0" env)" && exec helm upgrade --namespace kube-system ack-ai-installer "$1" --reuse-values '
                 '--set driverRoot=/', str(ROOT / "lab/lab"), str(ROOT / "deploy/charts/ack-ai-installer"))
        done = self.run(*words, seconds=90)
        if done.returncode != 0:
            raise NotRun(f"helm upgrade: {done.stderr.strip()[-200:]}")

    def units(self, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            node = json.loads(self.kubectl("get", "node", LAB_NODE, "-o", "json").stdout or "{}")
            units = int(node.get("status", {}).get("allocatable", {}).get(GPU_MEM, 0))
            if units:
                return units, json.loads(node["metadata"]["annotations"]["ration.dev/gpus"])[0]
            time.sleep(1)
        raise NotRun("the agent of the lab's node offers no gpu-mem")


def pod_body(units):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "filler"}, "spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [{
            "name": "main", "image": SAMPLE_IMAGE, "command": ["python3", "-c", FILL],
            "resources": {"limits": {GPU_MEM: units}}}]}}


@row("one pod on a cgpu node of the lab", POD, 300, short=False)
def pod(gpu, tell):
    why = why_no_lab() or (gpu.simulated and not gpu.lab and "on the simulated driver with --lab only; tests/cluster/test_cgpu.py does this")
    if why:
        raise NotRun(why)
    with Lab(gpu) as lab:
        if not gpu.simulated:
            lab.use_hardware()
        units, card = lab.units()
        limit, before = card["mib"] * 2 // units, None if gpu.simulated else gpu.settled_mib()
        lab.kubectl("apply", "-f", "-", text=json.dumps(pod_body(2)))
        deadline, said = time.monotonic() + 90, ""
        while not said.startswith("{") and time.monotonic() < deadline:
            said = lab.kubectl("logs", "filler").stdout
            time.sleep(0.3)
        if not said.startswith("{"):
            raise Broken(f"the pod says nothing: {lab.kubectl('describe', 'pod', 'filler').stdout.strip().splitlines()[-1:]}")
        told = json.loads(said)
        tell.promise("a pod of 2 units: size of its GPU", f"{told['total']} of {limit}", told["total"] == limit, "MiB")
        tell.promise("what it can allocate", f"{told['held']} of {limit}", 0 < told["held"] <= limit, "MiB")
        if before is not None:
            held = round(gpu.used_mib() - before)
            tell.promise("memory of the GPU that it holds", f"{held} of {limit}", held <= limit + 2, "MiB")
