"""Images of every kind on an isolated node: each is held to its limit, or sees no card; never the whole one."""
import os

import pytest

import testimages
from cgpupods import LAYOUT, OUT_OF_MEMORY, limit_mib, said
from gpupods import GPU_MEM, card_of, inventory, pod

pytestmark = [pytest.mark.long(20),
              pytest.mark.skipif(os.uname().machine != "x86_64", reason="the images' linkers are those of x86-64")]
NO_CARD, NOT_FOUND, HELD, SEEN = "no card", "not found", "held to its limit", "sees its limit"
NAME = "libcuda.so.1"
DIRECTORY = "/usr/lib/x86_64-linux-gnu"

# Image -> its containers: what is run, and what comes of it.
WAYS = {
    "debian": [(["load", "dlopen", NAME], HELD), (["load", "dlopen", "libcuda.so"], HELD), (["load-linked"], HELD),
               (["load", "deepbind", NAME], HELD), (["load", "dlmopen", NAME], HELD),
               (["load", "dlopen", f"{DIRECTORY}/{NAME}"], HELD),
               # A library that a static program loads has no thread-local memory, and a simulated context needs it.
               (["load-static", "dlopen", NAME], SEEN)],
    "unmerged": [(["load", "dlopen", NAME], HELD), (["load-linked"], HELD), (["load", "dlopen", f"/lib/{NAME}"], HELD)],
    "redhat": [(["load", "dlopen", NAME], HELD), (["load-linked"], HELD),
               (["load", "dlopen", f"/usr/lib64/{NAME}"], HELD)],
    # The driver cannot be loaded without glibc; the shim, which is found, says so.
    "alpine": [(["load", "dlopen", NAME], NO_CARD), (["load-linked"], NO_CARD),
               (["load", "dlopen", f"/usr/lib/{NAME}"], NO_CARD)],
    "distroless": [(["/load", "dlopen", NAME], HELD)],
    "static": [(["/load", "dlopen", NAME], NOT_FOUND), (["/load", "dlopen", f"/usr/lib64/{NAME}"], NOT_FOUND),
               (["/load-musl", "dlopen", NAME], NOT_FOUND)],
    "plugin": [(["/app/load", "plugin", "/app/plugin.so"], HELD), (["/app/load", "plugin", "/app/plugin-own.so"], HELD),
               (["/app/load", "deepbind-plugin", "/app/plugin-own.so"], HELD)],
    "compat": [(["load", "dlopen", NAME], HELD), (["load-linked"], HELD)],
}


def image_pod(name, image, ways, context=None):
    containers = [{"name": f"c{i}", "image": testimages.name(image), "command": command,
                   "env": [{"name": "LOAD_DRIVER_FILL", "value": "once"}] if expected == HELD else [],
                   "resources": {"limits": {GPU_MEM: 1}}, **({"securityContext": context} if context else {})}
                  for i, (command, expected) in enumerate(ways)]
    return pod(name, containers=containers)


def check(cluster, name, ways):
    over = cluster.wait_for(lambda: (p := cluster.pod(name))["status"].get("phase") in ("Succeeded", "Failed") and p,
                            60, f"the end of {name}")
    limit = limit_mib(inventory(cluster.node(over["spec"]["nodeName"]))[card_of(over)], 1)
    for i, (command, expected) in enumerate(ways):
        log = cluster.log_of(name, f"c{i}")
        where = f"{name}: {' '.join(command)}: {log}"
        if expected == HELD:
            total, held, error = said(log)
            assert total == limit and limit // 2 < held <= limit and error == OUT_OF_MEMORY, where
        else:
            assert (str(limit) if expected == SEEN else expected) in log.splitlines(), where
    return over


@pytest.fixture
def cluster(lab, tmp_path):
    made = lab(LAYOUT)
    testimages.give(made, tmp_path)
    return made


SETTINGS = {
    "read-only": {"readOnlyRootFilesystem": True},
    "user": {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000, "allowPrivilegeEscalation": False,
             "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}},
}
SETTINGS["both"] = SETTINGS["read-only"] | SETTINGS["user"]


def test_images_of_every_kind_are_held_to_their_limit_or_see_no_card(cluster):
    for image, ways in WAYS.items():
        cluster.create(image_pod(image, image, ways))
    for image, ways in WAYS.items():
        check(cluster, image, ways)


def test_containers_with_few_rights_are_held_to_their_limit(cluster):
    pods = [(f"{image}-{setting}", image, setting) for image in ("debian", "redhat", "distroless") for setting in SETTINGS]
    for name, image, setting in pods:
        cluster.create(image_pod(name, image, WAYS[image][:1], SETTINGS[setting]))
    for name, image, _ in pods:
        check(cluster, name, WAYS[image][:1])


def test_a_pod_with_users_of_its_own_is_held_to_its_limit(cluster):
    ways = WAYS["debian"][:3]
    cluster.create({**(body := image_pod("users", "debian", ways)), "spec": {**body["spec"], "hostUsers": False}})

    def over_or_refused():
        messages = [e["message"] for e in cluster.events("users") if "user namespace" in e["message"]]
        return messages or cluster.pod("users")["status"].get("phase") in ("Succeeded", "Failed")
    seen = cluster.wait_for(over_or_refused, 60, "the pod's end")
    if seen is not True:
        pytest.skip(f"the container runtime says: {seen[0][:200]}")
    check(cluster, "users", ways)
