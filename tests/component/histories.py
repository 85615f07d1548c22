"""What the tests that replay recorded histories share: save what a scheduler recorded, replay it, compare the sums."""
import json
import os
import re
import subprocess

from explanations import RATION

SEED = int(os.environ.get("RATION_SEED", "7"))


def replay(path):
    return subprocess.run([RATION, "replay", path], capture_output=True, text=True, timeout=120, check=False)


def sums(done, over=0):
    """(changes, answers, choices) of a replay in which everything came out as recorded."""
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.match(r"(\d+) changes, (\d+) filter answers and (\d+) choices of a card: all as recorded\.", done.stdout)
    assert f" 0 wrong sums, {over} cards over their total." in done.stdout, done.stdout
    return tuple(int(n) for n in found.groups())


def save(scheduler, path):
    status, body = scheduler.http("GET", "/history")
    assert status == 200
    path.write_bytes(body)
    return [json.loads(line) for line in body.splitlines()]
