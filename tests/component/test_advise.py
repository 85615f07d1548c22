"""`ration advise`: programs of known peaks in real containers of an isolated node, the agent's page, and ration-scheduler, which
answers what --apply asks for.

A GPU of 16160 MiB has 15 units, and n of them are floor(16160 * n / 15) MiB: 1077, 2154, 3232, 4309, 5386."""
import contextlib
import http.server
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import threading
import time

import pytest

from agent_fixture import BUILD, NODE
from fake_apiserver import wait_for
from isolated import MIB, Node
from metrics_page import use, uses
from obeying import CONTEXT, obeying, tell
from listings import node as listed_node, resource_claim
from scheduler_fixture import Scheduler

RATION = BUILD / "src/cli/ration"
KUBECTL = pathlib.Path(__file__).parent.resolve() / "http_kubectl.py"
UNIT = 16160 / 15
CONTEXT_MIB = CONTEXT // MIB
needs_root = pytest.mark.skipif(os.geteuid() != 0 or os.path.exists("/run/ration/grant"),
                                reason="mounts file systems, which needs root")


def printed(done):
    """What the command printed. It succeeded, and wrote nothing to standard error."""
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


class Lab:
    """A node with its agent, a scheduler, and a user with a kubectl."""

    def __init__(self, node, scheduler, folder):
        self.node, self.api, self.scheduler = node, node.api, scheduler
        self.port = wait_for(lambda: re.findall(r"metrics on port ([0-9]+)", node.logged()))[-1]
        self.api.create_pod("agent-x", namespace="kube-system", node=NODE, labels={"name": "gpushare-device-plugin-ds"},
                            spec={"containers": [{"name": "ration-agent", "args": ["--metrics=127.0.0.1:39996"]}]})
        wait_for(lambda: self.api.node(NODE)["metadata"]["labels"].get("aliyun.accelerator/nvidia_count"))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")} | {
            "KUBECTL": str(KUBECTL), "API_URL": self.api.url, "HOME": str(folder), "KUBECONFIG": str(node.kubeconfig),
            "FORWARD": json.dumps({"agent-x": int(self.port)}), "FORWARD_LOG": str(folder / "kubectl.log")}
        self.programs = {}

    def start(self, name, units, *allocations, **more):
        """A pod with this number of units; its program allocates these MiB one after the other, without freeing them."""
        pod, container = self.node.start_container(name, units, **more)
        self.api.set_phase(name, "Running", more.get("namespace", "default"))
        self.programs[name] = obeying(self.node, pod, container)
        for mib in allocations:
            tell(self.programs[name], "alloc", mib * MIB)
        wait_for(lambda: use(self.node, name) and use(self.node, name)["usedBytes"] >= CONTEXT, 10)
        return pod

    def seen(self, seconds, *names):
        wait_for(lambda: all(min([c["seenSeconds"] for c in uses(self.node, name)], default=0) >= seconds for name in names), 20)

    def advise(self, *args, **more):
        return subprocess.run([RATION, "advise", "--min-age", "1", *args], env=self.env, capture_output=True, text=True,
                              timeout=60, **more)

    def document(self, *args):
        return json.loads(printed(self.advise("-o", "json", *args)))

    def units(self, name):
        placement = json.loads(self.api.pod(name)["metadata"]["annotations"]["ration.dev/placement"])
        return placement["containers"]["main"][0]["units"]


@pytest.fixture(name="lab")
def _lab(tmp_path):
    with Node() as node:
        node.up(30)
        scheduler = Scheduler(node.api)
        try:
            yield Lab(node, scheduler, tmp_path)
        finally:
            scheduler.end()


def of(document, name):
    return next(c for c in document["containers"] if c.get("pod") == name)


