#include "cli/ui/stranded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CORE_STEP 5
#define CORE_STEPS (100 / CORE_STEP + 1)
#define UNITS_IN_TABLE_MAX 65536 /* of one GPU: 8 TiB in units of 128 MiB */

void stranded_init(struct stranded *stranded)
{
	*stranded = (struct stranded){0};
}

static void forget_tables(struct stranded *stranded)
{
	for (size_t i = 0; i < STRANDED_TABLES_MAX; i++)
		free(stranded->tables[i].filled);
	memset(stranded->tables, 0, sizeof(stranded->tables));
}

void stranded_release(struct stranded *stranded)
{
	forget_tables(stranded);
	stranded_init(stranded);
}

void stranded_add_kind(struct stranded *stranded, const struct stranded_kind *kind)
{
	struct stranded_kind *kinds = stranded->kinds, *largest = kinds;

	for (size_t i = 0; i < stranded->n_kinds; i++) {
		if (memcmp(&kinds[i], kind, sizeof(*kind)) == 0)
			return;
		if (kinds[i].units > largest->units)
			largest = &kinds[i];
	}
	if (!kind->units)
		return;
	forget_tables(stranded);
	if (stranded->n_kinds < STRANDED_KINDS_MAX)
		kinds[stranded->n_kinds++] = *kind;
	else if (kind->units < largest->units)
		*largest = *kind;
}

static bool has_room(const struct stranded_gpu *gpu, const struct stranded_kind *kind)
{
	return !gpu->closed && gpu->free >= kind->units && gpu->core >= kind->core;
}

/* The kinds that may be on the node. The tables tell whether a kind for one GPU has room. */
static uint64_t kinds_of_node(const struct stranded *stranded, const struct stranded_gpu *gpus, size_t n_gpus)
{
	uint64_t set = 0;

	for (size_t k = 0; k < stranded->n_kinds; k++) {
		const struct stranded_kind *kind = &stranded->kinds[k];
		size_t n = 0;

		for (size_t i = 0; i < n_gpus && kind->gpus > 1; i++)
			n += has_room(&gpus[i], kind);
		if (kind->gpus <= 1 || n >= kind->gpus)
			set |= UINT64_C(1) << k;
	}
	return set;
}

static uint32_t best(
	const struct stranded *stranded, const struct stranded_table *table, uint32_t units, uint32_t steps)
{
	uint32_t most = 0;

	for (size_t k = 0; k < stranded->n_kinds; k++) {
		const struct stranded_kind *kind = &stranded->kinds[k];
		uint32_t needs = (kind->core + CORE_STEP - 1) / CORE_STEP, all;

		if (!(table->set >> k & 1) || kind->units > units || needs > steps)
			continue;
		all = kind->units + table->filled[(units - kind->units) * CORE_STEPS + steps - needs];
		most = all > most ? all : most;
	}
	return most;
}

/* The table of this set for up to `units` free units; NULL when out of memory. */
static const struct stranded_table *table_of(struct stranded *stranded, uint64_t set, uint32_t units)
{
	struct stranded_table *table = NULL;

	for (size_t i = 0; i < STRANDED_TABLES_MAX && !table; i++)
		if (stranded->tables[i].set == set)
			table = &stranded->tables[i];
	if (table && table->units >= units)
		return table;
	if (!table)
		table = &stranded->tables[stranded->next++ % STRANDED_TABLES_MAX];
	free(table->filled);
	*table = (struct stranded_table){.filled = calloc((size_t)units + 1, CORE_STEPS * sizeof(uint32_t))};
	if (!table->filled)
		return NULL;
	table->set = set;
	table->units = units;
	for (uint32_t u = 0; u <= units; u++)
		for (uint32_t c = 0; c < CORE_STEPS; c++)
			table->filled[u * CORE_STEPS + c] = best(stranded, table, u, c);
	return table;
}

static uint32_t free_of(const struct stranded_gpu *gpu)
{
	return gpu->free < UNITS_IN_TABLE_MAX ? gpu->free : UNITS_IN_TABLE_MAX;
}

static uint32_t filled_on(const struct stranded_table *table, const struct stranded_gpu *gpu)
{
	uint32_t steps = (gpu->core < 100 ? gpu->core : 100) / CORE_STEP;

	return table ? table->filled[free_of(gpu) * CORE_STEPS + steps] : 0;
}

int stranded_find(
	struct stranded *stranded, const struct stranded_gpu *gpus, size_t n_gpus, uint32_t *ret_stranded)
{
	uint64_t set = kinds_of_node(stranded, gpus, n_gpus);
	const struct stranded_table *table = NULL;
	uint32_t most = 0;

	for (size_t i = 0; i < n_gpus; i++)
		most = free_of(&gpus[i]) > most ? free_of(&gpus[i]) : most;
	if (set && !(table = table_of(stranded, set, most)))
		return -ENOMEM;
	for (size_t i = 0; i < n_gpus; i++) {
		if (gpus[i].closed)
			ret_stranded[i] = gpus[i].free;
		else
			ret_stranded[i] = stranded->n_kinds ? gpus[i].free - filled_on(table, &gpus[i]) : 0;
	}
	return 0;
}
