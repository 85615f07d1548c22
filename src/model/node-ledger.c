#include "model/node-ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/units.h"

/* What a pod adds to the sums of its card, or to the node's unplaced units. */
struct sums {
	uint64_t units[NODE_GPUS_MAX];
	uint64_t core[NODE_GPUS_MAX];
	uint64_t instances[NODE_GPUS_MAX];
	uint64_t unplaced;
	uint64_t unplaced_core;
	int64_t surplus_ids;
	size_t with_core, without_core;
};

struct node_ledger *node_ledger_new(const char *name)
{
	struct node_ledger *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	list_init(&node->pods);
	list_init(&node->nominations);
	node->facts.name = strdup(name);
	if (!node->facts.name) {
		free(node);
		return NULL;
	}
	return node;
}

void node_ledger_free(struct node_ledger *node)
{
	if (!node)
		return;
	free(node->facts.name);
	free(node->facts.uid);
	free(node->facts.address);
	held_release(&node->facts.held);
	free(node->gpus);
	free(node);
}

bool node_ledger_known(const struct node_ledger *node)
{
	return node->facts.uid != NULL;
}

/* The place of a card in node->gpus, or -1 if the node has no such card. */
static int gpu_find(const struct node_ledger *node, const char *uuid)
{
	for (size_t i = 0; i < node->facts.n_gpus; i++)
		if (strcmp(node->gpus[i].uuid, uuid) == 0)
			return (int)i;
	return -1;
}

const struct gpu_ledger *node_ledger_gpu(const struct node_ledger *node, const char *uuid)
{
	int i = gpu_find(node, uuid);

	return i < 0 ? NULL : &node->gpus[i];
}

/* All containers of a pod are on the same cards (placement_matches), so the first one names them. */
static const struct container_placement *placement_any(const struct placement *placement)
{
	return &placement->containers[0];
}

/* In how many equal parts the pod occupies the node: its cards by the placement (its label may say something
 * else by now), or one part that no card is known for. */
static uint32_t pod_parts(const struct ledger_pod *pod)
{
	return pod->has_placement ? (uint32_t)placement_any(&pod->placement)->n_cards : 1;
}

/* The card of one part; -1: unplaced, it counts against the node as a whole. */
static int pod_part_gpu(const struct node_ledger *node, const struct ledger_pod *pod, uint32_t part)
{
	return pod->has_placement ? gpu_find(node, placement_any(&pod->placement)->cards[part].uuid) : -1;
}

/* Equal parts of what the pod needs at most. What a node says that a pod still holds (a ghost, which has one
 * container) need not be equal, and is as it is said. */
static uint32_t pod_part_units(const struct ledger_pod *pod, uint32_t part)
{
	if (pod->has_placement && pod->placement.n_containers == 1)
		return placement_any(&pod->placement)->cards[part].units;
	return pod->facts.request.units / pod_parts(pod);
}

/* Likewise; the percentage of a pod on one card. Who is on several asks for none, but a ghost may. */
static uint32_t pod_part_core(const struct ledger_pod *pod, uint32_t part)
{
	if (pod->has_placement && pod->placement.n_containers == 1)
		return placement_any(&pod->placement)->cards[part].core;
	return pod->facts.request.core;
}

static uint32_t clamp_u32(uint64_t value)
{
	return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static int64_t pod_surplus_ids(const struct ledger_pod *pod)
{
	return (int64_t)pod->facts.request.asked - pod->facts.request.units;
}

static void node_ledger_sum(const struct node_ledger *node, struct sums *ret_sums)
{
	*ret_sums = (struct sums){0};
	list_for_each (item, &node->pods) {
		const struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);

		ret_sums->surplus_ids += pod_surplus_ids(pod);
		++*(pod->facts.request.core ? &ret_sums->with_core : &ret_sums->without_core);
		for (uint32_t part = 0; part < pod_parts(pod); part++) {
			int gpu = pod_part_gpu(node, pod, part);

			if (gpu < 0) {
				ret_sums->unplaced += pod_part_units(pod, part);
				ret_sums->unplaced_core += pod_part_core(pod, part);
				continue;
			}
			ret_sums->units[gpu] += pod_part_units(pod, part);
			ret_sums->core[gpu] += pod_part_core(pod, part);
			ret_sums->instances[gpu] += pod->facts.request.instances;
		}
	}
}