@needs_root
def test_programs_of_known_peaks_get_the_right_size_within_a_unit(lab):
    """Two of them have freed most of it since."""
    peaks = {"one": (7, 1228), "two": (8, 2764), "three": (15, 9000)}
    for name, (units, mib) in peaks.items():
        lab.start(name, units, mib, card=1 if name == "three" else 0)
    lab.seen(1, *peaks)
    for name in ("one", "two"):
        assert tell(lab.programs[name], "free") == 0
        wait_for(lambda name=name: use(lab.node, name)["usedBytes"] == CONTEXT, 10)
    document = lab.document()
    for name, (units, mib) in peaks.items():
        found, peak = of(document, name), mib + CONTEXT_MIB
        assert (found["peakBytes"], found["grantedUnits"], found["advice"]) == (peak * MIB, units, "less")
        assert 0 <= found["units"] - math.ceil(peak / UNIT) <= 1
        assert found["units"] == math.ceil(peak * 1.1 / UNIT)
        assert found["command"] == f"ration set {name} -n default -c main --mem {found['units']}"
    # 1540, 3076 and 9312 MiB with a tenth on top are 2, 4 and 10 units.
    assert (document["unitsLess"], document["mibLess"]) == (5 + 4 + 5, 14 * 1024)
    exact = lab.document("--margin", "0")
    assert [of(exact, name)["units"] for name in peaks] == [2, 3, 9]


@needs_root
def test_the_table_has_the_commands_and_apply_carries_them_out(lab):
    lab.start("one", 7, 1228)
    lab.start("two", 6, 5000)
    lab.seen(1, "one", "two")
    shown = printed(lab.advise())
    assert shown == (
        "POD          CONTAINER  UNITS  LIMIT    USED     PEAK     REFUSED  WAITED  ADVICE\n"
        "default/one  main       7      7541MiB  1540MiB  1540MiB  0        -       2 units, 5 less\n"
        "default/two  main       6      6464MiB  5312MiB  5312MiB  0        -       -\n"
        "These commands follow the advice; --apply carries them out:\n"
        "  ration set one -n default -c main --mem 2\n"
        "5 units (5.0 GiB) can be won back from 1 of 2 containers.\n")
    assert lab.units("one") == 7    # it changes nothing
    assert printed(lab.advise("--apply")) == shown + ("pod one container main: 2 units of GPU 0 (2154 MiB)\n"
                                                      "1 of 1 commands were carried out.\n")
    assert (lab.units("one"), lab.units("two")) == (2, 6)
    wait_for(lambda: use(lab.node, "one")["limitBytes"] == 2154 * MIB, 10)
    again = lab.document()
    assert of(again, "one")["advice"] == "keep" and again["unitsLess"] == 0
    assert lab.advise("--apply").stdout.endswith("0 units (0.0 GiB) can be won back from 0 of 2 containers.\n"
                                                 "0 of 0 commands were carried out.\n")


@needs_root
def test_a_program_that_was_refused_memory_gets_as_much_as_its_gpu_has_free(lab):
    lab.start("short", 2, 1000, 2000)      # the second one is refused: 1312 + 2000 MiB, 4 units
    lab.start("other", 11, 11000)
    lab.seen(1, "short", "other")
    wait_for(lambda: use(lab.node, "short")["refused"] == 1, 10)
    found = of(lab.document(), "short")
    assert (found["advice"], found["units"], found["refused"]) == ("more", 4, 1)
    shown = lab.advise("--apply")
    assert shown.returncode == 0, shown.stderr
    assert "2 units" not in shown.stdout.split("\n")[1] and "4 units, 2 more" in shown.stdout.split("\n")[1]
    assert "; 1 should have more.\n" in shown.stdout and lab.units("short") == 4
    wait_for(lambda: use(lab.node, "short")["limitBytes"] == 4309 * MIB, 10)
    assert tell(lab.programs["short"], "alloc", 2000 * MIB) == 0
    assert of(lab.document(), "short")["advice"] == "keep"
    assert tell(lab.programs["short"], "alloc", 3000 * MIB) != 0    # nothing is free now
    wait_for(lambda: use(lab.node, "short")["refused"] == 2, 10)
    assert of(lab.document(), "short")["advice"] == "no room"
    assert "more, but its GPU has none free" in lab.advise("--apply").stdout and lab.units("short") == 4


@needs_root
def test_young_ended_and_other_containers_get_no_advice(lab):
    lab.start("one", 4, 100)
    lab.start("two", 4, 100, namespace="team")
    lab.seen(1, "one")
    shown = lab.advise("--min-age", "600")
    assert re.search(r"^default/one  main .* too young$", shown.stdout, re.M), shown.stdout
    assert shown.stdout.endswith("0 units (0.0 GiB) can be won back from 0 of 2 containers; 2 too young for advice.\n")
    assert [c["pod"] for c in lab.document("-n", "team")["containers"]] == ["two"]
    assert lab.advise("-n", "empty").stdout == "No container with GPU memory runs here.\n"
    lab.api.set_phase("one", "Succeeded")
    assert [c["pod"] for c in lab.document(NODE)["containers"]] == ["two"]
    assert "not all of these are nodes that share GPU memory" in lab.advise("n7").stderr


