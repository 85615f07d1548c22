/* evict-internal.h - one pod's attempt to have a GPU freed: evict.c searches and keeps time, evict-steps.c
 * asks the API server. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "core/registry/ledger.h"
#include "scheduler/metrics.h"

struct loop_timer;
struct preemption_plan;
struct scheduler;

#define NODES_MAX 8 /* the best of one search */

enum step {
	STEP_REST,     /* failed; not before rest_until_ns again */
	STEP_PLANNED,  /* kube-scheduler may still find victims by itself */
	STEP_EVICT,    /* victims[next] is to be asked */
	STEP_MARK,     /* victims[next] has accepted, its condition is to be set */
	STEP_NOMINATE, /* all have accepted */
	STEP_WAIT,     /* until they are gone and the pod is bound */
};

struct attempt {
	struct evictions *evictions;
	struct pod_facts pod;
	enum step step;
	bool in_flight;	  /* a request: it must stay until the answer */
	int64_t begun_ns; /* when filter asked first */
	int64_t due_ns;	  /* PLANNED: begin; REST: wake the pod, so that filter asks again */
	bool woken;
	int64_t backoff_ns;
	char *nodes[NODES_MAX]; /* best first */
	size_t n_nodes, next_node;
	struct table spared; /* uids that the API server did not let go */
	char gpu[700];	     /* "GPU 1 (GPU-..) of node n" */
	struct pod_facts *victims;
	size_t n_victims, next;
	unsigned tries;	      /* of the request at hand */
	int64_t evicted_ns;   /* when the last one had accepted */
	int64_t gone_ns;      /* when all were gone, 0 before */
	bool ignore_deleting; /* they did not go in time: do not count on such pods again */
};

struct evictions {
	struct scheduler *scheduler;
	struct table attempts; /* uid -> struct attempt */
	struct loop_timer *timer;
	bool timer_armed, busy;
	int64_t search_after_ns;
};

void attempt_drop_victims(struct attempt *attempt);
void attempt_drop_nodes(struct attempt *attempt);

/* attempt_tell() - an Event about one of the pods. */
void attempt_tell(struct attempt *attempt, const struct pod_facts *about, const char *type,
	const char *reason, const char *text);

/* attempt_plan_on() - preemption_plan_node() as the attempt stands. */
int attempt_plan_on(
	struct attempt *attempt, const char *node, bool may_violate, struct preemption_plan *ret_plan);

/* attempt_fail() - it rests; what was kept for the pod is free for others. attempt_end() - the same after
 * victims were planned: counted and recorded with the sentence. */
void attempt_fail(struct attempt *attempt);
void attempt_end(struct attempt *attempt, enum attempt_outcome outcome, const char *why);

/* attempt_note_end() - only counts and records. */
void attempt_note_end(struct attempt *attempt, enum attempt_outcome outcome, const char *why);

/* attempt_begin() - plan anew on the best node that is left; from now on victims are asked. */
void attempt_begin(struct attempt *attempt);

/* attempt_send_next() - the request that is next. Only when none is in flight. */
void attempt_send_next(struct attempt *attempt);

/* attempt_wait() - all have accepted: have they gone, was the GPU used, is it time to give up? pod is the
 * preemptor. */
void attempt_wait(struct attempt *attempt, const struct ledger_pod *pod, int64_t now);
