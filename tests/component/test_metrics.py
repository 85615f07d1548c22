"""/metrics of both daemons, read as Prometheus reads it."""
import pathlib
import re
import socket
import subprocess

import grpc
import pytest

import preemptions
from agent_fixture import BUILD, World
from fake_apiserver import FOREVER, wait_for
from fake_kubelet import AdmissionError, StartError, msg
from leases import RUNNING, annotate, lease
from metrics_page import Page, agent_page
from preemptions import fragmented, preempt, running
from scheduler_fixture import gpu_node

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/internals/metrics.md"


def scrape(daemon, path="/metrics", port=0):
    status, body = daemon.http("GET", path, port=port)
    assert status == 200
    return Page(body.decode())


def check_form(page):
    """What the parser lets pass, but Prometheus' own linter (promtool check metrics) complains about."""
    for line in page.text.splitlines():
        assert line.startswith("#") or re.fullmatch(r"[a-zA-Z_:][\w:]*(\{.*\})? \d+(\.\d+)?", line), line
    for name, family in page.families.items():
        assert family.type in ("counter", "gauge", "histogram"), name
        assert family.documentation.endswith("."), name
        assert f"# HELP {name}" in page.text and f"# TYPE {name}" in page.text
        assert (family.type == "counter") == (f"# TYPE {name}_total counter" in page.text), name
        if family.type == "histogram":
            buckets = [s.value for s in family.samples if s.name.endswith("_bucket")]
            assert buckets == sorted(buckets) and buckets[-1] == page(name + "_count"), name
            assert family.samples[len(buckets) - 1].labels["le"] == "+Inf", name


def documented():
    return set(re.findall(r"^\| `(\w+)`", DOCUMENT.read_text(), re.M))


def check_documented(page):
    shown = set(re.findall(r"^# TYPE (\w+)", page.text, re.M))
    assert shown <= documented(), shown - documented()


def test_scheduler_page_has_the_form_of_prometheus_and_documented_names(api, start):
    gpu_node(api, "n1", 8192)
    page = scrape(start())
    check_form(page)
    check_documented(page)
    assert page.labels("ration_build_info")[0]["version"]
    assert page("ration_ready") == 1


def test_scheduler_counts_each_filter_prioritize_and_bind_once(api, start):
    gpu_node(api, "n1", 8192, 8192)
    api.create_node("plain")
    scheduler = start()
    pods = [api.create_pod(f"p{i}", gpu_mem=3) for i in range(7)]
    for pod in pods[:5]:
        scheduler.filter(pod, ["n1", "plain"])
        scheduler.verb("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": ["n1"]})
        scheduler.bind(pod, "n1")           # 2 x 2 of them fit
    scheduler.filter(api.create_pod("none"), ["n1"])
    scheduler.http("POST", "/filter", b"{")
    scheduler.http("POST", "/prioritize", b"{")
    scheduler.http("POST", "/bind", b"{")
    page = scrape(scheduler)
    filtered = {labels["result"]: page("ration_filter_results_total", **labels)
                for labels in page.labels("ration_filter_results_total")}
    assert {k: v for k, v in filtered.items() if v} == {"fits": 4, "no_node": 1, "not_ours": 1, "bad_request": 1}
    assert page("ration_filter_duration_seconds_count") == 7
    assert page("ration_filter_node_rejections_total", reason="no_gpu_node") == 5
    assert page("ration_filter_node_rejections_total", reason="full") == 1
    assert page("ration_prioritize_duration_seconds_count") == 6
    assert page("ration_prioritize_bad_requests_total") == 1
    bound = {labels["result"]: page("ration_bind_results_total", **labels)
             for labels in page.labels("ration_bind_results_total")}
    assert {k: v for k, v in bound.items() if v} == {"bound": 4, "no_card": 1, "bad_request": 1}
    assert page("ration_bind_duration_seconds_count") == 5
    assert 0 < page("ration_bind_duration_seconds_sum") < 60
    assert page("ration_api_requests_total", result="2xx") >= 4 + 2     # Bindings, LISTs


