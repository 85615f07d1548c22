/* idle.h - the mode in which calls that a benchmark repeats do nothing, to measure such a call without a
 * driver.
 *
 * RATION_SIM_DO_NOTHING=1 at cuInit enables it. Allocations return addresses without memory. */
#pragma once

#include "sim/libcuda/driver.h"

/* idle_allocation() - returns the address of this size that was freed last, like an allocator with a free
 * list, or else a new address. Small allocations are next to each other in blocks of 2 MiB. */
CUresult idle_allocation(CUdeviceptr *ret_address, size_t size);
CUresult idle_free(CUdeviceptr address);