static void gpu_sum(const struct gpu_ledger *gpu, struct card_sums *sums)
{
	uint32_t free_units = gpu_free_units(gpu);

	if (gpu->units_total > sums->largest)
		sums->largest = gpu->units_total;
	if (!gpu->healthy) {
		sums->free_ill += free_units;
		sums->core_free_ill += gpu_free_core(gpu);
		return;
	}
	if (gpu->instances_max && gpu->instances > sums->most_instances)
		sums->most_instances = gpu->instances;
	sums->free += free_units;
	sums->core_free += gpu_free_core(gpu);
	if (free_units > sums->most_free)
		sums->most_free = free_units;
}

static struct card_sums card_sums(const struct node_ledger *node)
{
	struct card_sums sums = {0};

	for (size_t i = 0; i < node->facts.n_gpus; i++)
		gpu_sum(&node->gpus[i], &sums);
	return sums;
}

static void node_ledger_recount(struct node_ledger *node)
{
	struct sums sums;

	node_ledger_sum(node, &sums);
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		node->gpus[i].units_used = clamp_u32(sums.units[i]);
		node->gpus[i].core_used = clamp_u32(sums.core[i]);
		node->gpus[i].instances = clamp_u32(sums.instances[i]);
	}
	node->unplaced_units = clamp_u32(sums.unplaced);
	node->unplaced_core = clamp_u32(sums.unplaced_core);
	node->surplus_ids = sums.surplus_ids;
	node->with_core = sums.with_core;
	node->without_core = sums.without_core;
	node->sums = card_sums(node);
}

size_t node_ledger_check(const struct node_ledger *node, size_t *over)
{
	struct card_sums cards = card_sums(node);
	struct sums sums;
	size_t wrong;

	node_ledger_sum(node, &sums);
	wrong = node->unplaced_units != clamp_u32(sums.unplaced);
	wrong += node->unplaced_core != clamp_u32(sums.unplaced_core);
	wrong += node->surplus_ids != sums.surplus_ids;
	wrong += node->with_core != sums.with_core || node->without_core != sums.without_core;
	wrong += cards.largest != node->sums.largest || cards.most_free != node->sums.most_free ||
		 cards.most_instances != node->sums.most_instances || cards.free != node->sums.free ||
		 cards.free_ill != node->sums.free_ill || cards.core_free != node->sums.core_free ||
		 cards.core_free_ill != node->sums.core_free_ill;
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		const struct gpu_ledger *gpu = &node->gpus[i];

		wrong += gpu->units_used != clamp_u32(sums.units[i]);
		wrong += gpu->core_used != clamp_u32(sums.core[i]);
		wrong += gpu->instances != clamp_u32(sums.instances[i]);
		*over += gpu_is_over(gpu);
	}
	return wrong;
}

/* Hand-written placements can claim more than 32 bits hold: the sum then stays at the top. */
static void sum_grow(uint32_t *sum, uint32_t amount)
{
	*sum = clamp_u32((uint64_t)*sum + amount);
}

/* False if the sum cannot be trusted any more: it had reached the top, or would go below zero. */
static bool sum_shrink(uint32_t *sum, uint32_t amount, uint64_t *repairs)
{
	if (*sum == UINT32_MAX)
		return false;
	if (*sum < amount) {
		++*repairs;
		return false;
	}
	*sum -= amount;
	return true;
}

