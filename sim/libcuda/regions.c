#include "sim/libcuda/regions.h"

#include <stdlib.h>

#include "sim/libcuda/memory.h"
#include "sim/libcuda/physical.h"

#define REMEMBERED 4096

static struct spans regions;
static uint64_t freed[REMEMBERED]; /* where the last freed regions began */
static size_t freed_next;

int region_add(struct region *region)
{
	static uint64_t last_id;

	region->id = ++last_id;
	return spans_add(&regions, &region->span);
}

void region_remove(struct region *region)
{
	spans_remove(&regions, &region->span);
	freed[freed_next++ % REMEMBERED] = region->span.base;
}

struct region *region_at(uint64_t address)
{
	return (struct region *)spans_find(&regions, address);
}

struct region *region_overlapping(uint64_t base, uint64_t size)
{
	return (struct region *)spans_overlapping(&regions, base, size);
}

struct region *region_next(size_t *cursor)
{
	return *cursor < regions.count ? (struct region *)regions.list[(*cursor)++] : NULL;
}

CUresult region_expect(uint64_t address, enum region_kind kind, struct region **ret_region)
{
	struct region *region = region_at(address);

	if (region && region->span.base == address && region->kind == kind) {
		*ret_region = region;
		return CUDA_SUCCESS;
	}
	for (size_t i = 0; !region && i < REMEMBERED; i++)
		if (freed[i] == address && address)
			return misuse(SIM_DOUBLE_FREE, CUDA_ERROR_INVALID_VALUE);
	return misuse(SIM_BAD_POINTER, CUDA_ERROR_INVALID_VALUE);
}

/* For a copy, adjacent mappings are one range. */
void *region_bytes(uint64_t address, uint64_t size)
{
	struct region *region = region_at(address), *first = region;

	if (!region || address + size < address)
		return NULL;
	while (region && region->span.base + region->span.size < address + size) {
		if (region->kind != REGION_MAPPED || !region->accessible)
			return NULL;
		region = region_at(region->span.base + region->span.size);
	}
	if (!region || (region->kind == REGION_MAPPED && !region->accessible) ||
		(region != first && region->kind != REGION_MAPPED))
		return NULL;
	return first->kind == REGION_HOST || first->kind == REGION_REGISTERED ? (void *)(uintptr_t)address
									      : address_backing(address);
}

void regions_free_context(struct context *context)
{
	size_t cursor = 0;
	struct region *region;

	while ((region = region_next(&cursor))) {
		if (region->context != context)
			continue;
		if (region->kind == REGION_IPC)
			physical_region_free(region);
		else if (region->device)
			memory_free(region);
		else
			host_free(region);
		cursor = 0;
	}
}
