/* matching-internal.h - what matching.c and matching-totals.c check of a listed pod. */
#pragma once

#include "model/facts.h"
#include "node/matching.h"
#include "node/served.h"

static inline bool asks_for_gpu(const struct matching_pod *pod)
{
	return pod->facts && !pod->asks_otherwise && !request_is_empty(&pod->facts->request);
}

/* The opposite case: the kubelet shows devices, but the agent has served none to this pod. The kubelet does
 * not know yet that the pod which had them was deleted, and the agent already knows the next pod of that
 * name. */
static inline bool is_namesake(const struct matching_pod *pod, const struct served *served)
{
	return pod->lists_devices && !served_knows(served, pod->facts->uid);
}
