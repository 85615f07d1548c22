/* execute.h - carries out the evictions of a plan, one after the other: `ration plan moves --execute` and
 * `ration plan drain --execute`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "plan/moves.h"

struct error;
struct plan_input;

/* One eviction, and what the plan expects of it. All pointers are borrowed. */
struct planned_eviction {
	struct json_object *pod;
	const char *node;		 /* where the pod is */
	const struct plan_outcome *from; /* its GPUs; NULL: only the node counts */
	enum plan_fate fate;		 /* of the pod that follows it: PLAN_RUNS, _WAITS, _LOST or _NO_GPU */
	const struct plan_outcome *to;	 /* for PLAN_RUNS */
	const struct plan_move *runs;	 /* pods that wait, and that run when this pod is gone */
	size_t n_runs;
	bool holds; /* its GPUs are cordoned until the pod that follows it has its place */
};

enum step_state {
	STEP_NOT_BEGUN, /* its pod is not evicted */
	STEP_UNKNOWN,	/* it is not known whether the API server has evicted its pod */
	STEP_EVICTED,	/* its pod is evicted, and not all that the plan expects has happened */
	STEP_DONE,
};

struct execution {
	struct execution_step {
		enum step_state state;
		char *new_pod; /* the pod that follows the evicted one; NULL: no such pod was seen */
	} * steps;
	size_t n, done;
};
void execution_release(struct execution *execution);

/* execution_set_json() - adds to the plan what has become of it: `done`, `stopped` (NULL: it was not), and
 * `state` and `newPod` to the items of the list. at: the item of each step; NULL: the steps are the items.
 * -ENOMEM. */
int execution_set_json(const struct execution *execution, const char *stopped, struct json_object *root,
	struct json_object *list, const size_t *at);

/* The caller's words for messages about the steps. */
struct execution_words {
	const char *steps;  /* "moves" */
	const char *advice; /* what to do after a surprise */
};

/* plan_execute() - evicts the pod of each step, and waits until its new pod and the pods that the step lets
 * run are as the plan expects. Tells each step on standard output, with JSON on standard error. Stops at the
 * first surprise and at SIGINT or SIGTERM: a negative errno, with a sentence that says what happened and what
 * to do next. GPUs that it has cordoned are uncordoned in any case. */
int plan_execute(const struct plan_input *input, const struct planned_eviction *steps, size_t n,
	const struct execution_words *words, struct execution *execution, struct error *err);

/* drain_execute() - cordons the nodes, evicts the pods of the plan one after the other, and waits
 * for their end. Pods that are lost are evicted with the option force only. *ret_at: for each step of the
 * execution, the move; malloc'ed. The sentence of a negative errno says what was done. */
int drain_execute(const struct plan_input *input, const struct plan_moves *moves, struct execution *execution,
	size_t **ret_at, struct error *err);
