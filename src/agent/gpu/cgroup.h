/* cgroup.h - finds the container that a process belongs to, by the names of the process's cgroups. Pure.
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
	char id[CGROUP_ID_SIZE]; /* the container's; "": the process is in the pod, outside of its containers
				  */
};

/* cgroup_parse() - text is /proc/PID/cgroup, of cgroup v1, v2 or both. The outermost name of a pod counts,
 * because a container that can create cgroups below its own chooses their names. -ENOENT: the process is in
 * no pod; -EBADMSG: its cgroup hierarchies name different pods or containers. */
int cgroup_parse(const char *text, struct cgroup_place *ret_place);
