"""The ways around the limit of a `cgpu` node that SECURITY.md lists, tried by pods: what does not help them, and what
the agent finds afterwards. What is refused before that is in test_policies.py."""
import base64
import json
import pathlib
import re
import time
import urllib.parse

import pytest

from bypassing import DRIVER, FORGE, MOVE, USE, last, load, shell, use
from cluster import PRODUCT, ROOT
from gpupods import IMAGE, annotation, container, pod

pytestmark = pytest.mark.half(1)
NODES = ["bypass.192.168.31.1=3x16160MiB,cgpu,spread"]
LIMITED = {"total": 2154, "result": 2}    # 16160 MiB x 2/15; CUDA_ERROR_OUT_OF_MEMORY
NO_CARD = {"failed": "cuInit", "result": 100}    # CUDA_ERROR_NO_DEVICE
# Takes memory in steps of 200 MiB, and before each writes into the usage file that nothing is taken: src/grant/usage.h.
FORGET = r"""
import ctypes, json, mmap, time
file = open("/run/ration/usage", "r+b")
usage = mmap.mmap(file.fileno(), 0)
cu, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
cu.cuInit(0), cu.cuDeviceGet(ctypes.byref(device), 0), cu.cuCtxCreate_v2(ctypes.byref(context), 0, device)
taken = 0
for i in range(20):
    for at in [128] + [128 + 64 * 128 + slot * 1088 + 64 for slot in range(16)]:
        usage[at:at + 8] = bytes(8)
    taken += 200 * (cu.cuMemAlloc_v2(ctypes.byref(ctypes.c_ulonglong()), ctypes.c_size_t(200 << 20)) == 0)
print(json.dumps({"taken": taken}), flush=True)
time.sleep(100000)
"""


def tries(cluster, *argv):
    """What a program says that is started in the pod `p`."""
    return last(cluster.exec_in("p", *argv))


def user(name, before="", library="libcuda.so.1", **more):
    """A pod that prepares something, uses a library, and then stays."""
    return pod(name, containers=[container("c0", 2, command=f"{before}\n{shell(*use(library))}; sleep 100000", **more)])


@pytest.fixture
def cluster(lab):
    """With a running pod `p` of 2 units."""
    cluster = lab(NODES)
    cluster.create(pod("p", 2))
    cluster.wait_running(names=["p"])
    return cluster


# ---- by program

def test_library_by_name_or_by_a_usual_path_is_the_shim(cluster):
    for library in ("libcuda.so.1", "libcuda.so", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so",
                    "/lib/libcuda.so.1", "/usr/local/lib/libcuda.so.1", "/run/ration/shim/libcuda.so.1"):
        assert tries(cluster, *use(library)) == LIMITED, library


def test_environment_leads_past_no_limit(cluster):
    """exec is no way around either: the same mounts, devices and grant."""
    cluster.exec_in("p", "sh", "-c",
                    f"mkdir /tmp/compat; cp {DRIVER} /tmp/compat/libcuda.so.1; " + FORGE.format("/tmp/forged"))
    for variable in ("LD_LIBRARY_PATH=/tmp/compat", "LD_PRELOAD=", "RATION_GRANT=/tmp/forged", "CGPU_DISABLE=true",
                     "NVIDIA_VISIBLE_DEVICES=all", "ALIYUN_COM_GPU_MEM_CONTAINER=15"):
        assert tries(cluster, "env", variable, *use()) == LIMITED, variable
    assert tries(cluster, "env", "-i", "/usr/bin/" + use()[0], *use()[1:]) == LIMITED


def test_root_in_the_container_cannot_change_what_the_agent_mounted(cluster):
    mounted = ["/run/ration/grant", "/etc/ld.so.preload", "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
               "/run/ration/shim/libcuda.so.1", DRIVER]
    commands = [command.format(path) for path in mounted for command in (
        "echo x > {}", "rm -f {}", "mv {} /tmp/x", "umount {}", "truncate -s 0 {}", "chmod 0 {}",
        "cp -f --remove-destination /bin/sh {}", "mount --bind /bin/sh {}")]
    script = "; ".join(f"({command}) 2>/dev/null && echo '{command}'" for command in commands)
    assert cluster.exec_in("p", "sh", "-c", f"{script}; true") == ""
    assert tries(cluster, *use()) == LIMITED