@needs_root
def test_apply_stops_at_a_program_that_uses_more_by_then(lab, tmp_path):
    """The kubectl lets the program grow between the table and the first command."""
    lab.start("one", 7, 100)
    lab.start("two", 4, 100)
    lab.seen(1, "one", "two")
    signal, go = tmp_path / "asked", tmp_path / "go"
    wrapper = tmp_path / "kubectl"
    wrapper.write_text(f"#!/bin/sh\ncase \"$*\" in *pods/one*) touch {signal}; while [ ! -e {go} ]; do sleep 0.05; done;; esac\n"
                       f"exec {KUBECTL} \"$@\"\n")
    wrapper.chmod(0o755)
    asking = subprocess.Popen([RATION, "advise", "--min-age", "1", "--apply"], env=lab.env | {"KUBECTL": str(wrapper)},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(signal.exists, 20)
    assert tell(lab.programs["one"], "alloc", 3000 * MIB) == 0
    wait_for(lambda: use(lab.node, "one")["usedBytes"] > 3000 * MIB, 10)
    go.touch()
    out, err = asking.communicate(timeout=60)
    assert asking.returncode == 1 and out.endswith("0 of 2 commands were carried out.\n"), out
    assert err == "ration: pod default/one uses 3412 MiB now, which does not fit into 1 unit: run `ration advise` again\n"
    assert (lab.units("one"), lab.units("two")) == (7, 4)


@needs_root
def test_apply_stops_at_a_pod_that_someone_else_resizes(lab, tmp_path):
    lab.start("one", 7, 100)
    lab.start("two", 4, 100)
    lab.seen(1, "one", "two")
    wrapper = tmp_path / "kubectl"
    patch = "KUBECTL patch pod one --namespace default --type=merge --patch='{\"metadata\": {\"annotations\": {\"ration.dev/resize\": \"{}x\"}}}'"
    wrapper.write_text(f"#!/bin/sh\ncase \"$*\" in *pods/one*) {patch.replace('KUBECTL', str(KUBECTL))} >/dev/null;; esac\nexec {KUBECTL} \"$@\"\n")
    wrapper.chmod(0o755)
    lab.env["KUBECTL"] = str(wrapper)
    lab.scheduler.stop()
    shown = lab.advise("--apply")
    assert (shown.returncode, shown.stderr) == (
        1, "ration: pod default/one has changed since the advice: run `ration advise` again\n")
    assert shown.stdout.endswith("0 of 2 commands were carried out.\n") and lab.units("two") == 4


@needs_root
def test_apply_says_what_is_done_when_one_is_refused_in_the_middle(lab, tmp_path):
    for name, units in (("one", 6), ("two", 5), ("three", 4)):    # in this order: the largest difference first
        lab.start(name, units, 100)
    lab.seen(1, "one", "two", "three")
    wrapper = tmp_path / "kubectl"
    wrapper.write_text(f"""#!/bin/sh
case "$*" in *patch*two*) echo 'Error from server (Forbidden): pods "two" is forbidden: User "jane" cannot patch' >&2; exit 1;; esac
exec {KUBECTL} "$@"
""")
    wrapper.chmod(0o755)
    lab.env["KUBECTL"] = str(wrapper)
    shown = lab.advise("--apply")
    assert shown.returncode == 1 and "two" in shown.stderr and "cannot patch" in shown.stderr and shown.stderr.count("\n") == 1, shown
    assert shown.stdout.endswith("pod one container main: 1 units of GPU 0 (1077 MiB)\n1 of 3 commands were carried out.\n"), shown
    assert [lab.units(name) for name in ("one", "two", "three")] == [1, 5, 4]
    lab.env["KUBECTL"] = str(KUBECTL)
    assert lab.advise("--apply").stdout.endswith("2 of 2 commands were carried out.\n")    # the next time it goes on


@needs_root
def test_several_containers_and_gpus_of_a_pod_are_advised_as_set_takes_them(lab):
    node = lab.node
    pod = node.pod_of("pair", {"a": 3, "b": 5}, init={"init": 2})
    node.kubelet.admit(pod)
    for name in ("init", "a", "b"):
        node.kubelet.run(pod, name)
    both = [{"uuid": node.uuid(card), "units": 4} for card in (0, 1)]
    wide = lab.api.create_pod("wide", node=NODE, labels={"aliyun.com/gpu-count": "2"}, gpu_mem=8, annotations={
        "ration.dev/unit": "1024", "ration.dev/placement": json.dumps({"unit": 1024, "containers": {"main": both}})})
    node.kubelet.admit(wide)
    node.kubelet.run(wide, "main")
    for name in ("pair", "wide"):
        lab.api.set_phase(name, "Running")
    lab.seen(1, "pair", "wide")
    document = lab.document()
    found = {(c["pod"], c["container"]): (c["grantedUnits"], c["units"]) for c in document["containers"]}
    assert found == {("pair", "a"): (3, 1), ("pair", "b"): (5, 1), ("wide", "main"): (8, 2)}
    assert len(of(document, "wide")["gpus"]) == 2
    shown = lab.advise("--apply")
    assert shown.returncode == 0, shown.stderr
    assert lab.document()["unitsLess"] == 0


# ---- pages that no agent makes, claims ----

class Page:
    """An agent's page, as the test says."""

    def __init__(self):
        self.status, self.text, self.delay_s = 200, "", 0
        page = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                time.sleep(page.delay_s)
                self.send_response(page.status if self.path == "/use" else 404)
                self.end_headers()
                self.wfile.write(page.text.encode())

            def log_message(self, *args):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(name="page")
def _page():
    page = Page()
    yield page
    page.server.shutdown()
    page.server.server_close()


def world(cluster, page, mode, *pods, nodes="n", **more):
    """The page is that of each agent. A node's name is one letter."""
    agents = [{"metadata": {"name": f"agent-{n}", "namespace": "kube-system"}, "spec": {"nodeName": n, "containers": [{"name": "a"}]}}
              for n in nodes]
    cluster.set([listed_node(n, "10.0.0.1", 16160, mode=mode) for n in nodes], [*agents, *pods],
                forward=page.server.server_address[1], **more)


def advise(cluster, *args):
    return subprocess.run([RATION, "advise", *args], env=cluster.environment(), capture_output=True, text=True, timeout=60)


USE = {"uid": "u1", "namespace": "default", "pod": "slice", "container": "claim", "owner": "", "uuid": "GPU-n-0",
       "limitBytes": 3 << 30, "usedBytes": 1 << 30, "peakBytes": 2 << 30, "refused": 1, "wantedBytes": 0, "seenSeconds": 9000,
       "memory": [0] * 16}
GPU = {"uuid": "GPU-n-0", "index": 0, "mib": 16160, "units": 15, "granted": 0}


def test_a_claim_is_listed_and_gets_no_command(cluster, page):
    page.text = json.dumps({"gpus": [GPU | {"units": 0}], "containers": [USE]})
    world(cluster, page, "dra", slices=[], claims=[resource_claim("slice", "3Gi", "n", pods=["web-0"])])
    shown = printed(advise(cluster))
    assert shown.splitlines()[1].split() == ["default/slice", "claim", "-", "3072MiB", "1024MiB", "2048MiB", "1", "-", "claim"]
    assert "ration set" not in shown
    assert advise(cluster, "--apply").stdout.endswith("0 of 0 commands were carried out.\n")
    document = json.loads(printed(advise(cluster, "-o", "json")))
    assert document["containers"][0]["claim"] == "slice" and "command" not in document["containers"][0]


def pod(name, units):
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": {
        "ration.dev/unit": "1024", "ration.dev/placement": json.dumps({"unit": 1024, "containers": {
            "main": [{"uuid": "GPU-n-0", "units": units}]}})}},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}}]},
        "status": {"phase": "Running"}}


