/* matching.h - "Which pod is this Allocate for?" The kubelet does not say. But it admits one pod at a time,
 * and a pod enters its list only when its turn comes (kubelet 1.36.3, kubelet.go:2837 ff.): while Allocate
 * runs, PodResources lists the pod in question and no other pod that still lacks its devices.
 *
 * Pure: no I/O, no clock. */
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
	const struct pod_facts
		*facts;	     /* the pod with that name as the API server last showed it; NULL: unknown */
	bool fresh;	     /* facts (or their absence) are from a GET for this call */
	bool asks_otherwise; /* it asks for the other kind (units or whole GPUs): the call is not for it */
	bool is_static;	     /* from a file on the node: its annotations cannot be trusted */
	bool lists_devices;  /* PodResources shows ids of this resource for it */
	bool has_grant;	     /* there is a CDI file for facts->uid */
	bool may_return; /* another pod can get this name later, because the API server did not generate it */
	bool had_turn;	 /* the kubelet admitted it before the pod of this call (turn.h) */
	uint64_t runs;	 /* bit i: request.containers[i] runs, by its status */
	/* Bit i: the kubelet does not ask for request.containers[i] of the pod with this uid, because it runs
	 * by the word of the container runtime, which was asked for this call. 0: not asked, no answer. */
	uint64_t runs_now;
	bool unanswered; /* the GET for this call failed: facts are as old as before */
};

enum matching_verdict {
	MATCHING_FOUND,
	MATCHING_ASK,	  /* get the pods marked in ret_ask from the API server, then decide again */
	MATCHING_REFUSED, /* the call cannot succeed; err has the sentence. If the container runtime has not
			   * been asked yet, ask it and decide again: it may exclude pods. */
};

struct matching {
	size_t pod; /* index into pods */
	const struct container_request *container;
	bool placed; /* the pod has a placement that names this container */
	bool anew; /* the agent's record of this pod belongs to an earlier pod of its name: forget it first */
	bool alone; /* no other listed pod can be meant (turn_took()) */
};

/* matching_decide() - the pod and container of a call for n_ids devices. ret_ask: n flags, valid with
 * MATCHING_ASK only. *ret is valid with MATCHING_FOUND only; err with MATCHING_REFUSED only. */
enum matching_verdict matching_decide(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, bool *ret_ask, struct matching *ret, struct error *err);

/* matching_check_totals() - the last check: would the found pod, together with the listed pods that were
 * served, exceed the total of a GPU? FOUND: it fits (or names GPUs that are not among `gpus`). ASK: the known
 * total is too large, but some of those pods were not asked for yet, or it is unknown whose devices a listed
 * pod has. REFUSED: it does not fit. Pods that are gone from the API server are checked by room_check(). */
enum matching_verdict matching_check_totals(const struct matching_pod *pods, size_t n,
	const struct matching *found, const struct served *served, const struct gpu_facts *gpus,
	size_t n_gpus, uint32_t unit_mib, bool *ret_ask, struct error *err);

/* matching_answer() - both in order, for Allocate and GetPreferredAllocation. ret->container is NULL unless
 * the pod is known, also with MATCHING_REFUSED. */
enum matching_verdict matching_answer(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, const struct gpu_facts *gpus, size_t n_gpus, uint32_t unit_mib,
	bool *ret_ask, struct matching *ret, struct error *err);
