#include "kube/node.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/parse.h"
#include "kube/fault-list.h"
#include "kube/gpu-models.h"
#include "kube/gpu-name.h"
#include "kube/held.h"
#include "kube/host.h"
#include "kube/json-archive.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/facts-archive.h"
#include "model/units.h"

/* All annotations of an object together are at most 256 KiB (apimachinery TotalAnnotationSizeLimitB). */
#define INVENTORY_TEXT_MAX (256 * 1024)
#define GPU_INDEX_MAX 4095
#define NAME_LEN_MAX 253
#define NVLINK_GBPS_MAX 1000

bool gpu_name_is_valid(const char *uuid)
{
	size_t len = strlen(uuid);

	if (len == 0 || len >= GPU_UUID_SIZE || uuid[0] == '.')
		return false;
	for (const char *p = uuid; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("-_.", *p))
			return false;
	return true;
}

/* ---- the inventory ---- */

bool gpu_has_links(const struct gpu_details *gpu, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (gpu->links[i].kind)
			return true;
	return false;
}

int gpu_links_to_json(struct json_object *object, const struct gpu_details *gpu, size_t n, size_t at)
{
	struct json_object *links = json_object_new_array();
	char text[LINK_TEXT_SIZE];

	if (json_set(object, "links", links) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct json_object *link = json_object_new_string(
			i == at ? "X" : link_text(gpu->links[i], text));

		if (!link || json_object_array_add(links, link) < 0) {
			json_object_put(link);
			return -ENOMEM;
		}
	}
	if (!gpu->nvlink_gbps)
		return 0;
	return json_set(object, "nvlinkGBps", json_object_new_int64(gpu->nvlink_gbps));
}

static struct json_object *gpu_to_json(const struct gpu_facts *gpu, const struct gpu_details *details)
{
	_cleanup_json_ struct json_object *object = NULL;
	_cleanup_strbuf_ struct strbuf text;
	struct archive archive;

	strbuf_init(&text, INVENTORY_TEXT_MAX);
	archive_to_write(&archive, &json_archive, &text);
	archive.writes_zeros = true;
	archive_begin(&archive);
	archive_gpu_facts(&archive, (struct gpu_facts *)gpu);
	archive_end(&archive);
	if (json_parse(strbuf_cstr(&text), text.len, &object, NULL) < 0 ||
		json_set(object, "model", json_object_new_string(details->model)) < 0)
		return NULL;
	if (!gpu->healthy && *details->reason &&
		json_set(object, "reason", json_object_new_string(details->reason)) < 0)
		return NULL;
	return TAKE_PTR(object);
}

char *inventory_to_json(const struct gpu_facts *gpus, const struct gpu_details *details, size_t n_gpus)
{
	_cleanup_json_ struct json_object *list = json_object_new_array();
	const char *text;

	if (!list)
		return NULL;
	for (size_t i = 0; i < n_gpus; i++) {
		struct json_object *object = gpu_to_json(&gpus[i], &details[i]);

		if (!object)
			return NULL;
		if ((gpu_has_links(&details[i], n_gpus) &&
			    gpu_links_to_json(object, &details[i], n_gpus, i) < 0) ||
			json_object_array_add(list, object) < 0) {
			json_object_put(object);
			return NULL;
		}
	}
	text = json_text(list);
	return text ? strdup(text) : NULL;
}

/* A GPU of the list, before the list is sorted. */
struct listed_gpu {
	struct gpu_facts facts;
	struct gpu_details details;
};

/* An annotation must have more members than a log, and their ranges are narrower: these members are checked
 * first. */
static int gpu_from_json(
	struct json_object *object, size_t position, struct listed_gpu *ret_gpu, struct error *err)
{
	struct gpu_details *details = &ret_gpu->details;
	struct json_object *healthy = json_member(object, "healthy");
	const char *uuid = json_member_string(object, "uuid");
	const char *model = json_member_string(object, "model"),
		   *reason = json_member_string(object, "reason");
	struct archive archive;
	int64_t index, mib;

	if (json_whole(json_member(object, "index"), 0, GPU_INDEX_MAX, &index) < 0)
		return error_set(err, EINVAL, "GPU at position %zu: index is not a whole number from 0 to %d",
			position, GPU_INDEX_MAX);
	if (!uuid || !gpu_name_is_valid(uuid))
		return error_set(err, EINVAL, "GPU %d: no valid uuid", (int)index);
	if (json_whole(json_member(object, "mib"), 1, GPU_MIB_MAX, &mib) < 0)
		return error_set(
			err, EINVAL, "GPU %d: mib is not a whole number from 1 to 4 TiB", (int)index);
	if (!json_object_is_type(healthy, json_type_boolean))
		return error_set(err, EINVAL, "GPU %d: healthy is neither true nor false", (int)index);
	if (json_member(object, "model") && (!model || strlen(model) >= sizeof(details->model)))
		return error_set(err, EINVAL, "GPU %d: model is not a text under %zu bytes", (int)index,
			sizeof(details->model));
	*ret_gpu = (struct listed_gpu){0};
	archive_to_read(&archive, &json_archive, object);
	archive_gpu_facts(&archive, &ret_gpu->facts);
	if (archive.failed)
		return error_set(err, EINVAL, "GPU %d: %s", (int)index, archive.error.text);
	snprintf(details->model, sizeof(details->model), "%s", model ? model : "");
	/* The reason is only for users: a mistake in it must not cost the node its GPUs. */
	if (!ret_gpu->facts.healthy && reason)
		fault_reason_copy(details->reason, reason);
	return 0;
}

