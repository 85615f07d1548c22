#include "run/driver.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const char cuda_prefix[] = "libcuda.so", nvml_prefix[] = "libnvidia-ml.so";

/* The folders into which packages install drivers and second driver libraries. */
static const char *const usual_folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/usr/lib64", "/usr/lib", "/usr/lib32", "/usr/lib/i386-linux-gnu", "/usr/local/lib",
	"/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/local/nvidia/lib64", "/usr/local/cuda*/compat",
	"/opt/cuda/compat"};

static void closedir_ptr(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Returns 1 for libcuda, 0 for libnvidia-ml, -1 for neither. */
static int which_library(const char *name)
{
	const char *const prefixes[] = {nvml_prefix, cuda_prefix};

	for (int i = 0; i < 2; i++) {
		size_t len = strlen(prefixes[i]);

		if (strncmp(name, prefixes[i], len) == 0 && (name[len] == '\0' || name[len] == '.'))
			return i;
	}
	return -1;
}

static bool has_file(const struct driver *driver, const char *name, const char *path)
{
	for (size_t i = 0; i < driver->file_count; i++)
		if (strcmp(driver->files[i].name, name) == 0 && strcmp(driver->files[i].path, path) == 0)
			return true;
	return false;
}

/* A folder that cannot be read is ignored, because no program can load a library from it. */
static void add_folder(struct driver *driver, const char *folder)
{
	_cleanup_(closedir_ptr) DIR *dir = opendir(folder);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)) && driver->file_count <= DRIVER_FILES_MAX) {
		struct driver_file *file = &driver->files[driver->file_count];
		int which = which_library(entry->d_name);
		char path[PATH_MAX], real[PATH_MAX];

		if (which < 0 || snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= PATH_MAX ||
			!realpath(path, real) || has_file(driver, entry->d_name, real))
			continue;
		snprintf(file->name, sizeof(file->name), "%s", entry->d_name);
		snprintf(file->path, sizeof(file->path), "%s", real);
		file->is_cuda = which == 1;
		driver->file_count++;
	}
}

static void add_pattern(struct driver *driver, const char *pattern)
{
	glob_t found = {0};

	if (glob(pattern, GLOB_ONLYDIR | GLOB_NOSORT, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			add_folder(driver, found.gl_pathv[i]);
	globfree(&found);
}

static void add_folder_of(struct driver *driver, const char *path)
{
	char folder[PATH_MAX];
	char *slash;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash && slash > folder) {
		*slash = '\0';
		add_folder(driver, folder);
	}
}

static void add_library_path(struct driver *driver)
{
	const char *variable = getenv("LD_LIBRARY_PATH");
	_cleanup_free_ char *copy = variable ? strdup(variable) : NULL;
	char *rest = copy, *folder;

	while (copy && (folder = strsep(&rest, ":;")))
		add_folder(driver, *folder ? folder : ".");
}

/* Finds a library as the dynamic linker does for a program: by LD_LIBRARY_PATH, its cache, its folders. */
static int find_by_linker(const char *name, char path[PATH_MAX], struct error *err)
{
	void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map;
	int r = 0;

	if (!handle)
		return error_set(err, ENOENT,
			"there is no NVIDIA driver on this machine (%s); --driver names the folder of one",
			dlerror());
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) < 0 || !realpath(map->l_name, path))
		r = error_set(err, ENOENT, "cannot tell where %s was loaded from", name);
	dlclose(handle);
	return r;
}

static int find_in_folder(const char *folder, const char *name, char path[PATH_MAX], struct error *err)
{
	char named[PATH_MAX];

	if (snprintf(named, sizeof(named), "%s/%s", folder, name) >= PATH_MAX)
		return error_set(err, ENAMETOOLONG, "%s: the name is too long", folder);
	if (!realpath(named, path))
		return error_set(err, errno, "%s: %s: this is not the folder of a driver's libraries", named,
			strerror(errno));
	return 0;
}

static int find_libraries(const char *folder, struct driver *driver, struct error *err)
{
	int r;

	if (!folder) {
		r = find_by_linker("libcuda.so.1", driver->cuda, err);
		return r < 0 ? r : find_by_linker("libnvidia-ml.so.1", driver->nvml, err);
	}
	if (!realpath(folder, driver->named))
		return error_set(err, errno, "%s: %s", folder, strerror(errno));
	r = find_in_folder(driver->named, "libcuda.so.1", driver->cuda, err);
	return r < 0 ? r : find_in_folder(driver->named, "libnvidia-ml.so.1", driver->nvml, err);
}

int driver_find(const char *folder, struct driver *ret_driver, struct error *err)
{
	_cleanup_nvml_ struct nvml *nvml = NULL;
	int r;

	memset(ret_driver, 0, sizeof(*ret_driver));
	r = find_libraries(folder, ret_driver, err);
	if (r == 0)
		r = nvml_open(&nvml, ret_driver->nvml, err);
	if (r == 0)
		r = nvml_inventory(nvml, &ret_driver->gpus, err);
	if (r < 0)
		return r;
	if (folder)
		add_folder(ret_driver, ret_driver->named);
	add_folder_of(ret_driver, ret_driver->cuda);
	add_folder_of(ret_driver, ret_driver->nvml);
	add_library_path(ret_driver);
	for (size_t i = 0; i < ARRAY_SIZE(usual_folders); i++)
		add_pattern(ret_driver, usual_folders[i]);
	/* A file that is left out would be a way around the limit. */
	return ret_driver->file_count <= DRIVER_FILES_MAX
		       ? 0
		       : error_set(err, E2BIG,
				 "more than %d files on this machine look like the driver's library",
				 DRIVER_FILES_MAX);
}
