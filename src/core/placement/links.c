#include "core/placement/links.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "core/placement/links-table.h"

struct links *links_new(size_t n, uint32_t nvlink_gbps)
{
	struct links *links = calloc(1, sizeof(*links) + n * n * sizeof(links->at[0]));

	if (links) {
		links->n = n;
		links->nvlink_gbps = nvlink_gbps;
	}
	return links;
}

void links_set(struct links *links, size_t a, size_t b, struct link link)
{
	if (a < links->n && b < links->n)
		links->at[a * links->n + b] = links->at[b * links->n + a] = link;
}

uint32_t links_between(const struct links *links, size_t a, size_t b)
{
	return a < links->n && b < links->n && a != b
		       ? link_gbps(links->at[a * links->n + b], links->nvlink_gbps)
		       : 0;
}

int links_compare(struct links_score a, struct links_score b)
{
	if (a.ring != b.ring)
		return a.ring < b.ring ? -1 : 1;
	return a.sum == b.sum ? 0 : a.sum < b.sum ? -1 : 1;
}

static uint32_t sum_of(const struct links *links, uint64_t set)
{
	uint32_t sum = 0;

	for (size_t a = 0; a < links->n; a++)
		for (size_t b = a + 1; (set >> a & 1) && b < links->n; b++)
			if (set >> b & 1)
				sum += links_between(links, a, b);
	return sum;
}

struct links_score links_score(const struct links *links, uint64_t set)
{
	_cleanup_links_table_ struct links_table *table = NULL;
	struct links_score score = {.sum = sum_of(links, set)};

	if (__builtin_popcountll(set) <= LINKS_EXACT_MAX && links_table_new(links, set, &table) == 0)
		score.ring = links_table_score(table, links_table_all(table)).ring;
	return score;
}

/* The first GPUs by position. */
static uint64_t lowest(uint64_t set, size_t n)
{
	uint64_t taken = 0;

	for (; n && set; n--) {
		taken |= set & -set;
		set &= set - 1;
	}
	return taken;
}

/* The sum of the GPU's bandwidths to the GPUs of the set. */
static uint32_t sum_to(const struct links *links, size_t gpu, uint64_t set)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < links->n; i++)
		if (set >> i & 1)
			sum += links_between(links, gpu, i);
	return sum;
}

/* Begins with this GPU and adds the GPU that contributes most, one by one. */
static uint64_t grow(const struct links *links, const struct links_ask *ask, size_t first)
{
	uint64_t set = UINT64_C(1) << first;

	for (size_t n = 1; n < ask->gpus; n++) {
		uint32_t most = 0;
		size_t best = LINKS_GPUS_MAX;

		for (size_t i = 0; i < links->n; i++) {
			uint32_t sum;

			if (!(ask->free >> i & 1) || (set >> i & 1))
				continue;
			sum = sum_to(links, i, set | ask->near);
			if (best == LINKS_GPUS_MAX || sum > most) {
				most = sum;
				best = i;
			}
		}
		set |= UINT64_C(1) << best;
	}
	return set;
}

static uint64_t grow_best(const struct links *links, const struct links_ask *ask)
{
	uint64_t best = 0;
	uint32_t most = 0;

	for (size_t i = 0; i < links->n; i++) {
		uint64_t set = ask->free >> i & 1 ? grow(links, ask, i) : 0;
		uint32_t sum = set ? sum_of(links, set | ask->near) : 0;

		if (set && (!best || sum > most)) {
			best = set;
			most = sum;
		}
	}
	return best;
}

int links_plan_job(
	const struct links *links, const struct links_ask *ask, uint64_t *ret_part, uint64_t *ret_all)
{
	size_t n_free = (size_t)__builtin_popcountll(ask->free);
	struct links_ask clean = *ask;

	if (!ask->gpus)
		return -EINVAL;
	if (n_free < ask->gpus)
		return -ENOSPC;
	if (!clean.pods)
		clean.pods = 1;
	if (clean.pods > n_free / clean.gpus)
		clean.pods = n_free / clean.gpus;
	if (links && __builtin_popcountll(ask->free | ask->near) <= LINKS_EXACT_MAX)
		return links_table_plan(links, &clean, ret_part, ret_all);
	*ret_part = links ? grow_best(links, &clean) : lowest(ask->free, ask->gpus);
	*ret_all = *ret_part;
	return 0;
}
