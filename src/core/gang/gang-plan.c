#include "core/gang/gang-plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/gang/gang-pack.h"
#include "core/placement/choose.h"
#include "core/placement/rank.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"

/* PLAN_MOST: as many members as find room. PLAN_EMPTY: as if the cluster had no other pods. */
enum plan_kind { PLAN_ALL, PLAN_MOST, PLAN_EMPTY };

void gang_slots_release(struct gang_slot *slots, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		placement_release(&slots[i].placement);
		slots[i].node = NULL;
	}
}

int gang_compare_size(const struct request *a, const struct request *b)
{
	if (request_gpus(a) != request_gpus(b))
		return request_gpus(a) < request_gpus(b) ? -1 : 1;
	if (a->units != b->units)
		return a->units < b->units ? -1 : 1;
	return a->core < b->core ? -1 : a->core > b->core;
}

/* The hardest to place comes first. */
static int compare_hardness(const void *pa, const void *pb, void *userdata)
{
	const struct gang_work *work = userdata;
	size_t i = *(const size_t *)pa, k = *(const size_t *)pb;
	int r = gang_compare_size(&work->slots[k].pod->request, &work->slots[i].pod->request);

	return r ? r : i < k ? -1 : 1;
}

/* True if GPUs are kept for another pod of the lowest priority or above, as in nominations_lay(). */
static bool nomination_is_in_the_way(const struct gang_work *work, const struct nomination *nomination)
{
	const struct pod_facts *pod = &nomination->shadow.facts;

	if (nomination->pod->occupancy != OCCUPANCY_WAITING || pod->priority < work->lowest_priority)
		return false;
	for (size_t i = 0; i < work->n; i++)
		if (strcmp(work->slots[i].pod->uid, pod->uid) == 0)
			return false;
	return true;
}

/* Takes all pods out of the sums, or puts them back, so that the cluster counts as empty. */
static void ledger_empty(struct ledger *ledger, bool back)
{
	struct ledger_pod *pod;

	table_for_each (&ledger->pods, cursor, pod) {
		struct node_ledger *node = pod->node ? table_get(&ledger->nodes, pod->node) : NULL;

		if (node)
			(back ? node_ledger_add : node_ledger_remove)(node, pod);
	}
}

/* The sums that a plan starts from: without what the members hold, and with what is kept for others. */
static void ledger_open(struct gang_work *work, enum plan_kind kind, bool back)
{
	if (kind == PLAN_EMPTY) {
		ledger_empty(work->ledger, back);
		return;
	}
	for (size_t i = 0; i < work->n; i++) {
		struct ledger_pod *known = table_get(&work->ledger->pods, work->slots[i].pod->uid);

		if (known && known->occupancy == OCCUPANCY_TENTATIVE)
			(back ? node_ledger_add : node_ledger_remove)(
				table_get(&work->ledger->nodes, known->node), known);
	}
	list_for_each (item, &work->ledger->nominations) {
		struct nomination *nomination = list_entry(item, struct nomination, all);

		if (nomination_is_in_the_way(work, nomination))
			(back ? node_ledger_remove : node_ledger_add)(nomination->node, &nomination->shadow);
	}
}

static void work_release(struct gang_work *work)
{
	free(work->placed);
	free(work->order);
	free(work->nodes);
}

static int work_init(struct gang_work *work, struct ledger *ledger, struct gang_slot *slots, size_t n)
{
	struct node_ledger *node;

	*work = (struct gang_work){.ledger = ledger, .slots = slots, .n = n, .lowest_priority = INT32_MAX};
	work->placed = calloc(n + 1, sizeof(*work->placed));
	work->order = calloc(n + 1, sizeof(*work->order));
	work->nodes = calloc(ledger->nodes.count + 1, sizeof(*work->nodes));
	if (!work->placed || !work->order || !work->nodes)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		work->order[i] = i;
		if (slots[i].pod->priority < work->lowest_priority)
			work->lowest_priority = slots[i].pod->priority;
		placement_init(&slots[i].placement);
		slots[i].node = NULL;
	}
	qsort_r(work->order, n, sizeof(*work->order), compare_hardness, work);
	table_for_each (&ledger->nodes, cursor, node)
		if (node->facts.n_gpus && node->facts.serving && !node->agent_lost)
			work->nodes[work->n_nodes++] = node;
	qsort(work->nodes, work->n_nodes, sizeof(*work->nodes), node_ledger_compare);
	return 0;
}

