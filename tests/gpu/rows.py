"""The rows: what is asked of a GPU, in the order in which it is asked. Each runs in a process of its own (worker.py)."""

ROWS = {}


class Row:
    def __init__(self, name, section, limit_s, ask, short):
        self.name, self.section, self.limit_s, self.ask, self.short = name, section, limit_s, ask, short


def row(name, section, limit_s=60, short=True):
    """`short`: it is part of the short form, too."""
    def add(ask):
        assert name not in ROWS, name
        ROWS[name] = Row(name, section, limit_s, ask, short)
        return ask
    return add


class Teller:
    """What a row found out, item by item, so that a row that ends in the middle leaves what it had."""

    def __init__(self, write):
        self.write = write

    def fact(self, what, value, near=0, unit=""):
        """An assumption of the simulation. It holds if both sides say the same, or numbers that differ by `near` (a
        part of the larger one) at most."""
        self.write({"kind": "fact", "what": what, "value": value, "near": near, "unit": unit})

    def promise(self, what, value, kept, unit=""):
        """What SECURITY.md, a man page or docs/internals promises."""
        self.write({"kind": "promise", "what": what, "value": value, "kept": bool(kept), "unit": unit})

    def number(self, what, value, unit=""):
        """To be known; nothing depends on it."""
        self.write({"kind": "number", "what": what, "value": value, "unit": unit})
