"""Writes a container image as a docker archive, the same bytes for the same content."""

import hashlib
import io
import json
import os
import stat
import tarfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Content:
    """The one layer of an image: regular files (target -> source on this machine, or their bytes), links, folders."""
    files: dict = field(default_factory=dict)
    links: dict = field(default_factory=dict)
    folders: dict = field(default_factory=dict)    # path -> mode
    texts: dict = field(default_factory=dict)      # path -> contents
    data: dict = field(default_factory=dict)       # path -> bytes of a program

    def digest(self):
        """Names the content: what is in it, not when it was written."""
        total = hashlib.sha256()
        for path in sorted(self.files):
            source = Path(self.files[path])
            executable = bool(source.stat().st_mode & stat.S_IXUSR)
            total.update(repr((path, executable)).encode() + hashlib.sha256(source.read_bytes()).digest())
        for path in sorted(self.data):
            total.update(path.encode() + hashlib.sha256(self.data[path]).digest())
        total.update(repr((sorted(self.links.items()), sorted(self.folders.items()),
                           sorted(self.texts.items()))).encode())
        return total.hexdigest()


def _entry(path, kind, mode, size=0, target=""):
    info = tarfile.TarInfo(path.lstrip("/"))
    info.type, info.mode, info.size, info.linkname = kind, mode, size, target
    return info


def write_layer(content, out):
    with tarfile.open(fileobj=out, mode="w") as tar:
        parents = set()
        for path in [*content.files, *content.links, *content.texts, *content.data, *content.folders]:
            parents.update(str(parent) for parent in Path(path).parents if str(parent) != "/")
        linked = set(content.links)
        for path in sorted((parents | set(content.folders)) - linked):
            tar.addfile(_entry(path, tarfile.DIRTYPE, content.folders.get(path, 0o755)))
        for path, target in sorted(content.links.items()):
            tar.addfile(_entry(path, tarfile.SYMTYPE, 0o777, target=target))
        for path, text in sorted(content.texts.items()):
            data = text.encode()
            tar.addfile(_entry(path, tarfile.REGTYPE, 0o644, len(data)), io.BytesIO(data))
        for path, data in sorted(content.data.items()):
            tar.addfile(_entry(path, tarfile.REGTYPE, 0o755, len(data)), io.BytesIO(data))
        for path, source in sorted(content.files.items()):
            with open(source, "rb") as handle:
                status = os.fstat(handle.fileno())
                mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
                tar.addfile(_entry(path, tarfile.REGTYPE, mode, status.st_size), handle)


def write(path, names, content, config):
    """Writes the image to `path`, whole or not at all. `config` holds Entrypoint, Cmd, Env, WorkingDir."""
    layer = path.with_name(path.name + ".layer")
    with open(layer, "wb") as out:
        write_layer(content, out)
    digest = hashlib.sha256(layer.read_bytes()).hexdigest()
    image = json.dumps({
        "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64", "os": "linux", "config": config,
        "created": "1970-01-01T00:00:00Z", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "ration"}]}, sort_keys=True).encode()
    config_name = hashlib.sha256(image).hexdigest() + ".json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": names, "Layers": [f"{digest}/layer.tar"]}]).encode()
    temporary = path.with_name(path.name + ".new")
    with tarfile.open(temporary, "w") as tar:
        for name, data in (("manifest.json", manifest), (config_name, image)):
            tar.addfile(_entry(name, tarfile.REGTYPE, 0o644, len(data)), io.BytesIO(data))
        with open(layer, "rb") as handle:
            tar.addfile(_entry(f"{digest}/layer.tar", tarfile.REGTYPE, 0o644, layer.stat().st_size), handle)
    layer.unlink()
    os.rename(temporary, path)
