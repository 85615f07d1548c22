/* resizings.h - the resizes of a core, and what they ask of its caller. The functions are in resizing.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct error;
struct placement;
struct pod_facts;
struct resizings;

/* What the caller has to do for a resize. */
enum resize_order {
	RESIZE_CHECK_LEADER, /* whether kube-scheduler's Lease names our host: core_resize_leads() */
	RESIZE_LIST_NODE, /* list the pods of its node: core_show_pod() for each, then core_resize_listed() */
	RESIZE_SEND,	  /* PATCH the pod with answer.text: core_resize_answered() */
	RESIZE_REPORT,	  /* an Event: the API server refuses every answer, by refusal. Nothing follows. */
};

/* What a request is answered. */
struct resize_answer {
	char *text;    /* the body of the PATCH; NULL: not known yet */
	char *said;    /* the sentence in it, for the log */
	bool applied;  /* a yes */
	bool reserved; /* to another size than it has: ledger_resize() is under way */
};

#define RESIZE_BACKOFF_MAX_NS (INT64_C(10) * 1000 * 1000 * 1000)

struct resizing {
	struct resizings *resizings;
	struct list item;	/* resizings->all */
	struct list order_item; /* resizings->orders */
	enum resize_order order;
	char *uid, *namespace_, *name, *node;
	bool busy;    /* a request to the API server is on its way, or ordered */
	bool gone;    /* the pod is, or its request: nothing is to be begun any more */
	bool another; /* another request came while ours was on its way */
	char *seen;   /* the request that the watch has shown last; NULL: not known */
	struct resize_answer answer;
	bool doubtful; /* the answer was sent, and its outcome is not known */
	bool unclear;  /* the last one may have been applied: what it reserves stays until a list */
	char *request; /* the one that was decided last */
	char *refusal; /* the API server's sentence when it refused an answer to it; NULL: it did not */
	bool stopped;  /* it refused the no as well; ... */
	size_t annotations_size; /* ... while the pod's annotations were that long */
	int64_t next_ns, backoff_ns;
};

/* What a resize asks of the caller at once. None may change the core. shown: as core_resize_listed() got it.
 */
struct resize_ops {
	/* The request's sizes, into a copy of the pod's placement. A negative errno with a sentence: no. */
	int (*parse)(
		void *userdata, const struct pod_facts *facts, struct placement *target, struct error *err);
	/* The PATCH for a yes, into ret_answer's text and said. same: the pod has this size already.
	 * -EAGAIN: out of memory. Another negative errno, with a sentence: it cannot be a yes. */
	int (*write_yes)(void *userdata, void *shown, const struct pod_facts *facts,
		const struct placement *target, bool same, struct resize_answer *ret_answer,
		struct error *err);
	/* The PATCH for a no. -EAGAIN: out of memory. */
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
