/* array.h - arrays and mipmapped arrays: rows of elements, one after the other. */
#pragma once

#include "sim/libcuda/memory.h"

struct array {
	struct object object;
	size_t width, height, depth; /* in elements; 0: the array does not have this dimension */
	CUarray_format format;
	unsigned channels, flags;
	struct region *region;	     /* NULL: sparse, other memory is mapped to it */
	struct mipmapped *mipmapped; /* the mipmapped array that this level belongs to and is freed with */
};

struct mipmapped {
	struct object object;
	unsigned count;
	struct array **levels;
};

/* mipmapped_new() - allocates memory for every level. */
CUresult mipmapped_new(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels,
	struct mipmapped **ret_mipmapped);

/* array_pitch() - the bytes of a row; 0: unknown format. */
size_t array_pitch(const struct array *array);

struct copy;
/* copy_of_descriptor() - converts the descriptor to bytes and addresses. INVALID_VALUE, INVALID_HANDLE. */
CUresult copy_of_descriptor(const CUDA_MEMCPY3D *descriptor, struct copy *ret_copy);
