"""What the tests of the charging table share: scripts on the simulated driver under the shim.

In a script `cu` is the shim and `real` the driver behind it. taken() is what the driver says that this process has taken of
the card since the script began, charged() what the shim says that the container has: same() wants them equal, to the
byte. (A context is neither: it is overhead, which the keeper writes.)"""
import os
import pathlib
import subprocess
import sys
import textwrap

import grants
import sim_cuda
from driver_tree import NEWEST, RATION_SIM
from shim_programs import LOADED_SHIM

MIB = 1 << 20
SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src"

PRELUDE = sim_cuda.PRELUDE + """
real = CDLL(sys.argv[2])
cu.cuMemGetInfo_v2.argtypes = real.cuMemGetInfo_v2.argtypes = [c_void_p, c_void_p]
KiB, GiB = 1 << 10, 1 << 30

def info(library):
    left, total = c_size_t(), c_size_t()
    ok(library.cuMemGetInfo_v2(byref(left), byref(total)))
    return left.value, total.value

def charged():
    left, total = info(cu)
    return total - left

def driver_free():
    return info(real)[0]

def taken():
    return base - driver_free()

def same(expected=None):
    assert charged() == taken(), (charged(), taken())
    assert expected is None or charged() == expected, (charged(), expected)

def free(pointer):
    ok(cu.cuMemFree_v2(pointer))

def begin():
    global base
    base = driver_free()
"""


def compile_before_driver(source, folder):
    """An object file of C functions that many tests put before the driver."""
    code, compiled = folder / "before.c", folder / "before.o"
    code.write_text("#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stddef.h>\n"
                    "#define NEXT(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)\n" + source)
    subprocess.run(["cc", "-c", "-fPIC", "-O1", "-w", f"-I{SOURCES}", "-o", compiled, code], check=True)
    return compiled


class Granted:
    """A driver tree and a grant for its first cards."""
    def __init__(self, tree, folder, limits):
        self.tree, self.folder = tree, folder
        library = tree.path / "lib"
        self.cards = [(card["uuid"], card["busId"], limit, card["memoryMiB"] * MIB)
                      for card, limit in zip(tree.cards(), limits)]
        self.driver = library / "libcuda.so.1"
        self.grant = grants.write(folder, self.driver, library / "libnvidia-ml.so.1", self.cards)

    def put_before_driver(self, source):
        """From now on the shim finds these C functions instead of the driver's. NEXT(name, ...) calls the driver's own. The
        driver gets another SONAME, by which the linker finds it and not the shim. Returns the path of the library.
        source: C, or what compile_before_driver() has made of it."""
        library = self.folder / "before" / "libcuda.so.1"
        library.parent.mkdir()
        compiled = source if isinstance(source, pathlib.Path) else compile_before_driver(source, self.folder)
        soname, other = b"\0libcuda.so.1\0", b"\0libother.so.\0"
        data = self.driver.read_bytes()
        assert data.count(soname) == 1
        self.driver = self.driver.with_name("libother.so.")
        self.driver.write_bytes(data.replace(soname, other))
        subprocess.run(["cc", "-shared", "-Wl,-soname,libbefore.so", "-o", library, compiled, "-Wl,--no-as-needed", self.driver,
                        f"-Wl,-rpath,{self.driver.parent}", "-ldl"], check=True)
        self.grant = grants.write(self.folder, library, self.driver.with_name("libnvidia-ml.so.1"), self.cards)
        return library

    def start(self, *texts, begin=True, shim=LOADED_SHIM, **env):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RATION_")} | env
        environment["RATION_GRANT"] = str(self.grant)
        environment |= sim_cuda.sanitizer_environment(self.driver)
        first = "ok(cu.cuInit(0))\nctx = context()\nbegin()\n" if begin else ""
        return subprocess.Popen(
            [sys.executable, "-c", PRELUDE + first + "".join(map(textwrap.dedent, texts)), shim / "libcuda.so.1",
             self.driver],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def script(self, *texts, **more):
        return sim_cuda.finish(self.start(*texts, **more))

    def misuse(self):
        return sim_cuda.misuse(self.tree)

    def used(self, card=0):
        """Bytes charged, from the usage file itself."""
        data = (self.folder / "usage").read_bytes()
        word = int.from_bytes(data[128 + card * 128:][:8], "little")
        assert not word >> 32 & 1
        return (word & 0xffffffff) * 4096


def granted_cards(tree, folder):
    """2154 MiB (2 of 15) and 1024 MiB of two GPUs of 16160 MiB."""
    tree.sim = RATION_SIM
    tree.up_file({"gpus": [{"memoryMiB": 16160, "contextMiB": 300}, {"memoryMiB": 16160, "contextMiB": 300}],
                  "driverVersion": NEWEST})
    return Granted(tree, folder, [2154 * MIB, 1024 * MIB])
