"""Programs in what the agent made for a container of an isolated node: real processes with the real shim on the simulated
driver, in a mount namespace of their own. Where the kernel would show the container's cgroup, a folder of ours does
(--proc): the tests need no cgroups."""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import sim_cuda
from agent_fixture import BUILD, World, wait_for
from fake_kubelet import container_id

MIB = 1 << 20
CGPU = {"ack.node.gpu.schedule": "cgpu"}

ENTER = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/ration/driver/cuda /run/ration/driver/nvml /run/ration/shim /run/ration-sim
mount --bind "$1" /run/ration-sim
shift
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p "$2"; else mkdir -p "$(dirname "$2")"; touch "$2"; fi
    mount --bind "$1" "$2"
    shift 2
done
shift
exec "$@"
"""


class Node(World):
    """A World whose agent sees a /proc of ours: only processes that were put into it."""

    def __init__(self, cards="2x16160MiB", labels=None, options=(), **more):
        super().__init__(cards=cards, labels=labels or CGPU, **more)
        self.proc = self.dir / "proc"
        self.proc.mkdir()
        (self.proc / "self").symlink_to("/proc/self")
        self.options = ("--proc", self.proc, *options)
        self.programs = []

    def __exit__(self, *details):
        with contextlib.ExitStack() as ends:
            ends.push(super().__exit__)
            for program in self.programs:
                ends.callback(program.end)

    def put(self, pid, cgroup):
        """The process is in this cgroup."""
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        for name in ("stat", "status", "comm", "ns"):
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(f"/proc/{pid}/{name}")
        temporary = folder / "cgroup.new"
        temporary.write_text(f"0::{cgroup}\n")
        os.replace(temporary, folder / "cgroup")

    def start_container(self, name="a", units=2, card=0, **more):
        pod = self.pod(name, units, card=card, **more)
        self.kubelet.admit(pod)
        return pod, self.kubelet.run(pod, "main")

    def program(self, pod, container, *script, **more):
        program = Program(self, pod, container, *script, **more)
        self.programs.append(program)
        return program

    def driver_bytes(self, program):
        """What the driver says that this process has, of all cards."""
        shown = subprocess.run([BUILD / "sim/ration-sim", "status", self.driver], capture_output=True, text=True,
                               check=True).stdout
        rows = re.findall(r"^\d+ +(\d+) +(\d+)MiB$", shown, re.M)
        return sum(int(mib) for pid, mib in rows if int(pid) == program.pid) * MIB


class Program:
    """A script of sim_cuda's in a container; `name` of the container, cgroup: where it is really."""

    def __init__(self, node, pod, container, *script, name="main", cgroup=None, shim=True):
        uid = pod["metadata"]["uid"]
        mounts = []
        for target, mount in container.mounts.items():
            if target.startswith("/run/ration/"):
                mounts += [mount["hostPath"].replace("/host/driver", str(node.driver)), target]
        library = (pathlib.Path(container.mounts["/run/ration/shim"]["hostPath"]) if shim else node.driver / "lib") / "libcuda.so.1"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RATION_")}
        environment |= sim_cuda.sanitizer_environment(node.driver / "lib/libcuda.so.1")
        text = sim_cuda.PRELUDE + "say('ready'); wait()\n" + "".join(map(textwrap.dedent, script))
        self.process = subprocess.Popen(
            ["unshare", "-m", "--propagation", "private", "bash", "-c", ENTER, "enter", node.driver, *mounts, "--",
             sys.executable, "-c", text, library],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.pid = self.process.pid
        self.reads("ready")
        node.put(self.pid, cgroup or f"/kubepods/burstable/pod{uid}/{container_id(uid, name)}")
        self.go()

    def reads(self, expected=None):
        line = self.process.stdout.readline().strip()
        assert line, f"the program has ended: {self.process.stderr.read()}"
        assert expected is None or line == expected, line
        return line

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        """A program may have come to its end; that it crashed or failed is a failure, unless the test knows of it."""
        status = 0 if self.process.returncode is not None else self.process.poll()
        self.process.kill()
        self.process.wait()
        said = "" if self.process.stderr.closed else self.process.stderr.read()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        assert not status, f"a program has ended by itself, with {status}: {said}"


__all__ = ["CGPU", "MIB", "Node", "Program", "container_id", "wait_for"]
