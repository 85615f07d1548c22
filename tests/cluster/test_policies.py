"""The admission policies of both charts on a real API server: what is refused, in which words, and what is not."""
import copy
import re

import pytest

import helmcharts
from api import Api, check
from cluster import ROOT
from crowdnodes import NODES
from gpupods import GPU_MEM, annotation, check_what_it_sees, container, pod
from gpurequests import templates
from nodetoken import Agent

pytestmark = pytest.mark.long(4)

SCHEDULER = "system:serviceaccount:kube-system:ration-scheduler"
# Contract: only the two service accounts of ration may set or change these on a pod.
KEYS = ["ration.dev/placement", "ration.dev/unit", "scheduler.framework.gpushare.allocation",
        "gpushare.alibabacloud.com/core-percentage", "ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_POD",
        "ALIYUN_COM_GPU_MEM_DEV", "ALIYUN_COM_GPU_MEM_ASSIGNED", "ALIYUN_COM_GPU_MEM_ASSUME_TIME",
        "ration.dev/resize-status", "topology.kubernetes.io/gpu-group", "topology.kubernetes.io/gpu-visible"]
NODE = NODES[0].split("=")[0]


def mounting(name, path, source=None, where="containers", **more):
    """A pod with gpu-mem and a mount at this path."""
    made = pod(name, 2)
    made["spec"]["volumes"] = [{"name": "v", **(source or {"emptyDir": {}})}]
    if where == "containers":
        made["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": path, **more}]
    else:
        extra = container("other", 1 if where == "initContainers" else None)
        extra["volumeMounts"] = [{"name": "v", "mountPath": path, **more}]
        made["spec"].setdefault("containers" if where == "beside" else where, []).append(extra)
    return made


def with_context(name, beside=False, **context):
    made = pod(name, 2)
    if beside:
        made["spec"]["containers"].append(container("beside"))
    made["spec"]["containers"][-1]["securityContext"] = context
    return made


def with_spec(name, **spec):
    return pod(name, 2, **spec)


def without_gpu(made):
    made = copy.deepcopy(made)
    for part in ("containers", "initContainers"):
        for one in made["spec"].get(part, []):
            one.pop("resources", None)
    return made


# ---- all of them

def test_policies_are_understood_by_the_api_server(lab):
    cluster = lab(NODES)

    def checked():
        """{policy: what its types are found to be}, once all were looked at."""
        found = {p["metadata"]["name"]: p.get("status", {}).get("typeChecking")
                 for p in cluster.json("get", "validatingadmissionpolicies")["items"]
                 if p["metadata"]["name"].startswith("ration-")}
        assert None not in found.values(), found
        return found
    found = cluster.wait_for(checked, 60, "the controller's look at the policies' types")
    assert found == dict.fromkeys(found, {})
    assert set(found) >= {"ration-placement-keys", "ration-gpu-volumes", "ration-gpu-privileges", "ration-agent-own-node",
                          "ration-gpu-requests"}


def rendered(cluster, chart, *arguments):
    return cluster.run("helm", "template", chart, ROOT / "deploy/charts" / chart, "-n", "kube-system",
                       *helmcharts.named(chart), *arguments).stdout


def policies_in(manifest):
    return set(re.findall(r"^kind: ValidatingAdmissionPolicy\nmetadata:\n  name: (\S+)$", manifest, re.M))


def test_each_policy_has_its_switch_and_the_charts_own_values_are_understood(lab):
    """The lab's values name another driver root than the charts' do."""
    cluster = lab(NODES)
    served = ["--kube-version", "1.36.3", "--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"]
    switches = {"ack-co-scheduler": {"ration-placement-keys": "policies.placementKeys",
                                     "ration-gpu-requests": "policies.requests"},
                "ack-ai-installer": {"ration-gpu-volumes": "policies.volumes", "ration-agent-own-node": "ownNodeOnly",
                                     "ration-gpu-privileges": "policies.privileges"}}
    for chart, names in switches.items():
        whole = rendered(cluster, chart, *served)
        assert policies_in(whole) >= set(names)
        cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=whole)
        for name, value in names.items():
            without = rendered(cluster, chart, *served, "--set", f"{value}=false")
            assert policies_in(without) == policies_in(whole) - {name} and name not in without
        assert not policies_in(rendered(cluster, chart, "--kube-version", "1.29.0"))    # served from 1.30


