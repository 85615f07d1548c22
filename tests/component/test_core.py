"""Computing power (aliyun.com/gpu-core.percentage) on core_mem nodes, through the verbs of ration-scheduler."""
import json
import subprocess

import pytest

import scheduler_fixture
from explanations import ask, by_name, gpu_pod, known
from fake_apiserver import wait_for
from histories import kinds, replay, save, sums
from scheduler_fixture import gpu_node

NO_POWER = "no GPU has {} percent of computing power free"


def node_of(api, *mibs, name="n", mode="core_mem", **more):
    return gpu_node(api, name, *(mibs or (16160,) * 4), mode=mode, **more)


def limits(units, core=None):
    return {"aliyun.com/gpu-mem": str(units)} | ({"aliyun.com/gpu-core.percentage": str(core)} if core is not None else {})


def placed(api, scheduler, name, units, core=None, node="n", **more):
    """The index of the card that it got."""
    pod = api.create_pod(name, gpu_mem=units, gpu_core=core, **more)
    assert scheduler.filter(pod, [node])["NodeNames"] == [node], name
    assert scheduler.bind(pod, node) == ""
    return int(api.pod(name)["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"])


def reason(scheduler, pod, node="n"):
    answer = scheduler.filter(pod, [node])
    assert not answer["NodeNames"]
    return (answer["FailedNodes"] | answer["FailedAndUnresolvableNodes"])[node]


def test_three_pods_of_30_percent_share_a_card_and_a_fourth_goes_elsewhere(api, start):
    node_of(api)
    scheduler = start()
    assert [placed(api, scheduler, f"p{i}", 2, 30) for i in range(7)] == [0, 0, 0, 1, 1, 1, 2]
    annotations = api.pod("p3")["metadata"]["annotations"]
    assert json.loads(annotations["scheduler.framework.gpushare.allocation"]) == {"0": {"1": 2}}
    assert json.loads(annotations["gpushare.alibabacloud.com/core-percentage"]) == {"0": {"1": 30}}
    card = json.loads(annotations["ration.dev/placement"])["containers"]["main"]
    assert [(c["units"], c["core"]) for c in card] == [(2, 30)]


def test_what_finds_no_power_waits_and_is_woken_when_some_is_freed(api, start):
    node_of(api, 16160)
    scheduler = start()
    placed(api, scheduler, "a", 1, 60)
    placed(api, scheduler, "b", 1, 30)
    waits = api.create_pod("waits", gpu_mem=1, gpu_core=35)
    assert reason(scheduler, waits) == NO_POWER.format(35)
    api.delete("pods", "b")
    wait_for(lambda: "ration.dev/nudge" in api.pod("waits")["metadata"]["annotations"], 5)
    assert scheduler.filter(waits, ["n"])["NodeNames"] == ["n"]


def test_a_restart_counts_the_power_that_is_given(api, start):
    node_of(api, 16160)
    scheduler = start()
    placed(api, scheduler, "a", 1, 60)
    again = start()
    assert reason(again, api.create_pod("b", gpu_mem=1, gpu_core=45)) == NO_POWER.format(45)
    assert again.filter(api.create_pod("c", gpu_mem=1, gpu_core=40), ["n"])["NodeNames"] == ["n"]


@pytest.mark.parametrize("mode", ["share", "cgpu"])
def test_other_modes_promise_no_power(api, start, mode):
    node_of(api, mode=mode)
    assert reason(start(), api.create_pod("p", gpu_mem=1, gpu_core=30)) == "GPU sharing mode does not fit"


def test_both_kinds_do_not_meet_on_a_node_unless_they_may(api, start):
    node_of(api, name="n")
    node_of(api, name="m")
    scheduler = start()
    placed(api, scheduler, "with", 1, 30)
    memory = api.create_pod("memory", gpu_mem=1)
    assert reason(scheduler, memory) == "GPU node has pods with gpu-core.percentage"
    assert scheduler.filter(memory, ["n", "m"])["NodeNames"] == ["m"]
    assert scheduler.bind(memory, "m") == ""
    assert reason(scheduler, api.create_pod("second", gpu_mem=1, gpu_core=5), "m") == \
        "GPU node has pods without gpu-core.percentage"
    scheduler.stop()
    scheduler = start("--job-mixing", "allow")
    assert placed(api, scheduler, "third", 1) == 0
    assert placed(api, scheduler, "fourth", 1, 5, "m") == 0