def test_scheduler_sums_the_cluster_in_bytes_without_a_name_of_node_or_pod(api, start):
    gpu_node(api, "n1", 8192, 4096)
    gpu_node(api, "n2", 16384)
    api.create_pod("bound-by-hand", gpu_mem=2, node="n2")
    scheduler = start()
    pod = api.create_pod("secret-name", gpu_mem=3)
    scheduler.filter(pod, ["n1"])
    assert scheduler.bind(pod, "n1") == ""
    scheduler.filter(api.create_pod("promised", gpu_mem=5), ["n1"])
    scheduler.filter(api.create_pod("waits", gpu_mem=99), ["n1"])
    page = wait_for(lambda: (p := scrape(scheduler))("ration_pods", state="waiting") == 1 and p)
    gib = 1 << 30
    assert page("ration_nodes", mode="share") == 2 and page("ration_gpus") == 3
    assert page("ration_memory_total_bytes") == 28 * gib
    assert page("ration_memory_used_bytes") == 8 * gib
    assert page("ration_memory_unplaced_bytes") == 2 * gib
    assert page("ration_pods", state="bound") == 2 and page("ration_pods", state="tentative") == 1
    assert page("ration_pods_rejected_waiting") == 1
    assert page("ration_ledger_repairs_total") == 0 and page("ration_gpus_overcommitted") == 0
    for name in ("n1", "n2", "secret-name", "promised", "bound-by-hand"):
        assert f'"{name}"' not in page.text and f"/{name}" not in page.text


def test_scheduler_counts_the_nodes_whose_agent_does_not_serve(api, start):
    """One that is about to go, one that died; not one that shares nothing, nor one without GPUs."""
    for name in ("well", "going", "dead"):
        gpu_node(api, name, 8192)
    gpu_node(api, "unshared", 8192, mode="")
    api.create_node("plain")
    annotate(api, "unshared", serving="false")
    scheduler = start()
    wait_for(lambda: (p := scrape(scheduler))("ration_nodes", mode="share") == 3 and p("ration_nodes_not_serving") == 0)
    annotate(api, "going", serving="false")
    lease(api, "dead", 1)
    wait_for(lambda: scrape(scheduler)("ration_nodes_not_serving") == 2)
    annotate(api, "going", serving="true")
    wait_for(lambda: scrape(scheduler)("ration_nodes_not_serving") == 1)


def test_scheduler_counts_a_deleted_pod_that_may_still_run_as_held(api, start):
    gpu_node(api, "n1", 8192)
    scheduler = start()
    pods = [api.create_pod(f"p{i}", gpu_mem=1) for i in range(5)]
    for pod in pods:
        scheduler.filter(pod, ["n1"])
        assert scheduler.bind(pod, "n1") == ""
        api.patch("pods", pod["metadata"]["name"], {"status": RUNNING})
    wait_for(lambda: scrape(scheduler)("ration_pods", state="bound") == 5)
    scheduler.has_read_pods()
    for pod in pods:
        api.delete("pods", pod["metadata"]["name"])
    page = wait_for(lambda: (p := scrape(scheduler))("ration_pods", state="bound") == 0 and p)
    assert page("ration_pods", state="held") == 5
    assert page("ration_memory_used_bytes") == 5 << 30


@pytest.mark.waits
def test_scheduler_says_whether_it_owns_the_ledger(api, start):
    gpu_node(api, "n1", 8192)
    owner = start()
    other = start("--scheduler-lease", "other/scheduler")
    page = wait_for(lambda: (p := scrape(owner))("ration_ledger_owned") == 1 and p)
    assert page("ration_ledger_may_bind") == 1 and 0 <= page("ration_ledger_lease_age_seconds") < 6
    assert page("ration_ledger_lease_failures_total") == 0
    page = scrape(other)
    assert (page("ration_ledger_owned"), page("ration_ledger_may_bind")) == (0, 0)
    assert 0 <= page("ration_ledger_lease_age_seconds") < 6
    api.inject(path="/leases/ration-ledger$", times=FOREVER, status=500)
    page = wait_for(lambda: (p := scrape(owner))("ration_ledger_may_bind") == 0 and p, 15)
    assert page("ration_ledger_owned") == 1 and page("ration_ledger_lease_failures_total") > 0
    assert page("ration_ledger_lease_age_seconds") >= 10


def test_scheduler_counts_answers_of_preempt(api, start):
    gpu_node(api, "n1", 15360)
    gpu_node(api, "n2", 8192)
    victims = [running(api, "a", 8, 0, node="n1"), running(api, "b", 5, 0, node="n2")]
    scheduler = start()
    big = preemptions.pod(api, "big", 10, 1000)
    assert list(preempt(scheduler, big, n2=[victims[1]])) == []
    assert list(preempt(scheduler, big, n1=[victims[0]])) == ["n1"]
    preempt(scheduler, preemptions.pod(api, "none", None, 1000), n1=[victims[0]])
    scheduler.http("POST", "/preempt", b"{")
    page = scrape(scheduler)
    check_documented(page)
    results = {labels["result"]: page("ration_preempt_results_total", **labels)
               for labels in page.labels("ration_preempt_results_total")}
    assert {k: v for k, v in results.items() if v} == {"node": 1, "no_node": 1, "not_ours": 1, "bad_request": 1}
    assert page("ration_preempt_duration_seconds_count") == 4
    assert page("ration_nominations") == 1
    api.delete("pods", "big")
    wait_for(lambda: scrape(scheduler)("ration_nominations") == 0, 5)


