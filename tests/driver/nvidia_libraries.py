"""NVIDIA's own user-mode libraries, for the tests that compare with them.

They come from Debian's section non-free and from PyPI, are unpacked into the cache, and are never installed. The cache is
$RATION_CACHE/nvidia, else ~/.cache/ration/nvidia (lab/README.md); it may be deleted. What is cached is used without the
network. Run as a program, it fetches what is missing and prints the folders; --refresh asks Debian for newer versions.

    lib = nvidia_libraries.driver("bookworm").library("libcuda.so.1")
    header = nvidia_libraries.wheel("nvidia-nvml-dev-cu12", "12.9.79") / "nvidia/nvml_dev/include/nvml.h"
"""
import argparse
import dataclasses
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
USUAL = ["libcuda1", "libnvidia-ml1", "libnvcuvid1", "libnvidia-encode1", "nvidia-smi"]

# The drivers that Debian has: the name here, the release, the packages. Debian 12 had 470.256.02 and 535.309.01 (its
# security archive), Debian 13 had 550.163.01, on 2026-11-23.
DRIVERS = {
    "bookworm-470": ("bookworm", [f"libnvidia-tesla-470-{part}" for part in ("cuda1", "ml1", "nvcuvid1", "encode1")] +
                     ["nvidia-tesla-470-smi"]),
    "bookworm": ("bookworm", USUAL),
    "trixie": ("trixie", USUAL),
}


class Unreachable(Exception):
    """Nothing is cached, and the archive did not answer or does not have it. The text is the reason for a person."""


@dataclasses.dataclass(frozen=True)
class Driver:
    """An unpacked driver: lib/ has the libraries under their sonames, bin/ has nvidia-smi."""
    name: str
    folder: pathlib.Path

    @property
    def version(self):
        return next(self.folder.glob("lib/libcuda.so.*.*")).name.removeprefix("libcuda.so.")

    def library(self, soname):
        return self.folder / "lib" / soname

    @property
    def smi(self):
        return self.folder / "bin" / "nvidia-smi"
FRAMEWORKS = {
    # PyTorch brings its own runtime; CuPy calls the driver through one that is installed beside it.
    "torch": ["torch==2.5.1", "numpy==1.26.4"], "cupy": ["cupy-cuda12x==13.6.0", "numpy==1.26.4"],
}


def cache():
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("RATION_CACHE") or pathlib.Path(home) / "ration") / "nvidia"


def command(*args, **kwargs):
    """Standard output; Unreachable with what the command said if it fails."""
    result = subprocess.run([str(arg) for arg in args], capture_output=True, text=True, **kwargs)
    if result.returncode != 0:
        said = " ".join((result.stderr or result.stdout).split())
        raise Unreachable(f"{args[0]} failed: {said[-500:]}")
    return result.stdout


