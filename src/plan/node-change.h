/* node-change.h - what becomes of a node in a plan: GPUs that take no new pods, another unit of GPU memory.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/place.h"

/* plan_cordon_gpus() - the GPUs of this placement (NULL: none) take no new pods, as after `ration cordon`.
 * Returns which of them took some before, by their positions, for plan_uncordon_gpus(). */
uint64_t plan_cordon_gpus(struct plan_world *world, const char *node, const struct placement *placement);
void plan_uncordon_gpus(struct plan_world *world, const char *node, uint64_t gpus);
