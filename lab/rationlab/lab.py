"""One lab, put together from its parts: up, down, and what can be asked of it in between."""

import datetime
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

from . import binaries, cgroups, charts, images, layout, network, preflight, procs, recipes, state
from .controlplane import ControlPlane
from .errors import LabError
from .node import NodeRuntime, restart_layer
from .paths import product_build
from .patience import deadline_in, patience
from .pki import Pki
from .progress import say, step


class Lab:
    def __init__(self, name, slot, setup, nodes):
        """setup and nodes, pairs (index, layout.Node), as state.read() has them."""
        self.name = name
        self.slot = slot
        self.setup = setup
        self.kubernetes = setup.kubernetes
        self.default_scheduler = setup.default_scheduler
        self.cgroup_driver = setup.cgroup_driver
        self.runtime = setup.runtime
        self.feature_gates = setup.feature_gates
        self.folder = state.folder_of(name)
        self.product = product_build()
        self.pki = Pki(self.folder, slot)
        self.control = ControlPlane(self)
        self.nodes = [NodeRuntime(self, spec, index) for index, spec in nodes]

    @classmethod
    def existing(cls, name):
        """The lab of this name; LabError when there is none."""
        record = state.read(layout.check_lab_name(name))
        if record is None:
            raise LabError(f"there is no lab {name}; lab/lab up --name {name} makes it")
        return cls(name, record["slot"], record["setup"], record["nodes"])

    def parts(self):
        return self.control.parts() + [part for node in self.nodes for part in node.parts()]

    def environment(self):
        """For kubectl and helm: the lab's kubeconfig and programs, helm's files kept in the lab's folder."""
        helm = self.folder / "helm"
        return dict(os.environ, KUBECONFIG=str(self.pki.kubeconfig("admin")), PATH=self.path_variable(),
                    HELM_CACHE_HOME=str(helm), HELM_CONFIG_HOME=str(helm), HELM_DATA_HOME=str(helm),
                    # The shell's proxy does not know the lab's address.
                    NO_PROXY="*", no_proxy="*")

    def path_variable(self):
        """First what a rebuild changes at once, then what was installed with the lab (shell completion of the plugin)."""
        own = [self.product / "src" / "cli", *(self.folder / "product").glob("usr/**/bin")]
        return ":".join([*binaries.path(self.kubernetes, self.runtime), *(str(path) for path in own if path.is_dir()),
                         os.environ["PATH"]])

    def kubectl(self, *argv):
        return [binaries.program("kubectl", self.kubernetes), *argv]

    def kubectl_output(self, *argv, stdin=None):
        return procs.run(self.kubectl(*argv), "kubectl", env=self.environment(), stdin=stdin)

    def find_part(self, text):
        """A part by its name, PART or PART@NODE; @NODE may be left out where there is only one."""
        found = [part for part in self.parts() if text in (part.name, part.name.partition("@")[0])]
        if len(found) != 1:
            names = ", ".join(part.name for part in (found or self.parts()))
            raise LabError(f"{text}: {'several parts have that name' if found else 'no such part'}; parts are {names}")
        return found[0]

    def find_node(self, name):
        for node in self.nodes:
            if node.spec.name == name:
                return node
        raise LabError(f"{name}: no such node; nodes are {', '.join(node.spec.name for node in self.nodes)}")


def up(name, specs, asked, with_charts):
    """Brings the lab up, from nothing or from wherever an earlier try ended. `asked` is a layout.Setup. Returns the Lab."""
    begun = time.monotonic()
    layout.check_lab_name(name)
    patience()    # a wrong one is told before anything is started
    preflight.check_root()
    with state.lock(name):
        try:
            record = state.read(name)
            nodes, setup = _agree(name, record, specs, asked)
            _check_cgroup_driver(name, setup.cgroup_driver, nodes)
            preflight.ensure_packages(setup.runtime)
            preflight.check_kernel(state.labs_root())
            preflight.check_disk(state.labs_root(), preflight.WARM_BYTES, "a lab")
            check_product([spec for _, spec in nodes], with_charts or setup.default_scheduler)
            binaries.build(setup.kubernetes, setup.runtime)
            lab = _register(name, record, nodes, setup)
        finally:
            if not state.folder_of(name).exists():
                state.forget_locks(name)
        _bring_up(lab, with_charts)
    say(f"lab {name} is up after {time.monotonic() - begun:.1f} s: {len(lab.nodes)} nodes, "
        f"Kubernetes {setup.kubernetes}, {setup.runtime}, simulated GPUs")
    return lab


