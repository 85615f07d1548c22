"""./check fuzz: lets libFuzzer explore with every harness of tests/fuzz, and reports what came of it.

Builds all harnesses with clang, libFuzzer, ASAN and UBSAN in build-fuzz. Each harness runs for the same part of the time,
begins with its corpus and a dictionary of the words that its source lists, and writes new inputs to a scratch folder.
Afterwards libFuzzer chooses the new inputs that reach new code, and the table shows what they added. The exit status is 1
if a harness crashed, leaked, took too long or used too much memory; the report then names the input and the command that
replays it.

Starting each harness, and choosing among its new inputs, comes on top of --minutes: some seconds per harness.
"""
import argparse
import ast
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "fuzz"
BUILD = ROOT / "build-fuzz"
SCRATCH = BUILD / "campaign"
INPUT_MAX = 8192         # bytes of one input
TIMEOUT_S = 60           # for one input; a busy machine is no finding
MEMORY_MB = 2048
PROGRESS_S = 30
SETUP = ["-Dlibfuzzer=true", "-Db_sanitize=address,undefined", "-Db_lundef=false",
         "-Dc_args=-fsanitize=fuzzer-no-link", "-Dc_link_args=-fsanitize=fuzzer-no-link"]
# A small quarantine: a larger one costs page faults, and inputs are short.
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:quarantine_size_mb=16",
              "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
KINDS = {70: "timeout", 71: "out of memory", 76: "fuzzer's own", 77: "crash"}    # libFuzzer's exit statuses
# How libFuzzer calls the file of an input that ends the run.
ARTIFACTS = ["crash-*", "leak-*", "timeout-*", "oom-*"]


def harnesses():
    """Names of all harnesses, as tests/fuzz/meson.build lists them."""
    table = re.search(r"^fuzzers = \{\n(.*?)^\}", (HERE / "meson.build").read_text(), re.M | re.S).group(1)
    return re.findall(r"^  '([a-z-]+)':", table, re.M)


def dictionary(source):
    """The words of a harness's fuzz_words[] as libFuzzer's dictionary. C concatenates adjacent string literals."""
    array = re.search(r"fuzz_words\[\] = \{(.*?)\};", source, re.S)
    if not array:
        return ""
    literal = r'"(?:[^"\\]|\\.)*"'
    words = [b"".join(ast.literal_eval("b" + part) for part in re.findall(literal, group))
             for group in re.findall(rf"{literal}(?:\s*{literal})*", array.group(1))]
    quoted = ("".join(chr(c) if 32 <= c < 127 and chr(c) not in '"\\' else f"\\x{c:02x}" for c in word)
              for word in words if 0 < len(word) <= 64)
    return "".join(f'"{word}"\n' for word in dict.fromkeys(quoted))


