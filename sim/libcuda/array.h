/* array.h - arrays and mipmapped arrays: rows of elements, one after the other. */
#pragma once

#include "sim/libcuda/memory.h"

struct array {
	struct object object;
	size_t width, height, depth; /* elements; 0: fewer dimensions */
	CUarray_format format;
	unsigned channels, flags;
	struct region *region;	     /* NULL: sparse, its memory is mapped by others */
	struct mipmapped *mipmapped; /* it is a level of, and freed with */
};

struct mipmapped {
	struct object object;
	unsigned count;
	struct array **levels;
};

/* mipmapped_new() - with memory for every level. */
CUresult mipmapped_new(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels,
	struct mipmapped **ret_mipmapped);

/* array_pitch() - bytes of a row; 0: unknown format. */
size_t array_pitch(const struct array *array);

struct copy;
/* copy_of_descriptor() - in bytes and addresses. INVALID_VALUE, INVALID_HANDLE. */
CUresult copy_of_descriptor(const CUDA_MEMCPY3D *descriptor, struct copy *ret_copy);
