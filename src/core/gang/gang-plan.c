#include "core/gang/gang-plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/gang/gang-work.h"
#include "core/placement/choose.h"
#include "core/placement/rank.h"
#include "core/registry/node-ledger.h"

void gang_slots_release(struct gang_slot *slots, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		placement_release(&slots[i].placement);
		slots[i].node = NULL;
	}
}

void gang_work_place(
	struct gang_work *work, size_t slot, struct node_ledger *node, struct placement *placement)
{
	struct ledger_pod *placed = &work->placed[slot];

	placed->facts = *work->slots[slot].pod;
	placed->placement = *placement;
	placed->has_placement = true;
	placement_init(placement);
	work->slots[slot].node = node;
	node_ledger_add(node, placed);
}

void gang_work_unplace(struct gang_work *work, size_t slot)
{
	if (!work->slots[slot].node)
		return;
	node_ledger_remove(work->slots[slot].node, &work->placed[slot]);
	placement_release(&work->placed[slot].placement);
	work->slots[slot].node = NULL;
}

static void gang_work_clear(struct gang_work *work)
{
	for (size_t i = 0; i < work->n; i++)
		gang_work_unplace(work, i);
}

bool gang_work_fits(const struct gang_work *work, size_t slot, const struct node_ledger *node)
{
	const struct gang_slot *s = &work->slots[slot];

	/* In a full cluster nearly all nodes fail here, and why does not matter. */
	return node->sums.most_free >= request_units_per_gpu(&s->pod->request) &&
	       placement_choose(node, &s->pod->request, "", NULL) == FITS &&
	       (!s->nodes || table_get(s->nodes, node->facts.name));
}

/* The hardest to place: on most GPUs, then with most units, then with most computing power. */
static int compare_hardness(const void *pa, const void *pb, void *userdata)
{
	const struct gang_work *work = userdata;
	size_t i = *(const size_t *)pa, k = *(const size_t *)pb;
	const struct request *a = &work->slots[i].pod->request, *b = &work->slots[k].pod->request;

	if (request_gpus(a) != request_gpus(b))
		return request_gpus(a) > request_gpus(b) ? -1 : 1;
	if (a->units != b->units)
		return a->units > b->units ? -1 : 1;
	if (a->core != b->core)
		return a->core > b->core ? -1 : 1;
	return i < k ? -1 : 1;
}

static int compare_name(const void *pa, const void *pb)
{
	const struct node_ledger *a = *(struct node_ledger *const *)pa, *b = *(struct node_ledger *const *)pb;

	return strcmp(a->facts.name, b->facts.name);
}

static bool is_placed(const struct gang_work *work, const char *uid)
{
	for (size_t i = 0; i < work->n; i++)
		if (strcmp(work->slots[i].pod->uid, uid) == 0)
			return true;
	return false;
}

/* Kept for others of their priority or above, as nominations_lay() has it for one pod. */
static bool nomination_is_in_the_way(const struct gang_work *work, const struct nomination *nomination)
{
	int32_t lowest = INT32_MAX;

	for (size_t i = 0; i < work->n; i++)
		if (work->slots[i].pod->priority < lowest)
			lowest = work->slots[i].pod->priority;
	return nomination->pod->occupancy == OCCUPANCY_WAITING &&
	       nomination->shadow.facts.priority >= lowest && !is_placed(work, nomination->shadow.facts.uid);
}

/* What the members hold is taken out of the sums, what is kept for others is put in; and back again. */
static void ledger_open(struct gang_work *work)
{
	for (size_t i = 0; i < work->n; i++) {
		struct ledger_pod *known = table_get(&work->ledger->pods, work->slots[i].pod->uid);

		if (known && known->occupancy == OCCUPANCY_TENTATIVE)
			node_ledger_remove(table_get(&work->ledger->nodes, known->node), known);
	}
	list_for_each (item, &work->ledger->nominations) {
		struct nomination *nomination = list_entry(item, struct nomination, all);

		if (nomination_is_in_the_way(work, nomination))
			node_ledger_add(nomination->node, &nomination->shadow);
	}
}

static void ledger_close(struct gang_work *work)
{
	list_for_each (item, &work->ledger->nominations) {
		struct nomination *nomination = list_entry(item, struct nomination, all);

		if (nomination_is_in_the_way(work, nomination))
			node_ledger_remove(nomination->node, &nomination->shadow);
	}
	for (size_t i = 0; i < work->n; i++) {
		struct ledger_pod *known = table_get(&work->ledger->pods, work->slots[i].pod->uid);

		if (known && known->occupancy == OCCUPANCY_TENTATIVE)
			node_ledger_add(table_get(&work->ledger->nodes, known->node), known);
	}
}

