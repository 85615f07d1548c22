/* The annotations that say where a pod is: ration.dev/placement, which counts, and the older keys derived
 * from it. */
#include "kube/pod.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/registry/ledger.h"
#include "kube/gpu-name.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/units.h"

#define PLACEMENT_TEXT_MAX (64 * 1024)
#define CONTAINER_NAME_MAX 253

/* ---- ration.dev/placement ---- */

static int add_gpu(struct json_object *gpus, const struct gpu_share *share)
{
	struct json_object *gpu = json_object_new_object();

	if (!gpu)
		return -ENOMEM;
	if (json_set(gpu, "uuid", json_object_new_string(share->uuid)) < 0 ||
		json_set(gpu, "units", json_object_new_int64(share->units)) < 0 ||
		(share->core && json_set(gpu, "core", json_object_new_int64(share->core)) < 0) ||
		json_object_array_add(gpus, gpu) < 0) {
		json_object_put(gpu);
		return -ENOMEM;
	}
	return 0;
}

static int add_container(struct json_object *containers, const struct container_placement *container)
{
	struct json_object *gpus = json_object_new_array();
	int r = json_set(containers, container->name, gpus);

	for (size_t i = 0; i < container->n_gpus && r == 0; i++)
		r = add_gpu(gpus, &container->gpus[i]);
	return r;
}

static int add_visible(struct json_object *root, const struct placement *placement)
{
	struct json_object *visible = json_object_new_array();
	int r = json_set(root, "visible", visible);

	for (size_t i = 0; i < placement->n_visible && r == 0; i++) {
		struct json_object *uuid = json_object_new_string(placement->visible[i]);

		if (!uuid || json_object_array_add(visible, uuid) < 0) {
			json_object_put(uuid);
			r = -ENOMEM;
		}
	}
	return r;
}

char *placement_to_json(const struct placement *placement)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct json_object *containers = json_object_new_object();
	const char *text;

	if (!root || json_set(root, "unit", json_object_new_int64(placement->unit_mib)) < 0 ||
		(placement->resizes &&
			json_set(root, "resizes", json_object_new_int64(placement->resizes)) < 0)) {
		json_object_put(containers);
		return NULL;
	}
	if (json_set(root, "containers", containers) < 0)
		return NULL;
	for (size_t i = 0; i < placement->n_containers; i++)
		if (add_container(containers, &placement->containers[i]) < 0)
			return NULL;
	if (placement->n_visible && add_visible(root, placement) < 0)
		return NULL;
	text = json_text(root);
	return text ? strdup(text) : NULL;
}

static int read_share(
	struct json_object *gpu, const char *container, struct placement *placement, struct error *err)
{
	const struct container_placement *so_far = placement_find(placement, container);
	const char *uuid = json_member_string(gpu, "uuid");
	struct json_object *core_value = json_member(gpu, "core");
	int64_t units, core = 0;

