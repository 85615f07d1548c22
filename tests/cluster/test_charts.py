"""The charts by helm itself, without a cluster: wrong values are refused in words, each right one has its effect."""
import json

import pytest
import yaml

from helmcharts import AGENT, CHARTS, IMAGES, SCHEDULER, find, helm, named, refusal, rendered, template

LOW = "1.29.0"
RECOMMENDED = ("app.kubernetes.io/", "helm.sh/")
# What selects the pods of each chart. A selector of a Deployment or DaemonSet cannot be changed (apps/v1), so that an upgrade
# with another one would be refused.
OWN = {AGENT: {"name": "gpushare-device-plugin-ds"}, SCHEDULER: {"app": SCHEDULER}}
DIGEST = "sha256:" + "0123456789abcdef" * 4


def pod_of(chart, *argv):
    kind = "DaemonSet" if chart == AGENT else "Deployment"
    return find(rendered(chart, *argv), kind)["spec"]["template"]


def container_of(chart, name, *argv):
    return next(c for c in pod_of(chart, *argv)["spec"]["containers"] if c["name"] == name)


def argument(chart, name, *argv):
    """The value of --name of our program."""
    container = container_of(chart, "ration-agent" if chart == AGENT else "ration-scheduler", *argv)
    values = [a.split("=", 1)[1] for a in container["args"] if a.startswith(f"--{name}=")]
    assert len(values) == 1, container["args"]
    return values[0]


def leaves(values, path=()):
    """(path, value) of each value that is no map with known keys."""
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in ("requests", "limits", "labels"):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


# ---- refused

@pytest.mark.parametrize("chart", [AGENT, SCHEDULER])
def test_a_chart_has_no_image_of_somebody_elses(chart):
    """helm's own words around it are one line."""
    alone = ["--set", "scheduler.enabled=false"] if chart == AGENT else []
    done = helm("template", chart, CHARTS / chart, "--kube-version", LOW, *alone)
    assert done.returncode != 0
    assert [line for line in done.stderr.splitlines() if line and not line.startswith("walk.go")] == [
        "Error: execution error at ({0}/templates/checks.yaml:1:4): image.repository and global.imageRegistry are empty: set the "
        "registry that your nodes reach, e.g. --set global.imageRegistry=registry.example.com/gpu, and the image is "
        "registry.example.com/gpu/{1}".format(chart, IMAGES[chart]),
        "Use --debug flag to render out invalid YAML"]


