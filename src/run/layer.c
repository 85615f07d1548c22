#include "run/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "grant/grant.h"
#include "grant/usage.h"

const char *layer_name(enum layer layer)
{
	switch (layer) {
	case LAYER_MOUNT:
		return "mount namespace";
	case LAYER_MOUNT_USER:
		return "mount namespace in a user namespace";
	default:
		return "preload";
	}
}

static int write_proc(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

/* The user and group keep their ids; all others are unknown inside. */
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
	/* With slave propagation, later mounts of the machine are visible inside, and mounts of the run are
	 * invisible outside. */
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

/* Binds one file or one folder, without what is mounted below it. The kernel takes options of a bind mount
 * only in a second mount call. A user namespace must repeat the options of the source's mount outside, or the
 * kernel refuses with EPERM (mount_namespaces(7)). Options of access times stay without being named. */
static int bind_with(const char *source, const char *target, unsigned long options)
{
	const unsigned long kept = ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC;
	struct statvfs st;

	_Static_assert((int)ST_RDONLY == MS_RDONLY && (int)ST_NOSUID == MS_NOSUID &&
			       (int)ST_NODEV == MS_NODEV && (int)ST_NOEXEC == MS_NOEXEC,
		"the bits of statvfs(3) are those of mount(2)");
	if (mount(source, target, NULL, MS_BIND, NULL) < 0 || statvfs(target, &st) < 0)
		return -errno;
	options |= MS_NOSUID | MS_NODEV | (st.f_flag & kept);
	return mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | options, NULL) < 0 ? -errno : 0;
}

