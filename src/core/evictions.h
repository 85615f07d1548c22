/* evictions.h - the evictions of a core, and its reports about them. The functions are in evicting.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/table.h"
#include "model/facts.h"

struct preemption_plan;

#define EVICTION_NODES_MAX 8 /* the best nodes of one search */

enum eviction_step {
	EVICTION_REST,	   /* the attempt failed; the next try is at due_ns at the earliest */
	EVICTION_PLANNED,  /* until due_ns, kube-scheduler may still find victims by itself */
	EVICTION_EVICT,	   /* victims[next] must be evicted */
	EVICTION_MARK,	   /* victims[next] has accepted, and its condition must be set */
	EVICTION_NOMINATE, /* all victims have accepted */
	EVICTION_WAIT,	   /* until the victims are gone and the pod is bound */
};

/* What the caller must do for an attempt. */
enum eviction_order {
	EVICTION_ORDER_EVICT,	 /* ask the API server to evict eviction_victim(): core_eviction_answered() */
	EVICTION_ORDER_MARK,	 /* set the victim's condition: core_victim_is_marked() */
	EVICTION_ORDER_NOMINATE, /* write eviction_node() into the pod's status: core_nomination_answered() */
	EVICTION_ORDER_CLEAR,	 /* remove it from the status again: core_nomination_is_cleared() */
};

/* One pod's attempt to have a GPU freed. */
struct eviction_attempt {
	struct evictions *evictions;
	struct list order_item; /* in evictions->orders */
	enum eviction_order order;
	bool busy; /* a request is on its way or ordered */
	struct pod_facts pod;
	enum eviction_step step;
	int64_t begun_ns;   /* when filter first rejected the pod */
	int64_t due_ns;	    /* for EVICTION_REST and EVICTION_PLANNED */
	int64_t requeue_ns; /* EVICTION_REST: when the pod is requeued next, so that filter considers it again
			     */
	int64_t backoff_ns;
	/* The nodes that are searched for victims. */
	struct {
		char *names[EVICTION_NODES_MAX]; /* best first */
		size_t n, next;
	} nodes;
	struct table spared; /* uids of pods that the API server did not let go */
	/* The GPU that is freed, and the pods that must go. */
	struct {
		char gpu[700]; /* "GPU 1 (GPU-..) of node n" */
		struct pod_facts *victims;
		size_t n_victims, next;
		unsigned tries;	    /* tries of the present request */
		int64_t evicted_ns; /* when the last victim had answered */
		int64_t gone_ns;    /* when all victims were gone; 0: not yet */
	} plan;
	bool ignore_deleting; /* victims did not end in time: pods that are being deleted no longer count as
				 going */
};

/* The victim of EVICTION_ORDER_EVICT and EVICTION_ORDER_MARK. */
static inline const struct pod_facts *eviction_victim(const struct eviction_attempt *attempt)
{
	return &attempt->plan.victims[attempt->plan.next];
}

/* The node whose victims are evicted; NULL: no node is left. */
static inline const char *eviction_node(const struct eviction_attempt *attempt)
{
	return attempt->nodes.next < attempt->nodes.n ? attempt->nodes.names[attempt->nodes.next] : NULL;
}

/* The result of a search for victims. */
enum search_outcome {
	SEARCH_PLANNED,
	SEARCH_PROTECTED,  /* PodDisruptionBudgets protect all pods that would help */
	SEARCH_NO_VICTIMS, /* no eviction would free a GPU */
	SEARCH_RESULT_MAX,
};

/* What the API server answered to one eviction. */
enum eviction_outcome {
	EVICTION_ACCEPTED,
	EVICTION_GONE,	  /* the pod no longer existed */
	EVICTION_REFUSED, /* usually because of a budget */
	EVICTION_AGAIN,	  /* there is no clear answer: the eviction is sent again */
	EVICTION_RESULT_MAX,
};

/* How an attempt ended after victims were chosen. */
enum attempt_outcome {
	ATTEMPT_BOUND,
	ATTEMPT_GONE,	 /* the pod has ended, or is being deleted */
	ATTEMPT_REFUSED, /* no node is left whose pods may be evicted */
	ATTEMPT_STUCK,	 /* evicted pods did not end in time */
	ATTEMPT_UNUSED,	 /* the pod was not bound to the GPU that was freed */
	ATTEMPT_RESULT_MAX,
};

/* Something has happened; for counters, recordings, Events and the log. */
struct eviction_report {
	enum eviction_report_kind {
		EVICTION_SEARCHED,     /* search, n_names, text; the attempt has the nodes */
		EVICTION_CHOSEN,       /* plan; before the pod is nominated in the ledger */
		EVICTION_ANSWERED,     /* answer, text; for eviction_victim() */
		EVICTION_NOMINATED,    /* all victims have accepted, and the pod's status says so */
		EVICTION_NOT_REQUEUED, /* error: the pod will not be requeued for the next attempt */
		EVICTION_ENDED,	       /* end, text */
	} kind;
	const struct eviction_attempt *attempt;
	enum search_outcome search;
	size_t n_names; /* nodes that were searched */
	const struct preemption_plan *plan;
	enum eviction_outcome answer;
	int error; /* -ENOMEM, -E2BIG */
	enum attempt_outcome end;
	const char *text; /* "": there is no text */
};

struct evictions {
	/* Must not change the core. May be NULL. */
	void (*report)(void *userdata, const struct eviction_report *report);
	void *userdata;
	struct table attempts;	 /* uid -> struct eviction_attempt */
	struct list orders;	 /* eviction_attempt.order_item */
	bool busy;		 /* one eviction, mark or nomination at a time, over all attempts */
	int64_t due_ns;		 /* when core_continue_evictions() is due; 0: it is not due */
	int64_t search_began_ns; /* 0: core_filter_is_answered() was called since, or no search took place */
	int64_t search_after_ns; /* no search before this time */
};
