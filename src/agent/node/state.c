#include "agent/node/state.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "kube/fault-list.h"
#include "kube/gpu-name.h"
#include "kube/json.h"
#include "kube/node.h"
#include "model/units.h"

#define FILE_MAX 65536

static void state_path(const char *dir, char *buf, size_t size)
{
	snprintf(buf, size, "%s/agent-state.json", dir);
}

static int number(struct json_object *object, const char *key, int64_t max, int64_t *ret)
{
	return json_whole(json_member(object, key), 0, max, ret);
}

static void gpu_says_read(struct json_object *gpu, const char *key, char ret_says[GPU_REASON_SIZE])
{
	const char *says = json_member_string(gpu, key);

	fault_reason_copy(ret_says, says ? says : "");
}

static bool gpu_read(struct json_object *object, struct gpu *gpu)
{
	const char *uuid = json_member_string(object, "uuid"), *model = json_member_string(object, "model");
	const char *bus_id = json_member_string(object, "busId");
	int64_t index, minor, mib;

	if (!uuid || strlen(uuid) >= sizeof(gpu->facts.uuid) || !gpu_name_is_valid(uuid) || !model ||
		number(object, "index", NODE_GPUS_MAX * 4, &index) < 0 ||
		number(object, "minor", INT32_MAX, &minor) < 0 ||
		number(object, "mib", INT32_MAX, &mib) < 0 || !mib)
		return false;
	*gpu = (struct gpu){.minor = (unsigned int)minor, .numa_node = -1};
	snprintf(gpu->facts.uuid, sizeof(gpu->facts.uuid), "%s", uuid);
	snprintf(gpu->details.model, sizeof(gpu->details.model), "%.63s", model);
	snprintf(gpu->bus_id, sizeof(gpu->bus_id), "%.31s", bus_id ? bus_id : "");
	gpu->facts.index = (int)index;
	gpu->facts.mib = (uint64_t)mib;
	gpu_says_read(object, "driver", gpu->driver_says);
	gpu_says_read(object, "deviceStatus", gpu->list_says[FAULTS_DEVICE_STATUS]);
	gpu_says_read(object, "unhealthyGPU", gpu->list_says[FAULTS_UNHEALTHY_GPU]);
	return true;
}

static void gpus_read(struct json_object *list, struct inventory *inventory)
{
	struct gpu gpus[NODE_GPUS_MAX];
	size_t n = 0;

	if (!json_object_is_type(list, json_type_array))
		return;
	for (size_t i = 0; i < json_object_array_length(list) && n < NODE_GPUS_MAX; i++)
		n += gpu_read(json_object_array_get_idx(list, i), &gpus[n]);
	inventory_update(inventory, gpus, n);
	/* The GPUs are in the order in which they were saved, if all are valid. */
	for (size_t i = 0; n == json_object_array_length(list) && i < n; i++)
		gpu_links_from_json(json_object_array_get_idx(list, i), n, &inventory->gpus[i].details);
}

void state_load(const char *dir, uint32_t unit_mib, struct inventory *ret_inventory, struct state *ret_state)
{
	_cleanup_json_ struct json_object *root = NULL;
	_cleanup_free_ char *text = NULL;
	struct json_object *cdi;
	int64_t unit;
	enum gpu_mode mode;
	char path[PATH_MAX];
	const char *value;
	size_t len;

	*ret_inventory = (struct inventory){.unit_mib = unit_mib};
	*ret_state = (struct state){.mode = GPU_MODE_NONE};
	state_path(dir, path, sizeof(path));
	if (fs_read(path, FILE_MAX, &text, &len) < 0 || json_parse(text, len, &root, NULL) < 0)
		return;
	value = json_member_string(root, "mode");
	if (value && gpu_mode_parse(value, &mode) == 0 && gpu_mode_is_served(mode))
		ret_state->mode = mode;
	if (number(root, "unit", UNIT_MIB_MAX, &unit) == 0 && unit)
		ret_inventory->unit_mib = (uint32_t)unit;
	cdi = json_member(root, "cdi");
	ret_state->knows_cdi = json_object_is_type(cdi, json_type_boolean);
	ret_state->does_cdi = ret_state->knows_cdi && json_object_get_boolean(cdi);
	gpus_read(json_member(root, "cards"), ret_inventory);
}

static struct json_object *gpu_object(const struct gpu *gpu)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();

	if (!object || json_set(object, "uuid", json_object_new_string(gpu->facts.uuid)) < 0 ||
		json_set(object, "model", json_object_new_string(gpu->details.model)) < 0 ||
		json_set(object, "busId", json_object_new_string(gpu->bus_id)) < 0 ||
		json_set(object, "index", json_object_new_int(gpu->facts.index)) < 0 ||
		json_set(object, "minor", json_object_new_int64(gpu->minor)) < 0 ||
		json_set(object, "mib", json_object_new_int64((int64_t)gpu->facts.mib)) < 0 ||
		json_set(object, "driver", json_object_new_string(gpu->driver_says)) < 0 ||
		json_set(object, "deviceStatus",
			json_object_new_string(gpu->list_says[FAULTS_DEVICE_STATUS])) < 0 ||
		json_set(object, "unhealthyGPU",
			json_object_new_string(gpu->list_says[FAULTS_UNHEALTHY_GPU])) < 0)
		return NULL;
	return TAKE_PTR(object);
}

static int state_build(const struct inventory *inventory, const struct state *state, struct json_object *root)
{
	struct json_object *gpus = json_object_new_array();

	if (json_set(root, "cards", gpus) < 0 ||
		json_set(root, "mode", json_object_new_string(gpu_mode_text(state->mode))) < 0 ||
		json_set(root, "unit", json_object_new_int64(inventory->unit_mib)) < 0 ||
		(state->knows_cdi && json_set(root, "cdi", json_object_new_boolean(state->does_cdi)) < 0))
		return -ENOMEM;
	for (size_t i = 0; i < inventory->n_gpus; i++) {
		const struct gpu_details *details = &inventory->gpus[i].details;
		struct json_object *gpu = gpu_object(&inventory->gpus[i]);

		if (!gpu ||
			(gpu_has_links(details, inventory->n_gpus) &&
				gpu_links_to_json(gpu, details, inventory->n_gpus, i) < 0) ||
			json_object_array_add(gpus, gpu) < 0) {
			json_object_put(gpu);
			return -ENOMEM;
		}
	}
	return 0;
}

int state_save(
	const char *dir, const struct inventory *inventory, const struct state *state, struct error *err)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	_cleanup_free_ char *before = NULL;
	const char *text = root && state_build(inventory, state, root) == 0 ? json_text(root) : NULL;
	char path[PATH_MAX];
	size_t len;
	int r;

	state_path(dir, path, sizeof(path));
	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	if (fs_read(path, FILE_MAX, &before, &len) == 0 && strcmp(before, text) == 0)
		return 0;
	r = fs_mkdir_parents(dir, 0755);
	if (r == 0)
		r = fs_write_atomic(path, 0644, text, strlen(text));
	return r < 0 ? error_set(err, -r, "cannot write %s: %s", path, strerror(-r)) : 0;
}
