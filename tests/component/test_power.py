"""How the agent divides the computing power of cards, judged by the words that it writes into the grants: shares in
millionths of a card. What containers do is written into their usage files here, as their shims would."""
import json
import os
import signal
import struct
import subprocess
import time
from random import Random

import pytest

from agent_fixture import BUILD, FULL, SANITIZED
from isolated import wait_for
from metrics_page import agent_page
from shares import ASKED, STARTED, WAITED, WHOLE, WORK, Power, near

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or os.path.exists("/run/ration/grant"),
                                reason="mounts file systems, which needs root")


@pytest.fixture
def node():
    with Power() as n:
        yield n.up(30)


@pytest.fixture
def core_node():
    """Where containers may ask for a percentage."""
    with Power(labels={"ack.node.gpu.schedule": "core_mem"}) as n:
        n.up(30)
        wait_for(lambda: len(n.kubelet.core.devices) == 200)
        yield n


# ---- policies ----

def test_nothing_is_controlled_unless_somebody_asks_for_it(node):
    node.hold("a")
    node.hold("b", weight=7)
    node.has_read_node()
    assert node.words("a") == node.words("b") == (0, 0, 6)


def test_each_policy_divides_a_card_as_the_contract_says(node):
    for name, weight in (("a", 5), ("b", 5), ("c", 10)):
        node.hold(name, weight=weight)
    for policy, expected in (("0", [50000] * 3), ("1", [333333] * 3), ("2", [250000, 250000, 500000]), ("3", [0, 0, 0]),
                             ("4", [250000, 250000, 500000]), ("5", [0, 0, 0])):
        node.policy(policy)
        node.settles(expected, "a", "b", "c")
        assert [node.words(name)[2] for name in "abc"] == [int(policy) + 1] * 3


def test_rate_is_the_share_until_the_driver_says_otherwise(node):
    node.policy("1")
    node.hold("a")
    node.settles([WHOLE], "a")
    node.hold("b")
    node.settles([500000, 500000], "a", "b")
    assert node.words("a")[1] == 500000


def test_cards_are_divided_each_for_itself(node):
    node.policy("1")
    for name, card in (("a", 0), ("b", 0), ("c", 1)):
        node.hold(name, card=card)
    node.settles([500000, 500000, WHOLE], "a", "b", "c")


def test_a_percentage_holds_under_every_policy(core_node):
    core_node.hold("a", percent=30)
    core_node.hold("b", percent=10)
    for policy, expected in (("5", [300000, 100000]), ("0", [300000, 100000]), ("2", [750000, 250000]),
                             ("3", [300000, 100000]), ("1", [300000, 100000])):
        core_node.policy(policy)
        core_node.settles(expected, "a", "b")


