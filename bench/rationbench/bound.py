"""An upper bound on the GPUs that any policy can allocate to pods that arrive in a given order. The policy may know all pods beforehand, but
it drops a pod only if no node has room; online=False bounds policies that may drop any pod. docs/measurements/packing.md has the proof. A linear program finds prices; proven() turns any prices
into a bound with integers alone, so an error of the solver can make the bound weaker and never wrong."""
import collections
import math
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from .programs import BenchError

GPU_MILLI = 1000
PRICE = 10 ** 9          # prices are whole numbers of 1 / PRICE milli
CUT_ROUNDS = 30
ENOUGH = 0.01            # of a pod: a cut that is violated by less is not added
SOLVER_S = 300


class Kind(NamedTuple):
    """What a pod asks for: gpus of them, milli of each. models has a bit for each GPU model that the pod can use; 0: all."""
    cpu: int
    memory: int
    gpus: int
    milli: int
    models: int

    def runs_on(self, node):
        return (self.cpu <= node.cpu and self.memory <= node.memory and self.gpus <= node.gpus and
                (not self.models or bool(self.models >> node.model & 1)))

    def asks_no_more_than(self, other):
        """Each node with room for a pod of the other kind has room for one of this kind."""
        return (self.cpu <= other.cpu and self.memory <= other.memory and self.gpus <= other.gpus and self.milli <= other.milli and
                (not self.models or (other.models != 0 and not other.models & ~self.models)))


class NodeType(NamedTuple):
    cpu: int
    memory: int
    gpus: int
    model: int


class Group(NamedTuple):
    """Nodes that are counted together: the most that any of them has, and what all of them have."""
    largest: NodeType
    cpu: int
    memory: int
    gpus: int


class Cut(NamedTuple):
    """rise * placed(demanding) - run * placed(modest) <= limit, for two sets of kinds."""
    modest: frozenset
    demanding: frozenset
    rise: int
    run: int
    limit: int

    def of(self, kind):
        return self.rise * (kind in self.demanding) - self.run * (kind in self.modest)


class Prices(NamedTuple):
    """Of a milli of CPU and a MiB of memory on each type of node, of a part of a GPU for each (kind, type), and of each cut; none is
    negative."""
    cpu: list
    memory: list
    part: dict
    cuts: dict


def group(nodes, key):
    groups = collections.defaultdict(list)
    for node in nodes:
        groups[key(node)].append(node)
    return [Group(NodeType(*(max(column) for column in zip(*own))), *(sum(column) for column in list(zip(*own))[:3]))
            for _, own in sorted(groups.items())]


class Problem:
    def __init__(self, nodes, kinds, order, coarse=False):
        """nodes: a NodeType for each node; order: the numbers of the kinds, as pods arrive. coarse: nodes of different size count
        together if the same kinds may use their model. The bound is never lower then, and found many times faster."""
        masks = sorted({kind.models for kind in kinds if kind.models})
        self.types = group(nodes, (lambda node: tuple(mask >> node.model & 1 for mask in masks)) if coarse else lambda node: node)
        self.kinds = kinds
        self.order = order
        self.counts = dict(sorted(collections.Counter(order).items()))
        self.gpu_milli = GPU_MILLI * sum(node.gpus for node in nodes)
        self.places = [(k, t) for k in self.counts for t, nodes in enumerate(self.types) if kinds[k].runs_on(nodes.largest)]

    def is_part(self, k):
        return 0 < self.kinds[k].milli < GPU_MILLI


