#include "run/layer-mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "grant/grant.h"

static int write_proc(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

/* The user and group stay what they are; all others are unknown inside. */
static int map_ids(uid_t uid, gid_t gid)
{
	char text[64];
	int r = write_proc("/proc/self/setgroups", "deny"); /* user_namespaces(7): before gid_map */

	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "%u %u 1\n", uid, uid);
	r = write_proc("/proc/self/uid_map", text);
	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "%u %u 1\n", gid, gid);
	return write_proc("/proc/self/gid_map", text);
}

static int enter_namespace(enum layer layer)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int r = 0;

	if (unshare(CLONE_NEWNS | (layer == LAYER_MOUNT_USER ? CLONE_NEWUSER : 0)) < 0)
		return -errno;
	if (layer == LAYER_MOUNT_USER)
		r = map_ids(uid, gid);
	/* Slave: what the machine mounts later is seen inside, and nothing of ours outside. It also keeps a
	 * mount over the driver from appearing in the copy of its folder. */
	if (r == 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		r = -errno;
	return r;
}

static bool seen_before(const struct driver *driver, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (strcmp(driver->files[i].path, driver->files[index].path) == 0)
			return true;
	return false;
}

static int cover(const struct driver_file *file, const char *shim)
{
	char source[PATH_MAX];

	snprintf(source, sizeof(source), "%.4000s/%s", shim,
		file->is_cuda ? "libcuda.so.1" : "libnvidia-ml.so.1");
	return mount(source, file->path, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

static int cover_all(const struct driver *driver, const char *shim, const char **ret_path)
{
	for (size_t i = 0; i < driver->file_count; i++) {
		int r = seen_before(driver, i) ? 0 : cover(&driver->files[i], shim);

		*ret_path = driver->files[i].path;
		if (r < 0)
			return r;
	}
	return 0;
}

int layer_mount_try(enum layer layer, const struct driver *driver, const char *shim)
{
	const char *path;
	int r = enter_namespace(layer);

	return r < 0 ? r : cover_all(driver, shim, &path);
}

/* The folder above the library's: a driver's libraries look for what belongs to them beside themselves. */
static int show_driver(const char *library, const char *folder, const char *name, struct error *err)
{
	char source[PATH_MAX], target[PATH_MAX];

	snprintf(source, sizeof(source), "%s", library);
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(source, '/');

		slash[slash == source] = '\0';
	}
	snprintf(target, sizeof(target), "%.4000s/%s", folder, name);
	/* Recursive: where a container's runtime has put the driver, each of its files is a mount; and a user
	 * namespace may copy a tree only as a whole (mount_namespaces(7)). */
	if (mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0)
		return error_set(
			err, errno, "%s cannot be mounted at %s: %s", source, target, strerror(errno));
	return 0;
}

/* Programs that lose their environment find the grant there. */
static int show_grant(const char *folder, struct error *err)
{
	char path[] = GRANT_FILE_PATH;

	*strrchr(path, '/') = '\0';
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return 0; /* no root, and nobody made it: RATION_GRANT names it */
	if (mount(folder, path, NULL, MS_BIND, NULL) < 0)
		return error_set(err, errno, "%s cannot be mounted at %s: %s", folder, path, strerror(errno));
	return 0;
}

int layer_mount_enter(enum layer layer, const char *folder, const struct driver *driver, const char *shim,
	struct error *err)
{
	const char *path = "";
	int r = enter_namespace(layer);

	if (r < 0)
		return error_set(err, -r, "a mount namespace is refused: %s", strerror(-r));
	r = show_driver(driver->cuda, folder, "host-cuda", err);
	if (r == 0)
		r = show_driver(driver->nvml, folder, "host-nvml", err);
	if (r < 0)
		return r;
	r = cover_all(driver, shim, &path);
	if (r < 0)
		return error_set(err, -r, "%s cannot be covered: %s", path, strerror(-r));
	return show_grant(folder, err);
}
