/* memory-shared.h - what is exported and imported, for the keeper: the driver counts it for each process that
 * has it. */
#pragma once

#include <stdint.h>

/* shared_exported(), shared_imported() - bytes more, or less. Before the charge of what is no longer exported
 * goes, shared_exported() waits until what others still have counts for them. */
void shared_exported(uint32_t gpu, int64_t bytes);
void shared_imported(uint32_t gpu, int64_t bytes);

/* shared_freed() - the driver has back what cuMemAlloc gave at this address (a block of small ones: its own),
 * and its charge is to go: waits in the same way. shared_context_ended() - the same for all that was exported
 * in the context with this stamp; what was opened there is closed. Both return what shared_given_back() is
 * told once the charge is gone. */
uint64_t shared_freed(uint64_t address);
uint64_t shared_context_ended(uint64_t stamp);
void shared_given_back(uint64_t ended);
