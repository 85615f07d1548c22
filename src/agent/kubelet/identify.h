/* identify.h - matching.h with its I/O: the kubelet's list, and requests to the API server if the watch does
 * not know enough. */
#pragma once

#include <stddef.h>

#include "node/matching.h"

struct kubelet;
struct identification;
struct node_pod;

/* verdict is FOUND or REFUSED; text is the refusal. pod and container may also be set with REFUSED, if they
 * are known. All of it is valid only during the call. */
struct identified {
	enum matching_verdict verdict;
	const struct node_pod *pod;
	const struct container_request *container;
	bool placed;
	bool anew; /* forget the agent's record of this pod first (matching.h) */
	const char *text;
	bool kubelet_silent; /* with REFUSED: the kubelet could not be asked */
};
typedef void (*identify_fn)(void *userdata, const struct identified *result);

/* identify_start() - for a call for this number of whole GPUs, or units. fn is called once, never from within
 * this function. It takes some milliseconds, or up to some seconds if the API server must be asked and does
 * not answer. */
int identify_start(struct kubelet *kubelet, bool whole, size_t n_ids, identify_fn fn, void *userdata,
	struct identification **ret_identification);
void identify_cancel(struct identification *identification); /* accepts NULL */
