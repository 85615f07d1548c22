"""Writes an image for several architectures as an OCI image layout (image-spec 1.1, image-layout.md) in a tar."""

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass

from rationlab import archive

_TYPE = "application/vnd.oci.image."
CREATED = "1970-01-01T00:00:00Z"


@dataclass(frozen=True)
class Variant:
    """The image for one architecture."""
    architecture: str      # as Go names it
    content: archive.Content
    config: dict


class _Layout:
    def __init__(self):
        self.blobs = {}

    def add(self, data, kind, **more):
        """Takes a blob; returns its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"mediaType": _TYPE + kind, "digest": f"sha256:{digest}", "size": len(data), **more}

    def add_json(self, value, kind, **more):
        return self.add(json.dumps(value, sort_keys=True).encode(), kind, **more)

    def write(self, path, index):
        files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index, sort_keys=True).encode(),
                 **{f"blobs/sha256/{digest}": data for digest, data in sorted(self.blobs.items())}}
        with tarfile.open(path, "w") as tar:
            for name, data in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))


def _add_variant(layout, variant, labels):
    plain, packed = io.BytesIO(), io.BytesIO()
    archive.write_layer(variant.content, plain)
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as out:
        out.write(plain.getvalue())
    config = layout.add_json({
        "architecture": variant.architecture, "os": "linux", "config": {**variant.config, "Labels": labels},
        "created": CREATED, "history": [{"created": CREATED, "created_by": "deploy/package"}],
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain.getvalue()).hexdigest()}"]},
    }, "config.v1+json")
    layer = layout.add(packed.getvalue(), "layer.v1.tar+gzip")
    return layout.add_json({"schemaVersion": 2, "mediaType": f"{_TYPE}manifest.v1+json", "config": config, "layers": [layer]},
                           "manifest.v1+json", platform={"architecture": variant.architecture, "os": "linux"})


def write(path, name, version, variants):
    """One image index with a manifest for each architecture. `ctr images import` calls it NAME:VERSION."""
    layout = _Layout()
    labels = {"org.opencontainers.image.title": name.rpartition("/")[2], "org.opencontainers.image.version": version,
              "org.opencontainers.image.licenses": "Apache-2.0"}
    index = {"schemaVersion": 2, "mediaType": f"{_TYPE}index.v1+json",
             "manifests": [_add_variant(layout, variant, labels) for variant in variants]}
    top = layout.add_json(index, "index.v1+json", annotations={
        "io.containerd.image.name": f"docker.io/{name}:{version}", "org.opencontainers.image.ref.name": version})
    layout.write(path, {"schemaVersion": 2, "mediaType": f"{_TYPE}index.v1+json", "manifests": [top]})
