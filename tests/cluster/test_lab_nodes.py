"""Nodes that are added to a running lab and taken out of it. No card and no chart is needed here: test_nodes.py has them."""

import json
import os
import pathlib
import signal
import subprocess

import pytest

from cluster import LAB, ROOT, lab_command, wait_for
from labstate import CALL_API, machine_state, marked_processes, plain_pod, without_neighbours

pytestmark = pytest.mark.long(15)

STAYS, COMES = "stays.192.168.40.1", "comes.192.168.40.2"


@pytest.fixture
def bare(lab):
    """One node of a lab of this test's own."""
    return lab([f"{STAYS}=0,none"], charts=False, fresh=True)


def add(cluster, node, check=True):
    return lab_command("add-node", "--name", cluster.name, node, check=check)


def remove(cluster, node, *options, check=True):
    return lab_command("remove-node", "--name", cluster.name, node, *options, check=check)


def test_a_node_joins_like_those_that_up_makes(bare):
    add(bare, f"{COMES}=0,cgpu,spread")
    nodes = bare.nodes()
    assert sorted(nodes) == [COMES, STAYS]
    labels = nodes[COMES]["metadata"]["labels"]
    assert (labels["ack.node.gpu.schedule"], labels["ack.node.gpu.placement"]) == ("cgpu", "spread")
    assert not [label for label in nodes[STAYS]["metadata"]["labels"] if label.startswith("ack.node.gpu")]
    bare.create(plain_pod("p", COMES))
    pod = bare.wait_running()[0]
    assert '"gitVersion": "v1.36.3"' in bare.exec_in(pod, "python", "-c", CALL_API)
    # All commands know it, and none of them starts anything twice.
    status = bare.lab("status")
    assert status.count("not running") == 0 and f"kubelet@{COMES}" in bare.lab("logs")
    add(bare, f"{COMES}=0,cgpu,spread")
    lab_command("up", "--name", bare.name, "--no-charts")
    assert bare.lab("status") == status
    script = 'source lab/completion.bash; COMP_WORDS=(lab/lab remove-node --name "$1" ""); COMP_CWORD=4; _ration_lab; echo "${COMPREPLY[@]}"'
    offered = subprocess.run(["bash", "-c", script, "bash", bare.name], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"--drain", STAYS, COMES} <= set(offered.stdout.split())
    bare.lab("reboot", COMES)
    assert bare.lab("status").count("not running") == 0


def test_each_kubelet_has_a_certificate_of_its_own_and_may_not_touch_another_node(bare):
    add(bare, f"{COMES}=0,none")
    own = bare.folder / "pki" / f"node-{COMES}.kubeconfig"

    def annotate(node):
        return bare.run("kubectl", "--kubeconfig", own, "annotate", "node", node, "example.com/written=yes", check=False)
    who = bare.run("kubectl", "--kubeconfig", own, "auth", "whoami").stdout
    assert f"system:node:{COMES}" in who and "system:nodes" in who
    assert annotate(COMES).returncode == 0
    refused = annotate(STAYS)
    assert refused.returncode != 0 and f"node '{COMES}' cannot read '{STAYS}', only its own Node object" in refused.stderr


@pytest.mark.alone    # it compares the machine before and after
def test_a_machine_that_is_taken_away_is_gone_at_once_and_nothing_of_it_stays(bare):
    before = without_neighbours(machine_state(), bare.name)
    processes = set(marked_processes(bare.name))
    bare.create(plain_pod("here", STAYS))
    bare.wait_running()
    add(bare, f"{COMES}=0,none")
    bare.create(plain_pod("there", COMES))
    bare.wait_running(names=["there"])
    bare.enter(COMES, "touch", "/var/tmp/mine")
    remove(bare, COMES)
    assert list(bare.nodes()) == [STAYS]
    assert without_neighbours(machine_state(), bare.name) == before
    assert not [path for path in bare.folder.rglob("*") if COMES in path.name and "etcd" not in path.parts]
    assert bare.lab("status").count("not running") == 0 and COMES not in bare.lab("status")
    here = {pid for pid in marked_processes(bare.name) if pid not in processes}
    assert all(COMES not in pathlib.Path("/proc", str(pid), "cmdline").read_text() for pid in here)
    assert bare.exec_in("here", "echo", "alive") == "alive\n"
    # Another machine of the same name: its disks are empty, its labels are its own.
    add(bare, f"{COMES}=0,share")
    assert bare.node(COMES)["metadata"]["labels"]["ack.node.gpu.schedule"] == "share"
    assert bare.enter(COMES, "ls", "/var/tmp") == ""
    wait_for(lambda: bare.pod("there")["status"]["phase"] == "Failed", 30, "its kubelet finds no container of the old pod")
    bare.create(plain_pod("again", COMES))
    bare.wait_running(names=["here", "again"])