def into_cache(name, fill):
    """The folder called `name` in the cache; fill(folder) makes it if it is not there. Other processes wait."""
    target = cache() / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(cache() / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as scratch:
                folder = pathlib.Path(scratch) / "folder"
                folder.mkdir()
                fill(folder)
                folder.rename(target)
    return target


def debian_sources(release):
    """Sources of this machine's Debian mirrors, for the section non-free of a release. apt itself reads its sources."""
    os_release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', pathlib.Path("/etc/os-release").read_text(), re.M))
    codename = os_release.get("VERSION_CODENAME", "")
    uris = command("apt-get", "update", "--print-uris")
    suites = re.findall(rf"^'([^']+)/dists/{codename}(-updates|-security)?/InRelease'", uris, re.M)
    if os_release.get("ID") != "debian" or not suites:
        raise Unreachable("apt of this machine has no Debian mirror in its sources")
    return "\n".join(f"Types: deb\nURIs: {mirror}\nSuites: {release}{part}\nComponents: non-free\nSigned-By: {KEYRING}\n"
                     for mirror, part in sorted(set(suites)))


def apt_configuration(folder, release):
    """An apt of our own in `folder`, with the machine's ways to the network: neither its lists nor its sources change."""
    sources = debian_sources(release)
    for name in ("etc/sources.list.d", "etc/apt.conf.d", "etc/preferences.d", "lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "etc/sources.list.d/non-free.sources").write_text(sources)
    acquire = [line for line in command("apt-config", "dump", "Acquire").splitlines() if "IndexTargets" not in line]
    (folder / "apt.conf").write_text("\n".join([
        *acquire, 'Acquire::Languages "none";', 'APT::Sandbox::User "root";', f'Dir::Etc "{folder}/etc";',
        'Dir::Etc::netrc "/etc/apt/auth.conf";', 'Dir::Etc::netrcparts "/etc/apt/auth.conf.d";',
        f'Dir::State "{folder}";', f'Dir::State::status "{folder}/status";', f'Dir::Cache "{folder}/cache";', ""]))
    return dict(os.environ, APT_CONFIG=str(folder / "apt.conf"))


def fetch_driver(folder, release, packages):
    """Downloads the packages (apt checks their signatures) and puts libraries and nvidia-smi into folder/{lib,bin}."""
    if not shutil.which("apt-get"):
        raise Unreachable("this machine has no apt-get")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        env = apt_configuration(scratch / "apt", release)
        command("apt-get", "update", "-qq", env=env)
        command("apt-get", "download", "-qq", *packages, env=env, cwd=scratch)
        for package in scratch.glob("*.deb"):
            command("dpkg-deb", "-x", package, scratch / "unpacked")
        (folder / "lib").mkdir()
        (folder / "bin").mkdir()
        # The versioned files lie in a folder of each branch; what leads to them are alternatives, which a package
        # makes when it is installed.
        for file in (scratch / "unpacked").rglob("*"):
            if file.is_file() and not file.is_symlink():
                if re.search(r"\.so\.\d+\.\d+", file.name):
                    shutil.move(file, folder / "lib" / file.name)
                elif file.name == "nvidia-smi" and os.access(file, os.X_OK):
                    shutil.move(file, folder / "bin" / file.name)
    command("/sbin/ldconfig", "-n", folder / "lib")
    absent = [name for name in ("lib/libcuda.so.1", "lib/libnvidia-ml.so.1", "bin/nvidia-smi")
              if not (folder / name).exists()]
    if absent:
        raise Unreachable(f"the packages {' '.join(packages)} of {release} have no {', '.join(absent)}")


def driver(name):
    """The driver of that name in DRIVERS. Unreachable if it neither is cached nor can be fetched."""
    release, packages = DRIVERS[name]
    return Driver(name, into_cache(name, lambda folder: fetch_driver(folder, release, packages)))


def wheel(package, version):
    """The folder with the unpacked wheel of a package of PyPI."""
    def fetch(folder):
        with tempfile.TemporaryDirectory() as scratch:
            command("/usr/bin/python3", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                    "--disable-pip-version-check", "--dest", scratch, f"{package}=={version}")
            for file in pathlib.Path(scratch).glob("*.whl"):
                with zipfile.ZipFile(file) as archive:
                    archive.extractall(folder)
    return into_cache(f"{package}-{version}", fetch)


def site(name, packages):
    """A folder for PYTHONPATH with the packages of PyPI and all that they need."""
    def fetch(folder):
        command("/usr/bin/python3", "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--no-compile",
                "--disable-pip-version-check", "--root-user-action=ignore", "--target", folder, *packages)
    return into_cache(f"python-{name}", fetch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refresh", action="store_true", help="fetch the drivers again")
    args = parser.parse_args()
    status = 0
    for name in DRIVERS:
        if args.refresh:
            shutil.rmtree(cache() / name, ignore_errors=True)
        try:
            found = driver(name)
            print(f"{name}: driver {found.version} in {found.folder}")
        except Unreachable as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
