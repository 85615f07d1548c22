/* Queries of memory sizes: they show the grant's limit as if the GPU had no more memory. The driver is called
 * first, for its errors and because it may initialise something at such a call. */
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory-pools.h"
#include "shim/session.h"

/* For the functions from before CUDA 3.2, whose sizes have 32 bits. */
static unsigned int clamp32(uint64_t bytes)
{
	return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
}

/* Returns -1 if the current context is not on a GPU of the grant. */
static int current_memory(uint64_t *ret_free, uint64_t *ret_total)
{
	const struct shim_session *session = session_get();
	int gpu = session ? cuda_current_gpu() : -1;
	struct session_memory memory;

	if (gpu < 0)
		return -1;
	pools_settle();
	memory = session_memory(session, (unsigned)gpu);
	*ret_total = memory.limit_bytes;
	*ret_free = memory.limit_bytes - memory.used_bytes;
	return 0;
}

HOOK CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	uint64_t granted_free, granted_total;
	CUresult r = DRIVER(cuMemGetInfo_v2)(free, total);

	if (r != CUDA_SUCCESS)
		return r;
	if (current_memory(&granted_free, &granted_total) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	if (free)
		*free = granted_free;
	if (total)
		*total = granted_total;
	return CUDA_SUCCESS;
}

HOOK CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	uint64_t granted_free, granted_total;
	CUresult r = DRIVER(cuMemGetInfo)(free, total);

	if (r != CUDA_SUCCESS)
		return r;
	if (current_memory(&granted_free, &granted_total) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	if (free)
		*free = clamp32(granted_free);
	if (total)
		*total = clamp32(granted_total);
	return CUDA_SUCCESS;
}

/* Returns 0 for a device that is not granted. */
static uint64_t device_limit(CUdevice device)
{
	const struct shim_session *session = session_get();
	int gpu = session ? cuda_device_gpu(device) : -1;

	return gpu < 0 ? 0 : grant_file_limit_bytes(session->grant, (unsigned)gpu);
}

HOOK CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	size_t whole;
	CUresult r = DRIVER(cuDeviceTotalMem_v2)(bytes ? &whole : NULL, device);
	uint64_t limit = device_limit(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!limit)
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = limit;
	return CUDA_SUCCESS;
}

HOOK CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
	unsigned int whole;
	CUresult r = DRIVER(cuDeviceTotalMem)(bytes ? &whole : NULL, device);
	uint64_t limit = device_limit(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!limit)
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = clamp32(limit);
	return CUDA_SUCCESS;
}
