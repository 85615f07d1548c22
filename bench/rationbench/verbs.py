"""Part a: how long the verbs of an extender take over loopback, beside a floor that does nothing."""
from . import cluster
from .apiserver import StillApiServer
from .programs import Floor, RationScheduler, load

DISTINCT_PODS = 8    # bodies that are sent in turn: no server can answer from a cache of the last request
OWNER = "owner-asking"


def question(names, units, number):
    asking = cluster.pod(f"asking-{number}", units, 0xA00000 + number, OWNER)
    return {"Pod": asking, "Nodes": None, "NodeNames": names}


def questions(names, units):
    return [question(names, units, i) for i in range(DISTINCT_PODS)]


def calls_for(nodes, quick):
    return (200 if nodes <= 100 else 60) if quick else (1000 if nodes <= 1000 else 600)


class Measurement:
    """Rows of one extender on one cluster, each with the floor of the same question and answer size beside it."""

    def __init__(self, url, floor, who, quick, cpu_ns=None):
        self.url, self.floor, self.who, self.quick, self.cpu_ns, self.rows = url, floor, who, quick, cpu_ns, []

    def verb(self, verb, bodies, nodes, connections=1, **what):
        """One row, in milliseconds."""
        calls = calls_for(nodes, self.quick)
        load(f"{self.url}/{verb}", bodies, max(calls // 20, len(bodies)), connections)    # warm
        before = self.cpu_ns() if self.cpu_ns else 0
        got = load(f"{self.url}/{verb}", bodies, calls, connections)
        cpu = (self.cpu_ns() - before) / calls / 1e6 if self.cpu_ns else None
        least = load(f"{self.floor.url}/{got['answer_bytes']}", bodies, calls, connections)
        row = {"who": self.who, "verb": verb, "nodes": nodes, **what, "connections": connections,
               "p50": got["p50"], "p99": got["p99"], "cpu": cpu, "max": got["max"], "calls_per_s": got["calls"] / got["seconds"],
               "failed": got["failed"], "failure": got["failure"], "answer_bytes": got["answer_bytes"],
               "floor_p50": least["p50"], "floor_p99": least["p99"]}
        self.rows.append(row)
        return row


def measure_cluster(url, floor, who, quick, nodes, fill, policy, kind, verbs=("filter", "prioritize"),
                    cpu_ns=None):
    """All rows of one extender for one cluster that it already knows."""
    names = [cluster.node_name(i) for i in range(nodes)]
    here = Measurement(url, floor, who, quick, cpu_ns)
    what = {"fill": fill.percent, "policy": policy, "best": kind}
    if "filter" in verbs:
        here.verb("filter", questions(names, 1), nodes, answer="accept", **what)
        if kind == "K=16":    # a rejection names all nodes whatever K is
            here.verb("filter", questions(names, fill.free + 1), nodes, answer="reject", **what)
    if "prioritize" in verbs:
        offered = names if kind == "all" else names[:16]
        here.verb("prioritize", questions(offered, 1), nodes, answer="accept", **what)
    return here.rows


def run(sizes, fills, policies, quick, extenders=(), extender_verbs=("filter", "prioritize"), say=print):
    """The rows of ration-scheduler, and of other extenders at their URLs for the same questions."""
    rows = []
    with Floor() as floor:
        for nodes in sizes:
            for policy in policies:
                for percent in fills:
                    fill = cluster.FILLS[percent]
                    say(f"verbs: {nodes} nodes, {policy}, {percent} % full")
                    rows += _one_cluster(floor, nodes, fill, policy, quick)
                    for url in extenders:
                        rows += measure_cluster(url, floor, url, quick, nodes, fill, policy, "K=16", extender_verbs)
    return rows


def _one_cluster(floor, nodes, fill, policy, quick):
    rows = []
    with StillApiServer((cluster.node(i, policy) for i in range(nodes)), cluster.filling_pods(nodes, fill)) as api:
        for kind, options in (("K=16", ()), ("all", ("--best-nodes", "0"))):
            with RationScheduler(api.kubeconfig(), *options) as scheduler:
                scheduler.wait_ready()
                rows += measure_cluster(scheduler.url, floor, "ration", quick, nodes, fill, policy, kind,
                                        cpu_ns=scheduler.cpu_ns)
    return rows
