"""Images of every kind (images/*.json) around the programs of tests/component/load-driver.c."""
import dataclasses
import pathlib
import shutil
import subprocess
import sys

from cluster import PRODUCT, ROOT

sys.path.insert(0, str(ROOT / "lab"))
from rationlab import images, lab, recipes    # noqa: E402

RECIPES = pathlib.Path(__file__).resolve().parent / "images"
CHARTS_OWN = ("ration-agent", "ration-scheduler")    # the images that the charts name
SHIMS = ("libcuda.so.1", "libnvidia-ml.so.1")
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


def give_version(cluster, tag, programs):
    """Images of the charts' programs (named as in deploy/images) under this tag, in every node."""
    chosen = [dataclasses.replace(r, name=f"{r.name}-{tag}", fields={**r.fields, "names": [f"ration/{r.name}:{tag}"]})
              for r in recipes.load() if r.name in CHARTS_OWN]
    load(cluster, images.prepare_recipes(recipes.Sources(programs, "", ""), chosen))


def give_next(cluster, tag="next"):
    """A later version: the agent has another layout of the grants, and so another shim."""
    later = PRODUCT / "tests/component/next"
    give_version(cluster, tag, {
        "ration-scheduler": PRODUCT / "src/scheduler/ration-scheduler", "ration-agent": later / "ration-agent-next",
        **{f"shim/{name}": later / name for name in SHIMS}})


def name(recipe):
    return f"ration-test/{recipe}:1"
