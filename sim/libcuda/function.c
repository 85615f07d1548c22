/* function.c - attributes of functions and kernels, and how many blocks fit on a GPU at a time. */
#include <string.h>

#include "sim/libcuda/module.h"

#define REGISTERS 32
#define ATTRIBUTES 17 /* CUfunction_attribute of CUDA 13.0 */
#define MAX_DYNAMIC_SHARED 8
#define CARVEOUT 9
#define SHARED_OPT_IN 98304
#define WARP 32

CUresult function_find(struct context *context, uint64_t handle, struct function **ret_function)
{
	struct object *kernel = object_find_quietly(handle, OBJECT_KERNEL);
	struct function *function;
	struct module *module;
	CUresult r;

	if (!kernel) {
		r = object_find(handle, OBJECT_FUNCTION, &function);
		if (r == CUDA_SUCCESS && context && function->module->object.context != context)
			r = misuse(SIM_WRONG_CONTEXT, CUDA_ERROR_INVALID_HANDLE);
		if (r == CUDA_SUCCESS)
			*ret_function = function;
		return r;
	}
	function = (struct function *)kernel;
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	r = library_module(function->library, context, &module);
	if (r == CUDA_SUCCESS)
		*ret_function = &module->functions[function - function->library->kernels];
	return r;
}

static CUresult begin(struct call *call, uint64_t handle, struct function **ret_function, const char *name)
{
	CUresult r = call_begin_context(call, name);

	return r == CUDA_SUCCESS ? function_find(call->context, handle, ret_function) : r;
}

static int attribute(const struct function *function, CUfunction_attribute which)
{
	switch (which) {
	case 0:
		return 1024; /* threads per block */
	case 4:
		return REGISTERS;
	case 5:
	case 6:
		return (int)(device_gpu(function->module->object.context->device)->compute_major * 10 +
			     device_gpu(function->module->object.context->device)->compute_minor);
	case MAX_DYNAMIC_SHARED:
		return function->max_dynamic_shared ? function->max_dynamic_shared : 49152;
	case CARVEOUT:
		return function->carveout ? function->carveout : -1;
	default:
		return 0;
	}
}

CUresult cuFuncGetAttribute(int *ret_value, CUfunction_attribute which, CUfunction handle)
{
	_cleanup_call_ struct call call = {};
	struct function *function;
	CUresult r = begin(&call, (uintptr_t)handle, &function, __func__);

	if (r == CUDA_SUCCESS && (!ret_value || which < 0 || which >= ATTRIBUTES))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_value = attribute(function, which);
	return r;
}

static CUresult set_attribute(struct function *function, CUfunction_attribute which, int value)
{
	if (which == MAX_DYNAMIC_SHARED && value >= 0 && value <= SHARED_OPT_IN)
		function->max_dynamic_shared = value;
	else if (which == CARVEOUT && value >= -1 && value <= 100)
		function->carveout = value;
	else if (which < 10 || which >= ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute which, int value)
{
	_cleanup_call_ struct call call = {};
	struct function *function;
	CUresult r = begin(&call, (uintptr_t)handle, &function, __func__);

	return r == CUDA_SUCCESS ? set_attribute(function, which, value) : r;
}

/* The preference has no effect on these GPUs. */
CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
	_cleanup_call_ struct call call = {};
	struct function *function;

	return begin(&call, (uintptr_t)handle, &function, __func__);
}

CUresult cuFuncGetModule(CUmodule *ret_handle, CUfunction handle)
{
	_cleanup_call_ struct call call = {};
	struct function *function;
	CUresult r = begin(&call, (uintptr_t)handle, &function, __func__);

	if (r == CUDA_SUCCESS && !ret_handle)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUmodule)(uintptr_t)function->module->object.handle;
	return r;
}

CUresult cuFuncGetName(const char **ret_name, CUfunction handle)
{
	_cleanup_call_ struct call call = {};
	struct function *function;
	CUresult r = begin(&call, (uintptr_t)handle, &function, __func__);

	if (r == CUDA_SUCCESS && !ret_name)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_name = function->image->name;
	return r;
}

