"""However a program finds the driver's library, under `ration run` it gets the limit: each way under each layer. What a
layer cannot cover is in SECURITY.md's table, and here as the whole card."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

import fake_driver
import grants
from run_machine import CUDA, LAYERS, keeper_of
from run_programs import LIMIT, NO_CARD, WHOLE, answer, needs_musl, version

pytestmark = [pytest.mark.skipif(os.path.exists("/run/ration/grant"), reason="this machine has a grant"),
              pytest.mark.plain]    # a sanitized driver cannot be loaded in most of these ways


# Way, and what comes of it under each layer. A path that begins with @ is the driver's folder.
WAYS = [
    (["dlopen", "libcuda.so.1"], {"mount": LIMIT, "preload": LIMIT}),
    (["dlopen", "libcuda.so"], {"mount": LIMIT, "preload": LIMIT}),
    (["dlopen", "VERSION"], {"mount": LIMIT, "preload": LIMIT}),
    (["global", "libcuda.so.1"], {"mount": LIMIT, "preload": LIMIT}),
    (["again", "libcuda.so.1"], {"mount": LIMIT, "preload": LIMIT}),
    (["deepbind", "libcuda.so.1"], {"mount": LIMIT, "preload": LIMIT}),
    (["dlvsym", "libcuda.so.1"], {"mount": LIMIT, "preload": LIMIT}),
    (["dlmopen", "libcuda.so.1"], {"mount": LIMIT, "preload": LIMIT}),
    (["dlopen", "@libcuda.so.1"], {"mount": LIMIT, "preload": WHOLE}),
    (["dlopen", "@libcuda.so"], {"mount": LIMIT, "preload": WHOLE}),
    (["dlopen", "@VERSION"], {"mount": LIMIT, "preload": WHOLE}),
    (["again", "@libcuda.so.1"], {"mount": LIMIT, "preload": WHOLE}),
]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("way,expected", WAYS, ids=[" ".join(way) for way, _ in WAYS])
def test_a_way_to_open_the_library(machine, programs, layer, way, expected):
    program = programs("load")
    path = way[1].replace("VERSION", version(machine)).replace("@", f"{machine.lib}/")
    assert answer(machine, layer, program, way[0], path) == expected[layer]


def link(machine, *more):
    return [f"-L{machine.lib}", "-l:libcuda.so.1", *more]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("flags", [[], ["rpath"], ["runpath"]])
def test_a_program_that_is_linked_with_the_driver(machine, programs, layer, flags):
    rpath = {"rpath": [f"-Wl,--disable-new-dtags,-rpath,{machine.lib}"],
             "runpath": [f"-Wl,--enable-new-dtags,-rpath,{machine.lib}"]}
    program = programs("linked", "-DLINKED", *link(machine, *(f for name in flags for f in rpath[name])))
    assert answer(machine, layer, program) == LIMIT


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("how", ["plugin", "deepbind-plugin"])
@pytest.mark.parametrize("tags", ["--disable-new-dtags", "--enable-new-dtags"])
def test_a_plugin_that_has_the_drivers_folder_as_rpath(machine, programs, layer, how, tags):
    plugin = programs("plugin.so", "-shared", "-fPIC", "-DPLUGIN", *link(machine, f"-Wl,{tags},-rpath,{machine.lib}"))
    assert answer(machine, layer, programs("load"), how, plugin) == LIMIT


def test_a_static_program(machine, programs):
    """A static glibc program looks in the folders it was built for: it gets the library by its path."""
    program = programs("static", "-static", "-DSTATIC")
    assert answer(machine, "mount", program, "dlopen", machine.lib / "libcuda.so.1") == LIMIT
    assert answer(machine, "preload", program, "dlopen", machine.lib / "libcuda.so.1") == WHOLE


def test_an_empty_environment(machine, programs):
    """The grant is found at its fixed path."""
    program = programs("load")
    path = machine.lib / "libcuda.so.1"
    assert answer(machine, "mount", "env", "-i", program, "dlopen", path) == LIMIT
    assert answer(machine, "preload", "env", "-i", program, "dlopen", path) == WHOLE


def test_a_grant_that_the_program_names_itself(machine, programs):
    """Its own at the fixed path counts, where there is one; SECURITY.md has the other case."""
    forged = machine.runs.parent / "forged"
    forged.mkdir()
    grants.write(forged, machine.lib / version(machine), machine.lib / version(machine),
                 [(machine.tree.uuids()[0], "", 9999 << 20, 16160 << 20)])
    program = ["env", f"RATION_GRANT={forged}/grant", programs("load"), "dlopen", "libcuda.so.1"]
    assert answer(machine, "mount", *program) == LIMIT
    assert answer(machine, "preload", *program) == "9999"
    assert answer(machine, "preload", "env", "-u", "RATION_GRANT", *program[2:]) == NO_CARD


def test_a_set_uid_program(machine, programs):
    """It drops LD_PRELOAD and does not believe RATION_GRANT. Here from a user without rights to root."""
    program = programs("setuid")
    program.chmod(0o4755)
    path = machine.lib / "libcuda.so.1"
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    assert answer(machine, "mount", *drop, program, "dlopen", path) == LIMIT
    assert answer(machine, "preload", *drop, program, "dlopen", path) == WHOLE


def test_a_copy_of_the_dynamic_linker(machine, programs):
    program = programs("load")
    interpreter = re.search(r"interpreter: (.*)\]",
                            subprocess.run(["readelf", "-lW", program], capture_output=True, text=True).stdout).group(1)
    copy = program.with_name("ld-copy.so")
    shutil.copy(interpreter, copy)
    path = machine.lib / "libcuda.so.1"
    assert answer(machine, "mount", copy, program, "dlopen", path) == LIMIT
    assert answer(machine, "preload", copy, program, "dlopen", path) == WHOLE
    assert answer(machine, "preload", copy, program, "dlopen", "libcuda.so.1") == LIMIT


def replace_driver(machine):
    """By one that a program of another libc can load too, with the UUID of the first card: NVIDIA's cannot be."""
    uuid = machine.tree.uuids()[0].removeprefix("GPU-").replace("-", "")
    fill = "".join(f"u[{i}] = 0x{uuid[2 * i:2 * i + 2]};" for i in range(16))
    source = re.sub(r"memset\(u, 0, 16\); u\[15\] = d;", fill, fake_driver.CUDA_CARDS)
    built = fake_driver.build(machine.runs.parent / "fake", "libcuda.so.1", source)
    shutil.copy(built, machine.lib / version(machine))


