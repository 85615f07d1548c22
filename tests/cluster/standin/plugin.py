#!/usr/bin/python3
"""Stands for NVIDIA's device plugin: offers GPUs to the kubelet as nvidia.com/gpu, healthy as long as it runs.

    plugin.py [RESOURCE [COUNT]]    runs in the node's root, as root
"""
import pathlib
import signal
import sys
import threading
from concurrent import futures

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "component"))
from fake_kubelet import MESSAGES, msg    # noqa: E402

FOLDER = pathlib.Path("/var/lib/kubelet/device-plugins")
RESOURCE = sys.argv[1] if len(sys.argv) > 1 else "nvidia.com/gpu"
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 1
SOCKET = FOLDER / "nvidia-gpu.sock"    # the name of NVIDIA's own (k8s-device-plugin 0.17)
ENDED = threading.Event()


def list_and_watch(_request, context):
    yield msg("ListAndWatchResponse", devices=[msg("Device", ID=f"GPU-{i}", health="Healthy") for i in range(COUNT)])
    while context.is_active() and not ENDED.wait(1):
        pass


def allocate(request, _context):
    return msg("AllocateResponse", container_responses=[
        msg("ContainerAllocateResponse", envs={"NVIDIA_VISIBLE_DEVICES": ",".join(c.devices_ids)}) for c in request.container_requests])


def handler(kind, fn, request):
    return kind(fn, request_deserializer=MESSAGES["v1beta1", request].FromString, response_serializer=lambda m: m.SerializeToString())


def main():
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ENDED.set())
    server = grpc.server(futures.ThreadPoolExecutor(8))
    unary = grpc.unary_unary_rpc_method_handler
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", {
        "GetDevicePluginOptions": handler(unary, lambda *_: msg("DevicePluginOptions"), "Empty"),
        "ListAndWatch": handler(grpc.unary_stream_rpc_method_handler, list_and_watch, "Empty"),
        "Allocate": handler(unary, allocate, "AllocateRequest")}),))
    SOCKET.unlink(missing_ok=True)
    server.add_insecure_port(f"unix:{SOCKET}")
    server.start()
    with grpc.insecure_channel(f"unix:{FOLDER}/kubelet.sock", options=[("grpc.default_authority", "localhost")]) as kubelet:
        kubelet.unary_unary("/v1beta1.Registration/Register", request_serializer=lambda m: m.SerializeToString())(
            msg("RegisterRequest", version="v1beta1", endpoint=SOCKET.name, resource_name=RESOURCE), timeout=10)
    print(f"{RESOURCE}: {COUNT}", flush=True)
    ENDED.wait()
    server.stop(0).wait()
    SOCKET.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
