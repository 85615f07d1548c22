"""Gangs on a real cluster: of each so many members as it needs are placed, or none; gangs that compete for cards do not
lock each other up, and one that waits long is not starved. What is decided in which order: tests/unit/test-gang*.c,
tests/component/test_gang.py. `./check full` has fifty gangs in the crowd, and what needs other chart values."""
import contextlib
import os
import random
import statistics
import time

import pytest

from api import Connections
from cluster import PATIENCE, ROOT, is_ready, wait_for
from gangwatch import TOGETHER_S, GangWatch, job, member
from gpupods import GPU_MEM, IMAGE, annotation, inventory
from storm import processes_of, replayed
from stormwaves import OBEYS, cards_of_nodes

FULL = bool(os.environ.get("RATION_FULL"))
# The documents' two nodes with a card each, and nodes that hold some hundred pods.
LARGE = [f"gangs-{c}.192.168.41.{i}=8x34816MiB,share" for i, c in enumerate("ab", 1)]
OWN = ["gangs-c.192.168.42.1=2x15360MiB,share", "gangs-d.192.168.42.2=2x15360MiB,share"]
DGX = ["cn-beijing.192.168.8.61=8x16160MiB,topology,links=dgx1-v100"]    # that of docs/guide/topology.md
GANGS, MOST_PODS, MOST_UNITS = (50, 16, 3) if FULL else (12, 5, 2)
TIMEOUT_S, KEEP_S = 15, 4    # chart values of the lab that has its own


@pytest.fixture
def watched():
    """watched(cluster) gives a GangWatch, which ends with the test."""
    watches = []

    def give(cluster):
        watches.append(GangWatch(Connections(cluster.environment["KUBECONFIG"]), cards_of_nodes(cluster.nodes()), cluster.namespace))
        watches[-1].start()
        wait_for(lambda: watches[-1].lists, 20, "the first LIST")
        return watches[-1]
    yield give
    for watch in watches:
        watch.stop()


@pytest.fixture
def impatient(lab):
    """A lab whose gangs have little time."""
    cluster = lab(OWN)
    values = f"gangTimeoutSeconds={TIMEOUT_S},gangKeepAfterSeconds={KEEP_S}"
    now = cluster.kubectl("-n", "kube-system", "get", "deployment", "ack-co-scheduler", "-o", "yaml")
    if f"--gang-keep-after={KEEP_S}" not in now:
        cluster.run("helm", "upgrade", "ack-co-scheduler", ROOT / "deploy/charts/ack-co-scheduler", "-n", "kube-system",
                    "--reuse-values", "--set", values)
        cluster.rolled_out("deployment/ack-co-scheduler")
    return cluster


def running(cluster, *names):
    return [is_ready(cluster.pod(name)) for name in names]


def bound(cluster, *names):
    """{name: node} of those pods that have one."""
    return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in cluster.pods()
            if p["spec"].get("nodeName") and p["metadata"]["name"] in names}


def wait_ready(cluster, *names, timeout=40):
    """Seconds until all of them run."""
    begin = time.monotonic()
    wait_for(lambda: all(running(cluster, *names)), timeout, f"{names} run")
    return time.monotonic() - begin


def verdict(cluster, name):
    return cluster.condition(cluster.pod(name), "PodScheduled").get("message", "")


def wait_verdict(cluster, name, words, timeout=30):
    wait_for(lambda: words in verdict(cluster, name), timeout, f"{name}: {words}")


def why(cluster, name):
    return cluster.run("ration", "why", name).stdout


def crowd(rng, cards):
    """(name, pods, units of each, seconds) of gangs that ask together for about 1/0.6 of the cards' units."""
    there = sum(cards)
    while True:
        gangs = [(f"gang-{i}", rng.randint(2, MOST_PODS), rng.randint(1, MOST_UNITS), rng.randint(2, 5)) for i in range(GANGS)]
        asked = sum(n * units for _, n, units, _ in gangs)
        if 0.4 < there / asked < 0.8 and all(n * units <= there for _, n, units, _ in gangs):
            return gangs, asked, there


