"""ration doctor --node on a node that is a folder: each check is silent where all is well, and tells its fault."""
import shutil
import subprocess

import pytest

import doctor_report
from doctor_host import CONFIG_2, CONTAINERD, ENDPOINTS, GONE, KERNEL, KUBELET, LIBRARIES, NVIDIA, RATION

CHECKS = ["runtime", "cdi", "cgroups", "runc", "nvidia-runtime", "driver", "cpu-manager", "device-plugins", "shim", "leftovers"]


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


def two_drivers(kubelet="v1.36.3", containerd="v2.1.4"):
    """Their configurations say different cgroup drivers; None: a program does not say its version."""
    def change(host):
        host.change(CONTAINERD, "SystemdCgroup = true", "SystemdCgroup = false")
        host.program("kubelet", kubelet and f"Kubernetes {kubelet}")
        host.containerd(containerd) if containerd else host.program("containerd", None)
    return change


def runc(version):
    def change(host):
        host.program("runc", f"runc version {version}\ncommit: abc\nspec: 1.0.2-dev")
        host.write("dev/nvidia0")
    return change


def static_without_cdi(host):
    host.write(KUBELET + "/cpu_manager_state", '{"policyName":"static"}')
    host.change(CONTAINERD, "enable_cdi = true", "enable_cdi = false")


def test_a_container_runtime_that_was_never_tried_is_told(host):
    host.write(KUBELET + "/config.yaml", "containerRuntimeEndpoint: unix:///run/cri-dockerd.sock\n")
    host.write(KUBELET + "/cpu_manager_state", '{"policyName":"static"}')
    host.change(CONTAINERD, "enable_cdi = true", "enable_cdi = false")    # of a containerd that is Docker's
    status, findings, states = host.examine()
    assert [f[:3] for f in findings] == [("runtime", "warning", "/run/cri-dockerd.sock")]
    assert "is Docker; ration was tried with containerd and CRI-O only" in findings[0][3] and status == 1
    assert {check for check, state in states.items() if state == "unknown"} == {"cdi", "runc", "nvidia-runtime", "cpu-manager"}
    said = host.doctor().stdout
    assert "unknown  cdi: could not look: the kubelet's container runtime is Docker, neither containerd nor CRI-O" in said


@pytest.mark.parametrize("path,text", ENDPOINTS)
def test_containerd_is_known_wherever_its_socket_is(host, path, text):
    host.write(path, text.format("unix:///run/k3s/containerd/containerd.sock"))
    assert host.examine()[1] == []


