"""Builds the Kubernetes programs from pinned Go modules into the cache; a second time costs nothing."""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import preflight, procs, toolchain
from .errors import LabError
from .layout import KUBERNETES
from .paths import LAB_SOURCE, cache_root
from .progress import say, step

_STALE_TEMP = "building-"
_PACKAGE = re.compile(r"[\w.~/@+-]+")    # so `go build -v` names each
# A compiler that ends soon need not collect what it has dropped, as long as there is memory (runtime, GOGC and GOMEMLIMIT).
_COMPILER_MEMORY = {"GOGC": "off", "GOMEMLIMIT": "768MiB"}
_CURES = (
    (r"no space left on device", "make room on the disk, or set RATION_CACHE, GOCACHE, GOMODCACHE and TMPDIR to folders on a larger one"),
    (r"dial tcp|no such host|proxyconnect|i/o timeout|TLS handshake|connection re(fused|set)|is unreachable|GOPROXY=off",
     "Go modules cannot be fetched: see to the network, or set GOPROXY to a mirror that this machine reaches"),
    (r"signal: killed", "a compiler was killed, most likely for want of memory: 4 GiB have to be free"))


@dataclass(frozen=True)
class Module:
    """One folder under lab/go and the programs built from it."""
    name: str
    packages: tuple      # (program, Go package)
    c_programs: tuple = ()    # (program, Go module, folder of its C sources in the module)
    tags: str = ""
    ldflags: str = ""
    expected: str = ""   # how long it took on 2 cores, for the person who waits


def _kube_ldflags(version):
    variable = "k8s.io/component-base/version"
    minor = version.split(".")[1]
    return (f"-X {variable}.gitVersion=v{version} -X {variable}.gitMajor=1 -X {variable}.gitMinor={minor}")


def modules(kubernetes):
    kube = "k8s.io/kubernetes/cmd/"
    containerd = "github.com/containerd/containerd/v2/"
    return (
        Module("etcd", (("etcd", "go.etcd.io/etcd/server/v3"),), expected="40 s"),
        Module("runtime", tuple((p, f"{containerd}cmd/{p}") for p in ("containerd", "containerd-shim-runc-v2", "ctr")),
               tags="no_btrfs no_zfs no_aufs no_devmapper no_tracing",
               ldflags=f"-X {containerd}version.Version=v{_pinned('runtime', 'github.com/containerd/containerd/v2')}",
               expected="40 s"),
        Module("kube", tuple((p, kube + p) for p in ("kube-apiserver", "kube-controller-manager", "kube-scheduler",
                                                     "kubelet", "kube-proxy", "kubectl")),
               ldflags=_kube_ldflags(kubernetes), expected="3 minutes"),
        Module("helm", (("helm", "helm.sh/helm/v3/cmd/helm"),),
               ldflags=f"-X helm.sh/helm/v3/internal/version.version=v{_pinned('helm', 'helm.sh/helm/v3')}",
               expected="10 s"),
    )


# Beside modules(), for nodes with another container runtime than containerd. Without cgo, so without seccomp profiles.
# copyimg, of its tests, puts an archive into its storage.
_CRI_O = "github.com/cri-o/cri-o"
OF_RUNTIME = {"cri-o": Module(
    "crio", (("crio", f"{_CRI_O}/cmd/crio"), ("copyimg", f"{_CRI_O}/test/copyimg")), (("pinns", _CRI_O, "pinns/src"),),
    tags="containers_image_openpgp containers_image_ostree_stub exclude_graphdriver_btrfs exclude_graphdriver_devicemapper",
    expected="3 to 4 minutes")}


def _needed(kubernetes, runtime):
    return (*modules(kubernetes), *([OF_RUNTIME[runtime]] if runtime in OF_RUNTIME else []))


def _pinned(module, path):
    """The version of a Go module that our go.mod names."""
    text = (LAB_SOURCE / "go" / module / "go.mod").read_text()
    match = re.search(rf"^\s*(?:require )?{re.escape(path)} v(\S+)", text, re.MULTILINE)
    if match is None:
        raise LabError(f"lab/go/{module}/go.mod does not require {path}")
    return match.group(1)


def _key(module, kubernetes):
    source = LAB_SOURCE / "go" / module.name
    digest = hashlib.sha256()
    for text in ((source / "go.mod").read_bytes(), (source / "go.sum").read_bytes(), repr((module.packages, module.tags, module.ldflags, *module.c_programs)).encode()):
        digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()[:16]


def _folder(module, kubernetes):
    return cache_root() / "lab" / _key(module, kubernetes)


def path(kubernetes, runtime=None):
    """Folders to put on PATH, each holding the programs of one module."""
    return [str(_folder(module, kubernetes)) for module in _needed(kubernetes, runtime)]


def program(name, kubernetes):
    """The built program's path; LabError if it has not been built."""
    for module in (*modules(kubernetes), *OF_RUNTIME.values()):
        if name in (program for program, *_ in (*module.packages, *module.c_programs)):
            found = _folder(module, kubernetes) / name
            if found.exists():
                return str(found)
    raise LabError(f"{name} is not built yet; lab/lab build does it")


def is_built(kubernetes, runtime=None):
    return all(_folder(module, kubernetes).is_dir() for module in _needed(kubernetes, runtime))


