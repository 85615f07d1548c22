/* filter.h - which nodes a pod is offered, and in which order. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policies.h"
#include "core/registry/ledger.h"

struct core;
struct pod_facts;

/* How a question of filter ends. */
enum filter_outcome {
	FILTER_FITS,
	FILTER_NO_NODE,	    /* all nodes have a reason not to fit */
	FILTER_GANG,	    /* the pod waits for its gang, or for room for all of it */
	FILTER_NOT_OURS,    /* the pod asks for no GPU of ours: all nodes pass */
	FILTER_IN_DOUBT,    /* the outcome of the pod's last Binding is not known */
	FILTER_NOT_OWNER,   /* another scheduler owns the ledger: never in a struct filter_answer */
	FILTER_NOT_READY,   /* the cluster is not read yet: likewise */
	FILTER_BAD_REQUEST, /* likewise */
	FILTER_FAILED,	    /* out of memory */
	FILTER_RESULT_MAX,
};

struct filter_question {
	const struct pod_facts *pod;
	struct policy_asked policy;
	const char *const *names; /* of nodes */
	size_t n;
	size_t best; /* how many nodes are offered at most; 0: all that fit */
};

struct filter_answer {
	enum filter_outcome outcome;
	/* FILTER_GANG, FILTER_IN_DOUBT: why; valid until the next event, and while this struct stays where it
	 * is. */
	const char *text;
	/* FILTER_FITS: the offered nodes, best first, where the GPU of the first is held. */
	const struct node_ledger **nodes; /* malloc'ed; the nodes are valid until the next event */
	size_t n_nodes, n_fitting;
	bool planned;		       /* it is the only node, by the plan of the pod's gang */
	struct node_verdict *verdicts; /* malloc'ed; FILTER_FITS and FILTER_NO_NODE: one for each name */
	uint32_t reject_reasons[REJECT_MAX]; /* how many nodes have it */
	int hold_error;			     /* why no GPU is held, as decide_hold() says it; 0: one is */
	int requeue_error; /* -ENOMEM, -E2BIG: the pod will not be requeued when there is room; else 0 */
	/* FILTER_NO_NODE: the node for which the pod is nominated, if a pod there is about to go; else NULL.
	 * Such a node is not unresolvable: then kube-scheduler keeps the nomination and looks for no other
	 * victims (PodEligibleToPreemptOthers, 1.36.3). */
	const struct node_ledger *waits_for;
	struct policy_decision policy;
};
void filter_answer_release(struct filter_answer *answer);
#define _cleanup_filter_answer_ _cleanup_(filter_answer_release)

/* core_filter() - kube-scheduler asks for the pod. The GPU of the best node is held until bind, here and not
 * in prioritize, which kube-scheduler skips when one node is left. If the hold fails, that costs a failed
 * bind at worst, never a wrong GPU. Where no node fits, pods of lower priority may be evicted (evicting.h).
 */
void core_filter(struct core *core, const struct filter_question *question, int64_t now_ns,
	struct filter_answer *ret_answer);

/* core_prioritize() - scores, one for each name: 10 for the best node, at most 9 for the others, so that our
 * order decides; 0 for nodes that are not known and for all after the tenth. -ENOMEM. */
int core_prioritize(
	struct core *core, const struct pod_facts *pod, const char *const *names, size_t n, int *ret_scores);