def ended(cluster):
    done = [j["metadata"]["name"] for j in cluster.json("get", "jobs")["items"]
            if cluster.condition(j, "Complete").get("status") == "True"]
    failed = [j["metadata"]["name"] for j in cluster.json("get", "jobs")["items"]
              if cluster.condition(j, "Failed").get("status") == "True"]
    assert not failed, failed
    return done


@pytest.mark.long(60)
def test_gangs_that_do_not_all_fit_come_one_after_the_other_and_each_whole(lab, watched, seed):
    cluster = lab(LARGE) if FULL else lab()
    watch, api = watched(cluster), Connections(cluster.environment["KUBECONFIG"])
    gangs, asked, there = crowd(random.Random(seed),
                                [mib // 1024 for node in watch.cards.values() for mib in node.values()])
    begin = time.monotonic()
    for name, count, units, seconds in gangs:
        status, answer = api.insist("POST", f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs", job(
            name, member("", units, name, count, f"sleep {seconds}"), count))
        assert status == 201, answer

    def all_ended():
        watch.look()
        watch.look_at_room({name: (count, units) for name, count, units, _ in gangs})
        assert len(watch.ended) == GANGS and all(len(watch.ended[name]) == count for name, count, _, _ in gangs), (
            f"{sum(len(watch.ended.get(n, ())) == c for n, c, _, _ in gangs)} of {GANGS} gangs have ended")
        return True
    wait_for(all_ended, 600 if FULL else 120, "all gangs have run", every=0.05)
    took = time.monotonic() - begin
    watch.look()
    for name, count, _, _ in gangs:
        assert len(watch.placed[name]) == len(watch.came[name]) == count, name    # none was evicted and made anew
    spreads, waits = [watch.spread(g[0]) for g in gangs], sorted(watch.waited(g[0]) for g in gangs)
    print(f"\n{GANGS} gangs, {sum(g[1] for g in gangs)} pods, {asked} units asked, {there} there: all have run after "
          f"{took:.1f} s (of work alone {sum(n * u * s for _, n, u, s in gangs) / there:.1f} s); from first to last "
          f"Binding of a gang: median {statistics.median(spreads) * 1000:.0f} ms, longest {max(spreads) * 1000:.0f} ms; "
          f"waited: median {statistics.median(waits):.1f} s, longest {waits[-1]:.1f} s; "
          f"longest wait with room {watch.longest_with_room[0]:.1f} s; load {os.getloadavg()[0]:.1f}")
    assert max(spreads) < TOGETHER_S
    print(replayed(cluster))


@pytest.mark.long(50)
def test_of_more_pods_than_are_needed_those_start_that_have_room_and_the_others_later(lab):
    cluster = lab()
    cluster.create(member("blocker", 9))
    cluster.wait_running(names=["blocker"])
    names = [f"part-{i}" for i in range(5)]
    for name in names:
        cluster.create(member(name, 7, "part", 3))
    wait_for(lambda: any("no room for its whole gang" in verdict(cluster, name) for name in names), 30, "a verdict")
    text = why(cluster, "part-0")
    assert "It is of gang part: 0 of 5 pods are placed; 3 at least, or none: no room for its whole gang.\n" in text
    assert "Of the 3 that are needed 2 would find room now.\n" in text
    cluster.create(member("small", 5))    # nothing is kept for those that cannot start
    assert wait_ready(cluster, "small") < 20 and bound(cluster, *names) == {}
    cluster.kubectl("delete", "pod", "small", "blocker")
    wait_for(lambda: len(bound(cluster, *names)) == 4, 30, "four have room")
    last, = set(names) - set(bound(cluster, *names))
    wait_verdict(cluster, last, f"2 Insufficient {GPU_MEM}")
    assert "4 of 5 pods are placed; 3 at least, or none. The gang has started" in why(cluster, last)
    gone = next(iter(bound(cluster, *names)))
    cluster.kubectl("delete", "pod", gone)
    print(f"\nthe fifth runs {wait_ready(cluster, last, timeout=20):.1f} s after one has gone")


@pytest.mark.long(25)
def test_who_is_left_of_a_gang_that_has_run_needs_no_others(lab, watched):
    """Five tasks, four at a time and only together; when the fifth's turn comes nobody else is left."""
    cluster = lab()
    watch = watched(cluster)
    cluster.create(job("five", member("", 5, "five", 4, "sleep 3"), 4, completions=5))
    wait_for(lambda: ended(cluster) == ["five"], 60, "all five have run")
    assert len(watch.placed["five"]) == 5
    # The next one of that name is another gang.
    cluster.kubectl("delete", "job", "five", "--cascade=orphan")
    cluster.create(job("again", member("", 5, "five", 4, "sleep 3"), 3))
    waiting = wait_for(lambda: [p["metadata"]["name"] for p in cluster.pods("job-name=again")], what="its pods")
    wait_verdict(cluster, waiting[0], "waits for the other pods of its gang")
    time.sleep(3)
    assert not [p for p in cluster.pods("job-name=again") if p["spec"].get("nodeName")]


@pytest.mark.long(20)
def test_who_is_left_of_a_gang_that_ran_before_a_restart_needs_no_others(lab):
    """Who waits then was made before or after it; that the gang has run is known from the four that have finished."""
    cluster = lab()
    cluster.create(job("five", member("", 5, "five", 4, "sleep 3"), 4, completions=5))
    wait_for(lambda: [p["status"]["phase"] for p in cluster.pods("job-name=five")].count("Succeeded") == 4, 60,
             "four have run")
    for pid in processes_of(cluster, "ration-scheduler"):    # the one that leads, and the one that follows
        os.kill(pid, 9)
    began = time.monotonic()
    wait_for(lambda: ended(cluster) == ["five"], 90, "all five have run")
    print(f"\nthe fifth has run {time.monotonic() - began:.1f} s after both ration-schedulers were killed")


@pytest.mark.long(25)
def test_a_member_that_something_else_keeps_holds_up_its_gang_and_nobody_else(lab):
    cluster = lab()
    names = [f"g{i}" for i in range(4)]
    for name in names:
        cluster.create(member(name, 7, "held", 4, **({"nodeSelector": {"nowhere": "yes"}} if name == "g3" else {})))
    wait_for(lambda: "did not come to bind together" in why(cluster, "g0"), 30, "a plan given up")
    assert "the last time pod g3 was missing" in why(cluster, "g0"), why(cluster, "g0")
    cluster.create(member("other", 7))
    print(f"\na pod beside them runs after {wait_ready(cluster, 'other', timeout=30):.1f} s")
    assert bound(cluster, *names) == {}
    cluster.kubectl("delete", "pod", "other", "g3")
    wait_verdict(cluster, "g0", "waits for the other pods of its gang")
    cluster.create(member("g3", 7, "held", 4))
    print(f"the gang runs {wait_ready(cluster, *names, timeout=60):.1f} s after its fourth member came")


def refuse_binding(cluster, name):
    """The API server refuses the Binding of this pod, as a webhook or a quota may."""
    cluster.apply({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                   "metadata": {"name": "refuse"}, "spec": {
                       "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [
                           {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                            "resources": ["pods/binding"]}]},
                       "validations": [{"expression": f"object.metadata.name != '{name}'", "message": "not today"}]}})
    cluster.apply({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                   "metadata": {"name": "refuse"}, "spec": {"policyName": "refuse", "validationActions": ["Deny"]}})
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                    "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": IMAGE}]}})
    # A node that is none: where the policy is not in force yet the probe is bound to it, and made anew.
    try:
        wait_for(lambda: "not today" in (cluster.bind(name, "nowhere", {}) or ""), 30, "the policy in force", every=0.5)
    finally:
        cluster.kubectl("delete", "pod", name, "--grace-period=0", "--force")


