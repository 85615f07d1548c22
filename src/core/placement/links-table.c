#include "core/placement/links-table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

struct links_table {
	size_t n;
	uint8_t gpu[LINKS_EXACT_MAX]; /* the position of the GPU of each bit */
	uint16_t gbps[LINKS_EXACT_MAX][LINKS_EXACT_MAX];
	uint32_t *sum;	/* of each set */
	uint16_t *ring; /* likewise; 0: a single GPU */
};

void links_table_free(struct links_table *table)
{
	if (!table)
		return;
	free(table->sum);
	free(table->ring);
	free(table);
}

uint32_t links_table_all(const struct links_table *table)
{
	return (uint32_t)(UINT64_C(1) << table->n) - 1;
}

struct links_score links_table_score(const struct links_table *table, uint32_t set)
{
	return (struct links_score){.ring = table->ring[set], .sum = table->sum[set]};
}

static void fill_sums(struct links_table *table)
{
	for (uint32_t set = 1; set <= links_table_all(table); set++) {
		unsigned int low = (unsigned int)__builtin_ctz(set);
		uint32_t rest = set & (set - 1);

		table->sum[set] = table->sum[rest];
		for (; rest; rest &= rest - 1)
			table->sum[set] += table->gbps[low][__builtin_ctz(rest)];
	}
}

/* Marks the sets that have a ring without a link below `least`. ends[set]: the GPUs where a path can end that
 * begins at the set's lowest GPU and visits all of the set. */
static void fill_rings(struct links_table *table, uint16_t least, uint16_t *ends)
{
	uint16_t beside[LINKS_EXACT_MAX] = {0};

	for (size_t a = 0; a < table->n; a++)
		for (size_t b = 0; b < table->n; b++)
			beside[a] |= (uint16_t)((a != b && table->gbps[a][b] >= least) << b);
	for (uint32_t set = 1; set <= links_table_all(table); set++) {
		unsigned int low = (unsigned int)__builtin_ctz(set);
		uint32_t others = set & (set - 1);

		ends[set] = others ? 0 : (uint16_t)set;
		for (uint32_t left = others; left; left &= left - 1) {
			unsigned int last = (unsigned int)__builtin_ctz(left);

			if (ends[set ^ (1u << last)] & beside[last])
				ends[set] |= (uint16_t)(1u << last);
		}
		if (others && (ends[set] & beside[low]))
			table->ring[set] = least;
	}
}

/* The bandwidth rises, so the last one for which a set has a ring remains. */
static int fill_all_rings(struct links_table *table)
{
	_cleanup_free_ uint16_t *ends = calloc((size_t)links_table_all(table) + 1, sizeof(*ends));
	uint32_t before = 0, next;

	if (!ends)
		return -ENOMEM;
	for (;; before = next) {
		next = UINT32_MAX;
		for (size_t a = 0; a < table->n; a++)
			for (size_t b = 0; b < a; b++)
				if (table->gbps[a][b] > before && table->gbps[a][b] < next)
					next = table->gbps[a][b];
		if (next == UINT32_MAX)
			return 0;
		fill_rings(table, (uint16_t)next, ends);
	}
}

int links_table_new(const struct links *links, uint64_t gpus, struct links_table **ret_table)
{
	_cleanup_links_table_ struct links_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	for (uint64_t left = gpus; left && table->n < LINKS_EXACT_MAX; left &= left - 1)
		table->gpu[table->n++] = (uint8_t)__builtin_ctzll(left);
	for (size_t a = 0; a < table->n; a++)
		for (size_t b = 0; b < table->n; b++)
			table->gbps[a][b] = (uint16_t)links_between(links, table->gpu[a], table->gpu[b]);
	table->sum = calloc((size_t)links_table_all(table) + 1, sizeof(*table->sum));
	table->ring = calloc((size_t)links_table_all(table) + 1, sizeof(*table->ring));
	if (!table->sum || !table->ring || fill_all_rings(table) < 0)
		return -ENOMEM;
	fill_sums(table);
	*ret_table = TAKE_PTR(table);
	return 0;
}

static uint32_t to_bits(const struct links_table *table, uint64_t gpus)
{
	uint32_t set = 0;

	for (size_t i = 0; i < table->n; i++)
		set |= (uint32_t)(gpus >> table->gpu[i] & 1) << i;
	return set;
}

static uint64_t to_gpus(const struct links_table *table, uint32_t set)
{
	uint64_t gpus = 0;

	for (size_t i = 0; i < table->n; i++)
		gpus |= (uint64_t)(set >> i & 1) << table->gpu[i];
	return gpus;
}

/* The next set with the same number of GPUs; 0 after the last one. */
static uint32_t next_set(uint32_t set, uint32_t all)
{
	uint32_t low = set & -set;
	uint64_t up = (uint64_t)set + low;
	uint64_t next = up | (((set ^ up) >> 2) / low);

	return next > all ? 0 : (uint32_t)next;
}

/* Whether a comes before b, in the order of their positions. */
static bool comes_first(uint32_t a, uint32_t b)
{
	uint32_t differs = a ^ b;

	return differs && (a & differs & -differs);
}

/* ---- how sets are divided among the pods of a job ---- */

/* The best division of one set. The ring of the worst part of the whole division comes first: if one part has
 * no better ring, the others may be divided by their sum. So the sum is computed for a ring that no part may
 * be below. */