void gpu_links_from_json(struct json_object *object, size_t n, struct gpu_details *gpu)
{
	struct json_object *links = json_member(object, "links");
	int64_t gbps;

	if (json_whole(json_member(object, "nvlinkGBps"), 1, NVLINK_GBPS_MAX, &gbps) == 0)
		gpu->nvlink_gbps = (uint32_t)gbps;
	if (!json_object_is_type(links, json_type_array) || json_object_array_length(links) != n)
		return;
	for (size_t i = 0; i < n; i++) {
		const char *text = json_string(json_object_array_get_idx(links, i));

		if (text)
			link_parse(text, &gpu->links[i]);
	}
}

static int check_unique(const struct listed_gpu *gpus, size_t n, struct error *err)
{
	const struct gpu_facts *last = &gpus[n - 1].facts;

	for (size_t i = 0; i + 1 < n; i++) {
		if (gpus[i].facts.index == last->index)
			return error_set(err, EINVAL, "index %d is there twice", last->index);
		if (strcmp(gpus[i].facts.uuid, last->uuid) == 0)
			return error_set(err, EINVAL, "uuid %s is there twice", last->uuid);
	}
	return 0;
}

static int compare_index(const void *a, const void *b)
{
	const struct listed_gpu *left = a, *right = b;

	return (left->facts.index > right->facts.index) - (left->facts.index < right->facts.index);
}

/* Sorts the GPUs by index, while their links are in the order of the list: `order` has the indices as they
 * were. */
static void sort_gpus(struct listed_gpu *gpus, const int *order, size_t n)
{
	struct link links[NODE_GPUS_MAX];

	qsort(gpus, n, sizeof(*gpus), compare_index);
	for (size_t i = 0; i < n; i++) {
		memcpy(links, gpus[i].details.links, sizeof(links));
		for (size_t k = 0; k < n; k++)
			for (size_t was = 0; was < n; was++)
				if (order[was] == gpus[k].facts.index)
					gpus[i].details.links[k] = links[was];
	}
}

static int gpus_from_json(struct json_object *list, struct listed_gpu *gpus, size_t *ret_n, struct error *err)
{
	int order[NODE_GPUS_MAX];
	size_t n;
	int r = 0;

	if (!json_object_is_type(list, json_type_array))
		return error_set(err, EINVAL, "the inventory is not a list");
	n = json_object_array_length(list);
	if (n > NODE_GPUS_MAX)
		return error_set(err, EINVAL, "%zu GPUs are more than %d", n, NODE_GPUS_MAX);
	for (size_t i = 0; i < n && r == 0; i++) {
		r = gpu_from_json(json_object_array_get_idx(list, i), i, &gpus[i], err);
		if (r == 0)
			r = check_unique(gpus, i + 1, err);
		gpu_links_from_json(json_object_array_get_idx(list, i), n, &gpus[i].details);
		order[i] = gpus[i].facts.index;
	}
	if (r < 0)
		return r;
	sort_gpus(gpus, order, n);
	*ret_n = n;
	return 0;
}

int inventory_from_json(const char *text, struct gpu_facts *ret_gpus, struct gpu_details *ret_details,
	size_t *ret_n, struct error *err)
{
	_cleanup_json_ struct json_object *list = NULL;
	struct listed_gpu gpus[NODE_GPUS_MAX];
	size_t len = strlen(text), n = 0;
	int r;

	if (len > INVENTORY_TEXT_MAX)
		return error_set(err, EINVAL, "%zu bytes are more than any inventory has", len);
	r = json_parse(text, len, &list, err);
	if (r == 0)
		r = gpus_from_json(list, gpus, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		ret_gpus[i] = gpus[i].facts;
		ret_details[i] = gpus[i].details;
	}
	*ret_n = n;
	return 0;
}

/* ---- the node ---- */

static const char *internal_address(struct json_object *node)
{
	struct json_object *addresses = json_member(json_member(node, "status"), "addresses");

	if (!json_object_is_type(addresses, json_type_array))
		return NULL;
	for (size_t i = 0; i < json_object_array_length(addresses); i++) {
		struct json_object *address = json_object_array_get_idx(addresses, i);

		if (json_member_is(address, "type", "InternalIP"))
			return json_member_string(address, "address");
	}
	return NULL;
}