def allow_binding(cluster):
    cluster.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "refuse", "--ignore-not-found")


@pytest.fixture
def torn(impatient):
    """A gang of four, of which one cannot be bound: three are placed, and marked."""
    names = [f"t{i}" for i in range(4)]
    refuse_binding(impatient, "t3")
    try:
        for name in names:
            impatient.create(member(name, 7, "torn", 4))
        wait_for(lambda: set(bound(impatient, *names)) == set(names[:3]), 30, "three are placed")
        assert {annotation(impatient.pod(n), "ration.dev/gang") for n in names[:3]} == {"forming"}
        yield impatient, names
    finally:
        allow_binding(impatient)


@pytest.mark.long(60, group="gangs-cut")
def test_a_part_of_a_gang_is_evicted_after_its_time(torn):
    cluster, names = torn
    begin = time.monotonic()
    wait_for(lambda: not bound(cluster, *names), TIMEOUT_S + 20, "nobody runs any more")
    took = time.monotonic() - begin
    assert took > TIMEOUT_S - 5
    assert {e["involvedObject"]["name"] for e in cluster.json("get", "events")["items"]
            if e["reason"] == "GangIncomplete"} == set(names[:3])
    assert "gang" in why(cluster, "t3")
    allow_binding(cluster)
    for name in names[:3]:    # as their controller would
        cluster.create(member(name, 7, "torn", 4))
    whole = wait_ready(cluster, *names, timeout=60)
    wait_for(lambda: not any(annotation(cluster.pod(n), "ration.dev/gang") for n in names), 20, "the mark is gone")
    print(f"\na part was there for {took:.1f} s (time-out {TIMEOUT_S} s); whole {whole:.1f} s after it could be")


