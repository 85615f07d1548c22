#include "sim/libcuda/suballoc.h"

#include <stdlib.h>
#include <string.h>

#include "sim/libcuda/gpus.h"
#include "sim/libcuda/ipc.h"

#define UNITS (PAGE_BYTES / SMALL_UNIT)

struct block {
	struct span room;
	struct context *context;
	struct block *next;
	enum arena arena;
	size_t used; /* units */
	size_t first_free;
	uint64_t shared_id;
	bool taken[UNITS];
};

/* Returns the first run of free units, or UNITS. */
static size_t find_run(const struct block *block, size_t units)
{
	size_t run = 0;

	for (size_t i = block->first_free; i < UNITS; i++) {
		run = block->taken[i] ? 0 : run + 1;
		if (run == units)
			return i + 1 - units;
	}
	return UNITS;
}

static struct block *block_new(struct context *context, enum arena arena)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	block->room.size = PAGE_BYTES;
	if (gpu_take(context->device, PAGE_BYTES) != CUDA_SUCCESS) {
		free(block);
		return NULL;
	}
	if (address_take(arena, &block->room, PAGE_BYTES, 0) < 0) {
		gpu_give(context->device, PAGE_BYTES);
		free(block);
		return NULL;
	}
	block->context = context;
	block->arena = arena;
	block->next = context->blocks;
	context->blocks = block;
	return block;
}

static void give_memory(struct context *context, uint64_t size, uint64_t shared_id)
{
	if (shared_id)
		ipc_leave(shared_id);
	else
		gpu_give(context->device, size);
}

static void block_free(struct block *block)
{
	struct block **link = &block->context->blocks;

	while (*link != block)
		link = &(*link)->next;
	*link = block->next;
	address_give(&block->room);
	give_memory(block->context, PAGE_BYTES, block->shared_id);
	free(block);
}

static CUresult take_small(struct context *context, enum arena arena, uint64_t size, struct region *region)
{
	size_t units = (size + SMALL_UNIT - 1) / SMALL_UNIT, at = UNITS;
	struct block *block;

	for (block = context->blocks; block; block = block->next)
		if (block->arena == arena && UNITS - block->used >= units &&
			(at = find_run(block, units)) < UNITS)
			break;
	if (!block) {
		block = block_new(context, arena);
		if (!block)
			return CUDA_ERROR_OUT_OF_MEMORY;
		at = 0;
	}
	memset(block->taken + at, true, units);
	block->used += units;
	while (block->first_free < UNITS && block->taken[block->first_free])
		block->first_free++;
	region->block = block;
	region->span = (struct span){block->room.base + at * SMALL_UNIT, size};
	return CUDA_SUCCESS;
}

CUresult suballoc_take(struct context *context, enum arena arena, uint64_t size, struct region *region)
{
	if (size <= SMALL_MAX)
		return take_small(context, arena, size, region);
	if (size > UINT64_C(1) << 50)
		return CUDA_ERROR_OUT_OF_MEMORY;
	region->room.size = round_up(size, PAGE_BYTES);
	if (gpu_take(context->device, region->room.size) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (address_take(arena, &region->room, PAGE_BYTES, 0) < 0) {
		gpu_give(context->device, region->room.size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	region->span = (struct span){region->room.base, size};
	return CUDA_SUCCESS;
}

void suballoc_give(struct region *region)
{
	struct block *block = region->block;
	size_t units, at;

	if (!block) {
		address_give(&region->room);
		give_memory(region->context, region->room.size, region->shared_id);
		return;
	}
	units = (region->span.size + SMALL_UNIT - 1) / SMALL_UNIT;
	at = (region->span.base - block->room.base) / SMALL_UNIT;
	memset(block->taken + at, false, units);
	block->used -= units;
	if (at < block->first_free)
		block->first_free = at;
	if (block->used == 0)
		block_free(block);
}

void suballoc_room(struct region *region, struct span **ret_room, uint64_t **ret_id)
{
	*ret_room = region->block ? &region->block->room : &region->room;
	*ret_id = region->block ? &region->block->shared_id : &region->shared_id;
}

void suballoc_free_context(struct context *context)
{
	while (context->blocks)
		block_free(context->blocks);
}
