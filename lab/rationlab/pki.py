"""Certificates, tokens and kubeconfigs of one lab. Made once, kept until the lab, or the node, goes.

Kubelets have client certificates: the API server reads its token file only once, and a node may be added later.
"""

import json
import os
import secrets
from pathlib import Path

from . import network
from .procs import run

# user -> groups, as the API server's static token file knows them
_COMPONENTS = {
    "admin": ("ration-lab-admin", ("system:masters",)),
    "controller-manager": ("system:kube-controller-manager", ()),
    "scheduler": ("system:kube-scheduler", ()),
    "proxy": ("system:kube-proxy", ()),
}


class Pki:
    def __init__(self, folder, slot):
        self.folder = folder / "pki"
        self.slot = slot
        self.ca = self.folder / "ca.crt"
        self.server_cert = self.folder / "server.crt"
        self.server_key = self.folder / "server.key"
        self.account_key = self.folder / "service-account.key"
        self.tokens = self.folder / "tokens.csv"

    def server(self):
        return f"https://{network.control_address(self.slot)}:6443"

    def kubeconfig(self, user):
        return self.folder / f"{user}.kubeconfig"

    def create(self, node_names):
        """Makes what is missing."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.account_key.exists():
            self._key(self.account_key)
        if not self.server_cert.exists():
            self._certificates()
        known = self._known_tokens()
        lines = []
        for short, (user, groups) in _COMPONENTS.items():
            token = known.get(user) or secrets.token_hex(16)
            quoted = ",".join(groups)
            lines.append(f'{token},{user},{user},"{quoted}"\n' if groups else f"{token},{user},{user}\n")
            self._write_kubeconfig(short, {"token": token})
        _replace(self.tokens, "".join(lines))
        for name in node_names:
            self.create_node(name)

    def node_kubeconfig(self, name):
        return self.kubeconfig(f"node-{name}")

    def create_node(self, name):
        """The client certificate and the kubeconfig of a node's kubelet, unless they are there."""
        if self.node_kubeconfig(name).exists():
            return
        key, certificate = self._node_files(name)
        self._key(key)
        self._sign(key, f"/O=system:nodes/CN=system:node:{name}", "extendedKeyUsage=clientAuth\n", certificate)
        self._write_kubeconfig(f"node-{name}", {"client-certificate": str(certificate), "client-key": str(key)})

    def forget_node(self, name):
        for path in (self.node_kubeconfig(name), *self._node_files(name)):
            path.unlink(missing_ok=True)

    def _node_files(self, name):
        # Not with_suffix: a node's name has dots.
        return self.folder / f"node-{name}.key", self.folder / f"node-{name}.crt"

    def admin_token(self):
        return next(token for user, token in self._known_tokens().items() if user == _COMPONENTS["admin"][0])

    def _known_tokens(self):
        if not self.tokens.exists():
            return {}
        fields = [line.split(",") for line in self.tokens.read_text().splitlines()]
        return {field[1]: field[0] for field in fields}

    def _key(self, path):
        temporary = f"{path}.new"
        run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", temporary], "certificates")
        os.rename(temporary, path)

    def _certificates(self):
        authority_key = self.folder / "ca.key"
        self._key(authority_key)
        self._key(self.server_key)
        run(["openssl", "req", "-x509", "-new", "-key", authority_key, "-days", "3650", "-subj", "/CN=ration-lab",
             "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign",
             "-out", self.ca], "certificates")
        self._sign(self.server_key, "/CN=kube-apiserver",
                   "extendedKeyUsage=serverAuth\n"
                   f"subjectAltName=IP:{network.control_address(self.slot)},IP:127.0.0.1,IP:10.96.0.1,"
                   "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
                   "DNS:kubernetes.default.svc.cluster.local,DNS:localhost\n", self.server_cert)

    def _sign(self, key, subject, extensions, certificate):
        """A certificate of the lab's authority for this key."""
        request, extension_file = f"{certificate}.csr", Path(f"{certificate}.ext")
        extension_file.write_text("basicConstraints=CA:FALSE\n" + extensions)
        run(["openssl", "req", "-new", "-key", key, "-subj", subject, "-out", request], "certificates")
        run(["openssl", "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key",
             "-CAcreateserial", "-days", "3650", "-extfile", extension_file, "-out", f"{certificate}.new"], "certificates")
        os.rename(f"{certificate}.new", certificate)
        os.unlink(request)
        extension_file.unlink()

    def _write_kubeconfig(self, short, credential):
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": self.server(), "certificate-authority": str(self.ca)}}],
            "users": [{"name": "lab", "user": credential}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        }
        _replace(self.kubeconfig(short), json.dumps(config, indent=1) + "\n")


def _replace(path, text):
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    temporary.chmod(0o600)
    os.rename(temporary, path)