def _agree(name, record, specs, asked):
    """What the lab shall be: as asked, as it is, or as the documents have it; refused when asked and existing differ."""
    if record is None:
        return list(enumerate(specs or layout.parse_nodes([]), start=1)), asked.filled()
    setup, existing = record["setup"], [spec for _, spec in record["nodes"]]
    differs = ""
    if asked.kubernetes and asked.kubernetes != setup.kubernetes:
        differs = f"runs Kubernetes {setup.kubernetes}, not {asked.kubernetes}"
    elif specs and specs != existing:
        differs = f"exists with other nodes ({', '.join(n.name for n in existing)})"
    elif asked.default_scheduler and not setup.default_scheduler:
        differs = "exists without --default-scheduler"
    elif asked.cgroup_driver and asked.cgroup_driver != setup.cgroup_driver:
        differs = f"has the cgroup driver {setup.cgroup_driver}, not {asked.cgroup_driver}"
    elif asked.runtime and asked.runtime != setup.runtime:
        differs = f"has the container runtime {setup.runtime}, not {asked.runtime}"
    elif asked.feature_gates and asked.feature_gates != setup.feature_gates:
        differs = f"has the feature gates {setup.feature_gates or '(default)'}, not {asked.feature_gates}"
    if differs:
        raise LabError(f"lab {name} {differs}; lab/lab down --name {name} first, or choose another --name")
    return record["nodes"], setup


def _check_cgroup_driver(name, cgroup_driver, nodes):
    """Under systemd the kubelet's pods are in /kubepods.slice of the machine: there can be one kubelet with such pods."""
    if cgroup_driver != "systemd":
        return
    preflight.check_systemd()
    if len(nodes) > 1:
        raise LabError(f"--cgroup-driver systemd: a lab under it has one node, not {len(nodes)}; name it with --node")
    others = [other for other in state.names_with_cgroup_driver("systemd") if other != name]
    if others:
        raise LabError(f"--cgroup-driver systemd: this machine has such a lab, {others[0]}; lab/lab down --name {others[0]} first")


def check_product(specs, with_programs):
    """Simulated GPUs and images come from the product's own build; the error comes before anything is started."""
    build = product_build()
    if (with_programs or any(spec.cards for spec in specs)) and not (build / "sim" / "ration-sim").exists():
        raise LabError(f"{build} holds no built ration; build it first (meson setup build && ninja -C build), "
                       "or name its build directory in RATION_BUILD")


def _register(name, record, nodes, setup):
    """Writes the lab down before anything of it exists, so that `down` finds whatever was started."""
    if record is not None:
        return Lab(name, record["slot"], setup, nodes)
    with state.lock():
        slot = network.free_slot(state.slots_taken())
        state.write(name, slot, setup, nodes)
        network.set_up_control(name, slot)
    return Lab(name, slot, setup, nodes)


def _bring_up(lab, with_charts):
    with step("network and certificates"):
        network.set_up_control(lab.name, lab.slot)
        lab.pki.create([node.spec.name for node in lab.nodes])
    lab.control.start_storage_and_api()
    with step(f"nodes' namespaces and {lab.runtime}"):
        for node in lab.nodes:
            node.set_up()
            node.ensure_driver()
            node.start_runtime()
    results = _Background(lambda: _images(lab, with_charts))
    with step("API server ready"):
        lab.control.wait_ready()
    lab.control.start_controllers()
    begun = int(time.time())    # the API server's times are whole seconds
    started = set()
    for node in lab.nodes:
        if node.start("kubelet"):
            started.add(node.spec.name)
    changed = results.get()
    with step("nodes ready"):
        join_nodes(lab, {node.spec.name: begun if node.spec.name in started else 0 for node in lab.nodes})
        _wait_default_account(lab)
    if with_charts:
        charts.install(lab, changed)
        charts.wait_ready(lab)


class _Background:
    """One piece of work beside the main one; its error is raised where the result is asked for."""

    def __init__(self, work):
        self._result, self._error = None, None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work):
        try:
            self._result = work()
        except Exception as error:    # pylint: disable=broad-except
            self._error = error

    def get(self):
        while self._thread.is_alive():
            self._thread.join(0.1)    # in short waits, so that Ctrl-C is heard
        if self._error is not None:
            raise self._error
        return self._result


def _images(lab, with_charts):
    """Makes and imports the images; the names of those that changed on any node."""
    begun = time.monotonic()
    product, version = {}, ""
    if with_charts:
        product, version = images.install_product(lab.product, lab.folder / "product")
    made = images.prepare(recipes.Sources(product, version, lab.kubernetes), with_charts)
    changed = set()
    for node in lab.nodes:
        node.wait_runtime()
        changed.update(images.load_into(node, made))
    say(f"{len(made)} images on {len(lab.nodes)} nodes ({time.monotonic() - begun:.1f} s)")
    return changed