def test_a_drained_nodes_pods_end_as_they_are_asked_to_and_run_elsewhere(bare):
    add(bare, f"{COMES}=0,none")
    bare.kubectl("cordon", STAYS)
    pod = plain_pod("x", command=["bash", "-c", "trap 'sleep 1; exit 7' TERM; sleep 100000 & wait"],
                    terminationGracePeriodSeconds=20, restartPolicy="Always")
    bare.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}}, "spec": pod["spec"]}}})
    old = bare.wait_running("app=d")[0]["metadata"]["name"]
    exit_code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode} "
    watch = subprocess.Popen(["kubectl", "get", "pod", old, "--watch", "-o", exit_code], stdout=subprocess.PIPE, text=True,
                             env=bare.environment)
    bare.kubectl("uncordon", STAYS)
    remove(bare, COMES, "--drain")
    watch.terminate()
    assert "7" in watch.communicate()[0].split()
    new = bare.wait_running("app=d")[0]
    assert new["spec"]["nodeName"] == STAYS and list(bare.nodes()) == [STAYS]


def interrupt(cluster, number, after, *arguments):
    """The command is ended as soon as it has said this."""
    process = subprocess.Popen([str(LAB), *arguments[:1], "--name", cluster.name, *arguments[1:]], stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    for line in process.stderr:
        if after in line:
            os.killpg(process.pid, number)
            break
    process.stderr.read()
    assert process.wait(timeout=30) in (130, -number)


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
def test_both_go_on_after_they_were_ended_in_the_middle(bare, number):
    before = without_neighbours(machine_state(), bare.name)
    interrupt(bare, number, "containerd", "add-node", f"{COMES}=0,none")
    assert f"node {COMES}: no GPUs" in lab_command("status", "--name", bare.name, check=False).stdout
    add(bare, f"{COMES}=0,none")
    bare.create(plain_pod("p", COMES))
    bare.wait_running()
    interrupt(bare, number, "is gone", "remove-node", COMES)
    again = remove(bare, COMES, check=False)
    assert again.returncode == 0 or "no such node" in again.stderr, again.stderr
    assert list(bare.nodes()) == [STAYS]
    assert without_neighbours(machine_state(), bare.name) == before
    add(bare, f"{COMES}=0,none")


@pytest.mark.alone
def test_down_takes_nodes_that_were_added_with_it(labs):
    name = labs.new_name()
    before = without_neighbours(machine_state(), name)
    try:
        lab_command("up", "--name", name, "--no-charts", "--node", f"{STAYS}=0")
        lab_command("add-node", "--name", name, f"{COMES}=0")
    finally:
        lab_command("down", "--name", name)
    assert without_neighbours(machine_state(), name) == before
    assert marked_processes(name) == []


def test_what_cannot_be_is_refused_in_words(bare):
    def refused(done):
        assert done.returncode == 1 and "Traceback" not in done.stderr
        return done.stderr
    assert f"{STAYS} is the last node of lab {bare.name}; lab/lab down --name {bare.name}" in refused(remove(bare, STAYS, check=False))
    assert f"nowhere: no such node; nodes are {STAYS}" in refused(remove(bare, "nowhere", check=False))
    assert f"has a node {STAYS} with other GPUs or labels; lab/lab remove-node" in refused(add(bare, f"{STAYS}=0,cgpu", check=False))
    assert f"node {STAYS} of lab {bare.name} has the address 192.168.40.1 already" in refused(add(bare, "b.192.168.40.1=0", check=False))
    assert "unknown mode 'shared'" in refused(add(bare, f"{COMES}=0,shared", check=False))
    record = bare.folder / "lab.json"
    written = record.read_text()
    full = json.loads(written)
    full["nodes"] += [{**full["nodes"][0], "index": n, "name": f"n.192.168.41.{n}"} for n in range(2, 17)]
    record.write_text(json.dumps(full))
    assert f"lab {bare.name} has 16 nodes, which is the lab's limit" in refused(add(bare, f"{COMES}=0", check=False))
    record.write_text(written)
    add(bare, f"{COMES}=0,none")
    apiserver = next(line.split()[-1] for line in bare.lab("status").splitlines() if "kube-apiserver" in line)
    os.kill(int(apiserver), signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{apiserver}"), 10, "the API server's end")
    for done in (add(bare, "b.192.168.40.3=0", check=False), remove(bare, COMES, check=False)):
        assert f"kube-apiserver of lab {bare.name} does not run; lab/lab up --name {bare.name} starts it" in refused(done)
    assert f"kubelet@{COMES}" in bare.lab("logs")    # it was not touched
