#include "kube/held.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/gpu-name.h"
#include "kube/json.h"

/* All annotations of an object together are at most 256 KiB (apimachinery TotalAnnotationSizeLimitB). */
#define TEXT_MAX (256 * 1024)
#define NAME_LEN_MAX 253

static const char *name_member(struct json_object *object, const char *key)
{
	const char *text = json_member_string(object, key);

	return text && *text && strlen(text) <= NAME_LEN_MAX ? text : NULL;
}

static int read_amount(struct json_object *gpu, const char *key, uint32_t *ret_amount)
{
	struct json_object *value = json_member(gpu, key);
	int64_t amount = 0;

	if (value && json_whole(value, 0, INT32_MAX, &amount) < 0)
		return -EINVAL;
	*ret_amount = (uint32_t)amount;
	return 0;
}

static int read_pod(struct json_object *object, struct held *held, struct error *err)
{
	const char *uid = name_member(object, "uid"), *namespace_ = name_member(object, "namespace"),
		   *name = name_member(object, "name");
	struct json_object *containers = json_member(object, "containers");
	int64_t instances = 1;
	struct held_pod *pod;
	int r;
	struct json_object *gpus;
	uint32_t units, core;

	if (!uid || !namespace_ || !name)
		return error_set(err, EINVAL, "a pod without uid, namespace or name");
	if (containers && json_whole(containers, 1, INT32_MAX, &instances) < 0)
		return error_set(err, EINVAL, "pod %s: containers is not a number", uid);
	r = held_add_pod(held, uid, namespace_, name, &pod);
	if (r < 0)
		return error_set(err, -r, "pod %s: %s", uid, strerror(-r));
	pod->instances = (uint32_t)instances;
	gpus = json_member(object, "cards");
	if (!json_object_is_type(gpus, json_type_object) || json_object_object_length(gpus) == 0)
		return error_set(err, EINVAL, "pod %s: cards names no GPU", pod->uid);
	json_object_object_foreach (gpus, uuid, gpu) {
		if (!gpu_name_is_valid(uuid) || !json_object_is_type(gpu, json_type_object) ||
			read_amount(gpu, "units", &units) < 0 || read_amount(gpu, "core", &core) < 0)
			return error_set(
				err, EINVAL, "pod %s: a GPU without a name or a number of units", pod->uid);
		r = held_pod_add_gpu(pod, uuid, units, core);
		if (r < 0)
			return error_set(err, -r, "pod %s: %s", pod->uid, strerror(-r));
	}
	return 0;
}

static int read_ended(struct json_object *list, struct held *held, struct error *err)
{
	int r = 0;

	if (!list)
		return 0;
	if (!json_object_is_type(list, json_type_array))
		return error_set(err, EINVAL, "ended is not a list");
	held->names_ended = true;
	for (size_t i = 0; i < json_object_array_length(list) && r == 0; i++) {
		const char *uid = json_string(json_object_array_get_idx(list, i));

		if (!uid || !*uid || strlen(uid) > NAME_LEN_MAX)
			return error_set(err, EINVAL, "ended holds something that is no uid");
		r = held_add_ended(held, uid);
	}
	/* A uid that is not named ends by time. */
	if (r == -E2BIG)
		return 0;
	return r < 0 ? error_set(err, -r, "ended: %s", strerror(-r)) : 0;
}

static int read_held(struct json_object *root, struct held *held, struct error *err)
{
	struct json_object *pods = json_member(root, "pods");
	const char *at = json_member_string(root, "at");
	int r = 0;

	if (!at || !*at || strlen(at) >= sizeof(held->at))
		return error_set(err, EINVAL, "at is no time");
	snprintf(held->at, sizeof(held->at), "%s", at);
	if (!json_object_is_type(pods, json_type_array))
		return error_set(err, EINVAL, "pods is not a list");
	for (size_t i = 0; i < json_object_array_length(pods) && r == 0; i++)
		r = read_pod(json_object_array_get_idx(pods, i), held, err);
	return r < 0 ? r : read_ended(json_member(root, "ended"), held, err);
}

int held_from_json(const char *text, struct held *ret_held, struct error *err)
{
	_cleanup_json_ struct json_object *root = NULL;
	_cleanup_held_ struct held held = {0};
	size_t len = strlen(text);
	int r;

	if (len > TEXT_MAX)
		return error_set(err, EINVAL, "%zu bytes are more than any node can hold", len);
	r = json_parse(text, len, &root, err);
	if (r == 0)
		r = read_held(root, &held, err);
	if (r < 0)
		return r;
	*ret_held = held;
	held_init(&held);
	return 0;
}

static struct json_object *gpu_object(const struct gpu_share *gpu)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();

	if (!object || json_set(object, "units", json_object_new_int64(gpu->units)) < 0 ||
		json_set(object, "core", json_object_new_int64(gpu->core)) < 0)
		return NULL;
	return TAKE_PTR(object);
}

static struct json_object *pod_object(const struct held_pod *pod)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();
	struct json_object *gpus = json_object_new_object();

	if (!object || json_set(object, "uid", json_object_new_string(pod->uid)) < 0 ||
		json_set(object, "namespace", json_object_new_string(pod->namespace_)) < 0 ||
		json_set(object, "name", json_object_new_string(pod->name)) < 0 ||
		json_set(object, "cards", gpus) < 0)
		return NULL;
	if (pod->instances > 1 && json_set(object, "containers", json_object_new_int64(pod->instances)) < 0)
		return NULL;
	for (size_t i = 0; i < pod->n_gpus; i++)
		if (json_set(gpus, pod->gpus[i].uuid, gpu_object(&pod->gpus[i])) < 0)
			return NULL;
	return TAKE_PTR(object);
}

/* Adds value and counts its bytes. Returns 1, without adding it, if there is not enough room. */
static int add_within(struct json_object *array, struct json_object *value, size_t *left)
{
	const char *text = value ? json_text(value) : NULL;
	size_t len = text ? strlen(text) + 1 : 0;

	if (!text || len > *left || json_object_array_add(array, value) < 0) {
		json_object_put(value);
		return text ? 1 : -ENOMEM;
	}
	*left -= len;
	return 0;
}

char *held_to_json(const struct held *held, size_t max, size_t *ret_cut)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct json_object *pods = json_object_new_array(), *ended = json_object_new_array();
	size_t left = max > 128 ? max - 128 : 0,
	       cut = 0; /* the text around the entries is shorter than 128 bytes */
	const char *text;
	int r = 0;

	if (!root || json_set(root, "at", json_object_new_string(held->at)) < 0) {
		json_object_put(pods);
		json_object_put(ended);
		return NULL;
	}
	if (json_set(root, "pods", pods) < 0) {
		json_object_put(ended);
		return NULL;
	}
	if (json_set(root, "ended", ended) < 0)
		return NULL;
	for (size_t i = 0; r >= 0 && i < held->n_pods; i++) {
		r = add_within(pods, pod_object(&held->pods[i]), &left);
		cut += r > 0;
	}
	for (size_t i = 0; r >= 0 && i < held->n_ended; i++)
		r = add_within(ended, json_object_new_string(held->ended[i]), &left);
	text = r >= 0 ? json_text(root) : NULL;
	*ret_cut = cut;
	return text ? strdup(text) : NULL;
}
