"""Pods that a claim would not limit, since they are privileged or mount what belongs to the node: their claims are not prepared. (Which
rights these are: tests/unit/test-pod-rights.c.)"""
import concurrent.futures
import json

import pytest

from agent_fixture import NODE, wait_for
from cgpu_node import needs_root
from dra_node import DraWorld, nothing_left, prepared, uid_of

pytestmark = needs_root

PRIVILEGED = {"securityContext": {"privileged": True}}
SENTENCE = 'pod {}: container "main": privileged: true: not in a pod with a claim of gpu.ration.dev: it would have all GPUs of the node'


@pytest.fixture
def world():
    with DraWorld() as w:
        yield w.up_for_claims()


def pod(w, name, claim="slice", container=None, node=NODE, **spec):
    return w.api.create_pod(name, node=node, status={"phase": "Pending"}, spec={
        "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
        "containers": [{"name": "main", "image": "example", "resources": {"claims": [{"name": "gpu"}]}, **(container or {})}], **spec})


def reserve(w, *pods):
    w.api.patch("resourceclaims", "slice", {"status": {"reservedFor": [
        {"resource": "pods", "name": p["metadata"]["name"], "uid": uid_of(p)} for p in pods]}}, "default")


def refusal(w, claim):
    return w.dra.prepare(claim)[uid_of(claim)].error


def said(w, name, reason="GPUClaimNotLimited"):
    return [e["message"] for e in w.api.list("events") if e["reason"] == reason and e["involvedObject"]["name"] == name]


@pytest.mark.parametrize("container, spec, words", [
    (PRIVILEGED, {}, "privileged: true"),
    ({}, {"hostPID": True}, "hostPID: true"),
    ({}, {"volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}]}, 'volume "dev": hostPath /dev'),
    ({"volumeMounts": [{"name": "v", "mountPath": "/run"}]}, {"volumes": [{"name": "v", "emptyDir": {}}]}, "a mount at /run"),
], ids=["privileged", "host-pid", "host-path", "mount"])
def test_the_claim_of_a_pod_that_it_would_not_limit_is_refused_with_a_sentence(world, container, spec, words):
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[pod(world, "p", container=container, **spec)])
    assert refusal(world, claim).startswith("ResourceClaim default/slice: nothing is prepared: pod p: ") and words in refusal(world, claim)
    nothing_left(world)
    world.api.delete("pods", "p", "default")
    other = world.claim("other", {"memory": "3Gi"}, pods=[pod(world, "q", "other")])
    prepared(world, other)    # and nothing is in its way


@pytest.mark.parametrize("path_of", [lambda w: w.kubelet.cdi_dir, lambda w: w.state], ids=["cdi", "state"])
def test_paths_of_the_agents_options_count_too(world, path_of):
    path = str(path_of(world))
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[pod(world, "p", volumes=[{"name": "v", "hostPath": {"path": path}}])])
    assert f"hostPath {path}"[:90] in refusal(world, claim)


def test_a_pod_that_the_watch_has_not_shown_is_read_first(world):
    """That of another node is never shown; to the agent it looks the same."""
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[pod(world, "late", node="elsewhere", container=PRIVILEGED)])
    assert SENTENCE.format("late") in refusal(world, claim)
    fine = world.claim("fine", {"memory": "3Gi"}, pods=[pod(world, "other", "fine", node="elsewhere")])
    prepared(world, fine)


def test_each_pod_that_the_claim_is_reserved_for_is_judged(world):
    pods = [pod(world, f"p{i}", node=NODE if i % 2 else "elsewhere", container=PRIVILEGED if i == 6 else None) for i in range(8)]
    claim = world.claim("slice", {"memory": "3Gi"}, pods=pods)
    assert SENTENCE.format("p6") in refusal(world, claim)
    world.api.delete("pods", "p6", "default")    # it is gone; the claim still names it for a moment
    prepared(world, claim)


def test_a_claim_that_is_reserved_for_something_else_than_pods_is_not_prepared(world):
    p = pod(world, "p")
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[p])
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"}
    world.api.patch("resourceclaims", "slice", {"status": {"reservedFor": [group]}}, "default")
    assert "it is reserved for something that is not a pod" in refusal(world, claim)
    nothing_left(world)
    reserve(world, p)
    prepared(world, claim)


