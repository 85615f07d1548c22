#include "core/placement/choose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/placement/links.h"
#include "core/registry/node-ledger.h"
#include "model/request.h"

const char *placement_order_text(bool whole, enum gpu_policy policy)
{
	if (whole)
		return "those whose best ring has the fastest slowest link, then those with the most bandwidth between all pairs, then those that leave the others connected best";
	return policy == GPU_POLICY_SPREAD
		       ? "spread prefers the GPU with the fewest pods of the same owner, then the most free, then the lowest index"
		       : "binpack prefers the GPU with the least free, then the lowest index";
}

/* Is a the better GPU? It is if it has fewer of the owner's pods (all 0 for binpack), then by free units
 * according to the policy, then by free computing power likewise, then by index, then by UUID. */
static bool gpu_better(const struct gpu_ledger *a, uint32_t a_owned, const struct gpu_ledger *b,
	uint32_t b_owned, enum gpu_policy policy)
{
	uint32_t a_free = gpu_free_units(a), b_free = gpu_free_units(b);
	bool most_first = policy == GPU_POLICY_SPREAD;

	if (a_owned != b_owned)
		return a_owned < b_owned;
	if (a_free != b_free)
		return (a_free > b_free) == most_first;
	if (gpu_free_core(a) != gpu_free_core(b))
		return (gpu_free_core(a) > gpu_free_core(b)) == most_first;
	if (a->facts.index != b->facts.index)
		return a->facts.index < b->facts.index;
	return strcmp(a->facts.uuid, b->facts.uuid) < 0;
}

/* The GPUs that serve the pod best together come first. If memory runs out, the lowest GPUs come first. */
static size_t rank_whole(
	const struct node_ledger *node, const struct request *request, const struct gpu_ledger **ret_gpus)
{
	uint64_t best = node_ledger_best_gpus(node, request),
		 free_gpus = node_ledger_free_gpus(node, request);
	size_t n = 0;

	for (int first = 1; first >= 0; first--)
		for (size_t i = 0; i < node->facts.n_gpus; i++)
			if ((first ? best : free_gpus & ~best) >> i & 1)
				ret_gpus[n++] = &node->gpus[i];
	return n;
}

size_t placement_rank_gpus(const struct node_ledger *node, const struct request *request, const char *owner,
	const struct gpu_ledger **ret_gpus)
{
	uint32_t owned[NODE_GPUS_MAX] = {0};
	size_t n = 0;

	if (request->whole)
		return rank_whole(node, request, ret_gpus);

	if (node->facts.policy == GPU_POLICY_SPREAD && *owner)
		node_ledger_count_owner(node, owner, owned);
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		const struct gpu_ledger *gpu = &node->gpus[i];
		size_t at = n;

		if (gpu_reject_reason(gpu, request) != GPU_FITS)
			continue;
		for (; at > 0; at--) {
			const struct gpu_ledger *before = ret_gpus[at - 1];

			if (!gpu_better(
				    gpu, owned[i], before, owned[before - node->gpus], node->facts.policy))
				break;
			ret_gpus[at] = before;
		}
		ret_gpus[at] = gpu;
		n++;
	}
	return n;
}

static int compare_index(const void *pa, const void *pb)
{
	const struct gpu_ledger *a = *(const struct gpu_ledger *const *)pa;
	const struct gpu_ledger *b = *(const struct gpu_ledger *const *)pb;

	if (a->facts.index != b->facts.index)
		return a->facts.index < b->facts.index ? -1 : 1;
	return strcmp(a->facts.uuid, b->facts.uuid);
}

static int placement_fill(const struct node_ledger *node, const struct gpu_ledger *const *gpus,
	const struct request *request, struct placement *ret_placement)
{
	_cleanup_placement_ struct placement placement = {.unit_mib = node->facts.unit_mib};
	uint32_t count = request_gpus(request);

	for (size_t i = 0; i < request->n_containers; i++) {
		const struct container_request *c = &request->containers[i];
		uint32_t first = request->whole ? request_first_gpu(request, i) : 0;
		uint32_t n = request->whole ? c->units : count;

		for (uint32_t k = 0; k < n; k++) {
			int r = placement_add(
				&placement, c->name, gpus[first + k]->facts.uuid, c->units / n, c->core);

			if (r < 0)
				return r;
		}
	}
	*ret_placement = placement;
	placement_init(&placement);
	return FITS;
}

int placement_on_gpus(const struct node_ledger *node, const struct gpu_ledger **gpus,
	const struct request *request, struct placement *ret_placement)
{
	qsort(gpus, request_gpus(request), sizeof(*gpus), compare_index);
	return placement_fill(node, gpus, request, ret_placement);
}

int placement_choose(const struct node_ledger *node, const struct request *request, const char *owner,
	struct placement *ret_placement)
{
	const struct gpu_ledger *ranked[NODE_GPUS_MAX];
	enum reject_reason reject_reason = node_ledger_serves(node, request);

	if (reject_reason != FITS)
		return reject_reason;
	if (node_ledger_mixes(node, request))
		return REJECT_MIXED;
	if (node_free_units(node) < request->units)
		return REJECT_FULL;
	if (!node_ledger_has_gpus(node, request))
		return node_ledger_gpus_reject_reason(node, request);
	if (request->core && node_free_core(node) < request->core)
		return REJECT_CORE;
	if (!ret_placement)
		return FITS;
	placement_rank_gpus(node, request, owner, ranked);
	return placement_on_gpus(node, ranked, request, ret_placement);
}
