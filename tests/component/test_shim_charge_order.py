"""The charge comes before the driver's call: while the driver allocates, the ledger has the memory already, and what is over
the limit does not reach the driver. A charge after the call would let two processes be over the limit for a moment."""
import pytest

import charge_order
import grants
from shim_memory import compile_before_driver
from shim_programs import needs_no_grant_here
from shim_scripts import ARRAYS, GRAPHS

pytestmark = needs_no_grant_here

PRELUDE = ARRAYS + GRAPHS + """
LIMIT = 2154 * MiB
IMAGE = b'{"rationSimModule": 1, "functions": {"f": {"us": 1}}}'
FILE = os.environ["MODULE"].encode()
FAILURE = 214    # CUDA_ERROR_ECC_UNCORRECTABLE: the shim never says that by itself

class D2v1(Structure):
    _fields_ = [(n, c_uint) for n in ("Width", "Height", "Format", "NumChannels")]

class IpcHandle(Structure):
    _fields_ = [("bytes", c_char * 64)]

properties = create_string_buffer(64)
properties[0], properties[8] = 1, 1        # pinned, on device 0 (CUmemAllocationProp, cuda.h of CUDA 13.0.96)
before = CDLL(os.environ["BEFORE"])
calls, fail = c_int.in_dll(before, "cuTestCalls"), c_int.in_dll(before, "cuTestFail")
watched = c_char_p.in_dll(before, "cuTestWatched")
seen, under_way, turn, noted = (c_long.in_dll(before, "cuTest" + name) for name in ("Charged", "UnderWay", "Turn", "Noted"))

def used():
    before.cuTestLook()
    return seen.value

def begin_capture():
    stream = out("cuStreamCreate", c_void_p, 1)
    ok(cu.cuStreamBeginCapture_v2(stream, 2))    # relaxed: this thread may allocate meanwhile
    return stream

def captured():
    stream, graph = begin_capture(), c_void_p()
    take(300 * MiB, stream)
    ok(cu.cuStreamEndCapture(stream, byref(graph)))
    return graph

def unknown_pool():
    pool = c_void_p()
    ok(real.cuMemPoolCreate(byref(pool), byref(PoolProps(1, 0, Location(1, 0)))))
    return pool

def observed(result=OK, times=1):
    # Calls the hook. (what is charged when the driver is called, calls under way, the turn)
    calls.value, watched.value = 0, DRIVER
    r = call()
    watched.value = None
    assert (r, calls.value) == (result, times), (r, calls.value)
    return seen.value, under_way.value, turn.value

def know_contexts():
    # As the keeper does it: what a context takes (docs/internals/grant.md).
    with open(os.environ["RATION_GRANT"], "r+b") as grant:
        grant.seek(2520 + 64 * 256 + 104)
        grant.write((300 * MiB).to_bytes(8, "little"))
"""


@pytest.fixture(scope="module")
def looks(tmp_path_factory):
    return compile_before_driver(charge_order.source(), tmp_path_factory.mktemp("looks"))


@pytest.fixture
def observe(granted, tmp_path, looks):
    """observe(key, call, text) runs a script in which observed() calls the hook of this key."""
    before, module = granted.put_before_driver(looks), tmp_path / "module"
    module.write_text('{"rationSimModule": 1, "functions": {"f": {"us": 1}}}')

    def play(key, call, *texts, **more):
        granted.script(PRELUDE, f"DRIVER = {charge_order.driver_of(key).encode()!r}\ndef call():\n    return {call}\n", *texts,
                       USAGE=str(granted.folder / "usage"), BEFORE=str(before), MODULE=str(module), **more)
    return play


def rows(which=charge_order.ROWS):
    return pytest.mark.parametrize("key", which)


def prepared(key):
    row = charge_order.ROWS[key]
    return row, f"""
charge, after = {row.charged} * MiB, {row.charged if row.after is None else row.after} * MiB
{"know_contexts()" if key in charge_order.CONTEXTS else ""}
{row.prepare}
held = used()
"""


FULL = {
    charge_order.REFUSED: "observed(OOM, 0)",
    charge_order.UNDONE: "observed(OOM)",
    charge_order.MADE: "assert observed()[0] == full",
}


@rows()
def test_memory_is_charged_before_the_driver_allocates_it(observe, key):
    """When the driver is called, the charge is there, and the call is counted as under way."""
    row, prepare = prepared(key)
    observe(key, row.call, prepare, f"""
        assert observed()[:2] == (held + charge, 1), (seen.value, under_way.value)
        assert used() == held + after, (used(), after)
        assert under_way.value == 0
        if {row.is_counted}:
            assert used() == taken(), (used(), taken())
    """)


@rows()
def test_what_does_not_fit_is_not_asked_of_the_driver(observe, key):
    """A block less is free than what is charged. The limit holds for what the table says is refused, undone or made."""
    row, prepare = prepared(key)
    observe(key, row.call, prepare, f"""
        rest = alloc(LIMIT - held - max(charge, after, 2 * MiB) + 2 * MiB)
        full = used()
        {FULL[row.when_full]}
        assert used() == full, (used(), full)
        assert under_way.value == 0
        free(rest)
        assert used() == held
    """)


