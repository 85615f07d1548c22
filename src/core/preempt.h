/* preempt.h - the verb preempt, and the GPUs kept for nominated pods. Pure.
 *
 * kube-scheduler calls preempt if the node's sum of gpu-mem is short. (For a node whose sum suffices while no
 * GPU does, see evicting.h.) It has chosen victims so that the sums fit. The core adds the victims without
 * which no GPU fits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policies.h"
#include "core/preemption/preemption.h"

struct core;
struct pod_facts;

/* How a call of preempt ends. */
enum preempt_outcome {
	PREEMPT_NODE,	     /* victims on one node, where GPUs are kept for the pod */
	PREEMPT_NO_NODE,     /* no eviction would free a GPU */
	PREEMPT_GANG,	     /* the pod's gang has not started: no pod is evicted for a part of it */
	PREEMPT_OWN,	     /* ration already evicts pods for it */
	PREEMPT_NOT_OURS,    /* the pod asks for no GPU of ration */
	PREEMPT_NOT_OWNER,   /* another scheduler owns the ledger; never in a struct preempt_answer */
	PREEMPT_NOT_READY,   /* the cluster is not read yet; never in a struct preempt_answer */
	PREEMPT_BAD_REQUEST, /* the call was not valid; never in a struct preempt_answer */
	PREEMPT_FAILED,	     /* out of memory */
	PREEMPT_RESULT_MAX,
};

/* A node, and the victims that kube-scheduler has chosen there. */
struct preempt_node {
	const char *name;
	const char *const *uids;
	size_t n_uids;
	size_t n_violations; /* how many of them PodDisruptionBudgets protect, by kube-scheduler's count */
};

/* The nodes of a call, counted by result. */
struct preempt_tally {
	uint32_t n_asked, n_fitting;	     /* n_fitting: nodes where evictions free a GPU */
	uint32_t n_without_victims;	     /* kube-scheduler named no pod there */
	uint32_t reject_reasons[REJECT_MAX]; /* by reason: nodes that would not fit even without all pods of
						lower priority */
};

struct preempt_answer {
	enum preempt_outcome outcome;
	const char *text; /* why no node is named; "" if the tally says it */
	struct preempt_tally tally;
	/* PREEMPT_NODE: the node, and the victims that ask for a GPU; valid until the next event. */
	struct preemption_plan plan;
	const char **others; /* malloc'ed; uids of all further victims of kube-scheduler: the core cannot know
				which of them it needs for something else than GPUs */
	size_t n_others;
	int nominate_error; /* why no GPU is kept for the pod, as ledger_nominate() returns it; 0: one is kept
			     */
	struct policy_decision policy;
};
void preempt_answer_release(struct preempt_answer *answer);
#define _cleanup_preempt_answer_ _cleanup_(preempt_answer_release)

struct preempt_question {
	const struct pod_facts *pod;
	struct policy_asked policy;
	const struct preempt_node *nodes;
	size_t n;
	/* Called before the GPUs are kept for the pod, for recordings. Must not change the core. May be NULL.
	 */
	void (*decided)(void *userdata, const struct pod_facts *pod, const struct preempt_answer *answer);
	void *userdata;
};

/* core_preempt() - names at most one node, the best. Its GPUs are kept for the pod. */
void core_preempt(struct core *core, const struct preempt_question *question, int64_t now_ns,
	struct preempt_answer *ret_answer);

/* core_nomination_waits_for() - the node for which the pod is nominated, if a pod there is about to go; else
 * NULL. pod: as kube-scheduler shows it. */
const struct node_ledger *core_nomination_waits_for(const struct core *core, const struct pod_facts *pod);
