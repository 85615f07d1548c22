"""ration doctor --node on a node with CRI-O: the checks that ask the container runtime ask CRI-O."""
import pytest

import doctor_report
from doctor_host import CONFIG_CRIO, CONTAINERD, ENDPOINTS, KUBELET, NVIDIA

DROP_INS = "/etc/crio/crio.conf.d"
NVIDIA_RUNTIME = """      [crio.runtime.runtimes.nvidia]
        runtime_path = "/usr/bin/nvidia-container-runtime"
"""


def config(*changes):
    """CRI-O's, with each (old, new) replaced."""
    text = CONFIG_CRIO
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


WITH_RUNC = ('default_runtime = "crun"', 'default_runtime = "runc"')
WITH_NVIDIA = ('      [crio.runtime.runtimes.runc]\n', NVIDIA_RUNTIME + '      [crio.runtime.runtimes.runc]\n')
BY_NVIDIA = ('default_runtime = "crun"', 'default_runtime = "nvidia"')
CGROUPFS = ('cgroup_manager = "systemd"', 'cgroup_manager = "cgroupfs"')


def old_runc(host):
    host.program("runc", "runc version 1.1.5\ncommit: abc")
    host.write("dev/nvidia0")


@pytest.mark.parametrize("version", ["1.34.0", "1.34.4", "1.36.1", "2.0.0"])
def test_a_healthy_node_with_cri_o_has_no_findings(host, version):
    """What containerd's configuration says, which is there beside it, does not count."""
    host.change(CONTAINERD, "enable_cdi = true", "enable_cdi = false")
    host.crio(version)
    status, findings, states = host.examine()
    assert (status, findings, set(states.values())) == (0, [], {"ok"})


@pytest.mark.parametrize("path,text", [*ENDPOINTS, ("run/crio/crio.sock", "")])
def test_cri_o_is_known_wherever_its_socket_is_named(host, path, text):
    host.crio("1.34.0", config(("/var/run/cdi", "/opt/cdi")), "/var/run/crio/crio.sock" if text else "/run/crio/crio.sock")
    host.remove(KUBELET + "/config.yaml")
    host.write(path, text.format("unix:///var/run/crio/crio.sock"))
    if not text:
        host.remove("run/containerd")
    assert [f[:3] for f in host.examine()[1]] == [("cdi", "error", DROP_INS)]


FAULTS = [
    # what, CRI-O's configuration, the rest, check, severity, where, words of what is said, words of the command
    ("cdi-dirs", config(("/var/run/cdi", "/opt/cdi")), None, "cdi", "error", DROP_INS, "CRI-O does not read /var/run/cdi",
     "systemctl restart crio"),
    ("runc", config(WITH_RUNC), old_runc, "runc", "error", "runc", "runc 1.1.5 with the systemd cgroup driver",
     "nvidia-ctk system create-dev-char-symlinks --create-all"),
    ("runc-below-nvidias", config(BY_NVIDIA, WITH_NVIDIA),
     lambda host: (old_runc(host), host.write(NVIDIA, "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n")),
     "runc", "error", "runc", "runc 1.1.5 with the systemd cgroup driver", "nvidia-ctk"),
    ("envvar", config(WITH_NVIDIA), None, "nvidia-runtime", "warning", "/" + NVIDIA, "runtimeClassName gets each", "nvidia-ctk config"),
    ("envvar-default", config(BY_NVIDIA, WITH_NVIDIA), None, "nvidia-runtime", "error", "/" + NVIDIA,
     "every container (nvidia is the default runtime)", "nvidia-ctk config"),
    ("two-drivers", config(CGROUPFS), lambda host: host.program("kubelet", "Kubernetes v1.30.14"), "cgroups", "warning", DROP_INS,
     "cgroup driver is systemd and CRI-O's is cgroupfs", "cgroup_manager"),
    ("static", config(), lambda host: host.write(KUBELET + "/cpu_manager_state", '{"policyName":"static"}'), "cpu-manager", "note",
     "/var/lib/kubelet/cpu_manager_state", "because of CDI, containers keep", ""),
]


