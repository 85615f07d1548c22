"""A cgpu node in its agent's tests: its files, and what it says of itself."""
import os
import pathlib
import struct

import pytest

from agent_fixture import NODE, World, wait_for
import grants

MIB = 1 << 20
CGPU = {"ack.node.gpu.schedule": "cgpu"}
DIRECTORIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib", "/usr/local/lib", "/usr/lib")
LIVE = 2520 + grants.CARDS_MAX * 256

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the agent mounts file systems, which needs root")


def isolated(cards="2x16160MiB", **more):
    return World(cards=cards, labels=CGPU, **more)


def start(world, name="a", units=2, card=0):
    pod = world.pod(name, units, card=card)
    world.kubelet.admit(pod)
    return pod, world.kubelet.run(pod, "main")


def uid_of(pod):
    return pod["metadata"]["uid"]


def folder(world, pod, container="main"):
    return world.state / "grants" / uid_of(pod) / container


def card_of(grant, index=0):
    """UUID, limit at creation, physical size, limit now; MiB. Offsets: docs/internals/grant.md."""
    data = grant.read_bytes()
    uuid, limit, physical = struct.unpack_from("<64s32xQQ", data, 2520 + index * 256)
    now, = struct.unpack_from("<Q", data, LIVE + index * 128 + 16)
    return uuid.rstrip(b"\0").decode(), limit / MIB, physical / MIB, now / MIB


def text_at(grant, offset, size):
    return grant.read_bytes()[offset:offset + size].rstrip(b"\0").decode()


def versions(world):
    return sorted(p.name for p in (world.state / "shim").iterdir())


def version_of(container):
    return pathlib.Path(container.mounts["/run/ration/shim"]["hostPath"]).name


def in_service(world):
    return world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/mode") == "cgpu"


def problem(world):
    return world.api.node(NODE)["metadata"]["annotations"].get("ration.dev/problem", "")


def not_ready(world, what):
    """Waits until an Event and the annotation of the node contain this text and the node is out of service; returns the Event. The agent
    sends one report at a time, so a problem that appears during a report is reported up to a second later."""
    wait_for(lambda: what in problem(world) and not in_service(world))
    return wait_for(lambda: [e for e in world.api.events("GPUIsolationNotReady") if what in e["message"]])[0]


def new_watches(world):
    """Whether the agent has read nodes and pods since the requests were cleared: it then watches them."""
    watched = {r.path.rpartition("/")[2] for r in list(world.api.requests) if "watch" in r.query}
    return {"nodes", "pods"} <= watched and world.api.watches("nodes", "pods") >= 2


def renew_worker(world):
    """Another process, which has seen node and pods."""
    world.api.clear_requests()
    world.kill_worker()
    wait_for(lambda: new_watches(world))


def come_back(world):
    """After kill_agent() or stop_agent()."""
    world.api.clear_requests()
    world.start_agent()
    world.kubelet.wait_devices(30)
    wait_for(lambda: new_watches(world))


def identity(world, pod):
    """The files, but for what the agent changes at any time: overhead, its generation, for whom it looked and what it
    learnt, and who has how much computing power."""
    return [(path.stat().st_ino, lasting(path)) for path in sorted(folder(world, pod).iterdir())]


def lasting(path):
    if path.name == "use":    # changes with each sample
        return b""
    data = bytearray(path.read_bytes())
    for at in range(LIVE, LIVE + 64 * 128, 128) if path.name == "grant" else ():
        data[at:at + 16], data[at + 24:at + 32], data[at + 40:at + 64] = bytes(16), bytes(8), bytes(24)
        data[at + 64:at + 72], data[at + 112:at + 120] = bytes(8), bytes(8)    # its wish for a pause, and known_for
    return bytes(data)
