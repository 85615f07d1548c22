/* memory-pools.h - memory that the driver reserves for itself and reports only afterwards: pools, and the
 * memory of graphs.
 *
 * Their reserved bytes are charged. Before a call that may make a pool grow, its possible growth is charged.
 * After the call the driver is asked, and the difference is settled. The same happens after calls at which a
 * pool may shrink.
 */
#pragma once

#include "cuda/abi.h"
#include "shim/memory-reserves.h"

/* What is charged for an allocation before it is known whether the pool grows. */
struct growth {
	struct reserve_of of;
	uint64_t paid;
	bool turn; /* nothing is charged; one thread of the container at a time */
};

/* pool_enter() - allocations from this pool are charged to this GPU; -1: its memory is host memory. The GPU
 * of a pool never changes. CUDA_ERROR_OUT_OF_MEMORY: out of memory for the note. */
CUresult pool_enter(CUmemoryPool pool, int gpu);

/* pool_use() - begins a call that may allocate from the pool. Until pool_leave() the pool is not ended.
 * CUDA_ERROR_INVALID_VALUE: the program has destroyed it. pool_use_of_device() - the same for the pool from
 * which a device allocates at present. */
CUresult pool_use(const struct reserve_of *of);
CUresult pool_use_of_device(CUdevice device, unsigned gpu, struct reserve_of *ret_of);
void pool_leave(const struct reserve_of *of);

/* pool_destroy() - the program has destroyed the pool. The driver keeps it until the last of its memory is
 * freed, but no longer answers questions about it. So the driver's destroy is postponed until the pool is
 * empty and no thread is about to allocate from it. */
CUresult pool_destroy(const struct reserve_of *of);

/* growth_begin() - begins an allocation of `bytes` from a reserve. `most` is what the reserve may grow by,
 * and what is charged. If there is no room for that, but enough in the pool in total, nothing is charged and
 * threads take turns. Enters (memory_enter()) until growth_end(), or returns CUDA_ERROR_OUT_OF_MEMORY. */
CUresult growth_begin(struct growth *growth, const struct reserve_of *of, uint64_t bytes, uint64_t most);

/* growth_begin_paid() - charges all `bytes`, or refuses. growth_join() - the same for another GPU within that
 * call; it does not wait, and its refusal is not counted. */
CUresult growth_begin_paid(struct growth *growth, const struct reserve_of *of, uint64_t bytes);
CUresult growth_join(struct growth *growth, const struct reserve_of *of, uint64_t bytes);

/* growth_settle() - called after the driver's call, whether or not that succeeded. CUDA_ERROR_OUT_OF_MEMORY:
 * the reserve has grown by more than was charged, there is no room for the excess, and the caller must free
 * what it got. growth_give_back() - called instead if the driver is not called. */
CUresult growth_settle(struct growth *growth);
void growth_give_back(struct growth *growth);
void growth_end(const struct growth *growth);

/* growth_catch_up() - charges what the reserve has grown by beyond the charge. CUDA_ERROR_OUT_OF_MEMORY:
 * there is still no room for it. */
CUresult growth_catch_up(const struct reserve_of *of);

/* pools_settle() - called after an event at which pools give memory back. In a process without pools it costs
 * one load. */
void pools_settle(void);

/* pools_make_room() - gives back charges for memory that pools no longer have. While other threads have calls
 * under way, that is not known for all pools. So if it may suffice for `bytes`, it waits for the end of these
 * calls. True: there is room, and less than a second has passed since `since`, when the caller began. */
bool pools_make_room(unsigned gpu, uint64_t bytes, int64_t since);
