/* eviction.h - which pods the eviction API would evict now, and which of them their controllers create again.
 * Pure. */
#pragma once

#include "plan/moves.h"

#define PLAN_WHY_SIZE 160

/* plan_controller() - the ownerReference of the controller, which creates a new pod after an eviction; NULL
 * if the pod has no controller. Borrowed. */
struct json_object *plan_controller(struct json_object *pod);

/* plan_may_evict() - PLAN_RUNS: the pod may be evicted, and its controller creates a new one; PLAN_LOST: it
 * may be evicted, and no controller creates a new one; PLAN_STAYS, PLAN_FORBIDDEN: it may not. ret_why has
 * the reason, unless the result is PLAN_RUNS. spent: uid of a PodDisruptionBudget -> how many evictions of
 * this plan it has seen. -ENOMEM. */
int plan_may_evict(const struct plan_world *world, const struct table *spent, struct json_object *pod,
	char ret_why[PLAN_WHY_SIZE]);

/* plan_spend_budget() - the pod is evicted: its PodDisruptionBudget has seen one more eviction. -ENOMEM. */
int plan_spend_budget(const struct plan_world *world, struct table *spent, struct json_object *pod);
