#include "plan/node-change.h"

#include "core/core.h"
#include "core/registry/node-ledger.h"

static void set_health(struct plan_world *world, struct node_ledger *node, uint64_t gpus, bool healthy)
{
	for (size_t i = 0; i < node->facts.n_gpus; i++)
		if (gpus & UINT64_C(1) << i)
			node->gpus[i].facts.healthy = healthy;
	node_ledger_recount(node);
	world->core->ledger.generation++;
	world->core->ledger.capacity++;
}

uint64_t plan_cordon_gpus(struct plan_world *world, const char *name, const struct placement *placement)
{
	struct node_ledger *node = table_get(&world->core->ledger.nodes, name);
	const struct gpu_share *shares[NODE_GPUS_MAX];
	size_t n = node && placement ? placement_gpus(placement, shares) : 0;
	uint64_t gpus = 0;

	for (size_t i = 0; i < n; i++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(node, shares[i]->uuid);

		if (gpu && gpu->facts.healthy)
			gpus |= UINT64_C(1) << (gpu - node->gpus);
	}
	if (gpus)
		set_health(world, node, gpus, false);
	return gpus;
}

void plan_uncordon_gpus(struct plan_world *world, const char *name, uint64_t gpus)
{
	if (gpus)
		set_health(world, table_get(&world->core->ledger.nodes, name), gpus, true);
}
