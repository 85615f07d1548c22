"""`ration plan pods`: what it says is what then happens."""
import json
import pathlib
import random
import re
import subprocess
import time

import pytest

from histories import SEED
from planning import RATION, create, manifest, node, schedule


def where(plan):
    return [(pod["node"], [gpu["index"] for gpu in pod["gpus"]]) for pod in plan["pods"]]


def test_it_counts_the_pods_that_fit_and_names_the_node_and_gpu_of_each(api, planner):
    node(api, "a", 8192, 8192)
    plan = planner().pods(manifest(gpu_mem=3))
    assert plan["fit"] == 4 and where(plan) == [("a", [0]), ("a", [0]), ("a", [1]), ("a", [1])]
    assert [gpu["uuid"] for gpu in plan["pods"][2]["gpus"]] == ["GPU-a-1"]
    assert plan["nodes"] == [{"node": "a", "reason": "no GPU has 3 units free", "by": "ration", "resource": "aliyun.com/gpu-mem"}]
    assert plan["stoppedBy"] == [{"resource": "aliyun.com/gpu-mem", "nodes": 1}] and plan["notes"] == []


def test_the_text_has_a_line_for_each_pod_and_the_reasons_by_node(api, planner):
    node(api, "a", 8192)
    node(api, "b", 8192, cpu="500m")
    node(api, "c", 8192, unschedulable=True)
    api.create_node("d")
    assert planner().text("pods", "-f", "-", stdin=json.dumps(manifest(gpu_mem=5, cpu="600m"))) == (
        "POD  NODE  GPU\n"
        "1    a     0\n"
        "1 more pod fits.\n"
        "Pod 2 does not fit:\n"
        "  1 node  no GPU has 5 units free  a\n"
        "  1 node  insufficient cpu         b\n"
        "  1 node  node is unschedulable    c\n"
        "  1 node  without GPUs\n"
        "It lacks aliyun.com/gpu-mem on 1 node, cpu on 1 node.\n")


def test_count_ends_the_search(api, planner):
    node(api, "a", 8192, 8192)
    planner = planner()
    assert planner.pods(manifest(gpu_mem=3), "--count", "2")["fit"] == 2
    plan = planner.pods(manifest(gpu_mem=3), "--count", "9")
    assert (plan["fit"], plan["asked"]) == (4, 9)
    assert planner.text("pods", "-f", "-", "--count", "4", stdin=json.dumps(manifest(gpu_mem=3))).endswith("All 4 pods fit.\n")
    assert "4 of 9 pods fit.\nPod 5 does not fit:\n" in planner.text("pods", "-f", "-", "--count", "9",
                                                                  stdin=json.dumps(manifest(gpu_mem=3)))


def test_the_pods_of_a_deployment_exist_when_the_first_one_is_tried(api, planner):
    """Nodes of three GPUs are scarce then: on these, a pod for two GPUs takes more than half."""
    for name, n in (("three", 3), ("four", 4), ("more", 4)):
        node(api, name, *[24576] * n, cpu="4")
    planner, pod = planner(), manifest(gpu_mem=4, cpu="1", labels={"aliyun.com/gpu-count": "2"})
    alone, together = (planner.pods(pod, "--count", count)["pods"][0]["node"] for count in ("1", "4"))
    pods = [create(api, f"p{i}", pod) for i in range(4)]
    planner.scheduler.has_read_pods()
    assert schedule(api, planner.scheduler, pods[0])[0] == together
    assert (alone, together) == ("three", "four")


def test_a_plan_changes_nothing(api, planner):
    node(api, "a", 8192)
    planner = planner()
    before, objects = planner.scheduler.used(), [api.list("pods"), api.list("nodes")]
    assert planner.pods(manifest(gpu_mem=8))["fit"] == 1
    assert planner.scheduler.used() == before and objects == [api.list("pods"), api.list("nodes")]
    assert planner.pods(manifest(gpu_mem=8))["fit"] == 1


