"""docs/measurements/hardware.md: made anew after each row, so that a run that ends early leaves what it had."""
import os
import tempfile
from pathlib import Path

import verdict

MEASURED_MARK = "<!-- has measurements of hardware -->"
HOW = """A row compares the simulated driver with a real one, or says whether a promise is kept. `simulated` is what the simulated
driver said in the same run of the same program; `measured` is what the hardware said, and never anything else. Verdicts:
*holds*; *DIFFERS*: the simulation assumes something that this GPU does not do, and has to follow; *PROMISE BROKEN*: ration
does not keep what SECURITY.md or a man page promises, and the command's exit status is not 0; *CRASHED*, *HUNG*, *FAILED*: so
ended the row itself, which counts as a broken promise; *not run*: the reason stands in the column."""


class Page:
    def __init__(self, path, about, rows, real):
        """`real`: what comes as measured is of hardware."""
        self.path, self.about, self.rows, self.real, self.results = Path(path), about, rows, real, {}
        self.ended = "this run is still under way"

    def add(self, row, side, result):
        self.results.setdefault(row.name, {})[side] = result
        self.write()

    def told(self, row):
        return verdict.lines(self.results.get(row.name, {}))

    def all_lines(self):
        return [line for row in self.rows for line in self.told(row)]

    def text(self):
        parts = ["# On hardware: what was simulated, what was measured", self.about]
        if self.ended:
            done = sum(row.name in self.results for row in self.rows)
            parts.append(f"**Not complete: {self.ended}; {done} of {len(self.rows)} rows were asked.**")
        if self.real and any(verdict.MEASURED in sides for sides in self.results.values()):
            parts.append(MEASURED_MARK)
        parts += [HOW, ", ".join(f"{count} {word}" for word, count in verdict.counts(self.all_lines()).items()) + "."]
        section = None
        for row in self.rows:
            told = self.told(row)
            if not told:
                continue
            if row.section != section:
                section = row.section
                parts += [f"## {section}", "| row | what | simulated | measured | verdict |\n|---|---|---|---|---|"]
            for number, line in enumerate(told):
                cells = ["" if number else row.name, *line]
                parts[-1] += "\n| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"
        return "\n\n".join(parts) + "\n"

    def write(self):
        """All of it or nothing: a reader never sees half a page."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self.path.parent, prefix=".hardware-", delete=False, encoding="utf-8") as file:
            file.write(self.text())
            os.fchmod(file.fileno(), 0o644)
        os.replace(file.name, self.path)


def has_measurements(path):
    try:
        return MEASURED_MARK in Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
