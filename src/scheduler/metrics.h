/* metrics.h - what ration-scheduler counts, and the page /metrics. Names: docs/internals/metrics.md. */
#pragma once

#include <stdint.h>

#include "base/metrics.h"
#include "model/placement.h"

struct scheduler;

enum filter_outcome {
	FILTER_FITS,
	FILTER_NO_NODE,	  /* all nodes have a reason not to fit */
	FILTER_NOT_OURS,  /* the pod asks for no GPU of ours */
	FILTER_IN_DOUBT,  /* the outcome of the pod's last Binding is not known */
	FILTER_NOT_OWNER, /* another scheduler owns the ledger */
	FILTER_NOT_READY, /* the cluster is not read yet */
	FILTER_BAD_REQUEST,
	FILTER_FAILED, /* out of memory */
	FILTER_RESULT_MAX,
};

enum bind_outcome {
	BIND_BOUND,
	BIND_NO_CARD,	     /* full by now, or not what the pod asks for */
	BIND_REFUSED,	     /* by the API server, surely without effect */
	BIND_IN_DOUBT,	     /* no answer, or one that does not say */
	BIND_POD_UNREADABLE, /* the API server did not show the pod, or not one that we understand */
	BIND_POD_REPLACED,   /* another uid */
	BIND_LATE,	     /* waited too long for its turn */
	BIND_ABANDONED,	     /* kube-scheduler has hung up */
	BIND_NOT_OWNER,	     /* another scheduler owns the ledger, or the Lease could not be renewed */
	BIND_NOT_READY,
	BIND_BAD_REQUEST,
	BIND_FAILED, /* on our own side: out of memory */
	BIND_RESULT_MAX,
};

struct scheduler_metrics {
	struct histogram filter, prioritize, bind;
	uint64_t filter_results[FILTER_RESULT_MAX];
	uint64_t filter_misfits[MISFIT_MAX]; /* nodes that filter rejected, by reason */
	uint64_t prioritize_bad_requests;
	uint64_t bind_results[BIND_RESULT_MAX];
	uint64_t wakeups; /* waiting pods that were touched */
};

/* scheduler_metrics_page() - the malloc'ed page, NULL if memory is short. Walks all nodes and pods: sums of
 * the cluster, no name of a node or pod. */
char *scheduler_metrics_page(const struct scheduler *scheduler);
