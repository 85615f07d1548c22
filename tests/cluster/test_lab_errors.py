"""What lab/lab says when it cannot do what was asked. None of these starts a lab."""

import json
import os
import re
import subprocess

import pytest

from cluster import LAB, ROOT, lab_command

# Their folders are looked into by other users, which those of a pytest beside another one are not open to.
pytestmark = [pytest.mark.alone, pytest.mark.long(0.1)]


@pytest.fixture
def elsewhere(tmp_path):
    """Labs and caches of this test only."""
    return {"RATION_LABS": str(tmp_path / "labs"), "RATION_CACHE": str(tmp_path / "cache")}


def fails(*arguments, env=None):
    """The one sentence that the command ends with."""
    done = lab_command(*arguments, check=False, env=env)
    assert done.returncode == 1, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("lab: "), done.stderr
    return done.stderr


def up_fails(*arguments, env):
    message = fails("up", "--name", "err", *arguments, env=env)
    assert not os.path.exists(os.path.join(env["RATION_LABS"], "err")), "the refused lab left a folder"
    return message


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming nobody needs root")
@pytest.mark.parametrize("command", [["up"], ["down"], ["restart", "etcd"], ["add-node", "a.1.2.3.4=0"], ["remove-node", "a.1.2.3.4"]])
def test_without_root_it_says_that_it_needs_root(command, tmp_path):
    # A copy, for nobody may not be allowed to read the checkout.
    subprocess.run(["cp", "-r", str(ROOT / "lab"), str(tmp_path / "lab")], check=True)
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(tmp_path / "lab" / "lab"),
                           *command], capture_output=True, text=True, check=False,
                          env=dict(os.environ, HOME="/nonexistent", RATION_LABS="/nonexistent/labs"))
    assert done.returncode == 1
    assert "needs root" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("node, words", [
    ("cn-shanghai.192.168.6.104=1x16160MiB,shared", "unknown mode 'shared'; modes are share, cgpu, core_mem, topology, dra, "),
    ("cn-shanghai.192.168.6.104=1x16160MiB,share,dense", "unknown placement 'dense'; placements are binpack, spread"),
    ("cn-shanghai.192.168.6.104=1x16160MiB,share,spread,x", "too many fields"),
    ("cn-shanghai.192.168.6.104=", "expected NAME=GPUS"),
    ("=1x16160MiB", "expected NAME=GPUS"),
    ("cn-shanghai.192.168.6.104", "expected NAME=GPUS"),
    ("cn-shanghai.192.168.6.104=1x16160", "are not of the form 4x16160MiB"),
    ("cn-shanghai.192.168.6.104=0x16160MiB", "are not of the form 4x16160MiB"),
    ("cn-shanghai.192.168.6.104=-1x16160MiB", "are not of the form 4x16160MiB"),
    ("cn-shanghai.192.168.6.104=1x16160MiB+", "are not of the form 4x16160MiB"),
    ("cn-shanghai.192.168.6.104=1x16160MiB;reboot", "are not of the form 4x16160MiB"),
    ("cn-shanghai.192.168.6.104=1x9999999MiB", "larger than the lab's limit"),
    ("cn-shanghai.192.168.6.104=60x16160MiB+5x16160MiB", "65 GPUs are more than the lab's limit"),
    ("cn-shanghai=1x16160MiB", "a node's name ends in its address"),
    ("cn-shanghai.192.168.6.300=1x16160MiB", "192.168.6.300 is not an IPv4 address"),
    ("cn-shanghai.127.0.0.1=1x16160MiB", "127.0.0.1 cannot be a node's address"),
    ("cn-shanghai.10.96.0.7=1x16160MiB", "10.96.0.7 lies in 10.96.0.0/16, which the lab uses itself"),
    ("CN.192.168.6.104=1x16160MiB", "is not a node name"),
    ("../../etc.192.168.6.104=1x16160MiB", "is not a node name"),
    ("n" * 60 + ".192.168.6.104=1x16160MiB", "is not a node name"),
])
def test_a_malformed_node_is_refused_with_what_is_wrong(node, words, elsewhere):
    message = up_fails("--node", node, env=elsewhere)
    assert words in message
    assert node.partition("=")[0] in message


