"""A node that is a folder, for `ration doctor --node`."""
import os
import pathlib
import shutil
import subprocess

import doctor_report

RATION = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve() / "src/cli/ration"
UID, GONE = "0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002"
KUBELET, LIBRARIES = "var/lib/kubelet", "usr/lib/x86_64-linux-gnu"
CONTAINERD, NVIDIA = "etc/containerd/config.toml", "etc/nvidia-container-runtime/config.toml"
KERNEL = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc 12.2.0\n"
# Where the kubelet's configuration names the container runtime's socket, and how.
ENDPOINTS = [(KUBELET + "/config.yaml", "containerRuntimeEndpoint: {}\n"),
             (KUBELET + "/instance-config.yaml", 'containerRuntimeEndpoint: "{}"\n'),
             (KUBELET + "/kubeadm-flags.env", 'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint={} --v=2"\n')]

# As containerd 2.1 writes it, and 1.7.
CONFIG_2 = """version = 3

[plugins]
  [plugins.'io.containerd.cri.v1.runtime']
    enable_selinux = false
    enable_cdi = true
    cdi_spec_dirs = ['/etc/cdi', '/var/run/cdi']
    [plugins.'io.containerd.cri.v1.runtime'.containerd]
      default_runtime_name = 'runc'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
          SystemdCgroup = true
"""
# What CRI-O 1.34 prints for `crio status config`, shortened: with its own defaults, which are crun and systemd.
CONFIG_CRIO = """[crio]
  root = "/var/lib/containers/storage"
  [crio.api]
    listen = "/var/run/crio/crio.sock"
  [crio.runtime]
    hooks_dir = ["/usr/share/containers/oci/hooks.d"]
    cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
    default_runtime = "crun"
    cgroup_manager = "systemd"
    [crio.runtime.runtimes]
      [crio.runtime.runtimes.crun]
        runtime_path = "/usr/libexec/crio/crun"
        runtime_root = "/run/crun"
      [crio.runtime.runtimes.runc]
        runtime_path = ""
        runtime_root = "/run/runc"
  [crio.image]
    pause_image = "registry.k8s.io/pause:3.10"
"""


class Node:
    def __init__(self, folder):
        self.root, self.bin = folder / "root", folder / "bin"
        self.driver_root = "/"

    def write(self, path, text=""):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, path):
        return (self.root / path).read_text()

    def change(self, path, old, new):
        assert old in self.read(path)
        self.write(path, self.read(path).replace(old, new))

    def remove(self, path):
        path = self.root / path
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def containerd(self, version):
        self.program("containerd", f"containerd github.com/containerd/containerd/v2 {version} 75cb2b71")

    def crio(self, version, config=CONFIG_CRIO, socket="/var/run/crio/crio.sock"):
        """The kubelet's container runtime is CRI-O; config None: it does not run."""
        self.write(KUBELET + "/config.yaml", f"cgroupDriver: systemd\ncontainerRuntimeEndpoint: unix://{socket}\n")
        self.program("crio", f"crio version {version}")
        says = f'[ "$*" = "status --socket {socket} config" ] && exec cat {self.bin}/crio.toml'
        (self.bin / "crio").write_text((self.bin / "crio").read_text() + says + "\n")
        (self.bin / "crio.toml").write_text(config) if config else (self.bin / "crio.toml").unlink(missing_ok=True)

    def program(self, name, version):
        """A program on the node's PATH that says its version, or None: it fails. `chroot ROOT PROGRAM` runs it here."""
        self.bin.mkdir(exist_ok=True)
        says = f'[ "$1" = --version ] && exec echo "{version}"' if version else "exit 1"
        for path, text in ((self.bin / "chroot", 'shift; exec "$@"'), (self.bin / name, says)):
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)

    def doctor(self, *args):
        return subprocess.run([RATION, "doctor", "--node", f"--root={self.root}", f"--driver-root={self.driver_root}", *args],
                              capture_output=True, text=True, timeout=10, check=False,
                              env=os.environ | {"PATH": f"{self.bin}:{os.environ['PATH']}", "KUBECTL": "/nonexistent"})

    def examine(self):
        return doctor_report.read(self.doctor("-o", "json"))


def healthy_node(folder):
    """A healthy node: containerd 2.1, driver 535, an agent that served, a pod with its grant."""
    node = Node(folder)
    node.containerd("v2.1.4")
    node.program("kubelet", "Kubernetes v1.36.3")
    node.program("runc", "runc version 1.2.4\nspec: 1.2.0")
    for path, text in {
            "run/containerd/containerd.sock": "", CONTAINERD: CONFIG_2, "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
            KUBELET + "/config.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\ncgroupDriver: systemd # as containerd\n",
            KUBELET + "/cpu_manager_state": '{"policyName":"none","checksum":1}',
            KUBELET + "/device-plugins/kubelet.sock": "", KUBELET + "/device-plugins/ration-gpu-mem.sock": "",
            KUBELET + "/device-plugins/rdma.sock": "", f"{KUBELET}/pods/{UID}/etc-hosts": "",
            "proc/driver/nvidia/version": KERNEL.format("535.104.05"),
            "proc/1/mountinfo": "36 35 0:40 / /run/ration/shim rw,nosuid,nodev - tmpfs tmpfs rw\n",
            f"run/ration/grants/{UID}/main/grant": "", f"var/run/cdi/ration-{UID}.json": "{}",
            "var/run/cdi/nvidia.yaml": ""}.items():
        node.write(path, text)
    for library in ("libcuda.so", "libnvidia-ml.so"):
        node.write(f"{LIBRARIES}/{library}.535.104.05")
        node.write(f"{LIBRARIES}/{library}.1")
    for file in ("libcuda.so.1", "libnvidia-ml.so.1", "preload"):
        node.write(f"run/ration/shim/0123456789abcdef/{file}")
    return node
