"""Levels, gangs and whole cards under the kills of the storm: no gang is half there, no level is over its maximum, a card that
is given whole is nobody else's, and in the end all that fits runs. What is true in any storm (test_storm.py) is true here."""
import os
import statistics
import time

import pytest

from cluster import ROOT, wait_for
from featurewatch import FeatureWatch, Level, Policy
from gangwatch import LABEL, group_of, job
from gpupods import annotation
from storm import WHOLE, asked_of, book_of, is_leaving, is_over, processes_of, replayed
from stormwaves import FAULTS, OBEYS, Storm, releases_in_quiet

pytestmark = [pytest.mark.storm, pytest.mark.long(250)]

FULL = bool(os.environ.get("RATION_FULL"))
SHARE, CGPU, DGX = "mixed-a.192.168.43.1", "mixed-b.192.168.43.2", "mixed-c.192.168.43.3"
NODES = [f"{SHARE}=4x10240MiB+4x8192MiB,share", f"{CGPU}=8x8192MiB,cgpu,spread", f"{DGX}=8x16160MiB,topology,links=dgx1-v100"]
POOLS = {SHARE: "share", CGPU: "cgpu", DGX: "dgx"}
POLICIES = [
    Policy("tiered", {"tier": "tiered"}, (Level("idc", SHARE, 6, {"level": "first"}), Level("ecs", CGPU, 5),
                                          Level("ecs", DGX, None, {"level": "third", "far": "yes"}))),
    Policy("patient", {"tier": "patient"}, (Level("idc", CGPU, 4, {"level": "near"}), Level("ecs", SHARE, 4)), patient=True)]
PATIENCE_S, TIMEOUT_S = 3, 15
RESOURCE_POLICIES = "/apis/scheduling.alibabacloud.com/v1alpha1/namespaces/{}/resourcepolicies/"
SINGLES, ROUNDS = (24, 2) if FULL else (14, 1)    # pods in each wave; how often each fault has its turn
COST = "controller.kubernetes.io/pod-deletion-cost"
# What a pod is and which policy it has: each as often as it stands here.
KINDS = [("any", None)] * 5 + [("gpu", "tiered")] * 3 + [("gpu", "patient")] * 3 + [("plain", "tiered")] * 2 + [
    ("plain", "patient"), ("whole", None), ("whole", None), ("whole", "tiered")]


def manifest(policy):
    when = {"whenTryNextUnits": {"policy": "TimeoutOrExceedMax", "timeout": f"{PATIENCE_S}s"}} if policy.patient else {}
    return {"apiVersion": "scheduling.alibabacloud.com/v1alpha1", "kind": "ResourcePolicy",
            "metadata": {"name": policy.name}, "spec": {
                "selector": policy.selector, "units": [level.unit(POOLS[level.node]) for level in policy.levels], **when}}


