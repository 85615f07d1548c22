"""What the shim costs: by turns without and with it."""
import statistics

from rows import row

SECTION = "Cost: without ration and in a run, by turns, medians"
NOISE_NS = 5000


def by_turns(gpu, key, program, core=None):
    rounds = 3 if gpu.short else 5
    plain, limited = [], []
    for _ in range(rounds):
        plain.append(gpu.plain(*program)[key])
        limited.append(gpu.limited("50%", *program, core=core)[key])
    return statistics.median(plain), statistics.median(limited), statistics.median(b - a for a, b in zip(plain, limited))


def compare(gpu, tell, what, key, program, goal, core=None):
    plain, limited, added = by_turns(gpu, key, program, core)
    tell.number(f"{what}: without", round(plain), "ns")
    tell.number(f"{what}: in a run", round(limited), "ns")
    tell.number(f"{what}: added (goal {goal} ns)", round(added), "ns")
    if not gpu.simulated:
        tell.promise(f"{what}: less is added than noise explains", round(added), added < NOISE_NS + plain / 2, "ns")


@row("a launch", SECTION, 90)
def launch(gpu, tell):
    program = gpu.probe("launch", 2000 if gpu.simulated else 100_000)
    compare(gpu, tell, "launch, until it is asked for", "asked_ns", program, 15)
    compare(gpu, tell, "launch, until all is done", "done_ns", program, 15)
    compare(gpu, tell, "launch under --core 100", "asked_ns", program, 60, core=100)


@row("a launch of a graph", SECTION, 90, short=False)
def graph(gpu, tell):
    program = gpu.probe("graphs", 1000 if gpu.simulated else 50_000)
    compare(gpu, tell, "graph of one kernel, until it is asked for", "asked_ns", program, 15)


@row("an allocation and its free", SECTION, 120)
def pairs(gpu, tell):
    compare(gpu, tell, "4 KiB", "pair_ns", gpu.probe("pairs", 2000, 4096), 200)
    compare(gpu, tell, "16 MiB", "pair_ns", gpu.probe("pairs", 200, 16 << 20), 200)
    compare(gpu, tell, "64 KiB of a pool", "pair_ns", gpu.probe("pairs", 1000, 65536, "async"), 200)


@row("the beginning of a program", SECTION, 90)
def start(gpu, tell):
    program = gpu.client("load")
    for key, what in (("init_ms", "loading the library and cuInit"), ("context_ms", "the first context")):
        plain, limited, added = by_turns(gpu, key, program)
        tell.number(f"{what}: without", round(plain, 2), "ms")
        tell.number(f"{what}: in a run", round(limited, 2), "ms")
        tell.number(f"{what}: added", round(added, 2), "ms")
