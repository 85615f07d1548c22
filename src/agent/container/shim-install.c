#include "agent/container/shim-install.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/container/cdi.h"
#include "agent/container/driver.h"
#include "agent/container/state-mount.h"
#include "base/cleanup.h"
#include "base/elf-fit.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/hash.h"

#define LIBRARY_MAX ((size_t)16 << 20)
#define CDI_FILE_MAX ((size_t)1 << 20)
/* Two versions beside each other during an upgrade, and then some; a version is well under a MiB. */
#define MOUNT_OPTIONS "mode=755,size=64m"

static const char PRELOAD[] = SHIM_INSIDE "/" SHIM_CUDA_FILE "\n" SHIM_INSIDE "/" SHIM_NVML_FILE "\n";

struct shim_file {
	const char *name;
	char *data;
	size_t len;
};

int shim_path(const char *state_dir, const char *version, const char *file, char *buf, size_t size)
{
	return (size_t)snprintf(buf, size, "%s/shim/%s%s%s", state_dir, version, *file ? "/" : "", file) <
			       size
		       ? 0
		       : -ENAMETOOLONG;
}

static int shim_read(const char *source, struct shim_file *file, struct error *err)
{
	char path[PATH_MAX];
	int r = (size_t)snprintf(path, sizeof(path), "%s/%s", source, file->name) < sizeof(path)
			? 0
			: -ENAMETOOLONG;

	if (r == 0)
		r = fs_read(path, LIBRARY_MAX, &file->data, &file->len);
	if (r == 0 && file->len == 0)
		r = -ENODATA;
	return r < 0 ? error_set(err, -r,
			       "the library that containers get in the driver's place cannot be read: %s/%s: %s; it is part of the agent's image, see --shim-dir",
			       source, file->name, strerror(-r))
		     : 0;
}

/* A driver whose file cannot be read has no functions for the shim; that it cannot be is reported when its
 * functions are compared (unknown.c), and so are functions for which the shim has no entry left. */
static void shim_fit(struct shim_file *file, const struct driver *driver, enum driver_part part)
{
	_cleanup_elf_names_ struct elf_names names = {NULL};
	char path[PATH_MAX];

	if (driver_library_path(driver, part, path, sizeof(path)) == 0 &&
		elf_functions(path, part == DRIVER_CUDA ? "cu" : "nvml", part == DRIVER_CUDA ? "cudbg" : NULL,
			&names) == 0)
		elf_fit(file->data, file->len, &names);
}

static int shim_put(const char *state_dir, const char *version, const struct shim_file *file)
{
	_cleanup_free_ char *before = NULL;
	char path[PATH_MAX];
	size_t len;
	int r = shim_path(state_dir, version, file->name, path, sizeof(path));

	if (r == 0 && fs_read(path, LIBRARY_MAX, &before, &len) == 0 && len == file->len &&
		memcmp(before, file->data, len) == 0)
		return 0;
	return r < 0 ? r : fs_write_atomic(path, 0755, file->data, file->len);
}

static int shim_write(const char *state_dir, const char *version, const struct shim_file *files, size_t n,
	struct error *err)
{
	char folder[PATH_MAX];
	int r = shim_path(state_dir, version, "", folder, sizeof(folder));

	if (r == 0)
		r = fs_mkdir_parents(folder, 0755);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = shim_put(state_dir, version, &files[i]);
	return r < 0 ? error_set(err, -r, "cannot write %s: %s", folder, strerror(-r)) : 0;
}

int shim_install(const char *source, const struct driver *driver, const char *state_dir,
	char ret_version[SHIM_VERSION_SIZE], struct error *err)
{
	_cleanup_free_ char *cuda = NULL, *nvml = NULL;
	struct shim_file files[] = {{SHIM_CUDA_FILE}, {SHIM_NVML_FILE},
		{SHIM_PRELOAD_FILE, (char *)PRELOAD, sizeof(PRELOAD) - 1}};
	uint64_t hash = HASH_START;
	char version[SHIM_VERSION_SIZE], mount_point[PATH_MAX];
	int r = shim_read(source, &files[0], err);

	cuda = files[0].data;
	if (r == 0)
		r = shim_read(source, &files[1], err);
	nvml = files[1].data;
	if (r == 0) {
		shim_fit(&files[0], driver, DRIVER_CUDA);
		shim_fit(&files[1], driver, DRIVER_NVML);
	}
	if (r == 0 && (size_t)snprintf(mount_point, sizeof(mount_point), "%s/shim", state_dir) >=
			      sizeof(mount_point))
		r = error_set(err, ENAMETOOLONG, "%s: the name is too long", state_dir);
	if (r == 0)
		r = state_mount(mount_point, false, MOUNT_OPTIONS, err);
	if (r == 0 && !state_reaches_host(state_dir))
		r = error_set(err, EXDEV,
			"what the agent mounts below %s stays in its own container: its volume needs mountPropagation: Bidirectional, as the chart has it",
			state_dir);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		hash = hash_add(hash, files[i].data, files[i].len);
	snprintf(version, sizeof(version), "%016" PRIx64, hash);
	r = shim_write(state_dir, version, files, ARRAY_SIZE(files), err);
	if (r == 0)
		memcpy(ret_version, version, sizeof(version));
	return r;
}

/* A CDI file that cannot be read may name anything. */
static bool cdi_names(const char *cdi_dir, const char *version)
{
	DIR *files = opendir(cdi_dir);
	bool named = !files && errno != ENOENT;
	char uid[NAME_MAX], path[PATH_MAX];

	if (!files)
		return named;
	for (struct dirent *entry; !named && (entry = readdir(files));) {
		_cleanup_free_ char *text = NULL;
		size_t len;
		int r;

		if (!cdi_uid(entry->d_name, uid, sizeof(uid)) ||
			(size_t)snprintf(path, sizeof(path), "%s/%s", cdi_dir, entry->d_name) >= sizeof(path))
			continue;
		r = fs_read(path, CDI_FILE_MAX, &text, &len);
		named = r < 0 ? r != -ENOENT : strstr(text, version) != NULL;
	}
	closedir(files);
	return named;
}

static void shim_remove(const char *state_dir, const char *version)
{
	char folder[PATH_MAX], path[PATH_MAX];
	DIR *files;

	if (shim_path(state_dir, version, "", folder, sizeof(folder)) < 0)
		return;
	files = opendir(folder);
	if (!files)
		return;
	for (struct dirent *entry; (entry = readdir(files));)
		if (entry->d_name[0] != '.' &&
			shim_path(state_dir, version, entry->d_name, path, sizeof(path)) == 0)
			unlink(path);
	closedir(files);
	if (rmdir(folder) == 0)
		log_info("%s is removed: no container has this version any more", folder);
}

void shim_remove_old(const char *state_dir, const char *version, const char *cdi_dir)
{
	char folder[PATH_MAX];
	DIR *versions = NULL;

	if ((size_t)snprintf(folder, sizeof(folder), "%s/shim", state_dir) < sizeof(folder))
		versions = opendir(folder);
	if (!versions)
		return;
	for (struct dirent *entry; (entry = readdir(versions));)
		if (strlen(entry->d_name) == SHIM_VERSION_SIZE - 1 &&
			!entry->d_name[strspn(entry->d_name, "0123456789abcdef")] &&
			strcmp(entry->d_name, version) != 0 && !cdi_names(cdi_dir, entry->d_name))
			shim_remove(state_dir, entry->d_name);
	closedir(versions);
}