@pytest.mark.long(12)
def test_file_copied_into_the_container_does_not_replace_the_shim(cluster, tmp_path):
    (tmp_path / "libcuda.so.1").write_text("not a library")
    target = "p:/usr/lib/x86_64-linux-gnu/libcuda.so.1"
    done = cluster.run("kubectl", "cp", tmp_path / "libcuda.so.1", target, check=False)
    assert done.returncode != 0
    assert tries(cluster, *use()) == LIMITED


def test_other_cards_are_not_in_the_container(cluster):
    index = annotation(cluster.pod("p"), "ALIYUN_COM_GPU_MEM_IDX")
    assert cluster.exec_in("p", "sh", "-c", "ls -d /dev/nvidia[0-9]*").split() == [f"/dev/nvidia{index}"]


@pytest.mark.long(12)
def test_debug_container_has_no_card_and_no_grant(cluster):
    cluster.kubectl("debug", "p", "--image", IMAGE, "--image-pull-policy=Never", "--target=c0", "-c", "debug", "--",
                    "sh", "-c", "ls -d /dev/nvidia* /run/ration /run/ration-sim; echo done")
    said = cluster.wait_for(lambda: "done" in cluster.log_of("p", "debug") and cluster.log_of("p", "debug"), 20, "ls")
    assert not [line for line in said.splitlines() if line.startswith("/")], said


@pytest.mark.long(12)
def test_debug_container_that_sees_the_processes_of_another_gets_no_card_of_it(cluster):
    """By /proc/PID/root it reaches the other's device nodes, and its cgroup does not let it open them."""
    index = annotation(cluster.pod("p"), "ALIYUN_COM_GPU_MEM_IDX")
    script = (f"for d in nvidia{index} nvidiactl; do (: < /proc/1/root/dev/$d); done; "
              "echo x > /proc/1/root/run/ration/grant; echo done")
    cluster.kubectl("debug", "p", "--image", IMAGE, "--image-pull-policy=Never", "--target=c0", "-c", "debug2", "--",
                    "bash", "-c", f"exec 2>&1; {script}")
    said = cluster.wait_for(lambda: "done" in cluster.log_of("p", "debug2") and cluster.log_of("p", "debug2"), 20, "its try")
    assert said.count("Operation not permitted") == 2 and "Read-only file system" in said, said
    assert tries(cluster, *use()) == LIMITED


@pytest.mark.long(12)
def test_who_asks_the_kubelet_itself_has_the_containers_limit(cluster):
    """nodes/proxy: past the admission of pods/exec, into the same container."""
    node = cluster.pod("p")["spec"]["nodeName"]
    cluster.exec_in("p", "python3", "-c", f"open('/tmp/use.py', 'w').write({USE!r})")
    query = urllib.parse.urlencode({"cmd": "python3 /tmp/use.py libcuda.so.1 3000"})    # the kubelet splits it at spaces
    path = f"/api/v1/nodes/{node}/proxy/run/{cluster.namespace}/p/c0?{query}"
    assert last(cluster.kubectl("create", "--raw", path, "-f", "/dev/null")) == LIMITED


def registrations(cluster):
    agent, = cluster.pods("name=gpushare-device-plugin-ds", namespace="kube-system")
    return cluster.run("kubectl", "-n", "kube-system", "logs", agent["metadata"]["name"], "-c", "ration-agent"
                       ).stdout.count("registered aliyun.com/gpu-mem at the kubelet")


