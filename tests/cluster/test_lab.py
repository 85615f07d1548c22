"""The lab itself: what it offers, and that nothing of it stays. No card and no chart is needed here."""

import contextlib
import os
import re
import signal
import subprocess
import time

import pytest

from cluster import LAB, Cluster, lab_command, wait_for
from labstate import CALL_API, machine_state, marked_processes, plain_pod, without_neighbours

pytestmark = pytest.mark.long(6)

SHANGHAI, ZHANGJIAKOU = "cn-shanghai.192.168.6.104", "cn-zhangjiakou.192.168.66.139"
BARE = (f"{SHANGHAI}=0", f"{ZHANGJIAKOU}=0,default,spread")


@pytest.fixture
def bare(lab):
    return lab(BARE, charts=False)


# -- nodes and pods

def test_nodes_have_the_names_addresses_and_labels_asked_for(bare):
    nodes = bare.nodes()
    assert sorted(nodes) == [SHANGHAI, ZHANGJIAKOU]
    for name, address in ((SHANGHAI, "192.168.6.104"), (ZHANGJIAKOU, "192.168.66.139")):
        node = nodes[name]
        assert [a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"] == [address]
        assert bare.condition(node, "Ready")["status"] == "True"
        assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"
    assert nodes[SHANGHAI]["metadata"]["labels"]["ack.node.gpu.schedule"] == "share"
    assert "ack.node.gpu.placement" not in nodes[SHANGHAI]["metadata"]["labels"]
    assert nodes[ZHANGJIAKOU]["metadata"]["labels"]["ack.node.gpu.schedule"] == "default"
    assert nodes[ZHANGJIAKOU]["metadata"]["labels"]["ack.node.gpu.placement"] == "spread"


def test_a_plain_pod_runs_and_exec_and_logs_work(bare):
    bare.create(plain_pod("p", command=["bash", "-c", "echo hello from $HOSTNAME; sleep 100000"]))
    pod = bare.wait_running()[0]
    assert bare.exec_in(pod, "cat", "/etc/hostname") == "p\n"
    assert bare.wait_for(lambda: bare.log_of(pod), 10, "its log") == "hello from p\n"


@pytest.mark.parametrize("node", [SHANGHAI, ZHANGJIAKOU])
def test_a_pod_reaches_the_api_server_by_the_service_address_with_its_token(bare, node):
    bare.create(plain_pod("p", node))
    pod = bare.wait_running()[0]
    assert '"gitVersion": "v1.36.3"' in bare.exec_in(pod, "python", "-c", CALL_API)


def test_pods_of_two_nodes_reach_each_other_and_a_service(bare):
    server = plain_pod("server", SHANGHAI, ["busybox", "httpd", "-f", "-p", "8080", "-h", "/root"])
    server["metadata"]["labels"] = {"app": "server"}
    bare.create(server)
    bare.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                 "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}]}})
    bare.create(plain_pod("client", ZHANGJIAKOU))
    server = next(p for p in bare.wait_running(count=2) if p["metadata"]["name"] == "server")
    service = bare.json("get", "service", "s")["spec"]["clusterIP"]
    for target in (f"{server['status']['podIP']}:8080", service):
        fetch = f"import urllib.request as u; print(u.urlopen('http://{target}/run.sh', timeout=2).read())"
        answer = bare.wait_for(lambda: bare.exec_in("client", "python", "-c", fetch), 20, f"an answer from {target}")
        assert "benchmark.py" in answer    # what run.sh calls


def test_the_sample_image_has_the_documents_paths_and_ends_at_once(bare):
    bare.create({**plain_pod("p", command=["python", "tensorflow-sample-code/tfjob/docker/mnist/main.py",
                                           "--max_steps=100000", "--data_dir=tensorflow-sample-code/data"])})
    pod = bare.wait_running()[0]
    assert bare.exec_in(pod, "bash", "-c", "cd /root; ls run.sh gpushare/run.sh; type -P bash python") == \
        "gpushare/run.sh\nrun.sh\n/usr/bin/bash\n/usr/bin/python\n"
    bare.wait_for(lambda: "step 5" in bare.log_of(pod), 20, "progress")
    before = time.monotonic()
    bare.kubectl("delete", "pod", "p", "--grace-period=30", "--wait=true")
    assert time.monotonic() - before < 10, "the program did not listen to SIGTERM"


def test_a_plain_pod_gets_no_warning_and_a_name_that_nobody_knows_fails_at_once(bare):
    bare.create(plain_pod("p"))
    bare.wait_running()
    assert [event["message"] for event in bare.events("p") if event["type"] != "Normal"] == []
    look_up = ("import socket, time; t = time.monotonic()\ntry: socket.gethostbyname('nowhere.invalid')\n"
               "except OSError: print(time.monotonic() - t)")
    assert float(bare.exec_in("p", "python", "-c", look_up)) < 3


def test_the_admission_policies_that_the_charts_need_are_served(bare):
    served = bare.kubectl("api-resources", "--api-group=admissionregistration.k8s.io", "-o", "name")
    assert "mutatingadmissionpolicies.admissionregistration.k8s.io" in served
    assert "validatingadmissionpolicies.admissionregistration.k8s.io" in served
    assert "admissionregistration.k8s.io/v1" in bare.kubectl("api-versions").splitlines()


def test_a_node_has_its_own_directories_where_software_expects_them(bare):
    for node in (SHANGHAI, ZHANGJIAKOU):
        bare.enter(node, "sh", "-c", f"for d in /run/cdi /etc/cdi /run/ration; do echo {node} > $d/mine; done")
    for node in (SHANGHAI, ZHANGJIAKOU):
        assert bare.enter(node, "cat", "/run/cdi/mine", "/etc/cdi/mine", "/run/ration/mine", "/var/run/cdi/mine") == \
            f"{node}\n" * 4
        assert "device-plugins" in bare.enter(node, "ls", "/var/lib/kubelet")
        bare.enter(node, "test", "-S", "/run/containerd/containerd.sock")
    for path in ("/etc/cdi/mine", "/run/cdi/mine", "/run/ration/mine"):
        assert not os.path.exists(path)


def test_a_bidirectional_mount_of_a_pod_reaches_the_node(bare):
    pod = plain_pod("q", SHANGHAI, ["sh", "-c", "mkdir -p /host/here && mount -t tmpfs tmpfs /host/here && "
                                    "touch /host/here/file; sleep 100000"],
                    volumes=[{"name": "v", "hostPath": {"path": "/run/ration", "type": "Directory"}}])
    pod["spec"]["containers"][0].update(
        securityContext={"privileged": True},
        volumeMounts=[{"name": "v", "mountPath": "/host", "mountPropagation": "Bidirectional"}])
    bare.create(pod)
    bare.wait_running()
    bare.wait_for(lambda: "file" in bare.enter(SHANGHAI, "sh", "-c", "ls /run/ration/here"), 10, "the pod's mount")
    bare.enter(SHANGHAI, "umount", "/run/ration/here")


# -- up, down, restart

def test_up_twice_changes_nothing(bare):
    parts = lab_command("status", "--name", bare.name).stdout
    lab_command("up", "--name", bare.name, "--no-charts")
    assert lab_command("status", "--name", bare.name).stdout == parts


def test_up_with_other_nodes_is_refused_with_both_ways_out(bare):
    done = lab_command("up", "--name", bare.name, "--no-charts", "--node", f"{SHANGHAI}=1x16160MiB", check=False)
    assert done.returncode == 1
    assert "exists with other nodes" in done.stderr and f"lab/lab down --name {bare.name}" in done.stderr


@pytest.mark.parametrize("part", ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
                                  f"containerd@{SHANGHAI}", f"kubelet@{SHANGHAI}", f"kube-proxy@{SHANGHAI}"])
