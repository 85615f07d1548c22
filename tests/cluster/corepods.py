"""Pods that ask for computing power as well as for GPU memory."""
from gpupods import container, pod

CORE = "aliyun.com/gpu-core.percentage"


def sample(name, units, core, **more):
    made = container("c0", units, command="exec bash run.sh --num_batches=500000000 --batch_size=8", workingDir="/root")
    made["resources"]["limits"][CORE] = core
    return pod(name, containers=[made], **more)
