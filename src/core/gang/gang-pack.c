#include "core/gang/gang-work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/placement/choose.h"
#include "core/registry/node-ledger.h"

/* Choices that a search tries for one member, and nodes that it looks at in all: some milliseconds. */
#define CHOICES_MAX 24
#define LOOKS_MAX 100000

/* One place for one member. */
struct choice {
	struct node_ledger *node;
	const struct gpu_ledger *gpu; /* the fullest of the GPUs that it would take */
	uint32_t left;		      /* units that would be left free on them together */
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
	return a->index < b->index ? -1 : a->index > b->index;
}

/* The GPUs that fit, fullest first. Returns how many. */
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
	struct choice choice = {.node = node, .gpu = gpus[0]};

	/* Of whole GPUs nothing is ever left; what counts is how many others stay free beside them. */
	if (request->whole)
		choice.left = (uint32_t)(node_free_units(node) - request->units);
	for (uint32_t k = 0; k < request_gpus(request); k++)
		choice.left += gpu_free_units(gpus[k]) - request_units_per_gpu(request);
	return choice;
}

static int choice_take(struct gang_work *work, size_t slot, const struct choice *choice)
{
	const struct request *request = &work->slots[slot].pod->request;
	const struct gpu_ledger *gpus[NODE_GPUS_MAX];
	struct placement placement;
	size_t n = fullest_gpus(choice->node, request, gpus), from = 0;
	int r;

	while (from + request_gpus(request) < n && gpus[from] != choice->gpu)
		from++;
	r = placement_on_gpus(choice->node, gpus + from, request, &placement);
	if (r < 0)
		return r;
	gang_work_place(work, slot, choice->node, &placement);
	return 0;
}

static bool find_best(const struct gang_work *work, size_t slot, struct choice *ret_choice)
{
	const struct request *request = &work->slots[slot].pod->request;
	const struct gpu_ledger *gpus[NODE_GPUS_MAX];
	bool found = false;

	for (size_t i = 0; i < work->n_nodes; i++) {
		struct choice choice;

		if (!gang_work_fits(work, slot, work->nodes[i]))
			continue;
		if (fullest_gpus(work->nodes[i], request, gpus) < request_gpus(request))
			continue;
		choice = choice_on(work->nodes[i], gpus, request);
		if (found && choice.left >= ret_choice->left)
			continue;
		*ret_choice = choice;
		found = true;
		if (!choice.left)
			break;
	}
	return found;
}

int gang_pack_best(struct gang_work *work, size_t first)
{
	struct choice choice;
	int n_placed = 0;

	for (size_t i = first; i < work->n; i++) {
		if (!find_best(work, work->order[i], &choice))
			continue;
		if (choice_take(work, work->order[i], &choice) < 0)
			return -ENOMEM;
		n_placed++;
	}
	return n_placed;
}

int gang_pack_wide(struct gang_work *work, size_t first)
{
	int n_placed = 0;

	for (size_t i = first; i < work->n; i++) {
		const struct request *request = &work->slots[work->order[i]].pod->request;
		const struct gpu_ledger *gpus[NODE_GPUS_MAX];

		for (size_t k = 0; k < work->n_nodes; k++) {
			struct choice choice = {.node = work->nodes[k]};
			size_t n;

			if (!gang_work_fits(work, work->order[i], work->nodes[k]))
				continue;
			n = fullest_gpus(work->nodes[k], request, gpus);
			if (n < request_gpus(request))
				continue;
			choice.gpu = gpus[n - request_gpus(request)];
			if (choice_take(work, work->order[i], &choice) < 0)
				return -ENOMEM;
			n_placed++;
			break;
		}
	}
	return n_placed;
}

static uint32_t instances_left(const struct gpu_ledger *gpu)
{
	if (!gpu->instances_max)
		return UINT32_MAX;
	return gpu->instances < gpu->instances_max ? gpu->instances_max - gpu->instances : 0;
}

/* The same pods may go to both. */
static bool is_alike_node(const struct node_ledger *a, const struct node_ledger *b)
{
	return a->facts.mode == b->facts.mode && a->facts.mixing == b->facts.mixing &&
	       !a->with_core == !b->with_core && !a->without_core == !b->without_core;
}

/* GPUs that look the same are one choice: of a full cluster's thousands few are different. */
static bool is_alike(const struct choice *a, const struct choice *b, const struct request *request)
{
	const struct gpu_ledger *x = a->gpu, *y = b->gpu;

	if (request->whole)
		return a->left == b->left;
	if (request_gpus(request) > 1)
		return false;
	return gpu_free_units(x) == gpu_free_units(y) && gpu_free_core(x) == gpu_free_core(y) &&
	       instances_left(x) == instances_left(y) && is_alike_node(a->node, b->node);
}

/* Sorted by what is left; the worst goes when there are too many. */
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

static size_t find_choices(const struct gang_work *work, size_t slot, struct choice choices[CHOICES_MAX])
{
	const struct request *request = &work->slots[slot].pod->request;
	const struct gpu_ledger *gpus[NODE_GPUS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < work->n_nodes; i++) {
		size_t n_gpus;

		if (!gang_work_fits(work, slot, work->nodes[i]))
			continue;
		n_gpus = fullest_gpus(work->nodes[i], request, gpus);
		for (size_t k = 0; k + request_gpus(request) <= n_gpus; k++)
			choices_add(choices, &n, choice_on(work->nodes[i], gpus + k, request), request);
	}
	return n;
}

struct search {
	struct gang_work *work;
	size_t looks; /* left */
};

/* skips: so many may be left out; of those who are alike, the last ones. */
static int search(struct search *state, size_t at, size_t skips)
{
	struct gang_work *work = state->work;
	struct choice choices[CHOICES_MAX];
	size_t n;

	if (at + skips >= work->n)
		return 1;
	if (state->looks < work->n_nodes)
		return 0;
	state->looks -= work->n_nodes;
	n = find_choices(work, work->order[at], choices);
	for (size_t i = 0; i < n; i++) {
		int r = choice_take(work, work->order[at], &choices[i]);

		if (r == 0)
			r = search(state, at + 1, skips);
		if (r)
			return r;
		gang_work_unplace(work, work->order[at]);
	}
	n = skips ? gang_work_count_alike(work, at) : 0;
	return n && n <= skips ? search(state, at + n, skips - n) : 0;
}

/* Not even the sums suffice, or all are alike and on one GPU each: then the order does not matter. */
static bool is_hopeless(const struct gang_work *work, size_t first, size_t needed)
{
	uint64_t free = 0, wanted = 0;

	if (request_gpus(&work->slots[work->order[first]].pod->request) == 1 &&
		gang_work_count_alike(work, first) == work->n - first)
		return true;
	for (size_t i = 0; i < work->n_nodes; i++)
		free += node_free_units(work->nodes[i]);
	for (size_t i = work->n - needed; i < work->n; i++)
		wanted += work->slots[work->order[i]].pod->request.units;
	return wanted > free;
}

int gang_pack_search(struct gang_work *work, size_t first, size_t needed)
{
	struct search state = {.work = work, .looks = LOOKS_MAX};

	return is_hopeless(work, first, needed) ? 0 : search(&state, first, work->n - first - needed);
}
