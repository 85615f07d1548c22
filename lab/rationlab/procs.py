"""Processes of a lab: started with a mark in their environment, found and ended by pid.

Every process of a lab carries RATION_LAB_MARK=<folder of the lab>. A pid read from a file is believed only
if the process has that mark, so a pid that another process has by now is never signalled; and what no file
remembers (the lab was killed between fork and write) is still found by its mark.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

from .errors import LabError
from .patience import deadline_in, patience

MARK = "RATION_LAB_MARK"
_EXEC_S = 1


def _read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def is_alive(pid):
    """False for a zombie too: it has ended, only its parent has not looked yet. A killed program whose first thread
    is a zombie while others are still ending has not ended: it keeps its sockets."""
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return False
    if stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X"):
        return True
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def _environment(pid):
    """Of the process, as NAME=VALUE; empty while it is executing a program."""
    return [entry for entry in _read(f"/proc/{pid}/environ").split(b"\0") if entry]


def has_mark(pid, folder):
    return f"{MARK}={folder}".encode() in _environment(pid)


def marked(folder):
    """Pids of all living processes of the lab in this folder."""
    return [int(entry) for entry in os.listdir("/proc")
            if entry.isdigit() and int(entry) != os.getpid() and has_mark(entry, folder) and is_alive(entry)]


def mount_namespace(pid):
    """What tells it from others, or None if the process has ended."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return None


def children(pid):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _read(f"/proc/{entry}/stat").rpartition(b")")[2].split()
            if len(fields) > 1 and int(fields[1]) == pid:
                found.append(int(entry))
    return found


def wait_gone(pids, timeout):
    """The pids that still live after at most `timeout` seconds."""
    deadline = deadline_in(timeout)
    left = [pid for pid in pids if is_alive(pid)]
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [pid for pid in left if is_alive(pid)]
    return left


def signal_pid(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Part:
    """One program of a lab, e.g. the kubelet of a node. Its pid file and log lie in the lab's folder."""

    def __init__(self, folder, name, wrapped=False):
        """`wrapped`: the command is nsenter, which stays as the parent of the program itself."""
        self.folder = Path(folder)
        self.name = name
        self.wrapped = wrapped
        self.pid_file = self.folder / "pids" / name
        self.log_file = self.folder / "logs" / f"{name}.log"

    def _recorded_pid(self):
        """The process that start() made, if it lives and is the lab's."""
        try:
            pid = int(self.pid_file.read_text())
        except (OSError, ValueError):
            return None
        # A process that is just executing a program has no environment for a moment (fs/binfmt_elf.c sets env_start and env_end
        # after the new memory is in force), and wrappers execute one after the other.
        deadline = deadline_in(_EXEC_S)
        while time.monotonic() < deadline:
            if not is_alive(pid):
                return None
            environment = _environment(pid)
            if f"{MARK}={self.folder}".encode() in environment:
                return pid
            if environment:
                return None
            time.sleep(0.01)
        return None

    def pid(self):
        """Pid of the program, or None when it does not run (or is only about to)."""
        pid = self._recorded_pid()
        if pid is None or not self.wrapped:
            return pid
        inner = children(pid)
        return inner[0] if inner else None

    def start(self, argv, env=None):
        """Starts the program unless it runs already. True if it was started."""
        if self._recorded_pid() is not None:
            return False
        self.pid_file.parent.mkdir(parents=True, exist_ok=True)
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self.pid_file.unlink(missing_ok=True)
        environment = {"PATH": os.environ["PATH"], "HOME": "/root", "LANG": "C.UTF-8", MARK: str(self.folder)}
        environment.update(env or {})
        # The shell writes its own pid and becomes the program: no moment in which the program runs unrecorded.
        command = ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.pid_file), *map(str, argv)]
        with open(self.log_file, "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                       start_new_session=True, cwd="/")
        _started.append(process)
        while process.poll() is None and self._recorded_pid() is None:
            time.sleep(0.005)
        return True

    def stop(self, number=signal.SIGTERM, timeout=10):
        """Ends the program by its pid; SIGKILL when it does not go in time. True if it ran."""
        pid = self.pid()
        if pid is None:
            return False
        signal_pid(pid, number)
        if wait_gone([pid], timeout):
            signal_pid(pid, signal.SIGKILL)
            if wait_gone([pid], 10):
                raise LabError(f"{self.name}: process {pid} does not end")
        self.wait_gone(5)
        return True

    def wait_gone(self, timeout=10):
        """Until a program that others have ended is gone, with its wrapper."""
        pid = self._recorded_pid()
        if pid is None:
            return
        # When its program is stopped, nsenter stops itself too, and stays stopped when the program goes on (continue_as_child(), nsenter.c).
        signal_pid(pid, signal.SIGCONT)
        if wait_gone([pid], timeout):
            raise LabError(f"{self.name}: process {pid} does not end")

    def log_tail(self, lines=15):
        text = _read(self.log_file)[-65536:].decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def check_running(self):
        """Raises with the end of the log when the program has ended."""
        for process in _started:
            process.poll()
        if self._recorded_pid() is None:
            raise LabError(f"{self.name} ended; the end of its log {self.log_file}:\n{self.log_tail()}")


# Popen objects of this run: polled, so that a program that dies early is no zombie.
_started = []


def run(argv, what, timeout=120, env=None, stdin=None, cwd=None):
    """Runs a short command; its error text becomes the message."""
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=timeout * patience(), env=env,
                          input=stdin, cwd=cwd, check=False)
    if done.returncode != 0:
        raise LabError(f"{what}: {argv[0]} exited {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def kill_marked(folder):
    """Ends every process of the lab, whichever command started it, and waits for it to be gone."""
    for _ in range(5):
        left = marked(folder)
        if not left:
            return
        for pid in left:
            signal_pid(pid, signal.SIGKILL)
        wait_gone(left, 10)
    left = marked(folder)
    if left:
        raise LabError(f"processes {left} of {folder} do not end")
