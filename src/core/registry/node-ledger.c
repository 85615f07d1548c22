#include "core/registry/node-ledger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/placement/links.h"
#include "core/registry/host-pods.h"
#include "model/units.h"

/* What a pod adds to the sums of its GPU, or to the node's unplaced units. */
struct sums {
	uint64_t units[NODE_GPUS_MAX];
	uint64_t core[NODE_GPUS_MAX];
	uint64_t instances[NODE_GPUS_MAX];
	uint64_t unplaced;
	uint64_t unplaced_core;
	int64_t surplus_ids, surplus_ids_ill;
	size_t with_core, without_core;
	struct host_sum taken;
};

struct node_ledger *node_ledger_new(const char *name)
{
	struct node_ledger *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	list_init(&node->pods);
	list_init(&node->nominations);
	list_init(&node->host_pods);
	node->facts.name = strdup(name);
	if (!node->facts.name) {
		free(node);
		return NULL;
	}
	return node;
}

static void gpus_free(struct gpu_ledger *gpus, size_t n)
{
	for (size_t i = 0; gpus && i < n; i++)
		free(gpus[i].reason);
	free(gpus);
}

void node_ledger_free(struct node_ledger *node)
{
	if (!node)
		return;
	free(node->facts.name);
	free(node->facts.uid);
	free(node->facts.address);
	held_release(&node->facts.held);
	gpus_free(node->gpus, node->facts.n_gpus);
	free(node->links);
	free(node);
}

int node_ledger_compare(const void *a, const void *b)
{
	const struct node_ledger *x = *(const struct node_ledger *const *)a;
	const struct node_ledger *y = *(const struct node_ledger *const *)b;

	return strcmp(x->facts.name, y->facts.name);
}

struct host_sum node_host_left(const struct node_ledger *node)
{
	struct host_amount all = node->facts.host;

	return (struct host_sum){
		all.cpu_milli > node->taken.cpu_milli ? all.cpu_milli - node->taken.cpu_milli : 0,
		all.memory_mib > node->taken.memory_mib ? all.memory_mib - node->taken.memory_mib : 0};
}

bool node_ledger_known(const struct node_ledger *node)
{
	return node->facts.uid != NULL;
}

/* Returns the index of a GPU in node->gpus, or -1 if the node has no such GPU. */
static int gpu_find(const struct node_ledger *node, const char *uuid)
{
	for (size_t i = 0; i < node->facts.n_gpus; i++)
		if (strcmp(node->gpus[i].facts.uuid, uuid) == 0)
			return (int)i;
	return -1;
}

const struct gpu_ledger *node_ledger_gpu(const struct node_ledger *node, const char *uuid)
{
	int i = gpu_find(node, uuid);

	return i < 0 ? NULL : &node->gpus[i];
}

/* The GPUs of a pod by its placement, in equal parts; its label may have changed since. A pod without a
 * placement has one part with no known GPU. */
struct pod_gpus {
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	uint32_t n;
};

static struct pod_gpus pod_gpus(const struct ledger_pod *pod)
{
	struct pod_gpus parts;

	parts.n = 1;
	parts.gpus[0] = NULL;
	if (pod->has_placement)
		parts.n = (uint32_t)placement_gpus(&pod->placement, parts.gpus);
	return parts;
}

/* Returns the GPU of one part, or -1 for an unplaced part, which counts against the node as a whole. */
static int part_gpu(const struct node_ledger *node, const struct gpu_share *gpu)
{
	return gpu ? gpu_find(node, gpu->uuid) : -1;
}

/* An agent changes its node's unit when no pod is left. A pod can still be there if its end arrives after the
 * node's new unit, or if the node was created again under it. Then the GPU's memory counts, in whole units.
 */
static uint32_t to_units_of(const struct node_ledger *node, const struct ledger_pod *pod, uint32_t units)
{
	uint32_t of_pod = pod->has_placement ? pod->placement.unit_mib : pod->facts.request.unit_mib;

	return units_convert(units, of_pod == UNIT_MIB_NONE ? 0 : of_pod, node->facts.unit_mib);
}

/* The pod's units on one GPU are equal parts of its largest need. What a node reports of an orphan, which has
 * one container, need not be equal and is taken as reported. A whole GPU is all of its memory, whatever the
 * node's mode. */
static uint32_t part_units(const struct node_ledger *node, const struct ledger_pod *pod,
	const struct pod_gpus *parts, uint32_t part)
{
	const struct request *request = &pod->facts.request;
	int gpu;

	if (request->whole) {
		gpu = part_gpu(node, parts->gpus[part]);
		return gpu < 0 ? request->units / parts->n : node->gpus[gpu].units_total;
	}
	if (pod->has_placement && pod->placement.n_containers == 1)
		return to_units_of(node, pod, parts->gpus[part]->units);
	return to_units_of(node, pod, request->units / parts->n);
}