@pytest.mark.long(15, group="gangs-cut")
def test_a_gang_that_was_cut_by_the_schedulers_death_becomes_whole(torn):
    cluster, names = torn
    placed = {n: cluster.pod(n)["metadata"]["uid"] for n in names[:3]}
    for pid in processes_of(cluster, "ration-scheduler"):    # the one that leads, and the one that follows
        os.kill(pid, 9)
    allow_binding(cluster)
    took = wait_ready(cluster, *names, timeout=60)
    assert {n: cluster.pod(n)["metadata"]["uid"] for n in names[:3]} == placed
    wait_for(lambda: not any(annotation(cluster.pod(n), "ration.dev/gang") for n in names), 20, "the mark is gone")
    print(f"\nwhole {took:.1f} s after both ration-schedulers were killed")


@pytest.mark.long(60, group="gangs-restarts")
def test_gangs_come_about_while_the_scheduler_is_killed(impatient, watched):
    """Each time that a gang's first member is bound the schedulers die; what was cut becomes whole."""
    cluster, watch, cut = impatient, watched(impatient), 0
    for i in range(6):
        cluster.create(job(f"k{i}", member("", 3, f"k{i}", 8, "sleep 4"), 8, backoffLimit=100))
    killed = set()

    def all_ended():
        nonlocal cut
        assert not watch.wrong, watch.wrong
        for gang in set(watch.placed) - killed:
            for pid in processes_of(cluster, "ration-scheduler"):
                with contextlib.suppress(ProcessLookupError):    # it has ended since the list was made
                    os.kill(pid, 9)
            killed.add(gang)
            cut += watch.spread(gang) is None
        for gang, placed in list(watch.placed.items()):
            assert watch.spread(gang) is not None or time.monotonic() - min(placed.values()) < TIMEOUT_S + 60
        return len(ended(cluster)) == 6
    wait_for(all_ended, 300, "all gangs have run", every=0.02)
    print(f"\n6 gangs of 8: killed {len(killed)} times, {cut} gangs seen cut; longest from first to last Binding "
          f"{max(watch.spread(g) for g in killed):.1f} s")


