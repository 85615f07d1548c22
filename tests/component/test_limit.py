"""The limit holds while everything moves: programs that allocate and free in many threads and processes at their limit,
that make contexts, launch graphs with memory of their own, and live in pid namespaces of their own."""
import sys
import textwrap

import pytest

from test_run import BUILD, CUDA, machine, pytestmark    # noqa: F401 (fixture, skip)

MIB = 1 << 20

CHURN = BUILD / "tests/component/limit-churn"
CONTEXT_MIB = 312      # of a V100: sim/ration-sim/models.c
LIMIT_MIB = 2154
PIECES = (LIMIT_MIB - CONTEXT_MIB) // 16


@pytest.mark.waits
@pytest.mark.parametrize("size_mib", [64, 700])
def test_threads_that_allocate_and_free_at_the_limit_gain_nothing(machine, size_mib):    # noqa: F811
    assert machine.run(CHURN, 16, 3, size_mib).stdout == f"{PIECES}\n"


@pytest.mark.waits
def test_processes_that_allocate_and_free_at_the_limit_gain_nothing(machine):    # noqa: F811
    churns = " & ".join([f"{CHURN} 1 2 700 >/dev/null"] * 4)
    done = machine.run("sh", "-c", f"{churns} & wait; exec {CHURN} 1 0 1")
    assert done.stdout == f"{PIECES}\n", done.stderr


# --- programs in pid namespaces of their own ---

SANDBOX = ["unshare", "-Urpf", "--kill-child"]
HOLD = f"""
    context()
    pointers = []
    while True:
        p = c_uint64()
        if cuda.cuMemAlloc_v2(byref(p), c_size_t({64 * MIB})):
            break
        pointers.append(p)
    print(len(pointers), (memory()[1] - memory()[0]) >> 20, flush=True)
    sys.stdin.read()
    """
COUNT = HOLD.replace("sys.stdin.read()", "")


def sandboxed(*before):
    """A program for `sh -c` in the run: what it may use, in a sandbox, killed there, and what is left."""
    hold = textwrap.dedent(CUDA) + textwrap.dedent(HOLD)
    count = textwrap.dedent(CUDA) + textwrap.dedent(COUNT)
    return f"""
        import subprocess, sys, time
        before, hold, count = {list(before)!r}, {hold!r}, {count!r}
        inner = subprocess.Popen([*before, sys.executable, '-c', hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        print(inner.stdout.readline().decode().strip())
        inner.kill()
        inner.wait()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            done = subprocess.run([*before, sys.executable, '-c', count], stdin=subprocess.DEVNULL, capture_output=True)
            if done.stdout.split()[0] == b'{(LIMIT_MIB - CONTEXT_MIB) // 64}':
                break
            time.sleep(.2)
        print(done.stdout.decode().strip())
        """


@pytest.mark.waits
@pytest.mark.parametrize("before", [(), SANDBOX, [*SANDBOX, "--mount-proc"]], ids=["none", "pids", "pids and proc"])
def test_program_in_a_sandbox_is_limited_and_its_memory_is_given_back(machine, before):    # noqa: F811
    done = machine.run(sys.executable, "-c", textwrap.dedent(sandboxed(*before)))
    pieces = (LIMIT_MIB - CONTEXT_MIB) // 64
    said = f"{pieces} {pieces * 64 + CONTEXT_MIB}"
    assert done.stdout.splitlines() == [said, said], done.stderr
