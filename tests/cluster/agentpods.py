"""The agent's pod, and pods that the kubelet refused because of it."""


def agent(cluster, node=None):
    """That of the node, or of a cluster's only one."""
    pods = cluster.pods("name=gpushare-device-plugin-ds", namespace="kube-system")
    return next(p for p in pods if node in (None, p["spec"].get("nodeName")))


def supervisor_pid(cluster, node):
    """The first process of the agent's container, by the node's numbers."""
    status = agent(cluster, node)["status"]["containerStatuses"][0]
    return int(cluster.pids(node)[status["containerID"].partition("://")[2]])


def worker_pid(cluster, node, supervisor):
    children = cluster.enter(node, "cat", f"/proc/{supervisor}/task/{supervisor}/children").split()
    return int(children[0]) if children else None


def rejected(pods):
    """Failed by the kubelet itself, before anything ran."""
    return [p["metadata"]["name"] for p in pods
            if p["status"].get("phase") == "Failed" and "Admission" in p["status"].get("reason", "")]
