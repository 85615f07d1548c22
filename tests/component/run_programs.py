"""Programs that load the driver's library in each way that there is."""
import pathlib
import re
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "load-driver.c"
LIMIT, WHOLE, NO_CARD, NOT_FOUND = "2154", "16160", "no card", "not found"
needs_musl = pytest.mark.skipif(not shutil.which("musl-gcc"), reason="musl-gcc is not installed")


def answer(machine, layer, *program, env=None):
    done = machine.run(*program, args=["--layer", layer], env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def version(machine):
    return next(p.name for p in machine.lib.iterdir() if re.fullmatch(r"libcuda\.so\.\d+\.\d.*", p.name))


def compile_loader(machine):
    folder = machine.runs.parent / "programs"
    folder.mkdir()

    def build(name, *flags, compiler="cc"):
        target = folder / name
        subprocess.run([compiler, "-w", "-o", target, SOURCE, *map(str, flags)], check=True)
        return target

    return build
