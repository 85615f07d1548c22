/* requeue-internal.h - types that requeue.c (which pods wait) and requeue-look.c (which of them are requeued)
 * share. */
#pragma once

#include "base/clock.h"
#include "core/requeue.h"
#include "model/facts.h"

/* The back-off: 1 s after the first requeue, then twice as long after each. kube-scheduler itself waits 1 s
 * to 10 s between two attempts at a pod, so an earlier requeue would find the pod still waiting there. */
#define BACKOFF_FIRST_NS NS_PER_S
/* The longest back-off. It is for pods that kube-scheduler does not ask about, because its own filters reject
 * them whatever is freed. Of a thousand such pods, 17 are requeued each second. */
#define BACKOFF_LAST_NS (60 * NS_PER_S)
/* The longest back-off of a pod that kube-scheduler asks about and that still waits for its unit or its gang.
 * Other pods were faster, but the next place may be for this pod, so it does not wait long. */
#define BACKOFF_ASKED_NS (8 * NS_PER_S)
/* A pod that is new, or was found, may be in kube-scheduler's queue. kube-scheduler has usually asked about
 * it after this time, counted again from each first question about a found pod. */
#define ASKS_BY_ITSELF_NS NS_PER_S
/* Between two requeues of pods that an eviction may help, over all pods. */
#define HOPE_NS NS_PER_S
/* A pod that kube-scheduler never asked this process about may belong to another scheduler. */
#define FOUND_REQUEUES_MAX 3

#define NEVER UINT64_MAX /* a ledger never has this generation */

/* One reason for which a pod may wait. */
struct requeue_wait {
	bool waits;
	bool may_succeed; /* something was freed: an attempt is worth it after the back-off */
	int64_t since_ns;
	int64_t due_ns; /* an appointment: from then on an attempt is worth it, regardless of the back-off; 0:
			   none */
};

struct requeue_pod {
	struct pod_facts
		facts; /* complete if it waits for room, else only uid, namespace, name and priority */
	struct requeue_wait waits[REQUEUE_REASONS];
	uint64_t order;	      /* rises with each pod that is added to the list */
	bool asked;	      /* kube-scheduler has asked about it, and it still waits */
	int64_t asked_ns;     /* when kube-scheduler last asked; else when the pod was found */
	uint64_t rejected_at; /* for room: the ledger's generation at the last call of filter */
	bool may_evict;	      /* for room: requeue_list_may_evict() was called */
	uint64_t freed; /* for a unit: the number at the policy's last answer, or the last one reported */
	bool has_place; /* for a gang: a place is held for it, and kube-scheduler has not asked since */
	uint32_t requeues;
	uint32_t in_vain; /* requeues since kube-scheduler last asked */
	int64_t not_before_ns, backoff_ns;
};

void requeue_pod_free(struct requeue_pod *pod); /* accepts NULL */
