"""One GPU and programs on it: under `ration run`, or on the driver itself. Python 3.9 and the standard library only: the
machine may have nothing else."""
import ctypes
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MIB = 1 << 20
OURS = ("RATION_GPU", "RATION_GRANT", "RATION_SIM", "RATION_LOG", "CUDA_", "LD_")    # of the shell that tests
ANSWER_S = 60


class Broken(Exception):
    """A program did not do what the row needs; the message is the row's verdict."""


class Crashed(Broken):
    """A program was ended by a signal."""


class NotRun(Exception):
    """The row cannot be run here; the message says why."""


def build():
    return Path(os.environ.get("RATION_BUILD") or ROOT / "build").absolute()


def what_is_missing():
    """A sentence, or None if the programs that the rows start are there."""
    needed = ("src/cli/ration", "src/run/ration-run", "src/shim/libcuda.so.1", "src/shim/libnvidia-ml.so.1",
              "tests/gpu/gpu-probe")
    missing = [name for name in needed if not (build() / name).exists()]
    if missing:
        return (f"{build()} has no {missing[0]}. Build it (meson setup build && ninja -C build), or, where meson, ninja or "
                "headers are missing, make a bundle on a machine that can build: tests/gpu/run --bundle FILE")
    done = subprocess.run([str(build() / "tests/gpu/gpu-probe")], capture_output=True, text=True, check=False)
    if done.returncode != 2:
        return f"gpu-probe does not start on this machine: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
    return None


class _NvmlMemory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Nvml:
    """The driver's management library, asked from outside of every run."""

    def __init__(self, folder):
        try:
            self.lib = ctypes.CDLL(os.path.join(folder, "libnvidia-ml.so.1") if folder else "libnvidia-ml.so.1")
        except OSError as error:
            raise NotRun(str(error)) from error
        code = self.lib.nvmlInit_v2()
        if code != 0:
            raise NotRun(f"nvmlInit_v2 says {code}")

    def uuids(self):
        count = ctypes.c_uint()
        self.lib.nvmlDeviceGetCount_v2(ctypes.byref(count))
        return [self._uuid(index) for index in range(count.value)]

    def _uuid(self, index):
        device, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        if self.lib.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) != 0:
            return None
        self.lib.nvmlDeviceGetUUID(device, text, 96)
        return text.value.decode()

    def device(self, uuid):
        found = ctypes.c_void_p()
        code = self.lib.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(found))
        if code != 0:
            raise Broken(f"nvmlDeviceGetHandleByUUID says {code}")
        return found

    def memory(self, uuid):
        memory = _NvmlMemory()
        code = self.lib.nvmlDeviceGetMemoryInfo(self.device(uuid), ctypes.byref(memory))
        if code != 0:
            raise Broken(f"nvmlDeviceGetMemoryInfo says {code}")
        return memory

    def driver_version(self):
        text = ctypes.create_string_buffer(80)
        self.lib.nvmlSystemGetDriverVersion(text, 80)
        return text.value.decode()

    def name(self, uuid):
        text = ctypes.create_string_buffer(96)
        self.lib.nvmlDeviceGetName(self.device(uuid), text, 96)
        return text.value.decode()

    def processes(self, uuid):
        """{pid: bytes} of compute processes, by the entries of version 3 (24 bytes), or None where it cannot be asked."""
        get = getattr(self.lib, "nvmlDeviceGetComputeRunningProcesses_v3", None)
        if get is None:
            return None

        class Info(ctypes.Structure):
            _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]
        room = (Info * 256)()
        count = ctypes.c_uint(256)
        if get(self.device(uuid), ctypes.byref(count), room) != 0:
            return None
        return {room[i].pid: room[i].bytes for i in range(count.value)}


