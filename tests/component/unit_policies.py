"""What the tests of ResourcePolicies share: a policy, the /levels verbs, its status."""
from fake_apiserver import wait_for

NODES = ["a1", "a2", "b1", "b2", "v1"]


def policy(api, units, name="team", selector=None, **spec):
    return api.create("resourcepolicies", {"metadata": {"name": name, "namespace": "default"}, "spec": {
        "selector": {"app": "web"} if selector is None else selector, "units": units, **spec}})


def ask(scheduler, pod, nodes=None):
    return scheduler.verb("levels/filter", {"Pod": pod, "Nodes": None, "NodeNames": NODES if nodes is None else nodes})


def status(api, name="team"):
    return api.get("resourcepolicies", name, "default").get("status") or {}


def ready(api):
    """The policies, nodes and pods are read: only then a status is written."""
    wait_for(lambda: status(api))
