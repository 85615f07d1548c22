"""A Debian 12 as nobody has touched it, made of the machine's own package sources, and buildah on it: no daemon, no registry,
and nothing of the machine's own containers."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

BASE = "docker.io/library/debian:bookworm-slim"    # as the Containerfile names it
# What the machine says of how it reaches its sources must hold in containers, too: the sources are the same.
REACHING = ("Acquire::http::", "Acquire::https::", "Acquire::Check-Date ", "Acquire::Check-Valid-Until ")
SLIM = [f"path-exclude=/usr/share/{folder}/*" for folder in ("doc", "info", "locale", "man")]


def lacking():
    """Why there can be no such Debian here, or None."""
    missing = [name for name in ("buildah", "mmdebstrap") if not shutil.which(name)]
    return f"{' and '.join(missing)} missing: lab/install-packages --full" if missing else None


def run(*argv, timeout=1500):
    """A command's standard output."""
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=timeout, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, argv))} exited {done.returncode}\n"
                             f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def sources():
    """The machine's own lines for Debian 12, as apt has them in force."""
    rows = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages",
               "Origin: Debian").splitlines()
    lines = sorted({f"deb {row}" for row in rows if row.split()[1].startswith("bookworm")})
    assert lines, "apt knows no Debian 12: apt-get update"
    return lines


class Debian:
    """The image, and others made from it, until it is left."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ration-debian-"))
        try:
            self._make_base()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for command in (["rm", "--all"], ["rmi", "--all", "--force"]):    # unmounts, too
            subprocess.run(self._command(*command), capture_output=True, check=False)
        shutil.rmtree(self.folder)

    def _command(self, *argv):
        storage = ["--root", self.folder / "storage", "--runroot", self.folder / "run"]
        return [str(a) for a in ("buildah", *storage, *argv)]

    def buildah(self, *argv):
        """buildah's standard output."""
        return run(*self._command(*argv))

    def _make_base(self):
        reaching = [line for line in run("apt-config", "dump").splitlines() if line.startswith(REACHING)]
        tree = self.folder / "base.tar"
        run("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", *(f"--aptopt={o}" for o in reaching),
            *(f"--dpkgopt={option}" for option in SLIM), "bookworm", tree, *sources())
        container = self.buildah("from", "scratch").strip()
        self.buildah("add", container, tree)
        tree.unlink()
        self.buildah("config", "--cmd", "bash", container)
        self.buildah("commit", "--quiet", "--rm", container, BASE)

    def build(self, context, target, name):
        """As deploy/images/Containerfile says at its top."""
        return self.buildah("build", "--isolation", "chroot", "--layers", "--pull-never", "--target", target, "-t", name,
                            "-f", context / "deploy/images/Containerfile", context)

    def start(self, image=BASE):
        """A container's name, for run() and tree()."""
        return self.buildah("from", "--pull-never", image).strip()

    def run(self, container, *argv):
        return self.buildah("run", "--isolation", "chroot", container, "--", *argv)

    def tree(self, container):
        """Where its files lie."""
        return pathlib.Path(self.buildah("mount", container).strip())

    def config(self, image):
        return json.loads(self.buildah("inspect", "--type", "image", image))["OCIv1"]["config"]

    def archive(self, image, name):
        """The image in a file for `ctr images import`, called so."""
        path = self.folder / f"{re.sub('[/:]', '-', image)}.tar"
        path.unlink(missing_ok=True)
        self.buildah("push", "--quiet", image, f"docker-archive:{path}:{name}")
        return path
