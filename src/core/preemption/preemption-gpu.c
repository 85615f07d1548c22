#include "core/preemption/preemption-gpu.h"

#include <stdint.h>
#include <stdlib.h>

#include "core/preemption/preemption-pick.h"
#include "core/preemption/preemption-work.h"
#include "core/registry/node-ledger.h"

/* The largest first: with them the fewest suffice. Among equal ones the least important. */
static int compare_size(const void *a, const void *b)
{
	const struct candidate *x = *(const struct candidate *const *)a;
	const struct candidate *y = *(const struct candidate *const *)b;

	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return pod_compare_importance(x->pod, y->pod);
}

/* What the GPU has too much of. Where it is units and computing power, a percent of the one is worth a
 * percent of the other. */
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

/* Those that occupy something of this GPU and are not gone yet, in work->by_size. */
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

/* Take away pods of at most this priority until the GPU has room. */
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

/* Of those who are in a budget and of at most this priority. */
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

/* The same where memory and computing power are short at once, and budgets do not have places for all: then
 * it may be others than the largest that suffice. Where containers are short too, not all choices are tried.
 */
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

bool gpu_clear(struct plan_work *work, const struct gpu_ledger *gpu, size_t *ret_n)
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