TEMPLATES = {
    "Deployment": ("apps/v1", lambda pod: {"replicas": 3, "template": pod}),
    "StatefulSet": ("apps/v1", lambda pod: {"template": pod}),
    "Job": ("batch/v1", lambda pod: {"template": pod}),
    "CronJob": ("batch/v1", lambda pod: {"schedule": "@daily", "jobTemplate": {"spec": {"template": pod}}}),
}


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_template_of_a_controller_is_a_manifest_too(api, planner, kind):
    node(api, "a", 8192, 8192, policy="spread")
    version, spec = TEMPLATES[kind]
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": manifest(gpu_mem=3)["spec"]}
    plan = planner().pods({"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, "spec": spec(pod)})
    assert where(plan) == [("a", [0]), ("a", [1]), ("a", [0]), ("a", [1])]    # spread: pods of one owner avoid each other


def test_a_pod_of_a_deployment_counts_beside_those_that_run(api, planner):
    """On a spread node, one more replica avoids the GPU of the first one; another Deployment takes the emptier GPU."""
    node(api, "a", 8192, 10240, policy="spread")
    planner = planner()
    first = create(api, "web-5d9-x", manifest(gpu_mem=1), owner="web-5d9")
    assert schedule(api, planner.scheduler, first) == ("a", ["GPU-a-1"])

    def deployment(name):
        return {"kind": "Deployment", "metadata": {"name": name}, "spec": {"template": manifest(gpu_mem=1)}}
    assert where(planner.pods(deployment("web"), "--count", "1")) == [("a", [0])]
    assert where(planner.pods(deployment("api"), "--count", "1")) == [("a", [1])]


YAML = """# comment
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  nodeSelector: {zone: "1"}
  containers:
  - name: main
    image: example
    resources:
      limits: &limits
        aliyun.com/gpu-mem: 3
        cpu: 0.1
      requests: *limits
---
"""


def test_a_manifest_is_yaml_from_a_file(api, planner, tmp_path):
    node(api, "a", 8192, labels={"zone": "1"}, cpu="150m")
    node(api, "b", 8192, labels={"zone": "2"})
    (tmp_path / "pod.yaml").write_text(YAML)
    plan = json.loads(planner().text("pods", "-f", str(tmp_path / "pod.yaml"), "-o", "json"))
    assert where(plan) == [("a", [0])]
    assert [(n["node"], n["reason"]) for n in plan["nodes"]] == [
        ("a", "insufficient cpu"), ("b", "node does not match the pod's node affinity or nodeSelector")]


@pytest.mark.parametrize("spec, sentence", [
    ({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}}}, "podAntiAffinity"),
    ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}}}, "podAffinity"),
    ({"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}, "topologySpreadConstraints"),
    ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "volumes"),
    ({"resourceClaims": [{"name": "c"}]}, "resourceClaims"),
])
def test_what_the_plan_does_not_consider_is_said(api, planner, spec, sentence):
    node(api, "a", 8192)
    assert planner().pods(manifest(gpu_mem=3, **spec))["notes"] == [f"The plan does not consider the pod's {sentence}."]


@pytest.mark.parametrize("spec, words", [({"priorityClassName": "high"}, "the priority class high without its number"),
                                         ({"schedulerName": "other"}, "names the scheduler other")])
def test_what_the_manifest_leaves_to_others_is_said(api, planner, spec, words):
    node(api, "a", 8192)
    planner = planner()
    note, = planner.pods(manifest(gpu_mem=3, **spec))["notes"]
    assert words in note
    assert planner.pods(manifest(gpu_mem=3, priorityClassName="high", priority=7, schedulerName="ack-co-scheduler"))["notes"] == []