@pytest.mark.parametrize("chart, setting, words", [
    (AGENT, "policy=7", "policy: 7 is not valid: it must be 0 (fair-share), 1 (preemptive), 2 (weight-"),
    (AGENT, "policy=-1", "policy: -1 is not valid"),
    (AGENT, "policy=fixed", "policy: fixed is not valid"),
    (AGENT, "gpuMemoryUnit=100MiB", "gpuMemoryUnit: 100MiB is not valid: gpu-mem counts in 1GiB, 512MiB, 256MiB or 128MiB"),
    (AGENT, "gpuMemoryUnit=1Gi", "gpuMemoryUnit: 1Gi is not valid"),
    (AGENT, "onBypass=kill", "onBypass: kill is not valid: it must be report"),
    (AGENT, "unknownFunctions=maybe", "unknownFunctions: invalid value maybe; must be serve"),
    (AGENT, "claims.privileged=allow", "claims.privileged: invalid value allow; must be refuse (the pod does not start) or prepare"),
    (AGENT, "maxPodsPerGPU=-1", "maxPodsPerGPU: -1 is not valid: it must be a number from 1 to 1000, or 0"),
    (AGENT, "maxPodsPerGPU=1001", "maxPodsPerGPU: 1001 is not valid"),
    (AGENT, "logLevel=loud", "logLevel: loud is not valid: it must be error, warning, info or debug"),
    (AGENT, "metrics.listen=39996", "at '/metrics/listen': got number, want string"),
    (AGENT, "metrics.listen=:39996", 'metrics.listen: ":39996" is not valid: it must be an IPv4 address with a port'),
    (AGENT, "metrics.listen=0.0.0.256:39996", 'metrics.listen: "0.0.0.256:39996" is not valid'),
    (AGENT, "metrics.listen=0.0.0.0:65536", 'metrics.listen: "0.0.0.0:65536" is not valid'),
    (AGENT, "metrics.listen=0.0.0.0:39995", "metrics.listen: 0.0.0.0:39995: 39995 is the pod's own port for probes"),
    (AGENT, "metrics.listen=", 'metrics.listen: "" is not valid'),
    (AGENT, "driverRoot=usr", 'driverRoot: "usr" is not valid: it must be an absolute path on the nodes'),
    (AGENT, "cdiDir=/run/../etc", 'cdiDir: "/run/../etc" is not valid'),
    (AGENT, "driverRoot=/d\\, type: File", 'driverRoot: "/d, type: File" is not valid'),
    (AGENT, "criSocket=/containerd.sock", 'criSocket: "/containerd.sock" is not valid: its folder is mounted'),
    (AGENT, "cdiDir=//", 'cdiDir: "//" is not valid: its folder is mounted into the agent'),
    (AGENT, "kubeletDir=", 'kubeletDir: "" is not valid'),
    (AGENT, "image.digest=sha256:12", 'image.digest: "sha256:12" is not valid: it must be sha256: and 64 hexadecimal'),
    (AGENT, "image.repository=", "image.repository and global.imageRegistry are empty"),
    (SCHEDULER, "kubeScheduler.repository=", "kubeScheduler.repository is empty: set it to the name of the image in a registry"),
    (AGENT, "podLabels.name=other", "podLabels.name: this label selects the pods"),
    (AGENT, "allowDisable=maybe", "at '/allowDisable': got string, want boolean"),
    (AGENT, "gpuMemoryUnits=1GiB", "additional properties 'gpuMemoryUnits' not allowed"),
    (AGENT, "policies.volume=false", "at '/policies': additional properties 'volume' not allowed"),
    (AGENT, "policies.volumes=null", "at '/policies': missing property 'volumes'"),
    (AGENT, "tolerations[0].operater=Exists", "at '/tolerations/0': additional properties 'operater' not allowed"),
    (AGENT, "claims.enabled=maybe", "claims.enabled: invalid value maybe; must be auto, true or false"),
    (AGENT, "image.pullPolicy=Sometimes", "at '/image/pullPolicy': value must be one of"),
    (SCHEDULER, "jobMixing=maybe", "jobMixing: maybe is not valid: it must be forbid or allow"),
    (SCHEDULER, "nodeOrder=random", "nodeOrder: invalid value random; must be balanced or fullest"),
    (SCHEDULER, "gangTimeoutSeconds=0", "gangTimeoutSeconds: 0 is not valid: it must be a number from 1 to 86400"),
    (SCHEDULER, "gangKeepAfterSeconds=86401",
     "gangKeepAfterSeconds: 86401 is not valid: it must be a number from 0 to 86400"),
    (SCHEDULER, "jobMixing=true", "at '/jobMixing': got boolean, want string"),
    (SCHEDULER, "replicas=0", "replicas: 0 is not valid: it must be a number from 1 to 99"),
    (SCHEDULER, "bestNodes=many", "bestNodes: many is not valid: it must be a number from 1 to 100000, or 0"),
    (SCHEDULER, "maxPodsPerGPU=-5", "maxPodsPerGPU: -5 is not valid"),
    (SCHEDULER, "metrics.listen=0.0.0.0:39999", "metrics.listen: 0.0.0.0:39999: 39998 and 39999 are the pod's own"),
    (SCHEDULER, "metrics.listen=yes", 'metrics.listen: "yes" is not valid'),
    (SCHEDULER, "podLabels.app=other", "podLabels.app: this label selects the pods"),
    (SCHEDULER, "profiles[0].schedulerName=default-scheduler", "two of one name would place the same pods twice"),
    (SCHEDULER, "profiles[0].schedulerName=mine", 'must have the schedulerName ack-co-scheduler, which pods of ration '
                                                  'name; here are ["mine"]'),
    (SCHEDULER, "profiles={}", "at '/profiles/0': got string, want object"),
    (SCHEDULER, "kubeScheduler.digest=latest", 'kubeScheduler.digest: "latest" is not valid'),
    (AGENT, "alerts.enabled=true", 'alerts.enabled: there are no metrics that Prometheus can reach while '
                                   'metrics.listen is "127.0.0.1:39996": set it to 0.0.0.0:39996'),
    (AGENT, "metrics.serviceMonitor.interval=often", "at '/metrics/serviceMonitor/interval': 'often' does not match"),
    (SCHEDULER, "metrics.serviceMonitor.enabled=true", 'metrics.serviceMonitor.enabled: there are no metrics that '
                                                       'Prometheus can reach while metrics.listen is ""'),
    (SCHEDULER, "jobMixng=allow", "additional properties 'jobMixng' not allowed"),
])
def test_wrong_value_is_refused_in_words(chart, setting, words):
    assert words in refusal(chart, "--set", setting)


