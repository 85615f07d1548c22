"""ResourceClaims in the mode dra: what the kubelet is answered when it prepares and unprepares them, and what lies on the node."""
import concurrent.futures
import json
import struct
import time

import grpc
import pytest

from agent_fixture import NODE, wait_for
from cgpu_node import LIVE, needs_root
from dra_node import DRIVER, DraWorld, grant, limits, nothing_left, prepared, uid_of
from fake_apiserver import FOREVER
from fake_kubelet import StartError
from isolated import MIB
from metrics_page import agent_page

pytestmark = needs_root


@pytest.fixture
def world():
    with DraWorld() as w:
        yield w.up_for_claims()


def share(w, claim):
    """Of the computing power of its GPU, in millionths; 0: not limited."""
    return struct.unpack_from("<Q", grant(w, claim).read_bytes(), LIVE + 40)[0]


def parameters(source, **values):
    return {"source": source, "opaque": {"driver": DRIVER, "parameters": {"apiVersion": "ration.dev/v1", "kind": "GpuConfig", **values}}}


# ---- one claim ----

def test_a_prepared_claim_has_exactly_its_bytes_and_its_devices_are_named_by_its_uid(world):
    pod = world.pod_with("a", "slice")
    claim = world.claim("slice", {"gpu": 1, "memory": "3Gi"}, pods=[pod])
    answer = prepared(world, claim)
    device, = answer.devices
    assert list(device.request_names) == ["gpu"] and device.pool_name == NODE
    assert device.device_name == world.uuid(1).lower() and device.share_id == "00000000-0000-0000-0000-000000000000"
    assert list(device.cdi_device_ids) == [f"ration.dev/grant={uid_of(claim)}.claim"]
    assert limits(world, claim) == [(world.uuid(1), 3072)]
    container = world.run(pod, "main", answer)
    assert container.mounts["/run/ration/grant"]["hostPath"] == str(grant(world, claim))
    assert container.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert container.env["ALIYUN_COM_GPU_VISIBLE_DEVICES"] == world.uuid(1)
    assert container.mounts["/usr/lib64/libcuda.so.1"]["hostPath"].startswith(str(world.state / "shim"))
    assert share(world, claim) == 0


def test_ten_claims_of_different_sizes_on_one_gpu_have_their_bytes(world):
    # 0.5 to 2.3 GiB; the kubelet is answered what the scheduler has allocated, whatever the unit is.
    sizes = [512 + 200 * i for i in range(10)]
    claims = [world.claim(f"c{i}", {"memory": f"{mib}Mi"}) for i, mib in enumerate(sizes)]
    for claim in claims:
        prepared(world, claim)
    assert [limits(world, c)[0][1] for c in claims] == sizes


def test_preparing_again_answers_the_same_and_makes_nothing_twice(world):
    claim = world.claim("slice", {"memory": "3Gi"})
    first = prepared(world, claim)
    cdi = world.kubelet.cdi_dir / f"ration-{uid_of(claim)}.json"
    before = grant(world, claim).stat().st_ino, cdi.stat().st_mtime_ns
    assert prepared(world, claim) == first
    world.kill_worker()
    world.dra.register()
    assert prepared(world, claim) == first
    assert (grant(world, claim).stat().st_ino, cdi.stat().st_mtime_ns) == before
    assert world.cdi_files() == [cdi.name] and world.records() == [f"{uid_of(claim)}.json"]


def test_what_was_removed_meanwhile_is_made_anew(world):
    claim = world.claim("slice", {"memory": "3Gi"})
    first = prepared(world, claim)
    (world.kubelet.cdi_dir / f"ration-{uid_of(claim)}.json").unlink()
    grant(world, claim).unlink()
    assert prepared(world, claim) == first
    assert limits(world, claim) == [(world.uuid(0), 3072)] and world.cdi_files()


def test_unpreparing_removes_everything_and_may_be_repeated(world):
    claim = world.claim("slice", {"memory": "3Gi"})
    prepared(world, claim)
    for _ in range(2):
        assert world.dra.unprepare(claim)[uid_of(claim)].error == ""
        nothing_left(world)
    prepared(world, claim)    # and it can be prepared again


