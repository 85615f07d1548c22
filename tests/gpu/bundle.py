"""All that tests/gpu/run needs, in one archive: for a machine that has Python 3.9 and glibc 2.34 and nothing else."""
import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from gpu import HERE, ROOT, build, commit

TOP = "ration-gpu"
BUILT = ("src/cli/ration", "src/run/ration-run", "src/shim/libcuda.so.1", "src/shim/libcuda.so", "src/shim/libnvidia-ml.so.1",
         "src/shim/libnvidia-ml.so", "tests/gpu/gpu-probe", "sim/ration-sim", "sim/libcuda.so.1", "sim/libnvidia-ml.so.1",
         "sim/nvidia-smi")


def json_c():
    """ration-sim is the only program here that needs more than libc."""
    done = subprocess.run(["ldd", str(build() / "sim/ration-sim")], capture_output=True, text=True, check=False)
    found = re.search(r"(libjson-c\.so\.\d+) => (\S+)", done.stdout)
    return found and (found[1], found[2])


def make(path):
    with tarfile.open(path, "w:gz", dereference=True) as archive:
        for file in sorted(HERE.glob("*")):
            if file.name == "run" or file.suffix == ".py":
                archive.add(file, f"{TOP}/tests/gpu/{file.name}")
        for name in BUILT:
            archive.add(build() / name, f"{TOP}/build/{name}")
        if json_c():
            archive.add(json_c()[1], f"{TOP}/lib/{json_c()[0]}")
        text = (commit() + "\n").encode()
        told = tarfile.TarInfo(f"{TOP}/COMMIT")
        told.size = len(text)
        archive.addfile(told, io.BytesIO(text))
    print(f"{path}: {Path(path).stat().st_size >> 20} MiB; there: tar xzf {Path(path).name} && {TOP}/tests/gpu/run --out hardware.md")
    return 0


if __name__ == "__main__":
    sys.exit(make(sys.argv[1]))