# ---- ration-placement-keys

def written_by_scheduler(key):
    return f"annotation {key} is written by the GPU scheduler only"


def test_pod_with_a_forged_placement_is_refused_by_the_name_of_its_key(lab):
    cluster = lab(NODES)
    cases = {}
    for i, key in enumerate(KEYS):
        for made in (pod(f"k{i}-gpu", 2, annotations={key: "1"}),
                     without_gpu(pod(f"k{i}-none", 2, annotations={key: "1"})),
                     pod(f"k{i}-bound", 2, annotations={key: "1"}, nodeName=NODE)):
            if key == "ration.dev/unit" and "none" not in made["metadata"]["name"]:
                continue    # stamped over: test_policies_requests.py
            cases[made["metadata"]["name"]] = (made, written_by_scheduler(key))
    check(cluster, cases, allowed=[pod("others", 2, annotations={"example.com/x": "1", "ration.dev/resize": "{}"})])


@pytest.fixture
def running(lab):
    """A pod that went the whole way under the policies, and its cluster."""
    cluster = lab(NODES)
    cluster.create(pod("p", 2))
    cluster.wait_running(names=["p"])
    cluster.wait_for(lambda: annotation(cluster.pod("p"), "ALIYUN_COM_GPU_MEM_ASSIGNED") == "true", 20,
                     "the agent's mark")
    return cluster


def keys_of(obj):
    return {key: annotation(obj, key) for key in KEYS}


POD_P = {"kind": "Pod", "metadata": {"name": "p"}}


def annotations(values):
    return {"metadata": {"annotations": values}}


def test_placement_of_a_running_pod_is_changed_by_nobody_but_ration_through_no_door(running):
    before = keys_of(running.pod("p"))
    with Api(running) as api:
        for key in KEYS:
            for value in ("7", None):
                if value is None and before[key] is None:
                    continue
                for door in (None, "status"):
                    said = api.patch(POD_P, annotations({key: value}), door)
                    assert said and written_by_scheduler(key) in said, (key, value, door, said)
        # Doors that put the old metadata back: no error, and no change either.
        forged = annotations({"ration.dev/placement": "{}"})
        api.patch(POD_P, forged, "resize")
        api.patch(POD_P, {**forged, "spec": {"ephemeralContainers": [
            {"name": "e", "image": "example", "imagePullPolicy": "Never"}]}}, "ephemeralcontainers")
        assert keys_of(running.pod("p")) == before
        # What is not placement stays the user's.
        for door in (None, "status"):
            usual = {"metadata": {"annotations": {"example.com/x": "1"}, "labels": {"a": "b"}}}
            assert api.patch(POD_P, usual, door) is None
        assert api.patch(POD_P, annotations({"ration.dev/resize": '{"c0":2}'})) is None
        assert api.patch(POD_P, annotations({"ration.dev/resize": None})) is None
    check_what_it_sees(running, running.pod("p"), running.nodes())
    with Api(running, user=SCHEDULER) as api:
        for key in KEYS:
            for value in (before[key] or "1", "7", None):
                assert api.patch(POD_P, annotations({key: value}), dry_run=True) is None
    agent = Agent(running, running.pod("p")["spec"]["nodeName"])
    path = f"/api/v1/namespaces/{running.namespace}/pods/p"
    for key in KEYS:
        said = agent.patch(path, annotations({key: "false"}))
        if key == "ALIYUN_COM_GPU_MEM_ASSIGNED":
            assert said is None
        else:
            assert written_by_scheduler(key) in said


