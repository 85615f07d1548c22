/* Handles of pools: how a program gets one, and how it ends one. */
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory-pools.h"
#include "shim/memory.h"

/* Called when the program can name the pool from now on. -1: its memory is host memory. */
static CUresult hand_out(CUmemoryPool *pool, CUmemoryPool got, int gpu)
{
	CUresult r = pool_enter(got, gpu);

	if (r == CUDA_SUCCESS)
		*pool = got;
	return r;
}

HOOK CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	CUmemPoolProps own;
	CUmemoryPool made;
	CUresult r;
	int gpu;

	if (!cuda_is_started())
		return cuda_refuse_device();
	if (!properties)
		return DRIVER(cuMemPoolCreate)(pool, properties);
	own = *properties; /* another thread may write to the program's structure */
	r = cuda_location_gpu(own.location, own.allocType, &gpu);
	if (r == CUDA_SUCCESS)
		r = DRIVER(cuMemPoolCreate)(pool ? &made : NULL, &own);
	if (r != CUDA_SUCCESS || hand_out(pool, made, gpu) == CUDA_SUCCESS)
		return r;
	DRIVER(cuMemPoolDestroy)(made);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult get_of_device(__typeof__(cuDeviceGetMemPool) *driver, CUmemoryPool *pool, CUdevice device)
{
	int gpu = cuda_device_gpu(device);
	CUmemoryPool got;
	CUresult r;

	if (gpu < 0)
		return cuda_refuse_device();
	r = driver(pool ? &got : NULL, device);
	return r == CUDA_SUCCESS ? hand_out(pool, got, gpu) : r;
}

HOOK CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	return get_of_device(DRIVER(cuDeviceGetDefaultMemPool), pool, device);
}

HOOK CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	return get_of_device(DRIVER(cuDeviceGetMemPool), pool, device);
}

/* cuda.h 13.5.37: a pool of a device, of a locality domain or of the host; for managed memory the location
 * may also be none. */
static CUresult get_of_location(__typeof__(cuMemGetMemPool) *driver, CUmemoryPool *pool,
	const CUmemLocation *location, CUmemAllocationType type)
{
	CUmemLocation own;
	CUmemoryPool got;
	CUresult r;
	int gpu;

	if (!cuda_is_started())
		return cuda_refuse_device();
	if (!location)
		return driver(pool, NULL, type);
	own = *location; /* another thread may write to the program's structure */
	r = cuda_location_gpu(own, type, &gpu);
	if (r == CUDA_SUCCESS)
		r = driver(pool ? &got : NULL, &own, type);
	return r == CUDA_SUCCESS ? hand_out(pool, got, gpu) : r;
}

HOOK CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	return get_of_location(DRIVER(cuMemGetDefaultMemPool), pool, location, type);
}

HOOK CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	return get_of_location(DRIVER(cuMemGetMemPool), pool, location, type);
}

static CUresult destroy_of_machine(CUmemoryPool pool)
{
	struct object object;
	bool was_known = objects_take(OBJECT_POOL, (uintptr_t)pool, &object);
	CUresult r = DRIVER(cuMemPoolDestroy)(pool);

	if (was_known && r != CUDA_SUCCESS)
		objects_put(&object);
	return r;
}

/* The driver does not destroy a GPU's default pool. */
static bool is_default(CUmemoryPool pool)
{
	CUmemoryPool of_device;
	int count = 0;

	DRIVER(cuDeviceGetCount)(&count);
	for (int i = 0; i < count; i++)
		if (DRIVER(cuDeviceGetDefaultMemPool)(&of_device, i) == CUDA_SUCCESS && of_device == pool)
			return true;
	return false;
}

HOOK CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct reserve_of of = {OBJECT_POOL, (uintptr_t)pool, 0};
	struct object object;

	if (!objects_get(OBJECT_POOL, (uintptr_t)pool, &object) || is_default(pool))
		return DRIVER(cuMemPoolDestroy)(pool);
	if (object.index == POOL_OF_MACHINE)
		return destroy_of_machine(pool);
	of.gpu = object.gpu;
	return pool_destroy(&of);
}
