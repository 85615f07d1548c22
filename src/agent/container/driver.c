#include "agent/container/driver.h"

#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/container/driver-files.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/hash.h"
#include "kube/json.h"

#define MOUNTS_FILE_MAX 65536
/* Times of files are those of the kernel's last tick: what changes in the tick in which we looked has the
 * time that we have seen. */
#define SETTLED_NS (2 * NS_PER_S)

/* Where distributions and driver containers put the libraries, and a tree of our own simulation. */
static const char *const LIBRARY_DIRS[] = {
	"usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib/aarch64-linux-gnu", "lib", "usr/lib"};
static const char *const BINARY_DIRS[] = {"usr/bin", "bin"};

/* Both default search directories of the x86 loaders: Debian's and Red Hat's. Images differ, a CDI file does
 * not; what is found there needs no ld.so.cache, so no hook has to run ldconfig in the container's root. */
#if defined(__aarch64__)
static const char *const CONTAINER_DIRS[] = {"/usr/lib/aarch64-linux-gnu", "/usr/lib64"};
#else
static const char *const CONTAINER_DIRS[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64"};
#endif

/* Where the driver's packages put what is neither a library nor a program. */
static const char *const CONFIG_DIRS[] = {"etc", "usr/share"};

static const char *const CONTROL_DEVICES[] = {
	"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"};

void driver_init(struct driver *driver, const char *root, const char *host_root)
{
	*driver = (struct driver){.root = root, .host_root = host_root};
}

static void driver_clear(struct driver *driver)
{
	for (size_t i = 0; i < driver->n_mounts; i++) {
		free(driver->mounts[i].host);
		free(driver->mounts[i].container);
	}
	free(driver->library_dir);
	driver->library_dir = NULL;
	driver->n_mounts = driver->n_devices = 0;
}

void driver_release(struct driver *driver)
{
	driver_clear(driver);
}

/* "/" and "usr/bin" must not become "//usr/bin": the runtime compares mount points by text. */
static int join(char *buf, size_t size, const char *root, const char *relative)
{
	size_t len = strlen(root);

	while (len && root[len - 1] == '/')
		len--;
	return (size_t)snprintf(buf, size, "%.*s/%s", (int)len, root, relative) < size ? 0 : -ENAMETOOLONG;
}

static int driver_add(struct driver *driver, const char *relative, const char *container, bool writable)
{
	struct driver_mount *mount = &driver->mounts[driver->n_mounts];
	char host[PATH_MAX], here[PATH_MAX];
	struct stat st;

	if (driver->n_mounts == DRIVER_MOUNTS_MAX)
		return -E2BIG;
	if (join(host, sizeof(host), driver->host_root, relative) < 0 ||
		join(here, sizeof(here), driver->root, relative) < 0)
		return -ENAMETOOLONG;
	*mount = (struct driver_mount){.host = strdup(host),
		.container = strdup(container),
		.writable = writable,
		.directory = stat(here, &st) == 0 && S_ISDIR(st.st_mode)};
	if (!mount->host || !mount->container) {
		free(mount->host);
		free(mount->container);
		return -ENOMEM;
	}
	driver->n_mounts++;
	return 0;
}

/* "libcuda.so", or that and "." and something. */
static bool is_library(const char *file, const char *library)
{
	size_t len = strlen(library);

	return strncmp(file, library, len) == 0 && (file[len] == '\0' || file[len] == '.');
}

const char *driver_library(enum driver_part part)
{
	static const char *const names[DRIVER_PART_MAX] = {NULL, "libcuda.so", "libnvidia-ml.so"};

	return names[part];
}

static enum driver_part part_of(const char *file)
{
	for (enum driver_part part = DRIVER_CUDA; part < DRIVER_PART_MAX; part++)
		if (is_library(file, driver_library(part)))
			return part;
	return DRIVER_OTHER;
}

/* What lies in this folder beside the libraries, "" for their own. */
static int driver_add_folder(struct driver *driver, const char *folder)
{
	char below[PATH_MAX], path[PATH_MAX];
	DIR *dir;
	int r = join(below, sizeof(below), driver->library_dir, folder);

	if (r == 0)
		r = join(path, sizeof(path), driver->root, below);
	dir = r < 0 ? NULL : opendir(path);
	if (!dir)
		return r < 0 ? r : -errno;
	for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
		char relative[PATH_MAX], target[PATH_MAX], inside[PATH_MAX];
		int needs = driver_library_needs(folder, entry->d_name);

		if (needs < 0)
			continue;
		/* A link's own name leads the runtime to the file: what is mounted is the same inode. */
		r = join(relative, sizeof(relative), below, entry->d_name);
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(CONTAINER_DIRS); i++) {
			r = join(inside, sizeof(inside), CONTAINER_DIRS[i], folder);
			if (r == 0)
				r = join(target, sizeof(target), inside, entry->d_name);
			if (r == 0)
				r = driver_add(driver, relative, target, false);
			if (r == 0) {
				driver->mounts[driver->n_mounts - 1].part = part_of(entry->d_name);
				driver->mounts[driver->n_mounts - 1].needs = needs;
			}
		}
	}
	closedir(dir);
	return r;
}

