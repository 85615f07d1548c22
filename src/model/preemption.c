#include "model/preemption.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/budget.h"
#include "model/node-ledger.h"
#include "model/nomination.h"

/* The eviction API refuses a pod that more than one budget selects: to know that, two are enough. */
#define BUDGETS_MAX 2

struct candidate {
	struct ledger_pod *pod;
	const struct budget *budgets[BUDGETS_MAX];
	size_t n_budgets;
	bool gone; /* taken out of the node's sums */
	bool given;
	uint64_t size; /* of what that card lacks */
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

/* Who is better spared: positive if a, by priority, then by who runs longer (util.MoreImportantPod, 1.36.3);
 * a total order. */
static int compare_importance(const struct ledger_pod *a, const struct ledger_pod *b)
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

static void candidate_leave(struct plan_work *work, struct candidate *candidate)
{
	node_ledger_remove(work->node, candidate->pod);
	candidate->gone = true;
}

static void candidate_return(struct plan_work *work, struct candidate *candidate)
{
	node_ledger_add(work->node, candidate->pod);
	candidate->gone = false;
}

static bool fits(const struct plan_work *work)
{
	const struct pod_facts *pod = work->question->pod;

	return placement_choose(work->node, &pod->request, pod->owner ? pod->owner : "", NULL) == FITS;
}

static bool may_be_victim(const struct plan_work *work, const struct ledger_pod *pod)
{
	enum occupancy least = work->question->may_stop_bindings ? OCCUPANCY_RESERVED : OCCUPANCY_BOUND;

	if (work->question->spared && table_get(work->question->spared, pod->facts.uid))
		return false;
	return pod->facts.priority < work->question->pod->priority && pod->occupancy >= least &&
	       pod->occupancy <= OCCUPANCY_BOUND && !pod->facts.mirror && !pod->facts.finished &&
	       !pod->facts.deleting;
}

static void collect(struct plan_work *work)
{
	const struct preemption_question *question = work->question;

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
}

static size_t list_length(const struct list *list)
{
	size_t n = 0;

	for (const struct list *item = list->next; item != list; item = item->next)
		n++;
	return n;
}

static void work_release(struct plan_work *work)
{
	free(work->candidates);
	free(work->aside);
	free(work->by_size);
	free(work->was_gone);
}

static int work_open(struct plan_work *work)
{
	size_t n = list_length(&work->node->pods) + 1;

	work->candidates = calloc(n, sizeof(*work->candidates));
	work->aside = calloc(n, sizeof(*work->aside));
	work->by_size = calloc(n, sizeof(*work->by_size));
	work->was_gone = calloc(n, sizeof(*work->was_gone));
	if (!work->candidates || !work->aside || !work->by_size || !work->was_gone)
		return -ENOMEM;
	collect(work);
	nominations_lay(work->node, work->question->pod);
	for (size_t i = 0; i < work->n_aside; i++)
		node_ledger_remove(work->node, work->aside[i]);
	for (size_t i = 0; i < work->n_candidates; i++)
		if (work->candidates[i].given)
			candidate_leave(work, &work->candidates[i]);
	return 0;
}

static void work_close(struct plan_work *work)
{
	for (size_t i = 0; i < work->n_candidates; i++)
		if (work->candidates[i].gone)
			candidate_return(work, &work->candidates[i]);
	for (size_t i = 0; i < work->n_aside; i++)
		node_ledger_add(work->node, work->aside[i]);
	nominations_lift(work->node, work->question->pod);
}

/* Would the eviction of this one, after all that are gone, go over a budget? */
static bool violates(const struct plan_work *work, const struct candidate *candidate)
{
	if (candidate->n_budgets > 1)
		return true;
	for (size_t b = 0; b < candidate->n_budgets; b++) {
		int64_t used = 0;

		for (size_t i = 0; i < work->n_candidates; i++) {
			const struct candidate *other = &work->candidates[i];

			if (other == candidate || !other->gone)
				continue;
			for (size_t k = 0; k < other->n_budgets; k++)
				used += other->budgets[k] == candidate->budgets[b];
		}
		if (used >= candidate->budgets[b]->allowed)
			return true;
	}
	return false;
}

/* The largest first: with them the fewest suffice. Among equal ones the least important. */
static int compare_size(const void *a, const void *b)
{
	const struct candidate *x = *(const struct candidate *const *)a;
	const struct candidate *y = *(const struct candidate *const *)b;

	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return compare_importance(x->pod, y->pod);
}

/* What the card has too much of. Where it is units and computing power, a percent of the one is worth a
 * percent of the other. */
struct shortage {
	bool units, core;
};

static struct shortage card_shortage(const struct gpu_ledger *gpu, const struct request *request)
{
	return (struct shortage){
		.units = gpu_free_units(gpu) < request_units_per_card(request),
		.core = gpu_free_core(gpu) < request->core,
	};
}

static uint64_t card_taken(const struct gpu_ledger *gpu, struct shortage shortage)
{
	if (!shortage.units && !shortage.core)
		return gpu->instances;
	return (shortage.units ? (uint64_t)gpu->units_used * CORE_PER_CARD : 0) +
	       (shortage.core ? (uint64_t)gpu->core_used * gpu->units_total : 0);
}

/* Those that occupy something of this card and are not gone yet, in work->by_size. */
static size_t candidates_on_card(struct plan_work *work, const struct gpu_ledger *gpu)
{
	struct shortage shortage = card_shortage(gpu, &work->question->pod->request);
	size_t n = 0;

	for (size_t i = 0; i < work->n_candidates; i++) {
		struct candidate *candidate = &work->candidates[i];
		uint64_t taken = card_taken(gpu, shortage);
		uint32_t containers = gpu->instances;

		if (candidate->gone)
			continue;
		candidate_leave(work, candidate);
		candidate->size = taken - card_taken(gpu, shortage);
		containers -= gpu->instances;
		candidate_return(work, candidate);
		if (containers)
			work->by_size[n++] = candidate;
	}
	qsort(work->by_size, n, sizeof(struct candidate *), compare_size);
	return n;
}

static bool card_fits(const struct plan_work *work, const struct gpu_ledger *gpu)
{
	return gpu_misfit(gpu, &work->question->pod->request) == CARD_FITS;
}

/* Take away pods of at most this priority until the card has room. */
static bool card_clear_up_to(
	struct plan_work *work, const struct gpu_ledger *gpu, size_t n, int32_t priority, bool violating)
{
	for (int pass = 0; pass <= violating; pass++) {
		for (size_t i = 0; i < n && !card_fits(work, gpu); i++) {
			struct candidate *candidate = work->by_size[i];

			if (candidate->gone || candidate->pod->facts.priority > priority)
				continue;
			if (pass == 1 || !violates(work, candidate))
				candidate_leave(work, candidate);
		}
	}
	return card_fits(work, gpu);
}

static void candidates_return(struct plan_work *work, struct candidate *const *candidates, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (candidates[i]->gone)
			candidate_return(work, candidates[i]);
}

/* Take away as few and as unimportant pods as possible so that the card has room. Who is protected by no
 * budget, first of all; then by the least priority that suffices. False: nothing helps, and nobody went. */
static bool card_clear(struct plan_work *work, const struct gpu_ledger *gpu, size_t *ret_n)
{
	size_t n = candidates_on_card(work, gpu);
	int last_pass = work->question->may_violate;

	*ret_n = n;
	for (int pass = 0; pass <= last_pass; pass++) {
		int64_t priority = INT64_MIN;

		for (;;) {
			int64_t next = INT64_MAX;

			for (size_t i = 0; i < n; i++) {
				int32_t of_pod = work->by_size[i]->pod->facts.priority;

				if (of_pod > priority && of_pod < next)
					next = of_pod;
			}
			if (next == INT64_MAX)
				break;
			priority = next;
			if (card_clear_up_to(work, gpu, n, (int32_t)priority, pass == 1))
				return true;
			candidates_return(work, work->by_size, n);
		}
	}
	return false;
}

/* What the order of victims looks at. */
struct rank {
	size_t violations;
	int64_t highest, sum;
	size_t count;
	int64_t earliest; /* start of the first started of the highest priority; not started: now, the latest
			   */
};

static struct rank rank_start(size_t violations)
{
	return (struct rank){.violations = violations, .highest = INT64_MIN, .earliest = INT64_MAX};
}

static void rank_add(struct rank *rank, const struct ledger_pod *pod)
{
	int64_t started = pod->facts.started ? pod->facts.started : INT64_MAX;

	if (pod->facts.priority > rank->highest) {
		rank->highest = pod->facts.priority;
		rank->earliest = started;
	} else if (pod->facts.priority == rank->highest && started < rank->earliest) {
		rank->earliest = started;
	}
	rank->sum += (int64_t)pod->facts.priority - INT32_MIN;
	rank->count++;
}

static int rank_compare(const struct rank *a, const struct rank *b)
{
	if (a->violations != b->violations)
		return a->violations < b->violations ? -1 : 1;
	if (a->highest != b->highest)
		return a->highest < b->highest ? -1 : 1;
	if (a->sum != b->sum)
		return a->sum < b->sum ? -1 : 1;
	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	if (a->earliest != b->earliest)
		return a->earliest > b->earliest ? -1 : 1;
	return 0;
}

/* Of k pods of one budget that allows a, k - a violate it: each is asked against those that were not asked
 * yet. */
static size_t count_violations(struct plan_work *work)
{
	size_t n = 0;

	for (size_t i = 0; i < work->n_candidates; i++)
		work->was_gone[i] = work->candidates[i].gone;
	for (size_t i = 0; i < work->n_candidates; i++) {
		struct candidate *candidate = &work->candidates[i];

		if (!candidate->gone || candidate->given)
			continue;
		candidate->gone = false;
		n += violates(work, candidate);
	}
	for (size_t i = 0; i < work->n_candidates; i++)
		work->candidates[i].gone = work->was_gone[i];
	return n;
}

static struct rank rank_now(struct plan_work *work)
{
	struct rank rank = rank_start(count_violations(work));

