#include "agent/dra/slice.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kube/json.h"
#include "kube/names.h"
#include "node/published.h"
#include "node/registry.h"

#define STANDARD "resource.kubernetes.io/"

void slice_name(const struct node_registry *node, char ret_name[SLICE_NAME_SIZE])
{
	ret_name[0] = '\0';
	if (node->uid[0])
		snprintf(ret_name, SLICE_NAME_SIZE, "%s-%s", DRA_DRIVER, node->uid);
}

/* ---- attributes ---- */

static int add_attribute(
	struct json_object *attributes, const char *name, const char *kind, struct json_object *value)
{
	struct json_object *attribute = json_set_object(attributes, name);

	if (attribute)
		return json_set(attribute, kind, value);
	json_object_put(value);
	return -ENOMEM;
}

static int add_text(struct json_object *attributes, const char *name, const char *kind, const char *text)
{
	return *text ? add_attribute(attributes, name, kind, json_object_new_string(text)) : 0;
}

/* The PCIe root complex: the first folder of the device's path in sysfs, "pci0000:00". "" where the machine
 * does not show it. */
static void find_pcie_root(const char *bus_id, char ret_root[PUBLISHED_TEXT_SIZE])
{
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t len;
	char *root;

	ret_root[0] = '\0';
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", bus_id);
	len = *bus_id ? readlink(path, target, sizeof(target) - 1) : -1;
	if (len < 0)
		return;
	target[len] = '\0';
	root = strstr(target, "/pci");
	if (root)
		snprintf(ret_root, PUBLISHED_TEXT_SIZE, "%.*s", (int)strcspn(root + 1, "/"), root + 1);
}

static int add_attributes(struct json_object *attributes, const struct published_device *device)
{
	const struct gpu *gpu = device->gpu;
	char root[PUBLISHED_TEXT_SIZE];
	int r = add_text(attributes, "uuid", "string", gpu->facts.uuid);

	find_pcie_root(device->bus_id, root);
	if (r == 0)
		r = add_text(attributes, "productName", "string", device->product);
	if (r == 0)
		r = add_text(attributes, "architecture", "string", device->architecture);
	if (r == 0)
		r = add_text(attributes, "cudaComputeCapability", "version", device->compute_capability);
	if (r == 0)
		r = add_text(attributes, "driverVersion", "version", device->driver_version);
	if (r == 0)
		r = add_text(attributes, "cudaDriverVersion", "version", device->cuda_version);
	if (r == 0)
		r = add_attribute(attributes, "index", "int", json_object_new_int(gpu->facts.index));
	if (r == 0 && gpu->numa_node >= 0)
		r = add_attribute(attributes, "numa", "int", json_object_new_int(gpu->numa_node));
	if (r == 0)
		r = add_text(attributes, STANDARD "pciBusID", "string", device->bus_id);
	return r ? r : add_text(attributes, STANDARD "pcieRoot", "string", root);
}

/* ---- capacity ---- */

/* As Kubernetes writes the quantity itself, so that what comes back is what was sent. */
static int set_bytes(struct json_object *object, const char *key, uint64_t bytes)
{
	static const char *const suffixes[] = {"", "Ki", "Mi", "Gi", "Ti"};
	size_t power = 0;
	char text[32];

	while (bytes && bytes % 1024 == 0 && power + 1 < ARRAY_SIZE(suffixes)) {
		bytes /= 1024;
		power++;
	}
	snprintf(text, sizeof(text), "%" PRIu64 "%s", bytes, suffixes[power]);
	return json_set_text(object, key, text);
}

/* A claim that asks for no memory gets all that the GPU can give. The API server refuses a step for a GPU
 * that has only one. */
static int add_memory(struct json_object *capacities, const struct published_device *device)
{
	struct json_object *capacity = json_set_object(capacities, DRA_CAPACITY_MEMORY);
	struct json_object *policy = capacity ? json_set_object(capacity, "requestPolicy") : NULL;
	struct json_object *range = policy ? json_set_object(policy, "validRange") : NULL;
	int r = range ? set_bytes(capacity, "value", device->bytes) : -ENOMEM;

	if (r == 0)
		r = set_bytes(policy, "default", device->bytes);
	if (r == 0)
		r = set_bytes(range, "min", device->unit_bytes);
	if (r == 0 && device->bytes > device->unit_bytes)
		r = set_bytes(range, "step", device->unit_bytes);
	return r;
}