static int driver_add_libraries(struct driver *driver)
{
	for (size_t i = 0; i < n_driver_library_folders; i++) {
		int r = driver_add_folder(driver, driver_library_folders[i]);

		if (r < 0 && (r != -ENOENT || i == 0))
			return r;
	}
	return 0;
}

static int driver_add_configs(struct driver *driver)
{
	for (size_t i = 0; i < n_driver_configs * ARRAY_SIZE(CONFIG_DIRS); i++) {
		const struct driver_config *config = &driver_configs[i / ARRAY_SIZE(CONFIG_DIRS)];
		const char *dir = CONFIG_DIRS[i % ARRAY_SIZE(CONFIG_DIRS)];
		char relative[PATH_MAX], path[PATH_MAX], inside[PATH_MAX];
		struct stat st;
		int r = join(relative, sizeof(relative), dir, config->file);

		if (r == 0)
			r = join(path, sizeof(path), driver->root, relative);
		if (r == 0)
			r = join(inside, sizeof(inside), config->in_etc ? "/etc" : "/",
				config->in_etc ? config->file : relative);
		if (r < 0)
			return r;
		if (stat(path, &st) < 0)
			continue;
		r = driver_add(driver, relative, inside, false);
		if (r < 0)
			return r;
		driver->mounts[driver->n_mounts - 1].needs = config->needs;
	}
	return 0;
}

static int driver_add_binary(struct driver *driver)
{
	char relative[PATH_MAX], path[PATH_MAX];
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(BINARY_DIRS); i++) {
		if (join(relative, sizeof(relative), BINARY_DIRS[i], "nvidia-smi") == 0 &&
			join(path, sizeof(path), driver->root, relative) == 0 && stat(path, &st) == 0)
			return driver_add(driver, relative, "/usr/bin/nvidia-smi", false);
	}
	return 0;
}

/* DIR/mounts.json: what else the containers of a simulated tree need. */
static int driver_add_extra(struct driver *driver)
{
	_cleanup_json_ struct json_object *root = NULL;
	_cleanup_free_ char *text = NULL;
	struct json_object *list;
	char path[PATH_MAX];
	size_t len;
	int r = join(path, sizeof(path), driver->root, "mounts.json");

	if (r == 0)
		r = fs_read(path, MOUNTS_FILE_MAX, &text, &len);
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = json_parse(text, len, &root, NULL);
	if (r < 0)
		return r;
	list = json_member(root, "mounts");
	for (size_t i = 0; i < json_count(list); i++) {
		struct json_object *item = json_object_array_get_idx(list, i);
		const char *source = json_member_string(item, "source");
		const char *target = json_member_string(item, "target");

		if (!source || !target || target[0] != '/' || strstr(source, ".."))
			return -EINVAL;
		r = driver_add(
			driver, source, target, !json_object_get_boolean(json_member(item, "readOnly")));
		if (r < 0)
			return r;
	}
	return 0;
}