def test_a_claim_that_is_gone_and_one_that_was_never_known_are_unprepared(world):
    claim = world.claim("slice", {"memory": "3Gi"})
    prepared(world, claim)
    world.api.delete("resourceclaims", "slice", "default")
    unknown = {"metadata": {"namespace": "default", "name": "x", "uid": "12345678-0000-0000-0000-000000000000"}}
    answers = world.dra.unprepare(claim, unknown)
    assert {uid: a.error for uid, a in answers.items()} == {uid_of(claim): "", uid_of(unknown): ""}
    nothing_left(world)


def test_unpreparing_reaches_nothing_of_a_pod():
    with DraWorld(labels={"ack.node.gpu.schedule": "dra"}) as w:
        w.up_for_claims()
        pod = w.api.create_pod("a", gpu_mem=2, node=NODE)
        folder = w.state / "grants" / uid_of(pod)
        folder.mkdir(parents=True)
        time.sleep(0.5)
        w.dra.unprepare({"metadata": {"namespace": "default", "name": "a", "uid": uid_of(pod)}})
        assert folder.exists()


def test_computing_power_is_limited_where_it_was_asked_for(world):
    part = world.claim("part", {"memory": "2Gi", "cores": "30"})
    rest = world.claim("rest", {"memory": "2Gi", "cores": "0"})
    whole = world.claim("whole", {"gpu": 1, "memory": "15Gi", "cores": "100"})
    for claim in (part, rest, whole):
        prepared(world, claim)
    wait_for(lambda: share(world, part) == 300000)
    assert share(world, rest) != 300000 and share(world, whole) in (0, 1000000)


# ---- what a claim can consist of ----

def test_a_claim_with_devices_on_two_gpus_is_one_grant_for_both(world):
    claim = world.claim("two", {"gpu": 0, "memory": "3Gi", "request": "a"}, {"gpu": 1, "memory": "5Gi", "request": "b/large"})
    answer = prepared(world, claim)
    assert [(list(d.request_names), d.device_name) for d in answer.devices] == [
        (["a"], world.uuid(0).lower()), (["b"], world.uuid(1).lower())]
    assert {i for d in answer.devices for i in d.cdi_device_ids} == {f"ration.dev/grant={uid_of(claim)}.claim"}
    assert limits(world, claim, gpus=2) == [(world.uuid(0), 3072), (world.uuid(1), 5120)]


def test_two_devices_of_a_claim_on_the_same_gpu_are_added_up(world):
    claim = world.claim("two", {"memory": "3Gi", "request": "a"}, {"memory": "5Gi", "request": "b"})
    assert len(prepared(world, claim).devices) == 2
    assert limits(world, claim) == [(world.uuid(0), 8192)]


def test_devices_of_other_drivers_in_the_same_claim_are_left_to_them(world):
    claim = world.claim("mixed", {"request": "nic", "driver": "nic.example.com", "pool": "p", "device": "eth0"}, {"memory": "3Gi"})
    device, = prepared(world, claim).devices
    assert list(device.request_names) == ["gpu"]


def test_two_pods_share_the_one_grant_of_a_claim(world):
    pods = [world.pod_with(name, "slice") for name in ("a", "b")]
    claim = world.claim("slice", {"memory": "3Gi"}, pods=pods)
    answer = prepared(world, claim)
    inside = [world.run(pod, "main", answer) for pod in pods]
    assert inside[0].mounts == inside[1].mounts and len(world.grants()) == 1


def test_a_container_with_two_claims_is_refused_since_it_can_have_one_grant(world):
    pod = world.pod_with("a", claims={"x": "one", "y": "two"})
    one, two = (world.claim(name, {"memory": "1Gi"}, pods=[pod]) for name in ("one", "two"))
    answers = world.dra.prepare(one, two)
    assert not answers[uid_of(one)].error
    assert "container main uses the claim one too" in answers[uid_of(two)].error
    assert len(world.grants()) == 1


