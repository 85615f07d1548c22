#include "agent/ids.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/inventory.h"
#include "agent/pods.h"
#include "agent/served.h"
#include "base/cleanup.h"

void ids_release(struct device_ids *ids)
{
	free(ids->ids);
	free(ids->healthy);
	*ids = (struct device_ids){0};
}

int ids_card(const char *id)
{
	char *end;
	unsigned long card = strtoul(id, &end, 10);

	return end == id || *end != '-' || card >= NODE_GPUS_MAX ? -EINVAL : (int)card;
}

uint32_t ids_held(const struct node_pods *pods, const char *uuid)
{
	uint32_t sum = 0;
	void *value;

	table_for_each (&pods->by_uid, cursor, value) {
		const struct pod_facts *facts = &((struct node_pod *)value)->facts;

		if (facts->has_placement && !facts->finished)
			sum += placement_units_on(&facts->placement, &facts->request, uuid);
	}
	return sum;
}

static int ids_in_use(const struct served *served, const struct node_pods *pods, struct table *ret_used)
{
	list_for_each (item, &served->entries) {
		const struct served_entry *entry = list_entry(item, struct served_entry, item);
		const struct node_pod *pod = node_pods_by_uid(pods, entry->uid);

		if (pod && pod->facts.finished)
			continue;
		for (size_t i = 0; i < entry->n_ids; i++)
			if (table_set(ret_used, entry->ids[i], ret_used) < 0)
				return -ENOMEM;
	}
	return 0;
}

/* Free ids of card (any card if < 0), from the last, until `left` is 0. Returns what is left. */
static uint32_t ids_withdraw(struct device_ids *ids, const struct table *used, int card, uint32_t left)
{
	for (size_t i = ids->n; i > 0 && left; i--) {
		size_t k = i - 1;

		if (!ids->healthy[k] || (card >= 0 && ids_card(ids->ids[k]) != card) ||
			table_get(used, ids->ids[k]))
			continue;
		ids->healthy[k] = false;
		left--;
	}
	return left;
}

static int ids_mark_sick(struct device_ids *ids, const struct inventory *inventory,
	const struct node_pods *pods, const struct served *served)
{
	struct table used;
	uint32_t left = 0;
	int r;

	table_init(&used);
	r = ids_in_use(served, pods, &used);
	for (size_t i = 0; r == 0 && i < inventory->n_cards; i++) {
		const struct card *card = &inventory->cards[i];
		uint32_t held = card->facts.healthy ? 0 : ids_held(pods, card->facts.uuid);

		if (!card->facts.healthy && held < card->units)
			left += ids_withdraw(ids, &used, (int)i, card->units - held);
	}
	ids_withdraw(ids, &used, -1, left);
	table_release(&used);
	return r;
}

int ids_build(const struct inventory *inventory, const struct node_pods *pods, const struct served *served,
	struct device_ids *ret_ids)
{
	struct device_ids ids = {0};
	size_t total = inventory_units(inventory);
	int r;

	ids.ids = calloc(total + 1, sizeof(*ids.ids));
	ids.healthy = calloc(total + 1, sizeof(*ids.healthy));
	if (!ids.ids || !ids.healthy) {
		ids_release(&ids);
		return -ENOMEM;
	}
	for (size_t i = 0; i < inventory->n_cards; i++)
		for (uint32_t unit = 0; unit < inventory->cards[i].units && ids.n < total; unit++) {
			snprintf(ids.ids[ids.n], DEVICE_ID_SIZE, "%u-%u", (unsigned int)i, unit);
			ids.healthy[ids.n++] = true;
		}
	r = ids_mark_sick(&ids, inventory, pods, served);
	if (r < 0)
		ids_release(&ids);
	else
		*ret_ids = ids;
	return r;
}
