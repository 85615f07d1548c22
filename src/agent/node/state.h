/* state.h - what survives a restart of the agent: mode and unit last in force, the GPUs last seen, whether
 * the runtime does CDI. So that a worker can answer before the API server, the driver and the runtime have;
 * and a GPU that is lost meanwhile is a sick GPU, not one that never was. In a directory that a reboot
 * empties.
 */
#pragma once

#include <stdbool.h>

#include "model/facts.h"
#include "node/inventory.h"

struct error;

struct state {
	enum gpu_mode mode;
	bool knows_cdi, does_cdi;
	struct inventory inventory;
};

/* state_load() - nothing at all if nothing, or nothing sensible, is there. unit_mib: where the file says
 * none. */
void state_load(const char *dir, uint32_t unit_mib, struct state *ret_state);

/* state_save() - writes nothing if the file says so already. */
int state_save(const char *dir, const struct state *state, struct error *err);
