#include "agent/container/cdi.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/container/allotment.h"
#include "agent/container/driver-files.h"
#include "agent/container/state-mount.h"
#include "agent/container/shim-install.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "grant/grant.h"
#include "grant/usage.h"
#include "kube/json.h"
#include "node/answered.h"
#include "node/pods.h"

/* 0.5.0 is the first with hostPath of device nodes, and what containerd 1.7 reads. */
#define CDI_VERSION "0.5.0"
#define FILE_MAX ((size_t)1 << 20)
#define PREFIX "ration-"
#define SUFFIX ".json"

/* Every directory that a dynamic linker searches by default: Debian's, Red Hat's, musl's and the others'. */
#if defined(__aarch64__)
static const char *const SHIM_DIRS[] = {
	"/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/lib", "/usr/local/lib", "/usr/lib"};
#else
static const char *const SHIM_DIRS[] = {
	"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib", "/usr/local/lib", "/usr/lib"};
#endif

/* What one file is made of. */
struct cdi_parts {
	const struct inventory *inventory;
	const struct driver *driver;
	const struct served *served;
	const struct node_pod *pod;
	const struct cdi_isolation *isolation;
};

int cdi_path(const char *dir, const char *uid, char *buf, size_t size)
{
	/* The uid comes from the API server; it must stay one file name. */
	if (!uid[0] || strchr(uid, '/'))
		return -EINVAL;
	return (size_t)snprintf(buf, size, "%s/" PREFIX "%s" SUFFIX, dir, uid) < size ? 0 : -ENAMETOOLONG;
}

bool cdi_uid(const char *file, char *ret_uid, size_t size)
{
	size_t len = strlen(file), fixed = strlen(PREFIX) + strlen(SUFFIX);

	if (len <= fixed || len - fixed >= size || strncmp(file, PREFIX, strlen(PREFIX)) != 0 ||
		strcmp(file + len - strlen(SUFFIX), SUFFIX) != 0)
		return false;
	memcpy(ret_uid, file + strlen(PREFIX), len - fixed);
	ret_uid[len - fixed] = '\0';
	return true;
}

bool cdi_is_partial(const char *file)
{
	return strncmp(file, PREFIX, strlen(PREFIX)) == 0 && strstr(file, SUFFIX ".tmp-");
}

bool cdi_exists(const char *dir, const char *uid)
{
	char path[PATH_MAX];

	return cdi_path(dir, uid, path, sizeof(path)) == 0 && access(path, F_OK) == 0;
}

void cdi_remove(const char *dir, const char *uid)
{
	char path[PATH_MAX];

	if (cdi_path(dir, uid, path, sizeof(path)) == 0)
		unlink(path);
}

static int add_mount(
	struct json_object *mounts, const char *host, const char *container, bool writable, bool directory)
{
	struct json_object *mount = json_append_object(mounts);
	struct json_object *options;
	int r;

	if (!mount)
		return -ENOMEM;
	r = json_set_text(mount, "hostPath", host);
	if (r == 0)
		r = json_set_text(mount, "containerPath", container);
	options = r == 0 ? json_set_array(mount, "options") : NULL;
	if (!options)
		return -ENOMEM;
	r = json_append(options, json_object_new_string(writable ? "rw" : "ro"));
	if (r == 0)
		r = json_append(options, json_object_new_string("nosuid"));
	if (r == 0)
		r = json_append(options, json_object_new_string("nodev"));
	return r ? r : json_append(options, json_object_new_string(directory ? "rbind" : "bind"));
}

/* A device node, or a bind mount where a simulated tree has a plain file in its place. */
static int add_device(struct json_object *nodes, struct json_object *mounts, const struct driver *driver,
	const char *name, struct error *err)
{
	char host[PATH_MAX], inside[NAME_MAX + 8];
	struct json_object *node;
	bool is_node;
	int r = driver_device(driver, name, host, sizeof(host), &is_node);

	if (r < 0)
		return error_set(err, -r, "dev/%s of the driver: %s", name, strerror(-r));
	snprintf(inside, sizeof(inside), "/dev/%s", name);
	if (!is_node)
		return add_mount(mounts, host, inside, false, false);
	node = json_append_object(nodes);
	if (!node)
		return -ENOMEM;
	r = json_set_text(node, "path", inside);
	return r ? r : json_set_text(node, "hostPath", host);
}

const char *cdi_private_library(enum driver_part part)
{
	static const char *const names[DRIVER_PART_MAX] = {
		NULL, "/run/ration/driver/cuda/libcuda.so", "/run/ration/driver/nvml/libnvidia-ml.so"};

	return names[part];
}

/* Under each name that a program may open it by. */
static int add_shim_library(
	struct json_object *mounts, const struct driver *driver, enum driver_part part, const char *host)
{
	const char *suffixes[] = {"", ".1", "."}, *version;
	char inside[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(SHIM_DIRS); i++)
		for (size_t k = 0; r == 0 && k < ARRAY_SIZE(suffixes); k++) {
			version = strcmp(suffixes[k], ".") == 0 ? driver->version : "";
			snprintf(inside, sizeof(inside), "%s/%s%s%s", SHIM_DIRS[i], driver_library(part),
				suffixes[k], version);
			r = add_mount(mounts, host, inside, false, false);
		}
	return r;
}

