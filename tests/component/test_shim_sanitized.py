"""The shim with sanitizers (sanitized/meson.build), which end the program at their first finding. Scripts under the shim
(shim_memory.py) have it in each build with sanitizers. Here the tests of the simulated driver pass through it, with memory
and computing power counted, and a sanitized program whose threads and processes make all kinds of calls side by side."""
import json
import os
import subprocess

import pytest

import shim_through
from driver_cases import *  # noqa: F401,F403 (the tests)
from driver_cases_memory import *  # noqa: F401,F403 (the tests)
from driver_cases_work import *  # noqa: F401,F403 (the tests)
from driver_tree import BUILD, NEWEST, RATION_SIM
from shim_programs import needs_no_grant_here
from shim_scripts import ARRAYS

pytestmark = [pytest.mark.sanitized, needs_no_grant_here, pytest.mark.usefixtures("through_the_shim", "counted_power")]

# Beside other tests and with sanitizers a millisecond says nothing.
JUDGES_MILLISECONDS = (
    "test_prefetched_memory_crosses_between_machine_and_card_once", "test_kernel_occupies_the_card_for_the_time_its_module_says",
    "test_duration_grows_with_blocks", "test_captured_work_is_done_at_each_launch",
    "test_graph_is_built_sorted_updated_and_refused_in_a_circle")

for name in shim_through.DIFFERENT_THROUGH_THE_SHIM + shim_through.DIFFERENT_WHERE_POWER_IS_COUNTED + JUDGES_MILLISECONDS:
    del globals()[name]

CALLS = ["alloc", "pitch", "managed", "array", "mipmap", "virtual", "async", "pool", "graph", "capture", "ipc", "context",
         "module", "limit", "child"]


def test_a_hook_that_reads_beyond_the_end_is_found(granted):
    """The program's own mistake, which the shim reads first: a description of an array that ends after its height."""
    process = granted.start(ARRAYS, """
        cu.free.argtypes, cu.malloc.restype = [c_void_p], c_void_p
        short = cu.malloc(c_size_t(16))
        memset(short, 1, 16)
        cu.cuArray3DCreate_v2(byref(c_void_p()), c_void_p(short))
    """)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1 and "ERROR: AddressSanitizer" in said, said
    assert "src/shim/memory-arrays.c" in said.partition("#1 ")[0], said


def client_counts(grant, found, seed):
    """call -> [succeeded, refused, failed] of campaign-client, without kills."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("RATION_")}
    env["ASAN_OPTIONS"] = f"{env.get('ASAN_OPTIONS', '')}:detect_leaks=1:log_path={found}"
    done = subprocess.run(
        [BUILD / "tests/campaign/campaign-client", "--seed", str(seed), "--threads", "6", "--processes", "2", "--ms", "4000",
         "--kinds", ",".join(CALLS), "--largest-mib", "400", "--context-mib", "150", "--nap-us", "1000", "--forks"],
        input="\n" * 5, capture_output=True, text=True, timeout=120, check=False,
        env=env | {"LD_LIBRARY_PATH": str(grant.path / "lib"), "RATION_GRANT": str(grant.folder / "grant")})
    assert grant.keeper.poll() is None, "the keeper has ended"
    assert not (files := list(found.parent.glob("found*"))), files[0].read_text()
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("counts ")).partition(" ")[2])


def test_threads_and_processes_make_all_kinds_of_calls_at_the_limit(tree, tmp_path):
    """A leak is reported when its process ends. On a busy machine one kind of call may never find room in a round, so there may be five."""
    tree.sim = RATION_SIM
    tree.up_file({"driverVersion": NEWEST, "gpus": [{"memoryMiB": 3000, "contextMiB": 150}]})
    grant = shim_through.Grant(tree)
    missing = set(CALLS)
    try:
        for seed in range(5, 10):
            counts = client_counts(grant, tmp_path / "found", seed)
            assert counts["forks"] > 0 and counts["alloc"][1] > 0, counts    # at the limit
            assert not (failed := [call for call in CALLS if counts[call][2]]), (failed, counts)
            missing -= {call for call in CALLS if counts[call][0]}
            if not missing:
                break
    finally:
        grant.keeper.kill()
        grant.keeper.wait()
    assert not missing, (missing, counts)
