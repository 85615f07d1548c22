/* evict-request.h - what is written beside an eviction (kube/eviction.h): each one request, answered once. */
#pragma once

#include "kube/client.h"

struct pod_facts;
struct kube_client;

/* mark_preempted_request() - the condition by which kube-scheduler knows pods that leave for a nominated one
 * (DisruptionTarget, PreemptionByScheduler), in place of the one that the eviction API sets. */
int mark_preempted_request(
	struct kube_client *client, const struct pod_facts *victim, kube_response_fn fn, void *userdata);

/* nominate_request() - status.nominatedNodeName; node "" clears it. */
int nominate_request(struct kube_client *client, const struct pod_facts *pod, const char *node,
	kube_response_fn fn, void *userdata);
