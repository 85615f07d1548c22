/* vmm.c - virtual memory management: separate address ranges and memory, and their mapping. */
#include <stdlib.h>
#include <unistd.h>

#include "sim/libcuda/memory.h"
#include "sim/libcuda/physical.h"

/* The target of a CUmemGenericAllocationHandle. */
struct handle {
	struct object object;
	struct physical *physical;
	unsigned count; /* creation, imports and retains, less releases */
};

static struct spans reservations;

static CUresult device_of(const CUmemAllocationProp *p, struct device **ret_device)
{
	if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	*ret_device = NULL;
	if (p->location.type == CU_MEM_LOCATION_TYPE_HOST ||
		p->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
		p->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_SUCCESS;
	*ret_device = driver_location(p->location);
	if (*ret_device)
		return CUDA_SUCCESS;
	return p->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE
							       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationGranularity(
	size_t *ret_bytes, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct device *device;

	if (r == CUDA_SUCCESS)
		r = ret_bytes ? device_of(properties, &device) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_bytes = PAGE_BYTES;
	return r;
}

static CUresult handle_new(struct physical *physical, CUmemGenericAllocationHandle *ret_number)
{
	struct handle *handle = calloc(1, sizeof(*handle));

	if (!handle || object_register(&handle->object, OBJECT_MEMORY, NULL) < 0) {
		free(handle);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	handle->physical = physical;
	handle->count = 1;
	*ret_number = handle->object.handle;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret_number, size_t size,
	const CUmemAllocationProp *properties, unsigned long long flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct physical *physical;
	struct device *device;

	if (r == CUDA_SUCCESS)
		r = ret_number && !flags && size > 0 && size % PAGE_BYTES == 0
			    ? device_of(properties, &device)
			    : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && device)
		r = device_trouble(device);
	if (r == CUDA_SUCCESS)
		r = physical_new(device, properties, size,
			properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE, &physical);
	if (r != CUDA_SUCCESS)
		return r;
	r = handle_new(physical, ret_number);
	if (r != CUDA_SUCCESS)
		physical_drop(physical);
	return r;
}

/* These functions answer INVALID_VALUE for an invalid handle. */
static CUresult find(CUmemGenericAllocationHandle number, struct handle **ret_handle)
{
	return object_find(number, OBJECT_MEMORY, ret_handle) == CUDA_SUCCESS ? CUDA_SUCCESS
									      : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle number)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct handle *handle;

	if (r == CUDA_SUCCESS)
		r = find(number, &handle);
	if (r != CUDA_SUCCESS || --handle->count > 0)
		return r;
	physical_drop(handle->physical);
	object_forget(&handle->object);
	free(handle);
	return CUDA_SUCCESS;
}

static struct handle *handle_of(const struct physical *physical)
{
	struct handle *handle;
	size_t cursor = 0;

	while ((handle = (struct handle *)object_next(OBJECT_MEMORY, NULL, &cursor)))
		if (handle->physical == physical)
			return handle;
	return NULL;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_number, void *address)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct region *region = r == CUDA_SUCCESS ? region_at((uintptr_t)address) : NULL;
	struct handle *handle;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_number || !region || region->kind != REGION_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	handle = handle_of(region->owner);
	if (!handle) {
		r = handle_new(physical_use(region->owner), ret_number);
		if (r != CUDA_SUCCESS)
			physical_drop(region->owner);
		return r;
	}
	handle->count++;
	*ret_number = handle->object.handle;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *ret, CUmemGenericAllocationHandle number)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct handle *handle;

	if (r == CUDA_SUCCESS)
		r = ret ? find(number, &handle) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret = handle->physical->properties;
	return r;
}

