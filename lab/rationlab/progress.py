"""Says what is being done and how long it took."""

import contextlib
import sys
import threading
import time

_lock = threading.Lock()
_start = time.monotonic()


def say(text):
    """One line for a person, stamped with the time since the program's start."""
    with _lock:
        print(f"[{time.monotonic() - _start:6.1f} s] {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text):
    """Says when a step is done and what it took; of a failing step the error is printed."""
    begun = time.monotonic()
    yield
    say(f"{text} ({time.monotonic() - begun:.1f} s)")
