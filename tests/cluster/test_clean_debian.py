"""What a release gives where nothing of ours ever was: the images as the Containerfile makes them, with a container tool,
and the Debian package."""
import io
import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest

import cleandebian
import testimages
from cgpupods import LAYOUT, NODE, check_isolation, filler, processes
from cleandebian import run
from cluster import ROOT
from gpupods import pod
from rationlab import images
from releases import NOW, for_both, install, versions

pytestmark = [pytest.mark.alone, pytest.mark.full,
              pytest.mark.skipif(bool(cleandebian.lacking()), reason=cleandebian.lacking() or "")]
TAG = "containerfile"
AGENT, SCHEDULER = IMAGES = testimages.CHARTS_OWN
SHIM = "usr/lib/ration/shim"
SHIMS = set(testimages.SHIMS)
DEBRIS = (".git", "build/left", "build-sanitize/left", "lab/rationlab/__pycache__/left.pyc")


@pytest.fixture(scope="module")
def debian():
    if os.geteuid() != 0:
        pytest.skip("a Debian of its own needs root")
    with cleandebian.Debian() as made:
        yield made


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    """The commit's files and nothing else."""
    folder = tmp_path_factory.mktemp("source")
    packed = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def built(debian, context):
    """{image: a container of it}"""
    for name in IMAGES:
        debian.build(context, name, f"ration/{name}:{TAG}")
    return {name: debian.start(f"ration/{name}:{TAG}") for name in IMAGES}


@pytest.fixture(scope="module")
def packaged(tmp_path_factory):
    """What deploy/package makes of the commit."""
    out = tmp_path_factory.mktemp("release")
    run(ROOT / "deploy/package", "--output", out, "--only", "images", "--only", "deb", "--platform", "linux/amd64")
    return out


def symbols(library):
    """What a library exports, with the version of each."""
    listed = run("nm", "--dynamic", "--defined-only", "--with-symbol-versions", library).splitlines()
    return {line.split(maxsplit=1)[1] for line in listed}


def soname(library):
    return re.search(r"soname: \[(.*)\]", run("readelf", "-d", library))[1]


def files_below(tree, apart=()):
    return {name for p in tree.rglob("*") if not (name := str(p.relative_to(tree))).startswith(apart)}


def test_what_git_leaves_out_does_not_go_into_a_build(debian, context, tmp_path):
    folder = shutil.copytree(context, tmp_path / "checkout", symlinks=True)
    for name in DEBRIS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (tmp_path / "Containerfile").write_text(f"FROM {cleandebian.BASE}\nCOPY . /context\n")
    debian.buildah("build", "--pull-never", "-t", "context", "-f", tmp_path / "Containerfile", folder)
    assert files_below(debian.tree(debian.start("context")) / "context") == files_below(context)


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_of_the_containerfile_starts_and_lacks_no_library(debian, built, name):
    assert debian.run(built[name], name, "--version") == f"{name} {NOW}\n"
    assert debian.run(built[name], name, "--help").startswith(f"Usage: {name}")
    loaded = debian.run(built[name], "ldd", f"/usr/bin/{name}")
    assert "libcurl.so.4 => /" in loaded and "not found" not in loaded
    assert not [p for kept in ("lib/apt/lists", "cache/apt") for p in (debian.tree(built[name]) / "var" / kept).iterdir()]
    size = debian.archive(f"ration/{name}:{TAG}", f"ration/{name}:{TAG}").stat().st_size
    print(f"{name}: {size / 1e6:.1f} MB")


def test_the_images_run_as_whom_the_charts_let_run(debian, built):
    config = {name: debian.config(f"ration/{name}:{TAG}") for name in IMAGES}
    assert {name: c["Entrypoint"] for name, c in config.items()} == {name: [f"/usr/bin/{name}"] for name in IMAGES}
    assert config[SCHEDULER]["User"] == "65532:65532" and debian.run(built[SCHEDULER], "id", "-u") == "65532\n"
    assert "User" not in config[AGENT] and debian.run(built[AGENT], "id", "-u") == "0\n"


