/* The truth about GPUs, by the API server, and whether pods that wait would find room: counted and searched
 * here, not by what is tested. */
#include <stdlib.h>
#include <string.h>

#include "core/registry/nomination.h"
#include "sim.h"

bool fitting_occupies(const struct pod *pod)
{
	return pod->state.exists && pod->state.phase < PHASE_SUCCEEDED;
}

/* A Binding that comes after its node has changed is of other units than the node counts in now: the memory
 * that they are is what counts, in whole units. */
static uint32_t in_units_of(const struct sim *sim, const struct pod *pod, uint32_t units)
{
	uint64_t of_pod = pod->state.placed ? pod->placement.unit_mib : 0;
	uint64_t of_node = sim->nodes[pod->state.node].facts.unit_mib;

	return of_pod && !pod->shape.whole ? (uint32_t)((units * of_pod + of_node - 1) / of_node) : units;
}

static void recount_pod(const struct sim *sim, const struct pod *pod, struct truth *ret)
{
	const struct request *spec = &pod->facts.request, *has = size_request(pod, pod->state.size);
	int n = pod->state.node;

	if (pod->shape.whole == terms_whole(sim, n))
		ret->all[n] += spec->units;
	if (!pod->shape.whole)
		ret->surplus_ids[n] += (int64_t)spec->units - in_units_of(sim, pod, has->units);
	if (!pod->gpus) {
		ret->unplaced[n] += spec->units;
		ret->unplaced_core[n] += spec->core;
	}
	ret->all_core[n] += spec->core;
	*(spec->core ? &ret->with_core[n] : &ret->without_core[n]) = true;
	for_each_bit (k, pod->gpus) {
		ret->used[n][k] += pod->shape.whole ? terms_gpu_units(sim, n, k)
						    : in_units_of(sim, pod, request_units_per_gpu(has));
		ret->instances[n][k] += spec->instances;
		ret->core[n][k] += spec->core;
	}
}

void fitting_recount(const struct sim *sim, struct truth *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (int i = 0; i < sim->n_pods; i++)
		if (fitting_occupies(&sim->pods[i]) && sim->pods[i].state.node >= 0)
			recount_pod(sim, &sim->pods[i], ret);
}

static uint32_t free_of(uint32_t total, uint32_t used)
{
	return used < total ? total - used : 0;
}

static bool gpu_fits(
	const struct sim *sim, const struct truth *truth, int n, int k, const struct request *request)
{
	uint32_t max = terms_whole(sim, n) ? 0 : sim->plan->instances_max[n];

	return !(sim->nodes[n].state.sick & (1 << k)) &&
	       free_of(terms_gpu_units(sim, n, k), truth->used[n][k]) >= request_units_per_gpu(request) &&
	       free_of(CORE_PER_GPU, truth->core[n][k]) >= request->core &&
	       (!max || truth->instances[n][k] + request->instances <= max);
}

bool fitting_fits(const struct sim *sim, const struct truth *truth, int n, const struct request *request)
{
	uint32_t total = 0, free_units = 0, gpus = 0;
	uint32_t core_total = sim->plan->n_gpus[n] * CORE_PER_GPU, core_free = 0;

	if (sim->nodes[n].state.closed || request->whole != terms_whole(sim, n))
		return false;
	for (int k = 0; k < sim->plan->n_gpus[n]; k++) {
		uint32_t size = terms_gpu_units(sim, n, k);

		total += size;
		if (sim->nodes[n].state.sick & (1 << k))
			continue;
		free_units += free_of(size, truth->used[n][k]);
		gpus += gpu_fits(sim, truth, n, k, request);
		core_free += free_of(CORE_PER_GPU, truth->core[n][k]);
	}
	if (sim->plan->core_mem[n] && !request->whole && !sim->plan->mixing[n] &&
		(request->core ? truth->without_core[n] : truth->with_core[n]))
		return false;
	if (request->core && (!sim->plan->core_mem[n] || truth->all_core[n] + request->core > core_total ||
				     core_free < truth->unplaced_core[n] + request->core))
		return false;
	return gpus >= request_gpus(request) && truth->all[n] + request->units <= total &&
	       free_units >= truth->unplaced[n] + request->units +
				     (truth->surplus_ids[n] > 0 ? truth->surplus_ids[n] : 0);
}

/* One place: a node and a set of its GPUs. */
#define PLACES (NODES_MAX << GPUS_MAX)
#define STEPS_MAX 300000

/* The next one from this one on that is worth a look: of whole GPUs it matters only how many are free. */
static int next_place(
	const struct sim *sim, const struct truth *truth, int place, const struct request *request)
{
	int n = place >> GPUS_MAX, gpus = place & ((1 << GPUS_MAX) - 1);
	unsigned int lowest = 0, found = 0;

	if (n >= sim->n_nodes)
		return PLACES;
	if (!request->whole)
		return gpus >> sim->plan->n_gpus[n] ? next_place(sim, truth, (n + 1) << GPUS_MAX, request)
						    : place;
	for (int k = 0; k < sim->plan->n_gpus[n] && found < request_gpus(request); k++)
		if (gpu_fits(sim, truth, n, k, request)) {
			lowest |= 1u << k;
			found++;
		}
	if (found == request_gpus(request) && (int)lowest >= gpus)
		return n << GPUS_MAX | (int)lowest;
	return next_place(sim, truth, (n + 1) << GPUS_MAX, request);
}

