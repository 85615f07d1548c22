#include "sim/libcuda/pool.h"

#include <stdlib.h>

#include "sim/libcuda/gpus.h"

#define PART_ALIGN 512

static bool has_pools;

CUresult pool_new(struct device *device, const CUmemPoolProps *properties, struct pool **ret_pool)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool || object_register(&pool->object, OBJECT_POOL, NULL) < 0) {
		free(pool);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	has_pools = true;
	pool->device = device;
	pool->properties = *properties;
	for (size_t i = 0; i < ARRAY_SIZE(pool->reuse); i++)
		pool->reuse[i] = 1;
	*ret_pool = pool;
	return CUDA_SUCCESS;
}

CUresult pool_default(struct device *device, struct pool **ret_pool)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)(device - driver.devices)}};
	CUresult r = CUDA_SUCCESS;

	if (!device->default_pool)
		r = pool_new(device, &properties, &device->default_pool);
	if (r != CUDA_SUCCESS)
		return r;
	device->default_pool->is_default = true;
	*ret_pool = device->default_pool;
	return CUDA_SUCCESS;
}

CUresult pool_managed(struct device *device, struct pool **ret_pool)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)(device - driver.devices)}};
	CUresult r = CUDA_SUCCESS;

	if (!device->managed_pool)
		r = pool_new(device, &properties, &device->managed_pool);
	if (r != CUDA_SUCCESS)
		return r;
	device->managed_pool->is_default = true;
	*ret_pool = device->managed_pool;
	return CUDA_SUCCESS;
}

CUresult pool_current(struct device *device, struct pool **ret_pool)
{
	if (!device->current_pool)
		return pool_default(device, ret_pool);
	*ret_pool = device->current_pool;
	return CUDA_SUCCESS;
}

static CUresult chunk_new(struct pool *pool, uint64_t bytes)
{
	struct chunk *chunk;

	if (pool->properties.maxSize && pool->reserved + bytes > pool->properties.maxSize)
		return CUDA_ERROR_OUT_OF_MEMORY;
	chunk = calloc(1, sizeof(*chunk));
	if (!chunk)
		return CUDA_ERROR_OUT_OF_MEMORY;
	chunk->room.size = bytes;
	if (gpu_take(pool->device, bytes) != CUDA_SUCCESS) {
		free(chunk);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (address_take(ARENA_DEVICE, &chunk->room, PAGE_BYTES, 0) < 0) {
		gpu_give(pool->device, bytes);
		free(chunk);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	chunk->next = pool->chunks;
	pool->chunks = chunk;
	pool->reserved += bytes;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	return CUDA_SUCCESS;
}

/* Takes a whole chunk if there is room for one, otherwise only what is needed. */
static CUresult grow(struct pool *pool, uint64_t size)
{
	uint64_t least = round_up(size, PAGE_BYTES);

	if (least < POOL_CHUNK && chunk_new(pool, POOL_CHUNK) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	return chunk_new(pool, least);
}

static struct chunk *find_room(const struct pool *pool, uint64_t size, uint64_t *ret_base)
{
	for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next) {
		*ret_base = spans_gap(&chunk->parts, chunk->room.base, chunk->room.base + chunk->room.size,
			size, PART_ALIGN);
		if (*ret_base)
			return chunk;
	}
	return NULL;
}

CUresult pool_take(struct pool *pool, uint64_t size, struct region **ret_region)
{
	struct region *region = calloc(1, sizeof(*region));
	struct chunk *chunk;
	uint64_t base;

	if (!region || size > UINT64_C(1) << 50) {
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	chunk = find_room(pool, size, &base);
	if (!chunk && grow(pool, size) == CUDA_SUCCESS)
		chunk = find_room(pool, size, &base);
	*region = (struct region){
		.span = {chunk ? base : 0, size}, .kind = REGION_POOL, .device = pool->device, .owner = pool};
	region->room = region->span;
	if (!chunk || spans_add(&chunk->parts, &region->room) < 0) {
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (region_add(region) < 0) {
		spans_remove(&chunk->parts, &region->room);
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pool->used += size;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	*ret_region = region;
	return CUDA_SUCCESS;
}

static void pool_free(struct pool *pool)
{
	pool_trim(pool, 0);
	free(pool);
}

void pool_give(struct region *region)
{
	struct pool *pool = region->owner;
	struct chunk *chunk = pool->chunks;

	while (chunk && spans_find(&chunk->parts, region->room.base) != &region->room)
		chunk = chunk->next;
	if (chunk)
		spans_remove(&chunk->parts, &region->room);
	region_remove(region);
	pool->used -= region->span.size;
	free(region);
	if (pool->destroyed && pool->used == 0)
		pool_free(pool);
}

void pool_trim(struct pool *pool, uint64_t keep)
{
	struct chunk **link = &pool->chunks;

	while (*link && pool->reserved > keep) {
		struct chunk *chunk = *link;

		if (chunk->parts.count > 0) {
			link = &chunk->next;
			continue;
		}
		*link = chunk->next;
		address_give(&chunk->room);
		gpu_give(pool->device, chunk->room.size);
		pool->reserved -= chunk->room.size;
		free(chunk->parts.list);
		free(chunk);
	}
}

void pools_trim(const struct device *device)
{
	struct pool *pool;
	size_t cursor = 0;

	if (!has_pools)
		return;
	while ((pool = (struct pool *)object_next(OBJECT_POOL, NULL, &cursor)))
		if (pool->device == device && pool->reserved > pool->threshold)
			pool_trim(pool, pool->threshold);
}

/* Managed memory is taken from the GPU in full, as by cuMemAllocManaged, even if its preferred location is
 * elsewhere. */
static CUresult managed_device(CUmemLocation location, struct device **ret_device)
{
	struct context *context;

	if (driver.state->cuda_version < 13000 ||
		location.type == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN)
		return CUDA_ERROR_INVALID_VALUE;
	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		*ret_device = driver_location(location);
	else if (location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return CUDA_ERROR_INVALID_VALUE;
	else if (context_current(&context) == CUDA_SUCCESS)
		*ret_device = context->device;
	else
		*ret_device = &driver.devices[0];
	return *ret_device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult pool_device(CUmemLocation location, CUmemAllocationType type, struct device **ret_device)
{
	if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
		return managed_device(location, ret_device);
	if (type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_device = driver_location(location);
	if (*ret_device)
		return CUDA_SUCCESS;
	return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE
							    : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemPoolCreate(CUmemoryPool *ret_handle, const CUmemPoolProps *properties)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct device *device;
	struct pool *pool;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || !properties)
		return CUDA_ERROR_INVALID_VALUE;
	r = pool_device(properties->location, properties->allocType, &device);
	if (r != CUDA_SUCCESS)
		return r;
	if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = pool_new(device, properties, &pool);
	if (r == CUDA_SUCCESS)
		*ret_handle = pool_handle(pool);
	return r;
}

/* Allocations from the pool stay valid; the pool is freed with the last of them. */
CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct pool *pool;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_POOL, &pool);
	if (r != CUDA_SUCCESS)
		return r;
	if (pool->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	object_forget(&pool->object);
	if (pool->device->current_pool == pool)
		pool->device->current_pool = NULL;
	pool->destroyed = true;
	if (pool->used == 0)
		pool_free(pool);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct pool *pool;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_POOL, &pool);
	if (r == CUDA_SUCCESS)
		pool_trim(pool, keep);
	return r;
}
