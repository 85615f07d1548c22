"""ration doctor --node on a node that is a folder: each check is silent where all is well, and tells its fault."""
import shutil
import subprocess

import pytest

import doctor_report
from doctor_host import CONFIG_2, CONTAINERD, GONE, KERNEL, KUBELET, LIBRARIES, NVIDIA, RATION

CHECKS = ["runtime", "cdi", "cgroups", "nvidia-runtime", "driver", "cpu-manager", "device-plugins", "shim", "leftovers"]


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


def test_a_healthy_node_has_no_findings(host):
    status, findings, states = host.examine()
    assert findings == []
    assert states == {check: "ok" for check in CHECKS} and list(states) == CHECKS
    assert status == 0


def test_containerd_1_7_with_cdi_is_well(host):
    host.containerd("v1.7.27")
    host.write(CONTAINERD, CONFIG_1)
    assert host.examine()[1] == []


def changed(path, old, new):
    return lambda host: host.change(path, old, new)


def written(path, text=""):
    return lambda host: host.write(path, text)


def removed(path):
    return lambda host: host.remove(path)


def old_containerd(host):
    host.containerd("1.6.33")
    host.write(CONTAINERD, CONFIG_1)


def cdi_by_default(host):
    host.containerd("v1.7.27")
    host.write(CONTAINERD, CONFIG_1.replace("  enable_cdi = true\n", ""))


def nvidia(config, default="runc"):
    def change(host):
        host.write(CONTAINERD, CONFIG_2.replace("'runc'", f"'{default}'") + NVIDIA_RUNTIME)
        host.write(NVIDIA, config)
    return change


def driver(version):
    def change(host):
        host.write("proc/driver/nvidia/version", KERNEL.format(version))
        for library in ("libcuda.so", "libnvidia-ml.so"):
            host.remove(f"{LIBRARIES}/{library}.535.104.05")
            host.write(f"{LIBRARIES}/{library}.{version}")
    return change


def cgroup_v1(host):
    host.remove("sys/fs/cgroup/cgroup.controllers")
    host.write("sys/fs/cgroup/memory/tasks")


def static_without_cdi(host):
    host.write(KUBELET + "/cpu_manager_state", '{"policyName":"static"}')
    host.change(CONTAINERD, "enable_cdi = true", "enable_cdi = false")


CRIO = "unix:///var/run/crio/crio.sock"
ENDPOINTS = [(KUBELET + "/config.yaml", f"containerRuntimeEndpoint: {CRIO}\n"),
             (KUBELET + "/instance-config.yaml", f'containerRuntimeEndpoint: "{CRIO}"\n'),
             (KUBELET + "/kubeadm-flags.env", f'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint={CRIO} --v=2"\n')]


@pytest.mark.parametrize("path,text", [*ENDPOINTS, ("run/crio/crio.sock", "")])
def test_another_container_runtime_is_named_and_not_judged(host, path, text):
    """Docker's containerd may be there beside it."""
    host.write(path, text)
    host.write(KUBELET + "/cpu_manager_state", '{"policyName":"static"}')
    if not text:
        host.remove("run/containerd")
    host.change(CONTAINERD, "enable_cdi = true", "enable_cdi = false")
    status, findings, states = host.examine()
    assert [f[:3] for f in findings] == [("runtime", "warning", "/var/run/crio/crio.sock" if text else "/run/crio/crio.sock")]
    assert "CRI-O" in findings[0][3] and "tried with containerd only" in findings[0][3] and status == 1
    assert {check for check, state in states.items() if state == "unknown"} == {"cdi", "nvidia-runtime", "cpu-manager"}
    said = host.doctor().stdout
    assert "unknown  cdi: could not look: the kubelet's container runtime is CRI-O, not containerd" in said


@pytest.mark.parametrize("path,text", ENDPOINTS)
def test_containerd_is_known_wherever_its_socket_is(host, path, text):
    host.write(path, text.replace("/var/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock"))
    assert host.examine()[1] == []


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
def test_a_fault_is_told_by_its_check_with_what_mends_it(host, change, check, severity, where, what, mend):
    change(host)
    doctor_report.assert_tells(host.examine(), check, severity, where, what, mend)


def test_every_check_has_a_fault():
    assert {fault[2] for fault in FAULTS} == set(CHECKS)


def test_what_is_no_node_is_unknown_and_never_well(host):
    shutil.rmtree(host.root)
    host.root.mkdir()
    status, findings, states = host.examine()
    unknown = {check for check, state in states.items() if state == "unknown"}
    assert unknown == {"runtime", "cdi", "cgroups", "nvidia-runtime", "cpu-manager", "device-plugins", "leftovers"}
    assert {f[0] for f in findings} == {"driver", "shim"} and status == 1
    assert "no socket of containerd" in host.doctor().stdout


def test_a_configuration_that_cannot_be_read_is_unknown(host):
    host.remove(CONTAINERD)
    _, _, states = host.examine()
    assert (states["runtime"], states["cdi"], states["nvidia-runtime"]) == ("ok", "unknown", "unknown")


def test_the_drivers_files_may_lie_elsewhere(host):
    host.driver_root = "/opt/driver"
    assert [f[0] for f in host.examine()[1]] == ["driver"]
    for library in ("libcuda.so", "libnvidia-ml.so"):
        host.write(f"opt/driver/usr/lib64/{library}.535.104.05")
    assert host.examine()[1] == []


def test_names_of_files_become_no_part_of_a_command(host):
    host.write("run/ration/grants/$(reboot)/x")
    host.write("var/run/cdi/ration-a;reboot.json")
    _, findings, _ = host.examine()
    assert not any("reboot" in f[4] for f in findings)


@pytest.mark.parametrize("args,words", [(["--root", "x"], "--root is no absolute path"),
                                        (["--scheduler-config"], "either --node or --scheduler-config")])
def test_wrong_arguments_are_refused(host, args, words):
    done = host.doctor(*args)
    assert done.returncode == 2 and words in done.stderr


def test_a_root_without_node_is_refused():
    done = subprocess.run([RATION, "doctor", "--root", "/"], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 2 and "belong to --node" in done.stderr
