"""What is remembered of a lab: lab.json in its folder, and the locks between several commands."""

import contextlib
import fcntl
import json
import os

from . import layout
from .errors import LabError
from .paths import labs_root


def folder_of(name):
    return labs_root() / name


def read(name):
    """The lab's record, or None when there is no such lab."""
    path = folder_of(name) / "lab.json"
    try:
        fields = json.loads(path.read_text())
        fields["nodes"] = [layout.node_from_dict(node) for node in fields["nodes"]]
        return fields
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(f"{path} is damaged ({error}); lab/lab down --name {name} removes the lab") from None


def write(name, slot, kubernetes, nodes):
    folder = folder_of(name)
    folder.mkdir(parents=True, exist_ok=True)
    record = {"name": name, "slot": slot, "kubernetes": kubernetes, "nodes": [layout.node_as_dict(n) for n in nodes]}
    temporary = folder / "lab.json.new"
    temporary.write_text(json.dumps(record, indent=1) + "\n")
    os.rename(temporary, folder / "lab.json")


def slots_taken():
    taken = set()
    if labs_root().is_dir():
        for path in labs_root().glob("*/lab.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                taken.add(json.loads(path.read_text())["slot"])
    return taken


@contextlib.contextmanager
def lock(name=None):
    """Held by whoever changes the lab of this name; without a name, by whoever chooses a slot."""
    labs_root().mkdir(parents=True, exist_ok=True)
    with open(labs_root() / f".{name or 'SLOTS'}.lock", "w", encoding="ascii") as handle:
        if name is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LabError(f"another command is changing lab {name} right now; wait for it and try again") from None
        else:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def forget_locks(name):
    """Removes the lock files that no lab needs any more, and the folder when it is empty."""
    with contextlib.suppress(OSError):
        (labs_root() / f".{name}.lock").unlink()
    if not any(not path.name.startswith(".") for path in labs_root().iterdir()):
        with contextlib.suppress(OSError):
            (labs_root() / ".SLOTS.lock").unlink()
        with contextlib.suppress(OSError):
            labs_root().rmdir()
