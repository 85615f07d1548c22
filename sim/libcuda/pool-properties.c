/* pool-properties.c - which pool a GPU uses, and the properties of a pool. */
#include "sim/libcuda/pool.h"

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *ret_value)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct pool *p;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_POOL, &p);
	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_value || attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
		attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
		*(int *)ret_value = (int)p->reuse[attribute - 1];
	} else {
		const uint64_t values[] = {
			p->threshold, p->reserved, p->reserved_high, p->used, p->used_high};

		*(uint64_t *)ret_value = values[attribute - CU_MEMPOOL_ATTR_RELEASE_THRESHOLD];
	}
	return CUDA_SUCCESS;
}

/* The high-water marks can only be reset. */
CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct pool *p;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_POOL, &p);
	if (r == CUDA_SUCCESS && !value)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		p->reuse[attribute - 1] = *(int *)value != 0;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		p->threshold = *(uint64_t *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		p->reserved_high = p->reserved;
		return *(uint64_t *)value == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		p->used_high = p->used;
		return *(uint64_t *)value == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Every GPU of the process can access the memory of every other. */
CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *list, size_t count)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct pool *pool;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_POOL, &pool);
	if (r == CUDA_SUCCESS && count > 0 && !list)
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++)
		if (list[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
			!driver_device(list[i].location.id))
			r = CUDA_ERROR_INVALID_DEVICE;
	return r;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *ret_flags, CUmemoryPool handle, CUmemLocation *location)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct pool *pool;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_POOL, &pool);
	if (r == CUDA_SUCCESS && (!ret_flags || !location || !driver_device(location->id)))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return r;
}

static CUresult begin_device(struct call *call, CUdevice ordinal, const void *output, const char *function)
{
	CUresult r = call_begin(call, function);

	if (r == CUDA_SUCCESS && !driver_device(ordinal))
		r = CUDA_ERROR_INVALID_DEVICE;
	return r == CUDA_SUCCESS && !output ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret_handle, CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin_device(&call, ordinal, ret_handle, __func__);
	struct pool *pool;

	if (r == CUDA_SUCCESS)
		r = pool_default(driver_device(ordinal), &pool);
	if (r == CUDA_SUCCESS)
		*ret_handle = pool_handle(pool);
	return r;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *ret_handle, CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin_device(&call, ordinal, ret_handle, __func__);
	struct pool *pool;

	if (r == CUDA_SUCCESS)
		r = pool_current(driver_device(ordinal), &pool);
	if (r == CUDA_SUCCESS)
		*ret_handle = pool_handle(pool);
	return r;
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin_device(&call, ordinal, &handle, __func__);
	struct pool *pool;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_POOL, &pool);
	if (r == CUDA_SUCCESS && pool->device != driver_device(ordinal))
		r = CUDA_ERROR_INVALID_DEVICE;
	if (r == CUDA_SUCCESS)
		pool->device->current_pool = pool;
	return r;
}

/* The same functions by location, since 13.0. */

static CUresult begin_location(struct call *call, const CUmemLocation *location, CUmemAllocationType type,
	const void *output, struct device **ret_device, const char *function)
{
	CUresult r = call_begin(call, function);

	if (r == CUDA_SUCCESS && (!location || !output))
		r = CUDA_ERROR_INVALID_VALUE;
	return r == CUDA_SUCCESS ? pool_device(*location, type, ret_device) : r;
}

/* pinned: whether the pool of memory that is not managed is meant. */
static CUresult get_by_location(CUmemoryPool *ret_handle, const CUmemLocation *location,
	CUmemAllocationType type, CUresult (*pinned)(struct device *, struct pool **), const char *function)
{
	_cleanup_call_ struct call call = {};
	struct device *device;
	struct pool *pool;
	CUresult r = begin_location(&call, location, type, ret_handle, &device, function);

	if (r == CUDA_SUCCESS)
		r = (type == CU_MEM_ALLOCATION_TYPE_MANAGED ? pool_managed : pinned)(device, &pool);
	if (r == CUDA_SUCCESS)
		*ret_handle = pool_handle(pool);
	return r;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *ret_handle, CUmemLocation *location, CUmemAllocationType type)
{
	return get_by_location(ret_handle, location, type, pool_default, __func__);
}

CUresult cuMemGetMemPool(CUmemoryPool *ret_handle, CUmemLocation *location, CUmemAllocationType type)
{
	return get_by_location(ret_handle, location, type, pool_current, __func__);
}

/* Managed memory keeps its default pool. */
CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool handle)
{
	_cleanup_call_ struct call call = {};
	struct device *device;
	struct pool *pool;
	CUresult r = begin_location(&call, location, type, &handle, &device, __func__);

	if (r == CUDA_SUCCESS && type == CU_MEM_ALLOCATION_TYPE_MANAGED)
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_POOL, &pool);
	if (r == CUDA_SUCCESS && pool->device != device)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		device->current_pool = pool;
	return r;
}