void node_ledger_add(struct node_ledger *node, struct ledger_pod *pod)
{
	const struct request *request = &pod->facts.request;

	list_append(&node->pods, &pod->item);
	node->surplus_ids += pod_surplus_ids(pod);
	++*(request->core ? &node->with_core : &node->without_core);
	for (uint32_t part = 0; part < pod_parts(pod); part++) {
		int i = pod_part_gpu(node, pod, part);

		if (i < 0) {
			sum_grow(&node->unplaced_units, pod_part_units(pod, part));
			sum_grow(&node->unplaced_core, pod_part_core(pod, part));
			continue;
		}
		sum_grow(&node->gpus[i].units_used, pod_part_units(pod, part));
		sum_grow(&node->gpus[i].core_used, pod_part_core(pod, part));
		sum_grow(&node->gpus[i].instances, request->instances);
	}
	node->sums = card_sums(node);
}

static bool part_remove(struct node_ledger *node, const struct ledger_pod *pod, uint32_t part)
{
	const struct request *request = &pod->facts.request;
	int i = pod_part_gpu(node, pod, part);

	if (i < 0)
		return sum_shrink(&node->unplaced_units, pod_part_units(pod, part), &node->recounts) &&
		       sum_shrink(&node->unplaced_core, pod_part_core(pod, part), &node->recounts);
	return sum_shrink(&node->gpus[i].units_used, pod_part_units(pod, part), &node->recounts) &&
	       sum_shrink(&node->gpus[i].core_used, pod_part_core(pod, part), &node->recounts) &&
	       sum_shrink(&node->gpus[i].instances, request->instances, &node->recounts);
}

void node_ledger_remove(struct node_ledger *node, struct ledger_pod *pod)
{
	bool right = true;

	list_remove(&pod->item);
	node->surplus_ids -= pod_surplus_ids(pod);
	--*(pod->facts.request.core ? &node->with_core : &node->without_core);
	for (uint32_t part = 0; part < pod_parts(pod) && right; part++)
		right = part_remove(node, pod, part);
	if (!right)
		node_ledger_recount(node);
	else
		node->sums = card_sums(node);
}

static bool same_card(
	const struct node_ledger *node, const struct gpu_ledger *gpu, const struct gpu_facts *facts)
{
	return strcmp(gpu->uuid, facts->uuid) == 0 && gpu->index == facts->index &&
	       gpu->units_total == units_of_card(facts->mib, node->facts.unit_mib) &&
	       gpu->healthy == facts->healthy;
}

static bool same_facts(const struct node_ledger *node, const struct node_facts *facts)
{
	if (!node_ledger_known(node) || strcmp(node->facts.uid, facts->uid) != 0 ||
		node->facts.mode != facts->mode || node->facts.policy != facts->policy ||
		node->facts.unit_mib != facts->unit_mib || node->facts.n_gpus != facts->n_gpus ||
		node->facts.serving != facts->serving || node->facts.mixing != facts->mixing ||
		node->facts.instances_max != facts->instances_max)
		return false;
	for (size_t i = 0; i < facts->n_gpus; i++)
		if (!same_card(node, &node->gpus[i], &facts->gpus[i]))
			return false;
	return true;
}

/* gpus: room for facts->n_gpus cards; becomes the node's. */
static void node_ledger_take_gpus(
	struct node_ledger *node, const struct node_facts *facts, struct gpu_ledger *gpus)
{
	free(node->gpus);
	node->gpus = gpus;
	node->facts.mode = facts->mode;
	node->facts.policy = facts->policy;
	node->facts.unit_mib = facts->unit_mib;
	node->facts.n_gpus = facts->n_gpus;
	node->facts.serving = facts->serving;
	node->facts.mixing = facts->mixing;
	node->facts.instances_max = facts->instances_max;
	for (size_t i = 0; i < facts->n_gpus; i++) {
		node->gpus[i] = (struct gpu_ledger){
			.index = facts->gpus[i].index,
			.mib = facts->gpus[i].mib > UINT32_MAX ? UINT32_MAX : (uint32_t)facts->gpus[i].mib,
			.units_total = units_of_card(facts->gpus[i].mib, facts->unit_mib),
			.instances_max = facts->instances_max,
			.healthy = facts->gpus[i].healthy,
		};
		memcpy(node->gpus[i].uuid, facts->gpus[i].uuid, GPU_UUID_SIZE);
	}
	node_ledger_recount(node);
}

