"""The same arrivals through kube-scheduler's own allocator of ResourceClaims (Dynamic Resource Allocation), by a program in Go that has the
allocator's package from Kubernetes: bench/dra-allocator. What else kube-scheduler knows and scores is modelled there as in
bench/packing/cluster.c."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .programs import REPO, BenchError

sys.path.insert(0, str(REPO / "lab"))
from rationlab import preflight, toolchain    # noqa: E402
from rationlab.binaries import cache_root     # noqa: E402
from rationlab.errors import LabError         # noqa: E402

SOURCE = REPO / "bench" / "dra-allocator"
# In which order a node's slice lists its GPUs, and after how many arrivals the order is published anew.
DEVICES = ({"name": "dra", "order": "index", "every": 0},
           {"name": "dra-fullest", "order": "fullest", "every": 1},
           {"name": "dra-fullest-late", "order": "fullest", "every": 100},
           {"name": "dra-emptiest", "order": "emptiest", "every": 1})


def compile_to(folder):
    """The program; Go's caches make it a matter of seconds from the second time on."""
    try:
        go, environment = toolchain.find_go(preflight.go_requirement(SOURCE / "go.mod"), cache_root())
    except LabError as error:
        raise BenchError(str(error)) from error
    program = Path(folder) / "dra-allocator"
    done = subprocess.run([go, "build", "-trimpath", "-o", program, "."], cwd=SOURCE, capture_output=True, text=True, check=False,
                          env=dict(os.environ, CGO_ENABLED="0", GOTOOLCHAIN="local", GOFLAGS="-mod=readonly -buildvcs=false", GOWORK="off",
                                   **environment))
    if done.returncode:
        raise BenchError(f"bench/dra-allocator cannot be built: {done.stderr.strip()[-1500:]}")
    return program


def replay(nodes, kinds, orders, percent, devices=DEVICES):
    """orders: [(seed, numbers of the kinds), ...]. A run for each order and each of the devices, as bench-packing prints them."""
    asked = {"nodes": nodes, "kinds": kinds, "orders": [{"seed": seed, "arrivals": list(order)} for seed, order in orders],
             "devices": list(devices), "percent": percent}
    with tempfile.TemporaryDirectory(prefix="bench-dra-") as folder:
        done = subprocess.run([compile_to(folder)], input=json.dumps(asked), capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(done.stderr.strip() or f"dra-allocator ended with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]
