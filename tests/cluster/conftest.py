"""Fixtures of the cluster tests: real labs, shared between tests that want the same nodes.

    def test_something(lab):
        cluster = lab(["cn-beijing.192.168.8.44=4x15360MiB,share"])    # no argument: the nodes of the documents
        cluster.apply(EXAMPLES / "job-share.yaml")
        pod = cluster.wait_running("app=tensorflow-mnist-share")[0]

Every test has a namespace of its own, removed with its pods before the next test. A test that changes the
cluster itself (labels of nodes, restarted parts) puts it back, or takes `lab(..., fresh=True)`.
"""

import collections
import contextlib
import os
import pathlib
import re
import signal
import threading
import time

import pytest

from claims import RELEASES
from cluster import Cluster, built, lab_command

LABS_AT_ONCE = 1    # of one worker: an idle lab takes processor time, too
INOTIFY = pathlib.Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_INSTANCES = 1024    # a kubelet has five, an agent four: the kernel's 128 are soon used up
OPTIONS = os.environ.get("RATION_LAB_OPTIONS", "").split()    # of every lab/lab up, e.g. --kubernetes 1.30.4

QUICK = "test_charts.py"    # some sixty tests, which take seconds together
OTHER_S = 20                # what a test takes about that is not `long`


class Labs:
    """All labs of this pytest session; `t<pid>-<n>` by name, so that leftovers of a killed session are known."""

    def __init__(self):
        self.running = {}    # layout -> Cluster, the least recently used first
        self.count = 0
        self._remove_leftovers()

    def new_name(self):
        self.count += 1
        return f"t{os.getpid()}-{self.count}"

    def get(self, nodes, charts, options=()):
        layout = (nodes, charts, options)
        cluster = self.running.pop(layout, None)
        if cluster is None:
            while len(self.running) >= LABS_AT_ONCE:
                self.remove(next(iter(self.running.values())))
            cluster = self.start(nodes, charts, options)
        self.running[layout] = cluster
        return cluster

    def start(self, nodes, charts, options=()):
        name = self.new_name()
        arguments = [argument for node in nodes for argument in ("--node", node)]
        try:
            lab_command("up", "--name", name, *arguments, *([] if charts else ["--no-charts"]), *options, *OPTIONS)
        except BaseException:
            lab_command("down", "--name", name, check=False)
            raise
        return Cluster(name)

    def remove(self, cluster):
        self.running = {layout: other for layout, other in self.running.items() if other is not cluster}
        lab_command("down", "--name", cluster.name)
        cluster.forget()

    def remove_all(self):
        for cluster in list(self.running.values()):
            self.remove(cluster)

    def _remove_leftovers(self):
        root = pathlib.Path(os.environ.get("RATION_LABS") or pathlib.Path(
            os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state") / "ration" / "labs")
        for folder in root.glob("t*-*"):
            match = re.fullmatch(r"t([0-9]+)-[0-9]+", folder.name)
            if match and not pathlib.Path("/proc", match.group(1)).exists():
                lab_command("down", "--name", folder.name, check=False)    # another worker may be at it


@pytest.fixture(scope="session")
def labs():
    """The labs of this session; all are gone at its end, after Ctrl-C and SIGTERM too."""
    if os.geteuid() != 0:
        pytest.skip("a lab needs root")

    def terminated(_number, _frame):
        raise KeyboardInterrupt
    # Now and then a worker of xdist does not run its tests in the main thread (execnet 1.9, a race in gateway_base.py,
    # _try_send_to_primary_thread()), and Python allows handlers only there. After a SIGTERM the next session removes its labs.
    handles = threading.current_thread() is threading.main_thread()
    if handles:
        before = signal.signal(signal.SIGTERM, terminated)
    if int(INOTIFY.read_text()) < INOTIFY_INSTANCES:
        INOTIFY.write_text(str(INOTIFY_INSTANCES))
    keeper = Labs()
    yield keeper
    keeper.remove_all()
    if handles:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: release or "default")
def release_options(request):
    """For lab(): one of the releases of Kubernetes with which claims are tested."""
    return built(request.param)


@pytest.fixture
def lab(labs, request):
    """Gives a Cluster with the nodes asked for; starts one only if none with this layout runs."""
    used = []

    def give(nodes=(), charts=True, fresh=False, options=()):
        nodes = tuple(nodes)
        cluster = labs.start(nodes, charts, options) if fresh else labs.get(nodes, charts, options)
        if any(cluster is other for other, _ in used):    # asked for the same lab twice
            return cluster
        used.append((cluster, fresh))
        cluster.enter_namespace(f"test-{time.monotonic_ns() % 10**9}")
        return cluster

    yield give
    failed = getattr(request.node, "report_of_call", None)
    failed = failed is not None and failed.failed
    for cluster, fresh in used:
        if failed:
            with contextlib.suppress(Exception):
                print(cluster.describe_failure())
        try:
            if failed and not fresh:    # it may have left a label or a fault behind: no test shall fail for another's
                labs.remove(cluster)
            elif not fresh:
                cluster.leave_namespace()
        except Exception:
            labs.remove(cluster)    # not clean: no other test shall get it
            raise
        if fresh:
            labs.remove(cluster)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.report_of_call = outcome.get_result()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Each worker has one file at a time: the storms begin, then the files that take longest, or one would run alone at the end.
    A worker with less than three tests left is given its next file (xdist 3.1, loadscope.py _reschedule()), so a storm has
    one behind it at once, the first after those with which the other workers begin: that is a quick one."""
    seconds = collections.Counter()
    for item in items:
        mark = item.get_closest_marker("long")
        seconds[item.path] += mark.args[0] if mark else OTHER_S
    storms = {item.path for item in items if item.get_closest_marker("storm")}
    order = sorted((path for path in seconds if path.name != QUICK), key=lambda path: (path not in storms, -seconds[path]))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    order[workers:workers] = [path for path in seconds if path.name == QUICK]
    items.sort(key=lambda item: order.index(item.path))