@contextlib.contextmanager
def _lock():
    """One builder at a time; the kernel drops the lock however its holder ends."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with open(cache_root() / "lab.lock", "w", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another lab is building; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build(kubernetes=KUBERNETES, runtime=None):
    """Makes sure that every program is in the cache, that of this container runtime among them."""
    if is_built(kubernetes, runtime):
        return
    preflight.check_disk(cache_root(), preflight.COLD_BYTES, "building Kubernetes for the first time")
    with _lock():
        for stale in (cache_root() / "lab").glob(_STALE_TEMP + "*"):    # a builder was killed
            shutil.rmtree(stale)
        for module in _needed(kubernetes, runtime):
            if not _folder(module, kubernetes).is_dir():
                _build_module(module, kubernetes)


def _build_module(module, kubernetes):
    target = _folder(module, kubernetes)
    target.parent.mkdir(parents=True, exist_ok=True)
    compiled = []
    say(f"building {module.name} ({', '.join(name for name, _ in module.packages)}): usually {module.expected} on 2 cores")
    with (step(f"built {module.name}", module.expected, lambda: f"{len(compiled)} packages"),
          tempfile.TemporaryDirectory(dir=target.parent, prefix=_STALE_TEMP) as scratch):
        source, out = Path(scratch) / "source", Path(scratch) / "out"
        shutil.copytree(LAB_SOURCE / "go" / module.name, source)
        out.mkdir()
        go, environment = toolchain.find_go(preflight.go_requirement(source / "go.mod"), cache_root())
        environment = dict(os.environ, CGO_ENABLED="0", GOTOOLCHAIN="local", GOFLAGS="-mod=readonly -buildvcs=false",
                           GOWORK="off", **_COMPILER_MEMORY, **environment)
        if module.name == "kube" and kubernetes != KUBERNETES:
            _other_kubernetes(go, environment, source, module, kubernetes)
        _compile(go, environment, source, module, out, compiled)
        for program_name, path, sources in module.c_programs:
            _compile_c(go, environment, source, path, sources, out / program_name)
        os.rename(out, target)


def _default_name(package):
    """What `go build` calls the program of a package: the last part of its path that is not a major version."""
    return next(part for part in reversed(package.split("/")) if not re.fullmatch("v[0-9]+", part))


def _compile(go, environment, source, module, out, compiled):
    """All programs of a module in one call: while one is linked, which takes one core, others are compiled. Adds the name of
    each package to `compiled` when the compiler has it. The linker drops what a debugger needs, so the compiler makes none.
    Without -trimpath: with it Go's cache knows a package by the version that is required, not by that which replaces it
    (cmd/go, buildActionID), and each module's programs compile it again."""
    packages = [package for _, package in module.packages]
    command = ["nice", go, "build", "-v", "-gcflags=all=-dwarf=false", "-tags", module.tags,
               "-ldflags", f"-s -w {module.ldflags}".strip(), "-o", f"{out}/", *packages]
    errors = []
    with subprocess.Popen(command, cwd=source, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            for line in process.stderr:
                (compiled if _PACKAGE.fullmatch(line.strip()) else errors).append(line)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if process.returncode != 0:
        raise LabError(f"go build of {', '.join(packages)} failed: {_explained(''.join(errors).strip()[-1500:])}")
    for name, package in module.packages:
        os.rename(out / _default_name(package), out / name)
        say(f"  {name}: {(out / name).stat().st_size >> 20} MiB")


def _explained(errors):
    """What the Go command says, and what a person can do about it where it is the machine's."""
    for words, cure in _CURES:
        if re.search(words, errors):
            return f"{errors}\n{cure}; the same command then goes on from here"
    return errors


def _compile_c(go, environment, source, path, sources, out):
    """A program in C that a Go module brings along."""
    folder = procs.run([go, "list", "-m", "-f", "{{.Dir}}", path], path, env=environment, cwd=source).strip()
    procs.run(["cc", "-std=c99", "-O2", "-o", out, *sorted(Path(folder, sources).glob("*.c"))], f"building {out.name}")


def _other_kubernetes(go, environment, source, module, kubernetes):
    """Re-writes the copied module for another release: checked by Go's checksum database, not by our go.sum."""
    environment = dict(environment, GOFLAGS="-mod=mod -buildvcs=false")
    listing = subprocess.run([go, "mod", "download", "-json", f"k8s.io/kubernetes@v{kubernetes}"], cwd=source,
                             env=environment, capture_output=True, text=True, check=False)
    match = re.search(r'"GoMod": "(.*)"', listing.stdout)
    if listing.returncode != 0 or match is None:
        raise LabError(f"Kubernetes {kubernetes} cannot be fetched: {_explained((listing.stderr or listing.stdout).strip()[-400:])}")
    upstream = Path(match.group(1)).read_text()
    staging = sorted(set(re.findall(r"^\s*(?:replace )?(k8s\.io/\S+) => \./staging/", upstream, re.MULTILINE)))
    if not staging:
        raise LabError(f"the go.mod of Kubernetes {kubernetes} names no staging modules")
    library = "v0." + kubernetes.split(".", 1)[1]
    own_go = re.search(r"^go .*$", (source / "go.mod").read_text(), re.MULTILINE).group(0)
    (source / "go.mod").write_text(f"module ration.dev/lab/kube\n\n{own_go}\n\nreplace (\n"
                                   + "".join(f"\t{name} => {name} {library}\n" for name in staging) + ")\n")
    (source / "go.sum").write_text("")
    got = subprocess.run([go, "get", "-tool", *(f"{package}@v{kubernetes}" for _, package in module.packages)],
                         cwd=source, env=environment, capture_output=True, text=True, check=False)
    if got.returncode != 0:
        raise LabError(f"Kubernetes {kubernetes} cannot be resolved: {got.stderr.strip()[-600:]}")