class Features(Storm):
    def __init__(self, cluster, seed):
        self.gangs, self.struck = {}, 0    # gang -> name of its Job, while that is there; members deleted by force
        super().__init__(cluster, seed)

    def make_watch(self, cards, whole):
        return FeatureWatch(self.api, cards, self.namespace, whole, POLICIES, TIMEOUT_S)

    # -- pods

    def body(self, limits, tier, command=OBEYS, **labels):
        return {"metadata": {"labels": {**({"tier": tier} if tier else {}), **labels}},
                "spec": {"schedulerName": "ack-co-scheduler", "terminationGracePeriodSeconds": 3, "restartPolicy": "Never",
                         "containers": [self.container("main", limits, command)]}}

    def template(self):
        kind, tier = self.rng.choice(KINDS)
        if kind == "any":
            return super().template()
        limits = {"gpu": self.rng.randint(1, 5), "plain": {}, "whole": {WHOLE: self.rng.randint(1, 4)}}[kind]
        return self.body(limits, tier, storm="pod")

    def create_gang(self):
        """Shares of cards, often fewer needed than asked for; or the workers of an MPI job on whole cards."""
        name, count = f"gang{len(self.gangs)}", self.rng.randint(2, 6)
        least = self.rng.choice([count, count, max(2, count - 1), max(2, count - 2)])
        tier = self.rng.choice([None, "tiered", "tiered", "patient"])
        limits, labels = self.rng.randint(1, 3), {LABEL + "name": name, LABEL + "min-available": str(least)}
        if self.rng.random() < 0.35:
            count, tier = self.rng.randint(2, 4), tier and "tiered"
            limits = {WHOLE: self.rng.randint(1, 8 // count)}
            labels = {"gpu-topology": name, "gpu-topology-replica": str(count)}
        command = self.rng.choice([OBEYS, OBEYS, "sleep 15"])
        self.gangs[name] = f"job-{name}"
        status, answer = self.api.insist("POST", f"/apis/batch/v1/namespaces/{self.namespace}/jobs", job(
            self.gangs[name], self.body(limits, tier, command, **labels), count, backoffLimit=1000))
        assert status in (201, 409), answer

    def end_gangs(self, share):
        jobs = [name for name in self.gangs.values() if name]
        for name in self.rng.sample(jobs, int(len(jobs) * share)):
            self.gangs[name.removeprefix("job-")] = None
            with self.watch.lock:
                self.deleted |= {uid for uid, p in self.watch.seen.items()
                                 if p["metadata"].get("labels", {}).get("job-name") == name}
            self.api.insist("DELETE", f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}?propagationPolicy=Background")

    def strike(self):
        """Members of gangs and others are deleted by force, whatever they are doing."""
        pods = [p for p in self.mine() if not is_over(p) and not is_leaving(p)]
        for some in ([p for p in pods if group_of(p)], [p for p in pods if not group_of(p)]):
            for p in self.rng.sample(some, min(len(some), self.rng.randint(1, 2))):
                self.deleted.add(p["metadata"]["uid"])
                self.struck += bool(group_of(p))
                self.api.insist("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{p['metadata']['name']}"
                                          "?gracePeriodSeconds=0")

    def deploy(self):
        self.cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "replicas": 4, "selector": {"matchLabels": {"app": "web"}},
            "template": (lambda body: {**body, "spec": {**body["spec"], "restartPolicy": "Always"}})(
                self.body({}, "tiered", app="web"))}})

    def scale(self):
        self.api.insist("PATCH", f"/apis/apps/v1/namespaces/{self.namespace}/deployments/web",
                        {"spec": {"replicas": self.rng.randint(2, 8)}}, content="application/merge-patch+json")

    # -- faults

    def kill(self, fault):
        self.watch.killed_at = time.monotonic()
        if fault.__name__ == "ration-scheduler":
            self.watch.open_until = float("inf")
        fault(self)
        if fault.__name__ != "nothing":
            self.watch.killed_at = time.monotonic()

    def close(self):
        """kube-scheduler asks about pods without a GPU again when the scheduler that was killed is ready."""
        if self.watch.open_until == float("inf"):
            books = [book_of(pid) for pid in processes_of(self.cluster, "ration-scheduler")]
            if len(books) == 2 and all(book and book["ready"] for book in books):
                self.watch.open_until = time.monotonic() + 3

    # -- what must be true

    def look(self, quiet=False):
        self.close()
        self.watch.look_at_gangs()
        return super().look(quiet)

    def is_settled(self):
        super().is_settled()
        with self.watch.lock:
            assert not self.watch.part_since, f"there in part: {list(self.watch.part_since)}"
        return True

    def settle(self, *args):
        try:
            super().settle(*args)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.levels_now()}") from error

    def levels_now(self):
        """For who reads a failure: pods in each level, by the policies' statuses and by this test."""
        found = []
        for policy in POLICIES:
            status, inside = self.levels_of(policy)
            found.append(f"{policy.name}: {[unit['pods'] for unit in status.get('units', [])]}, {inside}")
        return found

    def levels_of(self, policy):
        """(what its status says, how many pods each of its levels has by this test)"""
        _, answer = self.api.insist("GET", RESOURCE_POLICIES.format(self.namespace) + policy.name)
        with self.watch.lock:
            return answer.get("status", {}), [self.watch.inside[policy.name, i] for i in range(len(policy.levels))]

    def is_excused(self, obj):
        """It has ended by itself, or was evicted with a gang of which only a part was there."""
        return obj["status"].get("phase") == "Succeeded" or (
            group_of(obj) and annotation(obj, "ration.dev/gang") == "forming" and any(
                c["type"] == "DisruptionTarget" for c in obj["status"].get("conditions", [])))

    def disturbed(self, before):
        alive = dict(self.machine.alive)
        with self.watch.lock:
            return {self.watch.seen[uid]["metadata"]["name"] for i, uid in before.items() if i not in alive
                    and uid not in self.deleted and not self.is_excused(self.watch.seen[uid])}

    def statuses_are_right(self):
        for policy in POLICIES:
            status, inside = self.levels_of(policy)
            assert [unit["pods"] for unit in status["units"]] == inside, (policy.name, status["units"], inside)
            assert status["pods"] == sum(inside) and status["conditions"][0]["status"] == "True", status
        return True

    def costs_are_right(self):
        """Of a Deployment's pods those of later levels go first."""
        web = [p for p in self.mine() if p["metadata"]["labels"].get("app") == "web" and p["spec"].get("nodeName")
               and not is_leaving(p)]
        levels = {p["metadata"]["name"]: self.watch.level_of(p) for p in web}
        costs = {p["metadata"]["name"]: annotation(p, COST) for p in web}
        assert costs == {name: str(-at[1]) if at and at[1] else None for name, at in levels.items()}, (costs, levels)
        return True


