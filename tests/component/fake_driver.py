"""A libcuda and a libnvidia-ml that do nothing: function number i of the list answers 1000 + i. What a test wants to
see differently it defines itself, in C."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
LISTS = {"libcuda.so.1": ROOT / "src/cuda/libcuda.syms", "libnvidia-ml.so.1": ROOT / "src/shim/libnvidia-ml.syms"}


def symbols(library):
    return [line.split()[0] for line in LISTS[library].read_text().splitlines()]


def build(folder, library, source="", without=()):
    """folder/library; `source` defines functions instead of those that answer their number."""
    names = symbols(library)
    defined = set(re.findall(r"^\w[\w *]*?\b(cu\w+|nvml\w+)\(", source, re.M)) | set(without)
    text = source + "".join(f"\nint {name}(void) {{ return {1000 + i}; }}" for i, name in enumerate(names)
                            if name not in defined)
    folder.mkdir(parents=True, exist_ok=True)
    code = folder / f"{library}.c"
    code.write_text("#define _GNU_SOURCE\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n" + text)
    target = folder / library
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", f"-Wl,-soname,{library}", "-Wl,-Bsymbolic", "-o", target,
                    code], check=True)
    return target
