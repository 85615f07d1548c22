"""Pods on isolated nodes, and what must be true of each of their containers: placement == grant == environment ==
device nodes."""
import os
import pathlib
import struct

from gpupods import GPU_MEM, container, inventory, placement, pod
from testimages import lab as labs

NODE = "isolated.192.168.30.1"
LAYOUT = [f"{NODE}=2x16160MiB+1x24576MiB,cgpu"]
LARGE = 24    # units of the large card: who has them leaves the others the documents' cards
CARDS_AT, LIVE_AT = 2520, 2520 + 64 * 256    # docs/internals/grant.md
OUT_OF_MEMORY = 2                            # CUDA_ERROR_OUT_OF_MEMORY
CONTEXT_MIB = 312                            # what a context takes of a simulated card, by its model


def with_documents_cards(lab):
    """A cluster in which a pod has the GPU of 24 units, so that the others get the GPUs of the documents only."""
    made = lab(LAYOUT)
    made.create(pod("large", LARGE))
    made.wait_running(names=["large"])
    return made


def limit_mib(card, units, unit=1024):
    """The documents' rule: floor to MiB of physical MiB x CONTAINER / DEV."""
    return card["mib"] * units // (card["mib"] // unit)


def filler(name, units, stay=True, **more):
    """A container that takes all the memory that it can get, in image debian, and says how much that was."""
    return {**container(name, units), "image": "ration-test/debian:1", "command": ["load", "dlopen", "libcuda.so.1"],
            "env": [{"name": "LOAD_DRIVER_FILL", "value": "stay" if stay else "once"}], **more}


def said(log):
    """(MiB that the card has, MiB held, error of the refused allocation) of a filler."""
    total, _, held = log.partition("\n")
    words = held.replace(",", "").split()
    assert words[:1] == ["held"] and words[2:3] == ["then"] and len(words) > 3, log
    return int(total), int(words[1]), int(words[3])


class Grant:
    def __init__(self, data):
        magic, self.version, self.size = struct.unpack_from("<8sII", data)
        assert magic == b"RAGRANT1" and self.size == len(data), (magic, self.size, len(data))
        count, = struct.unpack_from("<I", data, 24)

        def text(at, size):
            return data[at:at + size].split(b"\0")[0].decode()
        self.container, self.cuda_library, self.nvml_library = text(32, 256), text(288, 1024), text(1312, 1024)
        self.limits, self.overheads, self.generations = {}, {}, {}
        for i in range(count):
            uuid = text(CARDS_AT + i * 256, 64)
            self.overheads[uuid], self.generations[uuid], self.limits[uuid] = struct.unpack_from(
                "<QQQ", data, LIVE_AT + i * 128)


def node_root(cluster, node=NODE):
    """The node's files as its first process sees them, mounts of its agent included."""
    return pathlib.Path(f"/proc/{labs.Lab.existing(cluster.name).find_node(node).init().pid()}/root")


def processes(cluster, obj):
    """{container name: path of its first process in the node's /proc} of the containers that run."""
    node = obj["spec"]["nodeName"]
    pids = cluster.pids(node)
    statuses = [s for kind in ("initContainerStatuses", "containerStatuses") for s in obj["status"].get(kind, [])]
    return {s["name"]: node_root(cluster, node) / "proc" / pids[identity] for s in statuses
            if (identity := s.get("containerID", "").partition("://")[2]) in pids and "running" in s["state"]}


def grant_of(process):
    """The grant that a container really has."""
    return Grant((process / "root/run/ration/grant").read_bytes())


def environment(process):
    """The variables of a process by its folder in /proc. An OSError if it has ended, or while what can be read is not its environment:
    fewer bytes than the kernel states; or a name without a value, as bash leaves each one for a moment when it starts (variables.c
    initialize_shell_variables(), 5.2)."""
    raw = (process / "environ").read_bytes()
    stat = (process / "stat").read_text().rpartition(")")[2].split()
    env_start, env_end = int(stat[47]), int(stat[48])    # fields 50 and 51 of proc_pid_stat(5), the first here is field 3
    if len(raw) != env_end - env_start:
        raise OSError(f"{len(raw)} bytes of the {env_end - env_start} of the environment in {process}")
    entries = [entry for entry in os.fsdecode(raw).split("\0") if entry]
    if bad := [entry for entry in entries if "=" not in entry]:
        raise OSError(f"no value is after {bad[0]!r} in the environment in {process}")
    return dict(entry.split("=", 1) for entry in entries)


def check_isolation(cluster, obj):
    """Of all containers of the pod that run now and ask for memory. Returns their number."""
    cards = inventory(cluster.node(obj["spec"]["nodeName"]))
    placed = placement(obj)
    checked = 0
    for name, process in processes(cluster, obj).items():
        shares = placed["containers"].get(name)
        if not shares:
            assert not (process / "root/run/ration").exists(), f"{name} asks for no memory and has a grant"
            continue
        where = f"{obj['metadata']['name']}/{name}"
        grant = grant_of(process)
        want = {s["uuid"]: limit_mib(cards[s["uuid"]], s["units"], placed["unit"]) << 20 for s in shares}
        assert grant.limits == want, f"{where}: {grant.limits} are granted, {want} by its placement"
        env = environment(process)
        assert set(env["ALIYUN_COM_GPU_VISIBLE_DEVICES"].split(",")) == set(want), (where, env)
        assert {env["ALIYUN_COM_GPU_MEM_CONTAINER"]} == {str(s["units"]) for s in shares}, (where, env)
        assert env["NVIDIA_VISIBLE_DEVICES"] == "void", (where, env)
        devices = {p.name for p in (process / "root/dev").glob("nvidia[0-9]*")}
        assert devices == {f"nvidia{cards[uuid]['index']}" for uuid in want}, (where, devices)
        checked += 1
    return checked


def ask(obj, name):
    return int(next(c for c in obj["spec"]["containers"] if c["name"] == name)["resources"]["limits"][GPU_MEM])