STATE = "/var/lib/kubelet/cpu_manager_state"
FAULTS = [
    # what, change, check, severity, where, words of what is said, words of the command
    ("old-containerd", old_containerd, "runtime", "error", "containerd", "1.6.33 does not support CDI", ""),
    ("cdi-off", changed(CONTAINERD, "enable_cdi = true", "enable_cdi = false"), "cdi", "error", "/" + CONTAINERD,
     "does not apply CDI", "enable_cdi = true"),
    ("cdi-default", cdi_by_default, "cdi", "error", "/" + CONTAINERD, "does not apply CDI", "systemctl restart containerd"),
    ("cdi-dirs", changed(CONTAINERD, "'/etc/cdi', '/var/run/cdi'", "'/etc/cdi'"), "cdi", "error", "/" + CONTAINERD,
     "does not read /var/run/cdi", "cdi_spec_dirs"),
    ("cgroup-v1", cgroup_v1, "cgroups", "note", "/sys/fs/cgroup", "cgroup v1", ""),
    ("two-drivers-kubelet-1.30", two_drivers(kubelet="v1.30.14"), "cgroups", "warning", "/" + CONTAINERD,
     "cgroup driver is systemd and containerd's is cgroupfs", "SystemdCgroup = true"),
    ("two-drivers-containerd-1.7", two_drivers(containerd="v1.7.27"), "cgroups", "warning", "/" + CONTAINERD,
     "cgroup driver is systemd and containerd's is cgroupfs", "SystemdCgroup = true"),
    *((f"runc-{version}", runc(version), "runc", "error", "runc", f"runc {version} with the systemd cgroup driver",
       "nvidia-ctk system create-dev-char-symlinks --create-all") for version in ("1.1.3", "1.1.5+ds1", "1.1.6")),
    ("envvar", nvidia("#accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"), "nvidia-runtime", "warning",
     "/" + NVIDIA, "runtimeClassName gets each GPU", "nvidia-ctk config --in-place --set accept-nvidia-visible"),
    ("envvar-default", nvidia("accept-nvidia-visible-devices-envvar-when-unprivileged = true\n", "nvidia"), "nvidia-runtime",
     "error", "/" + NVIDIA, "every container (nvidia is the default runtime)", "nvidia-ctk config"),
    ("nvidia-default", nvidia(WITHOUT_ENVVAR, "nvidia"), "nvidia-runtime", "note", "/" + CONTAINERD, "default runtime", ""),
    ("no-driver", removed(LIBRARIES), "driver", "error", "/", "libcuda.so of the NVIDIA driver is missing", "driverRoot"),
    ("no-module", removed("proc/driver/nvidia/version"), "driver", "error", "/proc/driver/nvidia/version", "not loaded",
     "modprobe nvidia"),
    ("two-versions", written("proc/driver/nvidia/version", KERNEL.format("550.54.14")), "driver", "error",
     "/proc/driver/nvidia/version", "550.54.14, but libcuda.so is of 535.104.05", "reboot"),
    ("old-driver", driver("418.67"), "driver", "error", "/", "418.67 is lower than 418.87.01", ""),
    ("static", written(KUBELET + "/cpu_manager_state", '{"policyName":"static"}'), "cpu-manager", "note", STATE,
     "documents forbid", ""),
    ("static-without-cdi", static_without_cdi, "cpu-manager", "warning", STATE, "without CDI", "enable CDI"),
    ("nvidia-plugin", written(KUBELET + "/device-plugins/nvidia-gpu.sock"), "device-plugins", "error",
     "/var/lib/kubelet/device-plugins/nvidia-gpu.sock", "offers the same GPUs", "kubectl get pods -A"),
    ("no-kubelet-socket", removed(KUBELET + "/device-plugins/kubelet.sock"), "device-plugins", "error",
     "/var/lib/kubelet/device-plugins/kubelet.sock", "cannot register at the kubelet", "systemctl restart kubelet"),
    ("gpushare-plugin", written(KUBELET + "/device-plugins/aliyungpushare.sock"), "device-plugins", "error",
     "/var/lib/kubelet/device-plugins/aliyungpushare.sock", "offers the same GPUs", "kubectl get pods -A"),
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
    assert unknown == {"runtime", "cdi", "cgroups", "runc", "nvidia-runtime", "cpu-manager", "device-plugins", "leftovers"}
    assert {f[0] for f in findings} == {"driver", "shim"} and status == 1
    assert "no socket of containerd" in host.doctor().stdout


def test_a_configuration_that_cannot_be_read_is_unknown(host):
    host.remove(CONTAINERD)
    _, _, states = host.examine()
    assert (states["runtime"], states["cdi"], states["nvidia-runtime"]) == ("ok", "unknown", "unknown")


@pytest.mark.parametrize("kubelet", ["v1.31.0", "v1.36.3", "v1.40.0-alpha.1"])
def test_a_kubelet_that_takes_its_cgroup_driver_from_containerd_has_only_one(host, kubelet):
    two_drivers(kubelet=kubelet, containerd="v2.0.0")(host)
    assert host.examine()[:2] == (0, [])


@pytest.mark.parametrize("kubelet,containerd", [(None, "v2.1.4"), ("v1.36.3", None)])
def test_two_cgroup_drivers_are_unknown_where_a_version_is(host, kubelet, containerd):
    two_drivers(kubelet=kubelet, containerd=containerd)(host)
    _, findings, states = host.examine()
    assert states["cgroups"] == "unknown" and not [f for f in findings if f[0] == "cgroups"]


def test_a_runc_that_keeps_devices_is_well(host):
    for said in ("runc version 1.1.2", "runc version 1.1.7", "runc version 1.3.0", "crun version 1.1.5"):
        host.program("runc", said)
        host.write("dev/nvidia0")
        assert host.examine()[1] == [], said


def test_a_runc_that_loses_devices_is_well_with_cgroupfs(host):
    runc("1.1.5")(host)
    host.change(CONTAINERD, "SystemdCgroup = true", "SystemdCgroup = false")
    assert not [f for f in host.examine()[1] if f[0] == "runc"]


def test_links_in_dev_char_keep_the_devices_of_any_runc(host):
    runc("1.1.5")(host)
    host.write("dev/nvidiactl")
    (host.root / "dev/char").mkdir()
    (host.root / "dev/char/195:0").symlink_to("../nvidia0")
    assert [f[0] for f in host.examine()[1]] == ["runc"]    # nvidiactl has none
    (host.root / "dev/char/195:255").symlink_to("../nvidiactl")
    assert host.examine()[1] == []


def test_a_runc_that_says_nothing_is_unknown(host):
    host.program("runc", None)
    assert host.examine()[2]["runc"] == "unknown"


@pytest.mark.parametrize("binary,found", [("/opt/runc-1.1/runc", True), ("/usr/bin/nvidia-container-runtime", False),
                                          ("/opt/$(reboot)/runc", False)])
def test_the_runc_of_containerds_configuration_is_asked(host, binary, found):
    """What is not clearly the path of a runc does not go to a shell; the runc of the PATH is asked."""
    host.change(CONTAINERD, "SystemdCgroup = true", f"SystemdCgroup = true\n          BinaryName = '{binary}'")
    own = host.bin.parent / "runc"
    own.write_text("#!/bin/sh\necho runc version 1.1.4\n")
    own.chmod(0o755)
    (host.bin / "chroot").write_text(f'#!/bin/sh\nshift\n[ "$1" = {binary!r} ] && exec {own}\nexec "$@"\n')
    told = [f[3] for f in host.examine()[1] if f[0] == "runc"]
    assert bool(told) == found and (not found or "runc 1.1.4" in told[0])


def test_the_default_runtime_says_which_cgroup_driver_containers_have(host):
    runc("1.1.5")(host)
    host.change(CONTAINERD, "default_runtime_name = 'runc'", "default_runtime_name = 'nvidia'")
    host.change(CONTAINERD, "SystemdCgroup = true", "SystemdCgroup = false")
    host.write(CONTAINERD, host.read(CONTAINERD) + NVIDIA_RUNTIME + "  SystemdCgroup = true\n")
    host.write(NVIDIA, WITHOUT_ENVVAR)
    assert [f[1] for f in host.examine()[1] if f[0] == "runc"] == ["error"]


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


@pytest.mark.parametrize("args,words", [(["--root", "x"], "--root: invalid value"),
                                        (["--scheduler-config"], "--node and --scheduler-config exclude each other")])
def test_wrong_arguments_are_refused(host, args, words):
    done = host.doctor(*args)
    assert done.returncode == 2 and words in done.stderr


def test_a_root_without_node_is_refused():
    done = subprocess.run([RATION, "doctor", "--root", "/"], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 2 and "--root and --driver-root need --node" in done.stderr