def test_profiles_of_one_name_are_refused():
    profiles = json.dumps([{"schedulerName": SCHEDULER}] * 2)
    assert "profiles: each needs a schedulerName of its own" in refusal(SCHEDULER, "--set-json", f"profiles={profiles}")


@pytest.mark.parametrize("chart", [AGENT, SCHEDULER])
def test_a_cluster_that_is_too_old_is_named(chart):
    done = template(chart, version="1.28.15")
    assert done.returncode != 0
    assert "chart requires kubeVersion: >=1.29.0-0 which is incompatible with Kubernetes v1.28.15" in done.stderr


def test_all_wrong_values_are_named_at_once():
    said = refusal(AGENT, "--set", "policy=7,gpuMemoryUnit=100MiB,onBypass=kill")
    assert all(words in said for words in ("policy: 7", "gpuMemoryUnit: 100MiB", "onBypass: kill"))


def test_wrong_values_are_refused_by_lint_and_by_a_chart_that_has_ours_as_a_part(tmp_path):
    done = helm("lint", CHARTS / AGENT, *named(AGENT), "--set", "policy=7")
    assert "policy: 7 is not valid" in done.stdout + done.stderr    # lint tells, and fails for what the schema says only
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump({
        "apiVersion": "v2", "name": "whole", "version": "1.0.0",
        "dependencies": [{"name": chart, "version": "*", "repository": f"file://{CHARTS / chart}"}
                         for chart in (AGENT, SCHEDULER)]}))
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({
        "global": {"region": "x"}, AGENT: {"policy": 3, "image": {"repository": "r/agent"}, "scheduler": {"enabled": False}},
        SCHEDULER: {"image": {"repository": "r/scheduler"}}}))
    assert helm("dependency", "build", "--skip-refresh", tmp_path).returncode == 0
    whole = ["template", "x", tmp_path, "-n", "kube-system", "--kube-version", LOW]
    done = helm(*whole)
    assert done.returncode == 0, done.stderr
    objects = [obj for obj in yaml.safe_load_all(done.stdout) if obj]
    assert find(objects, "ConfigMap", "ration-policy")["data"]["policy"] == "3"
    assert "jobMixing: maybe is not valid" in helm(*whole, "--set", f"{SCHEDULER}.jobMixing=maybe").stderr


# ---- one chart is enough

REGISTRY = ["--set", "global.imageRegistry=r.example.com/gpu/"]


def whole(*argv, version=LOW):
    return helm("template", "gpu", CHARTS / AGENT, "-n", "kube-system", "--kube-version", version, *argv)


def objects_of(done):
    assert done.returncode == 0, done.stderr
    return {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]): o for o in yaml.safe_load_all(done.stdout) if o}


def test_one_chart_installs_what_both_install():
    both = {}
    for chart in (AGENT, SCHEDULER):
        alone = ["--set", "scheduler.enabled=false"] if chart == AGENT else []
        both |= objects_of(helm("template", "gpu", CHARTS / chart, "-n", "kube-system", "--kube-version", LOW, *REGISTRY, *alone))
    assert objects_of(whole(*REGISTRY)) == both
    images = {c["image"] for o in both.values() if o["kind"] in ("DaemonSet", "Deployment")
              for c in o["spec"]["template"]["spec"]["containers"]}
    assert images == {"r.example.com/gpu/ration-agent:0.1.0", "r.example.com/gpu/ration-scheduler:0.1.0",
                      f"registry.k8s.io/kube-scheduler:v{LOW}"}


def test_the_parts_values_reach_it_and_wrong_ones_are_refused():
    deployment = objects_of(whole(*REGISTRY, "--set", "scheduler.jobMixing=allow"))["Deployment", "kube-system", SCHEDULER]
    assert "--job-mixing=allow" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    for setting, words in (("scheduler.jobMixing=maybe", "jobMixing: maybe is not valid"),
                           ("scheduler.jobMixng=allow", "additional properties 'jobMixng' not allowed"),
                           ("scheduler.enabled=maybe", "got string, want boolean"),
                           ("maxPodsPerGPU=3", "maxPodsPerGPU: 3 here and 0 in scheduler.maxPodsPerGPU"),
                           ("webhook.enabled=false", "webhook.enabled: false here and auto in scheduler.webhook.enabled")):
        done = whole(*REGISTRY, "--set", setting)
        assert done.returncode != 0 and words in done.stderr, (setting, done.stderr)
    assert whole(*REGISTRY, "--set", "maxPodsPerGPU=3,scheduler.maxPodsPerGPU=3").returncode == 0


