"""Containers that outlive their pod objects: nodes, pods that do not end when asked, and what runs by the kernel's own word."""
import threading

from gpupods import container, pod

CARD_UNITS = 15
NODES = [f"silent-{i}.192.168.22.{i}=1x{CARD_UNITS * 1024}MiB,share" for i in (1, 2)]
DEAF = "trap '' TERM; while true; do sleep 0.2; done"

# One line per container that has processes: its mount namespace, the units that it was granted, its GPU. While bash starts it
# may show one variable less (cgpupods.environment()): then the container is in the next sample.
GRANTS = r"""
grep -lz '^ALIYUN_COM_GPU_MEM_CONTAINER=' /proc/[0-9]*/environ 2>/dev/null | while read -r file; do
    tr '\0' '\n' < $file 2>/dev/null | awk -F= -v container="$(readlink ${file%environ}ns/mnt)" '
        $1 == "ALIYUN_COM_GPU_MEM_CONTAINER" { units = $2 }
        $1 == "ALIYUN_COM_GPU_VISIBLE_DEVICES" { gpu = $2 }
        END { if (units && gpu && container) print container, units, gpu }'
done | sort -u"""


class Totals:
    """While this is entered, again and again: the units that running containers have of each GPU."""

    def __init__(self, cluster, node):
        self.cluster, self.node = cluster, node
        self.seen, self.failure = [], None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow)

    def _sample(self):
        totals = {}
        for line in self.cluster.enter(self.node, "sh", "-c", GRANTS).splitlines():
            _, units, gpu = line.split()
            totals[gpu] = totals.get(gpu, 0) + int(units)
        return totals

    def _follow(self):
        try:
            while not self._end.wait(0.2):
                self.seen.append(self._sample())
        except Exception as error:    # told to the test, which is another thread
            self.failure = error

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def over(self):
        """The samples with a GPU over its total."""
        return [totals for totals in self.seen if any(units > CARD_UNITS for units in totals.values())]

    def check(self, gpu, units):
        """No GPU was ever over its total, and containers with this many units of this GPU were seen."""
        assert self.failure is None, self.failure
        assert not self.over(), f"of {len(self.seen)} samples over a GPU's total of {CARD_UNITS} units: {self.over()}"
        assert any(totals.get(gpu) == units for totals in self.seen), self.seen


def create(cluster, node, name, units, command="sleep 100000", grace=0):
    """A pod for this node, whatever the node controller thinks of the node."""
    cluster.create(pod(name, containers=[container("main", units, command)], terminationGracePeriodSeconds=grace,
                       nodeSelector={"kubernetes.io/hostname": node}, tolerations=[{"operator": "Exists"}]))
