"""Part d: what the shim costs a program, over a simulated driver whose calls do nothing, without and with it by turns."""
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from .programs import BenchError, build, wait_until

LIMIT = "512GiB"    # of a GPU of 1 TiB: 100,000 allocations in each of 64 processes fit
GPU = "1x1048576MiB"
LIVE = (1, 1000, 100000)
SMALL, LARGE = 4096, 2 << 20    # one shares a block with others, one is charged by itself
PLAIN_MORE = 20
INIT_MORE = 5    # a round of one process is one sample
PRELOADED = {"nothing": (), "the driver": ("tree/lib/libcuda.so.1",), "the shim": ("shim/libcuda.so.1",),
             "both shims": ("shim/libcuda.so.1", "shim/libnvidia-ml.so.1")}
LAYERS = ("preload", "mount")
CONTROLLED = ("--core", "100", "--policy", "3")


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


class Machine:
    """A driver tree, and a registry of runs of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.tree = folder / "tree"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("RATION_", "CUDA_", "LD_"))}
        self.env.update(RATION_SIM_DO_NOTHING="1", RATION_RUNS=str(folder / "runs"))

    def __enter__(self):
        (self.folder / "runs").mkdir()
        (self.folder / "shim").symlink_to(build() / "src/shim")
        self._sim("up", self.tree, "--gpus", GPU)
        return self

    def __exit__(self, *_):
        self._sim("down", self.tree)
        wait_until(lambda: not list((self.folder / "runs").iterdir()), 5, "the keepers end")

    def _sim(self, *args):
        done = subprocess.run([build() / "sim/ration-sim", *args], env=self.env, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise BenchError(f"ration-sim {args[0]}: {done.stderr.strip()}")

    def calls(self, processes, limited, options=()):
        return Calls(self, processes, limited, options)

    def run(self, *program, options=()):
        return [str(build() / "src/cli/ration"), "run", "--mem", LIMIT, "--driver", str(self.tree / "lib"), *options,
                "--", *program]

    def starts(self, program):
        """(arguments, environment) by name, for a program that never calls CUDA."""
        made = {name: ([program], self.env | ({"LD_PRELOAD": " ".join(str(self.folder / n) for n in names)}
                                              if names else {})) for name, names in PRELOADED.items()}
        runs = {f"ration run, {layer}": (self.run(program, options=["--layer", layer]), self.env) for layer in LAYERS}
        return made | {name: (argv, env) for name, (argv, env) in runs.items() if self._works(argv, env)}

    @staticmethod
    def _works(argv, env):
        """Whether this user may mount."""
        return subprocess.run(argv, env=env, capture_output=True, check=False).returncode == 0


class Calls:
    """bench-calls with `processes` processes in one container, under the shim or on the driver itself."""

    def __init__(self, machine, processes, limited, options=()):
        argv = [str(build() / "bench/bench-calls"), str(processes)]
        env = dict(machine.env)
        if limited:
            argv = machine.run(*argv, options=options)
        else:
            env["LD_LIBRARY_PATH"] = str(machine.tree / "lib")
        self.processes = processes
        self.process = subprocess.Popen(argv, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def ask(self, *words):
        try:
            print(*words, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass    # why is on its standard error
        line = self.process.stdout.readline()
        if not line:
            raise BenchError(f"bench-calls, {' '.join(map(str, words))}: {self.process.stderr.read().strip()}")
        return json.loads(line)

    def ns(self, *words):
        """Of a processor for one call, and how often a process waited. Unlike the time that passes, this hardly
        depends on what else runs: with more processes than processors that is, first of all, the other processes."""
        answer = self.ask(*words)
        return sum(answer["cpu"]) / (self.processes * words[1]), sum(answer["waits"])


def by_turns(rounds, without, limited):
    """Calls both `rounds` times, each first every other time; (results without, with)."""
    results = ([], [])
    for i in range(rounds):
        for which in (0, 1) if i % 2 else (1, 0):
            results[which].append((without, limited)[which]())
    return results


def row(what, results, **more):
    plain, limited = ([ns for ns, _ in side] for side in results)
    added = [b - a for a, b in zip(plain, limited)]
    return {"what": what, **more, "without": statistics.median(plain), "with": statistics.median(limited),
            "added": statistics.median(added), "added_p90": percentile(added, 0.9),
            "waits": statistics.median(waits for _, waits in results[1]), "rounds": len(added)}


def repeated(machine, processes, rounds, work, rows):
    """Launches, and pairs of an allocation and its free, with more and more allocations that stay."""
    with machine.calls(processes, False) as plain, machine.calls(processes, True) as limited:
        for group in (plain, limited):
            group.ask("init")

        def measure(what, verb, count, *size, **more):
            # Without the shim a call is a few ns: more of them, so that starting all processes at once is no part of it.
            rows.append(row(what, by_turns(rounds, lambda: plain.ns(verb, count * PLAIN_MORE, *size),
                                           lambda: limited.ns(verb, count * (PLAIN_MORE if not size else 1), *size)),
                            processes=processes, **more))

        measure("cuLaunchKernel", "launch", work * 2)
        measure("cuMemAllocAsync + cuMemFreeAsync, 2 MiB", "async", work // 4, LARGE, live=0)
        live = 0
        for more in LIVE:
            for group in (plain, limited):
                group.ask("fill", more - live, SMALL)
            live = more
            measure("cuMemAlloc + cuMemFree, 4 KiB", "pairs", work, SMALL, live=live)
            measure("cuMemAlloc + cuMemFree, 2 MiB", "pairs", work, LARGE, live=live)
            measure("cuMemAlloc + cuMemFree of the oldest, 4 KiB", "turns", work, SMALL, live=live)


def controlled(machine, processes, rounds, work, rows):
    """Launches that are charged, with a share that makes no process wait."""
    with machine.calls(processes, False) as plain, machine.calls(processes, True, CONTROLLED) as limited:
        for group in (plain, limited):
            group.ask("init")
        count = work * 2 * PLAIN_MORE
        results = by_turns(rounds, lambda: plain.ns("launch", count), lambda: limited.ns("launch", count))
        rows.append(row("cuLaunchKernel, computing power controlled", results, processes=processes))


def start(machine, processes, rounds):
    """cuInit in processes that all call it for the first time at the same moment, in milliseconds."""
    def once(limited):
        with machine.calls(processes, limited) as group:
            answer = group.ask("init")
            return {k: [ns / 1e6 for ns in answer[k]] for k in ("took", "took_with_load", "cpu")}

    results = by_turns(rounds, lambda: once(False), lambda: once(True))
    made = {"processes": processes, "rounds": rounds}
    for key in ("took", "took_with_load", "cpu"):
        plain, limited = ([ms for answer in side for ms in answer[key]] for side in results)
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            made |= {f"{key}_{name}_without": percentile(plain, share), f"{key}_{name}": percentile(limited, share),
                     f"{key}_{name}_added": percentile(limited, share) - percentile(plain, share)}
    return made


def spawn(argv, env, times):
    """Milliseconds from start to end, one after the other."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    began = time.monotonic()
    for _ in range(times):
        _, status = os.waitpid(os.posix_spawn(argv[0], argv, env, file_actions=quiet), 0)
        if status != 0:
            raise BenchError(f"{' '.join(argv)}: status {status}")
    return (time.monotonic() - began) / times * 1e3


