/* memory-pools.h - what the driver reserves for itself and only tells afterwards: pools and the memory of
 * graphs.
 *
 * Of each the reserved bytes are charged. Before a call that may make it grow, what it may grow by is paid;
 * after it, the driver is asked, and the difference settled. After calls at which it may shrink, likewise.
 */
#pragma once

#include "cuda/abi.h"
#include "shim/memory-reserves.h"

/* What is paid for an allocation before it is known whether the pool grows. */
struct growth {
	struct reserve_of of;
	uint64_t paid;
	bool turn; /* nothing is paid, and no other thread of the container does this at the same time */
};

/* pool_enter() - what is allocated from it is charged to this GPU; -1: it has memory of the machine. A pool
 * that is charged to a GPU stays so. CUDA_ERROR_OUT_OF_MEMORY: there is no room to note that. */
CUresult pool_enter(CUmemoryPool pool, int gpu);

/* pool_use() - a call begins that may allocate from it, and until pool_leave() the pool does not end.
 * CUDA_ERROR_INVALID_VALUE: the program has destroyed it. pool_use_of_device() - the same for the pool from
 * which a device allocates at this moment. */
CUresult pool_use(const struct reserve_of *of);
CUresult pool_use_of_device(CUdevice device, unsigned gpu, struct reserve_of *ret_of);
void pool_leave(const struct reserve_of *of);

/* pool_destroy() - the program needs it no longer. The driver keeps a pool until the last of its memory is
 * freed, but answers no more questions about it, so its end is put off until it is empty and no thread is on
 * its way to allocate from it. */
CUresult pool_destroy(const struct reserve_of *of);

/* growth_begin() - for `bytes` more out of it; `most` is what it may grow by, and what is paid. Where there
 * is no room for that, but in sum in the pool, nothing is paid, and threads take turns. Enters
 * (memory_enter()) until growth_end(), or CUDA_ERROR_OUT_OF_MEMORY. */
CUresult growth_begin(struct growth *growth, const struct reserve_of *of, uint64_t bytes, uint64_t most);

/* growth_begin_paid() - all `bytes` are paid, or it is refused. growth_join() - the same of another GPU,
 * within that call; it does not wait, and a refusal is not noted. */
CUresult growth_begin_paid(struct growth *growth, const struct reserve_of *of, uint64_t bytes);
CUresult growth_join(struct growth *growth, const struct reserve_of *of, uint64_t bytes);

/* growth_settle() - after the driver's call, whether or not it succeeded. CUDA_ERROR_OUT_OF_MEMORY: it has
 * grown by more than was paid, and there is no room for that: the caller gives back what it got.
 * growth_give_back() - instead, if the driver is not called. */
CUresult growth_settle(struct growth *growth);
void growth_give_back(struct growth *growth);
void growth_end(const struct growth *growth);

/* growth_catch_up() - charges what it has grown by beyond what was charged. CUDA_ERROR_OUT_OF_MEMORY: there
 * is no room for that still. */
CUresult growth_catch_up(const struct reserve_of *of);

/* pools_settle() - after something at which pools give memory back. Costs a look at one word where nobody
 * uses pools. */
void pools_settle(void);

/* pools_make_room() - what pools have no more is given back; while calls of other threads are under way that
 * is not known of all, so if it may be enough for `bytes`, the end of these calls is waited for. True: there
 * is room, and it is less than a second since `since`, when the caller began. */
bool pools_make_room(unsigned gpu, uint64_t bytes, int64_t since);
