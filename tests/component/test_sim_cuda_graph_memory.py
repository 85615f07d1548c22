"""Memory of graphs of the simulated libcuda: CUDA C++ Programming Guide 13.0, "Graph Memory Nodes"."""
import pytest

from sim_cuda import script

GRAPHS = """
context()
USED, USED_HIGH, RESERVED, RESERVED_HIGH = range(4)
stream = out("cuStreamCreate", c_void_p, 1)
address_of = {}

def capture(size, *freed, live=False):
    graph = c_void_p()
    ok(cu.cuStreamBeginCapture_v2(stream, 0))
    for p in freed:
        ok(cu.cuMemFreeAsync(p, stream))
    p = out("cuMemAllocAsync", c_uint64, c_size_t(size), stream) if size else None
    if size and not live:
        ok(cu.cuMemFreeAsync(p, stream))
    ok(cu.cuStreamEndCapture(stream, byref(graph)))
    return graph, p

def instantiate(graph):
    return out("cuGraphInstantiateWithFlags", c_void_p, graph, c_uint64(0))

def launch(run):
    r = cu.cuGraphLaunch(run, stream)
    ok(cu.cuStreamSynchronize(stream))
    return r

def attribute(which):
    value = c_uint64()
    ok(cu.cuDeviceGetGraphMemAttribute(0, which, byref(value)))
    return value.value // MiB

def trim():
    ok(cu.cuDeviceGraphMemTrim(0))

before = free_bytes()
"""


def test_memory_of_a_graph_is_taken_at_its_launch_and_kept_until_trimmed(card):
    script(card, """
        context(); s = out("cuStreamCreate", c_void_p, 1); before = free_bytes(); graph = c_void_p()
        ok(cu.cuStreamBeginCapture_v2(s, 0))
        p = out("cuMemAllocAsync", c_uint64, c_size_t(100 * MiB), s)
        ok(cu.cuMemsetD8Async(p, 5, c_size_t(100), s)); ok(cu.cuMemFreeAsync(p, s))
        ok(cu.cuStreamEndCapture(s, byref(graph)))
        run = out("cuGraphInstantiateWithFlags", c_void_p, graph, c_uint64(0))
        assert free_bytes() == before
        for i in range(3):
            ok(cu.cuGraphLaunch(run, s)); ok(cu.cuStreamSynchronize(s))
            assert before - free_bytes() == 100 * MiB
        ok(cu.cuGraphDestroy(graph)); ok(cu.cuGraphLaunch(run, s)); ok(cu.cuStreamSynchronize(s))    # the executable has its own
        ok(cu.cuDeviceGraphMemTrim(0)); assert free_bytes() == before
        hold = alloc(before - 50 * MiB)
        assert cu.cuGraphLaunch(run, s) == OOM
        ok(cu.cuMemFree_v2(hold)); ok(cu.cuGraphLaunch(run, s)); ok(cu.cuStreamSynchronize(s))
        ok(cu.cuGraphExecDestroy(run)); assert before - free_bytes() == 100 * MiB
        ok(cu.cuDeviceGraphMemTrim(0)); assert free_bytes() == before
    """)


def test_live_memory_outlives_its_graph(card):
    """"Graph destruction does not automatically free any live graph-allocated memory": the application frees it."""
    script(card, GRAPHS + """
for how in "cuMemFree_v2", "cuMemFreeAsync", "graph":
    graph, p = capture(100 * MiB, live=True)
    run = instantiate(graph)
    ok(launch(run))
    ok(cu.cuMemsetD8_v2(p, 7, c_size_t(100 * MiB)))
    ok(cu.cuGraphExecDestroy(run)); ok(cu.cuGraphDestroy(graph))
    trim()
    assert before - free_bytes() == 100 * MiB and attribute(USED) == 100
    byte = c_ubyte()
    ok(cu.cuMemcpyDtoH_v2(byref(byte), c_uint64(p.value + 100 * MiB - 1), c_size_t(1))); assert byte.value == 7
    if how == "cuMemFree_v2":
        ok(cu.cuMemFree_v2(p))
    elif how == "cuMemFreeAsync":
        ok(cu.cuMemFreeAsync(p, stream)); ok(cu.cuStreamSynchronize(stream))
    else:
        ok(launch(instantiate(capture(0, p)[0])))
    assert attribute(USED) == 0 and attribute(RESERVED) == 100
    assert cu.cuMemFree_v2(p) == INVALID and cu.cuMemFreeAsync(p, stream) == INVALID
    trim()
    assert free_bytes() == before
""")


def test_freed_memory_serves_other_graphs_where_the_card_is_full(card):
    """"physical pages cannot be reused if they are bound [...] to a graph allocation which remains unfreed"; others can."""
    script(card, GRAPHS + """
piece = before // 4 & -(2 * MiB)
graphs = [capture(piece, live=True) for i in range(5)]
runs = [instantiate(graph) for graph, p in graphs]
assert [launch(run) for run in runs] == [OK] * 4 + [OOM]
assert launch(runs[4]) == OOM
ok(cu.cuMemFreeAsync(graphs[1][1], stream)); ok(cu.cuStreamSynchronize(stream))
assert launch(runs[4]) == OK and launch(runs[1]) == OOM
assert attribute(RESERVED) == attribute(USED) == 4 * piece // MiB
trim()
assert before - free_bytes() == 4 * piece
for i in 0, 2, 3, 4:
    ok(cu.cuMemFree_v2(graphs[i][1]))
trim()
assert free_bytes() == before and launch(runs[1]) == OK
""")


def test_a_launch_that_does_not_fit_changes_nothing(card):
    script(card, GRAPHS + """
half = before // 2 & -(2 * MiB)
graph = c_void_p()
ok(cu.cuStreamBeginCapture_v2(stream, 0))
for size in half, half + 4 * MiB:
    p = out("cuMemAllocAsync", c_uint64, c_size_t(size), stream); ok(cu.cuMemFreeAsync(p, stream))
ok(cu.cuStreamEndCapture(stream, byref(graph)))
run = instantiate(graph)
assert [launch(run) for i in range(3)] == [OOM] * 3 and cu.cuGraphUpload(run, stream) == OOM
trim()
assert free_bytes() == before
small = instantiate(capture(half)[0])
assert [launch(small) for i in range(3)] == [OK] * 3
""")


@pytest.mark.parametrize("held_up", [False, True])
def test_a_graph_that_frees_is_launched_again_before_it_has_run(card, held_up):
    """A host function holds up the first launch's free; the second launch comes behind it in the stream's order."""
    script(card, GRAPHS + f"""
gate = threading.Event()
hold = CFUNCTYPE(None, c_void_p)(lambda data: gate.wait(30))
run = instantiate(capture(100 * MiB)[0])
if {held_up}:
    ok(cu.cuLaunchHostFunc(stream, hold, None))
results = [cu.cuGraphLaunch(run, stream) for i in range(3)]
gate.set()
ok(cu.cuStreamSynchronize(stream))
assert results == [OK] * 3 and attribute(USED) == 100
trim()
assert free_bytes() == before
""")


def test_what_is_not_freed_cannot_be_allocated_again(card):
    script(card, GRAPHS + """
graph, p = capture(100 * MiB, live=True)
run = instantiate(graph)
assert cu.cuMemFree_v2(p) == INVALID      # nothing is allocated yet
assert launch(run) == OK and launch(run) == INVALID
ok(cu.cuMemFree_v2(p))
assert cu.cuMemFree_v2(p) == INVALID and launch(run) == OK
""")
