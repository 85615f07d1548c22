/* context-properties.c - properties of a context that can be queried and set. */
#include "sim/libcuda/context.h"

#define STREAM_PRIORITY_GREATEST (-5)
#define THREADS_PER_MULTIPROCESSOR 2048

CUresult cuCtxGetDevice(CUdevice *ret_ordinal)
{
	return cuCtxGetDevice_v2(ret_ordinal, NULL);
}

CUresult cuCtxGetDevice_v2(CUdevice *ret_ordinal, CUcontext handle)
{
	_cleanup_call_ struct call call = {};
	struct context *context;
	CUresult r = call_begin(&call, __func__);

	if (r == CUDA_SUCCESS)
		r = context_find(handle, &context);
	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_ordinal)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_ordinal = (CUdevice)(context->device - driver.devices);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned *ret_version)
{
	_cleanup_call_ struct call call = {};
	struct context *context;
	CUresult r = call_begin(&call, __func__);

	if (r == CUDA_SUCCESS)
		r = context_find(handle, &context);
	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_version)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_version = context->api_version;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *ret_id)
{
	_cleanup_call_ struct call call = {};
	struct context *context;
	CUresult r = call_begin(&call, __func__);

	if (r == CUDA_SUCCESS)
		r = context_find(handle, &context);
	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_id)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_id = context->id;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned *ret_flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_flags)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_flags = call.context->flags;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags & ~CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	call.context->flags = flags;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *ret_value, CUlimit limit)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_value)
		return CUDA_ERROR_INVALID_VALUE;
	if (limit < 0 || limit >= CONTEXT_LIMITS)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*ret_value = call.context->limits[limit];
	return CUDA_SUCCESS;
}

/* The memory that a limit reserves on the GPU: local memory for every thread that can run, or the heap. */
static int64_t reserved_by(const struct context *context, CUlimit limit, size_t value)
{
	if (limit == CU_LIMIT_STACK_SIZE)
		return (int64_t)value * device_gpu(context->device)->sm_count * THREADS_PER_MULTIPROCESSOR;
	return limit == CU_LIMIT_MALLOC_HEAP_SIZE ? (int64_t)value : 0;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (limit < 0 || limit >= CONTEXT_LIMITS)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	if (value > UINT64_C(1) << 40 || (limit == CU_LIMIT_STACK_SIZE && value > 512 * 1024))
		return CUDA_ERROR_INVALID_VALUE;
	r = context_grow(call.context, reserved_by(call.context, limit, value) -
					       reserved_by(call.context, limit, call.context->limits[limit]));
	if (r == CUDA_SUCCESS)
		call.context->limits[limit] = value;
	return r;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *ret_config)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_config)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_config = 0;
	return CUDA_SUCCESS;
}

/* The preference has no effect on this GPU. */
CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	_cleanup_call_ struct call call = {};

	return call_begin_context(&call, __func__);
}

CUresult cuCtxResetPersistingL2Cache(void)
{
	_cleanup_call_ struct call call = {};

	return call_begin_context(&call, __func__);
}

CUresult cuCtxGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (ret_least)
		*ret_least = 0;
	if (ret_greatest)
		*ret_greatest = STREAM_PRIORITY_GREATEST;
	return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	struct context *peer;
	CUresult r = call_begin_context(&call, __func__);
	uint64_t bit;

	if (r == CUDA_SUCCESS)
		r = handle ? context_find(handle, &peer) : CUDA_ERROR_INVALID_CONTEXT;
	if (r != CUDA_SUCCESS)
		return r;
	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (peer->device == call.context->device)
		return CUDA_ERROR_INVALID_DEVICE;
	bit = UINT64_C(1) << (peer->device - driver.devices);
	if (call.context->peers & bit)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	call.context->peers |= bit;
	return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext handle)
{
	_cleanup_call_ struct call call = {};
	struct context *peer;
	CUresult r = call_begin_context(&call, __func__);
	uint64_t bit;

	if (r == CUDA_SUCCESS)
		r = handle ? context_find(handle, &peer) : CUDA_ERROR_INVALID_CONTEXT;
	if (r != CUDA_SUCCESS)
		return r;
	bit = UINT64_C(1) << (peer->device - driver.devices);
	if (!(call.context->peers & bit))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	call.context->peers &= ~bit;
	return CUDA_SUCCESS;
}
