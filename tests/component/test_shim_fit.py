"""A driver that is newer than this version: programs that are linked with functions which only it has start, and these
functions are passed on. What is limited stays limited."""
import os
import re
import signal
import subprocess

import pytest

import fake_driver
from agent_fixture import wait_for
from run_machine import LAYERS, as_nobody, as_root, keeper_of
from run_programs import needs_musl, version

pytestmark = [pytest.mark.skipif(os.path.exists("/run/ration/grant"), reason="this machine has a grant"),
              pytest.mark.plain]    # a program of C cannot load a sanitized driver

# What is new: a function, one whose arguments do not fit into registers, a newer version of a limited one, one more of NVML.
NEW_CUDA = """
int cuNewInThisDriver(int a, double b, int c) { return a == 1 && b == 2.5 && c == 3 ? 97 : 0; }
int cuNewWithManyArguments(int a, int b, int c, int d, int e, int f, int g, int h) { return a + 10 * g + 100 * h; }
int cuMemAlloc_v9(unsigned long long *p, size_t n) { *p = 1; return 0; }
int cuMemAlloc_v9_ptds(unsigned long long *p, size_t n) { *p = 1; return 0; }
"""
PROGRAM = """
#include <stdio.h>
extern int cuInit(unsigned), cuDeviceTotalMem_v2(unsigned long *, int), cuNewInThisDriver(int, double, int),
    cuNewWithManyArguments(int, int, int, int, int, int, int, int), cuMemAlloc_v9(void *, unsigned long),
    cuMemAlloc_v9_ptds(void *, unsigned long);
int main(void)
{
    unsigned long bytes = 0, p = 0;
    int new = cuNewInThisDriver(1, 2.5, 3); /* before anything else */
    int init = cuInit(0), total = cuDeviceTotalMem_v2(&bytes, 0);
    printf("%d %d %d %lu %d ", new, init, total, bytes >> 20, cuNewWithManyArguments(1, 0, 0, 0, 0, 0, 7, 8));
    printf("%d %d %lu %d\\n", cuMemAlloc_v9(&p, 1), cuMemAlloc_v9_ptds(&p, 1), p, cuNewInThisDriver(1, 2.5, 3));
    return 0;
}
"""


@pytest.fixture
def newer(machine):
    """The machine with such a libcuda, and programs that are linked with it."""
    uuid = machine.tree.uuids()[0].removeprefix("GPU-").replace("-", "")
    fill = "".join(f"u[{i}] = 0x{uuid[2 * i:2 * i + 2]};" for i in range(16))
    source = re.sub(r"memset\(u, 0, 16\); u\[15\] = d;", fill, fake_driver.CUDA_CARDS) + NEW_CUDA
    library = machine.lib / version(machine)
    library.unlink()
    library.write_bytes(fake_driver.build(machine.runs.parent / "fake", "libcuda.so.1", source).read_bytes())
    library.chmod(0o755)
    code = machine.runs.parent / "program.c"
    code.write_text(PROGRAM)

    def build(compiler="cc"):
        target = machine.runs.parent / compiler
        # The libraries that this one needs are glibc's.
        subprocess.run([compiler, "-w", "-o", target, code, f"-L{machine.lib}", "-l:libcuda.so.1",
                        "-Wl,--unresolved-symbols=ignore-in-shared-libs"], check=True)
        return target
    machine.build = build
    return machine


EXPECTED = "97 0 0 2154 871 801 801 0 97".split()


@pytest.mark.parametrize("user", [as_root, as_nobody])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_program_that_is_linked_with_what_only_this_driver_has(newer, layer, user):
    """It starts, what is new reaches the driver, and the newer version of a limited function is not supported."""
    done = user(newer, *newer.command(newer.build(), args=["--layer", layer]))
    assert (done.stdout.split(), done.returncode) == (EXPECTED, 0), done.stderr
    assert newer.becomes_empty()


@needs_musl
@pytest.mark.parametrize("layer", LAYERS)
def test_a_program_of_another_libc(newer, layer):
    done = newer.run(newer.build("musl-gcc"), args=["--layer", layer])
    assert (done.stdout.split(), done.returncode) == (EXPECTED, 0), done.stderr


@pytest.mark.parametrize("layer", LAYERS)
def test_what_looks_a_new_function_up_finds_it(newer, layer):
    done = newer.python("""
        print(cuda.cuInit(0), cuda.cuNewInThisDriver(1, c_double(2.5), 3), cuda.cuMemAlloc_v9(0, 0), hasattr(cuda, "cuNoSuch"))
        print(sum(hasattr(cuda, name) for name in ("cuMemAlloc_v2", "cuMemFree_v2", "cuLaunchKernel", "cuEventQuery")))
        """, args=["--layer", layer])
    assert done.stdout.split() == ["0", "97", "801", "False", "4"], done.stderr


def no_exec(machine, *program, within=()):
    """The folder of the runs as /run is on Debian: nothing there can be executed."""
    mount = 'mount -t tmpfs -o noexec,mode=1777 tmpfs "$0" && exec "$@"'
    return as_root(machine, "unshare", "-m", "--propagation", "private", "sh", "-c", mount, machine.runs, *program)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_a_folder_from_which_nothing_is_executed(newer):
    """The layer of mounts has a file system of its own; the other says what does not work."""
    program = newer.build()
    done = no_exec(newer, *newer.command(program, args=["--layer", "mount"]))
    assert (done.stdout.split(), done.returncode) == (EXPECTED, 0), done.stderr
    done = no_exec(newer, *newer.command(program, args=["--layer", "preload"]))
    assert "does not know" in done.stderr and "noexec" in done.stderr and done.returncode != 0
    done = no_exec(newer, *newer.command("/bin/echo", "works", args=["--layer", "preload"]))
    assert done.stdout == "works\n" and "noexec" in done.stderr


@pytest.mark.parametrize("layer", LAYERS)
def test_a_driver_that_is_known_needs_no_files_of_its_own(machine, layer):
    done = machine.run("sh", "-c", "ls $(dirname $RATION_GRANT)", args=["--layer", layer])
    assert "grant" in done.stdout and "shim" not in done.stdout.split()


REWRITE = """
d=$(dirname $RATION_GRANT)/shim
ls $d
touch $d/x || echo refused
sh -c "echo x >> $d/libcuda.so.1" || echo refused
unshare -Urm sh -c "mount -o remount,rw $d && echo x >> $d/libcuda.so.1" || echo refused
exit 0
"""


def test_a_user_inside_cannot_write_the_libraries(newer):
    """Though they are his: what the run mounted is read-only, in a user namespace of his own as well. (Root could mount it again.)"""
    done = as_nobody(newer, *newer.command("sh", "-c", REWRITE, args=["--layer", "mount"]))
    assert done.stdout.split() == ["libcuda.so.1", "libnvidia-ml.so.1", "refused", "refused", "refused"], done.stdout + done.stderr
    assert "Read-only" in done.stderr
    assert newer.becomes_empty()


def test_what_a_dead_run_left_is_removed(newer):
    """Its libraries among it, where it was killed with its monitor."""
    run = newer.start("sleep", "100", args=["--layer", "preload"])
    wait_for(lambda: sorted(p.name for p in newer.runs.glob("[0-9]*/shim/*")) == ["libcuda.so.1", "libnvidia-ml.so.1"])
    os.kill(keeper_of(newer), signal.SIGKILL)
    run.kill()
    run.communicate()
    assert len(newer.folders()) == 1
    assert newer.run("true").returncode == 0
    assert newer.becomes_empty()
