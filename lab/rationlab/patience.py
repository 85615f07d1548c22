"""How long the lab waits for something. RATION_PATIENCE=8 makes all of it eight times as long, on a machine that is as slow."""

import os
import time

from .errors import LabError


def patience():
    text = os.environ.get("RATION_PATIENCE") or "1"
    try:
        factor = float(text)
    except ValueError:
        factor = 0
    if not 1 <= factor <= 1000:
        raise LabError(f"RATION_PATIENCE={text}: expected a number from 1 to 1000")
    return factor


def deadline_in(seconds):
    """The moment after which no more is waited, by time.monotonic()."""
    return time.monotonic() + seconds * patience()
