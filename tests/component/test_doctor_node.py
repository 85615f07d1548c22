"""ration doctor --node on a node that is a folder: each check is silent where all is well, and tells its fault."""
import os
import pathlib
import shutil
import subprocess

import pytest

import doctor_report

RATION = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve() / "src/cli/ration"
CHECKS = ["runtime", "cdi", "cgroups", "nvidia-runtime", "driver", "cpu-manager", "device-plugins", "shim", "leftovers"]
UID, GONE = "0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002"
KUBELET, LIBRARIES = "var/lib/kubelet", "usr/lib/x86_64-linux-gnu"
CONTAINERD, NVIDIA = "etc/containerd/config.toml", "etc/nvidia-container-runtime/config.toml"
KERNEL = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc 12.2.0\n"
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
CONFIG_1 = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
  enable_cdi = true
  cdi_spec_dirs = [
    "/etc/cdi",
    "/var/run/cdi",
  ]
[plugins."io.containerd.grpc.v1.cri".containerd]
  default_runtime_name = "runc" # "nvidia" would be another
"""
NVIDIA_RUNTIME = """
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
  BinaryName = '/usr/bin/nvidia-container-runtime'
"""
WITHOUT_ENVVAR = "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n[nvidia-container-cli]\nroot = '/'\n"


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
        """What is on the node's PATH; `chroot ROOT PROGRAM` runs it here."""
        self.bin.mkdir(exist_ok=True)
        for name, text in (("chroot", 'shift; exec "$@"'), ("containerd",
                           f'[ "$1" = --version ] && echo "containerd github.com/containerd/containerd/v2 {version} 75cb2b71"')):
            (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.bin / name).chmod(0o755)

    def doctor(self, *args):
        return subprocess.run([RATION, "doctor", "--node", f"--root={self.root}", f"--driver-root={self.driver_root}", *args],
                              capture_output=True, text=True, timeout=10, check=False,
                              env=os.environ | {"PATH": f"{self.bin}:{os.environ['PATH']}", "KUBECTL": "/nonexistent"})

    def examine(self):
        return doctor_report.read(self.doctor("-o", "json"))


@pytest.fixture
def node(tmp_path):
    """A healthy node: containerd 2.1, driver 535, an agent that served, a pod with its grant."""
    node = Node(tmp_path)
    node.containerd("v2.1.4")
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


def test_a_healthy_node_has_no_findings(node):
    status, findings, states = node.examine()
    assert findings == []
    assert states == {check: "ok" for check in CHECKS} and list(states) == CHECKS
    assert status == 0


def test_containerd_1_7_with_cdi_is_well(node):
    node.containerd("v1.7.27")
    node.write(CONTAINERD, CONFIG_1)
    assert node.examine()[1] == []


def changed(path, old, new):
    return lambda node: node.change(path, old, new)


def written(path, text=""):
    return lambda node: node.write(path, text)


def removed(path):
    return lambda node: node.remove(path)


def old_containerd(node):
    node.containerd("1.6.33")
    node.write(CONTAINERD, CONFIG_1)


def cdi_by_default(node):
    node.containerd("v1.7.27")
    node.write(CONTAINERD, CONFIG_1.replace("  enable_cdi = true\n", ""))


def nvidia(config, default="runc"):
    def change(node):
        node.write(CONTAINERD, CONFIG_2.replace("'runc'", f"'{default}'") + NVIDIA_RUNTIME)
        node.write(NVIDIA, config)
    return change


def driver(version):
    def change(node):
        node.write("proc/driver/nvidia/version", KERNEL.format(version))
        for library in ("libcuda.so", "libnvidia-ml.so"):
            node.remove(f"{LIBRARIES}/{library}.535.104.05")
            node.write(f"{LIBRARIES}/{library}.{version}")
    return change


def cgroup_v1(node):
    node.remove("sys/fs/cgroup/cgroup.controllers")
    node.write("sys/fs/cgroup/memory/tasks")


def static_without_cdi(node):
    node.write(KUBELET + "/cpu_manager_state", '{"policyName":"static"}')
    node.change(CONTAINERD, "enable_cdi = true", "enable_cdi = false")


