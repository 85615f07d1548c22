"""ResourceSlices of a node in the mode dra: what they say, and that they stay so; the node's mode; the registration at the kubelet."""
import json
import time

import pytest

from agent_fixture import NODE, wait_for
from cgpu_node import needs_root
from dra_kubelet import Channel, msg
from dra_node import DRA, DRIVER, DraWorld, prepared

pytestmark = needs_root


def test_a_node_in_the_mode_dra_publishes_its_gpus_and_offers_no_resource():
    with DraWorld(gpus="2x16160MiB") as w:
        w.up_for_claims()
        slice_ = w.slice()
        spec = slice_["spec"]
        wait_for(lambda: w.mode() == "dra")
        assert not w.kubelet.has_healthy_devices()
        assert slice_["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": w.api.node(NODE)["metadata"]["uid"]}]
        assert spec["driver"] == DRIVER and spec["nodeName"] == NODE
        assert spec["pool"] == {"name": NODE, "generation": 1, "resourceSliceCount": 1}
        assert [d["name"] for d in spec["devices"]] == [w.uuid(i).lower() for i in (0, 1)]
        device = spec["devices"][1]
        assert device["allowMultipleAllocations"] is True and "taints" not in device
        # 16160 MiB are 15 whole units of 1 GiB.
        assert device["capacity"] == {
            "memory": {"value": "15Gi", "requestPolicy": {"default": "15Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}},
            "cores": {"value": "100", "requestPolicy": {"default": "0", "validRange": {"min": "0", "step": "5"}}}}
        attributes = device["attributes"]
        assert attributes["uuid"] == {"string": w.uuid(1)} and attributes["index"] == {"int": 1}
        assert attributes["productName"] == {"string": json.loads(w.api.node(NODE)["metadata"]["annotations"]["ration.dev/gpus"])[1]["model"]}
        assert set(attributes) >= {"architecture", "cudaComputeCapability", "driverVersion", "cudaDriverVersion", "resource.kubernetes.io/pciBusID"}


def test_a_gpu_of_one_unit_has_no_step_which_the_api_server_would_refuse():
    with DraWorld(gpus="1x1536MiB") as w:
        w.up_for_claims()
        assert w.devices()[0]["capacity"]["memory"]["requestPolicy"] == {"default": "1Gi", "validRange": {"min": "1Gi"}}


def test_the_kubelet_learns_the_driver_and_its_endpoint():
    with DraWorld() as w:
        w.kubelet.start()
        w.start_agent()
        info = w.dra.register()
        assert (info.type, info.name, list(info.supported_versions)) == ("DRAPlugin", DRIVER, ["v1.DRAPlugin"])
        assert info.endpoint == f"{w.dir}/plugins/{DRIVER}/dra.sock"
        w.slice()


def test_nothing_is_published_before_the_kubelet_has_registered_the_driver():
    with DraWorld() as w:
        w.kubelet.start()
        w.start_agent()
        w.dra.register(registered=False, error="no such feature")
        time.sleep(1.5)
        assert w.mode() == "dra" and not w.slices()
        w.dra.register()
        w.slice()


def test_a_slice_that_somebody_changes_or_deletes_is_restored_with_a_higher_generation():
    with DraWorld() as w:
        w.up_for_claims()
        first = w.slice()
        name = first["metadata"]["name"]
        w.api.patch("resourceslices", name, {"spec": {"devices": []}})
        w.slice(lambda s: s["spec"]["devices"] == first["spec"]["devices"] and s["spec"]["pool"]["generation"] == 2)
        w.api.delete("resourceslices", name)
        w.slice(lambda s: s["spec"]["devices"] == first["spec"]["devices"] and s["spec"]["pool"]["generation"] == 3)


def test_other_slices_of_the_driver_and_node_are_removed_and_those_of_others_stay():
    with DraWorld() as w:
        for name, driver, node in (("old", DRIVER, NODE), ("theirs", "gpu.nvidia.com", NODE), ("elsewhere", DRIVER, "n2")):
            w.api.create("resourceslices", {"metadata": {"name": name}, "spec": {
                "driver": driver, "nodeName": node, "pool": {"name": node, "generation": 7, "resourceSliceCount": 1}, "devices": []}})
        w.up_for_claims()
        wait_for(lambda: {"old"} & {s["metadata"]["name"] for s in w.slices()} == set())
        ours = w.slice(lambda s: s["metadata"]["name"].startswith(DRIVER))
        assert ours["spec"]["pool"]["generation"] == 8
        assert {s["metadata"]["name"] for s in w.slices()} == {"theirs", "elsewhere", ours["metadata"]["name"]}


def test_a_slice_is_written_only_when_it_changes_and_not_again_by_the_next_agent():
    with DraWorld() as w:
        w.up_for_claims()
        time.sleep(2.5)
        w.stop_agent()
        w.start_agent()
        w.dra.register()
        time.sleep(2.5)
        writes = [r.method for m in ("POST", "PUT", "DELETE") for r in w.api.requests_for(m, "resourceslices") if not r.query.get("dryRun")]
        assert writes == ["POST"]
        assert w.slice()["spec"]["pool"]["generation"] == 1


def names(slice_):
    return [d["name"] for d in slice_["spec"]["devices"]]


def test_a_node_labelled_spread_lists_the_emptiest_gpu_first_and_writes_a_new_order_once_in_ten_seconds():
    with DraWorld(labels={**DRA, "ack.node.gpu.placement": "spread"}) as w:
        w.up_for_claims()
        first, second = w.uuid(0).lower(), w.uuid(1).lower()
        assert names(w.slice()) == [first, second]
        claims = [w.claim(f"c{i}", {"memory": "2Gi", "device": (first, second)[i % 2]}) for i in range(6)]
        prepared(w, claims[0])
        w.slice(lambda s: names(s) == [second, first])
        begin = time.monotonic()
        for claim in claims[1:]:    # the order is another one after each second of them
            prepared(w, claim)
            time.sleep(0.5)
        w.slice(lambda s: names(s) == [first, second], timeout=15)
        assert time.monotonic() - begin > 8 and w.slice()["spec"]["pool"]["generation"] == 3
        # A GPU that is lost or ill does not wait.
        w.api.create("configmaps", {"metadata": {"name": f"unhealthy-gpu-{NODE}", "namespace": "kube-system"}, "data": {"gpus": "0"}})
        w.slice(lambda s: any("taints" in d for d in s["spec"]["devices"]))
        assert time.monotonic() - begin < 16


def test_a_node_without_that_label_keeps_the_order_of_the_indices():
    with DraWorld() as w:
        w.up_for_claims()
        prepared(w, w.claim("c", {"memory": "2Gi"}))
        w.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.placement": "spread"}}})
        w.slice(lambda s: names(s) == [w.uuid(1).lower(), w.uuid(0).lower()])
        w.api.patch("nodes", NODE, {"metadata": {"labels": {"ack.node.gpu.placement": None}}})
        w.slice(lambda s: names(s) == [w.uuid(0).lower(), w.uuid(1).lower()], timeout=15)


def test_an_unhealthy_gpu_gets_a_taint_and_loses_it_again():
    with DraWorld() as w:
        w.up_for_claims()
        w.api.create("configmaps", {"metadata": {"name": f"unhealthy-gpu-{NODE}", "namespace": "kube-system"}, "data": {"gpus": "1"}})
        slice_ = w.slice(lambda s: any("taints" in d for d in s["spec"]["devices"]))
        assert [d.get("taints", []) and {k: t for k, t in d["taints"][0].items() if k != "timeAdded"} for d in slice_["spec"]["devices"]] == [
            [], {"key": f"{DRIVER}/unhealthy", "effect": "NoSchedule"}]
        time.sleep(1.5)    # the time that the API server adds is no difference
        assert w.slice()["spec"]["pool"]["generation"] == 2
        w.api.delete("configmaps", f"unhealthy-gpu-{NODE}", "kube-system")
        w.slice(lambda s: not any("taints" in d for d in s["spec"]["devices"]))


def test_where_taints_are_dropped_an_unhealthy_gpu_is_left_out():
    with DraWorld(gates={"DRAConsumableCapacity"}) as w:
        w.up_for_claims()
        w.api.create("configmaps", {"metadata": {"name": f"unhealthy-gpu-{NODE}", "namespace": "kube-system"}, "data": {"gpus": "1"}})
        w.slice(lambda s: [d["name"] for d in s["spec"]["devices"]] == [w.uuid(0).lower()])


@pytest.mark.parametrize("how, words", [("gate", "DRAConsumableCapacity"), ("group", "resource.k8s.io/v1"), ("rights", "forbidden")])
def test_where_the_cluster_cannot_the_node_stays_with_the_device_plugin_and_says_why(how, words):
    with DraWorld(labels={"ack.node.gpu.schedule": "cgpu"}, gates=() if how == "gate" else None) as w:
        if how == "group":
            w.api.hidden.add("resourceslices")
        if how == "rights":
            w.api.inject("POST", "resourceslices", times=-1, status=403, message="resourceslices is forbidden")
        w.up(30)
        w.label("dra")
        problem = wait_for(lambda: w.api.node(NODE)["metadata"]["annotations"].get("ration.dev/problem"))
        assert words in problem and "core_mem" in problem
        wait_for(lambda: (c := w.condition()) and (c["status"], c["reason"]) == ("True", "GPUModeRefused"))
        wait_for(lambda: any(words in e["message"] for e in w.api.events("GPUModeRefused")))
        time.sleep(1)
        assert "ration.dev/mode-pending" not in w.api.node(NODE)["metadata"]["annotations"]
        assert w.mode() == "cgpu" and w.kubelet.has_healthy_devices() and not w.slices()
        w.label("cgpu")
        wait_for(lambda: "ration.dev/problem" not in w.api.node(NODE)["metadata"]["annotations"])


def test_the_change_to_dra_waits_for_the_last_pod_of_the_other_kind():
    with DraWorld(labels={"ack.node.gpu.schedule": "cgpu"}) as w:
        w.up(30)
        pod = w.pod("a", 2, card=0)
        w.kubelet.admit(pod)
        w.kubelet.run(pod, "main")
        w.label("dra")
        wait_for(lambda: w.api.node(NODE)["metadata"]["annotations"].get("ration.dev/mode-pending") == "dra")
        time.sleep(1)
        assert w.mode() == "cgpu" and not w.slices()
        w.api.set_phase("a", "Succeeded")
        wait_for(lambda: w.mode() == "dra", timeout=15)
        w.dra.register()
        w.slice()
        assert not w.kubelet.has_healthy_devices()


def test_the_change_from_dra_withdraws_the_slice_first():
    with DraWorld() as w:
        w.up_for_claims()
        w.label("cgpu")
        wait_for(lambda: not w.slices())
        assert w.mode() == "dra"
        wait_for(lambda: w.mode() == "cgpu", timeout=15)
        w.kubelet.wait_devices(30)
        assert not w.dra.registration_socket()


def test_a_kubelet_that_does_not_register_the_driver_is_reported():
    with DraWorld() as w:
        w.kubelet.start()
        w.start_agent()
        w.dra.register(registered=False, error="version mismatch")
        wait_for(lambda: any("version mismatch" in e["message"] for e in w.api.events("GPUNotRegistered")), timeout=20)
        wait_for(lambda: (c := w.condition()) and c["reason"] == "GPUNotRegistered")
        w.dra.register()
        w.slice()
        wait_for(lambda: w.condition()["status"] == "False")


def test_the_kubelet_is_told_the_health_of_the_gpus_and_its_changes():
    with DraWorld() as w:
        w.up_for_claims()
        names = [w.uuid(i).lower() for i in (0, 1)]
        with Channel(w.dra.info.endpoint) as channel:
            stream = channel.stream("v1alpha1.DRAResourceHealth", "NodeWatchResources", msg("NodeWatchResourcesRequest", "v1alpha1"), "v1alpha1",
                                    "NodeWatchResourcesResponse")
            first = next(stream)
            assert [(d.device.pool_name, d.device.device_name, d.health, d.message) for d in first.devices] == [(NODE, n, 1, "") for n in names]
            assert abs(first.devices[0].last_updated_time - time.time()) < 5
            w.api.create("configmaps", {"metadata": {"name": f"unhealthy-gpu-{NODE}", "namespace": "kube-system"}, "data": {"gpus": "1"}})
            second = next(stream)
            assert [d.health for d in second.devices] == [1, 2] and second.devices[1].message
            begin = time.monotonic()
            assert [d.health for d in next(stream).devices] == [1, 2]    # the kubelet forgets after 30 s
            assert 5 < time.monotonic() - begin < 20


def test_the_mode_waits_for_the_slice_to_go():
    with DraWorld() as w:
        w.up_for_claims()
        fault = w.api.inject("DELETE", "resourceslices", times=-1, status=500, message="etcd is away")
        w.label("cgpu")
        wait_for(lambda: w.api.node(NODE)["metadata"]["annotations"].get("ration.dev/mode-pending") == "cgpu")
        time.sleep(6)    # an empty node is closed for 4 s before it changes
        assert w.mode() == "dra" and w.slices()
        fault.times = 0
        wait_for(lambda: w.mode() == "cgpu", timeout=40)
