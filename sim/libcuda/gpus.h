/* gpus.h - memory of a GPU, as the process holds it. */
#pragma once

#include "sim/libcuda/driver.h"

/* gpu_take() - CUDA_ERROR_OUT_OF_MEMORY when the GPU is full, or a fault says so. */
CUresult gpu_take(struct device *device, uint64_t bytes);
void gpu_give(struct device *device, uint64_t bytes);
/* gpu_memory() - what is free now, over all processes. */
void gpu_memory(const struct device *device, uint64_t *ret_free, uint64_t *ret_total);