@pytest.mark.parametrize("cluster_allows", [True, False])
def test_a_container_that_may_ask_for_no_limit_has_none(cluster_allows):
    with DraWorld(options=("--allow-disable",) if cluster_allows else ()) as w:
        w.up_for_claims()
        pod = w.api.create_pod("a", node=NODE, spec={
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "slice"}],
            "containers": [{"name": "main", "image": "example", "resources": {"claims": [{"name": "gpu"}]},
                            "env": [{"name": "CGPU_DISABLE", "value": "true"}]}]})
        time.sleep(0.5)    # the watch of pods
        claim = w.claim("slice", {"memory": "3Gi"}, pods=[pod], config=[parameters("FromClass", allowDisable=True)])
        container = w.run(pod, "main", prepared(w, claim))
        assert ("/run/ration/grant" in container.mounts) is not cluster_allows
        w.kill_worker()
        w.dra.register()
        assert ("/run/ration/grant" in w.run(pod, "main", prepared(w, claim)).mounts) is not cluster_allows
        w.kubelet.end(pod)
        w.dra.unprepare(claim)
        wait_for(lambda: not w.records())
        nothing_left(w)


# ---- refusals ----

@pytest.mark.parametrize("result, config, words", [
    ({"memory": "3Gi", "driver": "gpu.nvidia.com"}, (), "of gpu.nvidia.com"),
    ({"memory": "3Gi", "pool": "n2"}, (), "pool n2, not on this node"),
    ({"memory": "3Gi", "device": "gpu-gone"}, (), "gpu-gone is not on this node"),
    ({"memory": "0"}, (), "memory"),
    ({"memory": "-1Gi"}, (), "memory"),
    ({"memory": "many"}, (), "quantity"),
    ({}, (), "memory"),
    ({"memory": "17Gi"}, (), "17408 MiB"),
    ({"memory": "9Ei"}, (), "memory"),
    ({"memory": "1500k"}, (), "not whole MiB"),
    ({"memory": "3Gi", "cores": "101"}, (), "101"),
    ({"memory": "3Gi", "cores": "-5"}, (), "cores"),
    ({"memory": "3Gi", "adminAccess": True}, (), "admin access"),
    ({"memory": "3Gi"}, [parameters("FromClaim", colour="red")], "colour"),
    ({"memory": "3Gi"}, [parameters("FromClaim", kind="Other")], "Other"),
    ({"memory": "3Gi"}, [parameters("FromClaim", policy=4)], "policy 4")])
def test_what_cannot_be_given_is_refused_with_a_sentence_and_leaves_nothing(world, result, config, words):
    claim = world.claim("slice", result, config=config)
    error = world.dra.prepare(claim)[uid_of(claim)].error
    assert words in error and "ResourceClaim default/slice" in error, error
    nothing_left(world)
    world.api.delete("resourceclaims", "slice", "default")
    prepared(world, world.claim("next", {"memory": "15Gi"}))


def test_a_claim_that_is_not_allocated_is_refused(world):
    claim = world.api.create("resourceclaims", {"metadata": {"name": "slice", "namespace": "default"}, "spec": {}})
    assert "not allocated" in world.dra.prepare(claim)[uid_of(claim)].error


def test_an_unhealthy_gpu_takes_no_new_claim_and_keeps_what_is_prepared(world):
    before = world.claim("before", {"memory": "2Gi"})
    first = prepared(world, before)
    world.api.create("configmaps", {"metadata": {"name": f"unhealthy-gpu-{NODE}", "namespace": "kube-system"}, "data": {"gpus": "0"}})
    world.slice(lambda s: "taints" in s["spec"]["devices"][0])
    claim = world.claim("after", {"memory": "2Gi"})
    assert "not healthy" in world.dra.prepare(claim)[uid_of(claim)].error
    assert prepared(world, before) == first


