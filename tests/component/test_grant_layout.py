"""Two versions of the layout of grant and usage file, both really built, meet in every pairing that an upgrade or a
rollback of the agent brings about: who wrote the files, who keeps them, and whose shim the container has."""
import itertools
import struct
import subprocess

import pytest

import grants
from driver_tree import RATION_SIM
from shim_memory import MIB, Granted
from shim_programs import BUILD, needs_no_grant_here
from sim_cuda import finish

pytestmark = needs_no_grant_here

SHIMS = {1: BUILD / "src/shim", 2: BUILD / "tests/component/next"}
PROGRAMS = {1: BUILD / "tests/component/grant-layout", 2: BUILD / "tests/component/next/grant-layout"}
VERSIONS = [1, 2]


def program(version, *args):
    return subprocess.run([PROGRAMS[version], *map(str, args)], capture_output=True, text=True, timeout=30)


def succeeds(version, *args):
    result = program(version, *args)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(name="granted")
def _granted(tree, tmp_path):
    tree.sim = RATION_SIM
    tree.up_file({"gpus": [{"memoryMiB": 16160, "contextMiB": 300}], "driverVersion": "580.65.06"})
    return Granted(tree, tmp_path, [2154 * MIB])


def write(granted, version, limit):
    library = granted.tree.path / "lib"
    succeeds(version, "write", granted.folder, library / "libcuda.so.1", library / "libnvidia-ml.so.1",
             granted.tree.cards()[0]["uuid"], limit)


SCRIPT = """
    p = alloc(1000 * MiB)
    print(flush=True)
    sys.stdin.readline()
    assert info(cu) == (300 * MiB, 1500 * MiB), info(cu)
    assert try_alloc(302 * MiB) == OOM
    alloc(300 * MiB)
"""


@pytest.mark.parametrize("writer, keeper, shim", list(itertools.product(VERSIONS, repeat=3)))
def test_each_keeper_serves_the_files_and_the_shims_of_its_neighbours(granted, writer, keeper, shim):
    write(granted, writer, 2154 * MIB)
    before = (granted.folder / "grant").read_bytes()
    process = granted.start(SCRIPT, shim=SHIMS[shim])
    process.stdout.readline()
    assert int(succeeds(keeper, "keep", granted.folder, 1500 * MIB, 200 * MIB)) == 1000 * MIB
    process.stdin.write("\n")
    process.stdin.flush()
    finish(process)
    # Nothing but overhead, its generation and the limit is other than it was: a keeper leaves alone what it does not
    # know.
    after = (granted.folder / "grant").read_bytes()
    live = 2520 + 64 * 256
    assert after[:live] == before[:live] and after[live + 32:] == before[live + 32:]
    assert struct.unpack_from("<I", after, 8) == (writer,)
    assert after[live + 120:live + 128] == (b"txen\0\0\0\0" if writer == 2 else bytes(8))


REFUSALS = [
    # version, readable from, what is said
    (2, 2, "by a newer version of ration, which this one cannot"),
    (9, 3, "by a newer version of ration, which this one cannot"),
    (0, 0, "by a version of ration that is too old for this one"),
    (1, 0, "by a version of ration that is too old for this one"),
    (1, 2, "by a version of ration that is too old for this one"),
]


@pytest.mark.parametrize("file", ["grant", "usage"])
@pytest.mark.parametrize("version, readable_from, sentence", REFUSALS)
def test_what_is_not_compatible_is_no_card_and_says_so(granted, file, version, readable_from, sentence):
    library = granted.tree.path / "lib"
    if file == "grant":
        data = grants.grant_bytes(library / "libcuda.so.1", library / "libnvidia-ml.so.1", [
            (granted.tree.cards()[0]["uuid"], "", 2154 * MIB, 0)], version=version, readable_from=readable_from)
    else:
        data = grants.usage_bytes(1, version=version, readable_from=readable_from)
    (granted.folder / file).write_bytes(data)
    out = granted.script("""
        import subprocess
        assert cu.cuInit(0) == 100, "CUDA_ERROR_NO_DEVICE"
        print(open(os.environ["RATION_LOG"]).read())
        """, begin=False, RATION_LOG=str(granted.folder / "log"))
    assert sentence in out, out
    if file == "grant":
        assert sentence in program(1, "keep", granted.folder, MIB, 0).stderr


def test_a_newer_file_that_older_readers_may_use_is_used(granted):
    library = granted.tree.path / "lib"
    (granted.folder / "grant").write_bytes(grants.grant_bytes(
        library / "libcuda.so.1", library / "libnvidia-ml.so.1",
        [(granted.tree.cards()[0]["uuid"], "", 2154 * MIB, 0)], version=40, readable_from=1))
    (granted.folder / "usage").write_bytes(grants.usage_bytes(1, version=40, readable_from=1))
    granted.script("assert info(cu) == (2154 * MiB, 2154 * MiB)")
