"""Asks the rows: each in a process of its own with a time limit, so that one that crashes or hangs is a verdict and no more."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from gpu import HERE, ended

POLL_S = 0.05


class Interrupt:
    """Set by a signal, seen between two moments of waiting: an exception could come while a process is being made, which nobody
    would then end."""
    came = False

    @classmethod
    def handle(cls, _number, _frame):
        cls.came = True


class Side:
    """A driver that is asked: `told` is what gpu.Gpu takes."""

    def __init__(self, name, told):
        self.name, self.told = name, {**told, "side": name}


def _parse(text):
    """(items, the last line that says how it ended, or None)"""
    items, last = [], None
    for line in text.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue    # torn by the process's end
        if "end" in said:
            last = said
        elif "what" in said:
            items.append(said)
    return items, last


def _end_group(process):
    """The row's process and all that it started; what has left the group (a run's keeper) ends by itself."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _why(errors):
    errors.seek(0)
    said = errors.read().strip().splitlines()
    return said[-1][:200] if said else ""


def ask(row, side, limit_s):
    """The result of one row on one side; None: it was interrupted."""
    env = {**os.environ, "RATION_GPU_TOLD": json.dumps(side.told), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([sys.executable, str(HERE / "worker.py"), row.name], env=env, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=errors, start_new_session=True)
        deadline, hung = time.monotonic() + limit_s, False
        try:
            while process.poll() is None and not hung and not Interrupt.came:
                time.sleep(POLL_S)
                hung = time.monotonic() > deadline
        finally:
            _end_group(process)
        if Interrupt.came:
            return None
        out.seek(0)
        items, last = _parse(out.read())
        if hung:
            last = {"end": "hung", "why": f"no end in {limit_s:.0f} s"}
        elif last is None:
            last = {"end": "crashed", "why": f"{ended(process.returncode)} {_why(errors)}".strip()}
        return {**last, "items": items}
