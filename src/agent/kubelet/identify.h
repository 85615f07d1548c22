/* identify.h - matching.h with its I/O: the kubelet's list, and the API server where our watch does not know
 * enough. */
#pragma once

#include <stddef.h>

#include "node/matching.h"

struct kubelet;
struct identification;
struct node_pod;

/* verdict is FOUND or REFUSED; text is the refusal. pod and container may be given with REFUSED too, where
 * they are known. All of it is valid during the call only. */
struct identified {
	enum matching_verdict verdict;
	const struct node_pod *pod;
	const struct container_request *container;
	bool placed;
	bool anew; /* forget our record of this pod first (matching.h) */
	const char *text;
	bool kubelet_silent; /* with REFUSED: the kubelet could not be asked */
};
typedef void (*identify_fn)(void *userdata, const struct identified *result);

/* identify_start() - of a call for so many whole GPUs, or units. fn is called once, never from within. Takes
 * some milliseconds; up to some seconds when the API server has to be asked and is away. */
int identify_start(struct kubelet *kubelet, bool whole, size_t n_ids, identify_fn fn, void *userdata,
	struct identification **ret_identification);
void identify_cancel(struct identification *identification); /* accepts NULL */
