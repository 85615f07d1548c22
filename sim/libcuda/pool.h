/* pool.h - stream-ordered memory: pools reserve chunks of the card and hand out parts of them. */
#pragma once

#include "sim/libcuda/regions.h"
#include "sim/libcuda/stream.h"

#define POOL_CHUNK (UINT64_C(32) << 20) /* what a pool reserves at least, as CUDA 11.2 and later do */

struct chunk {
	struct span room;
	struct chunk *next;
	struct spans parts; /* of regions */
};

struct pool {
	struct object object;
	struct device *device;
	CUmemPoolProps properties;
	bool is_default, destroyed;
	uint64_t threshold;
	uint64_t reuse[3];
	uint64_t reserved, reserved_high, used, used_high;
	struct chunk *chunks;
};

static inline CUmemoryPool pool_handle(const struct pool *pool)
{
	return (CUmemoryPool)(uintptr_t)pool->object.handle;
}

/* pool_new() - OUT_OF_MEMORY. */
CUresult pool_new(struct device *device, const CUmemPoolProps *properties, struct pool **ret_pool);
/* pool_default() - of the card; made when first asked for. */
CUresult pool_default(struct device *device, struct pool **ret_pool);
CUresult pool_current(struct device *device, struct pool **ret_pool);

/* pool_take(), pool_give() - a region; what it was in stays reserved. */
CUresult pool_take(struct pool *pool, uint64_t size, struct region **ret_region);
void pool_give(struct region *region);
/* pool_trim() - give back chunks in which nothing is, while more than `keep` bytes are reserved. */
void pool_trim(struct pool *pool, uint64_t keep);
/* pools_trim() - after a synchronisation: every pool of the card down to its threshold. */
void pools_trim(const struct device *device);

/* Memory of graphs' nodes (graph-memory.c): an address for good, memory of the card from the first launch on.
 */
CUresult graph_memory_new(struct device *device, uint64_t size, uint64_t *ret_address);
/* graph_memory_use(), graph_memory_free() - one more node, or one less: it goes with the last. */
void graph_memory_use(uint64_t address);
void graph_memory_free(uint64_t address);
/* graph_memory_map() - takes the card's memory for it, if it has none. */
CUresult graph_memory_map(struct device *device, uint64_t address);
CUresult graph_memory_run_alloc(struct device *device, uint64_t address);
CUresult graph_memory_run_free(struct stream *stream, uint64_t address);
/* graph_memory_release() - freed by the application, outside of a graph. */
void graph_memory_release(struct region *region);
