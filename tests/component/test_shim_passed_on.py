"""Hooks that the simulated driver lacks, or that it has and no program of these tests calls: their arguments reach the driver, and its answer
the program, with and without control of computing power. A library before the driver notes what it is called with."""
import re

import pytest

import grants
import hook_rows
from passed_on import CALLS
from shim_programs import needs_no_grant_here
from shim_scripts import GRAPHS

pytestmark = needs_no_grant_here

NOTES = """
#include <stdint.h>
uint64_t cuTestSeen[16];
int cuTestCalls, cuTestAnswer;
"""


def function(name, arguments):
    count = len(arguments.split())
    seen = "".join(f"\tcuTestSeen[{i}] = a{i};\n" for i in range(count))
    return (f"int {name}({', '.join(f'uint64_t a{i}' for i in range(count))})\n"
            f"{{\n{seen}\tcuTestCalls++;\n\treturn cuTestAnswer;\n}}\n")


VALUES = """
class Location(Structure):    # CUmemLocation
    _fields_ = [("type", c_int), ("id", c_int)]

numbers = iter(range(0x10, 0x10000))
words = (c_uint64 * 64)(*[8] * 64)
zeros = create_string_buffer(4096)

def value(kind):
    if kind == "n":
        return c_uint(next(numbers))
    if kind == "w":
        return c_uint64(next(numbers) << 32 | next(numbers))
    values = {"s": c_void_p(0), "one": c_size_t(1), "two": c_size_t(2), "count": c_uint(1), "device": c_int(0), "location": Location(1, 0),
            "function": c_void_p(next(numbers)), "words": c_void_p(addressof(words))}
    return values[kind] if kind in values else c_void_p(addressof(zeros))

def seen_as(argument, word):
    size = sizeof(argument)
    return int.from_bytes(bytes(argument), "little") == word & (1 << 8 * size) - 1
"""


@pytest.mark.parametrize("paced", [False, True], ids=["unpaced", "paced"])
def test_arguments_reach_the_driver_and_its_answer_the_program(granted, paced):
    before = granted.put_before_driver(NOTES + "".join(function(name, arguments) for name, arguments in CALLS.items()))
    if paced:
        grants.set_core(granted.grant, 0, 1_000_000)    # counted; a copy of 64 GiB waits for no credit
    granted.script(VALUES, f"""
before = CDLL({str(before)!r})
seen, calls, answer = [kind.in_dll(before, name) for kind, name in (
    (c_uint64 * 16, "cuTestSeen"), (c_int, "cuTestCalls"), (c_int, "cuTestAnswer"))]
for name, kinds in {CALLS!r}.items():
    for answer.value in 719, 0:
        arguments, calls.value = [value(kind) for kind in kinds.split()], 0
        assert getattr(cu, name)(*arguments) == answer.value, name
        assert calls.value == 1, (name, calls.value)
        assert all(map(seen_as, arguments, seen)), (name, arguments, list(map(hex, seen)))
    """)


def test_the_table_has_the_arguments_of_cuda_h():
    """src/cuda has the prototypes, which ./check driver compares with the official headers. Those of the others are in the shim only."""
    from charge_order import ROOT, prototypes
    known = prototypes()
    known |= {name: parameters for _, name, _, parameters in hook_rows.read() if parameters}
    for path in (ROOT / "src/shim").glob("pacing-*.c"):
        known |= dict(re.findall(r"^HOOK CUresult (cu\w+)\(([^{]*?)\)\n\{", path.read_text(), re.M | re.S))
    counts = {name: len(known[name].split(",")) for name in CALLS}
    assert counts == {name: len(arguments.split()) for name, arguments in CALLS.items()}


def test_a_primary_context_that_is_released_or_reset_gives_back_what_it_had(granted):
    granted.script("""
        for call in "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2":
            primary = out("cuDevicePrimaryCtxRetain", c_void_p, 0)
            ok(cu.cuCtxSetCurrent(primary))
            base = driver_free()
            alloc(300 * MiB)
            same(300 * MiB)
            ok(cu.cuCtxSetCurrent(ctx))
            ok(getattr(cu, call)(0))
            assert charged() == 0, (call, charged())
            if "Reset" in call:
                cu.cuDevicePrimaryCtxRelease_v2(0)
    """)


def test_the_end_of_work_in_a_context_settles_its_pools(granted):
    granted.script(GRAPHS, """
        give(take(300 * MiB))
        ok(cu.cuCtxSynchronize_v2(ctx))
        same(0)
    """)
