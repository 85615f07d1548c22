"""A runc with the systemd cgroup driver that leaves out devices without a link in /dev/char: the agent says so where it can know."""
import json

import pytest

from agent_fixture import NODE, World
from fake_apiserver import wait_for

LOSS = "GPULostAtReload"


def features(version):
    return json.dumps({"ociVersionMin": "1.0.0", "linux": {"cgroup": {"systemd": True}},
                       "annotations": {"org.opencontainers.runc.version": version, "org.opencontainers.runc.commit": "x"}})


class Node(World):
    """Its containerd is of 2.x; /dev is a folder, with two of NVIDIA's devices."""

    def __init__(self, version="1.1.5+ds1", systemd=True, binary="", runtime="runc", kind="io.containerd.runc.v2"):
        super().__init__()
        self.dev = self.dir / "proc/1/root/dev"
        (self.dev / "char").mkdir(parents=True)
        for name in ("nvidia0", "nvidiactl"):
            (self.dev / name).touch()
        self.options = ["--proc", str(self.dir / "proc")]
        self.kubelet.cri_config["containerd"] = {"defaultRuntimeName": runtime, "runtimes": {
            "other": {"runtimeType": "io.containerd.runc.v2", "options": {"SystemdCgroup": True}},
            runtime: {"runtimeType": kind, "options": {"SystemdCgroup": systemd, "BinaryName": binary}}}}
        self.kubelet.runc_features = version and features(version)

    def link(self):
        for name, number in (("nvidia0", "195:0"), ("nvidiactl", "195:255")):
            (self.dev / "char" / number).symlink_to(f"../{name}")

    def is_told(self):
        found = self.condition()
        return found is not None and (found["status"], found["reason"]) == ("False", LOSS)

    def says_nothing(self):
        self.up(32)
        self.has_read_node()
        return self.condition() is None and not self.api.events(LOSS)


def test_a_runc_that_loses_devices_is_told_and_taken_back_when_the_links_are_there():
    with Node() as w:
        w.up(32)
        wait_for(w.is_told)
        event = wait_for(lambda: w.api.events(LOSS))[0]
        for text in (event["message"], w.condition()["message"]):
            assert 'lose their GPUs at the next "systemctl daemon-reload": runc 1.1.5+ds1 with the systemd cgroup driver' in text
            assert "nvidia-ctk system create-dev-char-symlinks --create-all" in text and "runc 1.1.7 or later" in text
        assert (event["involvedObject"]["kind"], event["type"]) == ("Node", "Warning")
        # The node serves: programs work until somebody reloads systemd.
        annotations = w.api.node(NODE)["metadata"]["annotations"]
        assert annotations["ration.dev/mode"] == "share" and "ration.dev/problem" not in annotations
        w.link()
        wait_for(lambda: w.condition()["reason"] == "NoProblem", timeout=20)


@pytest.mark.parametrize("version", ["1.1.2", "1.1.7", "1.2.4"])
def test_another_runc_is_no_problem(version):
    with Node(version) as w:
        assert w.says_nothing() and wait_for(lambda: w.kubelet.runc_asked)
        w.has_read_node()
        assert w.condition() is None


def test_with_links_any_runc_is_no_problem():
    with Node() as w:
        w.link()
        assert w.says_nothing() and wait_for(lambda: w.kubelet.runc_asked)
        w.has_read_node()
        assert w.condition() is None


def test_with_cgroupfs_nobody_is_asked():
    with Node(systemd=False) as w:
        assert w.says_nothing() and not w.kubelet.runc_asked


def test_a_runtime_that_is_not_runc_is_not_asked():
    with Node(runtime="gvisor", kind="io.containerd.runsc.v1") as w:
        assert w.says_nothing() and not w.kubelet.runc_asked


def test_the_binary_of_the_default_runtime_is_asked():
    with Node(runtime="nvidia", binary="/usr/bin/nvidia-container-runtime") as w:
        w.up(32)
        wait_for(w.is_told)
        assert set(w.kubelet.runc_asked) == {"/usr/bin/nvidia-container-runtime"}


def test_a_containerd_before_2_0_cannot_say_it():
    """It knows no PluginInfo: `ration doctor --node` finds it there."""
    with Node(version=None) as w:
        assert w.says_nothing()
        wait_for(lambda: "does not say which runc it starts" in w.logged())


@pytest.mark.parametrize("answer", ["", "{", "[]", '{"annotations": []}', '{"annotations": {"org.opencontainers.runc.version": 115}}',
                                    '{"annotations": {"org.opencontainers.runc.version": "' + "1.1.5" * 100 + '"}}'])
def test_an_answer_that_makes_no_sense_is_no_version(answer):
    with Node() as w:
        w.kubelet.runc_features = answer
        assert w.says_nothing() and wait_for(lambda: w.kubelet.runc_asked)
        w.has_read_node()
        assert w.condition() is None
