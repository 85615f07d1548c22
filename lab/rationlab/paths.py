"""Where the lab's files lie. Nothing here touches the disk."""

import os
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
LAB_SOURCE = REPO / "lab"
IMAGE_RECIPES = REPO / "deploy" / "images"
CHARTS = REPO / "deploy" / "charts"


def cache_root():
    """Built programs and image archives: may be deleted at any time, costs a build."""
    explicit = os.environ.get("RATION_CACHE")
    if explicit:
        return Path(explicit).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ration"


def labs_root():
    """One folder for each lab that exists."""
    explicit = os.environ.get("RATION_LABS")
    if explicit:
        return Path(explicit).absolute()
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "ration" / "labs"


def product_build():
    """The meson build directory whose programs go into the images and onto PATH."""
    return Path(os.environ.get("RATION_BUILD") or REPO / "build").absolute()
