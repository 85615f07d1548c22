"""ration doctor --scheduler-config: the files that give the ledger to the cluster's own kube-scheduler."""
import os
import pathlib
import re
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RATION = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve() / "src/cli/ration"
CHART = ROOT / "deploy/charts/ack-co-scheduler/templates"
IMAGE = "registry.example.com/ration-scheduler:0.1.0"
CONFIG = "/etc/kubernetes/ration/scheduler.yaml"


def doctor(*args, status=0):
    done = subprocess.run([RATION, "doctor", *args], capture_output=True, text=True, timeout=10, check=False,
                          env=os.environ | {"KUBECTL": "/nonexistent"})
    assert done.returncode == status, done
    return done.stderr if status else done.stdout


def chart_config():
    """What the chart gives its own kube-scheduler, without what helm puts in."""
    text = (CHART / "config.yaml").read_text().split("scheduler.yaml: |\n")[1]
    lines = [line[4:] for line in text.splitlines() if "{{" not in line and not line.strip().startswith("profiles")]
    return yaml.safe_load("\n".join(lines))


def files(script):
    """Path -> text of each file that the script writes."""
    return dict(re.findall(r"^cat >+(/\S+) <<'END'\n(.*?)^END$", script, re.M | re.S))


def test_the_configuration_has_both_profiles_and_the_extender_of_the_chart():
    config, chart = yaml.safe_load(doctor("--scheduler-config")), chart_config()
    assert [profile["schedulerName"] for profile in config["profiles"]] == ["default-scheduler", "ack-co-scheduler"]
    # The chart's own is asked about pods without a GPU too (ResourcePolicies): no price for a whole cluster's pods.
    assert config["extenders"] == chart["extenders"][:1]
    assert [e.get("managedResources") for e in chart["extenders"][1:]] == [None] and chart["extenders"][1]["ignorable"]
    for key in ("apiVersion", "kind", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds"):
        assert config[key] == chart[key], key
    # kube-scheduler ignores --kubeconfig beside --config; its Lease has the name that ration-scheduler is told.
    assert config["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}
    assert config["leaderElection"] == {"leaderElect": True}


def test_the_script_for_kubeadm_writes_that_configuration_and_two_patches():
    script = doctor("--scheduler-config", "--kubeadm", "--image", IMAGE)
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
    written = files(script)
    assert written[CONFIG] == doctor("--scheduler-config")
    first, second = (yaml.safe_load(written[f"/etc/kubernetes/patches/kube-scheduler{name}"])
                     for name in ("0+json.yaml", "1+strategic.yaml"))
    assert first == [{"op": "add", "path": "/spec/containers/0/command/-", "value": f"--config={CONFIG}"}]
    scheduler, extender = second["spec"]["containers"]
    assert scheduler["name"] == "kube-scheduler"
    assert {mount["mountPath"] for mount in scheduler["volumeMounts"]} == {"/etc/kubernetes/ration"}
    assert extender["image"] == IMAGE
    assert "--scheduler-lease=kube-system/kube-scheduler" in extender["args"]
    # The pod is on the node's network: nothing of it may be reached from elsewhere.
    assert "--probes=127.0.0.1:39998" in extender["args"]
    assert not any(arg.startswith(("--listen", "--metrics")) for arg in extender["args"])
    assert extender["livenessProbe"]["httpGet"]["host"] == "127.0.0.1"
    options = subprocess.run([RATION.parents[1] / "scheduler/ration-scheduler", "--help"], capture_output=True,
                             text=True, check=True).stdout
    assert all(arg.split("=")[0] in options for arg in extender["args"])


def test_without_an_image_there_is_no_script():
    assert "--kubeadm needs --image" in doctor("--scheduler-config", "--kubeadm", status=2)


def test_the_image_can_be_of_another_registry():
    script = doctor("--scheduler-config", "--kubeadm", "--image", "registry.example:5000/gpu/ration-scheduler@sha256:ab")
    patch = yaml.safe_load(files(script)["/etc/kubernetes/patches/kube-scheduler1+strategic.yaml"])
    assert patch["spec"]["containers"][1]["image"] == "registry.example:5000/gpu/ration-scheduler@sha256:ab"


@pytest.mark.parametrize("image", ["", "a b", "a\nEND\nreboot", "$(reboot)", "-x", "x" * 301])
def test_what_can_be_no_image_is_refused(image):
    assert "not the name of an image" in doctor("--scheduler-config", "--kubeadm", "--image", image, status=2)


def test_options_of_the_scheduler_go_on_to_it():
    script = doctor("--scheduler-config", "--kubeadm", "--image", IMAGE, "--arg=--job-mixing=allow", "--arg=--best-nodes=0")
    patch = yaml.safe_load(files(script)["/etc/kubernetes/patches/kube-scheduler1+strategic.yaml"])
    assert patch["spec"]["containers"][1]["args"][-2:] == ["--job-mixing=allow", "--best-nodes=0"]


@pytest.mark.parametrize("arg", ["", "x", "--x y", "--x\nEND", "--x=$(reboot)", '--x"', "--x'"])
def test_what_can_be_no_option_is_refused(arg):
    assert "not an option of ration-scheduler" in doctor("--scheduler-config", "--kubeadm", "--image", IMAGE, "--arg", arg, status=2)


@pytest.mark.parametrize("args, needed", [
    (["--kubeadm"], "--kubeadm needs --scheduler-config"),
    (["--scheduler-config", "--image", "x"], "--image and --arg need --kubeadm"),
    (["--arg", "--x"], "--image and --arg need --kubeadm")])
def test_options_that_do_nothing_are_refused(args, needed):
    assert needed in doctor(*args, status=2)
