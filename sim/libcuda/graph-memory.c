/* graph-memory.c - memory of allocation nodes.
 *
 * The address of an allocation is fixed when its node is created. When the graph is launched or uploaded, GPU
 * memory is mapped there. After a free it stays mapped for the next launch, until another graph needs it or
 * cuDeviceGraphMemTrim releases it.
 *
 * CUDA C++ Programming Guide 13.0, "Graph Memory Nodes": destroying a graph does not free what the
 * application has not freed ("Graph destruction does not automatically free any live graph-allocated
 * memory"), and releases no memory ("will not immediately return physical memory"). Memory that is free, or
 * belongs to graphs that do not run, serves other graphs ("Physical Memory Management and Sharing").
 */
#include <stdlib.h>

#include "sim/libcuda/gpus.h"
#include "sim/libcuda/pool.h"
#include "sim/libcuda/task.h"

static struct totals {
	uint64_t used, used_high, reserved, reserved_high;
} totals[SIM_MAX_GPUS];
static bool any_pinned;

static struct totals *totals_of(const struct device *device)
{
	return &totals[device - driver.devices];
}

static void raise_high(struct totals *t)
{
	t->used_high = t->used > t->used_high ? t->used : t->used_high;
	t->reserved_high = t->reserved > t->reserved_high ? t->reserved : t->reserved_high;
}