/* A claim that asks for no part of the computing power takes none, so that claims of memory share a GPU. */
static int add_cores(struct json_object *capacities)
{
	struct json_object *capacity = json_set_object(capacities, DRA_CAPACITY_CORES);
	struct json_object *policy = capacity ? json_set_object(capacity, "requestPolicy") : NULL;
	struct json_object *range = policy ? json_set_object(policy, "validRange") : NULL;
	int r = range ? set_bytes(capacity, "value", CORE_PER_GPU) : -ENOMEM;

	if (r == 0)
		r = set_bytes(policy, "default", 0);
	if (r == 0)
		r = set_bytes(range, "min", 0);
	return r ? r : set_bytes(range, "step", DRA_CORES_STEP);
}

/* ---- the object ---- */

/* What runs on a GPU that became unhealthy goes on, as everywhere in ration. */
static int add_taint(struct json_object *object)
{
	struct json_object *list = json_set_array(object, "taints"),
			   *taint = list ? json_append_object(list) : NULL;
	int r = taint ? json_set_text(taint, "key", DRA_TAINT_UNHEALTHY) : -ENOMEM;

	return r ? r : json_set_text(taint, "effect", "NoSchedule");
}

static int add_device(struct json_object *devices, const struct published_device *device)
{
	struct json_object *object = json_append_object(devices), *attributes, *capacities;
	int r = object ? json_set_text(object, "name", device->name) : -ENOMEM;

	if (r == 0)
		r = json_set(object, "allowMultipleAllocations", json_object_new_boolean(true));
	attributes = r == 0 ? json_set_object(object, "attributes") : NULL;
	capacities = attributes ? json_set_object(object, "capacity") : NULL;
	if (!capacities)
		return -ENOMEM;
	r = add_attributes(attributes, device);
	if (r == 0)
		r = add_memory(capacities, device);
	if (r == 0)
		r = add_cores(capacities);
	return r || device->gpu->facts.healthy ? r : add_taint(object);
}

static int add_owner(struct json_object *meta, const struct node_registry *node)
{
	struct json_object *list = json_set_array(meta, "ownerReferences"),
			   *owner = list ? json_append_object(list) : NULL;
	int r = owner ? json_set_text(owner, "apiVersion", "v1") : -ENOMEM;

	if (r == 0)
		r = json_set_text(owner, "kind", "Node");
	if (r == 0)
		r = json_set_text(owner, "name", node->name);
	return r ? r : json_set_text(owner, "uid", node->uid);
}

static struct json_object *begin(const struct node_registry *node, int64_t generation,
	struct json_object **ret_meta, struct json_object **ret_devices)
{
	_cleanup_json_ struct json_object *slice = json_object_new_object();
	struct json_object *meta = slice ? json_set_object(slice, "metadata") : NULL;
	struct json_object *spec = meta ? json_set_object(slice, "spec") : NULL;
	struct json_object *pool = spec ? json_set_object(spec, "pool") : NULL;
	char name[SLICE_NAME_SIZE];

	slice_name(node, name);
	if (!pool || json_set_text(slice, "apiVersion", DRA_API) < 0 ||
		json_set_text(slice, "kind", "ResourceSlice") < 0 || json_set_text(meta, "name", name) < 0 ||
		add_owner(meta, node) < 0 || json_set_text(spec, "driver", DRA_DRIVER) < 0 ||
		json_set_text(spec, "nodeName", node->name) < 0 ||
		json_set_text(pool, "name", node->name) < 0 ||
		json_set(pool, "generation", json_object_new_int64(generation)) < 0 ||
		json_set(pool, "resourceSliceCount", json_object_new_int(1)) < 0)
		return NULL;
	*ret_meta = meta;
	*ret_devices = json_set_array(spec, "devices");
	return *ret_devices ? TAKE_PTR(slice) : NULL;
}

