/* tree-install.c - the files of a driver tree that represent a driver: libraries, nvidia-smi, device nodes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "sim/ration-sim/commands.h"
#include "sim/ration-sim/exports.h"
#include "sim/state/tree.h"

#define PROGRAM_MAX (64 * 1024 * 1024)
#define NVIDIA_MAJOR 195 /* Linux, Documentation/admin-guide/devices.txt */
#define NVIDIA_CTL_MINOR 255
#define UVM_MAJOR 510 /* dynamic on a real node; no driver is behind it here */

static const char mounts[] =
	"{\"mounts\":["
	"{\"source\":\"gpus.json\",\"target\":\"/run/ration-sim/gpus.json\",\"readOnly\":true},"
	"{\"source\":\"state\",\"target\":\"/run/ration-sim/state\",\"readOnly\":false}]}\n";

/* Searches beside this program in the build folder, then in ../lib/ration/sim of an installation. The caller
 * frees. */
static int find_part(const char *name, char **ret_path, struct error *err)
{
	static const char *const places[] = {"", "../lib/ration/sim/"};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n < 0)
		return error_set(err, errno, "/proc/self/exe: %s", strerror(errno));
	self[n] = '\0';
	slash = strrchr(self, '/');
	slash[1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s%s%s", self, places[i], name) < 0)
			return error_set(err, ENOMEM, "out of memory");
		if (access(path, R_OK) == 0) {
			*ret_path = TAKE_PTR(path);
			return 0;
		}
	}
	return error_set(err, ENOENT, "%s is neither in %s nor in %s../lib/ration/sim", name, self, self);
}

/* Appends the trailer to a library of this tree. */
static int append_trailer(const char *dir, char **data, size_t *length)
{
	struct sim_trailer trailer = {.magic = SIM_TRAILER_MAGIC};
	char *longer;

	if (!realpath(dir, trailer.root))
		return -errno;
	longer = realloc(*data, *length + sizeof(trailer));
	if (!longer)
		return -ENOMEM;
	memcpy(longer + *length, &trailer, sizeof(trailer));
	*data = longer;
	*length += sizeof(trailer);
	return 0;
}

/* Turns a library into one of this tree: the names of its driver version, and the location of the tree. */
static int adapt_library(const char *dir, const struct sim_state *state, char **data, size_t *length)
{
	int r = exports_hide(*data, *length, state->cuda_version);

	return r < 0 ? r : append_trailer(dir, data, length);
}

/* Copies a part of the simulated driver. A file with the same content is left alone, because a container may
 * have it mounted. state: of the tree dir, for a library; else NULL. */
static int install_part(const char *name, const char *dir, const struct sim_state *state, const char *target,
	mode_t mode, struct error *err)
{
	_cleanup_free_ char *source = NULL, *data = NULL, *old = NULL;
	size_t length, old_length;
	int r = find_part(name, &source, err);

	if (r < 0)
		return r;
	r = fs_read(source, PROGRAM_MAX, &data, &length);
	if (r == 0 && state)
		r = adapt_library(dir, state, &data, &length);
	if (r < 0)
		return error_set(err, -r, "%s: %s", source, strerror(-r));
	if (fs_read(target, PROGRAM_MAX, &old, &old_length) == 0 && old_length == length &&
		memcmp(old, data, length) == 0)
		return 0;
	r = fs_write_atomic(target, mode, data, length);
	return r < 0 ? error_set(err, -r, "%s: %s", target, strerror(-r)) : 0;
}

static int replace_link(const char *path, const char *destination, struct error *err)
{
	_cleanup_free_ char *temporary = NULL;
	char old[256];
	ssize_t n = readlink(path, old, sizeof(old));

	if (n > 0 && (size_t)n == strlen(destination) && memcmp(old, destination, (size_t)n) == 0)
		return 0;
	if (asprintf(&temporary, "%s.new", path) < 0)
		return error_set(err, ENOMEM, "out of memory");
	unlink(temporary);
	if (symlink(destination, temporary) < 0 || rename(temporary, path) < 0)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	return 0;
}

/* Removes files from DIR/SUB whose name starts with prefix, unless keep() returns true. */
static void sweep(const char *dir, const char *sub, const char *prefix,
	bool (*keep)(const char *name, const struct sim_state *state), const struct sim_state *state)
{
	_cleanup_free_ char *path = NULL;
	struct dirent *entry;
	DIR *folder;

	if (asprintf(&path, "%s/%s", dir, sub) < 0)
		return;
	folder = opendir(path);
	if (!folder)
		return;
	while ((entry = readdir(folder)))
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && !keep(entry->d_name, state))
			unlinkat(dirfd(folder), entry->d_name, 0);
	closedir(folder);
}

static bool keep_library(const char *name, const struct sim_state *state)
{
	const char *version = strstr(name, ".so") + strlen(".so");

	return strcmp(version, "") == 0 || strcmp(version, ".1") == 0 ||
	       (version[0] == '.' && strcmp(version + 1, state->driver_version) == 0);
}

static bool keep_device(const char *name, const struct sim_state *state)
{
	uint32_t minor;

	return strcmp(name, "nvidiactl") == 0 || strcmp(name, "nvidia-uvm") == 0 ||
	       (parse_u32(name + strlen("nvidia"), UINT32_MAX, &minor) == 0 && minor < state->gpu_count);
}

static bool keep_nothing(const char *name, const struct sim_state *state)
{
	return false;
}

