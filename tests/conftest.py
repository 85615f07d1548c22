"""What all suites share: the marks, and which tests they leave out.

    alone   judges milliseconds, or shares of time on a simulated GPU, and needs a processor when it has credit: not
            with sanitizers, and beside no other test, or one of its kind
    waits   takes more than 3 s or so, mostly for times to pass: with sanitizers in the full form only
    plain   not with sanitizers: a program that is not sanitized loads the libraries, or a size or a time is judged
    sanitized   only with sanitizers
    once    kills, or races: a failure is one, though a second run may pass
    storm   kills parts of a lab of its own while pods come and go: two at a time, beside no other test
    long(seconds, group=None)   ./check runs one part of twenty, another one each day; its like is in a storm, the simulation
            or another test. The seconds are about what it takes: by them the parts are alike
    full    only ./check full has what they need, or the time: RATION_FULL=1

Tests that draw take the fixture `seed`: another one each day, the same in the second run of ./check, and that of
RATION_SEED=N where that is set.
"""
import collections
import datetime
import os
import signal

import pytest

MARKS = [line.strip() for line in __doc__.splitlines() if line.startswith("    ") and not line.startswith(" " * 12)]
SEED = int(os.environ.get("RATION_SEED") or datetime.date.today().toordinal())
PARTS = 20    # of the long tests
PART = os.environ.get("RATION_LONG")    # of the long tests, by its number; without it all
BESIDE = {"alone": 1, "storm": 2}    # how many tests run at a time; of others three


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:    # a shell without job control starts with & what it interrupts never;
        signal.signal(signal.SIGINT, signal.default_int_handler)    # the tests interrupt what they start
    for line in MARKS:
        name, meaning = line.split(maxsplit=1)
        config.addinivalue_line("markers", f"{name}: {meaning}")
    # A fake API server or kubelet answers in threads of its own: one that failed there has not answered.
    config.addinivalue_line("filterwarnings", "error::pytest.PytestUnhandledThreadExceptionWarning")


def pytest_report_header():
    return f"RATION_SEED={SEED}"


@pytest.fixture
def seed():
    print(f"RATION_SEED={SEED}")
    return SEED


def group_of(item, mark):
    """What runs on the same day: the tests of a file that use the same lab."""
    test = item.path.name if item.path.parent.name == "cluster" else f"{item.path.name}::{item.name}"
    return item.path.parent.name, mark.kwargs.get("group") or test


def seconds_of(item):
    """Of a long test, shared by those that run at the same time."""
    seconds = item.get_closest_marker("long").args[0]
    return seconds / next((BESIDE[mark] for mark in BESIDE if item.get_closest_marker(mark)), 3)


def parts(items):
    """group -> its part: the longest first, each into the part that has least so far."""
    seconds = collections.Counter()
    for item in items:
        if mark := item.get_closest_marker("long"):
            seconds[group_of(item, mark)] += seconds_of(item)
    full, chosen = collections.Counter(), {}
    for group in sorted(seconds, key=lambda group: (-seconds[group], group)):
        suite, _ = group
        chosen[group] = min(range(PARTS), key=lambda part: full[suite, part])
        full[suite, chosen[group]] += seconds[group]
    return chosen


def is_left_out(item, part_of):
    marks = {mark.name for mark in item.iter_markers()}
    sanitized = "RATION_SANITIZE" in os.environ and "RATION_COVERAGE" not in os.environ
    if "plain" in marks and sanitized or "sanitized" in marks and not sanitized or "full" in marks and "RATION_FULL" not in os.environ:
        return True
    return "long" in marks and PART and part_of[group_of(item, item.get_closest_marker("long"))] != int(PART)


def pytest_collection_modifyitems(config, items):
    part_of = parts(items)
    left_out = [item for item in items if is_left_out(item, part_of)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
