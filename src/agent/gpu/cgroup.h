/* cgroup.h - to which container a process belongs, by the names of its cgroups. Pure.
 *
 * The kubelet names the cgroup of a pod pod<uid> (cgroupfs driver) or
 * kubepods-burstable-pod<uid with _>.slice (systemd driver); the runtime names that of a container below it
 * <id> or <runtime>-<id>.scope (pkg/kubelet/cm/cgroup_manager_linux.go at 1.36.3; containerd 2.1
 * internal/cri, CRI-O 1.33 internal/config/cgmgr).
 */
#pragma once

#define CGROUP_UID_SIZE 37 /* a UUID, or the 32 digits that a static pod has */
#define CGROUP_ID_SIZE 65

struct cgroup_place {
	char uid[CGROUP_UID_SIZE];
	char id[CGROUP_ID_SIZE]; /* of the container; "": in the pod, but in none of its containers */
};

/* cgroup_parse() - text is /proc/PID/cgroup, of cgroup v1, v2 or both. The outermost name of a pod counts: a
 * container that may make cgroups below its own can call them as it likes. -ENOENT: in no pod; -EBADMSG: its
 * hierarchies say different things. */
int cgroup_parse(const char *text, struct cgroup_place *ret_place);
