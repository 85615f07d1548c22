"""One round of the campaign: a simulated GPU of exactly the sum of the grants, a run that does everything that its seed
says, neighbours that want all of their grants, and a watch on the driver from outside."""
import dataclasses
import json
import os
import pathlib
import random
import select
import shutil
import subprocess
import tempfile
import time

MIB = 1 << 20
PIECE_MIB = 16
SPARE_MIB = 64      # a program that stays so far below its limit is never refused
STEP_MIB = 32       # of a pool: a run may be above its limit by so much at any time
LAST_PIECES_MS = 1000
PATIENCE_S = 60

CALLS = ["alloc", "pitch", "managed", "array", "mipmap", "virtual", "async", "pool", "graph", "capture", "ipc", "context",
         "module", "limit", "child"]
GROUPS = {"allocs": ["alloc", "pitch", "managed"], "arrays": ["array", "mipmap"], "pools": ["async", "pool"],
          "graphs": ["graph", "capture"], "contexts": ["context"], "modules": ["module"], "limits": ["limit"],
          "children": ["child"]}
HAPPENINGS = ["kills", "forks", "namespaces"]    # beside the calls


class Stuck(Exception):
    """A program did not say in time what it was asked."""


@dataclasses.dataclass
class Round:
    """What a seed draws."""
    seed: int
    seconds: float
    without: frozenset = frozenset()
    unit_mib: int = 1    # grants are multiples of it

    def __post_init__(self):
        draw = random.Random(self.seed)
        self.processes = draw.randint(1, 8)
        self.threads = draw.choice([2, 4, 8, 16, 32])
        self.context_mib = draw.choice([60, 150, 300])
        self.limit_mib = self.in_units(self.context_mib * (self.processes + 1) + PIECE_MIB * draw.randint(30, 200))
        self.neighbours = [self.in_units(self.context_mib + PIECE_MIB * draw.randint(10, 60))
                           for _ in range(draw.randint(1, 4))]
        self.budget_mib = self.limit_mib - SPARE_MIB if draw.random() < 0.3 else 0
        self.kill_ms = draw.choice([0, 300, 1000])
        self.namespaces = draw.choice([0, 0, 30, 100])
        self.forks = draw.random() < 0.6
        self.largest_mib = draw.choice([64, self.limit_mib // 8, self.limit_mib // 3, self.limit_mib])
        # All threads together make as many calls as 64 do: others have to get a processor, too.
        self.nap_us = draw.choice([1000, 4000]) * max(64, self.processes * self.threads) // 64
        if "kills" in self.without:
            self.kill_ms = 0
        if "namespaces" in self.without:
            self.namespaces = 0
        if "forks" in self.without:
            self.forks = False

    def in_units(self, mib):
        return -(-mib // self.unit_mib) * self.unit_mib

    @property
    def calls(self):
        return [call for call in CALLS if call not in self.without]

    def describe(self):
        parts = [f"{self.processes}x{self.threads}", f"limit {self.limit_mib}", f"context {self.context_mib}",
                 f"neighbours {'+'.join(map(str, self.neighbours))}"]
        parts += ["64 below"] if self.budget_mib else ["at the limit"]
        parts += [f"kills {self.kill_ms} ms"] if self.kill_ms else []
        parts += [f"pid namespaces {self.namespaces} %"] if self.namespaces else []
        parts += ["forks"] if self.forks else []
        return ", ".join(parts)


class Program:
    """A program that says a word and a number a line, and goes on when it is told."""

    def __init__(self, command, env, errors):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=errors, env=env)
        self.lines = []

    def say(self, line=""):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def hear(self, word, seconds=PATIENCE_S):
        """The rest of the next line that begins with this word; the lines before it are kept in `lines`."""
        deadline = time.monotonic() + seconds
        while True:
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise Stuck(f"{word}: no answer in {seconds} s")
            line = self.line()
            first, _, rest = line.partition(" ")
            if first == word:
                return rest
            self.lines.append(line)

    def line(self):
        line = b""
        while not line.endswith(b"\n"):    # not readline(): select() does not see what that keeps
            byte = os.read(self.process.stdout.fileno(), 1)
            if not byte:
                raise Stuck("the program has ended")
            line += byte
        return line.decode().strip()

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Field:
    """Driver tree, registry of runs, and the programs of one round."""

    look_ms = 100     # in which the monitor of a run looks
    settle_s = 0.3    # some of them

    def __init__(self, build, tested, drawn):
        self.build, self.tested, self.drawn = build, tested, drawn
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="ration-campaign-", dir="/tmp"))
        self.path.chmod(0o755)
        self.tree = self.path / "tree"
        self.errors = (self.path / "errors").open("w+")
        self.programs = []
        (self.path / "runs").mkdir()

    def __enter__(self):
        drawn = self.drawn
        gpus = self.path / "gpus.json"
        gpus.write_text(json.dumps({"gpus": [{"memoryMiB": self.memory_mib(), "contextMiB": drawn.context_mib}],
                                    "driverVersion": "580.65.06"}))
        subprocess.run([self.tested / "sim/ration-sim", "up", self.tree, "--gpus-file", gpus], check=True,
                       stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *details):
        for program in reversed(self.programs):
            program.end()
        subprocess.run([self.tested / "sim/ration-sim", "down", self.tree], check=False, stdout=subprocess.DEVNULL)
        self.close()

    def close(self):
        self.errors.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def memory_mib(self):
        return self.drawn.limit_mib + sum(self.drawn.neighbours)

    def start(self, *command, **env):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RATION_", "CUDA_", "LD_"))}
        program = Program(command, kept | env, self.errors)
        self.programs.append(program)
        return program

    def granted(self, role, mib, *arguments):
        """The client under `ration run`."""
        return self.start(self.tested / "src/cli/ration", "run", "--mem", f"{mib}MiB", "--driver", self.tree / "lib",
                          "--layer", "mount", "--", self.build / "tests/campaign/campaign-client", *arguments,
                          RATION_RUNS=str(self.path / "runs"), RATION_CAMPAIGN=role)

    def watch(self, roles):
        return self.start(self.build / "tests/campaign/campaign-watch", self.tree,
                          *(f"{role}={mib}" for role, mib in roles.items()))

    def said(self):
        self.errors.seek(0)
        return self.errors.read().splitlines()


