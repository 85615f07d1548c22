"""The programs that people install on their own machines: an archive for each platform, and krew's manifest of the plugin."""

import gzip
import hashlib
import io
import tarfile

import yaml

# The archive's name -> the program in it. krew links the program of the plugin inspect-cgpu as kubectl-inspect_cgpu (krew,
# internal/installation/install.go, pluginNameToBin), which is `kubectl inspect-cgpu`. A person who puts the file
# kubectl-inspect-cgpu on PATH has `kubectl inspect cgpu`.
PROGRAMS = {"ration": "ration", "kubectl-inspect_cgpu": "kubectl-inspect-cgpu"}


def archive_name(archive, version, platform):
    return f"{archive}-{version}-{platform.replace('/', '-')}.tar.gz"


def compress(data, path):
    """gzip without a time and a name."""
    with open(path, "wb") as out, gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0) as packed:
        packed.write(data)


def write_archive(path, program, program_path, licence, when):
    """The program and the licence."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content, mode in (("LICENSE", licence, 0o644), (program, program_path.read_bytes(), 0o755)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), when, mode
            tar.addfile(entry, io.BytesIO(content))
    compress(data.getvalue(), path)


def krew_manifest(folder, version, platforms, url):
    """The text of krew's manifest for those archives of the plugin that are in the folder; `url` is where people get them."""
    described = []
    for platform in platforms:
        name = archive_name("kubectl-inspect_cgpu", version, platform)
        system, architecture = platform.split("/")
        described.append({
            "selector": {"matchLabels": {"os": system, "arch": architecture}}, "uri": f"{url.rstrip('/')}/{name}",
            "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest(), "bin": "kubectl-inspect-cgpu",
            "files": [{"from": "kubectl-inspect-cgpu", "to": "."}, {"from": "LICENSE", "to": "."}]})
    return yaml.safe_dump({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin",
        "metadata": {"name": "inspect-cgpu"},
        "spec": {"version": f"v{version}", "homepage": url, "platforms": described,
                 "shortDescription": "Show the shared GPU memory of each node",
                 "description": "Prints how much memory of each GPU is allocated to which pods, on clusters where the charts "
                                "ack-ai-installer and ack-co-scheduler of the project ration share GPUs."}},
        sort_keys=False, width=1000)
