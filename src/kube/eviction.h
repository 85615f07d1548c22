/* eviction.h - asks the API server to evict a pod; converts PodDisruptionBudget objects to the model. */
#pragma once

#include <stdbool.h>

#include "kube/client.h"

struct budget;
struct error;
struct json_object;

/* eviction_request() - pods/eviction with the pod's uid as precondition. PodDisruptionBudgets apply (429). */
int eviction_request(struct kube_client *client, const char *namespace_, const char *name, const char *uid,
	kube_response_fn fn, void *userdata);

/* eviction_was_accepted() - false also for a 201 with a refusal: a Status that is not a success (1.36.3: a
 * pod with more than one budget). *ret_reason has the server's sentence then. */
bool eviction_was_accepted(const struct kube_response *response, struct error *ret_reason);

/* budget_from_json() - policy/v1. An invalid selector selects nothing, as in the API server; so does an
 * absent one. -EINVAL without uid, name or namespace; -ENOMEM. The caller frees *ret_budget. */
int budget_from_json(struct json_object *object, struct budget **ret_budget, struct error *err);
