/* ledger-event.h - every change of a ledger as a value: what a listener is told, what a recorded history is
 * made of, and what brings a second ledger to the same state. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ledger;
struct ledger_pod;
struct node_facts;
struct placement;
struct pod_facts;

/* One for each function of ledger.h and resize.h that changes something. ledger_expire() tells one
 * LEDGER_DROP_HOLD for each hold that it ends, one LEDGER_DROP_NOMINATION for each nomination and one
 * LEDGER_REMOVE_POD for each orphan, so that a history needs no clock. */
enum ledger_verb {
	LEDGER_SET_NODE,
	LEDGER_REMOVE_NODE,
	LEDGER_SET_POD,
	LEDGER_REMOVE_POD,
	LEDGER_DELETE_POD,
	LEDGER_AGENT_LOST,
	LEDGER_HOLD,
	LEDGER_DROP_HOLD,
	LEDGER_RESERVE,
	LEDGER_CONFIRM,
	LEDGER_RELEASE,
	LEDGER_NOMINATE,
	LEDGER_DROP_NOMINATION,
	LEDGER_RESIZE,
	LEDGER_RESIZE_CONFIRM,
	LEDGER_RESIZE_RELEASE,
	LEDGER_VERB_MAX,
};

struct ledger_event {
	enum ledger_verb verb;
	const char *key;		   /* the node's name, or the pod's uid */
	const char *node_uid;		   /* LEDGER_REMOVE_NODE */
	const struct node_facts *node;	   /* LEDGER_SET_NODE */
	const struct pod_facts *pod;	   /* LEDGER_SET_POD, LEDGER_HOLD, LEDGER_RESERVE, LEDGER_NOMINATE */
	const char *on;			   /* LEDGER_HOLD, LEDGER_RESERVE, LEDGER_NOMINATE: the node */
	const struct placement *placement; /* LEDGER_HOLD, LEDGER_RESERVE, LEDGER_NOMINATE, LEDGER_RESIZE */
	int64_t expires_ns;		   /* LEDGER_HOLD, LEDGER_NOMINATE, LEDGER_DELETE_POD */
	bool lost;			   /* LEDGER_AGENT_LOST */
};

/* Told before the change, so that it can still see what was there. It must not change the ledger. */
typedef void (*ledger_listener_fn)(
	void *userdata, const struct ledger *ledger, const struct ledger_event *event);

/* ledger_apply() - call the function that the event tells of. Returns what it returns, 0 for void ones. */
int ledger_apply(struct ledger *ledger, const struct ledger_event *event);
