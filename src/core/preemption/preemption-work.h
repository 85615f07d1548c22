/* preemption-work.h - one node while a plan is made: which pods are allowed to go, and which are taken out of
 * its sums. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/preemption/preemption.h"
#include "core/registry/registry.h"

struct budget;
struct gpu_ledger;

/* The eviction API refuses a pod that more than one budget selects. To detect this, two are enough. */
#define BUDGETS_MAX 2

struct candidate {
	struct ledger_pod *pod;
	const struct budget *budgets[BUDGETS_MAX];
	size_t n_budgets;
	bool gone; /* taken out of the node's sums */
	bool given;
	uint32_t units, core; /* on the GPU that was evaluated last */
	uint64_t size;	      /* the part of it that this GPU lacks */
};

/* While a plan is made, pods are taken out of the node's sums and put back. */
struct plan_work {
	struct node_ledger *node;
	const struct preemption_question *question;
	struct candidate *candidates; /* pods that can be victims, and pods that go in any case */
	size_t n_candidates;
	struct ledger_pod **aside; /* neither of them: the pod's own hold, and pods that are being deleted */
	size_t n_aside;
	struct candidate **by_size; /* scratch, n_candidates */
	bool *was_gone;		    /* scratch, n_candidates */
};

/* work_open() - takes the given pods, pods that are being deleted and the pod's own hold out of the sums, and
 * adds what nominations keep. -ENOMEM. work_close() - puts everything back, including what was taken out
 * meanwhile. work_release() - call after either. */
int work_open(struct plan_work *work);
void work_close(struct plan_work *work);
void work_release(struct plan_work *work);

void candidate_leave(struct plan_work *work, struct candidate *candidate);
void candidate_return(struct plan_work *work, struct candidate *candidate);
void candidates_return(
	struct plan_work *work, struct candidate *const *candidates, size_t n); /* those that are gone */

/* work_places() - how many more pods this budget lets go, after all that are gone; 0 or below: none.
 * candidate_violates() - would the eviction of this candidate, which is not gone, violate a budget? */
int64_t work_places(const struct plan_work *work, const struct budget *budget);
bool candidate_violates(const struct plan_work *work, const struct candidate *candidate);

/* work_count_violations() - if k pods of one budget that allows a are gone, k - a of them violate it: each
 * eviction counts for the next. */
size_t work_count_violations(struct plan_work *work);

/* pod_compare_importance() - positive if a is the more important pod: by priority, then by the longer run
 * time (util.MoreImportantPod, 1.36.3). A total order. */
int pod_compare_importance(const struct ledger_pod *a, const struct ledger_pod *b);
