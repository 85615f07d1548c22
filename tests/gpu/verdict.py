"""What a row's two sides say together. Pure: no I/O, no clock."""

HOLDS, SIM_ONLY, DIFFERS, BROKEN = "holds", "not measured", "DIFFERS: the simulation must follow", "PROMISE BROKEN"
BAD_ENDS = ("crashed", "hung", "failed")
SIMULATED, MEASURED = "simulated", "measured"


def _same(a, b, near):
    if isinstance(a, bool) or isinstance(b, bool) or isinstance(a, str) or isinstance(b, str):
        return a == b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y, near) for x, y in zip(a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= near * max(abs(a), abs(b))
    return a == b


def shown(item):
    if item is None:
        return SIM_ONLY
    value, unit = item["value"], item.get("unit", "")
    if isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, list):
        text = ", ".join(map(str, value))
    else:
        text = str(value)
    return f"{text} {unit}".strip()


def of_item(sim, real):
    """The verdict on one item; either side may be None."""
    kind = (real or sim)["kind"]
    if kind == "promise":
        broken = [name for name, item in ((MEASURED, real), (SIMULATED, sim)) if item and not item["kept"]]
        if MEASURED in broken:
            return BROKEN
        if broken:
            return f"{BROKEN} on the simulated driver"
        return HOLDS if real else "holds on the simulated driver"
    if real is None:
        return SIM_ONLY
    if kind == "number":
        return "a number"
    if sim is None:
        return "measured only"
    return HOLDS if _same(sim["value"], real["value"], max(sim["near"], real["near"])) else DIFFERS


def of_end(result):
    """A word for how a side of a row ended; None: it has nothing to tell."""
    if result is None or result["end"] == "done":
        return None
    return f"{result['end']}: {result['why']}" if result.get("why") else result["end"]


def lines(sides):
    """[(what, simulated, measured, verdict)] of one row; `sides` maps a side to its result or None."""
    sim, real = (sides.get(side) for side in (SIMULATED, MEASURED))
    of_sim = {item["what"]: item for item in (sim or {"items": []})["items"]}
    of_real = {item["what"]: item for item in (real or {"items": []})["items"]}
    told = []
    for what in [*of_real, *(w for w in of_sim if w not in of_real)]:
        a, b = of_sim.get(what), of_real.get(what)
        told.append((what, "-" if a is None else shown(a), "-" if b is None and real else shown(b), of_item(a, b)))
    ends = [of_end(sim), of_end(real)]
    if any(ends):
        bad = [end for end in ends if end and end.startswith(BAD_ENDS)]
        told.append(("(the row)", ends[0] or "-", ends[1] or ("-" if real else SIM_ONLY), bad[0].partition(":")[0].upper() if bad else "not run"))
    return told


def is_bad(line):
    return line[3].startswith(BROKEN) or line[3].lower() in BAD_ENDS


def counts(told):
    """{word: count} for the last line, worst first."""
    words = {"promises broken": 0, "rows that crashed, hung or failed": 0, "assumptions that differ": 0, "hold": 0,
             "hold on the simulated driver only": 0, "not run": 0}
    for line in told:
        verdict = line[3]
        if verdict.startswith(BROKEN):
            words["promises broken"] += 1
        elif verdict.lower() in BAD_ENDS:
            words["rows that crashed, hung or failed"] += 1
        elif verdict == DIFFERS:
            words["assumptions that differ"] += 1
        elif verdict == HOLDS:
            words["hold"] += 1
        elif verdict == "holds on the simulated driver":
            words["hold on the simulated driver only"] += 1
        elif verdict == "not run":
            words["not run"] += 1
    return words
