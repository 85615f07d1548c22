#!/usr/bin/python3
"""A kubelet and a container runtime as a device plugin sees them, over real gRPC (grpcio). It does what kubelet 1.36.3
does: at its start it removes all sockets of the plugin directory and reads its checkpoint; Register dials back and calls
GetDevicePluginOptions before it answers; pods are admitted one at a time, and a pod is in PodResources only from its
turn on; init containers first, in spec order, whose ids are given again; the checkpoint is written after each
allocation; PreStartContainer at each start of a container; an error of Allocate fails the pod for good.

    kubelet = FakeKubelet(directory)
    kubelet.start()
    kubelet.wait_devices(60)
    kubelet.admit(pod)                          # AdmissionError: the pod is Failed
    container = kubelet.run(pod, "main")        # StartError: it stays Pending
    container.env, container.devices, container.mounts

The messages are built here from the numbers in the documentation of the APIs, independently of ration's own."""
import base64
import hashlib
import json
import os
import pathlib
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

RESOURCE = "aliyun.com/gpu-mem"
GPU_COUNT = "aliyun.com/gpu-count"
CORE = "aliyun.com/gpu-core.percentage"
WHOLE = "aliyun.com/gpu"

# message -> fields: (name, number, type); "*" repeated, "{" a map of strings, other names are messages
SCHEMA = {
    "v1beta1": {
        "Empty": [],
        "DevicePluginOptions": [("pre_start_required", 1, "bool"), ("get_preferred_allocation_available", 2, "bool")],
        "RegisterRequest": [("version", 1, "string"), ("endpoint", 2, "string"), ("resource_name", 3, "string"),
                            ("options", 4, "DevicePluginOptions")],
        "NUMANode": [("ID", 1, "int64")],
        "TopologyInfo": [("nodes", 1, "*NUMANode")],
        "Device": [("ID", 1, "string"), ("health", 2, "string"), ("topology", 3, "TopologyInfo")],
        "ListAndWatchResponse": [("devices", 1, "*Device")],
        "ContainerPreferredAllocationRequest": [("available_deviceIDs", 1, "*string"),
                                                ("must_include_deviceIDs", 2, "*string"),
                                                ("allocation_size", 3, "int32")],
        "PreferredAllocationRequest": [("container_requests", 1, "*ContainerPreferredAllocationRequest")],
        "ContainerPreferredAllocationResponse": [("deviceIDs", 1, "*string")],
        "PreferredAllocationResponse": [("container_responses", 1, "*ContainerPreferredAllocationResponse")],
        "ContainerAllocateRequest": [("devices_ids", 1, "*string")],
        "AllocateRequest": [("container_requests", 1, "*ContainerAllocateRequest")],
        "Mount": [("container_path", 1, "string"), ("host_path", 2, "string"), ("read_only", 3, "bool")],
        "DeviceSpec": [("container_path", 1, "string"), ("host_path", 2, "string"), ("permissions", 3, "string")],
        "CDIDevice": [("name", 1, "string")],
        "ContainerAllocateResponse": [("envs", 1, "{"), ("mounts", 2, "*Mount"), ("devices", 3, "*DeviceSpec"),
                                      ("annotations", 4, "{"), ("cdi_devices", 5, "*CDIDevice")],
        "AllocateResponse": [("container_responses", 1, "*ContainerAllocateResponse")],
        "PreStartContainerRequest": [("devices_ids", 1, "*string")],
        "PreStartContainerResponse": [],
    },
    "v1": {
        "ListPodResourcesRequest": [],
        "NUMANode": [("ID", 1, "int64")],
        "TopologyInfo": [("nodes", 1, "*NUMANode")],
        "ContainerDevices": [("resource_name", 1, "string"), ("device_ids", 2, "*string"),
                             ("topology", 3, "TopologyInfo")],
        "ContainerResources": [("name", 1, "string"), ("devices", 2, "*ContainerDevices"), ("cpu_ids", 3, "*int64")],
        "PodResources": [("name", 1, "string"), ("namespace", 2, "string"), ("containers", 3, "*ContainerResources")],
        "ListPodResourcesResponse": [("pod_resources", 1, "*PodResources")],
    },
    "runtime.v1": {
        "StatusRequest": [("verbose", 1, "bool")],
        "RuntimeCondition": [("type", 1, "string"), ("status", 2, "bool")],
        "RuntimeStatus": [("conditions", 1, "*RuntimeCondition")],
        "StatusResponse": [("status", 1, "RuntimeStatus"), ("info", 2, "{")],
        "ListPodSandboxRequest": [],
        "PodSandboxMetadata": [("name", 1, "string"), ("uid", 2, "string"), ("namespace", 3, "string")],
        "PodSandbox": [("id", 1, "string"), ("metadata", 2, "PodSandboxMetadata"), ("state", 3, "int32")],
        "ListPodSandboxResponse": [("items", 1, "*PodSandbox")],
        "ContainerFilter": [("id", 1, "string")],
        "ListContainersRequest": [("filter", 1, "ContainerFilter")],
        "Container": [("id", 1, "string"), ("pod_sandbox_id", 2, "string"), ("state", 6, "int32"), ("created_at", 7, "int64"),
                      ("labels", 8, "{")],
        "ListContainersResponse": [("containers", 1, "*Container")],
        "ImageSpec": [("image", 1, "string")],
        "ImageStatusRequest": [("image", 1, "ImageSpec"), ("verbose", 2, "bool")],
        "ImageStatusResponse": [("info", 2, "{")],
    },
    "containerd": {
        "Any": [("type_url", 1, "string"), ("value", 2, "bytes")],
        "PluginInfoRequest": [("type", 1, "string"), ("id", 2, "string"), ("options", 3, "Any")],
        "PluginInfoResponse": [("extra", 2, "Any")],
        "RuntimeRequest": [("runtime_path", 1, "string"), ("options", 2, "Any")],
        "RuncOptions": [("binary_name", 6, "string")],
        "RuntimeInfo": [("name", 1, "string"), ("features", 4, "Any")],
    },
}


