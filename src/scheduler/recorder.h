/* recorder.h - the flight recorder: the last decisions about pods, in a ring of bounded memory.
 *
 * A decision is one allocation of its own size (about 250 bytes, 750 with sixteen nodes), never one per node
 * of the cluster. The ring holds DECISIONS_MAX of them and DECISIONS_BYTES_MAX bytes, whichever is reached
 * first; the oldest goes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECISIONS_MAX 10000
#define DECISIONS_BYTES_MAX (8u << 20)
/* More nodes, reasons or GPUs than this are counted, not named. */
#define DECISION_NODES_MAX 16
#define DECISION_REASONS_MAX 10
#define DECISION_GPUS_MAX 8
#define DECISION_VICTIMS_MAX 16

enum decision_kind {
	DECISION_FILTER,
	DECISION_PRIORITIZE,
	DECISION_BIND,	       /* the GPUs are reserved, the Binding leaves */
	DECISION_OUTCOME,      /* what became of it; text "" is success */
	DECISION_REQUEUE,      /* it waits, and something that it fits on was freed */
	DECISION_FILTER_ERROR, /* filter was answered with a sentence, nothing was decided; text */
	DECISION_PREEMPT, /* the verb: on which node who has to go; text: why nowhere, if not for reasons */
	DECISION_EVICT_SEARCH,	/* of our own: nodes where victims were found; text: why nowhere */
	DECISION_EVICT_PLAN,	/* these pods are about to be asked to go */
	DECISION_EVICT_ANSWER,	/* one of them: text "" is accepted */
	DECISION_EVICT_END,	/* text: how it ended */
	DECISION_GANG_PLAN,	/* it has a place beside the others of its gang; text: how many have */
	DECISION_GANG_GIVEN_UP, /* the place is given back; text: why */
	DECISION_GANG_KEPT,	/* GPUs are kept for it, since its gang has waited long */
	DECISION_GANG_EVICT,	/* only a part of its gang was placed: text "" is accepted */
	DECISION_POLICY, /* of a pod without a GPU: which nodes its ResourcePolicy lets it use; text: why */
	DECISION_KIND_MAX,
};

struct decision_node {
	const char *name;
	uint32_t score; /* prioritize: 0 to 10 */
};

struct decision_reason {
	const char *text;
	uint32_t nodes;
};

struct decision_gpu {
	const char *uuid;
	int index;
	uint32_t units_free, units_total; /* before this pod */
};

struct decision_victim {
	const char *uid, *namespace_, *name;
	int32_t priority;
};

struct decision {
	enum decision_kind kind;
	uint64_t number;  /* in the order of decisions; recorder_add() sets it */
	int64_t time_ns;  /* realtime */
	int64_t spent_ns; /* outcome: since the call came in */
	const char *uid, *namespace_, *name;
	uint32_t units;
	uint32_t n_asked, n_fitting;	       /* nodes */
	const struct decision_node *nodes;     /* those offered, best first */
	const struct decision_reason *reasons; /* why the others not */
	size_t n_nodes, n_reasons;
	const char *node;		 /* the one chosen, "" if none */
	const char *policy;		 /* of that node: "binpack" or "spread" */
	uint32_t n_gpus_fitting;	 /* how many of its GPUs had room */
	const struct decision_gpu *gpus; /* those chosen */
	size_t n_gpus;
	const struct decision_victim *victims; /* who has to go for the pod */
	size_t n_victims;
	uint32_t n_victims_unnamed; /* more of them: over the maximum, or without a GPU */
	const char *text;
};

struct recorder;

int recorder_new(struct recorder **ret_recorder);
void recorder_free(struct recorder *recorder); /* accepts NULL */

/* recorder_add() - copies the decision; strings may be NULL for "". Lists longer than their maximum are cut.
 * Out of memory loses this decision and nothing else. */
void recorder_add(struct recorder *recorder, const struct decision *decision);

/* recorder_next() - oldest first: start with *cursor = 0; NULL at the end. Valid until the next addition. */
const struct decision *recorder_next(const struct recorder *recorder, size_t *cursor);

size_t recorder_count(const struct recorder *recorder);
size_t recorder_bytes(const struct recorder *recorder);

/* decision_kind_text() - "filter", "prioritize", "bind", "outcome", "nudge", "filter-error", "preempt",
 * "evict-search", "evict-plan", "evict-answer", "evict-end", "gang-plan", "gang-given-up", "gang-kept",
 * "gang-evict", "level". */
const char *decision_kind_text(enum decision_kind kind);