def test_scheduler_counts_its_own_evictions_by_outcome(api, start):
    fragmented(api)
    scheduler = start()
    api.inject("POST", "/eviction$", times=1, status=429, message="budget")
    big = preemptions.pod(api, "big", 10, 1000)
    scheduler.filter(big, ["n"])
    wait_for(lambda: api.pod("big")["status"].get("nominatedNodeName") == "n", 15)
    page = scrape(scheduler)
    assert page("ration_eviction_searches_total", result="planned") == 1
    assert page("ration_evictions_total", result="refused") == 1
    assert page("ration_evictions_total", result="accepted") == 1
    assert page("ration_nominations") == 1
    attempts = page.labels("ration_eviction_attempts_total")
    assert {"result": "pod_gone"} in attempts
    assert all(page("ration_eviction_attempts_total", **labels) == 0 for labels in attempts)
    api.delete("pods", "big")
    page = wait_for(lambda: (p := scrape(scheduler))("ration_eviction_attempts_total", result="pod_gone") == 1 and p, 5)
    assert page("ration_nominations") == 0


def test_scheduler_counts_a_binding_of_unknown_outcome_as_in_doubt_until_it_is_known(api, start):
    gpu_node(api, "n1", 8192)
    scheduler = start()
    pod = api.create_pod("p", gpu_mem=3)
    api.inject(method="POST", path=r"/binding$", status=500)
    scheduler.filter(pod, ["n1"])
    assert scheduler.bind(pod, "n1")
    page = scrape(scheduler)
    assert page("ration_bind_results_total", result="in_doubt") == 1
    assert page("ration_reservations_in_doubt") == 1
    assert page("ration_api_requests_total", result="5xx") == 1
    scheduler.filter(pod, ["n1"])
    assert scrape(scheduler)("ration_filter_results_total", result="in_doubt") == 1


def test_scheduler_shows_how_its_watches_fare(api, start):
    gpu_node(api, "n1", 8192)
    scheduler = start()
    page = wait_for(lambda: (p := scrape(scheduler))("ration_watch_connected", resource="pods") == 1 and p)
    before = page("ration_watch_events_total", resource="pods")
    assert page("ration_watch_lists_total", resource="pods") == 1
    api.create_pod("p", gpu_mem=1)
    wait_for(lambda: scrape(scheduler)("ration_watch_events_total", resource="pods") > before)
    api.expire()
    api.close_watches()
    wait_for(lambda: scrape(scheduler)("ration_watch_lists_total", resource="pods") >= 2)
    page = wait_for(lambda: (p := scrape(scheduler))("ration_watch_connections_total", resource="pods") >= 2 and p)
    assert 0 <= page("ration_watch_last_event_age_seconds", resource="pods") < 30


def test_scheduler_serves_metrics_on_an_address_of_their_own_only_if_asked(api, start):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    scheduler = start("--metrics", f"127.0.0.1:{port}")
    scheduler.ports += (port,)
    assert scrape(scheduler, port=2)("ration_ready") == 1
    assert scheduler.http("GET", "/inspect", port=2)[0] == 404
    assert scheduler.http("POST", "/metrics", b"x", port=2)[0] == 404
    assert scheduler.http("GET", "/metrics", port=1)[0] == 404          # the probes' address is open to all


def test_process_metrics_are_what_proc_says(api, start):
    scheduler = start()
    page = scrape(scheduler)
    pid = scheduler.process.pid
    assert abs(page("process_open_fds") - len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))) <= 2
    rss = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024
    assert abs(page("process_resident_memory_bytes") - rss) < 4 << 20
    started = float(pathlib.Path(f"/proc/{pid}/stat").stat().st_ctime)
    assert abs(page("process_start_time_seconds") - started) < 5


def card(world, index):
    fact = world.cards()[index]
    return {"gpu": str(index), "UUID": fact["uuid"], "modelName": fact["model"]}


