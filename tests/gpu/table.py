"""The measurements: each test adds rows, tests/gpu/run makes the page."""
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from rationbench import report    # noqa: E402

VARIABLE = "RATION_GPU_ROWS"


def add(title, **row):
    """A row of the table with this title; its keys are the columns."""
    if VARIABLE in os.environ:
        with open(os.environ[VARIABLE], "a", encoding="utf-8") as rows:
            rows.write(json.dumps([title, row]) + "\n")


def page(text, about):
    tables = {}
    for line in text.splitlines():
        title, row = json.loads(line)
        tables.setdefault(title, []).append(row)
    parts = ["# ration on a card", f"Measured by `tests/gpu/run` on {about}"]
    for title, rows in tables.items():
        cells = [list(rows[0])] + [[str(row.get(name, "-")) for name in rows[0]] for row in rows]
        parts += [f"## {title}", report.aligned(cells, True)]
    return "\n\n".join(parts) + "\n"
