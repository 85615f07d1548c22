/* ways.h - the ways to get memory of a GPU, all by one name: each of them is to meet the limit.
 */
#pragma once

#include <stdbool.h>

#include "tests/gpu/cuda.h"

struct way {
	const char *name;
	CUresult (*take)(uint64_t size, uint64_t *ret_piece); /* size: whole MiB */
	CUresult (*give)(uint64_t piece);
};

/* way_named() - its functions looked up; NULL: there is none of this name. After cuda_open(). */
const struct way *way_named(const char *name);