# ---- taken

@pytest.mark.parametrize("settings", [[], ["--set", "image.repository=r/x"]], ids=["as-it-is", "named"])
@pytest.mark.parametrize("chart", [AGENT, SCHEDULER])
def test_lint_finds_nothing_wrong(chart, settings):
    done = helm("lint", "--strict", CHARTS / chart, "-n", "kube-system", *settings)
    assert done.returncode == 0, done.stdout


def test_numbers_may_be_given_as_text():
    text = ["--set-string"]
    said = find(rendered(AGENT, *text, "policy=3,maxPodsPerGPU=16,gpuMemoryUnit=128MiB"), "ConfigMap", "ration-policy")
    assert said["data"] == {"policy": "3", "maxPodsPerGPU": "16", "gpuMemoryUnit": "128MiB", "uninstall": "false"}
    assert argument(SCHEDULER, "max-pods-per-gpu", *text, "maxPodsPerGPU=16,replicas=3,bestNodes=5000") == "16"
    assert argument(SCHEDULER, "best-nodes", "--set", "bestNodes=100000") == "100000"


@pytest.mark.parametrize("chart, name, argv, want", [
    (AGENT, "host-driver-root", ["driverRoot=/run/nvidia/driver"], "/run/nvidia/driver"),
    (AGENT, "cri-socket", ["criSocket=/run/k3s/containerd/containerd.sock"], "/run/k3s/containerd/containerd.sock"),
    (AGENT, "cdi-dir", ["cdiDir=/etc/cdi"], "/etc/cdi"),
    (AGENT, "pod-resources-socket", ["kubeletDir=/data/kubelet"], "/data/kubelet/pod-resources/kubelet.sock"),
    (AGENT, "metrics", ["metrics.listen=none"], "none"),
    (AGENT, "on-bypass", ["onBypass=evict"], "evict"),
    (AGENT, "unknown-functions", ["unknownFunctions=refuse"], "refuse"),
    (AGENT, "privileged-claims", ["claims.enabled=true,claims.privileged=prepare"], "prepare"),
    (AGENT, "log-level", ["logLevel=debug"], "debug"),
    (SCHEDULER, "job-mixing", ["jobMixing=allow"], "allow"),
    (SCHEDULER, "node-order", ["nodeOrder=fullest"], "fullest"),
    (SCHEDULER, "gang-timeout", ["gangTimeoutSeconds=7"], "7"),
    (SCHEDULER, "gang-keep-after", ["gangKeepAfterSeconds=0"], "0"),
    (SCHEDULER, "metrics", ["metrics.listen=0.0.0.0:39997"], "0.0.0.0:39997"),
    (SCHEDULER, "log-level", ["logLevel=debug"], "debug"),
])
def test_value_reaches_its_program(chart, name, argv, want):
    assert argument(chart, name, "--set", *argv) == want


@pytest.mark.parametrize("value, path", [("criSocket", "/run/x.sock"), ("criSocket", "/run/x/x.sock"), ("cdiDir", "/run/x"), ("driverRoot", "/run")])
def test_a_value_below_var_run_keeps_pods_off_both_names_of_the_folder(value, path):
    """/var/run is a link to /run."""
    def folders(path):
        variables = find(rendered(AGENT, "--set", f"{value}={path}"), "ValidatingAdmissionPolicy", "ration-gpu-volumes")["spec"]["variables"]
        listed = set(json.loads(next(v["expression"] for v in variables if v["name"] == "hostPaths")))
        assert {f"var/{name}" for name in listed if name.startswith("run/")} == {name for name in listed if name.startswith("var/run/")}
        return listed
    assert folders(path) == folders(f"/var{path}")