/* The driver's version stands in the name of the file that libcuda.so.1 leads to, and nowhere else that can
 * be read without running it. */
static bool find_version(const struct driver *driver, const char *folder, enum driver_part part,
	char *ret_version, size_t size)
{
	const char *library = driver_library(part);
	char path[PATH_MAX];
	struct stat wanted, st;
	bool found = false;
	DIR *dir = NULL;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s.1", folder, library) < sizeof(path) &&
		stat(path, &wanted) == 0)
		dir = opendir(folder);
	if (!dir)
		return false;
	for (struct dirent *entry; !found && (entry = readdir(dir));) {
		const char *version = entry->d_name + strlen(library) + 1;

		if (!is_library(entry->d_name, library) || !entry->d_name[strlen(library)] ||
			!strchr(version, '.') || version[strspn(version, "0123456789.")] ||
			strlen(version) >= size)
			continue;
		found = (size_t)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) < sizeof(path) &&
			stat(path, &st) == 0 && st.st_ino == wanted.st_ino && st.st_dev == wanted.st_dev;
		if (found)
			strcpy(ret_version, version);
	}
	closedir(dir);
	return found;
}

static void driver_find_version(struct driver *driver)
{
	char folder[PATH_MAX], versions[DRIVER_PART_MAX][sizeof(driver->version)];
	char *why = driver->version_problem;
	int r = join(folder, sizeof(folder), driver->root, driver->library_dir);

	driver->version[0] = why[0] = '\0';
	for (enum driver_part part = DRIVER_CUDA; part < DRIVER_PART_MAX; part++)
		if (!why[0] && (r < 0 || !find_version(driver, folder, part, versions[part],
						 sizeof(versions[part]))))
			snprintf(why, sizeof(driver->version_problem),
				"%s.1 of the NVIDIA driver in %.200s is not there, or is no link to a file with the driver's version in its name",
				driver_library(part), folder);
	if (why[0])
		return;
	if (strcmp(versions[DRIVER_CUDA], versions[DRIVER_NVML]) != 0)
		snprintf(why, sizeof(driver->version_problem),
			"the NVIDIA driver in %.200s is incomplete: libcuda.so.1 is of version %s, libnvidia-ml.so.1 of %s",
			folder, versions[DRIVER_CUDA], versions[DRIVER_NVML]);
	else
		strcpy(driver->version, versions[DRIVER_CUDA]);
}

static int library_below(
	const struct driver *driver, const char *root, enum driver_part part, char *buf, size_t size)
{
	char relative[PATH_MAX];

	if (!driver->version[0] || !driver->library_dir)
		return -ENOENT;
	if ((size_t)snprintf(relative, sizeof(relative), "%s/%s.%s", driver->library_dir,
		    driver_library(part), driver->version) >= sizeof(relative))
		return -ENAMETOOLONG;
	return join(buf, size, root, relative);
}

int driver_library_host(const struct driver *driver, enum driver_part part, char *buf, size_t size)
{
	return library_below(driver, driver->host_root, part, buf, size);
}

int driver_library_path(const struct driver *driver, enum driver_part part, char *buf, size_t size)
{
	return library_below(driver, driver->root, part, buf, size);
}