def join_nodes(lab, since, timeout=60):
    """Waits until each node of `since` was reported Ready at or after its time there: an earlier report is of a kubelet gone.
    Starts the kube-proxy of each as soon as its Node exists: kube-proxy waits 30 s for that, and ends if the Node appears
    later (NodeManager in pkg/proxy/node.go)."""
    deadline = deadline_in(timeout)
    nodes = {node.spec.name: node for node in lab.nodes if node.spec.name in since}
    runs = {name: [node.runtime.program, "kubelet"] for name, node in nodes.items()}
    revivals = 5 * len(nodes)
    while True:
        items = {item["metadata"]["name"]: item for item in lab.control.get("/api/v1/nodes")["items"]}
        for name in items.keys() & nodes.keys():
            if "kube-proxy" not in runs[name]:
                nodes[name].start("kube-proxy")
                runs[name].append("kube-proxy")
        missing = sorted(name for name in nodes if name not in items or _ready_at(items[name]) < since[name])
        if not missing:
            return
        for name, node in nodes.items():
            for layer in runs[name]:
                try:
                    node.part(layer).check_running()
                except LabError:
                    # containerd opens its socket before its CRI service is ready; a kubelet that asks in between ends,
                    # and the service manager of a real node starts it again.
                    if layer != "kubelet" or not revivals:
                        raise
                    revivals -= 1
                    time.sleep(0.2 * patience())
                    node.start(layer)
        if time.monotonic() > deadline:
            raise LabError(f"not ready after {timeout} s: {', '.join(missing)}; "
                           f"lab/lab logs kubelet@{missing[0]} shows why")
        time.sleep(0.1)


def _ready_at(node):
    """When the node last said that it is ready, in seconds since the epoch; -1 if it is not."""
    for condition in node["status"].get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] == "True":
            said = datetime.datetime.strptime(condition["lastHeartbeatTime"], "%Y-%m-%dT%H:%M:%SZ")
            return said.replace(tzinfo=datetime.timezone.utc).timestamp()
    return -1


def _wait_default_account(lab, timeout=30):
    """Pods are refused until the controller-manager has made the namespace's service account."""
    deadline = deadline_in(timeout)
    while not lab.control.get("/api/v1/namespaces/default/serviceaccounts")["items"]:
        lab.control.part("kube-controller-manager").check_running()
        if time.monotonic() > deadline:
            raise LabError("the controller-manager made no service account in the namespace default")
        time.sleep(0.1)


def down(name):
    """Removes everything of the lab, whatever state it is in. False if there was nothing."""
    layout.check_lab_name(name)
    preflight.check_root()
    folder = state.folder_of(name)
    with state.lock(name):
        existed = folder.exists()
        under_systemd = name in state.names_with_cgroup_driver("systemd")
        procs.kill_marked(folder)
        if under_systemd:
            cgroups.end_systemd_pods()
        network.tear_down(name, _slot_of(name))
        cgroups.tear_down(name)
        if existed:
            remove_folder(folder)
        state.forget_locks(name)
    return existed


def _slot_of(name):
    try:
        return json.loads((state.folder_of(name) / "lab.json").read_text())["slot"]
    except (OSError, ValueError, KeyError):
        return None


def remove_folder(folder):
    """Deletes the folder of a lab or of a node; refuses while anything is mounted in it, for what is mounted is not the lab's."""
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    inside = [path for path in mounted if path == str(folder) or path.startswith(f"{folder}/")]
    if inside:
        raise LabError(f"{inside[0]} is still mounted; umount it, then run the command again")
    # The record goes last: a removal that is interrupted is found and finished by the next `down`.
    for path in sorted(folder.iterdir(), key=lambda entry: entry.name == "lab.json"):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()


def reboot(lab, name):
    """Ends a node as a power cut does and starts it again; returns when its kubelet has reported it ready."""
    node = lab.find_node(name)
    node.power_off()
    node.set_up()
    node.start_runtime()
    node.wait_runtime()
    begun = int(time.time())
    node.start("kubelet")
    join_nodes(lab, {name: begun})


def restart(lab, text, number=signal.SIGTERM):
    """Ends one part with this signal and starts it again."""
    part = lab.find_part(text)
    program, _, node = part.name.partition("@")
    if node:
        if program == "init":
            raise LabError(f"init holds the node's namespaces and cannot be restarted; see lab/lab reboot {node}")
        restart_layer(lab.find_node(node), program, number)
    else:
        # The API server drains its connections for up to a minute; the lab does not wait for that.
        part.stop(number, 3 if program == "kube-apiserver" else 10)
        lab.control.start(program)
        lab.control.wait_ready()
    part.check_running()

