#include "run/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "grant/grant.h"
#include "run/layer-mount.h"

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

static int environment_preload(const char *folder, struct error *err)
{
	char libraries[PATH_MAX], preload[2 * PATH_MAX];
	int r;

	snprintf(libraries, sizeof(libraries), "%.4000s/lib", folder);
	snprintf(preload, sizeof(preload), "%.4000s/libcuda.so.1:%.4000s/libnvidia-ml.so.1", libraries,
		libraries);
	r = put_first("LD_LIBRARY_PATH", libraries, err);
	return r < 0 ? r : put_first("LD_PRELOAD", preload, err);
}

int layer_enter(enum layer layer, const char *folder, const struct driver *driver, const struct shim *shim,
	struct error *err)
{
	char grant[PATH_MAX];
	int r;

	snprintf(grant, sizeof(grant), "%.4000s/grant", folder);
	if (setenv(GRANT_FILE_VARIABLE, grant, 1) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (layer == LAYER_PRELOAD)
		return environment_preload(folder, err);
	r = layer_mount_enter(layer, folder, driver, shim, err);
	if (r == 0 && *driver->named)
		r = put_first("LD_LIBRARY_PATH", driver->named, err);
	return r;
}