static int cover(const struct driver_file *file, const char *shim)
{
	char source[PATH_MAX];

	snprintf(source, sizeof(source), "%.4000s/%s", shim,
		file->is_cuda ? "libcuda.so.1" : "libnvidia-ml.so.1");
	return bind_with(source, file->path, MS_RDONLY);
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

/* layer_mount_try() - enters the layer without a run, in a process that ends afterwards: 0 or a negative
 * errno. */
static int layer_mount_try(enum layer layer, const struct driver *driver, const char *shim)
{
	const char *path;
	int r = enter_namespace(layer);

	return r < 0 ? r : cover_all(driver, shim, &path);
}

/* Binds only the library. NVIDIA's library loads its companions by name, from where the dynamic linker
 * searches (435 to 615 have no RUNPATH). A program in the run must not reach more of the machine through this
 * mount. */
static int show_driver(const char *library, const char *folder, bool is_cuda, struct error *err)
{
	char target[PATH_MAX];
	int r = layer_library(LAYER_MOUNT, folder, library, is_cuda, target, sizeof(target));

	if (r == 0)
		r = bind_with(library, target, MS_RDONLY);
	return r < 0 ? error_set(err, -r, "%s cannot be mounted in %s: %s", library, folder, strerror(-r))
		     : 0;
}

/* Programs that lose their environment find the grant there. All of them write into the usage file. */
static int show_grant(const char *folder, struct error *err)
{
	char path[] = GRANT_FILE_PATH, usage[PATH_MAX];
	int r;

	*strrchr(path, '/') = '\0';
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return 0; /* without root, and the folder does not exist: RATION_GRANT names it */
	snprintf(usage, sizeof(usage), "%.4000s/%s", folder, USAGE_FILE_NAME);
	r = bind_with(folder, path, MS_RDONLY);
	if (r == 0)
		r = bind_with(usage, USAGE_FILE_PATH, 0);
	return r < 0 ? error_set(err, -r, "%s cannot be mounted at %s: %s", folder, path, strerror(-r)) : 0;
}

/* Writes the two substitutes with the names of this driver to a file system of the run's own, because that of
 * its folder may be mounted noexec, as Debian's /run is. */
static int show_shim(const char *folder, const struct shim *shim, char ret_path[PATH_MAX], struct error *err)
{
	const unsigned long options = MS_NOSUID | MS_NODEV;
	int r;

	snprintf(ret_path, PATH_MAX, "%s", shim->folder);
	if (shim_is_installed_fit(shim))
		return 0;
	snprintf(ret_path, PATH_MAX, "%.4000s/" RUN_SHIM_FOLDER, folder);
	r = mount("ration", ret_path, "tmpfs", options, "mode=755,size=16m") < 0 ? -errno : 0;
	if (r == 0)
		r = shim_write(shim, ret_path);
	if (r == 0 && mount(NULL, ret_path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | options, NULL) < 0)
		r = -errno;
	return r < 0 ? error_set(err, -r, "%s: %s", ret_path, strerror(-r)) : 0;
}

/* layer_mount_enter() - for the calling process, mounts the shim over each of driver->files, the driver under
 * the run's folder, and the grant at its fixed path if that path exists. */
static int layer_mount_enter(enum layer layer, const char *folder, const struct driver *driver,
	const struct shim *shim, struct error *err)
{
	const char *path = "";
	char fit[PATH_MAX];
	int r = enter_namespace(layer);

	if (r < 0)
		return error_set(err, -r, "a mount namespace is refused: %s", strerror(-r));
	r = show_driver(driver->cuda, folder, true, err);
	if (r == 0)
		r = show_driver(driver->nvml, folder, false, err);
	if (r == 0)
		r = show_shim(folder, shim, fit, err);
	if (r < 0)
		return r;
	r = cover_all(driver, fit, &path);
	if (r < 0)
		return error_set(err, -r, "%s cannot be covered: %s", path, strerror(-r));
	return show_grant(folder, err);
}

/* Tries the mounts in a separate process, because a process cannot leave them again. Returns 0 or the
 * negative errno of what failed. */
static int try_mount(enum layer layer, const struct driver *driver, const char *shim)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(-layer_mount_try(layer, driver, shim));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

enum layer layer_choose(const struct driver *driver, const char *shim, char *reason, size_t size)
{
	enum layer layer = geteuid() == 0 ? LAYER_MOUNT : LAYER_MOUNT_USER;
	int r = try_mount(layer, driver, shim);

	if (size)
		*reason = '\0';
	if (r == 0)
		return layer;
	snprintf(reason, size, "a %s is refused here: %s", layer_name(layer), strerror(-r));
	return LAYER_PRELOAD;
}

int layer_library(
	enum layer layer, const char *folder, const char *path, bool is_cuda, char *ret_path, size_t size)
{
	int n;

	if (layer == LAYER_PRELOAD)
		n = snprintf(ret_path, size, "%s", path);
	else
		n = snprintf(ret_path, size, "%s/%s", folder,
			is_cuda ? "host-cuda/libcuda.so" : "host-nvml/libnvidia-ml.so");
	return n >= 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

static int make_folder(const char *folder, const char *name, struct error *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.4000s/%s", folder, name);
	return mkdir(path, 0755) < 0 ? error_set(err, errno, "%s: %s", path, strerror(errno)) : 0;
}

/* Makes a folder with an empty file, over which the driver's library will be mounted. */
static int make_place(const char *folder, bool is_cuda, struct error *err)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	int r = make_folder(folder, is_cuda ? "host-cuda" : "host-nvml", err);

	if (r < 0)
		return r;
	r = layer_library(LAYER_MOUNT, folder, NULL, is_cuda, path, sizeof(path));
	if (r < 0)
		return error_set(err, -r, "%s: %s", folder, strerror(-r));
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	return fd < 0 ? error_set(err, errno, "%s: %s", path, strerror(errno)) : 0;
}

/* Makes a link for every name that the driver has on this machine, so that LD_LIBRARY_PATH finds the shim for
 * each. */
static int make_links(const char *folder, const struct driver *driver, const char *shim, struct error *err)
{
	for (size_t i = 0; i < driver->file_count; i++) {
		const struct driver_file *file = &driver->files[i];
		char target[PATH_MAX], link[PATH_MAX];

		snprintf(target, sizeof(target), "%.4000s/%s", shim,
			file->is_cuda ? "libcuda.so.1" : "libnvidia-ml.so.1");
		snprintf(link, sizeof(link), "%.3800s/lib/%s", folder, file->name);
		if (symlink(target, link) < 0 && errno != EEXIST)
			return error_set(err, errno, "%s: %s", link, strerror(errno));
	}
	return 0;
}

/* Chooses the folder of the two substitutes that fit the driver. It is the run's own if the driver has
 * functions that the installed ones lack. */
static int choose_shim(
	const char *folder, const struct shim *shim, char ret_path[PATH_MAX], struct error *err)
{
	struct statvfs st;
	int r;

	snprintf(ret_path, PATH_MAX, "%s", shim->folder);
	if (shim_is_installed_fit(shim))
		return 0;
	if (statvfs(folder, &st) == 0 && st.f_flag & ST_NOEXEC) {
		fprintf(stderr,
			"ration run: the NVIDIA driver has functions that this version of ration does not know, and a program that is linked with them does not start, since %s is mounted noexec: upgrade ration\n",
			folder);
		return 0;
	}
	snprintf(ret_path, PATH_MAX, "%.4000s/" RUN_SHIM_FOLDER, folder);
	r = shim_write(shim, ret_path);
	return r < 0 ? error_set(err, -r, "%s: %s", ret_path, strerror(-r)) : 0;
}

int layer_prepare(enum layer layer, const char *folder, const struct driver *driver, const struct shim *shim,
	struct error *err)
{
	char path[PATH_MAX];
	int r = shim_is_installed_fit(shim) ? 0 : make_folder(folder, RUN_SHIM_FOLDER, err);

	if (r < 0)
		return r;
	if (layer != LAYER_PRELOAD) {
		r = make_place(folder, true, err);
		return r < 0 ? r : make_place(folder, false, err);
	}
	r = make_folder(folder, "lib", err);
	if (r == 0)
		r = choose_shim(folder, shim, path, err);
	return r < 0 ? r : make_links(folder, driver, path, err);
}

/* Puts the value in front of what the caller has in the variable. */
static int put_first(const char *variable, const char *value, struct error *err)
{
	const char *old = getenv(variable);
	_cleanup_free_ char *joined = NULL;

	if (asprintf(&joined, "%s%s%s", value, old && *old ? ":" : "", old ? old : "") < 0 ||
		setenv(variable, joined, 1) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

int layer_enter(enum layer layer, const char *folder, const struct driver *driver, const struct shim *shim,
	struct error *err)
{
	char grant[PATH_MAX];
	int r;

	snprintf(grant, sizeof(grant), "%.4000s/grant", folder);
	if (setenv(GRANT_FILE_VARIABLE, grant, 1) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (layer == LAYER_PRELOAD) {
		char libraries[PATH_MAX], preload[2 * PATH_MAX];

		snprintf(libraries, sizeof(libraries), "%.4000s/lib", folder);
		snprintf(preload, sizeof(preload), "%.4000s/libcuda.so.1:%.4000s/libnvidia-ml.so.1",
			libraries, libraries);
		r = put_first("LD_LIBRARY_PATH", libraries, err);
		return r < 0 ? r : put_first("LD_PRELOAD", preload, err);
	}
	r = layer_mount_enter(layer, folder, driver, shim, err);
	if (r == 0 && *driver->named)
		r = put_first("LD_LIBRARY_PATH", driver->named, err);
	return r;
}