@pytest.mark.parametrize("nodes, words", [
    (["a.192.168.6.104=0", "a.192.168.6.104=0"], "two nodes have the name a.192.168.6.104"),
    (["a.192.168.6.104=0", "b.192.168.6.104=0"], "two nodes have the address 192.168.6.104"),
    ([f"a.192.168.6.{n}=0" for n in range(1, 18)], "17 nodes are more than the lab's limit of 16"),
])
def test_nodes_that_do_not_go_together_are_refused(nodes, words, elsewhere):
    assert words in up_fails(*[word for node in nodes for word in ("--node", node)], env=elsewhere)


@pytest.mark.parametrize("name", ["", "Lab", "a/b", "..", "a" * 21, "-a"])
def test_a_lab_name_that_cannot_be_part_of_a_namespace_name_is_refused(name, elsewhere):
    assert f"lab name {name!r}" in fails("up", f"--name={name}", env=elsewhere)
    assert f"lab name {name!r}" in fails("down", f"--name={name}", env=elsewhere)


@pytest.mark.parametrize("version", ["1.36", "latest", "2.0.0", "1.36.3; true"])
def test_a_version_that_is_no_release_is_refused(version, elsewhere):
    assert "expected a release such as 1.36.3" in up_fails("--kubernetes", version, env=elsewhere)


def test_the_systemd_driver_is_refused_without_systemd_and_for_two_nodes(elsewhere):
    message = up_fails("--cgroup-driver", "systemd", env=elsewhere)
    if not os.path.isdir("/run/systemd/system"):
        assert "--cgroup-driver systemd: systemd and its D-Bus are not running on this machine" in message
    elif os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        assert "--cgroup-driver systemd: a lab under it has one node, not 2" in message
    else:
        assert "--cgroup-driver systemd: this machine has cgroup v1" in message


def test_a_cgroup_driver_that_no_kubelet_has_is_refused(elsewhere):
    done = lab_command("up", "--name", "err", "--cgroup-driver", "none", check=False, env=elsewhere)
    assert done.returncode == 2 and "invalid choice: 'none' (choose from 'cgroupfs', 'systemd')" in done.stderr


def record_of(folder, **more):
    """A lab that was made and does not run."""
    folder.mkdir(parents=True)
    (folder / "lab.json").write_text(json.dumps({
        "name": folder.name, "slot": 1, "kubernetes": "1.36.3", **more,
        "nodes": [{"index": 1, "name": "a.1.2.3.4", "cards": "", "mode": "", "placement": "", "links": ""}]}))


def test_feature_gates_of_another_form_are_refused_and_a_lab_keeps_its_own(elsewhere, tmp_path):
    for wrong in ("DRADeviceTaints", "DRADeviceTaints=no", "A=true,,B=false", "A=true B=true"):
        assert f"--feature-gates {wrong}: expected NAME=true or NAME=false" in up_fails("--feature-gates", wrong, env=elsewhere)
    record_of(tmp_path / "labs/old")
    done = lab_command("up", "--name", "old", "--feature-gates", "A=true", check=False, env=elsewhere)
    assert done.returncode == 1 and "lab old has the feature gates (default), not A=true" in done.stderr


def test_a_lab_keeps_its_container_runtime(elsewhere, tmp_path):
    record_of(tmp_path / "labs/old")    # of the time before there was a choice
    record_of(tmp_path / "labs/new", runtime="cri-o")
    assert "lab old has the container runtime containerd, not cri-o" in fails("up", "--name", "old", "--runtime", "cri-o", env=elsewhere)
    assert "lab new has the container runtime cri-o, not containerd" in fails("up", "--name", "new", "--runtime", "containerd", env=elsewhere)
    assert "Kubernetes 1.36.3, cri-o," in lab_command("status", "--name", "new", check=False, env=elsewhere).stdout


def test_ctr_of_a_lab_without_containerd_is_refused(elsewhere, tmp_path):
    record_of(tmp_path / "labs/new", runtime="cri-o")
    assert "ctr is containerd's, and the nodes of lab new have cri-o" in fails("ctr", "--name", "new", "a.1.2.3.4", "--", "version", env=elsewhere)


@pytest.mark.parametrize("patience", ["x", "0", "-1", "nan"])
def test_a_patience_that_is_no_factor_is_refused(patience, elsewhere):
    words = f"RATION_PATIENCE={patience}: expected a number from 1 to 1000"
    assert words in up_fails("--node", "a.192.168.6.104=0", env=dict(elsewhere, RATION_PATIENCE=patience))