def spread(total, weights):
    """Whole numbers that add up to total, in proportion to the weights."""
    parts = [total * weight // sum(weights) for weight in weights]
    parts[0] += total - sum(parts)
    return parts


class Harness:
    """One harness: its files, and what came of its runs."""

    def __init__(self, name):
        self.name = name
        self.program = BUILD / "tests" / "fuzz" / f"fuzz-{name}"
        self.corpus = HERE / "corpus" / name
        self.scratch = SCRATCH / name
        self.found, self.merged, self.log = (self.scratch / part for part in ("found", "merged", "log"))
        self.runs, self.seconds = 0, 0.0
        self.before = self.after = self.new = 0
        self.findings = []    # (kind, path of the input)
        self.position = ""    # libFuzzer's last line

    def prepare(self):
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.found.mkdir(parents=True)
        sources = HERE.glob(f"fuzz-{self.name}*.c")
        (self.scratch / "words.dict").write_text("".join(dictionary(path.read_text()) for path in sources))
        self.before = self.coverage(self.corpus)

    def call(self, *options, timeout=None):
        """Runs the harness; returns its exit status and all that libFuzzer said. What the tested code writes to standard
        output and standard error is dropped; sanitizers' reports are kept."""
        command = [self.program, "-close_fd_mask=3", f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={MEMORY_MB}",
                   f"-max_len={INPUT_MAX}", f"-artifact_prefix={self.scratch}/", *options]
        said = []
        with open(self.log, "a", encoding="utf-8") as log, subprocess.Popen(
                [str(word) for word in command], cwd=self.scratch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, env={**os.environ, **SANITIZERS}, start_new_session=True) as process:
            RUNNING.add(process)
            timer = threading.Timer(timeout, stop, [process]) if timeout else None
            if timer:
                timer.start()
            for raw in process.stderr:
                line = raw.decode(errors="replace")
                said.append(line)
                log.write(line)
                if line.startswith("#"):
                    self.position = line.strip()
            status = process.wait()
            if timer:
                timer.cancel()
            RUNNING.discard(process)
        return status, "".join(said)

    def coverage(self, *folders):
        """Edges of the program that these inputs reach."""
        status, said = self.call("-runs=0", *folders)
        found = re.findall(r"cov: (\d+)", said)
        self.note(status)
        return int(found[-1]) if found else 0

    def note(self, status):
        """Remembers a run that did not end well, with the file that libFuzzer has left."""
        known = {path for _, path in self.findings}
        left = [path for pattern in ARTIFACTS for path in sorted(self.scratch.glob(pattern)) if path not in known]
        kinds = {"crash": "crash", "leak": "leak", "timeout": "timeout", "oom": "out of memory"}
        self.findings += [(kinds[path.name.split("-")[0]], path) for path in left]
        if status != 0 and not left and not STOPPED.is_set():
            self.findings.append((KINDS.get(status, f"status {status}"), self.log))

    def explore(self, *limits):
        """Runs for a number of seconds or of executions: limits are libFuzzer's options."""
        begun = time.monotonic()
        # LeakSanitizer looks at the end, and after each input of the corpus when its edges are counted. After each new input
        # (as libFuzzer does where a table or a buffer has grown) it would take nine tenths of the time.
        status, said = self.call("-print_final_stats=1", "-detect_leaks=0", f"-dict={self.scratch / 'words.dict'}", *limits, self.found,
                                 *([self.merged] if self.merged.exists() else []), self.corpus)
        self.seconds += time.monotonic() - begun
        counted = re.findall(r"stat::number_of_executed_units: *(\d+)", said) or re.findall(r"^#(\d+)", said, re.M)
        self.runs += int(counted[-1]) if counted else 0
        self.note(status)

    def conclude(self):
        """Of the new inputs those that reach code that the corpus does not reach, beside a copy of the corpus."""
        if STOPPED.is_set():
            return
        if not self.merged.exists():
            shutil.copytree(self.corpus, self.merged)
        self.call("-merge=1", self.merged, self.found, timeout=600)
        self.after = self.coverage(self.merged)
        old = {path.name for path in self.corpus.iterdir()}
        self.new = sum(path.name not in old for path in self.merged.iterdir())

    def keep(self, most_bytes):
        """Copies the new inputs, the small ones first, into the corpus: at most so many bytes. Returns how many."""
        old = {path.name for path in self.corpus.iterdir()}
        kept = 0
        for path in sorted(self.merged.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
            if path.name in old:
                continue
            most_bytes -= path.stat().st_size
            if most_bytes < 0:
                break
            shutil.copy(path, self.corpus / f"found-{path.name[:12]}")
            kept += 1
        return kept

    def rate(self):
        return self.runs / self.seconds if self.seconds else 0


RUNNING = set()
STOPPED = threading.Event()


def stop(process):
    """Ends a harness and the process that it may have started to choose among inputs."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)    # libFuzzer says what it has done


def say(text):
    print(f"== {text}", flush=True)


def build(chosen):
    if not (BUILD / "build.ninja").exists():
        say("configuring build-fuzz")
        compiler = "ccache clang" if shutil.which("ccache") else "clang"
        subprocess.run(["meson", "setup", BUILD, *SETUP], cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
                       env={"CC": compiler, **os.environ})
    say("building build-fuzz")
    subprocess.run(["ninja", "-C", BUILD, *(f"tests/fuzz/fuzz-{harness.name}" for harness in chosen)], cwd=ROOT,
                   check=True, stdout=subprocess.DEVNULL)


def progress(chosen, begun):
    """One line about each harness that runs, twice a minute, until all is over."""
    while not STOPPED.wait(PROGRESS_S):
        lines = [f"{harness.name}: {harness.position}" for harness in chosen if harness.position]
        print(f"-- {time.monotonic() - begun:.0f} s; {'; '.join(lines)}", flush=True)


def in_turn(jobs, work):
    """Calls work's functions, `jobs` of them at a time, in their order."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(function) for function in work]:
            future.result()


def campaign(chosen, args):
    def first(harness):
        if STOPPED.is_set():
            return
        harness.prepare()
        harness.explore(f"-max_total_time={max(1, round(args.minutes * 60 * args.jobs / len(chosen)))}")
        harness.conclude()
        harness.position = ""
        print(f"   {harness.name}: {harness.runs} executions, {harness.rate():.0f}/s, edges {harness.before} -> "
              f"{harness.after}, {len(harness.findings)} findings", flush=True)

    def more(harness, runs, share):
        if STOPPED.is_set():
            return
        harness.explore(f"-runs={runs}", f"-max_total_time={round(args.minutes * 60 * share)}")
        harness.conclude()
        harness.position = ""

    in_turn(args.jobs, [lambda h=harness: first(h) for harness in chosen])
    missing = args.runs - sum(harness.runs for harness in chosen)
    fast = sorted((h for h in chosen if not h.findings), key=Harness.rate, reverse=True)[:args.jobs]
    if missing > 0 and fast:
        say(f"{missing} executions are missing; the fastest go on: {', '.join(h.name for h in fast)}")
        parts = spread(missing, [max(1, int(harness.rate())) for harness in fast])
        share = args.jobs / len(fast)
        in_turn(args.jobs, [lambda h=h, n=n: more(h, n, share) for h, n in zip(fast, parts)])


def report(chosen, seconds):
    """Prints the table; returns the exit status."""
    width = max(len(harness.name) for harness in chosen)
    counts = ["crash", "leak", "timeout", "out of memory"]
    print(f"\n{'harness':<{width}}  {'executions':>11}  {'per second':>10}  {'edges':>13}  {'new inputs':>10}  "
          f"{'crashes':>7}  {'leaks':>5}  {'timeouts':>8}  {'out of memory':>13}")
    for h in chosen:
        kinds = [kind for kind, _ in h.findings]
        other = sum(kind not in counts for kind in kinds)
        print(f"{h.name:<{width}}  {h.runs:>11}  {h.rate():>10.0f}  {f'{h.before} -> {h.after}':>13}  {h.new:>10}  "
              f"{kinds.count('crash') + other:>7}  {kinds.count('leak'):>5}  {kinds.count('timeout'):>8}  "
              f"{kinds.count('out of memory'):>13}")
    total, findings = sum(h.runs for h in chosen), sum(len(h.findings) for h in chosen)
    print(f"{'all':<{width}}  {total:>11}  {total / seconds:>10.0f}  "
          f"{f'{sum(h.before for h in chosen)} -> {sum(h.after for h in chosen)}':>13}  "
          f"{sum(h.new for h in chosen):>10}")
    for harness in chosen:
        for kind, path in harness.findings:
            print(f"FOUND by {harness.name}: {kind}; the input is {path}\n"
                  f"  the report: {harness.log}\n"
                  f"  again: {harness.program} {path}")
    if findings:
        print("Put each input into tests/fuzz/corpus/<harness>, in the commit that mends what it shows.")
    print(f"{total} executions in {seconds:.0f} s, {findings} findings", flush=True)
    return 1 if findings else 0


def main():
    parser = argparse.ArgumentParser(prog="./check fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="time for all harnesses together (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=0, metavar="N",
                        help="go on with the fastest harnesses until all together have executed N inputs, for --minutes at most")
    parser.add_argument("-k", metavar="NAME", default="", help="only harnesses whose name contains NAME")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="harnesses to run at a time (default: %(default)s)")
    parser.add_argument("--keep", action="store_true",
                        help="copy new inputs that reach new code into tests/fuzz/corpus, the small ones first")
    parser.add_argument("--keep-bytes", type=int, default=4096, metavar="N",
                        help="the most bytes to copy for each harness (default: %(default)s)")
    args = parser.parse_args()

    chosen = [Harness(name) for name in harnesses() if args.k in name]
    if not chosen:
        parser.error(f"no harness is called like {args.k}; there are: {', '.join(harnesses())}")
    try:
        build(chosen)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(map(str, error.cmd[:3]))} failed: run it by hand to see why")
    begun = time.monotonic()
    threading.Thread(target=progress, args=(chosen, begun), daemon=True).start()
    interrupted = False
    # A shell without job control starts what it leaves in the background with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    work = threading.Thread(target=campaign, args=(chosen, args))
    work.start()
    try:
        work.join()
    except KeyboardInterrupt:
        interrupted = True
        STOPPED.set()
        for process in list(RUNNING):
            stop(process)
        work.join()
    STOPPED.set()
    status = report(chosen, time.monotonic() - begun)
    if args.keep:
        for harness in chosen:
            if harness.merged.exists():
                print(f"{harness.name}: {harness.keep(args.keep_bytes)} new inputs are in its corpus now")
    sys.exit(130 if interrupted else status)


if __name__ == "__main__":
    main()