@needs_musl
@pytest.mark.parametrize("layer", LAYERS)
def test_a_program_of_another_libc(machine, programs, layer):
    program = programs("musl", compiler="musl-gcc")
    linked = programs("musl-linked", "-DLINKED", *link(machine, "-Wl,--unresolved-symbols=ignore-in-shared-libs"),
                      compiler="musl-gcc")
    # The driver needs glibc's own linker: the shim is there, and says that there is no card.
    assert answer(machine, layer, program, "dlopen", "libcuda.so.1") == NO_CARD
    replace_driver(machine)
    assert answer(machine, layer, program, "dlopen", "libcuda.so.1") == LIMIT
    assert answer(machine, layer, program, "dlopen", "libcuda.so") == LIMIT
    assert answer(machine, layer, linked) == LIMIT
    expected = LIMIT if layer == "mount" else WHOLE
    assert answer(machine, layer, program, "dlopen", machine.lib / "libcuda.so.1") == expected


@pytest.mark.parametrize("layer", LAYERS)
def test_a_second_driver_library_that_is_found_first(machine, programs, layer):
    """As cuda-compat in an image: its folder is in front on LD_LIBRARY_PATH."""
    compat = machine.runs.parent / "compat"
    compat.mkdir()
    shutil.copy(machine.lib / "libcuda.so.1", compat / "libcuda.so.1")
    env = {"LD_LIBRARY_PATH": str(compat), "RATION_SIM_DIR": str(machine.tree.path)}
    program = programs("load")
    assert answer(machine, layer, program, "dlopen", "libcuda.so.1", env=env) == LIMIT
    linked = programs("linked", "-DLINKED", *link(machine, f"-Wl,-rpath,{compat}"))
    assert answer(machine, layer, linked, env=env) == LIMIT
    expected = LIMIT if layer == "mount" else WHOLE
    assert answer(machine, layer, program, "dlopen", compat / "libcuda.so.1", env=env) == expected


