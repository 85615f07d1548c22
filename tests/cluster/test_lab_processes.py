"""How the lab looks at its processes. Starts no lab."""
import os
import pathlib
import signal
import sys

from cluster import ROOT, wait_for

sys.path.insert(0, str(ROOT / "lab"))
from rationlab import procs    # noqa: E402


def test_a_program_that_is_just_executed_has_not_ended(monkeypatch, tmp_path):
    """While a process executes a program its environment is empty, at the first look and not at the second."""
    looks, read = [], pathlib.Path.read_bytes

    def read_bytes(path):
        if path.name != "environ":
            return read(path)
        looks.append(path)
        return b"" if len(looks) == 1 else f"PATH=/bin\0{procs.MARK}={tmp_path}\0".encode()

    (tmp_path / "pids").mkdir()
    (tmp_path / "pids" / "init@n").write_text(f"{os.getpid()}\n")
    monkeypatch.setattr(pathlib.Path, "read_bytes", read_bytes)
    procs.Part(tmp_path, "init@n").check_running()
    assert len(looks) == 2


def test_a_program_that_was_stopped_for_a_while_can_be_replaced(tmp_path):
    """nsenter stops itself with its program, and is not told when the program goes on."""
    part = procs.Part(tmp_path, "containerd@n", wrapped=True)
    command = ["nsenter", f"--pid=/proc/{os.getpid()}/ns/pid", "--", "sleep", "100"]
    part.start(command)
    try:
        program, wrapper = wait_for(part.pid), int(part.pid_file.read_text())
        os.kill(program, signal.SIGSTOP)
        wait_for(lambda: " (stopped)" in pathlib.Path(f"/proc/{wrapper}/status").read_text())
        os.kill(program, signal.SIGCONT)
        assert part.stop()
        assert part.start(command)
        assert wait_for(part.pid) != program
    finally:
        procs.kill_marked(tmp_path)