def test_a_part_is_restarted_and_pods_go_on(bare, part):
    bare.create(plain_pod("old", SHANGHAI))
    old = bare.wait_running()[0]["status"]["containerStatuses"]
    before = lab_command("status", "--name", bare.name).stdout
    bare.lab("restart", part)
    after = lab_command("status", "--name", bare.name).stdout

    def pid(text):
        return re.search(rf"^  {re.escape(part)} +pid ([0-9]+)$", text, re.MULTILINE).group(1)
    assert pid(before) != pid(after)
    bare.create(plain_pod("new", SHANGHAI))
    pods = {p["metadata"]["name"]: p for p in bare.wait_running(count=2, timeout=90)}
    assert pods["old"]["status"]["containerStatuses"] == old


def test_a_rebooted_node_has_forgotten_what_is_in_memory_and_runs_its_pods_again(bare):
    for name, node in (("here", SHANGHAI), ("there", ZHANGJIAKOU)):
        pod = plain_pod(name, node)
        pod["spec"]["restartPolicy"] = "Always"
        bare.create(pod)
    before = {p["metadata"]["name"]: p for p in bare.wait_running(count=2)}
    bare.enter(SHANGHAI, "sh", "-c", "echo lost > /run/ration/mine; echo kept > /var/tmp/mine")
    bare.lab("reboot", SHANGHAI)
    assert bare.lab("status").count("not running") == 0
    assert bare.enter(SHANGHAI, "sh", "-c", "ls /run/ration /var/tmp; cat /var/tmp/mine").split() == [
        "/run/ration:", "/var/tmp:", "mine", "kept"]
    wait_for(lambda: bare.pod("here")["status"]["containerStatuses"][0]["restartCount"] == 1, 60, "the pod's next container")
    after = {p["metadata"]["name"]: p for p in bare.wait_running(count=2, timeout=60)}
    assert after["here"]["metadata"]["uid"] == before["here"]["metadata"]["uid"]
    assert after["there"]["status"]["containerStatuses"] == before["there"]["status"]["containerStatuses"]
    assert bare.exec_in("here", "echo", "back") == "back\n"