class Talk:
    """A program that prints lines of JSON, and goes on when it gets a line."""

    def __init__(self, argv, env):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        self.pid, self.buffer, self.name = self.process.pid, b"", " ".join(map(str, argv[-4:]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def _why(self):
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1] if lines else "it says nothing"

    def line(self, seconds=ANSWER_S):
        """The next line of JSON."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Broken(f"no answer in {seconds} s from: {self.name}")
            got = os.read(self.process.stdout.fileno(), 65536)
            if not got:
                status = self.process.wait()
                raise verdict_of(status, self._why())(f"{ended(status)}: {self.name}: {self._why()}")
            self.buffer += got
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def go(self):
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def rest(self, seconds=ANSWER_S):
        """What it still prints after the end of its input."""
        self.process.stdin.close()
        lines = []
        try:
            while True:
                lines.append(self.line(seconds))
        except Broken:
            if self.process.poll() != 0:
                raise
        return lines

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.errors):
            try:
                file.close()
            except BrokenPipeError:
                pass


def verdict_of(status, said):
    """What it means that a program ended so."""
    if "the driver has no " in said:    # an old one; cuda.c and cudalib.py say it so
        return NotRun
    return Crashed if status < 0 else Broken


def ended(status):
    return f"ended by signal {-status}" if status < 0 else f"ended with {status}"


class Gpu:
    """`told` comes from tests/gpu/run: side, driver, uuid, python, short, runs."""

    def __init__(self, told):
        self.side, self.driver, self.uuid = told["side"], told["driver"], told["uuid"]
        self.python, self.short, self.lab = told["python"], told["short"], told.get("lab", False)
        self.quick, self.pretend, self.total_mib = told.get("quick", False), told.get("pretend", False), told.get("total_mib")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        if told.get("runs"):
            self.env["RATION_RUNS"] = told["runs"]
        self.idle_mib, self._nvml = told.get("idle_mib"), None

    @property
    def simulated(self):
        return self.side == "simulated"

    @property
    def in_memory(self):
        """What is written to the GPU is written to this machine's memory."""
        return self.simulated or self.pretend

    @property
    def nvml(self):
        if self._nvml is None:
            self._nvml = Nvml(self.driver)
        return self._nvml

    def used_mib(self):
        return self.nvml.memory(self.uuid).used / MIB

    @property
    def limit_mib(self):
        """2 of 15 units of the GPU, as a small container has."""
        return self.total_mib * 2 // 15

    def wait_idle(self, seconds=10):
        """Until what the row before has left is gone: a driver needs a while to take a process down."""
        deadline = time.monotonic() + seconds
        while self.idle_mib is not None and self.used_mib() > self.idle_mib + 1 and time.monotonic() < deadline:
            time.sleep(0.05)

    def settled_mib(self, seconds=5):
        """Used memory when it has been the same for a while; the simulated driver's is what it is at once."""
        still = 0.05 if self.simulated else 0.3
        last, since, deadline = None, 0, time.monotonic() + seconds
        while time.monotonic() < deadline:
            now = self.used_mib()
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > still:
                break
            time.sleep(0.02)
        return last

    @staticmethod
    def probe(*words):
        return [str(build() / "tests/gpu/gpu-probe"), *map(str, words)]

    @staticmethod
    def client(*words):
        return [sys.executable, str(HERE / "client.py"), *map(str, words)]

    def nvidia_smi(self):
        return str(Path(self.driver).parent / "bin/nvidia-smi") if self.simulated else "nvidia-smi"

    def plain_env(self):
        folders = [folder for folder in (self.driver, self.env.get("LD_LIBRARY_PATH")) if folder]
        more = {"LD_LIBRARY_PATH": ":".join(folders)} if folders else {}
        return {**self.env, **more, "CUDA_VISIBLE_DEVICES": self.uuid}

    def command(self, mem, program, core=None):
        argv = [str(build() / "src/cli/ration"), "run", "--mem", str(mem), "--gpu", self.uuid]
        argv += ["--core", str(core)] if core else []
        argv += ["--driver", self.driver] if self.driver else []
        return [*argv, "--", *map(str, program)]

    def _finish(self, argv, env, seconds):
        try:
            return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
                                  check=False)
        except subprocess.TimeoutExpired as error:
            raise Broken(f"no end in {seconds} s: {' '.join(map(str, argv[-4:]))}") from error
        except OSError as error:
            raise NotRun(f"{argv[0]}: {error.strerror}") from error

    @staticmethod
    def _answer(done):
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "it says nothing").splitlines()[-1]
            raise verdict_of(done.returncode, said)(f"{ended(done.returncode)}: {' '.join(done.args[-4:])}: {said}")
        return json.loads(done.stdout.splitlines()[-1])

    def plain_process(self, program, seconds=ANSWER_S):
        return self._finish([*map(str, program)], self.plain_env(), seconds)

    def limited_process(self, mem, program, seconds=ANSWER_S, env=None, core=None):
        return self._finish(self.command(mem, program, core), {**self.env, **(env or {})}, seconds)

    def plain(self, *program):
        """What the program says on the driver itself."""
        return self._answer(self.plain_process(program))

    def limited(self, mem, *program, seconds=ANSWER_S, env=None, core=None):
        """What it says with so much of the GPU."""
        return self._answer(self.limited_process(mem, program, seconds, env, core))

    def start(self, mem, *program, core=None):
        return Talk(self.command(mem, program, core), self.env)

    def start_plain(self, *program):
        return Talk([*map(str, program)], self.plain_env())

    def anchor(self):
        """A context of another program: what the driver takes for itself is taken before anything is measured."""
        talk = self.start_plain(*self.client("contexts", 1))
        talk.line()
        return talk


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True,
                          check=False) if (ROOT / ".git").exists() else None
    if done and done.returncode == 0:
        return done.stdout.strip()
    bundled = ROOT / "COMMIT"
    return bundled.read_text(encoding="utf-8").strip() if bundled.exists() else "unknown"
