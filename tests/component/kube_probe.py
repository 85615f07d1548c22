"""kube-probe (src/kube/ with a command line) as a process whose lines a test can wait for."""
import os
import pathlib
import subprocess
import threading

from fake_apiserver import wait_for

PROBE = pathlib.Path(os.environ.get("RATION_BUILD", "build")) / "tests/component/kube-probe"


def clean_environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")}
    return {**env, "HOME": "/nonexistent", **more}


def probe(api, *args, options=(), kubeconfig=None, env=None):
    """Runs to the end; the lines of stdout."""
    done = subprocess.run([PROBE, "--kubeconfig", kubeconfig or api.kubeconfig(), *map(str, options), *args],
                          capture_output=True, text=True, timeout=60, env=clean_environment(**(env or {})))
    assert done.returncode >= 0, done.stderr
    return done.stdout.splitlines() or done.stderr.splitlines()


class Probe:
    """Runs until stop(); lines of stdout in .lines, of stderr in .log."""

    def __init__(self, api, *args, options=(), kubeconfig=None):
        self.process = subprocess.Popen(
            [PROBE, "--kubeconfig", kubeconfig or api.kubeconfig(), *map(str, options), *args], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
        self.lines, self.log = [], []
        self.readers = [threading.Thread(target=self.read, args=args, daemon=True)
                        for args in ((self.process.stdout, self.lines), (self.process.stderr, self.log))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def wait(self, text, count=1, timeout=15):
        """Until `count` lines contain the text."""
        wait_for(lambda: sum(text in line for line in self.lines) >= count, timeout,
                 f"{count} x {text!r} in {self.lines[-20:]}, log {self.log[-20:]}")

    def wait_log(self, text, count=1, timeout=15):
        wait_for(lambda: sum(text in line for line in self.log) >= count, timeout,
                 f"{count} x {text!r} in {self.log[-20:]}")

    def count(self, text):
        return sum(text in line for line in self.lines)

    def ask(self):
        """Whether a watch is connected and synced."""
        before = self.count("connected=")
        self.process.stdin.write("?")
        self.process.stdin.flush()
        self.wait("connected=", before + 1)
        return [line for line in self.lines if "connected=" in line][-1]

    def objects(self):
        """The names that the lines so far leave standing."""
        names = {}
        for line in self.lines:
            words = line.split()
            if words[0] == "object":
                names[words[1]] = words[2]
            elif words[0] == "deleted":
                names.pop(words[1], None)
        return sorted(names.values())

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(10) == 0, self.log
        for reader in self.readers:
            reader.join()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
        else:
            self.stop()
