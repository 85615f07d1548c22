"""A program that runs in a terminal."""
import os
import pty
import select
import time


class Terminal:
    def __init__(self, command, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(command[0], [str(word) for word in command], {**env, "TERM": "xterm"})
        self.seen = ""

    def reads(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition(self.seen):
            assert time.monotonic() < end, self.seen[-2000:]
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")

    def ends(self):
        """Its status, when all that it wrote was read."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:    # the program has closed the terminal
                    return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        raise AssertionError("it does not end")
