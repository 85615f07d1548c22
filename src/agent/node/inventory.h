/* inventory.h - the cards of this node, as the agent promises them: a card that was once seen stays in it, so
 * that its units do not vanish under the pods that hold them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/ledger.h"

struct card {
	struct gpu_facts facts;
	unsigned int minor; /* of /dev/nvidia<minor> */
	char bus_id[32];    /* "00000000:00:09.0"; "" where an agent before this one did not remember it */
	uint32_t units;
};

struct inventory {
	struct card cards[NODE_GPUS_MAX]; /* by index */
	size_t n_cards;
	uint32_t unit_mib;
	char driver_version[80];
};

/* inventory_update() - what the driver shows now: known cards (by UUID) take its word for health, index and
 * minor number; cards it does not show any more become unhealthy; new ones are added. Returns whether
 * anything changed. */
bool inventory_update(struct inventory *inventory, const struct card *found, size_t n_found);

/* inventory_find() - NULL if there is no such card. */
const struct card *inventory_find(const struct inventory *inventory, const char *uuid);

uint32_t inventory_units(const struct inventory *inventory);