static bool place_fits(
	const struct sim *sim, const struct truth *truth, int place, const struct request *request)
{
	int n = place >> GPUS_MAX, gpus = place & ((1 << GPUS_MAX) - 1);

	if (n >= sim->n_nodes || gpus >> sim->plan->n_gpus[n] ||
		(uint32_t)__builtin_popcount((unsigned int)gpus) != request_gpus(request))
		return false;
	for (int k = 0; k < sim->plan->n_gpus[n]; k++)
		if ((gpus >> k & 1) && !gpu_fits(sim, truth, n, k, request))
			return false;
	return fitting_fits(sim, truth, n, request);
}

static void gpus_take(struct truth *truth, int n, uint8_t gpus, const struct request *request)
{
	for_each_bit (k, gpus) {
		truth->used[n][k] += request_units_per_gpu(request);
		truth->instances[n][k] += request->instances;
		truth->core[n][k] += request->core;
	}
	*(request->core ? &truth->with_core[n] : &truth->without_core[n]) = true;
}

static void place_take(struct truth *truth, int place, const struct request *request)
{
	int n = place >> GPUS_MAX;

	gpus_take(truth, n, (uint8_t)(place & ((1 << GPUS_MAX) - 1)), request);
	truth->all[n] += request->units;
	truth->all_core[n] += request->core;
}

struct search {
	const struct sim *sim;
	const struct request *requests[PODS_MAX];
	size_t n;
	uint32_t steps;
};

static bool is_alike(const struct request *a, const struct request *b)
{
	return request_gpus(a) == request_gpus(b) && a->whole == b->whole && a->units == b->units &&
	       a->core == b->core && a->instances == b->instances;
}

/* from: where the one before, if it is alike, sits: alike ones sit in order, or all of them not at all. */
static bool slot(struct search *search, const struct truth *truth, size_t at, size_t needed, int from)
{
	const struct request *request = search->requests[at];
	size_t next = at + 1;

	if (!needed)
		return true;
	if (search->n - at < needed || !search->steps)
		return false;
	search->steps--;
	for (int place = next_place(search->sim, truth, from, request); place < PLACES;
		place = next_place(search->sim, truth, place + 1, request)) {
		struct truth after = *truth;

		if (!place_fits(search->sim, truth, place, request))
			continue;
		place_take(&after, place, request);
		if (slot(search, &after, next, needed - 1,
			    next < search->n && is_alike(request, search->requests[next]) ? place : 0))
			return true;
	}
	while (next < search->n && is_alike(request, search->requests[next]))
		next++;
	return slot(search, truth, next, needed, 0);
}

int fitting_all(const struct sim *sim, const struct truth *truth, uint64_t pods, size_t needed)
{
	struct search search = {.sim = sim, .steps = STEPS_MAX};

	for_each_bit (i, pods)
		search.requests[search.n++] = &sim->pods[i].facts.request;
	for (size_t i = 1; i < search.n; i++) /* alike ones beside each other */
		for (size_t k = i; k > 0 && search.requests[k]->units > search.requests[k - 1]->units; k--) {
			const struct request *other = search.requests[k];

			search.requests[k] = search.requests[k - 1];
			search.requests[k - 1] = other;
		}
	if (slot(&search, truth, 0, needed, 0))
		return 1;
	return search.steps ? 0 : -1;
}

/* Two pods of one gang are not in each other's way. */
bool fitting_is_kept_from(const struct sim *sim, const struct nomination *kept, int pod)
{
	int owner = atoi(kept->shadow.facts.uid + 1);

	return owner != pod && kept->pod->occupancy == OCCUPANCY_WAITING &&
	       kept->shadow.facts.priority >= sim->pods[pod].facts.priority &&
	       (!pod_gang(sim, pod) || pod_gang(sim, pod) != pod_gang(sim, owner));
}

void fitting_lay_kept(const struct sim *sim, int pod, struct truth *truth)
{
	for (int i = 0; i < sim->n_pairs; i++) {
		const struct ration *ration = &sim->rations[i];

		if (!sim->kube_schedulers[i].leads || !ration->alive)
			continue;
		list_for_each (item, &ration->core.ledger.nominations) {
			const struct nomination *kept = list_entry(item, struct nomination, all);
			int n = kept->node->facts.name[1] - '0';

			if (fitting_is_kept_from(sim, kept, pod))
				gpus_take(truth, n, api_gpus(sim, n, &kept->shadow.placement),
					&kept->shadow.facts.request);
		}
	}
}
