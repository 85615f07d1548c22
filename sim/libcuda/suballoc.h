/* suballoc.h - small allocations share blocks of 2 MiB, per context, as on hardware. Larger ones are rounded
 * up to whole blocks.
 *
 * The limit of 1 MiB and the step of 512 bytes are assumptions until they are measured on a GPU.
 */
#pragma once

#include "sim/libcuda/regions.h"

#define SMALL_MAX (UINT64_C(1) << 20)
#define SMALL_UNIT UINT64_C(512)

/* suballoc_take() - sets span, block or room of a region of this context, and charges the GPU and the address
 * space. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult suballoc_take(struct context *context, enum arena arena, uint64_t size, struct region *region);
/* suballoc_give() - the last allocation of a block frees the block. */
void suballoc_give(struct region *region);
/* suballoc_room() - the range that the region shares with its neighbours or has alone, and where its id is
 * stored if other processes can hold it. */
void suballoc_room(struct region *region, struct span **ret_room, uint64_t **ret_id);
/* suballoc_free_context() - frees the remaining blocks. */
void suballoc_free_context(struct context *context);
