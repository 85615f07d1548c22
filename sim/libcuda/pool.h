/* pool.h - stream-ordered memory: pools reserve chunks of the GPU and hand out parts of them. */
#pragma once

#include "sim/libcuda/regions.h"
#include "sim/libcuda/stream.h"

#define POOL_CHUNK (UINT64_C(32) << 20) /* the least that a pool reserves, as in CUDA 11.2 and later */

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
/* pool_default() - the GPU's default pool, created at the first request. */
CUresult pool_default(struct device *device, struct pool **ret_pool);
CUresult pool_current(struct device *device, struct pool **ret_pool);
/* pool_managed() - the default pool of managed memory, since 13.0. */
CUresult pool_managed(struct device *device, struct pool **ret_pool);
/* pool_device() - the device whose memory a pool for this location and type takes. */
CUresult pool_device(CUmemLocation location, CUmemAllocationType type, struct device **ret_device);

/* pool_take(), pool_give() - take and return a region; its chunk stays reserved. */
CUresult pool_take(struct pool *pool, uint64_t size, struct region **ret_region);
void pool_give(struct region *region);
/* pool_trim() - releases empty chunks while more than `keep` bytes are reserved. */
void pool_trim(struct pool *pool, uint64_t keep);
/* pools_trim() - after a synchronisation: trims every pool of the GPU to its threshold. */
void pools_trim(const struct device *device);

/* Memory of graph nodes (graph-memory.c). The address belongs to the node for its whole life, and between the
 * allocation and the free also to the application. */
CUresult graph_memory_new(struct device *device, uint64_t size, uint64_t *ret_address);
/* graph_memory_use(), graph_memory_drop() - one more node, or one less, uses the address. */
void graph_memory_use(uint64_t address);
void graph_memory_drop(uint64_t address);
/* graph_memory_map() - gives the address GPU memory if it has none. That memory is not taken away before
 * graph_memory_unpin(), which is called when everything that a graph needs is mapped. */
CUresult graph_memory_map(struct device *device, uint64_t address);
void graph_memory_unpin(void);
/* graph_memory_run_alloc(), graph_memory_run_free() - run in a stream's order, once the memory is mapped. */
CUresult graph_memory_run_alloc(uint64_t address);
CUresult graph_memory_run_free(struct stream *stream, uint64_t address);
/* graph_memory_release() - frees at once. INVALID_VALUE if it is not allocated. The region may be gone
 * afterwards. */
CUresult graph_memory_release(struct region *region);