	for (size_t i = 0; i < work->n_candidates; i++)
		if (work->candidates[i].gone)
			rank_add(&rank, work->candidates[i].pod);
	return rank;
}

/* It is others that keep the pod off it. */
static bool card_is_occupied(const struct plan_work *work, const struct gpu_ledger *gpu)
{
	enum card_misfit misfit = gpu_misfit(gpu, &work->question->pod->request);

	return misfit == CARD_FULL || misfit == CARD_CORE || misfit == CARD_INSTANCES;
}

/* Free one more card, the one whose victims matter least. False: no card can be freed. */
static bool free_one_card(struct plan_work *work)
{
	const struct gpu_ledger *best = NULL;
	struct rank best_rank = rank_start(0), rank;
	size_t n;

	for (size_t i = 0; i < work->node->facts.n_gpus; i++) {
		const struct gpu_ledger *gpu = &work->node->gpus[i];

		if (!card_is_occupied(work, gpu) || !card_clear(work, gpu, &n))
			continue;
		rank = rank_now(work);
		candidates_return(work, work->by_size, n);
		if (!best || rank_compare(&rank, &best_rank) < 0) {
			best = gpu;
			best_rank = rank;
		}
	}
	return best && card_clear(work, best, &n);
}

/* Pods without a placement take from the node as a whole: when a card is free but the node's sum is not. */
static bool free_one_unplaced(struct plan_work *work)
{
	struct candidate *best = NULL;

	for (size_t i = 0; i < work->n_candidates; i++) {
		struct candidate *candidate = &work->candidates[i];

		if (candidate->gone || candidate->pod->has_placement)
			continue;
		if (!work->question->may_violate && violates(work, candidate))
			continue;
		if (!best || compare_importance(candidate->pod, best->pod) < 0)
			best = candidate;
	}
	if (best)
		candidate_leave(work, best);
	return best != NULL;
}

static int compare_victims(const void *a, const void *b)
{
	return compare_importance(*(const struct ledger_pod *const *)b, *(const struct ledger_pod *const *)a);
}

static int compare_candidates(const void *a, const void *b)
{
	return compare_importance(((const struct candidate *)b)->pod, ((const struct candidate *)a)->pod);
}

/* Who is gone and need not be, comes back, the most important first. */
static void reprieve(struct plan_work *work)
{
	qsort(work->candidates, work->n_candidates, sizeof(*work->candidates), compare_candidates);
	for (size_t i = 0; i < work->n_candidates; i++) {
		struct candidate *candidate = &work->candidates[i];

		if (!candidate->gone || candidate->given)
			continue;
		candidate_return(work, candidate);
		if (!fits(work))
			candidate_leave(work, candidate);
	}
}

static int plan_fill(struct plan_work *work, struct preemption_plan *plan)
{
	const struct pod_facts *pod = work->question->pod;

	plan->node = work->node;
	plan->victims = calloc(work->n_candidates + 1, sizeof(*plan->victims));
	if (!plan->victims)
		return -ENOMEM;
	for (size_t i = 0; i < work->n_candidates; i++)
		if (work->candidates[i].gone)
			plan->victims[plan->n_victims++] = work->candidates[i].pod;
	qsort(plan->victims, plan->n_victims, sizeof(*plan->victims), compare_victims);
	plan->n_violations = count_violations(work);
	return placement_choose(work->node, &pod->request, pod->owner ? pod->owner : "", &plan->placement);
}

static bool fits_without_waiting(struct plan_work *work)
{
	bool yes;

	for (size_t i = 0; i < work->n_aside; i++)
		if (work->aside[i]->facts.deleting)
			node_ledger_add(work->node, work->aside[i]);
	yes = fits(work);
	for (size_t i = 0; i < work->n_aside; i++)
		if (work->aside[i]->facts.deleting)
			node_ledger_remove(work->node, work->aside[i]);
	return yes;
}

static bool is_of_other_kind(const struct request *request, const struct ledger_pod *pod)
{
	return (request->core > 0) != (pod->facts.request.core > 0);
}

/* Where the two kinds may not meet, all pods of the other kind must go. */
static bool free_of_other_kind(struct plan_work *work)
{
	const struct request *request = &work->question->pod->request;

	for (size_t i = 0; i < work->n_candidates && node_ledger_mixes(work->node, request); i++) {
		struct candidate *candidate = &work->candidates[i];

		if (candidate->gone || !is_of_other_kind(request, candidate->pod) ||
			(!work->question->may_violate && violates(work, candidate)))
			continue;
		candidate_leave(work, candidate);
	}
	return !node_ledger_mixes(work->node, request);
}

static int plan_make(struct plan_work *work, struct preemption_plan *plan)
{
	if (!free_of_other_kind(work))
		return MISFIT_MIXED;
	while (!fits(work))
		if (!free_one_card(work) && !free_one_unplaced(work))
			return MISFIT_FULL;
	reprieve(work);
	plan->waits = !fits_without_waiting(work);
	return plan_fill(work, plan);
}

void preemption_plan_release(struct preemption_plan *plan)
{
	if (!plan)
		return;
	placement_release(&plan->placement);
	free(plan->victims);
	*plan = (struct preemption_plan){0};
}

int preemption_plan_node(struct ledger *ledger, const char *node, const struct preemption_question *question,
	struct preemption_plan *ret_plan)
{
	_cleanup_preemption_plan_ struct preemption_plan plan = {0};
	struct plan_work work = {.node = table_get(&ledger->nodes, node), .question = question};
	int r;

	if (!work.node)
		return MISFIT_NO_GPU_NODE;
	r = node_ledger_serves(work.node, &question->pod->request);
	if (r != FITS)
		return r;
	r = work_open(&work);
	if (r == 0) {
		r = plan_make(&work, &plan);
		work_close(&work);
	}
	work_release(&work);
	if (r != FITS)
		return r;
	*ret_plan = plan;
	plan = (struct preemption_plan){0};
	return FITS;
}

static struct rank plan_rank(const struct preemption_plan *plan)
{
	struct rank rank = rank_start(plan->n_violations);

	for (size_t i = 0; i < plan->n_victims; i++)
		rank_add(&rank, plan->victims[i]);
	return rank;
}

int preemption_plan_compare(const struct preemption_plan *a, const struct preemption_plan *b)
{
	struct rank x = plan_rank(a), y = plan_rank(b);
	int r = rank_compare(&x, &y);

	return r ? r : strcmp(a->node->facts.name, b->node->facts.name);
}

bool preemption_is_pointless(const struct ledger *ledger, const struct pod_facts *pod)
{
	return pod->priority <= ledger->lowest_priority;
}