@pytest.mark.waits
def test_no_gpu_gets_over_its_total_by_claims(world):
    prepared(world, world.claim("a", {"memory": "9Gi", "cores": "60"}))
    memory, cores = world.claim("b", {"memory": "7Gi"}), world.claim("c", {"memory": "1Gi", "cores": "45"})
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers = [pool.submit(world.dra.prepare, claim, timeout=45) for claim in (memory, cores)]
        prepared(world, world.claim("d", {"memory": "6Gi", "cores": "40"}))    # it does not wait behind the others
        assert time.monotonic() - begin < 10
        errors = [answer.result()[uid_of(claim)].error for answer, claim in zip(answers, (memory, cores))]
    assert 29 < time.monotonic() - begin < 44    # the kubelet waits 45 s
    assert "over its total, with 22528 of 16160 MiB" in errors[0] and "145 of 100 percent" in errors[1]


def test_a_claim_waits_for_the_one_that_is_unprepared_late(world):
    """A pod that was deleted by force is gone before its claim is unprepared."""
    first = world.claim("a", {"memory": "9Gi"})
    prepared(world, first)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(prepared, world, world.claim("b", {"memory": "7Gi"}))
        with pytest.raises(concurrent.futures.TimeoutError):
            answer.result(1.5)
        world.dra.unprepare(first)
        begin = time.monotonic()
        answer.result(5)
    assert time.monotonic() - begin < 0.9    # at once, and not a second later
    assert len(world.grants()) == 1


def test_a_gpu_has_at_most_256_claims_and_the_next_waits(world):
    claims = [world.claim(f"c{i}", {"memory": "16Mi"}) for i in range(257)]
    for at in range(0, 256, 64):    # as many in one call as the kubelet never asks for
        assert {a.error for a in world.dra.prepare(*claims[at:at + 64], timeout=30).values()} == {""}
    prepared(world, world.claim("elsewhere", {"gpu": 1, "memory": "16Mi"}))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(world.dra.prepare, claims[256], timeout=40)
        wait_for(lambda: "has 256 prepared claims, and takes no more than 256" in world.logged(), what="the sentence")
        assert not answer.done() and len(world.grants()) == 257
        world.dra.unprepare(claims[0])
        assert answer.result()[uid_of(claims[256])].error == ""
    assert len(world.grants()) == 257


def test_a_claim_that_is_unprepared_within_its_call_is_not_answered_as_prepared(world):
    """The kubelet would start the container without a GPU. The call has a second claim, about which the API server answers late."""
    claims = [world.claim(name, {"memory": "3Gi"}) for name in ("first", "second")]
    world.api.inject("GET", "resourceclaims/second", delay=1)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(world.dra.prepare, *claims)
        wait_for(lambda: uid_of(claims[0]) in world.grants(), what="the first claim")
        world.dra.unprepare(claims[0])
        first, second = (answer.result()[uid_of(c)] for c in claims)
    assert not first.devices and "the kubelet has unprepared it while it was prepared" in first.error
    assert second.devices and not second.error and list(world.grants()) == [uid_of(claims[1])]
    prepared(world, claims[0])


def test_a_call_that_ends_while_its_claim_waits_prepares_nothing(world):
    first, late = world.claim("a", {"memory": "9Gi"}), world.claim("b", {"memory": "7Gi"})
    prepared(world, first)
    with pytest.raises(grpc.RpcError):
        world.dra.prepare(late, timeout=1)
    world.dra.unprepare(first)
    time.sleep(1.5)
    nothing_left(world)
    prepared(world, late)


# ---- a claim that is unprepared while something of it runs ----
# Kubelets before 1.37 unprepare a claim that two pods share when one of them is deleted and the other has just been added
# (kubernetes/kubernetes pull requests 140212 and 140527).

def shared(world, memory="9Gi", run=("a",)):
    pods = {name: world.pod_with(name, "slice") for name in ("a", "b")}
    claim = world.claim("slice", {"memory": memory}, pods=pods.values())
    answer = prepared(world, claim)
    for name in run:
        world.run(pods[name], "main", answer)
    wait_for(lambda: len(json.loads((world.state / "claims" / f"{uid_of(claim)}.json").read_text())["users"]) == 2)
    return claim, answer, pods