/* The computing power of a pod on one GPU, in percent. A pod on several GPUs asks for none, but an orphan
 * may. */
static uint32_t part_core(const struct ledger_pod *pod, const struct gpu_share *gpu)
{
	if (pod->has_placement && pod->placement.n_containers == 1)
		return gpu->core;
	return pod->facts.request.core;
}

static int64_t pod_surplus_ids(const struct node_ledger *node, const struct ledger_pod *pod)
{
	const struct request *request = &pod->facts.request;

	if (request->whole)
		return 0;
	return (int64_t)request->asked - to_units_of(node, pod, request->units);
}

/* The ids of a pod are those of its GPUs. Returns how many of its surplus ids belong to GPUs that are not
 * healthy; the kubelet gives none of these to another pod. */
static int64_t pod_surplus_ids_ill(
	const struct node_ledger *node, const struct ledger_pod *pod, const struct pod_gpus *parts)
{
	int64_t surplus = pod_surplus_ids(node, pod), n_ill = 0;

	for (uint32_t part = 0; surplus && part < parts->n; part++) {
		int gpu = part_gpu(node, parts->gpus[part]);

		n_ill += gpu >= 0 && !node->gpus[gpu].facts.healthy;
	}
	return n_ill ? surplus * n_ill / parts->n : 0; /* a placement may name no GPU at all */
}

static uint32_t clamp_u32(uint64_t value)
{
	return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static void node_ledger_sum(const struct node_ledger *node, struct sums *ret_sums)
{
	*ret_sums = (struct sums){0};
	list_for_each (item, &node->host_pods)
		host_sum_add(&ret_sums->taken, list_entry(item, struct host_pod, item)->host);
	list_for_each (item, &node->pods) {
		const struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);
		struct pod_gpus parts = pod_gpus(pod);

		host_sum_add(&ret_sums->taken, pod->facts.host);
		ret_sums->surplus_ids += pod_surplus_ids(node, pod);
		ret_sums->surplus_ids_ill += pod_surplus_ids_ill(node, pod, &parts);
		++*(pod->facts.request.core ? &ret_sums->with_core : &ret_sums->without_core);
		for (uint32_t part = 0; part < parts.n; part++) {
			int gpu = part_gpu(node, parts.gpus[part]);

			if (gpu < 0) {
				ret_sums->unplaced += part_units(node, pod, &parts, part);
				ret_sums->unplaced_core += part_core(pod, parts.gpus[part]);
				continue;
			}
			ret_sums->units[gpu] += part_units(node, pod, &parts, part);
			ret_sums->core[gpu] += part_core(pod, parts.gpus[part]);
			ret_sums->instances[gpu] += pod->facts.request.instances;
		}
	}
}

/* The scarcer one of memory and computing power determines how free a GPU is. */
static uint32_t gpu_milli_free(const struct gpu_ledger *gpu)
{
	uint64_t memory = gpu->units_total ? (uint64_t)gpu_free_units(gpu) * 1000 / gpu->units_total : 0;
	uint32_t core = gpu_free_core(gpu) * (1000 / CORE_PER_GPU);

	return memory < core ? (uint32_t)memory : core;
}

static void gpu_sum(const struct gpu_ledger *gpu, struct gpu_sums *sums, uint16_t *ret_milli)
{
	uint32_t free_units = gpu_free_units(gpu);

	if (gpu->units_total > sums->largest)
		sums->largest = gpu->units_total;
	if (!gpu->facts.healthy) {
		sums->free_ill += free_units;
		sums->core_free_ill += gpu_free_core(gpu);
		return;
	}
	if (gpu->instances_max && gpu->instances > sums->most_instances)
		sums->most_instances = gpu->instances;
	sums->free += free_units;
	*ret_milli = (uint16_t)gpu_milli_free(gpu);
	sums->milli_free += *ret_milli;
	sums->whole += !gpu->units_used && !gpu->core_used;
	sums->core_free += gpu_free_core(gpu);
	if (free_units > sums->most_free)
		sums->most_free = free_units;
}

static struct gpu_sums gpu_sums(const struct node_ledger *node)
{
	struct gpu_sums sums = {0};

	for (size_t i = 0; i < node->facts.n_gpus; i++)
		gpu_sum(&node->gpus[i], &sums, &sums.gpu_milli[i]);
	return sums;
}

