#include "shim/memory-pools.h"

#include <stdatomic.h>

#include "grant/wait.h"
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/graph-needs.h"
#include "shim/memory.h"
#include "shim/session.h"

#define PATIENCE_NS INT64_C(1000000000) /* how long to wait for calls of other threads */
#define BEYOND_NS INT64_C(50000000)	/* the same, while the driver may have memory that is not charged */
#define PLENTY (UINT64_C(256) << 20)	/* a charge that is probably unnecessary must leave this much free */

/* ---- pools ------------------------------------------------------------------------------------------- */

static bool enter(struct object *pool, void *context)
{
	const int *gpu = context;

	if (*gpu >= 0)
		reserve_claim(pool, (uint32_t)*gpu);
	else if (!(pool->index & POOL_CHARGED))
		pool->index = POOL_OF_MACHINE;
	return true;
}

CUresult pool_enter(CUmemoryPool pool, int gpu)
{
	return objects_change(OBJECT_POOL, (uintptr_t)pool, enter, &gpu) == 0 ? CUDA_SUCCESS
									      : CUDA_ERROR_OUT_OF_MEMORY;
}

struct use {
	uint32_t gpu;
	bool ending;
};

static bool begin_use(struct object *pool, void *context)
{
	struct use *use = context;

	reserve_claim(pool, use->gpu);
	use->ending = pool->index & POOL_ENDS;
	pool->stamp += !use->ending;
	return true;
}

static bool end_use(struct object *pool, void *context)
{
	pool->stamp--;
	return true;
}

CUresult pool_use(const struct reserve_of *of)
{
	struct use use = {.gpu = of->gpu};
	bool is_there;

	reserves_lock();
	is_there = objects_edit(of->kind, of->key, begin_use, &use);
	reserves_unlock();
	return is_there && !use.ending ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pool_use_of_device(CUdevice device, unsigned gpu, struct reserve_of *ret_of)
{
	struct use use = {.gpu = gpu};
	CUmemoryPool pool;
	CUresult r;

	reserves_lock();
	r = DRIVER(cuDeviceGetMemPool)(&pool, device);
	if (r == CUDA_SUCCESS) {
		*ret_of = (struct reserve_of){OBJECT_POOL, (uintptr_t)pool, gpu};
		if (objects_change(OBJECT_POOL, ret_of->key, begin_use, &use) < 0)
			r = CUDA_ERROR_OUT_OF_MEMORY;
		else if (use.ending)
			r = CUDA_ERROR_INVALID_VALUE;
	}
	reserves_unlock();
	return r;
}

void pool_leave(const struct reserve_of *of)
{
	objects_edit(of->kind, of->key, end_use, NULL);
}

/* The charge is given back after the driver has destroyed the pool. */
static CUresult end_pool(const struct reserve_of *of)
{
	struct object object;
	CUresult r;

	if (!objects_take(of->kind, of->key, &object))
		return CUDA_ERROR_INVALID_VALUE;
	r = DRIVER(cuMemPoolDestroy)((CUmemoryPool)(uintptr_t)of->key);
	if (r == CUDA_SUCCESS) {
		reserve_forget(of);
		memory_refund(of->gpu, object.bytes);
	} else {
		object.index &= ~(uint32_t)POOL_ENDS;
		objects_put(&object);
	}
	return r;
}

/* A pool that is to end, with no call allocating from it, only shrinks. So the driver's answer about it stays
 * an upper bound. */
static bool is_ending(const struct object *pool)
{
	return pool->kind == OBJECT_POOL && pool->index & POOL_ENDS && pool->stamp == 0;
}

static uint64_t settle_known(const struct reserve_of *of)
{
	struct settlement s = {.gpu = of->gpu};
	struct object object;
	bool unused = false;

	reserves_lock();
	if (objects_get(of->kind, of->key, &object)) {
		if (reserve_settle_locked(of, &s, &unused) != CUDA_SUCCESS)
			reserve_charge_beyond_locked(of, s.missing);
		/* A refused call may have given memory back late, and the pool may have kept that memory. */
		if (of->kind == OBJECT_POOL && !memory_has_room(of->gpu, 0)) {
			DRIVER(cuMemPoolTrimTo)((CUmemoryPool)(uintptr_t)of->key, 0);
			reserve_settle_locked(of, &s, &unused);
		}
		if (unused && is_ending(&object))
			end_pool(of);
	}
	reserves_unlock();
	return s.unsure;
}

static uint64_t settle_all(unsigned gpu)
{
	struct reserve_of of;
	uint64_t unsure = 0;

	for (uint32_t i = 0; reserve_known(i, &of); i++) {
		uint64_t of_this = of.kind != 0 ? settle_known(&of) : 0;

		unsure += of.gpu == gpu ? of_this : 0;
	}
	return unsure;
}

void pools_settle(void)
{
	settle_all(0);
}

bool pools_make_room(unsigned gpu, uint64_t bytes, int64_t since)
{
	/* reserves_settled() at the last wait that found no room. Until the number changes, another wait
	 * cannot find any. */
	static _Atomic uint64_t in_vain = UINT64_MAX;

	for (;;) {
		uint64_t settled = reserves_settled(), unsure = settle_all(gpu);
		bool over = wait_now_ns() - since >= PATIENCE_NS;

		if (memory_has_room(gpu, bytes))
			return !over;
		if (!memory_has_room(gpu, bytes > unsure ? bytes - unsure : 0) || unsure == 0 ||
			settled == atomic_load(&in_vain))
			return false;
		if (over) {
			atomic_store(&in_vain, settled);
			return false;
		}
		wait_nap();
	}
}

/* There is enough room in total, but it may be fragmented. The total must not be above the limit already. */
static CUresult begin_unpaid(struct growth *growth)
{
	unsigned gpu = growth->of.gpu;
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	growth->paid = 0;
	growth->turn = memory_begin_turn(gpu, ACCOUNT_TURN_POOL);
	if (!growth->turn)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!memory_has_room(gpu, 0))
		pools_settle();
	if (!memory_has_room(gpu, 0))
		session_await_sample(gpu);
	if (memory_has_room(gpu, 0))
		r = memory_enter(gpu, 0);
	if (r != CUDA_SUCCESS)
		memory_end_turn(gpu, ACCOUNT_TURN_POOL);
	return r;
}