def test_nothing_is_executed_from_a_nodes_run_folder(bare):
    bare.enter(SHANGHAI, "cp", "/bin/true", "/run/ration/true")
    done = lab_command("enter", "--name", bare.name, SHANGHAI, "--", "/run/ration/true", check=False)
    assert done.returncode != 0 and "Permission denied" in done.stderr
    bare.enter(SHANGHAI, "rm", "/run/ration/true")


def test_env_gives_a_shell_kubectl_and_helm(bare):
    script = f'eval "$("{LAB}" env --name {bare.name})" && kubectl get nodes -o name && helm version --short'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert f"node/{SHANGHAI}" in done.stdout and "v3." in done.stdout


def test_kubectl_passes_arguments_and_exit_status_on(bare):
    done = lab_command("kubectl", "--name", bare.name, "--", "get", "node", SHANGHAI, "-o", "name")
    assert done.stdout == f"node/{SHANGHAI}\n"
    assert lab_command("kubectl", "--name", bare.name, "--", "get", "node", "nowhere", check=False).returncode == 1


def test_logs_lists_the_parts_and_shows_one(bare):
    assert f"kubelet@{SHANGHAI}" in bare.lab("logs").splitlines()
    assert bare.lab("logs", f"kubelet@{SHANGHAI}")
    assert len(bare.lab("logs", "-n", "3", f"kubelet@{SHANGHAI}").splitlines()) == 3
    done = lab_command("logs", "--name", bare.name, "kubelet", check=False)
    assert done.returncode == 1 and "several parts have that name" in done.stderr


def test_two_labs_side_by_side_with_the_same_nodes_do_not_meet(bare, labs):
    other = labs.start(BARE, False)
    try:
        other.create(plain_pod("only-there"))
        other.wait_running()
        assert bare.run("kubectl", "get", "pods", "-A", "-o", "name").stdout.count("only-there") == 0
        bare.create(plain_pod("only-here"))
        bare.wait_running(names=["only-here"])
    finally:
        labs.remove(other)
    # The end of one is not felt by the other.
    assert bare.lab("status").count("not running") == 0
    assert bare.exec_in("only-here", "echo", "alive") == "alive\n"
    bare.create(plain_pod("later", ZHANGJIAKOU))
    bare.wait_running(names=["later"])