def test_binding_that_carries_a_forged_placement_is_refused_at_both_of_its_doors(lab):
    """Its annotations are merged into the pod; that is how the scheduler writes them."""
    cluster = lab(NODES)
    cluster.create(without_gpu(pod("unbound", 2, schedulerName="nobody")))
    with Api(cluster) as api:
        for door in ("pods/{}/binding", "bindings"):
            for key in KEYS:
                assert written_by_scheduler(key) in api.bind("unbound", NODE, {key: "1"}, door)
        assert annotation(cluster.pod("unbound"), KEYS[0]) is None and "nodeName" not in cluster.pod("unbound")["spec"]
        assert api.bind("unbound", NODE, {"example.com/x": "1"}) is None
    assert cluster.pod("unbound")["spec"]["nodeName"] == NODE


# ---- ration-gpu-volumes

IN_THE_WAY = """
    /run/ration /run/ration/ /run/ration/grant /run/ration/usage /run/ration/shim /run/ration/driver/cuda/x /run /run/
    //run / // /. /./run/./ration /run//ration /var/run /var/run/ /var/run/ration /var/run/ration/grant
    /var//run/./ration/ run run/ration/grant ./run/ration /x/../run /run/../run/ration/grant /x/y/.. ..""".split()
HARMLESS = """
    /data /var /var/log /var/running /run/mysqld /run/rations /running /run/secrets/x /var/run/x /usr/local/share/x
    /usr/lib/x86_64-linux-gnu /etc/ld.so.preload /etc /usr/local/cuda /dev/shm /a..b /... /home/u/.cache
    /mnt/run/ration /workspace/""".split()
OF_THE_NODE = """
    / // /dev /dev/ /dev/nvidia0 /dev/nvidiactl /dev/nvidia-caps /dev/dri/card0 /dev/char /run /run/ration
    /run/ration/grants /var /var/run /var/run/cdi /run/cdi /etc /etc/cdi /etc//cdi/ /var/lib /var/lib/kubelet
    /var/lib/kubelet/device-plugins/kubelet.sock /run/containerd /run/containerd/containerd.sock /var/run/docker.sock /var/run/k3s/containerd/containerd.sock
    /run/crio/crio.sock /usr /usr/lib64 /lib /usr/lib/x86_64-linux-gnu/libcuda.so.1 /opt /opt/ration-sim
    /opt/ration-sim/lib /proc /sys /sys/bus/pci""".split()
OF_USERS = """
    /dev/shm /dev/infiniband /dev/hugepages /data /mnt/nvidia /home/u /etc/localtime /usr/local/cuda /usr/share/fonts
    /tmp /var/log /run/user/1000 /var/lib/docker-data /run/containerd-x /opt/models""".split()


