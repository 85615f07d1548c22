/* context-create.c - the versions of cuCtxCreate, primary contexts, and how contexts end. */
#include "sim/libcuda/context.h"

#define FLAGS_KNOWN (CU_CTX_FLAGS_MASK)

static CUresult create(CUcontext *ret_handle, unsigned flags, CUdevice ordinal, const char *function)
{
	_cleanup_call_ struct call call = {};
	struct context *context = NULL;
	CUresult r = call_begin(&call, function);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || flags & ~FLAGS_KNOWN)
		return CUDA_ERROR_INVALID_VALUE;
	if (!driver_device(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	r = context_new(driver_device(ordinal), flags, false, &context);
	if (r == CUDA_SUCCESS && context_push(context) < 0) {
		context_free(context);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r == CUDA_SUCCESS)
		*ret_handle = context_handle(context);
	return r;
}

CUresult cuCtxCreate(CUcontext *ret_handle, unsigned flags, CUdevice ordinal)
{
	return create(ret_handle, flags, ordinal, __func__);
}

CUresult cuCtxCreate_v2(CUcontext *ret_handle, unsigned flags, CUdevice ordinal)
{
	return create(ret_handle, flags, ordinal, __func__);
}

/* Execution affinity requires MPS. */
CUresult cuCtxCreate_v3(
	CUcontext *ret_handle, CUexecAffinityParam *params, int count, unsigned flags, CUdevice ordinal)
{
	if (count != 0 || params)
		return count < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
	return create(ret_handle, flags, ordinal, __func__);
}

CUresult cuCtxCreate_v4(CUcontext *ret_handle, CUctxCreateParams *params, unsigned flags, CUdevice ordinal)
{
	if (params && (params->numExecAffinityParams != 0 || params->cigParams))
		return CUDA_ERROR_NOT_SUPPORTED;
	return create(ret_handle, flags, ordinal, __func__);
}

CUresult cuCtxDestroy_v2(CUcontext handle)
{
	_cleanup_call_ struct call call = {};
	struct context *context, *current = NULL;
	CUresult r = call_begin(&call, __func__);

	if (r == CUDA_SUCCESS)
		r = handle ? context_find(handle, &context) : CUDA_ERROR_INVALID_CONTEXT;
	if (r != CUDA_SUCCESS)
		return r;
	if (context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context_find(NULL, &current) == CUDA_SUCCESS && current == context)
		context_drop_top();
	context_free(context);
	return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext handle)
{
	return cuCtxDestroy_v2(handle);
}

CUresult cuCtxPopCurrent(CUcontext *ret_handle)
{
	return cuCtxPopCurrent_v2(ret_handle);
}

CUresult cuCtxPushCurrent(CUcontext handle)
{
	return cuCtxPushCurrent_v2(handle);
}

/* Primary contexts: one per GPU and process, with a reference count. */

static CUresult begin_device(struct call *call, CUdevice ordinal, const char *function)
{
	CUresult r = call_begin(call, function);

	return r == CUDA_SUCCESS && !driver_device(ordinal) ? CUDA_ERROR_INVALID_DEVICE : r;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret_handle, CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin_device(&call, ordinal, __func__);
	struct device *device = driver_device(ordinal);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device->primary)
		r = context_new(device, device->primary_flags, true, &device->primary);
	if (r != CUDA_SUCCESS)
		return r;
	device->primary_users++;
	*ret_handle = context_handle(device->primary);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin_device(&call, ordinal, __func__);
	struct device *device = driver_device(ordinal);

	if (r != CUDA_SUCCESS)
		return r;
	if (device->primary_users == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--device->primary_users == 0)
		context_free(device->primary);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal)
{
	return cuDevicePrimaryCtxRelease_v2(ordinal);
}

/* Threads that retained the context may still release it. The next retain creates it again. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin_device(&call, ordinal, __func__);

	if (r == CUDA_SUCCESS)
		context_free(driver_device(ordinal)->primary);
	return r;
}

CUresult cuDevicePrimaryCtxReset(CUdevice ordinal)
{
	return cuDevicePrimaryCtxReset_v2(ordinal);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin_device(&call, ordinal, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags & ~FLAGS_KNOWN)
		return CUDA_ERROR_INVALID_VALUE;
	driver_device(ordinal)->primary_flags = flags;
	if (driver_device(ordinal)->primary)
		driver_device(ordinal)->primary->flags = flags;
	return CUDA_SUCCESS;
}

/* Before CUDA 11.0 the flags of an active context could not be changed. */
CUresult cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned flags)
{
	unsigned old;
	int active = 0;
	CUresult r = cuDevicePrimaryCtxGetState(ordinal, &old, &active);

	if (r == CUDA_SUCCESS && active)
		return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
	return cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned *ret_flags, int *ret_active)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin_device(&call, ordinal, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_flags || !ret_active)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_flags = driver_device(ordinal)->primary_flags;
	*ret_active = driver_device(ordinal)->primary != NULL;
	return CUDA_SUCCESS;
}
