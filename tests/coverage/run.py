"""./check coverage: which lines and branches of the C code the tests run.

Builds everything in build-coverage with gcov's counters, runs the unit suite and the component suite there, and prints
lines and branches per folder and the least covered files. The numbers are printed when a test fails, too; the exit
status is then 1. Branches that only an exception could take are left out. A process that a signal kills has not
written its counters, so what only such a process runs is shown as not run.

Time limits and sizes are as generous as with sanitizers. Tests marked `alone`, which judge milliseconds, are left out.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import check    # noqa: E402

BUILD = ROOT / "build-coverage"
SUITES = ("unit", "component")
FOLDERS = ("src", "sim")
# Two programs are built with CHARGE_ELAPSED. They have other functions of the same names in src/shim/pacing-cost.c, which gcovr 5.2
# cannot merge (merge_function()).
LEFT_OUT = ".*elapsed.*"
# Not optimized: each line keeps code of its own. Atomic: threads count too. exits.h: a process that calls _exit() counts.
OPTIONS = ["-Db_coverage=true", "-Dbuildtype=debug",
           f"-Dc_args=-U_FORTIFY_SOURCE -fprofile-update=atomic -include {ROOT}/tests/coverage/exits.h"]
# What cannot hold in this build: gcov's counters are registered by a constructor.
NOT_HERE = ["tests/component/test_shim.py::test_nothing_runs_at_load_time_and_nothing_unloads_it"]
# Processes that may not write into the build folder would say so on stderr, which tests read. What judges time and memory
# is as patient as with sanitizers.
ENVIRONMENT = {"GCOV_ERROR_FILE": "/dev/null", "RATION_SANITIZE": "1", "RATION_COVERAGE": "1", "RATION_HISTORIES": "200"}


class Sum:
    """Lines and branches of a file, or of a folder."""

    def __init__(self):
        self.lines = self.lines_run = self.branches = self.branches_run = 0

    def add(self, other):
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    @property
    def covered(self):
        return 100 * self.lines_run / self.lines if self.lines else 100.0

    def row(self, name):
        branches = f"{100 * self.branches_run / self.branches:.1f} %" if self.branches else "-"
        return f"{name:<36}{self.lines:>8}{self.covered:>9.1f} %{self.branches:>10}{branches:>11}"


def sums_of(data):
    """path -> Sum, from gcovr's JSON."""
    sums = {}
    for file in data["files"]:
        one = Sum()
        for line in file["lines"]:
            if line.get("gcovr/noncode"):
                continue
            one.lines += 1
            one.lines_run += line["count"] > 0
            branches = [branch for branch in line["branches"] if not branch.get("throw")]
            one.branches += len(branches)
            one.branches_run += sum(branch["count"] > 0 for branch in branches)
        if one.lines:
            sums[file["file"]] = one
    return sums


def lines_not_run(data, path):
    """Their numbers, as text: "3, 7-9"."""
    spans = []
    for file in data["files"]:
        for line in file["lines"] if file["file"] == path else ():
            if line["count"] or line.get("gcovr/noncode"):
                spans.append(None)
            elif spans and spans[-1]:
                spans[-1][1] = line["line_number"]
            else:
                spans.append([line["line_number"]] * 2)
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in filter(None, spans))


def print_tables(data, args):
    sums = sums_of(data)
    folders = collections.defaultdict(Sum)
    for path, one in sums.items():
        folders[str(pathlib.PurePath(path).parent)].add(one)
        folders[f"{path.split('/')[0]} (all)"].add(one)
    print(f"\n{'folder':<36}{'lines':>8}{'covered':>11}{'branches':>10}{'covered':>11}")
    for name in sorted(folders, key=lambda name: (name.split("/")[0].split()[0] != FOLDERS[0], "(all)" in name, name)):
        print(folders[name].row(name))
    in_order = sorted(sums, key=lambda path: (sums[path].covered, path))
    chosen = ([path for path in in_order if path.startswith("src/") and sums[path].covered < args.below] if args.below else
              in_order[:10])
    print(f"\n{f'files of src below {args.below} %' if args.below else 'the least covered files':<36}"
          f"{'lines':>8}{'covered':>11}{'branches':>10}{'covered':>11}")
    for path in chosen:
        print(sums[path].row(path))
        if args.lines:
            print(f"    not run: {lines_not_run(data, path)}")
    if not chosen:
        print("none")


