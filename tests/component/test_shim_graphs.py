"""Graphs that allocate on several GPUs, in memory of the machine and in nested graphs: each GPU is charged what its nodes take."""
import pytest

from shim_programs import needs_no_grant_here
from shim_scripts import POOLS

pytestmark = needs_no_grant_here

NODES = POOLS + """
import struct

DEVICE, HOST, HOST_NUMA, HOST_NUMA_CURRENT, DOMAIN = 1, 2, 3, 4, 6     # CUmemLocationType, cuda.h of CUDA 13.5.37
CHILD, ALLOCATION = 4, 10                                              # CUgraphNodeType
PINNED, MANAGED = 1, 2
MOVE = 1

def new_graph():
    return out("cuGraphCreate", c_void_p, 0)

def add(graph, kind, *values, at=0):
    params = create_string_buffer(256)
    struct.pack_into("<i", params, 0, kind)
    for offset, layout, value in values:
        struct.pack_into(layout, params, 16 + offset, *value)
    return cu.cuGraphAddNode_v2(byref(c_void_p()), graph, None, None, c_size_t(0), params)

def add_allocation(graph, size, type=DEVICE, id=0, kind=PINNED):
    return add(graph, ALLOCATION, (0, "<iiii", (kind, 0, type, id)), (88 + 16, "<Q", (size,)))

def move(graph, child):
    return add(graph, CHILD, (0, "<Qi", (child.value, MOVE)))

def graph_of(*allocations):
    graph = new_graph()
    for allocation in allocations:
        ok(add_allocation(graph, *allocation))
    return graph

def instantiate(graph):
    handle = c_void_p()
    r = cu.cuGraphInstantiateWithFlags(byref(handle), graph, c_uint64(0))
    return handle if r == OK else r

def launch(run, function="cuGraphLaunch"):
    r = getattr(cu, function)(run, None)
    ok(cu.cuCtxSynchronize())
    return r

def reserved(device):
    value = c_uint64()
    ok(real.cuDeviceGetGraphMemAttribute(device, 2, byref(value)))
    return value.value

def trim():
    for device in 0, 1:
        ok(cu.cuDeviceGraphMemTrim(device))

def charged_is(*expected, others=0):
    assert (reserved(0), reserved(1)) == expected, (reserved(0), reserved(1))
    say(expected[0] + others, expected[1])
    assert sys.stdin.readline() == "as expected\\n"
"""


def play(granted, *texts):
    """Runs a script. Where it calls charged_is() the usage file must say what it says: both GPUs' charges."""
    child = granted.start(NODES, *texts)
    for line in child.stdout:
        expected = [int(word) for word in line.split()]
        used = [granted.used(0), granted.used(1)]
        child.stdin.write("as expected\n" if used == expected else f"{used}\n")
        child.stdin.flush()
        if used != expected:
            child.kill()
        assert used == expected
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors


@pytest.mark.parametrize("function", ["cuGraphLaunch", "cuGraphUpload"])
@pytest.mark.parametrize("first", [0, 1])
def test_each_gpu_is_charged_what_its_nodes_take(granted, first, function):
    """The second GPU's limit is 1024 MiB, the first one's 2154 MiB."""
    play(granted, f"""
        nodes = [(300 * MiB, DEVICE, 0), (100 * MiB, DEVICE, 1)]
        runs = [instantiate(graph_of(*(nodes if {first} == 0 else nodes[::-1]))) for i in range(10)]
        charged_is(0, 0)
        for i in range(3):
            assert launch(runs[i], {function!r}) == OK
            charged_is((i + 1) * 300 * MiB, (i + 1) * 100 * MiB)
    """)


@pytest.mark.parametrize("last", [0, 1])
def test_the_limit_of_each_gpu_holds_whichever_node_is_the_last(granted, last):
    """Most of the memory is on one GPU, the last node on the other: seven times 300 MiB fit into 2154 MiB, three times into 1024 MiB."""
    play(granted, f"""
        runs = [instantiate(graph_of((300 * MiB, DEVICE, 1 - {last}), (2 * MiB, DEVICE, {last}))) for i in range(12)]
        fit = 7 if {last} else 3
        assert [launch(run) for run in runs] == [OK] * fit + [OOM] * (12 - fit)
        charged_is(*((fit * 300 * MiB, fit * 2 * MiB) if {last} else (fit * 2 * MiB, fit * 300 * MiB)))
    """)


def test_a_graph_that_does_not_fit_on_its_second_gpu_charges_neither(granted):
    play(granted, """
        run = instantiate(graph_of((300 * MiB, DEVICE, 0), (1025 * MiB, DEVICE, 1)))
        for i in range(3):
            assert launch(run) == OOM
            charged_is(0, 0)
        alloc(2154 * MiB)
    """)


