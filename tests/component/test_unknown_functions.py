"""Functions of a driver that this version does not know: the agent and `ration doctor --node` name them from the files of the
driver and of the shim."""
import random
import subprocess
import time

import pytest

import doctor_report
from agent_fixture import wait_for
from cgpu_node import in_service, isolated, needs_root, not_ready, problem, start, version_of, versions
from doctor_host import LIBRARIES
from isolated import Node
from metrics_page import agent_page

pytestmark = needs_root
SHIM_PATH = "run/ration/shim/0123456789abcdef/libcuda.so.1"
REASON = "GPUDriverUnknownFunctions"


def library(path, source):
    path.unlink(missing_ok=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", path], input=source, text=True, check=True)


def compared(host, driver, shim):
    """The findings about unknown functions, of a driver and a shim with these functions."""
    library(host.root / LIBRARIES / "libcuda.so.535.104.05", driver)
    library(host.root / SHIM_PATH, shim)
    return [(severity, what) for _, severity, _, what, _ in host.examine()[1] if "does not know" in what]


def test_doctor_names_the_functions_that_the_shim_lacks(host):
    driver = """
int cuInit(void) { return 0; }
int cuNewB(void) { return 0; }
__attribute__((weak)) int cuNewA(void) { return 0; }
int cudbgNew(void) { return 0; }
int cuData;
int unrelated(void) { return 0; }
static int cuHidden(void) { return 0; }
__attribute__((visibility("hidden"))) int cuHiddenToo(void) { return cuHidden(); }
extern int cuNotHere(void);
int cuUses(void) { return cuNotHere(); }
"""
    found = compared(host, driver, "int cuInit(void) { return 0; } int cuUses(void) { return 0; }")
    assert len(found) == 1 and found[0][0] == "warning"
    assert "the driver 535.104.05 has 2 functions of libcuda.so" in found[0][1] and ": cuNewA, cuNewB;" in found[0][1]


def test_a_function_that_the_shim_only_passes_on_is_none_that_it_knows(host):
    """The agent names spare entries of the shim after them; these are weak."""
    shim = "int cuInit(void) { return 0; } __attribute__((weak)) int cuNew(void) { return 0; }"
    found = compared(host, "int cuInit(void) { return 0; } int cuNew(void) { return 0; }", shim)
    assert len(found) == 1 and "has 1 functions of libcuda.so" in found[0][1] and "cuNew;" in found[0][1]


def test_doctor_has_nothing_to_say_of_an_older_driver(host):
    assert compared(host, "int cuInit(void) { return 0; }", "int cuInit(void) { return 0; } int cuNew(void) { return 0; }") == []


def test_many_names_are_cut(host):
    driver = "".join(f"int cuNew{i:04}(void) {{ return 0; }}\n" for i in range(3000))
    found = compared(host, driver, "int cuInit(void) { return 0; }")[0][1]
    assert "has 3000 functions" in found and "cuNew0000, cuNew0001" in found and len(found) < 700


def test_a_damaged_file_is_no_driver_and_does_no_harm(host):
    """Doctor reads what it finds below --root: each byte of the headers may be anything."""
    path = host.root / LIBRARIES / "libcuda.so.535.104.05"
    compared(host, "int cuNew(void) { return 0; }", "int cuInit(void) { return 0; }")
    whole, random_ = path.read_bytes(), random.Random(5)
    sections = int.from_bytes(whole[40:48], "little")
    for i in range(60):
        data = bytearray(whole)
        for _ in range(4):
            at = random_.choice([random_.randrange(64), random_.randrange(sections, len(data))])
            data[at] = random_.choice([0, 1, 0x7f, 0x80, 0xff])
        path.write_bytes(data if i % 3 else data[:random_.randrange(len(data))])
        result = host.doctor("-o", "json")
        assert result.returncode in (0, 1) and "runtime error" not in result.stderr and "Sanitizer" not in result.stderr
        doctor_report.read(result)


@pytest.fixture
def down():
    with isolated() as w:
        w.change_driver("int nvmlNewThing(void) { return 0; }\n")
        yield w


def test_the_agent_names_them_and_serves(down):
    down.kubelet.start()
    down.start_agent()
    down.kubelet.wait_devices(30, timeout=15)
    event = wait_for(lambda: down.api.events(REASON))[0]
    assert "has 1 functions that this version of ration does not know" in event["message"]
    assert "nvmlNewThing" in event["message"] and event["involvedObject"]["kind"] == "Node"
    condition = wait_for(down.condition)
    assert (condition["status"], condition["reason"]) == ("False", REASON) and "nvmlNewThing" in condition["message"]
    wait_for(lambda: in_service(down))
    assert not problem(down) and agent_page(down)("ration_driver_unknown_functions") == 1
    time.sleep(2.5)
    assert len(down.api.events(REASON)) == 1


def passed_on(world, version):
    """Functions that the installed shim for NVML only passes on."""
    table = subprocess.run(["nm", "-D", world.state / "shim" / version / "libnvidia-ml.so.1"], capture_output=True, text=True,
                           check=True).stdout
    return {line.split()[-1] for line in table.splitlines() if " W " in line}


def named(world, version):
    return {name for name in passed_on(world, version) if not name.startswith("ration_spare_")}


def test_the_shim_of_a_container_has_the_functions_of_the_driver_that_it_came_under(down):
    """A driver that is installed under a running container brings another shim; the container keeps its own until it ends."""
    down.kubelet.start()
    down.start_agent()
    down.kubelet.wait_devices(30, timeout=15)
    pod, container = start(down)
    first = version_of(container)
    assert named(down, first) == {"nvmlNewThing"}
    library = next((down.driver / "lib").glob("libnvidia-ml.so.*.*"))
    newer = library.with_name("libnvidia-newer")
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-Wl,--no-as-needed", "-o", newer,
                    library.with_name("libnvidia-ow.so.1"), f"-Wl,-rpath,{library.parent}"], input="int nvmlNewThing(void) { return 0; } int nvmlNewer(void) { return 0; }",
                   text=True, check=True)
    newer.rename(library)
    wait_for(lambda: len(versions(down)) == 2, timeout=15)
    other, = set(versions(down)) - {first}
    assert named(down, first) == {"nvmlNewThing"} and named(down, other) == {"nvmlNewThing", "nvmlNewer"}
    assert version_of(start(down, "b")[1]) == other
    wait_for(lambda: "nvmlNewer" in down.condition()["message"], timeout=15)