@pytest.mark.long(12)
def test_static_pod_gets_no_card(cluster):
    """Its annotations are those of who wrote the file: no card, whatever they say."""
    node = cluster.pod("p")["spec"]["nodeName"]
    body = pod("static", 2, annotations={key: annotation(cluster.pod("p"), key)
                                         for key in ("ration.dev/placement", "ration.dev/unit")})
    body["metadata"]["namespace"] = cluster.namespace
    settings = cluster.folder / "nodes" / node / "kubelet.json"
    before = settings.read_text()
    settings.write_text(json.dumps({**json.loads(before), "staticPodPath": "/var/lib/kubelet/manifests"}))
    registered = registrations(cluster)
    try:
        cluster.enter(node, "mkdir", "-p", "/var/lib/kubelet/manifests")
        cluster.lab("restart", f"kubelet@{node}")
        # A kubelet without the agent's devices refuses each such pod by itself.
        cluster.wait_for(lambda: registrations(cluster) > registered, 40, "the agent has registered at the new kubelet")
        coded = base64.b64encode(json.dumps(body).encode()).decode()
        cluster.enter(node, "sh", "-c", f"echo {coded} | base64 -d > /var/lib/kubelet/manifests/static.json")
        cluster.wait_for(lambda: any("static pods, from a file on the node, cannot have a GPU" in event["message"]
                                     for event in cluster.events(f"static-{node}")), 40, "the refusal")
        assert not [p for p in cluster.pods() if p["metadata"]["name"] != "p" and p["status"]["phase"] == "Running"]
    finally:
        cluster.enter(node, "rm", "-rf", "/var/lib/kubelet/manifests")
        settings.write_text(before)
        cluster.lab("restart", f"kubelet@{node}")
        cluster.wait_for(lambda: cluster.run("kubectl", "exec", "p", "--", "true", check=False).returncode == 0, 30,
                         "the kubelet")
    assert tries(cluster, *use()) == LIMITED


@pytest.mark.long(12)
def test_who_fills_his_usage_file_harms_his_own_pod_only(cluster):
    """Then the pages that the shim needs are not there: SIGBUS."""
    cluster.create(pod("other", 2))
    cluster.wait_running(names=["other"])
    fill = "dd if=/dev/zero of=/run/ration/usage bs=1M seek=2 count=200 conv=notrunc 2>&1; true"
    assert "No space left" in cluster.exec_in("p", "sh", "-c", fill)
    done = cluster.run("kubectl", "exec", "p", "--", *use(), check=False)
    assert done.returncode != 0 or last(done.stdout) == LIMITED
    assert last(cluster.exec_in("other", *use())) == LIMITED


@pytest.mark.long(12)
def test_own_management_library_of_the_driver_only_reads(cluster):
    """Past the shim the whole card is seen, as in `share` mode."""
    ask = ("import ctypes; m = ctypes.CDLL('/run/ration/driver/nvml/libnvidia-ml.so'); d = ctypes.c_void_p(); "
           "a = (ctypes.c_ulonglong * 3)(); m.nvmlInit_v2(); m.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(d)); "
           "m.nvmlDeviceGetMemoryInfo(d, a); print(a[0] >> 20)")
    assert cluster.exec_in("p", "python3", "-c", ask) == "16160\n"
    assert cluster.exec_in("p", "python3", "-c", ask.replace("/run/ration/driver/nvml/libnvidia-ml.so",
                                                             "libnvidia-ml.so.1")) == "2154\n"


@pytest.mark.long(12)
def test_cut_usage_file_ends_in_no_card(cluster):
    cluster.exec_in("p", "truncate", "-s", "0", "/run/ration/usage")
    assert tries(cluster, *use()) == NO_CARD


# ---- by pod spec

