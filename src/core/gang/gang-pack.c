#include "core/gang/gang-pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/gang/gang-plan.h"
#include "core/placement/choose.h"
#include "core/registry/node-ledger.h"

/* How many choices a search tries for one member, and how many nodes it reads in all: some milliseconds. */
#define CHOICES_MAX 24
#define LOOKS_MAX 100000
#define SETS_PER_LOOK 16 /* reading a node costs as much as trying 16 sets of GPUs */
#define EACH_SET_MAX 8	 /* GPUs that fit; there are 70 sets of four of them */

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

static void work_clear(struct gang_work *work)
{
	for (size_t i = 0; i < work->n; i++)
		gang_work_unplace(work, i);
}

bool gang_work_fits(const struct gang_work *work, size_t slot, const struct node_ledger *node)
{
	const struct gang_slot *s = &work->slots[slot];

	/* In a full cluster nearly all nodes fail this comparison. The reason does not matter. */
	return node->sums.most_free >= request_units_per_gpu(&s->pod->request) &&
	       placement_choose(node, &s->pod->request, "", NULL) == FITS &&
	       (!s->nodes || table_get(s->nodes, node->facts.name));
}

/* True if the slots at these positions of work->order have the same request and the same nodes. */
static bool work_alike(const struct gang_work *work, size_t i, size_t k)
{
	const struct gang_slot *a = &work->slots[work->order[i]], *b = &work->slots[work->order[k]];

	return a->nodes == b->nodes && gang_same_request(&a->pod->request, &b->pod->request);
}

/* Counts the slots in work->order, from `first` on, that are alike. */
size_t gang_work_count_alike(const struct gang_work *work, size_t first)
{
	size_t end = first + 1;

	while (end < work->n && work_alike(work, first, end))
		end++;
	return end - first;
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
	gang_work_place(work, slot, choice->node, &placement);
	return 0;
}

/* The GPUs that fit the member, fullest first; 0 if too few fit, or the member may not go to the node. */
static size_t gpus_for(const struct gang_work *work, size_t slot, const struct node_ledger *node,
	const struct gpu_ledger **ret_gpus)
{
	const struct request *request = &work->slots[slot].pod->request;
	size_t n = gang_work_fits(work, slot, node) ? fullest_gpus(node, request, ret_gpus) : 0;

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
int gang_pack_each(struct gang_work *work, size_t first, bool wide)
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

/* False if the set skips a GPU of the list and has the next one, which is equal: the set with the skipped GPU
 * is the same choice. */
static bool is_first_of_its_kind(uint64_t set, const struct gpu_ledger *const *gpus, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if ((set >> i & 1) && !(set >> (i - 1) & 1) && gpus_alike(gpus[i - 1], gpus[i]))
			return false;
	return true;
}

/* Adds the member's choices on a node. If it needs several GPUs and at most EACH_SET_MAX fit, each set of
 * them is a choice; if more fit, only neighbours in the list are. */
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

/* Returns the first place that the next member may take. Which of several equal members has which place does
 * not matter, so the next one takes no earlier place than this one. Several GPUs of one member are not one
 * place. */
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
		gang_work_unplace(work, work->order[at]);
	}
	n = skips ? gang_work_count_alike(work, at) : 0;
	return n && n <= skips ? search(work, at + n, skips - n, 0) : 0;
}

/* True if the sums do not suffice, or if the order does not matter: all are equal and need one GPU each. */
static bool is_hopeless(const struct gang_work *work, size_t first, size_t needed)
{
	uint64_t free = 0, wanted = 0, least = UINT64_MAX, units;

	if (request_gpus(&work->slots[work->order[first]].pod->request) == 1 &&
		gang_work_count_alike(work, first) == work->n - first)
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
int gang_pack_search(struct gang_work *work, size_t first, size_t needed)
{
	work_clear(work);
	work->looks = LOOKS_MAX;
	return is_hopeless(work, first, needed) ? 0 : search(work, first, work->n - first - needed, 0);
}