def never_calls(machine, rounds, times):
    """What a program that never calls CUDA has of it: resident memory and how long it lives."""
    starts = machine.starts(str(build() / "bench/bench-start"))
    took = {name: [] for name in starts}
    for i in range(rounds):
        for name in list(starts) if i % 2 else reversed(starts):
            took[name].append(spawn(*starts[name], times))
    memory = {name: [tuple(map(int, subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
                                            .stdout.split())) for _ in range(rounds)]
              for name, (argv, env) in starts.items()}
    rows = []
    for name in starts:
        rss, own = (statistics.median(column) for column in zip(*memory[name]))
        rows.append({"under": name, "rss_kib": rss, "own_kib": own, "lives_ms": statistics.median(took[name]),
                     "added_ms": statistics.median(b - a for a, b in zip(took["nothing"], took[name]))})
    return [row | {"added_rss_kib": row["rss_kib"] - rows[0]["rss_kib"],
                   "added_own_kib": row["own_kib"] - rows[0]["own_kib"]} for row in rows]


def run(quick, results, say):
    """Fills results["shim"], ["shim_init"] and ["shim_idle"] as the rows come."""
    rounds, work, crowds = (3, 500, (1, 8)) if quick else (20, 5000, (1, 8, 64))
    results["shim"], results["shim_init"] = [], []
    with tempfile.TemporaryDirectory(prefix="bench-shim-") as folder, Machine(Path(folder)) as machine:
        for processes in crowds:
            say(f"the shim, {processes} processes in a container")
            repeated(machine, processes, rounds, work * 4 if processes == 1 else work, results["shim"])
            controlled(machine, processes, rounds, work, results["shim"])
            results["shim_init"].append(start(machine, processes, rounds * (INIT_MORE if processes == 1 else 1)))
        say("the shim in a program that never calls CUDA")
        results["shim_idle"] = never_calls(machine, rounds, 2 if quick else 5)
