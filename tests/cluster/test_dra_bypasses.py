"""The ways around a limit that SECURITY.md lists, tried by pods whose limit is a ResourceClaim: what does not help them, and what the agent
finds afterwards. (Pods with aliyun.com/gpu-mem: test_bypasses.py.)"""
import pytest

from bypassing import DRIVER, FORGE, MOVE, last, shell, use
from claims import ask, claim, claimed, pod, published, start

pytestmark = pytest.mark.long(20)

NODE = "bypass-c.192.168.31.2"
NODES = [f"{NODE}=1x24564MiB,dra"]
LIMITED = {"total": 2048, "result": 2}    # CUDA_ERROR_OUT_OF_MEMORY: a program asks for 3000 MiB
GRANT = "/run/ration/grant"


@pytest.fixture
def cluster(lab):
    made = lab(NODES)
    published(made)
    return made


def variables(cluster):
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "env"}, "data": {
        "NVIDIA_VISIBLE_DEVICES": "all", "ALIYUN_COM_GPU_MEM_CONTAINER": "15", "CGPU_DISABLE": "true", "RATION_GRANT": "/tmp/x",
        "LD_PRELOAD": "/run/ration/driver/cuda/libcuda.so"}})
    return [{"configMapRef": {"name": "env"}}]


def test_variables_that_the_agent_cannot_see_lead_past_no_limit(cluster):
    """Of envFrom the pod's spec has the name of a ConfigMap only. The second container has no claim."""
    extra = variables(cluster)
    made = claimed("p", ask("2Gi"), containers=2)
    first, second = made["items"][1]["spec"]["containers"]
    first["envFrom"] = second["envFrom"] = extra
    first["command"] = ["sh", "-c", "unset LD_PRELOAD; sleep 100000"]
    second["command"] = ["sh", "-c", "unset LD_PRELOAD; sleep 100000"]
    del second["resources"]
    start(cluster, made)
    cluster.wait_running(names=["p"])
    assert last(cluster.exec_in("p", "env", "-u", "LD_PRELOAD", *use(), container="c0")) == LIMITED
    assert cluster.exec_in("p", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES", container="c0") == "void\n"
    assert cluster.exec_in("p", "sh", "-c", "ls -d /dev/nvidia* /run/ration 2>/dev/null; true", container="c1") == ""


# ---- found

def holding(name, before="", library="libcuda.so.1", **more):
    """A pod with a claim of 2 GiB that takes 3000 MiB past the limit and keeps them."""
    made = claimed(name, ask("2Gi"), command=f"{before} {shell(*use(library, 'stay'))}")
    made["items"][1]["spec"]["containers"][0].update(more)
    return made


def over_a_link(name):
    """A path that leads to the grant only when it is mounted: the agent sees /x/y/z/w/grant in the pod."""
    links, forged = ({"name": v, "mountPath": f"/{v}"} for v in ("links", "forged"))
    made = holding(name, volumeMounts=[links | {"mountPath": "/x/y/z"}, forged | {"mountPath": "/x/y/z/w/grant", "subPath": "grant"}])
    spec = made["items"][1]["spec"]
    main, = spec["containers"]
    spec["volumes"] = [{"name": v, "emptyDir": {}} for v in ("links", "forged")]
    spec["initContainers"] = [{**main, "name": "prepare", "volumeMounts": [links, forged],
                               "command": ["sh", "-c", f"ln -s /run/ration /links/w; {FORGE.format('/forged/grant')}"]}]
    return made


FOUND = [
    holding("drivers-own", library=DRIVER),
    # The grant cannot be moved, but the folder in which it is mounted can.
    holding("moved", MOVE),
    holding("namespace", FORGE.format("/tmp/grant") + f"; unshare -Urm sh -c 'mount --bind /tmp/grant {GRANT}; exec \"$@\"' sh"),
    over_a_link("over-a-link"),
]


def test_what_goes_past_the_limit_of_a_claim_is_found_within_10_s(cluster):
    """A forged grant changes what the program believes. The agent compares with its own copy, which no container can reach."""
    innocent = claimed("innocent", ask("2Gi"), command=f"{shell(*use('libcuda.so.1', 'stay'))}")
    start(cluster, innocent, *FOUND)
    names = [made["items"][1]["metadata"]["name"] for made in FOUND]
    for name in (*names, "innocent"):
        said = cluster.wait_for(lambda name=name: "result" in (log := cluster.log_of(name, "c0")) and last(log), 60, f"a word of {name}")
        assert said == LIMITED if name == "innocent" else said["result"] == 0 and said["total"] > 2048, (name, said)
    for name in names:
        event = cluster.wait_for(lambda name=name: [e for e in cluster.events(name) if e["reason"] == "GPUOverLimit"], 10, f"the Event of {name}")
        assert f"ResourceClaim {name} uses 3" in event[0]["message"] and "over its limit of 2048 MiB" in event[0]["message"], event
    assert not [e for e in cluster.events("innocent") if e["reason"].startswith("GPUOver")]


def test_a_pod_that_shares_a_claim_can_harm_only_those_that_share_it(cluster):
    """The usage file is one for all of them: its room is that of the claim."""
    cluster.create(claim("shared", ask("2Gi")))
    cluster.create(pod("a", of_claim="shared"))
    cluster.create(pod("b", of_claim="shared"))
    start(cluster, claimed("other", ask("2Gi")))
    cluster.wait_running(names=["a", "b", "other"])
    cluster.exec_in("a", "truncate", "-s", "0", "/run/ration/usage")
    assert last(cluster.exec_in("b", *use())) == {"failed": "cuInit", "result": 100}    # CUDA_ERROR_NO_DEVICE
    assert last(cluster.exec_in("other", *use())) == LIMITED