def test_a_pod_that_has_ended_is_not_reported(world):
    first = pod(world, "first")
    prepared(world, world.claim("slice", {"memory": "3Gi"}, pods=[first]))
    ended, second = pod(world, "ended", container=PRIVILEGED), pod(world, "second", container=PRIVILEGED)
    world.api.patch("pods", "ended", {"status": {"phase": "Succeeded"}}, "default")
    reserve(world, first, ended, second)
    wait_for(lambda: said(world, "second"), what="the Event of the other pod")
    assert said(world, "ended") == []


def test_another_pod_of_the_same_name_is_not_meant(world):
    gone = pod(world, "p", node="elsewhere")
    world.api.delete("pods", "p", "default")
    pod(world, "p", node="elsewhere", container=PRIVILEGED)
    prepared(world, world.claim("slice", {"memory": "3Gi"}, pods=[gone]))


@pytest.mark.parametrize("fault, words", [({"status": 500, "message": "etcd is away"}, "etcd is away"), ({"status": 200, "body": b"{"}, "pod late"),
                                          ({"hang": True}, "pod late")], ids=["error", "no-json", "hangs"])
def test_without_an_answer_about_the_pod_nothing_is_prepared(world, fault, words):
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[pod(world, "late", node="elsewhere")])
    world.api.inject("GET", "pods/late", times=-1, **fault)
    assert words in world.dra.prepare(claim, timeout=20)[uid_of(claim)].error
    nothing_left(world)
    world.api.faults.clear()
    prepared(world, claim)


def test_a_call_that_ends_while_a_pod_is_read_prepares_nothing(world):
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[pod(world, "late", node="elsewhere")])
    world.api.inject("GET", "pods/late", hang=True)
    with pytest.raises(Exception, match="Deadline"):
        world.dra.prepare(claim, timeout=0.5)
    assert world.cdi_files() == []
    prepared(world, claim)


def test_what_is_prepared_stays_and_a_pod_that_comes_later_is_reported_once(world):
    first = pod(world, "first")
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[first])
    answer = prepared(world, claim)
    second = pod(world, "second", container=PRIVILEGED)
    reserve(world, first, second)
    text, = wait_for(lambda: said(world, "second"), what="the Event")
    assert text.startswith("the limit of ResourceClaim default/slice does not hold for this pod") and "privileged: true" in text
    assert prepared(world, claim) == answer
    world.api.patch("pods", "second", {"metadata": {"labels": {"a": "b"}}}, "default")
    prepared(world, claim)
    assert len(said(world, "second")) == 1 and said(world, "first") == []


def test_a_claim_that_was_unprepared_while_in_use_is_judged_again(world):
    """The kubelet asks anew, for a pod that may be another one."""
    first = pod(world, "first")
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[first])
    world.run(first, "main", prepared(world, claim))
    wait_for(lambda: json.loads((world.state / "claims" / f"{uid_of(claim)}.json").read_text())["users"], what="the user in the record")
    world.dra.unprepare(claim)
    second = pod(world, "second", container=PRIVILEGED)
    reserve(world, first, second)
    assert SENTENCE.format("second") in refusal(world, claim)
    assert list(world.grants()) == [uid_of(claim)]    # what runs keeps what it has
    reserve(world, first)
    prepared(world, claim)


def test_where_the_cluster_allows_it_nothing_is_refused_and_nothing_reported():
    with DraWorld(options=("--privileged-claims=prepare",)) as w:
        w.up_for_claims()
        first = pod(w, "p", container=PRIVILEGED)
        claim = w.claim("slice", {"memory": "3Gi"}, pods=[first])
        prepared(w, claim)
        assert said(w, "p") == []


def test_a_claim_that_ends_meanwhile_does_not_disturb_a_call_that_reads_a_pod(world):
    """The end of a claim wakes the calls that wait for room. This one waits for an answer, and would ask a second time."""
    other = world.claim("other", {"memory": "2Gi"})
    prepared(world, other)
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[pod(world, "late", node="elsewhere")])
    world.api.inject("GET", "pods/late", delay=1)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(world.dra.prepare, claim)
        wait_for(lambda: len(world.api.requests_for("GET", "pods/late")) == 1, what="the question about the pod")
        world.dra.unprepare(other)
        assert not answer.result()[uid_of(claim)].error
    assert len(world.api.requests_for("GET", "pods/late")) == 1 and len(world.api.requests_for("GET", "resourceclaims/slice")) == 1