@pytest.mark.long(60, group="gangs-restarts")
def test_a_gang_is_not_starved_by_small_pods_that_keep_coming(impatient, watched):
    """Small pods fill the cards and are replaced as they end; a gang of whole cards gets its room all the same."""
    cluster, watch = impatient, watched(impatient)
    lasts, there = 6, 60
    cluster.create(job("small", member("", 5, command=f"sleep {lasts}"), there // 5 + 3, completions=2000, backoffLimit=100))
    wait_for(lambda: sum(watch.used.values()) >= 55 * 1024, 60, "the cards are full")
    begin = time.monotonic()
    names = [f"whole-{i}" for i in range(4)]
    for name in names:
        cluster.create(member(name, 15, "whole", 4))

    def kept():
        text = why(cluster, names[0])
        assert "GPUs are kept for them" in text, text
        return text
    print(f"\n{wait_for(kept, 40, 'cards are kept').split('Node ')[0]}")
    wait_for(lambda: len(watch.placed.get("whole", ())) == 4, 60, "the gang is placed")
    took = min(watch.placed["whole"].values()) - begin
    print(f"the gang was placed {took:.1f} s after it came: cards kept after {KEEP_S} s, small pods last {lasts} s; "
          f"load {os.getloadavg()[0]:.1f}")
    assert took < KEEP_S + lasts + 15 * PATIENCE    # that a pod ends is told some seconds later on a busy machine
    cluster.kubectl("delete", "job", "small", "--cascade=foreground")


@pytest.mark.long(40, group="gangs-cut")
def test_a_pod_group_of_scheduler_plugins_says_how_many(impatient):
    cluster = impatient
    cluster.apply({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                   "metadata": {"name": "podgroups.scheduling.x-k8s.io"}, "spec": {
                       "group": "scheduling.x-k8s.io", "scope": "Namespaced",
                       "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
                       "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                           "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
    try:
        wait_for(lambda: cluster.run("kubectl", "get", "podgroups", check=False).returncode == 0, 30, "the kind is served")
        cluster.apply({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "pg"},
                       "spec": {"minMember": 3, "scheduleTimeoutSeconds": 20}})
        for i in range(2):
            cluster.create(member(f"pg-{i}", 7, labels={"scheduling.x-k8s.io/pod-group": "pg"}))
        # Whether there is such a kind is asked each minute.
        wait_for(lambda: "3 at least, or none: waits for the other pods of its gang" in why(cluster, "pg-0"), 90,
                 "its minMember")
        assert bound(cluster, "pg-0", "pg-1") == {}
        cluster.create(member("pg-2", 7, labels={"scheduling.x-k8s.io/pod-group": "pg"}))
        wait_ready(cluster, "pg-0", "pg-1", "pg-2")
    finally:
        cluster.kubectl("delete", "crd", "podgroups.scheduling.x-k8s.io", "--ignore-not-found")


@pytest.mark.long(30)
def test_the_workers_of_an_mpi_job_start_together_and_see_their_cards(lab):
    """As `arena submit mpijob --gputopology` writes them: labels on the workers, the host's network."""
    cluster = lab(DGX)
    cluster.create(member("before", {"aliyun.com/gpu": "2"}))
    cluster.wait_running(names=["before"])
    worker = member("", {"aliyun.com/gpu": "2"},
                    labels={"app": "mpijob", "gpu-topology": "mpi", "gpu-topology-replica": "4"},
                    command=f"nvidia-smi -L; echo cuda=$CUDA_VISIBLE_DEVICES; echo done; {OBEYS}", hostNetwork=True,
                    dnsPolicy="ClusterFirstWithHostNet")
    cluster.create(job("mpi", worker, 4, completionMode="Indexed"))
    pods = wait_for(lambda: len(cluster.pods("app=mpijob")) == 4 and cluster.pods("app=mpijob"), what="four workers")
    wait_for(lambda: any("no room for its whole gang" in verdict(cluster, p["metadata"]["name"]) for p in pods), 30,
             "a verdict")
    text = why(cluster, pods[0]["metadata"]["name"])
    assert "It is of gang mpi: 0 of 4 pods are placed; 4 at least, or none: no room for its whole gang." in text
    assert "Of the 4 that are needed 3 would find room now." in text
    assert not any(p["spec"].get("nodeName") for p in cluster.pods("app=mpijob"))
    cluster.kubectl("delete", "pod", "before")
    pods = cluster.wait_running("app=mpijob", 4)
    own = [annotation(p, "topology.kubernetes.io/gpu-group").split(",") for p in pods]
    assert sorted(sum(own, [])) == list("01234567")
    uuid = {str(c["index"]): c["uuid"] for c in inventory(cluster.node(DGX[0].split("=")[0])).values()}
    for pod, cards in zip(pods, own):
        log = wait_for(lambda: (lambda t: t if "done" in t.split() else None)(cluster.log_of(pod)), 20, "its log")
        assert annotation(pod, "topology.kubernetes.io/gpu-visible") == "0,1,2,3,4,5,6,7"
        assert all(log.count(u) >= 1 for u in uuid.values()), log
        cuda = next(line for line in log.splitlines() if line.startswith("cuda="))[5:].split(",")
        assert cuda[:2] in ([uuid[c] for c in cards], cards), (cuda, cards)
    links = {frozenset(cards) for cards in own}
    print(f"\nfour workers on a DGX-1: {sorted(map(sorted, links))}")