CUresult cuMemExportToShareableHandle(void *ret_shareable, CUmemGenericAllocationHandle number,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct handle *handle;
	int fd;

	if (r == CUDA_SUCCESS)
		r = ret_shareable && !flags ? find(number, &handle) : CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !handle->physical->shared_id)
		return CUDA_ERROR_INVALID_VALUE;
	fd = dup(handle->physical->fd);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)ret_shareable = fd;
	return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(
	CUmemGenericAllocationHandle *ret_number, void *shareable, CUmemAllocationHandleType type)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct physical *physical;

	if (r == CUDA_SUCCESS && (!ret_number || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = physical_import((int)(intptr_t)shareable, &physical);
	if (r != CUDA_SUCCESS)
		return r;
	r = handle_new(physical, ret_number);
	if (r != CUDA_SUCCESS)
		physical_drop(physical);
	return r;
}

CUresult cuMemAddressReserve(
	CUdeviceptr *ret_address, size_t size, size_t align, CUdeviceptr wanted, unsigned long long flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct span *span;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_address || flags || size == 0 || size % PAGE_BYTES != 0 || (align & (align - 1)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	span = calloc(1, sizeof(*span));
	if (!span)
		return CUDA_ERROR_OUT_OF_MEMORY;
	span->size = size;
	if (address_take(ARENA_DEVICE, span, align > PAGE_BYTES ? align : PAGE_BYTES, wanted) < 0) {
		free(span);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (spans_add(&reservations, span) < 0) {
		address_give(span);
		free(span);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_address = span->base;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct span *span = r == CUDA_SUCCESS ? spans_find(&reservations, address) : NULL;

	if (r != CUDA_SUCCESS)
		return r;
	if (!span || span->base != address || span->size != size)
		return misuse(SIM_BAD_POINTER, CUDA_ERROR_INVALID_VALUE);
	if (region_overlapping(address, size))
		return CUDA_ERROR_INVALID_VALUE;
	spans_remove(&reservations, span);
	address_give(span);
	free(span);
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle number,
	unsigned long long flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct handle *handle;
	struct region *region;
	struct span *span;

	if (r == CUDA_SUCCESS)
		r = find(number, &handle);
	if (r != CUDA_SUCCESS)
		return r;
	span = spans_find(&reservations, address);
	if (flags || size == 0 || size % PAGE_BYTES || offset % PAGE_BYTES || address % PAGE_BYTES ||
		size > handle->physical->size || offset > handle->physical->size - size || !span ||
		size > span->base + span->size - address)
		return CUDA_ERROR_INVALID_VALUE;
	if (region_overlapping(address, size))
		return CUDA_ERROR_ALREADY_MAPPED;
	region = calloc(1, sizeof(*region));
	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*region = (struct region){.span = {address, size},
		.kind = REGION_MAPPED,
		.device = handle->physical->device,
		.owner = handle->physical};
	if (physical_map(handle->physical, offset, address, size) < 0 || region_add(region) < 0) {
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	physical_use(handle->physical);
	return CUDA_SUCCESS;
}

/* The range must consist of whole mappings and contain nothing else. */
CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	uint64_t at = address;

	while (r == CUDA_SUCCESS && at < address + size) {
		struct region *region = region_at(at);

		if (!region || region->kind != REGION_MAPPED || region->span.base != at ||
			region->span.size > address + size - at)
			return misuse(SIM_BAD_POINTER, CUDA_ERROR_INVALID_VALUE);
		at += region->span.size;
	}
	for (at = address; r == CUDA_SUCCESS && at < address + size;) {
		struct region *region = region_at(at);

		at += region->span.size;
		region_remove(region);
		address_clear(region->span.base, region->span.size);
		physical_drop(region->owner);
		free(region);
	}
	return r;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *list, size_t count)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	uint64_t at = address;

	if (r == CUDA_SUCCESS && (!list || count == 0 || size == 0))
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++)
		if (list[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
			!driver_device(list[i].location.id))
			r = CUDA_ERROR_INVALID_DEVICE;
	while (r == CUDA_SUCCESS && at < address + size) {
		struct region *region = region_at(at);

		if (!region || region->kind != REGION_MAPPED)
			return CUDA_ERROR_INVALID_VALUE;
		region->accessible = list[0].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
		at = region->span.base + region->span.size;
	}
	return r;
}

CUresult cuMemGetAccess(unsigned long long *ret_flags, const CUmemLocation *location, CUdeviceptr address)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct region *region = r == CUDA_SUCCESS ? region_at(address) : NULL;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_flags || !location || !region || region->kind != REGION_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_flags = region->accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}