def used(name, **more):
    return USE | {"uid": f"uid-{name}", "pod": name, "container": "main"} | more


def test_free_units_are_advised_to_one_container_only(cluster, page):
    """Two are free. 5 GiB with the margin are 5632 MiB, 6 units; the container that was refused more often gets them."""
    page.text = json.dumps({"gpus": [GPU | {"granted": 13}], "containers": [
        used("a", refused=1, wantedBytes=5 << 30), used("b", refused=7, wantedBytes=5 << 30), used("c", refused=0)]})
    world(cluster, page, "cgpu", pod("a", 4), pod("b", 4), pod("c", 3), pod("unknown", 2))
    document = json.loads(printed(advise(cluster, "-o", "json")))
    assert [(c["pod"], c["advice"], c["units"]) for c in document["containers"]] == [
        ("b", "more", 6), ("a", "no room", 4), ("c", "keep", 3)]


LESS = {"peakBytes": 1 << 30, "usedBytes": 0, "refused": 0}    # 1 GiB and a tenth are 2 of the 15 units


def test_a_command_names_the_cluster_and_the_user_as_the_options_did(cluster, page):
    """A shell reads the words of the command as they were given. The token is not printed."""
    page.text = json.dumps({"gpus": [GPU], "containers": [used("a", **LESS)]})
    world(cluster, page, "cgpu", pod("a", 5))
    options = ["--context", "the lab's", "--kubeconfig=/home/jörg/$HOME; id", "--as", "ann@x", "--token", "s3cret"]
    wanted = ["ration", "set", "a", "-n", "default", "-c", "main", "--mem", "2", "--context=the lab's",
              "--kubeconfig=/home/jörg/$HOME; id", "--as=ann@x"]
    text, document = advise(cluster, *options), json.loads(advise(cluster, "-o", "json", *options).stdout)
    line = text.stdout.splitlines()[3]
    assert shlex.split(line) == shlex.split(document["containers"][0]["command"]) == wanted
    assert "s3cret" not in text.stdout