def waits(world, claim):
    with pytest.raises(grpc.RpcError):
        world.dra.prepare(claim, timeout=2)
    return True


def test_a_claim_of_which_a_container_runs_keeps_its_room_and_its_grant(world):
    claim, _, pods = shared(world)
    late = world.claim("late", {"memory": "7Gi"})
    assert world.dra.unprepare(claim)[uid_of(claim)].error == ""
    assert waits(world, late)
    assert limits(world, claim) == [(world.uuid(0), 9216)] and world.records() == [f"{uid_of(claim)}.json"]
    assert "pod default/a" in world.logged() and "1.37" in world.logged()
    world.kubelet.end(pods["a"])
    wait_for(lambda: not (world.grants() or world.cdi_files() or world.records()), timeout=5)
    nothing_left(world)
    prepared(world, late)


def test_the_next_agent_knows_that_such_a_claim_was_unprepared(world):
    claim, _, pods = shared(world)
    world.dra.unprepare(claim)
    world.kill_agent()
    world.start_agent()
    world.dra.register()
    assert waits(world, world.claim("late", {"memory": "7Gi"})) and world.grants()
    world.kubelet.end(pods["a"])    # the claim is still allocated
    wait_for(lambda: not (world.grants() or world.cdi_files() or world.records()), timeout=5)
    nothing_left(world)


def test_such_a_claim_that_is_prepared_again_stays(world):
    claim, answer, pods = shared(world)
    before = grant(world, claim).stat().st_ino
    world.dra.unprepare(claim)
    assert prepared(world, claim) == answer and grant(world, claim).stat().st_ino == before
    world.kubelet.end(pods["a"])
    time.sleep(2.5)
    assert limits(world, claim) == [(world.uuid(0), 9216)]
    world.dra.unprepare(claim)
    wait_for(lambda: not (world.grants() or world.cdi_files() or world.records()), timeout=5)
    nothing_left(world)


def test_such_a_claim_that_was_allocated_anew_waits_for_what_runs(world):
    claim, _, pods = shared(world)
    world.dra.unprepare(claim)
    changed = dict(claim["status"]["allocation"]["devices"]["results"][0], device=world.devices()[1]["name"])
    world.api.patch("resourceclaims", "slice", {"status": {"allocation": {"devices": {"results": [changed]}}}}, "default")
    assert waits(world, claim) and limits(world, claim) == [(world.uuid(0), 9216)]
    world.kubelet.end(pods["a"])
    prepared(world, claim)
    assert limits(world, claim) == [(world.uuid(1), 9216)]


def test_a_claim_that_was_allocated_anew_and_never_unprepared_waits_for_what_runs(world):
    """A kubelet that was restarted does not unprepare a claim whose pod it did not prepare itself."""
    claim, _, pods = shared(world)
    changed = dict(claim["status"]["allocation"]["devices"]["results"][0], device=world.devices()[1]["name"])
    world.api.patch("resourceclaims", "slice", {"status": {"allocation": {"devices": {"results": [changed]}}}}, "default")
    assert waits(world, claim) and limits(world, claim) == [(world.uuid(0), 9216)]
    assert waits(world, world.claim("late", {"memory": "8Gi"}))
    world.kubelet.end(pods["a"])
    prepared(world, claim)
    assert limits(world, claim) == [(world.uuid(1), 9216)]