def test_a_node_becomes_free_for_the_other_kind_when_the_last_one_ends(api, start):
    node_of(api)
    scheduler = start()
    placed(api, scheduler, "a", 1, 30)
    waits = api.create_pod("waits", gpu_mem=1)
    assert reason(scheduler, waits) == "GPU node has pods with gpu-core.percentage"
    api.set_phase("a", "Succeeded")
    wait_for(lambda: "ration.dev/nudge" in api.pod("waits")["metadata"]["annotations"], 5)
    assert scheduler.filter(waits, ["n"])["NodeNames"] == ["n"]


@pytest.mark.parametrize("core, units, text", [
    ("7", "2", 'container "main": aliyun.com/gpu-core.percentage is 7: must be a multiple of 5 between 5 and 100'),
    ("0", "2", 'container "main": aliyun.com/gpu-core.percentage is 0: must be a multiple of 5 between 5 and 100'),
    ("3", "2", 'container "main": aliyun.com/gpu-core.percentage is 3: must be a multiple of 5 between 5 and 100'),
    ("105", "2", 'container "main": aliyun.com/gpu-core.percentage is 105: must be a multiple of 5 between 5 and 100'),
    ("1k", "2", 'container "main": aliyun.com/gpu-core.percentage is 1k: must be a multiple of 5 between 5 and 100'),
    ("30", None, 'container "main": aliyun.com/gpu-core.percentage is 30: needs aliyun.com/gpu-mem beside it'),
    ("30", "0", 'container "main": aliyun.com/gpu-core.percentage is 30: needs aliyun.com/gpu-mem beside it'),
    ("7", None, 'container "main": aliyun.com/gpu-core.percentage is 7: must be a multiple of 5 between 5 and 100'),
    ("0", None, 'container "main": aliyun.com/gpu-core.percentage is 0: must be a multiple of 5 between 5 and 100'),
])
def test_what_admission_refuses_finds_no_node(api, start, core, units, text):
    node_of(api)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=units, gpu_core=core)
    answer = scheduler.filter(pod, ["n"])
    assert not answer["NodeNames"]
    assert answer["FailedAndUnresolvableNodes"] == {"n": text}


def test_who_asks_for_gpu_count_finds_no_node(api, start):
    node_of(api)
    scheduler = start()
    asks = [{"name": "c", "image": "example", "resources": {"limits": {"aliyun.com/gpu-count": "1"}}}]
    for name, spec in (("main", {"containers": asks}), ("init", {"initContainers": asks, "containers": [
            {"name": "plain", "image": "example"}]})):
        answer = scheduler.filter(api.create_pod(name, spec=spec), ["n"])
        assert answer["FailedAndUnresolvableNodes"] == {
            "n": 'container "c": aliyun.com/gpu-count is 1: no container can ask for it: ask for '
                 "aliyun.com/gpu-mem, and for several GPUs set the label aliyun.com/gpu-count of the pod"}


def test_a_pod_that_is_bound_already_counts_though_its_percentage_is_none(api, start):
    """Bound before the policy, or without it: its memory is taken all the same."""
    node_of(api, 16160)
    api.create_pod("old", gpu_mem=10, gpu_core="0", node="n", status={"phase": "Running"})
    scheduler = start()
    assert reason(scheduler, api.create_pod("p", gpu_mem=6)) == "no GPU has 6 units free"


def test_a_bound_pod_takes_the_points_that_the_kubelet_gave_it_whatever_we_think_of_them(api, start, tmp_path):
    node_of(api, 16160)
    api.create_pod("seven", gpu_mem=2, gpu_core="7", node="n", status={"phase": "Running"})
    api.create_pod("alone", gpu_core="30", node="n", status={"phase": "Running"})
    scheduler = start()
    assert reason(scheduler, api.create_pod("p", gpu_mem=1, gpu_core=65)) == NO_POWER.format(65)
    assert reason(scheduler, api.create_pod("q", gpu_mem=14, gpu_core=60)) == "no GPU has 14 units free"
    placed(api, scheduler, "r", 13, 60)
    lines = save(scheduler, tmp_path / "history")
    sums(replay(tmp_path / "history"))
    assert kinds(lines, "gave")["binding"] == 1
    assert scheduler.inspect()["wrongSums"] == 0