static void gang_work_release(struct gang_work *work)
{
	free(work->placed);
	free(work->order);
	free(work->nodes);
}

static int gang_work_init(struct gang_work *work, struct ledger *ledger, struct gang_slot *slots, size_t n)
{
	struct node_ledger *node;

	*work = (struct gang_work){.ledger = ledger, .slots = slots, .n = n};
	work->placed = calloc(n + 1, sizeof(*work->placed));
	work->order = calloc(n + 1, sizeof(*work->order));
	work->nodes = calloc(ledger->nodes.count + 1, sizeof(*work->nodes));
	if (!work->placed || !work->order || !work->nodes)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		work->order[i] = i;
		placement_init(&slots[i].placement);
		slots[i].node = NULL;
	}
	qsort_r(work->order, n, sizeof(*work->order), compare_hardness, work);
	table_for_each (&ledger->nodes, cursor, node)
		if (node->facts.n_gpus && node->facts.serving && !node->agent_lost)
			work->nodes[work->n_nodes++] = node;
	qsort(work->nodes, work->n_nodes, sizeof(*work->nodes), compare_name);
	return 0;
}

bool gang_same_request(const struct request *a, const struct request *b)
{
	return request_gpus(a) == request_gpus(b) && a->whole == b->whole && a->units == b->units &&
	       a->core == b->core && a->instances == b->instances && a->unit_mib == b->unit_mib;
}

size_t gang_work_count_alike(const struct gang_work *work, size_t first)
{
	const struct gang_slot *a = &work->slots[work->order[first]];
	size_t end = first + 1;

	for (; end < work->n; end++) {
		const struct gang_slot *b = &work->slots[work->order[end]];

		if (a->nodes != b->nodes || !gang_same_request(&a->pod->request, &b->pod->request))
			break;
	}
	return end - first;
}

/* One after the other on the nodes in their order: a binpack node until it is full, one each on a spread node
 * in turn. Returns how many are placed. */
static int slot_in_turn(struct gang_work *work, const size_t *slots, size_t n_slots,
	const struct node_ledger **nodes, size_t n_nodes)
{
	size_t at = 0, left = n_nodes, n_placed = 0;

	while (n_placed < n_slots && left) {
		struct node_ledger *node = (struct node_ledger *)nodes[at];
		const struct pod_facts *pod = work->slots[slots[n_placed]].pod;
		struct placement placement;
		int r = node ? placement_choose(node, &pod->request, pod->owner ? pod->owner : "", &placement)
			     : REJECT_FULL;

		if (r < 0)
			return r;
		if (r == FITS)
			gang_work_place(work, slots[n_placed++], node, &placement);
		else if (node) {
			nodes[at] = NULL;
			left--;
		}
		if (r != FITS || node->facts.policy == GPU_POLICY_SPREAD)
			at = (at + 1) % n_nodes;
	}
	return (int)n_placed;
}

static int slot_alike(struct gang_work *work, size_t first, size_t n)
{
	_cleanup_free_ const struct node_ledger **nodes = calloc(work->n_nodes + 1, sizeof(*nodes));
	const struct gang_slot *any = &work->slots[work->order[first]];
	size_t n_nodes = 0;

	if (!nodes)
		return -ENOMEM;
	for (size_t i = 0; i < work->n_nodes; i++)
		if (gang_work_fits(work, work->order[first], work->nodes[i]))
			nodes[n_nodes++] = work->nodes[i];
	if (rank_nodes(work->ledger, nodes, n_nodes, n, any->pod) < 0)
		return -ENOMEM;
	return slot_in_turn(work, work->order + first, n, nodes, n_nodes < n ? n_nodes : n);
}

/* As pods are placed one by one. */
static int slot_in_rank(struct gang_work *work)
{
	int n_placed = 0;

	for (size_t first = 0, n; first < work->n; first += n) {
		int r;

		n = gang_work_count_alike(work, first);
		r = slot_alike(work, first, n);
		if (r < 0)
			return r;
		n_placed += r;
	}
	return n_placed;
}

/* Packing counts whole GPUs, it does not choose them: each node's members choose again, one after the other,
 * as single pods do. Each member has as many GPUs as before, so all find room. */
