/* gpus-json.c - gpus.json: one table defines the keys of a GPU, for reading and for writing. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "sim/libnvidia-ml/nvml-abi.h"
#include "sim/ration-sim/gpus.h"
#include "sim/ration-sim/pace.h"

enum kind { TEXT, NUMBER, BYTES_IN_MIB, MILLI, CHOICE };

static const char *const mig_words[] = {"unsupported", "disabled", "enabled", NULL};
static const char *const compute_mode_words[] = {
	"default", "exclusive-thread", "prohibited", "exclusive-process", NULL};

/* `size` is of the text, `min` and `max` of the number as written in the file. */
static const struct key {
	const char *name;
	enum kind kind;
	size_t offset, size;
	int64_t min, max;
	const char *const *words;
} keys[] = {
	{"uuid", TEXT, offsetof(struct sim_gpu, uuid), sizeof(((struct sim_gpu *)0)->uuid)},
	{"model", TEXT, offsetof(struct sim_gpu, name), sizeof(((struct sim_gpu *)0)->name)},
	{"memoryMiB", BYTES_IN_MIB, offsetof(struct sim_gpu, memory_bytes), 0, 1, GPUS_MAX_MEMORY_MIB},
	{"serial", TEXT, offsetof(struct sim_gpu, serial), 30},
	{"busId", TEXT, offsetof(struct sim_gpu, bus_id), sizeof(((struct sim_gpu *)0)->bus_id)},
	{"numaNode", NUMBER, offsetof(struct sim_gpu, numa_node), 0, -1, 63},
	{"pcieSwitch", NUMBER, offsetof(struct sim_gpu, pcie_switch), 0, 0, 1000},
	{"pcieTree", NUMBER, offsetof(struct sim_gpu, pcie_tree), 0, 0, 1000},
	{"hostBridge", NUMBER, offsetof(struct sim_gpu, host_bridge), 0, 0, 1000},
	{"idleUsedMiB", BYTES_IN_MIB, offsetof(struct sim_gpu, idle_used_bytes), 0, 0, GPUS_MAX_MEMORY_MIB},
	{"contextMiB", NUMBER, offsetof(struct sim_gpu, context_mib), 0, 0, 16384},
	{"temperatureC", NUMBER, offsetof(struct sim_gpu, temperature_c), 0, 0, 150},
	{"powerW", MILLI, offsetof(struct sim_gpu, power_mw), 0, 0, 4000},
	{"powerLimitW", MILLI, offsetof(struct sim_gpu, power_limit_mw), 0, 1, 4000},
	{"utilizationPercent", NUMBER, offsetof(struct sim_gpu, utilization_percent), 0, 0, 100},
	{"memoryUtilizationPercent", NUMBER, offsetof(struct sim_gpu, memory_utilization_percent), 0, 0, 100},
	{"smCount", NUMBER, offsetof(struct sim_gpu, sm_count), 0, 1, 1024},
	{"computeMajor", NUMBER, offsetof(struct sim_gpu, compute_major), 0, 7, 20},
	{"computeMinor", NUMBER, offsetof(struct sim_gpu, compute_minor), 0, 0, 9},
	{"smClockMHz", NUMBER, offsetof(struct sim_gpu, sm_clock_mhz), 0, 1, 10000},
	{"memoryClockMHz", NUMBER, offsetof(struct sim_gpu, memory_clock_mhz), 0, 1, 20000},
	{"pcieGBps", NUMBER, offsetof(struct sim_gpu, pcie_gbps), 0, 1, 1000},
	{"memoryGBps", NUMBER, offsetof(struct sim_gpu, memory_gbps), 0, 1, 100000},
	{"computeMode", CHOICE, offsetof(struct sim_gpu, compute_mode), 0, 0, 0, compute_mode_words},
	{"mig", CHOICE, offsetof(struct sim_gpu, mig), 0, 0, 0, mig_words},
};

