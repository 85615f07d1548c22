"""Checks that tests notice mistakes: makes small wrong changes (mutants) in the code, one after the other, and runs tests.

tests/mutants/mutants.toml has the mutants, each a change of one line, and for each the tests of which at least one must then
fail. The tests run in a copy of the tracked files with a build folder of its own, and must first pass on the unchanged copy. A
test that takes far longer than it did there counts as failed. A mutant that does not compile is a mistake in the file.

A mutant has these keys:
    name        a sentence with dashes
    file        the file that is changed
    line        the line that is replaced, without its indentation; it occurs once in the file
    function    optional: the line occurs once in this function
    replacement the new line; without it the line is removed
    tests       programs of tests/unit, or tests/component/test_x.py::test_y
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/mutants/mutants.toml"
KEYS = {"name", "file", "line", "function", "replacement", "tests"}
LIMIT_S, TIMES = 20, 10    # a test hangs if it takes longer than both
OTHER_SUITES = ("tests/unit/", "tests/fuzz/", "tests/shares/")


class DoesNotApply(Exception):
    """A mistake in the data."""


def mutants():
    return tomllib.loads(DATA.read_text())["mutant"]


def body_of(lines, function):
    """Where the function begins and ends: its definition stands at the margin, as its closing brace does."""
    starts = [at for at, line in enumerate(lines) if f"{function}(" in line and not line[:1].isspace()]
    for start in starts:
        for end in range(start, len(lines)):
            if lines[end].startswith("}"):
                return start, end
            if lines[end].endswith(";") and not lines[end][:1].isspace():
                break    # declared only
    raise DoesNotApply(f"no function {function}")


def changed(mutant, text):
    """The text of the file with the change."""
    lines = text.split("\n")
    first, last = body_of(lines, mutant["function"]) if "function" in mutant else (0, len(lines) - 1)
    found = [at for at in range(first, last + 1) if lines[at].strip() == mutant["line"]]
    if len(found) != 1:
        raise DoesNotApply(f"{mutant['file']} has {len(found)} such lines: {mutant['line']}")
    line = lines[found[0]]
    lines[found[0]] = line[:len(line) - len(line.lstrip())] + mutant.get("replacement", "")
    return "\n".join(lines)


def is_unit(test):
    return not test.startswith("tests/")


class Copy:
    """Of the tracked files, with a build folder."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = pathlib.Path(folder), jobs
        self.build = self.folder / "build"
        self.seconds = {}    # test -> what it takes unchanged
        self.programs = []
        self.hung = False    # a test ran into its time limit: on a busy machine that may mean nothing
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
        compiler = {"CC": "ccache gcc"} if shutil.which("ccache") else {}
        subprocess.run(["meson", "setup", self.build], cwd=self.folder, env={**os.environ, **compiler}, check=True,
                       stdout=subprocess.DEVNULL)

    def others(self):
        """What tests start or open that they are not linked with: everything but the programs of unit tests and of suites
        whose tests are not among ours."""
        if not self.programs:
            said = subprocess.run(["meson", "introspect", "--targets", self.build], capture_output=True, text=True, check=True)
            files = [pathlib.Path(file).relative_to(self.build).as_posix() for target in json.loads(said.stdout)
                     for file in target["filename"] if target["build_by_default"]]
            self.programs = [file for file in files if not file.startswith(OTHER_SUITES) or file.endswith(".so")]
        return self.programs

    def compile(self, tests, others):
        """The unit tests among them, and what others start; what the compiler says if it fails."""
        targets = [f"tests/unit/{test}" for test in tests if is_unit(test)] + (self.others() if others else [])
        # The objects of another copy will do: whoever reads their debug information knows where this one was.
        done = subprocess.run(["ninja", "-C", self.build, f"-j{self.jobs}", *targets], capture_output=True, text=True,
                              env={**os.environ, "CCACHE_NOHASHDIR": "1"}, check=False)
        if done.returncode == 0:
            return ""
        said = done.stdout + done.stderr
        return next((line for line in said.splitlines() if "error: " in line), said[-1000:])

    def passes(self, test):
        """False: it fails or hangs."""
        command = (["meson", "test", "-C", self.build, "--no-rebuild", "--timeout-multiplier", "0", test] if is_unit(test) else
                   ["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test])
        limit = max(LIMIT_S, TIMES * self.seconds[test]) if test in self.seconds else None
        environment = {**os.environ, "RATION_BUILD": str(self.build), "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                self.hung = True
                return False
            finally:
                if process.poll() is None:
                    self.end(process)
        if status not in (0, 1):
            raise DoesNotApply(f"{test} could not be run: status {status}")
        return status == 0

    @staticmethod
    def end(process):
        """Interrupted, a test ends what it has started."""
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def begin(self, tests):
        """All of them pass here, or the first one that does not is returned."""
        if problem := self.compile(tests, others=True):
            return f"the unchanged copy does not compile:\n{problem}"
        for test in tests:
            before = time.monotonic()
            if not self.passes(test):
                return f"{test} fails on the unchanged copy"
            self.seconds[test] = time.monotonic() - before
        return None

    def survives(self, mutant):
        path = self.folder / mutant["file"]
        original = path.read_text()
        text = changed(mutant, original)
        try:
            path.write_text(text)
            if problem := self.compile(mutant["tests"], others=not all(map(is_unit, mutant["tests"]))):
                raise DoesNotApply(f"it does not compile: {problem}")
            return all(self.passes(test) for test in mutant["tests"])
        finally:
            path.write_text(original)


def judge(copy, chosen):
    """Prints what becomes of each, and returns how many were killed, survived and do not apply."""
    counts = {"killed": 0, "survived": 0, "does not apply": 0}
    for at, mutant in enumerate(chosen, 1):
        before, problem = time.monotonic(), ""
        try:
            copy.hung = False
            verdict = "survived" if copy.survives(mutant) else "killed"
            problem = ", by the time limit" if copy.hung else ""
        except DoesNotApply as error:
            verdict, problem = "does not apply", f": {error}"
        counts[verdict] += 1
        print(f"[{at}/{len(chosen)}] {mutant['name']} ({mutant['file']}): {verdict}, {time.monotonic() - before:.0f} s"
              f"{problem}", flush=True)
    return counts.values()


def main():
    parser = argparse.ArgumentParser(prog="./check mutants", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="NAME", default="", help="only mutants whose name or file contains NAME")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count(), help="compilers to run at a time (default: %(default)s)")
    args = parser.parse_args()

    chosen = [mutant for mutant in mutants() if args.k in mutant["name"] or args.k in mutant["file"]]
    if args.list:
        for mutant in chosen:
            print(f"{mutant['name']}: {mutant['file']}: {' '.join(mutant['tests'])}")
        return 0
    if not chosen:
        print(f"no change is called like {args.k}")
        return 1
    # What is built for a component test is not built anew for the unit programs that open it.
    chosen.sort(key=lambda mutant: not all(map(is_unit, mutant["tests"])))
    with tempfile.TemporaryDirectory(prefix="ration-mutants-") as folder:
        copy = Copy(folder, args.jobs)
        tests = sorted({test for mutant in chosen for test in mutant["tests"]})
        print(f"== building, and {len(tests)} tests on the unchanged copy", flush=True)
        if problem := copy.begin(tests):
            print(problem)
            return 1
        killed, survived, wrong = judge(copy, chosen)
    print(f"{killed} killed, {survived} survived, {wrong} do not apply", flush=True)
    return 1 if survived or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
