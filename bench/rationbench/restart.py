"""Part b: from the start of the process to ready, and the memory, with the objects as large as real ones."""
import time

from . import cluster
from .apiserver import StillApiServer
from .programs import RationScheduler

NODE_BALLAST = 8_000    # images and managed fields
POD_BALLAST = 6_000     # environment, volumes and managed fields
SETTLE_S = 2


def run(nodes, pods, say=print):
    say(f"restart: {nodes} nodes, {pods} pods")
    running = (cluster.bound_pod(f"running-{i}", 2, i, i % nodes, i // nodes % cluster.GPUS, f"owner-{i // 100}",
                                 POD_BALLAST) for i in range(pods))
    with StillApiServer((cluster.node(i, "binpack", NODE_BALLAST) for i in range(nodes)), running) as api:
        with RationScheduler(api.kubeconfig()) as scheduler:
            seconds = scheduler.wait_ready(120)
            time.sleep(SETTLE_S)
            peak, now = scheduler.memory_mb()
        return [{"nodes": nodes, "pods": pods, "listed_mb": api.bytes_listed() / 1e6, "ready_s": seconds,
                 "peak_mb": peak, "steady_mb": now}]
