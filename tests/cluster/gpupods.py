"""Pods that ask for GPU memory, and what must be true of them: placement == environment == device nodes."""
import json

GPU_MEM = "aliyun.com/gpu-mem"
GPU_COUNT = "aliyun.com/gpu-count"
IMAGE = "registry.cn-beijing.aliyuncs.com/ai-samples/gpushare-sample:tensorflow-1.5"
# Says once what it sees, then waits; ends at once when told to.
SHOW = ("trap 'exit 0' TERM; env | grep -E '^(ALIYUN|NVIDIA)' | sort; ls /dev | grep -E '^nvidia[0-9]+$' | sort; "
        "nvidia-smi -L; echo done; sleep 100000 & wait")


def container(name, units=None, command=SHOW, **more):
    body = {"name": name, "image": IMAGE, "command": ["bash", "-c", command], **more}
    if units is not None:
        body["resources"] = {"limits": {GPU_MEM: units}}
    return body


def pod(name, *units, containers=None, init=(), labels=None, annotations=None, **spec):
    """A pod with one container per entry of units, or with the containers given."""
    if containers is None:
        containers = [container(f"c{i}", u) for i, u in enumerate(units)]
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
            "spec": {"terminationGracePeriodSeconds": 0, "restartPolicy": "Never", "containers": containers,
                     **({"initContainers": list(init)} if init else {}), **spec}}


def annotation(obj, key):
    return obj["metadata"].get("annotations", {}).get(key)


def inventory(node):
    """{uuid: card} of a node object."""
    return {card["uuid"]: card for card in json.loads(annotation(node, "ration.dev/gpus"))}


def placement(obj):
    return json.loads(annotation(obj, "ration.dev/placement"))


def units_of(obj):
    """Kubernetes' effective request, written down again: max of init steps and of all that run together."""
    def ask(c):
        return int(c.get("resources", {}).get("limits", {}).get(GPU_MEM, 0))
    sidecars = largest = 0
    for c in obj["spec"].get("initContainers", []):
        largest = max(largest, sidecars + ask(c))
        if c.get("restartPolicy") == "Always":
            sidecars += ask(c)
    return max(largest, sidecars + sum(ask(c) for c in obj["spec"]["containers"]))


def cards_of(obj):
    """The cards of the pod, which are those of each of its containers."""
    cards = [[share["uuid"] for share in shares] for shares in placement(obj)["containers"].values()]
    assert all(set(some) == set(cards[0]) for some in cards), f"{obj['metadata']['name']} is on {cards}"
    assert len(cards[0]) == len(set(cards[0])) == int(obj["metadata"].get("labels", {}).get(GPU_COUNT, 1)), cards
    return cards[0]


def card_of(obj):
    cards = cards_of(obj)
    assert len(cards) == 1, f"{obj['metadata']['name']} is on {cards}"
    return cards[0]


def used_per_card(pods):
    used = {}
    for obj in pods:
        if obj["spec"].get("nodeName") and annotation(obj, "ration.dev/placement"):
            cards = cards_of(obj)
            for card in cards:
                used[card] = used.get(card, 0) + units_of(obj) // len(cards)
    return used


def said_everything(log):
    return log if "done" in log.splitlines() else None


def check_what_it_sees(lab, obj, nodes, containers=None):
    """The containers that ran SHOW see exactly the cards of the placement."""
    cards = [inventory(nodes[obj["spec"]["nodeName"]])[uuid] for uuid in cards_of(obj)]
    total = max(card["mib"] for card in cards) // placement(obj)["unit"]
    for spec in obj["spec"]["containers"]:
        if containers and spec["name"] not in containers:
            continue
        name, units = spec["name"], int(spec["resources"]["limits"][GPU_MEM])
        # Ready means that the container was started, not that it has said everything.
        log = lab.wait_for(lambda: said_everything(lab.log_of(obj, name)), 20, f"the last word of {name}")
        lines = log.splitlines()
        env = dict(line.split("=", 1) for line in lines if "=" in line)
        where = f"{obj['metadata']['name']}/{name}:\n{log}"
        assert env["ALIYUN_COM_GPU_MEM_CONTAINER"] == str(units // len(cards)), where
        assert env["ALIYUN_COM_GPU_MEM_DEV"] == str(total), where
        assert env["ALIYUN_COM_GPU_MEM_IDX"] == ",".join(str(card["index"]) for card in cards), where
        assert env["ALIYUN_COM_GPU_MEM_POD"] == str(units_of(obj)), where
        assert env["NVIDIA_VISIBLE_DEVICES"] == "void", where
        assert env["ALIYUN_COM_GPU_VISIBLE_DEVICES"] == ",".join(card["uuid"] for card in cards), where
        assert {line for line in lines if line.startswith("nvidia")} == {f"nvidia{c['index']}" for c in cards}, where
        listed = [line for line in lines if line.startswith("GPU ")]
        assert len(listed) == len(cards), where
        assert all(sum(card["uuid"] in line for line in listed) == 1 for card in cards), where


def fingerprint(obj):
    """What stays the same while nobody disturbs a running pod."""
    return [(s["name"], s["containerID"], s["restartCount"], "running" in s["state"])
            for s in obj["status"]["containerStatuses"]]
