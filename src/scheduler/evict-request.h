/* evict-request.h - the three writes of an eviction: each one request, answered once. */
#pragma once

#include <stdbool.h>

#include "kube/client.h"

struct error;
struct pod_facts;
struct kube_client;

/* evict_request() - pods/eviction with the pod's uid as precondition. PodDisruptionBudgets hold (429). */
int evict_request(
	struct kube_client *client, const struct pod_facts *victim, kube_response_fn fn, void *userdata);

/* evict_was_accepted() - also a 201 may carry a refusal: a Status that is no success (1.36.3: a pod with more
 * than one budget). *ret_reason is the server's sentence if not. */
bool evict_was_accepted(const struct kube_response *response, struct error *ret_reason);

/* mark_preempted_request() - the condition by which kube-scheduler knows pods that leave for a nominated one
 * (DisruptionTarget, PreemptionByScheduler), in place of the one that the eviction API sets. */
int mark_preempted_request(
	struct kube_client *client, const struct pod_facts *victim, kube_response_fn fn, void *userdata);

/* nominate_request() - status.nominatedNodeName; node "" clears it. */
int nominate_request(struct kube_client *client, const struct pod_facts *pod, const char *node,
	kube_response_fn fn, void *userdata);