def build_messages(schema):
    pool = descriptor_pool.DescriptorPool()
    kinds = {name: getattr(descriptor_pb2.FieldDescriptorProto, "TYPE_" + name.upper())
             for name in ("bool", "string", "bytes", "int32", "int64")}
    found = {}
    for package, messages in schema.items():
        file = descriptor_pb2.FileDescriptorProto(name=package + ".proto", package=package, syntax="proto3")
        for name, fields in messages.items():
            message = file.message_type.add(name=name)
            for field_name, number, kind in fields:
                add_field(message, package, name, field_name, number, kind, kinds)
        pool.Add(file)
        for name in messages:
            descriptor = pool.FindMessageTypeByName(f"{package}.{name}")
            found[package, name] = message_factory.MessageFactory(pool).GetPrototype(descriptor)
    return found


def add_field(message, package, owner, name, number, kind, kinds):
    field = message.field.add(name=name, number=number, label=1)
    if kind == "{":
        entry = message.nested_type.add(name=name.capitalize() + "Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, type=kinds["string"])
        entry.field.add(name="value", number=2, label=1, type=kinds["string"])
        field.label, field.type, field.type_name = 3, 11, f".{package}.{owner}.{entry.name}"
        return
    if kind.startswith("*"):
        field.label, kind = 3, kind[1:]
    if kind in kinds:
        field.type = kinds[kind]
    else:
        field.type, field.type_name = 11, f".{package}.{kind}"


MESSAGES = build_messages(SCHEMA)


def msg(kind, package="v1beta1", /, **fields):
    return MESSAGES[package, kind](**fields)


class AdmissionError(Exception):
    """UnexpectedAdmissionError: the pod is Failed, for good."""


class StartError(Exception):
    """The container is not created; the kubelet would try again."""


class Container:
    """What the runtime would give to the container."""

    def __init__(self):
        self.env, self.devices, self.mounts, self.cdi = {}, {}, {}, []


class Plugin:
    """The kubelet's side of one registered plugin."""

    def __init__(self, socket):
        self.channel = grpc.insecure_channel(f"unix:{socket}", options=[("grpc.default_authority", "localhost")])

    def call(self, method, request, response, timeout=10):
        stub = self.channel.unary_unary(f"/v1beta1.DevicePlugin/{method}",
                                        request_serializer=lambda m: m.SerializeToString(),
                                        response_deserializer=MESSAGES["v1beta1", response].FromString)
        return stub(request, timeout=timeout)

    def watch(self):
        stub = self.channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch",
                                         request_serializer=lambda m: m.SerializeToString(),
                                         response_deserializer=MESSAGES["v1beta1", "ListAndWatchResponse"].FromString)
        return stub(msg("Empty"))

    def close(self):
        self.channel.close()


