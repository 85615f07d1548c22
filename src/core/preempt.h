/* preempt.h - the verb preempt, and the GPUs kept for nominated pods. Pure.
 *
 * kube-scheduler calls preempt when the node's sum of gpu-mem is short (for a node whose sum suffices while
 * no GPU does, see evicting.h). It has chosen victims so that the sums fit; the core adds those without which
 * no GPU does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policies.h"
#include "core/preemption/preemption.h"

struct core;
struct pod_facts;

/* How a question of preempt ends. */
enum preempt_outcome {
	PREEMPT_NODE,	     /* victims on one node, where GPUs are kept for the pod */
	PREEMPT_NO_NODE,     /* no pod's going would free a GPU */
	PREEMPT_GANG,	     /* the pod's gang has not started: no pod goes for a part of it */
	PREEMPT_OWN,	     /* pods are evicted for it by us already */
	PREEMPT_NOT_OURS,    /* the pod asks for no GPU of ours */
	PREEMPT_NOT_OWNER,   /* another scheduler owns the ledger: never in a struct preempt_answer */
	PREEMPT_NOT_READY,   /* the cluster is not read yet: likewise */
	PREEMPT_BAD_REQUEST, /* likewise */
	PREEMPT_FAILED,	     /* out of memory */
	PREEMPT_RESULT_MAX,
};

/* A node, and the victims that kube-scheduler has chosen there. */
struct preempt_node {
	const char *name;
	const char *const *uids;
	size_t n_uids;
	size_t n_violations; /* how many of them PodDisruptionBudgets protect, as kube-scheduler says */
};

/* What became of the nodes of a question. */
struct preempt_tally {
	uint32_t n_asked, n_fitting;	     /* n_fitting: where pods' going frees a GPU */
	uint32_t n_without_victims;	     /* kube-scheduler named no pod there */
	uint32_t reject_reasons[REJECT_MAX]; /* not even if all below the pod had gone */
};

struct preempt_answer {
	enum preempt_outcome outcome;
	const char *text; /* why no node is named, "" if the tally says it */
	struct preempt_tally tally;
	/* PREEMPT_NODE: the node, and the victims that ask for a GPU; valid until the next event. */
	struct preemption_plan plan;
	const char **others; /* malloc'ed; the uids of kube-scheduler's further victims, which all stay: which
				of them it needs for something else than GPUs the core cannot know */
	size_t n_others;
	int nominate_error; /* why no GPU is kept for the pod, as ledger_nominate() says it; 0: one is */
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
