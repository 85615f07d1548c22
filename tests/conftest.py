"""What all suites share: the marks, and which tests they leave out.

    alone   judges milliseconds, or shares of time on a simulated GPU, and needs a processor when it has credit: not
            beside other tests, and not with sanitizers
    waits   takes more than 3 s or so, mostly for times to pass: with sanitizers in the full form only
    plain   not with sanitizers: a program that is not sanitized loads the libraries, or a size or a time is judged
    once    kills, or races: a failure is one, though a second run may pass
    long    ./check runs a tenth of them, another one each day; its like is in a storm, the simulation or another test
    full    only ./check full has what they need, or the time: RATION_FULL=1

Tests that draw take the fixture `seed`: another one each day, the same in the second run of ./check, and that of
RATION_SEED=N where that is set.
"""
import datetime
import os
import zlib

import pytest

MARKS = [line.strip() for line in __doc__.splitlines() if line.startswith("    ") and not line.startswith(" " * 12)]
SEED = int(os.environ.get("RATION_SEED") or datetime.date.today().toordinal())
TENTH = os.environ.get("RATION_LONG")    # of the long tests, by its number; without it all


def pytest_configure(config):
    for line in MARKS:
        name, meaning = line.split(maxsplit=1)
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_report_header():
    return f"RATION_SEED={SEED}"


@pytest.fixture
def seed():
    print(f"RATION_SEED={SEED}")
    return SEED


def is_left_out(item):
    marks = {mark.name for mark in item.iter_markers()}
    if "plain" in marks and "RATION_SANITIZE" in os.environ or "full" in marks and "RATION_FULL" not in os.environ:
        return True
    # Those of a file use the same lab.
    key = item.path.name if item.path.parent.name == "cluster" else f"{item.path.name}::{item.name}"
    return "long" in marks and TENTH and zlib.crc32(key.encode()) % 10 != int(TENTH)


def pytest_collection_modifyitems(config, items):
    chosen = [item for item in items if not is_left_out(item)]
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if is_left_out(item)])
        items[:] = chosen