CUresult cuFuncIsLoaded(int *ret_state, CUfunction handle)
{
	_cleanup_call_ struct call call = {};
	struct function *function;
	CUresult r = begin(&call, (uintptr_t)handle, &function, __func__);

	if (r == CUDA_SUCCESS && !ret_state)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_state = 1;
	return r;
}

CUresult cuFuncLoad(CUfunction handle)
{
	_cleanup_call_ struct call call = {};
	struct function *function;

	return begin(&call, (uintptr_t)handle, &function, __func__);
}

/* Kernels of libraries */

CUresult cuKernelGetFunction(CUfunction *ret_handle, CUkernel handle)
{
	_cleanup_call_ struct call call = {};
	struct function *function;
	CUresult r = begin(&call, (uintptr_t)handle, &function, __func__);

	if (r == CUDA_SUCCESS && !ret_handle)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUfunction)(uintptr_t)function->object.handle;
	return r;
}

CUresult cuKernelGetLibrary(CUlibrary *ret_handle, CUkernel handle)
{
	_cleanup_call_ struct call call = {};
	struct function *kernel;
	CUresult r = call_begin(&call, __func__);

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_KERNEL, &kernel);
	if (r == CUDA_SUCCESS && !ret_handle)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUlibrary)(uintptr_t)kernel->library->object.handle;
	return r;
}

CUresult cuKernelGetName(const char **ret_name, CUkernel handle)
{
	_cleanup_call_ struct call call = {};
	struct function *kernel;
	CUresult r = call_begin(&call, __func__);

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_KERNEL, &kernel);
	if (r == CUDA_SUCCESS && !ret_name)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_name = kernel->image->name;
	return r;
}

CUresult cuKernelGetAttribute(int *ret_value, CUfunction_attribute which, CUkernel handle, CUdevice ordinal)
{
	return driver_device(ordinal) ? cuFuncGetAttribute(ret_value, which, (CUfunction)handle)
				      : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel handle, CUdevice ordinal)
{
	return driver_device(ordinal) ? cuFuncSetAttribute((CUfunction)handle, which, value)
				      : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice ordinal)
{
	return driver_device(ordinal) ? cuFuncSetCacheConfig((CUfunction)handle, config)
				      : CUDA_ERROR_INVALID_DEVICE;
}

/* The number of blocks that run at a time; it depends on the threads only. */

unsigned function_blocks_per_sm(unsigned threads, size_t shared)
{
	unsigned blocks = threads > 1024 ? 0 : 2048 / ((threads + WARP - 1) / WARP * WARP);

	if (shared > 0 && blocks > SHARED_OPT_IN / shared)
		blocks = (unsigned)(SHARED_OPT_IN / shared);
	return blocks < 32 ? blocks : 32;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *ret_blocks, CUfunction handle, int threads, size_t shared, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	struct function *function;
	CUresult r = begin(&call, (uintptr_t)handle, &function, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_blocks || threads <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_blocks = (int)function_blocks_per_sm((unsigned)threads, shared);
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *ret_blocks, CUfunction handle, int threads, size_t shared)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(ret_blocks, handle, threads, shared, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *ret_grid, int *ret_block, CUfunction handle,
	CUoccupancyB2DSize shared_of, size_t shared, int limit, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	struct function *function;
	CUresult r = begin(&call, (uintptr_t)handle, &function, __func__);
	int block = limit > 0 && limit < 1024 ? limit : 1024;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_grid || !ret_block)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_block = block;
	*ret_grid = (int)(device_gpu(call.context->device)->sm_count *
			  function_blocks_per_sm((unsigned)block, shared_of ? shared_of(block) : shared));
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *ret_grid, int *ret_block, CUfunction handle,
	CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(
		ret_grid, ret_block, handle, shared_of, shared, limit, 0);
}
