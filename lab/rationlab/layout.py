"""What a lab consists of: its name and its nodes, as given on the command line."""

import ipaddress
import re
from dataclasses import asdict, dataclass

from .errors import LabError

KUBERNETES = "1.36.3"
NO_LABEL = "none"
MODES = ("share", "cgpu", "core_mem", "topology", "dra", "default", NO_LABEL)
PLACEMENTS = ("binpack", "spread")
LINKS = ("dgx1-v100", "dgx-a100", "pcie-8")
CGROUP_DRIVERS = ("cgroupfs", "systemd")
RUNTIMES = ("containerd", "cri-o")
MAX_NODES = 16
MAX_CARDS = 64
MAX_CARD_MIB = 1024 * 1024
# A lab's name is part of namespace and cgroup names.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_CARDS = re.compile(r"([1-9][0-9]{0,2})x([1-9][0-9]{0,6})MiB")


@dataclass(frozen=True)
class Node:
    name: str
    cards: str        # as ration-sim takes it; "" is a node without a GPU
    mode: str         # value of ack.node.gpu.schedule; "" sets no label
    placement: str    # value of ack.node.gpu.placement; "" sets no label
    links: str = ""   # the machine whose links its GPUs have, by its name in ration-sim; "" for none

    @property
    def address(self):
        return node_address(self.name)

    def labels(self):
        labels = {}
        if self.mode:
            labels["ack.node.gpu.schedule"] = self.mode
        if self.placement:
            labels["ack.node.gpu.placement"] = self.placement
        return labels


@dataclass(frozen=True)
class Setup:
    """What holds for a whole lab and stays as it was made. None: not asked for."""
    kubernetes: str = None
    default_scheduler: bool = False
    cgroup_driver: str = None
    runtime: str = None
    feature_gates: str = None    # as the programs of Kubernetes take them

    def filled(self):
        """With the defaults for what was not asked for."""
        return Setup(self.kubernetes or KUBERNETES, self.default_scheduler, self.cgroup_driver or CGROUP_DRIVERS[0],
                     self.runtime or RUNTIMES[0], self.feature_gates or "")


# The nodes of the documents that ration follows (seeds 2 and 3).
DOCUMENT_NODES = (
    Node("cn-shanghai.192.168.6.104", "1x16160MiB", "share", ""),
    Node("cn-zhangjiakou.192.168.66.139", "1x16160MiB", "share", ""),
)


def node_address(name):
    """The address a node's name ends in."""
    match = re.search(r"(?:^|\.)([0-9]{1,3}(?:\.[0-9]{1,3}){3})$", name)
    if match is None:
        raise LabError(f"node {name!r}: a node's name ends in its address, as in cn-shanghai.192.168.6.104")
    try:
        address = ipaddress.IPv4Address(match.group(1))
    except ValueError:
        raise LabError(f"node {name!r}: {match.group(1)} is not an IPv4 address") from None
    if address.is_loopback or address.is_multicast or address.is_unspecified or address.is_link_local \
            or int(address) >= 0xF0000000:
        raise LabError(f"node {name!r}: {address} cannot be a node's address")
    for taken in ("10.96.0.0/16", "10.244.0.0/16", "198.18.0.0/15"):
        if address in ipaddress.IPv4Network(taken):
            raise LabError(f"node {name!r}: {address} lies in {taken}, which the lab uses itself")
    return str(address)


def parse_cards(text, where):
    """Checks GPUS (`2x81559MiB+1x40960MiB`, or `0` for none); returns it as ration-sim takes it."""
    if text == "0":
        return ""
    total = 0
    for part in text.split("+"):
        match = _CARDS.fullmatch(part)
        if match is None:
            raise LabError(f"{where}: GPUs {text!r} are not of the form 4x16160MiB or 2x81559MiB+1x40960MiB")
        total += int(match.group(1))
        if int(match.group(2)) > MAX_CARD_MIB:
            raise LabError(f"{where}: a GPU of {match.group(2)} MiB is larger than the lab's limit of "
                           f"{MAX_CARD_MIB} MiB")
    if total > MAX_CARDS:
        raise LabError(f"{where}: {total} GPUs are more than the lab's limit of {MAX_CARDS} for a node")
    return text


def parse_node(text, where=None):
    """One --node argument: NAME=GPUS[,MODE[,PLACEMENT]][,links=MACHINE]. Errors begin with `where`."""
    name, equals, rest = text.partition("=")
    where = where or f"--node {text}"
    if not equals or not name or not rest:
        raise LabError(f"{where}: expected NAME=GPUS[,MODE[,PLACEMENT]][,links=MACHINE], "
                       "as in cn-shanghai.192.168.6.104=1x16160MiB,share")
    fields = rest.split(",")
    links = fields.pop().removeprefix("links=") if fields[-1].startswith("links=") else ""
    if len(fields) > 3:
        raise LabError(f"{where}: too many fields after the GPUs; expected "
                       "NAME=GPUS[,MODE[,PLACEMENT]][,links=MACHINE]")
    # A node's name is also a label value (kubernetes.io/hostname): 63 characters.
    if len(name) > 63 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise LabError(f"{where}: {name!r} is not a node name: lower case letters, digits, '-' and '.', "
                       "at most 63 characters")
    node_address(name)
    mode = fields[1] if len(fields) > 1 else "share"
    placement = fields[2] if len(fields) > 2 else ""
    if mode not in MODES:
        raise LabError(f"{where}: unknown mode {mode!r}; modes are {', '.join(MODES)}")
    if placement and placement not in PLACEMENTS:
        raise LabError(f"{where}: unknown placement {placement!r}; placements are {', '.join(PLACEMENTS)}")
    cards = parse_cards(fields[0], where)
    if links and links not in LINKS:
        raise LabError(f"{where}: unknown links {links!r}; known machines are {', '.join(LINKS)}")
    if links and not cards.startswith("8x"):
        raise LabError(f"{where}: {links} has eight GPUs of one size, as in 8x16160MiB")
    return Node(name, cards, "" if mode == NO_LABEL else mode, placement, links)


def parse_nodes(texts):
    """All --node arguments; without any, the two nodes of the documents."""
    if not texts:
        return list(DOCUMENT_NODES)
    if len(texts) > MAX_NODES:
        raise LabError(f"{len(texts)} nodes are more than the lab's limit of {MAX_NODES}")
    nodes = [parse_node(text) for text in texts]
    for what, values in (("name", [n.name for n in nodes]), ("address", [n.address for n in nodes])):
        for value in values:
            if values.count(value) > 1:
                raise LabError(f"two nodes have the {what} {value}")
    return nodes


def check_lab_name(name):
    if not _NAME.fullmatch(name):
        raise LabError(f"lab name {name!r}: lower case letters, digits and '-', at most 20 characters")
    return name


def check_kubernetes(version):
    """Returns the version without a leading v."""
    version = version.removeprefix("v")
    match = re.fullmatch(r"1\.([0-9]{1,3})\.[0-9]{1,3}", version)
    if match is None:
        raise LabError(f"--kubernetes {version}: expected a release such as {KUBERNETES}")
    return version


def check_feature_gates(text):
    """NAME=true|false[,...]; whether the programs know the names they say themselves."""
    if not all(re.fullmatch(r"[A-Za-z0-9]+=(true|false)", gate) for gate in text.split(",")):
        raise LabError(f"--feature-gates {text}: expected NAME=true or NAME=false, several with commas")
    return text


def node_as_dict(node):
    return asdict(node)


def node_from_dict(fields):
    return Node(**fields)