static bool has_unused(const struct reserve_of *of, uint64_t bytes)
{
	uint64_t reserved, used;

	return reserve_ask(of, &reserved, &used) && reserved >= used && reserved - used >= bytes;
}

/* Called after the charge: from now on other threads expect that the driver takes this much. */
static CUresult paid(const struct growth *growth)
{
	CUresult r = reserve_begin_payment(&growth->of, growth->paid);

	if (r != CUDA_SUCCESS)
		memory_refund(growth->of.gpu, growth->paid);
	return r;
}

static CUresult paid_and_entered(const struct growth *growth)
{
	CUresult r = paid(growth);

	if (r != CUDA_SUCCESS)
		memory_leave();
	return r;
}

CUresult growth_begin(struct growth *growth, const struct reserve_of *of, uint64_t bytes, uint64_t most)
{
	graphs_allocate(); /* the stream may be capturing */
	if (!has_unused(of, bytes))
		return growth_begin_paid(growth, of, most);
	*growth = (struct growth){.of = *of, .paid = most};
	reserve_remember(of);
	/* The pool probably has the requested memory already. If little room is left, a charge would only
	 * take it from other threads for a moment. */
	if (memory_has_room(of->gpu, most + PLENTY) && memory_try_enter(of->gpu, most))
		return paid_and_entered(growth);
	return begin_unpaid(growth);
}

CUresult growth_begin_paid(struct growth *growth, const struct reserve_of *of, uint64_t bytes)
{
	CUresult r;

	*growth = (struct growth){.of = *of, .paid = bytes};
	reserve_remember(of);
	r = memory_enter(of->gpu, bytes);
	return r == CUDA_SUCCESS ? paid_and_entered(growth) : r;
}