void node_ledger_recount(struct node_ledger *node)
{
	struct sums sums;

	node_ledger_sum(node, &sums);
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		node->gpus[i].units_used = clamp_u32(sums.units[i]);
		node->gpus[i].core_used = clamp_u32(sums.core[i]);
		node->gpus[i].instances = clamp_u32(sums.instances[i]);
	}
	node->unplaced_units = clamp_u32(sums.unplaced);
	node->unplaced_core = clamp_u32(sums.unplaced_core);
	node->surplus_ids = sums.surplus_ids;
	node->surplus_ids_ill = sums.surplus_ids_ill;
	node->with_core = sums.with_core;
	node->without_core = sums.without_core;
	node->taken = sums.taken;
	node->sums = gpu_sums(node);
}

size_t node_ledger_check(const struct node_ledger *node, size_t *over)
{
	struct gpu_sums gpus = gpu_sums(node);
	struct sums sums;
	size_t wrong;

	node_ledger_sum(node, &sums);
	wrong = node->unplaced_units != clamp_u32(sums.unplaced);
	wrong += node->unplaced_core != clamp_u32(sums.unplaced_core);
	wrong += node->surplus_ids != sums.surplus_ids || node->surplus_ids_ill != sums.surplus_ids_ill;
	wrong += node->with_core != sums.with_core || node->without_core != sums.without_core;
	wrong += node->taken.cpu_milli != sums.taken.cpu_milli ||
		 node->taken.memory_mib != sums.taken.memory_mib;
	wrong += gpus.largest != node->sums.largest || gpus.most_free != node->sums.most_free ||
		 gpus.most_instances != node->sums.most_instances || gpus.free != node->sums.free ||
		 gpus.free_ill != node->sums.free_ill || gpus.core_free != node->sums.core_free ||
		 gpus.core_free_ill != node->sums.core_free_ill || gpus.milli_free != node->sums.milli_free ||
		 gpus.whole != node->sums.whole ||
		 memcmp(gpus.gpu_milli, node->sums.gpu_milli, sizeof(gpus.gpu_milli)) != 0;
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		const struct gpu_ledger *gpu = &node->gpus[i];

		wrong += gpu->units_used != clamp_u32(sums.units[i]);
		wrong += gpu->core_used != clamp_u32(sums.core[i]);
		wrong += gpu->instances != clamp_u32(sums.instances[i]);
		*over += gpu_is_over(gpu);
	}
	return wrong;
}

/* Placements that users write can claim more than 32 bits hold: then the sum stays at the maximum. */
static void sum_grow(uint32_t *sum, uint32_t amount)
{
	*sum = clamp_u32((uint64_t)*sum + amount);
}

/* Returns false if the sum is no longer exact, because it had reached the maximum or would go below zero. */
static bool sum_shrink(uint32_t *sum, uint32_t amount, uint64_t *repairs)
{
	if (*sum == UINT32_MAX)
		return false;
	if (*sum < amount) {
		++*repairs;
		return false;
	}
	*sum -= amount;
	return true;
}

void node_ledger_add(struct node_ledger *node, struct ledger_pod *pod)
{
	const struct request *request = &pod->facts.request;
	struct pod_gpus parts = pod_gpus(pod);

	list_append(&node->pods, &pod->item);
	host_sum_add(&node->taken, pod->facts.host);
	node->surplus_ids += pod_surplus_ids(node, pod);
	node->surplus_ids_ill += pod_surplus_ids_ill(node, pod, &parts);
	++*(request->core ? &node->with_core : &node->without_core);
	for (uint32_t part = 0; part < parts.n; part++) {
		int i = part_gpu(node, parts.gpus[part]);

		if (i < 0) {
			sum_grow(&node->unplaced_units, part_units(node, pod, &parts, part));
			sum_grow(&node->unplaced_core, part_core(pod, parts.gpus[part]));
			continue;
		}
		sum_grow(&node->gpus[i].units_used, part_units(node, pod, &parts, part));
		sum_grow(&node->gpus[i].core_used, part_core(pod, parts.gpus[part]));
		sum_grow(&node->gpus[i].instances, request->instances);
	}
	node->sums = gpu_sums(node);
}

static bool part_remove(
	struct node_ledger *node, const struct ledger_pod *pod, const struct pod_gpus *parts, uint32_t part)
{
	const struct gpu_share *gpu = parts->gpus[part];
	uint32_t units = part_units(node, pod, parts, part), core = part_core(pod, gpu);
	int i = part_gpu(node, gpu);

