"""The disks of the virtual machine: Debian 12 from the machine's own package sources, kept in the cache, and the checkout
with its build and the lab's programs, made for each machine."""

import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lab"))
from rationlab import binaries, layout, paths    # noqa: E402

PERSON = "person"    # the ordinary user
PRODUCT = "/product"    # where guest.py mounts the second disk
PACKAGES = (
    "systemd", "systemd-sysv", "libpam-systemd", "dbus", "udev", "procps", "uidmap", "util-linux", "mount",
    # what a lab needs, as lab/install-packages has it
    "busybox-static", "ca-certificates", "containernetworking-plugins", "iproute2", "iptables", "kmod", "meson", "openssl",
    "python3", "python3-yaml", "python3-pytest", "runc",
    # libraries of our programs
    "libcurl4", "libjson-c5", "libmicrohttpd12", "libnghttp2-14", "libprotobuf-c1", "libyaml-0-2",
)
KERNEL = "linux-image-cloud-amd64"
LEFT_OUT = [f"path-exclude=/usr/share/{folder}/*" for folder in ("doc", "info", "locale", "man")]
# The settings by which apt of this machine reaches its sources hold for the new Debian, too.
REACHING = ("Acquire::http::", "Acquire::https::", "Acquire::Check-Date ", "Acquire::Check-Valid-Until ")
DISK = "16G"    # sparse
BOOT_MODULES = ("virtio_pci", "virtio_blk")    # Debian's cloud kernel has ext4 built in

