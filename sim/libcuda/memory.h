/* memory.h - allocations of a context: cuMemAlloc, Pitch, managed, host. */
#pragma once

#include "sim/libcuda/regions.h"

/* memory_new() - a region of `size` bytes, allocated as its kind requires. */
CUresult memory_new(struct context *context, enum region_kind kind, enum arena arena, uint64_t size,
	struct region **ret_region);
/* host_free() - frees host memory that was allocated or registered. */
void host_free(struct region *region);
/* memory_free() - frees a region of any kind. */
void memory_free(struct region *region);
