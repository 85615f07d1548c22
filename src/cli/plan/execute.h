/* execute.h - carries out the moves of a plan, one after the other. */
#pragma once

#include <stddef.h>

struct error;
struct plan_input;
struct plan_options;
struct relocations;

enum move_state {
	MOVE_NOT_BEGUN, /* its pod is not evicted */
	MOVE_UNKNOWN,	/* it is not known whether the API server has evicted its pod */
	MOVE_EVICTED,	/* its pod is evicted, and not all that the plan expects has happened */
	MOVE_DONE,
};

struct execution {
	struct execution_move {
		enum move_state state;
		char *new_pod; /* the pod that follows the evicted one; NULL: none was seen */
	} * moves;
	size_t n, done;
};
void execution_release(struct execution *execution);

/* plan_execute() - evicts the pod of each move, and waits until its new pod and the pods that the move lets
 * run are bound where the plan expects them. Tells each step on standard output, with JSON on standard error.
 * Stops at the first surprise and at SIGINT or SIGTERM: a negative errno, with a sentence that says what
 * happened and what to do next. */
int plan_execute(const struct plan_input *input, const struct plan_options *options,
	const struct relocations *moves, struct execution *execution, struct error *err);
