#!/usr/bin/python3 -IS
"""runc, as CRI-O starts it on a node of the lab. Takes out of a container's configuration what this machine cannot do, and
what containerd leaves out by itself. runtimes.py puts this file into the node's folder."""

import json
import os
import sys

CAP_SYS_RESOURCE = 24
CGROUPS = "/sys/fs/cgroup"


def lacks_cap_sys_resource():
    with open("/proc/self/status", encoding="ascii") as handle:
        effective = next(line.split()[1] for line in handle if line.startswith("CapEff:"))
    return not int(effective, 16) >> CAP_SYS_RESOURCE & 1


def adapt(spec, lacks_cap, has_hugetlb):
    """Without the capability it cannot be given to privileged containers, and oom_score_adj cannot be lowered; containerd gives
    those that it has, and has restrict_oom_score_adj. CRI-O limits huge pages where the kernel has the controller hugetlb
    (/proc/cgroups), mounted or not; runc needs it mounted."""
    process = spec["process"]
    if lacks_cap:
        process["oomScoreAdj"] = max(process.get("oomScoreAdj", 0), 0)
        for kind, names in process.get("capabilities", {}).items():
            process["capabilities"][kind] = [name for name in names if name != "CAP_SYS_RESOURCE"]
    if not has_hugetlb:
        spec["linux"].get("resources", {}).pop("hugepageLimits", None)


def main():
    arguments = sys.argv[1:]
    if "--bundle" in arguments:
        path = os.path.join(arguments[arguments.index("--bundle") + 1], "config.json")
        with open(path, encoding="utf-8") as handle:
            spec = json.load(handle)
        # Of the unified hierarchy CRI-O knows what it has.
        has_hugetlb = os.path.exists(f"{CGROUPS}/cgroup.controllers") or os.path.isdir(f"{CGROUPS}/hugetlb")
        adapt(spec, lacks_cap_sys_resource(), has_hugetlb)
        with open(path, "w", encoding="utf-8") as handle:
            json.dump(spec, handle)
    os.execvp("runc", ["runc", *arguments])


if __name__ == "__main__":
    main()
