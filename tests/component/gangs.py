"""What the tests of gangs share: their pods, calls of kube-scheduler in parallel, why a pod waits."""
import concurrent.futures
import json

from fake_apiserver import wait_for
from scheduler_fixture import gpu_node

GROUP = "pod-group.scheduling.sigs.k8s.io/"


def member(api, name, units, gang="g", least=2, **more):
    return api.create_pod(name, gpu_mem=units, labels={GROUP + "name": gang, GROUP + "min-available": str(least)},
                          **more)


def starts(api, start, *options):
    """A scheduler that has read the PodGroups: before, filter rejects every pod of a gang."""
    scheduler = start(*options)
    wait_for(lambda: api.watches("podgroups"), what="PodGroups are watched")
    return scheduler


def ready(scheduler, *pods):
    """The watch has shown these pods."""
    wait_for(lambda: all(why(scheduler, pod) for pod in pods), what="pods in the ledger")


def why(scheduler, pod):
    return json.loads(scheduler.http("GET", f"/why?namespace=default&name={pod['metadata']['name']}")[1]).get("pod")


def has(units):
    return {"ration.dev/placement": json.dumps(
        {"unit": 1024, "containers": {"main": [{"uuid": "GPU-a-0", "units": units}]}})}


def gang_of(api, start, n, units, least):
    """A node with a card of 10 units, and a gang of n pods that the scheduler has seen."""
    gpu_node(api, "a", 10240)
    scheduler = starts(api, start)
    pods = [member(api, f"p{i}", units, least=least) for i in range(n)]
    ready(scheduler, *pods)
    return scheduler, pods


def nodes_of(scheduler, pod, names):
    answer = scheduler.filter(pod, names)
    assert answer["Error"] == ""
    return answer["NodeNames"]


def reasons(scheduler, pod, names):
    answer = scheduler.filter(pod, names)
    assert answer["NodeNames"] == []
    return {*answer["FailedNodes"].values(), *answer["FailedAndUnresolvableNodes"].values()}


def schedule(scheduler, pod, names):
    """As kube-scheduler does; returns bind's error, or the reasons of filter."""
    found = nodes_of(scheduler, pod, names)
    return scheduler.bind(pod, found[0]) if found else "no node"


def at_once(scheduler, pods, names):
    with concurrent.futures.ThreadPoolExecutor(len(pods)) as pool:
        return list(pool.map(lambda pod: schedule(scheduler, pod, names), pods))


def bound(api, *names):
    return [api.pod(name)["spec"].get("nodeName") for name in names]


def at_bind(scheduler, n):
    """So many pods of p0's gang wait at bind."""
    return json.loads(scheduler.http("GET", "/why?namespace=default&name=p0")[1]).get("gang", {}).get("atBind") == n
