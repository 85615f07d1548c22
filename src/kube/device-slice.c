#include "kube/device-slice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/error.h"
#include "kube/json.h"
#include "kube/members.h"
#include "kube/names.h"

/* ---- attributes ---- */

static int read_text(const char *text, enum attribute_kind kind, struct device_attribute *attribute)
{
	if (!text || strlen(text) >= ATTRIBUTE_TEXT_SIZE)
		return -EINVAL;
	attribute->kind = kind;
	strcpy(attribute->text, text);
	return 0;
}

static int read_attribute(struct json_object *value, struct device_attribute *attribute)
{
	struct json_object *member;

	if ((member = json_member(value, "string")))
		return read_text(json_string(member), ATTRIBUTE_TEXT, attribute);
	if ((member = json_member(value, "version")))
		return read_text(json_string(member), ATTRIBUTE_VERSION, attribute);
	if ((member = json_member(value, "int"))) {
		attribute->kind = ATTRIBUTE_NUMBER;
		return json_whole(member, INT64_MIN, INT64_MAX, &attribute->number);
	}
	if ((member = json_member(value, "bool"))) {
		attribute->kind = ATTRIBUTE_BOOL;
		attribute->number = json_object_get_boolean(member);
		return json_object_is_type(member, json_type_boolean) ? 0 : -EINVAL;
	}
	return -ENOENT;
}

static int read_attributes(struct json_object *object, struct slice_device *device, struct error *err)
{
	struct json_object *list = json_member(object, "attributes");
	int n;

	if (!list)
		return 0;
	n = json_object_is_type(list, json_type_object) ? json_object_object_length(list) : INT32_MAX;
	if (n > SLICE_ATTRIBUTES_MAX)
		return error_set(err, EINVAL, "attributes is not an object of at most %d attributes",
			SLICE_ATTRIBUTES_MAX);
	device->attributes = calloc((size_t)n + 1, sizeof(*device->attributes));
	if (!device->attributes)
		return error_set(err, ENOMEM, "out of memory");
	json_object_object_foreach (list, name, value) {
		struct device_attribute *attribute = &device->attributes[device->n_attributes];
		int r = strlen(name) < ATTRIBUTE_NAME_SIZE ? read_attribute(value, attribute) : -EINVAL;

		if (r == -ENOENT)
			continue;
		if (r < 0)
			return error_set(
				err, EINVAL, "attribute %.100s is not a text, version, int or bool", name);
		strcpy(attribute->name, name);
		device->n_attributes++;
	}
	return 0;
}

/* ---- capacities ---- */

/* An amount that may be absent. */
static int read_optional(struct json_object *object, const char *key, uint64_t *ret_value, struct error *err)
{
	struct json_object *value = json_member(object, key);
	int64_t amount = 0;
	int r = value ? member_amount(value, key, INT64_MAX, &amount, err) : 0;

	*ret_value = (uint64_t)amount;
	return r;
}

static int read_policy(struct json_object *policy, struct device_capacity *capacity, struct error *err)
{
	struct json_object *range = json_member(policy, "validRange");
	int r = read_optional(policy, "default", &capacity->by_default, err);

	capacity->has_default = json_member(policy, "default") != NULL;
	if (r == 0)
		r = read_optional(range, "min", &capacity->min, err);
	if (r == 0)
		r = read_optional(range, "max", &capacity->max, err);
	return r < 0 ? r : read_optional(range, "step", &capacity->step, err);
}

static int read_capacity(struct json_object *object, const char *shorter, const char *longer,
	struct device_capacity *capacity, struct error *err)
{
	struct json_object *list = json_member(object, "capacity"), *value = json_member(list, shorter);
	int64_t amount;
	int r;

	value = value ? value : json_member(list, longer);
	if (!value)
		return 0;
	capacity->present = true;
	r = member_amount(json_member(value, "value"), "value", INT64_MAX, &amount, err);
	if (r == 0) {
		capacity->value = (uint64_t)amount;
		r = read_policy(json_member(value, "requestPolicy"), capacity, err);
	}
	if (r < 0)
		error_prefix(err, "capacity %s", shorter);
	return r;
}

/* ---- taints ---- */

enum taint_effect taint_effect_read(struct json_object *object)
{
	if (json_member_is(object, "effect", "NoSchedule"))
		return TAINT_NO_SCHEDULE;
	return json_member_is(object, "effect", "NoExecute") ? TAINT_NO_EXECUTE : TAINT_NONE;
}

