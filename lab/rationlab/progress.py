"""Says what is being done, how long it has taken so far, and how long it took.

While a step lasts there is a sign of life: on a terminal one line that is renewed each second, elsewhere a line each half
minute. Processes that the lab starts may write to the same terminal: the cursor waits at the beginning of the line.
"""

import contextlib
import os
import shutil
import sys
import threading
import time

RENEW_S, REPEAT_S = 1, 30
_CLEAR = "\r\033[K"

_lock = threading.Lock()
_start = time.monotonic()
_running = []    # the steps that have begun and not ended, the newest last


class _Step:
    def __init__(self, text, usually, detail):
        self.text, self.usually, self.detail = text, usually, detail
        self.begun = time.monotonic()

    def seconds(self):
        return time.monotonic() - self.begun

    def state(self):
        so_far = [f"{self.seconds():.0f} s so far", *([f"usually {self.usually}"] if self.usually else []),
                  *([self.detail()] if self.detail else [])]
        return f"in progress: {self.text} ({', '.join(so_far)})"


def _on_terminal():
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _stamped(text):
    return f"[{time.monotonic() - _start:6.1f} s] {text}"


def _write(text):
    print(text, end="", file=sys.stderr, flush=True)


def say(text):
    """One line for a person, stamped with the time since the program's start."""
    with _lock:
        _write(f"{_CLEAR if _on_terminal() else ''}{_stamped(text)}\n")


def _live(this, ended):
    """Says how far the step is, unless one within it does."""
    said = time.monotonic()
    while not ended.wait(RENEW_S):
        with _lock:
            if _running[-1:] != [this]:
                continue
            if _on_terminal():
                _write(f"{_CLEAR}{this.state()[:shutil.get_terminal_size().columns - 1]}\r")
            elif time.monotonic() - said >= REPEAT_S:
                _write(f"{_stamped(this.state())}\n")
                said = time.monotonic()


@contextlib.contextmanager
def step(text, usually="", detail=None):
    """Says when a step is done and what it took; of a failing step the error is printed. `usually`: how long it takes;
    `detail`: a function that says how far it has come."""
    this, ended = _Step(text, usually, detail), threading.Event()
    with _lock:
        _running.append(this)
    threading.Thread(target=_live, args=(this, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        with _lock:
            _running.remove(this)
            if _on_terminal():
                _write(_CLEAR)
    say(f"{text} ({this.seconds():.1f} s)")
