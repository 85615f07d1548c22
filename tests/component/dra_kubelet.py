"""The kubelet's side of a driver of Dynamic Resource Allocation, over real gRPC: it finds the driver's socket, asks for its name, says
that it is registered, and asks it to prepare and to unprepare claims (k8s.io/kubelet at 1.36).

The messages are built here from the numbers in the documentation of the APIs, independently of ration's own."""
import contextlib
import pathlib

import grpc

from fake_apiserver import wait_for
from fake_kubelet import build_messages

DRA = "k8s.io.kubelet.pkg.apis.dra.v1"
# A map is a list of entries on the wire.
SCHEMA = {
    "pluginregistration": {
        "InfoRequest": [],
        "PluginInfo": [("type", 1, "string"), ("name", 2, "string"), ("endpoint", 3, "string"), ("supported_versions", 4, "*string")],
        "RegistrationStatus": [("plugin_registered", 1, "bool"), ("error", 2, "string")],
        "RegistrationStatusResponse": [],
    },
    DRA: {
        "Claim": [("namespace", 1, "string"), ("uid", 2, "string"), ("name", 3, "string")],
        "Device": [("request_names", 1, "*string"), ("pool_name", 2, "string"), ("device_name", 3, "string"),
                   ("cdi_device_ids", 4, "*string"), ("share_id", 5, "string")],
        "NodePrepareResourcesRequest": [("claims", 1, "*Claim")],
        "NodePrepareResourceResponse": [("devices", 1, "*Device"), ("error", 2, "string")],
        "PrepareEntry": [("key", 1, "string"), ("value", 2, "NodePrepareResourceResponse")],
        "NodePrepareResourcesResponse": [("claims", 1, "*PrepareEntry")],
        "NodeUnprepareResourcesRequest": [("claims", 1, "*Claim")],
        "NodeUnprepareResourceResponse": [("error", 1, "string")],
        "UnprepareEntry": [("key", 1, "string"), ("value", 2, "NodeUnprepareResourceResponse")],
        "NodeUnprepareResourcesResponse": [("claims", 1, "*UnprepareEntry")],
    },
    "v1alpha1": {
        "NodeWatchResourcesRequest": [],
        "DeviceIdentifier": [("pool_name", 1, "string"), ("device_name", 2, "string")],
        "DeviceHealth": [("device", 1, "DeviceIdentifier"), ("health", 2, "int32"), ("last_updated_time", 3, "int64"),
                         ("health_check_timeout_seconds", 4, "int64"), ("message", 5, "string")],
        "NodeWatchResourcesResponse": [("devices", 1, "*DeviceHealth")],
    },
}
MESSAGES = build_messages(SCHEMA)


def msg(kind, package=DRA, /, **fields):
    return MESSAGES[package, kind](**fields)


def request_of(method, claims):
    return msg(f"{method}Request", claims=[msg("Claim", namespace=c["metadata"]["namespace"], uid=c["metadata"]["uid"],
                                               name=c["metadata"]["name"]) for c in claims])


class Channel:
    def __init__(self, socket):
        self.channel = grpc.insecure_channel(f"unix:{socket}", options=[("grpc.default_authority", "localhost")])

    def begin(self, service, method, request, package, response, timeout=60):
        stub = self.channel.unary_unary(f"/{service}/{method}", request_serializer=lambda m: m.SerializeToString(),
                                        response_deserializer=MESSAGES[package, response].FromString)
        return stub.future(request, timeout=timeout)

    def call(self, service, method, request, package, response, timeout=10):
        return self.begin(service, method, request, package, response, timeout).result()

    def stream(self, service, method, request, package, response):
        stub = self.channel.unary_stream(f"/{service}/{method}", request_serializer=lambda m: m.SerializeToString(),
                                         response_deserializer=MESSAGES[package, response].FromString)
        return stub(request)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()


class DraKubelet:
    """directory: the kubelet's, with plugins and plugins_registry."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        (self.directory / "plugins_registry").mkdir(exist_ok=True)
        self.info = None

    def registration_socket(self):
        found = list((self.directory / "plugins_registry").glob("*.sock"))
        return found[0] if found else None

    def register(self, registered=True, error=""):
        """As the kubelet it tries again: the socket may be that of an agent that was killed."""
        return wait_for(lambda: self.try_to_register(registered, error), what="the registration")

    def try_to_register(self, registered, error):
        socket = self.registration_socket()
        try:
            return socket and self.register_at(socket, registered, error)
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.UNAVAILABLE, e
            return None

    def register_at(self, socket, registered, error):
        with Channel(socket) as channel:
            self.info = channel.call("pluginregistration.Registration", "GetInfo", msg("InfoRequest", "pluginregistration"),
                                     "pluginregistration", "PluginInfo")
            status = msg("RegistrationStatus", "pluginregistration", plugin_registered=registered, error=error)
            channel.call("pluginregistration.Registration", "NotifyRegistrationStatus", status, "pluginregistration",
                         "RegistrationStatusResponse")
        return self.info

    @contextlib.contextmanager
    def channel(self):
        """One connection for several calls: .later(method, claim) is the future of its answer."""
        with Channel(self.info.endpoint) as channel:
            channel.later = lambda method, *claims: channel.begin(
                f"{DRA}.DRAPlugin", method, request_of(method, claims), DRA, f"{method}Response")
            yield channel

    def call(self, method, claims, timeout=10):
        """claims: objects of the API server. -> uid: answer."""
        request = request_of(method, claims)
        with Channel(self.info.endpoint) as channel:
            answer = channel.call(f"{DRA}.DRAPlugin", method, request, DRA, f"{method}Response", timeout)
        return {entry.key: entry.value for entry in answer.claims}

    def prepare(self, *claims, **more):
        return self.call("NodePrepareResources", claims, **more)

    def unprepare(self, *claims, **more):
        return self.call("NodeUnprepareResources", claims, **more)
