/* eviction.h - asking the API server to evict a pod. */
#pragma once

#include <stdbool.h>

#include "kube/client.h"

struct error;

/* eviction_request() - pods/eviction with the pod's uid as precondition. PodDisruptionBudgets hold (429). */
int eviction_request(struct kube_client *client, const char *namespace_, const char *name, const char *uid,
	kube_response_fn fn, void *userdata);

/* eviction_was_accepted() - also a 201 may carry a refusal: a Status that is no success (1.36.3: a pod with
 * more than one budget). *ret_reason is the server's sentence if not. */
bool eviction_was_accepted(const struct kube_response *response, struct error *ret_reason);
