"""A virtual machine with Debian 12, systemd as its first process and cgroup v2, emulated by qemu: it needs no
virtualisation, and is about ten times slower than its host."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time

import disks
from disks import ROOT

PROGRAMS = ("qemu-system-x86_64", "mmdebstrap", "cpio")
BOOT_SECONDS = 900
SLOWER = 8    # how many times as long as on its host tests may wait


class MachineError(Exception):
    """The machine could not be made or does not answer."""


def lacking():
    """Installs what is missing. Why there can be no such machine here, or None."""
    if os.geteuid() != 0:
        return "no virtual machine: its disk is made as root"
    if os.uname().machine != "x86_64":
        return "no virtual machine: it runs this machine's programs, and they are not for amd64"

    def missing():
        return ", ".join(name for name in PROGRAMS if not shutil.which(name))
    if missing():
        subprocess.run([ROOT / "lab" / "install-packages", "--vm"], check=False, stdout=sys.stderr)
    return f"no virtual machine: lab/install-packages --vm could not install {missing()}" if missing() else None


class Machine:
    """Boots when it is entered, and is gone when it is left. Its disks are written to temporary files only."""

    def __init__(self, memory="6G", processors=2):
        self.memory, self.processors = memory, processors

    def __enter__(self):
        self.folder = disks.scratch("machine")
        self.process = self.port = None
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.port:
            self.port.close()
        if self.process:
            self.process.kill()    # nothing on its disks is kept
            self.process.wait()
        shutil.rmtree(self.folder)

    def _start(self):
        made = disks.debian()
        initrd, product = self.folder / "initrd", self.folder / "product.ext4"
        disks.make_initrd(made, initrd)
        disks.make_product_disk(product)

        def drive(path):
            return ["-drive", f"file={path},format=raw,if=virtio,snapshot=on,cache=unsafe"]
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "nice", "-n", "5", "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max",
             "-smp", str(self.processors), "-m", self.memory, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             "-kernel", made / "vmlinuz", "-initrd", initrd, "-append", "console=ttyS0 quiet mitigations=off nowatchdog panic=-1 "
             "systemd.service_watchdogs=no",
             *drive(made / "debian.ext4"), *drive(product), "-serial", f"file:{self.folder / 'console'}",
             "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
             "-chardev", f"socket,id=port,path={self.folder / 'port'},server=on,wait=off",
             "-device", "virtserialport,chardev=port,name=ration"],
            stdin=subprocess.DEVNULL, stdout=open(self.folder / "qemu", "wb"), stderr=subprocess.STDOUT,
            start_new_session=True,    # Ctrl-C is for the test
            env={**os.environ, "TMPDIR": str(self.folder)})    # where the changes to its disks are
        self._connect(time.monotonic() + BOOT_SECONDS)

    def _connect(self, deadline):
        self.port = socket.socket(socket.AF_UNIX)
        self.answers = b""
        while self.port.connect_ex(str(self.folder / "port")) != 0:
            self._check(deadline)
            time.sleep(0.1)
        answer = self._answer(deadline)
        if "ready" not in answer:
            raise MachineError(f"the machine's service says {answer}")

    def _check(self, deadline):
        if self.process.poll() is not None or time.monotonic() > deadline:
            why = "does not answer in time" if self.process.poll() is None else f"ended with status {self.process.returncode}"
            said = [(self.folder / name).read_text(errors="replace")[-3000:] for name in ("qemu", "console")
                    if (self.folder / name).exists()]
            raise MachineError(f"the machine {why}; it said\n{''.join(said)}")

    def _answer(self, deadline):
        """The next line from the machine."""
        while b"\n" not in self.answers:
            self.port.settimeout(5)
            try:
                data = self.port.recv(65536)
            except TimeoutError:
                data = None
            if not data:
                self._check(deadline if data is None else 0)
            self.answers += data or b""
        line, _, self.answers = self.answers.partition(b"\n")
        return json.loads(line)

    def run(self, *argv, user="root", env=None, timeout=600, check=True, show=None):
        """A command in the machine; a CompletedProcess with its output. `show` is called with each piece of it."""
        asked = {"argv": [str(a) for a in argv], "user": user, "timeout": timeout,
                 "env": {"RATION_BUILD": str(disks.paths.product_build()), "RATION_CACHE": str(disks.paths.cache_root()), **(env or {})}}
        self.port.settimeout(None)
        self.port.sendall(json.dumps(asked).encode() + b"\n")
        said, deadline = [], time.monotonic() + timeout + 60
        while "status" not in (answer := self._answer(deadline)):
            if "failed" in answer:
                raise MachineError(f"{' '.join(asked['argv'])}: {answer['failed']}")
            said.append(answer["out"])
            if show:
                show(answer["out"])
        done = subprocess.CompletedProcess(asked["argv"], answer["status"], "".join(said))
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(asked['argv'])} exited {done.returncode}\n{done.stdout}")
        return done
