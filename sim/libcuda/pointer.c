/* pointer.c - queries about an address. */
#include <string.h>

#include "sim/libcuda/physical.h"

static bool is_of_host(const struct region *region)
{
	return region->kind == REGION_HOST || region->kind == REGION_REGISTERED;
}

static int ordinal(const struct region *region)
{
	const struct device *device = region->device;

	if (!device && region->context)
		device = region->context->device;
	return device ? (int)(device - driver.devices) : -2;
}

/* The attributes of one address. */
static CUresult address_attribute(
	void *ret, CUpointer_attribute which, uint64_t address, const struct region *region)
{
	switch (which) {
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!is_of_host(region) && region->kind != REGION_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		*(uint64_t *)ret = address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(uint64_t *)ret = address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(bool *)ret = false;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(bool *)ret = true;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(bool *)ret = false;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(unsigned *)ret = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Writes as many bytes as the attribute has. */
static CUresult attribute(void *ret, CUpointer_attribute which, uint64_t address, const struct region *region)
{
	switch (which) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)ret = region->context ? context_handle(region->context) : NULL;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)ret = is_of_host(region) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(uint64_t *)ret = region->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)ret = region->kind == REGION_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)ret = ordinal(region);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(bool *)ret = region->kind == REGION_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(uint64_t *)ret = region->span.base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)ret = region->span.size;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(uint64_t *)ret =
			region->kind == REGION_MAPPED
				? ((struct physical *)region->owner)->properties.requestedHandleTypes
				: 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(uint64_t *)ret = region->kind == REGION_POOL ? ((struct object *)region->owner)->handle : 0;
		return CUDA_SUCCESS;
	default:
		return address_attribute(ret, which, address, region);
	}
}

CUresult cuPointerGetAttribute(void *ret, CUpointer_attribute which, CUdeviceptr address)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	const struct region *region;

	if (r != CUDA_SUCCESS)
		return r;
	region = region_at(address);
	return ret && region ? attribute(ret, which, address, region) : CUDA_ERROR_INVALID_VALUE;
}

/* For an unknown address every answer is 0, and the call succeeds. */
CUresult cuPointerGetAttributes(
	unsigned count, CUpointer_attribute *attributes, void **ret_list, CUdeviceptr address)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	const struct region *region;

	if (r != CUDA_SUCCESS)
		return r;
	if (count == 0 || !attributes || !ret_list)
		return CUDA_ERROR_INVALID_VALUE;
	region = region_at(address);
	for (unsigned i = 0; i < count; i++) {
		if (region && attribute(ret_list[i], attributes[i], address, region) == CUDA_SUCCESS)
			continue;
		if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)ret_list[i] = -2;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
			 attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
			*(unsigned *)ret_list[i] = 0;
		else if (attributes[i] <= CU_POINTER_ATTRIBUTE_HOST_POINTER)
			*(uint64_t *)ret_list[i] = 0;
	}
	return CUDA_SUCCESS;
}

/* Has no effect, because all memory operations are synchronous already. */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute which, CUdeviceptr address)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	return value && which == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && region_at(address)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}
