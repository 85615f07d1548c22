"""The published Python packages that the tests of the simulated driver run, installed once into the build folder."""
import fcntl
import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path(os.environ["RATION_BUILD"])
LIST = pathlib.Path(__file__).with_name("cuda-clients.txt")


def install():
    """The folder that holds the packages of cuda-clients.txt. Two test processes at a time wait for one another."""
    folder = BUILD / "cuda-clients"
    stamp = folder / "installed.txt"
    BUILD.mkdir(exist_ok=True)
    with open(BUILD / "cuda-clients.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != LIST.read_text():
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade",
                            "--disable-pip-version-check", "--no-warn-script-location", "--root-user-action=ignore",
                            "--only-binary=:all:", "--target", folder, "-r", LIST], check=True)
            stamp.write_text(LIST.read_text())
    return folder


def environment(library_folder=None, **more):
    """What a client needs to find the packages, and the driver where one is given."""
    env = dict(os.environ, PYTHONPATH=str(install()), PYTHONDONTWRITEBYTECODE="1", **more)
    env.pop("RATION_SIM_DIR", None)
    if library_folder:
        env["LD_LIBRARY_PATH"] = str(library_folder)
    return env