def measure(args):
    """gcovr's JSON of all counters in the build folder."""
    command = ["gcovr", "--root", ROOT, "--object-directory", BUILD, "--exclude-throw-branches",
               "--exclude-directories", LEFT_OUT,
               *[word for folder in FOLDERS for word in ("--filter", f"{folder}/")], BUILD]
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "coverage.json"
        output = ["--json", result]
        if args.html:
            pathlib.Path(args.html).mkdir(parents=True, exist_ok=True)
            output += ["--html-details", pathlib.Path(args.html) / "index.html"]
        done = subprocess.run([*map(str, command), *map(str, output)], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not result.exists():
            sys.exit(f"gcovr failed with status {done.returncode}:\n{done.stderr[-3000:]}")
        return json.loads(result.read_text())


def run_suites(args):
    """The exit status that the suites deserve. It prints their table."""
    chosen = argparse.Namespace(ring="coverage", k=args.k, part=args.part)
    counts, started = [], time.monotonic()
    (ROOT / "build").mkdir(exist_ok=True)    # for reports
    for name in args.suites:
        count = check.Count(name)
        counts.append(count)
        before = time.monotonic()
        check.say(f"coverage: {name}")
        if name == "unit":
            check.unit(BUILD, chosen, count, ENVIRONMENT)
        else:
            check.pytest("coverage", args.tests or ["tests/component"], BUILD, chosen, count, "not alone",
                         check.SIDE_BY_SIDE if args.workers is None else args.workers,
                         options=[f"--deselect={name}" for name in NOT_HERE], env=ENVIRONMENT)
        count.seconds = time.monotonic() - before
    return check.report(counts, chosen, time.monotonic() - started)


def suites(text):
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in SUITES:
            raise argparse.ArgumentTypeError(f"unknown suite {name!r}; the suites are {', '.join(SUITES)}")
    return names


def arguments():
    parser = argparse.ArgumentParser(prog="./check coverage", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=suites, default=list(SUITES), metavar="NAMES",
                        help="suites to run, separated by commas (default: unit,component; an empty word: none, only "
                             "print the counters of earlier runs)")
    parser.add_argument("--add", action="store_true", help="keep the counters of earlier runs and add to them")
    parser.add_argument("-k", metavar="NAME", help="only tests whose name contains NAME")
    parser.add_argument("--tests", nargs="+", metavar="FILE", help="only these files of the component suite")
    parser.add_argument("--below", type=float, metavar="PERCENT",
                        help="list all files of src below PERCENT of lines, in place of the ten least covered files")
    parser.add_argument("--lines", action="store_true", help="print for each listed file the lines that were not run")
    parser.add_argument("--html", metavar="DIR", help="also write a page per source file into DIR")
    parser.add_argument("--workers", type=int, metavar="N",
                        help=f"component tests at a time (default: {check.SIDE_BY_SIDE})")
    args = parser.parse_args()
    args.part = check.turn() % check.PARTS
    return args


def main():
    args = arguments()
    if not shutil.which("gcovr"):
        sys.exit("gcovr is not installed; run lab/install-packages --tools")
    try:
        check.build(BUILD, OPTIONS)
    except check.BuildFailed as error:
        sys.exit(str(error))
    if not args.add and args.suites:
        for path in BUILD.rglob("*.gcda"):
            path.unlink()
    status = run_suites(args) if args.suites else 0
    print_tables(measure(args), args)
    sys.exit(status)


if __name__ == "__main__":
    main()
