"""Measures kubectl inspect cgpu on a large cluster, without the time of kubectl itself. A script takes the place of kubectl
and prints pages that were made before, of objects as large as a kubelet and a Deployment make them."""
import argparse
import itertools
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from .programs import build

PAGE = 500
GOAL_S, GOAL_MIB = 3, 100
# Times the processor time that Python's parser takes for the same pages: docs/measurements/inspect.md has 1.
GOAL_OF_PARSER = 1.5

KUBECTL = """#!/bin/sh
for word; do
    case $word in
    --raw=*continue=*) exec cat "{dir}/${{word##*continue=}}" ;;
    --raw=/api/v1/nodes*) exec cat "{dir}/nodes-0" ;;
    --raw=/api/v1/pods*) exec cat "{dir}/pods-0" ;;
    esac
done
exit 1
"""


def managed(names, owner):
    """managedFields as the API server keeps them: one key for each field that was written."""
    fields = {f"f:{name}": {".": {}, "f:type": {}, "f:status": {}, "f:lastTransitionTime": {}} for name in names}
    return [{"manager": owner, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:status": fields}, "subresource": "status"}] * 2


def make_node(i, sick, n_gpus=8):
    gpus = [{"index": k, "uuid": f"GPU-{i}-{k}-4000-8000-000000000000", "model": "NVIDIA A100-SXM4-80GB",
             "mib": 81920, "healthy": True} for k in range(n_gpus)]
    if sick:
        gpus[3] |= {"healthy": False, "reason": "Xid 79"}
    return {"metadata": {"name": f"gpu-node-{i}.cluster.example", "uid": f"n-{i}", "resourceVersion": "1",
                         "labels": {f"label.example/{k}": f"value-{k}" for k in range(25)},
                         "annotations": {"ration.dev/gpus": json.dumps(gpus), "ration.dev/unit": "1024",
                                         "ration.dev/mode": "cgpu", "volumes.kubernetes.io/attached": "true"},
                         "managedFields": managed([f"condition-{k}" for k in range(16)], "kubelet")},
            "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"cloud://{i}"},
            "status": {"capacity": {"cpu": "96", "aliyun.com/gpu-mem": str(80 * n_gpus)},
                       "allocatable": {"cpu": "95", "aliyun.com/gpu-mem": str(80 * n_gpus),
                                       "aliyun.com/gpu-count": str(n_gpus)},
                       "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                       "conditions": [{"type": f"Condition{k}", "status": "False", "reason": "KubeletHasEnough",
                                       "message": "kubelet has enough of everything it may need",
                                       "lastHeartbeatTime": "2026-01-01T00:00:00Z"} for k in range(5)],
                       "images": [{"names": [f"registry.example/team/image-{k}@sha256:{'0123456789abcdef' * 4}",
                                             f"registry.example/team/image-{k}:v1.{k}"], "sizeBytes": 123456789}
                                  for k in range(50)],    # the kubelet's own maximum
                       "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Debian GNU/Linux 12"}}}


