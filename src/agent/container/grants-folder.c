#include "agent/container/grants-folder.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/container/state-mount.h"
#include "base/error.h"
#include "grant/usage.h"

#define NAME_SIZE_MAX 253 /* of anything that Kubernetes names */
/* Grant, usage file, and each once more while it is replaced; what is beyond, a container takes from its own
 * pod only. */
#define BYTES_EACH (2 * (sizeof(struct grant_file) + sizeof(struct usage_file)) + ((size_t)64 << 10))
#define INODES_EACH 8

/* What comes from the API server must stay one file name. */
static bool is_file_name(const char *name)
{
	size_t len = strlen(name);

	return len && len <= NAME_SIZE_MAX && name[0] != '.' &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")];
}

int grants_folder_path(const char *state_dir, const char *uid, const char *container, const char *file,
	char *buf, size_t size)
{
	if (!is_file_name(uid) || (*container && !is_file_name(container)))
		return -EINVAL;
	return (size_t)snprintf(buf, size, "%s/grants/%s%s%s%s%s", state_dir, uid, *container ? "/" : "",
		       container, *file ? "/" : "", file) < size
		       ? 0
		       : -ENAMETOOLONG;
}

int grants_folder_make(
	const char *state_dir, const char *uid, size_t n_containers, const char *container, struct error *err)
{
	char path[PATH_MAX], options[96];
	int r = grants_folder_path(state_dir, uid, "", "", path, sizeof(path));

	if (r < 0)
		return error_set(err, -r, "the pod's uid \"%.64s\" can be no folder: %s", uid, strerror(-r));
	snprintf(options, sizeof(options), "mode=755,size=%zu,nr_inodes=%zu", (n_containers + 1) * BYTES_EACH,
		(n_containers + 1) * INODES_EACH);
	r = state_mount(path, true, options, err);
	if (r < 0)
		return r;
	r = grants_folder_path(state_dir, uid, container, "", path, sizeof(path));
	if (r == 0 && mkdir(path, 0755) < 0 && errno != EEXIST)
		r = -errno;
	return r < 0 ? error_set(err, -r, "cannot make %s: %s", path, strerror(-r)) : 0;
}

void grants_folder_remove(const char *state_dir, const char *uid)
{
	char path[PATH_MAX];

	if (grants_folder_path(state_dir, uid, "", "", path, sizeof(path)) == 0 && access(path, F_OK) == 0)
		state_unmount(path);
}
