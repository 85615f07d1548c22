/* budget.h - PodDisruptionBudget objects to the model. */
#pragma once

struct budget;
struct error;
struct json_object;

/* budget_from_json() - policy/v1. A selector that cannot be understood selects nothing, as in the API server;
 * so does none at all. -EINVAL without uid, name or namespace; -ENOMEM. The caller frees *ret_budget. */
int budget_from_json(struct json_object *object, struct budget **ret_budget, struct error *err);
