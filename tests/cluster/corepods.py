"""Pods that ask for computing power as well as for GPU memory."""
import re

import cgpupods
from gpupods import container, pod

CORE = "aliyun.com/gpu-core.percentage"
CORE_SHARE_AT = 40    # of a card's live words in a grant: docs/internals/grant.md


def sample(name, units, core, **more):
    made = container("c0", units, command="exec bash run.sh --num_batches=500000000 --batch_size=8", workingDir="/root")
    made["resources"]["limits"][CORE] = core
    return pod(name, containers=[made], **more)


def share_of(obj, cluster):
    """Millionths of the card in the grant that the container has."""
    process, = cgpupods.processes(cluster, obj).values()
    data = (process / "root/run/ration/grant").read_bytes()
    return int.from_bytes(data[cgpupods.LIVE_AT + CORE_SHARE_AT:][:8], "little")


def utilization(cluster, name):
    """GPU-Util in the table that the pod sees."""
    return int(re.search(r"MiB / +[0-9]+MiB \| +([0-9]+)% ", cluster.exec_in(name, "nvidia-smi"))[1])