_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
while read -r module; do /bin/busybox insmod "/modules/$module"; done < /modules/order
while [ ! -b /dev/vda ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 /dev/vda /root || exec /bin/busybox poweroff -f
/bin/busybox cp -r /own/. /root/
/bin/busybox umount /proc
exec /bin/busybox switch_root /root /sbin/init
"""
_SERVICE = """[Unit]
Description=Runs the commands that arrive at the serial port
[Service]
ExecStart=/usr/bin/python3 -u /usr/local/lib/guest.py
# Commands end with the machine, not with this service; and their cgroups are not delegated to anybody.
KillMode=process
OOMScoreAdjust=-900
[Install]
WantedBy=multi-user.target
"""
_MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "fstrim.timer", "getty@tty1.service",
           "serial-getty@ttyS0.service", "systemd-networkd.service", "systemd-pstore.service")


def run(*argv, **more):
    """A command's standard output; an error has what it said."""
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))} exited {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def folder():
    """Where the images are kept. They may be deleted while no machine runs."""
    made = paths.cache_root() / "vm"
    made.mkdir(parents=True, exist_ok=True)
    return made


def scratch(what):
    """A folder of this process on the same disk. Those of processes that were killed are removed."""
    for left in folder().glob("for-*"):
        if not pathlib.Path("/proc", left.name.split("-")[1]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return pathlib.Path(tempfile.mkdtemp(dir=folder(), prefix=f"for-{os.getpid()}-{what}-"))


def _sources():
    """The machine's own lines for Debian 12, as apt has them in force."""
    rows = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages",
               "Origin: Debian").splitlines()
    lines = sorted({f"deb {row}" for row in rows if row.split()[1].startswith("bookworm")})
    if not lines:
        raise RuntimeError("apt knows no Debian 12 (bookworm): apt-get update")
    return lines


def _fetch_kernel(work):
    """The kernel's files without its maintainer scripts. The package depends on one that has the version in its name."""
    depends = re.search(r"^Depends: (linux-image-\S+)", run("apt-cache", "show", "--no-all-versions", KERNEL), re.MULTILINE)
    fetched = work / "kernel"
    fetched.mkdir()
    run("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", depends[1], cwd=fetched)
    package, = fetched.glob("*.deb")
    run("dpkg-deb", "-x", package, work / "boot")
    package.unlink()


def _make_debian(into):
    reaching = [line for line in run("apt-config", "dump").splitlines() if line.startswith(REACHING)]
    work = scratch("debian")
    try:
        _fetch_kernel(work)
        tree = work / "tree"
        run("mmdebstrap", "--quiet", "--mode=root", "--variant=apt", f"--include={','.join(PACKAGES)}",
            *(f"--aptopt={o}" for o in reaching), *(f"--dpkgopt={o}" for o in LEFT_OUT),
            f'--customize-hook=chroot "$1" useradd --create-home --shell /bin/bash {PERSON}', "bookworm", tree, *_sources())
        modules, = (work / "boot/lib/modules").iterdir()
        shutil.move(modules, tree / "usr/lib/modules" / modules.name)
        run("depmod", "-b", tree, modules.name)
        shutil.rmtree(tree / "var/cache/apt")
        made = work / "made"
        made.mkdir()
        shutil.move(next((work / "boot/boot").glob("vmlinuz-*")), made / "vmlinuz")
        _make_boot_modules(tree, modules.name, made / "modules")
        make_disk(tree, made / "debian.ext4")
        os.rename(made, into)
    finally:
        shutil.rmtree(work)


def _make_boot_modules(tree, version, into):
    """What the kernel needs before it has its root, and `order`: what to load one after the other."""
    into.mkdir()
    order = []
    for name in BOOT_MODULES:
        shown = run("modprobe", "-d", tree, "-S", version, "--show-depends", name)
        for path in re.findall(r"^insmod (\S+\.ko)", shown, re.MULTILINE):
            if pathlib.Path(path).name not in order:
                order.append(pathlib.Path(path).name)
                shutil.copy(path, into)
    (into / "order").write_text("".join(f"{name}\n" for name in order))


def make_disk(tree, path):
    """An ext4 with the files of a folder, without a mount. It has no journal: it is never used after a crash."""
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-d", tree, path, DISK)


def debian():
    """The folder with `debian.ext4`, `vmlinuz` and `modules`; made if it is not there."""
    key = hashlib.sha256(repr((PACKAGES, KERNEL, LEFT_OUT, BOOT_MODULES, DISK, 1)).encode()).hexdigest()[:16]
    made = folder() / key
    if not made.is_dir():
        _make_debian(made)
    return made


def make_initrd(made, path):
    """Mounts the disk, puts the service of guest.py there, and hands over to systemd."""
    with tempfile.TemporaryDirectory() as made_in:
        tree = pathlib.Path(made_in)
        (tree / "bin").mkdir()
        shutil.copy("/bin/busybox", tree / "bin/busybox")
        shutil.copytree(made / "modules", tree / "modules")
        own = tree / "own"
        for name in ("usr/local/lib", "etc/systemd/system/multi-user.target.wants", "etc/tmpfiles.d", "etc/systemd/system.conf.d"):
            (own / name).mkdir(parents=True)
        shutil.copy(pathlib.Path(__file__).with_name("guest.py"), own / "usr/local/lib/guest.py")
        (own / "etc/systemd/system/guest.service").write_text(_SERVICE)
        (own / "etc/systemd/system/multi-user.target.wants/guest.service").symlink_to("../guest.service")
        for name in _MASKED:
            (own / "etc/systemd/system" / name).symlink_to("/dev/null")
        (own / "etc/tmpfiles.d/tmp.conf").write_text("")    # else /tmp is emptied at boot, and the checkout may lie there
        (own / "etc/systemd/system.conf.d/slow.conf").write_text("[Manager]\nDefaultTimeoutStartSec=15min\nDefaultDeviceTimeoutSec=15min\n")
        (own / "etc/hostname").write_text("machine\n")
        (own / "etc/hosts").write_text("127.0.0.1 localhost machine\n::1 localhost\n")
        (tree / "init").write_text(_INIT)
        (tree / "init").chmod(0o755)
        names = "\n".join(str(p.relative_to(tree)) for p in sorted(tree.rglob("*")))
        packed = subprocess.run(["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"], cwd=tree, input=names.encode(), check=True,
                                stdout=subprocess.PIPE).stdout
        path.write_bytes(gzip.compress(packed, 1))


def _link(source, target):
    try:
        os.link(source, target)
    except FileNotFoundError:    # an image that nobody uses, removed meanwhile
        pass
    except OSError:    # another file system
        shutil.copy2(source, target)


def make_product_disk(path):
    """The checkout, its build, and the lab's programs and images, each where it lies on this machine: the build knows it
    by its path. `mounts` lists these places for guest.py."""
    build, cache = paths.product_build(), paths.cache_root()
    tree, mounts = scratch("product"), []
    try:
        def add(source, copy, *left_out):
            shutil.copytree(source, tree / str(source).lstrip("/"), copy_function=copy, symlinks=True, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns(*left_out))
            (tree / str(source).lstrip("/")).chmod(0o755)    # for the ordinary user
            mounts.append(str(source))
        add(ROOT, shutil.copy2, ".git", "build", "build-*", "__pycache__")
        add(build, shutil.copy2, "*.o", "*.a", "pycache", "pytest-cache", "meson-logs")
        (tree / str(build).lstrip("/") / "meson-logs").mkdir()    # `meson install` writes there
        for place in map(pathlib.Path, binaries.path(layout.KUBERNETES)):
            if place.is_dir():
                add(place, _link)
        (cache / "images").mkdir(exist_ok=True)
        add(cache / "images", _link, "lock")
        (tree / "mounts").write_text("".join(f"{m}\n" for m in mounts if not (ROOT in pathlib.Path(m).parents)))
        tree.chmod(0o755)
        make_disk(tree, path)
    finally:
        shutil.rmtree(tree)