static int read_taint(struct json_object *object, struct device_taint *taint, struct error *err)
{
	const char *key = json_member_string(object, "key"), *value = json_member_string(object, "value");

	if (!key || !*key || strlen(key) >= TAINT_KEY_SIZE)
		return error_set(err, EINVAL, "a taint has no valid key");
	if (value && strlen(value) >= TAINT_VALUE_SIZE)
		return error_set(err, EINVAL, "the value of taint %.100s is too long", key);
	strcpy(taint->key, key);
	strcpy(taint->value, value ? value : "");
	taint->effect = taint_effect_read(object);
	return 0;
}

static int read_taints(struct json_object *object, struct slice_device *device, struct error *err)
{
	struct json_object *list;
	size_t n;
	int r = member_list(object, "taints", SLICE_TAINTS_MAX, &list, &n, err);

	if (r < 0 || n == 0)
		return r;
	device->taints = calloc(n, sizeof(*device->taints));
	if (!device->taints)
		return error_set(err, ENOMEM, "out of memory");
	for (; device->n_taints < n; device->n_taints++) {
		r = read_taint(json_object_array_get_idx(list, device->n_taints),
			&device->taints[device->n_taints], err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- devices ---- */

static int read_device(struct json_object *object, struct slice_device *device, struct error *err)
{
	int r = member_name(object, "name", NAME_LABEL, device->name, sizeof(device->name), err);

	if (r == 0)
		r = member_bool(object, "allowMultipleAllocations", &device->shared, err);
	if (r == 0)
		r = read_attributes(object, device, err);
	if (r == 0)
		r = read_capacity(object, DRA_CAPACITY_MEMORY, DRA_DRIVER "/" DRA_CAPACITY_MEMORY,
			&device->memory, err);
	if (r == 0)
		r = read_capacity(
			object, DRA_CAPACITY_CORES, DRA_DRIVER "/" DRA_CAPACITY_CORES, &device->cores, err);
	return r < 0 ? r : read_taints(object, device, err);
}

static int read_devices(struct json_object *spec, struct device_slice *slice, struct error *err)
{
	struct json_object *list;
	size_t n;
	int r = member_list(spec, "devices", SLICE_DEVICES_MAX, &list, &n, err);

	if (r < 0 || n == 0)
		return r;
	slice->devices = calloc(n, sizeof(*slice->devices));
	if (!slice->devices)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		/* First, so that a device that is read in part is released with the slice. */
		slice->n_devices++;
		r = read_device(json_object_array_get_idx(list, i), &slice->devices[i], err);
		if (r < 0) {
			error_prefix(err, "devices[%zu]", i);
			return r;
		}
	}
	return 0;
}

static int read_pool(struct json_object *pool, struct device_slice *slice, struct error *err)
{
	int r = member_name(pool, "name", NAME_PATH, slice->pool, sizeof(slice->pool), err);

	if (r < 0)
		return r;
	if (json_whole(json_member(pool, "generation"), INT64_MIN, INT64_MAX, &slice->generation) < 0 ||
		json_whole(json_member(pool, "resourceSliceCount"), 1, INT64_MAX, &slice->pool_slices) < 0)
		return error_set(err, EINVAL, "generation and resourceSliceCount must be numbers");
	return 0;
}

static int read_slice(struct json_object *object, struct device_slice *slice, struct error *err)
{
	struct json_object *spec = json_member(object, "spec");
	int r = member_name(
		json_member(object, "metadata"), "name", NAME_DNS, slice->name, sizeof(slice->name), err);

	if (r == 0)
		r = member_name(spec, "driver", NAME_DNS, slice->driver, sizeof(slice->driver), err);
	if (r == 0)
		r = read_pool(json_member(spec, "pool"), slice, err);
	if (r == 0 && json_member(spec, "nodeName"))
		r = member_name(spec, "nodeName", NAME_DNS, slice->node, sizeof(slice->node), err);
	return r < 0 ? r : read_devices(spec, slice, err);
}

int device_slice_from_json(struct json_object *object, struct device_slice *ret_slice, struct error *err)
{
	struct error problem = {""};
	int r;

	device_slice_init(ret_slice);
	r = read_slice(object, ret_slice, &problem);
	return r < 0 ? error_set(err, -r, "ResourceSlice %s: %s", ret_slice->name, problem.text) : 0;
}
