"""Several processes take memory in every way, and are killed at any instruction: never more than the limit, and nothing is
lost."""
import pathlib
import random
import signal
import time

import pytest

from agent_fixture import FULL
from driver_tree import run
from shim_memory import MIB
from shim_programs import needs_no_grant_here
from shim_scripts import ARRAYS, POOLS, VIRTUAL

pytestmark = [needs_no_grant_here, pytest.mark.once]

HAMMER = """
live = []

def linear():
    p = c_uint64()
    if cu.cuMemAlloc_v2(byref(p), c_size_t(int(2 ** random.uniform(6, 29)))) == OK:
        return lambda: free(p)

def virtual():
    h = create(random.randrange(1, 100) * 2 * MiB)
    if type(h) is c_uint64:
        return lambda: release(h)

def pooled():
    p = take(int(2 ** random.uniform(10, 24.9)))
    if type(p) is c_uint64:
        return lambda: (give(p), sync())

def arrays():
    a = array(random.randrange(1, 4000), random.randrange(1, 4000), FLOAT, 4)
    if type(a) is c_void_p:
        return lambda: destroy(a)

say("begins")
while True:
    if live and random.random() < .5:
        live.pop(random.randrange(len(live)))()
    else:
        live.append(random.choice([linear, virtual, pooled, arrays])() or (lambda: None))
"""
PROCESSES, ROUNDS, CONTEXT = 3, 40 if FULL else 15, 300
POOL_STEP = 32     # by which a pool may have grown for a moment: docs/internals/charging.md, "What may be wrong"


def driver_used(granted):
    """MiB of the first card that processes hold, as the driver's own tool says."""
    return int(run(granted.tree.path / "bin/nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"
                   ).stdout.split()[0])


def wait_until_stopped(processes):
    for process in processes:
        while pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "TZ":
            time.sleep(0.0005)


@pytest.mark.waits
def test_processes_that_take_memory_in_every_way_and_are_killed(granted, seed):
    draw = random.Random(seed)

    def start():
        process = granted.start(ARRAYS, POOLS, VIRTUAL, f"import random; random.seed({draw.getrandbits(32)})", HAMMER)
        assert process.stdout.readline() == "begins\n", process.stderr.read()
        return process

    processes = [start() for _ in range(PROCESSES)]
    for _ in range(ROUNDS):
        time.sleep(draw.random() * .05)
        # While they are stopped, wherever that is: else what moves from one to another is counted twice.
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        wait_until_stopped(processes)
        used = driver_used(granted)
        for process in processes:
            process.send_signal(signal.SIGCONT)
        assert used <= 2154 + PROCESSES * (CONTEXT + POOL_STEP)
        victim = draw.randrange(PROCESSES)
        assert processes[victim].poll() is None, processes[victim].communicate()
        processes[victim].kill()
        processes[victim].communicate()
        processes[victim] = start()
    for process in processes:
        process.kill()
        process.communicate()
    granted.script("""
        assert info(cu) == (2154 * MiB, 2154 * MiB)
        alloc(2154 * MiB)
        same(2154 * MiB)
    """)
    assert granted.used() <= 2154 * MIB
    assert granted.misuse() == {}