def test_memory_of_one_gpu_that_rests_makes_room_for_a_graph_of_both(granted):
    play(granted, """
        def resting(size, device):
            graph = new_graph()
            params = create_string_buffer(256)
            struct.pack_into("<i", params, 0, ALLOCATION)
            struct.pack_into("<iiii", params, 16, PINNED, 0, DEVICE, device)
            struct.pack_into("<Q", params, 16 + 88 + 16, size)
            node = c_void_p()
            ok(cu.cuGraphAddNode_v2(byref(node), graph, None, None, c_size_t(0), params))
            address, = struct.unpack_from("<Q", params, 16 + 88 + 24)
            ok(cu.cuGraphAddMemFreeNode(byref(c_void_p()), graph, byref(node), c_size_t(1), c_uint64(address)))
            return instantiate(graph)
        for again in range(3):
            for device, size in (0, 2000 * MiB), (1, 1000 * MiB):
                assert launch(resting(size, device)) == OK
        charged_is(2000 * MiB, 1000 * MiB)
        run = instantiate(graph_of((300 * MiB, DEVICE, 0), (100 * MiB, DEVICE, 1)))
        assert launch(run) == OK
        charged_is(300 * MiB, 100 * MiB)
    """)


def test_threads_that_launch_graphs_of_both_gpus_stay_within_both_limits(granted):
    play(granted, """
        runs = [instantiate(graph_of(*((30 * MiB, DEVICE, d) for d in ((0, 1) if i % 2 else (1, 0))))) for i in range(60)]
        results = []
        def work(mine):
            ok(cu.cuCtxSetCurrent(ctx))
            stream = out("cuStreamCreate", c_void_p, 1)
            for run in mine:
                results.append(cu.cuGraphLaunch(run, stream))
        threads = [threading.Thread(target=work, args=(runs[i::4],)) for i in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert set(results) == {OK, OOM} and results.count(OK) == 34, results        # 34 * 30 = 1020
        ok(cu.cuCtxSynchronize())
        charged_is(1020 * MiB, 1020 * MiB)
    """)


@pytest.mark.parametrize("location", ["HOST, 99", "HOST, 0", "HOST_NUMA, 0", "HOST_NUMA_CURRENT, -1"])
def test_memory_of_the_machine_is_charged_to_no_gpu(granted, location):
    play(granted, f"""
        machine, gpu = (2000 * MiB, {location}), (200 * MiB, DEVICE, 0)
        for i, nodes in enumerate([[machine], [machine, gpu], [gpu, machine]]):
            assert launch(instantiate(graph_of(*nodes))) == OK
            charged_is(200 * MiB * i, 0)
        alloc(1754 * MiB)
        assert launch(instantiate(graph_of(gpu, machine))) == OOM
        assert launch(instantiate(graph_of(machine))) == OK
    """)


def test_a_locality_domain_is_memory_of_its_gpu(granted):
    play(granted, """
        runs = [instantiate(graph_of((300 * MiB, DOMAIN, 1))) for i in range(5)]
        assert [launch(run) for run in runs] == [OK] * 3 + [OOM] * 2
        charged_is(0, 900 * MiB)
    """)


@pytest.mark.parametrize("depth", [1, 16, 17, 40])
def test_allocations_of_nested_graphs_are_charged(granted, depth):
    play(granted, f"""
        def nested(*allocation):
            graph = graph_of(allocation)
            for level in range({depth}):
                outer = new_graph()
                ok(move(outer, graph))
                graph = outer
            return instantiate(graph)
        runs = [nested(500 * MiB, DEVICE, i % 2) for i in range(12)]
        assert [launch(run) for run in runs] == [OK] * 5 + [OOM, OK] + [OOM] * 5     # four times 500 MiB, and twice
        charged_is(2000 * MiB, 1000 * MiB)
    """)


def test_a_graph_that_is_uploaded_when_it_is_instantiated_is_paid_on_each_gpu(granted):
    play(granted, """
        def uploaded():
            params, run = (c_uint64 * 4)(2), c_void_p()
            graph = graph_of((300 * MiB, DEVICE, 1), (300 * MiB, DEVICE, 0))
            return cu.cuGraphInstantiateWithParams(byref(run), graph, params), run
        hold = alloc(1800 * MiB)
        result, run = uploaded()
        assert result == OK
        charged_is(300 * MiB, 300 * MiB, others=1800 * MiB)
        assert launch(run) == OK
        assert uploaded()[0] == OOM
    """)