def test_why_names_power_and_reasons(api, start, person):
    node_of(api, 16160, 16160)
    scheduler = start()
    placed(api, scheduler, "a", 1, 80)
    placed(api, scheduler, "b", 1, 90)
    waits = api.create_pod("waits", gpu_mem=2, gpu_core=30)
    assert reason(scheduler, waits) == NO_POWER.format(30)
    known(scheduler, "waits")
    node = by_name(ask(scheduler, "waits"))["n"]
    assert node["reason"] == NO_POWER.format(30)
    assert [(c["reason"], c["coreFree"]) for c in node["cards"]] == [("not enough computing power free", 20),
                                                                     ("not enough computing power free", 10)]
    gpu_pod(api, "waits-too", 2, gpu_core=30)
    known(scheduler, "waits-too")
    person.world(scheduler)
    lines = person.why("waits-too").splitlines()
    assert "It asks for 2 units of aliyun.com/gpu-mem and 30 percent of computing power." in lines
    assert "  GPU 1: not enough computing power free: 14 of 15 units and 10 percent free; held by default/b 1" in lines


def test_a_recorded_history_knows_power_and_mixing(api, start, tmp_path):
    node_of(api, 16160)
    for options in (), ("--job-mixing", "allow"):
        scheduler = start(*options)
        name = "a" if not options else "b"
        placed(api, scheduler, name, 1, 45)
        assert reason(scheduler, api.create_pod(f"{name}-large", gpu_mem=1, gpu_core=60)) == NO_POWER.format(60)
        scheduler.filter(api.create_pod(f"{name}-memory", gpu_mem=1), ["n"])
        lines = save(scheduler, tmp_path / "history")
        assert any('"mixing": true' in json.dumps(line) for line in lines) == bool(options)
        assert sums(replay(tmp_path / "history"))[1] >= 3
        scheduler.stop()


def test_metrics_count_who_found_no_power_and_who_may_not_mix(api, start):
    node_of(api, 16160)
    scheduler = start()
    placed(api, scheduler, "a", 1, 80)
    reason(scheduler, api.create_pod("b", gpu_mem=1, gpu_core=30))
    reason(scheduler, api.create_pod("c", gpu_mem=1))
    page = scheduler.http("GET", "/metrics")[1].decode()
    assert 'ration_filter_node_rejections_total{reason="core"} 1\n' in page
    assert 'ration_filter_node_rejections_total{reason="job_mixing"} 1\n' in page


def test_who_has_the_power_goes_for_a_more_important_pod(api, start):
    """The node's sum suffices, so kube-scheduler would find nobody: we evict ourselves, and only who helps."""
    node_of(api, 16160, 16160)
    scheduler = start()

    def with_priority(name, units, core, priority):
        return api.create_pod(name, spec={"priority": priority, "containers": [
            {"name": "main", "image": "x", "resources": {"limits": limits(units, core)}}]})
    for name, units, core in ("memory", 10, 5), ("power", 5, 60), ("other", 12, 60):
        pod = with_priority(name, units, core, 0)
        assert scheduler.filter(pod, ["n"])["NodeNames"] == ["n"]
        assert scheduler.bind(pod, "n") == ""
    answer = scheduler.filter(with_priority("high", 1, 70, 1000), ["n"])
    assert answer["FailedAndUnresolvableNodes"] == {"n": NO_POWER.format(70)}
    done = wait_for(lambda: api.requests_for("POST", "/eviction$"), 5, "an eviction of our own")
    assert [r.path.split("/")[-2] for r in done] in (["power"], ["other"])


@pytest.mark.parametrize("bad", ["", "yes", "Allow"])
def test_a_rule_that_is_none_is_refused(api, start, bad):
    program = scheduler_fixture.BUILD / "src/scheduler/ration-scheduler"
    assert subprocess.run([program, "--job-mixing", bad], capture_output=True, check=False).returncode == 2
