"""The container runtimes that a node can have: containerd and CRI-O. Each says what it is called, how it is configured and
started, and how it gets an image."""

import json
from pathlib import Path

from . import binaries
from .procs import MARK, run

PAUSE_IMAGE = "registry.k8s.io/pause:3.10"


class Containerd:
    program = "containerd"
    socket = "/run/containerd/containerd.sock"

    def __init__(self, node):
        self.node = node

    def arguments(self):
        return ["--config", self.node.folder / "containerd.toml"]

    def files(self):
        """Files that it needs in the node's folder: (name, content, executable)."""
        return [("containerd.toml", self._config(), False)]

    def load(self, image):
        """Brings an image of images.py into the node, under all its names."""
        run(self.node.ctr("images", "import", image.tar), f"image {image.recipe} on {self.node.spec.name}")

    def _config(self):
        return f"""version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE oom_score_adj cannot be lowered, and runc then fails every sandbox.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{self.node.folder / 'cni'}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = {"true" if self.node.lab.cgroup_driver == "systemd" else "false"}
"""


class CriO:
    program = "crio"
    socket = "/run/crio/crio.sock"
    storage = ("--root", "/var/lib/containers/storage", "--runroot", "/run/containers/storage")

    def __init__(self, node):
        self.node = node
        self.folder = node.folder / "crio"

    def arguments(self):
        # What the machine has in /etc/crio and /etc/containers is not the lab's.
        return ["--config", self.folder / "crio.conf", "--config-dir", "", "--registries-conf", self.folder / "registries.conf",
                "--registries-conf-dir", self.folder / "none"]

    def files(self):
        return [("crio/crio.conf", self._config(), False), ("crio/runc", Path(__file__).with_name("crio_runc.py").read_text(), True),
                ("crio/policy.json", json.dumps({"default": [{"type": "insecureAcceptAnything"}]}), False),
                # A name without a registry is docker.io's, as for containerd.
                ("crio/registries.conf", 'unqualified-search-registries = ["docker.io"]\nshort-name-mode = "disabled"\n', False)]

    def load(self, image):
        copy = [binaries.program("copyimg", self.node.lab.kubernetes), *self.storage, "--storage-driver", "overlay",
                "--signature-policy", self.folder / "policy.json", "--image-name", image.names[0]]
        what = f"image {image.recipe} on {self.node.spec.name}"
        run(self.node.enter([*copy, "--import-from", f"docker-archive:{image.tar}"]), what)
        for name in image.names[1:]:
            run(self.node.enter([*copy, "--add-name", name]), what)

    def _config(self):
        driver = self.node.lab.cgroup_driver
        return f"""[crio]
root = "{self.storage[1]}"
runroot = "{self.storage[3]}"
storage_driver = "overlay"
[crio.api]
listen = "{self.socket}"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "{driver}"
pinns_path = "{binaries.program("pinns", self.node.lab.kubernetes)}"
enable_criu_support = false
# The defaults of these are folders of the machine, in which CRI-O would write.
hooks_dir = ["{self.folder / "hooks"}"]
irqbalance_config_restore_file = "disable"
[crio.runtime.runtimes.runc]
runtime_path = "{self.folder / "runc"}"
runtime_root = "/run/runc"
monitor_path = "/usr/bin/conmon"
monitor_cgroup = "pod"
monitor_env = ["{MARK}={self.node.lab.folder}"]
[crio.image]
pause_image = "{PAUSE_IMAGE}"
signature_policy = "{self.folder / "policy.json"}"
[crio.network]
network_dir = "{self.node.folder / "cni"}"
plugin_dirs = ["/usr/lib/cni"]
[crio.nri]
enable_nri = false
"""


_KINDS = {"containerd": Containerd, "cri-o": CriO}


def of_node(node):
    return _KINDS[node.lab.runtime](node)
