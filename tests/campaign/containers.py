"""The same rounds in containers of an isolated node: the agent makes the grants and looks from outside.

Programs are in mount namespaces and cgroups of their own, named as a kubelet names them; API server, kubelet and runtime are
those of the component tests. The agent knows processes by their cgroups, so these have to be real."""
import json
import os
import pathlib
import subprocess
import sys

import rounds

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "component"))
UNIT_MIB = 1024
CGROUPS = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"]    # version 1, version 2

IN_CGROUP = 'echo $$ >"$1/cgroup.procs"; shift; exec unshare -m --propagation private bash -c "$@"'


def cgroups():
    """Where a cgroup can be made; None: nowhere."""
    return next((root for root in CGROUPS if os.path.exists(f"{root}/cgroup.procs") and os.access(root, os.W_OK)), None)


class ContainerField(rounds.Field):
    look_ms, settle_s = 1000, 1.5

    def __init__(self, build, tested, drawn):
        os.environ["RATION_BUILD"] = str(tested)
        import isolated    # pylint: disable=import-outside-toplevel # it reads RATION_BUILD
        self.isolated = isolated
        super().__init__(build, tested, drawn)
        self.made = []

    def __enter__(self):
        memory = self.memory_mib()
        self.node = self.isolated.World(cards=f"1x{memory}MiB", labels=self.isolated.CGPU)
        self.tree = self.node.driver
        gpus = json.loads((self.tree / "gpus.json").read_text())
        gpus["gpus"][0]["contextMiB"] = self.drawn.context_mib
        (self.tree / "gpus.json").write_text(json.dumps(gpus))
        self.node.sim("up")
        self.node.up(memory // UNIT_MIB)
        return self

    def __exit__(self, *details):
        for program in reversed(self.programs):
            program.end()
        self.node.__exit__(*details)
        for folder in self.made:
            subprocess.run(["rmdir", folder, folder.parent], check=False)
        self.close()

    def granted(self, role, mib, *arguments):
        pod = self.node.pod(role, mib // UNIT_MIB, card=0)
        self.node.kubelet.admit(pod)
        container = self.node.kubelet.run(pod, "main")
        uid = pod["metadata"]["uid"]
        cgroup = pathlib.Path(cgroups(), "kubepods", "burstable", f"pod{uid}", self.isolated.container_id(uid, "main"))
        cgroup.mkdir(parents=True)
        self.made.append(cgroup)
        mounts = []
        for target, mount in container.mounts.items():
            if target.startswith("/run/ration/"):
                mounts += [mount["hostPath"].replace("/host/driver", str(self.tree)), target]
        return self.start("bash", "-c", IN_CGROUP, "enter", cgroup, self.isolated.ENTER, "enter", self.tree, *mounts, "--",
                          "env", "LD_LIBRARY_PATH=/run/ration/shim", self.build / "tests/campaign/campaign-client", *arguments,
                          RATION_CAMPAIGN=role)
