#include "node/ids.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/inventory.h"
#include "node/pods.h"
#include "node/served.h"

#define NAMES_MAX 10 /* of one unit: one digit */

void ids_release(struct device_ids *ids)
{
	free(ids->ids);
	free(ids->healthy);
	*ids = (struct device_ids){0};
}

int ids_gpu(const char *id)
{
	char *end;
	unsigned long gpu = strtoul(id, &end, 10);

	return end == id || *end != '-' || gpu >= NODE_GPUS_MAX ? -EINVAL : (int)gpu;
}

uint32_t ids_held(enum ids_of of, const struct node_pods *pods, const char *uuid)
{
	uint32_t sum = 0;
	void *value;

	table_for_each (&pods->by_uid, cursor, value) {
		const struct pod_facts *facts = &((struct node_pod *)value)->facts;

		if (!facts->has_placement || facts->finished)
			continue;
		sum += of == IDS_OF_CORE ? placement_core_on(&facts->placement, &facts->request, uuid)
					 : placement_units_on(&facts->placement, &facts->request, uuid);
	}
	return sum;
}

/* Pods that have ended use no ids, even if the kubelet has not freed them yet. */
static int ids_in_use(const struct served *served, const struct node_pods *pods, const struct table *spent,
	struct table *ret_used)
{
	list_for_each (item, &served->entries) {
		const struct served_entry *entry = list_entry(item, struct served_entry, item);
		const struct node_pod *pod = node_pods_by_uid(pods, entry->uid);

		if (pod && pod->facts.finished)
			continue;
		for (size_t i = 0; i < entry->n_ids; i++)
			if (!table_get(spent, entry->ids[i]) &&
				table_set(ret_used, entry->ids[i], ret_used) < 0)
				return -ENOMEM;
	}
	return 0;
}

static uint32_t gpu_ids(enum ids_of of, const struct gpu *gpu)
{
	return of == IDS_OF_CORE ? CORE_PER_GPU : of == IDS_OF_GPUS ? 1 : gpu->units;
}

/* Takes away free ids of this GPU (any GPU if < 0), from the last one, until `left` is 0. Returns what is
 * left. */
static uint32_t ids_withdraw(struct device_ids *ids, const struct table *used, int gpu, uint32_t left)
{
	for (size_t i = ids->n; i > 0 && left; i--) {
		size_t k = i - 1;

		if (!ids->healthy[k] || (gpu >= 0 && ids_gpu(ids->ids[k]) != gpu) ||
			table_get(used, ids->ids[k]))
			continue;
		ids->healthy[k] = false;
		left--;
	}
	return left;
}

static void ids_mark_sick(enum ids_of of, struct device_ids *ids, const struct inventory *inventory,
	const struct node_pods *pods, const struct table *used)
{
	uint32_t left = 0;

	for (size_t i = 0; i < inventory->n_gpus; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		uint32_t held = gpu->facts.healthy ? 0 : ids_held(of, pods, gpu->facts.uuid);

		if (!gpu->facts.healthy && held < gpu_ids(of, gpu))
			left += ids_withdraw(ids, used, (int)i, gpu_ids(of, gpu) - held);
	}
	ids_withdraw(ids, used, -1, left);
}

/* Maps the unit of each id in use to that id: "0-3" has "0-3.1". */
static int ids_other_names(const struct table *used, struct table *ret_names)
{
	char unit[DEVICE_ID_SIZE];
	const char *id;
	size_t cursor = 0;
	void *ignored;

	while (table_next(used, &cursor, &id, &ignored)) {
		const char *dot = strchr(id, '.');

		if (!dot || (size_t)(dot - id) >= sizeof(unit) || strlen(id) >= DEVICE_ID_SIZE)
			continue;
		memcpy(unit, id, (size_t)(dot - id));
		unit[dot - id] = '\0';
		if (table_set(ret_names, unit, (void *)id) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Writes the name that is in use, else the first name that is not spent. If all are spent (a kubelet cannot
 * have kept that many), any name will do. */
static void ids_name(char *name, const char *other, const struct table *used, const struct table *spent)
{
	size_t len = strlen(name);

	if (table_get(used, name))
		return;
	if (other) {
		strcpy(name, other);
		return;
	}
	for (int n = 1; n < NAMES_MAX && table_get(spent, name); n++)
		snprintf(name + len, DEVICE_ID_SIZE - len, ".%d", n);
}

static void ids_add_all(enum ids_of of, struct device_ids *ids, const struct inventory *inventory,
	const struct table *used, const struct table *names, const struct table *spent)
{
	for (size_t i = 0; i < inventory->n_gpus; i++)
		for (uint32_t unit = 0; unit < gpu_ids(of, &inventory->gpus[i]); unit++) {
			char *name = ids->ids[ids->n];

			if (of == IDS_OF_GPUS)
				snprintf(name, DEVICE_ID_SIZE, "%u-gpu", (unsigned int)i);
			else
				snprintf(name, DEVICE_ID_SIZE, "%u-%u", (unsigned int)i, unit);
			ids_name(name, table_get(names, name), used, spent);
			ids->healthy[ids->n++] = true;
		}
}

static int ids_fill(enum ids_of of, struct device_ids *ids, const struct inventory *inventory,
	const struct node_pods *pods, const struct served *served, const struct table *spent)
{
	struct table used, names;
	int r;

	table_init(&used);
	table_init(&names);
	r = ids_in_use(served, pods, spent, &used);
	if (r == 0)
		r = ids_other_names(&used, &names);
	if (r == 0) {
		ids_add_all(of, ids, inventory, &used, &names, spent);
		ids_mark_sick(of, ids, inventory, pods, &used);
	}
	table_release(&used);
	table_release(&names);
	return r;
}

int ids_build(enum ids_of of, const struct inventory *inventory, const struct node_pods *pods,
	const struct served *served, const struct table *spent, struct device_ids *ret_ids)
{
	struct device_ids ids = {0};
	size_t total = 0;
	int r = -ENOMEM;

	for (size_t i = 0; i < inventory->n_gpus; i++)
		total += gpu_ids(of, &inventory->gpus[i]);
	ids.ids = calloc(total + 1, sizeof(*ids.ids));
	ids.healthy = calloc(total + 1, sizeof(*ids.healthy));
	if (ids.ids && ids.healthy)
		r = ids_fill(of, &ids, inventory, pods, served, spent);
	if (r < 0)
		ids_release(&ids);
	else
		*ret_ids = ids;
	return r;
}

static bool is_over(const struct served_entry *entry, const struct node_pods *pods,
	spent_may_live_fn may_live, const void *userdata)
{
	const struct node_pod *pod = node_pods_by_uid(pods, entry->uid);

	return pod ? pod->facts.finished : !(may_live && may_live(userdata, entry->uid));
}

int spent_find(const struct served *served, const struct node_pods *pods, spent_may_live_fn may_live,
	const void *userdata, struct table *ret_spent)
{
	for (int over = 1; over >= 0; over--) {
		list_for_each (item, &served->entries) {
			const struct served_entry *entry = list_entry(item, struct served_entry, item);

			if (is_over(entry, pods, may_live, userdata) != over)
				continue;
			for (size_t i = 0; i < entry->n_ids; i++) {
				if (!over)
					table_remove(ret_spent, entry->ids[i]);
				else if (table_set(ret_spent, entry->ids[i], ret_spent) < 0)
					return -ENOMEM;
			}
		}
	}
	return 0;
}