def best_pattern(worth):
    """worth: {milli: what a part of this size is worth}. The parts that together fit on one GPU and are worth most: (worth, {milli:
    number})."""
    sizes = [milli for milli, value in worth.items() if value > 0]
    step = math.gcd(GPU_MILLI, *sizes)
    best, last = [0], [None]
    for room in range(step, GPU_MILLI + 1, step):
        value, size = best[-1], None
        for milli in sizes:
            if milli <= room and best[(room - milli) // step] + worth[milli] > value:
                value, size = best[(room - milli) // step] + worth[milli], milli
        best.append(value)
        last.append(size)
    pattern, at = collections.Counter(), len(best) - 1
    while at > 0:
        if last[at] is None:
            at -= 1
        else:
            pattern[last[at]] += 1
            at -= last[at] // step
    return best[-1], dict(pattern)


def best_kinds(problem, part, t):
    """{milli: (the most that a part of this size is worth on type t, its kind)}."""
    best = {}
    for k, on in problem.places:
        if on == t and problem.is_part(k):
            milli, value = problem.kinds[k].milli, part.get((k, t), 0)
            if value > best.get(milli, (0, None))[0]:
                best[milli] = (value, k)
    return best


def gpu_price(problem, part, t):
    """What one GPU of type t must cost, so that no pattern is worth more; and that pattern as {kind: number}."""
    best = best_kinds(problem, part, t)
    value, pattern = best_pattern({milli: value for milli, (value, _) in best.items()})
    return value, {best[milli][1]: n for milli, n in pattern.items()}


def proven(problem, prices, gpu_prices=()):
    """The bound that follows from any prices, in 1 / PRICE milli. gpu_prices: of a GPU of each type; raised where parts are worth more."""
    gpu = [max(gpu_price(problem, prices.part, t)[0], *gpu_prices[t:t + 1], 0) for t in range(len(problem.types))]
    left = dict.fromkeys(problem.counts, 0)    # the most that a pod of the kind is worth beyond what it pays
    for k, t in problem.places:
        kind = problem.kinds[k]
        each = prices.part.get((k, t), 0) if problem.is_part(k) else gpu[t]
        paid = (prices.cpu[t] * kind.cpu + prices.memory[t] * kind.memory + each * kind.gpus +
                sum(price * cut.of(k) for cut, price in prices.cuts.items()))
        left[k] = max(left[k], PRICE * kind.gpus * kind.milli - paid)
    return (sum(problem.counts[k] * value for k, value in left.items()) +
            sum(prices.cpu[t] * nodes.cpu + prices.memory[t] * nodes.memory + gpu[t] * nodes.gpus
                for t, nodes in enumerate(problem.types)) +
            sum(price * cut.limit for cut, price in prices.cuts.items()))


def lower_hull(points):
    """The corners of the lower convex hull of points with growing x."""
    hull = []
    for x, y in points:
        while len(hull) > 1 and ((hull[-1][0] - hull[-2][0]) * (y - hull[-2][1]) <= (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0])):
            hull.pop()
        hull.append((x, y))
    return hull


def arrivals_hull(order, modest, demanding):
    """Of the points (demanding pods so far, modest pods so far): of those with as many demanding pods, the first has the fewest modest
    ones."""
    points, x, y = [(0, 0)], 0, 0
    for k in order:
        y += k in modest
        if k in demanding:
            x += 1
            points.append((x, y))
    return lower_hull(points)


def cut_through(modest, demanding, hull, placed):
    """The side of the hull over or under which these numbers of placed pods are, as a cut; None if they keep it."""
    x, y = (sum(placed.get(k, 0) for k in kinds) for kinds in (demanding, modest))
    for (x0, y0), (x1, y1) in zip(hull, hull[1:]):
        if x <= x1:
            rise, run = y1 - y0, x1 - x0
            return Cut(modest, demanding, rise, run, rise * x0 - run * y0) if rise * (x - x0) - run * (y - y0) > ENOUGH * run else None
    return None


def families(problem):
    """Pairs (modest, demanding) of sets without a common kind: each of the first asks no more than each of the second."""
    kinds, pairs = problem.kinds, {}
    for k in problem.counts:
        less = [j for j in problem.counts if kinds[j].asks_no_more_than(kinds[k])]
        more = [j for j in problem.counts if kinds[k].asks_no_more_than(kinds[j]) and j not in less]
        of_size = [j for j in less if (kinds[j].gpus, kinds[j].milli) == (kinds[k].gpus, kinds[k].milli)]
        whole = [j for j in more if (kinds[j].gpus, kinds[j].milli) == (1, GPU_MILLI)]
        for modest in ([k], of_size, less):
            for demanding in (more, whole):
                if demanding:
                    pairs[frozenset(modest), frozenset(demanding)] = True
    return list(pairs)


class Rows:
    """The linear program in the form that glpsol reads: maximize, columns are not negative, each row has an upper limit."""

    def __init__(self, gains):
        self.gains, self.rows = gains, []

    def add(self, name, limit, coefficients):
        self.rows.append((name, limit, [(column, c) for column, c in coefficients if c]))

    def text(self):
        columns = {column: j for j, column in enumerate(self.gains, 1)}
        cells = [f"a 0 {columns[column]} {gain!r}" for column, gain in self.gains.items()]
        cells += [f"a {i} {columns[column]} {c!r}" for i, (_, _, row) in enumerate(self.rows, 1) for column, c in row]
        return "\n".join([f"p lp max {len(self.rows)} {len(columns)} {len(cells) - len(columns)}",
                          *(f"i {i} u {limit!r}" for i, (_, limit, _) in enumerate(self.rows, 1)),
                          *(f"j {j} l 0" for j in columns.values()), *cells, "e o f", ""])

    def solve(self):
        """({column: value}, {row: price})."""
        with tempfile.TemporaryDirectory(prefix="bound-") as folder:
            program, solution = Path(folder, "program"), Path(folder, "solution")
            program.write_text(self.text())
            try:
                done = subprocess.run(["glpsol", "--glp", program, "-w", solution], capture_output=True, text=True, timeout=SOLVER_S,
                                      check=False)
            except FileNotFoundError:
                raise BenchError("the bound needs glpsol; install the Debian package glpk-utils") from None
            except subprocess.TimeoutExpired:
                raise BenchError(f"glpsol did not end within {SOLVER_S} s") from None
            lines = [line.split() for line in (solution.read_text().splitlines() if solution.exists() else ())]
        if not any(line[:1] == ["s"] and line[4:6] == ["f", "f"] for line in lines):
            raise BenchError(f"glpsol found no optimum: {(done.stdout + done.stderr)[-500:]}")
        values = [float(line[3]) for line in lines if line[:1] == ["j"]]
        prices = [float(line[4]) for line in lines if line[:1] == ["i"]]
        return dict(zip(self.gains, values)), {name: price for (name, _, _), price in zip(self.rows, prices)}


def program(problem, patterns, cuts):
    """Columns: (kind, type), pods of the kind on nodes of the type; (type, pattern), GPUs that are divided so."""
    kinds = problem.kinds
    rows = Rows({**{("pods", k, t): kinds[k].gpus * kinds[k].milli for k, t in problem.places},
                 **{("gpus", t, p): 0 for t, of_type in enumerate(patterns) for p in of_type}})
    for k, n in problem.counts.items():
        rows.add(("count", k), n, [(("pods", k, t), 1) for j, t in problem.places if j == k])
    for t, nodes in enumerate(problem.types):
        here = [k for k, on in problem.places if on == t]
        rows.add(("cpu", t), nodes.cpu, [(("pods", k, t), kinds[k].cpu) for k in here])
        rows.add(("memory", t), nodes.memory, [(("pods", k, t), kinds[k].memory) for k in here])
        rows.add(("gpu", t), nodes.gpus, [(("pods", k, t), kinds[k].gpus) for k in here if not problem.is_part(k)] +
                 [(("gpus", t, p), 1) for p in patterns[t]])
        for k in here:
            if problem.is_part(k):
                rows.add(("part", k, t), 0, [(("pods", k, t), kinds[k].gpus)] +
                         [(("gpus", t, p), -count) for p in patterns[t] for kind, count in p if kind == k])
    for cut in cuts:
        rows.add(("cut", cut), cut.limit, [(("pods", k, t), cut.of(k)) for k, t in problem.places])
    return rows


def whole_prices(problem, duals, cuts):
    def price(*row):
        return max(0, round(duals[row] * PRICE))
    types = range(len(problem.types))
    return (Prices([price("cpu", t) for t in types], [price("memory", t) for t in types],
                   {(k, t): price("part", k, t) for k, t in problem.places if problem.is_part(k)}, {cut: price("cut", cut) for cut in cuts}),
            [price("gpu", t) for t in types])


class Solver:
    """For several orders of the same list: patterns and families that helped once are used from the start."""

    def __init__(self, online=True):
        self.online, self.patterns, self.useful = online, set(), set()

    def _patterns(self, problem):
        """For each type those patterns whose kinds run there, and each part alone."""
        runs = collections.defaultdict(set)
        for k, t in problem.places:
            runs[t].add(k)
        single = {((k, GPU_MILLI // problem.kinds[k].milli),) for k in problem.counts if problem.is_part(k)}
        return [sorted(p for p in single | self.patterns if all(k in runs[t] for k, _ in p)) for t in range(len(problem.types))]

    def _more_patterns(self, problem, prices, gpu_prices):
        found = set()
        for t, price in enumerate(gpu_prices):
            value, pattern = gpu_price(problem, prices.part, t)
            if value > price + PRICE // 10 ** 4:
                found.add(tuple(sorted(pattern.items())))
        new = found - self.patterns
        self.patterns |= new
        return new

    def _optimum(self, problem, cuts):
        """With all patterns that are needed: ({kind: pods placed}, prices, prices of GPUs)."""
        while True:
            values, duals = program(problem, self._patterns(problem), cuts).solve()
            prices, gpu_prices = whole_prices(problem, duals, cuts)
            if not self._more_patterns(problem, prices, gpu_prices):
                break
        placed = collections.Counter()
        for (what, k, *_), value in values.items():
            if what == "pods":
                placed[k] += value
        return placed, prices, gpu_prices

    def bound(self, problem):
        """The bound in milli, rounded up; never more than all GPUs."""
        cuts, hulls, pairs = [], {}, families(problem) if self.online else []

        def violated(pairs):
            for pair in pairs:
                if pair not in hulls:
                    hulls[pair] = arrivals_hull(problem.order, *pair)
            found = [cut_through(*pair, hulls[pair], placed) for pair in pairs]
            return [cut for cut in found if cut and cut not in cuts]

        for _ in range(CUT_ROUNDS):
            placed, prices, gpu_prices = self._optimum(problem, cuts)
            new = violated([pair for pair in pairs if pair in self.useful]) or violated(pairs)
            if not new:
                break
            cuts += new
            self.useful.update((cut.modest, cut.demanding) for cut in new)
        return min(-(-proven(problem, prices, gpu_prices) // PRICE), problem.gpu_milli)


def arrived(kinds, order, gpu_milli, percent):
    """The pods before the first one with which arrivals exceed this part of the GPUs."""
    asked = 0
    for i, k in enumerate(order):
        asked += kinds[k].gpus * kinds[k].milli
        if asked * 100 > gpu_milli * percent:
            return order[:i]
    return order