static uint64_t driver_sign(const struct driver *driver)
{
	uint64_t signature = HASH_START;
	char name[64], relative[PATH_MAX], path[PATH_MAX];
	struct stat st;

	for (size_t i = 0; i < driver->n_mounts; i++) {
		signature = hash_add(signature, driver->mounts[i].host, strlen(driver->mounts[i].host) + 1);
		signature = hash_add(
			signature, driver->mounts[i].container, strlen(driver->mounts[i].container) + 1);
	}
	for (enum driver_part part = DRIVER_CUDA; part < DRIVER_PART_MAX; part++) {
		snprintf(name, sizeof(name), "%s.1", driver_library(part));
		if (join(relative, sizeof(relative), driver->library_dir, name) < 0 ||
			join(path, sizeof(path), driver->root, relative) < 0 || stat(path, &st) < 0)
			continue;
		signature = hash_add(signature, &st.st_ino, sizeof(st.st_ino));
		signature = hash_add(signature, &st.st_mtim, sizeof(st.st_mtim));
		signature = hash_add(signature, &st.st_size, sizeof(st.st_size));
	}
	return signature;
}

static int driver_find_libraries(const struct driver *driver, struct stat *ret_st)
{
	char relative[PATH_MAX], path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(LIBRARY_DIRS); i++) {
		if (join(relative, sizeof(relative), LIBRARY_DIRS[i], "libnvidia-ml.so.1") < 0 ||
			join(path, sizeof(path), driver->root, relative) < 0 || stat(path, ret_st) < 0)
			continue;
		if (join(path, sizeof(path), driver->root, LIBRARY_DIRS[i]) == 0 && stat(path, ret_st) == 0)
			return (int)i;
	}
	return -ENOENT;
}

int driver_scan(struct driver *driver, struct error *err)
{
	struct stat st;
	int r, found = driver_find_libraries(driver, &st);
	int64_t age;
	uint64_t signature;

	if (found < 0)
		return error_set(err, ENOENT,
			"there is no NVIDIA driver below %s (no libnvidia-ml.so.1 in usr/lib/x86_64-linux-gnu, usr/lib64 or lib): see --driver-root",
			driver->root);
	if (driver->settled && driver->library_dir && strcmp(driver->library_dir, LIBRARY_DIRS[found]) == 0 &&
		driver->library_time.tv_sec == st.st_mtim.tv_sec &&
		driver->library_time.tv_nsec == st.st_mtim.tv_nsec)
		return 0;
	driver_clear(driver);
	driver->library_dir = strdup(LIBRARY_DIRS[found]);
	r = driver->library_dir ? driver_add_libraries(driver) : -ENOMEM;
	if (r == 0)
		r = driver_add_configs(driver);
	if (r == 0)
		r = driver_add_binary(driver);
	if (r == 0)
		r = driver_add_extra(driver);
	if (r < 0) {
		driver_clear(driver);
		return error_set(
			err, -r, "cannot list the driver's files below %s: %s", driver->root, strerror(-r));
	}
	for (size_t i = 0; i < ARRAY_SIZE(CONTROL_DEVICES); i++) {
		char host[PATH_MAX];
		bool is_node;

		if (driver_device(driver, CONTROL_DEVICES[i], host, sizeof(host), &is_node) == 0)
			driver->devices[driver->n_devices++] = CONTROL_DEVICES[i];
	}
	driver_find_version(driver);
	age = realtime_ns() - (st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec);
	signature = driver_sign(driver);
	driver->library_time = st.st_mtim;
	driver->settled = age > SETTLED_NS || age < -SETTLED_NS;
	driver->generation += !driver->generation || signature != driver->signature;
	driver->signature = signature;
	return 0;
}

int driver_device(
	const struct driver *driver, const char *name, char *ret_host, size_t size, bool *ret_is_node)
{
	char relative[PATH_MAX], path[PATH_MAX];
	struct stat st;
	int r = join(relative, sizeof(relative), "dev", name);

	if (r == 0)
		r = join(path, sizeof(path), driver->root, relative);
	if (r == 0 && stat(path, &st) < 0)
		r = -errno;
	if (r == 0)
		r = join(ret_host, size, driver->host_root, relative);
	if (r == 0)
		*ret_is_node = S_ISCHR(st.st_mode);
	return r;
}
