/* external.c - external memory: a file that another interface or another process shares, as cuMemExport
 * does. */
#include <stdlib.h>
#include <unistd.h>

#include "sim/libcuda/physical.h"

struct external {
	struct object object;
	struct physical *physical;
};

/* From now on the driver owns the descriptor. */
CUresult cuImportExternalMemory(
	CUexternalMemory *ret_handle, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *descriptor)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct physical *physical;
	struct external *external;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || !descriptor || descriptor->flags & ~CUDA_EXTERNAL_MEMORY_DEDICATED)
		return CUDA_ERROR_INVALID_VALUE;
	if (descriptor->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = physical_import(descriptor->handle.fd, &physical);
	if (r != CUDA_SUCCESS)
		return r;
	external = calloc(1, sizeof(*external));
	if (!external || descriptor->size > physical->size ||
		object_register(&external->object, OBJECT_EXTERNAL, NULL) < 0) {
		physical_drop(physical);
		r = external && descriptor->size > physical->size ? CUDA_ERROR_INVALID_VALUE
								  : CUDA_ERROR_OUT_OF_MEMORY;
		free(external);
		return r;
	}
	external->physical = physical;
	close(descriptor->handle.fd);
	*ret_handle = (CUexternalMemory)(uintptr_t)external->object.handle;
	return CUDA_SUCCESS;
}

static CUresult begin(
	struct call *call, CUexternalMemory handle, struct external **ret_external, const char *function)
{
	CUresult r = call_begin_context(call, function);

	return r == CUDA_SUCCESS ? object_find((uintptr_t)handle, OBJECT_EXTERNAL, ret_external) : r;
}

/* cuMemFree frees it. */
CUresult cuExternalMemoryGetMappedBuffer(
	CUdeviceptr *ret_address, CUexternalMemory handle, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *descriptor)
{
	_cleanup_call_ struct call call = {};
	struct external *external;
	struct region *region;
	CUresult r = begin(&call, handle, &external, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_address || !descriptor || descriptor->flags || descriptor->size == 0 ||
		descriptor->offset % 4096 || descriptor->size > external->physical->size ||
		descriptor->offset > external->physical->size - descriptor->size)
		return CUDA_ERROR_INVALID_VALUE;
	r = physical_region(
		external->physical, REGION_EXTERNAL, descriptor->offset, descriptor->size, &region);
	if (r == CUDA_SUCCESS)
		*ret_address = region->span.base;
	return r;
}

CUresult cuDestroyExternalMemory(CUexternalMemory handle)
{
	_cleanup_call_ struct call call = {};
	struct external *external;
	CUresult r = begin(&call, handle, &external, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	physical_drop(external->physical);
	object_forget(&external->object);
	free(external);
	return CUDA_SUCCESS;
}
