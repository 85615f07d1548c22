#include "core/placement/node-room.h"

#include <string.h>

#include "core/registry/node-ledger.h"

/* The difference that the request makes, with this part of each of its GPUs. Of the GPUs that have room,
 * binpack takes those with the least free. How many containers a GPU may have is not considered. */
static int64_t part_lost(const struct node_ledger *node, uint32_t part, uint32_t gpus)
{
	uint16_t free_milli[NODE_GPUS_MAX];
	int64_t lost = 0;

	if (part == 0 || part >= 1000)
		return 0;
	memcpy(free_milli, node->sums.gpu_milli, sizeof(free_milli));
	for (uint32_t k = 0; k < gpus; k++) {
		uint32_t best = UINT32_MAX, milli;

		/* What is free on the GPU, and its number in the lowest byte. */
		for (uint32_t i = 0; i < node->facts.n_gpus; i++) {
			uint32_t gpu = free_milli[i] >= part ? (uint32_t)free_milli[i] << 8 | i : UINT32_MAX;

			best = gpu < best ? gpu : best;
		}
		if (best == UINT32_MAX)
			break;
		milli = best >> 8;
		lost += node_order_part_lost(milli - part) - node_order_part_lost(milli);
		free_milli[best & 0xff] = 0;
	}
	return lost;
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
	uint32_t gpus = request_gpus(request), largest = node->sums.largest;
	uint64_t part = largest ? (uint64_t)request_units_per_gpu(request) * 1000 / largest : 0;
	struct host_sum host = node_host_left(node);
	struct node_order_ask ask = {.before = {.cpu_milli = host.cpu_milli,
					     .memory_mib = host.memory_mib,
					     .gpu_milli = node->sums.milli_free},
		.gpus = (uint32_t)node->facts.n_gpus,
		.whole = node->sums.whole,
		.wanted = request_is_empty(request) ? 0 : gpus,
		.host_pod_cpu_milli = request_is_empty(request) && may_serve(node)
					      ? node->facts.host.cpu_milli
					      : 0};

	/* Pods on an unknown GPU count against the node as a whole. */
	if (node->sums.free && node_free_units(node) < node->sums.free)
		ask.before.gpu_milli = (uint32_t)(ask.before.gpu_milli * node_free_units(node) /
						  node->sums.free);
	if (part < request->core * (1000 / CORE_PER_GPU))
		part = request->core * (1000 / CORE_PER_GPU);
	ask.part_lost = part_lost(node, (uint32_t)part, gpus);
	ask.after = ask.before;
	ask.after.cpu_milli -= pod->host.cpu_milli < host.cpu_milli ? pod->host.cpu_milli : host.cpu_milli;
	ask.after.memory_mib -= pod->host.memory_mib < host.memory_mib ? pod->host.memory_mib
								       : host.memory_mib;
	ask.after.gpu_milli = less(ask.before.gpu_milli, part * gpus);
	return ask;
}
