/* Stream-ordered allocations, and the calls at which pools give memory back. */
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/graph-needs.h"
#include "shim/memory-pools.h"
#include "shim/memory.h"
#include "shim/pacing-sample.h"
#include "shim/pacing.h"

/* A pool takes at least this much at a time; measured on no GPU yet, CUDA 11.2 and later are said to. */
#define CHUNK (UINT64_C(32) << 20)

/* A pool takes at least this much at a time. That is reported of CUDA 11.2 and later, and not measured on a
 * GPU yet. */

/* Returns the device of the stream's own context, which need not be the current one. The streams 0, 1 and 2
 * belong to the current context. */
static bool device_of_stream(CUstream stream, CUdevice *ret_device)
{
	CUcontext context, ignored;
	bool found;

	if ((uintptr_t)stream <= 2)
		return DRIVER(cuCtxGetDevice)(ret_device) == CUDA_SUCCESS;
	if (DRIVER(cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS ||
		DRIVER(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
		return false;
	found = DRIVER(cuCtxGetDevice)(ret_device) == CUDA_SUCCESS;
	DRIVER(cuCtxPopCurrent_v2)(&ignored);
	return found;
}

/* In a stream that captures, the driver takes nothing out of the pool. It makes a graph node, and the launch
 * pays for it. Another thread may end the capture meanwhile, so the call is treated as a growth all the
 * same. */
static CUresult begin(struct growth *growth, const struct reserve_of *of, uint64_t size, CUstream stream)
{
	uint64_t of_pool = sample_captures(stream) ? 0 : size;

	return growth_begin(growth, of, of_pool, size < CHUNK ? CHUNK : memory_rounded(size));
}

typedef CUresult (*alloc_async)(CUdeviceptr *, size_t, CUstream);
typedef CUresult (*alloc_from_pool)(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
typedef CUresult (*free_async)(CUdeviceptr, CUstream);

/* The pool has grown beyond the limit. The allocation is freed, and the pool releases what it can. */
static void undo(const struct reserve_of *of, free_async give_back, CUdeviceptr address, CUstream stream)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* a capture may have begun meanwhile */

	DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
	if (give_back(address, stream) != CUDA_SUCCESS)
		DRIVER(cuMemFree_v2)(address);
	DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
	DRIVER(cuMemPoolTrimTo)((CUmemoryPool)(uintptr_t)of->key, 0);
	growth_catch_up(of);
}

/* The address stays in a local variable until the end, because another thread may write to the program's
 * variable. */
static CUresult allocate_charged(const struct reserve_of *of, CUdeviceptr *address, size_t size,
	CUstream stream, alloc_from_pool take, free_async give_back)
{
	CUmemoryPool pool = (CUmemoryPool)(uintptr_t)of->key;
	struct growth growth;
	CUdeviceptr got;
	CUresult r = begin(&growth, of, size, stream), settled;

	if (r != CUDA_SUCCESS)
		return r;
	r = take(address ? &got : NULL, size, pool, stream);
	settled = growth_settle(&growth);
	if (r == CUDA_SUCCESS && settled != CUDA_SUCCESS) {
		undo(of, give_back, got, stream);
		r = settled;
	}
	growth_end(&growth);
	if (r == CUDA_SUCCESS)
		*address = got;
	return r;
}

/* Names the device's pool explicitly: by the time of the driver's call the device might have another pool. */
static CUresult allocate(CUdeviceptr *address, size_t size, CUstream stream, alloc_async take,
	alloc_from_pool take_from, free_async give_back)
{
	struct reserve_of of;
	CUdevice device;
	CUresult r;
	int gpu;

	gpu = device_of_stream(stream, &device) ? cuda_device_gpu(device) : -1;
	if (gpu < 0)
		return take(address, size, stream);
	r = pool_use_of_device(device, (unsigned)gpu, &of);
	if (r != CUDA_SUCCESS)
		return r;
	r = allocate_charged(&of, address, size, stream, take_from, give_back);
	pool_leave(&of);
	return r;
}

/* Returns -1 for host memory. Managed memory may be reported as host memory, but can move to a GPU. */
static int gpu_of_address(CUdeviceptr address)
{
	unsigned int managed = 0; /* the driver writes a bool or an int, depending on its version */
	CUmemorytype type;
	int ordinal;

	if (DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
		type == CU_MEMORYTYPE_HOST &&
		(DRIVER(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) !=
				CUDA_SUCCESS ||
			managed == 0))
		return -1;
	if (DRIVER(cuPointerGetAttribute)(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) ==
			CUDA_SUCCESS &&
		cuda_device_gpu(ordinal) >= 0)
		return cuda_device_gpu(ordinal);
	return cuda_managed_gpu();
}

/* Allocates from a pool that no hook has seen. The memory itself shows which GPU is charged, and the pool is
 * known from then on. A driver never allocates from an imported pool (cuda.h 13.5.37,
 * cuMemPoolImportFromShareableHandle). */
static CUresult allocate_from_unknown(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream,
	alloc_from_pool take, free_async give_back)
{
	struct reserve_of of = {OBJECT_POOL, (uintptr_t)pool, 0};
	CUdeviceptr got;
	CUresult r;
	int gpu;

	graphs_allocate(); /* the stream may be capturing */
	memory_enter_uncharged();
	r = take(address ? &got : NULL, size, pool, stream);
	gpu = r == CUDA_SUCCESS ? gpu_of_address(got) : -1;
	if (gpu >= 0) {
		of.gpu = (uint32_t)gpu;
		r = pool_enter(pool, gpu);
		if (r == CUDA_SUCCESS)
			r = growth_catch_up(&of);
		if (r != CUDA_SUCCESS)
			undo(&of, give_back, got, stream);
	}
	if (r == CUDA_SUCCESS)
		*address = got;
	memory_leave();
	return r;
}

static CUresult allocate_from(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream,
	alloc_from_pool take, free_async give_back)
{
	struct reserve_of of = {OBJECT_POOL, (uintptr_t)pool, 0};
	struct object object;
	CUresult r;

	if (!objects_get(OBJECT_POOL, (uintptr_t)pool, &object))
		return allocate_from_unknown(address, size, pool, stream, take, give_back);
	if (object.index == POOL_OF_MACHINE)
		return take(address, size, pool, stream);
	of.gpu = object.gpu;
	r = pool_use(&of);
	if (r != CUDA_SUCCESS)
		return r;
	r = allocate_charged(&of, address, size, stream, take, give_back);
	pool_leave(&of);
	return r;
}

/* ---- hooks ------------------------------------------------------------------------------------------- */

HOOK CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
	return allocate(address, size, stream, DRIVER(cuMemAllocAsync), DRIVER(cuMemAllocFromPoolAsync),
		DRIVER(cuMemFreeAsync));
}

HOOK CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t size, CUstream stream)
{
	return allocate(address, size, pacing_own_stream(stream), DRIVER(cuMemAllocAsync_ptsz),
		DRIVER(cuMemAllocFromPoolAsync_ptsz), DRIVER(cuMemFreeAsync_ptsz));
}

HOOK CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream)
{
	return allocate_from(
		address, size, pool, stream, DRIVER(cuMemAllocFromPoolAsync), DRIVER(cuMemFreeAsync));
}

HOOK CUresult cuMemAllocFromPoolAsync_ptsz(
	CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream)
{
	return allocate_from(address, size, pool, pacing_own_stream(stream),
		DRIVER(cuMemAllocFromPoolAsync_ptsz), DRIVER(cuMemFreeAsync_ptsz));
}

static CUresult settled(CUresult r)
{
	pools_settle();
	return r;
}

HOOK CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	return settled(DRIVER(cuMemPoolTrimTo)(pool, keep));
}

/* At a synchronisation, pools give back memory above their threshold. */
HOOK CUresult cuCtxSynchronize(void)
{
	return settled(DRIVER(cuCtxSynchronize)());
}

HOOK CUresult cuCtxSynchronize_v2(CUcontext context)
{
	return settled(DRIVER(cuCtxSynchronize_v2)(context));
}

HOOK CUresult cuStreamSynchronize(CUstream stream)
{
	return settled(DRIVER(cuStreamSynchronize)(stream));
}

HOOK CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
	return settled(DRIVER(cuStreamSynchronize_ptsz)(stream));
}

HOOK CUresult cuEventSynchronize(CUevent event)
{
	return settled(DRIVER(cuEventSynchronize)(event));
}
