/* graph-memory.c - memory of allocation nodes. Its address is fixed when the node is made; the card's memory
 * is taken at the launch and kept for the next one until cuDeviceGraphMemTrim. */
#include <stdlib.h>

#include "sim/libcuda/cards.h"
#include "sim/libcuda/pool.h"
#include "sim/libcuda/task.h"

static struct totals {
	uint64_t used, used_high, reserved, reserved_high;
} totals[SIM_MAX_CARDS];

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

static void unreserve(struct region *region)
{
	if (!region->reserved)
		return;
	card_give(region->device, region->room.size);
	totals_of(region->device)->reserved -= region->room.size;
	totals_of(region->device)->used -= region->room.size;
	region->reserved = false;
}

void graph_memory_release(struct region *region)
{
	region->in_use = false;
}

void graph_memory_use(uint64_t address)
{
	struct region *region = find(address);

	if (region)
		region->users++;
}

/* Memory that the application still uses goes with it, as nobody can free it any more. */
void graph_memory_free(uint64_t address)
{
	struct region *region = find(address);

	if (!region || --region->users > 0)
		return;
	graph_memory_release(region);
	unreserve(region);
	region_remove(region);
	address_give(&region->room);
	free(region);
}

/* Used is what is mapped by a graph, be it running or not; memory is not shared among graphs here. */
CUresult graph_memory_map(struct device *device, uint64_t address)
{
	struct region *region = find(address);
	struct totals *t = totals_of(device);

	if (!region)
		return CUDA_ERROR_INVALID_VALUE;
	if (region->reserved)
		return CUDA_SUCCESS;
	if (card_take(device, region->room.size) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	region->reserved = true;
	t->reserved += region->room.size;
	t->used += region->room.size;
	raise_high(t);
	return CUDA_SUCCESS;
}

CUresult graph_memory_run_alloc(struct device *device, uint64_t address)
{
	struct region *region = find(address);
	CUresult r;

	/* Launched again before it was freed. */
	if (!region || region->in_use)
		return CUDA_ERROR_INVALID_VALUE;
	r = graph_memory_map(device, address);
	region->in_use = r == CUDA_SUCCESS;
	return r;
}

static void run_free(struct op *op)
{
	struct region *region = find(op->arguments[0]);

	if (region)
		graph_memory_release(region);
}

CUresult graph_memory_run_free(struct stream *stream, uint64_t address)
{
	struct region *region = find(address);

	if (!region)
		return CUDA_ERROR_INVALID_VALUE;
	return queue_add(stream, &(struct op){.kind = OP_WORK, .action = run_free, .arguments = {address}});
}

CUresult cuDeviceGraphMemTrim(CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct region *region;
	size_t cursor = 0;

	if (r == CUDA_SUCCESS && !driver_device(ordinal))
		r = CUDA_ERROR_INVALID_DEVICE;
	while (r == CUDA_SUCCESS && (region = region_next(&cursor)))
		if (region->kind == REGION_GRAPH && region->device == driver_device(ordinal) &&
			!region->in_use)
			unreserve(region);
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
