/* inspect.c - the page /inspect. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/registry/node-ledger.h"
#include "scheduler/pages.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"

static void add_text(struct json_object *object, const char *key, const char *text)
{
	json_object_object_add(object, key, json_object_new_string(text ? text : ""));
}

static void add_number(struct json_object *object, const char *key, uint64_t number)
{
	json_object_object_add(object, key, json_object_new_int64((int64_t)number));
}

const char *occupancy_text(enum occupancy occupancy)
{
	switch (occupancy) {
	case OCCUPANCY_WAITING:
		return "waiting";
	case OCCUPANCY_TENTATIVE:
		return "tentative";
	case OCCUPANCY_RESERVED:
		return "reserved";
	case OCCUPANCY_BOUND:
		return "bound";
	case OCCUPANCY_ORPHAN:
		return "held";
	default:
		return "unknown";
	}
}

static uint32_t units_on_gpu(const struct ledger_pod *pod, const char *uuid)
{
	return pod->has_placement ? placement_units_on(&pod->placement, &pod->facts.request, uuid) : 0;
}

uint32_t units_on(const struct node_ledger *node, const struct ledger_pod *pod, const char *uuid)
{
	uint32_t units = pod->facts.request.units;

	if (uuid)
		return units_on_gpu(pod, uuid);
	for (size_t i = 0; i < node->facts.n_gpus; i++)
		units -= units_on_gpu(pod, node->gpus[i].facts.uuid);
	return units;
}

static struct json_object *pod_json(const struct ledger_pod *pod, uint32_t units)
{
	struct json_object *object = json_object_new_object();

	add_text(object, "name", pod->facts.name);
	add_text(object, "namespace", pod->facts.namespace_);
	add_number(object, "usedGPU", units);
	add_text(object, "uid", pod->facts.uid);
	add_text(object, "state", occupancy_text(pod->occupancy));
	return object;
}

/* The pods of one GPU; uuid NULL: the pods that are on no GPU of the node. */
static struct json_object *pods_json(const struct node_ledger *node, const char *uuid)
{
	struct json_object *pods = json_object_new_array();

	list_for_each (item, &node->pods) {
		const struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);
		uint32_t units = units_on(node, pod, uuid);

		if (units)
			json_object_array_add(pods, pod_json(pod, units));
	}
	return pods;
}

static struct json_object *gpu_json(const struct node_ledger *node, const struct gpu_ledger *gpu)
{
	struct json_object *object = json_object_new_object();

	add_number(object, "id", (uint64_t)gpu->facts.index);
	add_text(object, "uuid", gpu->facts.uuid);
	add_number(object, "totalGPU", gpu->units_total);
	add_number(object, "usedGPU", gpu->units_used);
	json_object_object_add(object, "healthy", json_object_new_boolean(gpu->facts.healthy));
	if (gpu->reason)
		json_object_object_add(object, "unhealthyBecause", json_object_new_string(gpu->reason));
	json_object_object_add(object, "pods", pods_json(node, gpu->facts.uuid));
	return object;
}

static struct json_object *node_json(const struct node_ledger *node)
{
	struct json_object *object = json_object_new_object(), *gpus = json_object_new_array();
	uint64_t total = 0, used = 0;

	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		json_object_array_add(gpus, gpu_json(node, &node->gpus[i]));
		total += node->gpus[i].units_total;
		used += node->gpus[i].units_used;
	}
	add_text(object, "name", node->facts.name);
	add_text(object, "mode", gpu_mode_text(node->facts.mode));
	add_number(object, "unitMiB", node->facts.unit_mib);
	add_number(object, "totalGPU", total);
	add_number(object, "usedGPU", used);
	add_number(object, "pendingGPU", node->unplaced_units);
	json_object_object_add(object, "devs", gpus);
	json_object_object_add(object, "unplaced", pods_json(node, NULL));
	return object;
}

static struct json_object *nodes_json(const struct scheduler *scheduler, const char *only)
{
	const struct table *table = &scheduler->core.ledger.nodes;
	_cleanup_free_ const struct node_ledger **nodes = calloc(table->count + 1, sizeof(*nodes));
	struct json_object *array = json_object_new_array();
	const struct node_ledger *node;
	size_t n = 0;

	table_for_each (table, cursor, node)
		if (nodes && node->facts.n_gpus && (!only || strcmp(only, node->facts.name) == 0))
			nodes[n++] = node;
	if (n)
		qsort(nodes, n, sizeof(*nodes), node_ledger_compare);
	for (size_t i = 0; i < n; i++)
		json_object_array_add(array, node_json(nodes[i]));
	return array;
}

char *inspect_json(const struct scheduler *scheduler, const char *node)
{
	struct json_object *root = json_object_new_object();
	size_t over = 0, wrong = ledger_check(&scheduler->core.ledger, &over);
	char *text;

	json_object_object_add(root, "ready", json_object_new_boolean(core_is_ready(&scheduler->core)));
	add_text(root, "podsVersion", sync_pods_version(scheduler->sync));
	add_number(root, "waiting", requeue_list_count(&scheduler->core.requeues, REQUEUE_ROOM));
	add_number(root, "wrongSums", wrong);
	add_number(root, "overcommittedGPUs", over);
	json_object_object_add(root, "nodes", nodes_json(scheduler, node));
	text = strdup(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN));
	json_object_put(root);
	return text;
}