def test_the_containerfile_makes_the_shim_that_the_recipes_have(debian, built, packaged, tmp_path):
    """The same files in the same place with the same symbols, and the scheduler's image has none."""
    with tarfile.open(packaged / f"{AGENT}-{NOW}.oci.tar") as image:
        def blob(descriptor):
            return image.extractfile(f"blobs/{descriptor['digest'].replace(':', '/')}")
        index, = json.load(image.extractfile("index.json"))["manifests"]
        manifest, = json.load(blob(index))["manifests"]
        with tarfile.open(fileobj=blob(json.load(blob(manifest))["layers"][0])) as layer:
            layer.extractall(tmp_path, [m for m in layer if m.name.startswith(f"{SHIM}/") and m.isfile()])
    ours, theirs = debian.tree(built[AGENT]) / SHIM, tmp_path / SHIM
    assert {p.name for p in ours.iterdir()} == {p.name for p in theirs.iterdir()} == SHIMS
    for name in SHIMS:
        assert soname(ours / name) == soname(theirs / name) == name
        assert symbols(ours / name) == symbols(theirs / name) and len(symbols(ours / name)) > 100
    assert not (debian.tree(built[SCHEDULER]) / "usr/lib/ration").exists()


def test_a_cluster_runs_the_images_of_the_containerfile(debian, built, lab, tmp_path):
    cluster = lab(LAYOUT)
    testimages.give(cluster, tmp_path, only={"debian"})
    testimages.load(cluster, [images.Image(f"{name}-{TAG}", (), TAG, debian.archive(
        f"ration/{name}:{TAG}", f"docker.io/ration/{name}:{TAG}")) for name in IMAGES])
    try:
        for_both(lambda chart: install(cluster, chart, tag=TAG))
        cluster.rolled_out()
        assert versions(cluster) == [{TAG}, {TAG}]
        cluster.create(pod("held", containers=[filler("main", 2)]))
        held, = cluster.wait_running(names=["held"])
        assert held["spec"]["nodeName"] == NODE and check_isolation(cluster, held) == 1
        inside = processes(cluster, held)["main"] / "root/usr/lib/x86_64-linux-gnu/libcuda.so.1"
        assert inside.read_bytes() == (debian.tree(built[AGENT]) / SHIM / "libcuda.so.1").read_bytes()
    finally:
        for_both(lambda chart: install(cluster, chart))
        cluster.rolled_out()


# What apt and dpkg keep for themselves, of packages that are gone too.
THEIR_OWN = ("var/lib/dpkg/", "var/lib/apt/", "var/cache/", "var/log/", "tmp/")


def test_the_debian_package_installs_and_goes_without_a_trace(debian, packaged):
    deb, = packaged.glob("*.deb")
    clean = debian.start()
    tree = debian.tree(clean)
    for options in tree.glob("etc/dpkg/dpkg.cfg.d/*"):    # manuals, please
        options.unlink()
    debian.run(clean, "apt-get", "update", "-qq")
    before = files_below(tree, THEIR_OWN)
    debian.buildah("copy", clean, deb, "/tmp/")
    debian.run(clean, "apt-get", "install", "-y", "-qq", "--no-install-recommends", f"/tmp/{deb.name}")
    for name in ("ration", "ration-agent", "ration-scheduler", "ration-sim", "kubectl-inspect-cgpu"):
        assert re.fullmatch(rf"{name} {re.escape(NOW)}\n", debian.run(clean, name, "--version")), name
    pages = {p.name for p in tree.glob("usr/share/man/man*/*")}
    assert {"ration.1", "ration-run.1", "ration-agent.8", "ration-scheduler.8", "kubectl-inspect-cgpu.1"} <= pages
    assert {"ration", "kubectl-inspect-cgpu"} <= {p.name for p in (tree / "usr/share/bash-completion/completions").iterdir()}
    debian.run(clean, "apt-get", "purge", "-y", "-qq", "--autoremove", "ration")
    assert files_below(tree, THEIR_OWN) == before
