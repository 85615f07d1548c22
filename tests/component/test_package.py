"""deploy/package: what a release consists of, and that it is the same bytes wherever and whenever it is made."""
import fcntl
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tarfile

import pytest

from agent_fixture import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = ("ration-agent", "ration-scheduler")
of_the_release = pytest.mark.plain    # a build with sanitizers is not released


def package(out, *options):
    done = subprocess.run([ROOT / "deploy/package", "--output", out, *options], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return {path.name: path for path in out.iterdir()}


@pytest.fixture(name="made", scope="module")
def made_fixture(tmp_path_factory):
    """Made once for all workers of pytest."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    with open(base / "release.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / "release").exists():
            package(base / "release.part", "--build", BUILD)
            (base / "release.part").rename(base / "release")
    return {path.name: path for path in (base / "release").iterdir()}


@pytest.mark.long(20)
@of_the_release
def test_a_release_made_twice_is_the_same_bytes(made, tmp_path):
    again = package(tmp_path, "--build", BUILD)
    assert {name: path.read_bytes() for name, path in again.items()} == {n: p.read_bytes() for n, p in made.items()}


@pytest.mark.full    # builds everything twice
def test_a_release_built_in_another_folder_is_the_same_bytes(tmp_path):
    first = package(tmp_path / "first", "--only", "images", "--only", "deb")
    second = package(tmp_path / "second", "--only", "images", "--only", "deb")
    assert first["SHA256SUMS"].read_text() == second["SHA256SUMS"].read_text()


@of_the_release
def test_the_sums_are_those_of_the_files(made):
    lines = dict(reversed(line.split("  ")) for line in made["SHA256SUMS"].read_text().splitlines())
    assert set(lines) == set(made) - {"SHA256SUMS"} and len(lines) == 6
    assert lines == {name: hashlib.sha256(made[name].read_bytes()).hexdigest() for name in lines}


@of_the_release
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_has_its_program_and_what_that_loads(made, name):
    with tarfile.open(made[f"{name}-0.1.0.tar"]) as image:
        manifest = json.load(image.extractfile("manifest.json"))[0]
        config = json.load(image.extractfile(manifest["Config"]))["config"]
        with tarfile.open(fileobj=image.extractfile(manifest["Layers"][0])) as layer:
            files = {"/" + member.name for member in layer if member.isfile()}
    assert manifest["RepoTags"] == [f"ration/{name}:0.1.0"] and config["Entrypoint"] == [f"/usr/bin/{name}"]
    assert f"/usr/bin/{name}" in files
    assert [f for f in files if "/libcurl.so.4" in f] and [f for f in files if "/libc.so.6" in f]
    shims = {f for f in files if f.startswith("/usr/lib/ration/shim/")}
    assert {pathlib.Path(f).name for f in shims} == (
        {"libcuda.so.1", "libnvidia-ml.so.1"} if name == "ration-agent" else set())


def test_the_containerfile_takes_the_same_files_as_the_recipes():
    text = (ROOT / "deploy/images/Containerfile").read_text()
    for name in IMAGES:
        recipe = json.loads((ROOT / f"deploy/images/{name}.json").read_text())
        stage = text[text.index(f" AS {name}\n"):].split("\nFROM ")[0]
        copied = set(re.findall(r"/out(/\S+)", stage))
        assert copied == {*recipe["programs"], *recipe.get("files", {})}, name
        assert f'ENTRYPOINT {json.dumps(recipe["entrypoint"])}' in stage


@of_the_release
def test_the_debian_package_installs_programs_manuals_and_completions(made, tmp_path):
    deb, = (path for name, path in made.items() if name.endswith(".deb"))
    subprocess.run(["dpkg-deb", "-x", deb, tmp_path], check=True)
    control = subprocess.run(["dpkg-deb", "-f", deb], capture_output=True, text=True, check=True).stdout
    assert "Version: 0.1.0\n" in control and re.search(r"^Depends: libc6 .*\blibcurl4 ", control, re.M)
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"ration", "ration-agent", "ration-scheduler", "ration-run", "kubectl-inspect-cgpu", "ration.1",
            "ration-agent.8", "ration.fish", "_ration"} <= names
    ration, = (path for path in tmp_path.rglob("bin/ration"))
    assert subprocess.run([ration, "--version"], capture_output=True, text=True, check=True).stdout == "ration 0.1.0\n"


@of_the_release
def test_the_source_has_the_commits_files_and_nothing_else(made):
    with tarfile.open(made["ration-0.1.0.tar.gz"]) as tar:
        files = {member.name for member in tar if not member.isdir()}
    listed = subprocess.run(["git", "-C", ROOT, "ls-tree", "-r", "--name-only", "HEAD"], capture_output=True, text=True,
                            check=True).stdout.split()
    assert files == {f"ration-0.1.0/{name}" for name in listed}


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "theirs").write_text("x")
    done = subprocess.run([ROOT / "deploy/package", "--output", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "is not empty" in done.stderr


needs_cross_compiler = pytest.mark.skipif(not shutil.which("aarch64-linux-gnu-gcc"),
                                          reason="gcc-aarch64-linux-gnu is not installed")


@needs_cross_compiler
@pytest.mark.skipif(not pathlib.Path("/usr/aarch64-linux-gnu/include/stdio.h").exists(),
                    reason="libc6-dev-arm64-cross is not installed")
@pytest.mark.full    # with its packages
def test_the_shim_compiles_for_arm64_too(tmp_path):
    """With Debian's cross compiler and the C library that it recommends; the shim needs nothing else."""
    commands = [entry for entry in json.loads((BUILD / "compile_commands.json").read_text())
                if re.search(r"src/shim/lib[\w-]+\.so\.1\.p/", entry["output"])]
    assert len(commands) > 20
    for entry in commands:
        words = shlex.split(entry["command"].replace("-fcf-protection=full", "-mbranch-protection=standard"))
        out = tmp_path / entry["output"].replace("/", "_")
        words[words.index("-o") + 1] = str(out)
        # The compiler is all words before the first option: "gcc", or "ccache gcc".
        options = list(itertools.dropwhile(lambda word: not word.startswith("-"), words))
        subprocess.run(["aarch64-linux-gnu-gcc", *options], cwd=entry["directory"], check=True)
        assert out.stat().st_size


@needs_cross_compiler
@pytest.mark.full    # fetches Debian's libraries for arm64
def test_all_that_is_installed_is_built_for_arm64_too(tmp_path):
    done = subprocess.run([ROOT / "deploy/cross/build-arm64", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    subprocess.run(["meson", "install", "-C", tmp_path / "build", "--no-rebuild", "--quiet"], check=True,
                   env=dict(os.environ, DESTDIR=str(tmp_path / "out")))
    elf = [data for path in (tmp_path / "out").rglob("*") if path.is_file() and not path.is_symlink()
           and (data := path.read_bytes()[:20])[:4] == b"\x7fELF"]
    assert len(elf) >= 10 and {data[18:20] for data in elf} == {b"\xb7\x00"}    # EM_AARCH64