@pytest.mark.parametrize("unprepared", [True, False], ids=["unprepared", "forgotten"])
def test_a_claim_that_was_made_again_is_no_matter_of_the_containers_of_the_one_before(world, unprepared):
    """Both were deleted by force and applied again, while a process of the first pod hangs."""
    pod = world.pod_with("a", "slice")
    first = world.claim("slice", {"memory": "9Gi"}, pods=[pod])
    world.run(pod, "main", prepared(world, first))
    wait_for(lambda: json.loads((world.state / "claims" / f"{uid_of(first)}.json").read_text())["users"])
    world.api.delete("pods", "a")
    world.api.delete("resourceclaims", "slice", "default")
    if unprepared:
        world.dra.unprepare(first)
    again = world.pod_with("b", "slice")
    second = world.claim("slice", {"gpu": 1, "memory": "9Gi"}, pods=[again])
    answer = prepared(world, second)
    world.run(again, "main", answer)
    assert limits(world, first) == [(world.uuid(0), 9216)] and limits(world, second) == [(world.uuid(1), 9216)]
    assert waits(world, world.claim("late", {"memory": "8Gi"}))
    world.kubelet.end(pod)
    wait_for(lambda: list(world.grants()) == [uid_of(second)], timeout=5)
    prepared(world, world.claim("later", {"memory": "8Gi"}))


def test_a_claim_that_is_unprepared_before_it_is_decided_is_not_prepared(world):
    """The kubelet forgets it, and would never unprepare it."""
    claim = world.claim("slice", {"memory": "3Gi"})
    world.api.inject("GET", "resourceclaims/slice", delay=1)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(world.dra.prepare, claim)
        wait_for(lambda: world.api.requests_for("GET", "resourceclaims/slice"))
        world.dra.unprepare(claim)
        assert "the kubelet has unprepared it while it was prepared" in answer.result()[uid_of(claim)].error
    nothing_left(world)
    prepared(world, claim)


@pytest.mark.long(75)
def test_a_claim_that_the_kubelet_has_forgotten_goes_with_its_pod(world):
    """It lost its record of claims, so it unprepares nothing."""
    pod = world.pod_with("a", "slice")
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[pod])
    world.run(pod, "main", prepared(world, claim))
    world.kubelet.end(pod)
    world.api.delete("pods", "a")
    world.api.delete("resourceclaims", "slice", "default")
    wait_for(lambda: not world.records(), timeout=75)
    nothing_left(world)


def test_claims_that_wait_keep_the_call_that_gives_them_room_from_nothing(world):
    """The kubelet has one connection for all calls."""
    first = world.claim("first", {"memory": "15Gi"})
    prepared(world, first)
    late = [world.claim(f"late{i}", {"memory": "256Mi"}) for i in range(40)]
    with world.dra.channel() as channel:
        answers = [channel.later("NodePrepareResources", claim) for claim in late]
        wait_for(lambda: len(world.grants()) > 1, what="those that fit")
        channel.later("NodeUnprepareResources", first).result(5)
        for answer in answers:
            answer.result(5)
    assert len(world.grants()) == 40


def test_a_claim_of_which_all_containers_have_ended_goes(world):
    claim, _, pods = shared(world, run=("a", "b"))
    for pod in pods.values():
        world.kubelet.end(pod)
    world.dra.unprepare(claim)
    wait_for(lambda: not (world.grants() or world.cdi_files() or world.records()), timeout=5)
    nothing_left(world)


@pytest.mark.parametrize("fault, words", [
    ({"status": 200, "body": b"{\"metadata\":"}, "not JSON"),
    ({"status": 200, "body": b"[]"}, "name is missing"),
    ({"status": 200, "body": b"{\"metadata\":{\"name\":\"slice\",\"namespace\":\"default\",\"uid\":\"u\"},\"x\":\"" + b"x" * (3 << 20) + b"\"}"},
     "bytes"),
    ({"status": 500, "message": "etcd is away"}, "etcd is away"),
    ({"drop": True}, "API server"),
    ({"hang": True}, "API server")])
def test_an_answer_of_the_api_server_that_cannot_be_used_prepares_nothing_and_loses_nothing(world, fault, words):
    before = world.claim("before", {"memory": "2Gi"})
    first = prepared(world, before)
    claim = world.claim("slice", {"memory": "3Gi"})
    world.api.inject("GET", "resourceclaims/slice", times=-1, **fault)
    answers = world.dra.prepare(claim, timeout=20)
    assert words in answers[uid_of(claim)].error, answers
    assert list(world.grants()) == [uid_of(before)] and prepared(world, before) == first
    world.api.faults.clear()
    prepared(world, claim)