@pytest.mark.parametrize("toml,more,check,severity,where,what,mend", [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_told_by_its_check_with_what_mends_it(host, toml, more, check, severity, where, what, mend):
    host.crio("1.34.0", toml)
    if more:
        more(host)
    found = host.examine()
    told = [f for f in found[1] if f[0] == check]
    assert len(told) == 1 and told[0][1:3] == (severity, where) and what in told[0][3] and mend in told[0][4], found[1]
    assert bool(mend) == bool(told[0][4])
    # Where NVIDIA's runtime is the default one, that is a note besides.
    assert all(f[0] == check or f[1] == "note" for f in found[1]), found[1]


def test_an_older_cri_o_is_a_warning(host):
    host.crio("1.33.2")
    doctor_report.assert_tells(host.examine(), "runtime", "warning", "CRI-O", "tried with is 1.34, and this is 1.33.2", "")


@pytest.mark.parametrize("changes", [(), (WITH_RUNC, CGROUPFS), (WITH_RUNC, ('runtime_path = ""', 'runtime_path = "/opt/crun"'))],
                         ids=["crun", "cgroupfs", "a runtime called runc that is crun"])
def test_an_old_runc_that_starts_no_containers_loses_no_devices(host, changes):
    host.crio("1.34.0", config(*changes))
    old_runc(host)
    assert host.examine()[1] == []


def test_the_runc_of_cri_os_package_is_asked_and_not_that_of_the_path(host):
    host.crio("1.34.0", config(WITH_RUNC, ('runtime_path = ""', 'runtime_path = "/usr/libexec/crio/runc"')))
    old_runc(host)
    (host.bin / "new").write_text("#!/bin/sh\necho runc version 1.3.0\n")
    (host.bin / "new").chmod(0o755)
    (host.bin / "chroot").write_text(f'#!/bin/sh\nshift\n[ "$1" = /usr/libexec/crio/runc ] && exec {host.bin}/new\nexec "$@"\n')
    assert host.examine()[1] == []


@pytest.mark.parametrize("kubelet,state", [("Kubernetes v1.36.3", "ok"), (None, "unknown")])
def test_a_kubelet_takes_its_cgroup_driver_from_cri_o(host, kubelet, state):
    host.crio("1.34.0", config(CGROUPFS))
    host.program("kubelet", kubelet)
    _, findings, states = host.examine()
    assert (findings, states["cgroups"]) == ([], state)


def test_a_cri_o_that_does_not_answer_is_unknown_and_never_well(host):
    host.crio("1.34.0", None)
    host.write(KUBELET + "/cpu_manager_state", '{"policyName":"static"}')
    _, findings, states = host.examine()
    assert findings == []
    assert {check for check, state in states.items() if state == "unknown"} == {"cdi", "runc", "nvidia-runtime", "cpu-manager"}
    assert "`crio status --socket /var/run/crio/crio.sock config` prints nothing (does CRI-O run" in host.doctor().stdout


@pytest.mark.parametrize("socket", ["/run/$(reboot)/crio.sock", "/run/crio.sock;reboot", "crio"])
def test_a_socket_that_is_no_plain_path_does_not_go_to_a_shell(host, socket):
    host.crio("1.34.0")
    host.write(KUBELET + "/config.yaml", f"containerRuntimeEndpoint: unix://{socket}\n")
    said = host.doctor().stdout
    assert "`crio status config` prints nothing" in said and "reboot" not in said


@pytest.mark.parametrize("toml", ["[crio.runtime", "\n", "cdi_spec_dirs = [", "[crio.runtime]\ncdi_spec_dirs = [\n", "\x1b[31m[crio.runtime]\n" * 1000])
def test_a_configuration_that_is_none_breaks_nothing(host, toml):
    host.crio("1.34.0", toml)
    assert host.doctor().returncode in (0, 1) and "\x1b" not in host.doctor().stdout


@pytest.mark.waits
def test_a_cri_o_that_hangs_is_waited_for_a_few_seconds_only(host):
    """CRI-O's own client waits for ever; host.doctor() does for 10 s."""
    host.crio("1.34.0")
    (host.bin / "crio").write_text('#!/bin/sh\n[ "$1" = --version ] && exec echo crio version 1.34.0\nexec sleep 60\n')
    assert host.examine()[2]["cdi"] == "unknown"