static int read_names(struct json_object *node, struct node_facts *facts, struct error *err)
{
	struct json_object *metadata = json_member(node, "metadata");
	const char *name = json_member_string(metadata, "name");
	const char *uid = json_member_string(metadata, "uid");
	const char *address = internal_address(node);

	if (!name || !*name || strlen(name) > NAME_LEN_MAX || !uid || !*uid || strlen(uid) > NAME_LEN_MAX)
		return error_set(err, EINVAL, "a node without a name or a uid");
	if (address && strlen(address) > NAME_LEN_MAX)
		address = NULL;
	facts->name = strdup(name);
	facts->uid = strdup(uid);
	facts->address = address ? strdup(address) : NULL;
	if (!facts->name || !facts->uid || (address && !facts->address))
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

/* An annotation that is present but not valid text must not count as absent. */
static int annotation(
	struct json_object *annotations, const char *key, const char **ret_text, struct error *err)
{
	struct json_object *value = json_member(annotations, key);

	if (value && !json_string(value))
		return error_set(err, EINVAL, "annotation %s is not a text", key);
	*ret_text = json_string(value);
	return 0;
}

static int read_mode_and_unit(struct json_object *annotations, struct node_facts *facts, struct error *err)
{
	const char *mode = NULL, *unit = NULL;
	int r;

	r = annotation(annotations, ANNOTATION_NODE_MODE, &mode, err);
	if (r == 0)
		r = annotation(annotations, ANNOTATION_NODE_UNIT, &unit, err);
	if (r < 0)
		return r;
	if (mode && gpu_mode_parse(mode, &facts->mode) < 0)
		return error_set(err, EINVAL, "annotation %s: \"%s\" is no mode", ANNOTATION_NODE_MODE, mode);
	if (unit && (parse_u32(unit, UNIT_MIB_MAX, &facts->unit_mib) < 0 || facts->unit_mib == 0)) {
		facts->unit_mib = UNIT_MIB_DEFAULT;
		return error_set(err, EINVAL, "annotation %s: \"%s\" is not a number of MiB",
			ANNOTATION_NODE_UNIT, unit);
	}
	return 0;
}

static int read_held(struct json_object *annotations, struct node_facts *facts, struct error *err)
{
	const char *text = NULL;
	int r = annotation(annotations, ANNOTATION_NODE_HELD, &text, err);

	if (r < 0 || !text)
		return r;
	r = held_from_json(text, &facts->held, err);
	if (r < 0)
		error_prefix(err, "annotation %s", ANNOTATION_NODE_HELD);
	facts->held_unreadable = r == -EINVAL;
	return r;
}

static int read_annotations(struct json_object *node, struct node_facts *facts, struct error *err)
{
	struct json_object *annotations = json_member(json_member(node, "metadata"), "annotations");
	const char *serving = json_member_string(annotations, ANNOTATION_NODE_SERVING);
	const char *inventory = NULL;
	int r;

	facts->serving = !serving || strcmp(serving, "false") != 0;
	facts->changing = json_member(annotations, ANNOTATION_NODE_MODE_PENDING) ||
			  json_member(annotations, ANNOTATION_NODE_UNIT_PENDING);
	r = read_held(annotations, facts, err);
	/* The GPUs of the node are valid; the sentence stays unless there is a worse one. */
	if (r == 0 || facts->held_unreadable)
		r = read_mode_and_unit(annotations, facts, err);
	if (r == 0)
		r = annotation(annotations, ANNOTATION_NODE_GPUS, &inventory, err);
	if (r < 0 || !inventory)
		return r;
	r = inventory_from_json(inventory, facts->gpus, facts->details, &facts->n_gpus, err);
	if (r < 0)
		error_prefix(err, "annotation %s", ANNOTATION_NODE_GPUS);
	return r;
}

int node_facts_from_json(struct json_object *node, struct node_facts *ret_facts, struct error *err)
{
	_cleanup_node_facts_ struct node_facts facts;
	const char *policy;
	struct error ignored;
	int r;

	if (!err)
		err = &ignored;
	err->text[0] = '\0';
	node_facts_init(&facts);
	r = read_names(node, &facts, err);
	if (r < 0)
		return r;
	facts.unit_mib = UNIT_MIB_DEFAULT;
	facts.host = host_of_node(node);
	if (gpu_models_of_node(node, &facts.models) < 0)
		return error_set(err, ENOMEM, "out of memory");
	policy = json_member_string(json_member(json_member(node, "metadata"), "labels"), LABEL_PLACEMENT);
	if (!policy || gpu_policy_parse(policy, &facts.policy) < 0)
		facts.policy = GPU_POLICY_BINPACK;
	r = read_annotations(node, &facts, err);
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		facts.n_gpus = 0;
		error_prefix(err, "node %s", facts.name);
	}
	*ret_facts = facts;
	node_facts_init(&facts);
	return 0;
}