def test_driver_folders_of_the_values_are_what_the_agent_mounts():
    pod = pod_of(AGENT, "--set", "driverRoot=/d,criSocket=/run/x/x.sock,cdiDir=/etc/cdi,kubeletDir=/k")["spec"]
    assert {v["name"]: v["hostPath"]["path"] for v in pod["volumes"]} == {
        "device-plugins": "/var/lib/kubelet/device-plugins", "pod-resources": "/k/pod-resources", "cri": "/run/x",
        "cdi": "/etc/cdi", "state": "/run/ration", "driver": "/d", "plugins-registry": "/k/plugins_registry",
        "plugin": "/k/plugins/gpu.ration.dev"}
    inside = {m["name"]: m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    assert (inside["pod-resources"], inside["cri"], inside["cdi"]) == ("/k/pod-resources", "/run/x", "/etc/cdi")
    policy = json.dumps(rendered(AGENT, "--set", "kubeletDir=/k,cdiDir=/cdi-files"))
    assert '\\"k/\\"' in policy and '\\"cdi-files/\\"' in policy    # no GPU pod mounts them


@pytest.mark.parametrize("chart, own", OWN.items())
def test_what_kubernetes_does_with_our_pods_can_be_said(tmp_path, chart, own):
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}]}}}
    values = {"imagePullSecrets": [{"name": "registry"}], "priorityClassName": "mine", "nodeSelector": {"pool": "gpu"},
              "affinity": affinity, "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}],
              "podAnnotations": {"example.com/a": "1"}, "podLabels": {"team": "ml"}}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    pod = pod_of(chart, "--values", tmp_path / "values.yaml")
    for key in ("imagePullSecrets", "priorityClassName", "nodeSelector", "affinity", "tolerations"):
        assert pod["spec"][key] == values[key]
    assert {k: v for k, v in pod["metadata"]["labels"].items() if not k.startswith(RECOMMENDED)} == {**own, "team": "ml"}
    assert pod["metadata"]["annotations"]["example.com/a"] == "1"


def test_text_of_a_value_stays_a_text():
    """What looks like YAML in it is no YAML of the manifest."""
    odd = 'a: b # {c}'
    assert pod_of(AGENT, "--set", f"priorityClassName={odd}")["spec"]["priorityClassName"] == odd
    assert container_of(AGENT, "ration-agent", "--set", f"image.tag={odd}")["image"].endswith(":" + odd)
    assert pod_of(SCHEDULER, "--set", f"podAnnotations.x={odd}")["metadata"]["annotations"]["x"] == odd


def test_resources_reach_each_container():
    assert container_of(AGENT, "ration-agent", "--set", "resources.limits.memory=1Gi")["resources"]["limits"] == {
        "memory": "1Gi"}
    pod = pod_of(SCHEDULER, "--set", "resources.scheduler.requests.cpu=2,resources.kubeScheduler.requests.cpu=1")
    assert {c["name"]: c["resources"]["requests"]["cpu"] for c in pod["spec"]["containers"]} == {
        "ration-scheduler": 2, "kube-scheduler": 1}


def test_images_are_named_by_tag_or_exactly_by_digest():
    assert container_of(AGENT, "ration-agent")["image"] == "ration/ration-agent:0.1.0"
    assert container_of(AGENT, "ration-agent", "--set", "image.tag=v1")["image"].endswith("agent:v1")
    for chart, name, value in ((AGENT, "ration-agent", "image"), (SCHEDULER, "ration-scheduler", "image"),
                               (SCHEDULER, "kube-scheduler", "kubeScheduler")):
        setting = f"{value}.digest={DIGEST},{value}.repository=r.example.com/x"
        assert container_of(chart, name, "--set", setting)["image"] == f"r.example.com/x@{DIGEST}"
    assert container_of(SCHEDULER, "kube-scheduler")["image"] == "registry.k8s.io/kube-scheduler:v1.36.3"