static const struct key *find_key(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

/* Texts become file names, table cells and C strings. So they must be printable ASCII of limited length. */
static int copy_plain(char *target, size_t size, struct json_object *value)
{
	const char *text = json_object_get_string(value);
	size_t length = (size_t)json_object_get_string_len(value);

	if (!json_object_is_type(value, json_type_string) || length == 0 || length >= size)
		return -EINVAL;
	for (size_t i = 0; i < length; i++)
		if (text[i] < 0x20 || text[i] > 0x7e)
			return -EINVAL;
	memcpy(target, text, length + 1);
	return 0;
}

static int read_number(
	const struct key *key, struct json_object *value, int64_t *ret_number, struct error *err)
{
	int64_t number;

	if (!json_object_is_type(value, json_type_int))
		return error_set(err, EINVAL, "\"%s\" must be a whole number", key->name);
	number = json_object_get_int64(value); /* json-c clamps numbers that do not fit */
	if (number < key->min || number > key->max)
		return error_set(err, EINVAL, "\"%s\" must be %lld to %lld", key->name, (long long)key->min,
			(long long)key->max);
	*ret_number = number;
	return 0;
}

static int read_choice(
	const struct key *key, struct json_object *value, int64_t *ret_number, struct error *err)
{
	const char *text = json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";

	for (int i = 0; key->words[i]; i++)
		if (strcmp(key->words[i], text) == 0) {
			*ret_number = i;
			return 0;
		}
	return error_set(err, EINVAL, "\"%s\" cannot be \"%.40s\"", key->name, text);
}

static int read_key(const struct key *key, struct json_object *value, struct sim_gpu *gpu, struct error *err)
{
	char *field = (char *)gpu + key->offset;
	int64_t number = 0;
	int r;

	if (key->kind == TEXT) {
		if (copy_plain(field, key->size, value) < 0)
			return error_set(err, EINVAL,
				"\"%s\" must be a string of 1 to %zu printable characters", key->name,
				key->size - 1);
		return 0;
	}
	r = key->kind == CHOICE ? read_choice(key, value, &number, err)
				: read_number(key, value, &number, err);
	if (r < 0)
		return r;
	if (key->kind == BYTES_IN_MIB) {
		*(uint64_t *)field = (uint64_t)number << 20;
	} else {
		*(int32_t *)field = (int32_t)(key->kind == MILLI ? number * 1000 : number);
	}
	return 0;
}

static bool is_switch(struct json_object *end)
{
	return json_object_is_type(end, json_type_string) &&
	       strcmp(json_object_get_string(end), "switch") == 0;
}

static int read_links(struct json_object *value, struct sim_gpu *gpu, struct error *err)
{
	size_t count;

	if (!json_object_is_type(value, json_type_array))
		return error_set(err, EINVAL, "\"links\" must be a list of GPU indices and \"switch\"");
	count = json_object_array_length(value);
	if (count > SIM_MAX_LINKS)
		return error_set(err, EINVAL, "\"links\" has more than %d entries", SIM_MAX_LINKS);
	for (size_t i = 0; i < count; i++) {
		static const struct key link = {.name = "links", .max = SIM_MAX_GPUS - 1};
		struct json_object *end = json_object_array_get_idx(value, i);
		int64_t peer = SIM_LINK_SWITCH;
		int r = is_switch(end) ? 0 : read_number(&link, end, &peer, err);

		if (r < 0)
			return r;
		gpu->links[i] = (uint8_t)peer;
	}
	gpu->link_count = (uint32_t)count;
	return 0;
}

static int read_gpu(struct json_object *object, struct sim_gpu *gpu, struct error *err)
{
	struct json_object *memory;
	int r;

	if (!json_object_is_type(object, json_type_object))
		return error_set(err, EINVAL, "must be an object");
	if (!json_object_object_get_ex(object, "memoryMiB", &memory))
		return error_set(err, EINVAL, "\"memoryMiB\" is missing");
	/* The size comes first: it selects the model, whose properties the other keys then change. */
	r = read_key(find_key("memoryMiB"), memory, gpu, err);
	if (r < 0)
		return r;
	gpus_set_model(gpu);
	json_object_object_foreach (object, name, value) {
		const struct key *key = find_key(name);

		if (strcmp(name, "links") == 0)
			r = read_links(value, gpu, err);
		else if (key)
			r = read_key(key, value, gpu, err);
		else
			r = error_set(err, EINVAL, "unknown key \"%.40s\"", name);
		if (r < 0)
			return r;
	}
	if (gpu->idle_used_bytes > gpu->memory_bytes)
		return error_set(err, EINVAL, "\"idleUsedMiB\" is more than \"memoryMiB\"");
	return 0;
}

static int read_gpus(struct json_object *list, struct sim_state *state, struct error *err)
{
	size_t count;

	if (!json_object_is_type(list, json_type_array))
		return error_set(err, EINVAL, "\"gpus\" must be a list");
	count = json_object_array_length(list);
	if (count < 1 || count > SIM_MAX_GPUS)
		return error_set(
			err, EINVAL, "\"gpus\" has %zu GPUs, must have 1 to %d", count, SIM_MAX_GPUS);
	for (size_t i = 0; i < count; i++) {
		int r = read_gpu(json_object_array_get_idx(list, i), &state->gpus[i], err);

		if (r < 0) {
			error_prefix(err, "GPU %zu", i);
			return r;
		}
	}
	state->gpu_count = (uint32_t)count;
	return 0;
}

static const struct pace_key *find_pace(const char *name)
{
	for (size_t i = 0; i < PACE_KEYS; i++)
		if (strcmp(pace_keys[i].json, name) == 0)
			return &pace_keys[i];
	return NULL;
}

static int read_pace(
	const struct pace_key *pace, struct json_object *value, struct sim_state *state, struct error *err)
{
	const struct key key = {.name = pace->json, .kind = NUMBER, .min = pace->min, .max = pace->max};
	int64_t number = 0;
	int r = read_number(&key, value, &number, err);

	if (r == 0)
		atomic_store(pace_value(&state->pace, pace), (uint32_t)number);
	return r;
}

static int read_document(struct json_object *document, struct sim_state *state, struct error *err)
{
	char version[sizeof(state->driver_version)];
	int r = 0;

	if (!json_object_is_type(document, json_type_object))
		return error_set(err, EINVAL, "must be an object with a list \"gpus\"");
	state->pace = (struct sim_pace)SIM_PACE_DEFAULT;
	json_object_object_foreach (document, name, value) {
		const struct pace_key *pace = find_pace(name);

		if (strcmp(name, "gpus") == 0)
			r = read_gpus(value, state, err);
		else if (strcmp(name, "driverVersion") == 0)
			r = copy_plain(version, sizeof(version), value) < 0
				    ? error_set(err, EINVAL, "\"driverVersion\" must be a string")
				    : gpus_set_driver(state, version, err);
		else if (pace)
			r = read_pace(pace, value, state, err);
		else
			r = error_set(err, EINVAL, "unknown key \"%.40s\"", name);
		if (r < 0)
			return r;
	}
	if (state->gpu_count == 0)
		return error_set(err, EINVAL, "\"gpus\" is missing");
	return 0;
}

int gpus_read(const char *path, struct sim_state *ret_state, struct error *err)
{
	_cleanup_free_ struct sim_state *state = calloc(1, sizeof(*state));
	_cleanup_free_ char *text = NULL;
	struct json_tokener *tokener;
	struct json_object *document;
	size_t length;
	int r = fs_read(path, GPUS_FILE_MAX, &text, &length);

	if (r == -EFBIG)
		return error_set(err, EFBIG, "%s: larger than %d bytes", path, GPUS_FILE_MAX);
	if (r < 0)
		return error_set(err, -r, "%s: %s", path, strerror(-r));
	tokener = json_tokener_new();
	if (!state || !tokener)
		return error_set(err, ENOMEM, "out of memory");
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	document = json_tokener_parse_ex(tokener, text, (int)length + 1);
	if (json_tokener_get_error(tokener) != json_tokener_success)
		r = error_set(err, EINVAL, "not JSON: %s at byte %zu",
			json_tokener_error_desc(json_tokener_get_error(tokener)),
			json_tokener_get_parse_end(tokener));
	else
		r = read_document(document, state, err);
	json_object_put(document);
	json_tokener_free(tokener);
	if (r < 0) {
		error_prefix(err, "%s", path);
		return r;
	}
	*ret_state = *state;
	return 0;
}

static struct json_object *gpu_to_json(const struct sim_gpu *gpu)
{
	struct json_object *object = json_object_new_object();

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct key *key = &keys[i];
		const char *field = (const char *)gpu + key->offset;
		int32_t number = *(const int32_t *)field;
		struct json_object *value = NULL;

		if (key->kind == TEXT)
			value = json_object_new_string(field);
		else if (key->kind == BYTES_IN_MIB)
			value = json_object_new_int64((int64_t)(*(const uint64_t *)field >> 20));
		else if (key->kind == CHOICE)
			value = json_object_new_string(key->words[number]);
		else
			value = json_object_new_int64(key->kind == MILLI ? number / 1000 : number);
		json_object_object_add(object, key->name, value);
	}
	if (gpu->link_count > 0) {
		struct json_object *links = json_object_new_array();

		for (uint32_t i = 0; i < gpu->link_count; i++)
			json_object_array_add(links, gpu->links[i] == SIM_LINK_SWITCH
							     ? json_object_new_string("switch")
							     : json_object_new_int(gpu->links[i]));
		json_object_object_add(object, "links", links);
	}
	return object;
}

int gpus_write(const char *path, const struct sim_state *state, struct error *err)
{
	struct json_object *document = json_object_new_object();
	struct json_object *gpus = json_object_new_array();
	_cleanup_free_ char *old = NULL;
	const char *text;
	size_t length;
	int r = 0;

	json_object_object_add(document, "driverVersion", json_object_new_string(state->driver_version));
	for (size_t i = 0; i < PACE_KEYS; i++) {
		struct sim_pace pace = state->pace;

		json_object_object_add(document, pace_keys[i].json,
			json_object_new_int64(atomic_load(pace_value(&pace, &pace_keys[i]))));
	}
	for (uint32_t i = 0; i < state->gpu_count; i++)
		json_object_array_add(gpus, gpu_to_json(&state->gpus[i]));
	json_object_object_add(document, "gpus", gpus);
	text = json_object_to_json_string_length(
		document, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE, &length);
	if (fs_read(path, GPUS_FILE_MAX, &old, NULL) < 0 || strcmp(old, text) != 0)
		r = fs_write_atomic(path, 0644, text, length);
	json_object_put(document);
	return r < 0 ? error_set(err, -r, "%s: %s", path, strerror(-r)) : 0;
}