	if (i < 0)
		return sum_shrink(&node->unplaced_units, units, &node->recounts) &&
		       sum_shrink(&node->unplaced_core, core, &node->recounts);
	return sum_shrink(&node->gpus[i].units_used, units, &node->recounts) &&
	       sum_shrink(&node->gpus[i].core_used, core, &node->recounts) &&
	       sum_shrink(&node->gpus[i].instances, pod->facts.request.instances, &node->recounts);
}

void node_ledger_remove(struct node_ledger *node, struct ledger_pod *pod)
{
	struct pod_gpus parts = pod_gpus(pod);
	bool right = host_sum_remove(&node->taken, pod->facts.host);

	list_remove(&pod->item);
	node->recounts += !right;
	node->surplus_ids -= pod_surplus_ids(node, pod);
	node->surplus_ids_ill -= pod_surplus_ids_ill(node, pod, &parts);
	--*(pod->facts.request.core ? &node->with_core : &node->without_core);
	for (uint32_t part = 0; part < parts.n && right; part++)
		right = part_remove(node, pod, &parts, part);
	if (!right)
		node_ledger_recount(node);
	else
		node->sums = gpu_sums(node);
}

/* Compares the facts that can reject a pod, and the facts that users see. A change of any other fact requeues
 * no pod. */
static bool same_gpu(const struct node_ledger *node, const struct node_facts *facts, size_t i)
{
	const struct gpu_ledger *gpu = &node->gpus[i];
	const struct gpu_facts *shown = &facts->gpus[i];

	return strcmp(gpu->facts.uuid, shown->uuid) == 0 && gpu->facts.index == shown->index &&
	       gpu->units_total == gpu_mode_units(node->facts.mode, shown->mib, node->facts.unit_mib) &&
	       gpu->facts.healthy == shown->healthy &&
	       strcmp(gpu->reason ? gpu->reason : "", shown->healthy ? "" : facts->details[i].reason) == 0;
}

static bool says_links(const struct node_facts *facts)
{
	for (size_t a = 0; facts->mode == GPU_MODE_TOPOLOGY && a < facts->n_gpus; a++)
		for (size_t b = 0; b < facts->n_gpus; b++)
			if (facts->details[a].links[b].kind)
				return true;
	return false;
}

static uint32_t facts_nvlink_gbps(const struct node_facts *facts)
{
	for (size_t i = 0; i < facts->n_gpus; i++)
		if (facts->details[i].nvlink_gbps)
			return facts->details[i].nvlink_gbps;
	return NVLINK_GBPS;
}

/* Returns NULL if no connection is known or memory ran out. In the latter case, the lowest GPUs are as good
 * as any others. */
static struct links *links_of(const struct node_facts *facts)
{
	struct links *links = says_links(facts) ? links_new(facts->n_gpus, facts_nvlink_gbps(facts)) : NULL;

	for (size_t a = 0; links && a < facts->n_gpus; a++)
		for (size_t b = 0; b < a; b++)
			links_set(links, a, b, facts->details[a].links[b]);
	return links;
}

/* If a node's facts differ, the ledger creates its GPUs anew and waiting pods are evaluated again. Facts that
 * change all the time are not compared: node_ledger_set_facts() takes them over in any case. */
static bool same_facts(const struct node_ledger *node, const struct node_facts *facts)
{
	const struct links *links;

	if (!node_ledger_known(node) || strcmp(node->facts.uid, facts->uid) != 0 ||
		node->facts.mode != facts->mode || node->facts.policy != facts->policy ||
		node->facts.unit_mib != facts->unit_mib || node->facts.n_gpus != facts->n_gpus ||
		node->facts.serving != facts->serving || node->facts.changing != facts->changing ||
		node->facts.held_unreadable != facts->held_unreadable ||
		node->facts.mixing != facts->mixing || node->facts.instances_max != facts->instances_max)
		return false;
	for (size_t i = 0; i < facts->n_gpus; i++)
		if (!same_gpu(node, facts, i))
			return false;
	links = node->links;
	if (!links || !says_links(facts))
		return !links && !says_links(facts);
	for (size_t a = 0; a < facts->n_gpus; a++)
		for (size_t b = 0; b < a; b++) {
			struct link was = links->at[a * links->n + b], is = facts->details[a].links[b];

			if (was.kind != is.kind || was.lanes != is.lanes)
				return false;
		}
	return links->nvlink_gbps == facts_nvlink_gbps(facts);
}

