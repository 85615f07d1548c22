"""One simulated node: namespaces for network, mounts and processes, and in them a container runtime, kubelet, kube-proxy.

Pid 1 of the node (part `init@NODE`) holds the namespaces; when it ends, the kernel ends everything in them,
containers included, and with the last process the node's mounts are gone. Under the systemd cgroup driver the node has the
machine's pid namespace, and what runs in it is ended by its marks and its cgroup.
"""

import json
import shutil
import signal
import time
from pathlib import Path

from . import binaries, cgroups, network, runtimes
from .errors import LabError
from .patience import deadline_in
from .procs import Part, marked, mount_namespace, run, signal_pid

DRIVER_MOUNT = "/opt/ration-sim"

# What the kubelet wants there and would else write into the host's kernel (container_manager_linux.go,
# setupKernelTunables, 1.36.3). Finding the wanted values, it writes nothing.
_TUNABLES = {"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
             "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000"}

# Runs inside fresh mount and process namespaces: $1 = the node's folder. The shell stays as the node's pid 1.
# - /run, /var, /opt are the node's own, so that /run/containerd, /var/lib/kubelet, /run/cdi and /run/ration,
#   which are constants of their users, do not meet those of the host or of another node.
# - A second /proc without anything mounted over it: a pod with hostUsers=false may mount its own /proc only
#   where some /proc of the namespace is fully visible (fs/namespace.c, mount_too_revealing).
# - Nothing can be executed from /run, as distributions mount it.
# - At last everything shared, so that mounts of a Bidirectional volume reach kubelet and containerd.
_INIT = r"""
set -e
node=$1
mount -t proc proc "$node/proc"
mount -t proc proc /proc
mount -t tmpfs -o size=16m,mode=755 tmpfs "$node/etc"
mkdir "$node/etc/upper" "$node/etc/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$node/etc/upper,workdir=$node/etc/work" /etc
mkdir -p /etc/cdi
while read -r path; do
  mkdir -p "$node/host$path"
  mount --bind "$path" "$node/host$path"
done < "$node/exposed"
for top in run var opt; do
  mount --rbind "$node/host/$top" "/$top"
done
mount -o remount,bind,nosuid,nodev,noexec /run
(cd "$node/tunables" && find . -type f) | while read -r file; do
  if [ -e "/proc/sys/$file" ]; then mount --bind "$node/tunables/$file" "/proc/sys/$file"; fi
done
mount --make-rshared /
: > "$node/ready"
trap : TERM INT
while :; do sleep 3600 & wait $! || :; done
"""


