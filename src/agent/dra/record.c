#include "agent/dra/record.h"

#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "kube/gpu-name.h"
#include "kube/json.h"
#include "kube/object-name.h"
#include "node/claims.h"
#include "node/registry.h"

#define FILE_MAX ((size_t)1 << 20)
#define SUFFIX ".json"
#define MIB_MAX (INT32_MAX / CLAIM_RESULTS_MAX) /* of one device, so that all of them can be added */

/* The uid is one file name: prepare.c has checked it, or it was one. */
static int record_path(const char *state_dir, const char *uid, char ret_path[PATH_MAX])
{
	return snprintf(ret_path, PATH_MAX, "%s/claims/%s" SUFFIX, state_dir, uid) < PATH_MAX ? 0
											      : -ENAMETOOLONG;
}

/* ---- writing ---- */

static int add_device(struct json_object *list, const struct claim_device *device)
{
	struct json_object *object = json_append_object(list);

	if (!object || json_set_text(object, "request", device->request) < 0 ||
		json_set_text(object, "pool", device->pool) < 0 ||
		json_set_text(object, "device", device->device) < 0 ||
		json_set_text(object, "shareID", device->share_id) < 0 ||
		json_set_text(object, "uuid", device->uuid) < 0 ||
		json_set(object, "mib", json_object_new_int64(device->mib)) < 0)
		return -ENOMEM;
	return json_set(object, "cores", json_object_new_int64(device->core));
}

static int add_user(struct json_object *list, const struct claim_user *user)
{
	struct json_object *object = json_append_object(list);

	return object && json_set_text(object, "pod", user->pod_uid) == 0
		       ? json_set_text(object, "container", user->container)
		       : -ENOMEM;
}

static struct json_object *record_build(const struct node_claim *claim)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct json_object *devices = root ? json_set_array(root, "devices") : NULL;
	struct json_object *users = devices ? json_set_array(root, "users") : NULL;

	if (!users || json_set_text(root, "namespace", claim->namespace_) < 0 ||
		json_set_text(root, "name", claim->name) < 0 ||
		json_set(root, "weight", json_object_new_int64(claim->weight)) < 0 ||
		json_set(root, "unlimited", json_object_new_boolean(claim->unlimited)) < 0 ||
		json_set(root, "released", json_object_new_boolean(claim->released_ns > 0)) < 0)
		return NULL;
	for (size_t i = 0; i < claim->n_devices; i++)
		if (add_device(devices, &claim->devices[i]) < 0)
			return NULL;
	for (size_t i = 0; i < claim->n_users; i++)
		if (add_user(users, &claim->users[i]) < 0)
			return NULL;
	return TAKE_PTR(root);
}

int record_write(const char *state_dir, struct node_claim *claim, struct error *err)
{
	_cleanup_json_ struct json_object *root = record_build(claim);
	const char *text = root ? json_text(root) : NULL;
	char path[PATH_MAX], folder[PATH_MAX];
	int r = record_path(state_dir, claim->uid, path);

	if (r == 0)
		r = text ? fs_write_atomic(path, 0600, text, strlen(text)) : -ENOMEM;
	if (r == -ENOENT) {
		snprintf(folder, sizeof(folder), "%s/claims", state_dir);
		r = fs_mkdir_parents(folder, 0755);
		if (r == 0)
			r = fs_write_atomic(path, 0600, text, strlen(text));
	}
	if (r < 0)
		return error_set(err, -r, "cannot write the record of ResourceClaim %s/%.100s in %.200s: %s",
			claim->namespace_, claim->name, state_dir, strerror(-r));
	claim->saved = true;
	return 0;
}

void record_remove(const char *state_dir, const char *uid)
{
	char path[PATH_MAX];

	if (record_path(state_dir, uid, path) == 0)
		unlink(path);
}

/* ---- reading ---- */

static bool text_into(struct json_object *object, const char *key, char *buf, size_t size)
{
	const char *text = json_member_string(object, key);

	return text && (size_t)snprintf(buf, size, "%s", text) < size;
}

