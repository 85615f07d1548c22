#include "node/inventory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/units.h"

static struct gpu *find(struct inventory *inventory, const char *uuid)
{
	for (size_t i = 0; i < inventory->n_gpus; i++)
		if (strcmp(inventory->gpus[i].facts.uuid, uuid) == 0)
			return &inventory->gpus[i];
	return NULL;
}

const struct gpu *inventory_find(const struct inventory *inventory, const char *uuid)
{
	return find((struct inventory *)inventory, uuid);
}

/* The driver's report comes first, because it is the fault itself. */
static void judge(struct gpu *gpu)
{
	const char *says = gpu->driver_says;

	for (int i = 0; i < FAULT_SOURCES && !*says; i++)
		says = gpu->list_says[i];
	gpu->facts.healthy = !*says;
	snprintf(gpu->details.reason, sizeof(gpu->details.reason), "%s", says);
}

static bool say(struct gpu *gpu, char says[GPU_REASON_SIZE], const char *what)
{
	if (strcmp(says, what) == 0)
		return false;
	snprintf(says, GPU_REASON_SIZE, "%s", what);
	judge(gpu);
	return true;
}

bool inventory_driver_says(struct inventory *inventory, const char *uuid, const char *what)
{
	struct gpu *gpu = find(inventory, uuid);

	return gpu && say(gpu, gpu->driver_says, what);
}

bool inventory_list_says(
	struct inventory *inventory, const char *uuid, enum fault_source source, const char *what)
{
	struct gpu *gpu = find(inventory, uuid);

	return gpu && say(gpu, gpu->list_says[source], what);
}

static int by_index(const void *a, const void *b)
{
	const struct gpu *x = a, *y = b;

	if (x->facts.index != y->facts.index)
		return x->facts.index < y->facts.index ? -1 : 1;
	return strcmp(x->facts.uuid, y->facts.uuid);
}

static bool gpu_equal(const struct gpu *a, const struct gpu *b)
{
	return strcmp(a->facts.uuid, b->facts.uuid) == 0 && a->facts.index == b->facts.index &&
	       a->facts.mib == b->facts.mib && a->facts.healthy == b->facts.healthy &&
	       strcmp(a->details.reason, b->details.reason) == 0 &&
	       strcmp(a->details.model, b->details.model) == 0 && a->minor == b->minor &&
	       strcmp(a->bus_id, b->bus_id) == 0;
}

static void gpu_shown(struct inventory *inventory, const struct gpu *found)
{
	struct gpu *gpu = find(inventory, found->facts.uuid);
	bool is_known = gpu != NULL;
	struct gpu shown = *found;

	if (!gpu && inventory->n_gpus < NODE_GPUS_MAX)
		gpu = &inventory->gpus[inventory->n_gpus++];
	if (!gpu)
		return;
	if (is_known) {
		memcpy(shown.details.links, gpu->details.links, sizeof(shown.details.links));
		shown.details.nvlink_gbps = gpu->details.nvlink_gbps;
		memcpy(shown.list_says, gpu->list_says, sizeof(shown.list_says));
		memcpy(shown.told, gpu->told, sizeof(shown.told));
	}
	*gpu = shown;
	gpu->units = units_of_gpu(gpu->facts.mib, inventory->unit_mib);
	judge(gpu);
}

bool inventory_update(struct inventory *inventory, const struct gpu *found, size_t n_found)
{
	struct inventory before = *inventory;

	for (size_t i = 0; i < inventory->n_gpus; i++)
		say(&inventory->gpus[i], inventory->gpus[i].driver_says, "the driver does not show it");
	for (size_t i = 0; i < n_found; i++)
		gpu_shown(inventory, &found[i]);
	qsort(inventory->gpus, inventory->n_gpus, sizeof(inventory->gpus[0]), by_index);
	if (before.n_gpus != inventory->n_gpus)
		return true;
	for (size_t i = 0; i < inventory->n_gpus; i++)
		if (!gpu_equal(&before.gpus[i], &inventory->gpus[i]))
			return true;
	return false;
}

static const struct mig_gpu *find_mig(const struct inventory *inventory, const char *uuid)
{
	for (size_t i = 0; i < inventory->n_mig; i++)
		if (strcmp(inventory->mig[i].uuid, uuid) == 0)
			return &inventory->mig[i];
	return NULL;
}

bool inventory_set_mig(struct inventory *inventory, const struct mig_gpu *gpus, size_t n)
{
	struct mig_gpu now[NODE_GPUS_MAX] = {{0}};
	bool changed;

	n = n < NODE_GPUS_MAX ? n : NODE_GPUS_MAX;
	changed = n != inventory->n_mig;
	for (size_t i = 0; i < n; i++) {
		const struct mig_gpu *before = find_mig(inventory, gpus[i].uuid);

		now[i] = gpus[i];
		now[i].told = before && before->told;
		changed |= !before || before->index != gpus[i].index;
	}
	memcpy(inventory->mig, now, sizeof(now));
	inventory->n_mig = n;
	return changed;
}

/* The position in uuids; n if it is not there. */
static size_t position(const char *const *uuids, size_t n, const struct gpu *gpu)
{
	size_t i = 0;

	while (i < n && strcmp(uuids[i], gpu->facts.uuid) != 0)
		i++;
	return i;
}

bool inventory_set_links(struct inventory *inventory, const char *const *uuids, size_t n,
	inventory_link_fn at, const void *userdata, uint32_t nvlink_gbps)
{
	bool changed = false;

	for (size_t a = 0; a < inventory->n_gpus; a++) {
		struct gpu_details *details = &inventory->gpus[a].details;
		size_t from = position(uuids, n, &inventory->gpus[a]);
		struct link links[NODE_GPUS_MAX] = {{0}};

		for (size_t b = 0; b < inventory->n_gpus; b++) {
			size_t to = position(uuids, n, &inventory->gpus[b]);

			if (a != b && from < n && to < n)
				links[b] = at(userdata, from, to);
		}
		changed |= memcmp(links, details->links, sizeof(links)) != 0 ||
			   details->nvlink_gbps != nvlink_gbps;
		memcpy(details->links, links, sizeof(links));
		details->nvlink_gbps = nvlink_gbps;
	}
	return changed;
}

bool inventory_set_unit(struct inventory *inventory, uint32_t unit_mib)
{
	bool differs = inventory->unit_mib != unit_mib;

	inventory->unit_mib = unit_mib;
	for (size_t i = 0; i < inventory->n_gpus; i++)
		inventory->gpus[i].units = units_of_gpu(inventory->gpus[i].facts.mib, unit_mib);
	return differs;
}

uint32_t inventory_units(const struct inventory *inventory)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < inventory->n_gpus; i++)
		sum = units_add(sum, inventory->gpus[i].units);
	return sum;
}
