"""Turns a recipe of deploy/images into the content of an image, taken from this machine.

A recipe is JSON: names (with @version@, @kubernetes@), busybox ("all" or a list of applets), programs
(target -> source, with the shared libraries they need), python (the machine's own interpreter), files
(target -> source as it is), links (path -> where to), layout (of rootfs.py; debian by default), env (a list),
entrypoint, cmd, workdir; "for": "charts" when only the charts need it.
A source is a path on this machine, a path beside the recipe, @product@/NAME or @product@/FOLDER/NAME, @binary@/NAME.
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import binaries, rootfs
from .errors import LabError
from .paths import IMAGE_RECIPES

_MERGED = re.compile(r"^/(bin|sbin|lib|lib64)/")
_KNOWN = {"about", "names", "busybox", "programs", "python", "files", "links", "layout", "env", "entrypoint", "cmd",
          "workdir", "for"}
# They come from the node, by what a container is granted; never from this machine.
_DRIVER = ("libcuda.so", "libnvidia-ml.so")
# Parts of the Python library that a sample program does not miss, by far the largest ones.
_PYTHON_LEFT_OUT = {"__pycache__", "test", "tests", "idlelib", "lib2to3", "tkinter", "ensurepip", "distutils",
                    "pydoc_data", "turtledemo", "sqlite3", "curses", "dbm", "venv", "site-packages", "dist-packages"}
_PYTHON_EXTENSIONS_LEFT_OUT = ("_sqlite3", "_curses", "_dbm", "_gdbm", "readline", "_tkinter", "nis", "_codecs_", "_test",
                               "_crypt", "_lsprof", "_xx", "ossaudiodev", "_ctypes_test")

# A static program that resolves names loads the C library's resolver at run time, and busybox-static 1.35.0-4
# crashes then (tried: wget to an address, in a container with the same glibc). Better not there than crashing.
_BUSYBOX_LEFT_OUT = {"arping", "ftpget", "ftpput", "nc", "nslookup", "ntpd", "ping", "ping6", "rdate", "ssl_client",
                     "telnet", "tftp", "traceroute", "traceroute6", "wget", "whois"}


@dataclass(frozen=True)
class Sources:
    """Where @product@ and @binary@ point, and what the names are filled with."""
    product: dict           # program name -> path; empty when the product is not wanted
    version: str
    kubernetes: str
    root: str = ""          # the tree of another architecture, in which the programs' libraries are; this machine's if empty


@dataclass
class Recipe:
    name: str
    fields: dict
    folder: Path

    def only_for_charts(self):
        return self.fields.get("for") == "charts"

    def image_names(self, sources):
        return [name.replace("@version@", sources.version).replace("@kubernetes@", sources.kubernetes)
                for name in self.fields["names"]]

    def config(self):
        config = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                          *self.fields.get("env", [])],
                  "WorkingDir": self.fields.get("workdir", "/")}
        if "entrypoint" in self.fields:
            config["Entrypoint"] = self.fields["entrypoint"]
        if "cmd" in self.fields:
            config["Cmd"] = self.fields["cmd"]
        return config

    def content(self, sources):
        layout = rootfs.LAYOUTS[self.fields.get("layout", "debian")]
        content = layout.skeleton()
        content.links.update(self.fields.get("links", {}))
        for target, source in self.fields.get("files", {}).items():
            content.files[target] = self._source(source, sources)
        for target, source in self.fields.get("programs", {}).items():
            path = self._source(source, sources)
            content.files[target] = path
            _add_libraries(content, layout, path, sources.root)
        if sources.root:
            content.files = {_MERGED.sub(r"/usr/\1/", target.removeprefix(sources.root)): source
                             for target, source in content.files.items()}
        if self.fields.get("python"):
            _add_python(content, layout)
        if "busybox" in self.fields:
            _add_busybox(content, self.fields["busybox"])
        return content

    def _source(self, source, sources):
        kind, _, name = source.partition("/")
        if kind == "@binary@":
            return binaries.program(name, sources.kubernetes)
        if kind == "@product@":
            if name not in sources.product:
                raise LabError(f"image {self.name}: the product's build has no {name}")
            return str(sources.product[name])
        path = Path(source) if source.startswith("/") else self.folder / source
        if not path.exists():
            raise LabError(f"image {self.name}: {path} is not there")
        return str(path)


def load(folder=IMAGE_RECIPES):
    """All recipes of a folder, sorted by name."""
    found = []
    for path in sorted(folder.glob("*.json")):
        fields = json.loads(path.read_text())
        unknown = set(fields) - _KNOWN
        if unknown or not fields.get("names"):
            raise LabError(f"{path}: {'unknown ' + ', '.join(sorted(unknown)) if unknown else 'names are missing'}")
        if fields.get("layout", "debian") not in rootfs.LAYOUTS:
            raise LabError(f"{path}: layouts are {', '.join(rootfs.LAYOUTS)}")
        found.append(Recipe(path.stem, fields, folder))
    return found


def _libraries(path, root):
    """Shared libraries of a program, the dynamic linker included; none for a static one."""
    if root:
        return _libraries_below(path, root)
    done = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if "not a dynamic executable" in done.stdout + done.stderr or "statically linked" in done.stdout:
            return []
        raise LabError(f"ldd {path}: {done.stderr.strip()}")
    missing = [name for name in re.findall(r"(\S+) => not found", done.stdout) if not name.startswith(_DRIVER)]
    if missing:
        raise LabError(f"{path} needs {', '.join(missing)}, which this machine does not have")
    return [found for found in re.findall(r"(/\S+) \(0x", done.stdout) if not Path(found).name.startswith(_DRIVER)]


def _libraries_below(path, root):
    """The same by the programs' own words, where this machine's linker cannot run them."""
    found, waiting = [], [path]
    while waiting:
        said = subprocess.run(["readelf", "--wide", "--dynamic", "--program-headers", waiting.pop()], capture_output=True,
                              text=True, check=True).stdout
        for name in re.findall(r"program interpreter: (\S+)\]|\(NEEDED\).*\[(\S+)\]", said):
            name = os.path.basename(name[0] or name[1])
            if name.startswith(_DRIVER) or any(os.path.basename(library) == name for library in found):
                continue
            places = [place for folder in ("usr/lib/*", "lib/*", "lib") for place in Path(root).glob(f"{folder}/{name}")]
            if not places:
                raise LabError(f"{path} needs {name}, which {root} does not have")
            found.append(str(places[0]))
            waiting.append(str(places[0]))
    return sorted(found)


def _add_libraries(content, layout, path, root=""):
    for library in _libraries(path, root):
        layout.add_library(content, library, os.path.realpath(library))
        if os.path.basename(library) == "libc.so.6":
            # No distribution parts the C library from these; whatever loads a driver of a GPU needs them.
            for beside in ("libdl.so.2", "libpthread.so.0", "librt.so.1"):
                path_beside = os.path.join(os.path.dirname(library), beside)
                layout.add_library(content, path_beside, os.path.realpath(path_beside))


def _add_python(content, layout):
    interpreter = Path(os.path.realpath("/usr/bin/python3"))
    library = Path("/usr/lib") / interpreter.name    # /usr/bin/python3.11 has /usr/lib/python3.11
    if not library.is_dir():
        raise LabError(f"{interpreter} has no library at {library}; apt-get install python3")
    content.files[str(interpreter)] = str(interpreter)
    for name in ("python3", "python"):
        content.links[f"/usr/bin/{name}"] = interpreter.name
    _add_libraries(content, layout, str(interpreter))
    for folder, folders, files in os.walk(library):
        folders[:] = [name for name in folders if name not in _PYTHON_LEFT_OUT]
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith(".so") and name.startswith(_PYTHON_EXTENSIONS_LEFT_OUT):
                continue
            if name.endswith((".py", ".so")):
                content.files[path] = os.path.realpath(path)
            if name.endswith(".so"):
                _add_libraries(content, layout, path)


def _add_busybox(content, applets):
    content.files["/usr/bin/busybox"] = "/usr/bin/busybox"
    if applets == "all":
        applets = subprocess.run(["/usr/bin/busybox", "--list"], capture_output=True, text=True,
                                 check=True).stdout.split()
        applets = [applet for applet in applets if applet not in _BUSYBOX_LEFT_OUT]
    for applet in applets:
        target = f"/usr/bin/{applet}"
        if target not in content.files and target not in content.links:
            content.links[target] = "busybox"