/* The shim in the driver's place, the driver where only the shim looks for it. */
static int add_substitutes(struct json_object *mounts, const struct cdi_parts *parts)
{
	static const char *const files[DRIVER_PART_MAX] = {NULL, SHIM_CUDA_FILE, SHIM_NVML_FILE};
	const struct cdi_isolation *isolation = parts->isolation;
	char host[PATH_MAX];
	int r = 0;

	for (enum driver_part part = DRIVER_CUDA; r == 0 && part < DRIVER_PART_MAX; part++) {
		r = driver_library_host(parts->driver, part, host, sizeof(host));
		if (r == 0)
			r = add_mount(mounts, host, cdi_private_library(part), false, false);
		if (r == 0)
			r = shim_path(isolation->state_dir, isolation->shim_version, files[part], host,
				sizeof(host));
		if (r == 0)
			r = add_shim_library(mounts, parts->driver, part, host);
	}
	if (r == 0)
		r = shim_path(isolation->state_dir, isolation->shim_version, "", host, sizeof(host));
	if (r == 0)
		r = add_mount(mounts, host, SHIM_INSIDE, false, true);
	if (r == 0)
		r = shim_path(
			isolation->state_dir, isolation->shim_version, SHIM_PRELOAD_FILE, host, sizeof(host));
	return r ? r : add_mount(mounts, host, "/etc/ld.so.preload", false, false);
}

static int add_grant(struct json_object *mounts, const struct cdi_parts *parts, const char *container)
{
	char host[PATH_MAX];
	int r = grants_folder_path(parts->isolation->state_dir, parts->pod->facts.uid, container,
		GRANTS_GRANT_FILE, host, sizeof(host));

	if (r == 0)
		r = add_mount(mounts, host, GRANT_FILE_PATH, false, false);
	if (r == 0)
		r = grants_folder_path(parts->isolation->state_dir, parts->pod->facts.uid, container,
			USAGE_FILE_NAME, host, sizeof(host));
	return r ? r : add_mount(mounts, host, USAGE_FILE_PATH, true, false);
}

static int add_mounts(struct json_object *mounts, const struct cdi_parts *parts, const char *container)
{
	const struct driver *driver = parts->driver;
	const struct container_spec *spec = node_pod_container(parts->pod, container);
	bool isolated = parts->isolation &&
			!(parts->isolation->allow_disable && spec && spec->asks_for_no_limit);
	char unknown[64];
	int r = 0, has = driver_capabilities(spec ? spec->capabilities : NULL, unknown, sizeof(unknown));

	for (size_t i = 0; r == 0 && i < driver->n_mounts; i++) {
		const struct driver_mount *mount = &driver->mounts[i];

		if ((mount->needs && !(mount->needs & has)) || (isolated && mount->part != DRIVER_OTHER))
			continue;
		r = add_mount(mounts, mount->host, mount->container, mount->writable, mount->directory);
	}
	if (r == 0 && isolated)
		r = add_substitutes(mounts, parts);
	return r || !isolated ? r : add_grant(mounts, parts, container);
}

static int add_variables(struct json_object *edits, const struct allotment *allotment)
{
	struct json_object *env = json_set_array(edits, "env");

	for (size_t i = 0; env && i < allotment->n_variables; i++) {
		char text[ALLOTMENT_VALUE_SIZE + 64];

		snprintf(text, sizeof(text), "%s=%s", allotment->variables[i].name,
			allotment->variables[i].value);
		if (json_append(env, json_object_new_string(text)) < 0)
			return -ENOMEM;
	}
	return env ? 0 : -ENOMEM;
}

static int add_container(struct json_object *devices, const struct cdi_parts *parts, const char *container,
	const char *name, struct error *err)
{
	const struct driver *driver = parts->driver;
	struct json_object *device = json_append_object(devices), *edits = json_object_new_object();
	struct json_object *nodes, *mounts;
	char file[32];
	struct allotment allotment;
	int r = allotment_build(parts->inventory, &parts->pod->facts, container, true, &allotment, err);

	if (!device || json_set(device, "containerEdits", edits) < 0)
		return -ENOMEM;
	nodes = json_set_array(edits, "deviceNodes");
	mounts = json_set_array(edits, "mounts");
	if (r < 0 || !nodes || !mounts)
		return r < 0 ? r : -ENOMEM;
	r = json_set_text(device, "name", name);
	for (size_t i = 0; r == 0 && i < allotment.n_gpus; i++) {
		snprintf(file, sizeof(file), "nvidia%u", allotment.gpus[i]->minor);
		r = add_device(nodes, mounts, driver, file, err);
	}
	for (size_t i = 0; r == 0 && i < driver->n_devices; i++)
		r = add_device(nodes, mounts, driver, driver->devices[i], err);
	if (r == 0)
		r = add_mounts(mounts, parts, container);
	return r ? r : add_variables(edits, &allotment);
}

