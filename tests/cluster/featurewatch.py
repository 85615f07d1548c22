"""Gangs and levels of ResourcePolicies in a storm: what must be true of them in every state that the API server shows, and
what of them would fit. Written down again from docs/internals/contract.md, not from what the scheduler says."""
import collections
import dataclasses
import time

from gangwatch import TOGETHER_S, GangWatch, group_of
from storm import WHOLE, asked_of, asks, is_leaving, is_over

# A filter answer is a Binding within this time; who was answered did not know of those who came unasked meanwhile.
CLAIM_S = 10
# So long after a kill a gang may be cut, or be bound slowly.
RECOVERY_S = 60


@dataclasses.dataclass(frozen=True)
class Level:
    kind: str
    node: str                   # the only one of its nodeSelector
    most: int | None = None
    labels: dict = dataclasses.field(default_factory=dict)

    def unit(self, pool):
        more = {"podLabels": self.labels} if self.labels else {}
        return {"resource": self.kind, "nodeSelector": {"pool": pool}, **more, **({"max": self.most} if self.most else {})}


@dataclasses.dataclass(frozen=True)
class Policy:
    name: str
    selector: dict
    levels: tuple
    patient: bool = False       # its pods wait for a level before they go on

    def selects(self, obj):
        return self.selector.items() <= obj["metadata"].get("labels", {}).items()


