/* recorder.h - the flight recorder: the last decisions about pods, in a ring of bounded memory.
 *
 * A decision is one allocation of its own size (about 250 bytes, 750 with sixteen nodes), never one per node
 * of the cluster. The ring holds at most DECISIONS_MAX of them and DECISIONS_BYTES_MAX bytes; when a limit is
 * reached, the oldest is dropped. */
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
	DECISION_BIND,		/* the GPUs are reserved, the Binding is sent */
	DECISION_OUTCOME,	/* the answer to kube-scheduler; text "" is success */
	DECISION_REQUEUE,	/* it waits, and something on which it fits was freed */
	DECISION_FILTER_ERROR,	/* filter was answered with a sentence, without a decision; text */
	DECISION_PREEMPT,	/* the verb: victims on a node; text: why on none, if not for reasons */
	DECISION_EVICT_SEARCH,	/* by ration: nodes where victims were found; text: why on none */
	DECISION_EVICT_PLAN,	/* these pods are about to be evicted */
	DECISION_EVICT_ANSWER,	/* the answer for one of them: text "" is accepted */
	DECISION_EVICT_END,	/* text: how it ended */
	DECISION_GANG_PLAN,	/* it has a place besides the others of its gang; text: how many have */
	DECISION_GANG_GIVEN_UP, /* the place is given back; text: why */
	DECISION_GANG_KEPT,	/* GPUs are kept for it, because its gang has waited long */
	DECISION_GANG_EVICT,	/* only a part of its gang was placed: text "" is accepted */
	DECISION_POLICY, /* for a pod without a GPU: the nodes that its ResourcePolicy allows; text: why */
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
	int64_t spent_ns; /* outcome: since the call arrived */
	const char *uid, *namespace_, *name;
	uint32_t units;
	uint32_t n_asked, n_fitting;	       /* nodes */
	const struct decision_node *nodes;     /* the offered nodes, best first */
	const struct decision_reason *reasons; /* the reasons of the other nodes */
	size_t n_nodes, n_reasons;
	const char *node;		 /* the chosen node, "" if none */
	const char *policy;		 /* the policy of that node: "binpack" or "spread" */
	uint32_t n_gpus_fitting;	 /* how many of its GPUs had room */
	const struct decision_gpu *gpus; /* the chosen GPUs */
	size_t n_gpus;
	const struct decision_victim *victims; /* pods that must go for this pod */
	size_t n_victims;
	uint32_t n_victims_unnamed; /* further victims: over the maximum, or without a GPU */
	const char *text;
};

struct recorder;

int recorder_new(struct recorder **ret_recorder);
void recorder_free(struct recorder *recorder); /* accepts NULL */

/* recorder_add() - copies the decision; strings may be NULL for "". Lists longer than their maximum are cut.
 * If memory runs out, only this decision is lost. */
void recorder_add(struct recorder *recorder, const struct decision *decision);

/* recorder_next() - iterates, oldest first: start with *cursor = 0; NULL at the end. Valid until the next
 * addition. */
const struct decision *recorder_next(const struct recorder *recorder, size_t *cursor);

size_t recorder_count(const struct recorder *recorder);
size_t recorder_bytes(const struct recorder *recorder);

/* decision_kind_text() - "filter", "prioritize", "bind", "outcome", "nudge", "filter-error", "preempt",
 * "evict-search", "evict-plan", "evict-answer", "evict-end", "gang-plan", "gang-given-up", "gang-kept",
 * "gang-evict", "level". */
const char *decision_kind_text(enum decision_kind kind);
