/* memory-linear.h - an allocation with an address within a context, from its charge to its entry. */
#pragma once

#include "cuda/abi.h"
#include "shim/memory-contexts.h"

struct linear {
	struct memory_here here;
	uint64_t size;
	uint64_t paid; /* charged so far */
	bool entered;  /* memory_enter() */
};

/* linear_begin() - charges what the driver will take for `size` bytes. Any result but CUDA_SUCCESS is the
 * answer to the program. */
CUresult linear_begin(struct linear *linear, uint64_t size);

/* linear_resize() - called if the driver took another size than requested. Any result but CUDA_SUCCESS: the
 * charge has been given back, and the caller must free the memory. */
CUresult linear_resize(struct linear *linear, uint64_t size);

/* linear_end() - called with the driver's answer and, on success, the address. It enters the pointer, or
 * gives the charge back, and returns the answer to the program. If that is an error although the driver had
 * succeeded, it has freed the memory. */
CUresult linear_end(struct linear *linear, CUresult r, CUdeviceptr address);

/* linear_charged() - the bytes charged for the allocation that begins at this address. If it shares a block,
 * *address becomes the address of that block and the bytes are the block's. 0: no known allocation begins
 * there. */
uint64_t linear_charged(CUdeviceptr *address, struct memory_here *ret_here);
