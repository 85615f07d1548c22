/* preemption-work.h - one node while a plan is made: who may go, and who is taken out of its sums. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/preemption/preemption-question.h"
#include "core/registry/registry.h"

struct budget;
struct gpu_ledger;

/* The eviction API refuses a pod that more than one budget selects: to know that, two are enough. */
#define BUDGETS_MAX 2

struct candidate {
	struct ledger_pod *pod;
	const struct budget *budgets[BUDGETS_MAX];
	size_t n_budgets;
	bool gone; /* taken out of the node's sums */
	bool given;
	uint32_t units, core; /* of the GPU that was looked at last */
	uint64_t size;	      /* of what that GPU lacks */
};

/* While a plan is made, pods are taken out of the node's sums and put back. */
struct plan_work {
	struct node_ledger *node;
	const struct preemption_question *question;
	struct candidate *candidates; /* who may go, and who goes in any case */
	size_t n_candidates;
	struct ledger_pod **aside; /* neither: the pod's own hold, pods being deleted */
	size_t n_aside;
	struct candidate **by_size; /* scratch, n_candidates */
	bool *was_gone;		    /* scratch, n_candidates */
};

/* work_open() - those given, those being deleted and the pod's own hold are taken out of the sums, and what
 * nominations keep is laid over them. -ENOMEM. work_close() puts everything back, also what was taken out
 * meanwhile; work_release() after either. */
int work_open(struct plan_work *work);
void work_close(struct plan_work *work);
void work_release(struct plan_work *work);

void candidate_leave(struct plan_work *work, struct candidate *candidate);
void candidate_return(struct plan_work *work, struct candidate *candidate);
void candidates_return(
	struct plan_work *work, struct candidate *const *candidates, size_t n); /* who is gone */

/* work_places() - how many more of it this budget lets go, after all that are gone; 0 or below: none.
 * candidate_violates() - would the eviction of this one, who is not gone, go over a budget? */
int64_t work_places(const struct plan_work *work, const struct budget *budget);
bool candidate_violates(const struct plan_work *work, const struct candidate *candidate);

/* work_count_violations() - of k pods of one budget that allows a, k - a violate it: each is asked against
 * those that were not asked yet. */
size_t work_count_violations(struct plan_work *work);

/* pod_compare_importance() - who is better spared: positive if a, by priority, then by who runs longer
 * (util.MoreImportantPod, 1.36.3); a total order. */
int pod_compare_importance(const struct ledger_pod *a, const struct ledger_pod *b);
