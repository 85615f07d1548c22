/* replay-plan.h - a plan of a gang read from a history, made again, and what its pods are to hold. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/gang/gang-plan.h"
#include "model/facts.h"

struct error;
struct json_object;

struct replay_plan {
	struct gang_slot *slots;
	struct pod_facts *pods;
	struct table *tables; /* of names of nodes, for the slots */
	size_t n, n_tables, needed;
	bool computed; /* false: the history does not say which nodes there were */
};

void replay_plan_clear(struct replay_plan *plan);

/* replay_plan_compute() - from the line of the history. Returns how many pods have room, -EINVAL with a
 * sentence for what is no plan. If it cannot be computed, plan->computed is false and 0 is returned. */
int replay_plan_compute(
	struct ledger *ledger, struct json_object *line, struct replay_plan *plan, struct error *err);

/* replay_plan_slot() - what this pod is to hold; NULL: it is not in the plan. */
const struct gang_slot *replay_plan_slot(const struct replay_plan *plan, const char *uid);
