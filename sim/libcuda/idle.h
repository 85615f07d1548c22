/* idle.h - the mode in which calls that a benchmark repeats do nothing: what such a call costs without a
 * driver.
 *
 * RATION_SIM_DO_NOTHING=1 when cuInit is called. Allocations are addresses that nothing is behind. */
#pragma once

#include "sim/libcuda/driver.h"

/* idle_allocation() - an address that was never given out before. */
CUresult idle_allocation(CUdeviceptr *ret_address, size_t size);
