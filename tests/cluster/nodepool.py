"""Nodes with GPUs that join and leave a lab, and what must be true after each step."""
from cgpupods import check_isolation
from cluster import is_ready, lab_command
from gpupods import annotation, cards_of, check_what_it_sees, inventory, units_of, used_per_card
from storm import GPU_MEM, asked_of, book_of, is_over, processes_of

UNIT_MIB = 1024


def join(cluster, node):
    """NAME=CARDS[,MODE...]"""
    lab_command("add-node", "--name", cluster.name, node)


def leave(cluster, name, *options):
    """The machine is gone at once, and its Node object; with --drain after kubectl drain."""
    lab_command("remove-node", "--name", cluster.name, name, *options)


def shared_nodes(nodes):
    """{name: {uuid: card}} of those that share their GPUs now."""
    return {name: inventory(node) for name, node in nodes.items() if annotation(node, "ration.dev/mode") in ("share", "cgpu")}


def occupied(cluster):
    """Pods of the test that have units of a card: bound, and not over."""
    return [p for p in cluster.pods() if asked_of(p, GPU_MEM) and p["spec"].get("nodeName") and not is_over(p)]


def books_are(cluster, expected):
    """Every ration-scheduler has exactly these nodes and cards in its ledger, with these units: {node: {uuid: units}}."""
    pids = processes_of(cluster, "ration-scheduler")
    assert pids, "no ration-scheduler runs"
    for pid in pids:
        book = book_of(pid)
        assert book and book["ready"], (pid, book)
        assert book["wrongSums"] == book["overcommittedGPUs"] == 0, book
        assert {n["name"]: {d["uuid"]: d["usedGPU"] for d in n["devs"]} for n in book["nodes"]} == expected, (pid, book)
        assert not any(n["pendingGPU"] for n in book["nodes"]), (pid, book)
    return True


def table_shows(cluster, expected):
    """The rows of `kubectl inspect cgpu`: {node: "allocated/total"}."""
    rows = [line.split() for line in cluster.inspect().splitlines()]
    shown = {row[0]: row[-1] for row in rows[1:] if len(row) > 2 and row[-1].count("/") == 1}
    assert shown == expected, shown
    return True


def check_everything(cluster, timeout=30):
    """No GPU is over its total in any ledger, each ledger and the table have what the API server's pods have, and of each
    container that runs: placement == environment == device nodes == grant. Returns {pod: node}."""
    nodes = cluster.nodes()
    cards = shared_nodes(nodes)
    pods = occupied(cluster)
    used = used_per_card([p for p in pods if p["spec"]["nodeName"] in cards])
    for p in pods:
        name = p["spec"]["nodeName"]
        assert name not in cards or set(cards_of(p)) <= set(cards[name]), (p["metadata"]["name"], cards_of(p), cards[name])
        if name in cards and is_ready(p):
            check_what_it_sees(cluster, p, nodes)
            isolated = annotation(nodes[name], "ration.dev/mode") == "cgpu"
            assert not isolated or check_isolation(cluster, p) == len(p["spec"]["containers"])
    totals = {uuid: card["mib"] // UNIT_MIB for of_node in cards.values() for uuid, card in of_node.items()}
    assert all(units <= totals[uuid] for uuid, units in used.items()), (used, totals)
    ledger = {name: {uuid: used.get(uuid, 0) for uuid in of_node} for name, of_node in cards.items()}
    cluster.wait_for(lambda: books_are(cluster, ledger), timeout, "every ledger has what the API server says")
    sums = {name: (sum(of_node.values()), sum(totals[uuid] for uuid in of_node)) for name, of_node in ledger.items()}
    cluster.wait_for(lambda: table_shows(cluster, {name: f"{some}/{all_}" for name, (some, all_) in sums.items()}), timeout,
                     "the table has what the API server says")
    assert {name: sum(units_of(p) for p in pods if p["spec"]["nodeName"] == name) for name in cards} == {
        name: some for name, (some, _) in sums.items()}
    return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods}
