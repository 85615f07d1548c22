/* requeue-internal.h - what requeue.c (which pods wait) and requeue-look.c (which of them are requeued)
 * share.
 */
#pragma once

#include "base/clock.h"
#include "core/requeue.h"
#include "model/facts.h"

/* The back-off: 1 s after the first requeue, then twice as long after each. kube-scheduler itself waits 1 s
 * to 10 s between two attempts at a pod, so that earlier requeues would find it waiting still. */
#define BACKOFF_FIRST_NS NS_PER_S
/* kube-scheduler does not even ask about the pod: its own filters reject it, whatever is freed. Of a thousand
 * such pods 17 are requeued each second. */
#define BACKOFF_LAST_NS (60 * NS_PER_S)
/* kube-scheduler asks, and the pod still waits for its unit or its gang: other pods were faster. The next
 * place may be its own, so it does not wait for long. */
#define BACKOFF_ASKED_NS (8 * NS_PER_S)
/* A new pod is in kube-scheduler's queue, and mostly asked about by then. */
#define ASKS_BY_ITSELF_NS NS_PER_S
/* Between two requeues for evictions that may help, of all pods together. */
#define HOPE_NS NS_PER_S
/* A pod that kube-scheduler never asked this process about may be another scheduler's. */
#define FOUND_REQUEUES_MAX 3

#define NEVER UINT64_MAX /* no generation of a ledger */

/* One of the things that a pod may wait for. */
struct requeue_wait {
	bool waits;
	bool may_succeed; /* something was freed: an attempt is worth it once the back-off is over */
	int64_t since_ns;
	int64_t due_ns; /* an appointment: from then on an attempt is worth it, back-off or not; 0: none */
};

struct requeue_pod {
	struct pod_facts
		facts; /* complete if it waits for room, else uid, namespace, name and priority only */
	struct requeue_wait waits[REQUEUE_REASONS];
	uint64_t order;	      /* of pods in the list, by who came first */
	bool asked;	      /* kube-scheduler has asked about it, in vain */
	int64_t asked_ns;     /* when it did last; else when the pod was found */
	uint64_t rejected_at; /* room: ledger generation when filter looked last */
	bool may_evict;	      /* room: requeue_list_may_evict() */
	uint64_t freed; /* unit: as reported when the policy was asked last, or when it was freed last */
	bool has_place; /* gang: a place is held for it, and kube-scheduler has not asked since */
	uint32_t requeues;
	uint32_t in_vain; /* of them, since kube-scheduler asked last */
	int64_t not_before_ns, backoff_ns;
};

void requeue_pod_free(struct requeue_pod *pod); /* accepts NULL */
