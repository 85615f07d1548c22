/* links-table.h - the scores of all sets of up to LINKS_EXACT_MAX GPUs, for links.c. */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "core/placement/links.h"

struct links_table;

/* links_table_new() - a table of these GPUs and all sets of them. A set of the table has a bit for each GPU,
 * in their order. -ENOMEM. */
int links_table_new(const struct links *links, uint64_t gpus, struct links_table **ret_table);
void links_table_free(struct links_table *table); /* accepts NULL */

static inline void links_table_free_ptr(struct links_table **table)
{
	links_table_free(*table);
}
#define _cleanup_links_table_ _cleanup_(links_table_free_ptr)

uint32_t links_table_all(const struct links_table *table);
struct links_score links_table_score(const struct links_table *table, uint32_t set);

/* links_table_plan() - links_plan_job() for at most LINKS_EXACT_MAX GPUs, of which enough are free. */
int links_table_plan(
	const struct links *links, const struct links_ask *ask, uint64_t *ret_part, uint64_t *ret_all);