@pytest.mark.parametrize("layer", LAYERS)
def test_a_copy_of_the_driver_that_nobody_could_know_of(machine, programs, layer):
    """SECURITY.md: who brings a driver library along is not limited."""
    hidden = machine.runs.parent / "tree/lib/other.so"
    shutil.copy(machine.lib / "libcuda.so.1", hidden)
    assert answer(machine, layer, programs("load"), "dlopen", hidden) == WHOLE


@pytest.mark.parametrize("layer", LAYERS)
def test_the_management_library_too(machine, layer):
    code = """
        import os
        ml, h, m = CDLL(os.environ["ML"]), c_void_p(), (c_ulonglong * 3)()
        assert ml.nvmlInit_v2() == ml.nvmlDeviceGetHandleByIndex_v2(0, byref(h)) == 0
        assert ml.nvmlDeviceGetMemoryInfo(h, m) == 0
        print(m[0] >> 20)
        """
    for name in ("libnvidia-ml.so.1", "libnvidia-ml.so"):
        assert machine.python(code, args=["--layer", layer], env={"ML": name}).stdout == f"{LIMIT}\n"
    absolute = machine.python(code, args=["--layer", layer], env={"ML": str(machine.lib / "libnvidia-ml.so.1")}).stdout
    assert absolute == f"{LIMIT if layer == 'mount' else WHOLE}\n"


@pytest.mark.parametrize("layer", LAYERS)
def test_a_third_partys_dlsym_of_the_next_library_is_right(machine, programs, layer, tmp_path):
    """A preloaded library that wraps a function of the driver finds the driver's, not itself."""
    (tmp_path / "wrap.c").write_text("""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        int cuInit(unsigned flags) { return ((int (*)(unsigned))dlsym(RTLD_NEXT, "cuInit"))(flags); }
        """)
    wrap = machine.runs.parent / "wrap.so"
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", wrap, tmp_path / "wrap.c"], check=True)
    linked = programs("linked", "-DLINKED", *link(machine))
    assert answer(machine, layer, linked, env={"LD_PRELOAD": str(wrap)}) == LIMIT


def mounts(machine):
    """Where something is mounted, without the folders of other tests."""
    points = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    own = str(machine.runs.parent)
    return sorted(point for point in points if not point.startswith("/tmp/") or point.startswith(own))


def test_nothing_of_a_runs_mounts_is_seen_outside(machine):
    before = mounts(machine)
    process = machine.start("sh", "-c", "echo ready; cat /proc/self/mountinfo; exec sleep 60", args=["--layer", "mount"])
    assert process.stdout.readline() == "ready\n"
    assert any("libcuda.so.1" in line for line in iter(process.stdout.readline, ""))
    during = mounts(machine)
    process.kill()
    process.communicate()
    assert during == before


# --- how programs live ---

@pytest.mark.parametrize("layer", LAYERS)
def test_children_of_every_kind_are_under_the_grant(machine, programs, layer):
    """fork, vfork + exec, a shell's pipe, a daemon that closed everything."""
    program = programs("load")
    code = f"""
        import os, subprocess, sys
        limit = lambda out: out.strip() == {LIMIT!r} or sys.exit(f"got {{out}}")
        program = [{str(program)!r}, "dlopen"]
        limit(subprocess.run(program, capture_output=True, text=True, close_fds=False).stdout)    # vfork
        limit(os.popen(" ".join(program) + " | cat").read())
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            os.dup2(write, 1), os.chdir("/"), os.close(0), os.close(2), os.closerange(3, 100)
            os.execv(program[0], program)
        os.waitpid(pid, 0), os.close(write)
        limit(os.fdopen(read).read())
        total, n = c_size_t(), c_int()
        assert cuda.cuInit(0) == 0
        pid = os.fork()    # a driver does not survive fork: any answer, but no hang and no crash
        if pid == 0:
            os._exit(cuda.cuDeviceTotalMem_v2(byref(total), 0) & 127)
        assert os.WIFEXITED(os.waitpid(pid, 0)[1])
        print("done")
        """
    done = machine.python(code, args=["--layer", layer])
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("layer", LAYERS)
def test_threads_that_come_and_go(machine, layer):
    code = """
        import threading
        context()
        def work():
            for _ in range(50):
                free, total = c_size_t(), c_size_t()
                assert cuda.cuDeviceTotalMem_v2(byref(total), 0) == 0 and total.value == 2154 << 20
        for _ in range(5):
            threads = [threading.Thread(target=work) for _ in range(16)]
            [t.start() for t in threads], [t.join() for t in threads]
        print("done")
        """
    assert machine.python(code, args=["--layer", layer]).stdout == "done\n"