class Beside:
    """What the kubelet has of a second resource, in devices of its own."""

    def __init__(self):
        self.plugin, self.options, self.devices, self.updates = None, None, {}, 0
        self.registrations, self.given, self.answers, self.devices_at = [], {}, [], None


def limits(container, resource=RESOURCE):
    return int(container.get("resources", {}).get("limits", {}).get(resource, 0))


def is_sidecar(container):
    return container.get("restartPolicy") == "Always"


def container_id(uid, name):
    """As the runtime has it: 64 digits."""
    return hashlib.sha256(f"{uid}-{name}".encode()).hexdigest()


class FakeKubelet:
    def __init__(self, directory, cdi=True, cdi_dir=None):
        self.dir = pathlib.Path(directory)
        self.plugin_dir = self.dir / "device-plugins"
        self.pod_resources_socket = self.dir / "pod-resources.sock"
        self.cri_socket = self.dir / "cri.sock"
        self.cdi_dir = cdi_dir or self.dir / "cdi"
        self.checkpoint = self.plugin_dir / "kubelet_internal_checkpoint"
        self.plugin_dir.mkdir()
        self.cdi_dir.mkdir()
        self.checksum_is_wrong = False    # the checkpoint can be read, but the kubelet does not believe it
        self.cri_refusals = 0    # so many lists of sandboxes fail, as in a containerd that has just started
        self.images, self.image_delay = {"example": ["PATH=/usr/bin"]}, 0    # name: environment
        self.runc_features = None    # what `runc features` prints; None: as a containerd before 2.0 answers
        self.runc_asked = []    # the BinaryName of each question
        self.cri_config = {"cdiSpecDirs": ["/etc/cdi", str(self.cdi_dir)]} if cdi else {"enableCDI": False}
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.pods = {}          # uid -> pod, as PodResources lists them
        self.given = {}         # (uid, container) -> [ids]
        self.answers = {}       # (uid, container) -> ContainerAllocateResponse
        self.shown = {}         # uid -> what PodResources shows of it
        self.plugin = None
        self.devices = {}       # id -> health, empty while nobody is registered
        self.updates = 0
        self.registrations = []     # (time, RegisterRequest)
        self.containers = {}        # (uid, container) -> 0 created, 1 running, 2 exited, as the runtime has them
        self.created_at = {}        # (uid, container) -> ns since 1970
        self.sandboxes = set()      # uids whose sandbox is ready
        self.restarted = {}         # id of a container that was started again -> (uid, container)
        self.unnamed = set()        # ids of which the runtime does not answer (yet)
        self.exhaust = 0            # so many List calls are answered ResourceExhausted
        self.next_list_takes = 0    # seconds
        self.lists = 0
        self.server = self.resources_server = self.cri_server = None
        self.started_at = None
        self.core = Beside()        # of gpu-core.percentage
        self.whole = Beside()       # of whole cards: a container asks for them or for gpu-mem, never both
        self.core_first = False     # the kubelet asks for a container's resources in no order: a map of Go

    # ---- services ----

    @staticmethod
    def serve(socket, services):
        server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        for service, methods in services.items():
            handlers = {name: grpc.unary_unary_rpc_method_handler(
                fn, request_deserializer=request.FromString, response_serializer=lambda m: m.SerializeToString())
                for name, (fn, request) in methods.items()}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        pathlib.Path(socket).unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        return server

    def start_runtime(self):
        self.cri_server = self.serve(self.cri_socket, {
            "runtime.v1.RuntimeService": {
                "Status": (self.on_status, MESSAGES["runtime.v1", "StatusRequest"]),
                "ListPodSandbox": (self.on_sandboxes, MESSAGES["runtime.v1", "ListPodSandboxRequest"]),
                "ListContainers": (self.on_containers, MESSAGES["runtime.v1", "ListContainersRequest"])},
            "runtime.v1.ImageService": {
                "ImageStatus": (self.on_image, MESSAGES["runtime.v1", "ImageStatusRequest"])},
            "containerd.services.introspection.v1.Introspection": {
                "PluginInfo": (self.on_plugin_info, MESSAGES["containerd", "PluginInfoRequest"])}})

    def start(self):
        if not self.cri_server:
            self.start_runtime()
        for path in self.plugin_dir.iterdir():
            if path.is_socket():
                path.unlink()
        self.read_checkpoint()
        self.resources_server = self.serve(self.pod_resources_socket, {"v1.PodResourcesLister": {
            "List": (self.on_list, MESSAGES["v1", "ListPodResourcesRequest"])}})
        self.started_at = time.monotonic()
        self.server = self.serve(self.plugin_dir / "kubelet.sock", {"v1beta1.Registration": {
            "Register": (self.on_register, MESSAGES["v1beta1", "RegisterRequest"])}})

    def stop(self):
        for server in (self.server, self.resources_server):
            if server:
                server.stop(0).wait()
        self.server = self.resources_server = None
        with self.lock:
            if self.plugin:
                self.plugin.close()
            self.plugin, self.devices = None, {}
            if self.core.plugin:
                self.core.plugin.close()
            self.core.plugin, self.core.devices = None, {}
            if self.whole.plugin:
                self.whole.plugin.close()
            self.whole.plugin, self.whole.devices = None, {}

    def stop_all(self):
        self.unnamed.clear()
        self.stop()
        if self.cri_server:
            self.cri_server.stop(0).wait()

    def restart(self):
        """Returns the seconds from the new socket to the devices."""
        n = self.updates
        self.stop()
        self.start()
        with self.changed:
            assert self.changed.wait_for(lambda: self.updates > n, 10), "nobody registered"
            return self.devices_at - self.started_at

    def on_status(self, request, _context):
        info = {"config": json.dumps(self.cri_config)} if request.verbose else {}
        return msg("StatusResponse", "runtime.v1", info=info)

    def on_image(self, request, context):
        """As containerd answers when it is asked to be verbose."""
        time.sleep(self.image_delay)
        if request.image.image not in self.images:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the image store is away")
        config = {"imageSpec": {"architecture": "amd64", "os": "linux", "config": {"Env": self.images[request.image.image]}}}
        return msg("ImageStatusResponse", "runtime.v1", info={"info": json.dumps(config)} if request.verbose else {})

    def on_plugin_info(self, request, context):
        """As containerd 2.4.2 answers for its plugin of tasks (internal introspection service, TaskManager.PluginInfo())."""
        if self.runc_features is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method PluginInfo")
        assert (request.type, request.id) == ("io.containerd.runtime.v2", "task")
        assert request.options.type_url == "containerd.types.RuntimeRequest"
        runtime = MESSAGES["containerd", "RuntimeRequest"].FromString(request.options.value)
        assert runtime.runtime_path == "io.containerd.runc.v2" and runtime.options.type_url in ("", "containerd.runc.v1.Options")
        self.runc_asked.append(MESSAGES["containerd", "RuncOptions"].FromString(runtime.options.value).binary_name)
        info = msg("RuntimeInfo", "containerd", name=runtime.runtime_path, features=msg(
            "Any", "containerd", type_url="types.containerd.io/opencontainers/runtime-spec/1/features/Features",
            value=self.runc_features.encode()))
        return msg("PluginInfoResponse", "containerd", extra=msg(
            "Any", "containerd", type_url="containerd.types.RuntimeInfo", value=info.SerializeToString()))

    def on_sandboxes(self, _request, context):
        if self.cri_refusals:
            self.cri_refusals -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "server is not initialized yet")
        with self.lock:
            return msg("ListPodSandboxResponse", "runtime.v1", items=[
                msg("PodSandbox", "runtime.v1", id=f"s-{uid}", state=int(uid not in self.sandboxes),
                    metadata=msg("PodSandboxMetadata", "runtime.v1", uid=uid)) for uid, _ in self.containers])

    def on_containers(self, request, _context):
        asked = request.filter.id
        while asked in self.unnamed:
            time.sleep(0.002)
        with self.lock:
            known = [(container_id(*key), key, state) for key, state in self.containers.items()]
            known += [(one, key, 1) for one, key in self.restarted.items()]
            return msg("ListContainersResponse", "runtime.v1", containers=[
                msg("Container", "runtime.v1", id=one, pod_sandbox_id=f"s-{uid}", state=state, created_at=self.created_at.get((uid, name), 0),
                    labels={"io.kubernetes.pod.uid": uid, "io.kubernetes.container.name": name})
                for one, (uid, name), state in known if asked in ("", one)])

    def on_register(self, request, context):
        plugin = Plugin(self.plugin_dir / request.endpoint)
        try:
            options = plugin.call("GetDevicePluginOptions", msg("Empty"), "DevicePluginOptions")
        except grpc.RpcError as e:
            context.abort(grpc.StatusCode.UNKNOWN, f"failed to dial device plugin: {e.code()}")
        mine = {CORE: self.core, WHOLE: self.whole}.get(request.resource_name, self)
        with self.changed:
            mine.registrations.append((time.monotonic(), request))
            mine.options = options
            if mine.plugin:
                mine.plugin.close()
            mine.plugin = plugin
        threading.Thread(target=self.follow, args=(plugin, mine), daemon=True).start()
        return msg("Empty")

    def follow(self, plugin, mine):
        try:
            for update in plugin.watch():
                with self.changed:
                    if mine.plugin is not plugin:
                        return
                    mine.devices = {d.ID: d.health for d in update.devices}
                    mine.topology = [d.ID for d in update.devices if d.HasField("topology")]
                    mine.updates += 1
                    mine.devices_at = time.monotonic()
                    self.changed.notify_all()
        except (grpc.RpcError, ValueError):
            pass
        with self.changed:
            if mine.plugin is plugin:
                mine.devices = {i: "Unhealthy" for i in mine.devices}
                self.changed.notify_all()

    def on_list(self, _request, context):
        takes, self.next_list_takes = self.next_list_takes, 0
        time.sleep(takes)
        with self.lock:
            self.lists += 1
            if self.exhaust:
                self.exhaust -= 1
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rate limit")
            return msg("ListPodResourcesResponse", "v1", pod_resources=[self.listed(p) for p in self.pods.values()])

    def listed(self, pod):
        """Made once per pod and state: a kubelet is not made of Python, and its time counts in ours."""
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        containers = [c for c in spec.get("initContainers", []) if is_sidecar(c)] + spec["containers"]
        state = [given.get((uid, c["name"])) for c in containers for given in (self.given, self.core.given, self.whole.given)]
        if uid not in self.shown or self.shown[uid][0] != state:
            self.shown[uid] = state, self.show(pod, containers)
        return self.shown[uid][1]

    def show(self, pod, containers):
        uid = pod["metadata"]["uid"]
        shown = []
        for c in containers:
            devices = [msg("ContainerDevices", "v1", resource_name=name, device_ids=given[uid, c["name"]])
                       for name, given in ((CORE, self.core.given), (RESOURCE, self.given), (WHOLE, self.whole.given))
                       if given.get((uid, c["name"]))]
            shown.append(msg("ContainerResources", "v1", name=c["name"], devices=devices))
        return msg("PodResources", "v1", name=pod["metadata"]["name"], namespace=pod["metadata"]["namespace"],
                   containers=shown)

    # ---- checkpoint ----

    def write_checkpoint(self):
        entries = [{"PodUID": uid, "ContainerName": name, "ResourceName": resource, "DeviceIDs": {"-1": ids},
                    "AllocResp": "" if resource == CORE else self.packed_answer(uid, name)} for resource, given in ((RESOURCE, self.given), (CORE, self.core.given),
                                                         (WHOLE, self.whole.given))
                   for (uid, name), ids in given.items()]
        known = {RESOURCE: list(self.devices)} | ({CORE: list(self.core.devices)} if self.core.registrations else {})
        text = json.dumps({"Data": {"PodDeviceEntries": entries or None, "RegisteredDevices": known},
                           "Checksum": 1234567890123})
        temporary = self.checkpoint.with_suffix(".tmp")
        temporary.write_text(text)
        os.replace(temporary, self.checkpoint)

    def packed_answer(self, uid, name):
        """Go's JSON has bytes in base64."""
        answer = self.answers.get((uid, name))
        return base64.b64encode(answer.SerializeToString()).decode() if answer else ""

    def read_checkpoint(self):
        """A kubelet goes on without a record where it cannot read one (readCheckpoint(), manager.go:520 at 1.36.3)."""
        self.given, self.core.given, self.whole.given = {}, {}, {}
        try:
            data = json.loads(self.checkpoint.read_text())["Data"]
            self.given, self.core.given, self.whole.given = (
                {(e["PodUID"], e["ContainerName"]): sum(e["DeviceIDs"].values(), [])
                 for e in data["PodDeviceEntries"] or [] if e["ResourceName"] == resource}
                for resource in (RESOURCE, CORE, WHOLE))
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return
        if self.checksum_is_wrong:
            self.given, self.core.given, self.whole.given = {}, {}, {}

    # ---- pods ----

    def wait_devices(self, n, health="Healthy", timeout=10, of=None):
        mine = of or self
        with self.changed:
            ok = self.changed.wait_for(lambda: list(mine.devices.values()).count(health) == n, timeout)
            have = list(mine.devices.values())
            assert ok, f"{have.count(health)} of {len(have)} devices are {health}, not {n}"

    def has_healthy_devices(self):
        with self.lock:
            return any("Healthy" in mine.devices.values() for mine in (self, self.core, self.whole))

    def list_pod(self, pod):
        """The pod's turn has come: PodResources lists it."""
        with self.lock:
            self.pods[pod["metadata"]["uid"]] = pod

    def restart_with(self, pods):
        """As restart(); then the first batch of pods, in the order of their creation. A container that runs, and one
        that has its devices by the checkpoint, is not asked for (devicesToAllocate(), manager.go:609 at 1.36.3)."""
        with self.lock:
            self.pods = {}
            running = {key for key, state in self.containers.items() if state == 1}
        self.restart()
        for pod in pods:
            self.admit(pod, skip=running | set(self.given) | set(self.whole.given))

    def admit(self, pod, preferred=True, skip=(), listed=None):
        """listed: another pod is in the list meanwhile, as no kubelet is known to do it."""
        self.list_pod(listed or pod)
        spec, reuse = pod["spec"], []
        wanted = [c for c in spec.get("initContainers", []) + spec["containers"]
                  if (pod["metadata"]["uid"], c["name"]) not in skip]
        try:
            for c in wanted:
                ids = self.allocate(pod, c, reuse, preferred)
                if c in spec["containers"] or is_sidecar(c):
                    reuse = [i for i in reuse if i not in ids]
                else:
                    reuse = sorted(set(reuse) | set(ids))
        except grpc.RpcError as e:
            self.remove(pod)
            raise AdmissionError(e.details()) from None
        self.list_pod(pod)

    def allocate(self, pod, container, reuse, preferred):
        if self.core_first:
            self.allocate_core(pod, container)
        ids = self.allocate_mem(pod, container, reuse, preferred)
        if not self.core_first:
            self.allocate_core(pod, container)
        return ids

    def allocate_core(self, pod, container):
        """No ids are given again, and nobody is asked which: they count, no more."""
        n, key = limits(container, CORE), (pod["metadata"]["uid"], container["name"])
        if not n:
            return
        with self.lock:
            used = {i for ids in self.core.given.values() for i in ids}
            free = [i for i, h in self.core.devices.items() if h == "Healthy" and i not in used]
            plugin = self.core.plugin
        if len(free) < n:
            raise AdmissionError("Allocate failed due to requested number of devices unavailable for " + CORE)
        answer = plugin.call("Allocate", msg("AllocateRequest", container_requests=[
            msg("ContainerAllocateRequest", devices_ids=free[:n])]), "AllocateResponse")
        assert len(answer.container_responses) == 1, "no containers return in allocation response"
        with self.lock:
            self.core.given[key] = free[:n]
            self.core.answers.append(answer.container_responses[0])
            self.write_checkpoint()

    def allocate_mem(self, pod, container, reuse, preferred):
        n, uid = limits(container), pod["metadata"]["uid"]
        mine = self
        if limits(container, WHOLE):
            n, mine = limits(container, WHOLE), self.whole
        if not n:
            return []
        with self.lock:
            used = {i for ids in mine.given.values() for i in ids}
            free = sorted(i for i, h in mine.devices.items() if h == "Healthy" and i not in used)
            plugin = mine.plugin
        ids = sorted(reuse)[:n]
        if len(ids) < n:
            if len(free) < n - len(ids):
                raise AdmissionError("Allocate failed due to requested number of devices unavailable")
            if preferred:
                ids = self.ask_preferred(plugin, free + ids, ids, n)
            ids = (ids + [i for i in free if i not in ids])[:n]
        answer = plugin.call("Allocate", msg("AllocateRequest", container_requests=[
            msg("ContainerAllocateRequest", devices_ids=ids)]), "AllocateResponse")
        assert len(answer.container_responses) == 1
        with self.lock:
            mine.given[uid, container["name"]] = ids
            self.answers[uid, container["name"]] = answer.container_responses[0]
            self.write_checkpoint()
        return ids

    def ask_preferred(self, plugin, available, must, n):
        answer = plugin.call("GetPreferredAllocation", msg("PreferredAllocationRequest", container_requests=[
            msg("ContainerPreferredAllocationRequest", available_deviceIDs=available, must_include_deviceIDs=must,
                allocation_size=n)]), "PreferredAllocationResponse")
        ids = list(answer.container_responses[0].deviceIDs)
        assert set(must) <= set(ids) <= set(available) and len(ids) <= n
        return ids

    def run(self, pod, name):
        """Starts a container: PreStartContainer, then what the runtime makes of Allocate's answer."""
        uid = pod["metadata"]["uid"]
        mine = self.whole if (uid, name) in self.whole.given else self
        try:
            mine.plugin.call("PreStartContainer",
                             msg("PreStartContainerRequest", devices_ids=mine.given[uid, name]),
                             "PreStartContainerResponse", timeout=30)
        except grpc.RpcError as e:
            raise StartError(e.details()) from None
        answer, container = self.answers[uid, name], Container()
        container.env.update(answer.envs)
        container.devices.update({d.container_path: d.host_path for d in answer.devices})
        for device in answer.cdi_devices:
            container.cdi.append(device.name)
            self.inject(device.name, container)
        with self.lock:
            self.containers[uid, name] = 1
            self.sandboxes.add(uid)
        return container

    def end(self, pod, sandbox=True):
        """Its containers have ended, its sandbox is stopped."""
        with self.lock:
            for key in [k for k in self.containers if k[0] == pod["metadata"]["uid"]]:
                self.containers[key] = 2
            if sandbox:
                self.sandboxes.discard(pod["metadata"]["uid"])

    def inject(self, name, container):
        kind, device = name.split("=")
        for path in sorted(self.cdi_dir.glob("*.json")):
            spec = json.loads(path.read_text())
            if spec["kind"] != kind:
                continue
            for d in spec["devices"]:
                if d["name"] == device:
                    self.apply(d["containerEdits"], container)
                    return
        raise StartError(f"CDI device injection failed: unresolvable CDI devices {name}")

    @staticmethod
    def apply(edits, container):
        container.env.update(e.split("=", 1) for e in edits.get("env", []))
        container.devices.update({d["path"]: d.get("hostPath", d["path"]) for d in edits.get("deviceNodes", [])})
        container.mounts.update({m["containerPath"]: m for m in edits.get("mounts", [])})

    def remove(self, pod):
        """The pod is over for the kubelet: not listed, its ids are free."""
        with self.lock:
            uid = pod["metadata"]["uid"]
            self.pods.pop(uid, None)
            for given in (self.given, self.core.given, self.whole.given):
                for key in [k for k in given if k[0] == uid]:
                    del given[key]