def test_a_name_that_is_no_name_is_one_word_for_a_shell(cluster, page):
    """The agent's page could have any name."""
    page.text = json.dumps({"gpus": [GPU], "containers": [used("a", **LESS) | {"pod": "a; $(id) 'x"}]})
    world(cluster, page, "cgpu", pod("a", 5))
    assert shlex.split(advise(cluster).stdout.splitlines()[3])[:4] == ["ration", "set", "a; $(id) 'x", "-n"]


def test_a_node_without_isolation_has_advice_for_manifests_and_no_commands(cluster, page):
    """5 units are 5386 MiB. 6 GiB and a tenth are 6758 MiB, 7 units; 1 GiB and a tenth are 2."""
    page.text = json.dumps({"gpus": [GPU | {"granted": 15}], "containers": [
        used("small", **LESS), used("large", peakBytes=6 << 30, usedBytes=5 << 30, refused=0), used("right", peakBytes=5 << 30, refused=0)]})
    world(cluster, page, "share", pod("small", 5), pod("large", 5), pod("right", 5))
    assert printed(advise(cluster, "--apply")) == (
        "POD            CONTAINER  UNITS  LIMIT  USED     PEAK     REFUSED  WAITED  ADVICE\n"
        "default/large  main       5      -      5120MiB  6144MiB  -        -       7 units, 2 more\n"
        "default/small  main       5      -      0MiB     1024MiB  -        -       2 units, 3 less\n"
        "default/right  main       5      -      1024MiB  5120MiB  -        -       -\n"
        "On nodes without isolation only a new pod gets another size, from its manifest:\n"
        "  default/large main: aliyun.com/gpu-mem: 7\n"
        "  default/small main: aliyun.com/gpu-mem: 2\n"
        "3 units (3.0 GiB) can be won back from 1 of 3 containers; 1 should have more.\n"
        "0 of 0 commands were carried out.\n")
    document = json.loads(printed(advise(cluster, "-o", "json")))
    assert [(c["pod"], c["advice"], c["units"], c["isolated"], "command" in c) for c in document["containers"]] == [
        ("large", "more", 7, False, False), ("small", "less", 2, False, False), ("right", "keep", 5, False, False)]


def test_a_node_of_another_mode_is_no_node_for_advice(cluster, page):
    world(cluster, page, "topology")
    assert advise(cluster).stderr == ("ration: this cluster has no node that shares GPU memory (label ack.node.gpu.schedule: share, cgpu, "
                                      "core_mem or dra)\n")
    assert advise(cluster, "n").stderr.startswith("ration: not all of these are nodes that share GPU memory (")


def test_one_that_waits_for_computing_power_is_told_what_helps(cluster, page):
    page.text = json.dumps({"gpus": [GPU], "containers": [
        used("a", coreShare=300000, waitedSeconds=8100, core=[0] * 16, refused=0, peakBytes=3 << 30),
        used("b", coreShare=300000, waitedSeconds=900, core=[0] * 16, refused=0, peakBytes=3 << 30)]})
    world(cluster, page, "core_mem", pod("a", 3), pod("b", 3))
    lines = advise(cluster).stdout.splitlines()
    assert [line.split()[7] for line in lines[1:3]] == ["90%", "10%"]
    assert lines[3:] == [
        "default/a main waited for computing power 90% of the time: a new pod can have more aliyun.com/gpu-core.percentage.",
        "0 units (0.0 GiB) can be won back from 0 of 2 containers."]