@rows()
def test_a_call_that_the_driver_fails_leaves_the_charge_as_it_was(observe, key):
    """The program gets the driver's error. What is left may be allocated, and the call may be made again."""
    row, prepare = prepared(key)
    observe(key, row.call, prepare, """
        for i in range(2):
            fail.value = FAILURE
            observed(FAILURE)
            assert (used(), under_way.value, turn.value) == (held, 0, 0), (used(), held, under_way.value, turn.value)
        free(alloc(LIMIT - held))
        fail.value = 0
        assert observed()[0] == held + charge
        assert used() == held + after, (used(), after)
    """)


@rows(charge_order.GRAPHS)
@pytest.mark.parametrize("first", [0, 1])
def test_a_graph_of_two_gpus_is_charged_on_both_before_the_driver_is_called(observe, key, first):
    """Or on neither, where the driver fails."""
    row = charge_order.ROWS[key]
    observe(key, row.call, f"""
        elsewhere = c_long.in_dll(before, "cuTestElsewhere")
        sizes = [(0, 300), (1, 100)]
        pools = [new_pool(0), new_pool(1)]

        def captured():
            stream, graph = begin_capture(), c_void_p()
            for device, mib in sizes if {first} == 0 else sizes[::-1]:
                assert not isinstance(take(mib * MiB, stream, pools[device]), int)
            ok(cu.cuStreamEndCapture(stream, byref(graph)))
            return graph
        """, row.prepare, """
        fail.value = FAILURE
        observed(FAILURE)
        assert (seen.value, elsewhere.value, under_way.value) == (300 * MiB, 100 * MiB, 1), (seen.value, elsewhere.value)
        assert (used(), elsewhere.value, under_way.value) == (0, 0, 0), (seen.value, elsewhere.value)
        fail.value = 0
        observed()
        assert (seen.value, elsewhere.value, under_way.value) == (300 * MiB, 100 * MiB, 1), (seen.value, elsewhere.value)
        assert (used(), elsewhere.value, under_way.value) == (300 * MiB, 100 * MiB, 0), (seen.value, elsewhere.value)
    """)


@rows(charge_order.CONTEXTS)
@pytest.mark.parametrize("mib, plenty", [(2154, True), (900, False)])
@pytest.mark.parametrize("failure", [0, 214])
def test_the_first_context_is_under_way_and_has_the_turn_where_little_is_left(observe, granted, key, mib, plenty, failure):
    """What it takes is not known, so nothing is charged: the sample that finds it has to know that the call is under way. Where less is
    left than two contexts may take, one is made at a time."""
    grants.set_limit(granted.grant, 0, mib << 20)
    observe(key, charge_order.ROWS[key].call, f"""
        ok(cu.cuInit(0))
        fail.value = {failure}
        charged, moves, turns = observed({failure})
        assert (charged, moves, turns == 0) == (0, 1, {plenty}), (charged, moves, turns)
        assert (used(), under_way.value, turn.value) == (0, 0, 0), (used(), under_way.value, turn.value)
    """, begin=False)


@rows(charge_order.CODE)
@pytest.mark.parametrize("failure", [0, 214])
def test_calls_of_unknown_cost_have_the_turn_where_little_is_left(observe, key, failure):
    observe(key, charge_order.ROWS[key].call, f"""
        alloc(1500 * MiB)
        fail.value = {failure}
        charged, moves, turns = observed({failure})
        assert (charged, moves, turns != 0) == (1502 * MiB, 1, True), (charged, moves, turns)
        assert (used(), under_way.value, turn.value) == (1500 * MiB, 0, 0), (used(), under_way.value, turn.value)
    """)


@rows(charge_order.UNDER_WAY)
def test_what_another_process_may_have_is_under_way_and_not_charged(observe, key):
    """What is opened by an IPC handle is noted before, so that a maker which frees it meanwhile sees that."""
    opens = "OpenMemHandle" in key
    observe(key, charge_order.UNDER_WAY[key], f"""
        rest = alloc(2 * MiB)
        held, fail.value = used(), FAILURE
        observed(FAILURE)
        assert (seen.value, under_way.value, noted.value) == (held, 1, {int(opens)}), (seen.value, under_way.value, noted.value)
        assert (used(), under_way.value, noted.value) == (held, 0, 0), (seen.value, under_way.value, noted.value)
    """)


# cuCtxAttach() and cuCtxDetach() count references to a context (cuda.h of CUDA 13.0.96); the simulated driver has neither.
DETACHES = r"""
static int attached;
int cuCtxDestroy_v2(void *context);
int cuCtxAttach(void **context, unsigned flags) { attached++; return 0; }
int cuCtxDetach(void *context)
{
	if (attached > 0) {
		attached--;
		return 0;
	}
	return NEXT(cuCtxDestroy_v2, context);
}
"""


def test_a_context_that_is_detached_from_gives_back_its_memory_when_that_was_the_last_reference(granted):
    granted.put_before_driver(DETACHES)
    granted.script("""
        second = context()
        alloc(500 * MiB)
        ok(cu.cuCtxAttach(byref(second), 0))
        ok(cu.cuCtxDetach(second))
        assert charged() == 500 * MiB
        assert try_alloc(1700 * MiB) == OOM
        ok(cu.cuCtxDetach(second))
        ok(cu.cuCtxSetCurrent(ctx))
        same(0)
        alloc(2154 * MiB)
    """)
