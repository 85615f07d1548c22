/* memory-shared.h - notes exports and imports for the keeper, because the driver counts such memory for each
 * process that has it. */
#pragma once

#include <stdint.h>

/* shared_exported(), shared_imported() - add bytes, or subtract them if negative. Before the charge of memory
 * that is no longer exported is given back, shared_exported() waits until what other processes still have
 * counts for them. */
void shared_exported(uint32_t gpu, int64_t bytes);
void shared_imported(uint32_t gpu, int64_t bytes);

/* shared_freed() - the driver has freed what cuMemAlloc gave at this address (for small allocations: the
 * block), and its charge is about to be given back. It waits in the same way. shared_context_ended() - the
 * same for all exports of the context with this stamp; imports opened there are closed. Both return the value
 * to pass to shared_given_back() once the charge is given back. */
uint64_t shared_freed(uint64_t address);
uint64_t shared_context_ended(uint64_t stamp);
void shared_given_back(uint64_t ended);
