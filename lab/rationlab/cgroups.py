"""The cgroups of the nodes: /ration-lab.LAB.INDEX, in every v1 controller or in the unified hierarchy.

Each kubelet needs a root of its own: two kubelets on one /kubepods end each other's pods as orphans.
"""

import os
import subprocess
import time
from pathlib import Path

from .errors import LabError
from .patience import deadline_in

TOP = Path("/sys/fs/cgroup")
PODS_SLICE = "kubepods.slice"    # of a kubelet under the systemd cgroup driver
NEEDED = ("cpu", "cpuset", "memory", "pids")


def is_unified():
    return (TOP / "cgroup.controllers").exists()


def controllers():
    """Controllers that this machine offers, for the check before anything is started."""
    if is_unified():
        return set((TOP / "cgroup.controllers").read_text().split())
    return {name for entry in TOP.iterdir() if entry.is_dir() for name in entry.name.split(",")}


def _hierarchies():
    if is_unified():
        return [TOP]
    # A symbolic link (cpu -> cpu,cpuacct) is the same hierarchy again.
    return [entry for entry in sorted(TOP.iterdir())
            if entry.is_dir() and not entry.is_symlink() and (entry / "cgroup.procs").exists()]


def root_name(lab, index):
    return f"ration-lab.{lab}.{index}"


def _copy_cpuset(parent, child):
    """A v1 cpuset starts empty and takes no process until it has cpus and mems."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (child / name).exists() and not (child / name).read_text().strip():
            (child / name).write_text((parent / name).read_text())


def set_up(lab, index):
    for hierarchy in _hierarchies():
        child = hierarchy / root_name(lab, index)
        child.mkdir(exist_ok=True)
        if is_unified():
            wanted = " ".join(f"+{c}" for c in (hierarchy / "cgroup.controllers").read_text().split())
            (hierarchy / "cgroup.subtree_control").write_text(wanted)
        else:
            _copy_cpuset(hierarchy, child)


def _remove_tree(folder):
    """rmdir from the leaves up; a cgroup whose last process is just ending is busy for a moment."""
    deadline = deadline_in(10)
    for current, _, _ in os.walk(folder, topdown=False):
        while True:
            try:
                os.rmdir(current)
                break
            except FileNotFoundError:
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise LabError(f"cgroup {current} cannot be removed: {error.strerror}") from None
                time.sleep(0.05)


def end_systemd_pods():
    """Ends all pods of the machine's kubelet under the systemd driver. Their processes have no pid namespace of a node that could
    end them, and systemd takes its time with units that it stops."""
    kill = TOP / PODS_SLICE / "cgroup.kill"
    if kill.exists():
        kill.write_text("1")
    subprocess.run(["systemctl", "stop", PODS_SLICE], capture_output=True, check=False)


def tear_down_node(lab, index):
    for hierarchy in _hierarchies():
        if (hierarchy / root_name(lab, index)).is_dir():
            _remove_tree(hierarchy / root_name(lab, index))


def tear_down(lab):
    if not TOP.is_dir():
        return
    prefix = root_name(lab, "")
    for hierarchy in _hierarchies():
        for entry in hierarchy.iterdir():
            if entry.name.startswith(prefix) and entry.name[len(prefix):].isdigit():
                _remove_tree(entry)
