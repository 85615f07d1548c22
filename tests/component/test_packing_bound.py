"""bench/rationbench/bound.py: bounds that are known by hand, and that no policy exceeds one on small clusters, where all policies can be
tried."""
import pathlib
import random
import sys
from fractions import Fraction

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from rationbench import bound    # noqa: E402

T4 = bound.NodeType(64000, 262144, 2, 0)


def part(milli, cpu=1000, memory=1024, gpus=1, models=0):
    return bound.Kind(cpu, memory, gpus, milli, models)


WHOLE = part(1000)


def bound_of(nodes, kinds, order, online=True, coarse=False):
    """In milli."""
    return bound.Solver(online).bound(bound.Problem(nodes, kinds, order, coarse))


def test_two_parts_of_600_do_not_fit_on_one_gpu():
    assert bound_of([T4], [part(600)], [0] * 4) == 1200


def test_parts_that_fit_together_fill_a_gpu():
    assert bound_of([T4], [part(600), part(400)], [0, 0, 1, 1]) == 2000


@pytest.mark.parametrize("pod, want", [(part(1000, cpu=40000), 1600), (part(1000, memory=131072 * 4 // 3), 1500),
                                       (part(1000, gpus=2), 2000), (part(1000, gpus=3), 0), (part(1000, models=0b10), 0),
                                       (part(1000, models=0b11), 2000), (part(1000, cpu=65000), 0)],
                         ids=["cpu", "memory", "two", "three", "other-model", "either-model", "no-node-is-that-large"])
def test_host_and_model_limit_what_one_node_gets(pod, want):
    """64 CPUs serve 1.6 pods of 40 CPUs, 256 GiB 1.5 pods of 170.7: the bound counts parts of pods."""
    assert bound_of([T4], [pod], [0] * 5) == pytest.approx(want, abs=1)


def test_a_policy_cannot_wait_for_a_better_pod():
    """One GPU; a pod for 600 milli comes before the pod for all of it. Any policy places the first one: 600 milli. The bound counts
    parts of pods, as much of the first as of the second, 0.5 of each: 800. A policy that may drop any pod reaches 1,000."""
    one = [T4._replace(gpus=1)]
    assert bound_of(one, [part(600), WHOLE], [0, 1]) == 800
    assert bound_of(one, [part(600), WHOLE], [0, 1], online=False) == 1000
    assert bound_of(one, [part(600), WHOLE], [1, 0]) == 1000


def test_a_pod_that_asks_for_more_cpu_does_not_stand_behind_one_that_asks_for_less_gpu():
    """The part asks for more CPU than the whole GPU does, so a node may have room for the second one only."""
    one = [T4._replace(gpus=1)]
    assert bound_of(one, [part(600, cpu=2000), WHOLE], [0, 1]) == 1000


def test_pods_without_a_gpu_take_cpu_that_a_policy_cannot_refuse_them():
    """One node with 64 CPUs and 2 GPUs. A pod for 32 CPUs comes first, then two for a GPU and 32 CPUs each, so any policy places the first pod
    and one of the others: 1,000 milli. The bound places half as many pods without a GPU as with one: with y / 2 + y = 2, y is 4 / 3."""
    kinds = [bound.Kind(32000, 1024, 0, 0, 0), part(1000, cpu=32000)]
    assert bound_of([T4], kinds, [0, 1, 1], online=False) == 2000
    assert bound_of([T4], kinds, [0, 1, 1]) == pytest.approx(4000 / 3, abs=1)


def test_nodes_count_together_if_the_same_kinds_may_use_them():
    """Alone, the node without CPU gets nothing; together, the other one's CPU seems to serve its GPUs. A pod that names the model of
    one of them keeps them apart."""
    nodes = [T4, T4._replace(cpu=0, model=1)]
    assert bound_of(nodes, [WHOLE], [0] * 4) == 2000
    assert bound_of(nodes, [WHOLE], [0] * 4, coarse=True) == 4000
    assert bound_of(nodes, [WHOLE, part(1000, models=0b10)], [0] * 4 + [1], coarse=True) == 2000


@pytest.mark.parametrize("less, more, holds", [
    (WHOLE, WHOLE, True), (part(600), WHOLE, True), (WHOLE, part(600), False), (WHOLE, part(1000, gpus=2), True),
    (part(1000, gpus=2), WHOLE, False), (part(0, gpus=0), part(10), True), (part(10), part(10, cpu=999), False),
    (part(10), part(10, memory=1023), False), (part(10), part(10, models=1), True), (part(10, models=1), part(10), False),
    (part(10, models=0b11), part(10, models=0b10), True), (part(10, models=0b01), part(10, models=0b11), False)])
def test_a_kind_asks_no_more_than_another_one_in_every_respect(less, more, holds):
    assert less.asks_no_more_than(more) is holds


def test_arrived_ends_before_the_pod_that_exceeds_the_part():
    assert bound.arrived([part(600)], [0, 0, 0, 0], 2000, 60) == [0, 0]
    assert bound.arrived([part(600)], [0, 0, 0, 0], 2000, 59) == [0]
    assert bound.arrived([part(600)], [0, 0], 2000, 130) == [0, 0]


def rooms(state, kind):
    """The states after the pod: each node and each choice of GPUs. A state is a sorted tuple of (cpu, memory, free GPUs, model)."""
    after = set()
    for i, (cpu, memory, gpus, model) in enumerate(state):
        if cpu < kind.cpu or memory < kind.memory or kind.models and not kind.models >> model & 1:
            continue
        fit = [g for g in range(len(gpus)) if gpus[g] >= kind.milli]
        if len(fit) < kind.gpus:
            continue
        choices = [()] if not kind.gpus else [(g,) for g in fit] if kind.gpus == 1 else [tuple(fit[:kind.gpus])]
        for chosen in choices:
            left = tuple(sorted(free - kind.milli * (g in chosen) for g, free in enumerate(gpus)))
            node = (cpu - kind.cpu, memory - kind.memory, left, model)
            after.add(tuple(sorted((*state[:i], node, *state[i + 1:]))))
    return after


def most(nodes, kinds, order):
    """What the best policy allocates that drops a pod only if no node has room: all are tried."""
    states = {tuple(sorted((n.cpu, n.memory, (1000,) * n.gpus, n.model) for n in nodes))}
    for k in order:
        states = {after for state in states for after in (rooms(state, kinds[k]) or {state})}
    total = 1000 * sum(n.gpus for n in nodes)
    return max(total - sum(sum(gpus) for _, _, gpus, _ in state) for state in states)


def small(seed):
    """A cluster and a list for which all policies can be tried."""
    draw = random.Random(seed)
    nodes = [bound.NodeType(draw.choice((2, 4, 8)) * 1000, draw.choice((2, 4, 8)) * 1024, draw.choice((1, 2)), draw.choice((0, 1)))
             for _ in range(draw.choice((1, 2, 3)))]
    kinds = []
    for _ in range(draw.choice((2, 3, 4))):
        gpus, milli = draw.choice(((0, 0), (1, 1000), (1, 1000), (1, 600), (1, 400), (1, 810), (1, 250), (2, 1000)))
        kinds.append(bound.Kind(draw.choice((1, 1, 2, 3)) * 1000, draw.choice((1, 1, 2)) * 1024, gpus, milli, draw.choice((0, 0, 1, 3))))
    order = [draw.randrange(len(kinds)) for _ in range(draw.choice((6, 8, 10)))]
    return nodes, kinds, order


SMALL = range(60)


@pytest.mark.parametrize("seeds", [SMALL[i::4] for i in range(4)], ids=str)
def test_no_policy_exceeds_the_bound(seeds):
    for seed in seeds:
        nodes, kinds, order = small(seed)
        got = bound_of(nodes, kinds, order)
        assert most(nodes, kinds, order) <= got <= 1000 * sum(n.gpus for n in nodes), seed
        assert got <= bound_of(nodes, kinds, order, online=False), seed
        assert most(nodes, kinds, order) <= bound_of(nodes, kinds, order, coarse=True), seed


def test_the_bound_is_often_reached():
    """It would say little if it were far away: on a third of the small clusters a policy reaches it."""
    exact = sum(most(*small(seed)) == bound_of(*small(seed)) for seed in SMALL)
    assert exact >= len(SMALL) / 3, exact


def test_any_prices_prove_a_bound():
    """Prices that make no sense prove a weak bound, and no wrong one: so the solver need not be trusted."""
    for seed in SMALL:
        draw, (nodes, kinds, order) = random.Random(seed), small(seed)
        problem = bound.Problem(nodes, kinds, order)

        def price(most):
            return draw.choice((0, draw.randrange(most * bound.PRICE)))
        types = range(len(problem.types))
        cuts = [bound.cut_through(*pair, bound.arrivals_hull(order, *pair), dict.fromkeys(pair[1], draw.randrange(1, 4)))
                for pair in bound.families(problem)]
        prices = bound.Prices([price(1) for _ in types], [price(1) for _ in types], {(k, t): price(1000) for k, t in problem.places},
                              {cut: price(100) for cut in cuts if cut})
        for gpu_prices in (), [price(1000) for _ in types]:
            assert Fraction(bound.proven(problem, prices, gpu_prices), bound.PRICE) >= most(nodes, kinds, order), seed


def test_the_hull_is_below_all_points():
    draw = random.Random(1)
    points, y = [(0, 0)], 0
    for x in range(1, 200):
        y += draw.choice((0, 0, 1, 2))
        points.append((x, y))
    hull = bound.lower_hull(points)
    assert hull[0] == points[0] and hull[-1] == points[-1] and set(hull) <= set(points)
    for (x0, y0), (x1, y1) in zip(hull, hull[1:]):
        assert all((x1 - x0) * (y - y0) >= (y1 - y0) * (x - x0) for x, y in points)
