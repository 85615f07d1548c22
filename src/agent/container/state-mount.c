#include "agent/container/state-mount.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "grant/usage.h"

#define MOUNTINFO_MAX ((size_t)4 << 20)

/* "36 35 98:0 /root /mount/point rw,noatime shared:1 - tmpfs ...": proc(5). Length of the mount point if path
 * lies in it, -1 if not. */
static ssize_t line_covers(const char *line, size_t len, const char *path, bool *ret_shared)
{
	_cleanup_free_ char *copy = strndup(line, len);
	char *rest = copy, *field = NULL;
	size_t point;

	for (int i = 0; i < 5 && rest; i++)
		field = strsep(&rest, " ");
	if (!rest || !field)
		return -1;
	point = strcmp(field, "/") == 0 ? 0 : strlen(field);
	if (strncmp(field, path, point) != 0 || (path[point] && path[point] != '/'))
		return -1;
	*ret_shared = false;
	while ((field = strsep(&rest, " ")) && strcmp(field, "-") != 0)
		*ret_shared |= strncmp(field, "shared:", 7) == 0;
	return (ssize_t)point;
}

bool mountinfo_is_shared(const char *mountinfo, const char *path)
{
	ssize_t longest = -1;
	bool shared = false;

	for (const char *line = mountinfo; *line;) {
		size_t len = strcspn(line, "\n");
		bool line_shared;
		ssize_t point = line_covers(line, len, path, &line_shared);

		/* Of two at the same place the later one lies above. */
		if (point >= longest && point >= 0) {
			longest = point;
			shared = line_shared;
		}
		line += len + (line[len] == '\n');
	}
	return shared;
}

static bool same_namespace(void)
{
	char host[64], ours[64];
	ssize_t n = readlink("/proc/1/ns/mnt", host, sizeof(host)),
		m = readlink("/proc/self/ns/mnt", ours, sizeof(ours));

	return n < 0 || m < 0 || (n == m && memcmp(host, ours, (size_t)n) == 0);
}

bool state_reaches_host(const char *path)
{
	_cleanup_free_ char *text = NULL;

	return same_namespace() || fs_read("/proc/self/mountinfo", MOUNTINFO_MAX, &text, NULL) < 0 ||
	       mountinfo_is_shared(text, path);
}

bool state_is_mounted(const char *path)
{
	char parent[PATH_MAX];
	struct stat here, above;
	struct statfs fs;

	if ((size_t)snprintf(parent, sizeof(parent), "%s/..", path) >= sizeof(parent) ||
		lstat(path, &here) < 0 || !S_ISDIR(here.st_mode) || stat(parent, &above) < 0 ||
		statfs(path, &fs) < 0)
		return false;
	return here.st_dev != above.st_dev && fs.f_type == TMPFS_MAGIC;
}

int state_mount(const char *path, bool noexec, const char *options, struct error *err)
{
	/* Usage files are read many times a second. */
	unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOATIME | (noexec ? MS_NOEXEC : 0);
	struct stat st;
	int r;

	if (state_is_mounted(path))
		return 0;
	r = fs_mkdir_parents(path, 0755);
	/* A link in its place would put the mount wherever it leads. */
	if (r == 0 && (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
		r = -ENOTDIR;
	if (r == 0 && mount("ration", path, "tmpfs", flags, options) < 0)
		r = -errno;
	if (r == -EPERM)
		return error_set(err, EPERM,
			"the agent may not mount %s: its container must be privileged, with mountPropagation: Bidirectional, as the chart has it",
			path);
	return r < 0 ? error_set(err, -r, "cannot mount a tmpfs at %s: %s", path, strerror(-r)) : 0;
}

void state_unmount(const char *path)
{
	if (state_is_mounted(path) && umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
		log_warning("cannot unmount %s: %s", path, strerror(errno));
	if (rmdir(path) < 0 && errno != ENOENT)
		log_warning("cannot remove %s: %s", path, strerror(errno));
}

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
