/* idle.h - the mode in which calls that a benchmark repeats do nothing: what such a call costs without a
 * driver.
 *
 * RATION_SIM_DO_NOTHING=1 when cuInit is called. Allocations are addresses that nothing is behind. */
#pragma once

#include "sim/libcuda/driver.h"

/* idle_allocation() - the address of this size that was freed last, as of an allocator that has one to hand;
 * else one that was never given out before. Small ones lie side by side in blocks of 2 MiB. */
CUresult idle_allocation(CUdeviceptr *ret_address, size_t size);
CUresult idle_free(CUdeviceptr address);
