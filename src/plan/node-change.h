/* node-change.h - changes of a node in a plan: cordoned GPUs, another unit of GPU memory. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/registry/registry.h"
#include "plan/place.h"

/* plan_cordon_gpus() - lets the GPUs of this placement (NULL: none) take no new pods, as after `ration
 * cordon`. They must be on a node that shares its GPUs. *ret_gpus: those that were not cordoned before, as a
 * set of positions, for plan_uncordon_gpus(). -ENOMEM. */
int plan_cordon_gpus(
	struct plan_world *world, const char *node, const struct placement *placement, uint64_t *ret_gpus);
int plan_uncordon_gpus(struct plan_world *world, const char *node, uint64_t gpus);

/* What a change of the unit means for one node. */
enum plan_unit_fate {
	PLAN_UNIT_SAME,	 /* it has this unit, or gives GPUs as a whole, or has none */
	PLAN_UNIT_NOW,	 /* it has no GPU pods, so the unit changes at once */
	PLAN_UNIT_LATER, /* it keeps its unit until its last GPU pod has ended, and takes no new ones */
};

/* plan_unit_fate() - by the pods that the node has now. plan_set_unit() - gives the node this unit, and the
 * number of device ids that follows. plan_close_node() - lets it take no new GPU pods. -ENOMEM. */
enum plan_unit_fate plan_unit_fate(const struct node_ledger *node, uint32_t unit_mib);
int plan_set_unit(struct plan_world *world, struct node_ledger *node, uint32_t unit_mib);
int plan_close_node(struct plan_world *world, struct node_ledger *node);
