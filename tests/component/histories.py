"""What the tests that replay recorded histories share: save what a scheduler recorded, replay it, count what it had."""
import collections
import json
import os
import pathlib
import re
import subprocess

from explanations import RATION
from fake_apiserver import wait_for

SEED = int(os.environ.get("RATION_SEED", "7"))


def replay(path):
    return subprocess.run([RATION, "replay", path], capture_output=True, text=True, timeout=120, check=False)


def sums(done, over=(0,)):
    """(events, decisions) of a replay in which everything came out as recorded. over: how many GPUs may be over their total
    at its end."""
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.match(r"(\d+) events and (\d+) decisions: all as recorded, and so is the state at the end\.\n", done.stdout)
    wrong = re.search(r", 0 wrong sums, (\d+) GPUs over their total\.", done.stdout)
    assert wrong and int(wrong.group(1)) in over, done.stdout
    return tuple(int(n) for n in found.groups())


def save(scheduler, path, name=None):
    """What the scheduler has recorded until now; it begins when the first lists are read. name: in tests/histories, which
    are made by RATION_RECORD=FOLDER."""
    answers = []

    def answered():
        answers.append(scheduler.http("GET", "/history"))
        return answers[-1][0] == 200
    wait_for(answered, 10, what="the scheduler has recorded something")
    path.write_bytes(answers[-1][1])
    if name and os.environ.get("RATION_RECORD"):
        (pathlib.Path(os.environ["RATION_RECORD"]) / f"{name}.jsonl").write_bytes(answers[-1][1])
    return [json.loads(line) for line in answers[-1][1].splitlines()]


def save_and_count(scheduler, path, name=None):
    """save(), and how many GPUs are over their total then: what ends by time meanwhile makes two numbers."""
    before = scheduler.inspect()["overcommittedGPUs"]
    return save(scheduler, path, name), {before, scheduler.inspect()["overcommittedGPUs"]}


def parts(lines):
    """The first line, the state at the beginning, the events with what belongs to them, the state at the end."""
    events = next(i for i, line in enumerate(lines) if "event" in line or "end" in line)
    end = lines.index({"end": True})
    return lines[0], lines[1:events], lines[events:end], lines[end + 1:]


def kinds(lines, member):
    """How many lines have `member`, by its value: of events ("event"), answers ("told"), decisions ("gave")."""
    return collections.Counter(line[member] for line in lines if member in line)