def make_pod(i, node, gpu):
    uuid = f"GPU-{node}-{gpu}-4000-8000-000000000000"
    env = [{"name": f"VARIABLE_{k}", "value": "some value of a usual length"} for k in range(12)]
    container = {"name": "main", "image": "registry.example/team/image:v1", "env": env,
                 "command": ["python3", "-m", "train", "--epochs", "10"],
                 "resources": {"limits": {"aliyun.com/gpu-mem": "3"}, "requests": {"aliyun.com/gpu-mem": "3"}},
                 "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}
    return {"metadata": {"name": f"training-job-{i}-x7k2p", "namespace": "team", "uid": f"p-{i}",
                         "labels": {"app": "training", "pod-template-hash": "7c9f8d6b5c"},
                         "annotations": {"ration.dev/placement": json.dumps(
                             {"unit": 1024, "containers": {"main": [{"uuid": uuid, "units": 3}]}}),
                             "ration.dev/unit": "1024", "ALIYUN_COM_GPU_MEM_IDX": "0"},
                         "managedFields": managed([f"container-{k}" for k in range(12)], "kubelet")},
            "spec": {"nodeName": f"gpu-node-{node}.cluster.example", "containers": [container],
                     "tolerations": [{"key": f"key-{k}", "operator": "Exists", "effect": "NoExecute"} for k in range(4)],
                     "volumes": [{"name": "token", "projected": {"sources": [
                         {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                         {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}]},
            "status": {"phase": "Running", "podIP": "10.1.2.3",
                       "conditions": [{"type": t, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                                      for t in ("Initialized", "Ready", "ContainersReady", "PodScheduled")],
                       "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}},
                                              "imageID": f"registry.example@sha256:{'0123456789abcdef' * 4}",
                                              "containerID": f"containerd://{'0123456789abcdef' * 4}"}]}}


def node_texts(n):
    """As many objects, of two that were written out once."""
    well, sick = (json.dumps(make_node("@node@", sick), separators=(",", ":")) for sick in (False, True))
    return ((well if i % 100 else sick).replace("@node@", f"{i:05}") for i in range(n))


def pod_texts(n, nodes, gpus=8):
    pod = json.dumps(make_pod("@pod@", "@node@", "@gpu@"), separators=(",", ":"))
    return (pod.replace("@pod@", f"{i:06}").replace("@node@", f"{i % nodes:05}").replace("@gpu@", str(i // nodes % gpus))
            for i in range(n))


def write_pages(folder, kind, n, texts):
    """Bytes of all pages."""
    size = 0
    for page in range(max(1, -(-n // PAGE))):
        last = (page + 1) * PAGE >= n
        token = "" if last else f',"continue":"{kind}s-{page + 1}"'
        text = (f'{{"kind":"{kind.capitalize()}List","apiVersion":"v1","metadata":{{"resourceVersion":"1"{token}}},'
                f'"items":[{",".join(itertools.islice(texts, PAGE))}]}}')
        (folder / f"{kind}s-{page}").write_text(text)
        size += len(text)
    return size


def make_cluster(folder, nodes, pods):
    """A stand-in for kubectl in front of such a cluster, and the bytes that it prints."""
    size = write_pages(folder, "node", nodes, node_texts(nodes)) + write_pages(folder, "pod", pods, pod_texts(pods, nodes))
    kubectl = folder / "kubectl"
    kubectl.write_text(KUBECTL.format(dir=folder))
    kubectl.chmod(0o755)
    return kubectl, size


def kubectl_alone(kubectl, folder):
    """Seconds of wall clock and of processor time of all its calls, whose output is thrown away."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    pages = sorted(p.name for p in folder.iterdir() if p.name != "kubectl")
    for page in pages:
        subprocess.run([kubectl, f"--raw=x&continue={page}"], stdout=subprocess.PIPE, check=True)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# A process counts the memory of whom it was forked from as its own most: so from a small one.
MEASURE = """
import json, os, sys, time
began = time.monotonic()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(json.dumps([status, time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]), file=sys.stderr)
"""


def run_once(kubectl, *options):
    """Seconds of wall clock, of processor time, MiB at most, and what it printed."""
    with tempfile.TemporaryFile() as out:
        done = subprocess.run([sys.executable, "-S", "-c", MEASURE, build() / "src/cli/kubectl-inspect-cgpu", *options],
                              stdout=out, stderr=subprocess.PIPE, check=True, env={**os.environ, "KUBECTL": str(kubectl)})
        status, wall, cpu, mib = json.loads(done.stderr)
        assert status == 0, status
        out.seek(0)
        return wall, cpu, mib, out.read()


# Each page is freed before the next one is read; without the collector, which would walk through each page's objects again.
PARSE = """
import gc, json, pathlib, resource, sys
gc.disable()
for page in sorted(pathlib.Path(sys.argv[1]).glob("*s-*")):
    json.loads(page.read_bytes())
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_utime + usage.ru_stime)
"""


def parser_alone(folder):
    """Seconds of processor time that Python's parser takes for all pages: how fast this machine is just now."""
    return float(subprocess.run([sys.executable, "-S", "-c", PARSE, folder], stdout=subprocess.PIPE, check=True).stdout)


def main(argv):
    options = argparse.ArgumentParser(prog="bench/bench inspect", description=__doc__)
    options.add_argument("--nodes", type=int, default=5000, help="nodes of the cluster (default: %(default)s)")
    options.add_argument("--pods", type=int, default=20000, help="pods of the cluster (default: %(default)s)")
    args = options.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="ration-bench-inspect-") as name:
        folder = pathlib.Path(name)
        kubectl, size = make_cluster(folder, args.nodes, args.pods)
        alone = kubectl_alone(kubectl, folder)
        parser = parser_alone(folder)
        print(f"{args.nodes} nodes, {args.pods} pods: {size / 1e6:.0f} MB of JSON; the stand-in for kubectl alone "
              f"{alone[0]:.2f} s, {alone[1]:.2f} s of processor time; Python's parser alone {parser:.2f} s of processor time")
        print(f"\n| | wall clock beyond kubectl (goal {GOAL_S} s) | processor time beyond kubectl | memory at most "
              f"(goal {GOAL_MIB} MB) |\n|---|---|---|---|")
        missed = False
        for options in ([], ["-o", "wide"], ["-d"], ["-o", "json"]):
            wall, cpu, mib, _ = run_once(kubectl, *options)
            missed |= wall - alone[0] > GOAL_S or mib * 1.048576 > GOAL_MIB
            print(f"| {' '.join(options) or 'the table'} | {wall - alone[0]:.2f} s | {cpu - alone[1]:.2f} s | "
                  f"{mib * 1.048576:.0f} MB |")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
