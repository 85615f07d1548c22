#include "cli/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/printable.h"
#include "model/units.h"

void inspect_init(struct inspect *inspect)
{
	*inspect = (struct inspect){0};
	table_init(&inspect->by_name);
	table_init(&inspect->listed);
}

static void inspect_pod_release(struct inspect_pod *pod)
{
	for (size_t i = 0; i < pod->n_claims; i++) {
		free(pod->claims[i].name);
		free(pod->claims[i].request);
	}
	free(pod->claims);
	free(pod->namespace_);
	free(pod->name);
	free(pod->uid);
}

static void inspect_node_free(struct inspect_node *node)
{
	if (!node)
		return;
	for (size_t i = 0; i < node->n_pods; i++)
		inspect_pod_release(&node->pods[i]);
	free(node->pods);
	for (size_t i = 0; i < node->n_gpus; i++)
		free(node->gpus[i].reason);
	free(node->gpus);
	held_release(&node->held);
	free(node->address);
	free(node->name);
	free(node);
}

void inspect_release(struct inspect *inspect)
{
	if (!inspect)
		return;
	for (size_t i = 0; i < inspect->n_nodes; i++)
		inspect_node_free(inspect->nodes[i]);
	free(inspect->nodes);
	for (size_t i = 0; i < inspect->n_waiting; i++) {
		free(inspect->waiting[i].namespace_);
		free(inspect->waiting[i].name);
		free(inspect->waiting[i].claims);
	}
	free(inspect->waiting);
	table_release(&inspect->by_name);
	table_release(&inspect->listed);
	inspect_init(inspect);
}

static bool gives_whole_gpus(const struct node_facts *facts)
{
	return facts->n_gpus > 0 && facts->mode == GPU_MODE_TOPOLOGY;
}

static bool is_shown(
	const struct inspect *inspect, const struct node_facts *facts, const struct node_capacity *capacity)
{
	bool shares = facts->mode == GPU_MODE_SHARE || facts->mode == GPU_MODE_CGPU ||
		      facts->mode == GPU_MODE_CORE_MEM || facts->mode == GPU_MODE_DRA;

	if (gives_whole_gpus(facts) && (inspect->everything || inspect->topology))
		return true;
	/* Topology and default nodes have GPUs, but they do not share memory. */
	return !inspect->topology && (capacity->gpu_mem > 0 || (facts->n_gpus > 0 && shares));
}

static size_t gpus_without_inventory(const struct node_capacity *capacity)
{
	if (capacity->gpu_count < 1)
		return 1;
	return capacity->gpu_count > NODE_GPUS_MAX ? NODE_GPUS_MAX : (size_t)capacity->gpu_count;
}

static int add_equal_gpus(struct inspect_node *node, const struct node_capacity *capacity)
{
	size_t n = gpus_without_inventory(capacity);

	node->gpus = calloc(n, sizeof(*node->gpus));
	if (!node->gpus)
		return -ENOMEM;
	node->total = capacity->gpu_mem > UNITS_MAX ? UNITS_MAX : (uint32_t)capacity->gpu_mem;
	node->n_gpus = node->n_columns = n;
	for (size_t i = 0; i < n; i++) {
		node->gpus[i].column = (int)i;
		node->gpus[i].healthy = true;
		node->gpus[i].total = (uint32_t)(node->total / n);
	}
	return 0;
}