class FeatureWatch(GangWatch):
    def __init__(self, api, cards, namespace, whole, policies, timeout_s):
        super().__init__(api, cards, namespace, whole)
        self.policies, self.timeout_s = policies, timeout_s
        self.inside, self.in_levels = collections.Counter(), 0    # (policy, level) -> pods that count; Bindings judged
        self.unasked = {}                      # uid -> when it was bound without that its policy was asked
        self.open_until, self.killed_at = 0.0, 0.0    # until then pods without a GPU are bound unasked
        self.whole_since, self.was_whole = {}, set()  # gangs that have started; earlier ones of the same controller
        self.part_since, self.longest_part = {}, (0.0, "")
        self.gangs_in_levels, self.to_judge = 0, {}    # that started by a policy; since when they are to be judged

    # -- what one event means

    def is_ours(self, obj):
        return obj["metadata"]["namespace"] == self.namespace

    def take(self, kind, obj):
        is_new = obj["spec"].get("nodeName") and obj["metadata"]["uid"] not in self.bound_version and kind != "DELETED"
        super().take(kind, obj)
        if not self.is_ours(obj):
            return
        if is_new and self.policy_of(obj):
            self.judge_level(obj)
        if group_of(obj):
            self.follow_gang(group_of(obj)[0])

    def occupies(self, uid, sign):
        super().occupies(uid, sign)
        place = self.level_of(self.pods[uid]) if uid in self.pods else None
        if place:
            self.inside[place] += sign

    # -- levels

    def policy_of(self, obj):
        return next((p for p in self.policies if self.is_ours(obj) and p.selects(obj)), None)

    def level_of(self, obj):
        """(policy, level) in which it counts, or None."""
        policy = self.policy_of(obj)
        if not policy or is_over(obj) or is_leaving(obj):
            return None
        return next(((policy.name, i) for i, level in enumerate(policy.levels) if level.node == obj["spec"].get("nodeName")
                     and level.labels.items() <= obj["metadata"]["labels"].items()), None)

    def judge_level(self, obj):
        """It has just been bound."""
        meta, policy, now = obj["metadata"], self.policy_of(obj), time.monotonic()
        if not asks(obj) and now < self.open_until:    # where nobody answers kube-scheduler goes on without
            self.unasked[meta["uid"]] = now
            return
        self.in_levels += 1
        at = next((i for i, level in enumerate(policy.levels) if level.node == obj["spec"]["nodeName"]), None)
        if at is None:
            self.wrong.append(f"{meta['name']} is on {obj['spec']['nodeName']}, which is in no level of {policy.name}")
            return
        own, others = policy.levels[at].labels, {key for level in policy.levels for key in level.labels}
        if {key: meta["labels"][key] for key in others if key in meta["labels"]} != own:
            self.wrong.append(f"{meta['name']} is in level {at + 1} of {policy.name} and has labels {meta['labels']}")
        late = sum(self.level_of(self.pods[uid]) == (policy.name, at) for uid, since in self.unasked.items()
                   if uid in self.pods and now - since < CLAIM_S)
        most, there = policy.levels[at].most, self.inside[policy.name, at] - late
        if most is not None and there > most:
            self.wrong.append(f"{meta['name']} is number {there} in level {at + 1} of {policy.name}, which has {most} at most")

    # -- gangs

    def members(self, gang):
        """(those that are left, those of them that are bound)"""
        left = [p for p in map(self.pods.get, self.came[gang]) if p and not is_over(p) and not is_leaving(p)]
        return left, [p for p in left if p["spec"].get("nodeName")]

    def follow_gang(self, gang):
        now, (left, there) = time.monotonic(), self.members(gang)
        if len(there) >= self.least[gang] and gang not in self.whole_since:
            self.whole_since[gang] = now
            if self.policy_of(there[0]) and gang not in self.was_whole:
                self.gangs_in_levels, self.to_judge[gang] = self.gangs_in_levels + 1, now
        if not left and self.whole_since.pop(gang, None):
            self.was_whole.add(gang)    # the next ones may be what is left of it: pods like any other
        if there and gang not in self.whole_since and gang not in self.was_whole:
            self.part_since.setdefault(gang, now)
            return
        since = self.part_since.pop(gang, now)
        self.longest_part = max(self.longest_part, (now - since, gang))

    def judge_whole(self, gang):
        """It started a moment ago: as many as it needs are in one level. Those above that number go where there is room,
        and may have been the first to be shown."""
        nodes = collections.Counter(self.seen[uid]["spec"]["nodeName"] for uid in self.placed[gang])
        if max(nodes.values()) < self.least[gang]:
            self.wrong.append(f"{gang} is divided: {dict(nodes)}, and {self.least[gang]} have to be together")

    def look_at_gangs(self):
        """None has been there in part for longer than its Bindings take, or, if it was cut, until it is evicted."""
        with self.lock:
            for gang in [gang for gang, since in self.to_judge.items() if time.monotonic() - since > TOGETHER_S]:
                del self.to_judge[gang]
                self.judge_whole(gang)
            for gang, since in self.part_since.items():
                was_hit = since < self.killed_at + RECOVERY_S or any(at > since - TOGETHER_S for at in
                                                                     self.ended.get(gang, {}).values())
                limit, took = self.timeout_s + RECOVERY_S if was_hit else TOGETHER_S, time.monotonic() - since
                if took > limit:
                    self.wrong.append(f"{gang} is there in part since {took:.1f} s: "
                                      f"{[p['metadata']['name'] for p in self.members(gang)[1]]} of {self.least[gang]}")

    def seats(self, obj, nodes):
        """How many such pods would find room on these nodes."""
        if asked_of(obj, WHOLE):
            return sum(self.places(obj, node) // asked_of(obj, WHOLE) for node in nodes)
        return sum((total - self.used[card]) // self.need(obj, card) for node in nodes if node not in self.whole
                   for card, total in self.cards[node].items())

    def gang_fits(self, gang, obj):
        left, there = self.members(gang)
        if gang in self.was_whole or len(left) < self.least[gang]:    # the first: a gang or the rest of one, that takes a while
            return False
        needed, policy = self.least[gang] - len(there), self.policy_of(obj)
        if not policy:
            return self.seats(obj, self.cards) >= needed
        return any(self.seats(obj, [level.node]) >= needed and
                   (level.most is None or self.inside[policy.name, i] + needed <= level.most)
                   for i, level in enumerate(policy.levels))

    # -- who waits

    def waiting(self):
        with self.lock:
            return [p for p in self.pods.values() if self.is_ours(p) and not p["spec"].get("nodeName") and not is_over(p)
                    and not is_leaving(p)]

    def is_prompt(self, obj):
        return not group_of(obj) and not (self.policy_of(obj) and self.policy_of(obj).patient)

    def fits(self, obj):
        with self.lock:
            gang, policy = group_of(obj), self.policy_of(obj)
            if gang and gang[0] not in self.whole_since:
                return self.gang_fits(gang[0], obj)
            nodes = self.nodes_with_room(obj)
            if not policy:
                return bool(nodes)
            return any(level.node in nodes and (level.most is None or self.inside[policy.name, i] < level.most)
                       for i, level in enumerate(policy.levels))