int node_ledger_set_facts(struct node_ledger *node, const struct node_facts *facts)
{
	_cleanup_free_ char *uid = strdup(facts->uid);
	_cleanup_free_ char *address = facts->address ? strdup(facts->address) : NULL;
	_cleanup_held_ struct held held = {0};
	bool changed = !same_facts(node, facts);
	_cleanup_free_ struct gpu_ledger *gpus = changed ? calloc(facts->n_gpus + 1, sizeof(*gpus)) : NULL;

	if (!uid || (facts->address && !address) || held_copy(&facts->held, &held) < 0 || (changed && !gpus))
		return -ENOMEM;
	held_release(&node->facts.held);
	node->facts.held = held;
	held_init(&held);
	free(node->facts.uid);
	node->facts.uid = TAKE_PTR(uid);
	free(node->facts.address);
	node->facts.address = TAKE_PTR(address);
	if (changed)
		node_ledger_take_gpus(node, facts, TAKE_PTR(gpus));
	return changed;
}

void node_ledger_forget(struct node_ledger *node)
{
	free(node->facts.uid);
	node->facts.uid = NULL;
	free(node->facts.address);
	node->facts.address = NULL;
	node->facts.mode = GPU_MODE_NONE;
	node->facts.n_gpus = 0;
	held_release(&node->facts.held);
	node->agent_lost = false;
	node_ledger_recount(node);
}

uint32_t gpu_free_units(const struct gpu_ledger *gpu)
{
	return gpu->units_used < gpu->units_total ? gpu->units_total - gpu->units_used : 0;
}

uint32_t gpu_free_core(const struct gpu_ledger *gpu)
{
	return gpu->core_used < CORE_PER_CARD ? CORE_PER_CARD - gpu->core_used : 0;
}

bool gpu_is_over(const struct gpu_ledger *gpu)
{
	return gpu->units_used > gpu->units_total || gpu->core_used > CORE_PER_CARD;
}

static bool instances_fit(uint32_t there, const struct request *request, uint32_t max)
{
	return !max || (uint64_t)there + request->instances <= max;
}

enum card_misfit gpu_misfit(const struct gpu_ledger *gpu, const struct request *request)
{
	uint32_t units = request_units_per_card(request);

	if (!gpu->healthy)
		return CARD_UNHEALTHY;
	if (gpu->units_total < units)
		return CARD_TOO_SMALL;
	if (gpu_free_units(gpu) < units)
		return CARD_FULL;
	if (gpu_free_core(gpu) < request->core)
		return CARD_CORE;
	return instances_fit(gpu->instances, request, gpu->instances_max) ? CARD_FITS : CARD_INSTANCES;
}

bool node_ledger_has_cards(const struct node_ledger *node, const struct request *request)
{
	uint32_t missing = request_cards(request);

	if (!node->facts.n_gpus || node->sums.most_free < request_units_per_card(request))
		return false;
	if (missing == 1 && !request->core &&
		instances_fit(node->sums.most_instances, request, node->facts.instances_max))
		return true;
	for (size_t i = 0; missing && i < node->facts.n_gpus; i++)
		missing -= gpu_misfit(&node->gpus[i], request) == CARD_FITS;
	return !missing;
}

/* As many cards as the request wants fit, or are short of nothing that gpu_misfit() asks before `last`. */
static bool has_cards_but_for(
	const struct node_ledger *node, const struct request *request, enum card_misfit last)
{
	uint32_t missing = request_cards(request);

	for (size_t i = 0; missing && i < node->facts.n_gpus; i++) {
		enum card_misfit misfit = gpu_misfit(&node->gpus[i], request);

		missing -= misfit == CARD_FITS || misfit >= last;
	}
	return !missing;
}

