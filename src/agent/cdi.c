#include "agent/cdi.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/driver.h"
#include "agent/grant.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "kube/json.h"

/* 0.5.0 is the first with hostPath of device nodes, and what containerd 1.7 reads. */
#define CDI_VERSION "0.5.0"
#define FILE_MAX ((size_t)1 << 20)
#define PREFIX "ration-"
#define SUFFIX ".json"

const char *cdi_device_name(const char *uid, const char *container, char *buf, size_t size)
{
	snprintf(buf, size, CDI_KIND "=%s.%s", uid, container);
	return buf;
}

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

static int array_add_text(struct json_object *array, const char *text)
{
	struct json_object *item = json_object_new_string(text);

	if (item && json_object_array_add(array, item) == 0)
		return 0;
	json_object_put(item);
	return -ENOMEM;
}

static struct json_object *array_add_object(struct json_object *array)
{
	struct json_object *item = json_object_new_object();

	if (item && json_object_array_add(array, item) == 0)
		return item;
	json_object_put(item);
	return NULL;
}

static int set_text(struct json_object *object, const char *key, const char *text)
{
	return json_set(object, key, json_object_new_string(text));
}

static struct json_object *set_array(struct json_object *object, const char *key)
{
	struct json_object *array = json_object_new_array();

	return json_set(object, key, array) == 0 ? array : NULL;
}

static int add_mount(
	struct json_object *mounts, const char *host, const char *container, bool writable, bool directory)
{
	struct json_object *mount = array_add_object(mounts);
	struct json_object *options;
	int r;

	if (!mount)
		return -ENOMEM;
	r = set_text(mount, "hostPath", host);
	if (r == 0)
		r = set_text(mount, "containerPath", container);
	options = r == 0 ? set_array(mount, "options") : NULL;
	if (!options)
		return -ENOMEM;
	r = array_add_text(options, writable ? "rw" : "ro");
	if (r == 0)
		r = array_add_text(options, "nosuid");
	if (r == 0)
		r = array_add_text(options, "nodev");
	return r ? r : array_add_text(options, directory ? "rbind" : "bind");
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
	node = array_add_object(nodes);
	if (!node)
		return -ENOMEM;
	r = set_text(node, "path", inside);
	return r ? r : set_text(node, "hostPath", host);
}

static int add_variables(struct json_object *edits, const struct grant *grant)
{
	struct json_object *env = set_array(edits, "env");

	for (size_t i = 0; env && i < grant->n_variables; i++) {
		char text[GRANT_VALUE_SIZE + 64];

		snprintf(text, sizeof(text), "%s=%s", grant->variables[i].name, grant->variables[i].value);
		if (array_add_text(env, text) < 0)
			return -ENOMEM;
	}
	return env ? 0 : -ENOMEM;
}

static int add_container(struct json_object *devices, const struct inventory *inventory,
	const struct driver *driver, const struct pod_facts *pod, const char *container, struct error *err)
{
	struct json_object *device = array_add_object(devices), *edits = json_object_new_object();
	struct json_object *nodes, *mounts;
	char name[CDI_NAME_SIZE], file[32];
	struct grant grant;
	int r = grant_build(inventory, pod, container, true, &grant, err);

	if (!device || json_set(device, "containerEdits", edits) < 0)
		return -ENOMEM;
	nodes = set_array(edits, "deviceNodes");
	mounts = set_array(edits, "mounts");
	if (r < 0 || !nodes || !mounts)
		return r < 0 ? r : -ENOMEM;
	snprintf(name, sizeof(name), "%s.%s", pod->uid, container);
	r = set_text(device, "name", name);
	for (size_t i = 0; r == 0 && i < grant.n_cards; i++) {
		snprintf(file, sizeof(file), "nvidia%u", grant.cards[i]->minor);
		r = add_device(nodes, mounts, driver, file, err);
	}
	for (size_t i = 0; r == 0 && i < driver->n_devices; i++)
		r = add_device(nodes, mounts, driver, driver->devices[i], err);
	for (size_t i = 0; r == 0 && i < driver->n_mounts; i++)
		r = add_mount(mounts, driver->mounts[i].host, driver->mounts[i].container,
			driver->mounts[i].writable, driver->mounts[i].directory);
	return r ? r : add_variables(edits, &grant);
}

static int cdi_build(const struct inventory *inventory, const struct driver *driver,
	const struct pod_facts *pod, struct json_object *root, struct error *err)
{
	struct json_object *devices;
	int r = set_text(root, "cdiVersion", CDI_VERSION);

	if (r == 0)
		r = set_text(root, "kind", CDI_KIND);
	devices = r == 0 ? set_array(root, "devices") : NULL;
	if (!devices)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < pod->placement.n_containers; i++)
		r = add_container(devices, inventory, driver, pod, pod->placement.containers[i].name, err);
	return r;
}

int cdi_write(const char *dir, const struct inventory *inventory, const struct driver *driver,
	const struct pod_facts *pod, struct error *err)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	_cleanup_free_ char *before = NULL;
	char path[PATH_MAX];
	const char *text;
	size_t len = 0;
	int r;

	error_set(err, ENOMEM, "out of memory");
	r = root ? cdi_build(inventory, driver, pod, root, err) : -ENOMEM;
	if (r < 0)
		return r;
	text = json_text(root);
	r = text ? cdi_path(dir, pod->uid, path, sizeof(path)) : -ENOMEM;
	if (r == 0 && fs_read(path, FILE_MAX, &before, &len) == 0 && len == strlen(text) &&
		memcmp(before, text, len) == 0)
		return 0;
	if (r == 0)
		r = fs_write_atomic(path, 0644, text, strlen(text));
	if (r == -ENOENT && fs_mkdir_parents(dir, 0755) == 0)
		r = fs_write_atomic(path, 0644, text, strlen(text));
	if (r < 0)
		error_set(err, -r, "cannot write the CDI file of pod %s/%s in %s: %s", pod->namespace_,
			pod->name, dir, strerror(-r));
	return r;
}