struct division {
	bool known, divided;
	uint32_t worst; /* if known: the ring of the worst part in the best division */
	uint32_t least; /* if divided: no part's ring is below it */
	uint32_t sum;	/* then the largest sum over all parts */
	uint32_t first; /* the part with the lowest GPU; 0: there is no such division */
};

struct planner {
	const struct links_table *table;
	size_t gpus; /* number of GPUs of a part */
	struct division *divisions;
};

/* The next part after `part` that has the set's lowest GPU; 0 after the last one. */
static uint32_t next_part(const struct planner *planner, uint32_t set, uint32_t part)
{
	uint32_t low = set & -set, others = set ^ low;

	for (uint32_t more = part & others; more;) {
		more = (more - 1) & others;
		if ((size_t)__builtin_popcount(more) + 1 == planner->gpus)
			return low | more;
	}
	return 0;
}

static uint32_t first_part(const struct planner *planner, uint32_t set)
{
	return (size_t)__builtin_popcount(set) == planner->gpus ? set : next_part(planner, set, set);
}

/* The recursion is at most LINKS_EXACT_MAX deep, and evaluates each set once. */
static uint32_t worst_of(struct planner *planner, uint32_t set)
{
	struct division *division = &planner->divisions[set];

	if (!set)
		return UINT32_MAX;
	if (division->known)
		return division->worst;
	division->known = true;
	for (uint32_t part = first_part(planner, set); part; part = next_part(planner, set, part)) {
		uint32_t ring = links_table_score(planner->table, part).ring, rest;

		if (ring <= division->worst)
			continue;
		rest = worst_of(planner, set ^ part);
		division->worst = ring < rest ? ring : rest > division->worst ? rest : division->worst;
	}
	return division->worst;
}

/* The recursion is bounded likewise. */
static const struct division *divide(struct planner *planner, uint32_t set, uint32_t least)
{
	struct division *best = &planner->divisions[set];

	if (best->divided && best->least == least)
		return best;
	best->divided = true;
	best->least = least;
	best->sum = best->first = 0;
	for (uint32_t part = first_part(planner, set); part; part = next_part(planner, set, part)) {
		struct links_score score = links_table_score(planner->table, part);
		const struct division *rest = NULL;
		uint32_t sum = score.sum;

		if (score.ring < least)
			continue;
		if (set != part) {
			rest = divide(planner, set ^ part, least);
			sum += rest->sum;
		}
		if ((rest && !rest->first) || (best->first && sum < best->sum) ||
			(best->first && sum == best->sum && !comes_first(part, best->first)))
			continue;
		best->sum = sum;
		best->first = part;
	}
	return best;
}

/* The best of the parts into which the set is divided. */
static uint32_t best_part(struct planner *planner, uint32_t set)
{
	uint32_t best = 0, least = worst_of(planner, set);

	while (set) {
		uint32_t part = divide(planner, set, least)->first;

		if (!best || links_compare(links_table_score(planner->table, part),
				     links_table_score(planner->table, best)) > 0)
			best = part;
		set ^= part;
	}
	return best;
}

/* ---- which GPUs all pods of the job get ---- */

struct plan {
	uint32_t set;
	struct links_score together, left;
};

static int compare_divisions(struct planner *planner, uint32_t a, uint32_t b)
{
	uint32_t worst_a = worst_of(planner, a), worst_b = worst_of(planner, b), sum_a, sum_b;

	if (worst_a != worst_b)
		return worst_a < worst_b ? -1 : 1;
	sum_a = divide(planner, a, worst_a)->sum;
	sum_b = divide(planner, b, worst_b)->sum;
	return sum_a == sum_b ? 0 : sum_a < sum_b ? -1 : 1;
}

static bool plan_better(struct planner *planner, const struct plan *a, const struct plan *b)
{
	int order = links_compare(a->together, b->together);

	if (order == 0)
		order = compare_divisions(planner, a->set, b->set);
	if (order == 0)
		order = links_compare(a->left, b->left);
	return order ? order > 0 : comes_first(a->set, b->set);
}

static uint32_t plan_all(struct planner *planner, uint32_t free_set, uint32_t near, size_t gpus)
{
	const struct links_table *table = planner->table;
	uint32_t all = links_table_all(table);
	struct plan best = {0};

	for (uint32_t set = (uint32_t)(UINT64_C(1) << gpus) - 1; set; set = next_set(set, all)) {
		struct plan plan = {.set = set,
			.together = links_table_score(table, set | near),
			.left = links_table_score(table, free_set & ~set)};

		if (!(set & ~free_set) && (!best.set || plan_better(planner, &plan, &best)))
			best = plan;
	}
	return best.set;
}

int links_table_plan(
	const struct links *links, const struct links_ask *ask, uint64_t *ret_part, uint64_t *ret_all)
{
	_cleanup_links_table_ struct links_table *table = NULL;
	_cleanup_free_ struct division *divisions = NULL;
	struct planner planner = {.gpus = ask->gpus};
	uint32_t all;
	int r = links_table_new(links, ask->free | ask->near, &table);

	if (r < 0)
		return r;
	divisions = calloc((size_t)links_table_all(table) + 1, sizeof(*divisions));
	if (!divisions)
		return -ENOMEM;
	planner.table = table;
	planner.divisions = divisions;
	all = plan_all(&planner, to_bits(table, ask->free), to_bits(table, ask->near), ask->gpus * ask->pods);
	*ret_all = to_gpus(table, all);
	*ret_part = to_gpus(table, best_part(&planner, all));
	return 0;
}
