/* metrics.h - what ration-scheduler counts. */
#pragma once

#include <stdint.h>

#include "base/metrics.h"
#include "core/bind.h"
#include "core/filter.h"
#include "core/placement/choose.h"

enum preempt_outcome {
	PREEMPT_NODE,	   /* victims on one node, where GPUs are kept for the pod */
	PREEMPT_NO_NODE,   /* nobody's going would free a GPU */
	PREEMPT_GANG,	   /* the pod's gang has not started: nobody goes for a part of it */
	PREEMPT_OWN,	   /* pods are evicted for it by us already */
	PREEMPT_NOT_OURS,  /* the pod asks for no GPU of ours */
	PREEMPT_NOT_OWNER, /* another scheduler owns the ledger */
	PREEMPT_NOT_READY, /* the cluster is not read yet */
	PREEMPT_BAD_REQUEST,
	PREEMPT_FAILED, /* out of memory */
	PREEMPT_RESULT_MAX,
};

/* What a search for victims of our own came to. */
enum search_outcome {
	SEARCH_PLANNED,
	SEARCH_PROTECTED, /* PodDisruptionBudgets protect all that would help */
	SEARCH_NOBODY,	  /* nobody's going would free a GPU */
	SEARCH_RESULT_MAX,
};

/* How the API server answered to one eviction. */
enum eviction_outcome {
	EVICTION_ACCEPTED,
	EVICTION_GONE,	  /* the pod was not there any more */
	EVICTION_REFUSED, /* by a budget mostly */
	EVICTION_AGAIN,	  /* no clear answer, it is asked again */
	EVICTION_RESULT_MAX,
};

/* How it ended, for one pod, after victims were chosen. */
enum attempt_outcome {
	ATTEMPT_BOUND,
	ATTEMPT_GONE,	 /* the pod has ended, or is being deleted */
	ATTEMPT_REFUSED, /* no node is left whose pods may go */
	ATTEMPT_STUCK,	 /* evicted pods did not end in time */
	ATTEMPT_UNUSED,	 /* the pod was not bound to the GPU that was freed */
	ATTEMPT_RESULT_MAX,
};

struct scheduler_metrics {
	struct histogram filter, prioritize, bind, preempt;
	uint64_t preempt_results[PREEMPT_RESULT_MAX];
	uint64_t eviction_searches[SEARCH_RESULT_MAX];
	uint64_t evictions[EVICTION_RESULT_MAX];
	uint64_t eviction_attempts[ATTEMPT_RESULT_MAX];
	uint64_t filter_results[FILTER_RESULT_MAX];
	uint64_t filter_reject_reasons[REJECT_MAX]; /* nodes that filter rejected, by reason */
	uint64_t prioritize_bad_requests;
	uint64_t bind_results[BIND_RESULT_MAX];
	uint64_t requeues;   /* waiting pods that were touched */
	uint64_t resizes[2]; /* answers to requests for another size: refused, applied */
};
