"""Plots as SVG, written by hand: lines over nodes on logarithmic axes, and bars."""
import math

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 420, 70, 50, 40, 230
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")


def _svg(title, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
            f'font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
            f'<text x="{LEFT}" y="22" font-size="15">{title}</text>\n' + "\n".join(parts) + "\n</svg>\n")


def _scale(low, high, start, end):
    low, high = math.log10(low), math.log10(high)
    return lambda v: start + (math.log10(v) - low) / ((high - low) or 1) * (end - start)


def _decades(low, high):
    value = 10 ** math.floor(math.log10(low))
    while value <= high * 1.0001:
        if value >= low * 0.9999:
            yield value
        value *= 10


def lines(title, series, unit, goal=None):
    """series: {label: [(x, y), ...]}."""
    points = [p for line in series.values() for p in line]
    xs, ys = [x for x, _ in points], [y for _, y in points] + ([goal] if goal else [])
    low, high = 10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys)))
    at_x = _scale(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    at_y = _scale(low, high, HEIGHT - BOTTOM, TOP)
    parts = [f'<text x="{at_x(x):.0f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:,}</text>'
             for x in sorted(set(xs))]
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 12}" text-anchor="middle">nodes x 8 GPUs</text>')
    for y in _decades(low, high):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{at_y(y) + 4:.1f}" text-anchor="end">{y:g} {unit}</text>')
    if goal:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at_y(goal):.1f}" y2="{at_y(goal):.1f}" stroke="#888" '
                     f'stroke-dasharray="6 4"/><text x="{WIDTH - RIGHT + 6}" y="{at_y(goal) + 4:.1f}">goal {goal:g} {unit}'
                     f'</text>')
    for i, (label, line) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
                     f'<text x="{WIDTH - RIGHT + 24}" y="{TOP + 16 * i}" fill="{colour}">{label}</text>')
    return _svg(title, parts)


def over_time(title, names, rows, goals):
    """rows: [seconds, percent of the first, of the second, ...]; goals: what each should have."""
    last = rows[-1][0]
    at_x = lambda s: LEFT + s / last * (WIDTH - RIGHT - LEFT)
    at_y = lambda p: HEIGHT - BOTTOM - min(p, 100) / 100 * (HEIGHT - BOTTOM - TOP)
    parts = [f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 12}" text-anchor="middle">seconds</text>']
    for s in range(0, int(last) + 1, 2):
        parts.append(f'<text x="{at_x(s):.0f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{s}</text>')
    for p in range(0, 101, 20):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at_y(p):.1f}" y2="{at_y(p):.1f}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{at_y(p) + 4:.1f}" text-anchor="end">{p} %</text>')
    for i, (name, goal) in enumerate(zip(names, goals)):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{at_x(row[0]):.1f},{at_y(row[i + 1]):.1f}" for row in rows)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at_y(goal):.1f}" y2="{at_y(goal):.1f}" stroke="{colour}" '
                     f'stroke-dasharray="6 4"/><polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
                     f'<text x="{WIDTH - RIGHT + 24}" y="{TOP + 16 * i}" fill="{colour}">granted {name}</text>')
    return _svg(title, parts)


def _straight(title, series, caption, xs, ys):
    """Straight axes; xs and ys: what is written at each, from the first to the last value. What is outside is left out."""
    at_x = lambda x: LEFT + (x - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - RIGHT - LEFT)
    at_y = lambda y: HEIGHT - BOTTOM - (y - ys[0]) / (ys[-1] - ys[0]) * (HEIGHT - BOTTOM - TOP)
    parts = [f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 12}" text-anchor="middle">{caption}</text>']
    for x in xs:
        parts.append(f'<text x="{at_x(x):.0f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x}</text>')
    for y in ys:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{at_y(y) + 4:.1f}" text-anchor="end">{y} %</text>')
    for i, (label, line) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in line if xs[0] <= x <= xs[-1] and ys[0] <= y <= ys[-1])
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
                     f'<text x="{WIDTH - RIGHT + 24}" y="{TOP + 16 * i}" fill="{colour}">{label}</text>')
    return _svg(title, parts)


def packing(title, series):
    """series: {label: [(percent arrived, percent allocated), ...]}; what is below 80 is left out, as in the paper."""
    return _straight(title, series, "GPUs asked for, percent of the cluster", range(80, 131, 10), range(80, 101, 5))


def hours(title, series):
    """series: {label: [(hour, percent), ...]}."""
    points = [point for line in series.values() for point in line]
    last, most = max(x for x, _ in points), max(y for _, y in points)
    step = max(1, last // 8)
    return _straight(title, series, "hours", range(0, last + step, step), range(0, math.ceil(most) + 1))


def bars(title, values, unit):
    """values: [(label, value), ...]."""
    high, step = max(v for _, v in values), (HEIGHT - TOP - 20) / len(values)
    parts = []
    for i, (label, value) in enumerate(values):
        y, width = TOP + i * step, value / high * (WIDTH - 300)
        parts.append(f'<text x="190" y="{y + step / 2:.1f}" text-anchor="end">{label}</text>'
                     f'<rect x="200" y="{y + 4:.1f}" width="{width:.1f}" height="{step - 10:.1f}" fill="{COLOURS[0]}"/>'
                     f'<text x="{206 + width:.1f}" y="{y + step / 2:.1f}">{value:.0f} {unit}</text>')
    return _svg(title, parts)


def _filter_lines(rows, key):
    """One line for each policy and answer at the fullest cluster, and the floor."""
    fullest, series = max(r["fill"] for r in rows), {}
    for row in rows:
        if row["verb"] == "filter" and row["best"] == "K=16" and row["fill"] == fullest:
            who = "" if row["who"] == "ration" else row["who"] + " "
            series.setdefault(f"{who}{row['policy']}, {row['answer']}", []).append((row["nodes"], row[key]))
            series.setdefault(f"{who}floor {row['policy']}, {row['answer']}", []).append((row["nodes"], row["floor_" + key]))
    return {label: sorted(line) for label, line in series.items()}, fullest


def write_all(folder, results):
    """The names of the files."""
    made = {}
    if results.get("verbs"):
        for key, goal in (("p50", None), ("p99", 2)):
            series, fullest = _filter_lines(results["verbs"], key)
            made[f"bench-filter-{key}.svg"] = lines(f"filter, {fullest} % full, {key}", series, "ms", goal)
    if results.get("bursts"):
        made["bench-pods-per-s.svg"] = bars("pods bound a second", [
            (f"{r['who']}, {r['shape']}", r["pods_per_s"]) for r in results["bursts"]
            if all(r[key] == results["bursts"][0][key] for key in ("nodes", "fill", "pods"))], "/s")
    for name, svg in made.items():
        (folder / name).write_text(svg)
    return list(made)