struct json_object *slice_build(
	const struct node_registry *node, const struct slice_support *support, int64_t generation)
{
	struct published_device devices[NODE_GPUS_MAX];
	size_t n = published_devices(&node->inventory, devices);
	struct json_object *meta, *list;
	_cleanup_json_ struct json_object *slice = begin(node, generation, &meta, &list);

	published_sort(node, devices, n);
	for (size_t i = 0; slice && i < n; i++)
		if ((devices[i].gpu->facts.healthy || support->taints) && add_device(list, &devices[i]) < 0)
			return NULL;
	return TAKE_PTR(slice);
}

struct json_object *slice_probe(const struct node_registry *node)
{
	static const struct gpu gpu = {.facts = {.uuid = "GPU-probe", .healthy = false}, .numa_node = -1};
	const struct published_device device = {.name = "probe",
		.gpu = &gpu,
		.unit_bytes = 1 << 30,
		.bytes = UINT64_C(2) << 30,
		.architecture = ""};
	struct json_object *meta, *list;
	_cleanup_json_ struct json_object *slice = begin(node, 1, &meta, &list);
	char name[SLICE_NAME_SIZE + 8];

	if (!slice)
		return NULL;
	/* The node may have a slice already. */
	snprintf(name, sizeof(name), "%s-probe-%s", DRA_DRIVER, node->uid);
	return json_set_text(meta, "name", name) < 0 || add_device(list, &device) < 0 ? NULL
										      : TAKE_PTR(slice);
}

void slice_supported(struct json_object *slice, struct slice_support *ret_support)
{
	struct json_object *devices = json_member(json_member(slice, "spec"), "devices"), *device;

	*ret_support = (struct slice_support){0};
	device = json_item(devices, 0);
	ret_support->shares = json_object_get_boolean(json_member(device, "allowMultipleAllocations")) &&
			      json_member(json_member(json_member(device, "capacity"), DRA_CAPACITY_MEMORY),
				      "requestPolicy");
	ret_support->taints = json_object_is_type(json_member(device, "taints"), json_type_array);
}

/* ---- comparing ---- */

/* A copy of the spec without what may differ. */
static struct json_object *bare_spec(struct json_object *slice)
{
	struct json_object *spec = NULL, *devices;

	if (json_object_deep_copy(json_member(slice, "spec"), &spec, NULL) < 0)
		return NULL;
	json_object_object_del(json_member(spec, "pool"), "generation");
	devices = json_member(spec, "devices");
	for (size_t i = 0; i < json_count(devices); i++) {
		struct json_object *taints = json_member(json_object_array_get_idx(devices, i), "taints");
		size_t n = json_count(taints);

		for (size_t k = 0; k < n; k++) {
			struct json_object *taint = json_object_array_get_idx(taints, k);

			if (json_object_is_type(taint, json_type_object))
				json_object_object_del(taint, "timeAdded");
		}
	}
	return spec;
}

static int compare_names(const void *a, const void *b)
{
	const char *first = json_member_string(*(struct json_object *const *)a, "name");
	const char *second = json_member_string(*(struct json_object *const *)b, "name");

	return strcmp(first ? first : "", second ? second : "");
}

bool slice_differs_in_order_only(struct json_object *a, struct json_object *b)
{
	_cleanup_json_ struct json_object *of_a = bare_spec(a), *of_b = bare_spec(b);
	struct json_object *first = json_member(of_a, "devices"), *second = json_member(of_b, "devices");

	if (!json_object_is_type(first, json_type_array) || !json_object_is_type(second, json_type_array) ||
		json_object_equal(of_a, of_b))
		return false;
	json_object_array_sort(first, compare_names);
	json_object_array_sort(second, compare_names);
	return json_object_equal(of_a, of_b);
}

bool slice_says_the_same(struct json_object *a, struct json_object *b)
{
	_cleanup_json_ struct json_object *of_a = bare_spec(a), *of_b = bare_spec(b);

	return of_a && of_b && json_object_equal(of_a, of_b);
}

int64_t slice_generation(struct json_object *slice)
{
	struct json_object *pool = json_member(json_member(slice, "spec"), "pool");
	int64_t generation = 0;

	return json_whole(json_member(pool, "generation"), 0, INT64_MAX, &generation) == 0 ? generation : 0;
}
