/* memory-linear.h - an allocation of addresses within a context, from its charge to its entry. */
#pragma once

#include "cuda/abi.h"
#include "shim/memory-contexts.h"

struct linear {
	struct memory_here here;
	uint64_t size;
	uint64_t paid; /* charged so far */
	bool entered;  /* memory_enter() */
};

/* linear_begin() - charges what the driver will take for `size` bytes. Not CUDA_SUCCESS: that is the answer.
 */
CUresult linear_begin(struct linear *linear, uint64_t size);

/* linear_resize() - the driver took another size than was asked for. Not CUDA_SUCCESS: what is charged is
 * given back, and the caller frees. */
CUresult linear_resize(struct linear *linear, uint64_t size);

/* linear_end() - with the driver's answer, and the address if that is success: enters the pointer, or gives
 * the charge back. Returns what to answer; if that is an error though the driver had succeeded, the memory is
 * freed. */
CUresult linear_end(struct linear *linear, CUresult r, CUdeviceptr address);

/* linear_charged() - the bytes that are charged for what begins at this address, alone or with others: then
 * *address becomes that of their block. 0: nothing that is known begins there. */
uint64_t linear_charged(CUdeviceptr *address, struct memory_here *ret_here);
