"""Installs what the build needs (Debian 12, as root), builds, runs test suites, and counts passed and failed tests.

Suites:
  lint       formatting, layering, names
  unit       tests of functions, with cmocka
  component  real programs against small fake peers
  driver     NVIDIA's own libraries, from Debian's non-free and PyPI; skipped if these cannot be reached
  sanitize   unit and component, built with ASAN and UBSAN
  cluster    a real Kubernetes
  vm         a virtual machine with systemd and cgroup v2; runs only by its name and in `full`
  gpu        the GPU of this machine; skipped on a machine without one

Without a suite, all but vm run. Most unit tests then run in `sanitize` only. Of the functional component tests a quarter
runs in `sanitize` and the others in `component`; the commit decides which quarter. It also decides which fortieth of the
long tests runs, which half of the storm's faults, and which of the cluster tests with the mark `half`: another commit
runs others. `full` runs everything in its long form, which takes hours. It starts with the suites that judge no times,
and runs the tests that take an hour beside them. `./check SUITE --full` and `./check hours` run its parts one by one.
`./check full --resume` goes on where a run of the same commit was interrupted.

Other tools: ./check fuzz, ./check mutants, ./check coverage. Each has --help.
"""
import argparse
import collections
import datetime
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import typing
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = {"fuzz": "tests/fuzz/campaign.py", "mutants": "tests/mutants/run.py", "coverage": "tests/coverage/run.py"}
# With sanitizers gcc warns of strings that it takes for too long; warnings are errors in the build without them.
SANITIZE = ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dbuildtype=debug", "-Doptimization=1", "-Dwerror=false"]
SIDE_BY_SIDE = 14   # component tests often wait, for a time limit or for a process: so many at once on two cores
WAITING = 20        # ... and so many of those that do little else
IN_FULL = 6         # ... of either in the full form, which has the long tests too: they compute, and some judge times
GPU_AT_A_TIME = 5   # ... and so many of those that share a simulated GPU's time: they leave more than half of two processors idle
# Cluster tests beside others wait longer for what has its seconds on a quiet machine.
BESIDE_OTHERS = {"RATION_PATIENCE": os.environ.get("RATION_PATIENCE") or "2"}
PARTS = 40          # of the long tests; which one runs depends on the commit
JUDGED_AGAIN = 8    # failures of tests that ran beside others; more of them are no accident
FLAKY_MAX = 2       # in all suites together
WHY_LINES = 4       # of what a test said that failed or is flaky, in the report

# Unit tests that `./check` without a suite runs in `sanitize` only. The others play more histories without sanitizers (RATION_HISTORIES).
SANITIZED_UNITS = re.compile(r"(?!test-ledger-property|test-preemption)(test|fuzz)-")

# Why a test may be skipped here. Any other reason is a failure: a test that silently does not run protects nothing.
SKIPS = [
    r"(driver|[a-z0-9_-]+) [0-9.]+: ",      # tests/driver: what could not be fetched
    r"no GPU", r"no virtual machine: ", r"no java", r"no IPv6 here", r"this machine has a grant", r"this machine's processors have other work",
    r"the container runtime says: .* user namespaces",
    *([r".*root"] if os.geteuid() != 0 else []),
]


def name_of(case, suite):
    if case.get("classname") == "":    # a module that could not be collected, or is skipped as a whole
        return f"{case.get('name').replace('.', '/')}.py"
    return f"{case.get('classname', suite).replace('.', '/')}.py::{case.get('name')}"


def reason_of(skipped):
    """Why pytest has skipped a test. Of a module it says ('the file', line, 'Skipped: the reason') in the element's text."""
    whole = re.search(r"""['"]Skipped: (.*)['"]\)$""", skipped.text or "")
    return whole[1] if whole and skipped.get("message") == "collection skipped" else skipped.get("message", "")


def may_be_skipped(reason):
    return any(re.match(allowed, reason) for allowed in SKIPS)