def test_a_percentage_is_the_only_weight_under_weight_and_a_variable_adds_to_it_under_soft(core_node):
    core_node.hold("a", percent=30, weight=1000)
    core_node.hold("b", percent=10)
    core_node.policy("2")
    core_node.settles([750000, 250000], "a", "b")
    core_node.policy("4")
    core_node.work("a", "b")
    # 60 % that nobody asked for, by 1000 to 10
    assert core_node.shares("a", "b") == [300000 + 600000 * 1000 // 1010, 100000 + 600000 * 10 // 1010]


def test_beside_percentages_the_others_divide_what_is_left(core_node):
    core_node.hold("a", percent=60)
    core_node.hold("b")
    core_node.settles([600000, 400000], "a", "b")
    core_node.policy("0")
    core_node.settles([600000, 50000], "a", "b")


def test_a_pods_containers_count_when_they_run(node):
    """The init container alone, then the sidecar and the main one."""
    node.policy("1")
    node.hold("other")
    pod = node.pod_of("a", {"main": 1}, init={"first": 1, "side": 1}, sidecars=("side",))
    node.kubelet.admit(pod)
    for name in ("first", "side"):
        node.kubelet.run(pod, name)
        node.folders[name] = node.state / "grants" / pod["metadata"]["uid"] / name
    node.folders["main"] = node.folders["side"].parent / "main"
    node.settles([333333] * 3, "other", "first", "side")
    ended = {"name": "first", "state": {"terminated": {"exitCode": 0}}}
    node.api.patch("pods", "a", {"status": {"phase": "Running", "initContainerStatuses": [ended]}}, "default")
    node.settles([333333] * 3, "other", "side", "main")
    done = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
    node.api.patch("pods", "a", {"status": {"containerStatuses": [done]}}, "default")
    node.settles([500000, 500000], "other", "side")


def test_who_comes_and_who_goes_changes_the_shares_of_the_others_within_a_second(node):
    node.policy("1")
    node.hold("a")
    node.hold("b")
    node.settles([500000], "a")
    node.api.set_phase("b", "Succeeded")
    node.settles([WHOLE], "a")
    node.hold("c")
    node.settles([500000, 500000], "a", "c")


def test_the_containers_grant_says_its_share_before_it_starts(node):
    node.policy("1")
    node.hold("a")
    node.settles([WHOLE], "a")
    node.hold("b")
    assert node.words("b") == (500000, 500000, 2)


# ---- the weight ----

def test_a_weight_that_is_none_is_reported_and_counts_as_one(node):
    node.policy("2")
    node.hold("a", weight="heavy")
    node.hold("b", weight=3)
    node.hold("c", env=[{"name": "ALIYUN_COM_GPU_SCHD_WEIGHT",
                         "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])
    node.settles([200000, 600000, 200000], "a", "b", "c")
    wait_for(lambda: len(node.api.events("GPUWeightIgnored")) == 2)
    node.hold("d", weight="0")
    wait_for(lambda: any(e["involvedObject"]["name"] == "d" for e in node.api.events("GPUWeightIgnored")))
    events = node.api.events("GPUWeightIgnored")
    assert sorted(e["involvedObject"]["name"] for e in events) == ["a", "c", "d"]
    assert "1 to 10000" in events[0]["message"]


# ---- soft ----

def test_soft_gives_the_card_to_those_that_work(node):
    node.policy("4")
    for name, weight in (("a", 5), ("b", 5), ("c", 10)):
        node.hold(name, weight=weight)
    node.work("a", "b")
    assert node.shares("a", "b") == [500000, 500000]
    node.work("a")
    assert node.shares("a") == [WHOLE]
    node.work("a", "b", "c")
    assert node.shares("a", "b", "c") == [250000, 250000, 500000]


@pytest.mark.alone
def test_soft_gives_a_share_back_within_100_ms_of_the_first_work(node):
    node.policy("4")
    for name in ("a", "b"):
        node.hold(name)
    took = []
    for _ in range(10):
        node.work("a", seconds=0.2)
        assert node.shares("a", "b") == [WHOLE, 500000]     # b starts with its share
        began = time.monotonic()
        node.count("b", at=ASKED, more=1)
        while node.shares("a") != [500000]:
            node.count("a")
            time.sleep(0.002)
            assert time.monotonic() - began < 2
        took.append((time.monotonic() - began) * 1000)
    print("\nidle to busy, ms:", sorted(round(t) for t in took))
    assert sorted(took)[5] <= 100 or SANITIZED


def test_soft_leaves_a_guarantee_and_divides_the_rest(core_node):
    core_node.policy("4")
    core_node.hold("a", percent=30)
    core_node.hold("b", percent=10)
    core_node.hold("c", percent=20)
    core_node.work("a", "b")
    assert core_node.shares("a", "b") == [750000, 250000]


# ---- where the policy comes from ----

def test_the_nodes_annotation_wins_over_the_clusters_policy(node):
    node.hold("a")
    node.hold("b", weight=3)
    node.policy("1")
    node.settles([500000, 500000], "a", "b")
    node.node_policy("2")
    node.settles([250000, 750000], "a", "b")
    node.policy("0")
    time.sleep(0.3)
    assert node.shares("a", "b") == [250000, 750000]
    node.node_policy(None)
    node.settles([50000, 50000], "a", "b")
    node.api.delete("configmaps", "ration-policy", "kube-system")
    node.settles([0, 0], "a", "b")


def test_a_wrong_policy_is_reported_once_and_the_last_good_one_stays(node):
    node.hold("a")
    node.policy("1")
    node.settles([WHOLE], "a")
    for wrong in ("soft", "6", "", "-1"):
        node.policy(wrong)
    wait_for(lambda: len(node.api.events("GPUPolicyRefused")) == 4)
    node.node_policy("x" * 5000)
    wait_for(lambda: len(node.api.events("GPUPolicyRefused")) == 5)
    node.policy("7")
    wait_for(lambda: any('"7"' in e["message"] for e in node.api.events("GPUPolicyRefused")), what="that of the last one")
    assert node.shares("a") == [WHOLE]
    events = node.api.events("GPUPolicyRefused")
    assert len(events) == 6
    for event in events:
        for name in ("fair-share", "preemptive", "weight-preemptive", "fixed", "soft", "native"):
            assert name in event["message"]


def test_policy_of_the_command_line_holds_where_nobody_says_another():
    with Power(options=("--policy", "1")) as node:
        node.up(30)
        node.hold("a")
        node.settles([WHOLE], "a")
        node.policy("0")
        node.settles([50000], "a")


def test_fair_share_counts_with_the_clusters_maximum_of_containers(node):
    node.hold("a")
    node.policy("0")
    node.settles([50000], "a")
    node.api.patch("configmaps", "ration-policy", {"data": {"maxPodsPerGPU": "4"}}, "kube-system")
    node.settles([250000], "a")
    node.api.patch("configmaps", "ration-policy", {"data": {"maxPodsPerGPU": "many"}}, "kube-system")
    node.settles([50000], "a")


# ---- without the agent ----

def watch_shares(node, names, seconds):
    """All combinations that were seen."""
    seen, end = set(), time.monotonic() + seconds
    while time.monotonic() < end:
        seen.add(tuple(node.shares(*names)))
        time.sleep(0.005)
    return seen


@pytest.mark.waits
def test_shares_hold_while_no_agent_runs_and_a_new_one_takes_over_without_a_jump(node):
    node.policy("2")
    node.hold("a", weight=1)
    node.hold("b", weight=3)
    node.settles([250000, 750000], "a", "b")
    node.kill_agent()
    assert watch_shares(node, "ab", 0.5) == {(250000, 750000)}
    node.start_agent()
    assert watch_shares(node, "ab", 3) == {(250000, 750000)}
    node.node_policy("1")
    node.settles([500000, 500000], "a", "b")


@pytest.mark.waits
def test_the_policy_of_before_holds_while_the_api_server_does_not_say(node):
    node.policy("1")
    node.hold("a")
    node.hold("b")
    node.settles([500000, 500000], "a", "b")
    node.kill_agent()
    fault = node.api.inject(path="configmaps", times=1 << 30, status=500)
    node.start_agent()
    assert watch_shares(node, "ab", 3) == {(500000, 500000)}
    fault.times = 0
    node.policy("0")
    node.settles([50000, 50000], "a", "b", within=7)


@pytest.mark.waits
def test_soft_goes_on_over_the_agents_deaths(node):
    node.policy("4")
    for name in "abc":
        node.hold(name)
    end = time.monotonic() + 6
    while time.monotonic() < end:
        node.work("a", "b", seconds=0.3)
        wait_for(node.worker)
        node.kill_worker()
        node.work("a", "b", seconds=0.1)
        shares = node.shares("a", "b", "c")
        assert all(0 < share <= WHOLE for share in shares), shares
    wait_for(node.worker)
    wait_for(lambda: node.work("a", "b", seconds=0.8) or node.shares("a", "b") == [500000, 500000], 12, "a and b have all")


# ---- what containers write ----

def test_no_usage_file_disturbs_the_others(node):
    node.policy("4")
    for name in "abcd":
        node.hold(name)
    usage = {name: node.folders[name] / "usage" for name in "abcd"}
    os.truncate(usage["b"], 0)
    usage["c"].write_bytes(os.urandom(200000))
    pid, expected = node.worker(), [333333, 250000, 333333, 333333]    # a, c and d are seen to work; b keeps what it has when all do
    begin, step = time.monotonic(), 0
    # On a busy machine a sample may come late, and all count as working then.
    while (took := time.monotonic() - begin) < 3 or took < 12 and node.shares("a", "b", "c", "d") != expected:
        step += 1
        node.count("a")
        with open(usage["d"], "r+b") as file:     # backwards and forwards
            file.seek(128 + STARTED)
            file.write(struct.pack("<Q", [0, 1 << 63, 5, (1 << 64) - 1][step % 4]))
        with open(usage["c"], "r+b") as file:
            file.seek(128)
            file.write(os.urandom(128))
        time.sleep(0.01)
    assert node.worker() == pid
    assert node.shares("a", "b", "c", "d") == expected
    wait_for(lambda: node.work("a", seconds=0.8) or node.shares("a") == [WHOLE], 12, "a has the whole GPU")


# ---- what people see ----

def test_metrics_show_share_and_what_was_started_and_waited(node):
    node.policy("2")
    node.hold("a", weight=1)
    node.hold("b", weight=3)
    node.settles([250000, 750000], "a", "b")
    node.count("a", more=1500000000)
    node.count("a", at=WAITED, more=2250000000)
    page = agent_page(node)
    labels = {"namespace": "default", "pod": "a", "container": "main", "gpu": "0", "UUID": node.uuid(0)}
    assert page("ration_container_core_share_ratio", **labels) == 0.25
    assert page("ration_container_core_started_seconds_total", **labels) == 1.5
    assert page("ration_container_core_waited_seconds_total", **labels) == 2.25
    assert page("ration_policy", policy="weight-preemptive") == 1
    assert page("ration_policy", policy="native") == 0


# ---- what it costs ----

@pytest.mark.alone
@pytest.mark.long(23)
def test_agent_needs_less_than_one_percent_of_a_core_for_eight_cards_with_twenty_containers_each():
    with Power(cards="8x81920MiB") as node:
        node.up(640)
        node.policy("4")
        names = [f"p{i}" for i in range(160)]
        for i, name in enumerate(names):
            node.hold(name, card=i % 8, weight=1 + i % 5)
        files = [open(node.folders[name] / "usage", "r+b", buffering=0) for name in names]
        took = []
        for _ in range(4):
            # Half of them work, half have no work; a third takes turns.
            before, end, step = node.cpu_seconds(), time.monotonic() + 5, 0
            while time.monotonic() < end:
                step += 1
                for i, file in enumerate(files):
                    if i % 2 or (i % 3 == 0 and step // 50 % 2):
                        os.pwrite(file.fileno(), struct.pack("<Q", step * 1000000), 128 + STARTED)
                time.sleep(0.01)
            took.append(round((node.cpu_seconds() - before) / 5 * 100, 1))    # counted in steps of 0.2
        print("\nagent, percent of a core:", took, "KiB:", node.rss_kib())
        for file in files:
            file.close()
        assert min(took) <= 1.0 or SANITIZED, took


# ---- with programs ----

SPIN = """
    ok(cu.cuInit(0))
    ctx = context()
    f = kernel(b"ms1")    # long enough that a busy machine keeps the card busy
    say("works")
    spin(1000, lambda: ok(launch(f)), 1000)
    """


def spins(node, name, pod):
    program = node.program(pod, node.containers[name], WORK, SPIN)
    program.reads("works")
    return program


def done_ns(node, programs):
    """What each has finished of its kernels: the simulated card knows."""
    shown = json.loads(subprocess.run([BUILD / "sim/ration-sim", "usage", node.driver, "--json"], capture_output=True,
                                      check=True).stdout)
    sums = {row["pid"]: row["smNs"] for row in shown["processes"]}
    return [sums[program.pid] for program in programs]


def used(node, programs, seconds):
    """Share of the card that each had in the next seconds."""
    before, began = done_ns(node, programs), time.monotonic()
    time.sleep(seconds)
    after, took = done_ns(node, programs), time.monotonic() - began
    return [round((b - a) / took / 1e9, 3) for a, b in zip(before, after)]


@pytest.mark.alone
@pytest.mark.plain    # what programs reach in a time
def test_programs_have_what_the_policy_gives_them_and_follow_it_within_a_second(node):
    pods = {name: node.hold(name, weight=weight) for name, weight in (("a", 1), ("b", 3))}
    programs = [spins(node, name, pod) for name, pod in pods.items()]
    for policy, expected in (("2", [0.25, 0.75]), ("1", [0.5, 0.5]), ("0", [0.05, 0.05]), ("4", [0.25, 0.75])):
        node.policy(policy)
        time.sleep(1)
        shares = used(node, programs, 2)
        print(f"policy {policy}:", shares)
        assert near(shares, expected), (policy, shares)
    # The other has no work any more: the card is the first one's.
    programs[1].process.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    assert used(node, programs[:1], 2)[0] > 0.9
    programs[1].process.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    assert near(used(node, programs, 2), [0.25, 0.75])


@pytest.mark.alone
@pytest.mark.plain    # what programs reach in a time
@pytest.mark.long(13)
def test_nobody_is_stuck_and_shares_are_right_again_whoever_is_killed(node):
    """The worker, which divides; the whole agent; a program with credit. `./check full`: for a minute."""
    random = Random(7)
    node.policy("4")
    pods = {name: node.hold(name, weight=weight) for name, weight in (("a", 1), ("b", 1), ("c", 2))}
    programs = {name: spins(node, name, pod) for name, pod in pods.items()}
    killed, least, end = [], 1, time.monotonic() + 60
    while time.monotonic() < end if FULL else len(killed) < 8:
        victim = random.choice(["worker", "agent", *programs])
        killed.append(victim)
        if victim == "worker":
            wait_for(node.worker)
            node.kill_worker()
        elif victim == "agent":
            node.kill_agent()
            node.start_agent()
        else:
            programs[victim].end()
            programs[victim] = spins(node, victim, pods[victim])
        time.sleep(random.random() * 0.5)
        others = [program for name, program in programs.items() if name != victim]
        shares = used(node, others, 0.5)
        assert all(share > 0.1 for share in shares), victim
        least = min(least, *shares)
    wait_for(lambda: node.api.watches() >= 3)
    time.sleep(1)
    shares = used(node, programs.values(), 2)
    print(f"\nkilled: {({who: killed.count(who) for who in sorted(set(killed))})}; least that somebody else had in half a "
          f"second: {least:.3f} of the card; a second after the last: {[round(share, 3) for share in shares]}")
    assert near(shares, [0.25, 0.25, 0.5]), shares


@pytest.mark.alone
@pytest.mark.plain    # what programs reach in a time
@pytest.mark.long(11)
def test_a_new_worker_takes_no_work_that_was_under_way_for_an_error_of_the_estimate(node):
    """Its first looks come while everybody is at work; each began with 9 % less for all."""
    node.policy("1")
    pods = {name: node.hold(name) for name in ("a", "b")}
    for name, pod in pods.items():
        spins(node, name, pod)
    time.sleep(5)
    worst = 0
    for _ in range(4):
        wait_for(node.worker)
        node.kill_worker()
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            worst = max(worst, *(abs(rate / share - 1) for share, rate, _ in map(node.words, pods)))
            time.sleep(0.05)
    assert worst < 0.06, worst


@pytest.mark.alone
@pytest.mark.plain    # what programs reach in a time
@pytest.mark.long(17)
def test_what_the_driver_counts_corrects_the_rate_of_a_shim_that_is_wrong(node):
    """Here: a container whose own count says twice what it does."""
    node.policy("1")
    pod = node.hold("a")
    node.hold("b")
    program = spins(node, "a", pod)
    time.sleep(1)
    end = time.monotonic() + 12
    while time.monotonic() < end:
        before = done_ns(node, [program])[0]
        time.sleep(0.2)
        node.count("a", more=done_ns(node, [program])[0] - before)
    share, rate, _ = node.words("a")
    assert share == 500000 and 1.5 * share < rate < 2.4 * share, rate
    wait_for(lambda: node.words("a")[1] < 1.2 * share, 40)


@pytest.mark.plain    # what programs reach in a time
def test_a_kernel_that_does_not_end_is_told_of_and_counted(node):
    """Nobody can interrupt it; who runs the node hears which pod it is, and what can be done."""
    node.policy("1")
    pod = node.hold("a")
    node.hold("b")
    program = node.program(pod, node.containers["a"], WORK, """
        ok(cu.cuInit(0))
        ctx = context()
        f = load(b"hour", b'{"rationSimModule": 1, "functions": {"hour": {"us": 3600000000}}}')
        ok(launch(f))
        say("works")
        time.sleep(1000)
        """)
    program.reads("works")
    began = time.monotonic()

    event = wait_for(lambda: node.api.events("GPUKernelPastShare"), 30)[0]
    assert event["type"] == "Warning" and event["involvedObject"]["name"] == "a" and time.monotonic() - began > 9
    assert "past its share of 50 percent" in event["message"] and "delete the pod" in event["message"]
    time.sleep(2)
    assert len(node.api.events("GPUKernelPastShare")) == 1
    page = agent_page(node)
    unpaid = [page("ration_container_core_unpaid_seconds_total", namespace="default", pod=name, container="main", gpu="0",
                   UUID=node.uuid(0)) for name in ("a", "b")]
    assert unpaid[0] > 8 and unpaid[1] == 0
