#include "core/preemption/preemption-work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/preemption/budget.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"

int pod_compare_importance(const struct ledger_pod *a, const struct ledger_pod *b)
{
	if (a->facts.priority != b->facts.priority)
		return a->facts.priority < b->facts.priority ? -1 : 1;
	if (a->facts.started != b->facts.started) {
		if (!a->facts.started || !b->facts.started)
			return a->facts.started ? 1 : -1;
		return a->facts.started < b->facts.started ? 1 : -1;
	}
	return strcmp(b->facts.uid, a->facts.uid);
}

void candidate_leave(struct plan_work *work, struct candidate *candidate)
{
	node_ledger_remove(work->node, candidate->pod);
	candidate->gone = true;
}

void candidate_return(struct plan_work *work, struct candidate *candidate)
{
	node_ledger_add(work->node, candidate->pod);
	candidate->gone = false;
}

void candidates_return(struct plan_work *work, struct candidate *const *candidates, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (candidates[i]->gone)
			candidate_return(work, candidates[i]);
}

static bool may_be_victim(const struct plan_work *work, const struct ledger_pod *pod)
{
	enum occupancy least = work->question->may_stop_holds	   ? OCCUPANCY_TENTATIVE
			       : work->question->may_stop_bindings ? OCCUPANCY_RESERVED
								   : OCCUPANCY_BOUND;

	if (work->question->spared && table_get(work->question->spared, pod->facts.uid))
		return false;
	return pod->facts.priority < work->question->pod->priority && pod->occupancy >= least &&
	       pod->occupancy <= OCCUPANCY_BOUND && !pod->facts.mirror && !pod->facts.finished &&
	       !pod->facts.deleting;
}

static size_t list_length(const struct list *list)
{
	size_t n = 0;

	for (const struct list *item = list->next; item != list; item = item->next)
		n++;
	return n;
}

void work_release(struct plan_work *work)
{
	free(work->candidates);
	free(work->aside);
	free(work->by_size);
	free(work->was_gone);
}

int work_open(struct plan_work *work)
{
	size_t n = list_length(&work->node->pods) + 1;
	const struct preemption_question *question;

	work->candidates = calloc(n, sizeof(*work->candidates));
	work->aside = calloc(n, sizeof(*work->aside));
	work->by_size = calloc(n, sizeof(*work->by_size));
	work->was_gone = calloc(n, sizeof(*work->was_gone));
	if (!work->candidates || !work->aside || !work->by_size || !work->was_gone)
		return -ENOMEM;
	question = work->question;
	list_for_each (item, &work->node->pods) {
		struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);
		bool given = question->given && table_get(question->given, pod->facts.uid);
		struct candidate *candidate = &work->candidates[work->n_candidates];

		if (strcmp(pod->facts.uid, question->pod->uid) == 0) {
			work->aside[work->n_aside++] = pod;
		} else if (given || may_be_victim(work, pod)) {
			*candidate = (struct candidate){.pod = pod, .given = given};
			candidate->n_budgets = budgets_matching(question->budgets, pod->facts.namespace_,
				pod->facts.labels, candidate->budgets, BUDGETS_MAX);
			work->n_candidates++;
		} else if (pod->facts.deleting && !question->ignore_deleting) {
			work->aside[work->n_aside++] = pod;
		}
	}
	nominations_lay(work->node, work->question->pod);
	for (size_t i = 0; i < work->n_aside; i++)
		node_ledger_remove(work->node, work->aside[i]);
	for (size_t i = 0; i < work->n_candidates; i++)
		if (work->candidates[i].given)
			candidate_leave(work, &work->candidates[i]);
	return 0;
}

void work_close(struct plan_work *work)
{
	for (size_t i = 0; i < work->n_candidates; i++)
		if (work->candidates[i].gone)
			candidate_return(work, &work->candidates[i]);
	for (size_t i = 0; i < work->n_aside; i++)
		node_ledger_add(work->node, work->aside[i]);
	nominations_lift(work->node, work->question->pod);
}

int64_t work_places(const struct plan_work *work, const struct budget *budget)
{
	int64_t used = 0;

	for (size_t i = 0; i < work->n_candidates; i++) {
		const struct candidate *candidate = &work->candidates[i];

		for (size_t k = 0; candidate->gone && k < candidate->n_budgets; k++)
			used += candidate->budgets[k] == budget;
	}
	return budget->allowed - used;
}

bool candidate_violates(const struct plan_work *work, const struct candidate *candidate)
{
	if (candidate->n_budgets > 1)
		return true;
	return candidate->n_budgets && work_places(work, candidate->budgets[0]) <= 0;
}

size_t work_count_violations(struct plan_work *work)
{
	size_t n = 0;

	for (size_t i = 0; i < work->n_candidates; i++)
		work->was_gone[i] = work->candidates[i].gone;
	for (size_t i = 0; i < work->n_candidates; i++) {
		struct candidate *candidate = &work->candidates[i];

		if (!candidate->gone || candidate->given)
			continue;
		candidate->gone = false;
		n += candidate_violates(work, candidate);
	}
	for (size_t i = 0; i < work->n_candidates; i++)
		work->candidates[i].gone = work->was_gone[i];
	return n;
}
