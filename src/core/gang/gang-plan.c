#include "core/gang/gang-plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/placement/choose.h"
#include "core/placement/rank.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"

/* How many choices a search tries for one member, and how many nodes it reads in all: some milliseconds. */
#define CHOICES_MAX 24
#define LOOKS_MAX 100000
#define SETS_PER_LOOK 16 /* what as many sets of GPUs cost counts as one node read */
#define EACH_SET_MAX 8	 /* GPUs that fit; there are 70 sets of four of them */

/* PLAN_MOST: as many members as find room. PLAN_EMPTY: as if the cluster had no other pods. */
enum plan_kind { PLAN_ALL, PLAN_MOST, PLAN_EMPTY };

/* Placements are tried in the ledger's own sums, so the same functions decide as for a single pod. */
struct gang_work {
	struct ledger *ledger;
	struct gang_slot *slots;   /* the caller's */
	struct ledger_pod *placed; /* by slot: the entry in node->pods; its facts are borrowed */
	size_t *order;		   /* slots, the hardest to place first */
	size_t n;
	struct node_ledger **nodes; /* that may serve a member, by name */
	size_t n_nodes;
	int32_t lowest_priority; /* of the slots' pods */
	size_t looks;		 /* nodes that the search may still read */
};

void gang_slots_release(struct gang_slot *slots, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		placement_release(&slots[i].placement);
		slots[i].node = NULL;
	}
}

