/* preemption-gpu.h - one GPU freed of as few and as unimportant pods as possible. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct gpu_ledger;
struct plan_work;

/* gpu_clear() - takes pods out of the node's sums until the GPU has room for the pod of the question. Who
 * is protected by no budget goes first of all; then the least priority counts that suffices. False: nothing
 * helps, and nobody went. work->by_size has *ret_n candidates then, of whom those are gone who must go. */
bool gpu_clear(struct plan_work *work, const struct gpu_ledger *gpu, size_t *ret_n);
