/* drain-execute.h - carries out a drain. */
#pragma once

#include "cli/plan/execute.h"

/* drain_execute() - cordons the nodes, evicts the pods of the plan one after the other (execute.h), and waits
 * for their end. Pods that are lost are evicted with the option force only. *ret_at: for each step of the
 * execution, the move; malloc'ed. The sentence of a negative errno says what was done. */
int drain_execute(const struct plan_input *input, const struct plan_options *options,
	const struct plan_moves *moves, struct execution *execution, size_t **ret_at, struct error *err);
