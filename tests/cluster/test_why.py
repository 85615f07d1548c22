"""`ration why` on a real cluster: through kubectl port-forward to the scheduler that leads, by the rights one has."""
import json
import os
import pathlib

import pytest

from crowdnodes import NODES
from gpupods import card_of, inventory, pod

pytestmark = pytest.mark.long(12)

NODE = NODES[0].split("=")[0]
JANE = "jane@example.com"


def why_fails(cluster, *argv):
    done = cluster.run("ration", "why", *argv, check=False)
    assert done.returncode == 1 and done.stdout == "", done
    return done.stderr


def grant(cluster, namespace, name, *rules):
    """What Jane may do in one namespace."""
    for obj in ({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                 "metadata": {"name": name, "namespace": namespace}, "rules": list(rules)},
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                 "metadata": {"name": name, "namespace": namespace},
                 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                 "subjects": [{"kind": "User", "name": JANE, "apiGroup": "rbac.authorization.k8s.io"}]}):
        cluster.apply(obj)


def test_why_explains_a_pod_that_does_not_fit_per_node_and_card_and_one_that_is_bound(lab):
    cluster = lab(NODES)
    cluster.create(pod("first", 7, nodeSelector={"kubernetes.io/hostname": NODE}))
    first = cluster.wait_running(names=["first"])[0]
    cluster.create(pod("large", 25))
    cluster.wait_for(lambda: cluster.condition(cluster.pod("large"), "PodScheduled").get("message"), 30, "verdict")

    # The units of each card, as the agents publish them.
    cards = {name: [card["mib"] // 1024 for card in inventory(node).values()]
             for name, node in cluster.nodes().items() if "ration.dev/gpus" in node["metadata"]["annotations"]}
    text = cluster.run("ration", "why", "large").stdout
    assert f"Pod {cluster.namespace}/large waits for a GPU." in text
    assert "It asks for 25 units of aliyun.com/gpu-mem." in text
    for name, units in cards.items():
        assert f"Node {name} (binpack, unit GiB): no GPU is that large" in text, text
        for index, total in enumerate(units):
            lines = text.split(f"Node {name} (")[1].split("\nNode ")[0].splitlines()
            line = next(line for line in lines if line.startswith(f"  GPU {index}: "))
            assert f" of {total} units free" in line
            assert "GPU is not that large" in line
    assert "filter: " in text and "none fits" in text

    index = inventory(cluster.node(NODE))[card_of(first)]["index"]
    text = cluster.run("ration", "why", "first").stdout
    assert f"Pod {cluster.namespace}/first is bound to node {NODE}, GPU {index} ({card_of(first)});" in text
    assert f"Chosen: GPU {index} (" in text and "binpack" in text
    assert f"held by {cluster.namespace}/first 7" in text
    assert "bind: reserved on " in text and f"bound to {NODE} (after " in text
    answer = json.loads(cluster.run("ration", "why", "-o", "json", "first").stdout)
    assert [d["decision"] for d in answer["decisions"]][-3:] in (
        ["filter", "bind", "outcome"], ["prioritize", "bind", "outcome"])


def test_why_of_a_wrong_name_and_of_a_pod_without_gpu(lab):
    cluster = lab(NODES)
    assert f"there is no pod nobody in namespace {cluster.namespace}" in why_fails(cluster, "nobody")
    cluster.create(pod("cpu", None))
    assert "asks for no aliyun.com/gpu-mem" in cluster.run("ration", "why", "cpu").stdout


def test_why_names_the_right_that_is_missing(lab):
    cluster = lab(NODES)
    cluster.create(pod("p", 25))
    assert "ask for the verb get on pods" in why_fails(cluster, "--as", JANE, "p")
    grant(cluster, cluster.namespace, "why", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
    assert "verb get on leases in kube-system" in why_fails(cluster, "--as", JANE, "p")
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]},
             {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    try:
        grant(cluster, "kube-system", "why", *rules)
        assert "verb create on pods/portforward" in why_fails(cluster, "--as", JANE, "p")
        grant(cluster, "kube-system", "why", *rules,
              {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create"]})
        assert "no GPU is that large" in cluster.run("ration", "why", "--as", JANE, "p").stdout
    finally:
        cluster.kubectl("-n", "kube-system", "delete", "role,rolebinding", "why")


def test_a_history_of_the_real_scheduler_replays_as_recorded(lab, tmp_path):
    """RATION_RECORD=FILE keeps it."""
    cluster = lab(NODES)
    for i in range(12):
        cluster.create(pod(f"p{i}", 3 + 5 * (i % 4), *([2] if i % 3 == 0 else [])))
    cluster.wait_for(lambda: sum(p["status"]["phase"] == "Running" for p in cluster.pods()) >= 8 or None, 60, "some run")
    cluster.kubectl("delete", "pods", "p1", "p2", "--grace-period=1")
    cluster.create(pod("large", 25))
    cluster.wait_for(lambda: cluster.condition(cluster.pod("large"), "PodScheduled").get("message"), 30, "verdict")
    history = pathlib.Path(os.environ.get("RATION_RECORD") or tmp_path / "history.jsonl")
    history.write_text(cluster.run("ration", "history").stdout)
    assert "all as recorded" in cluster.run("ration", "replay", history).stdout
