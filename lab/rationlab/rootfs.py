"""How distributions lay out an image: which folders there are, and where the dynamic linker looks for libraries."""

import re
from pathlib import Path

from . import archive
from .errors import LabError

_MERGED = {"/bin": "usr/bin", "/sbin": "usr/sbin", "/lib": "usr/lib", "/lib64": "usr/lib64"}
_FOLDERS = {"/tmp": 0o1777, "/run": 0o755, "/root": 0o700, "/proc": 0o555, "/sys": 0o555, "/dev": 0o755,
            "/usr/bin": 0o755, "/usr/sbin": 0o755, "/usr/lib": 0o755, "/usr/lib64": 0o755}
# Root's entry is for programs that ask who they are.
_TEXTS = {"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
          "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
          "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n"}

# Folders that this machine's linker searches (elf/rtld.c, Debian's multiarch), and in the same room those of Red Hat's,
# which knows no others. The lengths lie elsewhere in the file, so they stay.
_DEBIAN_SEARCHES = (b"/lib/x86_64-linux-gnu/", b"/usr/lib/x86_64-linux-gnu/", b"/lib/", b"/usr/lib/")
_RED_HAT_SEARCHES = (b"/lib64/", b"/usr/lib64/", b"/./", b"/./")


class Debian:
    """Merged /usr: /bin and /lib are links."""

    def skeleton(self):
        return archive.Content(links={**_MERGED, "/var/run": "/run"}, folders=dict(_FOLDERS), texts=dict(_TEXTS))

    def add_library(self, content, path, source):
        """A library that the machine's linker found at `path`, with the file behind it. The linker itself is beside
        the libraries too, where those that need it by name find it."""
        content.files[re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", path)] = source
        content.files[source] = source


class Unmerged(Debian):
    """As before merged /usr: what is needed early lies in folders of its own."""

    def skeleton(self):
        folders = {**_FOLDERS, **{path: 0o755 for path in _MERGED}}
        return archive.Content(links={"/var/run": "/run"}, folders=folders, texts=dict(_TEXTS))

    def add_library(self, content, path, source):
        content.files[path] = source
        content.files[re.sub(r"^/usr/lib/", "/lib/", source)] = source


class RedHat(Debian):
    """Libraries in /usr/lib64, and a linker that looks nowhere else."""

    def add_library(self, content, path, source):
        target = f"/usr/lib64/{Path(path).name}"
        if Path(path).name.startswith("ld-linux"):
            content.data[target] = _red_hat_linker(source)
        else:
            content.files[target] = source


class Empty:
    """FROM scratch: what the recipe names and nothing else."""

    def skeleton(self):
        return archive.Content()

    def add_library(self, content, path, source):
        raise LabError(f"an empty image has no place for {path}")


def _red_hat_linker(path):
    def packed(folders):
        return b"".join(new.ljust(len(old), b"/") + b"\0"
                        for old, new in zip(_DEBIAN_SEARCHES, folders))
    data = Path(path).read_bytes()
    if packed(_DEBIAN_SEARCHES) not in data:
        raise LabError(f"{path} is not the linker of an x86-64 Debian 12: its search folders are not known")
    return data.replace(packed(_DEBIAN_SEARCHES), packed(_RED_HAT_SEARCHES))


LAYOUTS = {"debian": Debian(), "unmerged": Unmerged(), "redhat": RedHat(), "empty": Empty()}