static int add_inventory_gpus(struct inspect_node *node, const struct node_facts *facts)
{
	/* The inventory is sorted by index. Very large indices must not produce thousands of columns. */
	bool by_position = facts->gpus[facts->n_gpus - 1].index >= NODE_GPUS_MAX;

	node->gpus = calloc(facts->n_gpus, sizeof(*node->gpus));
	if (!node->gpus)
		return -ENOMEM;
	node->n_gpus = facts->n_gpus;
	for (size_t i = 0; i < facts->n_gpus; i++) {
		struct inspect_gpu *gpu = &node->gpus[i];

		gpu->column = by_position ? (int)i : facts->gpus[i].index;
		gpu->mib = facts->gpus[i].mib;
		gpu->total = gpu_mode_units(facts->mode, facts->gpus[i].mib, facts->unit_mib);
		memcpy(gpu->links, facts->details[i].links, sizeof(gpu->links));
		gpu->healthy = facts->gpus[i].healthy;
		if (*facts->details[i].reason && !(gpu->reason = printable_copy(facts->details[i].reason)))
			return -ENOMEM;
		memcpy(gpu->uuid, facts->gpus[i].uuid, sizeof(gpu->uuid));
		memcpy(gpu->model, facts->details[i].model, sizeof(gpu->model));
		printable(gpu->model);
		node->total += gpu->total;
	}
	node->n_columns = (size_t)node->gpus[node->n_gpus - 1].column + 1;
	return 0;
}

static int inspect_node_new(
	const struct node_facts *facts, const struct node_capacity *capacity, struct inspect_node **ret_node)
{
	struct inspect_node *node = calloc(1, sizeof(*node));
	int r;

	if (!node)
		return -ENOMEM;
	node->mode = facts->mode;
	node->changing = facts->changing;
	node->unschedulable = capacity->unschedulable;
	node->mixing = facts->mixing;
	node->unit_mib = facts->unit_mib;
	node->name = printable_copy(facts->name);
	node->address = printable_copy(facts->address ? facts->address : "unknown");
	r = facts->n_gpus ? add_inventory_gpus(node, facts) : add_equal_gpus(node, capacity);
	if (r == 0)
		r = held_copy(&facts->held, &node->held);
	if (r < 0 || !node->name || !node->address) {
		inspect_node_free(node);
		return -ENOMEM;
	}
	*ret_node = node;
	return 0;
}

int inspect_add_node(
	struct inspect *inspect, const struct node_facts *facts, const struct node_capacity *capacity)
{
	struct inspect_node *node;
	int r;

	if (!is_shown(inspect, facts, capacity) || table_get(&inspect->by_name, facts->name))
		return 0;
	if (array_room(&inspect->nodes, inspect->n_nodes, sizeof(struct inspect_node *)) < 0)
		return -ENOMEM;
	r = inspect_node_new(facts, capacity, &node);
	if (r < 0)
		return r;
	r = table_set(&inspect->by_name, facts->name, node);
	if (r < 0) {
		inspect_node_free(node);
		return r;
	}
	inspect->nodes[inspect->n_nodes++] = node;
	return 0;
}

struct inspect_gpu *inspect_gpu_by_uuid(struct inspect_node *node, const char *uuid)
{
	for (size_t i = 0; i < node->n_gpus; i++)
		if (*node->gpus[i].uuid && strcmp(node->gpus[i].uuid, uuid) == 0)
			return &node->gpus[i];
	return NULL;
}

const struct inspect_gpu *inspect_gpu_in_column(const struct inspect_node *node, int column)
{
	for (size_t i = 0; i < node->n_gpus; i++)
		if (node->gpus[i].column == column)
			return &node->gpus[i];
	return NULL;
}

/* Places all or nothing: false if the annotations name a GPU that the node does not have. */
static bool place_by_older(
	struct inspect_node *node, struct inspect_pod *pod, const struct older_placement *older)
{
	for (int i = 0; i < NODE_GPUS_MAX; i++)
		if (older->units[i] && !inspect_gpu_in_column(node, i))
			return false;
	memcpy(pod->units, older->units, sizeof(pod->units));
	return true;
}

/* Units on a GPU that the node does not have are pending, as in the scheduler's ledger. */
static void place(struct inspect_node *node, struct inspect_pod *pod, const char *uuid, uint32_t units)
{
	struct inspect_gpu *gpu = inspect_gpu_by_uuid(node, uuid);

	if (gpu)
		pod->units[gpu->column] = units;
	else
		pod->pending = units_add(pod->pending, units);
}

