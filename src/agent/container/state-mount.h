/* state-mount.h - the small file systems below the agent's state directory: the shim's, and one for each pod
 * with a grant. They live in the host's mount namespace: the agent's container has STATE with Bidirectional
 * propagation, and what is mounted there is there for the container runtime, and stays when the agent ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;

/* state_mount() - a tmpfs at path, which is made if need be; 0 also where one is mounted already. Not
 * executable if so said; never set-uid, never devices. Negative errno with a sentence; -EPERM: the agent may
 * not mount. */
int state_mount(const char *path, bool noexec, const char *options, struct error *err);

/* state_reaches_host() - what is mounted below this folder is seen by the host. True where it cannot be told:
 * in a container without the host's processes. */
bool state_reaches_host(const char *path);

/* mountinfo_is_shared() - by the text of /proc/PID/mountinfo, the mount that path lies in passes on what is
 * mounted below it. Pure. */
bool mountinfo_is_shared(const char *mountinfo, const char *path);

/* state_is_mounted() - path is a tmpfs of its own. */
bool state_is_mounted(const char *path);

/* state_unmount() - detach it, where it is one, and remove the folder; containers keep what they have of it.
 */
void state_unmount(const char *path);

/* Where the grants of this node lie: STATE/grants/<pod uid>/<container>/{grant,usage}, a
 * small tmpfs for each pod, since a container can let its usage file grow. By uid, never by device ids: after
 * a force delete the next pod has the same ids within a second.
 */
#define GRANTS_GRANT_FILE "grant"

/* grants_folder_path() - of a file of a container; "" for file, or for container and file: of the folder.
 * -EINVAL if uid or container could not be one file name; -ENAMETOOLONG. */
int grants_folder_path(const char *state_dir, const char *uid, const char *container, const char *file,
	char *buf, size_t size);

/* grants_folder_make() - makes the pod's tmpfs, large enough for n_containers, and this container's folder in
 * it. Files that are there stay. Negative errno with a sentence. */
int grants_folder_make(const char *state_dir, const char *uid, size_t n_containers, const char *container,
	struct error *err);

/* grants_folder_remove() - the pod's. What its containers have open stays theirs. */
void grants_folder_remove(const char *state_dir, const char *uid);