/* The index of the device with this name in the file; -1: the file has no such device. */
static int find_device(struct json_object *file, const char *name)
{
	struct json_object *devices = json_member(file, "devices");
	size_t n = json_count(devices);

	for (size_t i = 0; i < n; i++) {
		if (json_member_is(json_object_array_get_idx(devices, i), "name", name))
			return (int)i;
	}
	return -1;
}

/* What the file has under this name; NULL: nothing. */
static struct json_object *get_device(struct json_object *file, const char *name)
{
	int i = find_device(file, name);

	return i < 0 ? NULL : json_object_array_get_idx(json_member(file, "devices"), (size_t)i);
}

/* What another container has been given stays as it is: that one may run, and what it has must be named by a
 * file, or it is removed (shim_remove_old()). It gets what is new when it is started itself. */
static int keep_container(struct json_object *devices, struct json_object *device)
{
	if (json_object_array_add(devices, json_object_get(device)) == 0)
		return 0;
	json_object_put(device);
	return -ENOMEM;
}

static int cdi_build(const struct cdi_parts *parts, const char *container, struct json_object *before,
	struct json_object *root, struct error *err)
{
	const struct placement *placement = &parts->pod->facts.placement;
	struct json_object *devices;
	int r = json_set_text(root, "cdiVersion", CDI_VERSION);

	if (r == 0)
		r = json_set_text(root, "kind", CDI_KIND);
	devices = r == 0 ? json_set_array(root, "devices") : NULL;
	if (!devices)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < placement->n_containers; i++) {
		const char *name = placement->containers[i].name, *device;
		struct json_object *kept = NULL;
		char buf[ANSWERED_NAME_SIZE];

		device = answered_name(parts->served, parts->pod->facts.uid, name, buf);
		if (!device)
			continue;
		if (strcmp(name, container) != 0)
			kept = get_device(before, device);
		r = kept ? keep_container(devices, kept) : add_container(devices, parts, name, device, err);
	}
	return r;
}

static int cannot_write(const char *dir, const struct pod_facts *pod, int r, struct error *err)
{
	return error_set(err, -r, "cannot write the CDI file of pod %s/%s in %s: %s", pod->namespace_,
		pod->name, dir, strerror(-r));
}

int cdi_remove_device(const char *dir, const char *uid, const char *name, struct error *err)
{
	_cleanup_json_ struct json_object *file = NULL;
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	size_t len = 0;
	const char *left;
	int i, r = cdi_path(dir, uid, path, sizeof(path));

	if (r < 0)
		return 0; /* no file has such a name */
	r = fs_read(path, FILE_MAX, &text, &len);
	if (r == 0 && json_parse(text, len, &file, NULL) < 0)
		return 0; /* the container runtime cannot read it either */
	i = r == 0 ? find_device(file, name) : -1;
	if (r == -ENOENT || (r == 0 && i < 0))
		return 0;
	if (r == 0 && json_count(json_member(file, "devices")) == 1) {
		unlink(path);
		return 0;
	}
	if (r == 0) {
		json_object_array_del_idx(json_member(file, "devices"), (size_t)i, 1);
		left = json_text(file);
		r = left ? fs_write_atomic(path, 0644, left, strlen(left)) : -ENOMEM;
	}
	return r < 0 ? error_set(err, -r, "cannot take the device %s out of %s: %s", name, path, strerror(-r))
		     : 0;
}

int cdi_write(const char *dir, const struct inventory *inventory, const struct driver *driver,
	const struct served *served, const struct node_pod *pod, const char *container,
	const struct cdi_isolation *isolation, struct error *err)
{
	const struct cdi_parts parts = {inventory, driver, served, pod, isolation};
	_cleanup_json_ struct json_object *root = json_object_new_object(), *old = NULL;
	_cleanup_free_ char *before = NULL;
	char path[PATH_MAX];
	const char *text;
	size_t len = 0;
	int r = cdi_path(dir, pod->facts.uid, path, sizeof(path));

	if (r < 0)
		return cannot_write(dir, &pod->facts, r, err);
	if (fs_read(path, FILE_MAX, &before, &len) == 0 && pod->facts.placement.n_containers > 1)
		json_parse(before, len, &old, NULL);
	error_set(err, ENOMEM, "out of memory");
	r = root ? cdi_build(&parts, container, old, root, err) : -ENOMEM;
	if (r < 0)
		return r;
	if (!json_count(json_member(root, "devices"))) { /* all its names are another pod's */
		unlink(path);
		return 0;
	}
	text = json_text(root);
	if (text && before && len == strlen(text) && memcmp(before, text, len) == 0)
		return 0;
	r = text ? fs_write_atomic(path, 0644, text, strlen(text)) : -ENOMEM;
	if (r == -ENOENT && fs_mkdir_parents(dir, 0755) == 0)
		r = fs_write_atomic(path, 0644, text, strlen(text));
	return r < 0 ? cannot_write(dir, &pod->facts, r, err) : 0;
}
