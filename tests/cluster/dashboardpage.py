"""A Grafana dashboard of ours, drawn from its own JSON with what Prometheus answers to its expressions: SVG in one page
of HTML. Grafana itself is no package of Debian's, PyPI's or npm's, and as a Go module it comes without its pages."""
import html
import math

CELL_W, CELL_H, GAP = 58, 30, 6
COLOURS = ["#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#37872d", "#fade2a", "#c0d8ff"]
INTERVAL = "10s"    # for $__rate_interval: four scrapes of a second, and room


def expression(target):
    return target["expr"].replace("$__rate_interval", INTERVAL).replace("$node", ".*").replace("$namespace", ".*")


def legend(target, labels):
    text = target["legendFormat"]
    for key, value in labels.items():
        text = text.replace("{{" + key + "}}", value)
    return text


def series_of(panel, ask):
    """[(legend, [(time, value)])] of all targets, what is no number left out."""
    found = []
    for target in panel["targets"]:
        for labels, points in ask(expression(target)):
            points = [(at, value) for at, value in points if math.isfinite(value)]
            if points:
                found.append((legend(target, labels), points))
    return sorted(found, key=lambda one: -max(value for _, value in one[1])) if len(panel["targets"]) == 1 else found


def shown(value, unit):
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "bytes":
        for name in ("B", "KiB", "MiB", "GiB", "TiB"):
            if value < 1024 or name == "TiB":
                return f"{value:.3g} {name}"
            value /= 1024
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"
    return f"{value:.4g}"


def escape(text):
    return html.escape(str(text))


def stat(panel, series, width, height):
    unit = panel["fieldConfig"]["defaults"]["unit"]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    value = series[0][1][-1][1]
    colour = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
    return (f'<text x="{width / 2}" y="{height / 2 + 14}" font-size="34" text-anchor="middle" '
            f'fill="{ {"green": COLOURS[0], "red": COLOURS[4]}[colour]}">{escape(shown(value, unit))}</text>')


def bars(panel, series, width, _height):
    unit, wide, out = panel["fieldConfig"]["defaults"]["unit"], width - 260, []
    for i, (name, points) in enumerate(series[:9]):
        y, value = 6 + 23 * i, points[-1][1]
        out.append(f'<text x="4" y="{y + 13}">{escape(name[-26:])}</text>'
                   f'<rect x="190" y="{y}" width="{wide}" height="17" fill="#2c2f36"/>'
                   f'<rect x="190" y="{y}" width="{wide * min(value, 1):.1f}" height="17" fill="{COLOURS[0]}"/>'
                   f'<text x="{width - 62}" y="{y + 13}">{escape(shown(value, unit))}</text>')
    return "".join(out)


def lines(panel, series, width, height):
    defaults = panel["fieldConfig"]["defaults"]
    stacked = defaults["custom"]["stacking"]["mode"] == "normal"
    begin = min(points[0][0] for _, points in series)
    end = max(points[-1][0] for _, points in series)
    sums = {}
    if stacked:
        for i, (name, points) in enumerate(series):
            series[i] = name, [(at, sums.setdefault(at, 0) + value) for at, value in points]
            sums.update(series[i][1])
    top = max(defaults.get("max", 0), max(value for _, points in series for _, value in points)) or 1
    left, foot = 62, 18 * ((len(series[:6]) + 1) // 2) + 16
    wide, high = width - left - 8, height - foot - 10
    out = [f'<line x1="{left}" x2="{width - 8}" y1="{6 + high * i / 2}" y2="{6 + high * i / 2}" stroke="#34373e"/>'
           f'<text x="{left - 5}" y="{10 + high * i / 2}" text-anchor="end" fill="#9fa7b3">'
           f'{escape(shown(top * (1 - i / 2), defaults["unit"]))}</text>' for i in range(3)]
    for i, (name, points) in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{left + wide * (at - begin) / ((end - begin) or 1):.1f},{6 + high * (1 - value / top):.1f}"
                        for at, value in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if i < 6:
            x, y = 8 + (i % 2) * (width / 2), height - foot + 22 + 18 * (i // 2)
            out.append(f'<rect x="{x}" y="{y - 8}" width="12" height="4" fill="{colour}"/>'
                       f'<text x="{x + 17}" y="{y}" fill="#9fa7b3">{escape((name or panel["title"])[-30:])}</text>')
    return "".join(out)


def page(dashboard, ask):
    """ask(expression) -> [(labels, [(time, value)])]. Returns (HTML, titles of panels without data, width, height)."""
    draw = {"stat": stat, "bargauge": bars, "timeseries": lines}
    parts, empty, bottom = [], [], 0
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        x, y, title = at["x"] * CELL_W, at["y"] * CELL_H + 44, escape(panel["title"])
        width, height = at["w"] * CELL_W - GAP, at["h"] * CELL_H - GAP
        bottom = max(bottom, y + height)
        if panel["type"] == "row":
            parts.append(f'<text x="{x + 4}" y="{y + 18}" font-size="15">{title}</text>')
            continue
        series = series_of(panel, ask)
        if not series:
            empty.append(panel["title"])
        inside = draw[panel["type"]](panel, series, width, height - 26) if series else (
            f'<text x="{width / 2}" y="{height / 2}" text-anchor="middle">No data</text>')
        parts.append(f'<g transform="translate({x},{y})">'
                     f'<rect width="{width}" height="{height}" rx="3" fill="#1f2127"/>'
                     f'<text x="8" y="17" font-size="13" fill="#e3e4e8">{title}</text>'
                     f'<g transform="translate(0,24)">{inside}</g></g>')
    width, height = 24 * CELL_W, bottom + 10
    return (f'<!DOCTYPE html><meta charset="utf-8"><body style="margin:0;background:#111217"><svg width="{width}" '
            f'height="{height}" font-family="DejaVu Sans, sans-serif" font-size="12" fill="#d0d2d6">'
            f'<text x="8" y="28" font-size="19">{escape(dashboard["title"])}</text>{"".join(parts)}</svg>',
            empty, width, height)
