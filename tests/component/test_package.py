"""deploy/package: what a release consists of, and that it is the same bytes wherever and whenever it is made."""
import fcntl
import gzip
import hashlib
import io
import itertools
import json
import os
import pathlib
import re
import runpy
import shlex
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile

import pytest
import yaml

from agent_fixture import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = ("ration-agent", "ration-scheduler")
NATIVE = "linux/amd64" if os.uname().machine == "x86_64" else "linux/arm64"
PLATFORMS = ("linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64")
ARCHIVES = ("ration", "kubectl-inspect_cgpu")
ELF_MACHINE = {"amd64": 62, "arm64": 183}    # EM_X86_64, EM_AARCH64
pytestmark = pytest.mark.plain    # a build with sanitizers is not released


def package(out, *options):
    done = subprocess.run([ROOT / "deploy/package", "--output", out, *options], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return {path.name: path for path in out.iterdir()}


def made_once(tmp_path_factory, name, make):
    """For all workers of pytest: {file: its path}."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    with open(base / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / name).exists():
            make(base / f"{name}.part")
            (base / f"{name}.part").rename(base / name)
    return {path.name: path for path in (base / name).iterdir()}


@pytest.fixture(name="made", scope="module")
def made_fixture(tmp_path_factory):
    """The release for this machine's own platform."""
    return made_once(tmp_path_factory, "release",
                     lambda out: package(out, "--build", BUILD, "--platform", NATIVE, "--url", "https://example.com/r"))


@pytest.fixture(name="complete", scope="module")
def complete_fixture(tmp_path_factory):
    """The release for all platforms, built from the commit."""
    return made_once(tmp_path_factory, "complete", package)


# What Linux has and macOS has not, of what a command-line tool could use by accident.
ONLY_LINUX = re.compile(r"\b(CLOCK_BOOTTIME|epoll_\w+|inotify_\w+|signalfd|timerfd_\w+|eventfd|memfd_create|accept4|s?prctl|O_TMPFILE|O_PATH|"
                        r"AT_EMPTY_PATH|renameat2|statx|setns|unshare|gettid|SYS_[a-z]\w+|syscall|umount2|pidfd_\w+|MSG_CMSG_CLOEXEC|SO_PEERCRED|"
                        r"fallocate|copy_file_range|close_range|clone3)\b|#include <(linux/|sys/(prctl|epoll|inotify|sysinfo|signalfd)\.h)")


def test_the_files_of_the_macos_programs_use_nothing_that_only_linux_has():
    """The compiler for macOS is too large to be fetched for each ./check; the full form builds with it."""
    cross = runpy.run_path(str(ROOT / "deploy/cross/build-macos"))
    files = {path for part in cross["project_sources"](BUILD)[0].values() for path in part}
    assert ROOT / "src/base/metrics.c" in files
    wrong = []
    for path in files:
        text = re.sub(r"(?ms)^#ifdef __linux__.*?^#(?:else|endif)|^#ifndef __linux__.*?^#else.*?^#endif", "", path.read_text())
        text = re.sub(r"(?s)/\*.*?\*/", "", text)
        wrong += [f"{path.relative_to(ROOT)}: {found[0]}" for found in ONLY_LINUX.finditer(text)]
    assert not wrong, wrong


@pytest.mark.long(60, group="a release")
def test_a_release_made_twice_is_the_same_bytes(made, tmp_path):
    again = package(tmp_path, "--build", BUILD, "--platform", NATIVE, "--url", "https://example.com/r")
    assert {name: path.read_bytes() for name, path in again.items()} == {n: p.read_bytes() for n, p in made.items()}


@pytest.mark.full    # builds everything for all platforms twice
def test_a_release_built_in_another_folder_is_the_same_bytes(complete, tmp_path):
    again = package(tmp_path)
    assert again["SHA256SUMS"].read_text() == complete["SHA256SUMS"].read_text()


@pytest.mark.long(5, group="a release")
def test_the_sums_are_those_of_the_files(made):
    lines = dict(reversed(line.split("  ")) for line in made["SHA256SUMS"].read_text().splitlines())
    assert set(lines) == set(made) - {"SHA256SUMS"}
    assert {re.sub(r"[-_]0\.1\.0", "", name) for name in lines} == {
        "ration.tar.gz", "ration-agent.oci.tar", "ration-scheduler.oci.tar", "inspect-cgpu.yaml", "ration.spdx.json",
        f"ration-{NATIVE.replace('/', '-')}.tar.gz", f"kubectl-inspect_cgpu-{NATIVE.replace('/', '-')}.tar.gz",
        f"ration_{NATIVE.split('/')[1]}.deb", "ack-ai-installer.tgz", "ack-co-scheduler.tgz"}
    assert lines == {name: hashlib.sha256(made[name].read_bytes()).hexdigest() for name in lines}


class Layout:
    """An OCI image layout, each blob checked against its name."""

    def __init__(self, path):
        with tarfile.open(path) as tar:
            files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
        assert json.loads(files.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
        self.index = json.loads(files.pop("index.json"))
        self.blobs = {name.removeprefix("blobs/sha256/"): data for name, data in files.items()}
        assert self.blobs == {hashlib.sha256(data).hexdigest(): data for data in self.blobs.values()}

    def blob(self, descriptor):
        data = self.blobs[descriptor["digest"].removeprefix("sha256:")]
        assert len(data) == descriptor["size"]
        return data

    def variants(self):
        """{architecture: (config, {path: contents}, {link: target})}"""
        top, = self.index["manifests"]
        found = {}
        for one in json.loads(self.blob(top))["manifests"]:
            manifest = json.loads(self.blob(one))
            config = json.loads(self.blob(manifest["config"]))
            layer, = manifest["layers"]
            plain = gzip.decompress(self.blob(layer))
            assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"]
            assert one["platform"] == {"os": config["os"], "architecture": config["architecture"]}
            with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
                members = tar.getmembers()
                found[config["architecture"]] = (
                    config["config"], {f"/{m.name}": tar.extractfile(m).read() for m in members if m.isfile()},
                    {f"/{m.name}": m.linkname for m in members if m.issym()})
        return found


def needs(data, folder):
    """Names of the libraries that an ELF file asks for, its dynamic linker among them."""
    (folder / "elf").write_bytes(data)
    said = subprocess.run(["readelf", "--wide", "--dynamic", "--program-headers", folder / "elf"], capture_output=True, text=True,
                          check=True).stdout
    return {pathlib.Path(a or b).name for a, b in re.findall(r"program interpreter: (\S+)\]|\(NEEDED\).*\[(\S+)\]", said)}


def check_image(release, name, architectures, folder):
    variants = Layout(release[f"{name}-0.1.0.oci.tar"]).variants()
    assert list(variants) == architectures
    for architecture, (config, files, _) in variants.items():
        assert config["Entrypoint"] == [f"/usr/bin/{name}"] and f"/usr/bin/{name}" in files
        shims = {path for path in files if path.startswith("/usr/lib/ration/")}
        assert shims == ({f"/usr/lib/ration/shim/{s}" for s in ("libcuda.so.1", "libnvidia-ml.so.1")}
                         if name == "ration-agent" else set())
        elf = {path: data for path, data in files.items() if data[:4] == b"\x7fELF"}
        assert {int.from_bytes(data[18:20], "little") for data in elf.values()} == {ELF_MACHINE[architecture]}
        names = {pathlib.Path(path).name for path in elf if path.startswith("/usr/lib")}
        asked = {path: needs(data, folder) for path, data in elf.items()}
        assert {"libc.so.6", "libcurl.so.4"} <= asked[f"/usr/bin/{name}"]
        assert not {path: wanted - names for path, wanted in asked.items() if wanted - names}


@pytest.mark.long(5, group="a release")
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_has_its_program_and_every_library_that_is_loaded(made, name, tmp_path):
    check_image(made, name, [NATIVE.split("/")[1]], tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_for_both_architectures_and_lacks_no_library_in_either(complete, name, tmp_path):
    check_image(complete, name, ["amd64", "arm64"], tmp_path)


def check_sbom(release, architectures):
    """Every library of every image is there with its sum, and belongs to a package with a version."""
    text = json.loads(release["ration-0.1.0.spdx.json"].read_text())
    assert text["spdxVersion"] == "SPDX-2.3" and text["dataLicense"] == "CC0-1.0"
    parts = {part["SPDXID"]: part for part in (*text["packages"], *text["files"])}
    relations = {(r["spdxElementId"], r["relationshipType"], r["relatedSpdxElement"]) for r in text["relationships"]}
    assert {end for one, _, other in relations for end in (one, other)} - {"SPDXRef-DOCUMENT"} == set(parts)
    in_packages = {other for one, kind, other in relations if kind == "CONTAINS" and one.startswith("SPDXRef-debian-")}
    for name in IMAGES:
        for architecture, (_, files, _) in Layout(release[f"{name}-0.1.0.oci.tar"]).variants().items():
            image, = (ref for ref, part in parts.items() if part.get("name") == f"{name} ({architecture})")
            held = {parts[other]["fileName"]: other for one, _, other in relations if one == image}
            assert {f".{path}" for path, data in files.items() if data[:4] == b"\x7fELF"} <= set(held)
            for path, ref in held.items():
                sums = {c["algorithm"]: c["checksumValue"] for c in parts[ref]["checksums"]}
                assert sums["SHA256"] == hashlib.sha256(files[path[1:]]).hexdigest()
                assert ref in in_packages or pathlib.Path(path).name in (name, "libcuda.so.1", "libnvidia-ml.so.1")
    locators = [ref["referenceLocator"] for part in text["packages"] for ref in part.get("externalRefs", [])]
    for architecture in architectures:
        for package_name in ("libc6", "libcurl4", "libc6-dev", "libjson-c-dev", "libyaml-dev"):
            assert [one for one in locators if re.fullmatch(
                rf"pkg:deb/debian/{package_name}@[^?]+\?arch={architecture}&distro=bookworm", one)], package_name


@pytest.mark.long(5, group="a release")
def test_the_sbom_names_the_package_of_every_library(made):
    check_sbom(made, [NATIVE.split("/")[1]])


@pytest.mark.full
def test_the_sbom_names_them_for_all_architectures(complete):
    check_sbom(complete, ["amd64", "arm64"])
    assert '"pkg:deb/debian/libyaml@' in complete["ration-0.1.0.spdx.json"].read_text()    # the source, for macOS


def programs_of(release, platform, folder):
    """{program: its path} from the archives."""
    found = {}
    for archive in ARCHIVES:
        with tarfile.open(release[f"{archive}-0.1.0-{platform.replace('/', '-')}.tar.gz"]) as tar:
            program, = (member.name for member in tar if member.name != "LICENSE")
            tar.extractall(folder)
        found[program] = folder / program
        assert found[program].stat().st_mode & 0o777 == 0o755
    assert set(found) == {"ration", "kubectl-inspect-cgpu"}
    return found


def check_static(path, architecture):
    data = path.read_bytes()
    assert data[:4] == b"\x7fELF" and int.from_bytes(data[18:20], "little") == ELF_MACHINE[architecture]
    said = subprocess.run(["readelf", "--wide", "--program-headers", path], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"^ +(INTERP|DYNAMIC) ", said, re.M)


@pytest.mark.long(5, group="a release")
def test_the_programs_of_an_archive_are_static_and_run(made, tmp_path):
    for name, path in programs_of(made, NATIVE, tmp_path).items():
        check_static(path, NATIVE.split("/")[1])
        assert subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout == f"{name} 0.1.0\n"


@pytest.mark.full
@pytest.mark.parametrize("architecture", ELF_MACHINE)
def test_the_programs_for_linux_are_static_on_both_architectures(complete, architecture, tmp_path):
    for path in programs_of(complete, f"linux/{architecture}", tmp_path).values():
        check_static(path, architecture)


def macho(path):
    """(processor, libraries, undefined symbols) of a 64-bit Mach-O program (mach-o/loader.h, nlist.h)."""
    data = path.read_bytes()
    magic, processor, _, kind, n_commands, _, _, _ = struct.unpack_from("<8I", data)
    assert (magic, kind) == (0xfeedfacf, 2)    # MH_MAGIC_64, MH_EXECUTE
    libraries, undefined, at = [], set(), 32
    for _ in range(n_commands):
        command, size = struct.unpack_from("<2I", data, at)
        if command in (0xc, 0x18 | 0x80000000):    # LC_LOAD_DYLIB, LC_LOAD_WEAK_DYLIB
            start = at + struct.unpack_from("<I", data, at + 8)[0]
            libraries.append(data[start:data.index(b"\0", start)].decode())
        if command == 2:    # LC_SYMTAB
            symbols, n, strings, _ = struct.unpack_from("<4I", data, at + 8)
            for i in range(n):
                name, entry_kind = struct.unpack_from("<IB", data, symbols + 16 * i)
                if entry_kind & 0xe == 0 and entry_kind & 1:    # N_UNDF, N_EXT
                    undefined.add(data[strings + name:data.index(b"\0", strings + name)].decode())
        at += size
    return processor, libraries, undefined


@pytest.fixture(name="system_symbols", scope="module")
def system_symbols_fixture(tmp_path_factory):
    """What macOS's system library has, by the stub in the compiler's package."""
    folder = tmp_path_factory.mktemp("zig")
    version = re.search(r'^ZIG = "(.*)"', (ROOT / "deploy/cross/build-macos").read_text(), re.M)[1]
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder,
                    f"ziglang=={version}"], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        text = wheel.read("ziglang/lib/libc/darwin/libSystem.tbd").decode()
    return set(re.findall(r"[\w$.]+", text))


@pytest.mark.full
@pytest.mark.parametrize("architecture, processor", [("amd64", 0x01000007), ("arm64", 0x0100000c)])    # CPU_TYPE_*
def test_the_programs_for_macos_need_its_system_library_only(complete, system_symbols, tmp_path, architecture, processor):
    for path in programs_of(complete, f"darwin/{architecture}", tmp_path).values():
        found, libraries, undefined = macho(path)
        assert found == processor and libraries == ["/usr/lib/libSystem.B.dylib"]
        assert "_execvp" in undefined and not undefined - system_symbols


def check_krew(release, platforms):
    manifest = yaml.safe_load(release["inspect-cgpu.yaml"].read_text())
    assert manifest["metadata"] == {"name": "inspect-cgpu"} and manifest["spec"]["version"] == "v0.1.0"
    described = {"/".join(one["selector"]["matchLabels"][key] for key in ("os", "arch")): one
                 for one in manifest["spec"]["platforms"]}
    assert set(described) == set(platforms)
    for one in described.values():
        packed = release[one["uri"].rpartition("/")[2]]
        assert one["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()
        with tarfile.open(packed) as tar:
            assert {f["from"] for f in one["files"]} == set(tar.getnames()) and one["bin"] in tar.getnames()


@pytest.mark.long(5, group="a release")
def test_krews_manifest_has_the_sums_of_the_archives(made):
    check_krew(made, [NATIVE])
    assert "uri: https://example.com/r/kubectl-inspect_cgpu-0.1.0-linux-" in made["inspect-cgpu.yaml"].read_text()


@pytest.mark.full
def test_krews_manifest_has_all_platforms(complete):
    check_krew(complete, PLATFORMS)


def test_the_containerfile_takes_the_same_files_as_the_recipes():
    text = (ROOT / "deploy/images/Containerfile").read_text()
    for name in IMAGES:
        recipe = json.loads((ROOT / f"deploy/images/{name}.json").read_text())
        stage = text[text.index(f" AS {name}\n"):].split("\nFROM ")[0]
        copied = set(re.findall(r"/out(/\S+)", stage))
        assert copied == {*recipe["programs"], *recipe.get("files", {})}, name
        assert f'ENTRYPOINT {json.dumps(recipe["entrypoint"])}' in stage


@pytest.mark.long(5, group="a release")
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


@pytest.mark.long(5, group="a release")
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
