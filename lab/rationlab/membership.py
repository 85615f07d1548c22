"""Nodes that join a running lab, and nodes that leave it."""

import time

from . import images, layout, preflight, recipes, state
from .errors import LabError
from .lab import Lab, check_product, join_nodes, remove_folder
from .procs import run
from .progress import say, step

DRAIN_S = 300


def add(name, spec):
    """Adds the node; returns when its kubelet has reported it ready. A node that is there already, as asked, is finished."""
    begun = time.monotonic()
    preflight.check_root()
    Lab.existing(name)    # told before a lock is made for it
    with state.lock(name):
        lab = Lab.existing(name)
        _check_runs(lab)
        if spec not in [node.spec for node in lab.nodes]:
            lab = _register(lab, spec)
        _bring_up(lab, lab.find_node(spec.name))
    say(f"node {spec.name} has joined lab {name} after {time.monotonic() - begun:.1f} s")


def remove(name, node_name, drain):
    """Ends the node as a cloud ends a machine, its Node object included; before that, if asked, its pods by kubectl drain."""
    preflight.check_root()
    Lab.existing(name)
    with state.lock(name):
        lab = Lab.existing(name)
        node = lab.find_node(node_name)
        if len(lab.nodes) == 1:
            raise LabError(f"{node_name} is the last node of lab {name}; lab/lab down --name {name} removes the lab")
        _check_runs(lab)
        if drain:
            _drain(lab, node_name)
        with step(f"machine {node_name} is gone"):
            node.power_off()
        lab.kubectl_output("delete", "node", node_name, "--ignore-not-found")
        # Until here the same command goes on after an interruption; what is left are files, which add() removes, too.
        _write(lab, [other for other in lab.nodes if other is not node])
        _forget_files(node)
    say(f"node {node_name} has left lab {name}")


def _check_runs(lab):
    missing = [part.name for part in lab.control.parts() if part.pid() is None]
    if missing:
        raise LabError(f"{', '.join(missing)} of lab {lab.name} does not run; lab/lab up --name {lab.name} starts it")


def _register(lab, spec):
    """Writes the node down before anything of it exists; returns the lab with it."""
    for node in lab.nodes:
        if node.spec.name == spec.name:
            raise LabError(f"lab {lab.name} has a node {spec.name} with other GPUs or labels; "
                           f"lab/lab remove-node --name {lab.name} {spec.name} first, or choose another name")
        if node.spec.address == spec.address:
            raise LabError(f"node {node.spec.name} of lab {lab.name} has the address {spec.address} already")
    if lab.cgroup_driver == "systemd":
        raise LabError(f"lab {lab.name} has the cgroup driver systemd: it has one node")
    if len(lab.nodes) >= layout.MAX_NODES:
        raise LabError(f"lab {lab.name} has {len(lab.nodes)} nodes, which is the lab's limit")
    preflight.check_disk(state.labs_root(), preflight.NODE_BYTES, "a node")
    check_product([spec], False)
    taken = {node.index for node in lab.nodes}
    index = next(number for number in range(1, layout.MAX_NODES + 1) if number not in taken)
    nodes = [(node.index, node.spec) for node in lab.nodes] + [(index, spec)]
    joined = Lab(lab.name, lab.slot, lab.setup, nodes)
    _forget_files(joined.find_node(spec.name))    # of a node of this name whose removal was interrupted
    _write(joined, joined.nodes)
    return joined


def _write(lab, nodes):
    state.write(lab.name, lab.slot, lab.setup, [(node.index, node.spec) for node in nodes])


def _bring_up(lab, node):
    name = node.spec.name
    with step(f"network, certificate and {lab.runtime}"):
        lab.pki.create_node(name)
        node.set_up()
        node.ensure_driver()
        node.start_runtime()
        node.wait_runtime()
    with step("images"):
        # Those that the lab's other nodes have, whatever was built since.
        product, version = images.installed_product(lab.folder / "product")
        images.load_into(node, images.prepare(recipes.Sources(product, version, lab.kubernetes), bool(product)))
    begun = int(time.time())    # the API server's times are whole seconds
    started = node.start("kubelet")
    with step("node ready"):
        join_nodes(lab, {name: begun if started else 0})


def _drain(lab, name):
    # --force: pods without a controller go, too; that is what a cloud does in the end.
    command = lab.kubectl("drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", f"--timeout={DRAIN_S}s")
    with step(f"{name} is drained"):
        try:
            run(command, "draining", timeout=DRAIN_S + 30, env=lab.environment())
        except LabError as error:
            raise LabError(f"{error}\nThe node stays, cordoned; lab/lab kubectl --name {lab.name} -- uncordon {name} lets pods "
                           "come to it again") from None


def _forget_files(node):
    """Its disks, its certificate, its logs: a node of the same name that joins later is another machine."""
    for part in node.parts():
        part.pid_file.unlink(missing_ok=True)
        part.log_file.unlink(missing_ok=True)
    node.lab.pki.forget_node(node.spec.name)
    if node.folder.exists():
        remove_folder(node.folder)