class Count:
    """What has become of the tests of one suite."""

    def __init__(self, suite=""):
        self.suite, self.passed, self.seconds = suite, 0, 0.0
        self.failed, self.flaky = [], []    # names
        self.why = {}    # name -> what its first failure said, in lines
        self.skipped = collections.Counter()    # by their reasons

    @classmethod
    def loaded(cls, suite, said):
        count = cls(suite)
        vars(count).update(said, skipped=collections.Counter(said["skipped"]))
        return count

    def add_junit(self, path):
        """Counts a JUnit file; False if it is not there or holds no test."""
        if not path.exists():
            return False
        try:
            cases = list(ET.parse(path).getroot().iter("testcase"))
        except ET.ParseError:    # cut off, or a test printed what XML cannot hold
            return False
        for case in cases:
            kinds = {child.tag: child for child in case}
            name = name_of(case, self.suite)
            if "failure" in kinds or "error" in kinds:
                if name not in self.failed:    # a test that fails, and then its fixture, are two cases
                    self.failed.append(name)
                    bad = kinds["failure"] if "failure" in kinds else kinds["error"]
                    self.why[name] = bad.get("message", "").splitlines()[:WHY_LINES]
            elif "skipped" not in kinds:
                self.passed += 1
            elif may_be_skipped(reason := reason_of(kinds["skipped"])):
                self.skipped[reason] += 1
            else:
                self.failed.append(f"{name} was skipped: {reason or 'without a reason'}")
        return bool(cases)

    def judge_again(self, report):
        """A second run, of tests that are counted as failed. Those that pass now are flaky."""
        try:
            cases = list(ET.parse(report).getroot().iter("testcase"))
        except (OSError, ET.ParseError):
            return
        bad = {name_of(case, self.suite) for case in cases if len(case)}    # a failure, an error, a skip
        flaky = {name_of(case, self.suite) for case in cases} - bad
        self.flaky += sorted(flaky.intersection(self.failed))
        self.passed += len(flaky.intersection(self.failed))
        self.failed = [name for name in self.failed if name not in flaky]

    def add_run(self, report, status):
        """Counts a finished run. Its status has the last word: meson's report leaves out that a program crashed or
        leaked (meson 1.0.1, mtest.py JunitBuilder: only what TAP said), and a run that did nothing is no success."""
        before = len(self.failed)
        counted = self.add_junit(report)
        if len(self.failed) == before and (status != 0 or not counted):
            self.failed.append(f"the run itself: status {status}" + ("" if counted else ", no report"))


def say(text):
    print(f"== {text}", flush=True)


def run(*command, **kwargs):
    """Exit status of a command. Interrupted, it waits: the command takes its labs down, which a SIGKILL would leave."""
    process, interrupted, passed_on = None, [], False

    def pass_on():
        """Unlike Ctrl-C, a SIGTERM has reached us alone."""
        nonlocal passed_on
        if process and not passed_on and signal.SIGTERM in interrupted:
            passed_on = True
            process.send_signal(signal.SIGTERM)

    def on_signal(number, _frame):
        interrupted.append(number)
        pass_on()

    # An exception out of Popen() would lose a child that has begun, so the signals are caught before it.
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with subprocess.Popen([str(c) for c in command], cwd=ROOT, **kwargs) as process:
            pass_on()
            status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if interrupted:
        raise KeyboardInterrupt
    return status


class BuildFailed(Exception):
    """Nothing can be tested."""


def build(directory, options=()):
    """meson setup (once) and ninja; compiler output only when something is wrong."""
    if not (directory / "build.ninja").exists():
        say(f"configuring {directory.name}")
        if run("meson", "setup", directory, *options, stdout=subprocess.DEVNULL) != 0:
            run("meson", "setup", directory, *options)
            raise BuildFailed("meson setup failed")
    say(f"building {directory.name}")
    # What another checkout of the same files has compiled is good here too.
    if run("ninja", "-C", directory, stdout=subprocess.DEVNULL, env={**os.environ, "CCACHE_NOHASHDIR": "1"}) != 0:
        run("ninja", "-C", directory)
        raise BuildFailed("the build failed")