def test_volume_at_above_or_below_the_grant_is_refused_by_container_and_path(lab):
    cluster = lab(NODES)
    cases = {}
    for i, path in enumerate(IN_THE_WAY):
        cases[f"m{i}"] = (mounting(f"m{i}", path), f'container "c0": a mount at {path}: ')
    cases["init"] = (mounting("init", "/run/ration/grant", where="initContainers"),
                     'container "other": a mount at /run/ration/grant')
    cases["sub"] = (mounting("sub", "/run/ration/grant", subPath="grant"),
                    'container "c0": a mount at /run/ration/grant')
    block = pod("block", 2, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    block["spec"]["containers"][0]["volumeDevices"] = [{"name": "v", "devicePath": "/run/ration/usage"}]
    last = pod("last", containers=[container("c", 2, terminationMessagePath="/var/run/ration/grant")])
    cases["last"] = (last, 'container "c": a mount at /var/run/ration/grant')
    cases["block"] = (block, 'container "c0": a mount at /run/ration/usage')
    check(cluster, cases, allowed=[mounting(f"h{i}", path) for i, path in enumerate(HARMLESS)] + [
        mounting("beside", "/run", where="beside"),    # that container has no grant
        *(without_gpu(mounting(f"n{i}", path)) for i, path in enumerate(("/run", "/run/ration", "/x/../run")))])


def test_no_kind_of_volume_may_lie_over_the_grant(lab):
    kinds = ({"configMap": {"name": "x", "items": [{"key": "grant", "path": "grant"}]}},
             {"secret": {"secretName": "x"}}, {"projected": {"sources": []}}, {"downwardAPI": {"items": []}},
             {"persistentVolumeClaim": {"claimName": "x"}}, {"hostPath": {"path": "/data"}}, {"image": {"reference": "example.com/x"}})
    check(lab(NODES), {f"v{i}": (mounting(f"v{i}", "/run/ration", source), 'container "c0": a mount at /run/ration: ')
                       for i, source in enumerate(kinds)})


def test_host_path_with_what_belongs_to_the_node_is_refused_by_volume_and_path(lab):
    cluster = lab(NODES)
    cases = {f"f{i}": (mounting(f"f{i}", "/x", {"hostPath": {"path": path}}), f'volume "v": hostPath {path}: ')
             for i, path in enumerate(OF_THE_NODE)}
    # A volume of the pod, whoever mounts it: what one container links into it, another finds.
    cases["beside"] = (mounting("beside", "/x", {"hostPath": {"path": "/dev"}}, where="beside"),
                       'volume "v": hostPath /dev: ')
    allowed = [mounting(f"a{i}", "/x", {"hostPath": {"path": path}}) for i, path in enumerate(OF_USERS)]
    plain = [without_gpu(mounting(f"n{i}", "/x", {"hostPath": {"path": path}})) for i, path in enumerate(OF_THE_NODE)]
    check(cluster, cases, allowed + plain)


def test_large_pod_is_judged_within_the_cost_that_the_api_server_allows(lab):
    """64 containers with 60 volumes each: more than any real one; the policy must refuse by rule, not by its cost."""
    cluster = lab(NODES)

    def large(name, last):
        made = pod(name, *[1] * 64, volumes=[{"name": f"v{i}", "hostPath": {"path": f"/data/some/folder/of/{i}"}}
                                             for i in range(60)])
        for c in made["spec"]["containers"]:
            c["volumeMounts"] = [{"name": f"v{i}", "mountPath": f"/workspace/a/folder/that/is/deep/{i}"}
                                 for i in range(60)]
            c["env"] = [{"name": f"SETTING_{i}", "value": "x" * 40} for i in range(40)]
        made["spec"]["containers"][-1]["volumeMounts"][-1]["mountPath"] = last
        return made
    check(cluster, {"bad": (large("bad", "/run/ration"), 'container "c63": a mount at /run/ration: ')},
          allowed=[large("good", "/workspace/last")])


# ---- ration-gpu-privileges

RULE = "not in a pod that asks for aliyun.com/gpu-mem"


def test_pod_that_sets_its_own_visible_devices_is_refused(lab):
    variable = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    source = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    words = f"variable NVIDIA_VISIBLE_DEVICES: {RULE}"
    cases = {}
    for name, one in (("value", variable), ("source", source)):
        cases[name] = (pod(name, containers=[container("c", 2, env=[{"name": "A", "value": "b"}, one])]),
                       f'container "c": {words}')
    cases["init"] = (pod("init", 2, init=[container("i", 1, env=[variable])]), f'container "i": {words}')
    cases["beside"] = (pod("beside", containers=[container("c", 2), container("d", env=[variable])]),
                       f'container "d": {words}')
    plain = pod("plain", containers=[container("c", env=[variable])])
    other = pod("other", containers=[container("c", 2, env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}])])
    check(lab(NODES), cases, allowed=[plain, other])


