"""Pods that need no card, and what of the machine a lab could have changed."""
import os
import pathlib
import re
import subprocess

IMAGE = "registry.cn-beijing.aliyuncs.com/ai-samples/gpushare-sample:tensorflow-1.5"
CALL_API = """
import ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
request = urllib.request.Request("https://10.96.0.1/version", headers={"Authorization": "Bearer " + open(folder + "token").read()})
print(urllib.request.urlopen(request, context=ssl.create_default_context(cafile=folder + "ca.crt"), timeout=10).read().decode())
"""


def plain_pod(name, node=None, command=("sleep", "100000"), **spec):
    where = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 0, "restartPolicy": "Never",
        "containers": [{"name": "c", "image": IMAGE, "command": list(command)}], **where, **spec}}


def marked_processes(name):
    """Pids that carry the mark of the lab, whoever is their parent."""
    mark = re.compile(rf"(^|\0)RATION_LAB_MARK=[^\0]*/{name}(\0|$)".encode())
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.search(pathlib.Path("/proc", entry, "environ").read_bytes()):
                found.append(int(entry))
        except OSError:
            pass
    return found


def machine_state():
    """All of the machine that a lab could have changed, in a form that two moments can be compared in."""
    def output(*argv):
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    netns = pathlib.Path("/run/netns")
    # Other tests may run beside this one: their labs are not ours to judge, but nothing may be nameless.
    return {
        "namespaces": sorted(entry.name for entry in netns.iterdir()) if netns.is_dir() else [],
        # /run/netns on itself is iproute2's, once for all.
        "mounts": sorted(line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
                         if not line.split()[4].startswith("/run/netns")),
        "cgroups": sorted(str(p) for p in pathlib.Path("/sys/fs/cgroup").glob("**/ration-lab*")),
        "links": sorted(re.findall(r"^\d+: ([^:@]+)", output("ip", "-o", "link"), re.MULTILINE)),
        "addresses": sorted(re.findall(r"inet6? (\S+)", output("ip", "addr"))),
        "routes": sorted(output("ip", "route", "show", "table", "all").splitlines()),
        "iptables": [line for line in output("iptables-save").splitlines() if not line.startswith(("#", ":"))],
        "kernel": {name: pathlib.Path("/proc/sys", name).read_text() for name in (
            "net/ipv4/ip_forward", "kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom")},
        "host folders": {path: os.path.exists(path) for path in (
            "/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods", "/var/log/containers", "/var/lib/cni", "/etc/cdi",
            "/run/cdi", "/run/ration", "/run/containerd", "/opt/ration-sim", "/usr/libexec/kubernetes", "/etc/cni")},
    }


def without_neighbours(state, name):
    """The state, less what other labs of this machine add to it meanwhile."""
    def foreign(text):
        return re.search(r"ration-(lab\.|lab)?[a-z0-9]", text) and f"ration-{name}" not in text and \
            f"ration-lab.{name}." not in text
    return {key: [item for item in value if not foreign(item)] if isinstance(value, list) else value
            for key, value in state.items()}
