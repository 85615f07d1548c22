#include "agent/node/inventory.h"

#include <stdlib.h>
#include <string.h>

#include "model/units.h"

static struct card *find(struct inventory *inventory, const char *uuid)
{
	for (size_t i = 0; i < inventory->n_cards; i++)
		if (strcmp(inventory->cards[i].facts.uuid, uuid) == 0)
			return &inventory->cards[i];
	return NULL;
}

const struct card *inventory_find(const struct inventory *inventory, const char *uuid)
{
	return find((struct inventory *)inventory, uuid);
}

static int by_index(const void *a, const void *b)
{
	const struct card *x = a, *y = b;

	if (x->facts.index != y->facts.index)
		return x->facts.index < y->facts.index ? -1 : 1;
	return strcmp(x->facts.uuid, y->facts.uuid);
}

static bool card_equal(const struct card *a, const struct card *b)
{
	return strcmp(a->facts.uuid, b->facts.uuid) == 0 && a->facts.index == b->facts.index &&
	       a->facts.mib == b->facts.mib && a->facts.healthy == b->facts.healthy &&
	       strcmp(a->facts.model, b->facts.model) == 0 && a->minor == b->minor &&
	       strcmp(a->bus_id, b->bus_id) == 0;
}

bool inventory_update(struct inventory *inventory, const struct card *found, size_t n_found)
{
	struct inventory before = *inventory;

	for (size_t i = 0; i < inventory->n_cards; i++)
		inventory->cards[i].facts.healthy = false;
	for (size_t i = 0; i < n_found; i++) {
		struct card *card = find(inventory, found[i].facts.uuid);

		if (!card && inventory->n_cards < NODE_GPUS_MAX)
			card = &inventory->cards[inventory->n_cards++];
		if (!card)
			continue;
		*card = found[i];
		card->units = units_of_card(card->facts.mib, inventory->unit_mib);
	}
	qsort(inventory->cards, inventory->n_cards, sizeof(inventory->cards[0]), by_index);
	if (before.n_cards != inventory->n_cards)
		return true;
	for (size_t i = 0; i < inventory->n_cards; i++)
		if (!card_equal(&before.cards[i], &inventory->cards[i]))
			return true;
	return false;
}

uint32_t inventory_units(const struct inventory *inventory)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < inventory->n_cards; i++)
		sum = units_add(sum, inventory->cards[i].units);
	return sum;
}