def test_a_claim_that_cannot_be_written_leaves_nothing(world):
    """The CDI file is the last step; a folder has its name."""
    claim = world.claim("slice", {"memory": "3Gi"})
    in_the_way = world.kubelet.cdi_dir / f"ration-{uid_of(claim)}.json"
    (in_the_way / "x").mkdir(parents=True)
    error = world.dra.prepare(claim)[uid_of(claim)].error
    assert "nothing is prepared" in error and str(world.kubelet.cdi_dir) in error
    assert world.grants() == {} and world.records() == []
    (in_the_way / "x").rmdir()
    in_the_way.rmdir()
    prepared(world, claim)


def test_another_claim_of_the_same_name_is_refused(world):
    claim = world.claim("slice", {"memory": "3Gi"})
    world.api.delete("resourceclaims", "slice", "default")
    world.claim("slice", {"memory": "3Gi"})
    assert "another one of this name" in world.dra.prepare(claim)[uid_of(claim)].error


def test_a_claim_that_was_allocated_anew_gets_what_it_has_now(world):
    claim = world.claim("slice", {"memory": "3Gi"})
    prepared(world, claim)
    world.api.patch("resourceclaims", "slice", {"status": {"allocation": {"devices": {"results": [
        {**claim["status"]["allocation"]["devices"]["results"][0], "device": world.uuid(1).lower(), "consumedCapacity": {"memory": "4Gi"}}]}}}},
        "default")
    prepared(world, claim)
    assert limits(world, claim) == [(world.uuid(1), 4096)]


def test_a_message_that_is_none_and_names_that_cannot_be_are_refused(world):
    claim = {"metadata": {"namespace": "default", "name": "../../nodes", "uid": "../../etc"}}
    assert "cannot exist" in world.dra.prepare(claim)["../../etc"].error
    assert "cannot exist" in world.dra.unprepare(claim)["../../etc"].error


# ---- the life of the node ----

def test_the_files_of_a_claim_stay_while_it_is_prepared():
    """The search for files of pods that are over comes 5 s after the start and then each 30 s."""
    with DraWorld() as w:
        w.up_for_claims()
        claim = w.claim("slice", {"memory": "3Gi"})
        prepared(w, claim)
        w.stop_agent()
        w.start_agent()
        time.sleep(7)
        assert w.grants() and w.cdi_files() and w.records()


@pytest.mark.parametrize("how", ["gone", "reallocated", "recreated"])
def test_the_next_agent_removes_a_claim_that_is_over_once_nothing_of_it_runs(how):
    with DraWorld() as w:
        w.up_for_claims()
        pod = w.pod_with("a", "slice")
        claim = w.claim("slice", {"memory": "3Gi"}, pods=[pod])
        w.run(pod, "main", prepared(w, claim))
        wait_for(lambda: json.loads((w.state / "claims" / f"{uid_of(claim)}.json").read_text())["users"])
        w.kill_agent()
        if how == "reallocated":
            w.api.patch("resourceclaims", "slice", {"status": {"allocation": {"devices": {"results": []}}}}, "default")
        else:
            w.api.delete("resourceclaims", "slice", "default")
        if how == "recreated":
            w.claim("slice", {"memory": "1Gi"})
        w.start_agent()
        time.sleep(3)
        assert w.grants() and w.cdi_files() and w.records()    # its container runs
        w.kubelet.end(pod)
        wait_for(lambda: not w.records(), timeout=15)
        nothing_left(w)


def test_the_next_agent_removes_a_claim_that_is_over_beside_others_of_which_it_cannot_learn_that():
    with DraWorld() as w:
        w.up_for_claims()
        stuck = [w.claim(f"stuck{i}", {"memory": "256Mi"}) for i in range(6)]
        over = w.claim("over", {"memory": "256Mi"})
        for claim in [*stuck, over]:
            prepared(w, claim)
        w.kill_agent()
        w.api.delete("resourceclaims", "over", "default")
        w.api.inject("GET", "resourceclaims/stuck", times=FOREVER, status=500)
        w.start_agent()
        wait_for(lambda: len(w.records()) == 6, timeout=20)
        assert f"{uid_of(over)}.json" not in w.records()


