#include "core/placement/node-room.h"

#include "core/registry/node-ledger.h"

/* GPUs in use that have room for the request's part. */
static uint32_t begun_gpus(const struct node_ledger *node, const struct request *request)
{
	uint32_t n = 0;

	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		const struct gpu_ledger *gpu = &node->gpus[i];

		n += (gpu->units_used || gpu->core_used) && gpu_reject_reason(gpu, request) == GPU_FITS;
	}
	return n;
}

/* How many entirely free GPUs the request would begin to use, with a part on each of `gpus` GPUs. */
static uint32_t opened_gpus(const struct node_ledger *node, const struct request *request, uint32_t gpus)
{
	uint32_t begun;

	if (node->facts.policy == GPU_POLICY_SPREAD)
		return gpus < node->sums.whole ? gpus : node->sums.whole;
	/* With thousands of nodes, each GPU is read only if it may be short of something else. */
	if (gpus == 1 && !request->core && !node->facts.instances_max)
		begun = node->sums.begun_most_free >= request_units_per_gpu(request);
	else
		begun = begun_gpus(node, request);
	return gpus > begun ? gpus - begun : 0;
}

static uint32_t less(uint32_t from, uint64_t amount)
{
	return from > amount ? from - (uint32_t)amount : 0;
}

/* The GPUs of a node in mode dra are allocated by kube-scheduler, so they always look free here. */
static bool may_serve(const struct node_ledger *node)
{
	return node->facts.serving && !node->agent_lost && node->facts.mode != GPU_MODE_DRA;
}

struct node_order_ask node_room_ask(const struct node_ledger *node, const struct pod_facts *pod)
{
	const struct request *request = &pod->request;
	uint32_t gpus = request_gpus(request), units = request_units_per_gpu(request),
		 largest = node->sums.largest;
	struct host_sum host = node_host_left(node);
	struct node_order_ask ask = {.before = {.cpu_milli = host.cpu_milli,
					     .memory_mib = host.memory_mib,
					     .gpu_milli = node->sums.milli_free,
					     .whole = node->sums.whole,
					     .gpus = (uint32_t)node->facts.n_gpus},
		.host_pod_cpu_milli = request_is_empty(request) && may_serve(node)
					      ? node->facts.host.cpu_milli
					      : 0};
	uint64_t part = largest ? (uint64_t)units * 1000 / largest : 0;

	/* Pods on an unknown GPU count against the node as a whole. */
	if (node->sums.free && node_free_units(node) < node->sums.free)
		ask.before.gpu_milli = (uint32_t)(ask.before.gpu_milli * node_free_units(node) /
						  node->sums.free);
	if (part < request->core * (1000 / CORE_PER_GPU))
		part = request->core * (1000 / CORE_PER_GPU);
	ask.whole_wanted = part >= 1000 ? gpus : 0;
	ask.after = ask.before;
	ask.after.cpu_milli -= pod->host.cpu_milli < host.cpu_milli ? pod->host.cpu_milli : host.cpu_milli;
	ask.after.memory_mib -= pod->host.memory_mib < host.memory_mib ? pod->host.memory_mib
								       : host.memory_mib;
	ask.after.gpu_milli = less(ask.before.gpu_milli, part * gpus);
	ask.after.whole = less(ask.before.whole, ask.whole_wanted ? gpus : opened_gpus(node, request, gpus));
	return ask;
}