	if (!uuid || !gpu_name_is_valid(uuid))
		return error_set(err, EINVAL, "container %s: a GPU without a valid uuid", container);
	if (json_whole(json_member(gpu, "units"), 1, UNITS_MAX, &units) < 0)
		return error_set(err, EINVAL, "container %s: units are no whole number above 0", container);
	if (core_value && json_whole(core_value, 0, CORE_PER_GPU, &core) < 0)
		return error_set(
			err, EINVAL, "container %s: core is not a whole number from 0 to 100", container);
	for (size_t i = 0; so_far && i < so_far->n_gpus; i++)
		if (strcmp(so_far->gpus[i].uuid, uuid) == 0)
			return error_set(err, EINVAL, "container %s: GPU %s is there twice", container, uuid);
	if (placement_add(placement, container, uuid, (uint32_t)units, (uint32_t)core) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

static int read_shares(
	struct json_object *gpus, const char *container, struct placement *placement, struct error *err)
{
	size_t n;
	int r = 0;

	if (!*container || strlen(container) > CONTAINER_NAME_MAX)
		return error_set(err, EINVAL, "a container name is empty or too long");
	if (!json_object_is_type(gpus, json_type_array))
		return error_set(err, EINVAL, "container %s: no list of GPUs", container);
	n = json_object_array_length(gpus);
	if (n == 0 || n > NODE_GPUS_MAX)
		return error_set(
			err, EINVAL, "container %s: %zu GPUs, not 1 to %d", container, n, NODE_GPUS_MAX);
	for (size_t i = 0; i < n && r == 0; i++)
		r = read_share(json_object_array_get_idx(gpus, i), container, placement, err);
	return r;
}

static int read_visible(struct json_object *visible, struct placement *placement, struct error *err)
{
	size_t n = json_count(visible);

	if (visible && (!n || n > NODE_GPUS_MAX))
		return error_set(err, EINVAL, "visible is not a list of 1 to %d GPUs", NODE_GPUS_MAX);
	for (size_t i = 0; i < n; i++) {
		const char *uuid = json_string(json_object_array_get_idx(visible, i));

		if (!uuid || !gpu_name_is_valid(uuid))
			return error_set(err, EINVAL, "visible names a GPU without a valid uuid");
		if (placement_add_visible(placement, uuid) < 0)
			return error_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

static int read_placement(struct json_object *root, struct placement *placement, struct error *err)
{
	struct json_object *containers = json_member(root, "containers");
	struct json_object *count = json_member(root, "resizes");
	int64_t unit, resizes = 0;
	int r = 0;

	if (json_whole(json_member(root, "unit"), 1, UINT32_MAX, &unit) < 0)
		return error_set(err, EINVAL, "unit is not a whole number of MiB");
	if (!json_object_is_type(containers, json_type_object))
		return error_set(err, EINVAL, "containers is not an object");
	if (json_object_object_length(containers) > REQUEST_CONTAINERS_MAX)
		return error_set(err, EINVAL, "more than %d containers", REQUEST_CONTAINERS_MAX);
	if (count && json_whole(count, 1, INT32_MAX, &resizes) < 0)
		return error_set(err, EINVAL, "resizes is not a whole number from 1 on");
	placement->unit_mib = (uint32_t)unit;
	placement->resizes = (uint32_t)resizes;
	json_object_object_foreach (containers, name, gpus) {
		r = read_shares(gpus, name, placement, err);
		if (r < 0)
			break;
	}
	return r < 0 ? r : read_visible(json_member(root, "visible"), placement, err);
}

int placement_from_json(const char *text, struct placement *ret_placement, struct error *err)
{
	_cleanup_placement_ struct placement placement;
	_cleanup_json_ struct json_object *root = NULL;
	size_t len = strlen(text);
	int r;

	placement_init(&placement);
	if (len > PLACEMENT_TEXT_MAX)
		return error_set(err, EINVAL, "%zu bytes are more than any placement has", len);
	r = json_parse(text, len, &root, err);
	if (r == 0)
		r = read_placement(root, &placement, err);
	if (r < 0)
		return r;
	*ret_placement = placement;
	placement_init(&placement);
	return 0;
}

/* ---- the older keys: container index -> { GPU index: number } ---- */

static const struct gpu_ledger *find_gpu(const struct node_ledger *node, const char *uuid)
{
	for (size_t i = 0; i < node->facts.n_gpus; i++)
		if (strcmp(node->gpus[i].facts.uuid, uuid) == 0)
			return &node->gpus[i];
	return NULL;
}

/* map[container][gpu] += amount; does nothing for 0. */
static int map_add(struct json_object *map, int container, int gpu, int64_t amount)
{
	struct json_object *gpus;
	char key[16];

	if (amount == 0)
		return 0;
	snprintf(key, sizeof(key), "%d", container);
	gpus = json_member(map, key);
	if (!gpus) {
		gpus = json_object_new_object();
		if (json_set(map, key, gpus) < 0)
			return -ENOMEM;
	}
	snprintf(key, sizeof(key), "%d", gpu);
	amount += json_object_get_int64(json_member(gpus, key));
	return json_set(gpus, key, json_object_new_int64(amount));
}

struct older_maps {
	struct json_object *units, *core;
	uint64_t units_sum, core_sum;
};

static int map_container(struct older_maps *maps, const struct container_request *asked,
	const struct container_placement *placed, const struct node_ledger *node)
{
	for (size_t i = 0; i < placed->n_gpus; i++) {
		const struct gpu_share *share = &placed->gpus[i];
		const struct gpu_ledger *gpu = find_gpu(node, share->uuid);

		if (!gpu)
			return -ENOENT;
		if (asked->kind != CONTAINER_MAIN)
			continue;
		if (map_add(maps->units, asked->index, gpu->facts.index, share->units) < 0 ||
			map_add(maps->core, asked->index, gpu->facts.index, share->core) < 0)
			return -ENOMEM;
		maps->units_sum += share->units;
		maps->core_sum += share->core;
	}
	return 0;
}

/* The GPUs of a pod. */
struct pod_gpus {
	const struct gpu_ledger *gpus[NODE_GPUS_MAX];
	size_t n;
};

static int find_gpus(
	const struct placement *placement, const struct node_ledger *node, struct pod_gpus *ret_gpus)
{
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = placement_gpus(placement, gpus);

	ret_gpus->n = 0;
	for (; ret_gpus->n < n; ret_gpus->n++) {
		ret_gpus->gpus[ret_gpus->n] = find_gpu(node, gpus[ret_gpus->n]->uuid);
		if (!ret_gpus->gpus[ret_gpus->n])
			return -ENOENT;
	}
	return n ? 0 : -ENOENT;
}

static int map_add_evenly(struct json_object *map, const struct pod_gpus *gpus, uint64_t amount)
{
	int r = 0;

	for (size_t i = 0; i < gpus->n && r == 0; i++)
		r = map_add(map, 0, gpus->gpus[i]->facts.index, (int64_t)(amount / gpus->n));
	return r;
}

/* Older readers know only spec.containers, and add up everything. What init containers and sidecars need
 * beyond the main containers is added to index 0, so that the sum is what the pod occupies. */
static int map_all(struct older_maps *maps, const struct placement *placement, const struct request *request,
	const struct node_ledger *node, const struct pod_gpus *gpus)
{
	for (size_t i = 0; i < request->n_containers; i++) {
		const struct container_request *asked = &request->containers[i];
		const struct container_placement *placed = placement_find(placement, asked->name);
		int r = placed ? map_container(maps, asked, placed, node) : -ENOENT;

		if (r < 0)
			return r;
	}
	if (request->units > maps->units_sum &&
		map_add_evenly(maps->units, gpus, request->units - maps->units_sum) < 0)
		return -ENOMEM;
	if (request->core > maps->core_sum &&
		map_add_evenly(maps->core, gpus, request->core - maps->core_sum) < 0)
		return -ENOMEM;
	return 0;
}

static int set_number(struct json_object *annotations, const char *key, int64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, number);
	return json_set_text(annotations, key, text);
}

static int set_indices(struct json_object *annotations, const char *key, const struct pod_gpus *gpus)
{
	char text[NODE_GPUS_MAX * 12];
	size_t len = 0;

	for (size_t i = 0; i < gpus->n; i++)
		len += (size_t)snprintf(
			text + len, sizeof(text) - len, "%s%d", i ? "," : "", gpus->gpus[i]->facts.index);
	return json_set_text(annotations, key, text);
}

/* The units of the largest GPU. The units divided by this are then no more than the pod's share of any of its
 * GPUs. */
static uint32_t units_of_largest(const struct pod_gpus *gpus)
{
	uint32_t units = 0;

	for (size_t i = 0; i < gpus->n; i++)
		if (gpus->gpus[i]->units_total > units)
			units = gpus->gpus[i]->units_total;
	return units;
}

static int set_older_keys(struct json_object *annotations, const struct older_maps *maps,
	const struct request *request, const struct pod_gpus *gpus, int64_t assume_time_ns)
{
	if (json_set_text(annotations, ANNOTATION_ALLOCATION, json_text(maps->units)) < 0 ||
		(request->core > 0 &&
			json_set_text(annotations, ANNOTATION_CORE_ALLOCATION, json_text(maps->core)) < 0) ||
		set_indices(annotations, ANNOTATION_MEM_IDX, gpus) < 0 ||
		set_number(annotations, ANNOTATION_MEM_POD, request->units) < 0 ||
		set_number(annotations, ANNOTATION_MEM_DEV, units_of_largest(gpus)) < 0 ||
		json_set_text(annotations, ANNOTATION_MEM_ASSIGNED, "false") < 0 ||
		set_number(annotations, ANNOTATION_MEM_ASSUME_TIME, assume_time_ns) < 0)
		return -ENOMEM;
	return 0;
}

static int compare_index(const void *a, const void *b)
{
	const struct gpu_ledger *x = *(const struct gpu_ledger *const *)a,
				*y = *(const struct gpu_ledger *const *)b;

	return (x->facts.index > y->facts.index) - (x->facts.index < y->facts.index);
}

/* Writes the keys that readers of ACK's keys look for (Arena); none of them counts units. */
static int set_whole_keys(
	struct json_object *annotations, const struct placement *placement, const struct node_ledger *node)
{
	struct pod_gpus own, visible = {.n = 0};

	if (find_gpus(placement, node, &own) < 0)
		return -ENOENT;
	for (size_t i = 0; i < placement->n_visible; i++) {
		visible.gpus[visible.n] = find_gpu(node, placement->visible[i]);
		visible.n += visible.gpus[visible.n] != NULL;
	}
	if (!visible.n)
		visible = own;
	qsort(own.gpus, own.n, sizeof(own.gpus[0]), compare_index);
	qsort(visible.gpus, visible.n, sizeof(visible.gpus[0]), compare_index);
	if (set_indices(annotations, ANNOTATION_GPU_GROUP, &own) < 0 ||
		set_indices(annotations, ANNOTATION_GPU_VISIBLE, &visible) < 0 ||
		json_set_text(annotations, ANNOTATION_MEM_ASSIGNED, "false") < 0)
		return -ENOMEM;
	return 0;
}

static int set_share_keys(struct json_object *annotations, const struct placement *placement,
	const struct request *request, const struct node_ledger *node, int64_t assume_time_ns)
{
	_cleanup_json_ struct json_object *units = json_object_new_object();
	_cleanup_json_ struct json_object *core = json_object_new_object();
	struct older_maps maps = {.units = units, .core = core};
	struct pod_gpus gpus;
	int r;

	if (!units || !core)
		return -ENOMEM;
	r = find_gpus(placement, node, &gpus);
	if (r == 0)
		r = map_all(&maps, placement, request, node, &gpus);
	if (r == 0)
		r = set_number(annotations, ANNOTATION_UNIT, placement->unit_mib);
	return r < 0 ? r : set_older_keys(annotations, &maps, request, &gpus, assume_time_ns);
}

struct json_object *placement_annotations(const struct placement *placement, const struct request *request,
	const struct node_ledger *node, int64_t assume_time_ns)
{
	_cleanup_json_ struct json_object *annotations = json_object_new_object();
	_cleanup_free_ char *text = placement_to_json(placement);

	if (!annotations || !text || json_set_text(annotations, ANNOTATION_PLACEMENT, text) < 0)
		return NULL;
	if (request->whole ? set_whole_keys(annotations, placement, node) < 0
			   : set_share_keys(annotations, placement, request, node, assume_time_ns) < 0)
		return NULL;
	return TAKE_PTR(annotations);
}

/* The bytes of the keys; and in at most three values, a UUID, numbers and an index for each container and
 * GPU. For whole GPUs also the names of all GPUs that the container sees, twice. */
#define BINDING_KEYS ((size_t)4096)
#define BINDING_CONTAINER ((size_t)512)
#define BINDING_GPU ((size_t)256)
#define BINDING_VISIBLE ((size_t)2 * NODE_GPUS_MAX * (GPU_UUID_SIZE + 8))

size_t binding_annotations_max(const struct request *request)
{
	size_t of_container = BINDING_CONTAINER + request_gpus(request) * BINDING_GPU;

	return BINDING_KEYS + request->n_containers * of_container + (request->whole ? BINDING_VISIBLE : 0);
}
