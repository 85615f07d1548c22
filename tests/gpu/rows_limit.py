"""The promises about memory: what a run sees, and that it cannot have more than its limit, as another program sees it."""
import os
import re
import signal
import subprocess
import sys
import time

from gpu import HERE, MIB, Broken, NotRun
from rows import row

SECTION = "Memory: the limit of a run"
PIECE_MIB = 16
WAYS = ("linear", "managed", "pitch", "async", "pool", "virtual", "array", "mipmapped", "graph", "captured")
SLACK_MIB = 2    # what a real driver may take beside: a page of the GPU
IN_SHORT = ("linear", "async", "virtual", "graph")


def took(gpu, before):
    """MiB of the GPU beyond `before`, as NVML has it outside of every run."""
    return round(gpu.settled_mib() - before)


def within(gpu, tell, what, held, limit):
    tell.promise(what, f"{held} of {limit}", held <= limit + (0 if gpu.simulated else SLACK_MIB), "MiB")


@row("a run starts", SECTION, 60)
def a_run_starts(gpu, tell):
    done = gpu.limited_process(f"{gpu.limit_mib}MiB", ["cat", "/proc/self/mountinfo"])
    if done.returncode != 0:
        raise Broken((done.stderr.strip() or "ration run says nothing").splitlines()[-1])
    layer = "mount" if re.search(r"libcuda\.so", done.stdout) else "preload"
    tell.number("layer that ration run uses on this machine", layer)
    context = gpu.limited("100%", *gpu.probe("sizes"))
    tell.number("size of the whole GPU in a run", context["nvml_v1"] // MIB, "MiB")
    busy = gpu.nvml.processes(gpu.uuid)
    tell.number("other programs on the GPU meanwhile", "unknown" if busy is None else len(busy))
    pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    tell.number("MPS (shares and time slices are without it)", f"a server at {pipe}" if os.path.exists(pipe) else "none")


@row("each question about the size has the same answer", SECTION, 90)
def sizes(gpu, tell):
    whole = gpu.limited("100%", *gpu.probe("sizes"))["nvml_v1"] // MIB
    for mem, mib in ((f"{gpu.limit_mib}MiB", gpu.limit_mib), ("25%", whole // 4)):
        said = gpu.limited(mem, *gpu.probe("sizes"))
        asked = [key for key in ("cuMemGetInfo", "cuDeviceTotalMem", "nvml_v1", "nvml_v2") if key in said]
        answers = {said[key] / MIB for key in asked}
        shown = mib if answers == {float(mib)} else sorted(answers)
        tell.promise(f"--mem {'2/15' if mem != '25%' else mem} of the GPU: {', '.join(asked)}", shown, answers == {float(mib)}, "MiB")
        tell.promise(f"--mem {'2/15' if mem != '25%' else mem}: free memory is the same by CUDA and NVML and fits",
                     "yes" if said["nvml_v1_free"] == said["cuMemGetInfo_free"] <= mib * MIB else
                     f"{said['cuMemGetInfo_free'] / MIB:.0f} and {said['nvml_v1_free'] / MIB:.0f} MiB",
                     said["nvml_v1_free"] == said["cuMemGetInfo_free"] <= mib * MIB)


def fill(gpu, tell, way, piece_mib, name):
    limit = gpu.limit_mib
    with gpu.anchor():
        before = gpu.settled_mib()
        with gpu.start(f"{limit}MiB", *gpu.probe("fill", piece_mib, way)) as run:
            said = run.line(100)
            held = took(gpu, before)
    tell.promise(f"{name}: CUresult at the limit", said["refusal"], said["refusal"] == 2)
    within(gpu, tell, f"{name}: the GPU's memory that the run holds then", held, limit)
    tell.promise(f"{name}: allocated is at least 3/4 of the limit less a context",
                 said["allocated"] // MIB, said["allocated"] // MIB >= (limit - 512) * 3 // 4, "MiB")
    tell.promise(f"{name}: CUresult after one piece was freed", said["again"], said["again"] == 0)


def add_ways():
    for way in WAYS:
        def ask(gpu, tell, way=way):
            fill(gpu, tell, way, PIECE_MIB, way)
        row(f"filled by {way}", SECTION, 120, short=way in IN_SHORT)(ask)
    row("filled by pieces of 1 MiB, two in a block", SECTION, 120)(
        lambda gpu, tell: fill(gpu, tell, "linear", 1, "1 MiB pieces"))


add_ways()


@row("requests that no GPU can meet", SECTION)
def huge(gpu, tell):
    plain, limited = gpu.plain(*gpu.client("huge")), gpu.limited(f"{gpu.limit_mib}MiB", *gpu.client("huge"))
    tell.fact("CUresult of 0, 2^40, 2^63 - 1 and 2^64 - 1 bytes", plain["codes"])
    tell.promise("the same in a run", limited["codes"], limited["codes"] == plain["codes"])


@row("contexts", SECTION, 120)
def contexts(gpu, tell):
    """As many as there is room for, then CUDA_ERROR_OUT_OF_MEMORY, as on a full GPU."""
    with gpu.anchor():
        before = gpu.settled_mib()
        with gpu.start_plain(*gpu.client("contexts", 1)) as one:
            one.line()
            cost = took(gpu, before)
        before = gpu.settled_mib()
        limit = cost * 3 + cost // 2
        with gpu.start(f"{limit}MiB", *gpu.client("contexts", 64)) as run:
            said = run.line(100)
            held = took(gpu, before)
            tell.promise("64 contexts where three and a half fit: CUresult of the first that does not", said["refusal"], said["refusal"] == 2)
            tell.number("contexts made until then (further ones of a process may take less than the first)", said["made"])
            within(gpu, tell, "the GPU's memory that they take", held, limit)
            run.go()
            run.line()
            held = took(gpu, before)
            within(gpu, tell, "and with what can be allocated beside them", held, limit)


@row("threads that allocate and free at the limit", SECTION, 120)
def storm(gpu, tell):
    limit = gpu.limit_mib
    with gpu.anchor():
        before = gpu.settled_mib()
        with gpu.start(f"{limit}MiB", *gpu.probe("storm", 2 if gpu.short else 5, 16)) as run:
            said = run.line(100)
            held = took(gpu, before)
    tell.promise("16 threads: results other than success and out of memory", said["other"], said["other"] == 0)
    within(gpu, tell, "the GPU's memory that the run holds when it is filled afterwards", held, limit)
    tell.number("calls per second of the 16 threads", round(said["calls"] / (2 if gpu.short else 5)))


@row("processes of one run", SECTION, 120)
def processes(gpu, tell):
    """Four at once in one run, filling; then what they hold together, and what one of them leaves when it is killed."""
    limit = gpu.limit_mib * 2
    program = [str(HERE / "crowd.py"), "4", *gpu.probe("fill", PIECE_MIB)]
    with gpu.anchor():
        before = gpu.settled_mib()
        with gpu.start(f"{limit}MiB", sys.executable, *program) as run:
            said = [run.line(100) for _ in range(4)]
            held = took(gpu, before)
            within(gpu, tell, "4 processes that fill: memory of the GPU that they hold", held, limit)
            tell.promise("each ends with out of memory", [one["refusal"] for one in said], all(o["refusal"] == 2 for o in said))
            run.go()
            run.line()
            left = took(gpu, before)
            tell.number("held after one of them got SIGKILL", left, "MiB")
            run.go()
            run.line(100)
            again = took(gpu, before)
            tell.promise("a fifth process fills what the killed one had: held again", again, again >= held - 4 * PIECE_MIB, "MiB")
            within(gpu, tell, "memory of the GPU that the run holds then", again, limit)


@row("a neighbour's memory while others run out of theirs and are killed", SECTION, 120)
def neighbour(gpu, tell):
    mem, part = (1024, 128) if gpu.in_memory else (gpu.limit_mib, gpu.limit_mib // 4)
    with gpu.start(f"{mem}MiB", *gpu.probe("hold", part)) as held:
        held.line()
        first = gpu.limited(f"{mem}MiB", *gpu.probe("fill", PIECE_MIB))
        with gpu.start(f"{mem}MiB", *gpu.probe("hold", part)) as killed:
            killed.line()
            killed.process.send_signal(signal.SIGKILL)
            killed.process.wait(30)
        again = gpu.limited(f"{mem}MiB", *gpu.probe("fill", PIECE_MIB))
        held.go()
        wrong = held.line()["wrong"]
    tell.promise("the neighbour's bytes that changed", wrong, wrong == 0)
    tell.promise("allocated by the next run, compared with the one before the kill", (again["allocated"] - first["allocated"]) // MIB,
                 abs(again["allocated"] - first["allocated"]) <= PIECE_MIB * MIB, "MiB")


@row("free memory after a context has ended", SECTION, 60)
def after_context(gpu, tell):
    with gpu.start(f"{gpu.limit_mib}MiB", *gpu.client("memory_after_context")) as run:
        before = run.line()["free"]
        run.go()
        during = run.line()["free"]
        run.go()
        after = run.line()["free"]
        time.sleep(0.3)
        run.go()
        later = run.line()["free"]
    tell.promise("a second context makes free memory smaller", (before - during) // MIB, during < before, "MiB")
    tell.number("free memory that is missing right after its end", (before - after) // MIB, "MiB")
    tell.promise("missing 0.3 s after its end", (before - later) // MIB, abs(before - later) <= 2 * MIB, "MiB")


@row("a program in a pid namespace of its own", SECTION, 60)
def pid_namespace(gpu, tell):
    if subprocess.run(["unshare", "-pf", "true"], capture_output=True, check=False).returncode != 0:
        raise NotRun("unshare -pf is not permitted here")
    limit = gpu.limit_mib
    with gpu.anchor():
        before = gpu.settled_mib()
        with gpu.start(f"{limit}MiB", "unshare", "-pf", "--kill-child", *gpu.probe("fill", PIECE_MIB)) as run:
            run.line(100)
            held = took(gpu, before)
    within(gpu, tell, "memory of the GPU that it holds", held, limit)
    with gpu.start(f"{limit}MiB", sys.executable, str(HERE / "crowd.py"), "after", "unshare", "-pf", "--kill-child",
                   *gpu.probe("fill", PIECE_MIB), "--", *gpu.probe("fill", PIECE_MIB)) as run:
        first, second = run.line(100), run.line(100)
    tell.promise("after its SIGKILL the next process of the run can allocate as much", second["allocated"] // MIB,
                 second["allocated"] >= first["allocated"] - 64 * MIB, "MiB")


@row("a green context", SECTION, 60)
def green(gpu, tell):
    limit = gpu.limit_mib
    plain = gpu.plain(*gpu.client("green"))
    tell.fact("where making one stops", plain["stopped"] or "nowhere")
    with gpu.anchor():
        before = gpu.settled_mib()
        with gpu.start(f"{limit}MiB", *gpu.client("green")) as run:
            said = run.line()
            held = took(gpu, before)
    # The shim has the functions of later drivers, too, which then say CUDA_ERROR_NOT_SUPPORTED.
    tell.promise("in a run it stops at the same call", said["stopped"] or "nowhere",
                 said["stopped"].split(" ")[0] == plain["stopped"].split(" ")[0])
    if not said["stopped"]:
        within(gpu, tell, "memory of the GPU that it can fill", held, limit)


@row("PyTorch", SECTION, 180, short=False)
def torch(gpu, tell):
    if gpu.simulated:
        raise NotRun("the CUDA runtime does not start on the simulated driver")
    ready = gpu.plain_process([gpu.python, "-c", "import torch; torch.zeros(1, device='cuda')"], 120)
    if ready.returncode != 0:
        raise NotRun(f"{gpu.python} has no PyTorch that works here: {(ready.stderr.strip() or 'no reason').splitlines()[-1]}")
    limit = min(4096, gpu.total_mib // 2)
    script = [gpu.python, str(HERE / "torch_probe.py")]
    said = gpu.limited(f"{limit}MiB", *script, "sizes", seconds=90)
    tell.promise("sizes that PyTorch sees", [said["total"] // MIB, said["properties"] // MIB],
                 said["total"] == said["properties"] == limit * MIB, "MiB")
    for allocator, env in (("native", {}), ("expandable", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
                           ("async", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})):
        said = gpu.limited(f"{limit}MiB", *script, "fill", "64", env=env, seconds=90)
        tell.promise(f"{allocator}: its error at the limit, and it goes on", said["exception"],
                     said["exception"] == "OutOfMemoryError" and said["again"] and said["sum"] == 64 * MIB / 4)
        tell.promise(f"{allocator}: allocated", said["allocated"] // MIB, limit // 2 * MIB < said["allocated"] <= limit * MIB, "MiB")
    steps = [gpu.plain(*script, "train", "50")["step_ms"], gpu.limited(f"{limit}MiB", *script, "train", "50")["step_ms"]]
    tell.number("a training step without ration", round(steps[0], 3), "ms")
    tell.number("a training step in a run", round(steps[1], 3), "ms")