static int install_library(
	const char *dir, const char *library, const struct sim_state *state, struct error *err)
{
	_cleanup_free_ char *name = NULL, *real = NULL, *soname = NULL, *link = NULL, *plain = NULL;
	int r;

	if (asprintf(&name, "%s.%s", library, state->driver_version) < 0 ||
		asprintf(&soname, "%s.1", library) < 0 || asprintf(&real, "%s/lib/%s", dir, name) < 0 ||
		asprintf(&link, "%s/lib/%s", dir, soname) < 0 ||
		asprintf(&plain, "%s/lib/%s", dir, library) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = install_part(soname, dir, state, real, 0755, err);
	if (r == 0)
		r = replace_link(link, name, err);
	if (r == 0)
		r = replace_link(plain, soname, err);
	if (r == 0)
		sweep(dir, "lib", library, keep_library, state);
	return r;
}

/* Creates a device node or, if that is not permitted, a plain file in its place. The plain file suffices for
 * a simulated driver, which checks only whether the name exists. But it cannot be given to a container as a
 * device. */
static int install_device(const char *dir, const char *name, unsigned major_number, unsigned minor_number,
	bool *ret_stand_in, struct error *err)
{
	_cleanup_free_ char *path = NULL, *temporary = NULL;
	_cleanup_close_ int fd = -1;
	struct stat st;
	bool there;

	if (asprintf(&path, "%s/dev/%s", dir, name) < 0 || asprintf(&temporary, "%s.new", path) < 0)
		return error_set(err, ENOMEM, "out of memory");
	there = lstat(path, &st) == 0;
	if (there && S_ISCHR(st.st_mode) && st.st_rdev == makedev(major_number, minor_number))
		return 0;
	unlink(temporary);
	if (mknod(temporary, S_IFCHR | 0666, makedev(major_number, minor_number)) < 0) {
		if (errno != EPERM && errno != EACCES)
			return error_set(err, errno, "%s: %s", temporary, strerror(errno));
		*ret_stand_in = true;
		if (there && S_ISREG(st.st_mode))
			return 0;
		fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd < 0)
			return error_set(err, errno, "%s: %s", temporary, strerror(errno));
	}
	if (chmod(temporary, 0666) < 0 || rename(temporary, path) < 0)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	return 0;
}

static int install_devices(
	const char *dir, const struct sim_state *state, bool *ret_stand_ins, struct error *err)
{
	bool stand_ins = false;
	int r = install_device(dir, "nvidiactl", NVIDIA_MAJOR, NVIDIA_CTL_MINOR, &stand_ins, err);

	if (r == 0)
		r = install_device(dir, "nvidia-uvm", UVM_MAJOR, 0, &stand_ins, err);
	for (uint32_t i = 0; r == 0 && i < state->gpu_count; i++) {
		char name[32];

		snprintf(name, sizeof(name), "nvidia%u", state->gpus[i].minor);
		r = install_device(dir, name, NVIDIA_MAJOR, state->gpus[i].minor, &stand_ins, err);
	}
	if (r < 0)
		return r;
	sweep(dir, "dev", "nvidia", keep_device, state);
	*ret_stand_ins = stand_ins;
	return 0;
}

int tree_install(const char *dir, const struct sim_state *state, bool *ret_stand_ins, struct error *err)
{
	_cleanup_free_ char *smi = NULL, *mounts_path = NULL;
	int r;

	if (asprintf(&smi, "%s/bin/nvidia-smi", dir) < 0 || asprintf(&mounts_path, "%s/mounts.json", dir) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = install_library(dir, "libnvidia-ml.so", state, err);
	if (r == 0)
		r = install_library(dir, "libcuda.so", state, err);
	if (r == 0)
		r = install_part("nvidia-smi", NULL, NULL, smi, 0755, err);
	if (r == 0)
		r = install_devices(dir, state, ret_stand_ins, err);
	if (r < 0)
		return r;
	r = fs_write_atomic(mounts_path, 0644, mounts, sizeof(mounts) - 1);
	return r < 0 ? error_set(err, -r, "%s: %s", mounts_path, strerror(-r)) : 0;
}

static int remove_folder(const char *dir, const char *sub, struct error *err)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/%s", dir, sub) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (rmdir(path) == 0 || errno == ENOENT)
		return 0;
	if (errno == ENOTEMPTY)
		return error_set(err, ENOTEMPTY, "%s: contains other files, which were not removed", path);
	return error_set(err, errno, "%s: %s", path, strerror(errno));
}

int tree_remove(const char *dir, struct error *err)
{
	static const char *const folders[] = {"lib", "bin", "dev", "state"};

	sweep(dir, "lib", "libnvidia-ml.so", keep_nothing, NULL);
	sweep(dir, "lib", "libcuda.so", keep_nothing, NULL);
	sweep(dir, "bin", "nvidia-smi", keep_nothing, NULL);
	sweep(dir, "dev", "nvidia", keep_nothing, NULL);
	sweep(dir, "state", "ipc-", keep_nothing, NULL);
	sweep(dir, "state", "cards", keep_nothing, NULL);
	sweep(dir, "state", "processes", keep_nothing, NULL);
	sweep(dir, "state", "trouble", keep_nothing, NULL);
	sweep(dir, "state", "work", keep_nothing, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		int r = remove_folder(dir, folders[i], err);

		if (r < 0)
			return r;
	}
	sweep(dir, "", "mounts.json", keep_nothing, NULL);
	/* Removed last: this file makes the folder a tree, so an interrupted `down` can be repeated. */
	sweep(dir, "", "gpus.json", keep_nothing, NULL);
	return remove_folder(dir, "", err);
}
