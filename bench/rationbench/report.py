"""What was measured, as a table for people, as JSON, as Markdown and as plots."""
import json
import os
import subprocess

from . import plot
from .programs import REPO

COLUMNS = {
    "verbs": (("who", "{}"), ("verb", "{}"), ("answer", "{}"), ("best", "{}"), ("policy", "{}"), ("nodes", "{}"),
              ("fill", "{} %"), ("p50", "{:.3f}"), ("p99", "{:.3f}"), ("cpu", "{:.3f}"), ("calls_per_s", "{:.0f}"),
              ("floor_p50", "{:.3f}"), ("floor_p99", "{:.3f}"), ("answer_bytes", "{}"), ("failed", "{}")),
    "binds": (("connections", "{}"), ("calls", "{}"), ("p50", "{:.2f}"), ("p99", "{:.2f}"), ("calls_per_s", "{:.0f}"),
              ("direct_p50", "{:.2f}"), ("direct_p99", "{:.2f}"), ("failed", "{}")),
    "bursts": (("who", "{}"), ("shape", "{}"), ("nodes", "{}"), ("fill", "{} %"), ("pods", "{}"),
               ("pods_per_s", "{:.1f}"), ("slowest", "{:.1f}"),
               ("fastest", "{:.1f}"), ("failed", "{}"), ("over", "{}")),
    "restart": (("nodes", "{}"), ("pods", "{}"), ("listed_mb", "{:.0f}"), ("ready_s", "{:.2f}"), ("peak_mb", "{:.0f}"),
                ("steady_mb", "{:.0f}")),
    "shim": (("what", "{}"), ("live", "{:,}"), ("processes", "{}"), ("without", "{:.1f}"), ("with", "{:.1f}"),
             ("added", "{:.1f}"), ("added_p90", "{:.1f}"), ("waits", "{:.0f}"), ("rounds", "{}")),
    "shim_init": (("processes", "{}"), ("took_p50_without", "{:.3f}"), ("took_p50", "{:.3f}"),
                  ("took_p99_without", "{:.3f}"), ("took_p99", "{:.3f}"), ("took_with_load_p50_without", "{:.3f}"),
                  ("took_with_load_p50", "{:.3f}"), ("took_with_load_p99_without", "{:.3f}"),
                  ("took_with_load_p99", "{:.3f}"), ("cpu_p50_added", "{:.3f}"), ("cpu_p99_added", "{:.3f}"),
                  ("rounds", "{}")),
    "shim_idle": (("under", "{}"), ("rss_kib", "{:.0f}"), ("added_rss_kib", "{:.0f}"), ("own_kib", "{:.0f}"),
                  ("added_own_kib", "{:.0f}"), ("lives_ms", "{:.3f}"), ("added_ms", "{:.3f}")),
}
TITLES = {
    "verbs": "The verbs over loopback, one connection (ms; cpu: of the extender for one call; floor: a plain socket "
             "server that answers as many bytes)",
    "binds": "Bind with the real API server behind it (ms; direct: the stand-in, a Binding without annotations)",
    "bursts": "Pods a second of a real kube-scheduler, median of the rounds (failed: scheduling attempts that ended in an "
              "error; ratios are those within a round, their median)",
    "restart": "Restart (MB of 10^6 bytes; listed: JSON that the API server sent)",
    "shim": "Calls under the shim, over a driver whose calls do nothing (ns of a processor for a call, or for an "
            "allocation and its free; median of the rounds; added: of the differences within a round; live: allocations "
            "there already; waits: how often a process slept in a round, all together)",
    "shim_init": "The first cuInit of processes that start at the same moment (ms; with_load: dlopen of libcuda too, "
                 "which without the shim opens the driver; cpu: of both)",
    "shim_idle": "A program that never calls CUDA, by what is preloaded, or under ration run (KiB; own: private and "
                 "written to; ms from start to end)",
}


def machine():
    return {"cpus": os.cpu_count(), "before": [round(v, 1) for v in os.getloadavg()],
            "commit": subprocess.run(["git", "-C", str(REPO), "describe", "--always", "--dirty"], capture_output=True,
                                     text=True, check=False).stdout.strip()}


def _cells(rows, columns):
    head = [name for name, _ in columns]
    return [head] + [[form.format(row[name]) if row.get(name) is not None else "-" for name, form in columns]
                     for row in rows]


def aligned(cells, markdown):
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells]
    if markdown:
        lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in cells]
        lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def _sections(results, judged, markdown):
    goals = [["goal", "asked", "measured", ""]] + [[what, goal, got, "met" if met else "MISSED"]
                                                   for what, goal, got, met in judged]
    if judged:
        yield "Goals", aligned(goals, markdown)
    for part, columns in COLUMNS.items():
        if results.get(part):
            yield TITLES[part], aligned(_cells(results[part], columns), markdown)


def text(results, judged):
    return "\n\n".join(f"{title}\n{table}" for title, table in _sections(results, judged, False))


def write(folder, results, judged):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    plots = plot.write_all(folder, results)
    load = results["load"]
    page = [f"# Benchmark\n\nMeasured with `bench/bench --out docs/measurements` at {load['commit']}, on a machine with "
            f"{load['cpus']} CPUs; load average before {load['before']}, after {load['after']}."]
    page += [f"## {title}\n\n{table}" for title, table in _sections(results, judged, True)]
    page += [f"![{name}]({name})" for name in plots]
    (folder / "bench.md").write_text("\n\n".join(page) + "\n")