/* On each GPU the pod has what all its containers may use at one time: if an init container asks for more
 * than the main containers, its amount counts. */
static void place_by_truth(struct inspect_node *node, struct inspect_pod *pod, const struct pod_facts *facts)
{
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = placement_gpus(&facts->placement, gpus);

	for (size_t i = 0; i < n; i++)
		place(node, pod, gpus[i]->uuid,
			placement_units_on(&facts->placement, &facts->request, gpus[i]->uuid));
}

static void account(struct inspect_node *node, const struct inspect_pod *pod)
{
	for (size_t i = 0; i < node->n_gpus; i++) {
		uint32_t units = pod->units[node->gpus[i].column];

		node->gpus[i].allocated += units;
		node->allocated += units;
	}
	node->allocated += pod->pending;
	node->pending += pod->pending;
}

int inspect_pod_new(
	struct inspect_node *node, const char *namespace_, const char *name, struct inspect_pod **ret_pod)
{
	struct inspect_pod *pod;

	if (array_room(&node->pods, node->n_pods, sizeof(*pod)) < 0)
		return -ENOMEM;
	pod = &node->pods[node->n_pods];
	*pod = (struct inspect_pod){.namespace_ = printable_copy(namespace_), .name = printable_copy(name)};
	if (!pod->namespace_ || !pod->name) {
		free(pod->namespace_);
		free(pod->name);
		return -ENOMEM;
	}
	node->n_pods++;
	*ret_pod = pod;
	return 0;
}

int inspect_add_waiting(struct inspect *inspect, const struct inspect_waiting *waiting)
{
	struct inspect_waiting *copy;

	if (array_room(&inspect->waiting, inspect->n_waiting, sizeof(*copy)) < 0)
		return -ENOMEM;
	copy = &inspect->waiting[inspect->n_waiting++]; /* inspect_release() frees it, complete or not */
	*copy = *waiting;
	copy->namespace_ = printable_copy(waiting->namespace_);
	copy->name = printable_copy(waiting->name);
	copy->claims = waiting->claims ? printable_copy(waiting->claims) : NULL;
	return copy->namespace_ && copy->name && (copy->claims || !waiting->claims) ? 0 : -ENOMEM;
}

static int add_unbound(struct inspect *inspect, const struct pod_facts *facts)
{
	const struct inspect_waiting waiting = {.namespace_ = facts->namespace_,
		.name = facts->name,
		.units = facts->request.units,
		.gpus = request_gpus(&facts->request),
		.core = facts->request.core,
		.whole = facts->request.whole};

	return inspect_add_waiting(inspect, &waiting);
}

int inspect_add_pod(
	struct inspect *inspect, const struct pod_facts *facts, const struct older_placement *older)
{
	struct inspect_node *node = table_get(&inspect->by_name, facts->node);
	struct inspect_pod *pod;
	int r;

	if (facts->finished || request_is_empty(&facts->request))
		return 0;
	if (inspect->everything && !*facts->node)
		return add_unbound(inspect, facts);
	if (!node || facts->request.whole !=
			     (inspect->everything ? node->mode == GPU_MODE_TOPOLOGY : inspect->topology))
		return 0;
	r = node->held.n_pods ? table_set(&inspect->listed, facts->uid, node) : 0;
	if (r == 0)
		r = inspect_pod_new(node, facts->namespace_, facts->name, &pod);
	if (r < 0)
		return r;
	pod->core = facts->request.core;
	if (facts->has_placement)
		place_by_truth(node, pod, facts);
	else if (!older || !place_by_older(node, pod, older))
		pod->pending = facts->request.units;
	account(node, pod);
	return 0;
}