def turn():
    """A number that decides which tests run, the same for each run of a commit. By the date where there is no repository."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(head.stdout[:12], 16) if head.returncode == 0 else datetime.date.today().toordinal()


def environment_of(args, more=()):
    """The marks that it chooses by: tests/conftest.py."""
    chosen = {"RATION_FULL": "1"} if args.full or args.ring == "vm" else {} if args.k else {"RATION_LONG": f"{args.part}/{PARTS}"}
    if "RATION_LONG" in chosen and args.ring == "all":
        chosen["RATION_TURN"] = str(turn() // PARTS)    # it does not depend on the part, so that a long test runs in either build, too
    seed = os.environ.get("RATION_SEED") or str(datetime.date.today().toordinal())
    # Compiled modules go to build/, not into the sources.
    here = {name: value for name, value in os.environ.items()
            if name not in ("PYTHONDONTWRITEBYTECODE", "RATION_FULL", "RATION_LONG", "RATION_TURN")}    # the last three, of a check that runs this one
    return {**here, "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "pycache"), "RATION_SEED": seed, **chosen, **dict(more)}


def pytest(ring, tests, build_dir, args, count, mark="", workers=0, options=(), env=()):
    """Tests that run beside others have seconds in which something must happen, counted on a quiet machine: a few that
    failed are named and judged by a second run without others. Kills and races (`once`, `storm`) have no second chance."""
    report = ROOT / "build" / f"junit-{ring}.xml"
    report.unlink(missing_ok=True)
    cache = ROOT / "build" / "pytest-cache" / ring
    shutil.rmtree(cache, ignore_errors=True)
    command = ["/usr/bin/python3", "-m", "pytest", "-q", "--color=no", "-o", f"cache_dir={cache}", "--durations=5",
               *tests]
    if args.k:
        command += ["-k", args.k]
    environment = environment_of(args, {"RATION_BUILD": str(build_dir), **dict(env)})
    before = len(count.failed)
    status = run(*command, "-m", mark, *(["-n", workers] if workers else []), *options, f"--junitxml={report}",
                 env=environment)
    if status == 5 and (args.k or "RATION_LONG" in environment):    # none of this suite was chosen
        return
    count.add_run(report, status)
    failed = len(count.failed) - before
    if workers and status == 1 and failed <= JUDGED_AGAIN:
        say(f"{failed} failed beside others (named above): once more, alone")
        again = report.with_stem(f"{report.stem}-again")
        again.unlink(missing_ok=True)
        run(*command, "-m", " and ".join([*([f"({mark})"] if mark else []), "not once and not storm"]), f"--junitxml={again}", "--last-failed",
            "--last-failed-no-failures=none", env=environment)
        count.judge_again(again)


def unit_programs(names, k):
    """Those called like k, else those that hold a test function called like k: cmocka cannot run one of several."""
    test = re.compile(rf"^(?:static void |TEST\()\w*{re.escape(k)}\w*(?:\(void \*\*|\))", re.M)
    sources = {name: next((ROOT / "tests").glob(f"*/{name}.c")) for name in names}
    return ([name for name in names if k in name] or
            [name for name in names if test.search(sources[name].read_text())])


def unit(build_dir, args, count, env=(), without=None):
    """Runs the unit tests, but not those whose names match `without`."""
    command = ["meson", "test", "-C", build_dir, "--no-rebuild", "--suite", "unit", "--print-errorlogs"]
    if args.k or without:
        listed = subprocess.run(["meson", "test", "-C", str(build_dir), "--no-rebuild", "--suite", "unit", "--list"], cwd=ROOT,
                                capture_output=True, text=True, check=True).stdout.split()
        names = [name for name in listed if re.match(r"[a-z]+-", name) and not (without and without.match(name))]
        chosen = unit_programs([n for n in names if n.startswith(("test-", "fuzz-"))], args.k) if args.k else names
        if not chosen and args.k:
            return
        command += chosen
    report = pathlib.Path(build_dir) / "meson-logs" / "testlog.junit.xml"
    report.unlink(missing_ok=True)
    count.add_run(report, run(*command, env=environment_of(args, env)))


class Progress:
    """What an interrupted `./check full` has done, in build/full.json: `--resume` keeps it, with its failures."""

    def __init__(self, resume):
        self.file = ROOT / "build" / "full.json"
        self.of = {"commit": self._commit(), "seed": environment_of(argparse.Namespace(full=True))["RATION_SEED"]}
        self.steps, self.suites = [], {}
        if resume:
            self._load()
        else:
            self.file.unlink(missing_ok=True)    # or --resume would give the report of the run before

    def _load(self):
        afresh = "Run ./check full without --resume."
        try:
            said = json.loads(self.file.read_text())
            of, self.steps = {"commit": str(said["of"]["commit"]), "seed": str(said["of"]["seed"])}, list(said["steps"])
            self.suites = {name: Count.loaded(name, count) for name, count in said["suites"].items() if name != "build"}
        except OSError as error:
            raise SystemExit(f"./check: no run to resume is recorded: {error}. {afresh}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SystemExit(f"./check: {self.file} does not describe a run. {afresh}") from error
        if not self.of["commit"]:
            raise SystemExit(f"./check: a run is resumed only if no files are changed. {afresh}")
        if of["commit"] != self.of["commit"]:
            raise SystemExit(f"./check: the interrupted run tested {of['commit'] or 'changed files'}, and the checkout is at "
                             f"{self.of['commit']}. {afresh}")
        os.environ["RATION_SEED"] = of["seed"]
        self.of = of

    @staticmethod
    def _commit():
        """Empty if files are changed: two such runs may have tested different files."""
        if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip():
            return ""
        return subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    def add(self, step, suites):
        self.steps.append(step)
        part = self.file.with_suffix(f".{os.getpid()}")    # two runs at once have one record, which is always a whole one
        part.write_text(json.dumps({"of": self.of, "steps": self.steps, "suites": {name: vars(count) for name, count in suites.items()}}))
        part.rename(self.file)


class Hours:
    """The tests marked `hour`, which run in the background. Their output is printed when they have ended."""

    def __init__(self, args):
        # Each suite has a pytest of its own, since modules of two suites may have one name.
        self.runs = [self._start(suite, args) for suite in ("component", "cluster")
                     if any("pytest.mark.hour" in path.read_text() for path in (ROOT / "tests" / suite).glob("test_*.py"))]

    @staticmethod
    def _start(suite, args):
        report, log = ROOT / "build" / f"junit-hours-{suite}.xml", ROOT / "build" / f"hours-{suite}.log"
        report.unlink(missing_ok=True)
        command = ["/usr/bin/python3", "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", "-m", "hour",
                   f"--junitxml={report}", f"tests/{suite}"]
        with open(log, "w") as output:
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                                       env=environment_of(args, {"RATION_BUILD": str(ROOT / "build")}))
        return report, log, process

    def finish(self, _args, count):
        for report, log, process in self.runs:
            say(f"waiting for the tests that take an hour; their output so far: {log}")
            count.add_run(report, process.wait())
            print(log.read_text(), flush=True)

    def interrupt(self):
        """Returns when the tests have removed their labs."""
        for _, _, process in self.runs:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)    # as Ctrl-C
        for _, _, process in self.runs:
            process.wait()


def ring_lint(args, count):
    pytest("lint", ["tests/lint"], ROOT / "build", args, count, workers=2)


def ring_unit(args, count):
    unit(ROOT / "build", args, count, without=SANITIZED_UNITS if args.ring == "all" else None)


def ring_component(args, count):
    # Many workers start at once. They find the test modules compiled (PYTHONPYCACHEPREFIX), or each would compile all of them.
    subprocess.run(["/usr/bin/python3", "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", "tests/component"], cwd=ROOT,
                   stdout=subprocess.DEVNULL, check=False, env=environment_of(args, {"RATION_BUILD": str(ROOT / "build")}))
    pytest("component", ["tests/component"], ROOT / "build", args, count, "not alone", IN_FULL if args.full else WAITING)


def ring_component_alone(args, count):
    # Those that share a GPU's time need a processor when they want one. The full form judges times, and has them one at a time.
    pytest("component-alone", ["tests/component"], ROOT / "build", args, count, "alone" if args.k else "alone and not hour",
           0 if args.full else GPU_AT_A_TIME)


def ring_driver(args, count):
    pytest("driver", ["tests/driver"], ROOT / "build", args, count, workers=2)


def ring_sanitize(args, count):
    directory = ROOT / "build-sanitize"
    env = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
           "RATION_SANITIZE": "1", "RATION_HISTORIES": "200"}
    build(directory, SANITIZE)
    unit(directory, args, count, env)
    mark = "not alone" if args.full or args.k else "not alone and not waits"
    pytest("sanitize", ["tests/component"], directory, args, count, mark, IN_FULL if args.full else SIDE_BY_SIDE, env=env)


def build_lab(count):
    built = run(ROOT / "lab" / "lab", "build") == 0
    if not built:
        count.failed.append("the lab's Kubernetes could not be built")
    return built


def ring_cluster(args, count):
    if not build_lab(count):
        return
    # Most of a cluster test is waiting for pods, a storm too; what measures comes afterwards.
    mark = "not alone and not storm" if args.full else "not alone"
    pytest("cluster", ["tests/cluster"], ROOT / "build", args, count, mark, 3, options=["--dist", "loadfile"], env=BESIDE_OTHERS)


def ring_cluster_storms(args, count):
    # In the full form a storm has to wait less.
    if args.full:
        pytest("cluster-storms", ["tests/cluster"], ROOT / "build", args, count, "storm")


def ring_cluster_alone(args, count):
    pytest("cluster-alone", ["tests/cluster"], ROOT / "build", args, count, "alone" if args.k else "alone and not hour")


def ring_vm(args, count):
    # The machine has the time-outs of its lab to keep, so it runs beside no other suite. ./check has not the time for it.
    if (args.ring != "all" or args.k) and build_lab(count):
        pytest("vm", ["tests/vm"], ROOT / "build", args, count)


def ring_gpu(args, count):
    report = ROOT / "build" / "junit-gpu.xml"
    report.unlink(missing_ok=True)
    status = run(ROOT / "tests/gpu/run", "--junit", report, "--out", ROOT / "build" / "gpu.md",
                 *(["-k", args.k] if args.k else []))
    if status == 77:    # it said why
        count.skipped["no GPU"] += 1
    elif status != 5 or not args.k:
        count.add_run(report, status)


class Step(typing.NamedTuple):
    """A part of a suite."""
    ring: str
    run: typing.Callable
    judges_times: bool = False


STEPS = [Step("lint", ring_lint), Step("unit", ring_unit), Step("component", ring_component),
         Step("component", ring_component_alone, judges_times=True), Step("driver", ring_driver), Step("sanitize", ring_sanitize),
         Step("cluster", ring_cluster), Step("cluster", ring_cluster_storms, judges_times=True),
         Step("cluster", ring_cluster_alone, judges_times=True), Step("vm", ring_vm, judges_times=True),
         Step("gpu", ring_gpu, judges_times=True)]
RINGS = list(dict.fromkeys(step.ring for step in STEPS))


def report(counts, args, seconds):
    """Prints what has come of it all and returns the exit status."""
    passed, failed, skipped, flaky = (sum(numbers) for numbers in zip(
        *[(count.passed, len(count.failed), count.skipped.total(), len(count.flaky)) for count in counts]))
    print(f"\n{'suite':<12}{'seconds':>9}{'passed':>9}{'failed':>9}{'skipped':>9}{'flaky':>9}")
    for count in counts:
        print(f"{count.suite:<12}{count.seconds:>9.0f}{count.passed:>9}{len(count.failed):>9}{count.skipped.total():>9}"
              f"{len(count.flaky):>9}")
    print(f"{'all':<12}{seconds:>9.0f}{passed:>9}{failed:>9}{skipped:>9}{flaky:>9}")
    for count in counts:
        for reason, number in count.skipped.items():
            print(f"skipped ({count.suite}): {number} x {reason}")
        for kind, names in (("flaky ({}; failed beside others, passed alone)", count.flaky), ("FAILED ({})", count.failed)):
            for name in names:
                print(f"{kind.format(count.suite)}: {name}")
                for line in count.why.get(name, []):
                    print(f"    {line[:300]}")
    if flaky > FLAKY_MAX:
        print(f"FAILED: {flaky} tests are flaky, and more than {FLAKY_MAX} are no accident")
        failed += 1
    if not passed and not failed and args.k:
        print(f"no test is called like {args.k}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    nothing = not passed and not (args.ring in ("driver", "vm", "gpu") and skipped)    # without it: no failure
    return 1 if failed or nothing else 0


def lock_checkout():
    """Two checks in one checkout would count each other's reports and replace programs that the other one tests. Returns what holds the
    lock; a check that a test of this one starts needs none."""
    if os.environ.get("RATION_CHECKED") == str(ROOT):
        return None
    (ROOT / "build").mkdir(exist_ok=True)
    lock = open(ROOT / "build" / "check.lock", "w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"./check: another ./check runs in {ROOT}. Wait until it has ended, or run this one in another clone.") from None
    os.environ["RATION_CHECKED"] = str(ROOT)
    return lock


def main():
    parser = argparse.ArgumentParser(prog="./check", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ring", nargs="?", default="all", choices=["all", "full", *RINGS, "hours"],
                        help="the suite to run; all: see above (default); full: everything, in the long forms; hours: the tests that take an hour")
    parser.add_argument("--full", action="store_true", help="run the suite as `full` does")
    parser.add_argument("-k", metavar="NAME", help="run only tests whose name contains NAME; of the unit tests, all tests of a program that has such a test")
    parser.add_argument("--part", type=int, choices=range(PARTS), metavar="N", default=turn() % PARTS,
                        help=f"which of the {PARTS} parts of the long tests to run (default: by the commit, here %(default)s)")
    parser.add_argument("--resume", action="store_true", help="with full: continue an interrupted run of the same commit; the suites that it "
                        "has completed are not run again, and the report has their results")
    if sys.argv[1:2] and sys.argv[1] in TOOLS:
        sys.exit(run("/usr/bin/python3", TOOLS[sys.argv[1]], *sys.argv[2:]))
    args = parser.parse_args()
    if args.full and args.ring == "all":
        parser.error("--full needs a suite; to run all suites so: ./check full")
    if args.ring == "hours" and args.k:
        parser.error("hours runs all tests that take an hour; to run one of them: ./check component -k NAME --full")
    if args.resume and (args.ring != "full" or args.k):
        parser.error("--resume belongs to ./check full, without -k")
    args.full = args.full or args.ring in ("full", "hours")
    lock = lock_checkout()    # until the end of the process
    progress = Progress(args.resume) if args.ring == "full" and not args.k else None

    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:    # started with & by a shell without job control:
        signal.signal(signal.SIGINT, signal.default_int_handler)    # the tests interrupt what they start
    suites, interrupted, hours = progress.suites if progress else {}, False, None
    began = time.monotonic() - sum(count.seconds for count in suites.values())

    def run_suite(name, suite, *arguments):
        if progress and suite.__name__ in progress.steps:
            return
        count = suites.setdefault(name, Count(name))
        before = time.monotonic()
        say(name)
        try:
            suite(*arguments, count)
        except BuildFailed as error:
            count.failed.append(str(error))
        except KeyboardInterrupt:
            count.failed.append("interrupted")
            raise
        finally:
            count.seconds += time.monotonic() - before
        if progress and name != "build":    # which is needed in each run
            progress.add(suite.__name__, suites)

    steps = [step for step in STEPS if args.ring in ("all", "full", step.ring)]
    try:
        run_suite("build", lambda count: build(ROOT / "build"))
        if suites["build"].failed:
            steps = []
        elif args.ring in ("full", "hours") and not args.k:
            steps.sort(key=lambda step: step.judges_times)
            run_suite("build", build_lab)
            if not progress or Hours.finish.__name__ not in progress.steps:
                hours = Hours(args)
        for step in steps:
            if hours and step.judges_times:
                run_suite("hours", hours.finish, args)
                hours = None
            run_suite(step.ring, step.run, args)
        if hours:
            run_suite("hours", hours.finish, args)
            hours = None
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if hours:
            hours.interrupt()
    status = report(list(suites.values()), args, time.monotonic() - began)
    sys.exit(130 if interrupted else status)


if __name__ == "__main__":
    main()
