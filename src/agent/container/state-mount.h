/* state-mount.h - the small file systems below the agent's state directory: the shim's, and one for each pod
 * with a grant. They live in the host's mount namespace: the agent's container has STATE with Bidirectional
 * propagation, and what is mounted there is there for the container runtime, and stays when the agent ends.
 */
#pragma once

#include <stdbool.h>

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
