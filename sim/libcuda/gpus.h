/* gpus.h - the memory of a GPU that the process holds. */
#pragma once

#include "sim/libcuda/driver.h"

/* gpu_take() - CUDA_ERROR_OUT_OF_MEMORY if the GPU is full or an injected fault says so. */
CUresult gpu_take(struct device *device, uint64_t bytes);
void gpu_give(struct device *device, uint64_t bytes);
/* gpu_memory() - the memory that is free now, counting all processes. */
void gpu_memory(const struct device *device, uint64_t *ret_free, uint64_t *ret_total);
