"""What is remembered of a lab: lab.json in its folder, and the locks between several commands."""

import contextlib
import dataclasses
import fcntl
import json
import os

from . import layout
from .errors import LabError
from .paths import labs_root


_SETUP = tuple(field.name for field in dataclasses.fields(layout.Setup))


def folder_of(name):
    return labs_root() / name


def read(name):
    """The lab's record, or None when there is no such lab; `setup` is a layout.Setup, `nodes` are pairs (index, layout.Node)."""
    path = folder_of(name) / "lab.json"
    try:
        fields = json.loads(path.read_text())
        fields["setup"] = layout.Setup(**{name: fields[name] for name in _SETUP if name in fields}).filled()
        if any("index" not in node for node in fields["nodes"]):
            raise LabError(f"lab {name} was made by an older lab/lab; lab/lab down --name {name} removes it")
        fields["nodes"] = [(node.pop("index"), layout.node_from_dict(node)) for node in fields["nodes"]]
        return fields
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(f"{path} is damaged ({error}); lab/lab down --name {name} removes the lab") from None


def write(name, slot, setup, nodes):
    folder = folder_of(name)
    folder.mkdir(parents=True, exist_ok=True)
    record = {"name": name, "slot": slot, **dataclasses.asdict(setup),
              "nodes": [{"index": index, **layout.node_as_dict(node)} for index, node in nodes]}
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


def names_with_cgroup_driver(driver):
    """Labs of this machine under this cgroup driver."""
    found = []
    for path in labs_root().glob("*/lab.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            if json.loads(path.read_text()).get("cgroup_driver") == driver:
                found.append(path.parent.name)
    return found


@contextlib.contextmanager
def lock(name=None):
    """Held by the process that changes the lab of this name; without a name, by the one that chooses a slot."""
    labs_root().mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        while True:
            handle = _locked(name)
            if _is_current(handle, name):
                stack.enter_context(handle)
                break
            handle.close()
        yield


def _lock_path(name):
    return labs_root() / f".{name or 'SLOTS'}.lock"


def _locked(name):
    handle = open(_lock_path(name), "w", encoding="ascii")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if name else 0))
    except BlockingIOError:
        handle.close()
        raise LabError(f"another command is changing lab {name} right now; wait for it and try again") from None
    return handle


def _is_current(handle, name):
    """False if the file was removed, and perhaps created again, between our open and our lock."""
    try:
        return os.fstat(handle.fileno()).st_ino == os.stat(_lock_path(name)).st_ino
    except FileNotFoundError:
        labs_root().mkdir(parents=True, exist_ok=True)
        return False


def forget_locks(name):
    """Removes the lock of a lab that is gone, held by the caller, and the folder of all labs when it is empty."""
    _lock_path(name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        if set(os.listdir(labs_root())) <= {_lock_path(None).name}:
            _lock_path(None).unlink(missing_ok=True)
            labs_root().rmdir()