def mark(watch):
    watch.say("mark")
    return json.loads(watch.line())


class Result:
    def __init__(self, drawn, look_ms):
        self.drawn, self.look_ms = drawn, look_ms
        self.violations = []
        self.refusals = []
        self.counts = {}
        self.most_mib = self.longest_ms = self.gap_ms = 0
        self.samples = 0

    def wrong(self, text):
        self.violations.append(text)

    def refused(self, text):
        """Too little, which is judged unless --above-only."""
        self.refusals.append(text)

    def judge_stretch(self, report, when):
        """No run was above its limit and a pool's step for longer than one look."""
        self.samples += report["samples"]
        self.gap_ms = max(self.gap_ms, report["longestGapMs"])
        for role, seen in report.items():
            if not isinstance(seen, dict):
                continue
            above = (seen["most"] - seen["limit"]) / MIB
            if role == "hostile":
                self.most_mib = max(self.most_mib, above)
                self.longest_ms = max(self.longest_ms, seen["longestMs"])
            if seen["longestMs"] > self.look_ms:
                self.wrong(f"{role} {when}: {(seen['longestMost'] - seen['limit']) / MIB:.0f} MiB above its limit, for "
                           f"{seen['longestMs']:.0f} ms")

    def judge_now(self, report, when):
        for role, seen in report.items():
            if isinstance(seen, dict) and seen["now"] > seen["limit"]:
                self.wrong(f"{role} {when}: {(seen['now'] - seen['limit']) / MIB:.0f} MiB above its limit")

    def judge_cycles(self, name, lines):
        """What a neighbour wants it has at once, or when its neighbour has given back what a look allows it. It waits
        longer for no more than a run may be above its limit at any time."""
        for line in lines:
            word, *numbers = line.split()
            if word != "cycle":
                continue
            got, late, ms = map(int, numbers)
            expected = int(name.partition(" of ")[2])
            if got < expected:
                self.wrong(f"neighbour had {got} of {expected} pieces after {ms} ms")
            elif ms > (self.look_ms if late * PIECE_MIB > STEP_MIB else LAST_PIECES_MS):
                self.wrong(f"neighbour waited {ms} ms for {late} of {expected} pieces")


