"""Images of every kind (images/*.json) around the programs of tests/component/load-driver.c."""
import pathlib
import shutil
import subprocess
import sys

from cluster import PRODUCT, ROOT

sys.path.insert(0, str(ROOT / "lab"))
from rationlab import images, lab, recipes    # noqa: E402

RECIPES = pathlib.Path(__file__).resolve().parent / "images"
SOURCE = ROOT / "tests" / "component" / "load-driver.c"


def _compile(folder):
    """{name in the recipes: path}"""
    driver = ["-DLINKED", f"-L{PRODUCT / 'sim'}", "-l:libcuda.so.1"]
    plugin = ["-shared", "-fPIC", "-DPLUGIN", f"-L{PRODUCT / 'sim'}", "-l:libcuda.so.1"]
    commands = {
        "load": ["cc"], "load-linked": ["cc", *driver], "load-static": ["cc", "-static", "-DSTATIC"],
        "load-musl": ["musl-gcc"], "load-musl-static": ["musl-gcc", "-static", "-DSTATIC"],
        "load-musl-linked": ["musl-gcc", *driver, "-Wl,--unresolved-symbols=ignore-in-shared-libs"],
        "plugin-nvidia": ["cc", *plugin, "-Wl,-rpath,/usr/local/nvidia/lib64"],
        "plugin-own": ["cc", *plugin, "-Wl,--disable-new-dtags,-rpath,/app/lib"],
    }
    for name, (compiler, *flags) in commands.items():
        subprocess.run([compiler, "-w", "-o", folder / name, SOURCE, *flags], check=True)
    return {**{name: folder / name for name in commands}, "libcuda": PRODUCT / "sim" / "libcuda.so.1"}


def give(cluster, tmp_path, only=None):
    """Brings the images into every node; those that are there already cost nothing."""
    if not shutil.which("musl-gcc"):
        raise AssertionError("musl-gcc is missing: lab/install-packages")
    sources = recipes.Sources(_compile(tmp_path), "", "")
    chosen = [recipe for recipe in recipes.load(RECIPES) if only is None or recipe.name in only]
    load(cluster, images.prepare_recipes(sources, chosen))


def load(cluster, made):
    for node in lab.Lab.existing(cluster.name).nodes:
        images.load_into(node, made)


def name(recipe):
    return f"ration-test/{recipe}:1"
