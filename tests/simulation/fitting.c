/* The truth about cards, by the API server, and whether pods that wait would find room: counted and searched
 * here, not by what is tested. */
#include <stdlib.h>
#include <string.h>

#include "model/nomination.h"
#include "sim.h"

bool fitting_occupies(const struct pod *pod)
{
	return pod->state.exists && pod->state.phase < PHASE_SUCCEEDED;
}

void fitting_recount(const struct sim *sim, struct truth *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (int i = 0; i < sim->n_pods; i++) {
		const struct pod *pod = &sim->pods[i];

		if (!fitting_occupies(pod) || pod->state.node < 0)
			continue;
		ret->all[pod->state.node] += pod->facts.request.units;
		ret->surplus_ids[pod->state.node] += (int64_t)pod->facts.request.units -
						     size_request(pod, pod->state.size)->units;
		if (!pod->cards) {
			ret->unplaced[pod->state.node] += pod->facts.request.units;
			ret->unplaced_core[pod->state.node] += pod->facts.request.core;
		}
		ret->all_core[pod->state.node] += pod->facts.request.core;
		*(pod->facts.request.core ? &ret->with_core[pod->state.node]
					  : &ret->without_core[pod->state.node]) = true;
		for_each_bit (k, pod->cards) {
			ret->used[pod->state.node][k] += request_units_per_card(
				size_request(pod, pod->state.size));
			ret->instances[pod->state.node][k] += pod->facts.request.instances;
			ret->core[pod->state.node][k] += pod->facts.request.core;
		}
	}
}

static uint32_t free_of(uint32_t total, uint32_t used)
{
	return used < total ? total - used : 0;
}

static bool card_fits(
	const struct sim *sim, const struct truth *truth, int n, int k, const struct request *request)
{
	uint32_t max = sim->plan->instances_max[n];

	return !(sim->nodes[n].state.sick & (1 << k)) &&
	       free_of(sim->plan->card_units[n][k], truth->used[n][k]) >= request_units_per_card(request) &&
	       free_of(CORE_PER_CARD, truth->core[n][k]) >= request->core &&
	       (!max || truth->instances[n][k] + request->instances <= max);
}

bool fitting_fits(const struct sim *sim, const struct truth *truth, int n, const struct request *request)
{
	uint32_t total = 0, free_units = 0, cards = 0;
	uint32_t core_total = sim->plan->n_cards[n] * CORE_PER_CARD, core_free = 0;

	if (sim->nodes[n].state.closed || sim->nodes[n].mixed_units)
		return false;
	for (int k = 0; k < sim->plan->n_cards[n]; k++) {
		uint32_t size = sim->plan->card_units[n][k];

		total += size;
		if (sim->nodes[n].state.sick & (1 << k))
			continue;
		free_units += free_of(size, truth->used[n][k]);
		cards += card_fits(sim, truth, n, k, request);
		core_free += free_of(CORE_PER_CARD, truth->core[n][k]);
	}
	if (sim->plan->core_mem[n] && !sim->plan->mixing[n] &&
		(request->core ? truth->without_core[n] : truth->with_core[n]))
		return false;
	if (request->core && (!sim->plan->core_mem[n] || truth->all_core[n] + request->core > core_total ||
				     core_free < truth->unplaced_core[n] + request->core))
		return false;
	return cards >= request_cards(request) && truth->all[n] + request->units <= total &&
	       free_units >= truth->unplaced[n] + request->units +
				     (truth->surplus_ids[n] > 0 ? truth->surplus_ids[n] : 0);
}

/* One place: a node and a set of its cards. */
#define PLACES (NODES_MAX << CARDS_MAX)
#define STEPS_MAX 300000

static bool place_fits(
	const struct sim *sim, const struct truth *truth, int place, const struct request *request)
{
	int n = place >> CARDS_MAX, cards = place & ((1 << CARDS_MAX) - 1);

	if (n >= sim->n_nodes || cards >> sim->plan->n_cards[n] ||
		(uint32_t)__builtin_popcount((unsigned int)cards) != request_cards(request))
		return false;
	for (int k = 0; k < sim->plan->n_cards[n]; k++)
		if ((cards >> k & 1) && !card_fits(sim, truth, n, k, request))
			return false;
	return fitting_fits(sim, truth, n, request);
}

static void cards_take(struct truth *truth, int n, uint8_t cards, const struct request *request)
{
	for_each_bit (k, cards) {
		truth->used[n][k] += request_units_per_card(request);
		truth->instances[n][k] += request->instances;
		truth->core[n][k] += request->core;
	}
	*(request->core ? &truth->with_core[n] : &truth->without_core[n]) = true;
}

static void place_take(struct truth *truth, int place, const struct request *request)
{
	int n = place >> CARDS_MAX;

	cards_take(truth, n, (uint8_t)(place & ((1 << CARDS_MAX) - 1)), request);
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
	return request_cards(a) == request_cards(b) && a->units == b->units && a->core == b->core &&
	       a->instances == b->instances;
}

/* from: where the one before, if it is alike, sits: alike ones sit in order, or all of them not at all. */
static bool seat(struct search *search, const struct truth *truth, size_t at, size_t needed, int from)
{
	const struct request *request = search->requests[at];
	size_t next = at + 1;

	if (!needed)
		return true;
	if (search->n - at < needed || !search->steps)
		return false;
	search->steps--;
	for (int place = from; place < PLACES; place++) {
		struct truth after = *truth;

		if (!place_fits(search->sim, truth, place, request))
			continue;
		place_take(&after, place, request);
		if (seat(search, &after, next, needed - 1,
			    next < search->n && is_alike(request, search->requests[next]) ? place : 0))
			return true;
	}
	while (next < search->n && is_alike(request, search->requests[next]))
		next++;
	return seat(search, truth, next, needed, 0);
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
	if (seat(&search, truth, 0, needed, 0))
		return 1;
	return search.steps ? 0 : -1;
}

/* Two pods of one gang are not in each other's way. */
static bool is_kept_from(const struct sim *sim, const struct nomination *kept, int pod)
{
	int owner = atoi(kept->shadow.facts.uid + 1);

	return owner != pod && kept->pod->occupancy == OCCUPANCY_WAITING &&
	       kept->shadow.facts.priority >= sim->pods[pod].facts.priority &&
	       (!sim->pods[pod].shape.gang || sim->pods[pod].shape.gang != sim->pods[owner].shape.gang);
}

void fitting_lay_kept(const struct sim *sim, int pod, struct truth *truth)
{
	for (int i = 0; i < sim->n_pairs; i++) {
		const struct ration *ration = &sim->rations[i];

		if (!sim->kube_schedulers[i].leads || !ration->alive)
			continue;
		list_for_each (item, &ration->ledger.nominations) {
			const struct nomination *kept = list_entry(item, struct nomination, all);
			int n = kept->node->facts.name[1] - '0';

			if (is_kept_from(sim, kept, pod))
				cards_take(truth, n, api_cards(sim, n, &kept->shadow.placement),
					&kept->shadow.facts.request);
		}
	}
}
