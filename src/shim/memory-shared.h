/* memory-shared.h - what is exported and imported, for the keeper: the driver counts it for each process that
 * has it. */
#pragma once

#include <stdint.h>

/* shared_exported(), shared_imported() - bytes more, or less. */
void shared_exported(uint32_t card, int64_t bytes);
void shared_imported(uint32_t card, int64_t bytes);

/* shared_freed() - memory of cuMemAlloc at this address (a block of small ones: its own) is gone. */
void shared_freed(uint64_t address);
