/* matching.h - "Which pod is this Allocate for?" The kubelet does not say. But it admits one pod at a time
 * and puts a pod into its own list only when its turn comes (kubelet 1.36.3, kubelet.go:2837 ff.): while
 * Allocate runs, PodResources lists the pod in question and no other pod that still lacks its devices.
 *
 * Pure: no I/O, no clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct container_request;
struct gpu_facts;
struct pod_facts;
struct served;

/* One pod that PodResources lists. */
struct matching_pod {
	const char *namespace_, *name;
	const struct pod_facts *facts; /* by that name, as the API server last showed it; NULL: unknown */
	bool fresh;		       /* facts (or their absence) were asked for this very call */
	bool asks_otherwise;	       /* for the other one of units and whole GPUs: the call is not its */
	bool is_static;		       /* from a file on the node: its annotations are nobody's word */
	bool lists_devices;	       /* PodResources shows ids of our resource in it */
	bool has_grant;		       /* there is a CDI file for facts->uid */
	bool may_return; /* another pod can have this name later: it was not drawn by the API server */
	bool had_turn;	 /* the kubelet has admitted it before the pod that the call is for (turn.h) */
	uint64_t runs;	 /* bit i: by its status request.containers[i] runs */
	bool unanswered; /* asked for this very call, in vain: facts are as old as before */
};

enum matching_verdict {
	MATCHING_FOUND,
	MATCHING_ASK,	  /* first get the pods marked in ret_ask from the API server, then decide again */
	MATCHING_REFUSED, /* the call can never succeed; the sentence is in the error */
};

struct matching {
	size_t pod; /* index into pods */
	const struct container_request *container;
	bool placed; /* the pod has a placement that names this container */
	bool anew;   /* what our record says of this pod was another's of its name: forget it first */
};

/* matching_decide() - the pod and container of a call for n_ids devices. ret_ask: n flags, valid with
 * MATCHING_ASK only. *ret is valid with MATCHING_FOUND only; err with MATCHING_REFUSED only. */
enum matching_verdict matching_decide(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, bool *ret_ask, struct matching *ret, struct error *err);

/* matching_check_totals() - the last line of defence: would the found pod, together with the listed pods that
 * were served, take a GPU over its total? FOUND: it fits (or names GPUs that are not among `gpus`); ASK:
 * too much by what we know, but some of those pods were not asked for yet, or whose devices a listed pod has
 * is not known; REFUSED. Pods that the API server has forgotten are room_check()'s. */
enum matching_verdict matching_check_totals(const struct matching_pod *pods, size_t n,
	const struct matching *found, const struct served *served, const struct gpu_facts *gpus,
	size_t n_gpus, uint32_t unit_mib, bool *ret_ask, struct error *err);

/* matching_answer() - both, in order: what Allocate and GetPreferredAllocation ask. ret->container is NULL
 * unless the pod is known, also with MATCHING_REFUSED. */
enum matching_verdict matching_answer(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, const struct gpu_facts *gpus, size_t n_gpus, uint32_t unit_mib,
	bool *ret_ask, struct matching *ret, struct error *err);