def test_the_next_agent_keeps_a_claim_that_is_still_allocated():
    with DraWorld() as w:
        w.up_for_claims()
        claim = w.claim("slice", {"memory": "3Gi"})
        first = prepared(w, claim)
        w.kill_agent()
        w.start_agent()
        time.sleep(3)
        assert w.records() and w.grants()
        w.dra.register()
        assert prepared(w, claim) == first


def test_a_record_that_is_not_readable_keeps_the_files_until_the_kubelet_prepares_or_unprepares_the_claim():
    with DraWorld() as w:
        w.up_for_claims()
        claims = [w.claim(name, {"memory": "3Gi"}) for name in ("a", "b")]
        for claim in claims:
            prepared(w, claim)
        w.kill_agent()
        for record in (w.state / "claims").iterdir():
            record.write_text('{"devices": [{}]}')
        w.start_agent()
        w.dra.register()
        time.sleep(7)
        assert len(w.grants()) == 2
        prepared(w, claims[0])
        assert limits(w, claims[0]) == [(w.uuid(0), 3072)]
        for claim in claims:
            w.dra.unprepare(claim)
        nothing_left(w)


def test_after_a_reboot_the_claim_is_prepared_anew():
    with DraWorld(run_in_memory=True) as w:
        w.up_for_claims()
        claim = w.claim("slice", {"memory": "3Gi"})
        first = prepared(w, claim)
        w.kill_agent()
        for point in (w.state / "grants" / uid_of(claim), w.state / "shim"):
            w.unmount(point)
        for path in sorted(w.state.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        for path in w.kubelet.cdi_dir.iterdir():
            path.unlink()
        w.start_agent()
        w.dra.register()
        assert prepared(w, claim) == first and limits(w, claim) == [(w.uuid(0), 3072)]


def test_the_mode_changes_when_the_last_claim_is_unprepared_and_the_last_pending_pod_is_gone():
    with DraWorld() as w:
        w.up_for_claims()
        pod = w.pod_with("a", "slice")
        claim = w.claim("slice", {"memory": "3Gi"}, pods=[pod])
        prepared(w, claim)
        w.label("cgpu")
        wait_for(lambda: not w.slices())
        time.sleep(5)
        assert w.mode() == "dra" and any("1 ResourceClaims are prepared" in e["message"] for e in w.api.events("GPUModePending"))
        w.dra.unprepare(claim)
        time.sleep(5)
        assert w.mode() == "dra"    # a pod may be about to have its claim prepared
        w.api.delete("pods", "a", "default")
        wait_for(lambda: w.mode() == "cgpu", timeout=15)
        late = w.api.get("resourceclaims", "slice", "default")
        with pytest.raises(Exception):
            w.dra.prepare(late)


def test_metrics_count_claims(world):
    good, bad = world.claim("good", {"memory": "3Gi"}), world.claim("bad", {"memory": "17Gi"})
    world.dra.prepare(good, bad)
    page = agent_page(world)
    assert page("ration_claims_prepared") == 1
    assert [page("ration_claim_results_total", result=r) for r in ("prepared", "refused", "unprepared")] == [1, 1, 0]
    world.dra.unprepare(good)
    page = agent_page(world)
    assert page("ration_claims_prepared") == 0 and page("ration_claim_results_total", result="unprepared") == 1


def test_the_device_does_not_exist_before_the_claim_is_prepared_and_after_it_was_unprepared(world):
    pod = world.pod_with("a", "slice")
    claim = world.claim("slice", {"memory": "3Gi"}, pods=[pod])
    answer = prepared(world, claim)
    world.dra.unprepare(claim)
    wait_for(lambda: not world.records())
    with pytest.raises(StartError):
        world.run(pod, "main", answer)