def test_profiles_reach_kube_scheduler():
    profiles = [{"schedulerName": SCHEDULER}, {"schedulerName": "night", "percentageOfNodesToScore": 50,
                                               "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}}}]
    config = find(rendered(SCHEDULER, "--set-json", f"profiles={json.dumps(profiles)}"), "ConfigMap", SCHEDULER)
    assert yaml.safe_load(config["data"]["scheduler.yaml"])["profiles"] == profiles


def test_one_replica_has_no_disruption_budget():
    assert "PodDisruptionBudget" in {o["kind"] for o in rendered(SCHEDULER)}
    assert "PodDisruptionBudget" not in {o["kind"] for o in rendered(SCHEDULER, "--set", "replicas=1")}


def test_default_scheduler_leaves_the_deployment_out_and_has_its_rights():
    objects = rendered(SCHEDULER, "--set", "defaultScheduler=true")
    assert not {"Deployment", "ConfigMap", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy",
                "MutatingAdmissionPolicy"} & {o["kind"] for o in objects}
    user = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:kube-scheduler"}
    assert {o["metadata"]["name"]: o["subjects"] for o in objects if o["kind"].endswith("RoleBinding")} == {
        "ration-scheduler": [user], "ration-scheduler-lease": [user]}
    policy = find(objects, "ValidatingAdmissionPolicy", "ration-placement-keys")
    assert policy["spec"]["matchConditions"][0]["expression"] == "request.userInfo.username != 'system:kube-scheduler'"
    asked = "defaultScheduler=true,metrics.serviceMonitor.enabled=true,metrics.listen=0.0.0.0:1234"
    assert "no pods of this chart" in refusal(SCHEDULER, "--set", asked)


# ---- least rights

def test_scheduler_pod_is_as_kubernetes_calls_restricted():
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/, profile Restricted."""
    spec = pod_of(SCHEDULER)["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert {key for v in spec["volumes"] for key in v} == {"name", "configMap"}
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True
        assert context["runAsNonRoot"] is True and context["runAsUser"] > 0
        assert context["capabilities"] == {"drop": ["ALL"]} and context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert "privileged" not in context


def test_agent_is_privileged_for_its_mounts_and_writes_nowhere_else():
    spec = pod_of(AGENT)["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert "hostNetwork" not in spec and "hostIPC" not in spec and spec["hostPID"] is True
    writable = {m["name"] for m in container["volumeMounts"] if not m.get("readOnly")}
    assert writable == {"device-plugins", "cdi", "state", "plugins-registry", "plugin"}


@pytest.mark.parametrize("chart, port", [(AGENT, 39996), (SCHEDULER, 39997)])
def test_network_policy_lets_in_only_who_reads_opened_metrics(chart, port):
    def policy(*argv):
        return find(rendered(chart, *argv), "NetworkPolicy")["spec"]
    assert policy() == {"podSelector": {"matchLabels": OWN[chart]}, "policyTypes": ["Ingress"], "ingress": []}
    assert policy("--set", "metrics.listen=127.0.0.1:39990")["ingress"] == []
    opened = policy("--set", f"metrics.listen=0.0.0.0:{port}", "--set", "networkPolicy.apiServerPorts={443,6443}")
    assert opened["ingress"] == [{"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {
        "app.kubernetes.io/name": "prometheus"}}}], "ports": [{"protocol": "TCP", "port": port}]}]
    assert opened["egress"] == [{"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]}]
    assert opened["policyTypes"] == ["Ingress", "Egress"]
    other = policy("--set", f"metrics.listen=10.0.0.1:{port}", "--set-json", 'networkPolicy.metricsFrom=[{"ipBlock":'
                   '{"cidr":"10.0.0.0/8"}}]')
    assert other["ingress"][0]["from"] == [{"ipBlock": {"cidr": "10.0.0.0/8"}}]
    assert "NetworkPolicy" not in {o["kind"] for o in rendered(chart, "--set", "networkPolicy.enabled=false")}


# ---- claims

def of_claims(objects):
    """What the chart installs only for ResourceClaims: (objects, rights of the agent, volumes of its pod)."""
    names = {(o["kind"], o["metadata"]["name"]) for o in objects if o["metadata"]["name"] in (
        "gpu.ration.dev", "whole.gpu.ration.dev", "ration-gpu-claims", "ration-agent-own-slices")}
    rights = {(resource, *sorted(rule["verbs"])) for o in objects if o["kind"] == "ClusterRole" and o["metadata"]["name"] == "ration-agent"
              for rule in o["rules"] if "resource.k8s.io" in rule["apiGroups"] for resource in rule["resources"]}
    volumes = {v["name"] for v in find(objects, "DaemonSet")["spec"]["template"]["spec"]["volumes"] if "plugin" in v["name"]}
    return names, rights, volumes - {"device-plugins"}


POLICY = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
CLASSES = {("DeviceClass", "gpu.ration.dev"), ("DeviceClass", "whole.gpu.ration.dev")}
ALL_OF_CLAIMS = (CLASSES | {(kind, name) for kind in POLICY for name in ("ration-gpu-claims", "ration-agent-own-slices")},
                 {("resourceslices", "create", "delete", "list", "update", "watch"), ("resourceclaims", "get")},
                 {"plugins-registry", "plugin"})
NONE_OF_CLAIMS = (set(), set(), set())


def test_claims_are_served_where_the_cluster_has_them_or_by_a_value():
    assert of_claims(rendered(AGENT)) == ALL_OF_CLAIMS
    assert of_claims(rendered(AGENT, "--set", "claims.enabled=false")) == NONE_OF_CLAIMS
    old = {"version": "1.33.0"}    # template() then says of no API that it is served
    assert of_claims(rendered(AGENT, **old)) == NONE_OF_CLAIMS
    assert of_claims(rendered(AGENT, "--set", "claims.enabled=true", **old)) == (CLASSES, *ALL_OF_CLAIMS[1:])


def test_the_kubelet_and_the_agent_see_the_sockets_of_claims_at_one_path():
    objects = rendered(AGENT, "--set", "kubeletDir=/k")
    spec = find(objects, "DaemonSet")["spec"]["template"]["spec"]
    mounted = {m["name"]: m["mountPath"] for m in spec["containers"][0]["volumeMounts"]}
    there = {v["name"]: v["hostPath"]["path"] for v in spec["volumes"]}
    for name, path in {"plugins-registry": "/k/plugins_registry", "plugin": "/k/plugins/gpu.ration.dev"}.items():
        assert mounted[name] == there[name] == path
    assert argument(AGENT, "kubelet-dir", "--set", "kubeletDir=/k") == "/k"


# ---- labels

MONITOR_ALL = "metrics.listen=0.0.0.0:1234,metrics.serviceMonitor.enabled=true,alerts.enabled=true"


@pytest.mark.parametrize("chart, settings", [
    (AGENT, MONITOR_ALL + ",grafanaDashboard.enabled=true,onBypass=evict"), (SCHEDULER, MONITOR_ALL),
    (SCHEDULER, "defaultScheduler=true")], ids=["agent", "scheduler", "default-scheduler"])
def test_every_object_has_the_recommended_labels(chart, settings):
    facts = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())
    want = {"app.kubernetes.io/name": chart, "app.kubernetes.io/instance": chart,    # helmcharts.template() names the release so
            "app.kubernetes.io/version": facts["appVersion"], "app.kubernetes.io/part-of": "ration",
            "app.kubernetes.io/component": {AGENT: "agent", SCHEDULER: "scheduler"}[chart],
            "app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": f"{chart}-{facts['version']}"}
    objects = rendered(chart, "--set", settings)
    wrong = [(o["kind"], o["metadata"]["name"]) for o in objects if not want.items() <= (o["metadata"].get("labels") or {}).items()]
    assert objects and not wrong, wrong


@pytest.mark.parametrize("chart", [AGENT, SCHEDULER])
def test_selectors_have_only_the_labels_that_never_change(chart):
    objects = rendered(chart)
    workload = find(objects, "DaemonSet" if chart == AGENT else "Deployment")
    assert workload["spec"]["selector"] == {"matchLabels": OWN[chart]}
    assert OWN[chart].items() <= workload["metadata"]["labels"].items()
    assert OWN[chart].items() <= workload["spec"]["template"]["metadata"]["labels"].items()
    if chart == SCHEDULER:
        assert find(objects, "PodDisruptionBudget")["spec"]["selector"] == {"matchLabels": OWN[chart]}


# ---- metrics

@pytest.mark.parametrize("chart, name", [(AGENT, "ration-agent"), (SCHEDULER, SCHEDULER)])
def test_prometheus_finds_the_pods_by_a_monitor(chart, name):
    asked = ["--set", "metrics.listen=0.0.0.0:1234,metrics.serviceMonitor.enabled=true",
             "--set", "metrics.serviceMonitor.labels.release=p,metrics.serviceMonitor.interval=30s"]
    objects = rendered(chart, *asked)
    pod = pod_of(chart, *asked)
    service, monitor = find(objects, "Service", name), find(objects, "ServiceMonitor", name)
    selector = service["spec"]["selector"]
    assert selector == OWN[chart]
    assert selector.items() <= service["metadata"]["labels"].items() and selector.items() <= pod["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    ports = {p["name"]: p["containerPort"] for c in pod["spec"]["containers"] for p in c.get("ports", [])}
    assert port["port"] == ports[port["targetPort"]] == 1234
    assert monitor["spec"]["selector"] == {"matchLabels": selector}
    assert monitor["metadata"]["labels"]["release"] == "p"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["interval"]) == (port["name"], "30s")
    assert endpoint["honorLabels"] is True    # namespace, pod and container of our series are the GPU pod's
    assert {"Service", "ServiceMonitor"} & {o["kind"] for o in rendered(chart)} == set()


@pytest.mark.parametrize("chart, name", [(AGENT, "ration-agent"), (SCHEDULER, SCHEDULER)])
def test_alert_rules_are_installed_as_they_are_in_the_file(chart, name):
    objects = rendered(chart, "--set", "metrics.listen=0.0.0.0:1234,alerts.enabled=true,alerts.labels.release=p")
    rule = find(objects, "PrometheusRule", name)
    assert rule["spec"] == yaml.safe_load((CHARTS / chart / "files/alerts.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "p"


def test_dashboard_is_installed_as_it_is_in_the_file():
    dashboard = find(rendered(AGENT, "--set", "grafanaDashboard.enabled=true"), "ConfigMap", "ration-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    file = json.loads((CHARTS / AGENT / "files/dashboard.json").read_text())
    assert json.loads(dashboard["data"]["ration.json"]) == file


# ---- every value

# What a value is changed to where its kind does not tell; these are texts of which only some are right.
OTHER = {"claims.enabled": False, "privileged": "prepare", "gpuMemoryUnit": "512MiB", "policy": 0, "maxPodsPerGPU": 3, "onBypass": "evict", "unknownFunctions": "refuse",
         "logLevel": "debug", "enabled": True,
         "jobMixing": "allow", "nodeOrder": "fullest", "replicas": 3, "bestNodes": 3, "pullPolicy": "Always", "digest": DIGEST,
         "listen": "0.0.0.0:1234", "driverRoot": "/d", "criSocket": "/run/x/x.sock", "cdiDir": "/c", "kubeletDir": "/k",
         "imagePullSecrets": [{"name": "s"}], "apiServerPorts": [1], "metricsFrom": [{"podSelector": {}}],
         "interval": "7s", "labels": {"a": "b"}, "requests": {"cpu": "3"}, "limits": {"cpu": "3"},
         "tolerations": [], "nodeSelector": {"a": "b"}, "gangTimeoutSeconds": 7, "gangKeepAfterSeconds": 7,
         "affinity": {"podAffinity": {}}, "podAnnotations": {"a": "b"}, "podLabels": {"a": "b"},
         "profiles": [{"schedulerName": "ack-co-scheduler", "percentageOfNodesToScore": 7}]}
# Values that change something only beside others.
OPEN = {"listen": "0.0.0.0:4321"}
MONITORED = {"metrics": {**OPEN, "serviceMonitor": {"enabled": True}}}
BESIDE = {"networkPolicy.metricsFrom": {"metrics": OPEN}, "metrics.serviceMonitor.enabled": {"metrics": OPEN},
          "metrics.serviceMonitor.interval": MONITORED, "metrics.serviceMonitor.labels": MONITORED,
          "alerts.enabled": {"metrics": OPEN}, "alerts.labels": {"metrics": OPEN, "alerts": {"enabled": True}},
          "grafanaDashboard.labels": {"grafanaDashboard": {"enabled": True}}}


@pytest.mark.long(20)
@pytest.mark.parametrize("chart", [AGENT, SCHEDULER])
def test_each_value_changes_what_is_installed(tmp_path, chart):
    """A value that nothing reads would be here, too, and a person would wait for its effect."""
    values = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
    assert len(list(leaves(values))) > 20

    def installed(changed):
        path = tmp_path / "values.yaml"
        named_otherwise = {"image": {"repository": "r/x"}} if "global" not in changed else {}    # there is no default
        part = {"scheduler": {"enabled": False}} if chart == AGENT else {}
        path.write_text(json.dumps({**named_otherwise, **part, **changed}))
        return rendered(chart, "--values", path, name=False)
    default = installed({})
    for path, value in leaves(values):
        name = ".".join(path) if ".".join(path) in OTHER else path[-1]
        beside = BESIDE.get(".".join(path), {})
        other = OTHER[name] if name in OTHER and not isinstance(value, bool) else (
            not value if isinstance(value, bool) else "other" if isinstance(value, str) else None)
        assert other is not None and other != value, f"{path}: how else could it be?"
        changed = json.loads(json.dumps(beside))
        inner = changed
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = other
        if path[0] == "image":
            changed = {"image": {"repository": "r/x", **changed["image"]}}
        if path == ("scheduler", "enabled"):
            changed |= {"global": {"imageRegistry": "r"}, "scheduler": {"enabled": True}}
        assert installed(changed) != (installed(beside) if beside else default), f"{path} changes nothing"