def test_what_only_prefers_or_is_local_needs_no_note(api, planner):
    node(api, "a", 8192)
    spec = {"volumes": [{"name": "v", "emptyDir": {}}], "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}}
    assert planner().pods(manifest(gpu_mem=3, **spec))["notes"] == []


def test_pods_that_could_be_evicted_are_a_note_and_no_room(api, planner):
    node(api, "a", 8192)
    planner = planner()
    low = create(api, "low", manifest(gpu_mem=8, priority=0))
    assert schedule(api, planner.scheduler, low)[0] == "a"
    plan = planner.pods(manifest(gpu_mem=8, priority=1000))
    assert plan["fit"] == 0 and "may evict them" in plan["notes"][0]
    assert planner.pods(manifest(gpu_mem=8, priority=0))["notes"] == []


def test_a_saved_history_makes_the_same_plan_without_a_cluster(api, planner, tmp_path):
    node(api, "a", 8192, 8192)
    node(api, "b", 8192, unschedulable=True)
    planner = planner()
    schedule(api, planner.scheduler, create(api, "first", manifest(gpu_mem=5)))
    pod, (history, objects) = manifest(gpu_mem=3), planner.save()
    expected = planner.pods(pod)
    assert where(expected) == [("a", [0]), ("a", [1]), ("a", [1])]
    (tmp_path / "pod").write_text(json.dumps(pod))
    done = planner.run("pods", "-f", str(tmp_path / "pod"), "-o", "json", *history, *objects, KUBECTL="/nonexistent")
    assert (json.loads(done.stdout), done.stderr) == (expected, "")
    done = planner.run("pods", "-f", str(tmp_path / "pod"), "-o", "json", "--history", "-", KUBECTL="/nonexistent",
                       stdin=(tmp_path / "history").read_text())
    plan = json.loads(done.stdout)
    assert plan["fit"] == 5 and "filters of kube-scheduler itself" in plan["notes"][0]    # b's cordon is unknown


@pytest.mark.parametrize("pod, words", [
    ("", "it is empty"),
    ("kind: Pod\n---\nkind: Pod\n", "it has several documents; give one object"),
    ("{", "it is not valid YAML"),
    ("[]", "it is not an object with apiVersion, kind and metadata"),
    ("a: " * 10, "it is not valid YAML"),
    ("a: " + "[" * 70 + "]" * 70, "it is nested deeper than 64 levels"),
    ("a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
     "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n", "it has more than 100000 values"),
    ("a: 1\na: 2\n", "line 2 has the key a for the second time"),
    ("spec: {}", "it has no kind"),
    ("kind: Service", "a Service makes no pods; give a Pod or an object with spec.template"),
    ("kind: DaemonSet\nspec: {template: {spec: {}}}", "it is a DaemonSet"),
    ("kind: List\nitems: []", "it is a List; give one object"),
    ("kind: Pod", "it has no spec"),
    ("kind: Pod\nspec: {containers: []}", "its spec has no containers"),
    (json.dumps(manifest(gpu_mem=3, nodeName="a")), "it names its node (nodeName)"),
    (json.dumps(manifest(gpu_mem=3, schedulingGates=[{"name": "x"}])), "it has schedulingGates"),
    (json.dumps(manifest()), "the pod asks for no GPU of ration"),
    (json.dumps(manifest(gpu_mem="1.5")), "gpu-mem"),
])
def test_a_manifest_that_makes_no_such_pod_has_a_sentence_before_the_cluster_is_asked(pod, words):
    done = subprocess.run([RATION, "plan", "pods", "-f", "-"], capture_output=True, text=True, check=False, input=pod, timeout=60,
                          env={"KUBECTL": "/nonexistent"})
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(f"ration: -: .*{re.escape(words)}.*\n", done.stderr), done.stderr


def test_a_kubectl_that_ignores_sigterm_is_killed(api, planner):
    """Without that, the command would never end."""
    node(api, "n", 8192)
    planner = planner()
    begin = time.monotonic()
    assert planner.run("pods", "-f", "-", "--count", "1", stdin=json.dumps(manifest(gpu_mem=3)), FORWARD_STAYS="1").stdout.endswith("The pod fits.\n")
    assert 2 <= time.monotonic() - begin < 15
    assert (planner.directory / "forward.log").read_text() == "begun\n"


def test_files_that_are_no_history_or_no_objects_have_a_sentence(api, planner, tmp_path):
    node(api, "a", 8192)
    planner = planner()
    (history, objects), pod = planner.save(), json.dumps(manifest(gpu_mem=3))
    (tmp_path / "bad").write_text("{}\n")
    bad = str(tmp_path / "bad")
    assert "first line is not that of a history" in planner.fails("pods", "-f", "-", "--history", bad, stdin=pod)
    assert "kubectl get nodes,pods -A -o json" in planner.fails("pods", "-f", "-", *history, "--objects", bad, stdin=pod)
    assert "No such file" in planner.fails("pods", "-f", "-", "--history", bad + "der", stdin=pod)
    assert "No such file" in planner.fails("pods", "-f", bad + "der")
    (tmp_path / "cut").write_text((tmp_path / "history").read_text()[:-30])
    assert "cut: line " in planner.fails("pods", "-f", "-", "--history", str(tmp_path / "cut"), stdin=pod)


def test_names_from_a_file_of_somebody_cannot_steer_the_terminal(api, planner, tmp_path):
    """A file of a ticket may have any name. The API server would accept none of these."""
    node(api, "a", 8192)
    planner = planner()
    history, (_, path) = planner.save()
    objects = json.loads(pathlib.Path(path).read_text())
    hostile = "\x1b]0;x\x07\x1b[2J\u202eevil\u0085\x9b31m"
    owners = [{"kind": "DaemonSet", "name": hostile, "uid": "u", "controller": True}]
    made = {"kind": "Pod", "spec": manifest(gpu_mem=3)["spec"] | {"nodeName": "a"}, "status": {"phase": "Running"}}
    objects["items"] += [made | {"metadata": {"name": name, "namespace": namespace, "uid": f"u{i}", "labels": {hostile: hostile}, "ownerReferences": owners}}
                         for i, (name, namespace) in enumerate([(hostile, "x"), ("x", hostile), ("line\nfeed", "x"), ("good", "x")])]
    objects["items"].append({"kind": "Node", "metadata": {"name": hostile}, "status": {}})
    (tmp_path / "hostile").write_text(json.dumps(objects))
    more = [*history, "--objects", str(tmp_path / "hostile")]
    for words in (["drain", "a"], ["moves"], ["unit", "--unit", "128MiB"], ["pods", "-f", "-"], ["drain", "a", "-o", "json"]):
        done = planner.run(*words, *more, stdin=json.dumps(manifest(gpu_mem=3, nodeSelector={hostile: hostile})))
        assert done.returncode == 0 and not re.search("[^ -~\n]", done.stdout + done.stderr), done
    text = planner.run("drain", "a", *more).stdout
    assert text.splitlines()[1:] == ["x/good  a     stays: DaemonSet ?]0;x??[2J???evil????31m", "1 pod: 1 stays.",
                                     "Note: 4 objects of the API server could not be read and are left out."], text


@pytest.mark.parametrize("args", [[], ["dance"], ["pods"], ["pods", "-f", "x", "node"], ["pods", "-f", "-", "--history", "-"],
                                  ["pods", "-f", "x", "--objects", "y"], ["pods", "-f", "x", "--count", "0"],
                                  ["pods", "-f", "x", "--count", "10001"]])
def test_wrong_arguments_are_refused(args):
    done = subprocess.run([RATION, "plan", *args], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "Try 'ration plan --help'" in done.stderr


# ---- the promise ----

def random_node(api, rng, name):
    mode = rng.choice(["share", "share", "share", "topology"])
    return node(api, name, *[1024 * rng.choice([8, 15, 24])] * rng.randint(1, 4), mode=mode, policy=rng.choice(["binpack", "spread"]),
                cpu=rng.choice(["2", "8", "16"]), memory=rng.choice(["8Gi", "64Gi"]), unschedulable=rng.random() < 0.1,
                labels={"zone": rng.choice("ab"), "rank": str(rng.randint(1, 9))},
                taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}] if rng.random() < 0.2 else [])


