#include "plan/node-change.h"

#include <errno.h>
#include <stdio.h>

#include "core/core.h"
#include "core/events.h"
#include "core/registry/node-ledger.h"
#include "kube/names.h"

/* The node shares its GPUs, so it has no links, which node_ledger_facts() leaves out. */
static int set_health(struct plan_world *world, const char *name, uint64_t gpus, bool healthy)
{
	struct node_facts facts;

	if (!gpus)
		return 0;
	node_ledger_facts(ledger_node(&world->core->ledger, name), &facts);
	for (size_t i = 0; i < facts.n_gpus; i++)
		if (gpus & UINT64_C(1) << i)
			facts.gpus[i].healthy = healthy;
	return core_see_node(world->core, &facts);
}

int plan_cordon_gpus(
	struct plan_world *world, const char *name, const struct placement *placement, uint64_t *ret_gpus)
{
	const struct node_ledger *node = ledger_node(&world->core->ledger, name);
	const struct gpu_share *shares[NODE_GPUS_MAX];
	size_t n = node && placement ? placement_gpus(placement, shares) : 0;

	*ret_gpus = 0;
	for (size_t i = 0; i < n; i++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(node, shares[i]->uuid);

		if (gpu && gpu->facts.healthy)
			*ret_gpus |= UINT64_C(1) << (gpu - node->gpus);
	}
	return set_health(world, name, *ret_gpus, false);
}

int plan_uncordon_gpus(struct plan_world *world, const char *name, uint64_t gpus)
{
	return set_health(world, name, gpus, true);
}

enum plan_unit_fate plan_unit_fate(const struct node_ledger *node, uint32_t unit_mib)
{
	enum gpu_mode mode = node->facts.mode;

	if (!node->facts.n_gpus || node->facts.unit_mib == unit_mib ||
		(mode != GPU_MODE_SHARE && mode != GPU_MODE_CGPU && mode != GPU_MODE_CORE_MEM))
		return PLAN_UNIT_SAME;
	return list_empty(&node->pods) ? PLAN_UNIT_NOW : PLAN_UNIT_LATER;
}

/* Updates the number of device ids, which kube-scheduler's filter compares. */
static int advertise(struct plan_world *world, const struct node_facts *facts)
{
	struct kube_node *kube = world->kube ? kube_nodes_find(world->kube, facts->name) : NULL;
	int64_t units = 0;

	for (size_t i = 0; i < facts->n_gpus; i++)
		if (facts->gpus[i].healthy)
			units += gpu_mode_units(facts->mode, facts->gpus[i].mib, facts->unit_mib);
	return kube ? quantities_set(&kube->allocatable, RESOURCE_GPU_MEM, units * 1000) : 0;
}

int plan_set_unit(struct plan_world *world, struct node_ledger *node, uint32_t unit_mib)
{
	uint32_t before = gpu_instances_max(node->facts.mode, node->facts.unit_mib, 0);
	struct node_facts facts;

	node_ledger_facts(node, &facts);
	facts.unit_mib = unit_mib;
	facts.changing = false;
	/* A maximum that the chart sets does not depend on the unit. */
	if (facts.instances_max == before)
		facts.instances_max = gpu_instances_max(facts.mode, unit_mib, 0);
	if (core_see_node(world->core, &facts) < 0)
		return -ENOMEM;
	return advertise(world, &facts);
}

int plan_close_node(struct plan_world *world, struct node_ledger *node)
{
	struct node_facts facts;

	node_ledger_facts(node, &facts);
	facts.changing = true;
	return core_see_node(world->core, &facts) < 0 ? -ENOMEM : 0;
}
