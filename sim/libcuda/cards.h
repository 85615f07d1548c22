/* cards.h - memory of a card, as the process holds it. */
#pragma once

#include "sim/libcuda/driver.h"

/* card_take() - CUDA_ERROR_OUT_OF_MEMORY when the card is full, or a fault says so. */
CUresult card_take(struct device *device, uint64_t bytes);
void card_give(struct device *device, uint64_t bytes);
/* card_memory() - what is free now, over all processes. */
void card_memory(const struct device *device, uint64_t *ret_free, uint64_t *ret_total);
