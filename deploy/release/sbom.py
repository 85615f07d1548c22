"""The list of what a release has in it, as SPDX 2.3 in JSON: the shared libraries of the images, and the libraries in the
static programs, each with the Debian package that it comes from."""

import hashlib
import json
import re
import subprocess
import time
import urllib.parse
import uuid
from dataclasses import dataclass
from pathlib import Path

from rationlab.errors import LabError

_NOTHING = "NOASSERTION"


@dataclass(frozen=True)
class Package:
    """A binary package of Debian, or a source package where `architecture` is "source"."""
    name: str
    version: str
    architecture: str


class InstalledPackages:
    """Those of this machine."""

    def __init__(self):
        said = _dpkg_query("--show", "--showformat=${binary:Package}\t${Package}\t${Version}\t${Architecture}\n")
        packages = {line.split("\t")[0]: Package(*line.split("\t")[1:]) for line in said.splitlines()}
        self.owners = {}
        for line in _dpkg_query("--search", "*.so*", "*.a").splitlines():
            names, _, path = line.partition(": ")
            if not names.startswith("diversion by"):
                # dpkg has the paths from before merged /usr
                self.owners[re.sub("^/lib", "/usr/lib", path)] = packages[names.split(", ")[0]]

    def owner(self, path):
        if str(path) not in self.owners:
            raise LabError(f"{path} belongs to no Debian package, so the SBOM cannot say where it comes from")
        return self.owners[str(path)]


def _dpkg_query(*arguments):
    return subprocess.run(["dpkg-query", *arguments], capture_output=True, text=True, check=True).stdout


class UnpackedPackages:
    """Those that deploy/cross/build-arm64 has unpacked."""

    def __init__(self, folder):
        self.root = folder / "root"
        self.installed = InstalledPackages()
        self.owners = {}
        for listed in sorted((folder / "lists").iterdir()):
            package = Package(*urllib.parse.unquote(listed.name).removesuffix(".deb").split("_"))
            self.owners.update(dict.fromkeys((line.lstrip(".") for line in listed.read_text().splitlines()), package))

    def owner(self, path):
        inside = str(path).removeprefix(str(self.root))
        if not str(path).startswith(str(self.root)):
            return self.installed.owner(path)    # the cross compiler's own
        if inside not in self.owners:
            raise LabError(f"{path} belongs to no unpacked package, so the SBOM cannot say where it comes from")
        return self.owners[inside]


def source_packages(folder):
    """Those of which deploy/cross/build-macos has built libraries, by the files that describe them (dsc(5))."""
    found = []
    for path in sorted(folder.glob("*.dsc")):
        text = path.read_text()
        found.append(Package(*(re.search(rf"^{field}: (.*)$", text, re.M)[1] for field in ("Source", "Version")), "source"))
    return found


def _id(*parts):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(parts))


def _checksums(data):
    # SPDX 2.3, 8.4: each file has a SHA1.
    return [{"algorithm": name.upper(), "checksumValue": hashlib.new(name, data).hexdigest()} for name in ("sha1", "sha256")]


class Document:
    def __init__(self, version, when):
        self.version, self.when = version, when
        self.packages, self.files, self.relations = {}, {}, set()

    def _relate(self, one, kind, other):
        self.relations.add((one, kind, other))

    def add_artifact(self, name, file_name=None):
        """A part of the release; returns its id."""
        ref = _id("ration", name)
        self.packages[ref] = {
            "SPDXID": ref, "name": name, "versionInfo": self.version, "downloadLocation": _NOTHING, "filesAnalyzed": False,
            "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": _NOTHING,
            "supplier": "Organization: the ration project", **({"packageFileName": file_name} if file_name else {})}
        self._relate("SPDXRef-DOCUMENT", "DESCRIBES", ref)
        return ref

    def add_package(self, package):
        ref = _id("debian", package.name, package.version, package.architecture)
        self.packages[ref] = {
            "SPDXID": ref, "name": package.name, "versionInfo": package.version, "downloadLocation": _NOTHING,
            "filesAnalyzed": False, "licenseConcluded": _NOTHING, "licenseDeclared": _NOTHING, "copyrightText": _NOTHING,
            "supplier": "Organization: Debian", "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{package.name}@{package.version.replace('+', '%2B').replace(':', '%3A')}"
                                    f"?arch={package.architecture}&distro=bookworm"}]}
        return ref

    def add_image(self, name, architecture, content, packages):
        """Its libraries, and the packages that they are from."""
        image = self.add_artifact(f"{name} ({architecture})")
        for target, source in sorted(content.files.items()):
            data = Path(source).read_bytes()
            ref = _id("file", name, architecture, target)
            self.files[ref] = {"SPDXID": ref, "fileName": f".{target}", "checksums": _checksums(data),
                               "licenseConcluded": _NOTHING, "copyrightText": _NOTHING}
            self._relate(image, "CONTAINS", ref)
            if not target.startswith(("/usr/bin/ration-", "/usr/lib/ration/")):    # our own
                self._relate(self.add_package(packages.owner(source)), "CONTAINS", ref)

    def add_programs(self, file_name, needs):
        """An archive of static programs, with the packages whose libraries are in them."""
        archive = self.add_artifact(file_name, file_name)
        for package in needs:
            self._relate(archive, "STATIC_LINK", self.add_package(package))

    def text(self):
        body = {
            "packages": [self.packages[ref] for ref in sorted(self.packages)],
            "files": [self.files[ref] for ref in sorted(self.files)],
            "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                              for one, kind, other in sorted(self.relations)]}
        # A document's name must be its own, and the same for the same content.
        name = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(body, sort_keys=True))
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.when))
        return json.dumps({
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"ration-{self.version}", "documentNamespace": f"urn:uuid:{name}",
            "creationInfo": {"created": created, "creators": ["Tool: ration-deploy-package"]}, **body}, indent=1) + "\n"
