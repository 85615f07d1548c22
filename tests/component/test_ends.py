"""The fixtures judge how each process that they started has ended: what dies by itself fails its test. (The agent and its
worker: test_agent_kills.py.)"""
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from agent_fixture import World, wait_for
from run_machine import needs_no_grant_here, temporary_machine
from scheduler_fixture import Scheduler
from shares import Run


def is_gone(process):
    """It has ended; nobody has asked for its status yet."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


@pytest.mark.parametrize("signo, said", [(signal.SIGKILL, "by itself, with -9"), (signal.SIGTERM, "by itself, with 0")])
def test_a_scheduler_that_ends_without_its_tests_doing_fails_the_test(api, signo, said):
    scheduler = Scheduler(api)
    os.kill(scheduler.process.pid, signo)
    wait_for(lambda: is_gone(scheduler.process))
    with pytest.raises(AssertionError, match=said):
        scheduler.end()


def test_a_scheduler_that_ends_with_another_status_fails_the_test(api):
    scheduler = Scheduler(api)
    with pytest.raises(AssertionError):
        scheduler.stop(signal.SIGUSR2)    # it does not handle this one


def test_what_a_sanitizer_says_fails_the_test(api):
    scheduler = Scheduler(api)
    scheduler.log.write("==1==ERROR: LeakSanitizer: detected memory leaks\n")
    scheduler.log.flush()
    with pytest.raises(AssertionError, match="LeakSanitizer"):
        scheduler.end()


def test_an_agent_that_died_before_the_next_one_was_started_fails_the_test():
    with pytest.raises(AssertionError, match="by itself, with -9"), World() as w:
        w.up(32)
        os.kill(w.agent.pid, signal.SIGKILL)
        wait_for(lambda: is_gone(w.agent))
        w.start_agent()


def test_an_agent_that_ends_with_another_status_than_the_test_wants_fails_the_test():
    with pytest.raises(AssertionError, match="has ended with {1}"), World() as w:
        w.kubeconfig = w.dir / "missing"
        w.start_agent()
        w.agent.wait(10)


@needs_no_grant_here
def test_a_run_that_fails_by_itself_fails_the_test(machine):
    run = Run(machine, program=("sh", "-c", "echo ready; exit 3"))
    wait_for(lambda: is_gone(run.process))
    with pytest.raises(AssertionError, match="by itself, with 3"):
        run.end()


@pytest.mark.waits
@needs_no_grant_here
def test_a_keeper_that_died_fails_the_test():
    with pytest.raises(AssertionError, match="keeper has not cleaned up"), temporary_machine() as machine:
        run = Run(machine)
        os.kill(wait_for(run.keeper), signal.SIGKILL)
        run.end()


def test_a_fake_that_fails_in_a_thread_of_its_own_fails_the_test(tmp_path):
    (tmp_path / "test_thread.py").write_text("""
import threading
def test_with_a_thread():
    thread = threading.Thread(target=lambda: {}["nothing"])
    thread.start()
    thread.join()
""")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", tmp_path],
                          env=os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).parents[1])}, text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == 1 and "1 failed" in done.stdout and "KeyError: 'nothing'" in done.stdout, done.stdout
