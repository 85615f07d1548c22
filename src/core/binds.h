/* binds.h - the binds of a core, and the orders and queries to its caller. The functions are in bind.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"

struct placement;
struct pod_facts;

/* How a call of bind ends. */
enum bind_outcome {
	BIND_BOUND,
	BIND_NO_GPU,	     /* no room by now, or a GPU that the pod does not ask for */
	BIND_REFUSED,	     /* refused by the API server, surely without effect */
	BIND_IN_DOUBT,	     /* there is no answer, or an answer that does not tell the outcome */
	BIND_POD_UNREADABLE, /* the API server did not show the pod, or not in a valid form */
	BIND_POD_REPLACED,   /* the pod has another uid */
	BIND_GANG,	     /* not all of its gang could be bound */
	BIND_LATE,	     /* it waited too long for its turn */
	BIND_ABANDONED,	     /* kube-scheduler has hung up */
	BIND_NOT_OWNER,	     /* another scheduler owns the ledger, or the Lease could not be renewed */
	BIND_NOT_READY,	     /* the cluster is not read yet; never in a struct bind */
	BIND_BAD_REQUEST,    /* the call was not valid; never in a struct bind */
	BIND_FAILED,	     /* a failure of this process: out of memory */
	BIND_RESULT_MAX,
};

/* Which pod goes to which node. */
struct bind_target {
	char *uid, *namespace_, *name, *node; /* malloc'ed */
};

/* What the caller must do for a bind. */
enum bind_order {
	BIND_LIST_NODE, /* list the pods of its node: core_show_pod() for each, then core_node_listed() */
	BIND_READ_POD,	/* read the pod: core_bind_pod_read() */
	BIND_SEND,	/* send bind->text: core_binding_answered() */
	BIND_ANSWER,	/* answer kube-scheduler by outcome and error: core_bind_is_answered() */
};

struct bind {
	struct list item;	/* in one of the lists of struct binds */
	struct list order_item; /* in binds->orders */
	uint64_t number;	/* from 1, in the order of the calls: unique in this core for all time */
	enum bind_order order;
	struct bind_target what;
	void *caller; /* for the caller's use */
	int64_t asked_ns;
	int64_t leadership_period; /* the leadership period of the list of its node */
	int64_t doubt_ends_ns;
	char *text; /* the Binding, between its reservation and its answer */
	enum bind_outcome outcome;
	struct error error; /* "": bound */
};

/* Queries that a bind makes while the core runs. All but write_binding may be NULL. None may change the core.
 */
struct bind_ops {
	/* Called before a GPU is held or reserved, for the checks of the simulation. */
	void (*about_to_reserve)(void *userdata);
	/* Returns the Binding as text, malloc'ed; or NULL, with a sentence in err. placement NULL: the pod
	 * asks for no GPU. forming: its gang has not started. */
	char *(*write_binding)(void *userdata, const struct bind *bind, const struct pod_facts *facts,
		const struct placement *placement, bool forming, struct error *err);
	/* True if kube-scheduler has closed the connection of this call. It has forgotten the pod, so the pod
	 * must not be bound now. */
	bool (*caller_is_gone)(void *userdata, const struct bind *bind);
	void *userdata;
};

struct binds {
	struct bind_ops ops;
	/* Lists of bind.item; each bind is in one of them. ended: the outcome is known, and kube-scheduler
	 * has no answer yet. */
	struct list queued, awaiting_list, gathering, in_flight, ended, doubtful;
	struct list orders; /* bind.order_item */
	uint64_t n_begun;   /* all binds ever; the last bind.number */
	size_t n_in_flight;
	size_t n_open; /* not answered yet */
};
