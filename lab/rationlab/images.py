"""Makes the images a lab needs, once, and brings them into each node's container runtime."""

import fcntl
import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from . import archive, recipes
from .paths import cache_root
from .procs import run

_VERSION_FILE = "ration-version"
_KEEP_SECONDS = 24 * 3600    # an archive that was not used for a day is removed


@dataclass(frozen=True)
class Image:
    recipe: str
    names: tuple
    digest: str
    tar: Path


def install_product(build, into):
    """`meson install` into a folder; returns what installed_product() does."""
    if into.exists():
        shutil.rmtree(into)
    environment = dict(os.environ, DESTDIR=str(into))
    run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], "installing the product", env=environment)
    info = json.loads(run(["meson", "introspect", "--projectinfo", build], "the product's version"))
    (into / _VERSION_FILE).write_text(info["version"])
    return installed_product(into)


def installed_product(folder):
    """(programs by name and by FOLDER/NAME, version); ({}, "") where install_product() has not been."""
    if not (folder / _VERSION_FILE).exists():
        return {}, ""
    files = [path for path in folder.rglob("*") if path.is_file() and os.access(path, os.X_OK)]
    # With its folder too: the shim has libraries of the same names as the simulated driver.
    programs = {name: path for path in files for name in (path.name, f"{path.parent.name}/{path.name}")}
    return programs, (folder / _VERSION_FILE).read_text()


def prepare(sources, with_charts):
    """All images of the lab as archives in the cache."""
    return prepare_recipes(sources, [r for r in recipes.load() if with_charts or not r.only_for_charts()])


def prepare_recipes(sources, chosen):
    """Images of these recipes as archives in the cache."""
    folder = cache_root() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _forget_unused(folder)
        return [_prepare_one(recipe, sources, folder) for recipe in chosen]


def _prepare_one(recipe, sources, folder):
    content, names, config = recipe.content(sources), recipe.image_names(sources), recipe.config()
    digest = hashlib.sha256(repr((content.digest(), names, config)).encode()).hexdigest()[:20]
    tar = folder / f"{recipe.name}-{digest}.tar"
    if not tar.exists():
        archive.write(tar, names, content, config)
    os.utime(tar)
    return Image(recipe.name, tuple(names), digest, tar)


def _forget_unused(folder):
    for path in folder.iterdir():
        if path.name != "lock" and (path.suffix != ".tar" or path.stat().st_mtime < time.time() - _KEEP_SECONDS):
            path.unlink()


def load_into(node, images):
    """Imports what the node does not have yet. Returns the recipes whose image changed."""
    record = node.folder / "images.json"
    known = json.loads(record.read_text()) if record.exists() else {}
    changed = []
    for image in images:
        if known.get(image.recipe) == image.digest:
            continue
        node.runtime.load(image)
        known[image.recipe] = image.digest
        changed.append(image.recipe)
        temporary = record.with_suffix(".new")
        temporary.write_text(json.dumps(known))
        os.rename(temporary, record)
    return changed
