"""What this machine must have before anything is started, each lack told with its cure."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import cgroups
from .errors import LabError
from .paths import LAB_SOURCE
from .progress import say, step

# What the lab runs, beside what it builds itself. lab/install-packages names the Debian packages.
PROGRAMS = ("ip", "iptables", "runc", "nsenter", "unshare", "mount", "openssl", "busybox", "bash", "ldd",
            "/usr/bin/python3", "/usr/lib/cni/ptp", "/usr/lib/cni/portmap", "/usr/lib/cni/host-local",
            "/etc/ssl/certs/ca-certificates.crt")
OF_RUNTIME = {"cri-o": ("conmon",)}    # beside those
GIB = 1 << 30
COLD_BYTES = 8 * GIB      # caches of go, the programs, the images, two nodes
WARM_BYTES = 2 * GIB      # two nodes and their images
NODE_BYTES = 1 * GIB      # one more


def check_root():
    if os.geteuid() != 0:
        raise LabError("the lab needs root: it makes network and mount namespaces and runs a kubelet "
                       "(try: sudo lab/lab ...)")


def missing_programs(runtime=None):
    programs = (*PROGRAMS, *OF_RUNTIME.get(runtime, ()))
    return [program for program in programs if not shutil.which(program) and not os.path.exists(program)]


def ensure_packages(runtime=None):
    """Installs what is missing, saying so; where that cannot be, says what is missing."""
    missing = missing_programs(runtime)
    if not missing:
        return
    say(f"not on this machine: {', '.join(missing)}")
    with step("packages installed"):
        done = subprocess.run([LAB_SOURCE / "install-packages", f"--{runtime}" if runtime in OF_RUNTIME else "--lab"], check=False)
    missing = missing_programs(runtime)
    if done.returncode != 0 or missing:
        raise LabError(f"the lab needs {', '.join(missing)}, and lab/install-packages could not install them")


def free_bytes(path):
    """Free space where `path` will be. RATION_LAB_FREE_BYTES stands in for it in tests."""
    pretended = os.environ.get("RATION_LAB_FREE_BYTES")
    if pretended is not None:
        return int(pretended)
    path = Path(path)
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def check_disk(path, needed, purpose):
    free = free_bytes(path)
    if free < needed:
        raise LabError(f"{purpose} needs about {needed / GIB:.0f} GiB of disk, but only {free / GIB:.1f} GiB are free "
                       f"at {path}; make room, or set RATION_CACHE and RATION_LABS to folders on a larger disk")


def _try(command, what):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip() or f"exit {done.returncode}"
        raise LabError(f"this machine does not allow {what}, which the lab needs: {reason}")


def check_kernel(scratch):
    """Tries each kernel feature once, in namespaces that end with the command."""
    if os.environ.get("RATION_LAB_NO_KERNEL_FEATURE"):    # lets a test see the message
        raise LabError("this machine does not allow "
                       f"{os.environ['RATION_LAB_NO_KERNEL_FEATURE']}, which the lab needs: pretended by a test")
    _try(["unshare", "--net", "true"], "network namespaces")
    _try(["unshare", "--mount", "--propagation", "private", "sh", "-c", "mount --make-rshared / && mount --bind / /mnt"],
         "private mount namespaces")
    _try(["unshare", "--pid", "--fork", "--mount-proc", "true"], "process namespaces")
    _try(["unshare", "--net", "sh", "-c", "ip link add name veth0 type veth peer name veth1"], "veth network links")
    _try(["unshare", "--net", "iptables", "-w", "-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE"],
         "iptables with NAT")
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        overlay = (f'cd "{folder}" && mkdir lower upper work merged && '
                   "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged")
        _try(["unshare", "--mount", "--propagation", "private", "sh", "-c", overlay],
             f"overlay file systems on {scratch} (RATION_LABS can name a folder on another disk)")
    if not cgroups.TOP.is_dir():
        raise LabError("no cgroups are mounted at /sys/fs/cgroup, which the kubelet needs")
    lacking = [name for name in cgroups.NEEDED if name not in cgroups.controllers()]
    if lacking:
        raise LabError(f"the kernel offers no cgroup controller {', '.join(lacking)}, which the kubelet needs")


def check_systemd():
    """What runc and a kubelet under the systemd cgroup driver ask for."""
    if not (Path("/run/systemd/system").is_dir() and Path("/run/dbus/system_bus_socket").exists()):
        raise LabError("--cgroup-driver systemd: systemd and its D-Bus are not running on this machine")
    if not cgroups.is_unified():
        raise LabError("--cgroup-driver systemd: this machine has cgroup v1, and the lab can do this with cgroup v2 only")


def go_requirement(go_mod):
    """The oldest Go that a go.mod accepts, as a tuple."""
    match = re.search(r"^go ([0-9]+(?:\.[0-9]+)*)", go_mod.read_text(), re.MULTILINE)
    if match is None:
        raise LabError(f"{go_mod} does not say which Go it needs")
    return tuple(int(n) for n in match.group(1).split("."))
