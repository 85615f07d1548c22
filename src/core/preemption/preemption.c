#include "core/preemption/preemption.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/placement/choose.h"
#include "core/preemption/preemption-pick.h"
#include "core/preemption/preemption-work.h"
#include "core/registry/node-ledger.h"

/* ---- frees one GPU by evicting as few and as unimportant pods as possible ---- */

/* The largest pod comes first, because the fewest large pods suffice. Among equal pods, the least important
 * comes first. */
static int compare_size(const void *a, const void *b)
{
	const struct candidate *x = *(const struct candidate *const *)a;
	const struct candidate *y = *(const struct candidate *const *)b;

	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return pod_compare_importance(x->pod, y->pod);
}

/* What the GPU lacks for the pod. If it lacks units and computing power, a percent of one is worth a percent
 * of the other. */
struct shortage {
	bool units, core;
};

static struct shortage gpu_shortage(const struct gpu_ledger *gpu, const struct request *request)
{
	return (struct shortage){
		.units = gpu_free_units(gpu) < request_units_per_gpu(request),
		.core = gpu_free_core(gpu) < request->core,
	};
}

static uint64_t gpu_taken(const struct gpu_ledger *gpu, struct shortage shortage)
{
	if (!shortage.units && !shortage.core)
		return gpu->instances;
	return (shortage.units ? (uint64_t)gpu->units_used * CORE_PER_GPU : 0) +
	       (shortage.core ? (uint64_t)gpu->core_used * gpu->units_total : 0);
}

/* Writes the candidates that occupy something of this GPU and are not gone into work->by_size. Returns their
 * number. */
static size_t candidates_on_gpu(struct plan_work *work, const struct gpu_ledger *gpu)
{
	struct shortage shortage = gpu_shortage(gpu, &work->question->pod->request);
	size_t n = 0;

	for (size_t i = 0; i < work->n_candidates; i++) {
		struct candidate *candidate = &work->candidates[i];
		uint64_t taken = gpu_taken(gpu, shortage);
		uint32_t containers = gpu->instances, units = gpu->units_used, core = gpu->core_used;

		if (candidate->gone)
			continue;
		candidate_leave(work, candidate);
		candidate->size = taken - gpu_taken(gpu, shortage);
		candidate->units = units - gpu->units_used;
		candidate->core = core - gpu->core_used;
		containers -= gpu->instances;
		candidate_return(work, candidate);
		if (containers)
			work->by_size[n++] = candidate;
	}
	qsort(work->by_size, n, sizeof(struct candidate *), compare_size);
	return n;
}

static bool gpu_fits(const struct plan_work *work, const struct gpu_ledger *gpu)
{
	return gpu_reject_reason(gpu, &work->question->pod->request) == GPU_FITS;
}

/* Takes out pods up to this priority until the GPU has room. */
static bool gpu_clear_up_to(
	struct plan_work *work, const struct gpu_ledger *gpu, size_t n, int32_t priority, bool violating)
{
	for (int pass = 0; pass <= violating; pass++) {
		for (size_t i = 0; i < n && !gpu_fits(work, gpu); i++) {
			struct candidate *candidate = work->by_size[i];

			if (candidate->gone || candidate->pod->facts.priority > priority)
				continue;
			if (pass == 1 || !candidate_violates(work, candidate))
				candidate_leave(work, candidate);
		}
	}
	return gpu_fits(work, gpu);
}

/* Chooses among the candidates up to this priority that have a budget. */
static bool pick_among(const struct plan_work *work, size_t n, int32_t priority, struct pick *pick)
{
	for (size_t i = 0; i < n; i++) {
		struct candidate *candidate = work->by_size[i];

		if (candidate->gone || candidate->pod->facts.priority > priority ||
			candidate_violates(work, candidate))
			continue;
		if (pick_add(pick, candidate, (size_t)work_places(work, candidate->budgets[0])) < 0)
			return false;
	}
	return pick_within(pick);
}

/* The same for a GPU that is short of memory and computing power at once, if the budgets do not have places
 * for all. Then other pods than the largest may suffice. If containers are short too, not all choices are
 * tried. */
static bool gpu_clear_within_budgets(
	struct plan_work *work, const struct gpu_ledger *gpu, size_t n, int32_t priority)
{
	const struct request *request = &work->question->pod->request;
	struct pick pick = {0};

	if (!gpu_shortage(gpu, request).units || !gpu_shortage(gpu, request).core)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!work->by_size[i]->n_budgets && work->by_size[i]->pod->facts.priority <= priority)
			candidate_leave(work, work->by_size[i]);
	pick.units = (int64_t)request_units_per_gpu(request) + gpu->units_used - gpu->units_total;
	pick.core = (int64_t)request->core + gpu->core_used - CORE_PER_GPU;
	if (!pick_among(work, n, priority, &pick))
		return false;
	for (size_t i = 0; i < pick.n; i++)
		if (pick.chosen[i])
			candidate_leave(work, pick.from[i]);
	return gpu_clear_up_to(work, gpu, n, priority, false);
}

static int64_t next_priority(const struct plan_work *work, size_t n, int64_t after)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < n; i++) {
		int32_t of_pod = work->by_size[i]->pod->facts.priority;

		if (of_pod > after && of_pod < next)
			next = of_pod;
	}
	return next;
}

/* Takes pods out of the node's sums until the GPU has room for the pod of the question. Pods that no budget
 * protects go first. Then the lowest priority that suffices counts. work->by_size has *ret_n candidates
 * afterwards; the victims among them are gone. False: nothing helps, and no pod is gone. */
