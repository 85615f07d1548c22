"""What the shim costs on a card: by turns without and with it. The times go into the table; only what no noise explains
fails."""
import statistics

import table
from card import Card

ROUNDS = 5
NOISE_NS = 5000


def by_turns(card, key, *program):
    plain, limited = [], []
    for _ in range(ROUNDS):
        plain.append(card.plain(*program)[key])
        limited.append(card.limited("50%", *program)[key])
    return statistics.median(plain), statistics.median(limited), statistics.median(
        b - a for a, b in zip(plain, limited))


def compare(card, title, what, key, goal, *program):
    without, within, added = by_turns(card, key, *program)
    table.add(title, what=what, without=f"{without:.0f}", within=f"{within:.0f}", added=f"{added:.0f}",
              goal=f"<= {goal}", met="met" if added <= goal else "MISSED")
    return without, added


def test_a_launch_loop_and_allocations(asked, card):
    count = 2000 if asked.simulated else 100000
    for what, key, goal, program in (
            ("launch, until it is asked for", "asked_ns", 15, Card.probe("launch", count)),
            ("launch, until all is done", "done_ns", 15, Card.probe("launch", count)),
            ("4 KiB, allocated and freed", "pair_ns", 200, Card.probe("pairs", 2000, 4096)),
            ("16 MiB, allocated and freed", "pair_ns", 200, Card.probe("pairs", 200, 16 << 20))):
        without, added = compare(card, "Cost of calls (ns, median of 5 by turns)", what, key, goal, *program)
        assert asked.simulated or added < NOISE_NS + without / 2, what
