/* state.h - what survives a restart of the agent: mode and unit last in force, the GPUs last seen, and
 * whether the runtime supports CDI. With it a worker can answer before the API server, the driver and the
 * runtime have answered. A GPU that is lost meanwhile becomes an unhealthy GPU, not one that never existed.
 * The directory is emptied by a reboot. */
#pragma once

#include <stdbool.h>

#include "model/facts.h"
#include "node/inventory.h"

struct error;

struct state {
	enum gpu_mode mode;
	bool knows_cdi, does_cdi;
};

/* state_load() - reads the GPUs into ret_inventory. Leaves both empty if there is no valid file. unit_mib:
 * the unit if the file does not name one. */
void state_load(const char *dir, uint32_t unit_mib, struct inventory *ret_inventory, struct state *ret_state);

/* state_save() - writes nothing if the file has the same content. */
int state_save(
	const char *dir, const struct inventory *inventory, const struct state *state, struct error *err);