def test_agent_page_shows_each_card_and_what_its_containers_were_given():
    with World(cards="2x16384MiB").up(32) as world:
        pod = world.pod_of("two", {"a": 3, "b": 2}, card=1)
        world.kubelet.admit(pod)
        world.kubelet.run(pod, "a")
        page = wait_for(lambda: (p := agent_page(world))("ration_gpu_granted_units", **card(world, 1)) == 5 and p)
        check_form(page)
        check_documented(page)
        assert page("ration_mode", mode="share") == 1 and page("ration_mode", mode="none") == 0
        assert page("ration_unit_bytes") == 1 << 30
        for index in (0, 1):
            assert page("ration_gpu_memory_bytes", **card(world, index)) == 16 << 30
            assert page("ration_gpu_units", **card(world, index)) == 16
            assert page("ration_gpu_healthy", **card(world, index)) == 1
        assert page("ration_gpu_granted_units", **card(world, 0)) == 0
        where = {"namespace": "default", "pod": "two", "gpu": "1", "UUID": world.uuid(1)}
        assert page("ration_container_granted_units", container="a", **where) == 3
        assert page("ration_container_granted_units", container="b", **where) == 2
        assert page("ration_allocate_results_total", result="granted") == 2
        assert page("ration_allocate_duration_seconds_count") == 2
        assert page("ration_prestart_results_total", result="accepted") == 1
        world.api.delete("pods", "two")
        wait_for(lambda: agent_page(world)("ration_gpu_granted_units", **card(world, 1)) == 0)
        assert not agent_page(world).labels("ration_container_granted_units")


def test_agent_counts_refusals_by_reason_and_ids_of_another_card():
    with World(cards="2x16384MiB").up(32) as world:
        world.kubelet.admit(world.pod("elsewhere", 3, card=1), preferred=False)     # takes the first ids, of card 0
        unplaced = world.pod("unplaced", 1)
        world.kubelet.admit(unplaced)
        with pytest.raises(StartError):
            world.kubelet.run(unplaced, "main")
        full, more = world.pod("full", 13, card=1), world.pod("more", 1, card=1)
        world.kubelet.admit(full)
        with pytest.raises(AdmissionError):
            world.kubelet.admit(more)
        with pytest.raises(grpc.RpcError):
            world.kubelet.plugin.call("Allocate", msg("AllocateRequest"), "AllocateResponse")
        page = agent_page(world)
        results = {labels["result"]: page("ration_allocate_results_total", **labels)
                   for labels in page.labels("ration_allocate_results_total")}
        assert {k: v for k, v in results.items() if v} == {"granted": 2, "not_placed": 1, "over_total": 1,
                                                           "bad_request": 1}
        assert page("ration_prestart_results_total", result="refused") == 1
        assert page("ration_ids_disagreed_total") == 3


def test_agent_shows_its_registrations_at_the_kubelet():
    with World().up(32) as world:
        wait_for(lambda: agent_page(world)("ration_registration_duration_seconds_count") == 1)    # the kubelet knows before the answer arrives
        assert agent_page(world)("ration_kubelet_watching") == 1
        world.kubelet.stop()
        wait_for(lambda: agent_page(world)("ration_kubelet_watching") == 0)
        world.kubelet.start()
        page = wait_for(lambda: (p := agent_page(world))("ration_registration_duration_seconds_count") == 2 and p)
        assert 0 < page("ration_registration_last_duration_seconds") < 5
        assert page("ration_watch_connected", resource="pods") == 1


def test_agent_counts_the_workers_that_died():
    with World().up(32) as world:
        assert agent_page(world)("ration_worker_respawns_total") == 0
        for n in (1, 2):
            before = len(re.findall("metrics on port", world.logged()))
            world.kill_worker()
            wait_for(lambda: len(re.findall("metrics on port", world.logged())) > before)
            assert agent_page(world)("ration_worker_respawns_total") == n


def test_names_that_others_chose_cannot_forge_a_sample():
    evil = 'x"} 1\nration_gpu_healthy{gpu="7"} 1\n\\'
    with World(cards="1x16384MiB").up(16) as world:
        pod = world.pod_of("p", {evil: 2}, card=0)
        world.kubelet.admit(pod)
        page = agent_page(world)
        check_form(page)
        assert {"pod": "p", "container": evil}.items() <= page.labels("ration_container_granted_units")[0].items()
        assert len(page.labels("ration_gpu_healthy")) == 1


@pytest.mark.waits
def test_agent_works_without_its_page_and_gets_it_when_the_port_is_free():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        world = World(options=["--metrics", where])
        with world.up(32):
            wait_for(lambda: "no metrics: cannot listen on " + where in world.logged())
            pod = world.pod("p", 1, card=0)
            world.kubelet.admit(pod)
            taken.close()
            wait_for(lambda: "metrics on port" in world.logged(), 15)


@pytest.mark.parametrize("where", ["", "39996", "localhost:1", "127.0.0.1:65536", "127.0.0.1:-1", "1.2.3.4:", ":1"])
def test_agent_refuses_an_address_for_metrics_that_is_none(where):
    result = subprocess.run([BUILD / "src/agent/ration-agent", "--node-name", "n", "--metrics", where],
                            capture_output=True, text=True, timeout=10)
    assert result.returncode == 2 and "--metrics" in result.stderr
