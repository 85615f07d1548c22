/* change.h - what becomes of pods when the unit of GPU memory or a ResourcePolicy changes: those that run
 * stay as they are, those that wait are tried, and those that run are created again. Pure. */
#pragma once

#include "core/policy/policy.h"
#include "plan/moves.h"
#include "plan/node-change.h"

struct plan_change {
	struct plan_moves waiting; /* the pods that wait, after the change */
	/* The pods that run and that the change concerns, when all of them have ended and are created again;
	 * by priority, namespace and name. before: where each of them is now. */
	struct plan_moves again;
	struct plan_outcome *before;
	/* The nodes that share GPUs, by name, for a change of the unit. */
	struct plan_unit_change {
		const char *node; /* borrowed from the core */
		uint32_t from_mib;
		size_t pods;
		enum plan_unit_fate fate;
	} * nodes;
	size_t n_nodes;
};
void plan_change_release(struct plan_change *change);

/* plan_change_unit() - the chart's gpuMemoryUnit becomes this. First nodes without GPU pods have the new
 * unit, the others take no new GPU pods, and the pods that wait are tried. Then the pods of the other nodes
 * are created again, with the new unit. -ENOMEM, or a negative errno with a sentence. */
int plan_change_unit(struct plan_world *world, struct json_object *const *pods, size_t n, uint32_t unit_mib,
	struct plan_change *change, struct error *err);

/* plan_change_policy() - the ResourcePolicy is created, or replaces the one of its namespace and name; it is
 * taken over in any case. pods: all Pod objects, at least those of its namespace. */
int plan_change_policy(struct plan_world *world, struct json_object *const *pods, size_t n,
	struct resource_policy *policy, struct plan_change *change, struct error *err);
