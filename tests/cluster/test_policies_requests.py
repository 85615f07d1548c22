"""Admission of GPU pods on a real API server: what can never be met is refused as it is submitted, of Pods and of all
kinds that make them; what is older than a policy stays in its owner's hands; a new pod's unit is stamped."""
import copy
import json
import shutil
import threading

import pytest
import yaml

import helmcharts
from api import Api, check, out_of_force, refusals
from cluster import ROOT
from crowdnodes import NODES
from gpupods import GPU_COUNT, GPU_MEM, annotation, container, pod
from gpurequests import CORE, MULTIPLE, RIGHT_REQUESTS, cards, templates, with_core, wrong_requests

pytestmark = pytest.mark.long(3)

UNIT = "ration.dev/unit"
NOWHERE = {"nodeSelector": {"kubernetes.io/hostname": "nowhere"}}


def template_of(obj):
    if obj["kind"] == "PodTemplate":
        return obj["template"]
    return (obj["spec"]["jobTemplate"]["spec"] if obj["kind"] == "CronJob" else obj["spec"])["template"]


# ---- requests that can never be met

def test_documented_mistakes_are_refused_at_kubectl_apply_for_all_nine_kinds(lab):
    """gpu-core.percentage 7, 0, 105, and 30 without gpu-mem."""
    cluster, cases = lab(NODES), {}
    for name, core, units in (("seven", 7, 2), ("zero", 0, 2), ("much", 105, 2), ("alone", 30, None)):
        made = with_core(name, core, units)
        words = f'container "c0": {CORE} is {core}: ' + (MULTIPLE if units else f"needs {GPU_MEM} beside it")
        cases |= {obj["metadata"]["name"]: (obj, words) for obj in (made, *templates(made, name))}
    assert len(cases) == 36
    items = [obj for obj, _ in cases.values()]
    done = cluster.run("kubectl", "apply", "-f", "-", check=False,
                       stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert done.returncode == 1 and not done.stdout
    said = [line for line in done.stderr.splitlines() if " is forbidden: " in line]
    assert len(said) == 36, done.stderr
    for name, (_, words) in cases.items():
        line = next(line for line in said if f'"{name}" is forbidden: ' in line)
        assert line.endswith("denied request: " + words), line


def test_request_that_can_never_be_met_is_refused_by_container_value_and_rule(lab):
    check(lab(NODES), wrong_requests(), allowed=RIGHT_REQUESTS)


def test_templates_with_such_a_request_are_refused_where_they_are_made(lab):
    wrong = wrong_requests()
    cases = {}
    for name in ("v3", "alone", "sidecar", "indivisible", "together", "l4", "counts", "counts-init"):
        made, words = wrong[name]
        cases |= {obj["metadata"]["name"]: (obj, words) for obj in templates(made, name)}
    assert len(cases) == 64
    check(lab(NODES), cases, allowed=[obj for made in RIGHT_REQUESTS
                                      for obj in templates(made, made["metadata"]["name"])])


def large(name, last):
    """200 containers: more than a placement can name."""
    made = pod(name, *[1] * 200)
    for c in made["spec"]["containers"]:
        c["resources"]["limits"][CORE] = 5
    made["spec"]["containers"][-1]["resources"]["limits"][CORE] = last
    return made


def test_large_request_is_judged_within_the_cost_that_the_api_server_allows(lab):
    words = f'container "c199": {CORE} is 6: {MULTIPLE}'
    cases = {obj["metadata"]["name"]: (obj, words) for obj in (large("bad", 6), templates(large("x", 6), "bad")[5])}
    check(lab(NODES), cases, allowed=[large("good", 5), *templates(large("x", 5), "good")[3:6]])


def test_label_of_a_pod_is_judged_while_it_waits(lab):
    cluster = lab(NODES)
    waits = cards("waits", "2", 8, **NOWHERE)
    cluster.create(waits)
    with Api(cluster) as api:
        def label(value):
            return api.patch(waits, {"metadata": {"labels": {GPU_COUNT: value}}})
        assert "must be a multiple of 3, the value of label" in label("3")
        assert "must be a whole number from 1 to 64" in label("two")
        assert label("4") is None and label(None) is None
        # What it asks for itself changes through no door, with or without us.
        limits = [{"name": "c0", "resources": {"limits": {GPU_MEM: "1"}, "requests": {GPU_MEM: "1"}}}]
        assert "only cpu and memory" in api.patch(waits, {"spec": {"containers": limits}}, "resize")
        grow = [{"name": "e", "image": "example", "resources": {"limits": {GPU_MEM: "1"}}}]
        assert "Forbidden" in api.patch(waits, {"spec": {"ephemeralContainers": grow}}, "ephemeralcontainers")


# ---- what is older than the policies

def old_workloads():
    """All kinds, with what two policies refuse, and a finalizer. None makes a pod."""
    made = with_core("x", 7, hostPID=True, **NOWHERE)
    for obj in (with_core("old-pod", 7, hostPID=True, **NOWHERE), *templates(made, "old")):
        obj["metadata"]["finalizers"] = ["example.com/held"]
        if obj["kind"] in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"):
            obj["spec"]["replicas"] = 0
        if obj["kind"] in ("Job", "CronJob"):
            obj["spec"]["suspend"] = True
        yield obj


def test_what_is_older_than_the_policies_stays_scalable_patchable_and_deletable(lab):
    cluster = lab(NODES)
    probes = {"ration-gpu-requests": with_core("probe", 7),
              "ration-gpu-privileges": pod("probe", 2, hostPID=True)}
    old = list(old_workloads())
    with out_of_force(cluster, probes), Api(cluster) as api:
        for obj in old:
            api.create(obj)
    with Api(cluster) as api:
        try:
            for obj in old:
                what_its_owner_does(api, obj)
            deployment = next(obj for obj in old if obj["kind"] == "Deployment")["metadata"]["name"]
            for verb in ("pause", "resume"):
                cluster.kubectl("rollout", verb, "deployment", deployment)
            for obj in old:
                path = f"{api.path(obj)}/{obj['metadata']['name']}"
                answer = api.ask("DELETE", path, {"propagationPolicy": "Foreground", "gracePeriodSeconds": 0})
                assert answer.get("status") != "Failure", answer
                assert api.patch(obj, {"metadata": {"annotations": {"late": "yes"}}}) is None, obj["kind"]
        finally:    # as the controller does to which the finalizer belongs
            said = [api.patch(obj, {"metadata": {"finalizers": None}}) for obj in old]
        assert set(said) == {None}
        cluster.wait_for(lambda: all(api.ask("GET", f"{api.path(obj)}/{obj['metadata']['name']}").get("code") == 404
                                     for obj in old), 30, "all of them gone")


def what_its_owner_does(api, obj):
    """With one that would be refused today: everything but a change of the template that leaves it as wrong."""
    kind = obj["kind"]
    assert api.refusal(obj), kind
    assert api.patch(obj, {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}) is None, kind
    if kind not in ("PodTemplate", "Pod"):
        assert api.patch(obj, {"status": {"conditions": []}}, "status") is None, kind
    if "replicas" in obj.get("spec", {}):
        assert api.patch(obj, {"spec": {"replicas": 1}}, "scale") is None, kind
        assert api.patch(obj, {"spec": {"replicas": 0}}) is None, kind
    if kind in ("Pod", "Job"):      # their containers never change
        return
    # New pods of it would be refused: this is said before the old ones are gone.
    for change in ({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026"}}},
                   {"metadata": {"labels": {"x": "y"}}}):
        said = api.patch(obj, nested(obj, change))
        assert said and (MULTIPLE in said or "hostPID: true" in said), (kind, said)
    mended = copy.deepcopy(template_of(obj)["spec"])
    mended["hostPID"] = False
    mended["containers"][0]["resources"]["limits"][CORE] = "10"
    assert api.patch(obj, nested(obj, {"spec": mended}), dry_run=True) is None, kind


def nested(obj, template):
    """A patch of the object's template of pods."""
    if obj["kind"] == "PodTemplate":
        return {"template": template}
    if obj["kind"] == "CronJob":
        return {"spec": {"jobTemplate": {"spec": {"template": template}}}}
    return {"spec": {"template": template}}


# ---- the unit stamp

def stamp(obj):
    return annotation(obj, UNIT)


def test_new_gpu_pod_is_stamped_with_the_unit_and_nothing_else_is(lab):
    cluster = lab(NODES)
    in_init = pod("i", containers=[container("c")], init=[container("i", 1)])
    with Api(cluster) as api:
        for made in (pod("p", 2), in_init, cards("c", "2", 4), with_core("core", 30), pod("bound", 2, nodeName="n"),
                     pod("forged", 2, annotations={UNIT: "128"}),
                     pod("again", 2, annotations={UNIT: "1024", "a": "b"})):
            seen = api.create(made, dry_run=True)
            assert stamp(seen) == "1024", made
            assert {k: v for k, v in seen["metadata"]["annotations"].items() if k != UNIT} == {
                k: v for k, v in made["metadata"]["annotations"].items() if k != UNIT}
        assert stamp(api.create(pod("plain", containers=[container("c")]), dry_run=True)) is None
        # What is wrong otherwise is said by Kubernetes in its own words.
        for spec in ({}, {"containers": None}, {"containers": []}):
            assert "spec.containers: Required value" in api.refusal({**pod("none"), "spec": spec})
        # A template's later pods are in the unit of then.
        for obj in templates(pod("t", 2), "t"):
            assert stamp(template_of(api.create(obj, dry_run=True))) is None, obj["kind"]
        cluster.create(templates(pod("t", 2), "made")[0])
        made = cluster.wait_running("app=made")[0]
        assert stamp(made) == "1024"
        for value in ("128", None):
            said = api.patch({"kind": "Pod", **made}, {"metadata": {"annotations": {UNIT: value}}})
            assert f"annotation {UNIT} is written by the GPU scheduler only" in said
    forged = pod("forged", containers=[container("c")], annotations={UNIT: "1024"})
    assert "is written by the GPU scheduler only" in refusals(cluster, [forged])["forged"]


def test_another_unit_is_stamped_at_once_and_no_request_is_refused_or_slips_in_meanwhile(lab):
    """The charts' policies as helm upgrade changes them; the agents' change of unit has its own tests."""
    cluster = lab(NODES)
    right, wrong, ends = pod("right", 2), with_core("wrong", 7), threading.Event()
    seen, said = [], []

    def ask():
        with Api(cluster) as api:
            while not ends.is_set():
                answer = api.ask("POST", api.path(right) + "?dryRun=All", right)
                seen.append(answer.get("message") or stamp(answer))
                said.append(api.refusal(wrong))
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for unit, mib in (("128MiB", "128"), ("512MiB", "512"), ("1GiB", "1024")):
            policies = [o for chart in (helmcharts.AGENT, helmcharts.SCHEDULER) for o in helmcharts.rendered(
                chart, *(["--set", f"gpuMemoryUnit={unit}"] if chart == helmcharts.AGENT else []),
                "--values", ROOT / f"lab/values/{chart}.yaml") if "AdmissionPolicy" in o["kind"]]
            cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-",
                            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": policies}))
            cluster.wait_for(lambda mib=mib: seen[-1] == mib, 10, f"the stamp {mib}")
    finally:
        ends.set()
        asking.join()
    assert set(seen) == {"1024", "128", "512"}
    changes = [seen[0], *(b for a, b in zip(seen, seen[1:]) if a != b)]
    assert changes == ["1024", "128", "512", "1024"]
    assert all(MULTIPLE in (message or "") for message in said)


# ---- clusters that do not serve all of it

SERVED = "admissionregistration.k8s.io/{}/{}AdmissionPolicy"
MUTATING = {helmcharts.AGENT: "ration-unit-stamp", helmcharts.SCHEDULER: "ration-scheduler-name"}


def render(chart, *served, version, values=()):
    done = helmcharts.helm("template", "x", chart, "-n", "kube-system", "--kube-version", version,
                           *(word for one in served for word in ("--api-versions", SERVED.format(*one))),
                           "--set", "global.imageRegistry=ration", *values)
    assert done.returncode == 0, done.stderr
    return [obj for obj in yaml.safe_load_all(done.stdout) if obj]


def policies_of(chart, *served, version="1.36.3"):
    """{(kind, name): version} of the policies and their bindings, without those of a part."""
    alone = ("--set", "scheduler.enabled=false") if chart == helmcharts.AGENT else ()
    return {(o["kind"], o["metadata"]["name"]): o["apiVersion"].rsplit("/", 1)[1]
            for o in render(helmcharts.CHARTS / chart, *served, version=version, values=alone) if "AdmissionPolicy" in o["kind"]}


@pytest.mark.parametrize("chart", MUTATING)
def test_policies_are_installed_as_far_as_the_cluster_serves_them(chart):
    """1.36 serves all; before, MutatingAdmissionPolicy only where the API server is told so; before 1.30 nothing."""
    def mutating(found):
        return {(kind, name): v for (kind, name), v in found.items() if kind.startswith("Mutating")}
    validating = ("v1", "Validating")
    best = policies_of(chart, validating, ("v1", "Mutating"), ("v1beta1", "Mutating"))
    assert set(best.values()) == {"v1"} and len(mutating(best)) == 2
    for version, served in (("1.35.0", "v1beta1"), ("1.33.0", "v1alpha1")):
        found = policies_of(chart, validating, (served, "Mutating"), version=version)
        assert found == best | {key: served for key in mutating(best)}
        assert set(mutating(found)) == {(f"MutatingAdmissionPolicy{what}", MUTATING[chart]) for what in ("", "Binding")}
    plain = policies_of(chart, validating, version="1.30.0")
    assert plain == {key: v for key, v in best.items() if key not in mutating(best)}
    assert policies_of(chart, version="1.29.0") == {}


def notes_of(folder, chart, *served, version, values=()):
    """What helm install says, which helm template does not show."""
    copied = folder / f"{chart}-{version}-{len(list(folder.iterdir()))}"
    shutil.copytree(helmcharts.CHARTS / chart, copied)
    notes = copied / "templates/NOTES.txt"
    (copied / "templates/notes.yaml").write_text(
        '{{ define "notes" }}' + notes.read_text() + '{{ end }}\nkind: Notes\napiVersion: v1\nmetadata: {name: notes}\n'
        'text: {{ include "notes" . | toJson }}\n')
    notes.unlink()
    return helmcharts.find(render(copied, *served, version=version, values=values), "Notes")["text"]


def test_notes_say_what_users_must_write_where_the_cluster_does_not(tmp_path):
    agent, scheduler = helmcharts.AGENT, helmcharts.SCHEDULER
    both = [("v1", "Mutating"), ("v1", "Validating")]
    for chart in (agent, scheduler):    # the agent's chart says what its part has to say
        text = notes_of(tmp_path, chart, *both, version="1.36.3")
        assert "does not serve" not in text and "is off" not in text
        assert "get it by the policy ration-scheduler-name" in text
    alone = notes_of(tmp_path, agent, *both, version="1.36.3", values=("--set", "scheduler.enabled=false"))
    assert "GPU pods wait until the chart ack-co-scheduler is installed" in alone and "ration-scheduler-name" not in alone
    off = ("--set", "webhook.enabled=false")
    for version, served in (("1.35.2", both[1:]), ("1.29.15", [])):
        text = notes_of(tmp_path, scheduler, *served, version=version)
        assert "get it by the webhook ration-scheduler-name" in text and "itself" not in text
        assert "MutatingAdmissionPolicy" not in notes_of(tmp_path, agent, *served, version=version)
        text = notes_of(tmp_path, scheduler, *served, version=version, values=off)
        assert f"This cluster (v{version}) does not serve MutatingAdmissionPolicy" in text
        assert "must name the scheduler itself:\n  spec: {schedulerName: ack-co-scheduler}" in text
        assert ("can forge where a pod is" in text) == (version == "1.29.15")
        text = notes_of(tmp_path, agent, *served, version=version,
                        values=(*off, "--set", "scheduler.webhook.enabled=false,gpuMemoryUnit=128MiB"))
        assert 'metadata: {annotations: {ration.dev/unit: "128"}}' in text
        assert ("nothing refuses GPU pods that are privileged" in text) == (version == "1.29.15")
        assert ("no ConfigMap gpu-topology-<node>" in text) == (version == "1.29.15")
    assert "setSchedulerName is off" in notes_of(tmp_path, scheduler, *both, version="1.36.3",
                                                 values=("--set", "setSchedulerName=false"))
    assert "policies.unitStamp is off" in notes_of(tmp_path, agent, *both, version="1.36.3",
                                                   values=("--set", "policies.unitStamp=false"))