def settled(field, result, watch, when):
    result.judge_stretch(mark(watch), when)
    time.sleep(field.settle_s)
    report = mark(watch)
    result.judge_now(report, when)
    return report


def judge_fill(result, pieces, report, when):
    """A fill comes to the limit, and not above it."""
    left = (report["hostile"]["limit"] - report["hostile"]["now"]) / MIB
    if pieces < 0:
        result.refused(f"hostile {when}: nothing, error {-pieces}")
    elif left >= SPARE_MIB:
        result.refused(f"hostile {when}: {pieces} pieces, and {left:.0f} MiB below its limit it is refused")


def play(field, result):
    drawn = field.drawn
    expected = [(mib - drawn.context_mib) // PIECE_MIB for mib in drawn.neighbours]
    roles = {f"neighbour{i}": mib for i, mib in enumerate(drawn.neighbours)}
    watch = field.watch({"hostile": drawn.limit_mib} | roles)
    neighbours = [field.granted(role, mib, "neighbour", pieces)
                  for (role, mib), pieces in zip(roles.items(), expected)]
    for neighbour in neighbours:
        neighbour.hear("ready")
    hostile = field.granted(
        "hostile", drawn.limit_mib, "--seed", drawn.seed, "--threads", drawn.threads, "--processes", drawn.processes,
        "--ms", int(drawn.seconds * 1000), "--kill-ms", drawn.kill_ms, "--namespaces", drawn.namespaces,
        "--kinds", ",".join(drawn.calls), "--budget-mib", drawn.budget_mib, "--largest-mib", drawn.largest_mib,
        "--context-mib", drawn.context_mib, "--nap-us", drawn.nap_us, *(["--forks"] if drawn.forks else []))
    hostile.hear("ready")
    result.counts = json.loads(hostile.hear("counts", drawn.seconds + PATIENCE_S))
    hostile.hear("held")
    settled(field, result, watch, "in the mix")
    for when in ("filled over what it holds", "filled after it freed all"):
        hostile.say()
        if when.endswith("all"):
            hostile.hear("freed")
            settled(field, result, watch, "freed")
            hostile.say()
        pieces = int(hostile.hear("filled"))
        report = settled(field, result, watch, when)
        if pieces >= 0 and when.endswith("all"):
            judge_fill(result, pieces, report, when)
    hostile.say()
    pieces = int(hostile.hear("filled"))
    for neighbour, want in zip(neighbours, expected):
        neighbour.say()
    for neighbour, want in zip(neighbours, expected):
        got = int(neighbour.hear("filled"))
        result.judge_cycles(f"pieces of {want}", neighbour.lines)
        if got != want:
            result.wrong(f"neighbour at the end: {got} of {want} pieces")
    report = settled(field, result, watch, "a new program")
    want = (drawn.limit_mib - drawn.context_mib) // PIECE_MIB
    if pieces > want:
        result.wrong(f"hostile, a new program: {pieces} pieces where {want} fit")
    elif pieces < want:
        result.refused(f"hostile, a new program: {pieces} of {want} pieces")


LINES_TOLD = 8


def play_round(kind, build, tested, drawn):
    """kind: of field."""
    result = Result(drawn, kind.look_ms)
    with kind(build, tested, drawn) as field:
        try:
            play(field, result)
        except (Stuck, BrokenPipeError) as problem:
            result.wrong(f"stuck: {problem}")
        said = field.said()
    refused = [line for line in said if line.startswith("refused: ")]
    others = [line for line in said if not line.startswith("refused: ")]
    if refused:
        result.refused(f"{len(refused)} refused below its limit, the first: {refused[0].partition(': ')[2]}")
    if others:
        result.wrong(f"{len(others)} lines of errors, the first: " + "; ".join(others[:LINES_TOLD]))
    return result
