/* resizings.h - the resizes of a core, and the orders and queries to its caller. The functions are in
 * resizing.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct error;
struct placement;
struct pod_facts;
struct resizings;

/* What the caller must do for a resize. */
enum resize_order {
	RESIZE_CHECK_LEADER, /* find out if kube-scheduler's Lease names this host: core_resize_leads() */
	RESIZE_LIST_NODE, /* list the pods of its node: core_show_pod() for each, then core_resize_listed() */
	RESIZE_SEND,	  /* PATCH the pod with answer.text: core_resize_answered() */
	RESIZE_REPORT, /* write an Event: the API server refuses every answer; see refusal. Needs no report.
			*/
};

/* The answer to a request. */
struct resize_answer {
	char *text;    /* the body of the PATCH; NULL: it is not written yet */
	char *said;    /* the sentence in it, for the log */
	bool applied;  /* the answer is a yes */
	bool reserved; /* for another size than the pod has: ledger_resize() is under way */
};

#define RESIZE_BACKOFF_MAX_NS (INT64_C(10) * 1000 * 1000 * 1000)

struct resizing {
	struct resizings *resizings;
	struct list item;	/* resizings->all */
	struct list order_item; /* resizings->orders */
	enum resize_order order;
	char *uid, *namespace_, *name, *node;
	bool busy;    /* a request to the API server is on its way, or ordered */
	bool gone;    /* the pod or its request is gone: nothing new may begin */
	bool another; /* another request came while an answer was on its way */
	char *seen;   /* the last request that the watch has shown; NULL: unknown */
	struct resize_answer answer;
	bool doubtful; /* the answer was sent, and its outcome is unknown */
	bool unclear;  /* the last answer may have been applied: what it reserves stays until a list */
	char *request; /* the last request that was decided */
	char *refusal; /* the sentence with which the API server refused an answer to it; NULL: it did not */
	bool stopped;  /* the API server refused the no as well, ... */
	size_t annotations_size; /* ... when the pod's annotations had this length */
	int64_t next_ns, backoff_ns;
};

/* Queries that a resize makes while the core runs. None may change the core. shown: the value of
 * core_resize_listed(). */
struct resize_ops {
	/* Reads the sizes of the request into a copy of the pod's placement. A negative errno, with a
	 * sentence, means no. */
	int (*parse)(
		void *userdata, const struct pod_facts *facts, struct placement *target, struct error *err);
	/* Writes the PATCH for a yes into ret_answer's text and said. same: the pod has this size already.
	 * -EAGAIN: out of memory. Another negative errno, with a sentence: the answer cannot be a yes. */
	int (*write_yes)(void *userdata, void *shown, const struct pod_facts *facts,
		const struct placement *target, bool same, struct resize_answer *ret_answer,
		struct error *err);
	/* Writes the PATCH for a no. -EAGAIN: out of memory. */
	int (*write_no)(void *userdata, void *shown, const struct pod_facts *facts, const struct error *why,
		struct resize_answer *ret_answer);
	void *userdata;
};

struct resizings {
	struct resize_ops ops;
	struct list all;    /* resizing.item */
	struct list orders; /* resizing.order_item */
	size_t n;	    /* without those that are stopped */
};
