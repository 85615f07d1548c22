"""ration's gRPC server (net/grpc-server.c, in the agent) under peers that nobody invited, seen by grpcio and by bare
sockets. That ration's client and grpcio's server understand each other is what test_agent.py stands on."""
import os
import socket
import struct
import threading
import time

import grpc
import pytest

from agent_fixture import SANITIZED, World, wait_for
from fake_kubelet import Plugin, msg

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST, SETTINGS, PING, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4


@pytest.fixture(scope="module")
def world():
    with World() as w:
        yield w.up(32)


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """HPACK: literal without indexing, new name, no Huffman; lengths under 127."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def request_headers(path="/v1beta1.DevicePlugin/Allocate", method="POST", kind="application/grpc"):
    return b"".join(literal(*h) for h in ((":method", method), (":scheme", "http"), (":path", path),
                                          (":authority", "localhost"), ("content-type", kind), ("te", "trailers")))


def frame_kinds(data):
    kinds = []
    while len(data) >= 9:
        kinds.append(data[3])
        data = data[9 + int.from_bytes(data[:3], "big"):]
    return kinds


class Bare:
    """A connection that says what it likes."""

    def __init__(self, world, hello=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(5)
        self.socket.connect(str(world.kubelet.plugin_dir / "ration-gpu-mem.sock"))
        if hello:
            self.say(PREFACE + frame(SETTINGS))

    def say(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass

    def hear(self, seconds=0.5):
        self.socket.settimeout(seconds)
        heard = b""
        try:
            while data := self.socket.recv(65536):
                heard += data
        except OSError:
            pass
        return heard

    def is_closed(self, seconds=5):
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(65536):
                pass
            return True
        except ConnectionError:
            return True
        except OSError:
            return False

    def close(self):
        self.socket.close()


def still_serves(world):
    plugin = Plugin(world.kubelet.plugin_dir / "ration-gpu-mem.sock")
    options = plugin.call("GetDevicePluginOptions", msg("Empty"), "DevicePluginOptions")
    plugin.close()
    assert options.pre_start_required and world.agent.poll() is None


def status_of(world, method, message, **more):
    channel = grpc.insecure_channel(f"unix:{world.kubelet.plugin_dir}/ration-gpu-mem.sock",
                                    options=[("grpc.max_send_message_length", -1)])
    try:
        channel.unary_unary(method)(message, timeout=10, **more)
        return grpc.StatusCode.OK
    except grpc.RpcError as e:
        return e.code()
    finally:
        channel.close()


@pytest.mark.parametrize("method", ["/v1beta1.DevicePlugin/Nothing", "/v1.Other/Allocate", "/",
                                    "/v1beta1.DevicePlugin/Allocate/", "/" + "x" * 2000], ids=range(5))
def test_unknown_method_is_unimplemented(world, method):
    assert status_of(world, method, b"") == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("method", ["Allocate", "GetPreferredAllocation", "PreStartContainer"])
@pytest.mark.parametrize("message", [b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05ab", os.urandom(1000)],
                         ids=range(4))
def test_malformed_message_is_an_invalid_argument(world, method, message):
    assert status_of(world, f"/v1beta1.DevicePlugin/{method}", message) in (
        grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL)
    still_serves(world)


def test_message_over_4_mib_is_resource_exhausted(world):
    assert status_of(world, "/v1beta1.DevicePlugin/Allocate", b"x" * ((4 << 20) + 1)) == \
        grpc.StatusCode.RESOURCE_EXHAUSTED
    still_serves(world)


def test_small_message_that_would_be_large_in_memory_is_refused(world):
    """Two bytes on the wire for each empty string."""
    inner = b"\x0a\x00" * (1 << 20)
    message = b"\x0a" + varint(len(inner)) + inner
    before = world.rss_kib()
    assert status_of(world, "/v1beta1.DevicePlugin/Allocate", message) in (
        grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)
    wait_for(lambda: SANITIZED or world.rss_kib() < before + 16 * 1024)
    still_serves(world)


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def test_compressed_message_is_unimplemented(world):
    assert status_of(world, "/v1beta1.DevicePlugin/Allocate", b"x" * 1000,
                     compression=grpc.Compression.Gzip) == grpc.StatusCode.UNIMPLEMENTED


def test_allocate_without_a_pod_that_waits_is_refused_with_a_sentence(world):
    plugin = Plugin(world.kubelet.plugin_dir / "ration-gpu-mem.sock")
    request = msg("AllocateRequest", container_requests=[msg("ContainerAllocateRequest", devices_ids=["0-0"])])
    with pytest.raises(grpc.RpcError) as e:
        plugin.call("Allocate", request, "AllocateResponse")
    assert e.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "no pod on its list waits" in e.value.details()
    plugin.close()


@pytest.mark.parametrize("request_", [{}, {"n": 0}, {"n": 2}], ids=["nobody", "no ids", "two containers"])
def test_allocate_of_another_shape_is_an_invalid_argument(world, request_):
    containers = {None: [], 0: [msg("ContainerAllocateRequest")],
                  2: [msg("ContainerAllocateRequest", devices_ids=["0-0"])] * 2}[request_.get("n")]
    message = msg("AllocateRequest", container_requests=containers).SerializeToString()
    assert status_of(world, "/v1beta1.DevicePlugin/Allocate", message) == grpc.StatusCode.INVALID_ARGUMENT


def test_prestart_of_ids_that_nobody_has_is_refused(world):
    message = msg("PreStartContainerRequest", devices_ids=["1-15", "9-9"]).SerializeToString()
    assert status_of(world, "/v1beta1.DevicePlugin/PreStartContainer", message) == grpc.StatusCode.FAILED_PRECONDITION


def test_preferred_allocation_never_fails_and_never_says_too_much(world):
    plugin = Plugin(world.kubelet.plugin_dir / "ration-gpu-mem.sock")
    for available, must, size, expected in (
            (["0-1", "0-2", "1-1"], ["1-1"], 2, 2), (["0-1"], [], 5, 1), ([], [], 3, 0), (["x", "y-"], [], 1, 1),
            (["0-1", "0-2"], ["0-1", "0-2"], 1, 2), (["0-1"], [], -4, 0), (["0-1"], [], 0, 0)):
        answer = plugin.call("GetPreferredAllocation", msg("PreferredAllocationRequest", container_requests=[
            msg("ContainerPreferredAllocationRequest", available_deviceIDs=available, must_include_deviceIDs=must,
                allocation_size=size)]), "PreferredAllocationResponse", timeout=2)
        ids = list(answer.container_responses[0].deviceIDs)
        assert len(ids) == expected and ids[:len(must)] == must and set(ids) <= set(available)
    plugin.close()


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(20000), b"\0" * 5000,
                                   PREFACE + b"\xff" * 3000, PREFACE + frame(SETTINGS, payload=b"x" * 5),
                                   PREFACE + frame(SETTINGS) + frame(DATA, 0, 1, b"early"),
                                   PREFACE + frame(SETTINGS) + frame(HEADERS, 5, 2, request_headers()),
                                   PREFACE + frame(SETTINGS) + frame(WINDOW, 0, 0, b"\0\0\0\0")], ids=range(8))
def test_garbage_ends_its_connection_and_nothing_else(world, noise):
    bare = Bare(world, hello=False)
    bare.say(noise)
    assert bare.is_closed()
    bare.close()
    still_serves(world)


def test_headers_without_end_are_refused(world):
    bare = Bare(world)
    bare.say(frame(HEADERS, 0, 1, request_headers()))
    for _ in range(2000):
        bare.say(frame(CONTINUATION, 0, 1, literal("x", "y" * 120) * 100))
    assert bare.is_closed()
    bare.close()
    still_serves(world)


@pytest.mark.parametrize("headers", [{"method": "GET"}, {"kind": "text/html"}, {"path": ""}], ids=str)
def test_request_that_is_no_grpc_is_reset(world, headers):
    bare = Bare(world)
    bare.say(frame(HEADERS, END_HEADERS | END_STREAM, 1, request_headers(**headers)))
    assert RST in frame_kinds(bare.hear())
    bare.close()
    still_serves(world)


def test_message_that_stops_half_way_is_an_error_of_that_call(world):
    bare = Bare(world)
    bare.say(frame(HEADERS, END_HEADERS, 1, request_headers()) +
             frame(DATA, END_STREAM, 1, b"\0\0\0\0\x64" + b"x" * 10))
    assert HEADERS in frame_kinds(bare.hear()) and not bare.is_closed(0.1)    # answered; the connection lives
    bare.close()
    still_serves(world)


def test_peer_that_promises_4_mib_and_sends_nothing_costs_nothing(world):
    before, bares = world.rss_kib(), []
    for _ in range(8):
        bare = Bare(world)
        for stream in range(1, 33, 2):
            bare.say(frame(HEADERS, END_HEADERS, stream, request_headers()) +
                     frame(DATA, 0, stream, struct.pack(">BI", 0, 4 << 20)))
        bares.append(bare)
    still_serves(world)
    assert SANITIZED or world.rss_kib() < before + 4096
    still_serves(world)
    for bare in bares:
        bare.close()


def test_streams_that_are_opened_and_reset_at_once_keep_nobody_out(world):
    bare = Bare(world)
    for stream in range(1, 20001, 2):
        bare.say(frame(HEADERS, END_HEADERS, stream, request_headers()) + frame(RST, 0, stream, b"\0\0\0\x08"))
    still_serves(world)
    bare.close()
    assert SANITIZED or world.rss_kib() < 64 * 1024


def test_pings_of_a_peer_that_does_not_read_do_not_pile_up(world):
    before = world.rss_kib()
    bare = Bare(world)
    bare.socket.settimeout(1)
    for _ in range(300):
        bare.say(frame(PING, payload=b"12345678") * 1000)
    still_serves(world)
    assert SANITIZED or world.rss_kib() < before + 4096
    bare.close()


def test_abandoned_streams_are_forgotten(world):
    for _ in range(100):
        plugin = Plugin(world.kubelet.plugin_dir / "ration-gpu-mem.sock")
        next(iter(plugin.watch()))
        plugin.close()
    still_serves(world)


def test_two_hundred_connections_keep_the_kubelet_in(world):
    bares = [Bare(world, hello=i % 2) for i in range(200)]
    pod = world.pod("crowd", 1, card=1)
    world.kubelet.admit(pod)
    assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"
    for bare in bares:
        bare.close()
    still_serves(world)


def test_calls_at_the_same_time_all_get_their_own_answer(world):
    results = []

    def call():
        results.append(status_of(world, "/v1beta1.DevicePlugin/Allocate",
                                 msg("AllocateRequest", container_requests=[msg(
                                     "ContainerAllocateRequest", devices_ids=["0-0"])]).SerializeToString()))
    threads = [threading.Thread(target=call) for _ in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 24 and set(results) == {grpc.StatusCode.FAILED_PRECONDITION}


def test_peer_that_hangs_up_in_the_middle_of_allocate_leaves_the_next_one_served(world):
    world.kubelet.exhaust = 2   # so that it takes a while
    channel = grpc.insecure_channel(f"unix:{world.kubelet.plugin_dir}/ration-gpu-mem.sock")
    future = channel.unary_unary("/v1beta1.DevicePlugin/Allocate").future(
        msg("AllocateRequest", container_requests=[
            msg("ContainerAllocateRequest", devices_ids=["0-0"])]).SerializeToString())
    time.sleep(0.005)
    future.cancel()
    channel.close()
    pod = world.pod("after", 1, card=1)
    world.kubelet.admit(pod)
    assert world.kubelet.run(pod, "main").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"
