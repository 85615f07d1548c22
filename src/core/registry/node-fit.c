/* node-fit.c - whether a node or a GPU has room for a pod, and the reason if it has not. */
#include "core/placement/links.h"
#include "core/registry/node-ledger.h"

#include <string.h>

uint32_t gpu_free_units(const struct gpu_ledger *gpu)
{
	return gpu->units_used < gpu->units_total ? gpu->units_total - gpu->units_used : 0;
}

uint32_t gpu_free_core(const struct gpu_ledger *gpu)
{
	return gpu->core_used < CORE_PER_GPU ? CORE_PER_GPU - gpu->core_used : 0;
}

bool gpu_is_over(const struct gpu_ledger *gpu)
{
	return gpu->units_used > gpu->units_total || gpu->core_used > CORE_PER_GPU;
}

static bool instances_fit(uint32_t there, const struct request *request, uint32_t max)
{
	return !max || (uint64_t)there + request->instances <= max;
}

enum gpu_reject_reason gpu_reject_reason(const struct gpu_ledger *gpu, const struct request *request)
{
	uint32_t units = request_units_per_gpu(request);

	if (!gpu->facts.healthy)
		return GPU_UNHEALTHY;
	if (gpu->units_total < units)
		return GPU_TOO_SMALL;
	if (gpu_free_units(gpu) < units)
		return GPU_FULL;
	if (gpu_free_core(gpu) < request->core)
		return GPU_CORE;
	return instances_fit(gpu->instances, request, gpu->instances_max) ? GPU_FITS : GPU_INSTANCES;
}

bool node_ledger_has_gpus(const struct node_ledger *node, const struct request *request)
{
	uint32_t missing = request_gpus(request), units = request_units_per_gpu(request);

	if (!node->facts.n_gpus || node->sums.most_free < units)
		return false;
	/* A part without units fits into most_free even where no GPU is healthy. */
	if (missing == 1 && units && !request->core &&
		instances_fit(node->sums.most_instances, request, node->facts.instances_max))
		return true;
	for (size_t i = 0; missing && i < node->facts.n_gpus; i++)
		missing -= gpu_reject_reason(&node->gpus[i], request) == GPU_FITS;
	return !missing;
}

/* True if as many GPUs as the request wants fit, or fail only for a reason that gpu_reject_reason() checks at
 * or after `last`. */
static bool has_gpus_but_for(
	const struct node_ledger *node, const struct request *request, enum gpu_reject_reason last)
{
	uint32_t missing = request_gpus(request);

	for (size_t i = 0; missing && i < node->facts.n_gpus; i++) {
		enum gpu_reject_reason reject_reason = gpu_reject_reason(&node->gpus[i], request);

		missing -= reject_reason == GPU_FITS || reject_reason >= last;
	}
	return !missing;
}

/* On most nodes of a full cluster the first line decides, and the GPUs are not read. */
enum reject_reason node_ledger_gpus_reject_reason(
	const struct node_ledger *node, const struct request *request)
{
	if (node->sums.most_free < request_units_per_gpu(request))
		return REJECT_FULL;
	if (has_gpus_but_for(node, request, GPU_INSTANCES))
		return REJECT_INSTANCES;
	return has_gpus_but_for(node, request, GPU_CORE) ? REJECT_CORE : REJECT_FULL;
}

uint64_t node_free_memory(const struct node_ledger *node)
{
	return node->sums.free > node->unplaced_units ? node->sums.free - node->unplaced_units : 0;
}

uint64_t node_free_units(const struct node_ledger *node)
{
	int64_t surplus = node->surplus_ids - node->surplus_ids_ill;
	uint64_t taken = surplus > 0 ? (uint64_t)surplus : 0, left = node_free_memory(node);

	return left > taken ? left - taken : 0;
}

uint64_t node_free_core(const struct node_ledger *node)
{
	return node->sums.core_free > node->unplaced_core ? node->sums.core_free - node->unplaced_core : 0;
}

bool node_ledger_sums_suffice(const struct node_ledger *node, const struct request *request)
{
	uint64_t units = node->sums.free + node->sums.free_ill;
	uint64_t core = node->sums.core_free + node->sums.core_free_ill;

	return (int64_t)units >= (int64_t)request->units + node->unplaced_units + node->surplus_ids &&
	       core >= (uint64_t)request->core + (request->core ? node->unplaced_core : 0);
}

bool node_ledger_mixes(const struct node_ledger *node, const struct request *request)
{
	if (node->facts.mode != GPU_MODE_CORE_MEM || node->facts.mixing)
		return false;
	return request->core ? node->without_core > 0 : node->with_core > 0;
}

/* True if as many GPUs as the request wants would have room for it if they were empty. */
static bool is_large_enough(const struct node_ledger *node, const struct request *request)
{
	uint32_t missing = request_gpus(request), units = request_units_per_gpu(request);

	if (node->sums.largest < units)
		return false;
	if (missing == 1)
		return true;
	for (size_t i = 0; missing && i < node->facts.n_gpus; i++)
		missing -= node->gpus[i].units_total >= units;
	return !missing;
}