def test_too_little_disk_is_told_before_anything_is_built(elsewhere):
    bare = ("--no-charts", "--node", "a.192.168.6.104=0")
    message = up_fails(*bare, env=dict(elsewhere, RATION_LAB_FREE_BYTES=str(3 << 30)))
    assert "building Kubernetes for the first time needs about 8 GiB of disk, but only 3.0 GiB are free" in message
    assert elsewhere["RATION_CACHE"] in message
    assert not os.path.exists(elsewhere["RATION_CACHE"])
    message = up_fails(*bare, env=dict(elsewhere, RATION_LAB_FREE_BYTES=str(1 << 30)))
    assert "a lab needs about 2 GiB of disk" in message and elsewhere["RATION_LABS"] in message


@pytest.mark.parametrize("arguments", [[], ["--no-charts"], ["--node", "a.192.168.6.104=0"]])
def test_a_product_that_is_not_built_is_told_before_anything_is_started(elsewhere, tmp_path, arguments):
    message = up_fails(*arguments, env=dict(elsewhere, RATION_BUILD=str(tmp_path / "empty")))
    assert f"{tmp_path / 'empty'} holds no built ration" in message and "RATION_BUILD" in message
    assert not os.path.exists(elsewhere["RATION_CACHE"])


def test_a_missing_kernel_feature_is_named(elsewhere):
    message = up_fails(env=dict(elsewhere, RATION_LAB_NO_KERNEL_FEATURE="veth network links"))
    assert "this machine does not allow veth network links, which the lab needs" in message


@pytest.mark.skipif(os.geteuid() != 0, reason="needs namespaces")
def test_a_machine_that_forbids_namespaces_is_told_so(elsewhere):
    """For real: a process without CAP_SYS_ADMIN may not make them."""
    done = subprocess.run(["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", str(LAB), "up", "--name", "err"],
                          capture_output=True, text=True, check=False, env=dict(os.environ, **elsewhere))
    assert done.returncode == 1
    assert "this machine does not allow network namespaces, which the lab needs" in done.stderr


@pytest.mark.parametrize("command", [
    ["env"], ["status"], ["logs"], ["kubectl", "--", "get", "nodes"], ["ctr", "a.1.2.3.4", "--", "version"],
    ["restart", "etcd"], ["add-node", "a.1.2.3.4=0"], ["remove-node", "a.1.2.3.4"]])
def test_a_lab_that_does_not_exist_is_named_with_the_command_that_makes_it(command, elsewhere):
    message = fails(command[0], "--name", "nowhere", *command[1:], env=elsewhere)
    assert "there is no lab nowhere; lab/lab up --name nowhere makes it" in message


def test_down_of_a_lab_that_does_not_exist_succeeds(elsewhere):
    done = lab_command("down", "--name", "nowhere", env=elsewhere)
    assert "there was no lab nowhere" in done.stderr
    assert not os.path.exists(elsewhere["RATION_LABS"])


def test_a_damaged_record_is_named_and_can_be_removed(elsewhere, tmp_path):
    folder = tmp_path / "labs" / "broken"
    folder.mkdir(parents=True)
    (folder / "lab.json").write_text('{"name": "broken", "slot"')
    assert "lab.json is damaged" in fails("status", "--name", "broken", env=elsewhere)
    lab_command("down", "--name", "broken", env=elsewhere)
    assert not folder.exists()


@pytest.mark.parametrize("command", ["", "up", "down", "status", "logs", "env", "kubectl", "ctr", "enter", "restart", "reboot",
                                     "add-node", "remove-node", "build"])
def test_every_command_has_a_help(command):
    done = lab_command(*([command] if command else []), "--help")
    assert done.stdout.startswith("usage: lab/lab")


def test_help_names_every_command_and_the_completion_does_too():
    usage = lab_command("--help").stdout
    completion = (ROOT / "lab" / "completion.bash").read_text()
    for command in ("up", "down", "status", "logs", "env", "kubectl", "ctr", "enter", "restart", "reboot", "add-node", "remove-node",
                    "build"):
        assert re.search(rf"\n    {command}\s", usage)
        assert re.search(rf'commands=".*\b{command}\b', completion)


def test_completion_offers_commands_options_and_nothing_breaks():
    script = ('source lab/completion.bash; COMP_WORDS=(lab/lab "$1"); COMP_CWORD=1; _ration_lab; echo "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", script, "bash", "re"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["restart", "reboot", "remove-node"]
    assert done.stderr == ""
