"""The card that is tested, and programs on it: under `ration run`, or on the driver itself."""
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
OURS = ("RATION_GPU", "RATION_GRANT", "RATION_SIM", "RATION_LOG", "CUDA_", "LD_")    # of whoever tests


def build():
    return Path(os.environ.get("RATION_BUILD") or ROOT / "build").absolute()


@dataclass
class Asked:
    """What the person who started the tests said; the tests get it by environment."""
    driver: str | None
    gpu: str
    python: str

    @classmethod
    def from_environment(cls):
        return cls(os.environ.get("RATION_GPU_DRIVER"), os.environ.get("RATION_GPU", "0"),
                   os.environ.get("RATION_GPU_PYTHON", "python3"))

    def environment(self):
        more = {"RATION_GPU": self.gpu, "RATION_GPU_PYTHON": self.python, "RATION_BUILD": str(build())}
        return os.environ | more | ({"RATION_GPU_DRIVER": self.driver} if self.driver else {})

    @property
    def simulated(self):
        return bool(self.driver) and (Path(self.driver).parent / "gpus.json").exists()

    def nvidia_smi(self):
        return str(Path(self.driver).parent / "bin/nvidia-smi") if self.simulated else "nvidia-smi"

    def uuids(self):
        done = subprocess.run([self.nvidia_smi(), "-L"], capture_output=True, text=True, check=False)
        return re.findall(r"UUID: (GPU-[0-9a-f-]+)", done.stdout)

    def uuid(self):
        return self.uuids()[int(self.gpu)] if self.gpu.isdigit() else self.gpu

    def why_no_card(self):
        """A sentence, or None if there is the card."""
        try:
            uuids = self.uuids()
        except OSError as error:
            return f"{self.nvidia_smi()}: {error.strerror}"
        if not uuids:
            return f"{self.nvidia_smi()} lists no card"
        if self.gpu.isdigit() and int(self.gpu) >= len(uuids):
            return f"there are {len(uuids)} cards, and none is number {self.gpu}"
        done = Card(self).plain_process(Card.probe("sizes"))
        return done.stderr.strip() or "gpu-probe failed" if done.returncode else None

    def describe(self):
        sizes = Card(self).plain(*Card.probe("sizes"))
        commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True,
                                text=True, check=False).stdout.strip()
        kind = "a SIMULATED card: its times say nothing about a real one" if self.simulated else "a real card"
        return (f"{sizes['name']}, driver {sizes['driver']}, {sizes['cuDeviceTotalMem'] // MIB} MiB by "
                f"cuDeviceTotalMem; {kind}. At {commit}.")


class Card:
    def __init__(self, asked):
        self.asked = asked
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}

    @staticmethod
    def probe(*words):
        return [str(build() / "tests/gpu/gpu-probe"), *map(str, words)]

    def command(self, mem, program):
        driver = ["--driver", self.asked.driver] if self.asked.driver else []
        return [str(build() / "src/cli/ration"), "run", "--mem", str(mem), "--gpu", self.asked.gpu, *driver, "--",
                *map(str, program)]

    def plain_environment(self):
        folder = {"LD_LIBRARY_PATH": self.asked.driver} if self.asked.driver else {}
        return self.env | folder | {"CUDA_VISIBLE_DEVICES": self.asked.uuid()}

    def plain_process(self, program):
        return subprocess.run(program, env=self.plain_environment(), capture_output=True, text=True, timeout=600,
                              check=False)

    def limited_process(self, mem, program, env=None):
        return subprocess.run(self.command(mem, program), env=self.env | (env or {}), capture_output=True, text=True,
                              timeout=600, check=False)

    @staticmethod
    def _answer(done):
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def plain(self, *program):
        """What the program says, on the driver itself."""
        return self._answer(self.plain_process(program))

    def limited(self, mem, *program, env=None):
        """What it says with so much of the card."""
        return self._answer(self.limited_process(mem, program, env))

    def start(self, mem, *program):
        return subprocess.Popen(self.command(mem, program), env=self.env, text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def memory_mib(self):
        """As the driver has it for the whole card."""
        return self.limited("100%", *self.probe("sizes"))["nvml_v1"] // MIB