def test_privileges_that_reach_past_the_pod_are_refused_by_container_value_and_rule(lab):
    cases = {
        "host-pid": (with_spec("host-pid", hostPID=True), f"hostPID: true: {RULE}"),
        "privileged": (with_context("privileged", privileged=True), f'container "c0": privileged: true: {RULE}'),
        "beside": (with_context("beside", beside=True, privileged=True),
                   f'container "beside": privileged: true: {RULE}'),
        "unmasked": ({**with_context("unmasked", procMount="Unmasked")},
                     f'container "c0": procMount: Unmasked: {RULE}'),
    }
    cases["unmasked"][0]["spec"]["hostUsers"] = False
    for i, capability in enumerate(("SYS_ADMIN", "sys_admin", "CAP_SYS_ADMIN", "ALL", "all", "SYS_MODULE",
                                    "SYS_RAWIO", "BPF", "DAC_READ_SEARCH")):
        cases[f"cap{i}"] = (with_context(f"cap{i}", capabilities={"add": ["NET_ADMIN", capability]}),
                            f'container "c0": capability {capability}: {RULE}')
    allowed = [
        with_context("usual", runAsNonRoot=True, runAsUser=1000, readOnlyRootFilesystem=True,
                     allowPrivilegeEscalation=False, privileged=False, procMount="Default",
                     capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
        with_context("ptrace", capabilities={"add": ["SYS_PTRACE", "IPC_LOCK", "SYS_NICE", "NET_ADMIN", "MKNOD"]}),
        with_spec("shared", shareProcessNamespace=True), with_spec("own-users", hostUsers=False),
        with_spec("no", hostPID=False),
        with_spec("network", hostNetwork=True, hostIPC=True)]
    plain = []
    for name, (made, _) in cases.items():
        plain.append(without_gpu(made))
        plain[-1]["metadata"]["name"] = f"plain-{name}"
    check(lab(NODES), cases, allowed + plain)


# ---- templates, debug containers

def test_templates_of_all_eight_kinds_are_refused_where_they_are_made(lab):
    cluster = lab(NODES)
    variable = pod("x", containers=[container("c", 2, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])])
    bad = {"pid": (with_spec("x", hostPID=True), f"hostPID: true: {RULE}"),
           "mount": (mounting("x", "/run/ration"), 'container "c0": a mount at /run/ration: '),
           "env": (variable, f'container "c": variable NVIDIA_VISIBLE_DEVICES: {RULE}')}
    cases = {obj["metadata"]["name"]: (obj, words) for name, (made, words) in bad.items() for obj in templates(made,
                                                                                                               name)}
    assert len(cases) == 24
    check(cluster, cases, allowed=templates(pod("x", 2), "good") + templates(without_gpu(bad["pid"][0]), "plain"))


def debug(cluster, *argv):
    done = cluster.run("kubectl", "debug", "p", "--image", "example", "--image-pull-policy=Never", *argv, check=False)
    return done.stderr if done.returncode else None


def test_debug_container_of_a_gpu_pod_may_not_have_more_than_the_pod(running):
    said = debug(running, "--profile=sysadmin", "-c", "d1")
    assert f'container "d1": privileged: true: {RULE}' in said
    token = next(v["name"] for v in running.pod("p")["spec"]["volumes"])
    with Api(running) as api:
        for more, words in (({"name": "d2", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
                             f'container "d2": variable NVIDIA_VISIBLE_DEVICES: {RULE}'),
                            ({"name": "d3", "volumeMounts": [{"name": token, "mountPath": "/run/ration"}]},
                             'container "d3": a mount at /run/ration: ')):
            grow = {"spec": {"ephemeralContainers": [{"image": "example", "targetContainerName": "c0", **more}]}}
            said = api.patch(POD_P, grow, "ephemeralcontainers", content_type="application/strategic-merge-patch+json")
            assert words in said
    # The usual ones, as kubectl makes them.
    assert debug(running, "-c", "d4") is None
    assert debug(running, "-c", "d5", "--target=c0", "--profile=general") is None
    assert [c["name"] for c in running.pod("p")["spec"]["ephemeralContainers"]][-2:] == ["d4", "d5"]


def test_units_are_asked_of_init_containers_and_by_requests_too(lab):
    """Whoever asks for gpu-mem is a GPU pod, wherever it says so."""
    cluster = lab(NODES)
    init = pod("init", containers=[container("c")], init=[container("i", 1)], hostPID=True)
    sidecar = pod("sidecar", containers=[container("c")], init=[container("i", 1, restartPolicy="Always")],
                  hostPID=True)
    zero = pod("zero", 0, hostPID=True)
    both = pod("both", containers=[container("c", resources={"limits": {GPU_MEM: 1}, "requests": {GPU_MEM: 1}})],
               hostPID=True)
    check(cluster, {p["metadata"]["name"]: (p, f"hostPID: true: {RULE}") for p in (init, sidecar, zero, both)})
