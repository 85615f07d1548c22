"""The agent's pod, and pods that the kubelet refused because of it."""


def agent(cluster):
    return cluster.pods("name=gpushare-device-plugin-ds", namespace="kube-system")[0]


def rejected(pods):
    """Failed by the kubelet itself, before anything ran."""
    return [p["metadata"]["name"] for p in pods
            if p["status"].get("phase") == "Failed" and "Admission" in p["status"].get("reason", "")]
