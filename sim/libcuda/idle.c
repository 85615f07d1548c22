#include "sim/libcuda/idle.h"

#include <stdatomic.h>

/* Each power of two has its own address range, so that an address shows its size. */
#define FIRST_ADDRESS UINT64_C(0x100000000000)
#define SIZE_BITS_MIN 9
#define SIZE_BITS_MAX 40

static struct {
	_Atomic uint64_t count;
	_Atomic CUdeviceptr freed; /* the next allocation returns this address; 0: none */
} sizes[SIZE_BITS_MAX];

static unsigned bits_of(size_t size)
{
	unsigned bits = size > 1 ? 64 - (unsigned)__builtin_clzl(size - 1) : 0;

	return bits < SIZE_BITS_MIN ? SIZE_BITS_MIN : bits;
}

CUresult idle_allocation(CUdeviceptr *ret_address, size_t size)
{
	unsigned bits = bits_of(size);
	CUdeviceptr address;

	if (!ret_address || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (bits >= SIZE_BITS_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	address = atomic_exchange(&sizes[bits].freed, 0);
	if (!address)
		address = FIRST_ADDRESS + ((uint64_t)bits << SIZE_BITS_MAX) +
			  (atomic_fetch_add(&sizes[bits].count, 1) << bits);
	*ret_address = address;
	return CUDA_SUCCESS;
}

CUresult idle_free(CUdeviceptr address)
{
	uint64_t bits = (address - FIRST_ADDRESS) >> SIZE_BITS_MAX;

	if (address >= FIRST_ADDRESS && bits < SIZE_BITS_MAX)
		atomic_store(&sizes[bits].freed, address);
	return CUDA_SUCCESS;
}
