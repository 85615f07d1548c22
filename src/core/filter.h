/* filter.h - which nodes a pod is offered, and in which order. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policies.h"
#include "core/registry/ledger.h"

struct core;
struct pod_facts;

/* How a call of filter ends. */
enum filter_outcome {
	FILTER_FITS,
	FILTER_NO_NODE,	    /* each node has a reason not to fit */
	FILTER_GANG,	    /* the pod waits for its gang, or for room for the whole gang */
	FILTER_NOT_OURS,    /* the pod asks for no GPU of ration: all nodes pass */
	FILTER_IN_DOUBT,    /* the outcome of the pod's last Binding is unknown */
	FILTER_NOT_OWNER,   /* another scheduler owns the ledger; never in a struct filter_answer */
	FILTER_NOT_READY,   /* the cluster is not read yet; never in a struct filter_answer */
	FILTER_BAD_REQUEST, /* the call was not valid; never in a struct filter_answer */
	FILTER_FAILED,	    /* out of memory */
	FILTER_RESULT_MAX,
};

struct filter_question {
	const struct pod_facts *pod;
	struct policy_asked policy;
	const char *const *names; /* names of nodes */
	size_t n;
	size_t best; /* how many nodes are offered at most; 0: all that fit */
};

struct filter_answer {
	enum filter_outcome outcome;
	/* The reason for FILTER_GANG and FILTER_IN_DOUBT. Valid until the next event, and while this struct
	 * is not moved. */
	const char *text;
	/* FILTER_FITS: the offered nodes, best first. The GPU of the first one is held. */
	const struct node_ledger **nodes; /* malloc'ed; the nodes are valid until the next event */
	size_t n_nodes, n_fitting;
	/* FILTER_FITS: the node that would be first if its GPU model were not scarce; else NULL. */
	const struct node_ledger *spared;
	bool planned;		       /* there is only this node, by the plan of the pod's gang */
	struct node_verdict *verdicts; /* malloc'ed; FILTER_FITS and FILTER_NO_NODE: one for each name */
	uint32_t reject_reasons[REJECT_MAX]; /* by reason: how many nodes have it */
	int hold_error;	   /* why no GPU is held, as decide_hold() returns it; 0: one is held */
	int requeue_error; /* -ENOMEM, -E2BIG: the pod will not be requeued when there is room; else 0 */
	/* FILTER_NO_NODE: the node for which the pod is nominated, if a pod there is about to go; else NULL.
	 * Such a node does not count as unresolvable. Then kube-scheduler keeps the nomination and searches
	 * no other victims (PodEligibleToPreemptOthers, 1.36.3). */
	const struct node_ledger *waits_for;
	struct policy_decision policy;
};
void filter_answer_release(struct filter_answer *answer);
#define _cleanup_filter_answer_ _cleanup_(filter_answer_release)

/* core_filter() - a call of filter. The GPU of the best node is held until bind. This happens here and not in
 * prioritize, which kube-scheduler skips if one node is left. If the hold fails, that costs a failed bind at
 * worst, never a wrong GPU. If no node fits, pods of lower priority may be evicted (evicting.h). */
void core_filter(struct core *core, const struct filter_question *question, int64_t now_ns,
	struct filter_answer *ret_answer);

/* core_prioritize() - scores, one for each name: 10 for the best node, which is the one with a hold for the
 * pod, 9 for the next one, and so on. The score is 0 for unknown nodes and for all after the tenth. -ENOMEM.
 */
int core_prioritize(
	struct core *core, const struct pod_facts *pod, const char *const *names, size_t n, int *ret_scores);
