/* state.h - what the agent must know before the API server has answered: the mode last in force, so that a
 * node that boots while the API server is away serves as it did before. */
#pragma once

#include "model/ledger.h"

/* state_load() - GPU_MODE_NONE if nothing, or nothing sensible, is there. */
enum gpu_mode state_load(const char *dir);
/* state_save() - a failure is logged. */
void state_save(const char *dir, enum gpu_mode mode);
