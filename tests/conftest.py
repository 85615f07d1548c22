"""What all suites share: the marks, and which tests they leave out.

    alone   judges milliseconds, or shares of time on a simulated GPU, and needs a processor when it has credit: not
            with sanitizers, and beside no test that is not `alone`
    waits   takes more than 3 s or so, mostly for times to pass: with sanitizers in the full form only
    plain   not with sanitizers: a program that is not sanitized loads the libraries, or a size or a time is judged
    sanitized   only with sanitizers
    once    kills, or races: a failure is one, though a second run may pass
    storm   kills or replaces parts of its own lab under load; no second chance, as `once`. ./check runs either those that are
            `long` and in its part or the others; the full form runs each beside no other test
    long(seconds, group=None)   ./check runs one part in forty of these, another one for another commit; a storm, the simulation or
            another test covers the same. `seconds` is about what the test takes: all parts take about the same time
    half(n)    ./check runs those of half 0 and those of half 1 for every other commit, unless they are `long`
    full    only ./check full has what they need, or the time: RATION_FULL=1
    hour    takes up to an hour, and runs beside suites that judge no times; as `full`

Tests that draw take the fixture `seed`: another one each day, the same in the second run of ./check, and that of
RATION_SEED=N where that is set.
"""
import base64
import collections
import datetime
import os
import signal
import subprocess
import zlib

import pytest

MARKS = [line.strip() for line in __doc__.splitlines() if line.startswith("    ") and not line.startswith(" " * 12)]
SEED = int(os.environ.get("RATION_SEED") or datetime.date.today().toordinal())
PART = os.environ.get("RATION_LONG")    # "3/20": the fourth of twenty parts of the long tests; not set: all
TURN = os.environ.get("RATION_TURN")    # a number, another one for another commit: which `half` runs, and which functional tests with sanitizers; not set: all
SANITIZED_IN = 4    # turns: in one of them a functional component test runs with sanitizers, and in the others without
FIRST = ("test_webhook.py", "test_ui.py")    # of component: beside their tests of 40 s nothing would run if they began last
AT_A_TIME = 3       # tests of the cluster that are not `alone`


def pytest_configure(config):
    # A shell without job control makes what it starts with & ignore SIGINT, and so would all that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
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


@pytest.fixture
def certificate(tmp_path):
    """certificate(days, host): the data of a Secret with a certificate of that Service which ends in so many days."""
    def made(days, host="ration-webhook.kube-system.svc"):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                        str(days), "-subj", "/CN=old", "-addext", f"subjectAltName=DNS:{host}", "-keyout", tmp_path / "key",
                        "-out", tmp_path / "crt"], check=True, capture_output=True)
        return {"tls.crt": base64.b64encode((tmp_path / "crt").read_bytes()).decode(),
                "tls.key": base64.b64encode((tmp_path / "key").read_bytes()).decode()}
    return made


def group_of(item, mark):
    """What runs on the same day: the tests of a file that use the same lab."""
    test = item.path.name if item.path.parent.name == "cluster" else f"{item.path.name}::{item.name}"
    return item.path.parent.name, mark.kwargs.get("group") or test


def seconds_of(item):
    """What a long test adds to the time of its suite."""
    seconds = item.get_closest_marker("long").args[0]
    return seconds if item.get_closest_marker("alone") else seconds / AT_A_TIME


def parts(items, count):
    """group -> its part, from 0 to count - 1: the longest group first, each into the part that has least so far."""
    seconds = collections.Counter()
    for item in items:
        mark = item.get_closest_marker("long")
        if mark and not (item.get_closest_marker("full") or item.get_closest_marker("hour")):    # these run where there are no parts
            seconds[group_of(item, mark)] += seconds_of(item)
    full, chosen = collections.Counter(), {}
    for group in sorted(seconds, key=lambda group: (-seconds[group], group)):
        suite, _ = group
        chosen[group] = min(range(count), key=lambda part: full[suite, part])
        full[suite, chosen[group]] += seconds[group]
    return chosen


def runs_in_the_other_build(item, marks, sanitized):
    """With RATION_TURN, a functional component test runs in one build."""
    functional = item.path.parent.name == "component" and not marks & {"alone", "waits", "plain", "sanitized"}
    return functional and TURN and sanitized != (zlib.crc32(item.nodeid.encode()) % SANITIZED_IN == int(TURN) % SANITIZED_IN)


def is_left_out(item, part_of, part):
    marks = {mark.name for mark in item.iter_markers()}
    sanitized = "RATION_SANITIZE" in os.environ and "RATION_COVERAGE" not in os.environ
    if runs_in_the_other_build(item, marks, sanitized):
        return True
    if "plain" in marks and sanitized or "sanitized" in marks and not sanitized or marks & {"full", "hour"} and "RATION_FULL" not in os.environ:
        return True
    if "long" in marks:
        return part_of and part_of[group_of(item, item.get_closest_marker("long"))] != part
    return "half" in marks and TURN and int(TURN) % 2 != item.get_closest_marker("half").args[0]


def is_storm(item, long):
    return item.get_closest_marker("storm") and long == bool(item.get_closest_marker("long"))


def pytest_collection_modifyitems(config, items):
    part, count = map(int, PART.split("/")) if PART else (0, 0)
    part_of = parts(items, count) if PART else {}
    long_storm = part_of and any(is_storm(item, long=True) and not is_left_out(item, part_of, part) for item in items)
    chosen, left_out = [], []
    for item in items:
        out = is_left_out(item, part_of, part) or long_storm and is_storm(item, long=False)
        (left_out if out else chosen).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen
    items.sort(key=lambda item: item.path.name not in FIRST)