def random_manifest(rng):
    spec = {}
    if rng.random() < 0.3:
        spec["nodeSelector"] = {"zone": rng.choice("ab")}
    if rng.random() < 0.3:
        expression = rng.choice([{"operator": "Gt", "values": ["4"]}, {"operator": "Lt", "values": ["6"]},
                                 {"operator": "NotIn", "values": ["3", "7"]}, {"operator": "Exists"}])
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "rank"} | expression]}]}}}
    if rng.random() < 0.4:
        spec["tolerations"] = [rng.choice([{"operator": "Exists"}, {"key": "gpu", "value": "yes"},
                                           {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}])]
    size = {"whole": rng.randint(1, 3)} if rng.random() < 0.2 else {"gpu_mem": rng.randint(1, 16)}
    count = {"labels": {"aliyun.com/gpu-count": "2"}} if "gpu_mem" in size and size["gpu_mem"] % 2 == 0 and rng.random() < 0.3 else {}
    return manifest(cpu=rng.choice([None, "500m", "3"]), memory=rng.choice([None, "1Gi", "5Gi"]), **size, **count, **spec)


def change(api, rng, step):
    """Between two plans something ends, and nodes are cordoned or free again."""
    pods = [pod for pod in api.list("pods") if pod["spec"].get("nodeName")]
    for pod in rng.sample(pods, min(len(pods), rng.randint(0, 6))):
        api.set_phase(pod["metadata"]["name"], "Succeeded")
        api.delete("pods", pod["metadata"]["name"])
    name = rng.choice(api.list("nodes"))["metadata"]["name"]
    api.patch("nodes", name, {"spec": {"unschedulable": rng.random() < 0.3}})


def test_in_fifty_random_situations_what_the_plan_says_is_what_happens(api, planner):
    rng = random.Random(SEED)
    for i in range(7):
        random_node(api, rng, f"n{i}")
    planner = planner()
    fitting, rejected, reasons = 0, 0, set()
    for step in range(50):
        change(api, rng, step)
        planner.scheduler.has_read_nodes()
        pod, count = random_manifest(rng), rng.randint(1, 6)
        plan = planner.pods_of_saved(pod, "--count", str(count))
        made = [create(api, f"s{step}-{i}", pod) for i in range(count)]    # a Deployment's pods exist at once
        planner.scheduler.has_read_pods()
        for i, planned in enumerate(plan["pods"]):
            assert schedule(api, planner.scheduler, made[i]) == (
                planned["node"], sorted(gpu["uuid"] for gpu in planned["gpus"])), (SEED, step, i)
            fitting += 1
        if plan["fit"] < count:
            found, why = schedule(api, planner.scheduler, made[plan["fit"]])
            assert found is None, (SEED, step)
            said = {n["node"]: n["reason"] for n in plan["nodes"]}
            assert said.keys() == why.keys(), (SEED, step)
            for name in said:    # of a node whose sum does not suffice, the plan tells what its GPUs lack
                assert said[name] == why[name] or why[name].startswith("insufficient aliyun.com/"), (SEED, step, name)
            rejected += 1
            reasons |= set(said.values())
        for pod in made[plan["fit"]:]:
            api.delete("pods", pod["metadata"]["name"])
    assert fitting > 20 and rejected > 5 and len(reasons) > 5, (fitting, rejected, reasons)