static int add_orphans(const struct inspect *inspect, struct inspect_node *node)
{
	for (size_t i = 0; i < node->held.n_pods; i++) {
		const struct held_pod *held = &node->held.pods[i];
		struct inspect_pod *pod;
		int r;

		if (table_get(&inspect->listed, held->uid))
			continue;
		r = inspect_pod_new(node, held->namespace_, held->name, &pod);
		if (r < 0)
			return r;
		pod->orphan = true;
		for (size_t k = 0; k < held->n_gpus; k++)
			place(node, pod, held->gpus[k].uuid, held->gpus[k].units);
		account(node, pod);
	}
	return 0;
}

static int compare_nodes(const void *a, const void *b)
{
	return strcmp((*(struct inspect_node *const *)a)->name, (*(struct inspect_node *const *)b)->name);
}

static int first_column(const struct inspect_pod *pod)
{
	int i = 0;

	while (i < NODE_GPUS_MAX && !pod->units[i])
		i++;
	return i;
}

static int compare_pods(const void *pa, const void *pb)
{
	const struct inspect_pod *a = pa, *b = pb;
	int r = first_column(a) - first_column(b);

	if (r == 0)
		r = strcmp(a->namespace_, b->namespace_);
	return r ? r : strcmp(a->name, b->name);
}

static int compare_waiting(const void *pa, const void *pb)
{
	const struct inspect_waiting *a = pa, *b = pb;
	int r = strcmp(a->namespace_, b->namespace_);

	return r ? r : strcmp(a->name, b->name);
}

int inspect_finish(struct inspect *inspect)
{
	if (inspect->n_waiting)
		qsort(inspect->waiting, inspect->n_waiting, sizeof(*inspect->waiting), compare_waiting);
	for (size_t i = 0; i < inspect->n_nodes; i++) {
		int r = add_orphans(inspect, inspect->nodes[i]);

		if (r < 0)
			return r;
	}
	if (inspect->n_nodes)
		qsort(inspect->nodes, inspect->n_nodes, sizeof(struct inspect_node *), compare_nodes);
	for (size_t i = 0; i < inspect->n_nodes; i++)
		if (inspect->nodes[i]->n_pods)
			qsort(inspect->nodes[i]->pods, inspect->nodes[i]->n_pods, sizeof(struct inspect_pod),
				compare_pods);
	return 0;
}

size_t inspect_columns(const struct inspect *inspect)
{
	size_t columns = 0;

	for (size_t i = 0; i < inspect->n_nodes; i++)
		if (inspect->nodes[i]->n_columns > columns)
			columns = inspect->nodes[i]->n_columns;
	return columns;
}

bool inspect_has_pending(const struct inspect *inspect)
{
	for (size_t i = 0; i < inspect->n_nodes; i++)
		if (inspect->nodes[i]->pending)
			return true;
	return false;
}

void inspect_totals(const struct inspect *inspect, uint64_t *ret_allocated, uint64_t *ret_total)
{
	*ret_allocated = *ret_total = 0;
	for (size_t i = 0; i < inspect->n_nodes; i++) {
		*ret_allocated += inspect->nodes[i]->allocated;
		*ret_total += inspect->nodes[i]->total;
	}
}

uint64_t percent_of(uint64_t part, uint64_t whole)
{
	return whole ? (uint64_t)((unsigned __int128)part * 100 / whole) : 0;
}

const char *unit_text(uint32_t unit_mib, char *buf, size_t size)
{
	if (unit_mib == UNIT_MIB_DEFAULT)
		snprintf(buf, size, "GiB");
	else
		snprintf(buf, size, "%uMiB", unit_mib);
	return buf;
}

const char *inspect_unit_text(const struct inspect *inspect, char *buf, size_t size)
{
	uint32_t unit_mib = inspect->n_nodes ? inspect->nodes[0]->unit_mib : UNIT_MIB_DEFAULT;

	for (size_t i = 1; i < inspect->n_nodes; i++)
		if (inspect->nodes[i]->unit_mib != unit_mib) {
			snprintf(buf, size, "units");
			return buf;
		}
	return unit_text(unit_mib, buf, size);
}
