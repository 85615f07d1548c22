#include "sim/libcuda/idle.h"

#define FIRST_ADDRESS UINT64_C(0x700000000000)
#define ALIGN UINT64_C(512)

CUresult idle_allocation(CUdeviceptr *ret_address, size_t size)
{
	static _Atomic uint64_t next = FIRST_ADDRESS;

	if (!ret_address || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_address = atomic_fetch_add(&next, (size + ALIGN - 1) & ~(ALIGN - 1));
	return CUDA_SUCCESS;
}
