/* grants-folder.h - where the grants of this node lie: STATE/grants/<pod uid>/<container>/{grant,usage}, a
 * small tmpfs for each pod, since a container can let its usage file grow. By uid, never by device ids: after
 * a force delete the next pod has the same ids within a second.
 */
#pragma once

#include <stddef.h>

struct error;

#define GRANTS_GRANT_FILE "grant"

/* grants_folder_path() - of a file of a container; "" for file, or for container and file: of the folder.
 * -EINVAL if uid or container could not be one file name; -ENAMETOOLONG. */
int grants_folder_path(const char *state_dir, const char *uid, const char *container, const char *file,
	char *buf, size_t size);

/* grants_folder_make() - the pod's tmpfs, large enough for so many containers, and this container's folder in
 * it; what is there stays. Negative errno with a sentence. */
int grants_folder_make(const char *state_dir, const char *uid, size_t n_containers, const char *container,
	struct error *err);

/* grants_folder_remove() - the pod's. What its containers have open stays theirs. */
void grants_folder_remove(const char *state_dir, const char *uid);
