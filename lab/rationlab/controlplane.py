"""etcd, API server, controller-manager and the unmodified scheduler, in the lab's own network namespace."""

import json
import ssl
import time
import urllib.error
import urllib.request

from . import binaries, network
from .errors import LabError
from .patience import deadline_in, patience
from .procs import Part, run

PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# Elsewhere it has machines of its own: containers that start must not keep it from answering. Each part is a session, and
# Linux divides the processors among sessions first (sched(7), autogroup), so nice alone would say nothing beside hundreds of
# containerd's. A user without the right gets a message of nice in the program's log, and a lab all the same.
FIRST = ["/bin/sh", "-c", '{ echo -15 > /proc/self/autogroup; } 2>/dev/null; exec nice -n -15 "$@"', "first"]
EXTENDER = "ration-scheduler"    # a part where the default scheduler has the ledger


class ControlPlane:
    def __init__(self, lab):
        self.lab = lab

    def part(self, name):
        return Part(self.lab.folder, name)

    def parts(self):
        return [self.part(name) for name in (*PARTS, *([EXTENDER] if self.lab.default_scheduler else []))]

    def start(self, name):
        """Starts one program unless it runs. True if it was started."""
        arguments = {"etcd": self._etcd, "kube-apiserver": self._apiserver,
                     "kube-controller-manager": self._controller_manager, "kube-scheduler": self._scheduler,
                     EXTENDER: self._extender}[name]()
        program = str(self.lab.product / "src/scheduler" / name) if name == EXTENDER else binaries.program(
            name, self.lab.kubernetes)
        gates = [f"--feature-gates={self.lab.feature_gates}"] if self.lab.feature_gates and name.startswith("kube-") else []
        command = [*FIRST, program, *arguments, *gates]
        return self.part(name).start(network.inside(network.control_namespace(self.lab.name), command))

    def start_storage_and_api(self):
        self.start("etcd")
        self.start("kube-apiserver")

    def start_controllers(self):
        self.start("kube-controller-manager")
        self.start("kube-scheduler")
        if self.lab.default_scheduler:
            self.start(EXTENDER)

    def wait_ready(self, timeout=90):
        deadline = deadline_in(timeout)
        while True:
            reason = self._not_ready()
            if reason is None:
                return
            for name in ("etcd", "kube-apiserver"):
                self.part(name).check_running()
            if time.monotonic() > deadline:
                raise LabError(f"the API server is not ready after {timeout} s: {reason}; "
                               f"the end of its log:\n{self.part('kube-apiserver').log_tail()}")
            time.sleep(0.1)

    def get(self, path, timeout=10):
        """GET of the API server as admin; parsed when it is JSON."""
        context = ssl.create_default_context(cafile=str(self.lab.pki.ca))
        request = urllib.request.Request(self.lab.pki.server() + path,
                                         headers={"Authorization": f"Bearer {self.lab.pki.admin_token()}"})
        # An empty handler list for proxies: http_proxy of the person's shell does not know this address.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                             urllib.request.HTTPSHandler(context=context))
        with opener.open(request, timeout=timeout * patience()) as answer:
            body = answer.read()
        return json.loads(body) if body.startswith(b"{") else body.decode()

    def _not_ready(self):
        try:
            self.get("/readyz", timeout=5)
            return None
        except urllib.error.HTTPError as error:
            return error.read().decode(errors="replace").strip()
        except (OSError, ValueError) as error:
            return str(error)

    def _etcd(self):
        return ["--name=lab", f"--data-dir={self.lab.folder / 'etcd'}", "--listen-client-urls=http://127.0.0.1:2379",
                "--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380",
                "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=lab=http://127.0.0.1:2380",
                # A lab's data need not survive a power cut, and fsync would be the slowest part of every write.
                "--unsafe-no-fsync", "--log-level=warn"]

    def _apiserver(self):
        pki, own = self.lab.pki, network.control_address(self.lab.slot)
        return ["--etcd-servers=http://127.0.0.1:2379", f"--service-cluster-ip-range={network.SERVICE_CIDR}",
                "--bind-address=0.0.0.0", "--secure-port=6443", f"--advertise-address={own}",
                "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
                f"--token-auth-file={pki.tokens}", f"--client-ca-file={pki.ca}", f"--tls-cert-file={pki.server_cert}",
                f"--tls-private-key-file={pki.server_key}",
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                f"--service-account-key-file={pki.account_key}",
                f"--service-account-signing-key-file={pki.account_key}", "--allow-privileged=true",
                "--kubelet-preferred-address-types=InternalIP",
                # No kube-proxy runs beside it: it reaches the Service of a webhook by the addresses of its pods.
                "--enable-aggregator-routing=true"]

    def _controller_manager(self):
        pki = self.lab.pki
        return [f"--kubeconfig={pki.kubeconfig('controller-manager')}", "--leader-elect=false",
                "--use-service-account-credentials=true", f"--root-ca-file={pki.ca}",
                f"--service-account-private-key-file={pki.account_key}", "--secure-port=0"]

    def _scheduler(self):
        kubeconfig = self.lab.pki.kubeconfig("scheduler")
        if not self.lab.default_scheduler:
            return [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0"]
        text = run([self.lab.product / "src/cli/ration", "doctor", "--scheduler-config"], "the scheduler's configuration")
        config = self.lab.folder / "scheduler.yaml"
        config.write_text(text.replace("/etc/kubernetes/scheduler.conf", str(kubeconfig)))
        return [f"--config={config}", "--secure-port=0"]

    def _extender(self):
        """As in the static pod that `ration doctor --scheduler-config --kubeadm` makes."""
        return [f"--kubeconfig={self.lab.pki.kubeconfig('scheduler')}", "--scheduler-lease=kube-system/kube-scheduler",
                "--probes=127.0.0.1:39998"]