@pytest.mark.alone
@pytest.mark.long(10)
def test_down_leaves_nothing_behind(labs):
    name = labs.new_name()
    before = without_neighbours(machine_state(), name)
    try:
        lab_command("up", "--name", name, "--no-charts", *[word for node in BARE for word in ("--node", node)])
        cluster = Cluster(name)
        for index in range(4):
            cluster.create(plain_pod(f"p{index}"))
        cluster.wait_running(count=4)
        folder = cluster.folder
        assert marked_processes(name)
    finally:
        lab_command("down", "--name", name)
    cluster.forget()
    assert without_neighbours(machine_state(), name) == before
    assert marked_processes(name) == []
    assert not folder.exists()
    assert not list(folder.parent.glob(f".{name}.lock"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
@pytest.mark.alone
@pytest.mark.long(10)
@pytest.mark.parametrize("after", ["network and certificates", "nodes' namespaces", "API server ready"]
                         if os.environ.get("RATION_FULL") else ["nodes' namespaces"])
def test_up_goes_on_after_it_was_ended_in_the_middle(labs, number, after):
    name = labs.new_name()
    before = without_neighbours(machine_state(), name)
    arguments = [str(LAB), "up", "--name", name, "--no-charts", "--node", BARE[0]]
    try:
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, start_new_session=True)
        for line in process.stderr:
            if after in line:
                os.killpg(process.pid, number)
                break
        process.stderr.read()
        assert process.wait(timeout=30) in (130, -number)
        lab_command(*arguments[1:])
        assert lab_command("kubectl", "--name", name, "--", "get", "nodes", "-o", "name").stdout == f"node/{SHANGHAI}\n"
    finally:
        lab_command("down", "--name", name)
    assert without_neighbours(machine_state(), name) == before


@pytest.mark.alone
@pytest.mark.long(10)
def test_down_after_up_was_killed_leaves_nothing(labs):
    name = labs.new_name()
    before = without_neighbours(machine_state(), name)
    process = subprocess.Popen([str(LAB), "up", "--name", name, "--no-charts", "--node", BARE[0]],
                               stderr=subprocess.DEVNULL, start_new_session=True)
    wait_for(lambda: len(marked_processes(name)) >= 4, 30, "some of it runs")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    lab_command("down", "--name", name)
    assert marked_processes(name) == []
    assert without_neighbours(machine_state(), name) == before


def test_up_after_everything_was_killed_at_once_brings_the_pods_back(lab):
    cluster = lab((f"{SHANGHAI}=0",), charts=False, fresh=True)
    pod = plain_pod("p")
    pod["spec"]["restartPolicy"] = "Always"
    cluster.create(pod)
    cluster.wait_running()
    for pid in marked_processes(cluster.name):
        with contextlib.suppress(ProcessLookupError):    # ended with its node
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not marked_processes(cluster.name), 20, "nothing of the lab runs")
    assert lab_command("status", "--name", cluster.name, check=False).returncode == 3
    lab_command("up", "--name", cluster.name, "--no-charts")
    assert wait_for(lambda: cluster.exec_in("p", "echo", "back"), 60, "the pod runs again") == "back\n"


def test_a_second_command_on_the_same_lab_is_told_to_wait(labs):
    name = labs.new_name()
    process = subprocess.Popen([str(LAB), "up", "--name", name, "--no-charts", "--node", BARE[0]],
                               stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: marked_processes(name), 30, "the first one is at work")
        done = lab_command("down", "--name", name, check=False)
        assert done.returncode == 1
        assert f"another command is changing lab {name} right now" in done.stderr
        process.communicate(timeout=120)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
        lab_command("down", "--name", name)