bool gang_same_request(const struct request *a, const struct request *b)
{
	return request_gpus(a) == request_gpus(b) && a->whole == b->whole && a->units == b->units &&
	       a->core == b->core && a->instances == b->instances && a->unit_mib == b->unit_mib;
}

/* Places the members one after the other on the nodes in their order. A binpack node is filled first; spread
 * nodes get one member each in turn. Returns how many are placed. */
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

/* Uses the order in which single pods are placed. */
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

/* Packing only counts whole GPUs. Now each node's members choose theirs one after the other, as single pods
 * do. Each has as many as before, so all find room. */
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

static bool is_done(int r, size_t needed)
{
	return r < 0 || (size_t)r >= needed;
}

/* Tries the `needed` members that need least first; they are the end of the order. */
static int pack(struct gang_work *work, size_t needed)
{
	size_t first = work->n - needed;
	int r, chosen;

	if (request_gpus(&work->slots[0].pod->request) == 1 && gang_work_count_alike(work, 0) == work->n)
		return 0; /* all orders are equal */
	r = gang_pack_each(work, 0, false);
	if (!is_done(r, needed) && first)
		r = gang_pack_each(work, first, false);
	if (!is_done(r, needed) && request_gpus(&work->slots[work->order[first]].pod->request) > 1)
		r = gang_pack_each(work, first, true);
	if (!is_done(r, needed)) {
		r = gang_pack_search(work, first, needed);
		/* The members that need least may not be those that fit: some may go where others may not. */
		if (r == 0 && first)
			r = gang_pack_search(work, 0, needed);
		r = r > 0 ? (int)needed : r;
	}
	chosen = r > 0 ? choose_whole_gpus(work) : 0;
	return chosen < 0 ? chosen : r;
}

/* Takes all members out of the sums; if keep, their placements go into the slots. */
static void finish(struct gang_work *work, bool keep)
{
	for (size_t i = 0; i < work->n; i++) {
		struct node_ledger *node = work->slots[i].node;

		if (node && keep) {
			node_ledger_remove(node, &work->placed[i]);
			work->slots[i].placement = work->placed[i].placement;
		} else {
			gang_work_unplace(work, i);
		}
	}
}

static int plan(struct ledger *ledger, struct gang_slot *slots, size_t n, size_t needed, enum plan_kind kind)
{
	_cleanup_(work_release) struct gang_work work = {0};
	int r;

	if (n > GANG_SLOTS_MAX)
		return -E2BIG;
	if (work_init(&work, ledger, slots, n) < 0)
		return -ENOMEM;
	if (needed > n)
		return 0;
	ledger_open(&work, kind, false);
	r = slot_in_rank(&work);
	if (!is_done(r, needed))
		r = kind == PLAN_MOST ? gang_pack_each(&work, 0, false) : pack(&work, needed);
	if (!is_done(r, needed) && kind != PLAN_MOST)
		r = 0;
	finish(&work, r > 0);
	ledger_open(&work, kind, true);
	return r;
}

int gang_plan(struct ledger *ledger, struct gang_slot *slots, size_t n, size_t needed)
{
	return plan(ledger, slots, n, needed, PLAN_ALL);
}

int gang_plan_most(struct ledger *ledger, struct gang_slot *slots, size_t n)
{
	return plan(ledger, slots, n, n, PLAN_MOST);
}

bool gang_fits_empty(struct ledger *ledger, struct gang_slot *slots, size_t n, size_t needed)
{
	return plan(ledger, slots, n, needed, PLAN_EMPTY) > 0;
}
