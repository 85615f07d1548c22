"""What the simulated driver assumes about memory, asked of the driver itself, without ration. Each step is measured from
outside by NVML (docs/internals/simulated-card.md, docs/internals/charging.md)."""
import time

from gpu import MIB
from rows import row

SECTION = "Memory: what the simulation assumes of the driver"
CURVE = [(512, 4096), (1024, 2048), (4096, 4096), (65535, 256), (65536, 256), (65537, 256), (1 << 20, 32),
         ((1 << 20) + 1, 16), (2 * MIB - 1, 16), (2 * MIB, 16), (2 * MIB + 1, 8), (4 * MIB + 1, 8), (16 * MIB, 4)]


class Steps:
    """The GPU's memory after each step of a client, less what it was after the first."""

    def __init__(self, gpu, talk):
        self.gpu, self.talk = gpu, talk
        self.first = talk.line()
        self.base = gpu.settled_mib()

    def next(self):
        self.talk.go()
        said = self.talk.line()
        return said, round(self.gpu.settled_mib() - self.base)


@row("small allocations", SECTION)
def small(gpu, tell):
    said = gpu.plain(*gpu.client("small"))
    tell.fact("distance of two allocations of 1 byte", said["step"], unit="bytes")
    tell.fact("blocks of 2 MiB that 8 allocations of 512 KiB lie in", said["block"])
    tell.fact("blocks of 2 MiB that 4 allocations of 1 MiB and a byte lie in", said["over"])
    tell.fact("allocations over 1 MiB begin at 2 MiB", said["over_aligned"])


@row("what allocations take, by size", SECTION, 120)
def curve(gpu, tell):
    for size, count in CURVE[::3] if gpu.quick else CURVE:
        taken = gpu.plain(*gpu.probe("curve", size, count))
        charged = gpu.limited("50%", *gpu.probe("curve", size, count))
        tell.fact(f"{count} of {size} bytes take", taken["taken"], unit="bytes")
        tell.promise(f"{count} of {size} bytes: charged is no less than taken, and all is given back",
                     charged["taken"], charged["taken"] >= taken["taken"] and charged["left"] == 0, "bytes")


@row("what contexts take", SECTION, 90)
def contexts(gpu, tell):
    before = gpu.settled_mib()
    with gpu.anchor():
        first = gpu.settled_mib()
        tell.number("the first context on the GPU, with what the driver keeps for itself", round(first - before), "MiB")
        with gpu.start_plain(*gpu.client("contexts", 3)) as talk:
            talk.line()
            second = gpu.settled_mib()
            tell.fact("the first context of a second process", round(second - first), 0.1, "MiB")
            steps = []
            for _ in range(2):
                talk.go()
                talk.line()
                now = gpu.settled_mib()
                steps.append(round(now - second))
                second = now
            tell.fact("each further context of a process", steps, unit="MiB")
            busy = gpu.nvml.processes(gpu.uuid)
            tell.fact("NVML knows the process by its own number", busy is not None and talk.pid in busy)
            if busy and talk.pid in busy:
                tell.fact("NVML's memory of the process is what the GPU lost by it",
                          abs(busy[talk.pid] / MIB - (second - first)) <= 4)
            began = time.monotonic()
            talk.process.kill()
        while gpu.used_mib() > first + 1 and time.monotonic() - began < 10:
            time.sleep(0.002)
        tell.number("ms from SIGKILL until the memory is back", round((time.monotonic() - began) * 1e3), "ms")
        tell.fact("SIGKILL gives all of it back within a second", time.monotonic() - began < 1)


@row("modules, kernels, local memory", SECTION, 90)
def modules(gpu, tell):
    with gpu.anchor(), gpu.start_plain(*gpu.client("modules")) as talk:
        steps, last = Steps(gpu, talk), 0
        for what in ("a module with a table of 4 MiB takes", "its first kernel takes", "a kernel with 8 KiB of local memory a thread takes",
                     "cuCtxSetLimit of the malloc heap to 256 MiB takes", "unloading the module gives"):
            now = steps.next()[1]
            tell.fact(what, now - last, 0.1, "MiB")
            last = now


@row("memory pools", SECTION, 90)
def pools(gpu, tell):
    with gpu.anchor(), gpu.start_plain(*gpu.client("pools")) as talk:
        steps = Steps(gpu, talk)
        for _ in range(6):
            said, taken = steps.next()
            tell.fact(f"{said['step']}: reserved, used, taken of the GPU", [said["reserved"] // MIB, said["used"] // MIB, taken],
                      unit="MiB")


@row("graphs with allocation nodes", SECTION, 90)
def graphs(gpu, tell):
    with gpu.anchor(), gpu.start_plain(*gpu.client("graphs")) as talk:
        steps = Steps(gpu, talk)
        for _ in range(7):
            said, taken = steps.next()
            if "code" in said:
                tell.fact("memory of a graph that was destroyed can still be freed: CUresult", said["code"])
            else:
                tell.fact(f"{said['step']}: reserved, used, taken of the GPU",
                          [said["reserved"] // MIB, said["used"] // MIB, taken], unit="MiB")


@row("managed memory (UVM)", SECTION, 120)
def managed(gpu, tell):
    """Never more than a tenth of what is free: a driver may hang that is asked for more than it has."""
    size = 64 if gpu.in_memory else min(1024, gpu.limit_mib // 4)
    with gpu.anchor(), gpu.start_plain(*gpu.client("managed", size)) as talk:
        steps = Steps(gpu, talk)
        for _ in range(5):
            said, taken = steps.next()
            tell.fact(f"{said['step']}: part of it that is taken of the GPU", round(taken / size, 1))
    limit = gpu.limit_mib
    with gpu.anchor():
        before = gpu.settled_mib()
        with gpu.start(f"{limit}MiB", *gpu.client("managed", size)) as talk:
            talk.line()
            for _ in range(2):
                talk.go()
                talk.line()
            held = round(gpu.settled_mib() - before)
            tell.promise("prefetched in a run: memory of the GPU", f"{held} of {limit}", held <= limit, "MiB")
        with gpu.start(f"{limit}MiB", *gpu.client("managed", limit + 64)) as talk:
            talk.line()
            talk.go()
            code = talk.line()["code"]
    tell.promise("more managed memory than the limit: CUresult", code, code == 2)


@row("virtual memory", SECTION, 60)
def virtual(gpu, tell):
    with gpu.anchor(), gpu.start_plain(*gpu.client("virtual")) as talk:
        steps = Steps(gpu, talk)
        tell.fact("granularity, least and recommended", [steps.first["least"] // MIB, steps.first["best"] // MIB], unit="MiB")
        for _ in range(3):
            said, taken = steps.next()
            tell.fact(f"64 MiB {said['step']}: taken of the GPU", taken, unit="MiB")


@row("arrays", SECTION, 60)
def arrays(gpu, tell):
    with gpu.anchor(), gpu.start_plain(*gpu.client("arrays")) as talk:
        steps, last = Steps(gpu, talk), 0
        for _ in range(3):
            said, taken = steps.next()
            tell.fact(f"{said['step']} take", taken - last, 0.05, "MiB")
            last = taken