@pytest.mark.parametrize("text", ["", "[1, 2", "x" * 100])
def test_a_page_that_is_no_json_is_no_answer(cluster, page, text):
    page.text = text
    world(cluster, page, "cgpu")
    shown = advise(cluster)
    assert shown.returncode == 1 and not shown.stdout and shown.stderr.startswith("ration: ")


@pytest.mark.parametrize("use_of", [
    {}, {"uid": 5, "container": [], "seenSeconds": "x"}, USE | {"peakBytes": -5, "seenSeconds": 1 << 62, "refused": -1},
    USE | {"uuid": "GPU-" + "x" * 500, "pod": "\x1b[2J\n", "namespace": "a\tb"}, USE | {"memory": {"a": 1}, "core": 7}])
def test_a_page_that_says_anything_does_no_harm(cluster, page, use_of):
    page.text = json.dumps({"gpus": [GPU, {}, 7, {"mib": -1, "units": 1 << 60}], "containers": [use_of, 5, None, use_of]})
    for mode in ("cgpu", "dra"):
        world(cluster, page, mode, slices=[], claims=[])
        shown, document = advise(cluster), advise(cluster, "-o", "json")
        assert shown.returncode == document.returncode == 0 and not set(shown.stdout) & set("\x1b\t\x07")
        json.loads(document.stdout)


def test_a_pod_that_is_no_json_hides_no_other(cluster, page, tmp_path):
    page.text = json.dumps({"gpus": [GPU | {"granted": 4}], "containers": [used("a", **LESS)]})
    world(cluster, page, "cgpu", pod("a", 4))
    environment = cluster.environment()
    (tmp_path / "pods").write_text('{"kind":"PodList","items":[{"aliyun.com/gpu-mem":01,},' + json.dumps(pod("a", 4)) + "]}")
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\ncase "$*" in *pods?limit=*) cat {tmp_path}/pods ;; *) exec {environment["KUBECTL"]} "$@" ;; esac\n')
    kubectl.chmod(0o755)
    done = subprocess.run([RATION, "advise", "-o", "json"], env=environment | {"KUBECTL": str(kubectl)}, capture_output=True, text=True,
                          timeout=60)
    assert [c["pod"] for c in json.loads(printed(done))["containers"]] == ["a"]


def on_terminal(command, environment):
    """(status, standard output, what a terminal shows of standard error)."""
    ours, its = os.openpty()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=its, text=True, timeout=60, check=False)
    os.close(its)
    shown = b""
    with contextlib.suppress(OSError):    # EIO: all that was written has been read
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    return done.returncode, done.stdout, shown.decode()


def test_a_terminal_is_told_which_agent_is_asked_after_a_second(cluster, page):
    world(cluster, page, "cgpu", nodes="no")
    page.text = json.dumps({"gpus": [], "containers": []})
    status, out, shown = on_terminal([RATION, "advise"], cluster.environment())
    assert (status, out, shown) == (0, "No container with GPU memory runs here.\n", "")
    page.delay_s = 1.2
    status, out, shown = on_terminal([RATION, "advise"], cluster.environment())
    assert (status, out) == (0, "No container with GPU memory runs here.\n")
    assert shown == "ration: asking the agent of node o, 2 of 2 ...\r\nration: reading the pods ...\r\n"
    assert advise(cluster).stderr == ""    # no terminal


def test_an_agent_of_an_earlier_version_is_named(cluster, page):
    page.status = 404
    world(cluster, page, "cgpu")
    shown = advise(cluster)
    assert shown.returncode == 1 and "is of an earlier version" in shown.stderr, shown.stderr


@pytest.mark.parametrize("args", [["--apply", "-o", "json"], ["--margin", "-1"], ["--margin", "1001"], ["--min-age", "x"],
                                  ["-n", "a/b"], ["-o", "yaml"]])
def test_wrong_arguments_get_the_way_to_help(cluster, page, args):
    shown = advise(cluster, *args)
    assert shown.returncode == 2 and "\nTry 'ration advise --help'" in shown.stderr and not shown.stdout