static int choose_whole_gpus(struct gang_work *work)
{
	_cleanup_free_ struct node_ledger **nodes = calloc(work->n + 1, sizeof(*nodes));

	if (!nodes)
		return -ENOMEM;
	for (size_t i = 0; i < work->n; i++) {
		if (!work->slots[i].node || !work->slots[i].pod->request.whole)
			continue;
		nodes[i] = work->slots[i].node;
		gang_work_unplace(work, i);
	}
	for (size_t i = 0; i < work->n; i++) {
		size_t slot = work->order[i];
		struct placement placement;
		int r;

		if (!nodes[slot])
			continue;
		r = placement_choose(nodes[slot], &work->slots[slot].pod->request, "", &placement);
		if (r != FITS)
			return r < 0 ? r : -ENOSPC;
		gang_work_place(work, slot, nodes[slot], &placement);
	}
	return 0;
}

/* Who needs least, as many as must be: the end of the order. */
static int pack_somehow(struct gang_work *work, size_t needed)
{
	size_t first = work->n - needed;
	int r;

	if (request_gpus(&work->slots[0].pod->request) == 1 && gang_work_count_alike(work, 0) == work->n)
		return 0; /* then no order is better than another */
	gang_work_clear(work);
	r = gang_pack_best(work, 0);
	if (r < 0 || (size_t)r >= needed)
		return r;
	gang_work_clear(work);
	if (first) {
		r = gang_pack_best(work, first);
		if (r < 0 || (size_t)r >= needed)
			return r;
		gang_work_clear(work);
	}
	if (request_gpus(&work->slots[work->order[first]].pod->request) > 1) {
		r = gang_pack_wide(work, first);
		if (r < 0 || (size_t)r >= needed)
			return r;
		gang_work_clear(work);
	}
	r = gang_pack_search(work, first, needed);
	/* Perhaps those who need least are not those who fit: some may go where others may not. */
	if (r == 0 && first)
		r = gang_pack_search(work, 0, needed);
	return r > 0 ? (int)needed : r;
}

static int pack(struct gang_work *work, size_t needed)
{
	int r = pack_somehow(work, needed), chosen = r > 0 ? choose_whole_gpus(work) : 0;

	return chosen < 0 ? chosen : r;
}

/* Everybody rises, and what they had goes into the answer if there is one. */
static void finish(struct gang_work *work, bool keep)
{
	for (size_t i = 0; i < work->n; i++) {
		struct node_ledger *node = work->slots[i].node;

		if (!node)
			continue;
		if (!keep) {
			gang_work_unplace(work, i);
			continue;
		}
		node_ledger_remove(node, &work->placed[i]);
		work->slots[i].placement = work->placed[i].placement;
	}
}

static int plan(struct ledger *ledger, struct gang_slot *slots, size_t n, size_t needed, bool most)
{
	_cleanup_(gang_work_release) struct gang_work work = {0};
	int r;

	if (n > GANG_SLOTS_MAX)
		return -E2BIG;
	if (gang_work_init(&work, ledger, slots, n) < 0)
		return -ENOMEM;
	if (needed > n)
		return 0;
	ledger_open(&work);
	r = slot_in_rank(&work);
	if (r >= 0 && (size_t)r < needed && most) {
		gang_work_clear(&work);
		r = gang_pack_best(&work, 0);
	} else if (r >= 0 && (size_t)r < needed) {
		r = pack(&work, needed);
	}
	if (r >= 0 && (size_t)r < needed && !most)
		r = 0;
	finish(&work, r > 0);
	ledger_close(&work);
	return r;
}

int gang_plan(struct ledger *ledger, struct gang_slot *slots, size_t n, size_t needed)
{
	return plan(ledger, slots, n, needed, false);
}

int gang_plan_most(struct ledger *ledger, struct gang_slot *slots, size_t n)
{
	return plan(ledger, slots, n, n, true);
}

/* Everybody leaves the sums, and comes back. */
static void ledger_empty(struct ledger *ledger, bool empty)
{
	struct ledger_pod *pod;

	table_for_each (&ledger->pods, cursor, pod) {
		struct node_ledger *node = pod->node ? table_get(&ledger->nodes, pod->node) : NULL;

		if (node && empty)
			node_ledger_remove(node, pod);
		else if (node)
			node_ledger_add(node, pod);
	}
}

bool gang_fits_empty(struct ledger *ledger, struct gang_slot *slots, size_t n, size_t needed)
{
	_cleanup_(gang_work_release) struct gang_work work = {0};
	int r = 0;

	if (n > GANG_SLOTS_MAX || needed > n || gang_work_init(&work, ledger, slots, n) < 0)
		return false;
	ledger_empty(ledger, true);
	r = slot_in_rank(&work);
	if (r >= 0 && (size_t)r < needed)
		r = pack(&work, needed);
	finish(&work, r > 0 && (size_t)r >= needed);
	ledger_empty(ledger, false);
	return r > 0 && (size_t)r >= needed;
}