class NodeRuntime:
    """The running side of one layout.Node. `index`, from 1, is in the names of its namespaces and in its pods' addresses;
    it stays when other nodes go."""

    def __init__(self, lab, spec, index):
        self.lab = lab
        self.spec = spec
        self.index = index
        self.folder = lab.folder / "nodes" / spec.name
        self.runtime = runtimes.of_node(self)

    def init(self):
        return Part(self.lab.folder, f"init@{self.spec.name}", wrapped=True)

    def part(self, layer):
        return Part(self.lab.folder, f"{layer}@{self.spec.name}", wrapped=True)

    def layers(self):
        return (self.runtime.program, "kubelet", "kube-proxy")

    def parts(self):
        return [self.init()] + [self.part(layer) for layer in self.layers()]

    def enter(self, argv):
        """The command inside the node; None-safe only after set_up()."""
        pid = self.init().pid()
        if pid is None:
            raise LabError(f"node {self.spec.name} is not running")
        return ["nsenter", f"--net=/run/netns/{network.node_namespace(self.lab.name, self.index)}",
                f"--mount=/proc/{pid}/ns/mnt", f"--pid=/proc/{pid}/ns/pid", "--", *argv]

    def set_up(self):
        """Network, cgroups, driver tree and namespaces; nothing twice."""
        network.set_up_node(self.lab.name, self.lab.slot, self.index, self.spec.address)
        if not self._under_systemd():
            cgroups.set_up(self.lab.name, self.index)
        if self.init().pid() is None:
            self._lay_out()
            self._start_init()
        self._write_configs()

    def power_off(self):
        """Everything in the node is gone at once, and with it all that a kernel remembers; its disks stay."""
        alone = self._processes() if self._under_systemd() else []
        self.init().stop(signal.SIGKILL)
        if self._under_systemd():
            for pid in alone:
                signal_pid(pid, signal.SIGKILL)
            cgroups.end_systemd_pods()
        for part in self.parts():
            part.wait_gone()
        network.tear_down_node(self.lab.name, self.index)
        cgroups.tear_down_node(self.lab.name, self.index)

    def _under_systemd(self):
        return self.lab.cgroup_driver == "systemd"

    def _processes(self):
        """What runs in the node beside its containers, without a pid namespace to tell by: by the mount namespace."""
        mounts = mount_namespace(self.init().pid())
        return [pid for pid in marked(self.lab.folder) if mounts and mount_namespace(pid) == mounts]

    def start(self, layer):
        """Starts the container runtime, kubelet or kube-proxy unless it runs."""
        arguments = {
            self.runtime.program: self.runtime.arguments(),
            "kubelet": [f"--config={self.folder / 'kubelet.json'}", f"--kubeconfig={self._kubeconfig()}",
                        f"--hostname-override={self.spec.name}", f"--node-ip={self.spec.address}",
                        "--root-dir=/var/lib/kubelet", *self._node_labels(), *self._feature_gates()],
            "kube-proxy": [f"--config={self.folder / 'proxy.json'}", f"--hostname-override={self.spec.name}"],
        }[layer]
        program = binaries.program(layer, self.lab.kubernetes)
        environment = {"PATH": ":".join(binaries.path(self.lab.kubernetes, self.lab.runtime)) + ":/usr/sbin:/usr/bin:/sbin:/bin"}
        return self.part(layer).start(self.enter([program, *arguments]), environment)

    def start_runtime(self):
        return self.start(self.runtime.program)

    def socket(self):
        """The container runtime's, as the host sees it."""
        return self.folder / f"host{self.runtime.socket}"

    def wait_runtime(self, timeout=30):
        deadline = deadline_in(timeout)
        part = self.part(self.runtime.program)
        while not self.socket().exists():
            part.check_running()
            if time.monotonic() > deadline:
                raise LabError(f"{self.runtime.program} of {self.spec.name} does not serve:\n{part.log_tail()}")
            time.sleep(0.05)

    def ctr(self, *argv):
        """Arguments that run ctr on this node's containerd, for run() or exec."""
        if self.lab.runtime != "containerd":
            raise LabError(f"ctr is containerd's, and the nodes of lab {self.lab.name} have {self.lab.runtime}")
        return self.enter([binaries.program("ctr", self.lab.kubernetes), "-n", "k8s.io", *argv])

    def ensure_driver(self):
        """The simulated driver of this node's GPUs; `ration-sim up` keeps what exists already."""
        driver = self.folder / "driver"
        driver.mkdir(parents=True, exist_ok=True)
        if not self.spec.cards:
            return
        program = self.lab.product / "sim" / "ration-sim"
        links = ["--links", self.spec.links] if self.spec.links else []
        run([program, "up", driver, "--gpus", self.spec.cards, *links], "simulated GPUs")

    def _lay_out(self):
        for name in ("proc", "etc", "host/run/lock", "host/var/lib/kubelet", "host/var/lib/containerd", "host/var/lib/containers", "host/var/log",
                     "host/var/tmp", "host/var/cache", "host/var/lib/cni", f"host{DRIVER_MOUNT}", "host/run/ration",
                     "host/run/cdi", "cni", "volume-plugins"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        # Leftovers of an earlier boot: sockets and pods' network namespaces do not survive their processes.
        for stale in (self.folder / "host" / "run").iterdir():
            shutil.rmtree(stale) if stale.is_dir() and not stale.is_symlink() else stale.unlink()
        for name in ("lock", "ration", "cdi"):
            (self.folder / "host" / "run" / name).mkdir(exist_ok=True)
        if not (self.folder / "host/var/run").is_symlink():
            (self.folder / "host/var/run").symlink_to("/run")
        (self.folder / "host/var/tmp").chmod(0o1777)
        for name, value in _TUNABLES.items():
            path = self.folder / "tunables" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(value + "\n")
        self.ensure_driver()
        (self.folder / "resolv.conf").write_text("")    # the lab has no DNS
        exposed = [str(path) for path in self._needed_paths() if path.parts[1] in ("run", "var", "opt")]
        if self._under_systemd():
            exposed += ["/run/systemd", "/run/dbus"]    # whom runc and the kubelet ask for a cgroup
        (self.folder / "exposed").write_text("".join(path + "\n" for path in exposed))

    def _needed_paths(self):
        """Folders outside /run, /var and /opt stay visible by themselves."""
        return [self.lab.folder, *map(Path, binaries.path(self.lab.kubernetes, self.lab.runtime))]

    def _start_init(self):
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        script = self.folder / "init.sh"
        driver_mount = f'mount --bind "$node/driver" "$node/host{DRIVER_MOUNT}"\n'
        script.write_text(_INIT.replace("for top in", driver_mount + "for top in", 1))
        namespace = network.node_namespace(self.lab.name, self.index)
        self.init().start(network.inside(namespace, ["unshare", "--mount", "--propagation", "private",
                                                     # runc tells systemd the pids that it sees itself.
                                                     *([] if self._under_systemd() else ["--pid"]), "--fork", "/bin/sh", str(script), str(self.folder)]))
        deadline = deadline_in(60)
        while not ready.exists():
            self.init().check_running()
            if time.monotonic() > deadline:
                raise LabError(f"node {self.spec.name} is not ready after 60 s:\n{self.init().log_tail()}")
            time.sleep(0.02)

    def _kubeconfig(self):
        return self.lab.pki.node_kubeconfig(self.spec.name)

    def _node_labels(self):
        labels = ",".join(f"{key}={value}" for key, value in self.spec.labels().items())
        return [f"--node-labels={labels}"] if labels else []

    def _feature_gates(self):
        return [f"--feature-gates={self.lab.feature_gates}"] if self.lab.feature_gates else []

    def _write_configs(self):
        for name, text, executable in (*self.runtime.files(), ("cni/10-lab.conflist", _json(self._cni()), False),
                                       ("kubelet.json", _json(self._kubelet()), False), ("proxy.json", _json(self._proxy()), False)):
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            # kube-proxy ends when its file is written, even with the same content.
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
            if executable:
                path.chmod(0o755)

    def _cni(self):
        ranges = [[{"subnet": network.pod_cidr(self.index)}]]
        return {"cniVersion": "1.0.0", "name": "lab", "plugins": [
            {"type": "ptp", "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}},
            {"type": "portmap", "capabilities": {"portMappings": True}}]}

    def _kubelet(self):
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{self.runtime.socket}",
            "cgroupDriver": self.lab.cgroup_driver,
            **({} if self._under_systemd() else {"cgroupRoot": f"/{cgroups.root_name(self.lab.name, self.index)}"}),
            "failCgroupV1": False, "enforceNodeAllocatable": [], "failSwapOn": False,
            # The machine's disk is not the node's: neither its fullness nor its images are this kubelet's business.
            "evictionHard": {}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
            "localStorageCapacityIsolation": False,
            # Lab only: the kubelet's port is reachable from inside the lab's namespaces alone.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "nodeStatusUpdateFrequency": "2s", "resolvConf": str(self.folder / "resolv.conf"),
            # Nobody serves there, and a query fails at once; without the setting every pod gets a warning.
            "clusterDNS": ["10.96.0.10"], "clusterDomain": "cluster.local",
            "volumePluginDir": str(self.folder / "volume-plugins"), "maxPods": 200, "serializeImagePulls": False,
        }

    def _proxy(self):
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables",
            "clientConnection": {"kubeconfig": str(self.lab.pki.kubeconfig("proxy"))},
            "clusterCIDR": network.POD_CIDR, "nodePortAddresses": [f"{self.spec.address}/32"],
            "iptables": {"masqueradeAll": True, "minSyncPeriod": "0.2s"},
            # The connection table's limits are the machine's, not this namespace's.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }


def _json(fields):
    return json.dumps(fields, indent=1) + "\n"


def restart_layer(node, layer, number):
    """Ends one program of a node and starts it again."""
    node.part(layer).stop(number, 20)
    if layer == node.runtime.program:
        # A socket file of the ended program would look like a serving one.
        node.socket().unlink(missing_ok=True)
    node.start(layer)
    if layer == node.runtime.program:
        node.wait_runtime()
