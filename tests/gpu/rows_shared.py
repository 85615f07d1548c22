"""Memory that several processes have: once in the limit, and once more for each in the driver's own numbers."""
from gpu import MIB, Broken
from rows import row

SECTION = "Memory that several processes have"
SHARED_MIB = 64


class Pair:
    """A maker and an opener, each a program of `ration run` or both on the driver."""

    def __init__(self, maker, opener):
        self.maker, self.opener = maker, opener
        self.made, self.opened = maker.line(), opener.line()

    def open(self):
        self.opener.process.stdin.write((self.made["handle"] + "\n").encode())
        self.opener.process.stdin.flush()
        return self.opener.line()


@row("IPC without ration", SECTION, 60)
def ipc_plain(gpu, tell):
    with gpu.anchor(), gpu.start_plain(*gpu.client("ipc_maker", SHARED_MIB)) as maker, \
            gpu.start_plain(*gpu.client("ipc_opener")) as opener:
        pair, before = Pair(maker, opener), gpu.settled_mib()
        shares = [(gpu.nvml.processes(gpu.uuid) or {}).get(opener.pid)]
        said = pair.open()
        tell.fact("cuIpcOpenMemHandle_v2: CUresult, and the byte that is read", [said["code"], said["byte"]])
        shares.append((gpu.nvml.processes(gpu.uuid) or {}).get(opener.pid))
        tell.fact("the GPU's memory grows by", round(gpu.settled_mib() - before), unit="MiB")
        tell.fact("NVML's memory of the process that opened it grows by",
                  "unknown" if None in shares else round((shares[1] - shares[0]) / MIB), unit="MiB")


@row("IPC within one run", SECTION, 60)
def ipc_run(gpu, tell):
    """Both are processes of one run: the memory is charged once."""
    with gpu.start(f"{gpu.limit_mib}MiB", *gpu.client("ipc_pair", SHARED_MIB)) as run:
        said = run.line()
    if said["code"] != 0:
        raise Broken(f"cuIpcOpenMemHandle_v2 says {said['code']} in a run")
    tell.promise("the byte that is read", said["byte"], said["byte"] == 0x5a)
    lost = (said["before"] - said["opened"]) / MIB
    tell.promise("free memory of the run that opening costs", round(lost), abs(lost) <= 2, "MiB")
    back = (said["closed"] - said["before"]) / MIB
    tell.promise("free memory after closing, compared with before", round(back), abs(back) <= 2, "MiB")


@row("a descriptor of cuMemCreate", SECTION, 60)
def descriptor(gpu, tell):
    told = {}
    for name, start in (("plain", gpu.start_plain), ("run", lambda *a: gpu.start(f"{gpu.limit_mib}MiB", *a))):
        with start(*gpu.client("shared")) as talk:
            told[name] = [talk.line()]
            for _ in range(3):
                talk.go()
                told[name].append(talk.line())
    plain, run = told["plain"], told["run"]
    tell.fact("free memory that importing it in the same process costs", (plain[0]["free"] - plain[1]["free"]) // MIB, unit="MiB")
    tell.fact("as external memory: CUresult", plain[2]["code"])
    tell.promise("in a run: CUresult as external memory", run[2]["code"], run[2]["code"] == plain[2]["code"])
    cost = (run[0]["free"] - run[2]["free"]) // MIB
    tell.promise("in a run: free memory that importing it twice costs", cost, abs(cost) <= 2, "MiB")
    back = (run[3]["free"] - run[0]["free"]) // MIB
    tell.promise("in a run: free memory that releasing it gives", back, SHARED_MIB - 2 <= back <= SHARED_MIB + 2, "MiB")
