"""The published Python packages that the tests of the simulated driver run, installed once into the build folder."""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import venv

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build"    # one copy, also for the sanitized build
LIST = pathlib.Path(__file__).with_name("cuda-clients.txt")


def python():
    """A Python that has the packages of cuda-clients.txt: packages look for each other, and for libraries, in a site
    folder only. Two test processes at a time wait for one another."""
    folder = BUILD / "cuda-clients"
    stamp = folder / "installed.txt"
    BUILD.mkdir(exist_ok=True)
    with open(BUILD / "cuda-clients.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != LIST.read_text():
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=False)
            target = next((folder / "lib").glob("python3*")) / "site-packages"
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile",
                            "--disable-pip-version-check", "--no-warn-script-location", "--root-user-action=ignore",
                            "--only-binary=:all:", "--target", target, "-r", LIST], check=True)
            stamp.write_text(LIST.read_text())
    return folder / "bin" / "python3"


def environment(library_folder=None, **more):
    """What a client needs to find the driver where one is given."""
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **more)
    env.pop("RATION_SIM_DIR", None)
    if library_folder:
        env["LD_LIBRARY_PATH"] = str(library_folder)
    return env