@pytest.fixture
def storm(lab, seed):
    cluster = lab(NODES)
    for node, pool in POOLS.items():
        cluster.kubectl("label", "node", node, f"pool={pool}", "--overwrite")
    # Nothing is kept for a gang that waits long: then all that fits has to run.
    cluster.run("helm", "upgrade", "ack-co-scheduler", ROOT / "deploy/charts/ack-co-scheduler", "-n", "kube-system",
                "--reuse-values", "--set", f"gangTimeoutSeconds={TIMEOUT_S},gangKeepAfterSeconds=86400")
    cluster.rolled_out("deployment/ack-co-scheduler")
    for policy in POLICIES:
        cluster.apply(manifest(policy))
    made = Features(cluster, seed)
    yield made
    made.end()


def wave(storm, fault):
    """Creates, kills in the middle, deletes by force, creates the rest; (s that it took, pods that a kubelet rejected)."""
    begin, rejected, before = time.monotonic(), len(storm.watch.rejected()), storm.running()
    storm.create_gang()
    storm.create(SINGLES // 2)
    storm.kill(fault)
    storm.create_gang()
    storm.strike()
    storm.create(SINGLES - SINGLES // 2)
    storm.create_gang()
    storm.look()
    storm.settle(180, f"settled after {fault.__name__}")
    # That one has ended by itself is told some time later.
    wait_for(lambda: not storm.disturbed(before), 20, f"{fault.__name__} has disturbed nobody")
    wait_for(storm.books.are_right, 40, "every ledger equals the API server's truth")
    wait_for(storm.statuses_are_right, 20, "each policy says how many pods are where")
    took = time.monotonic() - begin
    storm.delete(0.5)
    storm.end_gangs(0.5)
    storm.scale()
    return round(took), len(storm.watch.rejected()) - rejected


def report(storm, waves):
    watch, machine, waits = storm.watch, storm.machine, storm.watch.waits or [0]
    members = [p for p in watch.seen.values() if group_of(p)]
    spreads = {gang: watch.spread(gang) for gang in watch.came if watch.spread(gang) is not None}
    whole = {group_of(p)[0] for p in members if asked_of(p, WHOLE)} & set(spreads)
    print(f"\nseconds and pods rejected by a kubelet: {waves}; {storm.made} pods by themselves, {len(watch.came)} gangs with "
          f"{len(members)}, {storm.struck} of those deleted by force; {len(spreads)} gangs started, {len(whole)} of them on "
          f"whole cards, from first to last Binding: median {statistics.median(spreads.values()):.2f} s, longest "
          f"{max(spreads.values()):.2f} s; longest in part {watch.longest_part[0]:.1f} s; {watch.gangs_in_levels} of them by a "
          f"level; {watch.in_levels} Bindings by a level, {len(watch.unasked)} without; {watch.events} states, "
          f"{machine.snapshots} snapshots, {len(machine.checked)} containers compared, {machine.grants} with a grant, "
          f"{machine.whole} with whole cards; {len(watch.waits)} waits of a pod that fits, median {statistics.median(waits):.2f} s, "
          f"longest {watch.longest_wait[0]:.2f} s; longest time of a pod that is over in a ledger "
          f"{storm.books.longest:.2f} s; load {os.getloadavg()[0]:.1f}")


def test_no_gang_is_half_there_and_no_level_over_its_maximum(storm):
    storm.deploy()
    waves = {}
    for i in range(ROUNDS):
        for fault in FAULTS:
            waves[fault.__name__, i] = wave(storm, fault)
    releases_in_quiet(storm, 4 if FULL else 2, queue=15)
    storm.settle(120, "all that fits runs")
    wait_for(storm.statuses_are_right, 20, "each policy says how many pods are where")
    wait_for(storm.costs_are_right, 20, "a Deployment's later levels go first")
    wait_for(storm.books.are_right, 40, "every ledger equals the API server's truth")
    report(storm, waves)
    print(replayed(storm.cluster))
    assert storm.watch.longest_wait[0] <= (2 if FULL else 5), storm.watch.longest_wait