def test_pod_spec_leads_past_no_limit(lab):
    cluster = lab(NODES)
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "env"},
                    "data": {"NVIDIA_VISIBLE_DEVICES": "all", "ALIYUN_COM_GPU_MEM_CONTAINER": "15"}})
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"},
                    "data": {"libcuda.so.1": "not a library", "preload": ""}})
    volume = {"volumes": [{"name": "files", "configMap": {"name": "files"}}, {"name": "empty", "emptyDir": {}}]}

    def mounting(name, path, **more):
        made = user(name, volumeMounts=[{"name": "files", "mountPath": path, **more}])
        made["spec"].update(volume)
        return made
    pods = [
        user("env-from", envFrom=[{"configMapRef": {"name": "env"}}]),
        user("variables", env=[{"name": name, "value": value} for name, value in (
            ("ALIYUN_COM_GPU_MEM_CONTAINER", "15"), ("ALIYUN_COM_GPU_VISIBLE_DEVICES", "all"),
            ("RATION_GRANT", "/tmp/x"), ("CGPU_DISABLE", "true"), ("LD_LIBRARY_PATH", "/tmp"))]),
        mounting("over-shim", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", subPath="libcuda.so.1"),
        mounting("over-preload", "/etc/ld.so.preload", subPath="preload"),
        user("around-shim", volumeMounts=[{"name": "empty", "mountPath": "/usr/local/lib"}]),
        user("annotated"),
        user("traced", securityContext={"capabilities": {"add": ["SYS_PTRACE", "MKNOD"]}}),
    ]
    pods[4]["spec"].update(volume)
    pods[6]["spec"]["shareProcessNamespace"] = True
    pods[5]["metadata"]["annotations"] = {"cdi.k8s.io/x": "nvidia.com/gpu=all"}
    for made in pods:
        cluster.create(made)
    for running in cluster.wait_running(names=[made["metadata"]["name"] for made in pods]):
        name = running["metadata"]["name"]
        said = cluster.wait_for(lambda: cluster.log_of(name), 20, f"a word of {name}")    # noqa: B023 (called at once)
        assert last(said) == LIMITED, name
    variables = "echo $NVIDIA_VISIBLE_DEVICES $ALIYUN_COM_GPU_MEM_CONTAINER"
    assert cluster.exec_in("env-from", "sh", "-c", variables) == "void 2\n"
    assert cluster.exec_in("around-shim", "ls", "/usr/local/lib").split()[0].startswith("libcuda.so")
    assert "/run/ration/shim" in cluster.exec_in("over-preload", "cat", "/etc/ld.so.preload")


# ---- found

def holding(name, before="", library="libcuda.so.1", after="", **more):
    """A pod of 2 units that takes 3000 MiB past the shim and keeps them; before and after are around the program."""
    command = f"{before} {shell(*use(library, 'stay'))} {after}"
    return pod(name, containers=[container("c0", 2, command=command, **more)])


def over_a_link(name):
    """A path that leads to the grant only when it is mounted: admission sees /x/y/z/w/grant."""
    made = holding(name, volumeMounts=[{"name": "links", "mountPath": "/x/y/z"},
                                       {"name": "forged", "mountPath": "/x/y/z/w/grant", "subPath": "grant"}])
    prepare = container("prepare", 2, command=f"ln -s /run/ration /links/w; {FORGE.format('/forged/grant')}",
                        volumeMounts=[{"name": "links", "mountPath": "/links"}, {"name": "forged",
                                                                                 "mountPath": "/forged"}])
    made["spec"].update(initContainers=[prepare],
                        volumes=[{"name": "links", "emptyDir": {}}, {"name": "forged", "emptyDir": {}}])
    return made


def without_grant(name):
    """No GPU pod for the policies: Pod Security would have to refuse it. The lab's driver lies in /opt/ration-sim."""
    made = pod(name, containers=[container("c0", command=shell(*use("/opt/ration-sim/lib/libcuda.so.1", "stay")),
                                           env=[{"name": "RATION_SIM_DIR", "value": "/opt/ration-sim"}],
                                           volumeMounts=[{"name": "driver", "mountPath": "/opt/ration-sim"}])])
    made["spec"]["volumes"] = [{"name": "driver", "hostPath": {"path": "/opt/ration-sim"}}]
    return made


@pytest.fixture
def evicting(lab):
    """The lab with `onBypass: evict`, which it keeps: nobody else has these nodes."""
    cluster = lab(NODES)
    agents = "daemonset/gpushare-device-plugin-ds"
    if "--on-bypass=evict" not in cluster.kubectl("-n", "kube-system", "get", agents, "-o", "yaml"):
        cluster.run("helm", "upgrade", "ack-ai-installer", ROOT / "deploy/charts/ack-ai-installer", "-n", "kube-system",
                    "--reuse-values", "--set", "onBypass=evict")
        cluster.rolled_out(agents)
    return cluster


FOUND = [
    holding("drivers-own", library=DRIVER),
    holding("copy", f"cp {DRIVER} /tmp/mine.so;", library="/tmp/mine.so"),
    holding("preloaded", f"cp {DRIVER} /tmp/libcuda.so.1; LD_PRELOAD=/tmp/libcuda.so.1"),
    holding("namespace", FORGE.format("/tmp/grant") +
            "; unshare -Urm sh -c 'mount --bind /tmp/grant /run/ration/grant; exec \"$@\"' sh"),
    # The grant cannot be moved, but the folder in which it is mounted can.
    holding("moved", MOVE),
    over_a_link("over-a-link"),
]


def test_what_goes_past_the_shim_is_found_and_evicted_within_10_s(evicting):
    cluster, held, gone = evicting, {}, {}
    names = [made["metadata"]["name"] for made in FOUND]
    cluster.create({"apiVersion": "v1", "kind": "List", "items": [pod("innocent", 2), *FOUND]})
    deadline = time.monotonic() + 60
    while len(gone) < len(names):
        assert time.monotonic() < deadline, (held, gone)
        there = {p["metadata"]["name"]: p for p in cluster.pods()}
        for name in names:
            if name not in held and name in there:
                log = cluster.run("kubectl", "logs", name, "-c", "c0", check=False).stdout
                if "result" in log:
                    assert last(log)["result"] == 0, (name, log)
                    held[name] = time.monotonic()
            if name not in gone and (name not in there or "deletionTimestamp" in there[name]["metadata"]):
                gone[name] = time.monotonic()
        time.sleep(0.2)
    # One that had gone before its log was read held memory too, as its event says; most are seen to hold it.
    assert len(held) > len(names) / 2, held
    late = {name: gone[name] - held.get(name, gone[name]) for name in names}
    print(late)
    assert max(late.values()) <= 10, late
    for name in names:
        assert "GPUOverLimit" in [e["reason"] for e in cluster.events(name)], name
    assert cluster.pod("innocent")["status"]["phase"] == "Running"


@pytest.mark.long(12)
def test_who_writes_into_his_usage_file_is_held_all_the_same_or_found(evicting):
    """What the driver counts and the file does not is overhead, at the next look, and fills the limit too."""
    evicting.create(pod("forgets", containers=[container("c0", 2, command=shell("python3", "-c", load(FORGET)))]))
    log = evicting.wait_for(lambda: evicting.run("kubectl", "logs", "forgets", check=False).stdout, 20, "its word")
    if last(log)["taken"] > 2154:
        evicting.wait_for(lambda: "forgets" not in [p["metadata"]["name"] for p in evicting.pods()], 10, "the eviction")


@pytest.mark.long(12)
def test_pod_without_a_grant_on_a_card_is_found_and_evicted(evicting):
    evicting.create(without_grant("stranger"))
    evicting.wait_for(lambda: "stranger" not in [p["metadata"]["name"] for p in evicting.pods()], 40, "the eviction")
    assert "GPUWithoutGrant" in [e["reason"] for e in evicting.events("stranger")]


@pytest.mark.long(12)
def test_who_needs_no_library_to_use_a_card_is_found_and_evicted(evicting):
    """The simulated card has no ioctl: a program that takes its memory without any library stands for one that has."""
    evicting.create(pod("direct", 2))
    evicting.wait_running(names=["direct"])
    program = PRODUCT / "sim/ration-sim"
    library = re.search(r"libjson-c\.so\.\d+ => (\S+)", evicting.run("ldd", program).stdout).group(1)
    for file in (program, library):
        evicting.kubectl("cp", pathlib.Path(file).resolve(), f"direct:/tmp/{pathlib.Path(file).name}")
    index = annotation(evicting.pod("direct"), "ALIYUN_COM_GPU_MEM_IDX")
    evicting.exec_in("direct", "sh", "-c",
                     f"LD_LIBRARY_PATH=/tmp /tmp/ration-sim hold /run/ration-sim {index} 3000 > /tmp/said 2>&1 & sleep 1; grep holds /tmp/said")
    evicting.wait_for(lambda: "direct" not in [p["metadata"]["name"] for p in evicting.pods()], 10, "the eviction")
    assert "GPUOverLimit" in [e["reason"] for e in evicting.events("direct")]
