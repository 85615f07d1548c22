"""Certificates, tokens and kubeconfigs of one lab. Made once, kept until the lab goes."""

import json
import os
import secrets

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
        """Makes what is missing. The token file grows with the nodes, so it is written last and whole."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.account_key.exists():
            self._key(self.account_key)
        if not self.server_cert.exists():
            self._certificates()
        users = dict(_COMPONENTS)
        for name in node_names:
            users[f"node-{name}"] = (f"system:node:{name}", ("system:nodes",))
        known = self._known_tokens()
        lines = []
        for short, (user, groups) in users.items():
            token = known.get(user) or secrets.token_hex(16)
            quoted = ",".join(groups)
            lines.append(f'{token},{user},{user},"{quoted}"\n' if groups else f"{token},{user},{user}\n")
            self._write_kubeconfig(short, token)
        _replace(self.tokens, "".join(lines))

    def admin_token(self):
        return next(token for user, token in self._known_tokens().items() if user == _COMPONENTS["admin"][0])

    def _known_tokens(self):
        if not self.tokens.exists():
            return {}
        fields = [line.split(",") for line in self.tokens.read_text().splitlines()]
        return {field[1]: field[0] for field in fields}

    def _key(self, path):
        temporary = path.with_suffix(".new")
        run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", temporary], "certificates")
        os.rename(temporary, path)

    def _certificates(self):
        authority_key = self.folder / "ca.key"
        self._key(authority_key)
        self._key(self.server_key)
        run(["openssl", "req", "-x509", "-new", "-key", authority_key, "-days", "3650", "-subj", "/CN=ration-lab",
             "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign",
             "-out", self.ca], "certificates")
        request, extensions = self.folder / "server.csr", self.folder / "server.ext"
        extensions.write_text(
            "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
            f"subjectAltName=IP:{network.control_address(self.slot)},IP:127.0.0.1,IP:10.96.0.1,"
            "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
            "DNS:kubernetes.default.svc.cluster.local,DNS:localhost\n")
        run(["openssl", "req", "-new", "-key", self.server_key, "-subj", "/CN=kube-apiserver", "-out", request],
            "certificates")
        run(["openssl", "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", authority_key, "-CAcreateserial",
             "-days", "3650", "-extfile", extensions, "-out", f"{self.server_cert}.new"], "certificates")
        os.rename(f"{self.server_cert}.new", self.server_cert)

    def _write_kubeconfig(self, short, token):
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": self.server(), "certificate-authority": str(self.ca)}}],
            "users": [{"name": "lab", "user": {"token": token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        }
        _replace(self.kubeconfig(short), json.dumps(config, indent=1) + "\n")


def _replace(path, text):
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    temporary.chmod(0o600)
    os.rename(temporary, path)