static bool gpu_clear(struct plan_work *work, const struct gpu_ledger *gpu, size_t *ret_n)
{
	size_t n = candidates_on_gpu(work, gpu);

	*ret_n = n;
	for (int violating = 0; violating <= work->question->may_violate; violating++) {
		int64_t priority = next_priority(work, n, INT64_MIN);

		for (; priority != INT64_MAX; priority = next_priority(work, n, priority)) {
			if (gpu_clear_up_to(work, gpu, n, (int32_t)priority, violating))
				return true;
			candidates_return(work, work->by_size, n);
			if (!violating && gpu_clear_within_budgets(work, gpu, n, (int32_t)priority))
				return true;
			candidates_return(work, work->by_size, n);
		}
	}
	return false;
}

/* ---- the node ---- */

static bool fits(const struct plan_work *work)
{
	const struct pod_facts *pod = work->question->pod;

	return placement_choose(work->node, &pod->request, pod->owner ? pod->owner : "", NULL) == FITS;
}

/* What the order of victims compares. */
struct rank {
	size_t violations;
	int64_t highest, sum;
	size_t count;
	int64_t earliest; /* when the first pod of the highest priority started; a pod that has not started
			     counts as the latest */
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

static struct rank rank_now(struct plan_work *work)
{
	struct rank rank = rank_start(work_count_violations(work));

	for (size_t i = 0; i < work->n_candidates; i++)
		if (work->candidates[i].gone)
			rank_add(&rank, work->candidates[i].pod);
	return rank;
}

/* True if other pods keep the pod from this GPU. */
static bool gpu_is_occupied(const struct plan_work *work, const struct gpu_ledger *gpu)
{
	enum gpu_reject_reason reject_reason = gpu_reject_reason(gpu, &work->question->pod->request);

	return reject_reason == GPU_FULL || reject_reason == GPU_CORE || reject_reason == GPU_INSTANCES;
}

/* Frees one more GPU: the one whose victims matter least. False: no GPU can be freed. */
static bool free_one_gpu(struct plan_work *work)
{
	const struct gpu_ledger *best = NULL;
	struct rank best_rank = rank_start(0), rank;
	size_t n;

	for (size_t i = 0; i < work->node->facts.n_gpus; i++) {
		const struct gpu_ledger *gpu = &work->node->gpus[i];

		if (!gpu_is_occupied(work, gpu) || !gpu_clear(work, gpu, &n))
			continue;
		rank = rank_now(work);
		candidates_return(work, work->by_size, n);
		if (!best || rank_compare(&rank, &best_rank) < 0) {
			best = gpu;
			best_rank = rank;
		}
	}
	return best && gpu_clear(work, best, &n);
}

/* Pods without a placement count against the node as a whole, so a GPU may be free while the node's sum is
 * not. Then one of these pods goes. If all of them stay, any other pod goes, because it makes room in the sum
 * as well. */
static bool free_of_sum(struct plan_work *work)
{
	struct candidate *best = NULL;

	for (size_t i = 0; i < work->n_candidates; i++) {
		struct candidate *candidate = &work->candidates[i];
		bool placed = candidate->pod->has_placement;

		if (candidate->gone)
			continue;
		if (!work->question->may_violate && candidate_violates(work, candidate))
			continue;
		if (!best || placed < best->pod->has_placement ||
			(placed == best->pod->has_placement &&
				pod_compare_importance(candidate->pod, best->pod) < 0))
			best = candidate;
	}
	if (best)
		candidate_leave(work, best);
	return best != NULL;
}

static int compare_victims(const void *a, const void *b)
{
	return pod_compare_importance(
		*(const struct ledger_pod *const *)b, *(const struct ledger_pod *const *)a);
}

static int compare_candidates(const void *a, const void *b)
{
	return pod_compare_importance(((const struct candidate *)b)->pod, ((const struct candidate *)a)->pod);
}

/* Puts pods back that need not go, the most important first. */
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

/* If pods of the two kinds must not be on the node together, all pods of the other kind must go. */
static bool free_of_other_kind(struct plan_work *work)
{
	const struct request *request = &work->question->pod->request;

	for (size_t i = 0; i < work->n_candidates && node_ledger_mixes(work->node, request); i++) {
		struct candidate *candidate = &work->candidates[i];

		if (candidate->gone || !((request->core > 0) != (candidate->pod->facts.request.core > 0)) ||
			(!work->question->may_violate && candidate_violates(work, candidate)))
			continue;
		candidate_leave(work, candidate);
	}
	return !node_ledger_mixes(work->node, request);
}

static int plan_make(struct plan_work *work, struct preemption_plan *plan)
{
	const struct pod_facts *pod;

	if (!free_of_other_kind(work))
		return REJECT_MIXED;
	while (!fits(work))
		if (!free_one_gpu(work) && !free_of_sum(work))
			return REJECT_FULL;
	reprieve(work);
	plan->waits = !fits_without_waiting(work);
	pod = work->question->pod;
	plan->node = work->node;
	plan->victims = calloc(work->n_candidates + 1, sizeof(*plan->victims));
	if (!plan->victims)
		return -ENOMEM;
	for (size_t i = 0; i < work->n_candidates; i++)
		if (work->candidates[i].gone)
			plan->victims[plan->n_victims++] = work->candidates[i].pod;
	qsort(plan->victims, plan->n_victims, sizeof(*plan->victims), compare_victims);
	plan->n_violations = work_count_violations(work);
	return placement_choose(work->node, &pod->request, pod->owner ? pod->owner : "", &plan->placement);
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
		return REJECT_NO_GPU_NODE;
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
