"""The simulated driver as a tree of files that the real ration-sim makes, and programs that run on it."""
import contextlib
import json
import os
import pathlib
import subprocess

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve()
RATION_SIM = BUILD / "sim" / "ration-sim"
NEWEST = "615.71.09"    # CUDA 13.4; the default, 515.105.01, has the names of 11.7
SYMBOLS = pathlib.Path(__file__).resolve().parents[2] / "sim" / "libnvidia-ml" / "libnvidia-ml.syms"


def library_path(args):
    """A sanitizer's dlopen() looks from its own place, not from the program's: RUNPATH is not followed."""
    for program in map(pathlib.Path, map(str, args)):
        if program.name == "nvidia-smi" and b"libasan.so" in program.read_bytes():
            return {"env": dict(os.environ, LD_LIBRARY_PATH=str(program.parent.parent / "lib"))}
    return {}


def run(*args, check=True, **kwargs):
    kwargs = {**library_path(args), **kwargs}
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=60, **kwargs)
    if check:
        assert done.returncode == 0, f"{args}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


class Tree:
    def __init__(self, path):
        self.path = path

    def up(self, *args, **kwargs):
        return run(RATION_SIM, "up", self.path, *args, **kwargs)

    def up_file(self, document, **kwargs):
        file = self.path.parent / "cards.json"
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        return self.up("--gpus-file", file, **kwargs)

    def fault(self, *args, **kwargs):
        return run(RATION_SIM, "fault", self.path, *args, **kwargs)

    def smi(self, *args, **kwargs):
        return run(self.path / "bin" / "nvidia-smi", *args, **kwargs)

    def cards(self):
        return json.loads((self.path / "gpus.json").read_text())["gpus"]

    def uuids(self):
        return [card["uuid"] for card in self.cards()]

    def table(self):
        """The table without its date line."""
        return self.smi().stdout.split("\n", 1)[1]


@contextlib.contextmanager
def temporary_tree(folder):
    tree = Tree(folder / "tree")
    yield tree
    run(RATION_SIM, "down", tree.path, check=False)


def hold(tree, card, mib):
    """A process that holds memory."""
    process = subprocess.Popen([RATION_SIM, "hold", tree.path, str(card), str(mib)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith(f"pid {process.pid} holds"), process.stderr.read()
    return process