def test_the_agent_refuses_the_node_where_it_is_told_to(down):
    down.options = ["--unknown-functions", "refuse"]
    down.kubelet.start()
    down.start_agent()
    event = not_ready(down, "nvmlNewThing")
    assert "unknownFunctions" in event["message"]
    down.has_read_node()
    assert down.kubelet.devices == {} and not in_service(down)


def test_a_driver_that_is_known_is_not_told_of():
    with isolated() as w:
        w.options = ["--unknown-functions", "refuse"]
        w.kubelet.start()
        w.start_agent()
        w.kubelet.wait_devices(30, timeout=15)
        wait_for(lambda: in_service(w))
        assert agent_page(w)("ration_driver_unknown_functions") == 0 and not w.api.events(REASON)


@pytest.mark.plain    # a program of C cannot load a sanitized driver
def test_a_program_in_a_container_that_is_linked_with_a_new_function_starts():
    """With the shim that the agent installed, from the place where a container has it; the driver's function answers 77."""
    with Node() as node:
        node.change_driver("int nvmlNewThing(int a) { return a + 70; }\n")
        program = node.dir / "linked"
        subprocess.run(["cc", "-x", "c", "-", "-o", program, f"-L{node.driver}/lib", "-l:libnvidia-ml.so.1",
                        "-Wl,--unresolved-symbols=ignore-in-shared-libs"], check=True, text=True,
                       input='int printf(const char *, ...), nvmlNewThing(int);\nint main(void) { printf("%d", nvmlNewThing(7)); }\n')
        node.kubelet.start()
        node.start_agent()
        node.kubelet.wait_devices(30, timeout=15)
        done = node.program(*node.start_container(), f"""
            import subprocess
            done = subprocess.run(["{program}"], env=dict(os.environ, LD_LIBRARY_PATH="/run/ration/shim"), capture_output=True, text=True)
            say(done.stdout or done.stderr)
            """)
        assert done.reads() == "77"