enum reject_reason node_ledger_serves(const struct node_ledger *node, const struct request *request)
{
	if (!node->facts.n_gpus)
		return REJECT_NO_GPU_NODE;
	if (!node->facts.serving || node->agent_lost)
		return REJECT_NOT_SERVING;
	if (node->facts.held_unreadable)
		return REJECT_HELD;
	if (request->unit_mib && request->unit_mib != node->facts.unit_mib)
		return REJECT_UNIT;
	if (node->facts.changing)
		return REJECT_CHANGING;
	/* The other modes cannot limit computing power, so they cannot promise a percentage of it. In the
	 * mode dra, kube-scheduler gives the GPUs to claims. */
	if (!gpu_mode_is_served(node->facts.mode) || node->facts.mode == GPU_MODE_DRA ||
		request->whole != (node->facts.mode == GPU_MODE_TOPOLOGY) ||
		(request->core > 0 && node->facts.mode != GPU_MODE_CORE_MEM))
		return REJECT_MODE;
	if (node->facts.n_gpus < request_gpus(request))
		return REJECT_TOO_FEW;
	if (!is_large_enough(node, request))
		return REJECT_TOO_LARGE;
	if (request->core > CORE_PER_GPU)
		return REJECT_CORE;
	return instances_fit(0, request, node->facts.instances_max) ? FITS : REJECT_INSTANCES;
}

bool node_ledger_has_room(
	const struct node_ledger *node, const struct request *request, const struct placement *placement)
{
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = placement_gpus(placement, gpus);

	for (size_t k = 0; k < n; k++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(node, gpus[k]->uuid);

		if (!gpu || gpu_reject_reason(gpu, request) != GPU_FITS)
			return false;
	}
	return node_ledger_serves(node, request) == FITS && !node_ledger_mixes(node, request) &&
	       node_free_units(node) >= request->units &&
	       (!request->core || node_free_core(node) >= request->core);
}

uint64_t node_ledger_free_gpus(const struct node_ledger *node, const struct request *request)
{
	uint64_t gpus = 0;

	for (size_t i = 0; i < node->facts.n_gpus; i++)
		gpus |= (uint64_t)(gpu_reject_reason(&node->gpus[i], request) == GPU_FITS) << i;
	return gpus;
}

static uint64_t gpus_of(const struct node_ledger *node, const struct ledger_pod *pod)
{
	uint64_t gpus = 0;

	for (size_t i = 0; pod->has_placement && i < node->facts.n_gpus; i++)
		gpus |= (uint64_t)(placement_units_on(&pod->placement, &pod->facts.request,
					   node->gpus[i].facts.uuid) > 0)
			<< i;
	return gpus;
}

static bool is_in_group(const struct ledger_pod *pod, const struct request *request)
{
	return pod->facts.request.group && pod->occupancy != OCCUPANCY_ORPHAN &&
	       strcmp(pod->facts.request.group, request->group) == 0;
}

uint64_t node_ledger_group_gpus(const struct node_ledger *node, const struct request *request)
{
	uint64_t gpus = 0;

	if (request->group)
		list_for_each (item, &node->pods)
			if (is_in_group(list_entry(item, struct ledger_pod, item), request))
				gpus |= gpus_of(node, list_entry(item, struct ledger_pod, item));
	return gpus;
}

/* How many pods of the request's group may still come to this node, including this one. Where the other pods
 * are is not considered, because the number serves only as a plan. */
static size_t pods_to_come(const struct node_ledger *node, const struct request *request)
{
	size_t there = 0;

	if (!request->group)
		return 1;
	list_for_each (item, &node->pods)
		there += is_in_group(list_entry(item, struct ledger_pod, item), request);
	return request->group_pods > there ? request->group_pods - there : 1;
}

struct links_ask node_ledger_links_ask(const struct node_ledger *node, const struct request *request)
{
	return (struct links_ask){
		.free = node_ledger_free_gpus(node, request),
		.near = node_ledger_group_gpus(node, request),
		.gpus = request_gpus(request),
		.pods = pods_to_come(node, request),
	};
}

uint64_t node_ledger_best_gpus(const struct node_ledger *node, const struct request *request)
{
	struct links_ask ask = node_ledger_links_ask(node, request);
	uint64_t part = 0, all;

	ask.near &= ~ask.free;
	return links_plan_job(node->links, &ask, &part, &all) == 0 ? part : 0;
}

int node_ledger_see_group(
	const struct node_ledger *node, const struct request *request, struct placement *placement)
{
	uint64_t group = node_ledger_group_gpus(node, request), own = 0;
	int r = 0;

	for (size_t i = 0; i < node->facts.n_gpus; i++)
		own |= (uint64_t)(placement_units_on(placement, request, node->gpus[i].facts.uuid) > 0) << i;
	for (int others = 0; (group & ~own) && others < 2; others++)
		for (size_t i = 0; i < node->facts.n_gpus && r == 0; i++)
			if ((others ? group & ~own : own) >> i & 1)
				r = placement_add_visible(placement, node->gpus[i].facts.uuid);
	return r;
}
