"""A node with binpack and one with spread, and pods that are placed one after the other."""
NODES = ["binpack.192.168.10.1=4x15360MiB,share,binpack", "spread.192.168.10.2=4x15360MiB,share,spread"]
BINPACK, SPREAD = ({"kubernetes.io/hostname": name.split("=")[0]} for name in NODES)


def run_one_by_one(cluster, pods):
    """Each is placed before the next comes, so that the expected picture has one right answer."""
    for body in pods:
        cluster.create(body)
        cluster.wait_for(lambda: cluster.pod(body["metadata"]["name"])["spec"].get("nodeName"), 30, "a node")
    return cluster.wait_running()
