"""What the policies cost: the same pods asked for with all of them and with none, in turns, on one API server."""
import os
import statistics
import threading
import time

import pytest

from api import Api
from crowdnodes import NODES
from gpupods import container, pod

FULL = bool(os.environ.get("RATION_FULL"))
ROUNDS, PODS, ASKING = (4, 1000, 4) if FULL else (2, 100, 2)
KINDS = ("validatingadmissionpolicybindings", "mutatingadmissionpolicybindings")
PATH = "/apis/admissionregistration.k8s.io/v1/{}"


def typical(name, units):
    """As large as pods of controllers are: three containers with variables, volumes and a probe."""
    more = {"env": [{"name": f"SETTING_{i}", "value": "x" * 20} for i in range(15)],
            "volumeMounts": [{"name": f"v{i}", "mountPath": f"/data/{i}"} for i in range(4)],
            "readinessProbe": {"httpGet": {"path": "/", "port": 80}}}
    return pod(name, containers=[container("c0", units, **more), container("c1", **more), container("c2", **more)],
               volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(4)])


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def api_server_pid(cluster):
    """Its folder is in its arguments, the lab's in its name."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/kube-apiserver") and any(str(cluster.folder).encode() in word for word in words):
            return int(pid)
    raise AssertionError("no API server of this lab")


def ask_for(cluster, made):
    """(seconds per request, all sorted; CPU seconds of the API server per request)"""
    took, lock = [], threading.Lock()

    def ask(n):
        with Api(cluster) as api:
            path = api.path(made) + "?dryRun=All"
            mine = []
            for _ in range(n):
                start = time.monotonic()
                assert api.ask("POST", path, made)["kind"] == "Pod"
                mine.append(time.monotonic() - start)
        with lock:
            took.extend(mine)
    pid = api_server_pid(cluster)
    before = cpu_seconds(pid)
    threads = [threading.Thread(target=ask, args=(PODS // ASKING,)) for _ in range(ASKING)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(took) == PODS
    return sorted(took), (cpu_seconds(pid) - before) / PODS


def bindings(api):
    return {kind: [o for o in api.ask("GET", PATH.format(kind))["items"] if o["metadata"]["name"].startswith("ration-")]
            for kind in KINDS}


def switch(cluster, api, found, on):
    for kind, items in found.items():
        for item in items:
            if on:
                metadata = {k: v for k, v in item["metadata"].items() if k in ("name", "labels", "annotations")}
                body = {"metadata": metadata, "spec": item["spec"]}
                assert api.ask("POST", PATH.format(kind), body).get("status") != "Failure"
            else:
                api.ask("DELETE", f"{PATH.format(kind)}/{item['metadata']['name']}")
    probe = pod("probe", 2, hostPID=True)
    forged = pod("forged", containers=[container("c")], annotations={"ration.dev/unit": "1"})
    cluster.wait_for(lambda: all(bool(api.refusal(obj)) == on for obj in (probe, forged)), 30, f"policies: {on}")


@pytest.mark.long(60)
def test_policies_cost_little_of_a_pods_creation(lab):
    cluster = lab(NODES)
    kinds = {"without a GPU": typical("plain", None), "with gpu-mem": typical("gpu", 2)}
    results = {}
    with Api(cluster) as api:
        found = bindings(api)
        assert len(found[KINDS[0]]) >= 5 and len(found[KINDS[1]]) == 2
        on = True
        try:
            for _ in range(ROUNDS * 2):
                for kind, made in kinds.items():
                    results.setdefault((kind, on), []).append(ask_for(cluster, made))
                on = not on
                switch(cluster, api, found, on)
        finally:
            if not on:
                switch(cluster, api, found, True)
    print(f"\n{ROUNDS} x {PODS} pods by {ASKING} connections\n"
          "| pod | policies | median | 99th | CPU of the API server per pod |\n|---|---|---|---|---|")
    cpu = {}
    for (kind, on), rounds in results.items():
        took = sorted(t for some, _ in rounds for t in some)
        cpu[kind, on] = statistics.median(used for _, used in rounds)
        print(f"| {kind} | {'all' if on else 'none'} | {took[len(took) // 2] * 1e3:.2f} ms | "
              f"{took[len(took) * 99 // 100] * 1e3:.1f} ms | {cpu[kind, on] * 1e3:.2f} ms |")
    for kind in kinds:
        assert cpu[kind, True] - cpu[kind, False] < 0.02, (kind, cpu)