CRIO = "unix:///var/run/crio/crio.sock"
ENDPOINTS = [(KUBELET + "/config.yaml", f"containerRuntimeEndpoint: {CRIO}\n"),
             (KUBELET + "/instance-config.yaml", f'containerRuntimeEndpoint: "{CRIO}"\n'),
             (KUBELET + "/kubeadm-flags.env", f'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint={CRIO} --v=2"\n')]


@pytest.mark.parametrize("path,text", [*ENDPOINTS, ("run/crio/crio.sock", "")])
def test_another_container_runtime_is_named_and_not_judged(node, path, text):
    """Docker's containerd may be there beside it."""
    node.write(path, text)
    node.write(KUBELET + "/cpu_manager_state", '{"policyName":"static"}')
    if not text:
        node.remove("run/containerd")
    node.change(CONTAINERD, "enable_cdi = true", "enable_cdi = false")
    status, findings, states = node.examine()
    assert [f[:3] for f in findings] == [("runtime", "warning", "/var/run/crio/crio.sock" if text else "/run/crio/crio.sock")]
    assert "CRI-O" in findings[0][3] and "tried with containerd only" in findings[0][3] and status == 1
    assert {check for check, state in states.items() if state == "unknown"} == {"cdi", "nvidia-runtime", "cpu-manager"}
    said = node.doctor().stdout
    assert "unknown  cdi: could not look: the kubelet's container runtime is CRI-O, not containerd" in said


@pytest.mark.parametrize("path,text", ENDPOINTS)
def test_containerd_is_known_wherever_its_socket_is(node, path, text):
    node.write(path, text.replace("/var/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock"))
    assert node.examine()[1] == []


STATE = "/var/lib/kubelet/cpu_manager_state"
FAULTS = [
    # what, change, check, severity, where, words of what is said, words of the command
    ("old-containerd", old_containerd, "runtime", "error", "containerd", "1.6.33 knows no CDI", ""),
    ("cdi-off", changed(CONTAINERD, "enable_cdi = true", "enable_cdi = false"), "cdi", "error", "/" + CONTAINERD,
     "does not apply CDI", "enable_cdi = true"),
    ("cdi-default", cdi_by_default, "cdi", "error", "/" + CONTAINERD, "does not apply CDI", "systemctl restart containerd"),
    ("cdi-dirs", changed(CONTAINERD, "'/etc/cdi', '/var/run/cdi'", "'/etc/cdi'"), "cdi", "error", "/" + CONTAINERD,
     "does not read /var/run/cdi", "cdi_spec_dirs"),
    ("cgroup-v1", cgroup_v1, "cgroups", "note", "/sys/fs/cgroup", "cgroup v1", ""),
    ("two-drivers", changed(CONTAINERD, "SystemdCgroup = true", "SystemdCgroup = false"), "cgroups", "warning",
     "/" + CONTAINERD, "cgroup driver is systemd and containerd's is cgroupfs", "SystemdCgroup = true"),
    ("envvar", nvidia("#accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"), "nvidia-runtime", "warning",
     "/" + NVIDIA, "runtimeClassName gets each card", "nvidia-ctk config --in-place --set accept-nvidia-visible"),
    ("envvar-default", nvidia("accept-nvidia-visible-devices-envvar-when-unprivileged = true\n", "nvidia"), "nvidia-runtime",
     "error", "/" + NVIDIA, "every container (nvidia is the default runtime)", "nvidia-ctk config"),
    ("nvidia-default", nvidia(WITHOUT_ENVVAR, "nvidia"), "nvidia-runtime", "note", "/" + CONTAINERD, "default runtime", ""),
    ("no-driver", removed(LIBRARIES), "driver", "error", "/", "libcuda.so of the NVIDIA driver is not there", "driverRoot"),
    ("no-module", removed("proc/driver/nvidia/version"), "driver", "error", "/proc/driver/nvidia/version", "not loaded",
     "modprobe nvidia"),
    ("two-versions", written("proc/driver/nvidia/version", KERNEL.format("550.54.14")), "driver", "error",
     "/proc/driver/nvidia/version", "550.54.14, but libcuda.so is of 535.104.05", "reboot"),
    ("old-driver", driver("418.67"), "driver", "error", "/", "418.67 is lower than 418.87.01", ""),
    ("static", written(KUBELET + "/cpu_manager_state", '{"policyName":"static"}'), "cpu-manager", "note", STATE,
     "the documents forbid", ""),
    ("static-without-cdi", static_without_cdi, "cpu-manager", "warning", STATE, "without CDI", "enable CDI"),
    ("nvidia-plugin", written(KUBELET + "/device-plugins/nvidia-gpu.sock"), "device-plugins", "error",
     "/var/lib/kubelet/device-plugins/nvidia-gpu.sock", "gives the same cards away", "kubectl get pods -A"),
    ("no-kubelet-socket", removed(KUBELET + "/device-plugins/kubelet.sock"), "device-plugins", "error",
     "/var/lib/kubelet/device-plugins/kubelet.sock", "cannot register at the kubelet", "systemctl restart kubelet"),
    ("gpushare-plugin", written(KUBELET + "/device-plugins/aliyungpushare.sock"), "device-plugins", "error",
     "/var/lib/kubelet/device-plugins/aliyungpushare.sock", "gives the same cards away", "kubectl get pods -A"),
    ("never-served", removed("run/ration"), "shim", "warning", "/run/ration", "no ration-agent has served", "get pods"),
    ("no-shim", removed("run/ration/shim"), "shim", "note", "/run/ration/shim", "no isolated mode", ""),
    ("torn-shim", removed("run/ration/shim/0123456789abcdef/preload"), "shim", "error",
     "/run/ration/shim/0123456789abcdef/preload", "missing", "delete pod"),
    ("noexec", changed("proc/1/mountinfo", "rw,nosuid", "rw,noexec,nosuid"), "shim", "error", "/run/ration/shim", "noexec",
     "mount -o remount,exec /run/ration/shim"),
    ("left-grant", written(f"run/ration/grants/{GONE}/main/grant"), "leftovers", "warning", f"/run/ration/grants/{GONE}",
     "the kubelet does not have", f"umount /run/ration/grants/{GONE}; rm -r /run/ration/grants/{GONE}"),
    ("left-cdi", written(f"var/run/cdi/ration-{GONE}.json"), "leftovers", "warning", f"/var/run/cdi/ration-{GONE}.json",
     "the kubelet does not have", f"rm /var/run/cdi/ration-{GONE}.json"),
]