CUresult graph_memory_new(struct device *device, uint64_t size, uint64_t *ret_address)
{
	struct region *region = calloc(1, sizeof(*region));

	if (!region || size == 0 || size > UINT64_C(1) << 50) {
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	region->kind = REGION_GRAPH;
	region->users = 1;
	region->device = device;
	region->room.size = round_up(size, PAGE_BYTES);
	if (address_take(ARENA_DEVICE, &region->room, PAGE_BYTES, 0) < 0) {
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	region->span = (struct span){region->room.base, size};
	if (region_add(region) < 0) {
		address_give(&region->room);
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_address = region->span.base;
	return CUDA_SUCCESS;
}

static struct region *find(uint64_t address)
{
	struct region *region = region_at(address);

	return region && region->kind == REGION_GRAPH && region->span.base == address ? region : NULL;
}

static void unmap(struct region *region)
{
	if (region->mapped)
		totals_of(region->device)->used -= region->room.size;
	region->mapped = false;
}

/* Forgets regions that neither a graph's node nor the application uses. Memory that was mapped there stays
 * reserved for graphs. */
static void forget_unused(struct region *region)
{
	if (region->users > 0 || region->in_use)
		return;
	unmap(region);
	region_remove(region);
	address_give(&region->room);
	free(region);
}

CUresult graph_memory_release(struct region *region)
{
	if (!region->in_use)
		return misuse(SIM_DOUBLE_FREE, CUDA_ERROR_INVALID_VALUE);
	region->in_use = region->freed = false;
	forget_unused(region);
	return CUDA_SUCCESS;
}

void graph_memory_use(uint64_t address)
{
	struct region *region = find(address);

	if (region)
		region->users++;
}

void graph_memory_drop(uint64_t address)
{
	struct region *region = find(address);

	if (!region)
		return;
	region->users--;
	forget_unused(region);
}

/* Returns the GPU's next region that has memory and does not need it: the region is freed, or its graph has
 * run. */
static struct region *next_idle(const struct device *device, size_t *cursor)
{
	struct region *region;

	while ((region = region_next(cursor)))
		if (region->kind == REGION_GRAPH && region->device == device && region->mapped &&
			!region->in_use && !region->pinned)
			return region;
	return NULL;
}

/* Takes more GPU memory for graphs. False: the GPU is full. */
static bool grow(struct device *device, uint64_t bytes)
{
	if (gpu_take(device, bytes) != CUDA_SUCCESS)
		return false;
	totals_of(device)->reserved += bytes;
	return true;
}

/* Takes new GPU memory first. If the GPU is full, takes memory from graphs that do not run. */
static CUresult reserve(struct device *device, uint64_t size)
{
	const struct totals *t = totals_of(device);
	struct region *idle;
	size_t cursor = 0;

	if (t->reserved - t->used >= size || grow(device, size - (t->reserved - t->used)))
		return CUDA_SUCCESS;
	while ((idle = next_idle(device, &cursor))) {
		unmap(idle);
		if (t->reserved - t->used >= size || grow(device, size - (t->reserved - t->used)))
			return CUDA_SUCCESS;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult graph_memory_map(struct device *device, uint64_t address)
{
	struct region *region = find(address);
	CUresult r = CUDA_SUCCESS;

	if (!region)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_SUCCESS; /* host memory */
	if (!region->mapped) {
		r = reserve(device, region->room.size);
		region->mapped = r == CUDA_SUCCESS;
		totals_of(device)->used += r == CUDA_SUCCESS ? region->room.size : 0;
		raise_high(totals_of(device));
	}
	region->pinned = any_pinned = true;
	return r;
}

void graph_memory_unpin(void)
{
	struct region *region;
	size_t cursor = 0;

	while (any_pinned && (region = region_next(&cursor)))
		region->pinned = false;
	any_pinned = false;
}

CUresult graph_memory_run_alloc(uint64_t address)
{
	struct region *region = find(address);

	/* The graph is launched again, but the previous launch's allocation has no pending free. */
	if (!region || (region->in_use && !region->freed))
		return CUDA_ERROR_INVALID_VALUE;
	region->in_use = true;
	region->freed = false;
	region->allocations++;
	return CUDA_SUCCESS;
}

/* If the number differs from the region's, a later launch has allocated again. */
static void run_free(struct op *op)
{
	struct region *region = find(op->arguments[0]);

	if (region && region->id == op->arguments[1] && region->allocations == op->arguments[2])
		graph_memory_release(region);
}

CUresult graph_memory_run_free(struct stream *stream, uint64_t address)
{
	struct region *region = find(address);

	if (!region)
		return misuse(SIM_BAD_POINTER, CUDA_ERROR_INVALID_VALUE);
	if (!region->in_use || region->freed)
		return misuse(SIM_DOUBLE_FREE, CUDA_ERROR_INVALID_VALUE);
	region->freed = true;
	return queue_add(stream, &(struct op){.kind = OP_WORK,
					 .action = run_free,
					 .arguments = {address, region->id, region->allocations}});
}

static void trim(struct device *device)
{
	struct totals *t = totals_of(device);
	struct region *idle;
	size_t cursor = 0;

	while ((idle = next_idle(device, &cursor)))
		unmap(idle);
	gpu_give(device, t->reserved - t->used);
	t->reserved = t->used;
}

CUresult cuDeviceGraphMemTrim(CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);

	if (r == CUDA_SUCCESS && !driver_device(ordinal))
		r = CUDA_ERROR_INVALID_DEVICE;
	if (r == CUDA_SUCCESS)
		trim(driver_device(ordinal));
	return r;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute, void *ret_value)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	const struct totals *t;

	if (r == CUDA_SUCCESS && !driver_device(ordinal))
		r = CUDA_ERROR_INVALID_DEVICE;
	if (r == CUDA_SUCCESS && (!ret_value || attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	t = totals_of(driver_device(ordinal));
	*(uint64_t *)ret_value = (const uint64_t[]){
		t->used, t->used_high, t->reserved, t->reserved_high}[attribute];
	return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute, void *value)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct totals *t;

	if (r == CUDA_SUCCESS && !driver_device(ordinal))
		r = CUDA_ERROR_INVALID_DEVICE;
	if (r == CUDA_SUCCESS && (!value || *(uint64_t *)value != 0))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	t = totals_of(driver_device(ordinal));
	if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		t->used_high = t->used;
	else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		t->reserved_high = t->reserved;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
