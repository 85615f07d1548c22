"""Libraries of the driver beside those of CUDA: what containers find at a real containerd, by the pod's spec and by the image's environment."""
import pytest

import testimages
from cgpupods import node_root
from gpupods import container, pod

pytestmark = pytest.mark.long(40)

NODES = {"cgpu": "video.192.168.37.1", "share": "video.192.168.37.2"}
MORE = {"libnvcuvid.so.1": "video", "libEGL_nvidia.so.0": "graphics"}    # no container has these by itself


@pytest.fixture(name="cluster")
def _cluster(lab, tmp_path):
    cluster = lab([f"{name}=1x16160MiB,{mode}" for mode, name in NODES.items()])
    testimages.give(cluster, tmp_path, only=["video"])
    for name in NODES.values():
        for library in MORE:
            (node_root(cluster, name) / "opt/ration-sim/lib" / library).write_text("")
    return cluster


def test_containers_find_the_libraries_of_their_capabilities_and_no_others(cluster):
    wanted = {"plain": ({}, set()), "by-spec": ({"env": "graphics"}, {"libEGL_nvidia.so.0"}),
              "by-image": ({"image": testimages.name("video")}, {"libnvcuvid.so.1"}),
              "spec-first": ({"image": testimages.name("video"), "env": "all"}, set(MORE))}
    for mode, node in NODES.items():
        for name, (what, _) in wanted.items():
            main = container("main", 1, "sleep 100000")
            main |= {"image": what["image"], "command": ["sleep", "100000"]} if "image" in what else {}
            main |= {"env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": what["env"]}]} if "env" in what else {}
            cluster.create(pod(f"{name}-{mode}", containers=[main], nodeSelector={"kubernetes.io/hostname": node}))
    pods = {p["metadata"]["name"]: p for p in cluster.wait_running(count=len(wanted) * len(NODES))}
    for mode in NODES:
        for name, (_, libraries) in wanted.items():
            listed = cluster.exec_in(pods[f"{name}-{mode}"], "ls", "/usr/lib64").split()
            assert "libnvidia-ml.so.1" in listed
            assert set(listed) & set(MORE) == libraries, f"{name} on a {mode} node"