static int device_read(struct node_claim *claim, struct json_object *object)
{
	struct claim_device device = {.core = 0};
	int64_t mib, core;

	if (!text_into(object, "request", device.request, sizeof(device.request)) ||
		!text_into(object, "pool", device.pool, sizeof(device.pool)) ||
		!text_into(object, "device", device.device, sizeof(device.device)) ||
		!text_into(object, "shareID", device.share_id, sizeof(device.share_id)) ||
		!text_into(object, "uuid", device.uuid, sizeof(device.uuid)) ||
		!gpu_name_is_valid(device.uuid) ||
		json_whole(json_member(object, "mib"), 1, MIB_MAX, &mib) < 0 ||
		json_whole(json_member(object, "cores"), 0, CORE_PER_GPU, &core) < 0)
		return -EINVAL;
	device.mib = (uint32_t)mib;
	device.core = (uint32_t)core;
	return node_claim_add(claim, &device);
}

static int user_read(struct node_claim *claim, struct json_object *object)
{
	const char *container = json_member_string(object, "container");
	char uid[CLAIM_UID_SIZE];

	return container && text_into(object, "pod", uid, sizeof(uid)) ? node_claim_use(claim, uid, container)
								       : -EINVAL;
}

static int each(struct node_claim *claim, struct json_object *list, size_t max,
	int (*read)(struct node_claim *claim, struct json_object *object))
{
	size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : max + 1;
	int r = n > max ? -EINVAL : 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = read(claim, json_object_array_get_idx(list, i));
	return r;
}

static int record_read(const char *path, const char *uid, struct node_claim **ret_claim)
{
	_cleanup_json_ struct json_object *root = NULL;
	_cleanup_free_ char *text = NULL;
	char namespace_[CLAIM_LABEL_SIZE], name[CLAIM_NAME_SIZE];
	struct node_claim *claim;
	int64_t weight;
	size_t len;
	int r = fs_read(path, FILE_MAX, &text, &len);

	if (r == 0)
		r = json_parse(text, len, &root, NULL);
	if (r < 0)
		return r;
	if (!text_into(root, "namespace", namespace_, sizeof(namespace_)) ||
		!text_into(root, "name", name, sizeof(name)) || !object_name_is_valid(namespace_) ||
		!object_name_is_valid(name) ||
		json_whole(json_member(root, "weight"), 0, SHARE_WEIGHT_MAX, &weight) < 0)
		return -EINVAL;
	claim = node_claim_new(uid, namespace_, name);
	if (!claim)
		return -ENOMEM;
	claim->weight = (uint32_t)weight;
	claim->unlimited = json_object_get_boolean(json_member(root, "unlimited"));
	if (json_object_get_boolean(json_member(root, "released")))
		claim->released_ns = monotonic_ns();
	r = each(claim, json_member(root, "devices"), CLAIM_RESULTS_MAX, device_read);
	if (r == 0)
		r = each(claim, json_member(root, "users"), CLAIM_USERS_MAX, user_read);
	if (r < 0) {
		node_claim_free(claim);
		return r;
	}
	*ret_claim = claim;
	return 0;
}

static void record_load(const char *state_dir, const char *uid, struct node_registry *node)
{
	struct node_claim *claim = NULL;
	char path[PATH_MAX];
	int r = record_path(state_dir, uid, path);

	if (r == 0)
		r = record_read(path, uid, &claim);
	if (r < 0) {
		log_warning(
			"%s: the record of a claim is not readable (%s): what lies on the node for it stays until the kubelet unprepares it",
			path, strerror(-r));
		claim = node_claim_new(uid, "?", "?");
	}
	if (!claim || node_claim_complete(claim) < 0 || node_claims_put(node, claim) < 0) {
		log_error("out of memory: the claim with uid %s is not known", uid);
		node_claim_free(claim);
		return;
	}
	claim->saved = true;
}

void records_load(const char *state_dir, struct node_registry *node)
{
	char path[PATH_MAX], uid[CLAIM_UID_SIZE];
	DIR *folder = NULL;

	if ((size_t)snprintf(path, sizeof(path), "%s/claims", state_dir) < sizeof(path))
		folder = opendir(path);
	if (!folder)
		return;
	for (struct dirent *entry; (entry = readdir(folder));) {
		size_t len = strlen(entry->d_name), fixed = strlen(SUFFIX);

		/* An agent was killed while it wrote. */
		if (strstr(entry->d_name, SUFFIX ".tmp-"))
			unlinkat(dirfd(folder), entry->d_name, 0);
		if (entry->d_name[0] == '.' || len <= fixed || len - fixed >= sizeof(uid) ||
			strcmp(entry->d_name + len - fixed, SUFFIX) != 0)
			continue;
		snprintf(uid, sizeof(uid), "%.*s", (int)(len - fixed), entry->d_name);
		record_load(state_dir, uid, node);
	}
	closedir(folder);
}