@pytest.mark.parametrize("layer", LAYERS)
def test_signal_handlers_of_the_program_stay_its_own(machine, layer):
    """A JVM uses SIGSEGV, SIGUSR1 and SIGUSR2 in its normal work."""
    code = """
        import signal, threading
        hits = []
        numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGSEGV, signal.SIGPIPE, signal.SIGQUIT, signal.SIGPROF)
        for n in numbers:
            signal.signal(n, lambda number, frame: hits.append(number))
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
        context()
        for _ in range(200):
            memory()
        signal.setitimer(signal.ITIMER_PROF, 0)
        for n in numbers[:5]:
            assert callable(signal.getsignal(n))
            os.kill(os.getpid(), n)
        time.sleep(0.01)
        assert set(numbers[:5]) <= set(hits)
        print("done")
        """
    done = machine.python(code, args=["--layer", layer])
    assert done.stdout == "done\n", done.stderr


def test_a_java_program(machine):
    java = shutil.which("java")
    if not java:
        pytest.skip("no java")
    for layer in LAYERS:
        done = machine.run(java, "-Xshare:auto", "-version", args=["--layer", layer])
        assert done.returncode == 0 and "version" in done.stderr


# seccomp(2): each system call in argv[1] answers EPERM from here on, in what argv[2:] starts too.
FORBID = """
import ctypes, os, struct, sys
numbers = [int(n) for n in sys.argv[1].split(",")]
code = struct.pack("<HBBI", 0x20, 0, 0, 0)    # A = number of the call
for number in numbers:
    code += struct.pack("<HBBI", 0x15, 0, 1, number) + struct.pack("<HBBI", 0x06, 0, 0, 0x00050001)
code += struct.pack("<HBBI", 0x06, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(code, len(code))
program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
os.execvp(sys.argv[2], sys.argv[2:])
"""
CLONE3, FUTEX, PIDFD_OPEN, CLOSE_RANGE = 435, 202, 434, 436


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls of x86-64")
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("forbidden", [[CLONE3], [CLOSE_RANGE, PIDFD_OPEN], [FUTEX]])
def test_a_seccomp_filter_that_forbids_new_calls(machine, programs, layer, outside, forbidden):
    """As container runtimes' profiles do: around `ration run`, or around the program alone."""
    numbers = ",".join(map(str, forbidden))
    program = [programs("load"), "dlopen"]
    filtered = [sys.executable, "-c", FORBID, numbers]
    if outside:
        command = filtered + machine.command(*program, args=["--layer", layer])
    else:
        command = machine.command(*filtered, *program, args=["--layer", layer])
    done = subprocess.run([str(c) for c in command], env=machine.env, capture_output=True, text=True, timeout=20)
    assert done.stdout == f"{LIMIT}\n", done.stderr


@pytest.mark.parametrize("layer", LAYERS)
def test_a_keeper_that_is_gone_hinders_no_program(machine, layer):
    """Only what contexts take is unknown then."""
    code = """
        print("begun", flush=True)    # ration run ends if its keeper is gone before
        sys.stdin.readline()
        context()
        free, total = memory()
        print(total == 2154 << 20 and free in (total, total - (312 << 20)))
        """
    process = machine.start(sys.executable, "-c", textwrap.dedent(CUDA) + textwrap.dedent(code),
                            args=["--layer", layer], stdin=subprocess.PIPE)
    machine.leaves_folders = True
    assert process.stdout.readline() == "begun\n"
    os.kill(keeper_of(machine), signal.SIGKILL)
    out, err = process.communicate("\n", timeout=20)
    assert out == "True\n", err
