"""A release goes into a registry by one command, and a cluster starts it from there."""
import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time

import pytest

from cgpupods import LAYOUT
from cluster import PRODUCT, ROOT
from helmcharts import AGENT, IMAGES, SCHEDULER
from releases import NOW, for_both, install

sys.path.insert(0, str(ROOT / "lab"))
from rationlab import binaries, lab as labs, paths    # noqa: E402
from rationlab.layout import KUBERNETES    # noqa: E402

REGISTRY = paths.cache_root() / "debian/docker-registry/usr/bin/docker-registry"
INDEX = "application/vnd.oci.image.index.v1+json"
pytestmark = [pytest.mark.full, pytest.mark.skipif(
    not REGISTRY.exists(), reason="docker-registry missing: lab/install-packages --full")]


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    out = tmp_path_factory.mktemp("release")
    subprocess.run([ROOT / "deploy/package", "--output", out, "--build", PRODUCT, "--platform", "linux/amd64"], check=True)
    return out


@contextlib.contextmanager
def registry(folder, address, enter):
    """A registry, empty at first. `enter`: makes a command run in the network where it is."""
    (folder / "registry.yml").write_text(json.dumps({
        "version": 0.1, "storage": {"filesystem": {"rootdirectory": str(folder / "registry")}}, "http": {"addr": address}}))
    process = subprocess.Popen([str(word) for word in enter([REGISTRY, "serve", folder / "registry.yml"])],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_registry(address, enter)
        yield
    finally:
        process.terminate()
        process.wait()


def ask(address, enter, path, accept=INDEX):
    """(digest, body) of the registry's answer; None if there is none."""
    script = ("import sys, urllib.request as u\n"
              "answer = u.urlopen(u.Request(sys.argv[1], headers={'Accept': sys.argv[2]}))\n"
              "print(answer.headers.get('Docker-Content-Digest')); sys.stdout.flush(); sys.stdout.buffer.write(answer.read())")
    done = subprocess.run([str(w) for w in enter(["/usr/bin/python3", "-c", script, f"http://{address}{path}", accept])],
                          capture_output=True, check=False)
    if done.returncode != 0:
        return None
    digest, _, body = done.stdout.partition(b"\n")
    return digest.decode(), body


def layout_digest(path):
    """Of the image index that the layout has."""
    with tarfile.open(path) as tar:
        top, = json.load(tar.extractfile("index.json"))["manifests"]
    return top["digest"]


def wait_for_registry(address, enter):
    deadline = time.monotonic() + 60
    while ask(address, enter, "/v2/") is None:
        assert time.monotonic() < deadline, "the registry does not answer"
        time.sleep(0.2)


def push(release, address, enter, environment):
    command = [str(w) for w in enter([ROOT / "deploy/push", "--plain-http", release, f"{address}/gpu"])]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_what_is_pushed_has_the_digests_of_the_release(release, tmp_path):
    address = f"127.0.0.1:{free_port()}"
    environment = dict(os.environ, HELM=binaries.program("helm", KUBERNETES), HOME=str(tmp_path))
    with registry(tmp_path, address, list):
        said = push(release, address, list, environment)
        for name in IMAGES.values():
            digest, body = ask(address, list, f"/v2/gpu/{name}/manifests/{NOW}")
            assert digest == layout_digest(release / f"{name}-{NOW}.oci.tar") == f"sha256:{hashlib.sha256(body).hexdigest()}"
            assert f"{address}/gpu/{name}:{NOW}\n" in said
        for chart in IMAGES:
            _, body = ask(address, list, f"/v2/gpu/charts/{chart}/manifests/{NOW}", "application/vnd.oci.image.manifest.v1+json")
            layer, = json.loads(body)["layers"]
            packed = (release / f"{chart}-{NOW}.tgz").read_bytes()
            assert layer["digest"] == f"sha256:{hashlib.sha256(packed).hexdigest()}"
            assert f"oci://{address}/gpu/charts/{chart} --version {NOW}\n" in said


def test_a_release_that_was_changed_is_not_pushed(release, tmp_path):
    changed = shutil.copytree(release, tmp_path / "changed")
    (changed / f"{AGENT}-{NOW}.tgz").write_bytes(b"other")
    done = subprocess.run([ROOT / "deploy/push", changed, "registry.example.com"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"{AGENT}-{NOW}.tgz: FAILED" in done.stdout


def test_a_cluster_starts_a_release_from_the_registry_that_it_was_pushed_to(lab, release, tmp_path):
    cluster = lab(LAYOUT)
    node, = labs.Lab.existing(cluster.name).nodes
    # In the node's network, with this machine's files; the container runtime asks such an address without TLS.
    address = "127.0.0.1:5000"
    enter = lambda argv: [*node.enter([])[:2], "--", *argv]    # noqa: E731
    with registry(tmp_path, address, enter):
        push(release, address, enter, cluster.environment)
        try:
            for_both(lambda chart: install(cluster, chart, f"image.repository={address}/gpu/{IMAGES[chart]}"))
            cluster.rolled_out()
            running = {status["image"]: status["imageID"]
                       for selector in ("name=gpushare-device-plugin-ds", f"app={SCHEDULER}")
                       for pod in cluster.pods(selector, "kube-system") if "deletionTimestamp" not in pod["metadata"]
                       for status in pod["status"]["containerStatuses"] if "/ration-" in status["image"]}
            assert running == {f"{address}/gpu/{name}:{NOW}":
                               f"{address}/gpu/{name}@{layout_digest(release / f'{name}-{NOW}.oci.tar')}"
                               for name in IMAGES.values()}
        finally:
            for_both(lambda chart: install(cluster, chart))
            cluster.rolled_out()