static void work_place(
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

static void work_unplace(struct gang_work *work, size_t slot)
{
	if (!work->slots[slot].node)
		return;
	node_ledger_remove(work->slots[slot].node, &work->placed[slot]);
	placement_release(&work->placed[slot].placement);
	work->slots[slot].node = NULL;
}

static void work_clear(struct gang_work *work)
{
	for (size_t i = 0; i < work->n; i++)
		work_unplace(work, i);
}

static bool work_fits(const struct gang_work *work, size_t slot, const struct node_ledger *node)
{
	const struct gang_slot *s = &work->slots[slot];

	/* In a full cluster nearly all nodes fail this comparison. The reason does not matter. */
	return node->sums.most_free >= request_units_per_gpu(&s->pod->request) &&
	       placement_choose(node, &s->pod->request, "", NULL) == FITS &&
	       (!s->nodes || table_get(s->nodes, node->facts.name));
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

/* True if the slots at these positions of work->order have the same request and the same nodes. */
static bool work_alike(const struct gang_work *work, size_t i, size_t k)
{
	const struct gang_slot *a = &work->slots[work->order[i]], *b = &work->slots[work->order[k]];

	return a->nodes == b->nodes && gang_same_request(&a->pod->request, &b->pod->request);
}

/* Counts the slots in work->order, from `first` on, that are alike. */
static size_t work_count_alike(const struct gang_work *work, size_t first)
{
	size_t end = first + 1;

	while (end < work->n && work_alike(work, first, end))
		end++;
	return end - first;
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
			work_place(work, slots[n_placed++], node, &placement);
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
		if (work_fits(work, work->order[first], work->nodes[i]))
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

		n = work_count_alike(work, first);
		r = slot_alike(work, first, n);
		if (r < 0)
			return r;
		n_placed += r;
	}
	return n_placed;
}

/* One possible place for one member. */
struct choice {
	struct node_ledger *node;
	uint64_t gpus; /* a bit for each of node->gpus that it would take */
	uint32_t left; /* units that would be left free on them together */
	size_t place;  /* the position of the first of them among the GPUs of all nodes */
};

static int compare_fullest(const void *pa, const void *pb)
{
	const struct gpu_ledger *a = *(const struct gpu_ledger *const *)pa;
	const struct gpu_ledger *b = *(const struct gpu_ledger *const *)pb;
	uint32_t a_free = gpu_free_units(a), b_free = gpu_free_units(b);

	if (a_free != b_free)
		return a_free < b_free ? -1 : 1;
	if (gpu_free_core(a) != gpu_free_core(b))
		return gpu_free_core(a) < gpu_free_core(b) ? -1 : 1;
	return a->facts.index < b->facts.index ? -1 : a->facts.index > b->facts.index;
}

/* The GPUs that fit, the fullest first. Returns their number. */
static size_t fullest_gpus(
	const struct node_ledger *node, const struct request *request, const struct gpu_ledger **ret_gpus)
{
	size_t n = 0;

	for (size_t i = 0; i < node->facts.n_gpus; i++)
		if (gpu_reject_reason(&node->gpus[i], request) == GPU_FITS)
			ret_gpus[n++] = &node->gpus[i];
	qsort(ret_gpus, n, sizeof(*ret_gpus), compare_fullest);
	return n;
}

static struct choice choice_on(
	struct node_ledger *node, const struct gpu_ledger *const *gpus, const struct request *request)
{
	struct choice choice = {.node = node};

	/* A request for whole GPUs leaves nothing on them. What counts is how many other GPUs stay free. */
	if (request->whole)
		choice.left = (uint32_t)(node_free_units(node) - request->units);
	for (uint32_t k = 0; k < request_gpus(request); k++) {
		choice.gpus |= UINT64_C(1) << (gpus[k] - node->gpus);
		choice.left += gpu_free_units(gpus[k]) - request_units_per_gpu(request);
	}
	return choice;
}

static int choice_take(struct gang_work *work, size_t slot, const struct choice *choice)
{
	const struct request *request = &work->slots[slot].pod->request;
	const struct gpu_ledger *gpus[NODE_GPUS_MAX];
	struct placement placement;
	size_t n = fullest_gpus(choice->node, request, gpus), taken = 0;
	int r;

	for (size_t i = 0; i < n; i++)
		if (choice->gpus >> (gpus[i] - choice->node->gpus) & 1)
			gpus[taken++] = gpus[i];
	r = placement_on_gpus(choice->node, gpus, request, &placement);
	if (r < 0)
		return r;
	work_place(work, slot, choice->node, &placement);
	return 0;
}

/* The GPUs that fit the member, fullest first; 0 if too few fit, or the member may not go to the node. */
static size_t gpus_for(const struct gang_work *work, size_t slot, const struct node_ledger *node,
	const struct gpu_ledger **ret_gpus)
{
	const struct request *request = &work->slots[slot].pod->request;
	size_t n = work_fits(work, slot, node) ? fullest_gpus(node, request, ret_gpus) : 0;

	return n < request_gpus(request) ? 0 : n;
}

/* Finds the place where the member leaves least. wide: the emptiest GPUs of the first node with room, where
 * most members that need several GPUs each find room. */
static bool find_choice(const struct gang_work *work, size_t slot, bool wide, struct choice *ret_choice)
{
	const struct request *request = &work->slots[slot].pod->request;
	const struct gpu_ledger *gpus[NODE_GPUS_MAX];
	bool found = false;

	for (size_t i = 0; i < work->n_nodes; i++) {
		size_t n = gpus_for(work, slot, work->nodes[i], gpus);
		struct choice choice;

		if (!n)
			continue;
		choice = choice_on(work->nodes[i], wide ? gpus + n - request_gpus(request) : gpus, request);
		if (found && choice.left >= ret_choice->left)
			continue;
		*ret_choice = choice;
		found = true;
		if (wide || !choice.left)
			break;
	}
	return found;
}

/* Places the members in work->order from `first` on, each where it leaves least. Returns how many, or
 * -ENOMEM. */
static int pack_each(struct gang_work *work, size_t first, bool wide)
{
	struct choice choice;
	int n_placed = 0;

	work_clear(work);
	for (size_t i = first; i < work->n; i++) {
		if (!find_choice(work, work->order[i], wide, &choice))
			continue;
		if (choice_take(work, work->order[i], &choice) < 0)
			return -ENOMEM;
		n_placed++;
	}
	return n_placed;
}

static uint32_t instances_left(const struct gpu_ledger *gpu)
{
	if (!gpu->instances_max)
		return UINT32_MAX;
	return gpu->instances < gpu->instances_max ? gpu->instances_max - gpu->instances : 0;
}

static bool gpus_alike(const struct gpu_ledger *a, const struct gpu_ledger *b)
{
	return gpu_free_units(a) == gpu_free_units(b) && gpu_free_core(a) == gpu_free_core(b) &&
	       instances_left(a) == instances_left(b);
}

/* True if the first pod on this node decides which kind may come after it: with or without a percentage. */
static bool is_undecided(const struct node_ledger *node)
{
	return node->facts.mode == GPU_MODE_CORE_MEM && !node->facts.mixing && !node->with_core &&
	       !node->without_core;
}

/* GPUs with the same free amounts are one choice. Of the thousands in a full cluster, few are different. */
static bool is_alike(const struct choice *a, const struct choice *b, const struct request *request)
{
	const struct node_ledger *m = a->node, *n = b->node;
	const struct gpu_ledger *x = &m->gpus[__builtin_ctzll(a->gpus)];
	const struct gpu_ledger *y = &n->gpus[__builtin_ctzll(b->gpus)];

	if (request->whole)
		return a->left == b->left;
	if (request_gpus(request) > 1 || (m != n && is_undecided(m)))
		return false;
	return gpus_alike(x, y) && m->facts.mode == n->facts.mode && m->facts.mixing == n->facts.mixing &&
	       !m->with_core == !n->with_core && !m->without_core == !n->without_core;
}

/* Keeps the choices sorted by what they leave; drops the worst one if there are too many. */
static void choices_add(
	struct choice *choices, size_t *n, struct choice choice, const struct request *request)
{
	size_t at;

	for (size_t i = 0; i < *n; i++)
		if (is_alike(&choices[i], &choice, request))
			return;
	if (*n == CHOICES_MAX && choice.left >= choices[*n - 1].left)
		return;
	if (*n < CHOICES_MAX)
		++*n;
	for (at = *n - 1; at > 0 && choices[at - 1].left > choice.left; at--)
		choices[at] = choices[at - 1];
	choices[at] = choice;
}

static uint64_t lowest_bits(size_t n)
{
	return n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

/* The next set of as many GPUs, of a list that is sorted. each: of all sets, in the order of their numbers;
 * otherwise of neighbours. */
static uint64_t next_set(uint64_t set, bool each)
{
	uint64_t lowest = set & -set, up = set + lowest;

	return each ? up | ((set ^ up) / lowest >> 2) : set << 1;
}

/* False if a set with an earlier GPU of the list in place of one that is like it is a choice, too. */
static bool is_first_of_its_kind(uint64_t set, const struct gpu_ledger *const *gpus, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if ((set >> i & 1) && !(set >> (i - 1) & 1) && gpus_alike(gpus[i - 1], gpus[i]))
			return false;
	return true;
}

/* Adds what the member may take on a node. Of several GPUs each set is a choice where there are few. */
static void find_choices_on(
	struct gang_work *work, size_t slot, size_t node, size_t from, struct choice *choices, size_t *n)
{
	const struct request *request = &work->slots[slot].pod->request;
	const struct gpu_ledger *gpus[NODE_GPUS_MAX], *taken[NODE_GPUS_MAX];
	size_t n_gpus = gpus_for(work, slot, work->nodes[node], gpus), n_sets = 0;
	int wanted = (int)request_gpus(request);
	uint64_t all = lowest_bits(n_gpus);
	bool each = !request->whole && wanted > 1 && n_gpus <= EACH_SET_MAX;

	for (uint64_t set = lowest_bits((size_t)wanted); !(set & ~all) && __builtin_popcountll(set) == wanted;
		set = next_set(set, each), n_sets++) {
		struct choice choice;
		size_t k = 0;

		if (each && !is_first_of_its_kind(set, gpus, n_gpus))
			continue;
		for (size_t i = 0; i < n_gpus; i++)
			if (set >> i & 1)
				taken[k++] = gpus[i];
		choice = choice_on(work->nodes[node], taken, request);
		choice.place = node * NODE_GPUS_MAX +
			       (request->whole ? 0 : (size_t)__builtin_ctzll(choice.gpus));
		if (choice.place >= from)
			choices_add(choices, n, choice, request);
	}
	n_sets /= SETS_PER_LOOK;
	work->looks -= n_sets < work->looks ? n_sets : work->looks;
}

/* from: the first place that is a choice. */
static size_t find_choices(
	struct gang_work *work, size_t slot, size_t from, struct choice choices[CHOICES_MAX])
{
	size_t n = 0;

	for (size_t i = from / NODE_GPUS_MAX; i < work->n_nodes; i++)
		find_choices_on(work, slot, i, from, choices, &n);
	return n;
}

/* Members that are alike go to places in their order, since who has which of them does not matter. Several
 * GPUs of one member are no single place. */
static size_t next_from(const struct gang_work *work, size_t at, const struct choice *taken)
{
	const struct request *request = &work->slots[work->order[at]].pod->request;
	bool one_place = request->whole || request_gpus(request) == 1;

	return one_place && at + 1 < work->n && work_alike(work, at, at + 1) ? taken->place : 0;
}

/* skips: how many members may be left out. Of equal members, the last ones are left out. */
static int search(struct gang_work *work, size_t at, size_t skips, size_t from)
{
	struct choice choices[CHOICES_MAX];
	size_t n = work->n_nodes - from / NODE_GPUS_MAX;

	if (at + skips >= work->n)
		return 1;
	if (work->looks < n)
		return 0;
	work->looks -= n;
	n = find_choices(work, work->order[at], from, choices);
	for (size_t i = 0; i < n; i++) {
		int r = choice_take(work, work->order[at], &choices[i]);

		if (r == 0)
			r = search(work, at + 1, skips, next_from(work, at, &choices[i]));
		if (r)
			return r;
		work_unplace(work, work->order[at]);
	}
	n = skips ? work_count_alike(work, at) : 0;
	return n && n <= skips ? search(work, at + n, skips - n, 0) : 0;
}

/* True if the sums do not suffice, or if the order does not matter: all are equal and need one GPU each. */
static bool is_hopeless(const struct gang_work *work, size_t first, size_t needed)
{
	uint64_t free = 0, wanted = 0, least = UINT64_MAX, units;

	if (request_gpus(&work->slots[work->order[first]].pod->request) == 1 &&
		work_count_alike(work, first) == work->n - first)
		return true;
	for (size_t i = 0; i < work->n_nodes; i++)
		free += node_free_units(work->nodes[i]);
	for (size_t i = first; i < work->n; i++) {
		units = work->slots[work->order[i]].pod->request.units;
		wanted += units;
		least = units < least ? units : least;
	}
	/* The members that are left out may be the largest, wherever they are in the order. */
	return (work->n - first > needed ? needed * least : wanted) > free;
}

/* Places `needed` of the members in work->order from `first` on, or none. Returns 1, 0 or -ENOMEM. */
static int pack_search(struct gang_work *work, size_t first, size_t needed)
{
	work_clear(work);
	work->looks = LOOKS_MAX;
	return is_hopeless(work, first, needed) ? 0 : search(work, first, work->n - first - needed, 0);
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
		work_unplace(work, i);
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
		work_place(work, slot, nodes[slot], &placement);
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

	if (request_gpus(&work->slots[0].pod->request) == 1 && work_count_alike(work, 0) == work->n)
		return 0; /* all orders are equal */
	r = pack_each(work, 0, false);
	if (!is_done(r, needed) && first)
		r = pack_each(work, first, false);
	if (!is_done(r, needed) && request_gpus(&work->slots[work->order[first]].pod->request) > 1)
		r = pack_each(work, first, true);
	if (!is_done(r, needed)) {
		r = pack_search(work, first, needed);
		/* The members that need least may not be those that fit: some may go where others may not. */
		if (r == 0 && first)
			r = pack_search(work, 0, needed);
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
			work_unplace(work, i);
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
		r = kind == PLAN_MOST ? pack_each(&work, 0, false) : pack(&work, needed);
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