CUresult growth_join(struct growth *growth, const struct reserve_of *of, uint64_t bytes)
{
	*growth = (struct growth){.of = *of, .paid = bytes};
	reserve_remember(of);
	return memory_try_charge(of->gpu, bytes) ? paid(growth) : CUDA_ERROR_OUT_OF_MEMORY;
}

void growth_give_back(struct growth *growth)
{
	memory_refund(growth->of.gpu, growth->paid);
	reserve_end_payment(&growth->of, growth->paid);
}

void growth_end(const struct growth *growth)
{
	memory_leave();
	if (growth->turn)
		memory_end_turn(growth->of.gpu, ACCOUNT_TURN_POOL);
}

/* In a turn, all missing memory counts as this call's, including what other threads have charged. If there is
 * no room for it, this thread waits for their settlements. */
static CUresult settle_after_others(const struct reserve_of *of, struct settlement *s)
{
	int64_t begin = wait_now_ns();
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	while (r != CUDA_SUCCESS && s->others > 0 && wait_now_ns() - begin < BEYOND_NS) {
		wait_nap();
		r = reserve_settle(of, s);
	}
	return r;
}

CUresult growth_settle(struct growth *growth)
{
	struct settlement s = {.gpu = growth->of.gpu, .paid = growth->paid, .unpaid = growth->turn};
	CUresult r = reserve_settle(&growth->of, &s);

	if (r != CUDA_SUCCESS && s.unpaid)
		r = settle_after_others(&growth->of, &s);
	if (r != CUDA_SUCCESS)
		return reserve_charge_missing(&growth->of, s.missing);
	/* Another thread that settles may already have charged it, beyond the limit. */
	return s.unpaid && !memory_has_room(s.gpu, 0) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult growth_catch_up(const struct reserve_of *of)
{
	struct settlement s = {.gpu = of->gpu};
	CUresult r;

	reserve_remember(of);
	r = reserve_settle(of, &s);
	return r == CUDA_SUCCESS ? r : reserve_charge_missing(of, s.missing);
}

/* ---- the end ----------------------------------------------------------------------------------------- */

static bool mark_ending(struct object *pool, void *context)
{
	bool *twice = context;

	*twice = pool->index & POOL_ENDS;
	pool->index |= POOL_ENDS;
	return true;
}

static CUresult end_or_put_off(const struct reserve_of *of)
{
	CUmemoryPool pool = (CUmemoryPool)(uintptr_t)of->key;
	uint64_t reserved, used = 0, none = 0;
	struct object object;
	bool twice = false;

	if (!objects_edit(of->kind, of->key, mark_ending, &twice) || twice ||
		!objects_get(of->kind, of->key, &object))
		return CUDA_ERROR_INVALID_VALUE;
	if (!reserve_ask(of, &reserved, &used))
		used = object.bytes;
	if (used == 0 && is_ending(&object))
		return end_pool(of);
	reserve_remember(of);
	/* A device whose pool is destroyed uses its default pool again (cuda.h of CUDA 13.0.96,
	 * cuMemPoolDestroy()).
	 */
	CUmemoryPool now, own;
	int count = 0;

	DRIVER(cuDeviceGetCount)(&count);
	for (int i = 0; i < count; i++)
		if (DRIVER(cuDeviceGetMemPool)(&now, i) == CUDA_SUCCESS && now == pool &&
			DRIVER(cuDeviceGetDefaultMemPool)(&own, i) == CUDA_SUCCESS)
			DRIVER(cuDeviceSetMemPool)(i, own);
	return DRIVER(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none);
}

CUresult pool_destroy(const struct reserve_of *of)
{
	CUresult r;

	memory_enter_uncharged();
	reserves_lock();
	r = end_or_put_off(of);
	reserves_unlock();
	memory_leave();
	return r;
}