enum misfit node_ledger_cards_misfit(const struct node_ledger *node, const struct request *request)
{
	if (has_cards_but_for(node, request, CARD_INSTANCES))
		return MISFIT_INSTANCES;
	return has_cards_but_for(node, request, CARD_CORE) ? MISFIT_CORE : MISFIT_FULL;
}

uint64_t node_free_memory(const struct node_ledger *node)
{
	return node->sums.free > node->unplaced_units ? node->sums.free - node->unplaced_units : 0;
}

uint64_t node_free_units(const struct node_ledger *node)
{
	uint64_t taken = node->surplus_ids > 0 ? (uint64_t)node->surplus_ids : 0,
		 left = node_free_memory(node);

	return left > taken ? left - taken : 0;
}

uint64_t node_free_core(const struct node_ledger *node)
{
	return node->sums.core_free > node->unplaced_core ? node->sums.core_free - node->unplaced_core : 0;
}

bool node_ledger_sums_suffice(const struct node_ledger *node, const struct request *request)
{
	uint64_t units = node->sums.free + node->sums.free_ill;
	uint64_t core = node->sums.core_free + node->sums.core_free_ill;

	return (int64_t)units >= (int64_t)request->units + node->unplaced_units + node->surplus_ids &&
	       core >= (uint64_t)request->core + (request->core ? node->unplaced_core : 0);
}

bool node_ledger_mixes(const struct node_ledger *node, const struct request *request)
{
	if (node->facts.mode != GPU_MODE_CORE_MEM || node->facts.mixing)
		return false;
	return request->core ? node->without_core > 0 : node->with_core > 0;
}

/* As many of its cards as the request wants would have room if they were empty. */
static bool is_large_enough(const struct node_ledger *node, const struct request *request)
{
	uint32_t missing = request_cards(request), units = request_units_per_card(request);

	if (node->sums.largest < units)
		return false;
	if (missing == 1)
		return true;
	for (size_t i = 0; missing && i < node->facts.n_gpus; i++)
		missing -= node->gpus[i].units_total >= units;
	return !missing;
}

enum misfit node_ledger_serves(const struct node_ledger *node, const struct request *request)
{
	if (!node->facts.n_gpus)
		return MISFIT_NO_GPU_NODE;
	if (!node->facts.serving || node->agent_lost)
		return MISFIT_NOT_SERVING;
	/* The other modes have no control of computing power, so they promise none. */
	if (!gpu_mode_is_served(node->facts.mode) ||
		(request->core > 0 && node->facts.mode != GPU_MODE_CORE_MEM))
		return MISFIT_MODE;
	if (node->facts.n_gpus < request_cards(request))
		return MISFIT_TOO_FEW;
	if (!is_large_enough(node, request))
		return MISFIT_TOO_LARGE;
	if (request->core > CORE_PER_CARD)
		return MISFIT_CORE;
	return instances_fit(0, request, node->facts.instances_max) ? FITS : MISFIT_INSTANCES;
}

bool node_ledger_has_room(
	const struct node_ledger *node, const struct request *request, const struct placement *placement)
{
	const struct container_placement *any = placement_any(placement);

	for (size_t k = 0; k < any->n_cards; k++) {
		int i = gpu_find(node, any->cards[k].uuid);

		if (i < 0 || gpu_misfit(&node->gpus[i], request) != CARD_FITS)
			return false;
	}
	return node_ledger_serves(node, request) == FITS && !node_ledger_mixes(node, request) &&
	       node_free_units(node) >= request->units &&
	       (!request->core || node_free_core(node) >= request->core);
}

size_t node_ledger_count_owner(const struct node_ledger *node, const char *owner, uint32_t *owned)
{
	size_t n = 0;

	list_for_each (item, &node->pods) {
		const struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);

		if (strcmp(pod->facts.owner, owner) != 0)
			continue;
		n++;
		for (uint32_t part = 0; part < pod_parts(pod); part++) {
			int gpu = pod_part_gpu(node, pod, part);

			if (gpu >= 0)
				owned[gpu]++;
		}
	}
	return n;
}
