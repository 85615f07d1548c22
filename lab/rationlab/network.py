"""The lab's network: one namespace for the control plane, one for each node, nothing of the host's changed.

The control plane's namespace is the router between the nodes. It is joined to the host by one veth pair
(198.18.SLOT.0/30, from the range that RFC 2544 sets aside for tests), by which kubectl reaches the API
server; to each node by another. The nodes' addresses are routed only inside, so two labs may use the same.
"""

import subprocess
import time
from pathlib import Path

from .errors import LabError
from .patience import deadline_in
from .procs import run

GATEWAY = "169.254.1.1"    # every node's next hop: the control plane's end of its veth
SERVICE_CIDR = "10.96.0.0/16"
POD_CIDR = "10.244.0.0/16"
SLOTS = 250


def host_link(slot):
    return f"ration-lab{slot}"


def host_address(slot):
    return f"198.18.{slot}.1"


def control_address(slot):
    return f"198.18.{slot}.2"


def control_namespace(lab):
    return f"ration-{lab}"


def node_namespace(lab, index):
    return f"ration-{lab}.{index}"


def pod_cidr(index):
    return f"10.244.{index}.0/24"


def inside(namespace, argv):
    """The command in a network namespace. Not `ip netns exec`: that mounts a fresh /sys, without cgroups."""
    return ["nsenter", f"--net=/run/netns/{namespace}", *argv]


def _ip(*argv):
    return run(["ip", *argv], "network")


def _exists(namespace):
    return Path("/run/netns", namespace).exists()


def _has_link(namespace, link):
    command = ["ip", *(["-n", namespace] if namespace else []), "link", "show", link]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _add_namespace(namespace):
    # A file without a mounted namespace behind it is what an interrupted `ip netns add` leaves.
    if _exists(namespace) and subprocess.run(inside(namespace, ["true"]), capture_output=True,
                                             check=False).returncode != 0:
        _ip("netns", "del", namespace)
    if not _exists(namespace):
        _ip("netns", "add", namespace)
    _ip("-n", namespace, "link", "set", "lo", "up")
    run(inside(namespace, ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]), "network")


def set_up_control(lab, slot):
    """The control plane's namespace and its link to the host. Does nothing to what is there already."""
    namespace = control_namespace(lab)
    _add_namespace(namespace)
    if not (_has_link(None, host_link(slot)) and _has_link(namespace, "host")):
        if _has_link(None, host_link(slot)):
            _ip("link", "del", host_link(slot))
        _ip("link", "add", host_link(slot), "type", "veth", "peer", "name", "host", "netns", namespace)
    _ip("addr", "replace", f"{host_address(slot)}/30", "dev", host_link(slot))
    _ip("link", "set", host_link(slot), "up")
    _ip("-n", namespace, "addr", "replace", f"{control_address(slot)}/30", "dev", "host")
    _ip("-n", namespace, "link", "set", "host", "up")


def set_up_node(lab, slot, index, address):
    """A node's namespace, its address, and the routes to it and to its pods."""
    control, namespace, link = control_namespace(lab), node_namespace(lab, index), f"node{index}"
    _add_namespace(namespace)
    if not (_has_link(control, link) and _has_link(namespace, "eth0")):
        if _has_link(control, link):
            _ip("-n", control, "link", "del", link)
        _ip("-n", control, "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    _ip("-n", control, "addr", "replace", f"{GATEWAY}/32", "dev", link)
    _ip("-n", control, "link", "set", link, "up")
    _ip("-n", namespace, "addr", "replace", f"{address}/32", "dev", "eth0")
    _ip("-n", namespace, "link", "set", "eth0", "up")
    _ip("-n", namespace, "route", "replace", f"{GATEWAY}/32", "dev", "eth0", "scope", "link", "src", address)
    _ip("-n", namespace, "route", "replace", "default", "via", GATEWAY, "dev", "eth0", "src", address)
    own = control_address(slot)
    _ip("-n", control, "route", "replace", f"{address}/32", "dev", link, "src", own)
    _ip("-n", control, "route", "replace", pod_cidr(index), "via", address, "dev", link, "onlink", "src", own)


def tear_down_node(lab, index):
    """What a node's kernel forgets when it reboots: addresses, routes, rules and the links of its pods."""
    namespace = node_namespace(lab, index)
    if _exists(namespace):
        _ip("netns", "del", namespace)
    deadline = deadline_in(5)
    while _has_link(control_namespace(lab), f"node{index}"):    # goes with its other end, a little later
        if time.monotonic() > deadline:
            raise LabError(f"the link of node {index} does not go away")
        time.sleep(0.05)


def tear_down(lab, slot):
    """Removes the namespaces of the lab and its link on the host. What is not there is no error."""
    prefix = control_namespace(lab)
    if Path("/run/netns").is_dir():
        for entry in sorted(Path("/run/netns").iterdir()):
            if entry.name == prefix or entry.name.startswith(prefix + "."):
                _ip("netns", "del", entry.name)
    if slot is not None and _has_link(None, host_link(slot)):
        # The kernel removes the pair with the namespace, but a little later.
        subprocess.run(["ip", "link", "del", host_link(slot)], capture_output=True, check=False)
        deadline = deadline_in(5)
        while _has_link(None, host_link(slot)):
            if time.monotonic() > deadline:
                raise LabError(f"network link {host_link(slot)} does not go away")
            time.sleep(0.05)


def free_slot(taken):
    """The lowest slot that neither a lab of ours nor a link of this machine uses."""
    for slot in range(SLOTS):
        if slot not in taken and not _has_link(None, host_link(slot)):
            return slot
    raise LabError(f"all {SLOTS} places for labs on this machine are in use")