@pytest.mark.parametrize("change,check,severity,where,what,mend", [fault[1:] for fault in FAULTS],
                         ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_told_by_its_check_with_what_mends_it(node, change, check, severity, where, what, mend):
    change(node)
    doctor_report.assert_tells(node.examine(), check, severity, where, what, mend)


def test_every_check_has_a_fault():
    assert {fault[2] for fault in FAULTS} == set(CHECKS)


def test_what_is_no_node_is_unknown_and_never_well(node):
    shutil.rmtree(node.root)
    node.root.mkdir()
    status, findings, states = node.examine()
    unknown = {check for check, state in states.items() if state == "unknown"}
    assert unknown == {"runtime", "cdi", "cgroups", "nvidia-runtime", "cpu-manager", "device-plugins", "leftovers"}
    assert {f[0] for f in findings} == {"driver", "shim"} and status == 1
    assert "no socket of containerd" in node.doctor().stdout


def test_a_configuration_that_cannot_be_read_is_unknown(node):
    node.remove(CONTAINERD)
    _, _, states = node.examine()
    assert (states["runtime"], states["cdi"], states["nvidia-runtime"]) == ("ok", "unknown", "unknown")


def test_the_drivers_files_may_lie_elsewhere(node):
    node.driver_root = "/opt/driver"
    assert [f[0] for f in node.examine()[1]] == ["driver"]
    for library in ("libcuda.so", "libnvidia-ml.so"):
        node.write(f"opt/driver/usr/lib64/{library}.535.104.05")
    assert node.examine()[1] == []


def test_names_of_files_become_no_part_of_a_command(node):
    node.write("run/ration/grants/$(reboot)/x")
    node.write("var/run/cdi/ration-a;reboot.json")
    _, findings, _ = node.examine()
    assert not any("reboot" in f[4] for f in findings)


@pytest.mark.parametrize("args,words", [(["--root", "x"], "--root is no absolute path"),
                                        (["--scheduler-config"], "either --node or --scheduler-config")])
def test_wrong_arguments_are_refused(node, args, words):
    done = node.doctor(*args)
    assert done.returncode == 2 and words in done.stderr


def test_a_root_without_node_is_refused():
    done = subprocess.run([RATION, "doctor", "--root", "/"], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 2 and "belong to --node" in done.stderr