/* gpus: an array for facts->n_gpus GPUs, which the node takes over. */
static void node_ledger_take_gpus(
	struct node_ledger *node, const struct node_facts *facts, struct gpu_ledger *gpus)
{
	gpus_free(node->gpus, node->facts.n_gpus);
	node->gpus = gpus;
	free(node->links);
	node->links = links_of(facts);
	node->facts.mode = facts->mode;
	node->facts.policy = facts->policy;
	node->facts.unit_mib = facts->unit_mib;
	node->facts.n_gpus = facts->n_gpus;
	node->facts.serving = facts->serving;
	node->facts.changing = facts->changing;
	node->facts.held_unreadable = facts->held_unreadable;
	node->facts.mixing = facts->mixing;
	node->facts.instances_max = facts->instances_max;
	for (size_t i = 0; i < facts->n_gpus; i++) {
		node->gpus[i] = (struct gpu_ledger){
			.facts = facts->gpus[i],
			.units_total = gpu_mode_units(facts->mode, facts->gpus[i].mib, facts->unit_mib),
			.instances_max = facts->instances_max,
		};
		/* If memory runs out here, the reason of the GPU's fault is not shown to users. */
		if (!facts->gpus[i].healthy && *facts->details[i].reason)
			node->gpus[i].reason = strdup(facts->details[i].reason);
	}
	node_ledger_recount(node);
}

int node_ledger_set_facts(struct node_ledger *node, const struct node_facts *facts)
{
	_cleanup_free_ char *uid = strdup(facts->uid);
	_cleanup_free_ char *address = facts->address ? strdup(facts->address) : NULL;
	_cleanup_held_ struct held held = {0};
	bool changed = !same_facts(node, facts);
	_cleanup_free_ struct gpu_ledger *gpus = changed ? calloc(facts->n_gpus + 1, sizeof(*gpus)) : NULL;

	if (!uid || (facts->address && !address) || held_copy(&facts->held, &held) < 0 || (changed && !gpus))
		return -ENOMEM;
	held_release(&node->facts.held);
	node->facts.held = held;
	held_init(&held);
	free(node->facts.uid);
	node->facts.uid = TAKE_PTR(uid);
	free(node->facts.address);
	node->facts.address = TAKE_PTR(address);
	node->facts.host = facts->host;
	if (changed)
		node_ledger_take_gpus(node, facts, TAKE_PTR(gpus));
	else
		for (size_t i = 0; i < node->facts.n_gpus; i++)
			node->gpus[i].facts =
				facts->gpus[i]; /* includes the facts that same_gpu() does not compare */
	return changed;
}

void node_ledger_facts(const struct node_ledger *node, struct node_facts *ret_facts)
{
	*ret_facts = (struct node_facts){.name = node->facts.name,
		.uid = node->facts.uid,
		.address = node->facts.address,
		.mode = node->facts.mode,
		.policy = node->facts.policy,
		.unit_mib = node->facts.unit_mib,
		.n_gpus = node->facts.n_gpus,
		.instances_max = node->facts.instances_max,
		.host = node->facts.host,
		.models = node->model ? (char *)node->model->names : NULL,
		.mixing = node->facts.mixing,
		.serving = node->facts.serving,
		.changing = node->facts.changing,
		.held = node->facts.held,
		.held_unreadable = node->facts.held_unreadable};
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		ret_facts->gpus[i] = node->gpus[i].facts;
		snprintf(ret_facts->details[i].reason, sizeof(ret_facts->details[i].reason), "%s",
			node->gpus[i].reason ? node->gpus[i].reason : "");
	}
}

void node_ledger_forget(struct node_ledger *node)
{
	free(node->facts.uid);
	node->facts.uid = NULL;
	free(node->facts.address);
	node->facts.address = NULL;
	node->facts.mode = GPU_MODE_NONE;
	node->facts.host = (struct host_amount){0};
	node->facts.changing = node->facts.held_unreadable = false;
	gpus_free(node->gpus, node->facts.n_gpus);
	node->gpus = NULL;
	free(node->links);
	node->links = NULL;
	node->facts.n_gpus = 0;
	held_release(&node->facts.held);
	node->agent_lost = false;
	node->heard_ns = 0;
	node_ledger_recount(node);
}

size_t node_ledger_count_owner(const struct node_ledger *node, const char *owner, uint32_t *owned)
{
	struct pod_gpus parts;
	size_t n = 0;

	list_for_each (item, &node->pods) {
		const struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);

		if (strcmp(pod->facts.owner, owner) != 0)
			continue;
		n++;
		parts = pod_gpus(pod);
		for (uint32_t part = 0; part < parts.n; part++) {
			int gpu = part_gpu(node, parts.gpus[part]);

			if (gpu >= 0)
				owned[gpu]++;
		}
	}
	return n;
}
